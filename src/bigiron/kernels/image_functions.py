"""The functions of two kernel images, compared one by one, and which function calls which.

The linker moves functions and variables, so the same code has other addresses in it. Two functions are the
same if they differ only in fields that hold the address of the same thing: a symbol at the same offset, or
an object without a symbol (a string, a constant) with the same content. The alternatives that the kernel
writes over a function's code at boot are a part of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from bigiron.kernels.kernel import Kernel
from bigiron.util import lazy
from bigiron.util.lazy import numpy as np

if TYPE_CHECKING:
    from bigiron.kernels import elf
else:
    elf = lazy.LazyModule("bigiron.kernels.elf")

_EXECUTABLE = 4  # SHF_EXECINSTR
_BOOT = (".init.text", ".init.data")  # what is used while the kernel boots, and then freed
_FUNC, _OBJECT = 2, 1  # STT_FUNC, STT_OBJECT
_FIELD = 4  # bytes of an address in an instruction
_POINTER = 8
_AFTER_IT = (0, 1, 2, 4)  # bytes of an immediate operand between the field and the end of its instruction
_CONSTANT = 16  # bytes of an object without a symbol that are compared
_LONGEST_STRING = 1024
_STRING = re.compile(rb"[\x01\t\n -~]+\0")  # with printk()'s level
_CALLS = (0xE8, 0xE9)  # call rel32, and jmp rel32 as the last call of a function
_OF_A_CALL = 5  # bytes
_CHUNK = 1 << 20  # bytes of code that are searched at once
_ALT_INSTR = {12: 11, 13: 11, 14: 13}
"""The sizes that struct alt_instr has had (arch/x86/include/asm/alternative.h), and where each has the length
of the replacement."""
_NUMBERED = re.compile(r"(\w+)\.\d+")  # a static variable of a function: `__func__.3`


@dataclass(frozen=True)
class FunctionDifferences:
    """What differs between two images: functions by name, in order of the new one's addresses."""

    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    users: tuple[str, ...] = ()
    """The functions of the base image that use a variable whose initial content differs."""
    everywhere: tuple[str, ...] = ()
    """What differs and may change any workload, which does not show in what it executes: functions and data
    of the boot, and variables that hold addresses of functions."""

    @property
    def of_base(self) -> tuple[str, ...]:
        """The functions of the base image that are changed or gone."""
        return (*self.changed, *self.removed)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.changed, *self.added, *self.removed)

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.removed)


@dataclass(frozen=True)
class _Content:
    """A function's code, or what a variable begins with; static ones may have the same name."""

    name: str
    address: int
    content: bytes
    alternatives: tuple[_Content, ...] = ()  # each by its place in the function, and the CPU feature


@dataclass(frozen=True)
class _Section:
    address: int
    content: bytes  # empty: it has none in the file
    size: int
    is_code: bool
    name: str = ""

    def at(self, address: int, length: int) -> bytes:
        """Its content from an address on."""
        start = address - self.address
        return self.content[start : start + length]


_NO_SECTION = _Section(0, b"", 0, False)


@dataclass(frozen=True)
class _Place:
    """A symbol, which may have several names, and an offset; or the content of what has no symbol."""

    names: frozenset[str] = frozenset()
    offset: int = 0
    content: bytes = b""  # also of a variable that the compiler has numbered
    stem: str = ""  # its name without the number

    def is_same(self, other: _Place | None) -> bool:
        """Whether both may mean the same: the end of one table is the start of another by chance."""
        if other is None or self.offset != other.offset:
            return False
        if self.names & other.names:
            return True
        if self.names or other.names:
            return bool(self.stem) and (self.stem, self.content) == (other.stem, other.content)
        return bool(self.content) and self.content == other.content


