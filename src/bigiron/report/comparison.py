"""What `bigiron compare` shows, in the formats people paste: text, Markdown, CSV, JSON."""

import csv
import io
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from bigiron.analysis import conflicts, match_lines, paths
from bigiron.analysis.match_lines import Line, Row
from bigiron.probes.conflicts import ConflictsOptions
from bigiron.report import listing
from bigiron.report.listing import code, plain
from bigiron.report.variants import Variants
from bigiron.study.store import CellRecord, Study

_SHOWN = (
    match_lines.TOLERANCE
)  # accesses per operation below which a row is only counted, in text and Markdown
_SMALL = 0.5  # accesses per operation below which rows are alike if their hottest function is the same
_WIDTH = 100  # of the text: fits a mail's reader and a terminal
_OBJECT_WIDTH = 34
_MOST_FUNCTIONS = 8
_MOST_CPUS = 8
_OF = {"kernel": "", "user": "of the kernel and of user memory "}


@dataclass(frozen=True)
class Point(Variants):
    """The comparison at one number of CPUs and tasks."""

    rows: list[Row]  # largest change first, then heaviest
    lost: dict[str, int]  # accesses that no table had room for, by variant
    recycled: dict[str, tuple[float, float]]  # lines of recycled memory and accesses per operation to them

    def total(self, variant: str) -> tuple[float, float]:
        """Writes and accesses per operation of all shared lines."""
        return sum(row.writes(variant) for row in self.rows), sum(row.accesses(variant) for row in self.rows)

    def groups(self) -> list["Group"]:
        """Rows that are alike put together: for instance the pages of one slab cache."""
        groups: dict[tuple[object, ...], list[Row]] = {}
        for row in self.rows:
            kind, marked = match_lines.kind(row.object), row.differs(self.base, self.others)
            small = max(row.accesses(variant) for variant in self.variants) < _SMALL
            one_of_many = small or kind == "struct page"
            touched_by = row.functions[0] if one_of_many else frozenset(row.functions)
            groups.setdefault((kind, touched_by, marked), []).append(row)
        return sorted(map(Group, groups.values()), key=self._rank)

    def _rank(self, group: "Group") -> tuple[float, float]:
        """The largest change first, then the heaviest."""
        marked = group.rows[0].differs(self.base, self.others)
        change = abs(sum(row.change(self.base, self.others) for row in group.rows))
        return (-change if marked else 0.0, -group.heaviest(self.variants))


@dataclass(frozen=True)
class Group:
    """Lines of one kind that the same functions touch, shown as one; the figures are their sums."""

    rows: list[Row]

    @property
    def name(self) -> str:
        """What the lines are, and how many."""
        first = self.rows[0].object
        if len(self.rows) == 1:
            return first
        return f"{len(self.rows)} x {match_lines.common([row.object for row in self.rows])}"

    def figures(self, variant: str) -> str:
        """Writes and accesses per operation, the most CPUs that write and that read any of them."""
        lines = [row.lines[variant] for row in self.rows if variant in row.lines]
        if not lines:
            return "-" + " " * 6
        writes, accesses = (
            sum(line.writes_per_op for line in lines),
            sum(line.accesses_per_op for line in lines),
        )
        writers, readers = max(line.writers for line in lines), max(line.readers for line in lines)
        return f"{writes:.3f}  {accesses:7.3f} {writers:>2}/{readers:<2}"

    @property
    def paths(self) -> list[str]:
        """By which call paths the lines are reached, hottest first."""
        total: dict[str, float] = {}
        for row in self.rows:
            for line in row.lines.values():
                for path, weight in line.paths.items():
                    total[path] = total.get(path, 0) + weight
        return sorted(total, key=lambda path: (-total[path], path))

    def by_path(self, variant: str, path: str) -> float:
        """Accesses per operation by one path in a column."""
        return sum(row.lines[variant].paths.get(path, 0) for row in self.rows if variant in row.lines)

    def heaviest(self, variants: list[str]) -> float:
        """Accesses per operation in the column where they are most."""
        return max(sum(row.accesses(variant) for row in self.rows) for variant in variants)


@dataclass(frozen=True)
class Comparison:
    """A study's shared lines, at each point that it measured."""

    study: str
    workload: str
    operations: int
    contexts: tuple[str, ...]
    scope: str
    points: list[Point]
    most_paths: int = 0  # call paths to show for each line, in text


def compare_study(
    study: Study, base: str | None, contexts: tuple[str, ...], most_paths: int = 0
) -> Comparison:
    """Compare the variants of a study, from its conflicts. The base is the first variant unless named."""
    base = study.base(base)
    points = [
        _point(study, variants, cpus, tasks, base, contexts)
        for (cpus, tasks), variants in study.measured("conflicts").items()
    ]
    spec = study.spec
    return Comparison(
        study.name,
        spec.workload,
        study.operations("conflicts"),
        contexts,
        spec.options[ConflictsOptions].scope,
        points,
        most_paths,
    )


