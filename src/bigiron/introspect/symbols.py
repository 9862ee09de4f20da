"""The kernel's symbols: which function or object an address belongs to."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

_MARKS = re.compile(r"(__start_|__stop_|__per_cpu_start|__per_cpu_end|_s?text$|_[es]?data$|_end$|__bss_)")


class SymbolTable:
    """The places and names in the text of /proc/kallsyms."""

    def __init__(self, text: str) -> None:
        places: dict[int, str] = {}
        variables: dict[int, str] = {}
        marks: dict[str, int] = {}
        self._addresses: dict[str, int] = {}
        for line in text.splitlines():
            try:
                address, kind, name = line.split(maxsplit=3)[:3]
                at = int(address, 16)
            except ValueError:
                continue  # the guest's word
            self._addresses.setdefault(name, at)
            if _MARKS.match(name):
                marks.setdefault(name, at)
            # Of several names of one place the first, as in the kernel's own lookup. Absolute symbols are
            # no places, but per-CPU variables where these are counted from zero.
            elif kind in "aA":
                variables.setdefault(at, name)
            else:
                places.setdefault(at, name)
        start, end = marks.get("__per_cpu_start", 0), marks.get("__per_cpu_end", 0)
        if start:
            variables = {at: name for at, name in places.items() if start <= at < end}
        self._places = _Sorted(places)
        self._variables = _Sorted({at: name for at, name in variables.items() if start <= at < end})
        self._per_cpu = range(start, end)

    @classmethod
    def read(cls, path: Path) -> "SymbolTable":
        """The table in a file of /proc/kallsyms; cells of one kernel share it."""
        return cls.shared(path.read_bytes())

    @classmethod
    def shared(cls, content: bytes) -> "SymbolTable":
        """The same from the file's content."""
        return _table(content)

    def lookup(self, address: int) -> tuple[str, int]:
        r"""The symbol at or before an address and the offset from there; ("", 0) where there is none.

        >>> table = SymbolTable("ffffffff81000000 T startup_64\nffffffff81000100 t find_get_task_by_vpid\n")
        >>> table.lookup(0xffffffff81000123)
        ('find_get_task_by_vpid', 35)
        >>> table.lookup(0x1000)
        ('', 0)
        """
        return self._places.lookup(address)

    def address(self, name: str) -> int | None:
        r"""The address of a symbol; of several with one name the first.

        >>> SymbolTable("ffffffff82a1aa40 D init_task\n").address("init_task") == 0xffffffff82a1aa40
        True
        """
        return self._addresses.get(name)

    def is_per_cpu(self, address: int) -> bool:
        """Whether a symbol's address is no place, but counted from where each CPU's variables start."""
        return address in self._per_cpu

    def lookup_per_cpu(self, address: int, offsets: Sequence[int]) -> tuple[str, int, int] | None:
        """The per-CPU variable at an address, the offset in it and the CPU whose it is; None if it is none.

        `offsets` is the kernel's `__per_cpu_offset`: what is added to a variable's place, for each CPU.
        """
        for cpu, offset in enumerate(offsets):
            at = (address - offset) % (1 << 64)
            if at in self._per_cpu:
                return (*self._variables.lookup(at), cpu)
        return None


@lru_cache(4)
def _table(content: bytes) -> SymbolTable:
    return SymbolTable(content.decode("ascii", errors="replace"))


class _Sorted:
    def __init__(self, names: dict[int, str]) -> None:
        self._addresses = sorted(names)
        self._names = [names[address] for address in self._addresses]

    def lookup(self, address: int) -> tuple[str, int]:
        place = bisect_right(self._addresses, address) - 1
        return (self._names[place], address - self._addresses[place]) if place >= 0 else ("", 0)
