"""Limits of counts per operation: how large one may become before it is called worse.

The gate compares a study with a baseline by them, a history a kernel with its predecessor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from bigiron.analysis.lines import matching

LEAST = matching.TOLERANCE
"""Accesses per operation that a cache line needs to be recorded. A line that is not may have had as many."""


@dataclass(frozen=True)
class Tolerance:
    """By how much a count per operation may exceed the baseline's: the sum of both parts."""

    absolute: float = 0.5
    relative: float = matching.RELATIVE_TOLERANCE

    def allows(self, count: float) -> float:
        """The largest count that passes if the baseline has this one."""
        return count * (1 + self.relative) + self.absolute

    def or_own(self, own: float | None) -> Tolerance:
        """The tolerance with its absolute part replaced, if there is an own one."""
        return self if own is None else replace(self, absolute=own)

    def takes_for_same(self, one: float, other: float) -> bool:
        """Whether two counts differ by no more than the tolerance."""
        return max(one, other) <= self.allows(min(one, other))


BY_CHANCE = Tolerance(1.0, 1.0)
"""For the allocators' data about pages, whose counts can double between two runs of the same kernel."""

INSTRUCTIONS_TOLERANCE = Tolerance(20.0, 0.01)
"""For instructions per operation."""


@dataclass(frozen=True)
class LimitedCount:
    """The counts of a cache line, or of instructions, per operation in each unit: baseline and study."""

    name: str
    units: tuple[str, ...]
    before: tuple[float, ...] | None  # None: not in the baseline
    allowed: tuple[float, ...]
    after: tuple[float, ...]  # the smallest count of all repetitions: a regression is in each of them
    by: str = ""  # the functions: "touched by dput, d_alloc"
    is_chance: bool = False  # whether two boots of one kernel may differ as much

    @property
    def worse(self) -> bool:
        """Whether it certainly exceeds the limit."""
        return self._exceeds and not self.is_chance

    @property
    def may_be_worse(self) -> bool:
        """Whether it exceeds the limit, but two boots of one kernel may differ as much."""
        return self._exceeds and self.is_chance

    @property
    def _exceeds(self) -> bool:
        return any(after > allowed for after, allowed in zip(self.after, self.allowed, strict=True))

    @property
    def words(self) -> str:
        """The study's counts, the baseline's, and the limits."""
        now = ", ".join(f"{count:.3f} {unit}" for count, unit in zip(self.after, self.units, strict=True))
        had = f"the baseline has {_and(self.before)}" if self.before else "not in the baseline"
        passes = "pass" if len(self.allowed) > 1 else "passes"
        return f"{now} per operation; {had} ({_and(self.allowed)} {passes})"

    @property
    def more(self) -> float:
        """By how much it exceeds the baseline, in the unit with the largest excess."""
        before = self.before or (0.0,) * len(self.after)
        return max(after - was for after, was in zip(self.after, before, strict=True))


def _and(counts: tuple[float, ...]) -> str:
    return " and ".join(f"{count:.3f}" for count in counts)


def worst_first(counts: Iterable[LimitedCount]) -> list[LimitedCount]:
    """The counts in the order in which they are reported."""
    return sorted(counts, key=lambda count: (not count.worse, -count.more, count.name))
