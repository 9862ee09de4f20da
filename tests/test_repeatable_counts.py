"""What a history holds a recording against: what is left out, what is added up, what passes."""

from collections.abc import Sequence

import polars as pl
import pytest

from bigiron.analysis.comparison import repeatable_counts
from bigiron.analysis.comparison.repeatable_counts import (
    CellTables,
    CountKind,
    ReferenceValue,
    RepeatableCount,
)

CPUS = 4
CALL = "entry_SYSCALL_64;do_syscall_64"


def conflicts(*rows: tuple[int, str, str, int, int], path: str = CALL, start: int = 0) -> pl.DataFrame:
    """Of each row an address, an object, a function, reads and writes, on every CPU.

    `start` is that of their slab object.
    """
    return pl.DataFrame(
        [
            {
                "cpu": cpu, "context": "process", "line": address - address % 64, "address": address,
                "bytes": 0xFF << address % 64, "object": object, "types": "", "start": start, "pc": address,
                "function": function, "offset": 0, "path": path, "reads": reads, "writes": writes,
            }
            for cpu in range(CPUS)
            for address, object, function, reads, writes in rows
        ],
        schema_overrides={"start": pl.UInt64, "bytes": pl.UInt64, "line": pl.UInt64, "address": pl.UInt64},
    )  # fmt: skip


def work(**instructions: int | Sequence[int]) -> pl.DataFrame:
    """What each function executes on each CPU."""
    rows = []
    for path, each in instructions.items():
        *callers, function = path.split("__of__")[::-1]
        for cpu, count in enumerate([each] * CPUS if isinstance(each, int) else each):
            rows.append((cpu, "process", ";".join([CALL, *callers]), function, count))
    return pl.DataFrame(rows, ["cpu", "context", "path", "function", "instructions"], orient="row")


def counted(*tables: pl.DataFrame) -> dict[tuple[str, str], float]:
    """An operation a CPU."""
    found = repeatable_counts.counts([CellTables(table, None, CPUS, CPUS, CPUS) for table in tables])
    return {(count.name, count.unit): count.mean for count in found if count.what != "waiting" or count.mean}


def instructions(table: pl.DataFrame) -> float:
    (all_of_it, _) = repeatable_counts.counts([CellTables(None, table, CPUS, CPUS, CPUS)])
    return all_of_it.mean


def test_an_objects_lines_are_one_count_and_of_a_struct_only_written_bytes_count() -> None:
    two = {("struct inode", "writes"): 2, ("struct inode", "accesses"): 2}
    for member in 72, 128:  # in the line that is written, or in the next one
        read = (member, "struct inode.i_sb", "stat", 3, 0)
        assert counted(conflicts((64, "struct inode.i_count", "iput", 0, 2), read)) == two
    around = (64, "struct ext4_inode_info.i_data_sem", "f", 0, 1)
    assert counted(conflicts(around, (256, "struct inode", "g", 0, 1))) == two
    symbol = conflicts((64, "init_ucounts.count", "f", 0, 2), (72, "init_ucounts.ns", "g", 3, 0))
    assert counted(symbol) == {("init_ucounts", "writes"): 2, ("init_ucounts", "accesses"): 5}


@pytest.mark.parametrize("read", [72, 128])
def test_where_an_object_of_no_type_begins_is_luck_too(read: int) -> None:
    """The two members are in one cache line of some slabs only."""
    rows = [(64, "kmalloc-96+0x0 (96 bytes)", "f", 0, 2), (read, "kmalloc-96+0x8 (96 bytes)", "g", 3, 0)]
    assert set(counted(conflicts(*rows, start=64)).values()) == {2}


def test_a_write_disturbs_one_access_of_each_cpu() -> None:
    seldom = conflicts((64, "jiffies", "f", 99, 1))
    assert counted(seldom) == {("jiffies", "writes"): 1, ("jiffies", "accesses"): CPUS}


def test_pages_are_one_object_whatever_they_are_of() -> None:
    pages = conflicts(
        (64, "struct folio.lru (anonymous page)", "f", 0, 1), (128, "struct slab.freelist (filp)", "g", 0, 1)
    )
    assert counted(pages) == {
        (repeatable_counts.PAGES, "writes"): 2,
        (repeatable_counts.PAGES, "accesses"): 2,
    }


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"{CALL};down_write;rwsem_down_write_slowpath.isra.0", repeatable_counts.WAITING),
        (f"{CALL};up_write;rwsem_wake", repeatable_counts.WAITING),
        (f"{CALL};vfs_read;pipe_read;schedule", "struct task_struct"),
        ("entry_SYSCALL_64;do_syscall_64;syscall_exit_to_user_mode;schedule", None),  # its time is up
    ],
)
def test_what_waiting_tasks_touch_is_no_objects(path: str, name: str | None) -> None:
    found = counted(conflicts((64, "struct task_struct.on_cpu", "f", 0, 1), path=path))
    assert {one for one, _ in found} == ({name} if name else set())


