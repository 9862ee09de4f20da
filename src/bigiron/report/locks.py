"""What `bigiron compare --probe locks` shows: which locks an operation takes, and how long it holds them."""

import csv
import io
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from bigiron.analysis import locks
from bigiron.report import listing
from bigiron.report.listing import code, plain
from bigiron.report.variants import Variants
from bigiron.study.store import CellRecord, Study

_SHOWN = 0.05  # acquisitions per operation below which a row is only counted, in text and Markdown
_DIFFERENCE = {"acquisitions_per_op": 0.05, "held_per_op": 1.0}  # up to which nothing is marked, and 1 %
_WIDTH = 100
_LOCK_WIDTH = 34
_MOST_FUNCTIONS = 8


@dataclass(frozen=True)
class Row:
    """Locks of one name, taken by one function, in each variant that takes them."""

    lock: str
    taken_by: str
    taken_in: list[str]  # functions, most acquisitions first
    cells: dict[str, dict[str, float]]  # variant -> acquisitions_per_op, held_per_op, longest, locks, cpus

    def figure(self, variant: str, name: str) -> float:
        """A figure of a variant; 0 where it does not take the lock."""
        return self.cells.get(variant, {}).get(name, 0.0)

    def change(self, base: str, variants: Sequence[str]) -> float:
        """The largest change from the base in how long an operation holds it."""
        before = self.figure(base, "held_per_op")
        return max((abs(self.figure(v, "held_per_op") - before) for v in variants), default=0.0)

    def differs(self, base: str, variants: Sequence[str]) -> bool:
        """Whether some variant takes it more or less often than the base, or holds it longer or shorter."""
        return any(
            abs(after - before) > tolerance + 0.01 * max(after, before)
            for name, tolerance in _DIFFERENCE.items()
            for before in [self.figure(base, name)]
            for after in (self.figure(variant, name) for variant in variants)
        )

    @property
    def shared(self) -> bool:
        """Whether several CPUs take one of them."""
        return any(cell["cpus"] > 1 for cell in self.cells.values())


@dataclass(frozen=True)
class Point(Variants):
    """The locks at one number of CPUs and tasks."""

    rows: list[Row]  # those that several CPUs take first; the largest change first, then those held longest
    lost: dict[str, int]  # acquisitions that are not in the table, by variant


@dataclass(frozen=True)
class Comparison:
    """A study's locks, at each point that it measured."""

    study: str
    workload: str
    operations: int
    contexts: tuple[str, ...]
    points: list[Point]


def compare_study(study: Study, base: str | None, contexts: tuple[str, ...]) -> Comparison:
    """Compare the locks of a study's variants, by their names."""
    points = [
        _point(study, variants, cpus, tasks, study.base(base), contexts)
        for (cpus, tasks), variants in study.measured("locks").items()
    ]
    return Comparison(study.name, study.spec.workload, study.operations("locks"), contexts, points)


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
    others = [variant for variant in variants if variant != base]
    rows: dict[tuple[str, str], Row] = {}
    lost = dict.fromkeys(variants, 0)
    for variant, records in measured.items():
        lost[variant] = sum(
            record.facts["locks"]["lost_acquisitions"] + record.facts["locks"]["unreleased"]
            for record in records
        )
        for cell in _mean(study, records, contexts).iter_rows(named=True):
            lock, taken_by, taken_in = (cell.pop(name) for name in ("lock", "taken_by", "taken_in"))
            row = rows.setdefault((lock, taken_by), Row(lock, taken_by, [], {}))
            row.cells[variant] = cell
            row.taken_in.extend(function for function in taken_in if function not in row.taken_in)
    ordered = sorted(
        rows.values(),
        key=lambda row: (
            not row.shared,
            -row.change(base, others) if row.differs(base, others) else 0.0,
            -max(row.figure(variant, "held_per_op") for variant in variants),
            (row.lock, row.taken_by),
        ),
    )
    return Point(cpus, tasks, variants, base, ordered, lost)


def _mean(study: Study, records: list[CellRecord], contexts: tuple[str, ...]) -> pl.DataFrame:
    """The locks over all repetitions: per operation the mean, else the most."""
    profiles = [
        locks.profile(study.table(record, "locks"), sum(record.facts["locks"]["operations"]), contexts)
        for record in records
    ]
    per_op = pl.col("acquisitions_per_op", "held_per_op").sum() / len(records)
    most = pl.col("longest", "locks", "cpus").max()
    return (
        pl.concat(profiles)
        .group_by("lock", "taken_by", maintain_order=True)
        .agg(per_op, most, pl.col("taken_in").first())
    )


def text(comparison: Comparison) -> str:
    """For a terminal or a mail: at most 100 columns with up to two variants."""
    return "\n\n".join(_text_of(comparison, point) for point in comparison.points) + "\n"


