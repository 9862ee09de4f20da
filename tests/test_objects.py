"""What a line is: names from a real kernel's memory, on every kernel; and from memory that makes no sense."""

import os
import random
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from booted import KERNELS, Guest, left_by
from conftest import bigiron, compared, measured
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bigiron.analysis.lines.matching import SharedLine, match
from bigiron.architectures import X86_64
from bigiron.introspect import kernel_types, pointer_walk, variables
from bigiron.introspect.allocation_log import Allocation
from bigiron.introspect.btf import Btf
from bigiron.introspect.memory import GuestRam, KernelMemory
from bigiron.introspect.mm.pages import PageUse
from bigiron.introspect.mm.structs import Memory, UnreadableError
from bigiron.introspect.symbolize import Objects, Symbolized
from bigiron.introspect.symbols import SymbolTable
from bigiron.introspect.variables import KernelId
from bigiron.probes import conflicts
from bigiron.study import store
from bigiron.util.object_name import ObjectName, object_type

EVERYWHERE = {
    r"struct dentry\.d_lockref(\.\w+)? \(tmpfs directory\)": ("lockref_get_not_dead", "reference count"),
    r"struct inode\.i_rwsem(\.\w+)? \(tmpfs directory\)": ("down_write", "lock word"),
    r"struct super_block\.s_inode_list_lock \(tmpfs\)": ("_raw_spin_lock", "lock word"),
    r"struct shmem_sb_info\.stat_lock": ("_raw_spin_lock", "lock word"),
    r"struct aa_label\.count\.count": ("apparmor_file_free_security", "reference count"),
}
"""What every unlink() and its open() contend for, a function that touches it, the kind of sharing."""