@dataclass(frozen=True)
class Image:
    """The sections and the symbols of an image."""

    sections: list[_Section]  # those that are in memory, by address
    symbols: list[tuple[int, int, str, bool]]  # address, size, name, whether it is a function; by address

    @cached_property
    def functions(self) -> list[_Content]:
        """All functions that have code, and those of the assembler, which are symbols without a type."""
        found = []
        for address, size, name, _ in self.symbols:
            section = self._section(address) if size else None
            if section and section.is_code:
                alternatives = self._alternatives.get(address, ())
                found.append(_Content(name, address, section.at(address, size), tuple(alternatives)))
        return found

    @cached_property
    def _alternatives(self) -> dict[int, list[_Content]]:
        """The code that may take the place of some of a function's, by the function's address."""
        sections = {section.name: section for section in self.sections}
        table = sections.get(".altinstructions", _NO_SECTION)
        code = sections.get(".altinstr_replacement", _NO_SECTION)
        starts = [address for address, size, *_ in self.symbols if size]
        found: dict[int, list[_Content]] = {}
        for place, replacement, length, feature in _alt_instrs(table, code):
            if number := bisect_right(starts, place):
                start = starts[number - 1]
                name, content = f"{place - start} {feature.hex()}", code.at(replacement, length)
                found.setdefault(start, []).append(_Content(name, replacement, content))
        return found

    @cached_property
    def variables(self) -> list[_Content]:
        """All variables that begin with something else than zeros, but those that the compiler numbered.

        Most of these are the names of functions, and their numbers change with others.
        """
        found = []
        for address, size, name, is_function in self.symbols:
            section = self._section(address) if size and not is_function else None
            if _NUMBERED.fullmatch(name):
                continue
            if section and section.content and not section.is_code:
                found.append(_Content(name, address, section.at(address, size)))
        return found

    def of_boot(self, symbols: Iterable[_Content]) -> set[str]:
        """Those of these functions and variables that are used only while the kernel boots."""
        sections = ((one.name, self._section(one.address)) for one in symbols)
        return {name for name, section in sections if section and section.name in _BOOT}

    def holding_functions(self, variables: Iterable[_Content]) -> set[str]:
        """Those of these variables that hold the address of a function."""
        addresses = {one.address for one in self.functions}
        return {one.name for one in variables if not addresses.isdisjoint(_words(one.content))}

    @cached_property
    def _addresses(self) -> list[int]:
        return [symbol[0] for symbol in self.symbols]

    @cached_property
    def _starts(self) -> list[int]:
        return [section.address for section in self.sections]

    def _section(self, address: int) -> _Section | None:
        at = bisect_right(self._starts, address) - 1
        section = self.sections[at] if at >= 0 else None
        return section if section and address <= section.address + section.size else None

    def place(self, address: int) -> _Place | None:
        """What an address means in any image; None: it is no address."""
        section = self._section(address)
        if section is None:  # the end of all read-only data lies on a page of its own
            names = self._names_at(address)
            return _Place(names) if names else None
        at = bisect_right(self._addresses, address) - 1
        if at >= 0:
            start, size, *_ = self.symbols[at]
            if start >= section.address and (address < start + size or address == start or section.is_code):
                return self._named(section, at, address - start)
        if section.content:
            content = section.at(address, _LONGEST_STRING)
            string = _STRING.match(content)  # what lies behind it is another one
            return _Place(content=string[0] if string else content[: max(content.find(b"\0"), _CONSTANT)])
        return _Place(self._names_at(self._addresses[at]), address - self._addresses[at]) if at >= 0 else None

    def _named(self, section: _Section, at: int, offset: int) -> _Place:
        """A place from a symbol on. Another static variable of a file gives others in it other numbers."""
        start, size, name, is_function = self.symbols[at]
        numbered = None if is_function else _NUMBERED.fullmatch(name)
        if not numbered:
            return _Place(self._names_at(start), offset)
        return _Place(self._names_at(start), offset, section.at(start, size), numbered[1])

    def _names_at(self, address: int) -> frozenset[str]:
        first, end = bisect_left(self._addresses, address), bisect_right(self._addresses, address)
        return frozenset(symbol[2] for symbol in self.symbols[first:end])

    def callers(self) -> dict[str, set[str]]:
        """The functions that call each function directly."""
        starts = np.array(sorted({one.address for one in self.functions}), dtype=np.uint64)
        names = {one.address: one.name for one in self.functions}
        found: dict[str, set[str]] = {}
        for section in self.sections:
            if section.is_code and len(section.content) > _OF_A_CALL:
                for caller, callee in _calls(section, starts):
                    found.setdefault(names[callee], set()).add(names[caller])
        return found

    def users_of(self, variables: Iterable[_Content]) -> set[str]:
        """The functions whose code may have the address of a part of these variables."""
        wanted = sorted((_signed(one.address), len(one.content)) for one in variables)
        functions = sorted((_signed(one.address), one.name) for one in self.functions)
        if not (wanted and functions):
            return set()
        begin = np.array([at for at, _ in wanted])
        end = begin + np.array([size for _, size in wanted])
        starts = np.array([at for at, _ in functions])
        found: set[str] = set()
        for section in self.sections:
            for at in _addresses_in(section, begin, end) if section.is_code else []:
                number = np.searchsorted(starts, at, side="right") - 1
                found.update(functions[one][1] for one in np.unique(number[number >= 0]).tolist())
        return found

    def pointers_to(self, functions: Iterable[str]) -> dict[str, set[str]]:
        """The variables that hold the address of each of these functions, such as `ext4_file_operations`."""
        names = set(functions)
        wanted = {one.address: one.name for one in self.functions if one.name in names}
        found: dict[str, set[str]] = {}
        addresses = np.array(sorted(wanted), dtype=np.uint64)
        for section in self.sections:
            if section.is_code or len(section.content) < 8:
                continue
            words = np.frombuffer(section.content[: len(section.content) & ~7], dtype="<u8")
            for index in np.flatnonzero(np.isin(words, addresses)).tolist():
                place = self.place(section.address + 8 * index)
                if place and place.names:
                    found.setdefault(wanted[int(words[index])], set()).add(min(place.names))
        return found