def test_work_is_that_of_the_middle_cpu_without_what_follows_the_clock() -> None:
    assert instructions(work(vfs_read=100)) == 100
    assert instructions(work(vfs_read=100, generic_update_time__of__file_update_time=30)) == 100
    assert instructions(work(vfs_read=100, osq_lock=30)) == 100
    assert instructions(work(vfs_read=100, fput__of__task_work_run=30)) == 130
    assert instructions(work(vfs_read=100, copy_process=[900])) == 100  # a helper's, on one CPU


def test_work_of_a_program_is_that_of_all_cpus_where_its_tasks_are_unknown() -> None:
    one_cpu = work(vfs_read=[1000])
    for tasks, instructions_per_op in ((0, 1000 / CPUS), (CPUS, 0.0)):
        (all_of_it, _) = repeatable_counts.counts([CellTables(None, one_cpu, CPUS, CPUS, tasks)])
        assert all_of_it.repetitions == (instructions_per_op,)


def count(what: CountKind, name: str, unit: str, *repetitions: float) -> RepeatableCount:
    return RepeatableCount(what, name, unit, repetitions)


def worse(was: Sequence[RepeatableCount], now: Sequence[RepeatableCount], varies: float = 0.0) -> list[str]:
    found = repeatable_counts.check([ReferenceValue(one, one.mean, varies) for one in was], now)
    return [finding.name for finding in found if finding.worse]


@pytest.mark.parametrize(
    ("name", "was", "now", "fails"),
    [
        ("struct aa_label", (2.0,), (6.0,), True),
        ("struct aa_label", (2.0,), (2.5,), False),
        ("struct aa_label", (2.0,), (6.0, 2.0), False),  # not in each repetition
        ("struct aa_label", (2.0, 6.0), (6.0,), False),
        (repeatable_counts.PAGES, (2.0,), (12.0,), False),
        (repeatable_counts.PAGES, (2.0,), (13.0,), True),
        ("in_lookup_hashtable", (0.0,), (2.5,), False),
    ],
)
def test_what_passes(name: str, was: tuple[float, ...], now: tuple[float, ...], fails: bool) -> None:
    before, after = count("object", name, "writes", *was), count("object", name, "writes", *now)
    assert bool(worse([before], [after])) is fails
    assert not worse([before], [after], varies=4.0)


def test_a_seldom_written_object_is_held_by_its_writes_alone() -> None:
    for writes, fails in (0.5, []), (1.0, ["a"]):
        now = [count("object", "a", "writes", writes), count("object", "a", "accesses", 4 * writes)]
        assert worse([], now) == fails


def test_a_long_operation_may_have_more_and_one_whose_tasks_wait_too() -> None:
    was, now = count("object", "a", "writes", 5.0), count("object", "a", "writes", 6.4)
    assert worse([was], [now]) == ["a"]
    assert not worse(
        [was, count("instructions", repeatable_counts.INSTRUCTIONS, "instructions", 100_000.0)], [now]
    )
    assert not worse([was, count("waiting", repeatable_counts.WAITING, "accesses", 9.0)], [now])


def test_waiting_is_reported_where_none_waited() -> None:
    now = [count("waiting", repeatable_counts.WAITING, "accesses", 40.0)]
    assert worse([count("waiting", repeatable_counts.WAITING, "accesses", 0.1)], now) == [
        repeatable_counts.WAITING
    ]
    assert not worse([count("waiting", repeatable_counts.WAITING, "accesses", 3.0)], now)


def test_work_of_tasks_that_sleep_may_differ_by_a_tenth() -> None:
    was, now = (
        count("instructions", repeatable_counts.INSTRUCTIONS, "instructions", 9000.0),
        count("instructions", repeatable_counts.INSTRUCTIONS, "instructions", 9500.0),
    )
    assert worse([was], [now]) == [repeatable_counts.INSTRUCTIONS]
    assert not worse([was, count("sleeping", repeatable_counts.INSTRUCTIONS, "instructions", 4000.0)], [now])
    assert not worse(
        [was], [count("waiting", repeatable_counts.WAITING, "accesses", 0.0)]
    )  # work was not recorded
