"""The types of a kernel's variables, by the debugging information of its vmlinux: DWARF 2 to 5.

A type is given as it is spelled in C, such as `*kmem_cache`: the caller looks types up by name.
"""

import mmap
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from struct import Struct, error, unpack_from

_WRITABLE, _COMPRESSED = 1, 0x800  # SHF_WRITE, SHF_COMPRESSED
_SECTION = Struct("<IIQQQQIIQQ")
_DEEPEST = 16  # types of types
_LARGEST_SECTION = 2 << 30  # bytes

# Tags, attributes, forms and operations by their numbers in DWARF 5, section 7
_ARRAY, _ENUM, _MEMBER, _POINTER, _STRUCT, _TYPEDEF, _UNION = 0x01, 0x04, 0x0D, 0x0F, 0x13, 0x16, 0x17
_SUBRANGE, _BASE, _CONST, _VARIABLE, _VOLATILE, _RESTRICT, _ATOMIC = 0x21, 0x24, 0x26, 0x34, 0x35, 0x37, 0x47
_SIBLING, _LOCATION, _NAME, _UPPER_BOUND, _COUNT, _SPECIFICATION, _TYPE = 1, 2, 3, 0x2F, 0x37, 0x47, 0x49
_IMPLICIT, _LINE_STRING, _STRING, _REFERENCE, _ADDRESS = 0x21, 0x1F, 0x0E, 0x13, 0x03
_NUMBERS = {0x01: 8, 0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x11: 1, 0x12: 2, _REFERENCE: 4, 0x14: 8}
_OFFSETS = {0x0E: 4, 0x10: 4, 0x17: 4, 0x1D: 4, _LINE_STRING: 4}  # of the 32-bit format
_FIXED = _NUMBERS | _OFFSETS | {0x0C: 1, 0x19: 0, 0x1E: 16, 0x20: 8, _IMPLICIT: 0}
_VARIABLE_LENGTH = (0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23)  # one number each
_BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4}  # and 0x09, 0x18: their length, in so many bytes, and then their bytes


class NoDwarfError(Exception):
    """Why a file tells no types of variables."""


def types_of_variables(vmlinux: Path, of: Callable[[str], bool] = lambda _source: True) -> dict[str, str]:
    """The type of each variable that the kernel can write and that is in one of these source files.

    ```
    {'init_task': 'task_struct', 'vm_area_cachep': '*kmem_cache', 'vm_node_stat': 'atomic_long_t[43]',
     'input_pool': '{hash,lock,init_bits}'}
    ```

    A struct without a name is called by its members. Several variables of one name are left out, unless all
    are of one type. NoDwarfError where the file has no types.
    """
    found: dict[str, set[str]] = {}
    wanted = set()
    with _opened(vmlinux) as elf:
        for source, name, type in _variables(elf):
            found.setdefault(name, set()).add(type)
            wanted |= {name} if of(source) else set()
    return {
        name: types.pop()
        for name, types in sorted(found.items())
        if len(types) == 1 and types != {""} and name in wanted
    }


def sources(vmlinux: Path) -> set[str]:
    """The files that were compiled for it, as the compiler was given them; none where it does not tell."""
    try:
        with _opened(vmlinux) as elf:
            return {unit.source for unit in _units(elf)}
    except NoDwarfError:
        return set()


def notes_of(vmlinux: Path) -> bytes:
    """The notes in an ELF file, one of which has its build ID."""
    with _opened(vmlinux) as elf:
        return elf.content(".notes")


@contextmanager
def _opened(path: Path) -> Iterator["_Elf"]:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield _Elf(data)
    except (OSError, ValueError, LookupError, OverflowError, error, zlib.error) as cause:
        raise NoDwarfError(f"{path}: {cause}") from None


def _units(elf: "_Elf") -> Iterator["_Unit"]:
    info, end = elf.content(".debug_info"), 0
    while end < len(info):
        unit = _Unit(elf, info, end)
        end = unit.end
        yield unit


def _variables(elf: "_Elf") -> Iterator[tuple[str, str, str]]:
    """Source file, name and type of each; "" for a type that cannot be spelled."""
    for unit in _units(elf):
        for at in unit.variables():
            if elf.is_writable(unit.address(at)) and (name := unit.name(at)).isidentifier():
                yield unit.source, name, unit.type_of(at)


