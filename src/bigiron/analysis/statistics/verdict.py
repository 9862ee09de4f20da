"""Whether two variants differ: changed, unchanged or undecided, with the chance of being wrong stated.

- **changed**: a rank test and the ratio's interval both say that the variants differ. That any comparison of
  a study is called so while its variants are alike has a chance of at most 5 %, however many there are
  (Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6, 1979)
  and however often repetitions were added. Not Benjamini and Hochberg: they bound the share of false alarms
  among all, but a patch is reverted because of one table row: that the other rows are right does not help.
  Holm's needs nothing to be known of how comparisons depend on each other, and those with one base do.
- **unchanged**: the whole interval lies within the tolerance (two one-sided tests; Schuirmann, Journal of
  Pharmacokinetics and Biopharmaceutics 15, 1987). That a larger change is called so has a chance of at most
  5 %. A change that is certain, and within the tolerance, is called unchanged too.
- **undecided**: neither.

Repetitions of one number ran beside each other, the variants in random order and in the reverse order the
next time: whatever drifts, they are alike if the variants are. Those that did not, because a cell failed and
ran again later, are left out. So pairs are compared: Wilcoxon's signed-rank test of their
ratios, and the median ratio. Measurements made elsewhere have no such pairs: Mann and Whitney's test, and
the ratio of medians.

Looking again after more repetitions is another chance of a false alarm. So the 5 % are spent: half at
the first look, a sixth at the second, 1/(k (k + 1)) at look k; the sum never exceeds the whole (Bonferroni's
bound; Lan and DeMets, Discrete Sequential Boundaries for Clinical Trials, Biometrika 70, 1983). After how
many repetitions the next look comes is fixed beforehand and never depends on what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist, median

import msgspec

from bigiron.analysis.statistics.estimate import Estimate
from bigiron.analysis.statistics.ratio import median_of_ratios, ratio_of_medians
from bigiron.analysis.statistics.repetitions import Repetitions
from bigiron.util.lazy import numpy as np

ERROR = 0.05
"""The chance of a wrong verdict that all looks share."""

TOLERANCE = 0.02
"""A relative change that does not matter, unless the study says otherwise."""

FIRST_LOOK = 8
"""Repetitions before the first look, where they are added until all is decided."""

_GROWTH = 1.5  # of the repetitions from one look to the next
_OUTLIER = 3.5  # Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993)
_LIKELY = 0.8  # that as many repetitions more as are asked for decide


class Look(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Repetitions that were added to a study's points, CPUs and tasks, where something was undecided."""

    repetitions: int
    points: list[tuple[int, int]]


class Verdict(StrEnum):
    """What the repetitions carry."""

    changed = "changed"
    unchanged = "unchanged"
    undecided = "undecided"


@dataclass(frozen=True)
class MetricComparison:
    """A variant against the base, in one metric at so many CPUs and tasks."""

    base: Repetitions
    ours: Repetitions
    paired: bool
    """Whether repetitions of one number ran beside each other, and are compared with each other."""
    judged: int
    """How many repetitions the verdict rests on: the first ones, up to the look at which it was reached."""
    ratio: Estimate
    """Ours to the base: of medians, or the median of the ratios of each pair."""
    confidence: float
    """That the ratio's interval has: 0.95 at the first look."""
    p: float
    """Of the rank test, corrected for the number of comparisons and of looks: changed up to 0.05."""
    verdict: Verdict
    more: int | None
    """Of an undecided one: how many more repetitions would probably decide; None where that is not known."""

    @property
    def improved(self) -> bool:
        """Whether a change is one for the better."""
        return (self.ratio.value > 1) == (self.ours.better == "more")

    @property
    def in_words(self) -> str:
        """The verdict, and what to make of it."""
        match self.verdict:
            case Verdict.changed:
                return f"changed: {self.ratio.value - 1:+.1%}, {'better' if self.improved else 'worse'}"
            case Verdict.undecided if self.more:
                return f"undecided: {self.more} more would decide"
        return self.verdict.value


@dataclass(frozen=True)
class Repeated:
    """All that a study measured with noise, and how it is judged."""

    folder: str
    """Of the study, for errors."""
    repetitions: tuple[Repetitions, ...]
    looks: tuple[Look, ...]
    paired: bool
    """Whether repetitions of one number ran beside each other."""
    tolerance: float
    unfinished: frozenset[tuple[int, int]]
    """The CPUs and tasks where cells lack that were asked for."""
    adds_more: str
    """The command that adds repetitions."""


