"""From many replays to a prediction: medians, intervals, limits, knees, and on which unknowns they depend."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bigiron.analysis.statistics import knee
from bigiron.analysis.statistics.estimate import SAMPLED, Estimate, of_samples
from bigiron.util.lazy import Floats
from bigiron.util.lazy import numpy as np

_LIMITS = 0.1  # share of the tasks' time from which something limits
_LISTED = 0.01  # and from which it is listed
_MOST_SENSITIVITIES = 4
_LEAST_CORRELATION = 0.3  # by rank
_BY_CHANCE = 0.05  # probability that an unknown is listed on which nothing depends


def limit_name(kind: str, object: str) -> str:
    """What a limit is called.

    >>> limit_name("line", "struct aa_label.count"), limit_name("memory", "memory bandwidth")
    ('line aa_label.count', 'memory bandwidth')
    """
    name = object.removeprefix("struct ")
    return f"{kind} {name}" if kind in ("line", "lock") else name


@dataclass(frozen=True)
class Limit:
    """What an operation's time goes into: a line, a lock, memory bandwidth or interrupts."""

    kind: str
    object: str
    share: float


@dataclass(frozen=True)
class PredictedPoint:
    """At one number of tasks."""

    tasks: int
    relative: Estimate  # to one task
    throughput: Estimate  # operations per second
    work: float  # share of the tasks' time in which they get on
    limits: list[Limit]  # largest share first

    @property
    def limited_by(self) -> list[Limit]:
        """What takes a tenth of the time or more."""
        return [limit for limit in self.limits if limit.share >= _LIMITS]


@dataclass(frozen=True)
class Sensitivity:
    """How much a prediction depends on an unknown: their rank correlation, -1 to 1."""

    unknown: str
    correlation: float


@dataclass(frozen=True)
class PredictedCurve:
    """One variant's throughput by tasks."""

    variant: str
    points: list[PredictedPoint]
    knee: Estimate | None  # as `knee_of` gives it
    sensitivities: list[Sensitivity]  # at the most tasks


@dataclass(frozen=True)
class PredictedRatio:
    """One variant's throughput to the first's."""

    variant: str
    base: str
    points: dict[int, Estimate]
    differs_from: int | None  # tasks from which on the interval excludes 1


def curve(
    variant: str,
    tasks: Sequence[int],
    throughput: Floats,
    shares: Sequence[Sequence[Mapping[tuple[str, str], float]]],
    unknowns: Mapping[str, Floats],
    asked: Sequence[int],
) -> PredictedCurve:
    """A variant's samples, a row each; the first column is of one task."""
    relative = throughput / throughput[:, :1]
    points = []
    for column, number in enumerate(tasks):
        if number in asked:
            work, limits = _limits([of[column] for of in shares])
            points.append(
                PredictedPoint(
                    number,
                    of_samples(relative[:, column]),
                    of_samples(throughput[:, column]),
                    work,
                    limits,
                )
            )
    return PredictedCurve(
        variant, points, knee_of(tasks, relative), _sensitivities(unknowns, relative[:, -1])
    )


def costs(samples: Sequence[Mapping[str, float]]) -> dict[str, Estimate]:
    """The share of the tasks' time that each thing takes, from what it takes in each sample."""
    names = dict.fromkeys(name for shares in samples for name in shares)
    return {name: of_samples(np.array([shares.get(name, 0.0) for shares in samples])) for name in names}


def ratio(
    base: str, variant: str, tasks: Sequence[int], of_base: Floats, of_variant: Floats
) -> PredictedRatio:
    """Both of the same samples, so that what is not known of the machine is so for both alike.

    What is faster with few tasks and slower with many differs from where on it is slower.
    """
    points = {number: of_samples(of_variant[:, n] / of_base[:, n]) for n, number in enumerate(tasks)}
    differs = None
    for number in reversed(tasks):
        if points[number].holds(1.0) or (points[number].low > 1.0) != (points[tasks[-1]].low > 1.0):
            break
        differs = number
    return PredictedRatio(variant, base, points, differs)


def knee_of(tasks: Sequence[int], relative: Floats) -> Estimate | None:
    """The median knee of samples, a row each. A sample's knee lies between a number of tasks and the next.

    The interval is from the former to the latter, of 90 % of the samples with a knee. None where half of the
    samples and more have no knee, or where there are fewer than three numbers of tasks.

    >>> knee_of([1, 8, 64, 256], np.array([[1, 7.9, 20, 21]] * 20))
    Estimate(value=8.0, low=8.0, high=64.0)
    >>> knee_of([1, 48], np.array([[1, 20]] * 20)) is None
    True
    """
    following = dict(pairwise(tasks))
    knees = [knee.knee(dict(zip(tasks, row, strict=True))) for row in relative.tolist()]
    found = [number for number in knees if number]
    if len(tasks) < 3 or 2 * len(found) <= len(knees):
        return None
    outside = (1 - SAMPLED) / 2
    low, value = np.quantile(found, [outside, 0.5], method="lower")
    high = np.quantile([following[number] for number in found], 1 - outside, method="higher")
    return Estimate(float(value), float(low), float(high))


def _limits(samples: Sequence[Mapping[tuple[str, str], float]]) -> tuple[float, list[Limit]]:
    sums: defaultdict[tuple[str, str], float] = defaultdict(float)
    for shares in samples:
        for object, share in shares.items():
            sums[object] += share / len(samples)
    work = sum(share for (kind, _), share in sums.items() if kind == "work")
    limits = [Limit(kind, object, share) for (kind, object), share in sums.items() if kind != "work"]
    limits = [limit for limit in limits if limit.share >= _LISTED]
    return work, sorted(limits, key=lambda limit: -limit.share)


def _sensitivities(unknowns: Mapping[str, Floats], figure: Floats) -> list[Sensitivity]:
    """The unknowns with which a figure rises or falls, the strongest correlation first."""
    if len(figure) < 8 or np.ptp(figure) < 1e-6 * abs(float(figure.mean())):
        return []
    from scipy.stats import spearmanr  # here, as no other command should wait a second for it

    ranked = {name: spearmanr(places, figure) for name, places in unknowns.items()}
    found = [
        Sensitivity(name, float(rank.statistic))
        for name, rank in ranked.items()
        if abs(float(rank.statistic)) >= _LEAST_CORRELATION and float(rank.pvalue) < _BY_CHANCE / len(ranked)
    ]
    return sorted(found, key=lambda one: -abs(one.correlation))[:_MOST_SENSITIVITIES]
