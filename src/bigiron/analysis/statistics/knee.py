"""How throughput grows with tasks: where it stops, where two variants part, and which law it follows.

The **knee** is the N past which adding tasks adds less than half of what ideal scaling would: from N to any
larger number that was measured. Ideal is the fewest tasks' throughput for each task.

Two **laws** are fitted, each with three parameters:

- The universal scalability law (Gunther, Guerrilla Capacity Planning, 2007): N tasks have a N / (1 + s (N -
  1) + k N (N - 1)) with a the throughput of one, s the share of its work that only one can do at a time, and
  k what each pair of them costs.
- The lock-bound law (Boyd-Wickizer, Kaashoek, Morris, Zeldovich: Non-Scalable Locks are Dangerous, Linux
  Symposium 2012): tasks compute for a time, then need a lock for another, to which each waiting task adds a
  third. Without that throughput stays at what the lock can do; with it, it collapses.

Residuals are relative, and all numbers of tasks weigh alike. Intervals hold 95 % of the fits to curves whose
residuals came as often as chance has it (the bootstrap of residuals; Efron and Tibshirani, An Introduction
to the Bootstrap, 1993, chapter 9). A prediction's interval is wider by what the law, fitted to all points
but the last, misses that one by, once more for each step as far. It knows nothing of what else may come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias

from bigiron.analysis.statistics.estimate import Estimate
from bigiron.analysis.statistics.ratio import CONFIDENCE, fewest, median_of
from bigiron.analysis.statistics.repetitions import Repetitions
from bigiron.analysis.statistics.verdict import MetricComparison, Verdict
from bigiron.util.lazy import Floats
from bigiron.util.lazy import numpy as np

FURTHEST = 4
"""Times the most tasks measured: past that nothing is predicted."""

_FEWEST = 5  # numbers of tasks for a law of three parameters
_WIDEST = 4  # the least ratio of the most tasks to the fewest
_MISFIT = 0.1  # what a law may miss a point by
_BENT = 0.9  # of ideal scaling: as long as the last point has more, nothing tells where it will bend
_APART = 1.25  # the ratio by which two laws' predictions, or the ends of an interval, may differ
_RESAMPLES = 200
_ENDLESS = 60.0  # a parameter's logarithm: no time is as long, no share as small


class ScalingLaw(StrEnum):
    """What keeps throughput from growing with the tasks."""

    universal = "universal scalability law"
    lock_bound = "lock-bound law"


@dataclass(frozen=True)
class CurvePoint:
    """What so many tasks achieve: the median of the repetitions; with an interval if there are enough."""

    tasks: int
    throughput: Estimate
    repetitions: int


@dataclass(frozen=True)
class Knee:
    """The N past which adding tasks adds less than half of what ideal scaling would; an interval of 95 %."""

    tasks: int | None
    """None: up to the most tasks measured there is none."""
    low: int | None
    high: int | None
    interval: bool = True
    """Whether there are enough repetitions for the interval: else both ends are None."""


@dataclass(frozen=True)
class Fit:
    """A law fitted to a curve: its parameters by name, each with an interval, and what it misses."""

    law: ScalingLaw
    parameters: dict[str, Estimate]
    curve: dict[int, float]
    """The law's throughput, by tasks, as far as was measured."""
    residuals: dict[int, float]
    """By tasks: how far the measured throughput lies above the law's, as a share of it."""
    refusal: str
    """Why nothing is predicted; empty where something is."""
    predicted: dict[int, Estimate] = field(default_factory=dict)
    """By tasks, past what was measured."""


@dataclass(frozen=True)
class ThroughputCurve:
    """One variant's throughput against tasks."""

    variant: str
    cpus: int | None
    """None where there were as many CPUs as tasks."""
    metric: str
    unit: str
    points: tuple[CurvePoint, ...]
    knee: Knee | None
    """None where too little was measured to tell, or the fewest tasks did nothing: ideal is not known."""
    fits: tuple[Fit, ...]
    refusal: str
    """Why no law was fitted; empty where they were."""


@dataclass(frozen=True)
class Parting:
    """Where a variant's curve leaves the base's: the first N from which the difference stays significant."""

    base: str
    variant: str
    cpus: int | None
    metric: str
    tasks: int | None
    """None: they do not part as far as was measured."""
    comparisons: dict[int, MetricComparison]
    """At every number of tasks that both have."""


