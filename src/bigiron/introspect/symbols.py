"""The kernel's symbols: which function or object an address belongs to."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from functools import cached_property, lru_cache
from operator import itemgetter
from pathlib import Path

_ADDRESS, _KIND, _NAME = slice(16), slice(17, 18), 19
_AFTER = "~"  # comes after a space
_MARKS = re.compile(r"(__start_|__stop_|__per_cpu_start|__per_cpu_end|_s?text$|_[es]?data$|_end$|__bss_)")


class SymbolTable:
    """The places and names in the text of /proc/kallsyms.

    A line begins with the sixteen digits of its address, so that lines sort by it, and each is taken apart
    when it is asked for: there are 160,000.
    """

    def __init__(self, text: str) -> None:
        self._lines = lines = text.split("\n")
        names = [line[_NAME:].partition("\t")[0] for line in lines]
        self._named = dict(zip(reversed(names), reversed(lines), strict=True))
        # Absolute symbols are no places, but per-CPU variables where these are counted from zero.
        self._places = _Sorted(line for line in lines if line[_KIND] not in "aA")
        start, end = self.address("__per_cpu_start") or 0, self.address("__per_cpu_end") or 0
        self._per_cpu = range(start, end)
        self._variables = self._places if start else _Sorted(line for line in lines if line[_KIND] in "aA")

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

    @property
    def names(self) -> Set[str]:
        """The names of all symbols."""
        return self._named.keys()

    def address(self, name: str) -> int | None:
        r"""The address of a symbol; of several with one name the first.

        >>> SymbolTable("ffffffff82a1aa40 D init_task\n").address("init_task") == 0xffffffff82a1aa40
        True
        """
        line = self._named.get(name)
        return None if line is None else _address(line)

    def room(self, address: int) -> int:
        r"""How many bytes there are from a symbol's address to the next one: as many as it has at most.

        >>> SymbolTable("ffffffff82a1aa40 D tasks\nffffffff82a1aa48 D left\n").room(0xffffffff82a1aa40)
        8
        """
        return (self._variables if address in self._per_cpu else self._places).room(address)

    def is_repeated(self, name: str) -> bool:
        """Whether several places have that name: what is known of one of them is not true of all."""
        return name in self._repeated

    @cached_property
    def _repeated(self) -> frozenset[str]:
        counts = Counter(line[_NAME:].partition("\t")[0] for line in self._lines)
        return frozenset(name for name, count in counts.items() if count > 1)

    def is_per_cpu(self, address: int) -> bool:
        """Whether a symbol's address is no place, but counted from where each CPU's variables start."""
        return address in self._per_cpu

    def per_cpu(self, offsets: Sequence[int]) -> "PerCpuVariables":
        """The variables of which each CPU has its own, in a machine with that `__per_cpu_offset`."""
        return PerCpuVariables(self._variables, self._per_cpu, offsets)


class PerCpuVariables:
    """Each CPU's variables: `offsets` is what is added to a variable's place, for each CPU."""

    def __init__(self, variables: "_Sorted", places: range, offsets: Sequence[int]) -> None:
        self._variables = variables
        self._places = places
        self._offsets = offsets
        self._starts = sorted(
            ((offset + places.start) % (1 << 64), -cpu) for cpu, offset in enumerate(offsets)
        )

    def lookup(self, address: int) -> tuple[str, int, int] | None:
        """The variable at an address, the offset in it and the CPU whose it is; None if it is none.

        CPUs that are not there may all have one place, which is then the first one's.
        """
        place = bisect_right(self._starts, (address, 0)) - 1
        if place < 0:
            return None
        cpu = -self._starts[place][1]
        at = (address - self._offsets[cpu]) % (1 << 64)
        return (*self._variables.lookup(at), cpu) if at in self._places else None


@lru_cache(4)
def _table(content: bytes) -> SymbolTable:
    return SymbolTable(content.decode("ascii", errors="replace"))


class _Sorted:
    """Lines by their addresses."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = sorted(lines, key=itemgetter(_ADDRESS))

    def lookup(self, address: int) -> tuple[str, int]:
        """Of several names of one place the first, as in the kernel's own lookup."""
        end = bisect_right(self._lines, f"{address:016x}{_AFTER}")
        while end:
            start = bisect_left(self._lines, self._lines[end - 1][_ADDRESS])
            for line in self._lines[start:end]:
                name, at = line[_NAME:].partition("\t")[0], _address(line)
                if at is not None and not _MARKS.match(name):
                    return name, address - at
            end = start
        return "", 0

    def room(self, address: int) -> int:
        """Up to the next line's address; as much as anybody asks for where there is none."""
        place = bisect_right(self._lines, f"{address:016x}{_AFTER}")
        after = _address(self._lines[place]) if place < len(self._lines) else None
        return (1 << 64) - address if after is None else after - address


def _address(line: str) -> int | None:
    """None where it is no line of symbols: all of them are the guest's word."""
    try:
        return int(line[_ADDRESS], 16)
    except ValueError:
        return None
