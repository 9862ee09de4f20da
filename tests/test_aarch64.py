"""The recorder on aarch64: calls by registers, vectors, exclusive and atomic accesses, another memory map."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import WORKLOADS, compared, measured, says
from conftest import bigiron as command
from executed import exact_instructions, mostly_process

import bigiron
from bigiron.analysis.replay import synthetic_operation
from bigiron.architectures import AARCH64, aarch64
from bigiron.errors import UserError
from bigiron.introspect.symbols import SymbolTable
from bigiron.probes import locks
from bigiron.probes.locks import refuse_uncounted_spinlocks

ARM = ("--arch", "aarch64", "--kernel")
LABEL = ("apparmor_file_alloc_security", "apparmor_file_free_security")


@pytest.fixture(scope="module")
def open1_on_arm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """open1 on Debian's 6.12 with 4 CPUs, resumed from a snapshot."""
    study = tmp_path_factory.mktemp("aarch64") / "open1"
    measured("open1", *ARM, "debian/6.12", "--cpus", "4", "--probe", "conflicts,instructions", "-o", study)
    return study


Reads = float
Writes = float


def label_s_accesses(study: Path) -> dict[tuple[str, str], list[tuple[Reads, Writes]]]:
    """What each instruction does to AppArmor's label per operation, by field and function."""
    opened = bigiron.open_study(study)
    (record,) = opened.records()
    operations = sum(record.facts["conflicts"]["operations"])
    rows = opened.table(record, "conflicts").filter(
        (pl.col("context") == "process") & pl.col("object").str.starts_with("struct aa_label.")
    )
    found: dict[tuple[str, str], list[tuple[Reads, Writes]]] = defaultdict(list)
    by = ("object", "function", "pc")
    for name, function, _, reads, writes in (
        rows.group_by(by).agg(pl.col("reads", "writes").sum()).sort(by).iter_rows()
    ):
        found[name, function].append((reads / operations, writes / operations))
    return dict(found)


def test_apparmor_s_label_is_written_as_often_as_on_x86_64(open1_on_arm: Path) -> None:
    """An atomic instruction is one read and one write."""
    found = label_s_accesses(open1_on_arm)
    for function in LABEL:
        assert found["struct aa_label.count.count", function] == [(1, 1)]
    rows = {row["object"]: row["cells"]["debian/6.12"] for row in compared(open1_on_arm)["rows"]}
    assert rows["struct aa_label.count.count"]["writes_per_op"] == 2


def test_a_loop_of_exclusive_accesses_is_one_atomic(open1_on_arm: Path, tmp_path: Path) -> None:
    """On a CPU without atomic instructions the kernel has LDXR and STXR in their place."""
    assert AARCH64.machine != aarch64._machine("cortex-a72")
    program = """
import sys
from dataclasses import replace
from bigiron import architectures
from bigiron.architectures import AARCH64, aarch64
from bigiron.errors import UserError
from bigiron.introspect.symbols import SymbolTable
from bigiron.probes.locks import refuse_uncounted_spinlocks
from bigiron.cli import main
architectures._ALL["aarch64"] = replace(AARCH64, machine=aarch64._machine("cortex-a72"))
main()
"""
    words = ["run", "open1", *ARM, "debian/6.12", "--cpus", "4", "--probe", "conflicts", "-o", tmp_path / "s"]
    subprocess.run([sys.executable, "-c", program, *words], check=True, capture_output=True)
    with_loops, with_atomics = label_s_accesses(tmp_path / "s"), label_s_accesses(open1_on_arm)
    assert with_loops == with_atomics


