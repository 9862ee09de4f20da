"""The reader of the kernel's types: small ones made here, those of real kernels, and damaged ones."""

import random
from struct import pack

import polars as pl
import pytest
from booted import KERNELS, left_by
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigiron.analysis.layout import structure, tables
from bigiron.introspect.btf import Btf
from bigiron.introspect.btf_format import BtfError
from bigiron.introspect.kernel_knowledge import ATOMS
from bigiron.introspect.struct_layout import StructLayouts

INT, PTR, ARRAY, STRUCT, UNION, TYPEDEF, CONST = 1, 2, 3, 4, 5, 8, 10


class Builder:
    """Makes BTF as the kernel's documentation describes it."""

    def __init__(self) -> None:
        self.strings, self.types, self.count = b"\0", b"", 0
        self.first_name = 0

    def add(
        self, kind: int, name: str, size: int, rest: bytes = b"", members: int = 0, bits: bool = False
    ) -> int:
        self.types += pack("<III", self._name(name), bits << 31 | kind << 24 | members, size) + rest
        self.count += 1
        return self.count

    def integer(self, name: str, size: int) -> int:
        return self.add(INT, name, size, pack("<I", size * 8))

    def array(self, element: int, length: int) -> int:
        return self.add(ARRAY, "", 0, pack("<III", element, 1, length))

    def compound(self, kind: int, name: str, size: int, *members: tuple[str, int, int]) -> int:
        rest = b"".join(pack("<III", self._name(name), type, at * 8) for name, type, at in members)
        return self.add(kind, name, size, rest, len(members))

    def _name(self, name: str) -> int:
        if not name:
            return 0
        self.strings += name.encode() + b"\0"
        return self.first_name + len(self.strings) - len(name) - 1

    def module(self) -> "Builder":
        """Types that refer to these, and whose numbers and names go on where these end."""
        more = Builder()
        more.strings, more.count, more.first_name = b"", self.count, len(self.strings)
        return more

    @property
    def bytes(self) -> bytes:
        header = pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(self.types), len(self.types), len(self.strings))
        return header + self.types + self.strings


def sample() -> Builder:
    """6.1's struct dentry, or nearly so, and more that a struct can have."""
    b = Builder()
    u32, u64 = b.integer("unsigned int", 4), b.integer("u64", 8)
    spinlock = b.add(TYPEDEF, "spinlock_t", b.compound(STRUCT, "spinlock", 4, ("rlock", u32, 0)))
    inner = b.compound(STRUCT, "", 8, ("lock", spinlock, 0), ("count", u32, 4))
    both = b.compound(UNION, "", 8, ("lock_count", u64, 0), ("", inner, 0))
    lockref = b.compound(STRUCT, "lockref", 8, ("", both, 0))
    zone = b.compound(STRUCT, "zone", 16, ("lock", spinlock, 0), ("pages", b.array(u32, 2), 4))
    pointer = b.add(PTR, "", zone)
    b.compound(
        STRUCT,
        "dentry",
        112,
        ("d_flags", b.add(CONST, "", u32), 0),
        ("d_lockref", lockref, 8),
        ("d_zones", b.array(zone, 3), 16),
        ("d_zone", pointer, 64),
        ("d_more", b.array(pointer, 2), 72),
        ("d_open", b.array(u32, 0), 88),
    )
    fields = [
        ("a", u32, 0 | 3 << 24),
        ("b", u32, 3 | 4 << 24),
        ("c", u32, 7 | 2 << 24),
        ("d", u32, 9 | 1 << 24),
    ]
    rest = b"".join(pack("<III", b._name(name), type, where) for name, type, where in fields)
    b.add(STRUCT, "bits", 4, rest, len(fields), bits=True)
    return b


@pytest.mark.parametrize(
    ("offset", "length", "path"),
    [
        (0, 4, "d_flags"),
        (8, 8, "d_lockref.lock_count"),
        (8, 4, "d_lockref.lock"),
        (9, 1, "d_lockref.lock"),
        (12, 4, "d_lockref.count"),
        (16 + 16 + 8, 4, "d_zones[1].pages[1]"),
        (16 + 32, 16, "d_zones[2]"),
        (16, 48, "d_zones"),
        (64, 8, "d_zone"),
        (80, 8, "d_more[1]"),
        (88 + 8, 4, "d_open[2]"),
        (0, 112, ""),
        (4, 8, ""),
        (200, 4, "d_open[28]"),
    ],
)
def test_the_part_at_an_offset(offset: int, length: int, path: str) -> None:
    btf = Btf(sample().bytes)
    assert btf.place(btf.find("dentry"), offset, length, ATOMS).path == path


