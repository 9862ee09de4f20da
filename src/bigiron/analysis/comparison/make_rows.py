"""How a probe's module makes the rows of a comparison: figures joined and added up, and what marks mean."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bigiron.analysis.comparison.model import ComparedRow, Measure
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.analysis.statistics import spread
from bigiron.analysis.statistics.spread import Boots
from bigiron.analysis.statistics.verdict import Verdict
from bigiron.util.english import plural


def joined(
    cells: Mapping[str, Sequence[Iterable[tuple[Any, Sequence[float]]]]],
    measures: Sequence[Measure],
    called: Callable[[Any], str] = str,
) -> dict[Any, tuple[ComparedFigure, ...]]:
    """The figures of all variants and repetitions by the keys of their rows.

    >>> joined({"old": [[("f", (6.0,))], [("f", (4.0,))]]}, [Measure("self")])["f"][0].mean("old")
    5.0
    """
    found: dict[Any, list[dict[str, list[float]]]] = defaultdict(lambda: [{} for _ in measures])
    for variant, repetitions in cells.items():
        for number, rows in enumerate(repetitions):
            for key, values in rows:
                for by_variant, value in zip(found[key], values, strict=True):
                    by_variant.setdefault(variant, [0.0] * len(repetitions))[number] += value
    return {
        key: tuple(
            ComparedFigure(
                called(key), {variant: _over(measure, values) for variant, values in by_variant.items()}
            )
            for measure, by_variant in zip(measures, figures, strict=True)
        )
        for key, figures in found.items()
    }


def _over(measure: Measure, values: Sequence[float]) -> tuple[float, ...]:
    match measure.of_repetitions:
        case "most":
            return (max(values),)
        case "least":
            return (min(values),)
    return tuple(values)


def total(
    name: str,
    rows: Iterable[Sequence[ComparedFigure]],
    measures: Sequence[Measure],
    cells: Mapping[str, Sequence[object]],
    rank: int = 0,
) -> ComparedRow:
    """The sum of all rows, in the first measures as far as sums of them mean something."""
    all_rows = list(rows)
    adding = [number for number, measure in enumerate(measures) if measure.adds_up]
    figures = tuple(_sum(name, [row[number] for row in all_rows], cells) for number in adding)
    return ComparedRow(name, figures, rank=rank)


def _sum(
    name: str, figures: Sequence[ComparedFigure], cells: Mapping[str, Sequence[object]]
) -> ComparedFigure:
    return ComparedFigure(
        name,
        {
            variant: tuple(
                sum(one.values[variant][number] for one in figures if variant in one.values)
                for number in range(len(repetitions))
            )
            for variant, repetitions in cells.items()
        },
    )


def largest_change(figure: ComparedFigure, base: str, others: Sequence[str]) -> float:
    """The largest change from the base, signed."""
    return max((figure.change(base, variant) for variant in others), key=abs, default=0.0)


def verdict(
    counts: Iterable[tuple[ComparedFigure, float]],
    base: str,
    uneven: Mapping[str, float],
    boots: Mapping[str, int],
    relative: float = 0.01,
) -> Verdict | None:
    """Whether any of a row's counts changed in some variant; each count with what of it does not matter.

    `boots`: of all variants, how many there are; `uneven`: of variants, how much of a count per operation
    CPUs do not have the same share of, at most; all of it unless given. None where there is nothing to
    compare.
    """

    def of(figure: ComparedFigure, variant: str) -> Boots:
        values = figure.values.get(variant)
        if not values:
            return spread.none(boots[variant])
        return Boots(values, uneven=uneven.get(variant, math.inf))

    found = [
        spread.compare(of(figure, base), of(figure, variant), tolerance, relative)
        for figure, tolerance in counts
        for variant in boots
        if variant != base
    ]
    return spread.strongest(found) if found else None


BEYOND_BOOTS = ", and by more than boots of one kernel do"
"""What else a mark means, after what it does not mark."""


def on_marks(rows: Iterable[ComparedRow], boots: int, apart: int = 0) -> Iterator[str]:
    """What the marks but `*` mean, where there are any; `apart`: undecided rows that are not shown."""
    marks = {row.mark for row in rows}
    if "?" in marks or apart:
        why = (
            f"in {boots} boots of each kernel it varies as much"
            if boots > 1
            else f"one boot does not tell (--reps {spread.MOST_BOOTS}: a boot each)"
        )
        more = f"; {plural(apart, 'more row')} below 0.5 per operation" if apart else ""
        yield f"? may differ: {why}{more}"
    if "~" in marks:
        yield "~ layout: shared by where objects lie in their slab, which differs from boot to boot"
