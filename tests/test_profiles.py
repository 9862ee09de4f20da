"""What perf measured on real machines: published outputs of several versions, and what counts say of them."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import polars as pl
import pytest
from conftest import Answer, bigiron, measured
from test_compare import LINE, count, counts
from test_locks import taken

from bigiron import readers, workloads
from bigiron.analysis.comparison.measured import Agreement
from bigiron.analysis.comparison.model import Options
from bigiron.errors import UserError
from bigiron.probes import AllProbeOptions, ProbeTable, blocked, instructions, locks
from bigiron.probes.conflicts import ConflictsOptions
from bigiron.results import measured as results
from bigiron.study import measured as kept
from bigiron.study import store
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import CellRecord, Study
from bigiron.util.measured import MeasuredProfile

PROFILES = Path(__file__).with_name("profiles")
MMAP1, SIGNAL1 = PROFILES / "c2c-mmap1-threads-v5.10.txt", PROFILES / "c2c-signal1-v5.6.txt"
NO_LOCKS = "lock-contention-threads-v6.2.txt"
REFUSED = {
    NO_LOCKS: "line 1: these are waits by pid, not by lock: leave --threads, --lock-owner or ",
    "klockstat-libbpf-threads-v6.12.txt": "line 4: these are waits by thread, not by lock: leave ",
    "klockstat-hold-v5.15.txt": "no function waits for a lock in it: has it the table of waits, ",
    "script-mem-alderlake-v6.5.txt": "another cache answered no load of 5 samples ",
    "script-mem-arm64-v5.19.txt": "line 1: this sample has no address of data, or is cut off: ",
}
"""Real outputs that lack what is compared."""


def text(name: str) -> str:
    return (PROFILES / name).read_text()


def profile(name: str) -> MeasuredProfile:
    return readers.profile(text(name))


# Kind, how many, the first one's name, type, weight and functions; how many lines were not understood
READ: dict[str, tuple[str, int, str, str, float, tuple[str, ...], int]] = {
    "c2c-amd-ibs.txt": ("cache lines", 1, "0x20ea08034080", "", 2096, ("github.com/perfgo/perfgo/e",), 0),
    "c2c-arm64-peer-v5.19.txt": ("cache lines", 1, "0xaaaac17d6000", "", 99, ("0x0000000000003e88",), 0),
    "c2c-i_mmap-v6.4.txt": (
        "cache lines", 1, "0xff1ddd3f0c8a3b00", "", 13642 + 19392,
        ("rwsem_spin_on_owner", "vma_interval_tree_remove", "down_write"), 0,
    ),
    "c2c-memcg-v5.13.txt": (
        "cache lines", 2, "0xffff8881c0642000", "", 2036,
        ("__mod_memcg_state", "__count_memcg_events", "get_mem_cgroup_from_mm", "mem_cgroup_charge"), 0,
    ),
    "c2c-mmap1-threads-v5.10.txt": (
        "cache lines", 5, "0xff11004077f52280", "", 1917 + 1988,
        ("rwsem_spin_on_owner", "rwsem_down_write_slowpath", "osq_lock"), 0,
    ),
    "c2c-openmp-v4.x.txt": ("cache lines", 1, "0x7fff35cd5c40", "", 41 + 446, ("main._omp_fn.0",), 0),
    "c2c-signal1-v5.6.txt": (
        "cache lines", 1, "0xffffffffb7879600", "", 638,
        ("refcount_dec_not_one", "__sigqueue_free", "__sigqueue_alloc"), 0,
    ),
    "c2c-pids-v4.x.txt": ("cache lines", 2, "0x602100", "", 2832 + 1119, ("read_write_func",), 0),
    "c2c-made.txt": (
        "cache lines", 3, "0xffff888104a31240", "", 18, ("_raw_spin_unlock_irqrestor",), 0,
    ),
    "folded-iperf-v5.txt": ("functions", 2, "__free_pages_ok", "", 10713, ("__free_pages_ok",), 0),
    "graph-cppc-arm64.txt": (
        "functions", 12, "cppc_cpufreq_get_rate", "", 6.02, ("cppc_cpufreq_get_rate",), 0,
    ),
    "graph-ftrace-doc.txt": ("functions", 29, "__might_sleep", "", 4.22, ("__might_sleep",), 0),
    "graph-irq-arm64.txt": ("functions", 5, "dev_printk_emit", "", 20.259, ("dev_printk_emit",), 0),
    "graph-open-v6.12.txt": ("functions", 30, "vfs_open", "", 883.188, ("vfs_open",), 0),
    "graph-read.txt": ("functions", 12, "__fget_light", "", 0.371, ("__fget_light",), 0),
    "graph-tcp.txt": ("functions", 22, "tcp_data_queue", "", 2.488, ("tcp_data_queue",), 0),
    "klockstat-bcc-stacks.txt": ("locks", 1, "", "mutex", 556542328, ("pipe_wait",), 1),
    "klockstat-bcc.txt": ("locks", 3, "", "mutex", 57338 + 63163, ("psi_avgs_work",), 0),
    "klockstat-kernfs-v5.10.txt": (
        "locks", 8, "", "mutex", 189600694774 + 59110931944, ("kernfs_iop_permission",), 0,
    ),
    "klockstat-libbpf-stacks-v6.12.txt": (
        "locks", 3, "text_mutex", "mutex or rwsem", 15952100, ("arch_prepare_bpf_trampoline",), 0,
    ),
    "klockstat-libbpf-v6.12.txt": ("locks", 5, "", "mutex or rwsem", 641700, ("kthread",), 0),
    "lock-contention-addresses-v6.3.txt": ("locks", 6, "tasklist_lock", "rwlock", 6.13e6, (), 0),
    "lock-contention-arm64-v6.9.txt": (
        "locks", 6, "", "spinlock", 6.03e9 + 39960, ("__tick_broadcast_oneshot_control",), 0,
    ),
    "lock-contention-bpf-v6.1.txt": ("locks", 9, "", "spinlock", 192670, ("queue_work_on",), 0),
    "lock-contention-interrupted-v6.3.txt": ("locks", 4, "", "rwlock:R", 53590, ("start_this_handle",), 0),
    "lock-contention-names-v6.2.txt": ("locks", 4, "0xffff9f4140059000", "", 1.11e6, (), 0),
    "lock-contention-opens-v6.18.txt": ("locks", 9, "", "spinlock", 1763130, ("exit_to_user_mode_loop",), 0),
    "lock-contention-pipe-v6.14.txt": ("locks", 6, "", "mutex", 1.664e6, ("pipe_read",), 5),
    "lock-contention-slabs-v6.14.txt": ("locks", 4, "&kmem_cache_node", "spinlock", 28.3e6, (), 0),
    "lock-contention-stacks-v6.5.txt": ("locks", 1, "", "rwlock:R", 76790, ("ep_poll_callback",), 0),
    "lock-contention-unnamed-v6.3.txt": ("locks", 6, "0xffff8e67502d0170", "mutex", 262.96e6, (), 0),
    "lock_stat-doc.txt": (
        "locks", 3, "&mm->mmap_sem", "R", 325629.52e3, ("__do_page_fault", "vm_mmap_pgoff"), 0,
    ),
    "lock_stat-memcg-v2.6.31.txt": (
        "locks", 1, "&counter->lock", "", 829793.69e3, ("res_counter_charge", "res_counter_uncharge"), 0,
    ),
    "lock_stat-vmap-v6.3.txt": (
        "locks", 2, "vmap_area_lock", "", 11719647.67e3, ("alloc_vmap_area", "free_vmap_block"), 0,
    ),
    "lock_stat-zone-v5.11.txt": (
        "locks", 1, "&zone->lock", "", 1555485.48e3, ("get_page_from_freelist", "free_one_page"), 0,
    ),
    "offcputime-bcc-v4.txt": ("waits", 11, "pipe_wait", "", 88 + 4108470, ("pipe_wait",), 0),
    "offcputime-bpftrace-v6.18.txt": (
        "waits", 8, "unix_stream_read_generic", "", 84181973, ("unix_stream_read_generic",), 1,
    ),
    "offcputime-libbpf-v6.18.txt": ("waits", 1, "anon_pipe_read", "", 13363054, ("anon_pipe_read",), 0),
    "report-callgraph-v6.18.txt": ("functions", 19, "do_syscall_64", "", 13.2, ("do_syscall_64",), 0),
    "report-group-v6.9.txt": (
        "functions", 5, "native_queued_spin_lock_slowpath", "", 4.01,
        ("native_queued_spin_lock_slowpath",), 0,
    ),
    "report-mlock-v5.10.txt": ("functions", 11, "follow_page_mask", "", 47.26, ("follow_page_mask",), 0),
    "report-open-v6.18.txt": ("functions", 81, "do_syscall_64", "", 13.2, ("do_syscall_64",), 0),
    "report-open1-v6.10.txt": ("functions", 4, "apparmor_file_open", "", 29.37, ("apparmor_file_open",), 0),
    "report-open2-v6.6.txt": ("functions", 3, "apparmor_file_open", "", 38.6, ("apparmor_file_open",), 0),
    "script-inlined-v6.4.txt": ("functions", 1, "native_write_msr", "", 1, ("native_write_msr",), 0),
    "script-mem-made.txt": (
        "cache lines", 3, "0xffff888104a31240", "", 18, ("_raw_spin_unlock_irqrestore",), 0,
    ),
    "script-no-chains-v6.9.txt": ("functions", 2, "release_pages", "", 1, ("release_pages",), 0),
    "script-open-v6.18.txt": ("functions", 26, "do_syscall_64", "", 4, ("do_syscall_64",), 0),
}  # fmt: skip


def test_every_output_is_read_here() -> None:
    every = sorted(READ.keys() | REFUSED.keys())
    assert sorted(path.name for path in PROFILES.glob("*.txt")) == every
    named = re.findall(r"`([\w.-]+\.txt)`", text("README.md"))
    assert sorted(named) == every, "each has its source"


@pytest.mark.parametrize("name", REFUSED)
def test_an_output_that_lacks_what_is_compared_says_so(name: str) -> None:
    with pytest.raises(UserError, match=re.escape(REFUSED[name])):
        profile(name)


@pytest.mark.parametrize("name", READ)
def test_an_output_is_read_whole(name: str) -> None:
    kind, number, first, type, weight, functions, not_read = READ[name]
    found = profile(name)
    assert (found.kind, len(found.things), len(found.not_read)) == (kind, number, not_read)
    thing = found.things[0]
    assert (thing.name, thing.type) == (first, type) and thing.weight == pytest.approx(weight)
    assert thing.functions[: len(functions)] == functions
    for thing in found.things:
        assert sum(part.weight for part in thing.parts) <= thing.weight * 1.01


def test_a_row_of_c2c_has_its_bytes_instructions_and_counts() -> None:
    line = next(thing for thing in profile(MMAP1.name).things if thing.name.endswith("240"))
    part = next(part for part in line.parts if part.function == "do_mmap")
    assert (part.offset, part.records, part.place, part.stores) == (0x30, 466, "mmap.c:1445", 0)
    assert part.weight == pytest.approx(0.0753 * 1887 + 0.0539 * 909)
    stores = profile("c2c-i_mmap-v6.4.txt").things[0].parts[3]
    assert stores.function == "down_write" and stores.stores == pytest.approx(0.2639 * 9012 + 0.0635 * 63)


def test_call_chains_of_c2c_are_callers() -> None:
    part = profile(SIGNAL1.name).things[0].parts[0]
    assert part.callers[:3] == ("refcount_dec_and_lock_irqsave", "free_uid", "__sigqueue_free")
    assert part.place == "refcount_dec_not_one+19"


def test_a_mail_s_quotes_change_nothing() -> None:
    quoted = "".join(f"> > {line}\n" for line in text(MMAP1.name).splitlines())
    assert readers.profile(quoted) == profile(MMAP1.name)


def test_what_is_not_understood_is_listed() -> None:
    found = readers.profile(text("report-mlock-v5.10.txt") + "\nwhat is this, and why?\n")
    assert [words for _, words in found.not_read] == ["what is this, and why?"]
    assert profile("lock-contention-pipe-v6.14.txt").not_read[0] == (1, "# Running 'sched/pipe' benchmark:")


@pytest.mark.parametrize("name", READ)
def test_a_file_that_is_cut_off_is_an_error_or_what_is_left(name: str) -> None:
    """Cut anywhere: nothing but a line with advice."""
    whole = text(name)
    for end in range(0, len(whole), max(1, len(whole) // 20)):
        try:
            assert readers.profile(whole[:end]).things
        except UserError as error:
            assert "\n" not in str(error)


COUNTED = text(MMAP1.name)
COUNTS = "      0     1917     1988        0        0  0xff11004077f52280\n"
ROW = "          53.31%   49.04%    0.00%    0.00%                 0x0     1       1  0xffffffff81157918"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("nothing of the kind\n", r"{file}: this is no profile that bigiron reads: .*perf c2c report"),
        (b"\xff\xfe\x00", "{file}, line 1: this is not text"),
        (COUNTED.partition(ROW)[0] + ROW, "{file}, line 85: this row of a cache line has no instr"),
        (COUNTED.replace("1917     1988", "1917     nan"), "{file}, line 83: a count of the cache line is"),
        (COUNTED.replace(COUNTS, ""), "{file}, line 84: this row is of no cache line"),
        (COUNTED.replace("1917     1988   ", "1917     1988   77 88 "), "{file}, line 85: 4 shares"),
        (COUNTED.partition("  0  0xff11004077f52280")[0], "{file}: .*(no cache line|no profile)"),
        (text(NO_LOCKS), "{file}, line 1: these are waits by pid, not by lock"),
        (
            text("lock_stat-zone-v5.11.txt").replace("           0.79\n", "\n", 1),
            "{file}, line 5: &zone->lock has 11 values for 12 columns: is it cut",
        ),
        (
            text("lock-contention-bpf-v6.1.txt").partition(" us      3.72")[0],
            "{file}, line 4: this row of a lock ends early: is the file cut off",
        ),
    ],
)  # fmt: skip
def test_damage_is_one_clear_line(
    content: str | bytes, complaint: str, tables: Study, tmp_path: Path
) -> None:
    file = tmp_path / "profile.txt"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    for command in "compare", "explain":
        answer = bigiron(command, tables.folder, "--with", file)
        assert (answer.status, answer.out) == (2, ""), answer
        assert re.match(complaint.format(file=re.escape(str(file))), answer.complaint), answer.complaint


def test_a_huge_file_is_one_clear_line(tables: Study, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(65 << 20)
    answer = bigiron("compare", tables.folder, "--with", tmp_path / "huge")
    assert (answer.status, answer.complaint) == (
        2, f"{tmp_path / 'huge'}: it has 65 MiB, and at most 64 MiB are read"
    )  # fmt: skip


# Matching: a study of literal tables


def both(function: str, times: int, **more: Any) -> list[dict[str, Any]]:
    return [count(cpu, function, times, times, **more) for cpu in (0, 1)]


LABEL = "struct aa_label.count.refs"
OPEN1 = counts(
    *both("apparmor_file_open", 20, object=LABEL, byte=0x8),
    *both("apparmor_file_free_security", 20, object=LABEL, byte=0x8),
    *both("_raw_spin_lock", 15, line=LINE + 640, object="struct zone.lock", byte=0x10),
    *both("_raw_spin_lock", 14, line=LINE + 1280, object="struct lruvec.lru_lock", byte=0x10),
    *both("path_openat", 5, line=LINE + 1920, object="struct file_table.nr", byte=0x20),
)
TAKEN = [
    taken(0, "struct zone.lock (Normal, node 0)", "openat;rmqueue_bulk", 40, 4000),
    taken(0, "struct mm_struct.mmap_lock", "munmap;__vm_munmap", 10, 900, function="down_write"),
    taken(0, "struct mm_struct.mmap_lock", "fault;do_user_addr_fault", 10, 100, function="down_read"),
    taken(0, "struct inode.i_rwsem", "openat;open_last_lookups", 10, 40, function="down_write"),
    taken(0, "tasklist_lock", "exit;release_task", 10, 50, function="_raw_write_lock_irq"),
]
RAN = [
    (0, "process", "openat", name, "", number)
    for name, number in (("apparmor_file_open", 500), ("link_path_walk", 9000))
]


def waited(path: str, total_ns: int) -> dict[str, Any]:
    return {
        "context": "process", "task": "t", "pid": 7, "tgid": 7, "state": "S", "path": path, "user_path": "",
        "count": 5, "total_ns": total_ns, "max_ns": total_ns, "histogram": [5],
    }  # fmt: skip


WAITED = [
    waited("do_syscall_64;ksys_read;vfs_read;anon_pipe_read;schedule;__schedule", 70_000_000),
    waited("do_syscall_64;kernel_wait4;do_wait;schedule;__schedule", 20_000_000),
    waited("do_syscall_64;__x64_sys_futex;do_futex;futex_wait;schedule;__schedule", 30_000_000),
]


PROBES = ("conflicts", "instructions", "locks", "blocked")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return recorded(tmp_path_factory.mktemp("open1") / "s", PROBES)


def recorded(folder: Path, probes: Sequence[str], scope: Literal["kernel", "user"] = "kernel") -> Study:
    """10 operations of 2 tasks on two variants; the second takes half of the label's references."""
    spec = Spec(
        workload="open1",
        probes=list(probes),
        options=AllProbeOptions(ConflictsOptions(scope=scope)),
        cpus=[2],
        operations=5,
        variant=[Variant(name=name, kernel="k") for name in ("old", "new")],
    )
    study = store.create(folder, spec, workloads.find("open1"))
    facts = {"operations": [5, 5], "lost_accesses": 0, "lost_acquisitions": 0, "unreleased": 0}
    facts |= {"lost": 0, "nanoseconds": 100_000_000, "way": "bpf"}
    for cell in study.plan():
        halved = cell.variant.name == "new"
        table = OPEN1.filter(~(pl.col("function") == "apparmor_file_open")) if halved else OPEN1
        tables = {
            "conflicts": table,
            "locks": pl.DataFrame(TAKEN, schema=locks.SCHEMA),
            "instructions": pl.DataFrame(RAN, schema=instructions.SCHEMA, orient="row"),
            "blocked": pl.DataFrame(WAITED, schema=blocked.SCHEMA),
        }
        record = CellRecord(
            id=cell.id, variant=cell.variant.name, machine="vm", cpus=2, tasks=2,
            repetition=cell.repetition, environment={},
        )  # fmt: skip
        study.add(record, {name: ProbeTable(tables[name], facts) for name in probes})
    return study


