"""What lies at an address of the kernel, in the kernel's own words: the object, and the field of it.

Everything is read from the memory that the guest left, through the kernel's own types, and nothing is
believed: what makes no sense has no name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from bigiron.introspect import kernel_knowledge
from bigiron.introspect.allocation_log import Allocation, AllocationLog
from bigiron.introspect.btf_format import BtfError
from bigiron.introspect.details import Details
from bigiron.introspect.guest_memory import MANAGED, AddressMap, GuestMemory
from bigiron.introspect.known_structs import KnownStructs
from bigiron.introspect.mm.pages import Page, PageUse
from bigiron.introspect.mm.slab import Object
from bigiron.introspect.mm.structs import WORD, Memory, UnreadableError
from bigiron.introspect.pointer_walk import Struct
from bigiron.introspect.slab_types import SlabTypes
from bigiron.introspect.symbols import SymbolTable
from bigiron.util.object_name import FREED, KMALLOC, POINTER, ObjectName

_DEEPEST = 8  # structs in structs
_TABLE = "ptdesc"  # since 6.5: the struct of a page table's page
_NAMED = kernel_knowledge.ATOMS | kernel_knowledge.EMBEDDED  # types that are not looked into for a name


class Symbolized(NamedTuple):
    """What lies at an address.

    ```
    Symbolized(ObjectName.parse('struct dentry.d_lockref.lock (tmpfs)'), 'dentry;lockref;spinlock_t')
    ```
    """

    object: ObjectName
    types: str = ""  # of the structs that hold it, outermost first, and its own (`*`: a pointer)
    start: int = 0  # of the slab object that it is in; 0 where it is in none
    stride: int = 0  # bytes from that object to the next

    def of_cpu(self, cpu: int) -> Symbolized:
        """The same, of memory that each CPU has."""
        return self._replace(object=replace(self.object, cpu=cpu))

    @property
    def name(self) -> str:
        """The object's name, as tables have it."""
        return str(self.object)


@lru_cache(1 << 16)
def _memory(kind: str, reason: str = "", offset: int | None = None, detail: str = "") -> Symbolized:
    """Memory of which only its kind is known, or a slab's object of no type."""
    return Symbolized(ObjectName(kind, offset=offset, detail=detail, reason=reason))


def _pointed_to_by(variable: str, offset: int) -> Symbolized:
    """Memory of no known type that a variable points to."""
    return Symbolized(ObjectName(f"*{variable}", offset=offset))


