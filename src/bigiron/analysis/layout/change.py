"""Changes of a struct's declaration: a member moved or padded, some split off, all of it aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from bigiron.analysis.layout.structure import Structure, Unit, laid_out
from bigiron.errors import UserError

_LARGEST = 4096


@dataclass(frozen=True)
class Move:
    """A member declared somewhere else."""

    field: str
    where: str  # after, before
    anchor: str

    def __str__(self) -> str:
        return f"move {self.field} {self.where} {self.anchor}"


@dataclass(frozen=True)
class Pad:
    """A member that begins at a multiple of so many bytes, and the next one at a later multiple."""

    field: str
    bytes: int

    def __str__(self) -> str:
        return f"pad {self.field} to {self.bytes} bytes"


@dataclass(frozen=True)
class Align:
    """A struct that begins at a multiple of so many bytes, in each of its objects."""

    bytes: int

    def __str__(self) -> str:
        return f"align the struct to {self.bytes} bytes"


@dataclass(frozen=True)
class Split:
    """Members apart from all others, at the end of their struct, from a cache line of their own on."""

    fields: tuple[str, ...]
    bytes: int  # of a cache line

    def __str__(self) -> str:
        return f"split off {', '.join(self.fields)}"


Change: TypeAlias = Move | Pad | Align | Split


def move(text: str) -> Move:
    """The move of an option: `i_sb:after:i_flags`.

    >>> move("i_sb:after:i_flags")
    Move(field='i_sb', where='after', anchor='i_flags')
    """
    parts = text.split(":")
    if len(parts) != 3 or parts[1] not in ("after", "before") or not all(parts):
        raise UserError(f"--move {text!r}: use FIELD:after:FIELD or FIELD:before:FIELD")
    return Move(*parts)


def pad(text: str) -> Pad:
    """The padding of an option: `i_version:64`."""
    field, _, number = text.partition(":")
    if not field or not number.isdecimal():
        raise UserError(f"--pad {text!r}: use FIELD:BYTES, for instance i_version:64")
    return Pad(field, _power(f"--pad {text}", int(number)))


def split(text: str, line_bytes: int) -> Split:
    """The split of an option: `i_count,i_lock`."""
    fields = tuple(dict.fromkeys(text.split(",")))
    if not all(fields):
        raise UserError(f"--split {text!r}: use FIELD,FIELD, for instance i_count,i_lock")
    return Split(fields, line_bytes)


def align(number: int) -> Align:
    """The alignment of an option."""
    return Align(_power(f"--align {number}", number))


def _power(option: str, number: int) -> int:
    if number < 1 or number & (number - 1) or number > _LARGEST:
        raise UserError(f"{option}: use a power of two up to {_LARGEST}")
    return number


def changed(structure: Structure, changes: Sequence[Change]) -> Structure:
    """The struct after all changes, one after the other. UserError for one that cannot be made."""
    for one in changes:
        match one:
            case Move():
                structure = _moved(structure, one)
            case Pad():
                structure = _padded(structure, one)
            case Align():
                structure = laid_out(replace(structure, align=max(structure.align, one.bytes)))
            case Split():
                structure = _split(structure, one)
    return structure


def _number(structure: Structure, field: str, what: str) -> int:
    if (number := structure.unit_of(field)) is not None:
        return number
    holder, dot, _ = field.partition(".")
    if dot and structure.unit_of(holder) is not None:
        raise UserError(f"{what}: {field} is a part of {holder}, and only all of {holder} can be moved")
    raise UserError(f"{what}: {structure.title} has no field {field!r}")


def _moved(structure: Structure, asked: Move) -> Structure:
    at, anchor = (_number(structure, name, f"{asked}") for name in (asked.field, asked.anchor))
    if at == anchor:
        raise UserError(f"{asked}: both are in one declaration, {structure.units[at].name}")
    units = list(structure.units)
    unit, other = units.pop(at), structure.units[anchor]
    depth = len(unit.around)
    if other.around[:depth] != unit.around:
        raise UserError(f"{asked}: {asked.field} is in an anonymous struct, and can only be moved inside it")
    # The anchor, or all of the anonymous struct that has it and not the field.
    whole = other.around[depth : depth + 1]
    anchors = [at for at, one in enumerate(units) if one is other or (whole and whole[0] in one.around)]
    to = anchors[-1] + 1 if asked.where == "after" else anchors[0]
    if structure.is_open_ended and len(units) in (at, to):
        raise UserError(f"{asked}: a flexible array must be the last member")
    units.insert(to, replace(unit, more=0))
    return laid_out(replace(structure, units=tuple(units)))


def _padded(structure: Structure, asked: Pad) -> Structure:
    at = _number(structure, asked.field, f"{asked}")
    units = list(structure.units)
    for number in (at, at + 1):
        if number < len(units):
            align = max(units[number].align, asked.bytes)
            units[number] = replace(units[number], align=align, more=0)
    return laid_out(replace(structure, units=tuple(units), align=max(structure.align, asked.bytes)))


def _split(structure: Structure, asked: Split) -> Structure:
    chosen = list(dict.fromkeys(_number(structure, name, f"{asked}") for name in asked.fields))
    rest = [unit for number, unit in enumerate(structure.units) if number not in chosen]
    first, *others = (replace(structure.units[number], more=0) for number in chosen)
    if any(one.around != first.around for one in others):
        raise UserError(f"{asked}: they are not all in the same anonymous struct")
    beside = [at for at, one in enumerate(rest) if one.around[: len(first.around)] == first.around]
    to = beside[-1] + 1 if beside else 0
    if not beside or (structure.is_open_ended and (to == len(rest) or len(structure.units) - 1 in chosen)):
        why = "a flexible array must be the last member" if beside else "no other member is left"
        raise UserError(f"{asked}: {why}")
    first = replace(first, align=max(first.align, asked.bytes))
    align = max(structure.align, asked.bytes)
    units = (*rest[:to], first, *others, *rest[to:])
    return laid_out(replace(structure, units=units, align=align))


def declaration(unit: Unit) -> str:
    """A member as C declares it, as far as BTF tells.

    >>> from bigiron.analysis.layout.structure import Field
    >>> declaration(Unit(0, (Field("i_sb", 0, 8, "struct super_block *"),), 40, 8, 8))
    'struct super_block *i_sb;'
    >>> declaration(Unit(0, (Field("name", 0, 4, "char [4]"),), 40, 4, 1))
    'char name[4];'
    """
    if len(unit.fields) > 1:
        return "union { " + " ".join(_declared(field.type, field.name) for field in unit.fields) + " };"
    return _declared(unit.fields[0].type, unit.fields[0].name)


def _declared(type: str, name: str) -> str:
    base, bracket, length = type.partition(" [")
    space = "" if base.endswith("*") else " "
    return f"{base}{space}{name}{'[' + length if bracket else ''};"
