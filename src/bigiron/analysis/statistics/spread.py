"""Whether a count differs between two kernels by more than between two boots of one kernel.

Most counts follow from the program: every CPU has the same number in every boot. Others depend on what a
boot, or the order in which CPUs run, decides: which pages and objects a CPU gets, who waits for a lock. A
difference of the first kind is known from one boot. Of the second kind it is compared with the spread between
boots, by Student's t test with a pooled variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from bigiron.analysis.statistics.student import t_below
from bigiron.analysis.statistics.verdict import Verdict
from bigiron.util.lazy import polars as pl

CHANCE = 0.001
"""Of each count that does not differ, that it is called changed. A study compares hundreds."""

FEWEST_BOOTS = 2
"""Of each kernel, for what varies to be compared at all."""

MOST_BOOTS = 4
"""Of each kernel, that are added while something is undecided."""

PROGRAM_BOOTS = 2
"""The same of programs, each cell of which takes many times as long as a workload's."""

_WHOLE = 0.005  # half operations; how far from whole what the program decides is
_NEARLY_NONE = 0.05  # of a count, that chance adds to what the program decides
_EVENLY = 0.005  # by how much the counts of CPUs differ that do the same, and from whole numbers


@dataclass(frozen=True)
class Boots:
    """A count per operation in each boot of a kernel."""

    counts: tuple[float, ...]
    uneven: float = math.inf
    """How much of it, at most, CPUs do not have the same share of. The rest is decided by the program."""

    @property
    def mean(self) -> float:
        """The mean of the boots."""
        return fmean(self.counts)

    @property
    def by_chance(self) -> float:
        """How much of its mean chance may have decided."""
        return min(self.mean, self.uneven)

    def __add__(self, other: Boots) -> Boots:
        counts = tuple(map(sum, zip(self.counts, other.counts, strict=True)))
        return Boots(counts, self.by_chance + other.by_chance)


def none(boots: int) -> Boots:
    """The counts of something that a kernel never does: zeros."""
    return Boots((0.0,) * boots)


def compare(base: Boots, ours: Boots, tolerance: float, relative: float = 0.01) -> Verdict:
    """Whether a count changed; `tolerance` and a share of it are what does not matter.

    >>> compare(Boots((6.0,), uneven=0.0), Boots((2.0,), uneven=1.0), 0.05)
    <Verdict.changed: 'changed'>
    >>> compare(Boots((6.0,)), Boots((2.0,)), 0.05)
    <Verdict.undecided: 'undecided'>
    >>> compare(Boots((6.0, 6.1)), Boots((2.0, 2.1)), 0.05)
    <Verdict.changed: 'changed'>
    >>> compare(Boots((6.0, 3.0)), Boots((2.0, 5.0)), 0.05)
    <Verdict.undecided: 'undecided'>
    """
    small = tolerance + relative * max(base.mean, ours.mean)
    beyond = abs(ours.mean - base.mean) - small
    if beyond <= 0:
        return Verdict.unchanged
    if not _apart(base, ours):
        return Verdict.undecided
    if beyond > base.by_chance + ours.by_chance or _is_beyond_spread(base, ours, beyond):
        return Verdict.changed
    return Verdict.undecided


def strongest(verdicts: Iterable[Verdict]) -> Verdict:
    """Whether any of several counts of one object changed."""
    found = set(verdicts)
    return next((one for one in (Verdict.changed, Verdict.undecided) if one in found), Verdict.unchanged)


def even(counted: pl.DataFrame, of: Sequence[str], count: str, cpus: int, operations: float) -> pl.DataFrame:
    """Of each group whether all CPUs have the same count in each operation, or in every second one.

    `counted` has the columns `of`, which name the group, `cpu` and the count. Returned: `of` and `even`.
    """
    each = counted.group_by(*of, "cpu").agg(pl.col(count).sum())
    times = 2 * pl.col(count).mean() * cpus / operations
    unlike = pl.col(count).max() - pl.col(count).min()
    return each.group_by(of).agg(
        even=(pl.len() == cpus)
        & (unlike <= 1 + _EVENLY * pl.col(count).mean())
        & ((times - times.round()).abs() <= _EVENLY * pl.max_horizontal(times, 1.0))
    )


def uneven(counted: pl.DataFrame, of: str, count: str, cpus: int, operations: float) -> dict[str, float]:
    """By group, how much of its count per operation CPUs do not have the same share of; inf: any of it.

    The program decides what the CPU with the least has, if that is a whole number or a half per operation
    and nearly all. `counted` is as for `even`.
    """
    each = counted.group_by(of, "cpu").agg(pl.col(count).sum())
    least = pl.col(count).min() * cpus / operations
    mean = pl.col(count).sum() / operations
    is_firm = (
        (pl.len() == cpus)
        & ((2 * least - (2 * least).round()).abs() <= _WHOLE)
        & (mean - least <= _NEARLY_NONE * mean)
    )
    evenly = even(counted, [of], count, cpus, operations)
    found = each.group_by(of).agg(rest=pl.when(is_firm).then(mean - least).otherwise(math.inf))
    rest = pl.when("even").then(0.0).otherwise("rest")
    return dict(found.join(evenly, on=of).select(of, rest).iter_rows())


def _apart(base: Boots, ours: Boots) -> bool:
    return max(base.counts) < min(ours.counts) or max(ours.counts) < min(base.counts)


def _is_beyond_spread(base: Boots, ours: Boots, beyond: float) -> bool:
    """Whether a difference is larger than chance makes it in all but `CHANCE` of comparisons."""
    fewest = min(len(base.counts), len(ours.counts))
    if fewest < FEWEST_BOOTS:
        return False
    freedom = len(base.counts) + len(ours.counts) - 2
    variance = (_squares(base) + _squares(ours)) / freedom
    if not variance:
        return fewest >= MOST_BOOTS
    error = (variance * (1 / len(base.counts) + 1 / len(ours.counts))) ** 0.5
    return 2 * (1 - t_below(beyond / error, freedom)) <= CHANCE


def _squares(boots: Boots) -> float:
    return sum((count - boots.mean) ** 2 for count in boots.counts)
