"""How a count grows with the number N of CPUs: the law, its certainty, and the count at another N.

A law is a term of Extra-P's performance model normal form (Calotoiu, Hoefler, Poke, Wolf: Using Automated
Performance Modeling to Find Scalability Bugs in Complex Codes, SC 2013): value = a + b * f(N) with b > 0 and
f(N) = log2 N, N, N log2 N or N^2, or the value is constant. Extra-P chooses by cross-validation; here the
laws are weighed against each other (Hoeting, Madigan, Raftery, Volinsky: Bayesian Model Averaging: A
Tutorial, Statistical Science 14, 1999): counts are few and nearly exact, and a prediction must heed the
runner-up too.

- Deviations from a law are normal and proportional to the value. How large they are follows from how far the
  law misses the points; they are never taken to be smaller than _RESOLUTION, so that rounding is no growth.
- Before any point is seen, half of the weight is with the plain constant. The slope's prior is flat, up to a
  growth as large as the values.
- `constant` stands for a + b/N too: where each of N CPUs in turn finds the line its own one time in N, 1/2,
  3/4 and 7/8 are no growth.

`sure` is the weight of the law, given the points. An interval holds 95 % of what all laws predict, each by
its weight, so it is wide where they disagree. It knows nothing of a change of law beyond the points.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bigiron.analysis.statistics.estimate import Estimate
from bigiron.analysis.statistics.student import t_below
from bigiron.util.numbers import three_digits

FEWEST = 3
"""CPU counts without which no law can be distinguished from another."""

CLOSEST = 2.0
"""The least ratio of the largest CPU count to the smallest."""

INTERVAL = 0.95
"""The share of the predictions that an interval holds."""

_RESOLUTION = 5e-4  # of a count per operation: half of the third decimal
_RELATIVE_RESOLUTION = 1e-4
_SMALLEST = 0.05  # of the largest value: smaller values have the deviations of this one
_SCATTER = 0.1  # of the mean: what strays by more is not called constant
_MISFIT = 0.2  # of the growth: a law that misses by more is no law
_NEGLIGIBLE_WEIGHT = 1e-6  # a candidate with a smaller weight does not change an interval
_LAWLESS = 0.9  # of the weight: more than this on other terms than the laws', and there is no law


class GrowthLaw(StrEnum):
    """The term of N that prevails when N is large; the last is the worst."""

    constant = "constant"
    log = "log N"
    linear = "N"
    n_log_n = "N log N"
    square = "N^2"


@dataclass(frozen=True)
class CountSeries:
    """A count at several numbers of CPUs. `what` tells it from others of its name: who touches the line.

    `whole`, if given, is what the count would be if none were left out by a rule that matters at few CPUs.
    """

    name: str
    what: str
    points: dict[int, float]
    whole: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Form:
    """A form a + b * f(N) of a law, or of none. `prior` is its weight before any point is seen."""

    law: GrowthLaw | None
    term: str
    f: Callable[[float], float]
    prior: float


_FLAT = Form(GrowthLaw.constant, "", lambda n: 0.0, 0.6)
_LEVELLING = Form(GrowthLaw.constant, "1/N", lambda n: 1 / n, 0.1)
_FORMS = (
    _FLAT,
    _LEVELLING,
    Form(GrowthLaw.log, "log2 N", math.log2, 0.1),
    Form(GrowthLaw.linear, "N", lambda n: n, 0.1),
    Form(GrowthLaw.n_log_n, "N log2 N", lambda n: n * math.log2(n), 0.1),
    Form(GrowthLaw.square, "N^2", lambda n: n * n, 0.1),
    # More terms of the normal form, less likely: points that one of them fits far better follow no law.
    Form(None, "log2(N)^2", lambda n: math.log2(n) ** 2, 0.02),
    Form(None, "N^(1/2)", math.sqrt, 0.02),
    Form(None, "N^(3/2)", lambda n: n**1.5, 0.02),
    Form(None, "N^2 log2 N", lambda n: n * n * math.log2(n), 0.02),
    Form(None, "N^3", lambda n: n**3, 0.02),
)


@dataclass(frozen=True)
class Candidate:
    """A form fitted to the points."""

    form: Form
    a: float
    b: float
    log_evidence: float
    misfit: float  # root mean square of what it misses by, in the count's own unit
    deviation: float  # of one count from the form, as a share of its value
    freedom: int  # of the deviation
    smallest: float  # value below which deviations do not shrink
    middle: float  # f where the level is known best
    on_level: float  # information that the points hold on the value there
    on_b: float
    weight: float = 0.0  # among all candidates; their sum is 1

    @property
    def formula(self) -> str:
        """The formula: `11 + N`, `-2 + 2 N`, `6`, `1 - 1/N`."""
        level = three_digits(self.a) if abs(self.a) >= 5e-4 or not self.form.term else ""
        if not self.form.term:
            return level
        term, size = self.form.term, three_digits(abs(self.b))
        slope = size + term.removeprefix("1") if term == "1/N" else term if size == "1" else f"{size} {term}"
        if not level:
            return slope if self.b >= 0 else f"-{slope}"
        return f"{level} {'+' if self.b >= 0 else '-'} {slope}"

    def value(self, cpus: float) -> float:
        """The value of the form at a number of CPUs."""
        return self.a + self.b * self.form.f(cpus)

    def spread(self, cpus: float) -> float:
        """The scale of a predicted count's distribution, Student's t: of the count itself and of the fit."""
        own = max(abs(self.value(cpus)), self.smallest)
        slope = (self.form.f(cpus) - self.middle) ** 2 / self.on_b if self.on_b else 0.0
        return self.deviation * math.sqrt(own**2 + 1 / self.on_level + slope)


@dataclass(frozen=True)
class Growth:
    """How a series grows: a law, or the reason why there is none."""

    law: GrowthLaw | None
    refusal: str = ""
    sure: float = 0.0
    candidates: tuple[Candidate, ...] = ()  # the law's own first
    ceiling: "Growth | None" = None  # of a count that this one cannot exceed

    @property
    def grows(self) -> bool:
        """Whether it has a law, which is not `constant`."""
        return self.law is not None and self.law is not GrowthLaw.constant

    @property
    def best(self) -> Candidate:
        """The fitted form of the law."""
        if not self.candidates:
            raise ValueError(f"no law: {self.refusal}")
        return self.candidates[0]

    def predict(self, cpus: int) -> Estimate:
        """The count at a number of CPUs by the law, and an interval that holds 95 % of what all laws say.

        Where the ceiling is lower, the ceiling, and the interval reaches up to the law.
        """
        value = max(0.0, self.best.value(cpus))
        low, high = (self._quantile(cpus, share) for share in ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2))
        predicted = Estimate(value, max(0.0, min(low, value)), max(high, value))
        if self.ceiling and (ceiling := self.ceiling.predict(cpus)).value < value:
            low, high = min(ceiling.low, predicted.low), max(ceiling.high, predicted.high)
            return Estimate(ceiling.value, low, high)
        return predicted

    def sum_relative(self, numbers: Sequence[int], reference: int) -> Estimate:
        """The sum of the counts at `numbers` of CPUs, as a multiple of the count at `reference`.

        The interval is that of the laws by their weights, each at its best fit.

        >>> sums = fit({2: 13.0, 3: 14.0, 4: 15.0, 6: 17.0, 8: 19.0}).sum_relative([9, 19], 4)
        >>> round(sums.value, 3), round(sums.low, 3), round(sums.high, 3)
        (3.333, 3.333, 3.333)
        """
        heard = [c for c in self.candidates if c.weight > _NEGLIGIBLE_WEIGHT and c.value(reference) > 0]
        sums = {c: sum(c.value(cpus) for cpus in numbers) / c.value(reference) for c in heard}
        ordered = sorted(heard, key=lambda candidate: sums[candidate])
        low, high = (
            next(
                sums[c] for at, c in enumerate(ordered)
                if sum(each.weight for each in ordered[: at + 1]) >= share * sum(c.weight for c in ordered)
            )
            for share in ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)
        )  # fmt: skip
        value = sums[self.best]
        return Estimate(value, min(low, value), max(high, value))

    def _quantile(self, cpus: int, share: float) -> float:
        """By bisection: the weighted sum of the candidates' distribution functions only rises."""
        heard = [c for c in self.candidates if c.weight > _NEGLIGIBLE_WEIGHT]
        known = [(c.weight, c.value(cpus), c.spread(cpus), c.freedom) for c in heard]
        low = min(value - 1e4 * spread for _, value, spread, _ in known)
        high = max(value + 1e4 * spread for _, value, spread, _ in known)
        for _ in range(80):
            middle = (low + high) / 2
            below = sum(
                weight * t_below((middle - value) / spread, freedom)
                for weight, value, spread, freedom in known
            )
            low, high = (middle, high) if below < share else (low, middle)
        return (low + high) / 2


