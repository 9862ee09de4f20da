# SPDX-License-Identifier: GPL-2.0-or-later
"""What a profiler measured on a real machine: cache lines, locks, functions or waits, the costliest first."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ProfileKind: TypeAlias = Literal["cache lines", "locks", "functions", "waits"]


@dataclass(frozen=True)
class MeasuredPart:
    """What one instruction, or one function, has of something that was measured."""

    function: str  # without what compilers add; empty if the profiler found no symbol
    weight: float  # of the thing's weight
    records: float = 0.0  # samples or events
    stores: float = 0.0  # of a cache line: samples of stores
    offset: int | None = None  # of a cache line: bytes from its first one to the data
    place: str = ""  # the source line, or the instruction: mmap.c:2065, up_write+27
    callers: tuple[str, ...] = ()  # innermost first, where the profiler recorded call chains
    is_kernel: bool = True


@dataclass(frozen=True)
class MeasuredThing:
    """A cache line, a lock, a function or a place where tasks wait."""

    name: str  # a cache line's address, a lock's class, a function; empty if it is not known
    weight: float
    parts: tuple[MeasuredPart, ...]
    type: str = ""  # of a lock: spinlock, rwlock:R, rwsem:W, mutex, mutex or rwsem; empty if unknown

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that touch it, the costliest first."""
        sums: dict[str, float] = {}
        for part in self.parts:
            sums[part.function] = sums.get(part.function, 0.0) + part.weight + part.stores
        return tuple(sorted(filter(None, sums), key=lambda name: -sums[name]))

    @property
    def is_kernel(self) -> bool:
        """Whether the kernel touches it."""
        return any(part.is_kernel for part in self.parts)


@dataclass(frozen=True)
class MeasuredProfile:
    """A profile, read whole."""

    kind: ProfileKind
    unit: str  # of the weights: `loads from another cache`, `ns waited`, `samples of cycles`
    things: tuple[MeasuredThing, ...]  # the largest weight first
    not_read: tuple[tuple[int, str], ...] = field(default=())
    """The lines of the file that were not understood, with their numbers."""
    notes: tuple[str, ...] = ()
    """What else its weights lack, in sentences."""

    @property
    def total(self) -> float:
        """The weight of all of them."""
        return sum(thing.weight for thing in self.things)

    @property
    def has_stores(self) -> bool:
        """Whether stores were sampled too."""
        return any(part.stores for thing in self.things for part in thing.parts)


_TIME = re.compile(
    r"(ns|us|time) "
    r"|(% of the )?samples of (\w+/)?((cpu[-_]|ref-)?cycles|(cpu|task)-clock|cpu_clk_unhalted)(?![\w-])",
    re.IGNORECASE,
)


def is_time(unit: str) -> bool:
    """Whether weights of this unit are times, or samples that follow a clock.

    >>> is_time("% of the samples of cpu_core/cycles/P"), is_time("time off the CPU")
    (True, True)
    >>> is_time("samples of stalled-cycles-frontend"), is_time("samples")
    (False, False)
    """
    return bool(_TIME.match(unit))


CUT = 26
"""Characters of a function's name that `perf c2c` prints: a name of that length may be longer."""


def symbol(text: str) -> str:
    """A function's name as the source has it.

    >>> symbol("__sigqueue_free.part.23"), symbol("rwsem_wake.isra.0+0x2c"), symbol("[unknown]")
    ('__sigqueue_free', 'rwsem_wake', '')
    >>> symbol(".change_protection+0x1d4/0x560"), symbol("0x00000000000025ac")
    ('change_protection', '')
    """
    name = text.strip().lstrip(".").partition("+")[0]
    if not name or name[0] in "[(" or name[0].isdigit():
        return ""
    return name.partition(".")[0]
