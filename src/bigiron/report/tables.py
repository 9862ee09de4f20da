"""The tables of a report: what each probe measured, variant beside variant, with what each repetition had.

One entry in `KINDS` a probe: how the table of one cell becomes rows of figures.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import polars as pl

from bigiron import probes
from bigiron.analysis import blocked, efficiency, functions, locks, paths, profiles, work
from bigiron.analysis.profiles import Figure
from bigiron.report import comparison, stacks
from bigiron.report.operations import MEASURES
from bigiron.study.store import CellRecord, Study

Contexts: TypeAlias = tuple[str, ...]
Details: TypeAlias = tuple[tuple[str, str], ...]

_MOST = 300  # rows of one table
_MOST_PATHS = 6


@dataclass(frozen=True)
class Row:
    """A thing that was measured: a figure for each measure of its table."""

    name: str
    figures: tuple[Figure, ...]
    details: Details = ()
    """Label and text of what else is known of it."""
    differs: bool | None = None
    """Whether exact counts differ by more than chance; None where only repetitions can tell."""

    @property
    def main(self) -> Figure:
        """The figure by which rows are ranked."""
        return self.figures[0]


@dataclass(frozen=True)
class Table:
    """What a probe measured at one number of CPUs and tasks."""

    probe: str
    title: str
    thing: str
    measures: tuple[str, ...]
    cpus: int
    tasks: int
    variants: tuple[str, ...]
    base: str
    rows: tuple[Row, ...]  # the largest change first
    total: Row | None = None
    hidden: int = 0  # rows too small to be here
    notes: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[str, ...]:
        """The variants that are compared with the base."""
        return tuple(variant for variant in self.variants if variant != self.base)

    @property
    def repeated(self) -> bool:
        """Whether any cell was measured more than once."""
        return any(len(values) > 1 for row in self.rows for values in row.main.values.values())

    @property
    def place(self) -> str:
        """Where it was measured, in words."""
        tasks = f", {self.tasks} task{'' if self.tasks == 1 else 's'}"
        return f"{self.cpus} CPU{'' if self.cpus == 1 else 's'}" + ("" if self.tasks == self.cpus else tasks)


_Rows: TypeAlias = Iterator[tuple[str, tuple[float, ...], Details]]


@dataclass(frozen=True)
class Kind:
    """How a probe's cells become a table."""

    title: str
    thing: str
    measures: tuple[str, ...]
    rows: Callable[[pl.DataFrame, Mapping[str, Any], Contexts], _Rows]
    """Of one cell: names, a value for each measure, and what else is known."""
    least: float = 0.0005  # of the first measure: rows that never reach it are only counted
    ranked: bool = True  # by change; else they stay in the order in which they come
    total: str = ""  # what the sum of all rows is called, where it has a meaning


def _operations(facts: Mapping[str, Any]) -> int:
    return max(1, int(sum(facts["operations"])))


def _work(table: pl.DataFrame, facts: Mapping[str, Any], contexts: Contexts) -> _Rows:
    for function, own, both in work.profile(table, _operations(facts), contexts).iter_rows():
        yield function, (own, both), ()


def _locks(table: pl.DataFrame, facts: Mapping[str, Any], contexts: Contexts) -> _Rows:
    for row in locks.profile(table, _operations(facts), contexts).iter_rows(named=True):
        details = (("taken in", ", ".join(row["taken_in"])), ("by", f"{row['cpus']} CPUs"))
        figures = (row["held_per_op"], row["acquisitions_per_op"])
        yield f"{row['lock']} ({row['taken_by']})", figures, details


def _blocked(table: pl.DataFrame, facts: Mapping[str, Any], contexts: Contexts) -> _Rows:
    operations = _operations(facts)
    for place, state, count, total_ns, _ in blocked.places(table, contexts).iter_rows():
        yield f"{state} {place}", (total_ns / 1e6 / operations, count / operations), ()


def _functions(table: pl.DataFrame, _facts: Mapping[str, Any], _contexts: Contexts) -> _Rows:
    for function, calls, total, own, _, median, p99, most in functions.profile(table).iter_rows():
        figures = (total / 1e6, own / 1e6, calls, median / 1e3, p99 / 1e3, most / 1e3)
        yield function, figures, ()


def _operation(table: pl.DataFrame, _facts: Mapping[str, Any], _contexts: Contexts) -> _Rows:
    for (state,), rows in table.group_by("state", maintain_order=True):
        for measure in MEASURES:
            if not rows[measure.column].has_nulls():
                yield f"{state}: {measure.title}", (float(rows[measure.column].sum()) * measure.scale,), ()