class Objects:
    """The objects in the memory of one guest.

    `offsets` is the kernel's `__per_cpu_offset`; `allocations` are those that were seen. A kernel without
    types still has symbols.
    """

    def __init__(
        self,
        memory: Memory,
        symbols: SymbolTable,
        offsets: Sequence[int],
        address_map: AddressMap,
        allocations: Iterable[Allocation] = (),
    ) -> None:
        self.guest = guest = GuestMemory(memory, symbols, offsets, address_map)
        self._btf, self._pages = guest.btf, guest.pages
        self._variables = symbols.per_cpu(offsets)
        self._allocated = AllocationLog(allocations)
        self._details = Details(guest)
        # Objects of one type have the same fields, and a cell accesses many fields of each object.
        self._part = lru_cache(1 << 16)(self._find_part)
        self._struct_part = lru_cache(1 << 16)(self._find_struct_part)
        self._innermost = lru_cache(1 << 16)(self._find_innermost)
        self._page_kind = lru_cache(1 << 16)(self._find_page_kind)
        self._allocated_in = lru_cache(1 << 16)(self._find_allocation)
        self.type_of = lru_cache(None)(self._find_type)
        self.slab_types = SlabTypes(guest, self._allocated)
        self._namers = {
            MANAGED: self._in_page,
            "vmalloc": self._in_vmalloc,
            "struct page": self._page_struct,
            "kernel image": self._symbol,
            "module": self._symbol,
        }
        self._known = KnownStructs(
            guest, self.slab_types, self._details, lambda counter: self._name(counter, 1).object.owner
        )

    def names(self, accesses: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Symbolized]:
        """For each address and how many bytes from there were accessed: what lies there."""
        wanted = set(accesses)
        found = self.find({address for address, _ in wanted})
        return {access: self._named(found[access[0]], *access) for access in wanted}

    def find(self, addresses: Set[int]) -> dict[int, Object | None]:
        """The slab object at each address, after looking for pointers to those whose type is unknown."""
        found = {address: self.slab_types.object_at(address) for address in addresses}
        untyped = {
            object.start for object in found.values() if object and not self.slab_types.own_type(object)
        }
        per_cpu = any(self.guest.per_cpu.locate(address) for address in addresses)
        self._known.walk(filter(None, found.values()), untyped, per_cpu)
        self.type_of.cache_clear()
        return found

    @property
    def page_bytes(self) -> int:
        """How large a page is."""
        return self.guest.page_bytes

    def cached_in(self, page: int) -> str | None:
        """The file in whose page cache the page at an address is; None for any other page.

        No CPU's variables, nor what describes a node, lie in a page that has a mapping.
        """
        if self.guest.class_of(page) != MANAGED:
            return None
        try:
            found = self._pages.at(page)
            return self._details.of_mapping(found.mapping) if found.use is PageUse.CACHE else None
        except (UnreadableError, BtfError):
            return None

    def use_of(self, physical: int) -> PageUse:
        """What the page at a physical address is used for."""
        try:
            start = self.guest.address_map.start_of(MANAGED) - self.guest.address_map.ram_start
            return self._pages.at(start + physical).use
        except (UnreadableError, BtfError):
            return PageUse.KERNEL

    def stack_of(self, task: int) -> int:
        """Where the stack of the task_struct at an address begins; 0 where that cannot be read."""
        try:
            return self.guest.structs.value("task_struct", task, "stack")
        except (UnreadableError, BtfError):
            return 0

    def _find_type(self, found: Object) -> int:
        """The type of a slab object, as its cache, what points to it or its own pointers tell; 0: unknown."""
        return (
            self.slab_types.own_type(found)
            or self._known.type_by_walk(found.start)
            or self._known.type_by_holder(found)
            or self.slab_types.by_pointers(found)
        )

    def detail_of(self, type: str, start: int) -> str:
        """What tells the struct of a type that starts there from others; empty: nothing does."""
        return self._details.of(type, start)

    def variable_at(self, address: int) -> tuple[str, int, int | None]:
        """The variable at an address, the offset in it, and its CPU; "" where there is none."""
        if found := self._variables.lookup(address):
            return found
        if self.guest.class_of(address) not in ("kernel image", "module"):
            return "", 0, None
        return (*self.guest.symbols.lookup(address), None)

    def size(self, type: str) -> int:
        """How many bytes a value of that type has; 1 where the kernel does not tell."""
        return self._btf.size(self._btf.find(type)) or 1

    def _named(self, found: Object | None, address: int, length: int) -> Symbolized:
        """What lies at an address of which it is known whether it is in a slab, and in which object."""
        if found is None:
            return self._name(address, length)
        try:
            named = self._slab_object(found, address, length)
        except (UnreadableError, BtfError) as error:
            named = _memory(MANAGED, str(error))
        return Symbolized(named.object, named.types, found.start, found.cache.size)

    def _name(self, address: int, length: int) -> Symbolized:
        if variable := self._variables.lookup(address):
            symbol, offset, cpu = variable
            return self._variable(symbol, offset, length).of_cpu(cpu)
        kind = self.guest.class_of(address)
        namer = self._namers.get(kind)
        try:
            found = namer(address, length) if namer else None
            return found or _memory(kind)
        except (UnreadableError, BtfError) as error:
            return _memory(kind, str(error))

    def _symbol(self, address: int, length: int) -> Symbolized | None:
        symbol, offset = self.guest.symbols.lookup(address)
        if not symbol:
            return None
        found = self._variable(symbol, offset, length)
        name = ObjectName(symbol)
        return (
            found._replace(object=replace(name, detail=POINTER)) if found == Symbolized(name, "*") else found
        )

    def _variable(self, symbol: str, offset: int, length: int) -> Symbolized:
        return self._part(ObjectName(symbol), self.guest.type_of_variable(symbol), offset, length)

    def _in_page(self, address: int, length: int) -> Symbolized:
        for node in self._known.nodes:
            if node.address <= address < node.address + node.size:
                return self._field(node.address, node.type, address, length)
        page = self._pages.at(address)
        if page.use is PageUse.SLAB:
            cache = self.guest.slabs.cache_of(page.head)
            if cache is None:
                return _memory(MANAGED, "slab of an unknown cache")
            found = self.guest.slabs.object(cache, self.guest.slabs.start_of(page), address)
            return self._slab_object(found, address, length)
        if copy := self._per_cpu_copy(address, length):
            return copy
        if page.use is PageUse.FREE and (freed := self._freed(address, length)):
            return freed
        if page.use is PageUse.CACHE:
            return _memory(
                "page cache",
                offset=address % self.guest.page_bytes,
                detail=self._details.of_mapping(page.mapping),
            )
        if placed := self._known.placed_at(address):
            return self._in_placed(placed, address, length)
        if holder := self._known.holders.get(page.start):
            return _pointed_to_by(holder, address - page.start)
        use: str = page.use.value
        return _memory(use) if page.use in (PageUse.TABLE, PageUse.ANONYMOUS) else _memory(MANAGED, use)

    def _slab_object(self, found: Object, address: int, length: int) -> Symbolized:
        cache, offset = found.cache, address - found.start
        if type := self.type_of(found):
            return self._field(found.start, type, address, length)
        if not 0 <= offset < cache.object_size:
            return _memory(cache.name, "between its objects")
        if placed := self._known.placed_at(address):
            return self._in_placed(placed, address, length)
        if holder := self._known.holders.get(found.start):
            return _pointed_to_by(holder, offset)
        detail = f"{cache.object_size} bytes{self._allocated_in(found)}"
        return _memory(cache.name, offset=offset, detail=detail)

    def _find_allocation(self, object: Object) -> str:
        """Who allocated an object of no type, as far as that says more than the cache's name."""
        if seen := self._allocated.at(object.start):
            return f", allocated in {seen.site}"
        return ", allocated before the recording" if object.cache.is_kmalloc else ""

    def _freed(self, address: int, length: int) -> Symbolized | None:
        """What was there before its page was freed; None where that was not seen."""
        seen = self._allocated.before(address)
        if seen is None:
            return None
        offset, cache = address - seen.address, self.guest.slabs.caches.get(seen.asked)
        if offset >= (cache.object_size if cache else seen.asked):
            return None
        if cache is None:
            detail = f"{seen.asked} bytes, {FREED}, allocated in {seen.site}"
            return _memory(KMALLOC, offset=offset, detail=detail)
        if not cache.is_kmalloc and (type := self.slab_types.own_type(Object(cache, seen.address))):
            return self._field(seen.address, type, address, length, freed=True)
        detail = f"{cache.object_size} bytes, {FREED}, allocated in {seen.site}"
        return _memory(cache.name, offset=offset, detail=detail)

    def _in_vmalloc(self, address: int, length: int) -> Symbolized | None:
        if copy := self._per_cpu_copy(address, length):
            return copy
        if placed := self._known.placed_at(address):
            return self._in_placed(placed, address, length)
        area = self.guest.areas.at(address)
        if area is None:
            return None
        if holder := self._known.holders.get(area.start):
            return _pointed_to_by(holder, address - area.start)
        caller, _ = self.guest.symbols.lookup(area.caller)
        return _memory(f"vmalloc memory of {caller}", offset=address - area.start) if caller else None

    def _page_struct(self, address: int, length: int) -> Symbolized:
        page, size = self._pages.of_struct(address), self._pages.struct_size
        start = page.head
        name, detail = self._page_kind(page, address - start < size)
        if self._is_table_lock(page, address - start, length):
            name, detail = _TABLE, PageUse.TABLE.value
        type = self.guest.structs.type(name)
        if address - start >= self._btf.size(type):
            name, type = "page", self.guest.structs.type("page")
            start = address - (address - start) % size
        return self._struct_part(name, detail, type, address - start, length)

    def _find_page_kind(self, page: Page, is_first: bool) -> tuple[str, str]:
        """The type of the struct that describes a page, and its detail."""
        detail = page.use.value
        if page.use is PageUse.SLAB and is_first:
            cache = self.guest.slabs.cache_of(page.head)
            return self.guest.slabs.slab_type, cache.name if cache else detail
        if page.use in (PageUse.CACHE, PageUse.ANONYMOUS) and self._btf.find("folio"):
            return "folio", detail
        if page.use is PageUse.TABLE and self._btf.find(_TABLE) and is_first:
            return _TABLE, detail
        return "page", detail

    def _is_table_lock(self, page: Page, offset: int, length: int) -> bool:
        """Whether what was accessed is the lock of a page table, which may be another page by now.

        Locking accesses all of it, unlocking its first byte: nothing else that begins there is as small.
        """
        type = self._btf.find(_TABLE)
        if not type or length not in (1, self.size("spinlock_t")) or page.use is PageUse.SLAB:
            return False
        before, at = (self._btf.place(type, offset - back, 1, kernel_knowledge.ATOMS) for back in (1, 0))
        return at.path == "ptl" != before.path and not self._btf.is_pointer(at.type)

    def _per_cpu_copy(self, address: int, length: int) -> Symbolized | None:
        found = self.guest.per_cpu.locate(address)
        if not found:
            return None
        pointer, cpu = found
        struct = self._known.per_cpu_at(pointer)
        if struct is None:
            return self._untyped_per_cpu(pointer).of_cpu(cpu)
        if not self._btf.is_struct(struct.type):
            return Symbolized(struct.label).of_cpu(cpu)
        return self._field(struct.address, struct.type, pointer, length).of_cpu(cpu)

    def _untyped_per_cpu(self, pointer: int) -> Symbolized:
        """Per-CPU memory of which only is known how much was allocated at once."""
        found = self.guest.per_cpu.allocation(pointer)
        if found is None:
            return _memory("per-CPU memory")
        start, size = found
        return _memory(f"per-CPU memory of {size} bytes", offset=pointer - start)

    def _field(self, start: int, type: int, address: int, length: int, freed: bool = False) -> Symbolized:
        """The field of a struct, or of a struct in it that has a name of its own.

        Of what is `freed` nothing but its type is known.
        """
        inner, inside, name = self._innermost(type, address - start, length)
        detail = FREED if freed else self._details.of(name, start + inside)
        return self._struct_part(name, detail, inner, address - start - inside, length)

    def _find_innermost(self, type: int, offset: int, length: int) -> tuple[int, int, str]:
        """The innermost struct with a name of its own: its type, its offset and its name."""
        start = 0
        for _ in range(_DEEPEST):
            inner = self._btf.place(type, offset - start, length, _NAMED)
            if not inner.path or self._btf.name(inner.type) not in kernel_knowledge.EMBEDDED:
                break
            start, type = start + inner.start, inner.type
        return type, start, self._btf.tag(type)

    def _find_struct_part(self, name: str, detail: str, type: int, offset: int, length: int) -> Symbolized:
        return self._part(ObjectName.struct(name, detail), type, offset, length)

    def _find_part(self, whole: ObjectName, type: int, offset: int, length: int) -> Symbolized:
        """The field that was accessed, or of two neighbours that were accessed at once the first."""
        if offset + length <= self._btf.size(type) and self._is_one(type):
            return Symbolized(whole, self._type_name(type))
        place = self._btf.place(type, offset, length, kernel_knowledge.ATOMS)
        if not place.path and length <= 2 * WORD:
            place = self._btf.place(type, offset, 1, kernel_knowledge.ATOMS)
        if not place.path and self._is_one(self._btf.element(type)):
            return Symbolized(whole, self._type_name(type))  # several of an array
        if not place.path:
            return Symbolized(replace(whole, offset=offset))
        types = [*map(self._btf.name, place.within), self._type_name(place.type)]
        return Symbolized(whole.at(place.path), ";".join(filter(None, types)))

    def _type_name(self, type: int) -> str:
        """`*` for a pointer; an array is known by its elements."""
        return "*" if self._btf.is_pointer(type) else self._btf.name(self._btf.element(type))

    def _is_one(self, type: int) -> bool:
        """Whether reports name no part of a value of that type."""
        return self._btf.is_scalar(type) or self._btf.name(type) in kernel_knowledge.ATOMS

    def _in_placed(self, struct: Struct, address: int, length: int) -> Symbolized:
        """A field of a struct, or of one of several side by side."""
        if not self._btf.is_struct(struct.type):
            return Symbolized(struct.label, self._btf.name(struct.type))
        size = self._btf.size(struct.type)
        start = struct.address + (address - struct.address) // size * size
        return self._part(struct.label, struct.type, address - start, length)
