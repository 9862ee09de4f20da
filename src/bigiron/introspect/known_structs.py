"""The structs in a guest's memory of which both place and type are known, and what their pointers lead to."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from functools import cached_property

from bigiron.introspect import kernel_knowledge, variables
from bigiron.introspect.btf_format import BtfError
from bigiron.introspect.details import Details
from bigiron.introspect.guest_memory import MANAGED, GuestMemory
from bigiron.introspect.mm.pages import PageUse
from bigiron.introspect.mm.slab import Object
from bigiron.introspect.mm.structs import PAGE, WORD, UnreadableError
from bigiron.introspect.pointer_walk import PointerWalk, Struct
from bigiron.introspect.slab_types import SlabTypes
from bigiron.util.lazy import numpy as np
from bigiron.util.object_name import ObjectName

_MOST_NODES = 1024
_LARGEST_IMAGE = 256 << 20
_MOST_TASKS = 64
_MOST_ALIKE = 32  # objects of one cache from which pointers are followed
_LONGEST_TABLE = 1 << 28


class _ByAddress:
    """Structs, found by any address in them."""

    def __init__(self, structs: dict[int, Struct]) -> None:
        self._structs, self._addresses = structs, sorted(structs)

    def before(self, address: int) -> Struct | None:
        """The last struct that starts there or before."""
        place = bisect_right(self._addresses, address) - 1
        return self._structs[self._addresses[place]] if place >= 0 else None


class KnownStructs:
    """Those of one guest. `owner_of` names what holds the `struct percpu_counter` at an address."""

    def __init__(
        self,
        guest: GuestMemory,
        slab_types: SlabTypes,
        details: Details,
        owner_of: Callable[[int], ObjectName],
    ) -> None:
        self._guest = guest
        self._structs = guest.structs
        self._btf = guest.btf
        self._symbols = guest.symbols
        self._slabs = guest.slabs
        self._per_cpu = guest.per_cpu
        self._slab_types = slab_types
        self._details = details
        self._owner_of = owner_of
        self._walk = PointerWalk(
            guest.structs,
            guest.per_cpu,
            guest.address_map.line_bytes,
            slab_types.object_at,
            slab_types.own_type,
            self._untyped,
            self._whole_type,
        )

    def walk(self, objects: Iterable[Object], untyped: Set[int], per_cpu: bool) -> None:
        """Follow pointers from all that is known, and from these objects, to the `untyped` ones."""
        self._walk.walk(self._starts(objects), untyped, per_cpu)

    def type_by_walk(self, start: int) -> int:
        """The type of the object that starts there, as a pointer tells; 0 where none does."""
        return self._walk.objects.get(start, 0)

    def type_by_holder(self, found: Object) -> int:
        """The type of an object that a variable points to, as the variable's own tells; 0 where none does.

        The walk follows no variable whose name another one has too.
        """
        type = self._target(self._btf.variable(self.holders.get(found.start, "")))
        return type if self._walk.fits(type, found) else 0

    def _target(self, pointer: int) -> int:
        """The type of what a pointer of a type leads to; 0 where it is not a pointer."""
        at, type = next(iter(self._btf.pointers(pointer)), (0, 0))
        return 0 if at else type

    def placed_at(self, address: int) -> Struct | None:
        """The struct that lies there, whatever its page or slab tells."""
        struct = self._placed.before(address)
        return struct if struct and address < struct.address + struct.size else None

    def per_cpu_at(self, pointer: int) -> Struct | None:
        """The struct in per-CPU memory that such a pointer leads into."""
        struct = self._per_cpu_structs.before(pointer)
        return struct if struct and pointer < struct.address + max(struct.size, 1) else None

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
                teller, offset = self._symbols.lookup(self._structs.value(name, struct.address, "f_op"))
                teller = teller if not offset else ""
            else:
                teller = self._details.file_system(struct.address)
            if type := self._btf.find(types.get(teller, "")):
                yield self._structs.member(name, member).start, type
        except UnreadableError:
            return

    def _whole_type(self, type: int, address: int) -> int:
        """The type of the struct that one of a given type begins, as far as it tells."""
        tag = self._btf.tag(type)
        tell = {"sock": self._protocol_of, "dst_entry": self._route_of}.get(tag)
        try:
            name = tell(address) if tell else kernel_knowledge.WHOLE.get(tag, "")
            return self._btf.find(name) or type if name else type
        except UnreadableError:
            return type

    def _protocol_of(self, sock: int) -> str:
        """What a `struct sock` begins: its protocol tells."""
        protocol = self._structs.value("sock", sock, "__sk_common.skc_prot")
        name = self._structs.text(protocol + self._structs.member("proto", "name").start)
        return kernel_knowledge.CACHES.get(name, "")

    def _route_of(self, dst: int) -> str:
        """What a `struct dst_entry` begins: the family of its operations tells."""
        operations = self._structs.value("dst_entry", dst, "ops")
        return kernel_knowledge.ROUTES.get(self._structs.value("dst_ops", operations, "family"), "")

    def _starts(self, objects: Iterable[Object]) -> Iterator[Struct]:
        """Structs whose type is known: the kernel's variables, the last tasks, some of the objects asked for.

        These come last but for variables that seldom lead anywhere: some were freed, and what they pointed to
        may be something else by now.
        """
        for table, follow in ((kernel_knowledge.VARIABLES, False), (kernel_knowledge.POINTERS, True)):
            for symbol, name in table.items():
                at, type = self._symbols.address(symbol), self._btf.find(name)
                for place in self._copies(at, follow) if at and type else ():
                    inside = self._slab_types.object_at(place)
                    size = inside.cache.object_size if inside else self._btf.size(type)
                    yield Struct(place, type, size, ObjectName(f"*{symbol}" if follow else symbol))
        yield from self.nodes
        yield from self._tasks()
        for pointer, (name, _) in self._slabs.parts.items():
            if (type := self._btf.find(name)) and self._per_cpu.is_pointer(pointer):
                for offset in self._guest.offsets[:_MOST_ALIKE]:
                    yield Struct(
                        (pointer + offset) % (1 << 64), type, self._btf.size(type), ObjectName.struct(name)
                    )

        of_cache: Counter[int] = Counter()
        for found in dict.fromkeys(objects):
            of_cache[found.cache.address] += 1
            if of_cache[found.cache.address] <= _MOST_ALIKE and (type := self._slab_types.own_type(found)):
                yield Struct(
                    found.start, type, found.cache.object_size, ObjectName.struct(self._btf.tag(type))
                )
        for symbol, at, type in variables.with_pointers(self._btf, self._symbols):
            for place in self._copies(at, follow=False):
                yield Struct(place, type, self._btf.size(type), ObjectName(symbol))

    def _copies(self, variable: int, follow: bool) -> list[int]:
        """Where a variable is, or each CPU's, or where it points to."""
        if self._symbols.is_per_cpu(variable):
            return [(variable + offset) % (1 << 64) for offset in self._guest.offsets[:_MOST_ALIKE]]
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
    def _per_cpu_structs(self) -> "_ByAddress":
        """What is known of pointers to per-CPU memory."""
        found = {struct.address: struct for struct in self._held_by_variables()}
        found |= {struct.address: struct for struct in self._per_cpu_counters()} | self._walk.per_cpu
        for pointer, (name, cache) in self._slabs.parts.items():
            if type := self._btf.find(name):
                found[pointer] = Struct(pointer, type, self._btf.size(type), ObjectName(cache))
        return _ByAddress(found)

    def _held_by_variables(self) -> Iterator[Struct]:
        """What pointers in each CPU's variables lead to: kernels tell the types of these variables.

        Where such a pointer looks like one into the kernel's image, as in 7.2 on x86, none is followed.
        """
        for symbol in self._btf.variables:
            at = self._symbols.address(symbol)
            if at is None or not self._symbols.is_per_cpu(at):
                continue
            type = self._guest.type_of_variable(symbol)
            pointers = self._btf.pointers(type)
            for offset in self._guest.offsets:
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
                owner = self._owner_of(counter)
                yield Struct(pointer, self._btf.target(counters.type), 4, owner.at("counters"))
        except UnreadableError:
            return

    @cached_property
    def _placed(self) -> "_ByAddress":
        """What lies at a known address, whatever its page or slab tells.

        These are what variables point to in no slab, and what describes per-CPU memory.
        """
        return _ByAddress(
            {struct.address: struct for struct in (*self._held_by_pointers(), *self._chunk_parts())}
        )

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
        for address, symbol in self.holders.items():
            type = self._target(self._guest.type_of_variable(symbol))
            if not self._btf.is_struct(type) or not self._is_in_no_slab(address):
                continue
            size = self._btf.size(type)
            if self._btf.name(type) in kernel_knowledge.CUT_SHORT:
                size = min(size, -(-len(self._guest.offsets) // (WORD * 8)) * WORD)
            yield Struct(address, type, size * self._length(symbol), ObjectName(f"*{symbol}"))

    def _length(self, symbol: str) -> int:
        """How many structs lie side by side where a variable points to."""
        if symbol not in kernel_knowledge.TABLES:
            return 1
        teller, member, length = kernel_knowledge.TABLES[symbol]
        try:
            at, type = self._structs.symbol(teller), self._guest.type_of_variable(teller)
            place = self._btf.member(type, member) if member else None
            at, type = (at + place.start, place.type) if place else (at, type)
            value = self._structs.number(at, self._btf.size(type) or WORD)
        except UnreadableError:
            return 1
        return min(max(length(value), 1), _LONGEST_TABLE)

    def _is_in_no_slab(self, address: int) -> bool:
        kind = self._guest.class_of(address)
        try:
            return kind == "vmalloc" or (
                kind == MANAGED and self._guest.pages.at(address).use in (PageUse.BOOT, PageUse.KERNEL)
            )
        except (UnreadableError, BtfError):
            return False

    @cached_property
    def nodes(self) -> list[Struct]:
        """The `struct pglist_data` of each node."""
        found = []
        try:
            type, table = self._structs.type("pglist_data"), self._structs.symbol("node_data")
            for node in range(_MOST_NODES):
                start = self._structs.number(table + node * WORD)
                if self._guest.address_map.class_of(start) != MANAGED:
                    break
                found.append(Struct(start, type, self._btf.size(type), ObjectName.struct("pglist_data")))
        except UnreadableError:
            pass
        return found

    @cached_property
    def holders(self) -> dict[int, str]:
        """The variables that hold an address, by that address."""
        start, end = self._symbols.address("_etext"), self._symbols.address("_end")
        if start is None or end is None:
            return {}
        init = self._guest.init.start or end, self._guest.init.stop or end
        low = self._guest.address_map.start_of(MANAGED)
        high = self._guest.address_map.start_of("struct page")
        low = end if self._guest.address_map.class_of(start) == MANAGED else low
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
