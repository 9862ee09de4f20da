"""Kernels that no test boots, by the types of 3.16, and of 6.9 to 6.15, that differ."""

from fractions import Fraction

import pytest
from test_btf import STRUCT, Builder

from bigiron.introspect.btf import Btf
from bigiron.introspect.mm.pages import Page, Pages, PageUse
from bigiron.introspect.mm.slab import Slabs
from bigiron.introspect.mm.structs import Structs
from bigiron.introspect.symbols import SymbolTable
from bigiron.machines.vm import dilation

ARRAY, MEMORY, PAGE = 0xFFFFEA0000000000, 0xFFFF880000000000, 4096
ENUM = 6
FLAGS = ("PG_slab", "PG_reserved", "PG_tail")
LOCK, CLOCK = 0xFFFFFFFF81A00000, 0xFFFFFFFF81B00000


class Words:
    """Memory of which these bytes are known."""

    def __init__(self) -> None:
        self.bytes: dict[int, int] = {}

    def write(self, address: int, value: int, size: int = 8) -> None:
        self.bytes |= {address + at: byte for at, byte in enumerate(value.to_bytes(size, "little"))}

    def read(self, address: int, length: int) -> bytes | None:
        return bytes(self.bytes.get(address + at, 0) for at in range(length))


def types_of_3_16() -> Btf:
    b = Builder()
    u16, u32, u64 = b.integer("u16", 2), b.integer("unsigned int", 4), b.integer("u64", 8)
    # linux/mm_types.h; arch/x86/include/asm/spinlock_types.h; linux/timekeeper_internal.h
    members = [("flags", u64, 0), ("mapping", u64, 8), ("_mapcount", u32, 24), ("_count", u32, 28)]
    b.compound(STRUCT, "page", 64, *members, ("first_page", u64, 48))
    tickets = b.compound(STRUCT, "__raw_tickets", 4, ("head", u16, 0), ("tail", u16, 2))
    b.compound(STRUCT, "arch_spinlock", 4, ("head_tail", u32, 0), ("tickets", tickets, 0))
    clock = [("clock", u64, 0), ("mult", u32, 8), ("cycle_interval", u64, 16), ("xtime_interval", u64, 32)]
    b.compound(STRUCT, "timekeeper", 64, *clock, ("raw_interval", u32, 48))
    rest = b"".join(
        b._name(name).to_bytes(4, "little") + bit.to_bytes(4, "little") for bit, name in enumerate(FLAGS)
    )
    b.add(ENUM, "pageflags", 4, rest, len(FLAGS))
    return Btf(b.bytes)


@pytest.fixture
def memory() -> Words:
    return Words()


@pytest.fixture
def pages(memory: Words) -> Pages:
    structs = Structs(memory, SymbolTable(""), types_of_3_16())
    return Pages(structs, ARRAY, MEMORY, PAGE)


def describe(memory: Words, number: int, flags: str = "", count: int = 1) -> int:
    """One page; the address of its struct."""
    page = ARRAY + 64 * number
    memory.write(page, sum(1 << FLAGS.index(flag) for flag in flags.split()))
    memory.write(page + 28, count, 4)
    return page


def test_before_4_4_a_compound_page_s_others_point_to_its_first(memory: Words, pages: Pages) -> None:
    head = describe(memory, 8, "PG_slab")
    memory.write(describe(memory, 9, "PG_tail") + 48, head)
    memory.write(describe(memory, 10) + 48, head)  # something else, where it is no tail
    found = pages.at(MEMORY + 9 * PAGE + 100)
    assert (found.head, found.use, found.start) == (head, PageUse.SLAB, MEMORY + 8 * PAGE)
    assert pages.at(MEMORY + 10 * PAGE).start == MEMORY + 10 * PAGE
    memory.write(describe(memory, 11, "PG_tail") + 48, 0x1234)
    assert pages.at(MEMORY + 11 * PAGE).start == MEMORY + 11 * PAGE, "it points nowhere"


def test_before_4_18_what_is_not_referred_to_is_free(memory: Words, pages: Pages) -> None:
    describe(memory, 2, count=0)
    describe(memory, 3)
    assert [pages.at(MEMORY + number * PAGE).use for number in (2, 3)] == [PageUse.FREE, PageUse.KERNEL]


def typed_pages(memory: Words, **enumerators: int) -> Pages:
    """Of a kernel whose `struct page` has a page_type."""
    b = Builder()
    u32, u64 = b.integer("unsigned int", 4), b.integer("u64", 8)
    members = [("flags", u64, 0), ("compound_head", u64, 8), ("mapping", u64, 24), ("page_type", u32, 48)]
    b.compound(STRUCT, "page", 64, *members, ("_refcount", u32, 52))
    rest = b"".join(
        b._name(name).to_bytes(4, "little") + value.to_bytes(4, "little")
        for name, value in enumerators.items()
    )
    b.add(ENUM, "pageflags", 4, rest, len(enumerators))
    return Pages(Structs(memory, SymbolTable(""), Btf(b.bytes)), ARRAY, MEMORY, PAGE)