HEADING = """
#        ----- HITM -----  -- Store Refs --  --------- Data address ---------
#   Num  RmtHitm  LclHitm   L1 Hit  L1 Miss              Offset  Node  PA cnt        Code address
"""


def c2c(*lines: tuple[int, tuple[tuple[str, int, int], ...]]) -> str:
    """A report's table: of each cache line its loads that hit elsewhere, and function, byte and samples."""
    shown = [HEADING]
    for number, (hits, rows) in enumerate(lines):
        shown.append(f"      {number}        0     {hits}       10        0  0xffff8881{number:08x}\n")
        shown += [
            f"  0.00%  {100 / len(rows):.2f}%  50.00%  0.00%  {byte:#x}  0  1  0xffffffff81000000  0  1  1  "
            f"{samples}  2  [k] {function}  [kernel.kallsyms]  f.c:1  0\n"
            for function, byte, samples in rows
        ]
    return "\n".join(shown)


def agreement(study: Study, profile: str, **options: Any) -> Agreement:
    return results.agreement(study, readers.profile(profile), Options(study.base(None), **options))


def counted(found: Agreement) -> list[str]:
    return [pair.counted.name if pair.counted else pair.why for pair in found.pairs]


def test_cache_lines_are_matched_by_functions_and_named_by_bytes(tables: Study) -> None:
    label = (("apparmor_file_open", 0x8, 90), ("apparmor_file_free_security", 0x8, 80))
    found = agreement(tables, c2c((50, label), (9, (("path_openat", 0x20, 5),))))
    assert counted(found) == [LABEL, "struct file_table.nr"]
    assert found.pairs[0].fields == ((f"0x8 {LABEL}", ("apparmor_file_open", "apparmor_file_free_security")),)
    first = found.pairs[0]
    assert first.counted and first.counted.rank == 1 and first.share == pytest.approx(50 / 59)
    assert first.counted.cells["old"] == {"writes_per_op": 8, "accesses_per_op": 8}
    assert first.counted.cells["new"] == {"writes_per_op": 4, "accesses_per_op": 4}
    assert [one.name for one in found.only_counted] == ["struct zone.lock", "struct lruvec.lru_lock"]
    assert (len(found.both), found.first, found.first_of_both, found.correlation) == (2, 2, 2, None)


