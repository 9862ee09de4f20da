"""What an operation does more of on a machine with more CPUs, by the laws of growth (docs/predict.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from bigiron.analysis import counted_operation, growth, work
from bigiron.analysis.comparison import Cell
from bigiron.analysis.counted_operation import Counted
from bigiron.analysis.growth import Series
from bigiron.analysis.match_lines import plain
from bigiron.lazy import polars as pl

_SURE = 0.95  # of a law's weight: what follows none so surely stays as it was recorded
_LEAST = 1e-3  # of an operation's instructions: growth by less stays out, too
_OPERATION = ("operation",)


@dataclass(frozen=True)
class Carried:
    """What is added to an operation that was recorded with fewer CPUs."""

    paths: Mapping[str, float] = field(default_factory=dict)
    """Instructions more an operation, by call path, with the function that executes them at its end."""

    visits: Mapping[str, float] = field(default_factory=dict)
    """How many times as often an operation visits what each CPU has of its own, by object."""

    cpus: int = 0
    """The machine's."""

    @property
    def instructions(self) -> float:
        """All that are added to an operation."""
        return sum(self.paths.values())

    def to_work(self, table: pl.DataFrame, operations: int) -> pl.DataFrame:
        """A table of the probe work, of so many operations, with what is added.

        >>> rows = {"context": ["operation"] * 2, "path": ["", "a"], "function": ["a", "b"]}
        >>> Carried({"a;b": 5.0}).to_work(pl.DataFrame(rows | {"instructions": [10, 30]}), 2).rows()[1]
        ('operation', 'a', 'b', 40)
        """
        whole = pl.concat_str("path", "function", separator=";").str.strip_chars_start(";")
        rows = pl.len().over("context", "whole")
        more = pl.col("whole").replace_strict(self.paths, default=0.0, return_dtype=pl.Float64)
        added = pl.when(context="operation").then(more * operations / rows).otherwise(0.0)
        return (
            table.with_columns(whole=whole)
            .with_columns((pl.col("instructions") + added).round().cast(table.schema["instructions"]))
            .drop("whole")
        )

    def to_visits(self, counted: Counted) -> None:
        """Have what was counted visit other CPUs' lines as often as there are more of them."""
        for site in counted.root.all_sites():
            if site.event.kind == "visit":
                site.per_op *= self.visits.get(plain(counted.lines[site.event.object].name), 1.0)

    def by_function(self, functions: Collection[str]) -> dict[str, float]:
        """The instructions by the last function of each path that is among these; by "" where none is.

        >>> Carried({"a;b;c": 5.0, "a;d": 2.0, "e": 1.0}).by_function(["a", "b"])
        {'b': 5.0, 'a': 2.0, '': 1.0}
        """
        found: dict[str, float] = {}
        for path, more in self.paths.items():
            at = next((name for name in reversed(path.split(";")) if name in functions), "")
            found[at] = found.get(at, 0.0) + more
        return found


NOTHING = Carried()


def carry(work_at: Mapping[int, Sequence[Cell]], lines_at: Mapping[int, Sequence[Cell]], to: int) -> Carried:
    """What a machine with `to` CPUs adds to what was recorded with the most.

    Both have the repetitions at each number of CPUs: of the probe work, and of conflicts or of none.
    """
    return Carried(_instructions(work_at, to), _visits(lines_at, to) if lines_at else {}, to)


def _instructions(cells: Mapping[int, Sequence[Cell]], to: int) -> dict[str, float]:
    running = {cpus: [_of_operations(cell) for cell in here] for cpus, here in cells.items()}
    series, total = work.series(running, _OPERATION)
    most = max(cells)
    grown = {one.name: factor for one in series if (factor := _factor(one, most, to)) > 1}
    found: dict[str, float] = {}
    for cell in running[most]:
        paths = work.stacks(cell.table, cell.operations * len(running[most]), _OPERATION)
        for path, executed in paths.select("path", "instructions_per_op").iter_rows():
            more = executed * (grown.get(path.rsplit(";", 1)[-1], 1.0) - 1)
            if more > 0:
                found[path] = found.get(path, 0.0) + more
    return {path: more for path, more in found.items() if more > _LEAST * total.points[most]}


def _of_operations(cell: Cell) -> Cell:
    """Without waiting for locks, which a replay executes."""
    table = counted_operation.without_waiting(cell.table.filter(context="operation"))
    return Cell(table.drop("whole"), cell.facts)


def _visits(cells: Mapping[int, Sequence[Cell]], to: int) -> dict[str, float]:
    per_op: dict[str, dict[int, float]] = {}
    for cpus, here in cells.items():
        for cell in here:
            for name, times in counted_operation.visits_of_each_cpu(cell.table).items():
                points = per_op.setdefault(name, dict.fromkeys(sorted(cells), 0.0))
                points[cpus] += times / cell.operations / len(here)
    factors = {name: _factor(Series(name, "", points), max(cells), to) for name, points in per_op.items()}
    return {name: factor for name, factor in factors.items() if factor > 1}


def _factor(series: Series, most: int, to: int) -> float:
    """How many times as much it is with so many CPUs as with the most that were recorded."""
    found = growth.fit_series(series)
    if not found.grows or found.sure < _SURE or series.points[most] <= 0:
        return 1.0
    return found.predict(to).value / series.points[most]
