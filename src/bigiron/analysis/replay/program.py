"""What a task does in an operation, for the simulator to replay: lines, locks, and events in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Scope = Literal["shared", "node", "task", "task of node"]
"""Of which line there is one in all, one a node, or one a task; the last only tasks of its node visit."""

OWN: tuple[Scope, ...] = ("task", "task of node")
"""Of which there is one a task."""

LOCKS = {
    "spin_lock": "spinlock",
    "read_lock": "rwlock",
    "write_lock": "rwlock",
    "mutex_lock": "mutex",
    "down_read": "rwsem",
    "down_write": "rwsem",
}
"""The simulator's kinds, by what `analysis.locks` calls the kernel's functions."""

READERS = ("read_lock", "down_read")
"""Those that others can have at the same time."""


class ReplayLine(NamedTuple):
    """A cache line that several tasks touch."""

    name: str
    scope: Scope


class ReplayLock(NamedTuple):
    """A lock, on one of the lines."""

    name: str
    kind: str
    line: int


class Event(NamedTuple):
    """One thing that a task does: `amount` instructions or bytes, or something to a line or lock."""

    kind: str
    amount: float = 0.0
    object: int = 0  # the line or lock; of `interrupt`, for how many CPUs the operation has the instructions
    how: str = ""


@dataclass(frozen=True)
class ReplayProgram:
    """Operations that tasks do again and again, each in an order of its own that chance decides."""

    lines: Sequence[ReplayLine]
    locks: Sequence[ReplayLock]
    operations: Sequence[Sequence[Event]]
    names: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """All that lies in a line, by its number, where more is known than its name."""
    places: Mapping[int, int] = field(default_factory=dict)
    """The number of each recorded line, by its address divided by a line's bytes."""

    @property
    def objects(self) -> list[tuple[str, str]]:
        """Kind and name of all that a task's time can go into, in the simulator's order."""
        return [
            *(
                ("work", "instructions"),
                ("memory", "memory bandwidth"),
                ("interrupts", "other CPUs' answers"),
            ),
            *(("line", line.name) for line in self.lines),
            *(("lock", lock.name) for lock in self.locks),
        ]
