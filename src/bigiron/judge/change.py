"""One change between two kernels, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bigiron.analysis.comparison.cost import Queue
from bigiron.analysis.layout.outcome import LayoutCounts
from bigiron.analysis.lines.rules import Rule
from bigiron.util.object_name import ObjectName

JudgedKind = Literal["coherence", "locks", "instructions", "neither"]

RELEVANT = 0.01
"""Share of an operation's time: a smaller one cannot explain what robots report, which is 2 % and more."""


@dataclass(frozen=True)
class CountChange:
    """One object, lock or sum of instructions that an operation uses more or less on the new kernel."""

    kind: JudgedKind
    object: str
    before: float
    after: float
    unit: str  # of both: "accesses", "writes", "times taken", "instructions", "executions"
    cost: float  # instructions per operation at the report's number of tasks; negative: saved
    share: float  # the cost as a share of an operation's time there, if nothing else limits it
    queue: Queue | None = None  # of a cache line or lock: for how long each kernel's tasks have it
    held: tuple[float, float] | None = None
    """Hold time of a lock, in instructions per operation: before, after."""
    writers: tuple[str, ...] = ()  # functions, most accesses first
    readers: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()  # functions that touch the cache line only on the new kernel
    rule: Rule | None = None
    is_pair: bool = False
    at_report: tuple[float, float] | None = None
    """Accesses to per-CPU cache lines at the report's CPU count: before, after."""
    functions: Mapping[str, float] | None = None  # additional instructions per operation of each function
    moved: tuple[float, float] = (0.0, 0.0)
    """Of all instructions: by how many the functions grew that grew, and those shrank that shrank, as shares
    of an operation's time."""
    cancels: bool = False  # whether these are relevant, and the sum of all instructions is the same
    by_alignment: tuple[LayoutCounts, LayoutCounts] | None = None
    """Accesses per operation to all objects of the cache line's struct, by where an allocator can put them:
    before, after."""
    instruction: str = ""
    """The instruction that is executed more or less often and takes much longer than others. The functions'
    counts are then its executions."""
    elsewhere: bool = False  # whether instructions under locks, which are changes of their own, are left out
    locks: tuple[CountChange, ...] = ()
    """The locks that are held longer, or shorter, by these instructions, the most expensive one first. The
    cost then includes waiting for them, and the instructions are those of the calls that hold them."""

    @property
    def queues(self) -> list[Queue]:
        """What its tasks queue for."""
        return [one.queue for one in (self, *self.locks) if one.queue]

    @property
    def executed(self) -> float:
        """How much longer an operation takes by it, in instructions, if it does not queue for anything."""
        if self.queue:
            return 0.0
        return self.after - self.before if self.locks else self.cost

    @property
    def by(self) -> list[str]:
        """The functions that do it: writers first."""
        return [*self.writers, *self.readers] or list(self.functions or ())

    @property
    def struct(self) -> str:
        """The struct that the cache line is a part of: `struct inode`; empty if it is of none."""
        name = ObjectName.parse(self.object)
        return name.whole if self.kind == "coherence" and name.is_struct else ""

    @property
    def is_relevant(self) -> bool:
        """Whether it costs enough to explain what a robot reports."""
        return abs(self.share) >= RELEVANT or self.cancels

    @property
    def is_luck(self) -> bool:
        """Whether each kernel would have the other one's count if its objects lay elsewhere."""
        if not self.by_alignment:
            return False
        before, after = self.by_alignment
        if before.recorded is None or after.recorded is None:
            return False
        return before.can_be(after.recorded) and after.can_be(before.recorded)

    @property
    def on_average(self) -> tuple[float, float] | None:
        """Accesses to the whole struct, before and after: the average over its places, if these decide."""
        if not (self.by_alignment and self.is_luck):
            return None
        before, after = self.by_alignment
        return before.expected, after.expected

    @property
    def lasting(self) -> float:
        """How much of it remains on average over the objects' places: 1 if they do not decide it.

        Negative if the average changes in the other direction.
        """
        if not (self.by_alignment and self.is_luck) or self.before == self.after:
            return 1.0
        before, after = self.by_alignment
        return after.more_than(before) / (self.after - self.before)

    @property
    def is_only_luck(self) -> bool:
        """Whether it is luck, and what remains on average over the objects' places is not relevant."""
        return self.is_luck and abs(self.share * self.lasting) < RELEVANT