def test_a_type_may_be_looked_into_or_not() -> None:
    btf = Btf(sample().bytes)
    assert btf.place(btf.find("dentry"), 8, 4).path == "d_lockref.lock.rlock"


def test_a_struct_is_called_by_its_tag_where_it_has_one() -> None:
    """Else jbd2's journal is a journal_s or a journal_t, by what pointed to it."""
    b = Builder()
    tagged = b.add(TYPEDEF, "journal_t", b.compound(STRUCT, "journal_s", 8))
    nameless = b.add(TYPEDEF, "seqlock_t", b.compound(STRUCT, "", 8))
    qualified = b.add(CONST, "", nameless)
    btf = Btf(b.bytes)
    assert (btf.tag(tagged), btf.name(tagged)) == ("journal_s", "journal_t")
    assert btf.tag(qualified) == btf.tag(nameless) == "seqlock_t"


def test_bit_fields_that_share_a_byte_are_named_together() -> None:
    btf = Btf(sample().bytes)
    assert btf.place(btf.find("bits"), 0, 1).path == "a|b|c"
    assert btf.place(btf.find("bits"), 1, 1).path == "c|d"


def test_members_sizes_and_pointers() -> None:
    btf = Btf(sample().bytes)
    dentry = btf.find("dentry")
    count = btf.member(dentry, "d_lockref.count")
    assert count
    assert (count.start, count.size) == (12, 4)
    assert btf.member(dentry, "d_lockref.nothing") is None
    assert btf.size(dentry) == 112
    assert [(offset, btf.name(target)) for offset, target in btf.pointers(dentry)] == [
        (64, "zone"),
        (72, "zone"),
        (80, "zone"),
    ]
    assert btf.is_open_ended(dentry) and not btf.is_open_ended(btf.find("zone"))
    assert (btf.find("nothing"), btf.size(0), btf.name(0), btf.size(9999)) == (0, 0, "", 0)


def module(name: str, lock: str) -> Builder:
    """A struct with a lock of the kernel's type, an array of its own and a pointer to itself."""
    b = SAMPLE.module()
    own = b.add(TYPEDEF, f"{name}_t", 1)  # unsigned int, the first of all
    pointer = b.add(PTR, "", own + 3)
    array = b.array(own, 4)
    made = b.compound(
        STRUCT, name, 64, (lock, LOCK, 8), ("table", array, 16), ("next", pointer, 32), ("more", own, 40)
    )
    assert made == own + 3
    return b


SAMPLE = sample()
LOCK = Btf(SAMPLE.bytes).find("spinlock_t")


def test_types_of_modules_do_not_get_in_each_other_s_way() -> None:
    modules = [module("btrfs_space_info", "lock").bytes, b"no types", module("xfs_mount", "m_sb_lock").bytes]
    btf = Btf(SAMPLE.bytes, modules)
    for name, lock in (("btrfs_space_info", "lock"), ("xfs_mount", "m_sb_lock")):
        type = btf.find(name)
        assert (btf.name(type), btf.size(type)) == (name, 64)
        place = btf.place(type, 8, 4, ATOMS)
        assert (place.path, btf.name(place.type)) == (lock, "spinlock_t")
        assert btf.name(btf.place(type, 20, 4).type) == f"{name}_t"
        assert [btf.name(target) for _, target in btf.pointers(type)] == [name]
    assert btf.find("dentry") == Btf(SAMPLE.bytes).find("dentry")


def test_a_module_s_types_that_are_damaged_are_left_out() -> None:
    good = module("xfs_mount", "m_sb_lock").bytes
    for cut in range(0, len(good), 5):
        assert Btf(SAMPLE.bytes, [good[:cut]]).find("dentry")
    for at in range(0, len(good), 3):
        Btf(SAMPLE.bytes, [good[:at] + b"\xff" + good[at + 1 :]]).find("dentry")