def read(kernel: Kernel) -> Image | None:
    """An image with a symbol table; None: it is compressed, damaged, or for another processor than x86."""
    try:
        with kernel.image.open("rb") as file, elf.reading(file) as opened:
            if kernel.arch != "x86_64" or not (table := opened.get_section_by_name(".symtab")):
                return None
            sections = [
                _Section(
                    one["sh_addr"],
                    b"" if one["sh_type"] == "SHT_NOBITS" else one.data(),
                    one["sh_size"],
                    bool(one["sh_flags"] & _EXECUTABLE),
                    one.name,
                )
                for one in opened.iter_sections()
                if one["sh_flags"] & elf.IN_MEMORY
            ]
            names = opened.get_section(table["sh_link"]).data()
            return Image(sorted(sections, key=lambda one: one.address), _symbols(table.data(), names))
    except elf.DamagedElfError:
        return None


def _symbols(table: bytes, names: bytes) -> list[tuple[int, int, str, bool]]:
    """The named symbols of functions and variables."""
    layout = np.dtype(
        [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("at", "<u8"), ("size", "<u8")]
    )
    rows = np.frombuffer(table, dtype=layout)
    kinds = rows["info"] & 0xF
    rows = rows[(rows["section"] != 0) & (rows["section"] < 0xFF00) & ((kinds == _FUNC) | (kinds <= _OBJECT))]
    found = []
    for name, info, _, _, at, size in rows.tolist():
        if called := names[name : names.index(b"\0", name)].decode(errors="replace"):
            found.append((at, size, called, info & 0xF == _FUNC))
    return sorted(found)