@pytest.fixture(scope="module")
def unlink1(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    study = tmp_path_factory.mktemp("objects") / "s"
    wanted = [word for kernel in KERNELS for word in ("--kernel", kernel)]
    asked = ("--cpus", "2", "--operations", "100", "--probe", "conflicts", "--reps", "1")
    measured("unlink1", *wanted, *asked, "-o", study)
    rows: list[dict[str, Any]] = compared(study)["rows"]
    return rows


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_unlink_shares_has_names(unlink1: list[dict[str, Any]], kernel: str) -> None:
    for name, (function, kind_of_sharing) in EVERYWHERE.items():
        found = [
            row
            for row in unlink1
            if any(re.fullmatch(name, one["object"]) for one in (row, *row["beside"]))
            and function in row["functions"]
            and kernel in row["cells"]
        ]
        assert found, name
        assert kind_of_sharing in [sharing["kind"] for row in found for sharing in row["sharing"]]


def locks_of(workload: str, kernel: str, folder: Path) -> set[str]:
    """The names of the locks that a workload of the tests takes."""
    file = Path(__file__).with_name("workloads") / f"{workload}.c"
    asked = ("--cpus", "2", "--operations", "50", "--probe", "locks", "--reps", "1")
    measured("--workload-file", file, "--kernel", kernel, *asked, "-o", folder / "s")
    return set(store.open_study(folder / "s").tables("locks")["object"])


def test_the_lock_of_a_page_table_that_is_free_by_now_has_its_name(tmp_path: Path) -> None:
    names = locks_of("fork1", "debian/6.12", tmp_path)
    assert "struct ptdesc.ptl (page table)" in names
    assert not [name for name in names if "free page" in name]


def test_a_variable_whose_name_another_one_has_tells_what_it_points_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """7.2 has two variables sysfs_root. No pointer leads to this object within a walk that ends at once."""
    monkeypatch.setattr(pointer_walk, "_MOST_POINTERS", 0)
    objects = left_by("debian/7.2").objects
    (root,) = (at for at, name in objects._known.holders.items() if name == "sysfs_root")
    (rwsem,) = objects.names([(root + 0x68, 8)]).values()
    assert rwsem.name.startswith("struct kernfs_root.kernfs_rwsem")


def test_a_row_is_named_after_what_is_written_and_shows_what_else_is_read(tmp_path: Path) -> None:
    """fork() counts threads in the line of the pointers to its caches, which are read more often."""
    fork1 = Path(__file__).with_name("workloads") / "fork1.c"
    wanted = [word for kernel in KERNELS for word in ("--kernel", kernel)]
    asked = ("--cpus", "2", "--operations", "20", "--probe", "conflicts", "--reps", "1")
    measured("--workload-file", fork1, *wanted, *asked, "-o", tmp_path / "s")
    (row,) = [row for row in compared(tmp_path / "s")["rows"] if row["object"] == "nr_threads"]
    assert set(row["cells"]) == set(KERNELS)
    assert all(cell["accesses_per_op"] > 2 * cell["writes_per_op"] > 0 for cell in row["cells"].values())
    (pointer,) = [field for field in row["beside"] if field["object"] == "vm_area_cachep (pointer)"]
    assert pointer["writes_per_op"] == 0 and "vm_area_dup" in pointer["functions"]
    text = " ".join(bigiron("compare", tmp_path / "s").out.split())
    assert re.search(r"also read there: [^;]*\bvm_area_cachep \(\w+, \w+(, …)?\)", text)


@pytest.mark.parametrize(
    ("kernel", "name"),
    # 5.10 counts the users of a route; in 6.12 cloned skbs share their cache with struct pool_workqueue.
    [("debian/5.10", "struct rtable.dst.__refcnt"), ("debian/6.12", "struct sk_buff")],
)
def test_what_tcp_shares_is_not_called_after_another_struct_s_cache(
    tmp_path: Path, kernel: str, name: str
) -> None:
    pairs = Path(__file__).with_name("workloads") / "tcp_pairs.c"
    asked = ("--cpus", "2", "--operations", "50", "--probe", "conflicts", "--reps", "1")
    measured("--workload-file", pairs, "--kernel", kernel, *asked, "-o", tmp_path / "s")
    names = [row["object"] for row in compared(tmp_path / "s")["rows"]]
    assert any(one.startswith(name) for one in names)
    assert not any(re.match("struct pool_workqueue|skbuff_(ext|small_h\\b)", one) for one in names), names


def test_what_the_scheduler_has_for_a_cgroup_has_names(tmp_path: Path) -> None:
    """In 7.2 in per-CPU memory, before in what kmalloc() gave."""
    # With two CPUs a boot in four hardly schedules in the recorded part.
    wanted = ("--kernel", "debian/6.1", "--kernel", "debian/7.2", "--cpus", "4", "--reps", "1")
    measured("hackbench/pipe", *wanted, "--probe", "conflicts", "-o", tmp_path / "s")
    for record in store.open_study(tmp_path / "s").records():
        table = pl.read_parquet(tmp_path / "s" / "cells" / record.id / "conflicts.parquet")
        names = " ".join(table["object"].unique())
        before = "cfs_rq", "sched_entity_stats.se"
        both = ("cfs_tg_state.cfs_rq", "cfs_tg_state.se") if record.variant.endswith("7.2") else before
        assert all(f"struct {name}." in names for name in both), record.variant
        assert "struct pipe_inode_info.mutex" in names
        touched = table.select("object", times=pl.col("reads") + pl.col("writes"))
        unnamed = touched.filter(pl.col("object").str.contains("^(kmalloc-512|per-CPU memory of 1088 bytes)"))
        assert unnamed["times"].sum() < 0.01 * touched["times"].sum(), record.variant


@pytest.mark.parametrize("kernel", KERNELS)
def test_nearly_all_that_is_shared_has_a_name(unlink1: list[dict[str, Any]], kernel: str) -> None:
    accesses = [
        (row["cells"][kernel]["accesses_per_op"], row["object"]) for row in unlink1 if kernel in row["cells"]
    ]
    total = sum(count for count, _ in accesses)
    unnamed = sum(
        count for count, name in accesses if object_type(name) in ("page or slab object", "kmalloc")
    )
    assert unnamed < 0.1 * total


def test_the_parent_directory_is_one_row_in_all_kernels(unlink1: list[dict[str, Any]]) -> None:
    (first, *_) = [row for row in unlink1 if row["object"].startswith("struct dentry.d_lockref")]
    assert set(first["cells"]) == set(KERNELS)
    directory = re.compile(r"struct dentry\.d_lockref(\.\w+)? \(tmpfs directory\)")
    found = [(row["object"], set(row["cells"])) for row in unlink1 if directory.fullmatch(row["object"])]
    assert [cells for _, cells in found] == [set(KERNELS)], found


@pytest.mark.parametrize("kernel", KERNELS)
def test_structs_that_symbols_lead_to(kernel: str) -> None:
    guest = left_by(kernel)
    btf, start = guest.btf, guest.number(guest.address("node_data"))
    zone = btf.member(btf.find("pglist_data"), "node_zones")
    lock = btf.member(btf.find("zone"), "lock")
    names = btf.member(btf.find("zone"), "name")
    assert zone and lock and names
    size = btf.size(btf.find("zone"))
    second = start + zone.start + size
    label = guest.number(guest.address("root_ns"))
    accesses = {
        (second + lock.start, 4): "struct zone.lock (DMA32, node 0)",
        (start + zone.start + zone.size, 8): r"struct pglist_data\.node_zonelists\[0\].* \(node 0\)",
        (guest.address("vm_committed_as") + 8, 8): r"vm_committed_as\.count",
        (guest.address("jiffies"), 8): r"jiffies(_64)?\+0x0",
        (label, 8): r"struct aa_ns\.base\.name",
    }
    names_of = guest.objects.names(accesses)
    for access, name in accesses.items():
        found = names_of[access].name
        assert found == name or re.fullmatch(name, found), found


@pytest.mark.parametrize("kernel", KERNELS)
def test_types_tell_what_a_field_is_for(kernel: str) -> None:
    guest = left_by(kernel)
    counter = guest.address("vm_committed_as")
    node = guest.number(guest.address("node_data"))
    zones = offset_of(guest, "pglist_data", "node_zones")
    accesses = {
        (counter, 4): "percpu_counter;raw_spinlock_t",
        (counter + offset_of(guest, "percpu_counter", "count"), 8): "percpu_counter;s64",
        (node + zones + offset_of(guest, "zone", "lock"), 4): "zone;spinlock_t",
        (node + zones + offset_of(guest, "zone", "zone_pgdat"), 8): "zone;*",
        (guest.address("jiffies"), 8): "",
    }
    found = guest.objects.names(accesses)
    assert {access: named.types for access, named in found.items()} == accesses


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_percpu_counter_s_part_is_known_by_its_counter_and_cpu(kernel: str) -> None:
    guest = left_by(kernel)
    counters = guest.btf.member(guest.btf.find("percpu_counter"), "counters")
    assert counters
    pointer = guest.number(guest.address("vm_committed_as") + counters.start)
    for cpu, offset in enumerate(guest.per_cpu_offsets):
        access = ((pointer + offset) % (1 << 64), 4)
        assert guest.objects.names([access])[access].name == f"vm_committed_as.counters of CPU {cpu}"


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_describes_per_cpu_memory_is_known_though_memblock_gave_it(kernel: str) -> None:
    guest = left_by(kernel)
    chunk = guest.number(guest.address("pcpu_first_chunk"))
    objects = guest.objects
    assert objects.guest.pages.at(chunk).use is PageUse.BOOT
    blocks, bits = (
        guest.number(chunk + offset_of(guest, "pcpu_chunk", one)) for one in ("md_blocks", "alloc_map")
    )
    second = guest.btf.size(guest.btf.find("pcpu_block_md"))
    accesses = {
        (chunk + offset_of(guest, "pcpu_chunk", "free_bytes"), 4): ("free_bytes", "pcpu_chunk;int"),
        (chunk + offset_of(guest, "pcpu_chunk", "nr_populated"), 4): ("nr_populated", "pcpu_chunk;int"),
        (bits + 8, 8): ("alloc_map[]", "long unsigned int"),
    }
    named = {
        access: Symbolized(ObjectName.parse(f"struct pcpu_chunk.{name}"), types)
        for access, (name, types) in accesses.items()
    }
    first_free = (blocks + second + offset_of(guest, "pcpu_block_md", "first_free"), 4)
    named[first_free] = Symbolized(ObjectName.parse("struct pcpu_block_md.first_free"), "pcpu_block_md;int")
    assert objects.names(named) == named


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_memblock_gave_is_known_by_the_variable_that_points_to_it(kernel: str) -> None:
    guest = left_by(kernel)
    objects = guest.objects
    buckets, shift = (
        guest.number(guest.address("dentry_hashtable")),
        guest.number(guest.address("d_hash_shift"), 4),
    )
    assert objects.guest.pages.at(buckets).use is PageUse.BOOT
    last = buckets + 8 * ((1 << 32 - shift) - 1)
    mask = guest.number(guest.address("node_to_cpumask_map"))
    names = objects.names([(buckets, 8), (last, 8), (last + 8, 8), (mask, 8)])
    assert (
        names[buckets, 8]
        == names[last, 8]
        == Symbolized(ObjectName.parse("*dentry_hashtable"), "hlist_bl_head")
    )
    assert not names[last + 8, 8].name.startswith("*dentry_hashtable")
    assert names[mask, 8] == Symbolized(ObjectName.parse("*node_to_cpumask_map"), "cpumask")


@pytest.mark.parametrize("kernel", KERNELS)
def test_variables_have_fields_though_btf_does_not_tell_their_types(kernel: str) -> None:
    guest = left_by(kernel)
    assert not guest.btf.variable("init_pid_ns")
    pid_namespace, domain = (guest.address(name) for name in ("init_pid_ns", "tomoyo_kernel_domain"))
    pool, lock = guest.address("input_pool"), nameless_of(guest, "lock", ("hash", "lock", "init_bits"))
    accesses = {
        (pid_namespace + offset_of(guest, "pid_namespace", "pid_allocated"), 4): "init_pid_ns.pid_allocated",
        (domain + offset_of(guest, "tomoyo_domain_info", "ns"), 8): "tomoyo_kernel_domain.ns",
        (domain + offset_of(guest, "tomoyo_domain_info", "users"), 4): "tomoyo_kernel_domain.users",
        (pool + lock, 4): "input_pool.lock",
        (guest.address("pcpu_lock"), 1): "pcpu_lock",
        (guest.address("nr_threads"), 4): "nr_threads",
        (guest.address("vm_node_stat") + 16, 8): "vm_node_stat[2]",
        (guest.address("vm_area_cachep"), 8): "vm_area_cachep (pointer)",
        (guest.address("dentry_hashtable"), 8): "dentry_hashtable (pointer)",
    }
    names = guest.objects.names(accesses)
    assert {access: found.name for access, found in names.items()} == accesses
    assert all(found.types for found in names.values())
    assert names[guest.address("vm_area_cachep"), 8].types == "*"


def nameless_of(guest: Guest, member: str, members: tuple[str, ...]) -> int:
    place = guest.btf.member(guest.btf.nameless(members), member)
    assert place
    return place.start


def test_variables_of_one_kernel_are_not_those_of_another_with_the_same_types(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A patch that adds a variable changes no type."""
    guest = left_by("debian/6.12")
    read: list[Btf] = []
    for build, known in (("0" * 40, {"one": "int"}), ("1" * 40, {"one": "long int", "other": "int"})):
        monkeypatch.setattr(variables, "kernel_in", lambda *_, build=build: KernelId(build, "6.12.0"))
        monkeypatch.setattr("bigiron.kernels.variables.known", lambda *_, known=known: known)
        read.append(kernel_types.types_in(guest.memory, guest.symbols))
    assert [btf.name(btf.variable("one")) for btf in read] == ["int", "long int"]
    assert [btf.name(btf.variable("other")) for btf in read] == ["", "int"]


def test_a_variable_is_of_no_type_that_does_not_fit() -> None:
    """As if another variable began within it, and as if two had its name."""
    guest = left_by("debian/6.12")
    at = guest.address("init_pid_ns")
    access = (at + offset_of(guest, "pid_namespace", "pid_allocated"), 4)
    text = "\n".join(guest.symbols._named.values())
    for more, name in (
        (f"{at + 16:016x} d other", "other+"),
        (f"{at - 512:016x} d init_pid_ns", "init_pid_ns+"),
    ):
        objects = Objects(guest.memory, SymbolTable(f"{text}\n{more}"), guest.per_cpu_offsets, X86_64)
        assert objects.names([access])[access].name.startswith(name)


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_object_in_a_cache_of_several_types_is_known_by_where_its_pointers_lead(kernel: str) -> None:
    """fs_cachep and anon_vma_chain_cachep are one cache; a task's memory has some of these."""
    guest = left_by(kernel)
    objects = guest.objects
    fs, chain = (guest.number(guest.address(name)) for name in ("fs_cachep", "anon_vma_chain_cachep"))
    assert fs == chain and objects.guest.slabs.caches[chain].merged
    memory = X86_64.start_of("page or slab object")
    starts = [
        object.start
        for at in range(memory + (4 << 30), memory + (6 << 30), 4096)
        if (object := objects.slab_types.object_at(at)) and object.cache.address == chain
    ]
    inside = [start + 64 * number for start in starts for number in range(4096 // 64)]
    back = offset_of(guest, "anon_vma_chain", "anon_vma")
    names = objects.names((at + back, 4) for at in inside)
    called = [found.name for found in names.values()]
    assert called.count("struct anon_vma_chain.anon_vma") > 10
    for at in inside:
        if names[at + back, 4].name == "struct anon_vma_chain.anon_vma":
            leads_to = [objects.slab_types.object_at(guest.number(at + offset)) for offset in (0, back)]
            assert [one and one.cache.name for one in leads_to] == ["vm_area_struct", "anon_vma"]
    assert any(name.startswith("struct fs_struct") for name in called)


def sent_to_each_cpu(guest: Guest) -> int:
    """The per-CPU pointer to what the first CPU sends each other one to run: `cfd_data.csd`."""
    type = guest.btf.find("call_function_data")
    pointer = guest.btf.member(type, "csd") or guest.btf.member(type, "pcpu")
    assert pointer
    at = guest.address("cfd_data") + guest.per_cpu_offsets[0] + pointer.start
    return guest.number(at % (1 << 64))


@pytest.mark.parametrize("kernel", ["debian/6.1", "debian/6.12"])
def test_a_pointer_in_a_cpu_s_variable_names_each_cpu_s_memory(kernel: str) -> None:
    """Debian's 5.10 tells no variable's type, and on 7.2 such a pointer looks like the image's."""
    guest = left_by(kernel)
    access = ((sent_to_each_cpu(guest) + guest.per_cpu_offsets[1]) % (1 << 64), 8)
    found = guest.objects.names([access])[access].name
    assert re.fullmatch(r"struct (__call_single_data|cfd_percpu)\.\S+ of CPU 1", found), found


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_cpu_s_memory_of_no_known_type_is_known_by_its_size(kernel: str) -> None:
    """As if it were not known where `cfd_data` lies; `func` lies behind the list's entry."""
    guest = left_by(kernel)
    pointer = sent_to_each_cpu(guest)
    access = ((pointer + 16 + guest.per_cpu_offsets[1]) % (1 << 64), 8)
    text = "\n".join(line for name, line in guest.symbols._named.items() if name != "cfd_data")
    objects = Objects(guest.memory, SymbolTable(text), guest.per_cpu_offsets, X86_64)
    size = guest.btf.size(guest.btf.find("__call_single_data"))
    assert objects.names([access])[access].name == f"per-CPU memory of {size} bytes+0x10 of CPU 1"


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_page_and_its_struct(kernel: str) -> None:
    guest = left_by(kernel)
    task = guest.number(guest.address("init_task") + offset_of(guest, "task_struct", "tasks")) - offset_of(
        guest, "task_struct", "tasks"
    )
    struct_page = X86_64.start_of("struct page")
    page = struct_page + (task - X86_64.start_of("page or slab object")) // 4096 * 64
    accesses = [(task + offset_of(guest, "task_struct", "comm"), 1), (page + 52, 4)]
    names = guest.objects.names(accesses)
    assert names[accesses[0]].name == "struct task_struct.comm[0] (agent)"
    assert re.fullmatch(r"struct (page|slab)\.\w+ \((task_struct|slab)\)", names[accesses[1]].name)


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_was_allocated_lies_in_its_cache(kernel: str) -> None:
    """The recorder's word, who asked which cache and got what, against the kernel's own slabs."""
    guest = left_by(kernel)
    objects = guest.objects
    seen = [(one, objects.slab_types.object_at(one.address)) for one in guest.allocations]
    caches = [(one, found) for one, found in seen if found and one.asked in objects.guest.slabs.caches]
    assert len(caches) > 100
    right = [one for one, found in caches if (found.cache.address, found.start) == (one.asked, one.address)]
    assert len(right) >= 0.98 * len(caches), "a page may be another cache's by now, but few are"
    assert any(one.site.startswith("__d_alloc+0x") for one in right)


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_object_of_no_type_is_known_by_its_allocating_function(kernel: str) -> None:
    guest = left_by(kernel)
    seen = {(one.address, 1): one for one in guest.allocations}
    names = guest.objects.names(seen)
    untyped = {access: found.name for access, found in names.items() if "allocated in" in found.name}
    assert untyped
    for access, name in untyped.items():
        site = re.escape(seen[access].site)
        assert re.fullmatch(rf"[\w-]+\+0x0 \(\d+ bytes, (freed, )?allocated in {site}\)", name)
    assert any(
        "allocated in security_file_alloc+0x" in name or "do_getname" in name for name in untyped.values()
    )


def test_an_object_of_kmalloc_that_was_there_before_says_so() -> None:
    guest = left_by("debian/6.12")
    objects = Objects(guest.memory, guest.symbols, guest.per_cpu_offsets, X86_64)
    memory = X86_64.start_of("page or slab object")
    above_4_gib = range(memory + (4 << 30), memory + (6 << 30), 4096)
    in_slabs = filter(None, map(objects.slab_types.object_at, above_4_gib))
    kmalloc = islice((object.start for object in in_slabs if object.cache.is_kmalloc), 50)
    names = objects.names((start, 1) for start in kmalloc).values()
    assert any(
        re.fullmatch(r"kmalloc-\S+ \(\d+ bytes, allocated before the recording\)", found.name)
        for found in names
    )


def test_what_was_freed_is_known_by_its_allocation() -> None:
    guest = left_by("debian/6.12")
    free = next(free_pages(guest))
    dentries = next(c for c in guest.objects.guest.slabs.caches.values() if c.name == "dentry")
    seen = [
        Allocation(free + 192, dentries.address, "__d_alloc+0x26"),
        Allocation(free + 512, 100, "alloc_pipe_info+0x5c"),
    ]
    objects = Objects(guest.memory, guest.symbols, guest.per_cpu_offsets, X86_64, seen)
    lockref = offset_of(guest, "dentry", "d_lockref")
    names = objects.names([(free + 192 + lockref, 4), (free + 512 + 99, 1), (free + 512 + 100, 1), (free, 8)])
    assert {access: found.name for access, found in names.items()} == {
        (free + 192 + lockref, 4): "struct dentry.d_lockref.lock (freed)",
        (free + 512 + 99, 1): "kmalloc+0x63 (100 bytes, freed, allocated in alloc_pipe_info+0x5c)",
        (free + 512 + 100, 1): "page or slab object: free page",
        (free, 8): "page or slab object: free page",
    }
    assert names[free + 192 + lockref, 4].types == "dentry;lockref;spinlock_t"


def free_pages(guest: Guest) -> Iterator[int]:
    memory = X86_64.start_of("page or slab object")
    pages = guest.objects.guest.pages
    yield from (
        at for at in range(memory + (64 << 20), memory + (1 << 30), 4096) if pages.at(at).use is PageUse.FREE
    )


def offset_of(guest: Guest, type: str, member: str) -> int:
    place = guest.btf.member(guest.btf.find(type), member)
    assert place
    return place.start


def test_memory_above_4_gib_and_of_a_second_node() -> None:
    guest = left_by("debian/6.12", nodes=2)
    names = guest.objects.names((guest.number(guest.address("node_data") + 8 * node), 8) for node in range(2))
    assert sorted(found.name.rpartition(" (")[2] for found in names.values()) == [
        "DMA, node 0)",
        "DMA, node 1)",
    ]
    assert guest.memory.physical(X86_64.start_of("page or slab object") + (4 << 30)) == 4 << 30
    assert X86_64.ram_offset(4 << 30, guest.ram.bytes) == 2 << 30


def test_a_kernel_without_types_has_symbols() -> None:
    guest = left_by("debian/6.1")
    marks = ("__start_BTF", "__stop_BTF")
    text = "\n".join(line for name, line in guest.symbols._named.items() if name not in marks)
    objects = Objects(guest.memory, SymbolTable(text), guest.per_cpu_offsets, X86_64)
    in_memory, variable = X86_64.start_of("page or slab object") + (1 << 20), guest.address("vm_committed_as")
    names = objects.names([(in_memory, 8), (variable, 8)])
    assert names[variable, 8].name == "vm_committed_as+0x0"
    assert names[in_memory, 8].name == "page or slab object: the kernel has no CONFIG_DEBUG_INFO_BTF"


def test_page_tables_that_are_not_there_lead_nowhere() -> None:
    guest = left_by("debian/6.1")
    memory = KernelMemory(guest.ram, X86_64, guest.address("jiffies"))
    assert memory.read(guest.address("linux_banner"), 8) is None


def test_ram_leaves_nothing_behind() -> None:
    before = set(Path("/proc/self/fd").iterdir())
    with GuestRam(64) as ram:
        assert (ram.read(0, 4096), ram.read((64 << 20) - 1, 8)) == (bytes(4096), b"\0")
        assert os.fstat(ram.fd).st_blocks == 0
    assert set(Path("/proc/self/fd").iterdir()) == before


class Damaged:
    """A guest's memory in which some words are others."""

    def __init__(self, memory: Memory, seed: int, share: float) -> None:
        self._memory, self._seed, self._share = memory, seed, share
        self._special = (0, 1, (1 << 64) - 1, X86_64.start_of("struct page"), X86_64.start_of("vmalloc"))

    def read(self, address: int, length: int) -> bytes | None:
        content = self._memory.read(address, length)
        if content is None or length > 4096:
            return content
        chance = random.Random(self._seed ^ address)
        if chance.random() > self._share:
            return content
        word = chance.choice([*self._special, address, chance.getrandbits(64)])
        at = chance.randrange(0, max(1, length), 8)
        return (content[:at] + word.to_bytes(8, "little") + content[at + 8 :])[:length]

    def mapped(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        for address in range(start, end, 4096):
            if content := self.read(address, min(4096, end - address)):
                yield address, content


@given(st.integers(0, 1 << 32), st.sampled_from([0.001, 0.02, 0.3, 1.0]))
@example(33, 0.3).via("a list of caches that leads nowhere")
@example(0, 0.02).via("a cache whose objects do not fit")
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_memory_that_makes_no_sense(seed: int, share: float) -> None:
    guest = left_by("debian/6.12")
    objects = Objects(Damaged(guest.memory, seed, share), guest.symbols, guest.per_cpu_offsets, X86_64)
    chance = random.Random(seed)
    classes = [(start, end) for start, end, _ in X86_64.address_classes] + [(0, 1 << 64)]
    direct = X86_64.start_of("page or slab object")
    accesses = [(chance.randrange(*chance.choice(classes)), 8) for _ in range(300)]
    accesses += [
        (chance.randrange(direct, direct + guest.ram.bytes), 1 << chance.randrange(7)) for _ in range(700)
    ]
    names = objects.names(accesses)
    assert set(names) == set(accesses)
    for found in names.values():
        assert found.name and len(found.name) < 600 and (found.name + found.types).isprintable()


class Counted(Damaged):
    """The same, which counts what is read."""

    reads = 0

    def read(self, address: int, length: int) -> bytes | None:
        self.reads += 1
        return super().read(address, length)


class AmongMemory:
    """A map as POWER's, on which the kernel's image lies among the memory that it manages."""

    page_bytes, line_bytes = X86_64.page_bytes, X86_64.line_bytes
    start_of = X86_64.start_of

    def class_of(self, _address: int) -> str:
        return "page or slab object"


def test_what_only_the_boot_needed_of_an_image_is_memory_as_any_other() -> None:
    guest = left_by("debian/6.12")
    objects = Objects(guest.memory, guest.symbols, guest.per_cpu_offsets, AmongMemory())
    start, init, end = (guest.symbols.address(name) for name in ("_stext", "__init_begin", "__init_end"))
    assert start and init and end
    assert [objects.guest.class_of(at) for at in (start, init - 1, end)] == ["kernel image"] * 3
    assert [objects.guest.class_of(at) for at in (init, end - 1)] == ["page or slab object"] * 2


def test_a_list_of_allocations_that_leads_nowhere_is_followed_once() -> None:
    """Where damage leads depends on what lies in the memory: in one of thirty cases or so, far astray."""
    guest = left_by("debian/6.12")
    for seed in range(400):
        memory = Counted(guest.memory, seed, 0.3)
        areas = Objects(memory, guest.symbols, guest.per_cpu_offsets, X86_64).guest.areas
        try:
            areas.at(X86_64.start_of("vmalloc"))
        except UnreadableError:
            if (before := memory.reads) > 10_000:
                with pytest.raises(UnreadableError):
                    areas.at(X86_64.start_of("vmalloc") + 4096)
                assert memory.reads == before
                return
    pytest.fail("no damage led far")


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_in_a_file_s_page_is_named_by_the_page_as_by_itself(kernel: str) -> None:
    guest = left_by(kernel)
    objects, chance = guest.objects, random.Random(1)
    # A kernel fills the memory above the devices' addresses first, some from its start and some from its end.
    above = X86_64.start_of("page or slab object") + (4 << 30)
    starts = above, above + (2 << 30) - (128 << 20)
    addresses = [start + chance.randrange(128 << 20) for start in starts for _ in range(20_000)]
    places = pl.DataFrame({"address": pl.Series(addresses, dtype=pl.UInt64)}).unique().with_columns(length=8)
    in_files, others = conflicts._in_files(places, objects)
    names = objects.names(places.iter_rows())
    assert len(in_files) and len(in_files) + len(others) == len(places)
    for address, length, name, types, *_ in in_files.iter_rows():
        assert names[address, length] == Symbolized(ObjectName.parse(name), types)
    assert not [place for place in others.iter_rows() if names[place].name.startswith("page cache+")]


def test_of_cpus_with_one_place_it_is_the_first_one_s() -> None:
    table = SymbolTable(
        "0000000000000000 A __per_cpu_start\n0000000000000010 A counter\n0000000000000040 A __per_cpu_end"
    )
    variables = table.per_cpu([0x1000, 0x3000, 0x2000, 0x3000])
    assert variables.lookup(0x1018) == ("counter", 8, 0)
    assert variables.lookup(0x3010) == ("counter", 0, 1)
    assert variables.lookup(0x2010) == ("counter", 0, 2)
    assert [(variables.lookup(start) or ())[-1:] for start in (0x1000, 0x2000, 0x3000)] == [(0,), (2,), (1,)]
    assert variables.lookup(0x2040) is None and variables.lookup(0xFFF) is None


def line(object: str, accesses: float, **weights: float) -> SharedLine:
    return SharedLine(object, weights, accesses, accesses, 2, 2, false_sharing=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("struct aa_label.count.count", "struct aa_label.count.count"),
        ("struct dentry.d_lockref.count (tmpfs directory)", "struct dentry.d_seq (tmpfs directory)"),
        ("struct page._refcount (page cache)", "struct folio._refcount (page cache)"),
        ("kmalloc-192+0x40 (192 bytes)", "kmalloc-cg-256+0x48 (256 bytes, allocated in f+0x4)"),
        ("struct dentry.d_lockref (freed)", "struct dentry.d_lockref.count (tmpfs directory)"),
        ("kmalloc-192+0x40 (192 bytes)", "struct shmem_sb_info.stat_lock"),
        ("page or slab object: free page", "struct dentry.d_lockref.count (tmpfs directory)"),
        ("runqueues.clock of CPU 3", "runqueues+0x940 of CPU 1"),
        ("vm_committed_as+0x0", "vm_committed_as.lock"),
    ],
)
def test_the_same_thing_in_two_kernels_is_one_row(one: str, other: str) -> None:
    columns = {"old": [line(one, 2, f=1, g=1)], "new": [line(other, 3, f=2, g=1)]}
    assert [set(row.lines) for row in match(columns)] == [{"old", "new"}]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("struct dentry.d_lockref.count", "struct inode.i_count"),
        ("kmalloc-192+0x40 (192 bytes)", "dentry+0x58 (192 bytes)"),
        ("init_ucounts+0x0", "vm_committed_as.lock"),
        ("struct task_struct.usage (init)", "struct task_struct.flags (init)"),
    ],
)
def test_other_things_are_other_rows(one: str, other: str) -> None:
    columns = {"old": [line(one, 2, f=1, g=0)], "new": [line(other, 2, h=1, g=0)]}
    assert len(match(columns)) == 2


def test_of_two_equal_ones_the_same_field_is_joined() -> None:
    old = [
        line("struct zone.lock (Normal, node 0)", 2, f=1),
        line("struct zone.free_area[0] (DMA32, node 0)", 2, f=1),
    ]
    new = [
        line("struct zone.free_area[0] (DMA32, node 0)", 2, f=1),
        line("struct zone.lock (Normal, node 0)", 2, f=1),
    ]
    for row in match({"old": old, "new": new}):
        assert row.lines["old"].object == row.lines["new"].object