def curve(at: Sequence[Repetitions], cpus: int | None, to: int) -> ThroughputCurve:
    """The curve of one variant's metric, and what its laws predict for so many tasks."""
    ordered = sorted(at, key=lambda one: one.tasks)
    throughput = {one.tasks: one.median for one in ordered}
    refusal = _why_no_law(throughput)
    first = ordered[0]
    return ThroughputCurve(
        first.variant,
        cpus,
        first.metric,
        first.unit,
        tuple(CurvePoint(one.tasks, median_of(one.values), len(one.values)) for one in ordered),
        _knee_of(ordered),
        () if refusal else _fitted(throughput, to),
        refusal,
    )


def parting(comparisons: Sequence[MetricComparison], cpus: int | None) -> Parting:
    """Where a variant parts from the base, of their comparisons at several numbers of tasks."""
    by_tasks = {one.ours.tasks: one for one in sorted(comparisons, key=lambda one: one.ours.tasks)}
    parted = None
    for tasks, one in reversed(by_tasks.items()):
        if one.verdict is not Verdict.changed or one.improved != list(by_tasks.values())[-1].improved:
            break
        parted = tasks
    one = comparisons[0]
    return Parting(one.base.variant, one.ours.variant, cpus, one.ours.metric, parted, by_tasks)


def knee(throughput: Mapping[int, float]) -> int | None:
    """By tasks, fewest first; None if adding tasks pays to the last.

    >>> knee({1: 100, 2: 198, 4: 380, 8: 560, 16: 600})
    4
    >>> knee({1: 100, 2: 198, 4: 390}) is None
    True
    """
    tasks = list(throughput)
    half = throughput[tasks[0]] / tasks[0] / 2
    for at, few in enumerate(tasks[:-1]):
        if all(throughput[more] - throughput[few] < half * (more - few) for more in tasks[at + 1 :]):
            return few
    return None


def _knee_of(ordered: Sequence[Repetitions]) -> Knee | None:
    if len(ordered) < 3 or ordered[0].median <= 0:
        return None
    found = knee({one.tasks: one.median for one in ordered})
    if min(len(one.values) for one in ordered) < fewest(CONFIDENCE):
        return Knee(found, None, None, interval=False)
    chance = np.random.default_rng(0)
    resampled = [
        {one.tasks: float(np.median(chance.choice(one.values, len(one.values)))) for one in ordered}
        for _ in range(_RESAMPLES)
    ]
    beyond = max(one.tasks for one in ordered) + 1
    knees = sorted(knee(throughput) or beyond for throughput in resampled)
    outside = round(_RESAMPLES * (1 - CONFIDENCE) / 2)
    low, high = (None if end == beyond else end for end in (knees[outside], knees[-1 - outside]))
    return Knee(found, low, high)


def _why_no_law(throughput: Mapping[int, float]) -> str:
    tasks = list(throughput)
    counts = ", ".join(map(str, tasks))
    if len(tasks) < _FEWEST:
        return (
            f"too few numbers of tasks ({counts}): {_FEWEST} are the minimum for a law with three parameters"
        )
    if tasks[-1] < _WIDEST * tasks[0]:
        return f"the numbers of tasks ({counts}) are too close: the most must be {_WIDEST} times the fewest"
    if min(throughput.values()) <= 0:
        return "some throughput is zero, which no law allows"
    return ""


_Form: TypeAlias = Callable[[Floats, float, float, float], Floats]


def universal(tasks: Floats, one: float, serial: float, crosstalk: float) -> Floats:
    """Throughput by the universal scalability law.

    >>> universal(np.array([1.0, 2.0, 10.0]), 100.0, 0.1, 0.0).round(1).tolist()
    [100.0, 181.8, 526.3]
    """
    throughput: Floats = one * tasks / (1 + serial * (tasks - 1) + crosstalk * tasks * (tasks - 1))
    return throughput


