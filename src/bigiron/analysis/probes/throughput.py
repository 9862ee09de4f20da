"""Compares throughput and other noisy metrics between variants, with a verdict for each.

See docs/explanation/statistics.md.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from bigiron.analysis.comparison.model import (
    ComparedPoint,
    ComparedRow,
    ComparedVariants,
    Comparison,
    Item,
    Measure,
    Measurements,
    Options,
    time_notes,
)
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.analysis.statistics import verdict
from bigiron.analysis.statistics.repetitions import Repetitions, where
from bigiron.analysis.statistics.verdict import MetricComparison, Repeated, Verdict, outliers
from bigiron.errors import UserError
from bigiron.util.english import first_n
from bigiron.util.numbers import three_digits

_MOST_OUTLIERS = 5  # named of each variant, in text
_COLUMNS = (
    *("metric", "unit", "better", "cpus", "tasks", "variant"),
    *("repetitions", "median", "least", "most"),
    *("judged", "paired", "ratio", "ratio_low", "ratio_high", "confidence", "p", "verdict", "more"),
)


def judgements(
    repeated: Repeated, base: str, tolerance: float | None = None, metric: str | None = None
) -> list[MetricComparison]:
    """The variants against one of them, in all metrics or in one; none if there is but one variant.

    UserError where variants have nothing in common.
    """
    repetitions = [one for one in repeated.repetitions if metric in (None, one.metric)]
    if not repetitions:
        names = ", ".join(dict.fromkeys(one.metric for one in repeated.repetitions))
        raise UserError(f"{repeated.folder} has no metric {metric!r}: it has {names}")
    found = verdict.compare(
        repetitions,
        base,
        repeated.looks,
        paired=repeated.paired,
        tolerance=repeated.tolerance if tolerance is None else tolerance,
        unfinished=repeated.unfinished,
    )
    if not found and len({one.variant for one in repetitions}) > 1:
        raise UserError(_nothing_in_common(repeated.folder, repetitions, base))
    return found


def _nothing_in_common(folder: str, repetitions: Sequence[Repetitions], base: str) -> str:
    for one in repetitions:
        if not one.has_ratios:
            at = where(*one.point)
            return f"{one.metric} of {one.variant} has values of zero or less with {at}: there are no ratios"
    points: dict[str, dict[str, None]] = {}
    for one in repetitions:
        points.setdefault(one.variant, {})[where(*one.point)] = None
    listed = "; ".join(f"{variant}: {', '.join(here)}" for variant, here in points.items())
    return f"no variant of {folder} can be compared with {base}: no number of tasks is common ({listed})"


def compare(measured: Measurements, options: Options) -> Comparison:
    """Judge each metric of each variant against the base's, at the same CPUs and tasks."""
    assert measured.repeated
    variants = dict.fromkeys(one.variant for one in measured.repeated.repetitions)
    base = options.base or next(iter(variants))
    found = judgements(measured.repeated, base, options.tolerance, options.metric)
    judged = _Judged(
        measured,
        base,
        measured.repeated.tolerance if options.tolerance is None else options.tolerance,
        {(one.ours.metric, one.ours.point, one.ours.variant): one for one in found},
    )
    repetitions = [one for one in measured.repeated.repetitions if options.metric in (None, one.metric)]
    return Comparison(
        about={
            "study": measured.study,
            "workload": measured.workload,
            "time": measured.time,
            "base": base,
            "tolerance": judged.tolerance,
            "looks": len(measured.repeated.looks),
        },
        points=tuple(
            _point(list(here), judged, repetitions)
            for _, here in groupby(repetitions, key=lambda one: (one.metric, one.point))
        ),
        columns=_COLUMNS,
        judged=True,
    )


@dataclass(frozen=True)
class _Judged:
    """What all points of a comparison have in common."""

    measured: Measurements
    base: str
    tolerance: float
    judgements: dict[
        tuple[str, tuple[int, int], str], MetricComparison
    ]  # by metric, CPUs and tasks, and variant

    def on(self, one: Repetitions) -> MetricComparison | None:
        """None for the base, and for what could not be compared."""
        return self.judgements.get((one.metric, one.point, one.variant))


