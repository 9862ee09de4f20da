"""The object at an address of a workload's memory, from its program's symbols and its mappings."""

import csv
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bigiron.introspect.symbols import SymbolTable

PREFIX = "user:"
"""Before the name of a function or an object of user space: the kernel has a memset too."""

_PAGE = 4096
_NAMES = {"[heap]": "heap", "[stack]": "stack", "[vdso]": "vdso", "/dev/zero": "shared memory", "": "memory"}


@dataclass(frozen=True)
class Region:
    """A line of /proc/PID/maps."""

    start: int
    end: int
    name: str

    @classmethod
    def parse(cls, line: str) -> "Region":
        """One line.

        >>> Region.parse("7f6e8c0f5000-7f6e8c0f6000 rw-s 00000000 00:01 1027    /dev/zero (deleted)").name
        'shared memory'
        """
        place, _, rest = line.partition(" ")
        start, _, end = place.partition("-")
        path = (rest.split(maxsplit=4)[4:] or [""])[0].removesuffix(" (deleted)").strip()
        return cls(int(start, 16), int(end, 16), _NAMES.get(path, path))


@dataclass(frozen=True)
class UserPage:
    """The first virtual address of a page of user memory, and whether it had others."""

    virtual: int
    moved: bool


class UserMemory:
    """The memory of a workload's tasks. `symbols` are its program's, which is where they say."""

    def __init__(self, symbols: SymbolTable, maps: Iterable[str], pages: dict[int, UserPage]) -> None:
        self._symbols = symbols
        self._end = symbols.address("_end") or 0  # of the program, which lies below all else
        self._regions: Sequence[Region] = sorted(map(Region.parse, maps), key=lambda region: region.start)
        self._pages = pages

    def lookup(self, pc: int) -> tuple[str, int]:
        """The function at an address of code, and the offset in it."""
        name, offset = self._symbols.lookup(pc) if pc < self._end else self._in_region(pc)
        return f"{PREFIX}{name}", offset

    def __contains__(self, address: int) -> bool:
        """Whether it is a physical address in pages that the tasks accessed."""
        return address // _PAGE * _PAGE in self._pages

    def name(self, physical: int) -> str:
        """The object at a physical address: `user:counters+0x40`, `user:heap+0x12a0`."""
        virtual = self._pages[physical // _PAGE * _PAGE].virtual + physical % _PAGE
        name, offset = self._symbols.lookup(virtual) if virtual < self._end else self._in_region(virtual)
        return f"{PREFIX}{name}+{offset:#x}"

    def has_moved(self, physical: int) -> bool:
        """Whether the page was mapped to several addresses."""
        return self._pages[physical // _PAGE * _PAGE].moved

    def _in_region(self, address: int) -> tuple[str, int]:
        place = bisect_right(self._regions, address, key=lambda region: region.start) - 1
        if place >= 0 and address < self._regions[place].end:
            return self._regions[place].name, address - self._regions[place].start
        return _NAMES[""], address


def read_pages(file: Path) -> dict[int, UserPage]:
    """The recorder's list of user pages, by physical address."""
    with file.open(encoding="ascii") as lines:
        return {
            int(physical, 16): UserPage(int(virtual, 16), moved == "1")
            for physical, virtual, moved in list(csv.reader(lines))[1:]
        }