def _efficiency(table: pl.DataFrame, _facts: Mapping[str, Any], _contexts: Contexts) -> _Rows:
    for source, kind, name, mean, least, most, _ in efficiency.shares([table]).iter_rows():
        yield f"{source}: {kind} {name}".strip(), (mean, least, most), ()


def _simulation(table: pl.DataFrame, _facts: Mapping[str, Any], _contexts: Contexts) -> _Rows:
    for figure, value, unit in table.iter_rows():
        yield f"{figure}, {unit}", (value,), ()


KINDS: dict[str, Kind] = {
    "operations": Kind("What the operations took", "metric", ("sum",), _operation, ranked=False),
    "work": Kind(
        "Work: kernel instructions per operation",
        "function",
        ("own", "with what it called"),
        _work,
        least=0.05,
        total="all functions",
    ),
    "locks": Kind(
        "Locks: how often an operation takes them, and for how many instructions it holds them",
        "lock",
        ("instructions held", "times taken"),
        _locks,
        least=0.05,
    ),
    "blocked": Kind("Blocked: time off the CPU per operation", "state and place", ("ms", "times"), _blocked),
    "functions": Kind(
        "Functions: time in kernel functions, waiting included",
        "function",
        ("total ms", "own ms", "calls", "median us", "p99 us", "max us"),
        _functions,
    ),
    "efficiency": Kind(
        "Efficiency: who gets the CPUs' time",
        "who",
        ("mean %", "least % of a CPU", "most % of a CPU"),
        _efficiency,
    ),
    "simulation": Kind("Simulated", "figure", ("mean",), _simulation, ranked=False),
}
"""By probe. What is not here is told by function, of its stacks."""


def tables(study: Study, probe: str, base: str, contexts: Contexts) -> list[Table]:
    """A table for each number of CPUs and tasks at which a probe other than conflicts was measured."""
    return [
        _table(study, probe, cpus, tasks, base, measured, contexts)
        for (cpus, tasks), measured in study.measured(probe).items()
    ]


def _table(
    study: Study,
    probe: str,
    cpus: int,
    tasks: int,
    base: str,
    measured: Mapping[str, Sequence[CellRecord]],
    contexts: Contexts,
) -> Table:
    if probe not in KINDS:
        return _of_stacks(study, probe, cpus, tasks, base, measured, contexts)
    kind = KINDS[probe]
    base = base if base in measured else next(iter(measured))
    rows = _rows(study, probe, measured, contexts)
    if kind.ranked:
        rows = _ranked(rows, base, measured)
    shown = [row for row in rows if row.main.most >= kind.least or not kind.ranked][:_MOST]
    return Table(
        probe,
        kind.title,
        kind.thing,
        kind.measures,
        cpus,
        tasks,
        tuple(measured),
        base,
        tuple(shown),
        _total(kind, rows, measured),
        len(rows) - len(shown),
        _notes(study, probe),
    )


def _rows(
    study: Study, probe: str, measured: Mapping[str, Sequence[CellRecord]], contexts: Contexts
) -> list[Row]:
    """The rows of all variants and repetitions, joined by their names."""
    kind = KINDS[probe]
    values: dict[str, list[dict[str, list[float]]]] = {}
    details: dict[str, Details] = {}
    for variant, records in measured.items():
        for number, record in enumerate(records):
            table, facts = study.table(record, probe), record.facts[probe]
            for name, figures, known in kind.rows(table, facts, contexts):
                details.setdefault(name, known)
                row = values.setdefault(name, [{} for _ in kind.measures])
                for measure, value in zip(row, figures, strict=True):
                    measure.setdefault(variant, [0.0] * len(records))[number] += value
    return [
        Row(name, tuple(_figure(name, by_variant) for by_variant in measures), details[name])
        for name, measures in values.items()
    ]


def _figure(name: str, values: Mapping[str, Sequence[float]]) -> Figure:
    return Figure(name, {variant: tuple(each) for variant, each in values.items()})


def _ranked(rows: Sequence[Row], base: str, variants: Mapping[str, object]) -> list[Row]:
    of = {row.name: row for row in rows}
    return [of[figure.name] for figure in profiles.ranked((row.main for row in rows), base, variants)]


