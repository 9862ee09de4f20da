"""Figures that were simulated several times: with different seeds, or on machines sampled from ranges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from bigiron.analysis.replay.prediction import Interval
from bigiron.util.lazy import numpy as np
from bigiron.util.lazy import polars as pl
from bigiron.util.numbers import three_digits


@dataclass(frozen=True)
class SeedRange:
    """A figure that was simulated with several seeds.

    >>> str(SeedRange((12.1, 12.5)))
    '12.3 (12.1 to 12.5)'
    """

    of_seeds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over all seeds."""
        return fmean(self.of_seeds)

    @property
    def low(self) -> float:
        """The least of any seed."""
        return min(self.of_seeds)

    @property
    def high(self) -> float:
        """The most of any seed."""
        return max(self.of_seeds)

    def __str__(self) -> str:
        return f"{three_digits(self.mean)} ({three_digits(self.low)} to {three_digits(self.high)})"


@dataclass(frozen=True)
class SampledRange:
    """A figure that was simulated with a machine's own figures, and with others drawn from their ranges.

    >>> str(SampledRange(12.3, tuple(range(101))))
    '12.3 (4.15 to 95.8)'
    """

    itself: float
    of_samples: tuple[float, ...]

    @property
    def low(self) -> float:
        """The lower end of the 90 % range."""
        return self._interval.low

    @property
    def high(self) -> float:
        """The upper end of the 90 % range."""
        return self._interval.high

    def holds(self, value: float) -> bool:
        """Whether a value is in the 90 % range."""
        return self._interval.holds(value)

    @cached_property
    def _interval(self) -> Interval:
        return Interval.of(np.array([self.itself, *self.of_samples]))

    def __str__(self) -> str:
        return f"{three_digits(self.itself)} ({three_digits(self.low)} to {three_digits(self.high)})"


def sampled_range(rows: pl.DataFrame, figure: str, variant: str) -> SampledRange:
    """Like `seed_range`, for a study whose repetitions have different machines."""
    itself, *samples = seed_range(rows, figure, variant).of_seeds
    return SampledRange(itself, tuple(samples))


def seed_range(rows: pl.DataFrame, figure: str, variant: str, tasks: int | None = None) -> SeedRange:
    """A figure of one variant, of the rows of a study's table `simulation`."""
    chosen = rows.filter(figure=figure, variant=variant)
    if tasks is not None:
        chosen = chosen.filter(tasks=tasks)
    return SeedRange(tuple(chosen.sort("repetition")["value"]))
