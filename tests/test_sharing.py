"""What kind of sharing it is: a field's type, its name and its writers tell, and who touches which bytes."""

from typing import Any

import pytest
from test_compare import count, only, profile

from bigiron.analysis.lines import sharing
from bigiron.analysis.lines.sharing import (
    COUNTER,
    FALSE_SHARING,
    FLAG,
    LIST,
    LOCK,
    READ_MOSTLY,
    REFERENCES,
    SEQUENCE,
)
from bigiron.util.object_name import without_instance


@pytest.mark.parametrize(
    ("object", "types", "kind"),
    [
        ("struct inode.i_lock (tmpfs file)", "inode;spinlock_t", LOCK),
        ("struct pipe_inode_info.mutex.owner", "pipe_inode_info;mutex;atomic_long_t", LOCK),
        ("struct inode.i_rwsem.count (tmpfs directory)", "inode;rw_semaphore;atomic_long_t", LOCK),
        ("runqueues.__lock of CPU 3", "rq;raw_spinlock_t", LOCK),
        ("struct dentry.d_lockref.lock (tmpfs directory)", "dentry;lockref;spinlock_t", LOCK),
        ("struct dentry.d_lockref.count (tmpfs directory)", "dentry;lockref;int", REFERENCES),
        ("struct dentry.d_lockref.lock_count (tmpfs directory)", "dentry;lockref;__u64", REFERENCES),
        ("struct aa_label.count.count", "aa_label;aa_common_ref;kref", REFERENCES),
        ("struct ucounts.count", "ucounts;atomic_t", REFERENCES),
        ("struct folio._refcount (page cache)", "folio;page;atomic_t", REFERENCES),
        ("vm_committed_as.count", "percpu_counter;s64", COUNTER),
        ("struct pglist_data.vm_stat[3] (node 0)", "pglist_data;atomic_long_t", COUNTER),
        ("struct memcg_vmstats.stats_updates", "memcg_vmstats;atomic64_t", COUNTER),
        ("struct mem_cgroup.memory.usage", "mem_cgroup;page_counter;atomic_long_t", COUNTER),
        ("struct kmem_cache_node.partial (filp)", "kmem_cache_node;list_head", LIST),
        ("struct slab.freelist (filp)", "slab;*", LIST),
        ("struct task_struct.mems_allowed_seq", "task_struct;seqcount_spinlock_t", SEQUENCE),
        ("rcu_state.gp_seq", "rcu_state;long unsigned int", SEQUENCE),
        ("struct page.flags (slab)", "page;long unsigned int", FLAG),
        ("struct root_domain.overloaded", "root_domain;bool", FLAG),
        ("struct task_struct.on_cpu (open1)", "task_struct;int", ""),
        ("struct inode.i_sb (tmpfs file)", "inode;*", ""),
        ("jiffies+0x0", "", ""),
    ],
)  # fmt: skip
def test_a_field_s_type_or_name_tells(object: str, types: str, kind: str) -> None:
    assert sharing.field(without_instance(object), types, {"f": 1})[0] == kind


@pytest.mark.parametrize(
    ("functions", "kind"),
    [
        ({"_raw_spin_lock": 5, "native_queued_spin_lock_slowpath": 1, "f": 5}, LOCK),
        ({"_raw_spin_lock": 1, "f": 5}, ""),
        ({"refcount_dec_not_one": 1}, REFERENCES),
        ({"percpu_counter_add_batch": 1}, COUNTER),
        ({"__list_del_entry_valid": 1}, LIST),
    ],
)
def test_what_has_no_type_is_classified_by_its_writers(functions: dict[str, int], kind: str) -> None:
    assert sharing.field("kmalloc-64+0x8 (64 bytes)", "", functions)[0] == kind


def row(*counts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = only(profile(*counts))
    return found


def test_rare_writes_hit_a_line_that_is_mostly_read() -> None:
    rows = [count(cpu, "look", 100, 0, object="a.overloaded", types="a;bool") for cpu in range(8)]
    found = row(*rows, count(8, "change", 0, 1, object="a.nr_running", types="a;int"))
    assert found["sharing"] == [READ_MOSTLY, COUNTER]
    assert found["because"] == ["0.12 % of the accesses write", "the name of a.nr_running"]


def test_of_bytes_of_one_s_own_each_cpu_has_its_own() -> None:
    rows = [count(cpu, "f", 5, 5, byte=8 * cpu + n) for cpu in range(3) for n in (0, 1, 4)]
    found = row(*rows)
    assert found["sharing"] == [FALSE_SHARING]
    assert [(touched["cpu"], touched["bytes"]) for touched in found["offsets"]] == [
        (0, "0-1,4"),
        (1, "8-9,12"),
        (2, "16-17,20"),
    ]


def test_of_common_bytes_it_is_not_reported_which_cpu_touches_which() -> None:
    assert row(count(0, "f", 5, 5), count(1, "f", 5, 5))["offsets"] == []


def test_what_a_lock_protects_is_named_with_it() -> None:
    rows = [
        count(cpu, function, writes, writes, object=f"struct node.{name}", types=f"node;{type}")
        for cpu in (0, 1)
        for function, writes, name, type in (
            ("add", 6, "partial", "list_head"),
            ("_raw_spin_lock", 2, "list_lock", "spinlock_t"),
            ("add", 2, "owner", "int"),
            ("retry", 1, "flags", "long unsigned int"),
            ("retry", 1, "flags", "long unsigned int"),
            ("rarely", 1, "seq", "seqcount_t"),
        )
    ]
    found = row(*rows)
    assert found["sharing"] == [LIST, LOCK, FLAG]
    assert found["because"][0] == "struct node.partial is a list_head"


def test_where_nothing_tells_nothing_is_guessed() -> None:
    assert row(count(0, "f", 5, 5), count(1, "f", 5, 5))["sharing"] == []