def _point(
    study: Study,
    measured: dict[str, list[CellRecord]],
    cpus: int,
    tasks: int,
    base: str,
    contexts: tuple[str, ...],
) -> Point:
    columns: dict[str, list[match_lines.Line]] = {}
    lost: dict[str, int] = {}
    recycled: dict[str, tuple[float, float]] = {}
    for variant, records in measured.items():
        profiles = [_profile(study, record, contexts) for record in records]
        columns[variant] = match_lines.mean([match_lines.lines_of(profile) for profile in profiles])
        lost[variant] = sum(record.facts["conflicts"]["lost_accesses"] for record in records)
        again = pl.concat(profiles).filter("recycled")
        accesses = float(again["accesses_per_op"].sum())
        recycled[variant] = (again.height / len(records), accesses / len(records))
    base = base if base in columns else next(iter(columns))
    others = [variant for variant in columns if variant != base]
    rows = sorted(
        match_lines.match(columns),
        key=lambda row: (
            -abs(row.change(base, others)) if row.differs(base, others) else 0.0,
            -max(row.accesses(variant) for variant in columns),
            row.object,
            row.functions,
        ),
    )
    return Point(cpus, tasks, list(columns), base, rows, lost, recycled)


def _profile(study: Study, record: CellRecord, contexts: tuple[str, ...]) -> pl.DataFrame:
    operations = sum(record.facts["conflicts"]["operations"])
    return conflicts.profile(study.table(record, "conflicts"), operations, contexts)


def text(comparison: Comparison) -> str:
    """For a terminal or a mail: at most 100 columns with up to two variants."""
    return "\n\n".join(_text_of(comparison, point) for point in comparison.points) + "\n"


