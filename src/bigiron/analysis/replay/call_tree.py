"""The calls of an operation, as the probes counted them: instructions, accesses and locks of each path."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from bigiron.analysis.replay.program import Event
from bigiron.util.lazy import Floats
from bigiron.util.lazy import numpy as np


@dataclass
class Site:
    """Something that a call does, and how often per operation."""

    path: tuple[str, ...]
    per_op: float
    event: Event


@dataclass
class CriticalSection:
    """A lock that a call takes: how often an operation does so, and for how many instructions it holds it."""

    path: tuple[str, ...]
    per_op: float
    held: float
    lock: int
    shared: bool
    tries_in_vain: bool = (
        False  # a compare-and-exchange that fails, of a trylock, before that with which it takes it
    )


@dataclass
class CallNode:
    """Calls of one path in an operation: what they execute themselves, and whom they call."""

    own: float = 0.0
    calls: dict[str, CallNode] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    sections: list[CriticalSection] = field(default_factory=list)

    @cached_property
    def inclusive(self) -> float:
        """Instructions, with those of all that it calls."""
        return self.own + sum(call.inclusive for call in self.calls.values())

    @cached_property
    def needed(self) -> list[CallNode]:
        """Those it calls in which anything of interest lies."""
        return [call for call in self.calls.values() if call.sites or call.sections or call.needed]

    @cached_property
    def rest(self) -> float:
        """Instructions, without those of the calls that are needed."""
        return self.inclusive - sum(call.inclusive for call in self.needed)

    @cached_property
    def rates(self) -> Floats:
        """How often an operation does what each of its sites does."""
        return np.array([site.per_op for site in self.sites])

    @cached_property
    def times(self) -> float:
        """How often an operation makes it, if that is known: with a lock for most, as often as it."""
        most = max(self.sections, key=lambda section: section.per_op * section.held, default=None)
        if most is None or 2 * most.per_op * most.held < self.inclusive:
            return math.inf
        return most.per_op
