"""A figure with the interval that it lies in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from bigiron.util.lazy import Floats
from bigiron.util.lazy import numpy as np
from bigiron.util.numbers import three_digits

SAMPLED = 0.9
"""The confidence of an interval of samples."""


@dataclass(frozen=True)
class Estimate:
    """A figure, and an interval: which one, and how sure, says the function that makes it.

    The ends are NaN where too little is known for any interval.

    >>> str(Estimate(12.3, 4.15, 95.8))
    '12.3 (4.15 to 95.8)'
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return self.written(three_digits)

    def written(self, form: Callable[[float], str], unit: str = "") -> str:
        """The figure with its unit, and its interval, each number in this form.

        >>> Estimate(12.3, 4.15, 95.8).written("{:.0f}".format, " s")
        '12 s (4 to 96)'
        """
        return f"{form(self.value)}{unit} ({form(self.low)} to {form(self.high)})"

    def holds(self, value: float) -> bool:
        """Whether a value lies in the interval."""
        return self.low <= value <= self.high

    def changed(self, by: Callable[[float], float]) -> Estimate:
        """The same of another unit; `by` only rises."""
        return Estimate(by(self.value), by(self.low), by(self.high))


def of_all(values: Sequence[float]) -> Estimate:
    """The mean of a few values, and the least and the most of them.

    >>> of_all([12.1, 12.5])
    Estimate(value=12.3, low=12.1, high=12.5)
    """
    return Estimate(fmean(values), min(values), max(values))


def of_samples(samples: Floats) -> Estimate:
    """The median of all samples, and bounds that hold one more with 90 %.

    >>> of_samples(np.array([1.0, 2.0, 3.0]))
    Estimate(value=2.0, low=1.0, high=3.0)
    """
    # Of n samples in their order, one more lies below the k-th with k / (n + 1), as "weibull" says.
    # Between plain percentiles of 64 it would lie with 87 %.
    low, value, high = np.quantile(samples, [(1 - SAMPLED) / 2, 0.5, (1 + SAMPLED) / 2], method="weibull")
    return Estimate(float(value), float(low), float(high))