def test_a_struct_that_holds_itself_has_an_end() -> None:
    b = Builder()
    b.compound(STRUCT, "loop", 8, *((f"m{number}", 1, 0) for number in range(8)))
    btf = Btf(b.bytes)
    assert btf.place(1, 0, 4).type == 1
    assert len(btf.pointers(1)) == 0
    assert btf.member(1, "nothing") is None


def laid_out(btf: Btf, *names: str, line_bytes: int = 64) -> dict[str, structure.Structure]:
    """How structs, and those in them, are laid out."""
    rows = list(StructLayouts(btf, line_bytes).rows(names))
    return structure.structures(pl.DataFrame(rows, dict(tables.FIELDS), orient="row"))


def test_how_a_struct_is_laid_out() -> None:
    """With a hole, a member on its own cache line, an anonymous union, an array, a struct inside."""
    b = Builder()
    u32, u64 = b.integer("unsigned int", 4), b.integer("long", 8)
    inner = b.compound(STRUCT, "inner", 16, ("first", u64, 0), ("second", u32, 8))
    either = b.compound(UNION, "", 8, ("whole", u64, 0), ("half", u32, 0))
    pointers = b.array(b.add(PTR, "", inner), 2)
    members = [("flags", u32, 0), ("count", u64, 8), ("hot", u32, 64), ("", either, 72)]
    b.compound(STRUCT, "outer", 128, *members, ("all", pointers, 80), ("inside", inner, 96))
    found = laid_out(Btf(b.bytes), "outer")
    outer = found["outer"]
    assert [(unit.name, unit.offset, unit.bytes, unit.align, unit.more) for unit in outer.units] == [
        ("flags", 0, 4, 4, 0),
        ("count", 8, 8, 8, 0),
        ("hot", 64, 4, 64, 0),
        ("{whole, …}", 72, 8, 8, 0),
        ("all", 80, 16, 8, 0),
        ("inside", 96, 16, 8, 0),
    ]
    types = [field.type for unit in outer.units for field in unit.fields]
    assert types == ["unsigned int", "long", "unsigned int", "long", "unsigned int", *types[5:]]
    assert types[5:] == ["struct inner * [2]", "struct inner"]
    assert (outer.bytes, outer.align, found["inner"].bytes) == (128, 64, 16)
    assert structure.laid_out(outer) == outer


def test_what_was_asked_for_is_a_cache_line_of_the_processor() -> None:
    """As `____cacheline_aligned_in_smp` on POWER, where 64 bytes are half of one."""
    b = Builder()
    u32 = b.integer("unsigned int", 4)
    b.compound(STRUCT, "outer", 256, ("flags", u32, 0), ("hot", u32, 128))
    outer = laid_out(Btf(b.bytes), "outer", line_bytes=128)["outer"]
    assert ([unit.align for unit in outer.units], outer.align) == ([4, 128], 128)


def test_the_members_of_anonymous_structs_are_members() -> None:
    """As in mm_struct, all of which is an anonymous struct, with another one on a cache line of its own."""
    b = Builder()
    u32, u64 = b.integer("int", 4), b.integer("long", 8)
    alone = b.compound(STRUCT, "", 64, ("mm_count", u32, 0))
    either = b.compound(UNION, "", 8, ("vmacache", u64, 0), ("seq", u32, 0))
    members = [("", alone, 0), ("pgd", u64, 64), ("", either, 72), ("mm_users", u32, 80)]
    inside = b.compound(STRUCT, "", 128, *members)
    b.compound(STRUCT, "mm_struct", 128, ("", inside, 0), ("cpu_bitmap", b.array(u64, 0), 128))
    mm = laid_out(Btf(b.bytes), "mm_struct")["mm_struct"]
    outer, own = structure.Anonymous(inside, 64), structure.Anonymous(alone, 64)
    assert [(one.name, one.offset, one.bytes, one.align, one.around, one.more) for one in mm.units] == [
        ("mm_count", 0, 4, 4, (outer, own), 0),
        ("pgd", 64, 8, 8, (outer,), 0),
        ("{vmacache, …}", 72, 8, 8, (outer,), 0),
        ("mm_users", 80, 4, 4, (outer,), 0),
        ("cpu_bitmap", 128, 0, 8, (), 0),
    ]
    assert (mm.bytes, mm.align, mm.tail) == (128, 64, 0)
    assert structure.laid_out(mm) == mm