def test_what_was_not_counted_has_its_reason(tables: Study) -> None:
    user = c2c((9, (("main", 0, 1),))).replace("[k] main", "[.] main")
    assert counted(agreement(tables, user)) == ["user memory: count it with --scope user"]
    of_program = msgspec.structs.replace(tables.spec, root="r", command="c", per="system-call")
    assert counted(agreement(Study(tables.folder, of_program), user)) == [
        "user memory: of a program only the kernel's memory is counted"
    ]
    assert counted(agreement(tables, c2c((9, (("do_fork", 0, 1),))))) == [
        "no recorded operation executes do_fork"
    ]
    executed = counted(agreement(tables, c2c((9, (("link_path_walk", 0, 1),)))))
    assert executed == [
        "no counted cache line has these functions: in the recording one CPU alone touches it"
    ]
    text = c2c((9, (("link_path_walk", 0, 1),)), (5, (("path_openat", 0x20, 5),)))
    only_read = text.replace("50.00%", "0.00%", 1)
    assert counted(agreement(tables, only_read))[0].startswith("no store to it was measured: the adjacent")


def test_what_was_not_recorded_is_not_called_absent(tmp_path: Path) -> None:
    """Functions without instructions, and user memory that was recorded."""
    study = recorded(tmp_path / "s", ["conflicts"], scope="user")
    assert counted(agreement(study, c2c((9, (("do_fork", 0, 1),))))) == [
        "no counted cache line has these functions (record `instructions` to see whether they run)"
    ]
    user = c2c((9, (("main", 0, 1),))).replace("[k] main", "[.] main")
    assert counted(agreement(study, user)) == ["no counted cache line has these functions"]


