"""What `bigiron compare --probe functions` shows: what the traced functions took in each variant."""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from bigiron.analysis import functions
from bigiron.report import listing
from bigiron.report.listing import code, plain
from bigiron.study.store import CellRecord, Study

_SHOWN = 40  # functions in text and Markdown
_COLUMNS = ("calls", "total ms", "own ms", "min us", "median us", "p99 us", "max us")


@dataclass(frozen=True)
class Traced:
    """What was traced of one variant: a row a function (analysis/functions.py), and all paths."""

    profile: pl.DataFrame
    tree: list[tuple[str, int, int, int]]
    absent: list[str]  # functions asked for that the kernel lacks
    lost_events: int
    tracing_ns: float  # what tracing itself took, about

    def figures(self, function: str) -> dict[str, float] | None:
        """A function's row, or None where it was not called."""
        rows = self.profile.filter(function=function)
        return rows.row(0, named=True) if len(rows) else None


@dataclass(frozen=True)
class Point:
    """What each variant's functions took with so many CPUs."""

    cpus: int
    variants: dict[str, Traced]

    @property
    def functions(self) -> list[str]:
        """All that were traced, the longest total first."""
        longest: dict[str, float] = {}
        for traced in self.variants.values():
            for function, total in traced.profile.select("function", "total_ns").iter_rows():
                longest[function] = max(longest.get(function, 0.0), total)
        return sorted(longest, key=lambda function: (-longest[function], function))


@dataclass(frozen=True)
class Comparison:
    """A study's traced functions, at each number of CPUs."""

    study: str
    workload: str
    time: str  # VM time, or real time
    points: list[Point]


def compare_study(study: Study) -> Comparison:
    """Put what the functions took side by side."""
    points = [
        Point(cpus, {name: _traced(study, records) for name, records in variants.items()})
        for (cpus, _tasks), variants in study.measured("functions").items()
    ]
    return Comparison(study.name, study.spec.workload, study.time, points)


def _traced(study: Study, records: list[CellRecord]) -> Traced:
    """Of all repetitions together."""
    calls = pl.concat([study.table(record, "functions") for record in records])
    facts = [record.facts["functions"] for record in records]
    return Traced(
        functions.profile(calls),
        functions.tree(calls),
        facts[0]["absent"],
        sum(each["lost_events"] for each in facts),
        sum(each["tracing_ns"] for each in facts),
    )


def text(comparison: Comparison, with_tree: bool = False) -> str:
    """For a terminal or a mail; the call trees below if wanted."""
    return "\n\n".join("\n".join(_text_of(comparison, p, with_tree)) for p in comparison.points) + "\n"


def _text_of(comparison: Comparison, point: Point, with_tree: bool) -> Iterator[str]:
    width = max(12, *(len(name) + 2 for name in point.variants))
    heading = f"{comparison.workload}, {point.cpus} CPUs: time in kernel functions"
    yield f"{heading}, {comparison.time} (waiting included)"
    yield ""
    yield f"{'function':38}{'':{width}}{''.join(f'{name:>10}' for name in _COLUMNS)}"
    for function in point.functions[:_SHOWN]:
        title = _cut(function, 38)
        for variant, traced in point.variants.items():
            figures = traced.figures(function)
            numbers = _row(figures) if figures else f"{_why_not(traced, function):>10}"
            yield f"{title:38}{variant:{width}}{numbers}"
            title = ""
    if len(point.functions) > _SHOWN:
        yield f"{len(point.functions) - _SHOWN} more functions (--format csv has all)"
    yield ""
    for variant, traced in point.variants.items():
        yield f"{variant}: {_notes(traced)}"
        if with_tree:
            yield from (f"  {line}" for line in _tree(traced.tree))


def _row(figures: dict[str, float]) -> str:
    numbers = [
        f"{figures['calls']}",
        *(f"{figures[name] / 1e6:.3f}" for name in ("total_ns", "own_ns")),
        *(f"{figures[name] / 1e3:.1f}" for name in ("min_ns", "median_ns", "p99_ns", "max_ns")),
    ]
    return "".join(f"{number:>10}" for number in numbers)


def _why_not(traced: Traced, function: str) -> str:
    return "absent" if function in traced.absent else "-"


def _tree(tree: list[tuple[str, int, int, int]]) -> Iterator[str]:
    for path, calls, total, own in tree:
        *above, function = path.split(";")
        yield f"{'  ' * len(above)}{function}  {calls} calls, {total / 1e6:.3f} ms, own {own / 1e6:.3f} ms"


def _notes(traced: Traced) -> str:
    notes = [f"tracing itself took about {traced.tracing_ns / 1e6:.1f} ms of it"]
    if traced.absent:
        notes.append(f"the kernel has no {', '.join(traced.absent)}")
    if traced.lost_events:
        notes.append(f"{traced.lost_events} events found no room: the first calls of each CPU are shown")
    return "; ".join(notes)


def _cut(text: str, width: int) -> str:
    return text if len(text) < width else text[: width - 3] + ".. "


def markdown(comparison: Comparison) -> str:
    """Tables as GitHub and most wikis render them."""
    tables = []
    for point in comparison.points:
        rows = []
        for function in point.functions[:_SHOWN]:
            for variant, traced in point.variants.items():
                figures = traced.figures(function)
                numbers = _row(figures).split() if figures else [_why_not(traced, function)]
                rows.append([code(function), *map(plain, (variant, *numbers))])
        headings = [f"function, {point.cpus} CPUs", "variant", *_COLUMNS]
        tables.append(listing.markdown(headings, rows, "ll" + "r" * len(_COLUMNS)))
    return "\n".join(tables)


def as_csv(comparison: Comparison) -> str:
    """One line a function and variant (docs/schema.md)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["cpus", "variant", *functions.SCHEMA])
    for point in comparison.points:
        for variant, traced in point.variants.items():
            writer.writerows([point.cpus, variant, *row] for row in traced.profile.iter_rows())
    return out.getvalue()


def as_json(comparison: Comparison) -> str:
    """All functions, and what was lost (docs/schema.md)."""
    document = {
        "study": comparison.study,
        "workload": comparison.workload,
        "points": [
            {
                "cpus": point.cpus,
                "cells": {
                    variant: {
                        "functions": traced.profile.to_dicts(),
                        "absent": traced.absent,
                        "lost_events": traced.lost_events,
                        "tracing_ns": traced.tracing_ns,
                    }
                    for variant, traced in point.variants.items()
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