# linux/page-flags.h
V6_9 = {"PG_reserved": 14, "PG_slab": 9}
V6_10 = {"PG_reserved": 14, "PG_slab": 0x1000, "PG_buddy": 0x80, "PG_table": 0x200}
V6_11 = {"PG_reserved": 14, "PG_slab": 0x02000000, "PG_buddy": 0x40000000, "PG_table": 0x10000000}
V6_15 = {"PGTY_buddy": 0xF0, "PGTY_table": 0xF2, "PGTY_slab": 0xF5, "PGTY_large_kmalloc": 0xF8}


@pytest.mark.parametrize(
    ("enumerators", "flags", "page_type", "count", "use"),
    [
        (V6_9, 1 << 9, 0xFFFFFFFF, 1, PageUse.SLAB),
        (V6_9, 0, 0xFFFFFFFF, 1, PageUse.KERNEL),
        (V6_9, 0, 0xFFFFFDFF, 1, PageUse.TABLE),
        (V6_9, 0, 3, 4, PageUse.KERNEL),  # mapped
        (V6_10, 0, 0xFFFFEFFF, 1, PageUse.SLAB),
        ({"PG_reserved": 14}, 0, 0xFFFFEFFF, 1, PageUse.SLAB),  # 6.10, where the bits are macros
        (V6_10, 0, 0xFFFFFF7F, 0, PageUse.FREE),
        (V6_11, 0, 0xFDFFFFFF, 1, PageUse.SLAB),
        (V6_11, 0, 0xEFFFFFFF, 1, PageUse.TABLE),
        (V6_11, 0, 0xBFFFFFFF, 1, PageUse.FREE),
        (V6_11, 0, 0xFEFFEF00, 1, PageUse.KERNEL),  # zsmalloc: the low bits are its own
        (V6_15, 0, 0xF5FFFFFF, 0, PageUse.SLAB),
        (V6_15, 0, 0xF8FFFFFF, 0, PageUse.KERNEL),  # a large kmalloc()
        (V6_15, 0, 0xFFFFFFFF, 0, PageUse.FREE),
    ],
)
def test_the_type_of_a_page(
    memory: Words, enumerators: dict[str, int], flags: int, page_type: int, count: int, use: PageUse
) -> None:
    memory.write(ARRAY, flags)
    memory.write(ARRAY + 48, page_type, 4)
    memory.write(ARRAY + 52, count, 4)
    assert typed_pages(memory, **enumerators).at(MEMORY).use is use


def test_slabs_of_mm_slab_c_begin_at_their_colour(memory: Words) -> None:
    b = Builder()
    u32, u64 = b.integer("unsigned int", 4), b.integer("u64", 8)
    words = ("size", "object_size", "num", "colour_off", "refcount", "name")
    rows = [(name, u32 if name != "name" else u64, 8 * at) for at, name in enumerate(words)]
    b.compound(STRUCT, "kmem_cache", 64, *rows, ("list", u64, 48))
    b.compound(STRUCT, "page", 64, ("flags", u64, 0), ("slab_cache", u64, 8), ("s_mem", u64, 16))
    symbols = f"{LOCK:x} D slab_caches\n{LOCK + 16:x} D kmem_cache\n"
    slabs = Slabs(Structs(memory, SymbolTable(symbols), Btf(b.bytes)))
    cache, slab = MEMORY + 4 * PAGE, Page(ARRAY, PageUse.SLAB, MEMORY)
    for address, value in (LOCK, cache + 48), (cache + 48, LOCK), (LOCK + 16, cache), (ARRAY + 8, cache):
        memory.write(address, value)
    for at, value in enumerate((192, 192, 21, 64, 1)):
        memory.write(cache + 8 * at, value, 4)
    memory.write(ARRAY + 16, MEMORY + 64)
    found = slabs.cache_of(slab.head)
    assert found and found.per_slab == 21
    start = slabs.start_of(slab)
    assert slabs.object(found, start, MEMORY + 200).start == MEMORY + 64
    assert slabs.object(found, start, MEMORY + 256).start == MEMORY + 256


@pytest.fixture
def kernel(memory: Words, monkeypatch: pytest.MonkeyPatch) -> dilation._Kernel:
    kernel = dilation._Kernel.__new__(dilation._Kernel)
    kernel.types = types_of_3_16()
    kernel.memory = memory  # type: ignore[assignment]
    monkeypatch.setattr(
        kernel, "set", lambda number, value: memory.write(number.address, value, number.bytes)
    )
    return kernel


@pytest.mark.parametrize(("tickets", "held"), [(0, False), (0x0005_0005, False), (0x0006_0005, True)])
def test_before_4_2_a_lock_is_two_tickets(
    kernel: dilation._Kernel, memory: Words, tickets: int, held: bool
) -> None:
    memory.write(LOCK, tickets, 4)
    assert kernel.is_held(LOCK) == held


def test_before_4_17_a_clock_s_interval_has_more_of_the_counter(
    kernel: dilation._Kernel, memory: Words
) -> None:
    """And as many nanoseconds."""
    assert kernel.reader() == ""
    memory.write(CLOCK + 8, 6_400_000, 4)
    memory.write(CLOCK + 16, 10_000)
    memory.write(CLOCK + 32, 64_000_000_000)
    dilation._slow_clock(kernel, CLOCK, kernel.reader(), Fraction(16))
    told = [
        int.from_bytes(memory.read(CLOCK + at, size) or b"", "little")
        for at, size in ((8, 4), (16, 8), (32, 8))
    ]
    assert told == [400_000, 160_000, 64_000_000_000]