def _total(kind: Kind, rows: Sequence[Row], measured: Mapping[str, Sequence[object]]) -> Row | None:
    """The sum of the first measure, which is the only one that can be added up."""
    if not kind.total:
        return None
    return _sum(kind.total, [row.main for row in rows], measured)


def _sum(name: str, figures: Sequence[Figure], measured: Mapping[str, Sequence[object]]) -> Row:
    values = {
        variant: tuple(
            sum(figure.values[variant][number] for figure in figures if variant in figure.values)
            for number in range(len(repetitions))
        )
        for variant, repetitions in measured.items()
    }
    return Row(name, (Figure(name, values),))


def _of_stacks(
    study: Study,
    probe: str,
    cpus: int,
    tasks: int,
    base: str,
    measured: Mapping[str, Sequence[CellRecord]],
    contexts: Contexts,
) -> Table:
    weighed = stacks.by_repetition(study, probe, contexts, measured)
    base = base if base in measured else next(iter(measured))
    figures = profiles.ranked(profiles.functions(weighed), base, weighed)
    unit = stacks.source(probe).weights[0]
    rows = tuple(Row(figure.name, (figure,)) for figure in figures[:_MOST])
    title = f"{probe.capitalize()}: {stacks.what(probe, chain(*measured.values()))} per operation"
    return Table(
        probe, title, "function, with what it called", (unit,), cpus, tasks, tuple(measured), base, rows,
        hidden=len(figures) - len(rows), notes=_notes(study, probe),
    )  # fmt: skip


def of_conflicts(study: Study, compared: comparison.Comparison) -> list[Table]:
    """The shared lines that were compared, a table for each number of CPUs and tasks."""
    measured = study.measured("conflicts")
    return [_conflicts_at(point, measured[point.cpus, point.tasks]) for point in compared.points]


def _conflicts_at(point: comparison.Point, measured: Mapping[str, Sequence[CellRecord]]) -> Table:
    rows = [_line(point, group, measured) for group in point.groups()]
    shown = [row for row in rows if row.main.most >= 0.005][:_MOST]
    return Table(
        "conflicts",
        "Conflicts: accesses per operation to cache lines that CPUs share",
        "shared line",
        ("accesses", "writes"),
        point.cpus,
        point.tasks,
        tuple(point.variants),
        point.base,
        tuple(shown),
        _sum("all shared lines", [row.main for row in rows], measured),
        len(rows) - len(shown),
        tuple(comparison.lost_and_recycled(point)),
    )


def _line(
    point: comparison.Point, group: comparison.Group, measured: Mapping[str, Sequence[CellRecord]]
) -> Row:
    """Shared lines that are alike."""
    first = group.rows[0]
    writes, accesses = (_column(group, column, measured) for column in (0, 1))
    ways = [
        (
            ", ".join(f"{group.by_path(variant, path):.3f}" for variant in point.variants),
            paths.short(path).replace(";", " → "),
        )
        for path in group.paths[:_MOST_PATHS]
    ]
    details = (
        ("sharing", "; ".join(f"{kind} ({why})" for kind, why in first.sharing.items())),
        ("touched by", ", ".join(first.functions)),
        ("CPUs", _writers_and_readers(point, group)),
        ("bytes", comparison.bytes_by_cpu(first)),
        *ways,
    )
    differs = first.differs(point.base, point.others) if point.others else None
    return Row(group.name, (accesses, writes), tuple((k, v) for k, v in details if v), differs)


def _column(group: comparison.Group, column: int, measured: Mapping[str, Sequence[object]]) -> Figure:
    """Writes (0) or accesses (1) per operation of the lines together, in each repetition."""
    values = {}
    for variant, repetitions in measured.items():
        lines = [row.lines[variant] for row in group.rows if variant in row.lines]
        if lines:
            numbers = range(len(repetitions))
            values[variant] = tuple(sum(line.repetitions[n][column] for line in lines) for n in numbers)
    return Figure(group.name, values)


def _writers_and_readers(point: comparison.Point, group: comparison.Group) -> str:
    said = []
    for variant in point.variants:
        lines = [row.lines[variant] for row in group.rows if variant in row.lines]
        if lines:
            writers, readers = max(one.writers for one in lines), max(one.readers for one in lines)
            said.append(f"{writers} write and {readers} read on {variant}")
    return "; ".join(said)


def _notes(study: Study, probe: str) -> tuple[str, ...]:
    if study.time == "VM time" and any(one.measures_time for one in probes.among([probe])):
        return ("Times are VM times: how they compare means more than what they are.",)
    return ()
