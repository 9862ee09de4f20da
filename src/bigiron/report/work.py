"""What `bigiron compare --probe work` shows: which functions execute more instructions, and which fewer."""

import csv
import io
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from bigiron.analysis import work
from bigiron.report import listing
from bigiron.report.listing import code, plain
from bigiron.report.variants import Variants
from bigiron.study.store import CellRecord, Study

_SHOWN = 40  # rows in text and Markdown
_WIDTH = 100


@dataclass(frozen=True)
class Row:
    """A function's instructions per operation in each variant that executes it."""

    function: str
    own: dict[str, float]
    inclusive: dict[str, float]  # with all that it called

    def change(self, base: str, variant: str) -> float:
        """How many more of its own instructions than in the base."""
        return self.own.get(variant, 0.0) - self.own.get(base, 0.0)


@dataclass(frozen=True)
class Point(Variants):
    """The work at one number of CPUs and tasks."""

    rows: list[Row]  # largest change first, then most work

    def total(self, variant: str) -> float:
        """All instructions per operation."""
        return sum(row.own.get(variant, 0.0) for row in self.rows)


@dataclass(frozen=True)
class Comparison:
    """A study's work, at each point that it measured."""

    study: str
    workload: str
    operations: int
    contexts: tuple[str, ...]
    points: list[Point]


def compare_study(study: Study, base: str | None, contexts: tuple[str, ...]) -> Comparison:
    """Compare the work of a study's variants, function by function."""
    points = [
        _point(study, variants, cpus, tasks, study.base(base), contexts)
        for (cpus, tasks), variants in study.measured("work").items()
    ]
    return Comparison(study.name, study.spec.workload, study.operations("work"), contexts, points)


def _point(
    study: Study,
    measured: dict[str, list[CellRecord]],
    cpus: int,
    tasks: int,
    base: str,
    contexts: tuple[str, ...],
) -> Point:
    variants = list(measured)
    base = base if base in variants else variants[0]
    own: dict[str, dict[str, float]] = {}
    inclusive: dict[str, dict[str, float]] = {}
    for variant, records in measured.items():
        for function, its_own, with_callees in mean(study, records, contexts):
            own.setdefault(function, {})[variant] = its_own
            inclusive.setdefault(function, {})[variant] = with_callees
    rows = [Row(function, own[function], inclusive[function]) for function in own]
    others = [variant for variant in variants if variant != base]
    rows.sort(
        key=lambda row: (
            -max((abs(round(row.change(base, variant), 3)) for variant in others), default=0.0),
            -max(row.own.values()),
            row.function,
        )
    )
    return Point(cpus, tasks, variants, base, rows)


def mean(
    study: Study, records: list[CellRecord], contexts: tuple[str, ...]
) -> list[tuple[str, float, float]]:
    """Function, own and inclusive instructions per operation, over all repetitions."""
    profiles = [
        work.profile(study.table(record, "work"), sum(record.facts["work"]["operations"]), contexts)
        for record in records
    ]
    sums = pl.concat(profiles).group_by("function").agg(pl.col("own_per_op", "inclusive_per_op").sum())
    return [(function, own / len(records), both / len(records)) for function, own, both in sums.iter_rows()]


def text(comparison: Comparison) -> str:
    """For a terminal or a mail: at most 100 columns with up to two variants."""
    return "\n\n".join(_text_of(comparison, point) for point in comparison.points) + "\n"


def _text_of(comparison: Comparison, point: Point) -> str:
    width = max(20, *(len(variant) + 2 for variant in point.variants))
    heading = (
        f"{comparison.workload}, {point.cpus} CPUs, {point.tasks} tasks: kernel instructions per operation, "
        f"in {' and '.join(comparison.contexts)} context ({comparison.operations} operations a task; "
        "own: the function's; incl: and of all it called)"
    )
    lines = [*textwrap.wrap(heading, _WIDTH), ""]
    lines.append(" " * 38 + "".join(f"{variant:>{width}}" for variant in point.variants))
    changes = f"{'change':>10}" if point.others else ""
    lines.append(f"{'function':38}" + f"{'own      incl':>{width}}" * len(point.variants) + changes)
    for row in point.rows[:_SHOWN]:
        figures = "".join(f"{_figures(row, variant):>{width}}" for variant in point.variants)
        lines.append(f"{_cut(row.function, 38)}{figures}{_change(row, point)}")
    totals = "".join(f"{f'{point.total(variant):.3f}' + ' ' * 10:>{width}}" for variant in point.variants)
    lines.append(f"{'all functions':38}{totals}")
    if len(point.rows) > _SHOWN:
        lines += ["", f"{len(point.rows) - _SHOWN} more functions (--format csv has all)"]
    return "\n".join(line.rstrip() for line in lines)


def _figures(row: Row, variant: str) -> str:
    if variant not in row.own:
        return "-" + " " * 10
    return f"{row.own[variant]:.3f} {row.inclusive[variant]:9.1f}"


def _change(row: Row, point: Point) -> str:
    if not point.others:
        return ""
    change = max((row.change(point.base, variant) for variant in point.others), key=abs)
    return f"{change:+10.3f}" if round(change, 3) else ""


def _cut(text: str, width: int) -> str:
    return f"{text:{width}}" if len(text) < width else text[: width - 3] + ".. "


def markdown(comparison: Comparison) -> str:
    """Tables as GitHub and most wikis render them."""
    tables = []
    for point in comparison.points:
        rows = []
        for row in point.rows[:_SHOWN]:
            figures = [f"{row.own[v]:.3f}" if v in row.own else "-" for v in point.variants]
            rows.append([code(row.function), *figures, plain(_change(row, point).strip())])
        headings = ["function", *(f"{variant} own" for variant in point.variants), "change"]
        tables.append(listing.markdown(headings, rows, "l" + "r" * (len(headings) - 1)))
    return "\n".join(tables)


def as_csv(comparison: Comparison) -> str:
    """One line a function and variant (docs/schema.md)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["cpus", "tasks", "function", "variant", "own_per_op", "inclusive_per_op"])
    for point in comparison.points:
        for row in point.rows:
            for variant, own in row.own.items():
                writer.writerow(
                    [
                        point.cpus,
                        point.tasks,
                        row.function,
                        variant,
                        round(own, 6),
                        round(row.inclusive[variant], 6),
                    ]
                )
    return out.getvalue()


def as_json(comparison: Comparison) -> str:
    """All rows (docs/schema.md)."""
    document = {
        "study": comparison.study,
        "workload": comparison.workload,
        "operations": comparison.operations,
        "contexts": comparison.contexts,
        "rows": [
            {
                "cpus": point.cpus,
                "tasks": point.tasks,
                "function": row.function,
                "cells": {
                    variant: {
                        "own_per_op": round(own, 6),
                        "inclusive_per_op": round(row.inclusive[variant], 6),
                    }
                    for variant, own in row.own.items()
                },
            }
            for point in comparison.points
            for row in point.rows
        ],
        "totals": [
            {
                "cpus": point.cpus,
                "tasks": point.tasks,
                "cells": {
                    variant: {"own_per_op": round(point.total(variant), 6)} for variant in point.variants
                },
            }
            for point in comparison.points
        ],
    }
    return listing.as_json(document)


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": as_csv,
    "json": as_json,
}