def _calls(section: _Section, starts: np.ndarray) -> Iterator[tuple[int, int]]:
    """The addresses of the calling and of the called function, for each direct call in a section."""
    code = np.frombuffer(section.content, dtype=np.uint8)
    at = np.flatnonzero(np.isin(code[: -_OF_A_CALL + 1], _CALLS))
    field = sum(code[at + 1 + byte].astype(np.int64) << 8 * byte for byte in range(_FIELD))
    relative = np.where(field >= 1 << 31, field - (1 << 32), field)
    bias = np.uint64(section.address).astype(np.int64)  # kernel addresses are negative: no sum overflows
    ours = starts.astype(np.int64)
    targets = bias + at + _OF_A_CALL + relative
    callers, callees = (np.searchsorted(ours, one, side="right") - 1 for one in (bias + at, targets))
    is_call = np.isin(targets, ours) & (callers >= 0)
    for pair in set(zip(callers[is_call].tolist(), callees[is_call].tolist(), strict=True)):
        yield int(starts[pair[0]]), int(starts[pair[1]])


def _alt_instrs(table: _Section, code: _Section) -> list[tuple[int, int, int, bytes]]:
    """Of each struct alt_instr: its place, the address and length of the replacement, and the CPU feature.

    The struct's size is the one with which all replacements lie where they belong; none: it is unknown.
    """
    for size, length in _ALT_INSTR.items():
        if len(table.content) % size:
            continue
        found = []
        for at in range(0, len(table.content), size):
            entry = table.content[at : at + size]
            place, replacement = (
                table.address + at + field + int.from_bytes(entry[field : field + 4], "little", signed=True)
                for field in (0, 4)
            )
            found.append((place, replacement, entry[length], entry[8:]))
        if all(code.address <= one[1] <= code.address + code.size for one in found):
            return found
    return []


