"""What `bigiron compare --probe efficiency` shows: how much of the CPUs tasks get, who takes the rest."""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from bigiron.analysis import efficiency
from bigiron.report import listing
from bigiron.report.listing import plain
from bigiron.study.store import Study

_HEADINGS = {
    "events": "by events",
    "/proc/stat": "by ticks (stat)",
    "/proc/schedstat": "by the scheduler (schedstat)",
}


@dataclass(frozen=True)
class Point:
    """Each variant's shares (analysis.efficiency.SHARES) with so many CPUs and tasks; facts of its cells."""

    cpus: int
    tasks: int
    variants: dict[str, pl.DataFrame]
    facts: dict[str, dict[str, Any]]

    def whats(self, source: str) -> list[tuple[str, str]]:
        """Kind and name of everything that a source tells of, the largest share in any variant first."""
        shares = pl.concat(list(self.variants.values())).filter(source=source)
        largest = shares.group_by("kind", "name").agg(pl.col("mean").max())
        ordered = largest.filter(pl.col("mean") > 0).sort(
            "mean", "kind", "name", descending=[True, False, False]
        )
        return [(kind, name) for kind, name, _ in ordered.iter_rows()]


@dataclass(frozen=True)
class Comparison:
    """A study's shares of CPU time, at each number of CPUs and tasks."""

    study: str
    workload: str
    time: str  # VM time, or real time
    points: list[Point]


def compare_study(study: Study) -> Comparison:
    """Put the shares of a study's variants side by side."""
    points = []
    for (cpus, tasks), variants in study.measured("efficiency").items():
        shares = {
            name: efficiency.shares([study.table(record, "efficiency") for record in records])
            for name, records in variants.items()
        }
        facts = {name: records[-1].facts["efficiency"] for name, records in variants.items()}
        points.append(Point(cpus, tasks, shares, facts))
    return Comparison(study.name, study.spec.workload, study.time, points)


def text(comparison: Comparison) -> str:
    """For a terminal or a mail."""
    return "\n".join("\n".join(_text_of(comparison, point)) + "\n" for point in comparison.points)


def _text_of(comparison: Comparison, point: Point) -> Iterator[str]:
    width = max(25, *(len(name) + 2 for name in point.variants))
    yield (
        f"{comparison.workload}, {point.cpus} CPUs, {point.tasks} tasks: shares of the CPUs' time in % "
        f"({comparison.time}; least and most: of one CPU)"
    )
    yield ""
    yield f"{'':30}{''.join(f'{name:>{width}}' for name in point.variants)}"
    for source, heading in _HEADINGS.items():
        whats = point.whats(source)
        if not whats:
            continue
        yield f"{heading:30}" + f"{'mean':>9}{'least':>8}{'most':>8}".rjust(width) * len(point.variants)
        for kind, name in whats:
            figures = [_figures(shares, source, kind, name, width) for shares in point.variants.values()]
            yield f"  {_title(kind, name):28}{''.join(figures)}".rstrip()
    for variant, facts in point.facts.items():
        if facts["why_not_bpf"]:
            yield f"{variant}: by its own accounts only: no BPF, as {facts['why_not_bpf']}"
        if facts["lost"]:
            yield f"{variant}: {facts['lost']} stretches of time found no room"


def _title(kind: str, name: str) -> str:
    return kind if kind == "workload" else f"{kind} {name}".strip()


def _figures(shares: pl.DataFrame, source: str, kind: str, name: str, width: int) -> str:
    found = shares.filter(source=source, kind=kind, name=name)
    if found.is_empty():
        return f"{'-':>{width}}"
    row = found.row(0, named=True)
    return f"{row['mean']:9.3f}{row['least']:8.2f}{row['most']:8.2f}".rjust(width)


def markdown(comparison: Comparison) -> str:
    """Tables as GitHub and most wikis render them."""
    tables = []
    for point in comparison.points:
        rows = []
        for source in _HEADINGS:
            for kind, name in point.whats(source):
                figures = [_figures(s, source, kind, name, 25).split() for s in point.variants.values()]
                cells = [cell for three in figures for cell in (three if len(three) == 3 else ["-", "", ""])]
                rows.append([plain(_title(kind, name)), plain(source), *cells])
        columns = [column for name in point.variants for column in (f"{name}, mean %", "least", "most")]
        headings = [f"{point.cpus} CPUs", "source", *columns]
        tables.append(listing.markdown(headings, rows, "ll" + "r" * len(columns)))
    return "\n".join(tables)


def as_csv(comparison: Comparison) -> str:
    """One line a variant, source, kind and name (docs/schema.md)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["cpus", "tasks", "variant", *efficiency.SHARES])
    for point in comparison.points:
        for variant, shares in point.variants.items():
            writer.writerows([point.cpus, point.tasks, variant, *row] for row in shares.iter_rows())
    return out.getvalue()


def as_json(comparison: Comparison) -> str:
    """Everything (docs/schema.md)."""
    document = {
        "study": comparison.study,
        "workload": comparison.workload,
        "points": [
            {
                "cpus": point.cpus,
                "tasks": point.tasks,
                "cells": {
                    variant: {**point.facts[variant], "rows": shares.to_dicts()}
                    for variant, shares in point.variants.items()
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
