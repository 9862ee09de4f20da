"""What was measured again and again: one metric of one variant, at so many CPUs and tasks.

A repetition is one cell, and counts once: the samples inside it share its boot and its processes, and say
nothing about what the next boot would give.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Literal, TypeAlias

Better: TypeAlias = Literal["more", "less"]


def where(cpus: int, tasks: int) -> str:
    """CPUs and tasks in words.

    >>> where(8, 1)
    '1 task on 8 CPUs'
    """
    return f"{tasks} task{'' if tasks == 1 else 's'} on {cpus} CPU{'' if cpus == 1 else 's'}"


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

    @property
    def point(self) -> tuple[int, int]:
        """CPUs and tasks."""
        return self.cpus, self.tasks

    @property
    def has_ratios(self) -> bool:
        """Whether all values are above zero, as those must be whose ratios mean something."""
        return all(value > 0 for value in self.values)

    def only(self, numbers: Collection[int]) -> "Repetitions":
        """Those of some numbers."""
        kept = [
            (number, samples)
            for number, samples in zip(self.numbers, self.samples, strict=True)
            if number in numbers
        ]
        return replace(self, numbers=tuple(n for n, _ in kept), samples=tuple(samples for _, samples in kept))