def test_locks_that_only_their_kind_tells_are_not_guessed(tables: Study) -> None:
    """One spin lock is like another; what else touches the cache line, or the callers, tell which."""
    spinning = (("native_queued_spin_lock_sl", 0x10, 90), ("_raw_spin_lock", 0x10, 20))
    (why,) = counted(agreement(tables, c2c((50, spinning))))
    assert "struct zone.lock, struct lruvec.lru_lock?" in why


def test_a_name_that_perf_cut_is_the_whole_one(tables: Study) -> None:
    name = "apparmor_file_free_security"
    assert counted(agreement(tables, c2c((9, ((name[:26], 0x8, 5),))))) == [LABEL]


def contention(*rows: tuple[str, str]) -> str:
    heading = " contended   total wait     max wait     avg wait         type   caller\n\n"
    return heading + "".join(
        f"         6      {7.8 / number:.2f} ms      2.35 ms      1.30 ms     {type}   {caller}+0x1\n"
        for number, (type, caller) in enumerate(rows, 1)
    )


def test_locks_are_matched_by_type_and_function(tables: Study) -> None:
    found = agreement(
        tables,
        contention(
            ("rwsem:W", "__vm_munmap"),
            ("spinlock", "rmqueue_bulk"),
            ("rwsem:R", "__vm_munmap"),
            ("rwsem:R", "do_user_addr_fault"),
        ),
    )
    assert counted(found) == [
        "struct mm_struct.mmap_lock (down_write)",
        "struct zone.lock (spin_lock)",
        "no recorded operation takes such a lock (__vm_munmap)",
        "struct mm_struct.mmap_lock (down_read)",
    ]
    assert found.pairs[1].counted and found.pairs[1].counted.cells["old"] == {
        "acquisitions_per_op": 4, "held_per_op": 400
    }  # fmt: skip


