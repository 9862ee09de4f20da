"""Where in a cache line an allocator, or the linker, can put an object, and how likely each place is.

mm/slub.c: the objects of a slab lie one after the other from the start of a page, and any of them may be
free. So the place of an object follows from the distance between objects and from how many a slab has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bigiron.analysis.layout.neighbourhoods import CountedObject
from bigiron.analysis.layout.structure import Structures, whole

PAIR = 128
_PAGE = 4096
_WORD = 8
_KMALLOC = (8, 16, 32, 64, 96, 128, 192, 256, *(1 << shift for shift in range(9, 23)))


def stride_after(target: CountedObject, known: Structures, after: Structures) -> int:
    """Bytes from an object to the next one of its slab, after a change of its struct.

    The cache is taken to be made with the alignment of its struct, as KMEM_CACHE() does. What else the
    allocator adds to each object, such as a pointer to the next free one, it adds again.
    """
    if not target.cache or target.struct not in known or known[target.struct] == after[target.struct]:
        return target.stride
    old, new = known[target.struct], after[target.struct]
    if "kmalloc-" in target.cache:
        return next((size for size in _KMALLOC if size >= max(new.bytes, target.stride)), target.stride)
    align = max(target.cache_align, new.align if new.align > old.align else 1)
    more = next(
        (more for more in (0, _WORD) if _stride(old.bytes, more, target.cache_align) == target.stride),
        target.stride - whole(old.bytes, target.cache_align),
    )
    return _stride(new.bytes, more, align)


def _stride(size: int, more: int, align: int) -> int:
    return whole(whole(size, _WORD) + more, align)


def places(target: CountedObject, stride: int, span: int = PAIR) -> Mapping[int, float]:
    """How likely each distance from a multiple of `span` bytes is, at which an object begins.

    >>> places(CountedObject(0, "s", "", "s", 96, 0, 8, 4), 96)
    {0: 0.25, 96: 0.25, 64: 0.25, 32: 0.25}
    """
    if not target.cache:
        return {target.start % span: 1.0}
    slab = _PAGE
    while slab < target.per_slab * target.stride:
        slab *= 2
    objects = target.per_slab if stride == target.stride else max(1, slab // stride)
    found = Counter((target.pad + number * stride) % span for number in range(objects))
    return {place: times / objects for place, times in found.items()}
