"""What `bigiron compare --probe operations` shows: what a round of operations took in each variant."""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, stdev

import polars as pl

from bigiron.report import listing
from bigiron.report.listing import plain
from bigiron.study.store import Study

_WIDTH = 34  # of the first column


@dataclass(frozen=True)
class Measure:
    """One thing that is measured of each operation: a column of the probe's table."""

    column: str
    title: str
    scale: float = 1.0


MEASURES = (
    Measure("nanoseconds", "wall time, s", 1e-9),
    Measure("system_ns", "of it in the kernel, s", 1e-9),
    Measure("voluntary", "context switches to wait"),
    Measure("involuntary", "other context switches"),
    Measure("grace_periods", "normal grace periods waited for"),
    Measure("expedited", "expedited grace periods"),
)


@dataclass(frozen=True)
class Sums:
    """A measure, summed over the operations of each repetition; empty where the kernel does not tell."""

    measure: Measure
    of_rounds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of the repetitions."""
        return fmean(self.of_rounds)

    @property
    def spread(self) -> float | None:
        """Their standard deviation; None of one repetition."""
        return stdev(self.of_rounds) if len(self.of_rounds) > 1 else None


@dataclass(frozen=True)
class Point:
    """What each variant took to put so many CPUs into a state."""

    cpus: int
    state: str
    operations: int
    base: str
    variants: dict[str, list[Sums]]

    def change(self, variant: str, row: int) -> float | None:
        """By how much, as a share, a measure's mean differs from the base's."""
        ours, theirs = self.variants[variant][row], self.variants[self.base][row]
        if variant == self.base or not ours.of_rounds or not theirs.of_rounds or not theirs.mean:
            return None
        return ours.mean / theirs.mean - 1


@dataclass(frozen=True)
class Comparison:
    """A study's operations, at each number of CPUs."""

    study: str
    workload: str
    time: str  # VM time, or real time
    points: list[Point]


def compare_study(study: Study, base: str | None) -> Comparison:
    """Sum what the operations of every round took."""
    rows = study.tables("operations")
    names = [variant.name for variant in study.spec.variant]
    points = []
    for (cpus, state), here in rows.group_by("cpus", "state", maintain_order=True):
        measured = set(here["variant"])
        variants = {name: _sums(here.filter(variant=name)) for name in names if name in measured}
        first = study.base(base)
        points.append(
            Point(
                int(str(cpus)),
                str(state),
                here["operation"].n_unique(),
                first if first in variants else next(iter(variants)),
                variants,
            )
        )
    return Comparison(study.name, study.spec.workload, study.time, points)


def _sums(rows: pl.DataFrame) -> list[Sums]:
    rounds = rows.group_by("repetition").agg(
        pl.when(pl.col(measure.column).has_nulls()).then(None).otherwise(pl.col(measure.column).sum())
        .alias(measure.column)
        for measure in MEASURES
    )  # fmt: skip
    return [
        Sums(measure, tuple(value * measure.scale for value in rounds[measure.column] if value is not None))
        for measure in MEASURES
    ]


def text(comparison: Comparison) -> str:
    """For a terminal or a mail."""
    return "\n\n".join(_text_of(comparison, point) for point in comparison.points) + "\n"


def _text_of(comparison: Comparison, point: Point) -> str:
    plural = "s" if point.operations > 1 else ""
    repetitions = max(len(sums.of_rounds) for each in point.variants.values() for sums in each)
    lines = [
        f"{comparison.workload}, {point.cpus} CPUs, {point.state}: {point.operations} operation{plural}, "
        f"mean of {repetitions} repetition{'s' if repetitions > 1 else ''}"
        f"{' +- standard deviation' if repetitions > 1 else ''}",
        "",
    ]
    width = max(26, *(len(name) + 2 for name in point.variants))
    lines.append(" " * _WIDTH + "".join(f"{name:>{width}}" for name in point.variants))
    for row, measure in enumerate(MEASURES):
        figures = "".join(f"{_figure(point, name, row):>{width}}" for name in point.variants)
        lines.append(f"{measure.title:{_WIDTH}}{figures}")
    if comparison.time == "VM time":
        lines += ["", "Times are VM times: how they compare means more than what they are."]
    return "\n".join(line.rstrip() for line in lines)


def _figure(point: Point, variant: str, row: int) -> str:
    sums = point.variants[variant][row]
    if not sums.of_rounds:
        return "not told"
    digits = 3 if sums.measure.scale != 1 else 0 if sums.mean == int(sums.mean) else 1
    spread = f" +- {sums.spread:.{digits}f}" if sums.spread is not None else ""
    change = point.change(variant, row)
    return f"{sums.mean:.{digits}f}{spread}" + (f" {change:+.0%}" if change is not None else "")


def markdown(comparison: Comparison) -> str:
    """Tables as GitHub and most wikis render them."""
    tables = []
    for point in comparison.points:
        headings = [f"{point.cpus} CPUs, {point.state}", *point.variants]
        rows = [
            [plain(measure.title), *(plain(_figure(point, name, row)) for name in point.variants)]
            for row, measure in enumerate(MEASURES)
        ]
        tables.append(listing.markdown(headings, rows, "l" + "r" * len(point.variants)))
    return "\n".join(tables)


def as_csv(comparison: Comparison) -> str:
    """One line a measure and variant (docs/schema.md)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["cpus", "state", "operations", "variant", "measure", "mean", "standard_deviation", "repetitions"]
    )
    for point in comparison.points:
        for variant, sums in point.variants.items():
            for one in filter(lambda one: one.of_rounds, sums):
                writer.writerow(
                    [
                        point.cpus,
                        point.state,
                        point.operations,
                        variant,
                        one.measure.column,
                        round(one.mean, 9),
                        "" if one.spread is None else round(one.spread, 9),
                        len(one.of_rounds),
                    ]
                )
    return out.getvalue()


def as_json(comparison: Comparison) -> str:
    """Every repetition's sums (docs/schema.md)."""
    document = {
        "study": comparison.study,
        "workload": comparison.workload,
        "points": [
            {
                "cpus": point.cpus,
                "state": point.state,
                "operations": point.operations,
                "cells": {
                    variant: {
                        one.measure.column: [round(value, 9) for value in one.of_rounds] for one in sums
                    }
                    for variant, sums in point.variants.items()
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
