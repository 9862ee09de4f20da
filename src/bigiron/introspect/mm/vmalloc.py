"""mm/vmalloc.c: who asked for the memory at an address of the vmalloc area."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from bigiron.introspect.mm.structs import Structs, UnreadableError

_MOST_NODES = 1024


@dataclass(frozen=True)
class Area:
    """An allocation and the address in the function that asked for it; 0 if that is not known."""

    start: int
    end: int
    caller: int


class Areas:
    """All allocations."""

    def __init__(self, structs: Structs) -> None:
        self._structs = structs

    def at(self, address: int) -> Area | None:
        """The allocation that an address lies in."""
        areas = self._sorted
        if isinstance(areas, str):
            raise UnreadableError(areas)
        place = bisect_right(areas, address, key=lambda area: area.start) - 1
        if place < 0 or address >= areas[place].end:
            return None
        return areas[place]

    @cached_property
    def _sorted(self) -> list[Area] | str:
        """Or what keeps them from being read, which is found out once, too: a list may lead far astray."""
        try:
            return sorted(self._all(), key=lambda area: area.start)
        except UnreadableError as error:
            return str(error)

    def _all(self) -> Iterator[Area]:
        for head in self._heads():
            for address in self._structs.list(head, "vmap_area"):
                start = self._structs.value("vmap_area", address, "va_start")
                end = self._structs.value("vmap_area", address, "va_end")
                yield Area(start, end, self._caller(address))

    def _caller(self, area: int) -> int:
        try:
            vm = self._structs.value("vmap_area", area, "vm")
            return self._structs.value("vm_struct", vm, "caller")
        except UnreadableError:
            return 0

    def _heads(self) -> list[int]:
        """One list up to 6.8, then one for each node of the allocator."""
        structs = self._structs
        if one := structs.symbols.address("vmap_area_list"):
            return [one]
        nodes = structs.number(structs.symbol("vmap_nodes"))
        count = structs.number(structs.symbol("nr_vmap_nodes"), 4)
        size = structs.btf.size(structs.type("vmap_node"))
        head = structs.member("vmap_node", "busy.head").start
        if count > _MOST_NODES:
            raise UnreadableError(f"{count} nodes of the vmalloc area")
        return [nodes + number * size + head for number in range(count)]