def test_locks_are_matched_by_class(tables: Study) -> None:
    of_kernel = agreement(tables, text("lock_stat-zone-v5.11.txt"))
    assert counted(of_kernel) == ["struct zone.lock (spin_lock)"]
    of_perf = agreement(tables, text("lock-contention-addresses-v6.3.txt"))
    assert counted(of_perf)[:3] == [
        "tasklist_lock (write_lock)",
        "struct mm_struct.mmap_lock (down_write)",
        "no recorded operation takes such a lock (siglock)",
    ]


def test_functions_are_matched_by_name(tables: Study) -> None:
    found = agreement(tables, text("report-open1-v6.10.txt"))
    assert counted(found)[0] == "apparmor_file_open"
    answer = bigiron("compare", tables.folder, "--with", PROFILES / "report-open1-v6.10.txt")
    assert "7 times its share of the instructions" in answer.out


def test_waits_are_matched_by_where_tasks_wait(tables: Study) -> None:
    """Threads of the kernel's own that have no work are no task's waiting."""
    today = agreement(tables, text("offcputime-bpftrace-v6.18.txt"))
    assert [(pair.measured.name, pair.counted.name) for pair in today.both if pair.counted] == [
        ("anon_pipe_read < vfs_read < ksys_read",) * 2,
        ("do_wait < kernel_wait4 < do_syscall_64",) * 2,
    ]
    first = today.both[0].counted
    assert first and first.rank == 1 and first.cells["old"] == {"ms_per_op": 7.0, "times_per_op": 0.5}
    assert [one.name for one in today.only_counted] == ["futex_wait < do_futex < __x64_sys_futex"]
    names = [pair.measured.name for pair in agreement(tables, text("offcputime-bcc-v4.txt")).pairs]
    assert names[0].startswith("pipe_wait < pipe_read") and not any("worker_thread" in name for name in names)


