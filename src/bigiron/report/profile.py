"""What `bigiron compare --by function` and `--by chain` show: profiles compared, base against new."""

import csv
import io
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from bigiron.analysis import profiles
from bigiron.analysis.profiles import Figure, Weights
from bigiron.report import listing, lkp, stacks
from bigiron.report.variants import Variants
from bigiron.study.store import CellRecord, Study

By = Literal["function", "chain"]
_SHOWN = {"function": 40, "chain": 15}  # in text and Markdown
_LEAST = 0.0005  # of a figure, in any variant: what shows in three decimals
_WIDTH = 100


@dataclass(frozen=True)
class Point(Variants):
    """The figures at one number of CPUs and tasks, the largest change first."""

    figures: list[Figure]


@dataclass(frozen=True)
class Comparison:
    """A study's stacks compared, function by function or chain by chain."""

    study: str
    workload: str
    probe: str
    by: By
    what: str  # that is counted, per operation
    contexts: tuple[str, ...]
    points: list[Point]


def compare_study(
    study: Study, probe: str, by: By, base: str | None, contexts: tuple[str, ...]
) -> Comparison:
    """Compare the stacks of a study's variants at each number of CPUs and tasks."""
    stacks.source(probe)
    base = study.base(base)
    points: list[Point] = []
    records: list[CellRecord] = []
    for (cpus, tasks), measured in study.measured(probe).items():
        records += chain(*measured.values())
        weighed = stacks.by_repetition(study, probe, contexts, measured)
        first = base if base in weighed else next(iter(weighed))
        points.append(Point(cpus, tasks, list(weighed), first, figures_of(weighed, by, first)))
    what = stacks.what(probe, records)
    return Comparison(study.name, study.spec.workload, probe, by, what, contexts, points)


def figures_of(weighed: Mapping[str, Sequence[Weights]], by: By, base: str) -> list[Figure]:
    """The functions or the chains of one point."""
    figures = profiles.functions(weighed) if by == "function" else profiles.chains(weighed)
    return profiles.ranked(figures, base, weighed)


def text(comparison: Comparison) -> str:
    """For a terminal or a mail: as the kernel test robot lays it out, for each variant against the base."""
    texts = ("".join(f"{line.rstrip()}\n" for line in _text_of(comparison, p)) for p in comparison.points)
    return "\n".join(texts)


def _text_of(comparison: Comparison, point: Point) -> Iterator[str]:
    yield from textwrap.wrap(_heading(comparison, point), _WIDTH)
    for new in point.others or [point.base]:
        figures = [one for one in point.figures if max(one.mean(point.base), one.mean(new)) >= _LEAST]
        figures = profiles.ranked(figures, point.base, [new])
        shown = figures[: _SHOWN[comparison.by]]
        yield ""
        yield from lkp.head(point.base, new)
        yield from lkp.lines(shown, point.base, new, _WIDTH, as_stacks=comparison.by == "chain")
        if len(figures) > len(shown):
            yield f"{len(figures) - len(shown)} more (--format csv has all)"


def _heading(comparison: Comparison, point: Point) -> str:
    by = {"function": "by function, with all that it called", "chain": "by call chain"}[comparison.by]
    return (
        f"{comparison.workload}, {point.cpus} CPUs, {point.tasks} tasks: {comparison.what} per operation "
        f"{by}, in {' and '.join(comparison.contexts)} context"
    )


def markdown(comparison: Comparison) -> str:
    """Tables as GitHub and most wikis render them."""
    tables = []
    for point in comparison.points:
        names = [f"{name}, change" if name in point.others else name for name in point.variants]
        rows = []
        for figure in point.figures[: _SHOWN[comparison.by]]:
            cells = []
            for variant in point.variants:
                changed = lkp.change(figure, point.base, variant) if variant in point.others else ""
                cells.append(f"{lkp.number(figure.mean(variant))} {changed}".strip())
            rows.append([*cells, listing.code(figure.name)])
        table = listing.markdown([*names, comparison.by], rows, "r" * len(names) + "l")
        tables.append(f"{_heading(comparison, point)}\n\n{table}")
    return "\n".join(tables)


def as_csv(comparison: Comparison) -> str:
    """One line a function or chain and variant (docs/schema.md)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["cpus", "tasks", comparison.by, "variant", "mean_per_op", "repetitions"])
    for point in comparison.points:
        for figure in point.figures:
            for variant, values in figure.values.items():
                mean = round(figure.mean(variant), 6)
                writer.writerow([point.cpus, point.tasks, figure.name, variant, mean, len(values)])
    return out.getvalue()


def as_json(comparison: Comparison) -> str:
    """All of them, with the value of each repetition (docs/schema.md)."""
    document = {
        "study": comparison.study,
        "workload": comparison.workload,
        "probe": comparison.probe,
        "by": comparison.by,
        "contexts": comparison.contexts,
        "rows": [
            {
                "cpus": point.cpus,
                "tasks": point.tasks,
                comparison.by: figure.name,
                "cells": {
                    variant: {"per_op": [round(value, 6) for value in values]}
                    for variant, values in figure.values.items()
                },
            }
            for point in comparison.points
            for figure in point.figures
        ],
    }
    return listing.as_json(document)


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": as_csv,
    "json": as_json,
}
