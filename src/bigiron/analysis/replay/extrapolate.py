"""What more CPUs add to an operation, by the laws of how it grows with them (docs/howto/256-cpus.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bigiron.analysis import kernel_functions
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.analysis.probes import instructions
from bigiron.analysis.replay import synthetic_operation
from bigiron.analysis.replay.extrapolated import NOTHING, Extrapolated
from bigiron.analysis.statistics import growth
from bigiron.analysis.statistics.growth import CountSeries, GrowthLaw
from bigiron.util.lazy import polars as pl

_SURE = 0.95  # of a law's weight: what follows none so surely stays as it was recorded
_LEAST = 1e-3  # of an operation's instructions: a function with less, where there is most of it, stays so
_LEAST_VISITS = 0.1  # an operation
_PROCESS = ("process",)


@dataclass(frozen=True)
class VariantCounts:
    """What a variant has counted: the repetitions at each number of CPUs."""

    instructions: Mapping[int, Sequence[ProbedCell]]
    conflicts: Mapping[int, Sequence[ProbedCell]]


def extrapolate(variants: Mapping[str, VariantCounts], to: int) -> dict[str, Extrapolated]:
    """What a machine with `to` CPUs adds to what each variant has recorded with the most CPUs.

    What grows in one variant, but not surely, stays as it was in all of them: else they would differ in
    what is known of them.
    """
    executed = {name: _executed(counts.instructions) for name, counts in variants.items()}
    visits = {name: _visits(counts.conflicts) for name, counts in variants.items()}
    of_functions, of_objects = _factors(executed, to), _factors(visits, to)
    found = {}
    for name, counts in variants.items():
        paths = _paths(counts.instructions, of_functions[name])
        more = Extrapolated(paths, of_objects[name], to)
        found[name] = more if paths or more.visits else NOTHING
    return found


def _factors(variants: Mapping[str, Sequence[CountSeries]], to: int) -> dict[str, dict[str, float]]:
    """Of each variant's series that grow, how many times as much there is."""
    laws = {
        name: {one.name: (one, growth.fit_series(one)) for one in series} for name, series in variants.items()
    }
    unsure = {
        name
        for of in laws.values()
        for name, (_, found) in of.items()
        if found.law is not GrowthLaw.constant and not (found.grows and found.sure >= _SURE)
    }
    return {
        variant: {
            name: found.predict(to).value / series.points[max(series.points)]
            for name, (series, found) in of.items()
            if found.grows and name not in unsure
        }
        for variant, of in laws.items()
    }


def _executed(cells: Mapping[int, Sequence[ProbedCell]]) -> list[CountSeries]:
    running = {cpus: [_of_operations(cell) for cell in here] for cpus, here in cells.items()}
    series, total = instructions.series(running, _PROCESS)
    least = _LEAST * max(total.points.values())
    return [one for one in series if max(one.points.values()) > least]


def _of_operations(cell: ProbedCell) -> ProbedCell:
    """Without waiting for locks and for answers to interrupts: a replay executes both."""
    table = synthetic_operation.without_waiting(cell.table.filter(context="process"))
    interrupts = pl.col("whole").str.contains(kernel_functions.INTERRUPTS_IN_PATH)
    return ProbedCell(table.filter(~interrupts).drop("whole"), cell.facts)


def _paths(cells: Mapping[int, Sequence[ProbedCell]], factors: Mapping[str, float]) -> dict[str, float]:
    here = [_of_operations(cell) for cell in cells[max(cells)]]
    found: dict[str, float] = {}
    for cell in here:
        stacks = instructions.stacks(cell.table, cell.operations * len(here), _PROCESS)
        for path, executed in stacks.select("path", "instructions_per_op").iter_rows():
            if factor := factors.get(path.rsplit(";", 1)[-1]):
                found[path] = found.get(path, 0.0) + executed * (factor - 1)
    return found


def _visits(cells: Mapping[int, Sequence[ProbedCell]]) -> list[CountSeries]:
    per_op: dict[str, dict[int, float]] = {}
    for cpus, here in cells.items():
        for cell in here:
            for name, times in synthetic_operation.visits_of_each_cpu(cell.table).items():
                points = per_op.setdefault(name, dict.fromkeys(sorted(cells), 0.0))
                points[cpus] += times / cell.operations / len(here)
    return [
        CountSeries(name, "", points)
        for name, points in per_op.items()
        if max(points.values()) > _LEAST_VISITS
    ]