def lock_bound(tasks: Floats, compute: float, hold: float, handover: float) -> Floats:
    """Throughput by the lock-bound law; times in seconds, `handover` for each waiting task.

    A birth-death chain: with k tasks at the lock, the others come at a rate of (N - k) / compute, and one
    leaves after hold + handover (k - 1) on average.

    >>> lock_bound(np.array([1.0, 100.0]), 9e-6, 1e-6, 0.0).round().tolist()
    [100000.0, 1000000.0]
    """
    leaving = 1 / (hold + handover * np.arange(int(tasks.max())))
    logarithms = _ways_to_the_lock(tuple(tasks.tolist())) - np.cumsum(np.log(compute * leaving))
    most = np.maximum(logarithms.max(axis=1, keepdims=True), 0)
    likely = np.exp(logarithms - most)
    throughput: Floats = (likely @ leaving) / (np.exp(-most[:, 0]) + likely.sum(axis=1))
    return throughput


@lru_cache(64)
def _ways_to_the_lock(tasks: tuple[float, ...]) -> Floats:
    """Logarithms: a row for each number of tasks, a column for each number of them at the lock, from 1 on."""
    elsewhere = np.maximum(np.array(tasks)[:, None] - np.arange(int(max(tasks))), 0)
    with np.errstate(divide="ignore"):  # more than all cannot be at the lock: the chance is 0
        ways: Floats = np.cumsum(np.log(elsewhere), axis=1)
    return ways


@dataclass(frozen=True)
class _LawKind:
    """A law: its form, its parameters' names, and where the search for them begins."""

    law: ScalingLaw
    form: _Form
    names: tuple[str, str, str]
    begin: Callable[[float, float], Sequence[tuple[float, float, float]]]
    """From the throughput of one task and the most there is."""


_KINDS = (
    _LawKind(
        ScalingLaw.universal,
        universal,
        ("alone", "serial", "crosstalk"),
        lambda one, most: [(one, serial, crosstalk) for serial in (0.01, 0.3) for crosstalk in (1e-5, 1e-2)],
    ),
    _LawKind(
        ScalingLaw.lock_bound,
        lock_bound,
        ("compute", "hold", "handover"),
        lambda one, most: [(1 / one, 1 / most, share / most) for share in (1e-3, 0.1, 1)],
    ),
)


@dataclass(frozen=True)
class _Fitted:
    """A law with parameters; they are positive, and searched for as logarithms."""

    kind: _LawKind
    logarithms: Floats

    def at(self, tasks: Sequence[int]) -> Floats:
        """The logarithm of its throughput."""
        parameters = np.exp(np.clip(self.logarithms, -_ENDLESS, _ENDLESS))
        throughput = self.kind.form(np.array(tasks, np.float64), *parameters)
        logarithms: Floats = np.log(throughput)
        return logarithms


_CLOSE = 1e-8  # relative changes that end a search
_MOST_TRIES = 1200  # of throughput, those for derivatives too


def _search(kind: _LawKind, tasks: Sequence[int], logarithms: Floats, begins: Iterable[Floats]) -> _Fitted:
    """The least squares of relative residuals, from wherever the search for them ends best."""
    from scipy import optimize  # here, as no other command should wait for it

    def residuals(parameters: Floats) -> Floats:
        return _Fitted(kind, parameters).at(tasks) - logarithms

    def least(begin: Floats) -> _Fitted:
        # What least_squares(method="lm") calls, with derivatives taken in C: in half the time. With its full
        # output it does not warn.
        ended = optimize.leastsq(
            residuals, begin, full_output=True, ftol=_CLOSE, xtol=_CLOSE, gtol=_CLOSE, maxfev=_MOST_TRIES
        )
        return _Fitted(kind, ended[0])

    found = [least(begin) for begin in begins]
    return min(found, key=lambda one: float(np.sum(residuals(one.logarithms) ** 2)))


def _fit(kind: _LawKind, throughput: Mapping[int, float]) -> _Fitted:
    return _search(kind, list(throughput), np.log(list(throughput.values())), _begins(kind, throughput))


def _begins(kind: _LawKind, throughput: Mapping[int, float]) -> Floats:
    fewest, *_ = throughput
    begins: Floats = np.log(kind.begin(throughput[fewest] / fewest, max(throughput.values())))
    return begins


