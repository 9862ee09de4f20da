"""Compares simulated figures by variant, with the range over seeds, and where the CPUs waited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bigiron.analysis.comparison.model import (
    Appendix,
    Cells,
    ComparedPoint,
    ComparedRow,
    ComparedVariants,
    Comparison,
    Measure,
    Measurements,
    Options,
    ProbedCell,
)
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.analysis.statistics.estimate import of_all
from bigiron.util.lazy import polars as pl
from bigiron.util.numbers import three_digits

_MOST_WAITS = 5  # shown of each variant
_Figures: TypeAlias = dict[tuple[str, str], dict[str, tuple[float, ...]]]


@dataclass(frozen=True)
class Waits:
    """Nanoseconds per operation that CPUs waited for each cache line and lock, and in total."""

    of: dict[str, float]
    total: float


def waits(cells: Sequence[ProbedCell]) -> Waits:
    """The mean of a cell's seeds. Waiting for the cache lines of a lock counts as waiting for the lock."""
    of: dict[str, float] = {}
    total = 0.0
    for cell in cells:
        cpus = cell.more["cpus"]
        each = 1 / max(1, cpus["operations"].sum()) / len(cells)
        spent = pl.sum_horizontal(pl.selectors.ends_with("_ns").exclude("interrupt_ns"))
        total += cpus.select(spent.sum()).item() * each
        for kind in ("line", "lock"):
            waited = pl.col("waiting_ns") + (pl.col("transferring_ns") if kind == "line" else 0.0)
            for what, ns in cell.more[f"{kind}s"].select(kind, waited).iter_rows():
                of[f"{kind} {what}"] = of.get(f"{kind} {what}", 0.0) + ns * each
    return Waits(of, total)


def compare(measured: Measurements, options: Options) -> Comparison:
    """Compare the figures of a simulated study's variants."""
    return Comparison(
        about={"study": measured.study, "design": measured.workload, "machine": measured.machine},
        points=measured.at_each(_point, options),
        columns=("cpus", "tasks", "variant", "figure", "unit", "mean", "least", "most", "seeds"),
        by_item=False,
    )


def _point(at: ComparedVariants, cells: Cells, measured: Measurements, options: Options) -> ComparedPoint:
    figures = _figures(cells)
    seeds = max(map(len, cells.values()))
    runs = f"mean of {seeds} seeds (least to most)" if seeds > 1 else "one seed"
    return ComparedPoint(
        at,
        probe="simulation",
        heading=f"{measured.workload} on {measured.machine}, {at.where}, simulated: {runs}",
        title="Simulated",
        thing="figure",
        keeps_order=True,
        measures=(Measure("mean", three_digits, beside="range"),),
        rows=tuple(
            ComparedRow(f"{name}, {unit}", (ComparedFigure(f"{name}, {unit}", values),))
            for (name, unit), values in figures.items()
        ),
        appendices=tuple(
            Appendix(f"{variant}: CPUs wait, ns/operation: {_longest(waits(each))}")
            for variant, each in cells.items()
        ),
        known={
            "figures": [
                {"figure": name, "unit": unit, "of_seeds": values} for (name, unit), values in figures.items()
            ]
        },
        records=tuple(
            (at.cpus, at.tasks, variant, name, unit, of.value, of.low, of.high, len(of_seeds))
            for (name, unit), values in figures.items()
            for variant, of_seeds in values.items()
            for of in (of_all(of_seeds),)
        ),
    )


def _figures(cells: Cells) -> _Figures:
    """The figures of each seed, by variant."""
    figures: _Figures = {}
    for variant, seeds in cells.items():
        for name, value, unit in (row for seed in seeds for row in seed.table.iter_rows()):
            by_variant = figures.setdefault((name, unit), {})
            by_variant[variant] = (*by_variant.get(variant, ()), value)
    return figures


def _longest(waited: Waits) -> str:
    longest = sorted(waited.of.items(), key=lambda wait: -wait[1])[:_MOST_WAITS]
    return ", ".join(f"{what} {three_digits(ns)}" for what, ns in longest if ns > 0) or "for nothing"
