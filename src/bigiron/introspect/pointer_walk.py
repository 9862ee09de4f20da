"""Types of objects that have none of their own, by the typed pointers that lead to them.

kmalloc() does not tell what for, and several caches may be one. But the kernel's structs tell the type of
what they point to, so a walk from structs whose type is known finds much of the rest.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from struct import unpack_from

from bigiron.introspect import kernel_knowledge
from bigiron.introspect.mm.percpu import PerCpu
from bigiron.introspect.mm.slab import Object
from bigiron.introspect.mm.structs import PAGE, WORD, Structs
from bigiron.util.object_name import ObjectName

_MOST_OBJECTS = 6_000
_MOST_POINTERS = 1_000_000  # in all of them together
_FURTHEST = 4  # pointers from where the walk starts
_LARGEST = 1 << 20  # bytes of a struct in which pointers are looked for
_KMALLOC_SIZES = (8, 16, 32, 64, 96, 128, 192, 256, *(1 << shift for shift in range(9, 23)))


@dataclass(frozen=True)
class Struct:
    """A struct of a known type at an address."""

    address: int
    type: int
    size: int  # of the memory that it has
    label: ObjectName  # struct mm_struct, vm_committed_as


class PointerWalk:
    """What typed pointers lead to.

    `object_at` tells the slab object at an address, `own_type` the type that its cache gives it, or 0;
    `untyped` the `void` pointers in a struct of which is known where they lead: their offsets and types;
    `whole` the type of which the one that a pointer tells is the beginning.
    """

    def __init__(
        self,
        structs: Structs,
        per_cpu: PerCpu,
        line_bytes: int,
        object_at: Callable[[int], Object | None],
        own_type: Callable[[Object], int],
        untyped: Callable[["Struct"], Iterable[tuple[int, int]]],
        whole: Callable[[int, int], int],
    ) -> None:
        self._structs = structs
        self._per_cpu = per_cpu
        self._line_bytes = line_bytes
        self._object_at = object_at
        self._own_type = own_type
        self._untyped = untyped
        self._whole = whole
        self.objects: dict[int, int] = {}  # the type of what starts at an address
        self.per_cpu: dict[int, Struct] = {}  # the same of per-CPU pointers
        self._left = _MOST_POINTERS
        self._objects_left = _MOST_OBJECTS
        self._waiting: deque[tuple[Struct, int]] = deque()  # each with its distance
        self._seen: set[int] = set()
        self._followed: set[tuple[int, int]] = set()  # pointers, by what they are and what they point to

    def walk(self, starts: Iterable[Struct], wanted: Set[int], per_cpu: bool) -> None:
        """Follow the pointers in these structs and in what they lead to, until `wanted` is found.

        `per_cpu`: whether what is known of per-CPU memory is wanted too. Another walk goes on where the last
        one ended, after what starts it that the last one did not know.
        """
        if not per_cpu and wanted <= self.objects.keys():
            return
        new = [start for start in starts if start.address not in self._seen]
        self._seen.update(start.address for start in new)
        self._waiting.extendleft((start, 0) for start in reversed(new))
        most = max(self._objects_left, len(new))
        for number in range(most):
            if not self._waiting or (number % 64 == 0 and not per_cpu and wanted <= self.objects.keys()):
                return
            self._objects_left -= 1
            struct, distance = self._waiting.popleft()
            for found in self._targets(struct):
                if found.address not in self._seen and distance < _FURTHEST:
                    self._seen.add(found.address)
                    self._waiting.append((found, distance + 1))

    def _targets(self, struct: Struct) -> Iterable[Struct]:
        btf = self._structs.btf
        pointers = btf.pointers(struct.type)
        content = self._structs.memory.read(struct.address, min(struct.size, _LARGEST)) or b""
        followed, last = self._followed, len(content) - WORD
        for offset, target in itertools.chain(pointers, self._untyped(struct)):
            self._left -= 1
            if self._left < 0:
                return
            value = unpack_from("<Q", content, offset)[0] if offset <= last else 0
            if value < PAGE:
                continue
            if value >> 63:
                pointer = value, target
                if pointer in followed:
                    continue
                followed.add(pointer)
                if found := self._object(value, target):
                    yield found
                    continue
                if not self._is_allocation(value, btf.size(self._whole(target, value))):
                    continue
            if value not in self.per_cpu and self._per_cpu.is_pointer(value):
                whole = self._whole(target, value)
                path = btf.place(struct.type, offset, WORD).path
                self.per_cpu[value] = Struct(value, whole, btf.size(whole), struct.label.at(path))

    def _is_allocation(self, pointer: int, size: int) -> bool:
        """Whether it leads to per-CPU memory of this size: in 7.2 it may look like one into the image."""
        start, allocated = self._per_cpu.allocation(pointer) or (0, 0)
        return start == pointer and size <= allocated < size + self._line_bytes

    def _object(self, address: int, target: int) -> Struct | None:
        """The object that a pointer to `target` leads to, if its type is known now."""
        found = self._object_at(address)
        if found is None:
            return None
        if own := self._own_type(found):
            return Struct(found.start, own, found.cache.object_size, self._label(own))
        target = self._whole(target, address)
        if address != found.start or not self.fits(target, found):
            return None
        before = self.objects.get(address, 0)
        if self._structs.btf.size(target) > self._structs.btf.size(before):
            self.objects[address] = target
        return Struct(address, target, found.cache.object_size, self._label(target))

    def fits(self, type: int, found: Object) -> bool:
        """Whether an object of this type would lie in this cache, and in none of smaller objects."""
        btf = self._structs.btf
        size = btf.size(type)
        if not btf.is_struct(type) or not btf.name(type) or not size:
            return False
        if btf.name(type) in kernel_knowledge.CUT_SHORT:
            return size >= found.cache.object_size
        if found.cache.merged:
            # mm/slab_common.c: only caches whose objects take as much, but for a word, are merged.
            taken = (-(-size // alignment) * alignment for alignment in (WORD, self._line_bytes))
            return any(found.cache.size - WORD < one <= found.cache.size for one in taken)
        if not found.cache.is_kmalloc:
            return size == found.cache.object_size
        smaller = max((other for other in _KMALLOC_SIZES if other < found.cache.object_size), default=0)
        return size <= found.cache.object_size and (size > smaller or btf.is_open_ended(type))

    def _label(self, type: int) -> ObjectName:
        return ObjectName.struct(self._structs.btf.tag(type))
