"""Values in the kernel's structs, found by the kernel's own description of its types."""

from collections.abc import Iterator
from functools import cache
from typing import Protocol

from bigiron.introspect.btf import Btf
from bigiron.introspect.btf_format import TypePart
from bigiron.introspect.symbols import SymbolTable

WORD = 8  # bytes
PAGE = 4096
_LONGEST_LIST = 20_000
_MOST_READS = 5_000_000  # of one guest: more is no kernel's, but a loop that its memory makes
_LONGEST_TEXT = 64


class Memory(Protocol):
    """Memory by the kernel's addresses."""

    def read(self, address: int, length: int) -> bytes | None:
        """The bytes there; None where there is no memory."""

    def mapped(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """What of a range is memory: where each part of it is, and its bytes."""


class UnreadableError(Exception):
    """Why something cannot be read: the kernel has no such thing, or an address leads nowhere."""


class Structs:
    """A guest's memory, its symbols and its types together."""

    def __init__(self, memory: Memory, symbols: SymbolTable, btf: Btf) -> None:
        self.memory = memory
        self.symbols = symbols
        self.btf = btf
        self._left = _MOST_READS
        self.member = cache(self._member)
        self.type = cache(self._type)

    def number(self, address: int, size: int = WORD) -> int:
        """The unsigned number at an address."""
        self._left -= 1
        data = self.memory.read(address, size) if self._left > 0 else None
        if data is None:
            raise UnreadableError(f"no memory at {address:#x}")
        return int.from_bytes(data, "little")

    def value(self, type: str, address: int, path: str) -> int:
        """The number or address in a member of a struct."""
        member = self.member(type, path)
        return self.number(address + member.start, min(member.size, WORD) or WORD)

    def text(self, address: int) -> str:
        """The string at an address, as far as it is printable."""
        to_page_end = PAGE - address % PAGE  # beyond it there may be no memory
        lengths = (_LONGEST_TEXT, min(_LONGEST_TEXT, to_page_end))
        content = next(filter(None, (self.memory.read(address, length) for length in lengths)), b"")
        text = content.partition(b"\0")[0].decode("ascii", "replace")
        return text if text.isprintable() else ""

    def symbol(self, name: str) -> int:
        """The address of a symbol."""
        address = self.symbols.address(name)
        if address is None:
            raise UnreadableError(f"the kernel has no {name}")
        return address

    def list(self, head: int, type: str, path: str = "list") -> Iterator[int]:
        """The structs on a list whose head lies at an address, linked by their member `path`."""
        start = self.member(type, path).start
        at = self.number(head)
        for _ in range(_LONGEST_LIST):
            if at in (head, 0):
                return
            yield at - start
            at = self.number(at)

    def _type(self, name: str) -> int:
        type = self.btf.find(name)
        if not type:
            lacks = "CONFIG_DEBUG_INFO_BTF" if self.btf.is_empty else f"struct {name}"
            raise UnreadableError(f"the kernel has no {lacks}")
        return type

    def _member(self, type: str, path: str) -> TypePart:
        place = self.btf.member(self.type(type), path)
        if place is None:
            raise UnreadableError(f"struct {type} has no {path}")
        return place
