"""What was measured again and again: one metric of one variant, at so many CPUs and tasks.

A repetition is one cell, and counts once: the samples inside it share its boot and its processes, and say
nothing about what the next boot would give.
"""

from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal, TypeAlias

Better: TypeAlias = Literal["more", "less"]


@dataclass(frozen=True)
class Repetitions:
    """A metric in every repetition, in the order of their numbers. Outliers are among them."""

    variant: str
    cpus: int
    tasks: int
    metric: str
    unit: str
    better: Better
    numbers: tuple[int, ...]
    """Of the repetitions, from 1; not all, where a cell failed or was not measured yet."""
    samples: tuple[tuple[float, ...], ...]
    """Of each repetition, in the order in which they were taken."""

    @property
    def values(self) -> tuple[float, ...]:
        """Of each repetition the mean of its samples."""
        return tuple(fmean(samples) for samples in self.samples)

    @property
    def median(self) -> float:
        """Of the repetitions."""
        return median(self.values)