def _fitted(throughput: Mapping[int, float], to: int) -> tuple[Fit, ...]:
    fits = [_with_intervals(_fit(kind, throughput), throughput, to) for kind in _KINDS]
    values = [fit.predicted[to].value for fit in fits if not fit.refusal]
    if values and max(values) > _APART * min(values):
        apart = (
            f"the laws part: at {to} tasks one has {max(values) / min(values) - 1:.0%} more than the other"
        )
        fits = [fit if fit.refusal else replace(fit, refusal=apart, predicted={}) for fit in fits]
    return tuple(fits)


def _with_intervals(fitted: _Fitted, throughput: Mapping[int, float], to: int) -> Fit:
    tasks, logarithms = list(throughput), np.log(list(throughput.values()))
    residuals = logarithms - fitted.at(tasks)
    # From nothing the search for a parameter never gets anywhere: it begins further up.
    begin = np.maximum(fitted.logarithms, _begins(fitted.kind, throughput).min(axis=0))
    again = _resampled(fitted, tasks, residuals, begin)
    parameters = [
        _estimate(np.exp(value), np.exp([one.logarithms[at] for one in again]))
        for at, value in enumerate(fitted.logarithms)
    ]
    misses = dict(zip(tasks, np.expm1(residuals).tolist(), strict=True))
    unseen = _missed_unseen(fitted.kind, throughput)
    further = math.log(to / tasks[-1]) / math.log(tasks[-1] / tasks[-2])
    predicted = _widened(
        _estimate(np.exp(fitted.at([to])[0]), np.exp([one.at([to])[0] for one in again])),
        math.exp(abs(unseen) * max(further, 0)),
    )
    refusal = _why_not_further(throughput, to) or _why_not_by_law(throughput, misses, unseen, predicted)
    return Fit(
        fitted.kind.law,
        dict(zip(fitted.kind.names, parameters, strict=True)),
        dict(zip(tasks, np.exp(fitted.at(tasks)).tolist(), strict=True)),
        misses,
        refusal,
        {} if refusal else {to: predicted},
    )


def _resampled(fitted: _Fitted, tasks: Sequence[int], residuals: Floats, begin: Floats) -> list[_Fitted]:
    """Fits to curves that chance might have given; residuals of a fit are smaller than chance's own."""
    chance = np.random.default_rng(0)
    residuals = residuals * math.sqrt(len(tasks) / (len(tasks) - len(fitted.logarithms)))
    curves = (fitted.at(tasks) + chance.choice(residuals, len(tasks)) for _ in range(_RESAMPLES))
    return [_search(fitted.kind, tasks, curve, [begin]) for curve in curves]


def _estimate(value: float, resampled: Floats) -> Estimate:
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(float(value), min(float(low), float(value)), max(float(high), float(value)))


def _why_not_further(throughput: Mapping[int, float], to: int) -> str:
    fewest, *_, most = throughput
    if to > FURTHEST * most:
        return f"{to} tasks are more than {FURTHEST} times the most that were measured ({most})"
    share = throughput[most] / most / (throughput[fewest] / fewest)
    if share >= _BENT:
        return (
            f"{most} tasks still have {share:.0%} of ideal scaling: the data does not show where it will bend"
        )
    return ""


def _missed_unseen(kind: _LawKind, throughput: Mapping[int, float]) -> float:
    """By how much, as a logarithm, a law misses the last point if it is fitted to all others."""
    *before, last = throughput
    without = _fit(kind, {tasks: throughput[tasks] for tasks in before})
    return math.log(throughput[last]) - float(without.at([last])[0])


def _widened(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value, estimate.low / factor, estimate.high * factor)


def _why_not_by_law(
    throughput: Mapping[int, float], misses: Mapping[int, float], unseen: float, predicted: Estimate
) -> str:
    worst = max(misses, key=lambda tasks: abs(misses[tasks]))
    if abs(misses[worst]) > _MISFIT:
        return f"it differs from the measured value at {worst} tasks by {abs(misses[worst]):.0%}"
    if (missed := abs(math.expm1(unseen))) > _MISFIT:
        *_, before, last = throughput
        return (
            f"fitted to at most {before} tasks, it differs from the measured value at {last} by {missed:.0%}"
        )
    if predicted.high > _APART * predicted.low:
        return f"the interval is too wide: {predicted.low:,.0f} to {predicted.high:,.0f}"
    return ""