class _Elf:
    """The sections of an ELF file."""

    def __init__(self, data: mmap.mmap) -> None:
        if data[:6] != b"\x7fELF\2\1":
            raise ValueError("not a 64-bit little-endian ELF file")
        (at,) = unpack_from("<Q", data, 40)
        size, count, names = unpack_from("<HHH", data, 58)
        headers = [_SECTION.unpack_from(data, at + number * size) for number in range(count)]
        start = headers[names][4]
        self._data = data
        self._sections = {data[start + one[0] : data.find(b"\0", start + one[0])]: one for one in headers}
        self._writable = [range(one[3], one[3] + one[5]) for one in headers if one[2] & _WRITABLE]
        self.content = lru_cache(None)(self._content)
        self.abbreviations = lru_cache(None)(self._abbreviations)

    def is_writable(self, address: int) -> bool:
        """Whether the program may write there."""
        return any(address in part for part in self._writable)

    def string(self, section: str, offset: int) -> str:
        """The text at an offset of a section of texts."""
        texts = self.content(section)
        return texts[offset : texts.index(b"\0", offset)].decode("ascii", "replace")

    def _content(self, name: str) -> bytes:
        if name.encode() not in self._sections:
            raise ValueError(f"there is no {name} in it")
        _, _, flags, _, offset, size, *_ = self._sections[name.encode()]
        content = self._data[offset : offset + size]
        if not flags & _COMPRESSED:
            return content
        if unpack_from("<I", content)[0] != 1:
            raise ValueError(f"{name} is not compressed with zlib")
        unpacker = zlib.decompressobj()
        unpacked = unpacker.decompress(content[24:], _LARGEST_SECTION)
        if not unpacker.eof:
            raise ValueError(f"{name} is cut short, or unpacks to more than {_LARGEST_SECTION >> 20} MiB")
        return unpacked

    def _abbreviations(self, at: int) -> dict[int, "_Abbreviation"]:
        """What entries look like, by number: the table at an offset of `.debug_abbrev`."""
        table, found = self.content(".debug_abbrev"), {}
        number, at = _leb(table, at)
        while number:
            tag, at = _leb(table, at)
            has_children, at = table[at] == 1, at + 1
            attributes = []
            while True:
                attribute, at = _leb(table, at)
                form, at = _leb(table, at)
                value, at = _leb(table, at) if form == _IMPLICIT else (0, at)
                if not attribute:
                    break
                attributes.append((attribute, form, value))
            found[number] = _Abbreviation(tag, has_children, tuple(attributes))
            number, at = _leb(table, at)
        return found


class _Abbreviation:
    """What entries of one kind look like."""

    def __init__(self, tag: int, has_children: bool, attributes: tuple[tuple[int, int, int], ...]) -> None:
        self.tag, self.has_children, self.attributes = tag, has_children, attributes
        self.is_placed = any(attribute == _LOCATION for attribute, _, _ in attributes)
        self.size: int | None = 0  # None where it varies
        self.sibling: int | None = None  # where in the entry it is, if that is known
        for attribute, form, _ in attributes:
            if attribute == _SIBLING and form == _REFERENCE:
                self.sibling = self.size
            self.size = None if self.size is None or form not in _FIXED else self.size + _FIXED[form]


