"""The time of each function, from the calls of a trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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

_MOST = 40
_TOTAL = 1  # the measure by which rows are ranked
_MEASURES = (
    Measure("calls", "{:.0f}".format),
    Measure("total ms"),
    Measure("self ms"),
    Measure("min us", "{:.1f}".format, of_repetitions="least"),
    Measure("median us", "{:.1f}".format),
    Measure("p99 us", "{:.1f}".format),
    Measure("max us", "{:.1f}".format, of_repetitions="most"),
)

SCHEMA = Schema(
    lambda: {
        "function": pl.String(),
        "calls": pl.UInt64(),
        "total_ns": pl.Float64(),  # all calls together; of a function that calls itself, the outermost
        "self_ns": pl.Float64(),  # without what was traced below them
        "min_ns": pl.Float64(),
        "median_ns": pl.Float64(),
        "p99_ns": pl.Float64(),
        "max_ns": pl.Float64(),
    }
)


def profile(calls: pl.DataFrame) -> pl.DataFrame:
    """The time of each function, the longest total first. `calls` has the columns of the probe functions."""
    outermost = ~pl.col("path").str.split(";").list.contains(pl.col("function"))
    took = pl.col("nanoseconds")
    return (
        calls.group_by("function")
        .agg(
            calls=pl.len(),
            total_ns=took.filter(outermost).sum(),
            self_ns=pl.col("self_ns").sum(),
            min_ns=took.min(),
            median_ns=took.median(),
            p99_ns=took.quantile(0.99, "higher"),
            max_ns=took.max(),
        )
        .sort("total_ns", "function", descending=[True, False])
        .select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    )


def tree(calls: pl.DataFrame) -> list[tuple[str, int, int, int]]:
    """Path (with the function itself at its end), calls, nanoseconds and self nanoseconds.

    Each function follows its caller, the longest first.
    """
    whole = pl.when(pl.col("path") == "").then(pl.col("function")).otherwise(
        pl.concat_str("path", "function", separator=";")
    )  # fmt: skip
    nodes = calls.group_by(whole.alias("path")).agg(
        calls=pl.len(), total_ns=pl.col("nanoseconds").sum(), self_ns=pl.col("self_ns").sum()
    )
    totals = {path: total for path, _, total, _ in nodes.iter_rows()}

    def place(path: str) -> list[tuple[int, str]]:
        names = path.split(";")
        above = [";".join(names[: depth + 1]) for depth in range(len(names))]
        return [(-totals.get(ancestor, 0), ancestor) for ancestor in above]

    return sorted(nodes.iter_rows(), key=lambda node: place(node[0]))


def compare(measured: Measurements, options: Options) -> Comparison:
    """Compare the times of the traced functions in each variant."""
    return Comparison(
        about=measured.about,
        points=measured.at_each(_point, options),
        columns=("cpus", "variant", *SCHEMA),
        by_item=False,
    )


def _known(cells: Sequence[ProbedCell], calls: pl.DataFrame, absent: list[str]) -> dict[str, object]:
    """What JSON has of a variant beside the figures."""
    return {
        "functions": profile(calls).to_dicts(),
        "absent": absent,
        "lost_events": _sum(cells, "lost_events"),
        "tracing_ns": _sum(cells, "tracing_ns"),
    }


def _point(at: ComparedVariants, cells: Cells, measured: Measurements, options: Options) -> ComparedPoint:
    calls = {variant: pl.concat([cell.table for cell in each]) for variant, each in cells.items()}
    figures = make_rows.joined(
        {variant: [_rows(cell.table) for cell in each] for variant, each in cells.items()}, _MEASURES
    )
    absent = {variant: list(each[0].facts["absent"]) for variant, each in cells.items()}
    rows = [
        ComparedRow(
            function,
            each,
            rank=_TOTAL,
            missing={variant: "absent" for variant in cells if function in absent[variant]},
        )
        for function, each in figures.items()
    ]
    known = {variant: _known(each, calls[variant], absent[variant]) for variant, each in cells.items()}
    return ComparedPoint(
        at,
        probe="functions",
        heading=(
            f"{measured.workload}, {plural(at.cpus, 'CPU')}: time in kernel functions, {measured.time} "
            "(waiting included); of several repetitions the means, and the least and the most of all"
        ),
        title="Functions: time in kernel functions, waiting included",
        thing="function",
        measures=_MEASURES,
        rows=tuple(sorted(rows, key=lambda row: (-row.main.most, row.name))),
        more="function",
        most=_MOST,
        by_symbol=True,
        notes=measured.time_notes,
        lost=tuple(
            f"{variant}: {each['lost_events']} events are missing: only the first calls of each CPU are shown"
            for variant, each in known.items()
            if each["lost_events"]
        ),
        appendices=tuple(
            Appendix(
                f"{variant}: {_described(cells[variant], absent[variant])}",
                _tree(calls[variant]) if options.paths else (),
            )
            for variant in cells
        ),
        place={"cpus": at.cpus},
        known={"cells": known},
        records=tuple(
            (at.cpus, variant, *row) for variant, each in calls.items() for row in profile(each).iter_rows()
        ),
    )


def _rows(calls: pl.DataFrame) -> Iterator[tuple[str, tuple[float, ...]]]:
    for function, called, total, own, least, median, p99, most in profile(calls).iter_rows():
        yield function, (called, total / 1e6, own / 1e6, least / 1e3, median / 1e3, p99 / 1e3, most / 1e3)


def _sum(cells: Sequence[ProbedCell], fact: str) -> int:
    return sum(int(cell.facts[fact]) for cell in cells)


def _described(cells: Sequence[ProbedCell], absent: Sequence[str]) -> str:
    notes = [f"tracing itself took about {_sum(cells, 'tracing_ns') / 1e6 / len(cells):.1f} ms of it"]
    if absent:
        notes.append(f"the kernel has no {', '.join(absent)}")
    return "; ".join(notes)


def _tree(calls: pl.DataFrame) -> tuple[str, ...]:
    """The calls, each below its caller and indented."""
    lines = []
    for path, count, total, own in tree(calls):
        *above, function = path.split(";")
        text = f"{function}  {count} calls, {total / 1e6:.3f} ms, self {own / 1e6:.3f} ms"
        lines.append(f"  {'  ' * len(above)}{text}")
    return tuple(lines)
