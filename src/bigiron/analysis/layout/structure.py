"""Structs as a compiler lays them out, and laid out again after a change of their declaration.

Invariant: laid out again without a change, a struct is as it was. What C's rules do not explain, such as an
attribute that BTF does not have, is kept as bytes in front of a member.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TypeAlias

from bigiron.util.lazy import polars as pl

_DEEPEST = 16  # structs in structs: more is an error of their description


def whole(number: int, of: int) -> int:
    """The next multiple.

    >>> whole(60, 8), whole(64, 8)
    (64, 64)
    """
    return -(-number // of) * of


@dataclass(frozen=True)
class Field:
    """A member with a name."""

    name: str
    offset: int  # in its unit
    bytes: int
    type: str  # as C spells it
    inner: str = ""  # the struct that it is, or that it is an array of


@dataclass(frozen=True)
class Anonymous:
    """A struct without a name, whose members are also the members of the one around it."""

    number: int  # that tells it from others
    align: int


@dataclass(frozen=True)
class Unit:
    """What one declaration puts somewhere as a whole: a member, an anonymous union, bit fields."""

    number: int  # of its declaration, before any change
    fields: tuple[Field, ...]
    offset: int
    bytes: int
    align: int
    more: int = 0  # bytes in front of it that its alignment does not explain
    around: tuple[Anonymous, ...] = ()  # anonymous structs that it is in, the outermost first

    @property
    def end(self) -> int:
        """The byte after it."""
        return self.offset + self.bytes

    @property
    def name(self) -> str:
        """Its field, or the first of an anonymous union."""
        return self.fields[0].name if len(self.fields) == 1 else f"{{{self.fields[0].name}, …}}"

    def has(self, name: str) -> bool:
        """Whether a field of that name is in it. Bit fields are called `one|other`."""
        return any(name in (field.name, *field.name.split("|")) for field in self.fields)


@dataclass(frozen=True)
class Structure:
    """A struct: its members in their order, each after the one before."""

    name: str
    bytes: int
    align: int
    units: tuple[Unit, ...]
    tail: int = 0  # bytes at its end that its alignment does not explain

    @property
    def title(self) -> str:
        """`struct inode`, or as it is called if that is no name of C: `around jiffies`."""
        return f"struct {self.name}" if self.name.isidentifier() else self.name

    def lines(self, line_bytes: int) -> int:
        """Cache lines that it has where it begins one."""
        return -(-self.bytes // line_bytes)

    def holes(self) -> Iterator[tuple[int, int]]:
        """Where bytes are left over between members, and how many; also after the last one."""
        end = 0
        for unit in self.units:
            if unit.offset > end:
                yield end, unit.offset - end
            end = max(end, unit.end)
        if self.bytes > end:
            yield end, self.bytes - end

    @property
    def is_open_ended(self) -> bool:
        """Whether its last member is an array of no given length, after which nothing can be."""
        return any(not one.bytes and one.fields[0].type.endswith("[0]") for one in self.units[-1:])

    def unit_of(self, name: str) -> int | None:
        """The number of the unit that has that field."""
        return next((number for number, unit in enumerate(self.units) if unit.has(name)), None)

    def field_at(self, offset: int) -> tuple[Unit, Field, int] | None:
        """The field that has a byte, its unit, and the byte's place in it; of a union's members the first."""
        for unit in self.units:
            for field in unit.fields if unit.offset <= offset < unit.end else ():
                place = offset - unit.offset - field.offset
                if 0 <= place < field.bytes:
                    return unit, field, place
        return None


Structures: TypeAlias = Mapping[str, Structure]


def structures(fields: pl.DataFrame) -> dict[str, Structure]:
    """Those in a table of fields (tables.py), by name."""
    found = {}
    for name, rows in groupby(fields.sort("struct", "unit", "offset").iter_rows(named=True), _struct_of):
        units: list[Unit] = []
        for _, together in groupby(rows, lambda row: row["unit"]):
            members = list(together)
            row = members[0]
            inside = tuple(
                Field(
                    one["field"],
                    one["offset"] - one["unit_offset"],
                    one["field_bytes"],
                    one["type"],
                    one["inner"],
                )
                for one in members
            )
            placed = row["unit_offset"], row["unit_bytes"], row["unit_align"]
            units.append(Unit(row["unit"], inside, *placed, around=_around(row)))
        found[name] = as_it_is(name, row["bytes"], row["struct_align"], units)
    return found


def _struct_of(row: Mapping[str, object]) -> str:
    return str(row["struct"])


def _around(row: Mapping[str, list[int]]) -> tuple[Anonymous, ...]:
    # The tables of older studies have such a struct as one unit.
    return tuple(map(Anonymous, row.get("anonymous", ()), row.get("anonymous_align", ())))


def as_it_is(name: str, size: int, align: int, units: list[Unit]) -> Structure:
    """A struct whose members lie where these do."""
    end, placed = 0, []
    *before, last = _aligns(units)
    for unit, least in zip(units, before, strict=True):
        placed.append(replace(unit, more=unit.offset - whole(end, max(unit.align, least))))
        end = unit.end
    return Structure(name, size, align, tuple(placed), size - whole(end, max(align, last)))


def _aligns(units: Sequence[Unit]) -> Iterator[int]:
    """The alignment of the anonymous structs that begin or end before each member, and after the last one."""
    aligns: dict[int, int] = {}
    for unit in units:
        for one in unit.around:
            aligns[one.number] = max(aligns.get(one.number, 1), one.align, unit.align)
    for left, entered in pairwise([(), *(unit.around for unit in units), ()]):
        yield max((aligns[one.number] for one in {*left} ^ {*entered}), default=1)


def laid_out(structure: Structure) -> Structure:
    """The struct with each member after the one before, as its alignment has it."""
    end, placed = 0, []
    *before, last = _aligns(structure.units)
    for unit, least in zip(structure.units, before, strict=True):
        offset = whole(end, max(unit.align, least)) + unit.more
        placed.append(replace(unit, offset=offset))
        end = offset + unit.bytes
    align = max([structure.align, last, *(unit.align for unit in structure.units)])
    return replace(structure, units=tuple(placed), align=align, bytes=whole(end, align) + structure.tail)


def within(known: Structures, changed: Structure, around: Iterable[str]) -> dict[str, Structure]:
    """All structs, one of them changed, and those `around` it laid out again."""
    found = {changed.name: changed}

    def after(name: str) -> Structure:
        if name in found:
            return found[name]
        before = known[name]
        found[name] = before  # one that is in itself, by an error of its description
        units = tuple(map(_unit_after, before.units))
        if units != before.units:
            found[name] = laid_out(replace(before, units=units))
        return found[name]

    def _unit_after(unit: Unit) -> Unit:
        size, align, fields = unit.bytes, unit.align, []
        for field in unit.fields:
            old = known.get(field.inner)
            new = after(field.inner) if old else None
            if old and new and new != old and old.bytes:
                bytes = field.bytes // old.bytes * new.bytes
                size = max(size + (bytes - field.bytes if len(unit.fields) == 1 else 0), field.offset + bytes)
                align = new.align if old.align == unit.align else max(align, new.align)
                field = replace(field, bytes=bytes)
            fields.append(field)
        return replace(unit, bytes=size, align=align, fields=tuple(fields))

    for name in around:
        after(name)
    return {**known, **found}


def holders(known: Structures, wanted: str) -> dict[str, list[int]]:
    """The structs that have one of the wanted kind in them, or are it, and at which bytes."""
    found: dict[str, list[int]] = {}

    def places(name: str) -> list[int]:
        if name not in found:
            found[name] = []  # one that is in itself, by an error of its description
            found[name] = [0] if name == wanted else list(_inside(name))
        return found[name]

    def _inside(name: str) -> Iterator[int]:
        for unit in known[name].units:
            for field in unit.fields:
                inner = known.get(field.inner)
                if not inner or not inner.bytes or not places(field.inner):
                    continue
                for element in range(0, field.bytes - inner.bytes + 1, inner.bytes):
                    for place in places(field.inner):
                        yield unit.offset + field.offset + element + place

    for name in known:
        places(name)
    return {name: at for name, at in found.items() if at}


def boundaries(known: Structures, name: str) -> list[int]:
    """The bytes of a struct at which a member begins or ends, of itself or of a struct in it."""
    found: set[int] = set()

    def add(name: str, start: int, depth: int) -> None:
        for unit in known[name].units:
            found.update((start + unit.offset, start + unit.end))
            for field in unit.fields:
                inner = known.get(field.inner)
                if inner and depth < _DEEPEST and 0 < inner.bytes <= field.bytes:
                    for element in range(0, field.bytes - inner.bytes + 1, inner.bytes):
                        add(field.inner, start + unit.offset + field.offset + element, depth + 1)

    add(name, 0, 0)
    return sorted(found)


def moved(known: Structures, after: Structures, name: str, depth: int = 0) -> list[int]:
    """Where each byte of a struct is after a change. What lies in no member stays beside the one before."""
    old, new = known[name], after[name]
    if old == new or depth > _DEEPEST:
        return list(range(old.bytes))
    to = {unit.number: unit for unit in new.units}
    places, by = [], 0
    inside: dict[int, int] = {}
    for unit in old.units:
        now = to[unit.number]
        for field, field_now in zip(unit.fields, now.fields, strict=True):
            inner = known.get(field.inner)
            if inner and inner.bytes and after[field.inner] != inner and inner.bytes <= field.bytes:
                of_element = moved(known, after, field.inner, depth + 1)
                for element in range(field.bytes // inner.bytes):
                    start = now.offset + field_now.offset + element * after[field.inner].bytes
                    at = unit.offset + field.offset + element * inner.bytes
                    inside |= {at + byte: start + place for byte, place in enumerate(of_element)}
    starts = {unit.offset: to[unit.number].offset - unit.offset for unit in old.units if unit.bytes}
    for byte in range(old.bytes):
        by = starts.get(byte, by)
        places.append(inside.get(byte, byte + by))
    return places
