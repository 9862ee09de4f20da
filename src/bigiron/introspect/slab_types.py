"""The slab object at an address, and its type as far as its cache tells."""

from functools import cached_property, lru_cache

from bigiron.introspect import kernel_knowledge
from bigiron.introspect.allocation_log import AllocationLog
from bigiron.introspect.guest_memory import MANAGED, GuestMemory
from bigiron.introspect.mm.pages import PageUse
from bigiron.introspect.mm.slab import Cache, Object
from bigiron.introspect.mm.structs import WORD, UnreadableError

_ENOUGH_POINTERS = 2  # that lead where those of a type do


class SlabTypes:
    """The objects in the slabs of one guest, some of which the recorder saw being allocated."""

    def __init__(self, guest: GuestMemory, allocated: AllocationLog) -> None:
        self._guest = guest
        self._line_bytes = guest.address_map.line_bytes  # to which a cache may round its objects up
        self._allocated = allocated
        self._structs = guest.structs
        self._btf = guest.btf
        self._slabs = guest.slabs
        # Pointers lead to the same few slabs again and again.
        self._slab_in = lru_cache(None)(self._read_slab)
        self._type_in = lru_cache(None)(self._find)
        # Several places of one object are asked for.
        self.by_pointers = lru_cache(None)(self._find_by_pointers)

    def own_type(self, found: Object) -> int:
        """The type of an object that its cache tells; 0 where it has none, or several."""
        cache = found.cache
        if cache.is_kmalloc or cache.name == "kmem_cache_node":
            part = self._slabs.part_at(found.start)
            return self._btf.find(part[0]) if part else self._btf.find(cache.name)
        if cache.merged and (seen := self._by_allocation.get(cache.address)):
            return seen.get(found.start, 0)
        return self._type_in(cache.name, cache.merged)

    @cached_property
    def _by_allocation(self) -> dict[int, dict[int, int]]:
        """Of each merged cache from which functions of `ALLOCATED_IN` allocated: their objects' types.

        Any other object of it may be one of theirs that was allocated before the recording.
        """
        found: dict[int, dict[int, int]] = {}
        for one in self._allocated:
            type = self._btf.find(kernel_knowledge.ALLOCATED_IN.get(one.function, ""))
            cache = self._slabs.caches.get(one.asked) if type else None
            if cache and cache.merged and 0 <= cache.object_size - self._btf.size(type) < self._line_bytes:
                found.setdefault(cache.address, {})[one.address] = type
        return found

    def _find(self, cache: str, merged: bool) -> int:
        if merged and (cache not in kernel_knowledge.MERGED or self._is_lent(cache)):
            return 0
        return self._btf.find(kernel_knowledge.CACHES.get(cache, cache))

    def _find_by_pointers(self, found: Object) -> int:
        """The type that a merged cache is called after, if the object's pointers lead where that type's do.

        An object that was freed still has them. Asked are those to objects whose type their cache tells.
        """
        cache = found.cache
        type = 0 if cache.is_kmalloc else self._btf.find(kernel_knowledge.CACHES.get(cache.name, cache.name))
        size = self._btf.size(type)
        content = self._structs.memory.read(found.start, size) if 0 < size <= cache.object_size else b""
        right = 0
        for offset, target in self._btf.pointers(type):
            value = int.from_bytes((content or b"")[offset : offset + WORD], "little")
            if not value or self._btf.tag(target) not in self._types_with_caches:
                continue
            other = self.object_at(value)
            own = self.own_type(other) if other and other.start == value else 0
            if self._btf.tag(own) != self._btf.tag(target):
                return 0
            right += 1
        return type if right >= _ENOUGH_POINTERS else 0

    @cached_property
    def _types_with_caches(self) -> frozenset[str]:
        caches = [cache for cache in self._slabs.caches.values() if not cache.is_kmalloc]
        return frozenset(self._btf.tag(self._type_in(cache.name, cache.merged)) for cache in caches) - {""}

    def _is_lent(self, cache: str) -> bool:
        """Whether code is there that has many objects of its own in it."""
        return self._guest.symbols.address(kernel_knowledge.LENT.get(cache, "")) is not None

    def object_at(self, address: int) -> Object | None:
        """The object of a slab that an address is in; None outside of slabs."""
        slab = self._slab_in(address // self._guest.page_bytes)
        return self._slabs.object(*slab, address) if slab else None

    def _read_slab(self, page: int) -> tuple[Cache, int] | None:
        """The cache whose slab a page belongs to, and where that slab's objects start."""
        address = page * self._guest.page_bytes
        if self._guest.class_of(address) != MANAGED:
            return None
        try:
            found = self._guest.pages.at(address)
            cache = self._slabs.cache_of(found.head) if found.use is PageUse.SLAB else None
            return (cache, self._slabs.start_of(found)) if cache else None
        except UnreadableError:
            return None