def fit_series(series: CountSeries) -> Growth:
    """The law of a series. Its whole count decides, if nothing is left out at the largest CPU count.

    >>> counted, whole = {4: 6.0, 8: 14.0, 16: 24.0, 32: 40.0}, {4: 12.0, 8: 16.0, 16: 24.0, 32: 40.0}
    >>> growth = fit_series(CountSeries("counters of CPU", "__percpu_counter_sum", counted, whole))
    >>> growth.law.value, round(growth.best.a), round(growth.best.b)
    ('N', 8, 1)
    """
    counted = fit(series.points)
    most = max(series.points, default=0)
    if not series.whole or series.whole == series.points:
        return counted
    whole = fit(series.whole)
    if not whole.law:
        return counted
    if series.whole[most] - series.points[most] <= _RELATIVE_RESOLUTION * series.whole[most]:
        return whole
    return replace(counted, ceiling=whole) if counted.law else counted


def fit(points: dict[int, float]) -> Growth:
    """The law of the points. Zeros at the smallest CPU counts are left out.

    >>> growth = fit({2: 13.0, 3: 14.0, 4: 15.0, 6: 17.0, 8: 19.0})
    >>> growth.law.value, round(growth.best.a, 3), round(growth.best.b, 3), growth.sure > 0.999
    ('N', 11.0, 1.0, True)
    >>> fit({2: 0.5, 4: 0.75, 8: 0.875}).law.value
    'constant'
    >>> fit({4: 1.0, 8: 2.0}).refusal
    'too few CPU counts (4, 8): 3 are the minimum, 5 are better'
    """
    there = sorted(points.items())
    while there and there[0][1] <= _RESOLUTION < there[-1][1]:
        there = there[1:]
    if refusal := _why_too_little(len(points), [n for n, _ in there]):
        return Growth(None, refusal)
    candidates = sorted(_weighed(there), key=lambda c: c.weight, reverse=True)
    grows = sum(c.weight for c in candidates if c.form.law is not GrowthLaw.constant) > 0.5
    eligible = [c for c in candidates if c.form.law and (c.form.law is not GrowthLaw.constant) == grows]
    if refusal := _why_no_law(candidates, eligible, there):
        return Growth(None, refusal)
    best = eligible[0]
    others = (c for c in candidates if c is not best)
    sure = sum(c.weight for c in candidates if c.form.law is best.form.law)
    return Growth(best.form.law, "", sure, (best, *others))


