"""mm/percpu.c: memory of which every CPU has its own copy."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from bigiron.introspect.mm.structs import WORD, Structs, UnreadableError
from bigiron.util.lazy import numpy as np

_MOST_LISTS = 256
_GRAIN = 4  # bytes for each bit of a chunk's maps: PCPU_MIN_ALLOC_SIZE
_ALL = (1 << 64) - 1


@dataclass(frozen=True)
class Chunk:
    """A `struct pcpu_chunk`, and what it says of itself."""

    address: int
    start: int  # of the part that each CPU has, as if the first CPU's unit had the offset 0
    end: int
    alloc_map: int  # a bit for each grain
    bound_map: int  # and one more
    blocks: int  # an array of `struct pcpu_block_md`
    pages: int  # one for each

    def map_bytes(self, more_bits: int = 0) -> int:
        """How long a map is that has so many bits more than there are grains."""
        return -(-((self.end - self.start) // _GRAIN + more_bits) // (WORD * 8)) * WORD


class PerCpu:
    """The chunks of per-CPU memory. A pointer to it plus a CPU's offset is the address of that CPU's copy."""

    def __init__(self, structs: Structs, offsets: Sequence[int], page_bytes: int) -> None:
        self._structs = structs
        self._page_bytes = page_bytes
        self.offsets = offsets
        self._bounds = cache(self._read_bounds)

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
        at = self._in_first_unit(value)
        return any(chunk.start <= at < chunk.end for chunk in self.chunks)

    def allocation(self, pointer: int) -> tuple[int, int] | None:
        """Pointer to and size of the allocation that a pointer lies in; None if the kernel does not tell."""
        at = self._in_first_unit(pointer)
        for chunk in self.chunks:
            if chunk.start <= at < chunk.end:
                bounds = self._bounds(chunk)
                place = bisect_right(bounds, at - chunk.start)
                if 0 < place < len(bounds):
                    first, behind = bounds[place - 1], bounds[place]
                    return (pointer - (at - chunk.start - first)) & _ALL, behind - first
        return None

    def _in_first_unit(self, pointer: int) -> int:
        """Where the first CPU's copy is, as if its unit had the offset 0."""
        return (pointer + self.offsets[0] - self._units[0]) & _ALL

    def _read_bounds(self, chunk: Chunk) -> list[int]:
        """Where allocations, and what is free between them, begin in a chunk: the bits of its `bound_map`."""
        bits = (chunk.end - chunk.start) // _GRAIN + 1
        content = self._structs.memory.read(chunk.bound_map, -(-bits // 8)) or b""
        begin = np.unpackbits(np.frombuffer(content, dtype=np.uint8), bitorder="little")
        return [int(bit) * _GRAIN for bit in np.flatnonzero(begin[:bits])]

    @cached_property
    def _copies(self) -> list[tuple[int, int, int]]:
        """Start, CPU and end of each CPU's part of each chunk, sorted."""
        units = enumerate(self._units)
        return sorted(
            (chunk.start + unit, cpu, chunk.end + unit) for cpu, unit in units for chunk in self.chunks
        )

    @cached_property
    def _units(self) -> list[int]:
        """Where each CPU's part of a chunk is."""
        try:
            array = self._structs.number(self._structs.symbol("pcpu_unit_offsets"))
            return [self._structs.number(array + cpu * WORD) for cpu in range(len(self.offsets))]
        except UnreadableError:
            return []

    @cached_property
    def chunks(self) -> list[Chunk]:
        """All of them."""
        structs, found = self._structs, []
        try:
            lists = structs.number(structs.symbol("pcpu_chunk_lists"))
            count = min(structs.number(structs.symbol("pcpu_nr_slots"), 4), _MOST_LISTS)
            for number in range(count):
                for chunk in structs.list(lists + number * 2 * WORD, "pcpu_chunk"):
                    start, pages, alloc_map, bound_map, blocks = (
                        structs.value("pcpu_chunk", chunk, member)
                        for member in ("base_addr", "nr_pages", "alloc_map", "bound_map", "md_blocks")
                    )
                    end = start + pages * self._page_bytes
                    found.append(Chunk(chunk, start, end, alloc_map, bound_map, blocks, pages))
        except UnreadableError:
            pass  # of a kernel that keeps them otherwise the others are named all the same
        return found