def _words(content: bytes) -> list[int]:
    return [*np.frombuffer(content[: len(content) // _POINTER * _POINTER], dtype="<u8").tolist()]


def _signed(address: int) -> int:
    """An address as the processor extends it: those of the kernel are negative."""
    return address - (1 << 64) if address >> 63 else address


def _addresses_in(section: _Section, begin: np.ndarray, end: np.ndarray) -> Iterator[np.ndarray]:
    """Where code has the address of something in these ranges, which are in order: relative or absolute."""
    bias = _signed(section.address)
    for first in range(0, len(section.content) - _FIELD + 1, _CHUNK):
        code = np.frombuffer(section.content[first : first + _CHUNK + _FIELD - 1], dtype=np.uint8)
        at = np.arange(len(code) - _FIELD + 1)
        field = sum(code[at + byte].astype(np.int64) << 8 * byte for byte in range(_FIELD))
        field = np.where(field >= 1 << 31, field - (1 << 32), field)
        place = bias + first + at
        for target in (field, *(place + _FIELD + field + more for more in _AFTER_IT)):
            number = np.searchsorted(begin, target, side="right") - 1
            yield place[(number >= 0) & (target < end[number])]


def differences(one: Image, other: Image) -> FunctionDifferences:
    """The functions whose code differs."""
    same = _SameCode(one, other)
    before, after = _by_name(one.functions), _by_name(other.functions)
    found: dict[str, tuple[list[_Content], list[_Content]]] = {}
    for name in [*after, *(name for name in before if name not in after)]:
        found[name] = same.without_twin(before.get(name, []), after.get(name, []), same.code)
    was, now = _by_name(one.variables), _by_name(other.variables)
    data = [same.without_twin(was[name], now[name], same.data) for name in was if name in now]
    everywhere = set[str]()
    for image, side in (one, 0), (other, 1):
        variables = [variable for both in data for variable in both[side]]
        functions = [function for both in found.values() for function in both[side]]
        everywhere |= image.of_boot([*functions, *variables]) | image.holding_functions(variables)
    return FunctionDifferences(
        tuple(name for name, (old, new) in found.items() if old and new),
        tuple(name for name, (old, new) in found.items() if len(new) > len(old)),
        tuple(name for name, (old, new) in found.items() if len(old) > len(new)),
        tuple(sorted(one.users_of(variable for old, _ in data for variable in old))),
        tuple(sorted(everywhere)),
    )


def _by_name(functions: Iterable[_Content]) -> dict[str, list[_Content]]:
    """Static functions of several files may have one name."""
    found: dict[str, list[_Content]] = {}
    for function in functions:
        found.setdefault(function.name, []).append(function)
    return found


class _SameCode:
    """Compares code of two images."""

    def __init__(self, one: Image, other: Image) -> None:
        self._one, self._other = one, other
        self._known: dict[tuple[int, int], bool] = {}

    @staticmethod
    def without_twin(
        before: Sequence[_Content],
        after: Sequence[_Content],
        are_same: Callable[[_Content, _Content], bool],
    ) -> tuple[list[_Content], list[_Content]]:
        """The functions or variables of one name that are not the same as one of the other image."""
        old, new = list(before), list[_Content]()
        for one in after:
            twin = next((other for other in old if are_same(other, one)), None)
            if twin:
                old.remove(twin)
            else:
                new.append(one)
        return old, new

    def code(self, before: _Content, after: _Content) -> bool:
        """Whether two functions are the same but for where things are."""
        pairs = [(before, after), *zip(before.alternatives, after.alternatives, strict=False)]
        return (
            len(before.alternatives) == len(after.alternatives)
            and all(one.name == other.name for one, other in pairs)
            and all(self._instructions(one, other) for one, other in pairs)
        )

    def _instructions(self, before: _Content, after: _Content) -> bool:
        if before.content == after.content:
            return True
        if len(before.content) != len(after.content):
            return False
        explained = 0  # up to which byte
        for byte in _different_bytes(before.content, after.content):
            if byte < explained:
                continue
            starts = range(max(explained, byte - _FIELD + 1), byte + 1)
            start = next((at for at in starts if self._field(before, after, at)), None)
            if start is None:
                return False
            explained = start + _FIELD
        return True

    def data(self, before: _Content, after: _Content) -> bool:
        """Whether two variables begin with the same but for where things are."""
        if before.content == after.content:
            return True
        if len(before.content) != len(after.content):
            return False
        for at in range(0, len(before.content), _POINTER):
            was, now = (one.content[at : at + _POINTER] for one in (before, after))
            if was != now and not self._place(*(int.from_bytes(word, "little") for word in (was, now))):
                return False
        return True

    def _field(self, before: _Content, after: _Content, at: int) -> bool:
        """Whether four bytes of both functions are the address of the same thing."""
        fields = [one.content[at : at + _FIELD] for one in (before, after)]
        if len(fields[0]) < _FIELD:
            return False
        was, now = (int.from_bytes(field, "little", signed=True) for field in fields)
        if self._place(was, now):
            return True
        ends = before.address + at + _FIELD + was, after.address + at + _FIELD + now
        return any(self._place(ends[0] + more, ends[1] + more) for more in _AFTER_IT)

    def _place(self, was: int, now: int) -> bool:
        key = was & (1 << 64) - 1, now & (1 << 64) - 1
        if key not in self._known:
            place = self._one.place(key[0])
            self._known[key] = place is not None and place.is_same(self._other.place(key[1]))
        return self._known[key]


def _different_bytes(one: bytes, other: bytes) -> list[int]:
    pair = (np.frombuffer(code, dtype=np.uint8) for code in (one, other))
    return np.flatnonzero(np.not_equal(*pair)).tolist()


def leads_to(callers: Mapping[str, set[str]], functions: Iterable[str]) -> dict[str, int]:
    """These functions and all that call them, directly or through others: in how many calls.

    >>> leads_to({"f": {"g"}, "g": {"h"}, "x": {"y"}}, ["f"])
    {'f': 0, 'g': 1, 'h': 2}
    """
    found = dict.fromkeys(functions, 0)
    waiting = deque(found)
    while waiting:
        function = waiting.popleft()
        for caller in sorted(callers.get(function, ())):
            if caller not in found:
                found[caller] = found[function] + 1
                waiting.append(caller)
    return found
