"""Ratios of noisy measurements, with their confidence."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

_RESAMPLES = 4000
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure of noisy measurements, and the interval that holds it with a stated confidence."""

    value: float
    low: float
    high: float


def ratio_of_means(ours: Sequence[float], base: Sequence[float]) -> Estimate:
    """By the bootstrap: what the ratio would have been, had each repetition come as often as chance has it.

    Percentile intervals: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13. The same
    measurements always give the same interval.

    >>> ratio_of_means([1.0, 1.1, 0.9], [2.0, 2.0, 2.0])
    Estimate(value=0.5, low=0.45, high=0.55)
    """
    chance = random.Random(0)
    ratios = sorted(
        fmean(chance.choices(ours, k=len(ours))) / fmean(chance.choices(base, k=len(base)))
        for _ in range(_RESAMPLES)
    )
    outside = round(_RESAMPLES * (1 - _CONFIDENCE) / 2)
    return Estimate(fmean(ours) / fmean(base), ratios[outside], ratios[-1 - outside])
