"""mm/percpu.c: memory of which every CPU has its own copy."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

from bigiron.introspect.mm.structs import WORD, Structs, UnreadableError

_MOST_LISTS = 256
_ALL = (1 << 64) - 1


class PerCpu:
    """The chunks of per-CPU memory. A pointer to it plus a CPU's offset is the address of that CPU's copy."""

    def __init__(self, structs: Structs, offsets: Sequence[int], page_bytes: int) -> None:
        self._structs = structs
        self._page_bytes = page_bytes
        self.offsets = offsets

    def locate(self, address: int) -> tuple[int, int] | None:
        """The pointer and the CPU of per-CPU memory that was allocated; None if the address is none."""
        place = bisect_right(self._copies, (address, len(self.offsets), 0)) - 1
        if place < 0:
            return None
        _, cpu, end = self._copies[place]
        return ((address - self.offsets[cpu]) & _ALL, cpu) if address < end else None

    def is_pointer(self, value: int) -> bool:
        """Whether a value is a pointer to per-CPU memory that was allocated."""
        if not value or not self._units:
            return False
        at = (value + self.offsets[0] - self._units[0]) & _ALL
        return any(start <= at < end for start, end in self._chunks)

    @cached_property
    def _copies(self) -> list[tuple[int, int, int]]:
        """Start, CPU and end of each CPU's part of each chunk, sorted."""
        units = enumerate(self._units)
        return sorted((start + unit, cpu, end + unit) for cpu, unit in units for start, end in self._chunks)

    @cached_property
    def _units(self) -> list[int]:
        """Where each CPU's part of a chunk is."""
        try:
            array = self._structs.number(self._structs.symbol("pcpu_unit_offsets"))
            return [self._structs.number(array + cpu * WORD) for cpu in range(len(self.offsets))]
        except UnreadableError:
            return []

    @cached_property
    def _chunks(self) -> list[tuple[int, int]]:
        """Start and end of the first CPU's part of each chunk, as if its unit had the offset 0."""
        structs, found = self._structs, []
        try:
            lists = structs.number(structs.symbol("pcpu_chunk_lists"))
            count = min(structs.number(structs.symbol("pcpu_nr_slots"), 4), _MOST_LISTS)
            for number in range(count):
                for chunk in structs.list(lists + number * 2 * WORD, "pcpu_chunk"):
                    start = structs.value("pcpu_chunk", chunk, "base_addr")
                    pages = structs.value("pcpu_chunk", chunk, "nr_pages")
                    found.append((start, start + pages * self._page_bytes))
        except UnreadableError:
            pass  # of a kernel that keeps them otherwise the others are named all the same
        return found