@dataclass(frozen=True)
class Outlier:
    """A repetition far from the others: how far its value lies from their median, as a share of it."""

    repetition: int
    value: float
    away: float


def share_of_error(look: int) -> float:
    """The chance of a wrong verdict that a look may have, counted from 1.

    >>> [round(share_of_error(look), 4) for look in (1, 2, 3)]
    [0.025, 0.0083, 0.0042]
    """
    return ERROR / (look * (look + 1))


def next_look(repetitions: int) -> int:
    """After how many repetitions to look again.

    >>> next_look(8), next_look(12), next_look(1)
    (12, 18, 3)
    """
    return max(repetitions + 2, math.ceil(_GROWTH * repetitions))


def compare(
    repetitions: Sequence[Repetitions],
    base: str,
    looks: Sequence[Look],
    *,
    paired: bool,
    tolerance: float = TOLERANCE,
    unfinished: Collection[tuple[int, int]] = (),
) -> list[MetricComparison]:
    """Every variant against the base wherever both were measured, judged at each of the looks in turn.

    What was decided at a look stays so. A point that is `unfinished` lacks cells that were asked for: it is
    not judged at the last look, so that looking early does not raise the false-positive rate.
    """
    pairs = list(_pairs(repetitions, base, paired))
    found: dict[int, MetricComparison] = {}
    for number, look in enumerate(looks, 1):
        tests = {
            at: _measure(*pair, paired, number, look.repetitions)
            for at, pair in enumerate(pairs)
            if pair[0].point in look.points and all(min(one.numbers) <= look.repetitions for one in pair)
            if at not in found or found[at].verdict is Verdict.undecided
        }
        changed = sum(comparison.verdict is Verdict.changed for comparison in found.values())
        corrected = _holm({at: test.p for at, test in tests.items()}, len(pairs) - changed, number)
        for at, test in tests.items():
            judged = replace(test, p=corrected[at])
            if number == len(looks) and test.base.point in unfinished:
                found.setdefault(at, judged)
            else:
                found[at] = _judge(judged, number, len(pairs), tolerance)
    return [found[at] for at in sorted(found)]


def outliers(repetitions: Repetitions) -> list[Outlier]:
    """Repetitions further from the median than 3.5 robust standard deviations. They count like all others.

    >>> samples = ((100.0,), (101.0,), (99.0,), (100.5,), (70.0,))
    >>> outliers(Repetitions("6.1", 2, 2, "throughput", "operations/s", "more", (1, 2, 3, 4, 5), samples))
    [Outlier(repetition=5, value=70.0, away=-0.3)]
    """
    middle = repetitions.median
    away = [value - middle for value in repetitions.values]
    spread = median(map(abs, away)) / NormalDist().inv_cdf(0.75)
    return [
        Outlier(number, value, round(distance / middle, 6))
        for number, value, distance in zip(repetitions.numbers, repetitions.values, away, strict=True)
        if middle and abs(distance) > _OUTLIER * spread
    ]


def _pairs(
    repetitions: Sequence[Repetitions], base: str, paired: bool
) -> Iterator[tuple[Repetitions, Repetitions]]:
    """The base and another variant, where both have what can be compared, and only that."""
    variants = len({one.variant for one in repetitions})
    bases = {(one.point, one.metric): one for one in repetitions if one.variant == base}
    for ours in repetitions:
        theirs = bases.get((ours.point, ours.metric))
        if not theirs or ours is theirs or not (ours.has_ratios and theirs.has_ratios):
            continue
        if not paired:
            yield theirs, ours
        elif together := ours.paired_with(theirs, variants):
            yield theirs.only(together), ours.only(together)


def _measure(
    base: Repetitions, ours: Repetitions, paired: bool, look: int, repetitions: int
) -> MetricComparison:
    """The first repetitions, compared: not judged yet, the test's p not corrected yet."""
    base, ours = (one.only(range(1, repetitions + 1)) for one in (base, ours))
    confidence = 1 - 2 * share_of_error(look)
    ratio_of, test = (median_of_ratios, _signed_rank) if paired else (ratio_of_medians, _mann_whitney)
    return MetricComparison(
        base,
        ours,
        paired,
        judged=min(len(base.numbers), len(ours.numbers)),
        ratio=ratio_of(ours.values, base.values, confidence),
        confidence=confidence,
        p=test(ours.values, base.values),
        verdict=Verdict.undecided,
        more=None,
    )