class _Unit:
    """One compilation unit: an entry is known by its offset in `.debug_info`."""

    def __init__(self, elf: _Elf, info: bytes, start: int) -> None:
        length, version = unpack_from("<IH", info, start)
        if not 2 <= version <= 5 or not length or length >= 0xFFFFFFF0:
            raise ValueError(f"DWARF version {version} is not supported, only the 32-bit formats 2 to 5")
        self._elf, self._info, self._start, self.end = elf, info, start, start + 4 + length
        self._first = start + (11 if version < 5 else 12)
        (table,) = unpack_from("<I", info, start + (6 if version < 5 else 8))
        self._abbreviations = elf.abbreviations(table)
        self._spelled: dict[int, str] = {}

    @property
    def source(self) -> str:
        """The file that was compiled."""
        return self.name(self._first)

    def variables(self) -> Iterator[int]:
        """The entries of variables that have a place, but those within functions."""
        for at, kind in self._children(self._first):
            if kind.tag == _VARIABLE and kind.is_placed:
                yield at

    def address(self, at: int) -> int:
        """The address of a variable; 0 where it is no fixed one."""
        place = self._attributes(at).get(_LOCATION, b"")
        if not isinstance(place, bytes) or len(place) != 9 or place[0] != _ADDRESS:
            return 0
        return int.from_bytes(place[1:], "little")

    def name(self, at: int) -> str:
        """The name of an entry."""
        name = self._declared(at).get(_NAME, "")
        return name if isinstance(name, str) else ""

    def type_of(self, at: int, depth: int = 0) -> str:
        """The type of a variable, a member or a pointer, spelled; "" where there is none that can be."""
        type = self._declared(at).get(_TYPE)
        return "" if type is None else self._spell(self._target(type), depth)

    def _declared(self, at: int) -> dict[int, int | str | bytes]:
        """The attributes of an entry, with those of a declaration that it completes."""
        own = self._attributes(at)
        return self._attributes(self._target(own[_SPECIFICATION])) | own if _SPECIFICATION in own else own

    def _spell(self, at: int, depth: int) -> str:
        if at not in self._spelled:
            self._spelled[at] = self._spell_new(at, depth + 1) if depth < _DEEPEST else ""
        return self._spelled[at]

    def _spell_new(self, at: int, depth: int) -> str:
        kind, _ = self._kind(at)
        if kind.tag in (_CONST, _VOLATILE, _RESTRICT, _ATOMIC):
            return self.type_of(at, depth)
        if kind.tag == _POINTER:
            return f"*{'' if (target := self.type_of(at, depth)).endswith(']') else target}"
        if kind.tag == _ARRAY:
            element = self.type_of(at, depth)
            return element and element + "".join(f"[{length}]" for length in self._lengths(at))
        if name := self.name(at):
            return name if kind.tag in (_STRUCT, _UNION, _TYPEDEF, _BASE, _ENUM) else ""
        if kind.tag in (_STRUCT, _UNION):
            members = [self.name(one) for one, part in self._children(at) if part.tag == _MEMBER]
            return f"{{{','.join(members)}}}"
        return ""

    def _lengths(self, at: int) -> Iterator[int]:
        """Of each of an array's dimensions; 0 where it has none."""
        for one, kind in self._children(at):
            if kind.tag == _SUBRANGE:
                attributes = self._attributes(one)
                last, count = attributes.get(_UPPER_BOUND), attributes.get(_COUNT)
                yield count if isinstance(count, int) else last + 1 if isinstance(last, int) else 0

    def _kind(self, at: int) -> tuple[_Abbreviation, int]:
        """What an entry looks like, and where its attributes start."""
        number, at = _leb(self._info, at)
        if number not in self._abbreviations:
            raise ValueError(f"the entry at {at:#x} is of an unknown kind")
        return self._abbreviations[number], at

    def _children(self, parent: int) -> Iterator[tuple[int, _Abbreviation]]:
        """Entries directly below an entry; what is below them is skipped."""
        kind, at = self._kind(parent)
        at, depth = self._after(kind, at), 1 if kind.has_children else 0
        info, kinds = self._info, self._abbreviations
        while depth and at < self.end:
            entry, number = at, info[at]
            at += 1
            if number & 0x80:
                number, at = _leb(info, entry)
            if not number:
                depth -= 1
                continue
            kind = kinds[number]
            if depth == 1:
                yield entry, kind
            if kind.has_children and kind.sibling is not None:
                (sibling,) = unpack_from("<I", info, at + kind.sibling)
                if self._start + sibling <= at:
                    raise ValueError(f"the entry at {entry:#x} does not precede its sibling")
                at = self._start + sibling
            else:
                depth += kind.has_children
                at = self._after(kind, at)

    def _after(self, kind: _Abbreviation, at: int) -> int:
        """Where an entry ends whose attributes start there."""
        if kind.size is not None:
            return at + kind.size
        for _, form, _ in kind.attributes:
            _, at = self._value(form, at)
        return at

    def _attributes(self, at: int) -> dict[int, int | str | bytes]:
        kind, at = self._kind(at)
        found: dict[int, int | str | bytes] = {}
        for attribute, form, implicit in kind.attributes:
            value, at = self._value(form, at)
            found[attribute] = implicit if form == _IMPLICIT else value
        return found

    def _value(self, form: int, at: int) -> tuple[int | str | bytes, int]:
        """An attribute's value, and where the next one starts."""
        info = self._info
        if form in _FIXED:
            end = at + _FIXED[form]
            number = int.from_bytes(info[at:end], "little")
            if form in (_STRING, _LINE_STRING):
                return self._elf.string(".debug_str" if form == _STRING else ".debug_line_str", number), end
            return number, end
        if form in _VARIABLE_LENGTH:
            return _leb(info, at)
        if form == 0x08:
            end = info.index(b"\0", at)
            return info[at:end].decode("ascii", "replace"), end + 1
        if form in _BLOCKS:
            start = at + _BLOCKS[form]
            length = int.from_bytes(info[at:start], "little")
        elif form in (0x09, 0x18):
            length, start = _leb(info, at)
        else:
            raise ValueError(f"an attribute has the unknown form {form:#x}")
        return info[start : start + length], start + length

    def _target(self, reference: int | str | bytes) -> int:
        if not isinstance(reference, int):
            raise ValueError("a reference is not a number")
        return self._start + reference


def _leb(data: bytes, at: int) -> tuple[int, int]:
    """A number of as many bytes as it needs, and where it ends."""
    byte = data[at]
    value, shift, at = byte & 0x7F, 7, at + 1
    while byte & 0x80:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
    return value, at
