"""Names of kernel objects: as text and as values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.util.object_name import ANY_CPU, ObjectName, common

STORED = (
    "struct dentry.d_lockref.lock_count (tmpfs directory)",
    "struct task_struct.dl.dl_throttled|dl_yielded|dl_non_contending|… (kworker/0:2)",
    "struct task_struct.flags ((sd-pam))",
    "struct zone._watermark[1] (DMA32, node 0)",
    "struct address_space+0x0 (tmpfs file)",
    "struct pcpu_chunk.alloc_map[]",
    "struct page.flags (freed)",
    "struct __call_single_data+0x0 of CPU 0",
    "_vdso_data[0].basetime[0].nsec",
    "cached_stacks[0] of CPU 1",
    "cached_stacks.[0] of CPU 1",
    "*root_mem_cgroup.cgwb_domain.completions.events.counters of CPU 1",
    "*cpu_entries.7+0x114",
    "insn.0",
    "anon_vma_cachep (pointer)",
    "kmalloc-cg-1k+0x10 (1024 bytes, allocated in build_sched_domains+0x143)",
    "kmalloc+0x0 (312 bytes, freed, allocated in build_sched_domains+0x143)",
    "page cache+0xfc0 (tmpfs file)",
    "per-CPU memory of 1024 bytes+0x20 of CPU 3",
    "per-CPU memory of CPU 5",
    "vmalloc memory of alloc_large_system_hash+0x180000",
    "page or slab object: the kernel has no CONFIG_DEBUG_INFO_BTF",
    "page or slab object",
    "user:counters+0x0",
    "slab pages and free pages",
    "runqueues.clock of each CPU",
    "runqueues of CPU",
    "",
)
WORDS = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
NAMES = st.builds(
    ObjectName,
    base=st.one_of(WORDS, WORDS.map("struct {}".format), WORDS.map("*{}".format), st.just("kmalloc-64")),
    index=st.lists(st.integers(0, 99).map("[{}]".format), max_size=2).map("".join),
    path=st.lists(st.tuples(WORDS, st.sampled_from(("", "[3]", "|more"))), max_size=3).map(
        lambda parts: "".join(f".{name}{suffix}" for name, suffix in parts)
    ),
    offset=st.none() | st.integers(0, 1 << 32),
    detail=st.sampled_from(
        ("", "tmpfs directory", "Normal, node 0", "(sd-pam)", "8 bytes, allocated in f+0x1")
    ),
    cpu=st.none() | st.integers(0, 2047) | st.sampled_from(("CPU", "each CPU", "a CPU")),
    reason=st.sampled_from(("", "free page", "the kernel has no type rq")),
)


@pytest.mark.parametrize("text", STORED)
def test_a_stored_name_is_read_and_rendered_again(text: str) -> None:
    assert str(ObjectName.parse(text)) == text


@given(NAMES)
def test_a_name_is_what_its_text_is_read_as(name: ObjectName) -> None:
    assert ObjectName.parse(str(name)) == name


@given(st.text(), st.sampled_from(STORED), st.sampled_from((" (", ")", ": ", "+0x", " of CPU ", ".", "[")))
def test_any_text_is_a_name(text: str, stored: str, between: str) -> None:
    for one in (text, stored + between + text, text + between + stored):
        assert str(ObjectName.parse(one)) == one


@given(NAMES)
def test_what_is_derived_from_a_name_is_derived_from_itself_too(name: ObjectName) -> None:
    for derived in (name.without_instance, name.member, name.object_type, str(name.in_any_run)):
        assert str(ObjectName.parse(derived)) == derived
    assert ObjectName.parse(name.without_instance).without_instance == name.without_instance
    assert ObjectName.parse(name.object_type).object_type == name.object_type
    assert str(name.in_any_run.in_any_run) == str(name.in_any_run)
    assert common([str(name)] * 2)


def test_the_parts_of_a_name() -> None:
    name = ObjectName.parse("runqueues[2].cfs.load+0x8 (idle) of CPU 3")
    assert name == ObjectName("runqueues", "[2]", ".cfs.load", 8, "idle", 3)
    assert name.without_instance == "runqueues[2].cfs.load of CPU"
    assert ObjectName.parse(name.without_instance).cpu == ANY_CPU
    assert (name.member, name.field) == ("runqueues[2].cfs of CPU", "load")
    assert name.of_each_cpu == "runqueues[2].cfs of each CPU"
