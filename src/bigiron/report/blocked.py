"""What `bigiron compare --probe blocked` shows: where tasks waited in each variant, and their stacks."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from bigiron.analysis import blocked
from bigiron.report import listing
from bigiron.report.listing import code, plain
from bigiron.study.store import CellRecord, Study

_SHOWN = 20  # places in text and Markdown
_STACKS = 5
_ROW = ("context", "task", "pid", "tgid", "state", "path", "user_path", "count", "total_ns", "max_ns")


@dataclass(frozen=True)
class Waited:
    """The times of one variant: a row a task, stack and state, the longest total first, and by place."""

    rows: pl.DataFrame
    places: pl.DataFrame
    operations: int
    facts: dict[str, Any]

    def at(self, place: str, state: str) -> dict[str, Any] | None:
        """The row of a place, None where nobody waited there."""
        rows = self.places.filter(place=place, state=state)
        return rows.row(0, named=True) if len(rows) else None


@dataclass(frozen=True)
class Point:
    """Where each variant's tasks waited with so many CPUs and tasks."""

    cpus: int
    tasks: int
    variants: dict[str, Waited]

    @property
    def places(self) -> list[tuple[str, str]]:
        """All places and states, the longest total in any variant first."""
        longest: dict[tuple[str, str], int] = {}
        for waited in self.variants.values():
            for place, state, total in waited.places.select("place", "state", "total_ns").iter_rows():
                longest[place, state] = max(longest.get((place, state), 0), total)
        return sorted(longest, key=lambda place: (-longest[place], place))


@dataclass(frozen=True)
class Comparison:
    """A study's blocked times, at each number of CPUs and tasks."""

    study: str
    workload: str
    time: str  # VM time, or real time
    points: list[Point]


def compare_study(study: Study, contexts: Sequence[str]) -> Comparison:
    """Put the blocked times of a study's variants side by side."""
    points = [
        Point(cpus, tasks, {name: _waited(study, records, contexts) for name, records in variants.items()})
        for (cpus, tasks), variants in study.measured("blocked").items()
    ]
    return Comparison(study.name, study.spec.workload, study.time, points)


def _waited(study: Study, records: list[CellRecord], contexts: Sequence[str]) -> Waited:
    """Of all repetitions together."""
    rows = pl.concat([study.table(record, "blocked") for record in records])
    rows = rows.filter(pl.col("context").is_in(contexts)).sort("total_ns", descending=True)
    facts = [record.facts["blocked"] for record in records]
    together = {name: sum(each[name] for each in facts) for name in ("nanoseconds", "lost")}
    operations = sum(sum(each["operations"]) for each in facts)
    return Waited(rows, blocked.places(rows), operations, facts[0] | together)


def text(comparison: Comparison, stacks: int = _STACKS) -> str:
    """For a terminal or a mail: places side by side, then each variant's longest stacks in bcc's layout."""
    return "\n".join("\n".join(_text_of(comparison, point, stacks or _STACKS)) for point in comparison.points)


def _text_of(comparison: Comparison, point: Point, stacks: int) -> Iterator[str]:
    width = max(20, *(len(name) + 2 for name in point.variants))
    yield (
        f"{comparison.workload}, {point.cpus} CPUs, {point.tasks} tasks: "
        f"time off the CPU and how often, per operation ({comparison.time})"
    )
    yield ""
    yield f"{'':60}{''.join(f'{name:>{width}}' for name in point.variants)}"
    yield f"{'waited in':60}" + f"{'ms':>10}{'times':>10}".rjust(width) * len(point.variants)
    for place, state in point.places[:_SHOWN]:
        title, *rest = _wrapped(f"{state} {place}", 60)
        figures = [_figures(waited, place, state, width) for waited in point.variants.values()]
        yield f"{title:60}{''.join(figures)}"
        yield from (f"    {line}" for line in rest)
    if len(point.places) > _SHOWN:
        yield f"{len(point.places) - _SHOWN} more places (--format csv has all)"
    for variant, waited in point.variants.items():
        yield ""
        yield f"{variant}: {_notes(waited)}"
        yield ""
        yield from _stacks(waited.rows.head(stacks))


def _figures(waited: Waited, place: str, state: str, width: int) -> str:
    row = waited.at(place, state)
    if row is None:
        return f"{'-':>{width}}"
    operations = max(1, waited.operations)
    return f"{row['total_ns'] / 1e6 / operations:10.3f}{row['count'] / operations:10.3f}".rjust(width)


def _wrapped(words: str, width: int) -> list[str]:
    lines = [""]
    for word in words.split(" < "):
        longer = f"{lines[-1]} < {word}" if lines[-1] else word
        if len(longer) < width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(f"< {word}")
    return lines


def _stacks(rows: pl.DataFrame) -> Iterator[str]:
    """Stack, innermost first, task (pid), microseconds: bcc's layout."""
    for row in rows.iter_rows(named=True):
        yield from (f"    {frame}" for frame in reversed(row["path"].split(";")))
        if row["user_path"]:
            yield "    --"
            yield from (f"    {frame}" for frame in reversed(row["user_path"].split(";")))
        yield f"    -                {row['task']} ({row['pid']})"
        yield f"        {row['total_ns'] // 1000}"
        yield ""


def _notes(waited: Waited) -> str:
    facts = waited.facts
    notes = [f"{waited.operations} operations in {facts['nanoseconds'] / 1e6:.1f} ms"]
    if facts["way"] != "bpf":
        notes.append(f"by the scheduler's events, to the microsecond: no BPF, as {facts['why_not_bpf']}")
    if facts["lost"]:
        notes.append(f"{facts['lost']} times found no room")
    return "; ".join(notes) + "; the stacks that waited longest, with microseconds in all"


def markdown(comparison: Comparison) -> str:
    """Tables as GitHub and most wikis render them."""
    tables = []
    for point in comparison.points:
        rows = []
        for place, state in point.places[:_SHOWN]:
            figures = [_figures(waited, place, state, 20).split() for waited in point.variants.values()]
            cells = [cell for pair in figures for cell in (pair[0], pair[-1])]
            rows.append([code(place), plain(state), *cells])
        columns = [column for name in point.variants for column in (f"{name}, ms/op", "times/op")]
        headings = [f"waited in, {point.cpus} CPUs", "state", *columns]
        tables.append(listing.markdown(headings, rows, "ll" + "r" * len(columns)))
    return "\n".join(tables)


def as_csv(comparison: Comparison) -> str:
    """One line a task, stack and state (docs/schema.md)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["cpus", "tasks", "variant", *_ROW])
    for point in comparison.points:
        for variant, waited in point.variants.items():
            writer.writerows(
                [point.cpus, point.tasks, variant, *row] for row in waited.rows.select(_ROW).iter_rows()
            )
    return out.getvalue()


def as_json(comparison: Comparison) -> str:
    """Everything, histograms too (docs/schema.md)."""
    document = {
        "study": comparison.study,
        "workload": comparison.workload,
        "points": [
            {
                "cpus": point.cpus,
                "tasks": point.tasks,
                "cells": {
                    variant: {**waited.facts, "operations": waited.operations, "rows": waited.rows.to_dicts()}
                    for variant, waited in point.variants.items()
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