def _text_of(comparison: Comparison, point: Point) -> str:
    width = max(32, *(len(variant) + 2 for variant in point.variants))
    lines = textwrap.wrap(_heading(comparison, point), _WIDTH)
    lines += ["", " " * _LOCK_WIDTH + "".join(f"{variant:>{width}}" for variant in point.variants)]
    header = "taken      held longest  CPUs"
    lines.append(f"{'  lock':{_LOCK_WIDTH}}" + f"{header:>{width}}" * len(point.variants))
    shown, hidden = _shown(point)
    for row in shown:
        mark = "* " if row.differs(point.base, point.others) else "  "
        figures = "".join(f"{_figures(row, variant):>{width}}" for variant in point.variants)
        lines += [f"{mark}{row.lock}", " " * _LOCK_WIDTH + figures]
        if len(row.lock) < _LOCK_WIDTH - 2:
            lines[-2:] = [f"{mark}{row.lock:{_LOCK_WIDTH - 2}}{figures}"]
        indent = " " * 6
        lines += textwrap.wrap(_takers(row), _WIDTH, initial_indent=indent, subsequent_indent=indent)
    return "\n".join(line.rstrip() for line in [*lines, "", *_notes(point, hidden)]).rstrip()


def _heading(comparison: Comparison, point: Point) -> str:
    return (
        f"{comparison.workload}, {point.cpus} CPUs, {point.tasks} tasks: the kernel's locks, how often an "
        "operation takes them and how many instructions it holds them, in "
        f"{' and '.join(comparison.contexts)} context ({comparison.operations} operations a task; longest: "
        "instructions of one acquisition; CPUs: that take one of them)"
    )


def _figures(row: Row, variant: str) -> str:
    if variant not in row.cells:
        return "-" + " " * 25
    taken, held, longest, cpus = (
        row.figure(variant, name) for name in ("acquisitions_per_op", "held_per_op", "longest", "cpus")
    )
    return f"{taken:.3f} {held:9.1f} {longest:7.0f} {cpus:5.0f}"


def _takers(row: Row) -> str:
    functions = row.taken_in
    more = f" and {len(functions) - _MOST_FUNCTIONS} more" if len(functions) > _MOST_FUNCTIONS else ""
    return f"{row.taken_by} in {', '.join(functions[:_MOST_FUNCTIONS])}{more}"


def _shown(point: Point) -> tuple[list[Row], int]:
    """The rows worth a line, and how many others there are."""
    shown = [
        row
        for row in point.rows
        if max(row.figure(v, "acquisitions_per_op") for v in point.variants) >= _SHOWN
    ]
    return shown, len(point.rows) - len(shown)


def _notes(point: Point, hidden: int) -> list[str]:
    notes = []
    if point.others:
        notes.append(
            f"* differs from {point.base}: taken by more than {_DIFFERENCE['acquisitions_per_op']} per "
            f"operation and 1 %, or held by more than {_DIFFERENCE['held_per_op']:.0f} instruction and 1 %"
        )
    if hidden:
        notes.append(f"{hidden} more locks that are taken less than {_SHOWN} times (--format csv has all)")
    for variant, lost in point.lost.items():
        if lost:
            notes.append(
                f"{variant}: {lost} acquisitions are not counted: their release was not seen, or no room"
            )
    return [line for note in notes for line in textwrap.wrap(note, _WIDTH, subsequent_indent="  ")]


def markdown(comparison: Comparison) -> str:
    """Tables as GitHub and most wikis render them."""
    return "\n\n".join(_markdown_of(comparison, point) for point in comparison.points) + "\n"


def _markdown_of(comparison: Comparison, point: Point) -> str:
    rows = []
    shown, hidden = _shown(point)
    for row in shown:
        mark = "*" if row.differs(point.base, point.others) else ""
        figures = [" ".join(_figures(row, variant).split()) for variant in point.variants]
        functions = ", ".join(map(code, row.taken_in[:_MOST_FUNCTIONS]))
        rows.append([plain(mark), plain(row.lock), code(row.taken_by), *map(plain, figures), functions])
    headings = ["", "lock", "taken by", *point.variants, "taken in"]
    table = listing.markdown(headings, rows, "lll" + "r" * len(point.variants) + "l")
    notes = map(plain, _notes(point, hidden))
    return "\n".join([plain(_heading(comparison, point)), "", table, *notes]).rstrip()


def as_csv(comparison: Comparison) -> str:
    """One line a lock and variant, all of them (docs/schema.md)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["cpus", "tasks", "lock", "taken_by", "taken_in", "differs", "variant", "acquisitions_per_op",
         "held_per_op", "longest", "locks", "lock_cpus"]
    )  # fmt: skip
    for point in comparison.points:
        for row in point.rows:
            differs = int(row.differs(point.base, point.others))
            what = (point.cpus, point.tasks, row.lock, row.taken_by, " ".join(row.taken_in), differs)
            for variant in row.cells:
                writer.writerow([*what, variant, *_rounded(row, variant).values()])
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
                "lock": row.lock,
                "taken_by": row.taken_by,
                "taken_in": row.taken_in,
                "differs": row.differs(point.base, point.others),
                "cells": {variant: _rounded(row, variant) for variant in row.cells},
            }
            for point in comparison.points
            for row in point.rows
        ],
        "totals": [
            {"cpus": point.cpus, "tasks": point.tasks, "lost_acquisitions": point.lost}
            for point in comparison.points
        ],
    }
    return listing.as_json(document)


def _rounded(row: Row, variant: str) -> dict[str, Any]:
    cell = row.cells[variant]
    return {
        "acquisitions_per_op": round(cell["acquisitions_per_op"], 6),
        "held_per_op": round(cell["held_per_op"], 6),
        "longest": cell["longest"],
        "locks": cell["locks"],
        "cpus": cell["cpus"],
    }


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": as_csv,
    "json": as_json,
}