def test_what_an_operation_executes_is_exact(open1_on_arm: Path) -> None:
    """On the way from openat to its file there is no clock; what interrupts do is no operation's."""
    functions = ("do_sys_openat2", "build_open_flags", "do_filp_open", "vfs_open", "el0t_64_sync")
    table = exact_instructions(open1_on_arm, 4 * 500, functions)
    late = pl.concat_str("path", "function", separator=";").str.contains("el1h_64_irq|el0t_64_irq|irq_exit")
    assert table.filter(late & (pl.col("context") == "process")).is_empty()
    assert not table.filter(late & (pl.col("context") == "interrupt")).is_empty()


def test_counts_have_the_number_of_system_calls(open1_on_arm: Path) -> None:
    opened = bigiron.open_study(open1_on_arm)
    (record,) = opened.records()
    conflicts, work = (opened.table(record, probe) for probe in ("conflicts", "instructions"))
    nothing_taken = pl.DataFrame(schema=dict(locks.SCHEMA))
    counted = synthetic_operation.count(conflicts, nothing_taken, work, 4 * 500, 4, 4, threads=False)
    assert (counted.system_calls, counted.faults) == pytest.approx((2, 0), abs=0.01)
    assert "el0_svc" in counted.root.calls


@pytest.mark.parametrize("kernel", ["debian/6.12", "debian/7.2"])
def test_the_first_steps_of_a_child_are_its_own(kernel: str, tmp_path: Path) -> None:
    study = tmp_path / "s"
    few = ("--cpus", "2", "--operations", "100", "--probe", "instructions")
    measured("unixbench/spawn", *ARM, kernel, *few, "-o", study)
    assert mostly_process(study, "schedule_tail")


def test_call_paths_begin_with_the_system_call(open1_on_arm: Path) -> None:
    said = command("explain", open1_on_arm).out
    assert re.search(r"In (openat and close|close and openat), each operation accesses", said), said


def test_the_machine_comes_from_a_snapshot(open1_on_arm: Path) -> None:
    (record,) = bigiron.open_study(open1_on_arm).records()
    assert record.environment["from_snapshot"] and record.environment["time_slice"] == "operation"


def test_objects_have_names(tmp_path: Path) -> None:
    study = tmp_path / "s"
    few = ("--operations", "200", "--probe", "conflicts")
    measured("unlink1", *ARM, "debian/6.12", "--cpus", "2", *few, "-o", study)
    names = [row["object"] for row in compared(study)["rows"]]
    for name in (
        r"struct dentry\.d_lockref\.\w+(\.\w+)* \(tmpfs directory\)",
        r"struct inode\.i_\w+(\.\w+)* \(tmpfs directory\)",
        r"struct shmem_sb_info\.\w+(\.\w+)*",
        r"struct aa_label\.\w+(\.\w+)?",
    ):
        assert any(re.fullmatch(name, found) for found in names), (name, names)


def test_a_kernel_without_types_says_so(tmp_path: Path) -> None:
    """Debian's 6.1 exports neither types nor where its page tables are."""
    measured("open1", *ARM, "debian/6.1", "--cpus", "2", "--probe", "conflicts", "-o", tmp_path / "s")
    row = compared(tmp_path / "s")["rows"][0]
    assert row["object"] == "page or slab object: the kernel has no CONFIG_DEBUG_INFO_BTF"
    assert row["cells"]["debian/6.1"]["writes_per_op"] == pytest.approx(6, abs=0.001)
    opened = bigiron.open_study(tmp_path / "s")
    (record,) = opened.records()
    names = set(opened.table(record, "conflicts")["object"])
    assert {row["object"], "kernel image or vmalloc"} <= names
    assert not [name for name in names if name.startswith(("vmalloc", "module", "unknown"))]