def _signed_rank(ours: Sequence[float], base: Sequence[float]) -> float:
    from scipy import stats  # here, as it takes a second that no other command should wait for

    ratios = np.log(ours) - np.log(base)
    return float(stats.wilcoxon(ratios).pvalue) if ratios.any() else 1.0


def _mann_whitney(ours: Sequence[float], base: Sequence[float]) -> float:
    """Exact where there are few, also where values are equal.

    >>> _mann_whitney([1.0], [1.0, 2.0])  # scipy orders no sample of one
    1.0
    """
    from scipy import stats

    if min(len(ours), len(base)) <= 8 and len({*ours, *base}) < len(ours) + len(base):
        if min(len(ours), len(base)) == 1:
            return 1.0
        every_order = stats.PermutationMethod(20_000, rng=np.random.default_rng(0))
        return float(stats.mannwhitneyu(ours, base, method=every_order).pvalue)
    return float(stats.mannwhitneyu(ours, base).pvalue)


def _holm(of_test: Mapping[int, float], comparisons: int, look: int) -> dict[int, float]:
    """Each test's p, corrected so that 0.05 is where to draw the line."""
    corrected: dict[int, float] = {}
    least = 0.0
    for rank, at in enumerate(sorted(of_test, key=lambda at: of_test[at])):
        least = max(least, of_test[at] * (comparisons - rank) * ERROR / share_of_error(look))
        corrected[at] = min(1.0, least)
    return corrected


def _judge(test: MetricComparison, look: int, comparisons: int, tolerance: float) -> MetricComparison:
    ratio = test.ratio
    if 1 / (1 + tolerance) <= ratio.low and ratio.high <= 1 + tolerance:
        return replace(test, verdict=Verdict.unchanged)
    if test.p <= ERROR and (ratio.low > 1 or ratio.high < 1):
        return replace(test, verdict=Verdict.changed)
    return replace(test, more=_more(test, look, comparisons, tolerance))


def _more(test: MetricComparison, look: int, comparisons: int, tolerance: float) -> int | None:
    """How many repetitions the next look would need to decide, if ratio and spread are what they seem to be.

    The interval narrows with the root of the repetitions. It must clear 1, or stay within the tolerance, with
    what chance adds to it in four of five cases.
    """
    error = _error_of_ratio(test)
    if error is None:
        return None
    spread = error * math.sqrt(test.judged)
    away, tolerated, chance = abs(math.log(test.ratio.value)), math.log1p(tolerance), share_of_error(look + 1)
    wanted = []
    if away:
        needed = (
            (NormalDist().inv_cdf(1 - chance / 2 / comparisons) + NormalDist().inv_cdf(_LIKELY))
            * spread
            / away
        )
        wanted.append(max(needed**2, _fewest(chance / comparisons, test.paired)))
    if away < tolerated:
        needed = (
            (NormalDist().inv_cdf(1 - chance) + NormalDist().inv_cdf(_LIKELY)) * spread / (tolerated - away)
        )
        wanted.append(max(needed**2, _fewest(2 * chance, test.paired)))
    return max(1, math.ceil(min(wanted)) - test.judged)


def _error_of_ratio(test: MetricComparison) -> float | None:
    """The standard error of the ratio's logarithm: from its interval; where it has none, from the spread."""
    if not math.isnan(test.ratio.low):
        width = math.log(test.ratio.high) - math.log(test.ratio.low)
        return width / 2 / NormalDist().inv_cdf((1 + test.confidence) / 2)
    if test.judged < 2:
        return None
    ours, base = np.log(test.ours.values), np.log(test.base.values)
    variance = np.var(ours - base, ddof=1) if test.paired else np.var(ours, ddof=1) + np.var(base, ddof=1)
    return math.sqrt(math.pi / 2 * variance / test.judged)  # pi / 2: a median's, to that of a mean


def _fewest(p: float, paired: bool) -> int:
    """How many repetitions a rank test needs to come to a p as small."""
    count = 1
    while (2 * 0.5**count if paired else 2 / math.comb(2 * count, count)) > p:
        count += 1
    return count
