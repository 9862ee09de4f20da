"""The binary format of BTF: sections, type records, and how a module's types follow the kernel's.

Format: the kernel's Documentation/bpf/btf.rst.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

MAGIC = 0xEB9F
HEADER = Struct("<HBBIIIII")
THREE = Struct("<III")  # a type's head, a member, an array, an ENUM64's constant
INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF = range(1, 9)
VOLATILE, CONST, RESTRICT, FUNC, FUNC_PROTO, VAR, DATASEC, FLOAT = range(9, 17)
DECL_TAG, TYPE_TAG, ENUM64 = range(17, 20)
RENAMED = frozenset((TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG))
REFERRING = RENAMED | {PTR, FUNC, FUNC_PROTO, VAR, DECL_TAG}  # whose head has a type, not a size
NAMED_PARTS = frozenset((STRUCT, UNION, ENUM, FUNC_PROTO, ENUM64))
TYPED_PARTS = frozenset((STRUCT, UNION, FUNC_PROTO, DATASEC))
SIZED = frozenset((INT, STRUCT, UNION, ENUM, FLOAT, ENUM64))
# Bytes that follow a type's head: once, or for each of its members.
ONCE = {INT: 4, ARRAY: 12, VAR: 4, DECL_TAG: 4}
EACH = {STRUCT: 12, UNION: 12, ENUM: 8, FUNC_PROTO: 8, DATASEC: 12, ENUM64: 12}


class BtfError(Exception):
    """These bytes are no BTF."""


@dataclass(frozen=True)
class TypePart:
    """A part of a type: the path to it, where it lies and how large it is.

    ```
    TypePart(path='d_lockref.count', start=92, size=4, type=24)
    ```
    """

    path: str  # "node_zones[2].lock"; "" for the whole type
    start: int
    size: int
    type: int
    within: tuple[int, ...] = ()  # the types that hold it, outermost first


@dataclass(frozen=True)
class Member:
    name: str
    type: int
    bit: int  # at which it starts
    bits: int  # of a bit field; 0 if it is none

    @property
    def end(self) -> int:
        """The bit after a bit field."""
        return self.bit + self.bits


def sections(data: bytes) -> tuple[bytes, bytes]:
    """The types and the names in BTF."""
    if len(data) < HEADER.size:
        raise BtfError(f"only {len(data)} bytes")
    magic, _, _, header, type_at, type_length, string_at, string_length = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise BtfError(f"it starts with {magic:#x}")
    types = data[header + type_at : header + type_at + type_length]
    strings = data[header + string_at : header + string_at + string_length]
    if (len(types), len(strings)) != (type_length, string_length):
        raise BtfError("it is cut off")
    return types, strings


def renumbered(types: bytes, first: int, more: int, first_name: int, more_names: int) -> bytes:
    """A module's types, their own numbers, from `first` on, `more` higher; and their names' likewise."""
    if not more and not more_names:
        return types
    words = list(Struct(f"<{len(types) // 4}I").unpack_from(types))
    at = 0

    def shift(places: Iterable[int], start: int, by: int) -> None:
        for place in places:
            if place < len(words) and words[place] >= start:
                words[place] += by

    while at + 3 <= len(words):
        kind, members = words[at + 1] >> 24 & 0x7F, words[at + 1] & 0xFFFFFF
        body, step = at + 3, EACH.get(kind, 0) // 4
        after = body + ONCE.get(kind, 0) // 4 + step * members
        if not INT <= kind <= ENUM64 or after > len(words):
            raise BtfError(f"a module's type is of kind {kind} with {members} members")
        shift((at, *(range(body, after, step) if kind in NAMED_PARTS else ())), first_name, more_names)
        shift((at + 2,) if kind in REFERRING else (), first, more)
        shift((body, body + 1) if kind == ARRAY else (), first, more)
        parts = range(body + (kind != DATASEC), after, step) if kind in TYPED_PARTS else ()
        shift(parts, first, more)
        at = after
    return Struct(f"<{len(words)}I").pack(*words)