def test_neighbours_share_a_line_of_64_bytes(tmp_path: Path) -> None:
    neighbours = ("--workload-file", WORKLOADS / "neighbours.c", "--set", says(8))
    measured(*neighbours, *ARM, "debian/6.12", "--cpus", "2", "--probe", "conflicts", "-o", tmp_path / "s")
    (line,) = [row for row in compared(tmp_path / "s")["rows"] if row["object"].startswith("page cache")]
    assert [kind["kind"] for kind in line["sharing"]] == ["false sharing"]
    assert set(line["offsets"]["debian/6.12"].values()) == {"0-7", "8-15"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ("--probe", "efficiency"),
            "probe efficiency is not supported on aarch64 yet: use --arch x86_64 or ppc64le",
        ),
        (
            ("--scope", "user"),
            "--scope user is not supported on aarch64 yet: leave it out, or use --arch x86_64 or ppc64le",
        ),
        (("--cpus", "513"), "513 CPUs: emulated machines of aarch64 have at most 512"),
    ],
    ids=["efficiency", "user memory", "CPUs"],
)
def test_what_is_not_supported_yet(options: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    answer = command("run", "open1", *ARM, "debian/6.12", *options, "-o", tmp_path / "s")
    assert (answer.status, answer.complaint) == (2, complaint)


def test_programs_are_not_supported_yet(tmp_path: Path) -> None:
    program = ("--root", "debian:trixie+stress-ng", "--command", "stress-ng --version")
    answer = command("run", *program, *ARM, "debian/6.12", "-o", tmp_path / "s")
    complaint = "--root is not supported on aarch64 yet: use --arch x86_64 or ppc64le"
    assert (answer.status, answer.complaint) == (2, complaint)


@pytest.mark.parametrize("probe", ["locks", "trace"])
@pytest.mark.parametrize("kernel", ["debian/6.1", "debian/6.12"])
def test_a_kernel_with_inlined_spinlocks_is_refused_before_it_boots(
    probe: str, kernel: str, tmp_path: Path
) -> None:
    """Beside another one, whose image says that its spinlocks are functions."""
    both = ("--kernel", "debian/7.2", "--probe", f"conflicts,{probe}")
    answer = command("run", "open1", *ARM, kernel, *both, "-o", tmp_path / "s")
    assert (answer.status, answer.complaint) == (
        2,
        f"probe {probe}: {kernel} has its spinlocks inlined (CONFIG_INLINE_SPIN_LOCK): use a kernel with "
        "CONFIG_PREEMPTION, such as debian/7.2 or one of `bigiron kernel build --config` with "
        "CONFIG_PREEMPT=y, or leave the probe out",
    )
    assert not (tmp_path / "s").exists()


def test_inlined_spinlocks_are_found_in_the_symbols_too() -> None:
    """Of a kernel that exports no function its image does not say it."""
    said = "^probe locks: this kernel has its spinlocks inlined"
    with pytest.raises(UserError, match=said):
        refuse_uncounted_spinlocks("locks", SymbolTable("ffff800080010000 T queued_spin_lock_slowpath\n"))
    has_it = "ffff800080010000 T _raw_spin_lock\n"
    refuse_uncounted_spinlocks("locks", SymbolTable(has_it))
    with pytest.raises(UserError, match=r"this kernel's spinlocks are mutexes \(CONFIG_PREEMPT_RT\)"):
        refuse_uncounted_spinlocks("locks", SymbolTable(has_it + "ffff800080020000 T rt_spin_lock\n"))


def test_locks_of_a_kernel_that_has_their_functions(tmp_path: Path) -> None:
    """Since Debian's 7.2 is preemptible, spinlocks are functions there."""
    few = ("--cpus", "2", "--probe", "conflicts,locks")
    measured("open1", *ARM, "debian/7.2", *few, "-o", tmp_path / "s")
    study = bigiron.open_study(tmp_path / "s")
    (record,) = study.records()
    table, facts = study.table(record, "locks"), record.facts["locks"]
    taken = table.filter(
        (pl.col("context") == "process") & (pl.col("object") == "struct files_struct.file_lock")
    )
    assert taken["acquisitions"].sum() == 2 * sum(facts["operations"])
    assert facts["lost_acquisitions"] == facts["unreleased"] == 0


@pytest.fixture(scope="module")
def traced_on_arm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On a kernel whose spinlocks are functions."""
    studies = tmp_path_factory.mktemp("traced")
    few = ("--cpus", "2", "--operations", "64", "--probe", "conflicts,instructions,trace")
    for workload in ("open1", "tlb_flush1"):
        measured(workload, *ARM, "debian/7.2", *few, "-o", studies / workload)
    return studies


def trace_and_facts(study: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    opened = bigiron.open_study(study)
    (record,) = opened.records()
    return opened.table(record, "trace"), record.facts["trace"]


def test_a_trace_has_what_its_operations_do(traced_on_arm: Path) -> None:
    """Each of open1 takes the lock of its files twice, and writes AppArmor's label twice."""
    table, facts = trace_and_facts(traced_on_arm / "open1")
    operations = sum(facts["operations"])
    assert operations == 64 and (facts["left_out"], facts["cut"]) == (0, 0)
    assert table.filter(kind="lock", object="struct files_struct.file_lock").height == 2 * operations
    label = table.filter(pl.col("object").fill_null("").str.starts_with("struct aa_label.count"))
    assert set(label["access"]) == {"atomic"} and label.height == 2 * operations
    assert table.filter(kind="enter").height == table.filter(kind="exit").height == 2 * operations


def test_a_trace_has_broadcasts_to_tlbs(traced_on_arm: Path) -> None:
    table, facts = trace_and_facts(traced_on_arm / "tlb_flush1")
    told = table.filter(kind="tlbi")
    assert told.height >= sum(facts["operations"]) and set(told["target"]) == {1}
    assert not trace_and_facts(traced_on_arm / "open1")[0].filter(kind="tlbi").height


def test_what_runs_instead_of_a_task_is_none_of_its_operation(traced_on_arm: Path) -> None:
    """Where a task may be preempted again, it is at once if another one waits for the CPU."""
    for folder in ("open1", "tlb_flush1"):
        study = bigiron.open_study(traced_on_arm / folder)
        (record,) = study.records()
        of_process = study.table(record, "instructions").filter(context="process")
        paths = of_process.select(pl.concat_str("path", "function", separator=";")).to_series()
        assert not paths.str.contains("preempt_schedule").any()


def test_a_trace_is_replayed(traced_on_arm: Path) -> None:
    answer = command("predict", traced_on_arm / "open1", "--machine", "altra-q80", "--tasks", "2,40")
    assert answer.status == 0 and "from traces" in answer.out, answer


@pytest.mark.slow
def test_the_clock_of_many_cpus_is_slowed_down(tmp_path: Path) -> None:
    """Otherwise they would mostly execute ticks."""
    few = ("--cpus", "32", "--operations", "100", "--probe", "conflicts,instructions")
    measured("open1", *ARM, "debian/6.12", *few, "-o", tmp_path / "s")
    (record,) = bigiron.open_study(tmp_path / "s").records()
    executed = record.facts["instructions"]["instructions"]
    assert record.environment["clock_slower"] == 64
    assert executed["interrupt"] < executed["process"]
    for function in LABEL:
        assert label_s_accesses(tmp_path / "s")["struct aa_label.count.count", function] == [(1, 1)]


def test_what_follows_a_clock_of_instructions_repeats(tmp_path: Path) -> None:
    """To the last access, in two machines that resume one snapshot."""
    found = []
    for name in ("first", "second"):
        few = ("--cpus", "4", "--clock", "instructions", "--probe", "conflicts,instructions")
        measured("open1", *ARM, "debian/6.12", *few, "-o", tmp_path / name)
        study = bigiron.open_study(tmp_path / name)
        (record,) = study.records()
        found.append({table: list(study.table(record, table).iter_rows()) for table in record.tables})
    first, second = found
    differing = {table: {*rows} ^ {*second[table]} for table, rows in first.items() if rows != second[table]}
    assert differing == {}
