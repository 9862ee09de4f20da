"""Where tasks wait: sums the times that they were off the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bigiron.analysis import kernel_functions
from bigiron.analysis.comparison import make_rows
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
from bigiron.util.english import plural
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

CONTEXTS = ("process", "kthread")

_MOST = 20  # places
_STACKS = 5  # of each variant, unless more are asked for
_LEAST = 0.0005  # milliseconds an operation: a place with less is only counted
_MEASURES = (Measure("ms"), Measure("times"))
_ROW = ("context", "task", "pid", "tgid", "state", "path", "user_path", "count", "total_ns", "max_ns")
_NAMED = 3  # functions that tell a place

PLACES = Schema(
    lambda: {
        "place": pl.String(),  # place(path)
        "state": pl.String(),
        "count": pl.UInt64(),
        "total_ns": pl.UInt64(),
        "max_ns": pl.UInt64(),
    }
)


def place(path: str) -> str:
    """The functions that identify where a stack waits, innermost first.

    >>> place("ksys_write;online_store;_cpu_down;synchronize_rcu;__wait_rcu_gp;schedule;__schedule")
    'synchronize_rcu < _cpu_down < online_store'
    >>> place("schedule;__schedule")
    '__schedule < schedule'
    """
    frames = path.split(";")[::-1]
    telling = [frame for frame in frames if frame.split(".")[0] not in kernel_functions.LEAVING_CPU]
    return " < ".join((telling or frames)[:_NAMED])


def places(table: pl.DataFrame, contexts: Sequence[str] = CONTEXTS) -> pl.DataFrame:
    """The times of all tasks by place and state, the longest total first.

    `table` has the columns of the probe blocked.
    """
    return (
        table.filter(pl.col("context").is_in(contexts))
        .with_columns(place=pl.col("path").map_elements(place, pl.String))
        .group_by("place", "state")
        .agg(pl.col("count").sum(), pl.col("total_ns").sum(), pl.col("max_ns").max())
        .sort("total_ns", "place", descending=[True, False])
        .select(pl.col(name).cast(kind) for name, kind in PLACES.items())
    )


def stacks(table: pl.DataFrame, operations: float, contexts: Sequence[str]) -> pl.DataFrame:
    """Microseconds and times per operation by `context`, `task` and `path`, for formats that hold stacks."""
    return (
        table.filter(pl.col("context").is_in(contexts))
        .group_by("context", "task", "path")
        .agg(
            microseconds_per_op=pl.col("total_ns").sum() / 1000 / operations,
            times_per_op=pl.col("count").sum() / operations,
        )
        .sort("context", "task", "path")
    )


def compare(measured: Measurements, options: Options) -> Comparison:
    """Compare where the tasks of a study's variants waited, and how long."""
    return Comparison(
        about=measured.about,
        points=measured.at_each(_point, options),
        columns=("cpus", "tasks", "variant", *_ROW),
        by_item=False,
    )


def _point(at: ComparedVariants, cells: Cells, measured: Measurements, options: Options) -> ComparedPoint:
    figures = make_rows.joined(
        {variant: [_rows(cell, options.contexts) for cell in each] for variant, each in cells.items()},
        _MEASURES,
    )
    rows = sorted(
        (ComparedRow(name, each) for name, each in figures.items()),
        key=lambda row: (-row.main.most, row.name),
    )
    shown = [row for row in rows if row.main.most >= _LEAST]
    waited = {variant: _waited(each, options.contexts) for variant, each in cells.items()}
    facts = {variant: _facts(each) for variant, each in cells.items()}
    return ComparedPoint(
        at,
        probe="blocked",
        heading=(
            f"{measured.workload}, {at}: "
            "milliseconds off the CPU and how often, "
            f"per operation ({measured.time})"
        ),
        title="Blocked: time off the CPU per operation",
        thing=f"waited in, {plural(at.cpus, 'CPU')}",
        measures=_MEASURES,
        rows=tuple(shown),
        hidden=len(rows) - len(shown),
        more="place",
        most=_MOST,
        notes=measured.time_notes,
        lost=tuple(
            f"{variant}: {known['lost']} times are missing: there was no room"
            for variant, known in facts.items()
            if known["lost"]
        ),
        appendices=tuple(
            Appendix(f"{variant}: {_described(facts[variant])}", _stacks(rows.head(options.paths or _STACKS)))
            for variant, rows in waited.items()
        ),
        known={
            "cells": {variant: {**facts[variant], "rows": waited[variant].to_dicts()} for variant in cells}
        },
        records=tuple(
            (at.cpus, at.tasks, variant, *row)
            for variant, rows in waited.items()
            for row in rows.select(_ROW).iter_rows()
        ),
    )


def _rows(cell: ProbedCell, contexts: Sequence[str]) -> Iterator[tuple[str, tuple[float, ...]]]:
    for where, state, count, total_ns, _ in places(cell.table, contexts).iter_rows():
        yield f"{state} {where}", (total_ns / 1e6 / cell.operations, count / cell.operations)


def _waited(cells: Sequence[ProbedCell], contexts: Sequence[str]) -> pl.DataFrame:
    """A row per task, stack and state over all repetitions, the longest total first."""
    rows = pl.concat([cell.table for cell in cells])
    return rows.filter(pl.col("context").is_in(contexts)).sort("total_ns", descending=True)


def _facts(cells: Sequence[ProbedCell]) -> dict[str, object]:
    together = {name: sum(cell.facts[name] for cell in cells) for name in ("nanoseconds", "lost")}
    return {**cells[0].facts, **together, "operations": sum(sum(cell.facts["operations"]) for cell in cells)}


def _described(facts: dict[str, object]) -> str:
    parts = [f"{facts['operations']} operations in {float(str(facts['nanoseconds'])) / 1e6:.1f} ms"]
    if facts["way"] != "bpf":
        parts.append(f"by the scheduler's events, to the microsecond: no BPF, as {facts['why_not_bpf']}")
    return "; ".join(parts) + "; the stacks that waited longest, with microseconds in all"


def _stacks(rows: pl.DataFrame) -> tuple[str, ...]:
    """Stack, innermost first, task (pid), microseconds: bcc's layout."""
    lines = []
    for row in rows.iter_rows(named=True):
        lines += ["", *(f"    {frame}" for frame in reversed(row["path"].split(";")))]
        if row["user_path"]:
            lines += ["    --", *(f"    {frame}" for frame in reversed(row["user_path"].split(";")))]
        lines += [f"    -                {row['task']} ({row['pid']})", f"        {row['total_ns'] // 1000}"]
    return (*lines, "")