def _why_too_little(measured: int, there: list[int]) -> str:
    counts = ", ".join(map(str, there))
    if measured >= FEWEST > len(there):
        return f"nonzero only at {counts} CPUs: measure more CPU counts in that range"
    if len(there) < FEWEST:
        return f"too few CPU counts ({counts or 'none'}): {FEWEST} are the minimum, 5 are better"
    if there[-1] < CLOSEST * there[0]:
        return f"the CPU counts ({counts}) are too close: the largest must be twice the smallest, or more"
    return ""


def _why_no_law(
    candidates: Sequence[Candidate], eligible: Sequence[Candidate], points: Sequence[tuple[int, float]]
) -> str:
    lawless = sum(c.weight for c in candidates if not c.form.law)
    if lawless > _LAWLESS or not eligible:
        return (
            f"no law fits: the best fit is {candidates[0].form.term}, which is not one of the laws reported"
        )
    best = eligible[0]
    mean = sum(value for _, value in points) / len(points)
    grown = abs(best.value(points[-1][0]) - best.value(points[0][0]))
    if best.form is _FLAT and best.misfit > _SCATTER * mean + _RESOLUTION:
        return f"it varies by {best.misfit / mean:.0%} of its mean, which no law explains"
    if best.form is not _FLAT and best.misfit > _MISFIT * grown:
        return (
            f"it deviates from {best.form.law}, the closest law, by {best.misfit / grown:.0%} of its growth"
        )
    return ""


