"""mm/page_alloc.c, linux/page-flags.h: what a page is used for, by its `struct page`."""

from enum import Enum
from functools import cached_property, lru_cache
from typing import NamedTuple

from bigiron.introspect.mm.structs import Structs, UnreadableError

_ANONYMOUS, _MOVABLE = 1, 2  # the lowest bits of `mapping`


class PageUse(Enum):
    """What a page is used for."""

    SLAB = "slab"
    TABLE = "page table"
    FREE = "free page"
    CACHE = "page cache"
    ANONYMOUS = "anonymous page"
    BOOT = "memory from boot"
    KERNEL = "page of an unknown owner"


_TYPES = {
    "PGTY_slab": PageUse.SLAB,
    "PGTY_table": PageUse.TABLE,
    "PGTY_buddy": PageUse.FREE,
    "PGTY_large_kmalloc": PageUse.KERNEL,
}
"""Since 6.12: the highest byte of page_type. Nothing refers to the pages of a large kmalloc()."""
_TYPE_BITS = {
    0x40000000: PageUse.FREE,
    0x10000000: PageUse.TABLE,
    0x02000000: PageUse.SLAB,
    0x80: PageUse.FREE,
    0x200: PageUse.TABLE,
    0x1000: PageUse.SLAB,
}
"""From 4.18 to 6.11 page_type is -1 without one of these bits: linux/page-flags.h.

Only 6.11 uses the high ones. Before 6.10 a slab has PG_slab instead.
"""
_HIGH_BITS, _LOW_BITS = 0x7FFF0000, 0x7F80


class Page(NamedTuple):
    """A page, or a compound one: where its first `struct page` is, and what it is used for."""

    head: int
    use: PageUse
    start: int  # its memory
    mapping: int = 0  # the `struct address_space` of a page of a file


class Pages:
    """All pages, by the `struct page` that each frame has in an array."""

    def __init__(self, structs: Structs, array: int, memory_start: int, page_bytes: int) -> None:
        self._structs = structs
        self._page_bytes = page_bytes
        self._array = array
        self._memory_start = memory_start
        self._frame = lru_cache(1 << 16)(self._read_frame)

    def at(self, address: int) -> Page:
        """The page that the memory at an address belongs to."""
        return self._frame((address - self._memory_start) // self._page_bytes)

    def of_struct(self, address: int) -> Page:
        """The page that the `struct page` at an address stands for."""
        return self._frame((address - self._array) // self.struct_size)

    @cached_property
    def struct_size(self) -> int:
        """Of a `struct page`."""
        return self._structs.btf.size(self._structs.type("page")) or 64

    def head_of(self, page: int) -> int:
        """The first `struct page` of the compound page that a `struct page` belongs to."""
        if self._has("first_page"):  # before 4.4
            is_tail = self._has_flag(self._structs.value("page", page, "flags"), "PG_tail")
            head = self._structs.value("page", page, "first_page") if is_tail else page
            return head if self._array <= head <= page else page
        info = self._structs.number(page + self._head_offset)
        if not info & 1:
            return page
        # A pointer, or since 7.0 a mask where that is possible.
        head = info - 1 if info >> 48 == page >> 48 and info - 1 <= page else page & info
        return head if self._array <= head <= page else page

    @cached_property
    def _head_offset(self) -> int:
        page = self._structs.type("page")
        for name in ("compound_head", "compound_info"):
            if place := self._structs.btf.member(page, name):
                return place.start
        raise UnreadableError("struct page has no compound_head")

    def _read_frame(self, number: int) -> Page:
        head = self.head_of(self._array + number * self.struct_size)
        use = self._use(head)
        start = self._memory_start + (head - self._array) // self.struct_size * self._page_bytes
        mapping = self._structs.value("page", head, "mapping") if use is PageUse.CACHE else 0
        return Page(head, use, start, mapping)

    def _use(self, head: int) -> PageUse:
        value = self._structs.value
        flags = value("page", head, "flags")
        if self._has_flag(flags, "PG_slab"):
            return PageUse.SLAB
        if self._has("page_type") and (kind := self._typed(value("page", head, "page_type"))):
            return kind
        if self._has_flag(flags, "PG_reserved"):
            return PageUse.BOOT
        if not value("page", head, "_refcount" if self._has("_refcount") else "_count"):  # before 4.7
            return PageUse.FREE
        mapping = value("page", head, "mapping")
        if mapping & _ANONYMOUS:
            return PageUse.ANONYMOUS
        return PageUse.CACHE if mapping and not mapping & _MOVABLE else PageUse.KERNEL

    def _has(self, member: str) -> bool:
        return self._structs.btf.member(self._structs.type("page"), member) is not None

    def _typed(self, page_type: int) -> PageUse | None:
        enumerator = self._structs.btf.enumerator
        if enumerator("PGTY_slab") is not None:
            return next((use for name, use in _TYPES.items() if enumerator(name) == page_type >> 24), None)
        if not page_type >> 31:  # how often it is mapped
            return None
        return _TYPE_BITS.get(~page_type & _HIGH_BITS or ~page_type & _LOW_BITS)

    def _has_flag(self, flags: int, name: str) -> bool:
        bit = self._structs.btf.enumerator(name)
        return bit is not None and 0 <= bit < 64 and bool(flags >> bit & 1)
