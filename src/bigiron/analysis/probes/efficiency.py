"""How each CPU spends its time, in shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bigiron.analysis.comparison import make_rows
from bigiron.analysis.comparison.model import (
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
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

_SOURCES = {
    "events": "by events",
    "/proc/stat": "by ticks (stat)",
    "/proc/schedstat": "by the scheduler (schedstat)",
}
_MEASURES = (
    Measure("mean %"),
    Measure("least %", "{:.2f}".format, of_repetitions="least"),
    Measure("most %", "{:.2f}".format, of_repetitions="most"),
)

SHARES = Schema(
    lambda: {
        "source": pl.String(),
        "kind": pl.String(),
        "name": pl.String(),
        "mean": pl.Float64(),  # % of the time of all CPUs
        "least": pl.Float64(),  # % of one CPU's time
        "most": pl.Float64(),
        "times_per_second": pl.Float64(),  # on all CPUs together; null where the source does not tell
    }
)
_WAITING = "waiting"  # of tasks, while the CPU does something else: no part of its time
_NO_IDLE_TIME = "/proc/schedstat"


def shares(repetitions: Sequence[ProbedCell]) -> pl.DataFrame:
    """Shares of the CPUs' time, of all repetitions together.

    Each table has the columns of the probe efficiency. A CPU's time is the sum that one source reports,
    without `waiting`; for /proc/schedstat, which has no idle time, at least the time that was measured.
    """
    cells = pl.concat(
        [
            cell.table.with_columns(cell=pl.lit(number), measured_ns=pl.lit(cell.facts["nanoseconds"]))
            for number, cell in enumerate(repetitions)
        ]
    )
    measured_ns = pl.when(pl.col("source") == _NO_IDLE_TIME).then("measured_ns").otherwise(0).max()
    whole = (
        cells.filter(pl.col("kind") != _WAITING)
        .group_by("cell", "cpu", "source")
        .agg(whole_ns=pl.max_horizontal(pl.col("nanoseconds").sum(), measured_ns))
    )
    cells = _merged(cells)
    cpus = len(cells.select("cell", "cpu").unique())
    per_cpu = cells.join(whole, on=["cell", "cpu", "source"]).with_columns(
        share=100 * pl.col("nanoseconds") / pl.max_horizontal("whole_ns", 1)
    )
    by_what = per_cpu.group_by("source", "kind", "name").agg(
        mean=pl.col("share").sum() / cpus,
        # A CPU that never did it has no row.
        least=pl.when(pl.len() == cpus).then(pl.col("share").min()).otherwise(0.0),
        most=pl.col("share").max(),
        times_per_second=pl.when(pl.col("times").is_not_null().any()).then(
            pl.col("times").sum() / (pl.col("whole_ns").max() / 1e9) / len(repetitions)
        ),
    )
    return by_what.sort("source", "mean", "kind", "name", descending=[False, True, False, False]).select(
        pl.col(name).cast(kind) for name, kind in SHARES.items()
    )


def _merged(cells: pl.DataFrame) -> pl.DataFrame:
    """Adds up the workload's tasks, whatever their names."""
    name = pl.when(pl.col("kind") == "workload").then(pl.lit("")).otherwise(pl.col("name")).alias("name")
    times = pl.when(pl.col("times").is_not_null().any()).then(pl.col("times").sum())
    return cells.group_by("cell", "cpu", "source", "kind", name).agg(pl.col("nanoseconds").sum(), times)


def compare(measured: Measurements, options: Options) -> Comparison:
    """Compare how the CPUs of a study's variants spend their time."""
    return Comparison(
        about=measured.about,
        points=measured.at_each(_point, options),
        columns=("cpus", "tasks", "variant", *SHARES),
        by_item=False,
    )


def _point(at: ComparedVariants, cells: Cells, measured: Measurements, options: Options) -> ComparedPoint:
    found = {variant: shares(each) for variant, each in cells.items()}
    figures = make_rows.joined(
        {variant: [_rows(cell) for cell in each] for variant, each in cells.items()},
        _MEASURES,
        called=lambda key: f"{key[0]}: {key[1]} {key[2]}".rstrip(),
    )
    rows = [
        ComparedRow(f"{kind} {name}".strip(), each, section=_SOURCES[source], labels=((source,),))
        for (source, kind, name), each in figures.items()
        if each[0].most > 0
    ]
    order = list(_SOURCES.values())
    facts = {variant: each[-1].facts for variant, each in cells.items()}
    return ComparedPoint(
        at,
        probe="efficiency",
        heading=(
            f"{measured.workload}, {at}: "
            "shares of the CPUs' time in % "
            f"({measured.time}; least and most: of one CPU)"
        ),
        title="Efficiency: how the CPUs' time is divided",
        thing="who",
        measures=_MEASURES,
        rows=tuple(sorted(rows, key=lambda row: (order.index(row.section), -row.main.most, row.name))),
        labels=("source",),
        notes=(
            *(
                f"{variant}: from the kernel's own accounting only: no BPF, as {known['why_not_bpf']}"
                for variant, known in facts.items()
                if known["why_not_bpf"]
            ),
            *measured.time_notes,
        ),
        lost=tuple(
            f"{variant}: {known['lost']} intervals are missing: there was no room"
            for variant, known in facts.items()
            if known["lost"]
        ),
        known={
            "cells": {variant: {**facts[variant], "rows": found[variant].to_dicts()} for variant in cells}
        },
        records=tuple(
            (at.cpus, at.tasks, variant, *row) for variant, each in found.items() for row in each.iter_rows()
        ),
    )


def _rows(cell: ProbedCell) -> Iterator[tuple[tuple[str, str, str], tuple[float, ...]]]:
    for source, kind, name, mean, least, most, _ in shares([cell]).iter_rows():
        yield (source, kind, name), (mean, least, most)