# The commands


def compared(study: Study, profile: Path, format: str) -> str:
    answer = bigiron("compare", study.folder, "--with", profile, "--format", format)
    assert (answer.status, answer.err) == (0, ""), answer
    return answer.out


def test_every_format_has_the_same(tables: Study, tmp_path: Path) -> None:
    file = tmp_path / "c2c.txt"
    file.write_text(c2c((50, (("apparmor_file_open", 8, 90),)), (9, (("do_fork", 0, 5),))) + "what?\n")
    shown = compared(tables, file, "text")
    assert max(map(len, shown.splitlines())) <= 100
    assert re.search(
        r"^ +1 +84\.7% +1 +\S+ +8\.000 +4\.000  struct aa_label\.count\.refs$", shown, re.MULTILINE
    )
    assert "not counted: no recorded operation executes do_fork" in shown
    assert "Not understood in c2c.txt: line 12: 'what?'." in shown
    document = json.loads(compared(tables, file, "json"))
    assert [row["counted"] for row in document["rows"][:2]] == [LABEL, ""]
    assert document["not_read"] == [{"line": 12, "text": "what?"}]
    assert document["agreement"] == {"spearman": None, "both": 1, "first": 2, "first_of_both": 1}
    rows = list(csv.DictReader(io.StringIO(compared(tables, file, "csv"))))
    assert [(row["counted"], row["variant"], row["writes_per_op"]) for row in rows[:3]] == [
        (LABEL, "old", "8.0"), (LABEL, "new", "4.0"), ("", "", "")
    ]  # fmt: skip
    assert "| 1 | 84.7% | 1 |" in compared(tables, file, "markdown")


