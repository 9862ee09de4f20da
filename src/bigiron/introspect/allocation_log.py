"""Objects that the recorder saw being allocated: by which functions, and in which cache.

It tells what kmalloc() was asked for, where no type does, and what was in a page that has been freed since.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Allocation:
    """The last allocation of an object at an address."""

    address: int
    asked: int  # the allocator's first argument: a `struct kmem_cache`, or a size
    site: str  # where the kernel called the allocator: "alloc_pipe_info+0x5c"

    @property
    def function(self) -> str:
        """The function that called the allocator."""
        return self.site.partition("+")[0]


class AllocationLog:
    """What was allocated, found by address."""

    def __init__(self, allocations: Iterable[Allocation]) -> None:
        self._allocations = sorted(allocations, key=lambda allocation: allocation.address)
        self._addresses = [allocation.address for allocation in self._allocations]
        self._at = dict(zip(self._addresses, self._allocations, strict=True))

    def __iter__(self) -> Iterator[Allocation]:
        return iter(self._allocations)

    def at(self, start: int) -> Allocation | None:
        """The allocation of the object that starts there."""
        return self._at.get(start)

    def before(self, address: int) -> Allocation | None:
        """The allocation of the last object that starts there or before."""
        place = bisect_right(self._addresses, address) - 1
        return self._allocations[place] if place >= 0 else None