@dataclass(frozen=True)
class _ScaledPoints:
    """Points, each with the unit in which deviations from a law are alike."""

    points: Sequence[tuple[int, float]]
    smallest: float
    resolution: float  # in those units

    @property
    def values(self) -> list[float]:
        return [value for _, value in self.points]

    def dot(self, one: Sequence[float], other: Sequence[float]) -> float:
        """The sum of products in the points' units."""
        terms = zip(one, other, self.values, strict=True)
        return sum(x * y / max(value, self.smallest) ** 2 for x, y, value in terms)


def _weighed(points: Sequence[tuple[int, float]]) -> list[Candidate]:
    """All forms that the points allow, fitted and weighted."""
    values = [value for _, value in points]
    mean = sum(values) / len(values)
    sample = _ScaledPoints(
        points,
        smallest=max(_SMALLEST * max(values), _RESOLUTION),
        resolution=_RELATIVE_RESOLUTION + _RESOLUTION / max(mean, _RESOLUTION),
    )
    candidates = [candidate for form in _FORMS if (candidate := _fitted(form, sample))]
    most = max(candidate.log_evidence for candidate in candidates)
    total = sum(math.exp(candidate.log_evidence - most) for candidate in candidates)
    return [replace(c, weight=math.exp(c.log_evidence - most) / total) for c in candidates]


def _fitted(form: Form, sample: _ScaledPoints) -> Candidate | None:
    """Least squares in the sample's units; None where the form would have to fall, or level off below zero.

    The evidence is the probability of the points. Priors: flat for the level; flat for the slope, up to a
    growth as large as the values; for the variance a scaled inverse chi squared of one degree of freedom, at
    the resolution.
    """
    values, f = sample.values, [form.f(n) for n, _ in sample.points]
    ones = [1.0] * len(values)
    on_level = sample.dot(ones, ones)
    middle = sample.dot(ones, f) / on_level
    aside = [x - middle for x in f]
    on_b = sample.dot(aside, aside)
    b = sample.dot(aside, values) / on_b if on_b else 0.0
    a = sample.dot(ones, values) / on_level - b * middle
    missed = [y - a - b * x for x, y in zip(f, values, strict=True)]
    squares = sample.dot(missed, missed)
    left = len(values) - (1 if form is _FLAT else 2)
    deviation = math.sqrt(sample.resolution**2 + squares / left)
    log_evidence = (
        math.log(form.prior)
        + math.lgamma((left + 1) / 2)
        - left / 2 * math.log(math.pi)
        - (left + 1) / 2 * math.log(sample.resolution**2 + squares)
    )
    if form is not _FLAT:
        allowed = t_below(b * math.sqrt(on_b) / deviation, left) if b > 0 else 0.0
        if form is _LEVELLING:  # its slope may have either sign, which share the prior
            allowed = 0.5 if a > -0.01 * max(values) else 0.0
        if not allowed:
            return None
        log_evidence += math.log(allowed / math.sqrt(sample.dot(values, values) or 1.0))
    misfit = math.sqrt(sum(m**2 for m in missed) / left)
    return Candidate(
        form, a, b, log_evidence, misfit, deviation, left, sample.smallest, middle, on_level, on_b
    )