def test_explain_says_what_the_machine_loses_most_at(tables: Study, tmp_path: Path) -> None:
    file = tmp_path / "c2c.txt"
    file.write_text(c2c((50, (("apparmor_file_open", 8, 90),))))
    said = " ".join(bigiron("explain", tables.folder, "--with", file).out.split())
    assert (
        "The cache line that your machine loses most at is struct aa_label.count.refs: "
        "written 8.000 times per operation on old; written 4.000 times per operation on new "
        "(100% of the loads that another cache answered; number 1 of those counted)." in said
    )
    file.write_text(c2c((50, (("do_fork", 0, 9),)), (9, (("apparmor_file_open", 8, 90),))))
    document = json.loads(bigiron("explain", tables.folder, "--with", file, "--format", "json").out)
    assert "was not counted: no recorded operation executes do_fork." in document["measured"][0]
    assert document["measured"][1].startswith(
        "The first of them that was counted is struct aa_label.count.refs:"
    )


@pytest.mark.parametrize(
    "name",
    [
        *(MMAP1.name, SIGNAL1.name, "lock_stat-vmap-v6.3.txt", "script-open-v6.18.txt"),
        *("graph-tcp.txt", "klockstat-libbpf-stacks-v6.12.txt", "offcputime-libbpf-v6.18.txt"),
    ],
)
def test_a_profile_is_kept_as_a_study_s_variant(name: str, tables: Study, tmp_path: Path) -> None:
    formats = {
        "c2c": "perf-c2c",
        "lock_stat": "lock-stat",
        "script": "perf-script",
        "graph": "function-graph",
    }
    format = (formats | {"klockstat": "klockstat", "offcputime": "stacks"})[name.partition("-")[0]]
    to = ("-o", tmp_path / "m", "--tasks", "48")
    assert bigiron("import", format, PROFILES / name, *to) == Answer(
        0,
        f"1 cell of measured in {tmp_path / 'm'}: see `bigiron compare STUDY --with {tmp_path / 'm'}`\n",
        "",
    )
    again = results.read(tmp_path / "m")
    assert (again.kind, again.unit, again.things) == (
        (found := profile(name)).kind, found.unit, found.things
    )  # fmt: skip
    (record,) = store.open_study(tmp_path / "m").records()
    assert (record.variant, record.tasks, record.environment["file"]) == ("measured", 48, name)
    assert set(store.open_study(tmp_path / "m").table(record, kept.TABLE).columns) == set(kept.SCHEMA)
    assert bigiron("import", format, PROFILES / name, *to).complaint.startswith(
        f"{name} was already imported"
    )
    assert "only a profile" in bigiron("report", tmp_path / "m").complaint
    assert "only a profile" in bigiron("compare", tmp_path / "m").complaint
    kind_of = bigiron("compare", tables.folder, "--with", tmp_path / "m")
    assert (kind_of.status, kind_of.err) == (0, "")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--with", PROFILES / "none.txt"), r".*none\.txt: it cannot be read: No such file"),
        (("--with", MMAP1, "--probe", "locks"), "--probe does not go with --with: the profile decides what"),
        (("--with", MMAP1, "--by", "chain"), "--by does not go with --with"),
        (("--with", MMAP1, "--line", "128"), "--line 128 does not go with --with"),
        (("--with", MMAP1, "--paths", "2"), "--paths does not go with --with"),
        (
            ("--with", PROFILES / "report-open1-v6.10.txt", "--machine", "dual-socket"),
            "--machine dual-socket applies only to cache lines, and report-open1-v6.10.txt has functions",
        ),
        (("--with", Path(__file__).parent), ".*"),
    ],
)
def test_what_does_not_go_together(options: tuple[str | Path, ...], complaint: str, tables: Study) -> None:
    answer = bigiron("compare", tables.folder, *options)
    assert (answer.status, answer.out) == (2, "")
    assert re.match(complaint, answer.complaint), answer.complaint


