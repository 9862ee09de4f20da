"""Ratios of noisy measurements, with their confidence.

All intervals are the bootstrap's: what the ratio would have been, had each repetition come as often as
chance has it (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13). The same
measurements always give the same interval. Its ends are NaN where there are too few measurements for any
interval of the confidence that is asked for.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist, fmean

from bigiron.analysis.statistics.estimate import Estimate
from bigiron.util.lazy import Floats, Integers
from bigiron.util.lazy import numpy as np

CONFIDENCE = 0.95
"""Of an interval of which nothing else is said."""

_RESAMPLES = 4000
_FEWEST = 5  # of each side: with fewer the interval of two medians is too narrow


def ratio_of_means(ours: Sequence[float], base: Sequence[float]) -> Estimate:
    """With a confidence of 95 %.

    >>> ratio_of_means([1.0, 1.1, 0.9], [2.0, 2.0, 2.0])
    Estimate(value=0.5, low=0.45, high=0.55)
    """
    chance = random.Random(0)
    ratios = sorted(
        fmean(chance.choices(ours, k=len(ours))) / fmean(chance.choices(base, k=len(base)))
        for _ in range(_RESAMPLES)
    )
    outside = round(_RESAMPLES * (1 - CONFIDENCE) / 2)
    return Estimate(fmean(ours) / fmean(base), ratios[outside], ratios[-1 - outside])


def ratio_of_medians(ours: Sequence[float], base: Sequence[float], confidence: float) -> Estimate:
    """The ratio of the medians of independent measurements, all above zero.

    >>> ratio_of_medians([9.0, 9.1, 8.9, 9.0, 9.2], [10.0, 10.1, 9.9, 10.0, 10.2], 0.95)
    Estimate(value=0.9, low=0.882352941176, high=0.92)
    """
    resampled = _medians(np.log(ours), 0) - _medians(np.log(base), 1)
    value = float(np.median(np.log(ours)) - np.median(np.log(base)))
    fewest, outside = min(len(ours), len(base)), (1 - confidence) / 2
    if fewest < _FEWEST or 1 / math.comb(len(ours) + len(base), fewest) > outside:
        return Estimate(_ratio(value), math.nan, math.nan)
    return _estimate(value, resampled, outside)


def median_of_ratios(ours: Sequence[float], base: Sequence[float], confidence: float) -> Estimate:
    """Of measurements in pairs: what both of a pair have suffered alike cancels out. All above zero.

    The quantiles are taken further out the fewer pairs there are, as plain percentiles of one sample are too
    narrow (Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69, 2015,
    section 5.3); ratios of two samples' medians do not need that.

    >>> median_of_ratios([9.0, 8.1, 7.2, 6.3, 5.4, 4.5], [10.0, 9.0, 8.0, 7.0, 6.0, 5.0], 0.95)
    Estimate(value=0.9, low=0.9, high=0.9)
    >>> median_of_ratios([9.0, 8.1, 7.2], [10.0, 9.0, 8.0], 0.95)
    Estimate(value=0.9, low=nan, high=nan)
    """
    return _of_one_sample(np.log(ours) - np.log(base), confidence)


def median_of(values: Sequence[float]) -> Estimate:
    """Of values above zero, with a confidence of 95 %; as `median_of_ratios`, to 1.

    >>> median_of([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    Estimate(value=3.5, low=1.0, high=6.0)
    """
    if min(values) <= 0:
        return Estimate(float(np.median(values)), math.nan, math.nan)
    found = _of_one_sample(np.log(values), CONFIDENCE)
    return replace(found, value=float(np.median(values)))


def fewest(confidence: float) -> int:
    """Values for an interval of their median: with fewer, all may lie above the true one by chance.

    >>> fewest(0.95)
    6
    """
    return math.ceil(-math.log2((1 - confidence) / 2))


def _of_one_sample(logarithms: Floats, confidence: float) -> Estimate:
    from scipy import special  # here, as no other command should wait for it

    count, value, outside = len(logarithms), float(np.median(logarithms)), (1 - confidence) / 2
    if count < fewest(confidence):
        return Estimate(_ratio(value), math.nan, math.nan)
    stretched = math.sqrt(count / (count - 1)) * float(special.stdtrit(count - 1, outside))
    return _estimate(value, _medians(logarithms, 0), NormalDist().cdf(stretched))


def _medians(logarithms: Floats, seed: int) -> Floats:
    """The medians of as many resamples: looked for among ranks, a byte or two each, not values."""
    count, order = len(logarithms), np.argsort(logarithms)
    ranks = np.empty(count, np.min_scalar_type(count - 1))
    ranks[order] = np.arange(count)
    resamples = ranks[_drawn(count, seed)]
    middle = [(count - 1) // 2, count // 2]
    resamples.partition(middle, axis=1)
    medians: Floats = np.mean(logarithms[order][resamples[:, middle]], axis=1)
    return medians


@lru_cache(8)
def _drawn(count: int, seed: int) -> Integers:
    """The indices of each resample, a row per resample."""
    return np.random.default_rng(seed).integers(0, count, (_RESAMPLES, count))


def _estimate(value: float, resampled: Floats, outside: float) -> Estimate:
    low, high = np.quantile(resampled, [outside, 1 - outside], method="inverted_cdf")
    return Estimate(_ratio(value), _ratio(low), _ratio(high))


def _ratio(logarithm: float) -> float:
    """Rounded, to remove what logarithms add in the last digits."""
    return round(math.exp(logarithm), 12)
