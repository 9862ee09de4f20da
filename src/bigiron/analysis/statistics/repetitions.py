"""What was measured again and again: one metric of one variant, at so many CPUs and tasks.

A repetition is one cell, and counts once: the samples inside it share its boot and its processes, and say
nothing about what the next boot would give.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from statistics import fmean, median

from bigiron.util.numbers import Better

_PAUSE_S = 120  # that a machine may take between the cells of a block


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
    spans: tuple[tuple[float, float], ...] = ()
    """When each repetition began and ended, in seconds by one clock; empty where that is not known."""

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
        at = [index for index, number in enumerate(self.numbers) if number in numbers]
        return replace(
            self,
            numbers=tuple(self.numbers[index] for index in at),
            samples=tuple(self.samples[index] for index in at),
            spans=tuple(self.spans[index] for index in at) if self.spans else (),
        )

    def paired_with(self, other: "Repetitions", variants: int) -> set[int]:
        """The numbers of the repetitions that both have and that ran in the same block of so many variants.

        A cell that failed and ran again later is not paired. Nor is a cell whose block was killed halfway.
        """
        common = set(self.numbers) & set(other.numbers)
        if not (self.spans and other.spans):
            return common
        ours, theirs = (dict(zip(one.numbers, one.spans, strict=True)) for one in (self, other))
        return {number for number in common if _together(ours[number], theirs[number], variants)}


def _together(one: tuple[float, float], other: tuple[float, float], variants: int) -> bool:
    """Whether the time between two cells is no longer than the other cells of the block need."""
    between = max(one[0], other[0]) - min(one[1], other[1])
    longer = max(end - begin for begin, end in (one, other))
    return between <= _PAUSE_S + (variants - 2) * longer
