"""How the kernel's compiler laid out its structs: the members, where they lie and how they are aligned.

BTF has offsets and sizes, but no alignment. That of a member is what C gives its type, and more where its
offset shows that more was asked for, as by `____cacheline_aligned_in_smp`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from bigiron.introspect import kernel_knowledge
from bigiron.introspect.btf import Btf
from bigiron.introspect.btf_format import (
    ARRAY,
    CONST,
    ENUM,
    ENUM64,
    PTR,
    RENAMED,
    STRUCT,
    TYPEDEF,
    UNION,
    Member,
)

_DEEPEST = 16  # types of types


class BtfAnonymous(NamedTuple):
    """A struct without a name in another one, which has its members as its own."""

    type: int
    align: int


class BtfUnit(NamedTuple):
    """What a declaration of a struct puts somewhere as a whole: a member, an anonymous union, bit fields."""

    offset: int
    size: int
    align: int
    members: tuple[Member, ...]  # several of bit fields that follow each other, and of a union
    around: tuple[BtfAnonymous, ...] = ()  # the outermost first


class MemberRow(NamedTuple):
    """A member that has a name, and the unit that it is in. Those of an anonymous union have one unit."""

    struct: str
    bytes: int  # of the struct
    struct_align: int
    unit: int  # counted from 0
    unit_offset: int
    unit_bytes: int
    unit_align: int
    anonymous: list[int]  # structs that it is in, by their types, the outermost first
    anonymous_align: list[int]
    field: str
    offset: int
    field_bytes: int
    type: str  # as C spells it
    inner: str  # the struct that it is, or that it is an array of; empty: none


class StructLayouts:
    """The layouts of one kernel's structs, on processors with cache lines of `line_bytes`."""

    def __init__(self, btf: Btf, line_bytes: int) -> None:
        self._btf = btf
        self._line_bytes = line_bytes
        self._asked: set[int] = set()  # for whose alignment: a type that holds itself has an end
        self.align = cache(self._align)
        self.units = cache(self._units)

    def rows(self, structs: Iterable[str]) -> Iterator[MemberRow]:
        """The members of these structs, and of the structs in them that have a name."""
        wanted, done = list(structs), set()
        while wanted:
            name = wanted.pop()
            type = self._btf.find(name)
            if name in done or not self._btf.is_struct(type):
                continue
            done.add(name)
            for row in self._rows(name, self._btf.resolve(type)):
                yield row
                if row.inner:
                    wanted.append(row.inner)

    def _rows(self, name: str, type: int) -> Iterator[MemberRow]:
        whole = name, self._btf.size(type), self.align(type)
        for number, unit in enumerate(self.units(type)):
            around = [one.type for one in unit.around], [one.align for one in unit.around]
            placed = *whole, number, unit.offset, unit.size, unit.align, *around
            if unit.members[0].bits:
                named = "|".join(member.name for member in unit.members if member.name)
                spelled = self.spelled(unit.members[0].type)
                yield MemberRow(*placed, named or "(unnamed)", unit.offset, unit.size, spelled, "")
                continue
            for member in unit.members:
                for path, offset, size, of in self._named(member, 0):
                    yield MemberRow(*placed, path, offset, size, self.spelled(of), self._inner(of))

    def _named(self, member: Member, start: int, depth: int = 0) -> Iterator[tuple[str, int, int, int]]:
        """The member, or what has a name in an anonymous one: name, offset, size and type."""
        offset = start + member.bit // 8
        if member.name or depth > _DEEPEST or not self._btf.is_struct(member.type):
            yield member.name or "(unnamed)", offset, self._btf.size(member.type), member.type
            return
        for inner in self._btf.members(self._btf.resolve(member.type)):
            if not inner.bits:
                yield from self._named(inner, offset, depth + 1)

    def _inner(self, type: int) -> str:
        """The struct that has a layout of its own: reports name parts of it."""
        element = self._btf.element(type)
        name = self._btf.tag(element)
        if not self._btf.is_struct(element) or {name, self._btf.name(element)} & kernel_knowledge.ATOMS:
            return ""
        return name if self._btf.resolve(self._btf.find(name)) == self._btf.resolve(element) else ""

    def _units(self, type: int) -> tuple[BtfUnit, ...]:
        members = self._btf.members(type)
        if self._btf.head(type)[0] == UNION:
            return (BtfUnit(0, self._btf.size(type), self.align(type), members),) if members else ()
        return tuple(self._placed(members, 0, ()))

    def _placed(
        self, members: Iterable[Member], end: int, around: tuple[BtfAnonymous, ...]
    ) -> Iterator[BtfUnit]:
        """The units of a struct's members after what ends there, also of anonymous structs in it."""
        for together in _with_bit_fields(members):
            first = together[0]
            offset = first.bit // 8
            size = -(-together[-1].end // 8) - offset if first.bits else self._btf.size(first.type)
            align = _asked_for(end, offset, 1 if first.bits else self.align(first.type), self._line_bytes)
            anonymous = BtfAnonymous(self._btf.resolve(first.type), align)
            if self._is_anonymous(first) and anonymous.type not in (one.type for one in around):
                inside = self._btf.members(anonymous.type)
                there = [replace(member, bit=member.bit + first.bit) for member in inside]
                yield from self._placed(there, offset, (*around, anonymous))
            else:
                yield BtfUnit(offset, size, align, tuple(together), around)
            end = max(end, offset + size)

    def _is_anonymous(self, member: Member) -> bool:
        """Whether it is a struct without a name. One with a tag is declared elsewhere."""
        type = self._btf.resolve(member.type)
        return not member.name and self._btf.head(type)[0] == STRUCT and not self._btf.name(type)

    def _align(self, type: int) -> int:
        """The alignment of a type, as far as its size and its members' places tell."""
        type = self._btf.resolve(type)
        kind, size = self._btf.head(type)
        if type in self._asked:
            return 1
        self._asked.add(type)
        try:
            return self._align_of(type, kind, size)
        finally:
            self._asked.remove(type)

    def _align_of(self, type: int, kind: int, size: int) -> int:
        if kind == ARRAY:
            return self.align(self._btf.element(type))
        if kind == PTR:
            return 8
        if kind not in (STRUCT, UNION):
            return max(1, min(size, 16)) if kind not in (ENUM, ENUM64) else size
        members = [member for member in self._btf.members(type) if not member.bits]
        if kind == UNION:
            natural = max((self.align(member.type) for member in members), default=1)
            return _whole(natural, size, size, self._line_bytes)
        units = self.units(type)
        end = max((unit.offset + unit.size for unit in units), default=0)
        aligns = [one.align for unit in units for one in unit.around]
        natural = max([*aligns, *(unit.align for unit in units)], default=1)
        return _whole(natural, end, size, self._line_bytes)

    def spelled(self, type: int) -> str:
        """A type as C spells it.

        ```
        'struct super_block *', 'const struct file_operations *', 'atomic_t [4]'
        ```
        """
        return self._spelled(type, 0)

    def _spelled(self, type: int, depth: int) -> str:
        kind, target = self._btf.head(type)
        if not type or depth > _DEEPEST:
            return "void"
        if kind == ARRAY:
            element, length = self._btf.array(type)
            return f"{self._spelled(element, depth + 1)} [{length}]"
        if kind == PTR:
            to = self._spelled(target, depth + 1)
            return f"{to}*" if to.endswith("*") else f"{to} *"
        if kind in RENAMED and kind != TYPEDEF:
            return f"{'const ' if kind == CONST else ''}{self._spelled(target, depth + 1)}"
        keyword = {STRUCT: "struct ", UNION: "union "}.get(kind, "enum " if kind in (ENUM, ENUM64) else "")
        return f"{keyword}{self._btf.name(type) or '{…}'}"


def _with_bit_fields(members: Iterable[Member]) -> Iterator[list[Member]]:
    """Each member alone, but bit fields that share bytes together."""
    together: list[Member] = []
    for member in members:
        if together and member.bits and together[-1].bits and member.bit // 8 <= (together[-1].end + 7) // 8:
            together.append(member)
            continue
        if together:
            yield together
        together = [member]
    if together:
        yield together


def _asked_for(end: int, offset: int, natural: int, line_bytes: int) -> int:
    """The alignment that puts a member at that offset after one that ends there.

    >>> _asked_for(60, 64, 8, 64), _asked_for(40, 64, 8, 64), _asked_for(6, 7, 8, 64)
    (8, 64, 1)
    >>> _asked_for(40, 128, 8, 128)
    128
    """
    while offset % natural:
        natural //= 2  # a packed struct
    align = natural
    while align < line_bytes and -(-end // align) * align != offset and offset % (2 * align) == 0:
        align *= 2
    return (
        (line_bytes if align > natural and offset % line_bytes == 0 else align) if offset > end else natural
    )


def _whole(natural: int, end: int, size: int, line_bytes: int) -> int:
    """The alignment of a struct whose members end there."""
    align = natural
    while align < line_bytes and -(-end // align) * align != size and size % (2 * align) == 0:
        align *= 2
    return align if -(-end // align) * align == size else natural