def test_what_was_not_recorded_says_how(tmp_path: Path, tables: Study) -> None:
    answer = bigiron("compare", tables.folder, "--with", tables.folder)
    assert answer.complaint == f"{tables.folder} has no profile: `bigiron import` adds one"


# Counts of the same kernels' paths

PAHOLE = {
    "mmap_lock.owner": 128, "mmap_lock.osq": 136, "mmap_lock.wait_lock": 140, "mmap_lock.wait_list": 144,
    "mmap_lock.count": 120, "map_count": 112, "mm_count": 96, "membarrier_state": 88, "pgd": 80,
    "highest_vm_end": 72, "vmacache_seqnum": 16, "get_unmapped_area": 24, "total_vm": 192, "locked_vm": 200,
    "data_vm": 216, "def_flags": 240, "hiwater_vm": 184,
}  # fmt: skip
"""Offsets in `struct mm_struct` of the measured kernel: `pah_old.log` of the same mail as the profile."""


def test_published_cache_lines_of_mmap1(tmp_path: Path) -> None:
    """Two sockets measured what a virtual machine counts: each byte is called as in the mail's pahole."""
    study = tmp_path / "s"
    probes = ("--probe", "conflicts", "--operations", "100", "--memory", "8192")
    measured("mmap1", "--mode", "thread", "--kernel", "debian/5.10", "--cpus", "4", *probes, "-o", study)
    found = results.agreement(store.open_study(study), profile(MMAP1.name), Options("debian/5.10"))
    assert [pair.rank for pair in found.pairs[:4]] == [1, 2, 3, 4]
    # The fifth holds two tasks' vm_area_structs, which in some boots lie beside each other in their slab.
    assert len(found.both) in (4, 5)
    starts = {0xFF11004077F52280: 128, 0xFF11004077F52240: 64, 0xFF11004077F52200: 0, 0xFF11004077F522C0: 192}
    named = {}
    for pair in found.pairs[:4]:
        for field, _functions in pair.fields:
            byte, _, name = field.partition(" struct mm_struct.")
            if name:  # few tasks do not touch all that many do
                named[starts[int(pair.measured.name, 16)] + int(byte, 16)] = name
    assert named == {offset: name for name, offset in PAHOLE.items() if offset in named}
    assert len(named) >= 10


def test_published_cache_line_of_signal1(tmp_path: Path) -> None:
    study = tmp_path / "s"
    measured("signal1", "--kernel", "debian/5.10", "--cpus", "4", "--probe", "conflicts", "-o", study)
    found = results.agreement(store.open_study(study), profile(SIGNAL1.name), Options("debian/5.10"))
    assert counted(found) == ["root_user.__count"]
    assert [field for field, _ in found.pairs[0].fields] == [
        "0x0 root_user.__count",
        "0x8 root_user.sigpending",
    ]
