"""What lies at an address of the kernel, in the kernel's own words: the object, and the field of it.

Everything is read from the memory that the guest left, through the kernel's own types, and nothing is
believed: what makes no sense has no name.
"""

from __future__ import annotations

import stat
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Protocol

from bigiron.introspect import kernel_knowledge, variables
from bigiron.introspect.allocation_log import Allocation, AllocationLog
from bigiron.introspect.btf import Btf
from bigiron.introspect.btf_format import BtfError
from bigiron.introspect.mm.pages import Page, Pages, Use
from bigiron.introspect.mm.percpu import PerCpu
from bigiron.introspect.mm.slab import Cache, Object, Slabs
from bigiron.introspect.mm.structs import PAGE, WORD, Memory, Structs, UnreadableError
from bigiron.introspect.mm.vmalloc import Areas
from bigiron.introspect.pointer_walk import PointerWalk, Struct
from bigiron.introspect.symbols import SymbolTable
from bigiron.util.lazy import numpy as np
from bigiron.util.object_name import FREED, KMALLOC, PAGE_OR_SLAB, POINTER, ObjectName

_MANAGED = PAGE_OR_SLAB  # by the buddy allocator
_DEEPEST = 8  # structs in structs
_MOST_NODES = 1024
_LARGEST_TYPES = 16 << 20  # of a module
_MOST_MODULES = 256
_LARGEST_IMAGE = 256 << 20
_MOST_TASKS = 64
_MOST_ALIKE = 32  # objects of one cache from which pointers are followed
_LONGEST_TABLE = 1 << 28
_ENOUGH_POINTERS = 2  # that lead where those of a type do
_FILE_KINDS = {
    stat.S_IFDIR: "directory",
    stat.S_IFREG: "file",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFLNK: "link",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


@dataclass(frozen=True)
class Symbolized:
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
        return replace(self, object=replace(self.object, cpu=cpu))

    @property
    def name(self) -> str:
        """The object's name, as tables have it."""
        return str(self.object)


def _memory(kind: str, reason: str = "", offset: int | None = None, detail: str = "") -> Symbolized:
    """Memory of which only its kind is known, or a slab's object of no type."""
    return Symbolized(ObjectName(kind, offset=offset, detail=detail, reason=reason))


def _pointed_to_by(variable: str, offset: int) -> Symbolized:
    """Memory of no known type that a variable points to."""
    return Symbolized(ObjectName(f"*{variable}", offset=offset))


class AddressMap(Protocol):
    """What an address alone tells."""

    @property
    def page_bytes(self) -> int:
        """How large a page is."""

    def class_of(self, address: int) -> str:
        """What kind of memory lies there."""

    def start_of(self, name: str) -> int:
        """Where that kind of memory starts."""


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
        self._symbols = symbols
        self._offsets = offsets
        self._variables = symbols.per_cpu(offsets)
        self._map = address_map
        self._btf = types_in(memory, symbols)
        self._structs = Structs(memory, symbols, self._btf)
        self._slabs = Slabs(self._structs)
        self._pages = Pages(
            self._structs,
            address_map.start_of("struct page"),
            address_map.start_of(_MANAGED),
            address_map.page_bytes,
        )
        self._per_cpu = PerCpu(self._structs, offsets, address_map.page_bytes)
        self._areas = Areas(self._structs)
        self._allocated = AllocationLog(allocations)
        self._pointed = PointerWalk(
            self._structs,
            self._per_cpu,
            self._slab_object_at,
            self._own_type,
            self._untyped,
            self._whole_type,
        )
        # Pointers lead to the same few slabs again and again.
        self._slab_in = lru_cache(None)(self._read_slab)
        self._type_in = lru_cache(None)(self._find_type)
        # And of one object several places are asked for.
        self._type_by_pointers = lru_cache(None)(self._find_type_by_pointers)
        self._detail = lru_cache(None)(self._read_detail)
        # Of a file's pages thousands of lines are asked for.
        self._cached = lru_cache(None)(lambda at: self._file(self._value("address_space", at, "host")))
        self._details: dict[str, Callable[[int], str]] = {
            "address_space": self._cached,
            "btrfs_space_info": lambda at: kernel_knowledge.SPACES.get(
                self._value("btrfs_space_info", at, "flags"), ""
            ),
            "dentry": self._dentry,
            "inode": self._file,
            "kmem_cache": lambda at: self._structs.text(self._value("kmem_cache", at, "name")),
            "kmem_cache_node": self._cache_name,
            "node_barn": self._cache_name,
            "slab_sheaf": self._cache_name,
            "pglist_data": lambda at: f"node {self._value('pglist_data', at, 'node_id')}",
            "super_block": self._file_system,
            "task_struct": lambda at: self._structs.text(
                at + self._structs.member("task_struct", "comm").start
            ),
            "zone": lambda at: (
                f"{self._structs.text(self._value('zone', at, 'name'))}, "
                f"node {self._value('zone', at, 'node')}"
            ),
        }

    def names(self, accesses: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Symbolized]:
        """For each address and how many bytes from there were accessed: what lies there."""
        wanted = set(accesses)
        addresses = {address for address, _ in wanted}
        found = {address: self._slab_object_at(address) for address in addresses}
        untyped = {object.start for object in found.values() if object and not self._own_type(object)}
        per_cpu = any(self._per_cpu.locate(address) for address in addresses)
        self._pointed.walk(self._starts(filter(None, found.values())), untyped, per_cpu)
        return {access: self._in_slab(access[0], self._name(*access)) for access in wanted}

    def _in_slab(self, address: int, named: Symbolized) -> Symbolized:
        """The same with the slab object that the address is in."""
        found = self._slab_object_at(address)
        return replace(named, start=found.start, stride=found.cache.size) if found else named

    @property
    def page_bytes(self) -> int:
        """How large a page is."""
        return self._map.page_bytes

    def cached_in(self, page: int) -> str | None:
        """The file in whose page cache the page at an address is; None for any other page.

        No CPU's variables, nor what describes a node, lie in a page that has a mapping.
        """
        if self._class_of(page) != _MANAGED:
            return None
        try:
            found = self._pages.at(page)
            return self._cached(found.mapping) if found.use is Use.CACHE else None
        except (UnreadableError, BtfError):
            return None

    def use_of(self, physical: int) -> Use:
        """What the page at a physical address is used for."""
        try:
            return self._pages.at(self._map.start_of(_MANAGED) + physical).use
        except (UnreadableError, BtfError):
            return Use.KERNEL

    def stack_of(self, task: int) -> int:
        """Where the stack of the task_struct at an address begins; 0 where that cannot be read."""
        try:
            return self._value("task_struct", task, "stack")
        except (UnreadableError, BtfError):
            return 0

    def size(self, type: str) -> int:
        """How many bytes a value of that type has; 1 where the kernel does not tell."""
        return self._btf.size(self._btf.find(type)) or 1

    def _name(self, address: int, length: int) -> Symbolized:
        if variable := self._variables.lookup(address):
            symbol, offset, cpu = variable
            return self._variable(symbol, offset, length).of_cpu(cpu)
        kind = self._class_of(address)
        namer = {
            _MANAGED: self._in_page,
            "vmalloc": self._in_vmalloc,
            "struct page": self._page_struct,
            "kernel image": self._symbol,
            "module": self._symbol,
        }.get(kind)
        try:
            found = namer(address, length) if namer else None
            return found or _memory(kind)
        except (UnreadableError, BtfError) as error:
            return _memory(kind, str(error))

    def _class_of(self, address: int) -> str:
        """As the address tells, but that a kernel's image may lie among the memory that it manages.

        What of it was needed only to boot is then as any other memory: it was given back.
        """
        kind = self._map.class_of(address)
        given_back = kind == _MANAGED and address in self._init
        return "kernel image" if address in self._image and not given_back else kind

    @cached_property
    def _image(self) -> range:
        return range(self._symbols.address("_stext") or 0, self._symbols.address("_end") or 0)

    @cached_property
    def _init(self) -> range:
        return range(self._symbols.address("__init_begin") or 0, self._symbols.address("__init_end") or 0)

    def _symbol(self, address: int, length: int) -> Symbolized | None:
        symbol, offset = self._symbols.lookup(address)
        if not symbol:
            return None
        found = self._variable(symbol, offset, length)
        name = ObjectName(symbol)
        return (
            replace(found, object=replace(name, detail=POINTER)) if found == Symbolized(name, "*") else found
        )

    def _variable(self, symbol: str, offset: int, length: int) -> Symbolized:
        return self._part(ObjectName(symbol), self._type_of_variable(symbol), offset, length)

    def _type_of_variable(self, symbol: str) -> int:
        return variables.types_of(self._btf, self._symbols).get(symbol, 0)

    def _in_page(self, address: int, length: int) -> Symbolized:
        for node in self._nodes:
            if node.address <= address < node.address + node.size:
                return self._field(node.address, node.type, address, length)
        page = self._pages.at(address)
        if page.use is Use.SLAB:
            return self._slab_object(page, address, length)
        if copy := self._per_cpu_copy(address, length):
            return copy
        if page.use is Use.FREE and (freed := self._freed(address, length)):
            return freed
        if page.use is Use.CACHE:
            return _memory("page cache", offset=address % self.page_bytes, detail=self._cached(page.mapping))
        if placed := self._placed_at(address):
            return self._in_placed(placed, address, length)
        if holder := self._holders.get(page.start):
            return _pointed_to_by(holder, address - page.start)
        use: str = page.use.value
        return _memory(use) if page.use in (Use.TABLE, Use.ANONYMOUS) else _memory(_MANAGED, use)

    def _slab_object(self, page: Page, address: int, length: int) -> Symbolized:
        cache = self._slabs.cache_of(page.head)
        if cache is None:
            return _memory(_MANAGED, "slab of an unknown cache")
        found = self._slabs.object(cache, page.start, address)
        offset = address - found.start
        own = self._own_type(found) or self._pointed.objects.get(found.start, 0)
        if type := own or self._type_by_pointers(found):
            return self._field(found.start, type, address, length)
        if not 0 <= offset < cache.object_size:
            return _memory(cache.name, "between its objects")
        if placed := self._placed_at(address):
            return self._in_placed(placed, address, length)
        if holder := self._holders.get(found.start):
            return _pointed_to_by(holder, offset)
        detail = f"{cache.object_size} bytes{self._allocated_in(found)}"
        return _memory(cache.name, offset=offset, detail=detail)

    def _allocated_in(self, object: Object) -> str:
        """Who allocated an object of no type, as far as that says more than the cache's name."""
        if seen := self._allocated.at(object.start):
            return f", allocated in {seen.site}"
        return ", allocated before the recording" if object.cache.is_kmalloc else ""

    def _freed(self, address: int, length: int) -> Symbolized | None:
        """What was there before its page was freed; None where that was not seen."""
        seen = self._allocated.before(address)
        if seen is None:
            return None
        offset, cache = address - seen.address, self._slabs.caches.get(seen.asked)
        if offset >= (cache.object_size if cache else seen.asked):
            return None
        if cache is None:
            detail = f"{seen.asked} bytes, {FREED}, allocated in {seen.site}"
            return _memory(KMALLOC, offset=offset, detail=detail)
        if not cache.is_kmalloc and (type := self._own_type(Object(cache, seen.address))):
            return self._field(seen.address, type, address, length, freed=True)
        detail = f"{cache.object_size} bytes, {FREED}, allocated in {seen.site}"
        return _memory(cache.name, offset=offset, detail=detail)

    def _in_vmalloc(self, address: int, length: int) -> Symbolized | None:
        if copy := self._per_cpu_copy(address, length):
            return copy
        if placed := self._placed_at(address):
            return self._in_placed(placed, address, length)
        area = self._areas.at(address)
        if area is None:
            return None
        if holder := self._holders.get(area.start):
            return _pointed_to_by(holder, address - area.start)
        caller, _ = self._symbols.lookup(area.caller)
        return _memory(f"vmalloc memory of {caller}", offset=address - area.start) if caller else None

    def _page_struct(self, address: int, length: int) -> Symbolized:
        page = self._pages.of_struct(address)
        size = self._pages.struct_size
        type, detail = "page", page.use.value
        if page.use is Use.SLAB and address - page.head < size:
            type = self._slabs.slab_type
            cache = self._slabs.cache_of(page.head)
            detail = cache.name if cache else detail
        elif page.use in (Use.CACHE, Use.ANONYMOUS) and self._btf.find("folio"):
            type = "folio"
        elif page.use is Use.TABLE and self._btf.find("ptdesc") and address - page.head < size:
            type = "ptdesc"
        start = page.head
        if address - start >= self._btf.size(self._structs.type(type)):
            type, start = "page", address - (address - page.head) % size
        name = replace(ObjectName.struct(type), detail=detail)
        return self._part(name, self._structs.type(type), address - start, length)

    def _per_cpu_copy(self, address: int, length: int) -> Symbolized | None:
        found = self._per_cpu.locate(address)
        if not found:
            return None
        pointer, cpu = found
        place = bisect_right(self._per_cpu_structs, pointer, key=lambda struct: struct.address) - 1
        struct = self._per_cpu_structs[place] if place >= 0 else None
        if struct is None or pointer >= struct.address + max(struct.size, 1):
            return self._untyped_per_cpu(pointer).of_cpu(cpu)
        if not self._btf.is_struct(struct.type):
            return Symbolized(struct.label).of_cpu(cpu)
        return self._field(struct.address, struct.type, pointer, length).of_cpu(cpu)

    def _untyped_per_cpu(self, pointer: int) -> Symbolized:
        """Per-CPU memory of which only is known how much was allocated at once."""
        found = self._per_cpu.allocation(pointer)
        if found is None:
            return _memory("per-CPU memory")
        start, size = found
        return _memory(f"per-CPU memory of {size} bytes", offset=pointer - start)

    def _field(self, start: int, type: int, address: int, length: int, freed: bool = False) -> Symbolized:
        """The field of a struct, or of a struct in it that has a name of its own.

        Of what is `freed` nothing but its type is known.
        """
        for _ in range(_DEEPEST):
            inner = self._btf.place(
                type, address - start, length, kernel_knowledge.ATOMS | kernel_knowledge.EMBEDDED
            )
            if not inner.path or self._btf.name(inner.type) not in kernel_knowledge.EMBEDDED:
                break
            start, type = start + inner.start, inner.type
        name = self._btf.tag(type)
        detail = FREED if freed else self._detail(name, start)
        return self._part(replace(ObjectName.struct(name), detail=detail), type, address - start, length)

    def _read_detail(self, type: str, address: int) -> str:
        """What tells one struct of a type from others."""
        if type not in self._details:
            return ""
        try:
            return self._details[type](address)
        except UnreadableError:
            return ""

    def _part(self, whole: ObjectName, type: int, offset: int, length: int) -> Symbolized:
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

    def _own_type(self, found: Object) -> int:
        """The type of an object that its cache tells; 0 where it has none, or several."""
        cache = found.cache
        if cache.is_kmalloc or cache.name == "kmem_cache_node":
            part = self._slabs.part_at(found.start)
            return self._btf.find(part[0]) if part else self._btf.find(cache.name)
        return self._type_in(cache.name, cache.merged)

    def _find_type(self, cache: str, merged: bool) -> int:
        if merged and (cache not in kernel_knowledge.MERGED or self._is_lent(cache)):
            return 0
        return self._btf.find(kernel_knowledge.CACHES.get(cache, cache))

    def _find_type_by_pointers(self, found: Object) -> int:
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
            other = self._slab_object_at(value)
            own = self._own_type(other) if other and other.start == value else 0
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
        return self._symbols.address(kernel_knowledge.LENT.get(cache, "")) is not None

    def _slab_object_at(self, address: int) -> Object | None:
        slab = self._slab_in(address // self._map.page_bytes)
        return self._slabs.object(*slab, address) if slab else None

    def _read_slab(self, page: int) -> tuple[Cache, int] | None:
        """The cache whose slab a page belongs to, and where that slab starts."""
        address = page * self._map.page_bytes
        if self._class_of(address) != _MANAGED:
            return None
        try:
            found = self._pages.at(address)
            cache = self._slabs.cache_of(found.head) if found.use is Use.SLAB else None
        except UnreadableError:
            return None
        return (cache, found.start) if cache else None

    def _untyped(self, struct: Struct) -> Iterator[tuple[int, int]]:
        """Offset and target of a pointer whose type does not tell, where the rest of the struct does."""
        name = self._btf.name(struct.type)
        if name in kernel_knowledge.CHARGED:
            css = self._structs.member(name, "css").start
            yield css + self._structs.member("cgroup_subsys_state", "parent").start, struct.type
        if name not in kernel_knowledge.PRIVATE:
            return
        member, types = kernel_knowledge.PRIVATE[name]
        try:
            if name == "file":
                teller, offset = self._symbols.lookup(self._value(name, struct.address, "f_op"))
                teller = teller if not offset else ""
            else:
                teller = self._file_system(struct.address)
            if type := self._btf.find(types.get(teller, "")):
                yield self._structs.member(name, member).start, type
        except UnreadableError:
            return

    def _whole_type(self, type: int, address: int) -> int:
        """The type of the struct that one of a given type begins: of a `struct sock` its protocol tells."""
        if self._btf.tag(type) != "sock":
            return type
        try:
            protocol = self._value("sock", address, "__sk_common.skc_prot")
            name = self._structs.text(protocol + self._structs.member("proto", "name").start)
        except UnreadableError:
            return type
        return self._btf.find(kernel_knowledge.CACHES.get(name, "")) or type

    def _starts(self, objects: Iterable[Object]) -> Iterator[Struct]:
        """Structs whose type is known: the kernel's variables, the last tasks, some of the objects asked for.

        These come last but for variables that seldom lead anywhere: some were freed, and what they pointed to
        may be something else by now.
        """
        for table, follow in ((kernel_knowledge.VARIABLES, False), (kernel_knowledge.POINTERS, True)):
            for symbol, name in table.items():
                at, type = self._symbols.address(symbol), self._btf.find(name)
                for place in self._copies(at, follow) if at and type else ():
                    inside = self._slab_object_at(place)
                    size = inside.cache.object_size if inside else self._btf.size(type)
                    yield Struct(place, type, size, ObjectName(f"*{symbol}" if follow else symbol))
        yield from self._nodes
        yield from self._tasks()
        for pointer, (name, _) in self._slabs.parts.items():
            if (type := self._btf.find(name)) and self._per_cpu.is_pointer(pointer):
                for offset in self._offsets[:_MOST_ALIKE]:
                    yield Struct(
                        (pointer + offset) % (1 << 64), type, self._btf.size(type), ObjectName.struct(name)
                    )

        of_cache: Counter[int] = Counter()
        for found in dict.fromkeys(objects):
            of_cache[found.cache.address] += 1
            if of_cache[found.cache.address] <= _MOST_ALIKE and (type := self._own_type(found)):
                yield Struct(
                    found.start, type, found.cache.object_size, ObjectName.struct(self._btf.tag(type))
                )
        for symbol, at, type in variables.with_pointers(self._btf, self._symbols):
            for place in self._copies(at, follow=False):
                yield Struct(place, type, self._btf.size(type), ObjectName(symbol))

    def _copies(self, variable: int, follow: bool) -> list[int]:
        """Where a variable is, or each CPU's, or where it points to."""
        if self._symbols.is_per_cpu(variable):
            return [(variable + offset) % (1 << 64) for offset in self._offsets[:_MOST_ALIKE]]
        if not follow:
            return [variable]
        content = self._structs.memory.read(variable, WORD)
        return [int.from_bytes(content, "little")] if content else []

    def _tasks(self) -> Iterator[Struct]:
        try:
            type = self._structs.type("task_struct")
            head = self._structs.symbol("init_task") + self._structs.member("task_struct", "tasks").start
            tasks = list(self._structs.list(head, "task_struct", "tasks"))
        except UnreadableError:
            return
        size = self._btf.size(type)
        yield from (
            Struct(task, type, size, ObjectName.struct("task_struct")) for task in tasks[-_MOST_TASKS:]
        )

    @cached_property
    def _per_cpu_structs(self) -> list[Struct]:
        """What is known of pointers to per-CPU memory, in their order."""
        found = {struct.address: struct for struct in self._held_by_variables()}
        found |= {struct.address: struct for struct in self._per_cpu_counters()} | self._pointed.per_cpu
        for pointer, (name, cache) in self._slabs.parts.items():
            if type := self._btf.find(name):
                found[pointer] = Struct(pointer, type, self._btf.size(type), ObjectName(cache))
        return sorted(found.values(), key=lambda struct: struct.address)

    def _held_by_variables(self) -> Iterator[Struct]:
        """What pointers in each CPU's variables lead to: kernels tell the types of these variables.

        Where such a pointer looks like one into the kernel's image, as in 7.2 on x86, none is followed.
        """
        for symbol in self._btf.variables:
            at = self._symbols.address(symbol)
            if at is None or not self._symbols.is_per_cpu(at):
                continue
            type = self._type_of_variable(symbol)
            pointers = self._btf.pointers(type)
            for offset in self._offsets:
                content = self._structs.memory.read((at + offset) % (1 << 64), self._btf.size(type)) or b""
                for inside, target in pointers:
                    value = int.from_bytes(content[inside : inside + WORD], "little")
                    if PAGE <= value < 1 << 63 and self._per_cpu.is_pointer(value):
                        path = self._btf.place(type, inside, WORD).path
                        label = ObjectName(symbol).at(path) if path else ObjectName(f"*{symbol}")
                        yield Struct(value, target, self._btf.size(target), label)

    def _per_cpu_counters(self) -> Iterator[Struct]:
        """The CPUs' parts of each `struct percpu_counter`, of which lib/percpu_counter.c has a list."""
        try:
            counters = self._structs.member("percpu_counter", "counters")
            for counter in self._structs.list(self._structs.symbol("percpu_counters"), "percpu_counter"):
                if self._per_cpu.locate(counter):
                    continue
                pointer = self._structs.number(counter + counters.start)
                owner = self._name(counter, 1).object.owner
                yield Struct(pointer, self._btf.target(counters.type), 4, owner.at("counters"))
        except UnreadableError:
            return

    def _placed_at(self, address: int) -> Struct | None:
        place = bisect_right(self._placed, address, key=lambda struct: struct.address) - 1
        struct = self._placed[place] if place >= 0 else None
        return struct if struct and address < struct.address + struct.size else None

    def _in_placed(self, struct: Struct, address: int, length: int) -> Symbolized:
        """A field of a struct, or of one of several side by side."""
        if not self._btf.is_struct(struct.type):
            return Symbolized(struct.label, self._btf.name(struct.type))
        size = self._btf.size(struct.type)
        start = struct.address + (address - struct.address) // size * size
        return self._part(struct.label, struct.type, address - start, length)

    @cached_property
    def _placed(self) -> list[Struct]:
        """What lies at a known address, whatever its page or slab tells, in their order.

        These are what variables point to in no slab, and what describes per-CPU memory.
        """
        found = {struct.address: struct for struct in (*self._held_by_pointers(), *self._chunk_parts())}
        return sorted(found.values(), key=lambda struct: struct.address)

    def _chunk_parts(self) -> Iterator[Struct]:
        chunk_type, block = self._btf.find("pcpu_chunk"), self._btf.find("pcpu_block_md")
        if not chunk_type or not block:
            return
        for chunk in self._per_cpu.chunks:
            size = self._btf.size(chunk_type)
            yield Struct(chunk.address, chunk_type, size, ObjectName.struct("pcpu_chunk"))
            size = chunk.pages * self._btf.size(block)
            yield Struct(chunk.blocks, block, size, ObjectName.struct("pcpu_block_md"))
            for member, map, more_bits in (
                ("alloc_map", chunk.alloc_map, 0),
                ("bound_map", chunk.bound_map, 1),
            ):
                type = self._btf.target(self._structs.member("pcpu_chunk", member).type)
                yield Struct(
                    map, type, chunk.map_bytes(more_bits), ObjectName.struct("pcpu_chunk").at(f"{member}[]")
                )

    def _held_by_pointers(self) -> Iterator[Struct]:
        """The structs in no slab that variables point to: memblock's, and whole pages."""
        for address, symbol in self._holders.items():
            at, type = next(iter(self._btf.pointers(self._type_of_variable(symbol))), (0, 0))
            if at or not self._btf.is_struct(type) or not self._is_in_no_slab(address):
                continue
            size = self._btf.size(type)
            if self._btf.name(type) in kernel_knowledge.CUT_SHORT:
                size = min(size, -(-len(self._offsets) // (WORD * 8)) * WORD)
            yield Struct(address, type, size * self._length(symbol), ObjectName(f"*{symbol}"))

    def _length(self, symbol: str) -> int:
        """How many structs lie side by side where a variable points to."""
        if symbol not in kernel_knowledge.TABLES:
            return 1
        teller, member, length = kernel_knowledge.TABLES[symbol]
        try:
            at, type = self._structs.symbol(teller), self._type_of_variable(teller)
            place = self._btf.member(type, member) if member else None
            at, type = (at + place.start, place.type) if place else (at, type)
            told = self._structs.number(at, self._btf.size(type) or WORD)
        except UnreadableError:
            return 1
        return min(max(length(told), 1), _LONGEST_TABLE)

    def _is_in_no_slab(self, address: int) -> bool:
        kind = self._class_of(address)
        try:
            return kind == "vmalloc" or (
                kind == _MANAGED and self._pages.at(address).use in (Use.BOOT, Use.KERNEL)
            )
        except (UnreadableError, BtfError):
            return False

    @cached_property
    def _nodes(self) -> list[Struct]:
        """The `struct pglist_data` of each node."""
        found = []
        try:
            type, table = self._structs.type("pglist_data"), self._structs.symbol("node_data")
            for node in range(_MOST_NODES):
                start = self._structs.number(table + node * WORD)
                if self._map.class_of(start) != _MANAGED:
                    break
                found.append(Struct(start, type, self._btf.size(type), ObjectName.struct("pglist_data")))
        except UnreadableError:
            pass
        return found

    @cached_property
    def _holders(self) -> dict[int, str]:
        """The variables that hold an address, by that address."""
        start, end = self._symbols.address("_etext"), self._symbols.address("_end")
        if start is None or end is None:
            return {}
        init = self._init.start or end, self._init.stop or end
        low = self._map.start_of(_MANAGED)
        high = self._map.start_of("struct page")
        low = end if low <= start < high else low
        end = min(end, start + _LARGEST_IMAGE)
        found: dict[int, str] = {}
        for begin, stop in ((start, min(init[0], end)), (max(start, init[1]), end)):
            for address, content in self._structs.memory.mapped(begin & -WORD, stop):
                words = np.frombuffer(content[: len(content) & -WORD], "<u8")
                for place in np.flatnonzero((words >= low) & (words < high)).tolist():
                    symbol, offset = self._symbols.lookup(address + place * WORD)
                    if symbol and not offset:
                        found.setdefault(int(words[place]), symbol)
        return found

    def _value(self, type: str, address: int, path: str) -> int:
        return self._structs.value(type, address, path)

    def _cache_name(self, part: int) -> str:
        found = self._slabs.part_at(part)
        return found[1] if found else ""

    def _dentry(self, address: int) -> str:
        inode = self._value("dentry", address, "d_inode")
        return (
            self._file(inode)
            if inode
            else f"{self._file_system(self._value('dentry', address, 'd_sb'))}, no file"
        )

    def _file(self, inode: int) -> str:
        """The file system and what kind of file: `tmpfs directory`."""
        kind = _FILE_KINDS.get(stat.S_IFMT(self._value("inode", inode, "i_mode")), "")
        return f"{self._file_system(self._value('inode', inode, 'i_sb'))} {kind}".strip()

    def _file_system(self, super_block: int) -> str:
        type = self._value("super_block", super_block, "s_type")
        return self._structs.text(self._value("file_system_type", type, "name"))


def types_in(memory: Memory, symbols: SymbolTable) -> Btf:
    """The types in the kernel's memory, those of its modules too; none where it has none.

    Cells of one kernel share them.
    """
    start, end = symbols.address("__start_BTF") or 0, symbols.address("__stop_BTF") or 0
    content = memory.read(start, end - start) if 0 < start < end else None
    try:
        if not content:
            return Btf.none()
        modules = _module_types(Structs(memory, symbols, _read_btf(content)))
        return _with_variables(variables.kernel_in(memory, symbols), content, *modules)
    except BtfError:
        return Btf.none()


@lru_cache(8)
def _read_btf(content: bytes, *modules: bytes) -> Btf:
    return Btf(content, modules)


@lru_cache(8)
def _with_variables(kernel: variables.KernelId, content: bytes, *modules: bytes) -> Btf:
    btf = Btf(content, modules) if modules else _read_btf(content)
    variables.describe(btf, kernel)
    return btf


def _module_types(structs: Structs) -> list[bytes]:
    """What kernel/bpf/btf.c has of each module that is loaded, from 5.11 on."""
    found: list[bytes] = []
    try:
        for module in structs.list(structs.symbol("btf_modules"), "btf_module"):
            btf = structs.value("btf_module", module, "btf")
            size = structs.value("btf", btf, "data_size")
            content = structs.memory.read(structs.value("btf", btf, "data"), min(size, _LARGEST_TYPES))
            found += [content] if content else []
            if len(found) == _MOST_MODULES:
                break
    except UnreadableError:
        pass
    return found
