"""mm/slub.c, and up to 6.7 mm/slab.c: the caches, and which object of which cache lies at an address."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from bigiron.introspect.mm.pages import Page
from bigiron.introspect.mm.structs import WORD, Structs, UnreadableError

_LARGEST_OBJECT = 1 << 22
_OBJECTS = 0xFFFF  # of `oo.x`: how many a slab has; above them its order


@dataclass(frozen=True, eq=False)  # each is read once: hashing all its fields takes long
class Cache:
    """A `struct kmem_cache`."""

    address: int
    name: str
    size: int  # from one object to the next
    object_size: int
    pad: int  # in front of each object
    merged: bool  # stands for several caches whose objects are alike
    parts: tuple[tuple[str, int], ...]  # types and addresses of what it has of its own: per node, per CPU
    align: int = 8  # of its objects
    per_slab: int = 1  # objects

    @cached_property
    def is_kmalloc(self) -> bool:
        """Whether its objects have nothing in common but their size."""
        return "kmalloc-" in self.name


class Object(NamedTuple):
    """An object of a cache, or where one could be."""

    cache: Cache
    start: int


class Slabs:
    """All caches."""

    def __init__(self, structs: Structs) -> None:
        self._structs = structs

    @cached_property
    def caches(self) -> dict[int, Cache]:
        """By the address of their `struct kmem_cache`."""
        head = self._structs.symbol("slab_caches")
        found = {}
        for address in self._structs.list(head, "kmem_cache"):
            found[address] = self._cache(address)
        return found

    @cached_property
    def parts(self) -> dict[int, tuple[str, str]]:
        """What caches have of their own, lists of each node and the like: type and cache by address.

        Empty where caches cannot be read, as in a kernel without types.
        """
        try:
            caches = self.caches.values()
        except UnreadableError:
            return {}
        return {address: (type, cache.name) for cache in caches for type, address in cache.parts}

    def part_at(self, address: int) -> tuple[str, str] | None:
        """Type and cache of what a cache has there of its own.

        Since 7.0 also of its sheaves, arrays of free objects, which wander between CPUs and lists.
        """
        if known := self.parts.get(address):
            return known
        if not self._structs.btf.find("slab_sheaf"):
            return None
        try:
            cache = self.caches.get(self._structs.value("slab_sheaf", address, "cache"))
        except UnreadableError:
            return None
        return ("slab_sheaf", cache.name) if cache else None

    def cache_of(self, slab: int) -> Cache | None:
        """The cache that a slab's `struct slab` (before 5.17 `struct page`) names."""
        return self.caches.get(self._structs.value(self.slab_type, slab, "slab_cache"))

    def start_of(self, slab: Page) -> int:
        """Where the objects of a slab start: in mm/slab.c after its colour, some unused cache lines."""
        if self._structs.btf.member(self._structs.type("kmem_cache"), "colour_off"):
            return self._structs.value(self.slab_type, slab.head, "s_mem")
        return slab.start

    def object(self, cache: Cache, slab_start: int, address: int) -> Object:
        """The object at an address of a slab whose objects start at `slab_start`."""
        number = (address - slab_start) // cache.size
        return Object(cache, slab_start + number * cache.size + cache.pad)

    @cached_property
    def slab_type(self) -> str:
        """What describes a slab."""
        return "slab" if self._structs.btf.find("slab") else "page"

    def _cache(self, address: int) -> Cache:
        value = self._structs.value
        size = value("kmem_cache", address, "size")
        object_size = value("kmem_cache", address, "object_size")
        pad = self._optional(address, "red_left_pad")
        if not 0 < object_size <= size <= _LARGEST_OBJECT or pad > size:
            raise UnreadableError(f"no cache has objects of {object_size} in {size} bytes")
        return Cache(
            address,
            self._structs.text(value("kmem_cache", address, "name")),
            size,
            object_size,
            pad,
            1 < value("kmem_cache", address, "refcount") < 1 << 31,
            tuple(self._parts(address)),
            self._optional(address, "align") or WORD,
            self._optional(address, "oo.x") & _OBJECTS or self._optional(address, "num") or 1,
        )

    def _optional(self, address: int, path: str) -> int:
        """A member that not every kernel's caches have."""
        try:
            return self._structs.value("kmem_cache", address, path)
        except UnreadableError:
            return 0

    @cached_property
    def _end(self) -> int:
        """A cache ends with an array for the nodes that this machine can have, not the most that any can."""
        return self._structs.value(
            "kmem_cache", self._structs.number(self._structs.symbol("kmem_cache")), "object_size"
        )

    def _parts(self, address: int) -> list[tuple[str, int]]:
        btf = self._structs.btf
        parts = []
        for offset, target in btf.pointers(self._structs.type("kmem_cache")):
            name = btf.name(target)
            if offset < self._end and name in (
                "kmem_cache_node",
                "node_barn",
                "kmem_cache_cpu",
                "slub_percpu_sheaves",
            ):
                part = self._structs.number(address + offset)
                if part:
                    parts.append((name, part))
        return parts
