"""A guest's memory through the kernel's own types: its structs, pages, slabs and per-CPU areas."""

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from bigiron.introspect import variables
from bigiron.introspect.kernel_types import types_in
from bigiron.introspect.mm.pages import Pages
from bigiron.introspect.mm.percpu import PerCpu
from bigiron.introspect.mm.slab import Slabs
from bigiron.introspect.mm.structs import Memory, Structs
from bigiron.introspect.mm.vmalloc import Areas
from bigiron.introspect.symbols import SymbolTable
from bigiron.util.object_name import PAGE_OR_SLAB

MANAGED = PAGE_OR_SLAB  # by the buddy allocator


class AddressMap(Protocol):
    """What an address alone tells, and how large pages and cache lines are."""

    @property
    def page_bytes(self) -> int:
        """How large a page is."""

    @property
    def line_bytes(self) -> int:
        """How large a cache line is."""

    @property
    def ram_start(self) -> int:
        """The physical address of the first page that is managed."""

    def class_of(self, address: int) -> str:
        """What kind of memory lies there."""

    def start_of(self, name: str) -> int:
        """Where that kind of memory starts."""


class GuestMemory:
    """One guest's. `offsets` is the kernel's `__per_cpu_offset`. A kernel without types still has symbols."""

    def __init__(
        self, memory: Memory, symbols: SymbolTable, offsets: Sequence[int], address_map: AddressMap
    ) -> None:
        self.symbols = symbols
        self.offsets = offsets
        self.address_map = address_map
        self.page_bytes = address_map.page_bytes
        self.btf = types_in(memory, symbols)
        self.structs = Structs(memory, symbols, self.btf)
        self.slabs = Slabs(self.structs)
        starts = address_map.start_of("struct page"), address_map.start_of(MANAGED)
        self.pages = Pages(self.structs, *starts, self.page_bytes)
        self.per_cpu = PerCpu(self.structs, offsets, self.page_bytes)
        self.areas = Areas(self.structs)

    def class_of(self, address: int) -> str:
        """As the address tells, but that a kernel's image may lie among the memory that it manages.

        What of it was needed only to boot is then as any other memory: it was given back.
        """
        kind = self.address_map.class_of(address)
        given_back = kind == MANAGED and address in self.init
        return "kernel image" if address in self._image and not given_back else kind

    @cached_property
    def _image(self) -> range:
        return self._between("_stext", "_end")

    @cached_property
    def init(self) -> range:
        """The part of the image that is needed only to boot."""
        return self._between("__init_begin", "__init_end")

    def _between(self, start: str, end: str) -> range:
        return range(self.symbols.address(start) or 0, self.symbols.address(end) or 0)

    def type_of_variable(self, symbol: str) -> int:
        """The type of a global variable; 0 where it is not known."""
        return variables.types_of(self.btf, self.symbols).get(symbol, 0)