def _point(here: Sequence[Repetitions], judged: _Judged, everything: Sequence[Repetitions]) -> ComparedPoint:
    """One metric at one number of CPUs and tasks."""
    first, measured = here[0], judged.measured
    of_metric = f"{first.metric}{f', {first.unit}' if first.unit else ''}"
    found = {one.variant: judgement for one in here if (judgement := judged.on(one))}
    compared = len({one.variant for one in everything}) > 1
    several = len({one.metric for one in everything}) > 1
    at = ComparedVariants(first.cpus, first.tasks, tuple(one.variant for one in here), judged.base)
    return ComparedPoint(
        at,
        probe=measured.probe,
        heading=(
            f"{measured.workload}: {of_metric} ({measured.time}; {first.better} is better), "
            "median of the repetitions"
        ),
        title="Verdicts",
        thing="metric",
        measures=(Measure("median", three_digits),),
        rows=(
            ComparedRow(
                of_metric,
                (ComparedFigure(of_metric, {one.variant: one.values for one in here}),),
                missing={
                    one.variant: "not compared"
                    for one in here
                    if compared and one.variant not in {judged.base, *found}
                },
                judgements=found,
            ),
        ),
        notes=(*_how(judged), *_doubtful(here, judged, several), *_outlying(here, judged, several)),
        items=tuple(Item(_fields(one, judged.on(one))) for one in here),
    )


def _fields(ours: Repetitions, found: MetricComparison | None) -> dict[str, Any]:
    """As docs/explanation/statistics.md has them."""
    return {
        "metric": ours.metric,
        "unit": ours.unit,
        "better": ours.better,
        "cpus": ours.cpus,
        "tasks": ours.tasks,
        "variant": ours.variant,
        "repetitions": len(ours.values),
        "median": ours.median,
        "least": min(ours.values),
        "most": max(ours.values),
        "judged": found and found.judged,
        "paired": found and found.paired,
        "ratio": found and found.ratio.value,
        "ratio_low": found and _finite(found.ratio.low),
        "ratio_high": found and _finite(found.ratio.high),
        "confidence": found and found.confidence,
        "p": found and found.p,
        "verdict": found and found.verdict.value,
        "more": found and found.more,
        "samples": dict(zip(map(str, ours.numbers), ours.samples, strict=True)),
        "outliers": outliers(ours),
    }


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else value


# What the figures are, how sure they are, and what is odd about them


def _how(judged: _Judged) -> Iterator[str]:
    found = list(judged.judgements.values())
    if not found or not judged.measured.repeated:
        return
    paired = found[0].paired
    ratio = "the median of the repetitions' ratios" if paired else "of the medians"
    confidences = " and ".join(sorted({f"{100 * one.confidence:.3g} %" for one in found}))
    test = "Wilcoxon's signed-rank test" if paired else "Mann and Whitney's test"
    yield (
        f"ratio: to {judged.base}, {ratio}, with its {confidences} interval; p: {test}, corrected for "
        f"{len(found)} comparison{'s' if len(found) > 1 else ''} and the looks taken "
        f"({len(judged.measured.repeated.looks)}), changed up to 0.05"
    )
    yield (
        f"unchanged: the interval lies within {100 * judged.tolerance:.3g} %; "
        "a difference that small does not matter"
    )
    yield from time_notes(judged.measured.time)


def _doubtful(here: Sequence[Repetitions], judged: _Judged, several: bool) -> Iterator[str]:
    """Measured values that the verdicts do not use, and values that they would need."""
    for one in here:
        found = judged.on(one)
        if found and (left := len(one.numbers) - len(found.ours.numbers)):
            yield (
                f"{_named(one, several)}: {left} repetition{' is' if left == 1 else 's are'} not judged: "
                "the base has none in the same block, or the verdict was reached before them"
            )
    found_all = list(judged.judgements.values())
    few = {one.judged for one in found_all if math.isnan(one.ratio.low)}
    if few:
        yield f"-: {min(few)} repetition{' is' if min(few) == 1 else 's are'} too few for an interval"
    if any(one.verdict is Verdict.undecided for one in found_all) and judged.measured.repeated:
        yield (
            "undecided: how many more repetitions would probably decide is guessed from the spread so far; "
            f"`bigiron {judged.measured.repeated.adds_more}` adds them"
        )


def _outlying(here: Sequence[Repetitions], judged: _Judged, several: bool) -> Iterator[str]:
    for one in here:
        far = (each for each in outliers(one) if abs(each.away) > judged.tolerance)
        found = sorted(far, key=lambda each: -abs(each.away))
        shown = first_n(
            [f"{each.away:+.1%} (repetition {each.repetition})" for each in found], _MOST_OUTLIERS
        )
        if found:
            yield (f"outliers, which count like all others: {_named(one, several)}: {shown} from the median")


def _named(one: Repetitions, several: bool) -> str:
    """Variant and place; the metric too, where there are several."""
    return f"{one.variant}, {where(*one.point)}" + (f", {one.metric}" if several else "")
