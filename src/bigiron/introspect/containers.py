"""What holds an address as a whole: an object of a slab, a variable, a variable of one CPU.

A cache line is shared by what lies in it. So a layout begins with these, and with where each begins; fields
are found in them later.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from bigiron.introspect.btf_format import BtfError
from bigiron.introspect.mm.slab import Object
from bigiron.introspect.mm.structs import WORD, UnreadableError
from bigiron.introspect.symbolize import Objects

SLAB, VARIABLE, PER_CPU = "slab", "variable", "per-CPU"


class Container(NamedTuple):
    """One of them. What only a slab's objects have is 0 of others."""

    start: int
    bytes: int
    kind: str  # SLAB, VARIABLE or PER_CPU
    name: str  # the struct of a slab's object, empty where it is unknown; the variable
    struct: str  # that it is; of a variable empty if it is none
    detail: str  # of its content: `tmpfs directory`
    cpu: int | None  # the variable's
    cache: str
    stride: int  # bytes from one object to the next
    pad: int  # before the first object of a slab
    cache_align: int
    per_slab: int  # objects


class Containers:
    """Those in one guest's memory."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._of_object = lru_cache(None)(self._read_object)
        self._of_variable = lru_cache(None)(self._read_variable)

    def at(self, addresses: Iterable[int]) -> dict[int, Container]:
        """What holds each address; those in other memory are left out."""
        there = self._objects.find(set(addresses))
        held = {address: self._at(address, object) for address, object in there.items()}
        return {address: one for address, one in held.items() if one}

    def beside(self, addresses: Iterable[int], line_bytes: int) -> list[Container]:
        """The variables in the cache lines of these addresses."""
        found: dict[int, Container] = {}
        for line in {address - address % line_bytes for address in addresses}:
            at = line
            while at < line + line_bytes:
                variable = self._variable(at)
                if variable is None or not variable.bytes:
                    break
                found[variable.start] = variable
                at = max(at + WORD, variable.start + variable.bytes)
        return list(found.values())

    def _at(self, address: int, object: Object | None) -> Container | None:
        try:
            return self._of_object(object) if object else self._variable(address)
        except (UnreadableError, BtfError):
            return None

    def _variable(self, address: int) -> Container | None:
        symbol, offset, cpu = self._objects.variable_at(address)
        return self._of_variable(symbol, address - offset, cpu) if symbol else None

    def _read_object(self, found: Object) -> Container:
        cache = found.cache
        struct = self._objects.guest.btf.tag(self._objects.type_of(found))
        return Container(
            found.start,
            cache.object_size,
            SLAB,
            struct,
            struct,
            self._detail(struct, found.start),
            None,
            cache.name,
            cache.size,
            cache.pad,
            cache.align,
            cache.per_slab,
        )

    def _detail(self, struct: str, start: int) -> str:
        """Of a struct around an inode the inode's."""
        if detail := self._objects.detail_of(struct, start):
            return detail
        btf = self._objects.guest.btf
        inode = btf.find("inode")
        type = btf.resolve(btf.find(struct))
        for member in btf.members(type) if type and btf.is_struct(type) else ():
            if btf.resolve(member.type) == inode:
                return self._objects.detail_of("inode", start + member.bit // 8)
        return ""

    def _read_variable(self, symbol: str, start: int, cpu: int | None) -> Container:
        guest = self._objects.guest
        type = guest.type_of_variable(symbol)
        at = guest.symbols.address(symbol) if cpu is not None else start
        room = guest.symbols.room(at or start)
        kind = VARIABLE if cpu is None else PER_CPU
        struct = guest.btf.tag(type) if guest.btf.is_struct(type) else ""
        size = min(guest.btf.size(type) or room, room)
        return Container(start, size, kind, symbol, struct, "", cpu, "", 0, 0, 0, 0)