def _text_of(comparison: Comparison, point: Point) -> str:
    width = max(24, *(len(variant) + 2 for variant in point.variants))
    lines = textwrap.wrap(_heading(comparison, point), _WIDTH)
    lines += ["", " " * _OBJECT_WIDTH + "".join(f"{variant:>{width}}" for variant in point.variants)]
    lines.append(
        f"{'  shared line':{_OBJECT_WIDTH}}" + f"{'writes accesses  W/R':>{width}}" * len(point.variants)
    )
    shown, hidden = _shown(point)
    for group in shown:
        row = group.rows[0]
        mark = "* " if point.others and row.differs(point.base, point.others) else "  "
        figures = "".join(f"{group.figures(variant):>{width}}" for variant in point.variants)
        lines += _beside(f"{mark}{group.name}", figures)
        for words in filter(None, (_touched_by(row), bytes_by_cpu(row))):
            lines += textwrap.wrap(words, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
        lines += [line for path in group.paths[: comparison.most_paths] for line in _path(point, group, path)]
    lines.append(
        f"{'  all shared lines':{_OBJECT_WIDTH}}"
        + "".join(f"{'{:.3f}  {:7.3f}'.format(*point.total(v)) + ' ' * 6:>{width}}" for v in point.variants)
    )
    return "\n".join(line.rstrip() for line in [*lines, "", *_notes(point, hidden)])


def _heading(comparison: Comparison, point: Point) -> str:
    return (
        f"{comparison.workload}, {point.cpus} CPUs, {point.tasks} tasks: writes and accesses per operation "
        f"to cache lines {_OF[comparison.scope]}that several CPUs share, "
        f"in {' and '.join(comparison.contexts)} context "
        f"({comparison.operations} operations a task; counts, not times; W/R: CPUs that write and read)"
    )


def _path(point: Point, group: Group, path: str) -> list[str]:
    """A call path with its accesses per operation in each variant, folded where it is too long."""
    figures = " ".join(f"{group.by_path(variant, path):7.3f}" for variant in point.variants)
    functions = paths.short(path).replace(";", "; ")
    indent = " " * (8 + len(figures))
    return textwrap.wrap(functions, _WIDTH, initial_indent=f"      {figures}  ", subsequent_indent=indent)


def _touched_by(row: Row) -> str:
    functions = row.functions
    more = f" and {len(functions) - _MOST_FUNCTIONS} more" if len(functions) > _MOST_FUNCTIONS else ""
    sharing = f"{', '.join(row.sharing)}: " if row.sharing else ""
    return sharing + ", ".join(functions[:_MOST_FUNCTIONS]) + more


def bytes_by_cpu(row: Row) -> str:
    """Which bytes of a falsely shared line each CPU touches."""
    found = [f"CPU {cpu} bytes {bytes}" for cpu, bytes in row.offsets.items()]
    more = f" and {len(found) - _MOST_CPUS} more" if len(found) > _MOST_CPUS else ""
    return ", ".join(found[:_MOST_CPUS]) + more


def _shown(point: Point) -> tuple[list[Group], int]:
    """The groups worth a line, and how many lines are in the others."""
    groups = point.groups()
    shown = [group for group in groups if group.heaviest(point.variants) >= _SHOWN]
    return shown, len(point.rows) - sum(len(group.rows) for group in shown)


def _notes(point: Point, hidden: int) -> list[str]:
    notes = []
    if point.others:
        notes.append(
            f"* differs from {point.base} by more than {match_lines.TOLERANCE} per operation and 1 %; "
            "-: not shared there"
        )
    if hidden:
        notes.append(f"{hidden} more lines below {_SHOWN} accesses per operation (--format csv has all)")
    notes += lost_and_recycled(point)
    return [line for note in notes for line in textwrap.wrap(note, _WIDTH, subsequent_indent="  ")]


def lost_and_recycled(point: Point) -> list[str]:
    """What is missing in the figures, in words."""
    notes = []
    for variant, (lines, accesses) in point.recycled.items():
        if accesses >= _SHOWN:
            notes.append(
                f"{variant}: not counted above: {lines:.0f} lines of memory that one CPU freed and another "
                f"allocated again ({accesses:.3f} accesses per operation)"
            )
    for variant, lost in point.lost.items():
        if lost:
            notes.append(f"{variant}: the recorder had no room for {lost} accesses: its figures are too low")
    return notes


def _beside(name: str, figures: str) -> list[str]:
    """A name and its figures in one line, or in two if the name is long."""
    if len(name) < _OBJECT_WIDTH:
        return [f"{name:{_OBJECT_WIDTH}}{figures}"]
    return [name, " " * _OBJECT_WIDTH + figures]


def markdown(comparison: Comparison) -> str:
    """Tables as GitHub and most wikis render them."""
    return "\n\n".join(_markdown_of(comparison, point) for point in comparison.points) + "\n"


def _markdown_of(comparison: Comparison, point: Point) -> str:
    rows = []
    shown, hidden = _shown(point)
    for group in shown:
        row = group.rows[0]
        mark = "*" if point.others and row.differs(point.base, point.others) else ""
        figures = [" ".join(group.figures(variant).split()) for variant in point.variants]
        functions = ", ".join(map(code, row.functions[:_MOST_FUNCTIONS]))
        rows.append([*map(plain, (mark, group.name, ", ".join(row.sharing), *figures)), functions])
    totals = ["{:.3f} {:.3f}".format(*point.total(variant)) for variant in point.variants]
    rows.append(["", "all shared lines", "", *totals, ""])
    headings = ["", "shared line", "sharing", *point.variants, "touched by"]
    table = listing.markdown(headings, rows, "lll" + "r" * len(point.variants) + "l")
    return "\n".join([plain(_heading(comparison, point)), "", table, *map(plain, _notes(point, hidden))])


def as_csv(comparison: Comparison) -> str:
    """One line a shared line and variant, all of them (docs/schema.md)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["cpus", "tasks", "row", "object", "functions", "sharing", "false_sharing", "differs",
         "variant",
         "writes_per_op", "accesses_per_op", "writers", "readers"]
    )  # fmt: skip
    for point in comparison.points:
        for number, row in enumerate(point.rows):
            marks = (int(row.false_sharing), int(row.differs(point.base, point.others)))
            texts = (row.object, " ".join(row.functions), ", ".join(row.sharing))
            what = (point.cpus, point.tasks, number, *texts, *marks)
            for variant, line in row.lines.items():
                writer.writerow([*what, variant, *_figures(line).values()])
    return out.getvalue()


def as_json(comparison: Comparison) -> str:
    """The documented, stable schema (docs/schema.md), all rows."""
    document = {
        "study": comparison.study,
        "workload": comparison.workload,
        "operations": comparison.operations,
        "contexts": comparison.contexts,
        "scope": comparison.scope,
        "rows": [
            {
                "cpus": point.cpus,
                "tasks": point.tasks,
                "object": row.object,
                "functions": row.functions,
                "paths": [
                    {
                        "path": path,
                        "accesses_per_op": {
                            variant: round(line.paths[path], 6)
                            for variant, line in row.lines.items()
                            if path in line.paths
                        },
                    }
                    for path in row.paths
                ],
                "sharing": [{"kind": kind, "because": why} for kind, why in row.sharing.items()],
                "false_sharing": row.false_sharing,
                "offsets": {variant: line.offsets for variant, line in row.lines.items() if line.offsets},
                "differs": row.differs(point.base, point.others),
                "cells": {variant: _figures(line) for variant, line in row.lines.items()},
            }
            for point in comparison.points
            for row in point.rows
        ],
        "totals": [
            {
                "cpus": point.cpus,
                "tasks": point.tasks,
                "lost_accesses": point.lost,
                "recycled": {
                    variant: {"lines": lines, "accesses_per_op": round(accesses, 6)}
                    for variant, (lines, accesses) in point.recycled.items()
                },
                "cells": {
                    variant: dict(
                        zip(("writes_per_op", "accesses_per_op"), point.total(variant), strict=True)
                    )
                    for variant in point.variants
                },
            }
            for point in comparison.points
        ],
    }
    return listing.as_json(document)


def _figures(line: Line) -> dict[str, Any]:
    return {
        "writes_per_op": round(line.writes_per_op, 6),
        "accesses_per_op": round(line.accesses_per_op, 6),
        "writers": line.writers,
        "readers": line.readers,
    }


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": as_csv,
    "json": as_json,
}