def test_an_anonymous_struct_that_holds_itself_has_an_end() -> None:
    b = Builder()
    b.compound(STRUCT, "", 8, ("", 1, 0), ("", 1, 0))
    b.compound(STRUCT, "loop", 8, ("", 1, 0))
    assert list(StructLayouts(Btf(b.bytes), 64).rows(["loop"]))


def test_a_struct_that_holds_itself_has_a_layout() -> None:
    b = Builder()
    b.compound(STRUCT, "loop", 8, *((f"m{number}", 1, 0) for number in range(2)))
    known = laid_out(Btf(b.bytes), "loop")
    assert structure.boundaries(known, "loop") == [0, 8]
    assert structure.holders(known, "loop") == {"loop": [0]}


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_struct_of_real_kernels_is_laid_out_again_as_it_is(kernel: str) -> None:
    """And C's rules explain nearly all of its offsets."""
    known = laid_out(left_by(kernel).btf, "inode", "dentry", "file", "task_struct", "mem_cgroup", "rq")
    assert len(known) > 50
    assert [name for name, one in known.items() if structure.laid_out(one) != one] == []
    assert sum(unit.more != 0 for one in known.values() for unit in one.units) <= 2


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_real_kernels_say(kernel: str) -> None:
    guest = left_by(kernel)
    btf = guest.btf
    assert (btf.size(btf.find("page")), btf.size(btf.find("list_head"))) == (64, 16)
    comm = btf.member(btf.find("task_struct"), "comm")
    assert comm
    assert guest.memory.read(guest.address("init_task") + comm.start, 10) == b"swapper/0\0"
    slab_bit, slab_type = btf.enumerator("PG_slab"), btf.enumerator("PGTY_slab")
    assert slab_bit == 9 if slab_type is None else slab_type == 0xF5


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_part_that_is_found_is_where_its_path_leads(kernel: str) -> None:
    btf = left_by(kernel).btf
    chance = random.Random(0)
    names = sorted(btf._structs)
    checked = 0
    for name in chance.sample(names, 2000):
        type = btf.find(name)
        size = btf.size(type)
        for _ in range(3 if size else 0):
            offset = chance.randrange(size)
            length = chance.choice([1, 2, 4, 8])
            place = btf.place(type, offset, length)
            if not place.path:
                continue
            assert place.start <= offset and offset + length <= place.start + place.size
            if not set("[|") & set(place.path):
                member = btf.member(type, place.path)
                assert member and (member.start, member.type) == (place.start, place.type), (name, place)
                checked += 1
    assert checked > 1000


def ask_everything(data: bytes) -> None:
    """Whatever the bytes are, asking ends, and in no other error than this."""
    try:
        btf = Btf(data)
    except BtfError:
        return
    for type in (*range(-1, 30), btf.find("dentry"), btf.find("bits"), 1 << 32):
        btf.size(type)
        btf.name(type)
        btf.pointers(type)
        btf.is_open_ended(type)
        btf.member(type, "d_lockref.count")
        for offset in (0, 8, 1 << 31):
            btf.place(type, offset, 4, ATOMS)
    btf.enumerator("PG_slab")
    btf.variable("runqueues")


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    ask_everything(data)
    ask_everything(pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(data), 0, len(data)) + data)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=8), st.integers(0, 2000))
@settings(max_examples=300)
def test_damaged_types(changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(sample().bytes)
    for place, value in changes:
        data[place % len(data)] = value
    ask_everything(bytes(data))
    ask_everything(bytes(data[: cut % len(data)]))


@given(st.lists(st.tuples(st.integers(0, 1 << 23), st.integers(0, 255)), min_size=1, max_size=200))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_damaged_types_of_a_real_kernel(changes: list[tuple[int, int]]) -> None:
    data = bytearray(left_by("debian/6.12").types)
    for place, value in changes:
        data[24 + place % (len(data) - 24)] = value
    ask_everything(bytes(data))
