"""Traces: what sampled operations do, in order, beside what the other probes counted of all operations."""

import json
from pathlib import Path

import polars as pl
import pytest
from conftest import bigiron as command
from conftest import measured
from test_study import documented

import bigiron
from bigiron.analysis.probes.locks import taken_by, waiting
from bigiron.analysis.replay import trace
from bigiron.study.store import Study

PROBES = "conflicts,locks,instructions,trace"
OPERATIONS = 100
SAMPLED = 32
LABEL = "struct aa_label.count.count"


def recorded(folder: Path, workload: str, kernel: str, cpus: int, *options: str) -> Study:
    wanted = ("--cpus", str(cpus), "--operations", str(OPERATIONS), "--probe", PROBES, *options)
    measured(workload, "--kernel", kernel, *wanted, "-o", folder)
    return bigiron.open_study(folder)


@pytest.fixture(scope="module")
def open1(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return recorded(tmp_path_factory.mktemp("open1") / "s", "open1", "debian/6.1", 4)


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Page faults, in threads that take one semaphore, and sleep for it."""
    return recorded(
        tmp_path_factory.mktemp("faults") / "s", "page_fault1", "debian/6.12", 2, "--mode", "thread"
    )


@pytest.fixture(params=["open1", "faults"])
def study(request: pytest.FixtureRequest) -> Study:
    found: Study = request.getfixturevalue(request.param)
    return found


def per_operation(study: Study, probe: str) -> tuple[pl.DataFrame, int]:
    """A probe's rows of operations, and of how many operations they are."""
    table = study.tables(probe)
    if "context" in table.columns:
        table = table.filter(context="process")
    (record,) = study.records()
    return table, sum(record.facts[probe]["operations"])


def executed(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(at=pl.col("instructions").cum_sum().over("task", "operation"))


def test_the_table_is_as_documented(open1: Study) -> None:
    identity = ["cell", "variant", "cpus", "tasks", "repetition"]
    table = open1.tables("trace")
    assert table.columns == [*identity, *documented("`trace.parquet`")]
    assert {name: table.schema[name] for name in trace.SCHEMA} == trace.SCHEMA
    assert set(table["kind"]) <= set(trace.KINDS)
    assert set(table["access"].drop_nulls()) <= {"read", "write", "atomic"}


def test_operations_of_each_task_are_whole(study: Study) -> None:
    (record,) = study.records()
    facts, table = record.facts["trace"], study.tables("trace")
    there = table.group_by("task").agg(pl.col("operation").n_unique()).sort("task")
    assert there["operation"].to_list() == facts["operations"]
    # Of long operations fewer are sampled.
    assert all(SAMPLED // 8 < number <= SAMPLED for number in facts["operations"])
    assert (facts["left_out"], facts["cut"], record.lost) == (0, 0, {})
    assert trace.why_not(table.filter(pl.col("kind") != "sleep")) == ""


def test_accesses_are_those_that_conflicts_counts(open1: Study) -> None:
    """Of the line with the most: in each function as often, to the same bytes, in order of time."""
    table, operations = per_operation(open1, "trace")
    touched = table.filter(kind="access", object=LABEL)
    assert touched.group_by("function").agg(pl.len() / operations).sort("function").rows() == (
        per_function(open1).rows()
    )
    assert set(touched["access"]) == {"atomic"}
    assert touched["line"].n_unique() == 1
    address = touched.select(pl.col("line") * 64 + pl.col("offset")).to_series().unique().item()
    counted, _ = per_operation(open1, "conflicts")
    assert set(counted.filter(object=LABEL)["address"]) == {address}
    order = touched.filter(task=0).filter(pl.col("operation") == pl.col("operation").min())["function"]
    assert (order[0], order[-1]) == ("apparmor_file_alloc_security", "apparmor_file_free_security")


def per_function(study: Study) -> pl.DataFrame:
    counted, operations = per_operation(study, "conflicts")
    label = counted.filter(object=LABEL)
    return label.group_by("function").agg(pl.col("writes").sum() / operations).sort("function")


def test_no_access_to_a_line_of_one_task_is_left(study: Study) -> None:
    counted, _ = per_operation(study, "conflicts")
    by_line = counted.group_by(pl.col("line") // 64).agg(pl.col("cpu").n_unique(), pl.col("writes").sum())
    shared = by_line.filter((pl.col("cpu") > 1) & (pl.col("writes") > 0))["line"]
    touched = study.tables("trace").filter(kind="access")
    assert set(touched["line"]) <= set(shared)


def test_locks_are_taken_and_held_as_locks_counts(study: Study) -> None:
    table, operations = per_operation(study, "trace")
    of = ["task", "operation", "line", "offset"]
    held = executed(table).with_columns(number=pl.int_range(pl.len()).over(*of, "kind"))
    pairs = held.filter(kind="lock").join(held.filter(kind="unlock"), on=[*of, "number"])
    assert pairs.height == table.filter(kind="lock").height == table.filter(kind="unlock").height > 0
    assert (pairs["lock"] == pairs["lock_right"]).all()
    pairs = pairs.with_columns(pl.col("lock").map_elements(waiting, pl.String))
    traced = {
        lock: (taken, instructions)
        for lock, taken, instructions in pairs.group_by("lock")
        .agg(taken=pl.len() / operations, held=(pl.col("at_right") - pl.col("at")).sum() / operations)
        .rows()
    }
    counted, of_all = per_operation(study, "locks")
    kinds = counted["function"].map_elements(taken_by, pl.String)
    sums = pl.col("acquisitions", "instructions").sum() / of_all
    expected = counted.group_by(kinds.alias("lock")).agg(sums)
    for lock, taken, instructions in expected.filter(pl.col("acquisitions") > 0.5).rows():
        assert traced[lock] == pytest.approx((taken, instructions), rel=0.1), lock


def test_trylocks_are_distinguished_from_locks_that_wait(faults: Study) -> None:
    """A page fault tries to read-lock its VMA; what unmaps takes mmap_lock, and waits for it."""
    taken = faults.tables("trace").filter(kind="lock")
    by_lock = dict(taken.group_by("lock").agg(pl.col("function").unique()).iter_rows())
    assert "lock_vma_under_rcu" in by_lock["down_read_trylock"]
    assert "down_read_trylock" in set(faults.tables("trace").filter(kind="unlock")["lock"])
    assert "lock_vma_under_rcu" not in by_lock.get("down_read", [])


def test_instructions_add_up_to_those_of_work(open1: Study) -> None:
    """Those in the kernel: before an entry, the task was in user mode."""
    table, operations = per_operation(open1, "trace")
    in_kernel = table.filter(pl.col("kind") != "enter")["instructions"].sum() / operations
    work, of_all = per_operation(open1, "instructions")
    assert in_kernel == pytest.approx(work["instructions"].sum() / of_all, rel=0.02)


def test_an_operation_enters_and_leaves_the_kernel_alternately(study: Study) -> None:
    table = study.tables("trace").filter(pl.col("kind").is_in(["enter", "exit"]))
    by_operation = table.group_by("task", "operation", maintain_order=True).agg("kind")["kind"].to_list()
    assert all(kinds == ["enter", "exit"] * (len(kinds) // 2) for kinds in by_operation)


def test_threads_of_page_fault1_have_page_tables_of_their_own(faults: Study) -> None:
    of_tables = faults.tables("trace").filter(pl.col("object").str.starts_with("struct ptdesc.ptl"))
    tasks = of_tables.filter(kind="lock").group_by("line").agg(pl.col("task").n_unique())
    assert tasks.height >= 2 and set(tasks["task"]) == {1}


def test_a_page_fault_is_an_entry_and_clears_a_page(faults: Study) -> None:
    table, operations = per_operation(faults, "trace")
    assert table.filter(kind="enter").height / operations == pytest.approx(64 + 1, abs=0.5)
    pages = table.filter(pl.col("kind") == "fill", pl.col("function").str.starts_with("clear_page"))
    assert set(pages["bytes"]) == {4096}
    assert pages.height / operations == pytest.approx(64, abs=1.5)


def test_threads_interrupt_each_other_where_they_unmap(faults: Study) -> None:
    table, operations = per_operation(faults, "trace")
    interrupts = table.filter(kind="ipi")
    assert interrupts.height / operations == pytest.approx(1, abs=0.2)
    assert set(interrupts["target"]) == {1}


def test_a_semaphore_is_downgraded_where_memory_is_unmapped(tmp_path: Path) -> None:
    """munmap() has mmap_lock alone until the mapping is out of the tree, and then as a reader."""
    study = recorded(tmp_path / "s", "mmap1", "debian/6.12", 2, "--mode", "thread")
    table, operations = per_operation(study, "trace")
    down = table.filter(kind="downgrade")
    assert down.height == operations and set(down["object"]) == {"struct mm_struct.mmap_lock"}
    assert trace.why_not(table.filter(pl.col("kind") != "sleep")) == ""
    of_lock = table.filter(
        pl.col("kind").is_in(["lock", "unlock", "downgrade"]), object="struct mm_struct.mmap_lock"
    )
    kinds = of_lock.group_by("task", "operation", maintain_order=True).agg("kind")["kind"].to_list()
    assert kinds == [["lock", "unlock", "lock", "downgrade", "unlock"]] * operations


def test_a_repeated_copy_is_traced_whole_by_each_clock(tmp_path: Path) -> None:
    """By the clock of instructions QEMU leaves the copy after each element; 6.1 copies what is read so."""
    copied = []
    for clock in ("host", "instructions"):
        study = recorded(tmp_path / clock, "pread1", "debian/6.1", 2, "--clock", clock)
        copies = study.tables("trace").filter(kind="copy")
        copied.append(
            copies.group_by("task", "operation").agg(pl.col("bytes").max())["bytes"].unique().to_list()
        )
    assert copied == [[4096], [4096]]


def test_a_task_that_yields_does_not_sleep(tmp_path: Path) -> None:
    study = recorded(tmp_path / "s", "sched_yield", "debian/6.12", 2)
    table = study.tables("trace")
    counts, operations = per_operation(study, "instructions")
    executed = table.group_by("task", "operation").agg(pl.col("instructions").sum())["instructions"]
    assert "sleep" not in set(table["kind"])
    assert executed.min() == pytest.approx(counts["instructions"].sum() / operations, rel=0.1)


def test_operations_that_stay_in_user_mode_have_no_rows(tmp_path: Path) -> None:
    """But for a page fault, if one comes."""
    study = recorded(tmp_path / "s", "counters_packed", "debian/6.12", 2)
    assert set(study.tables("trace")["kind"]) <= {"enter", "exit"}


def test_a_prediction_is_of_it(open1: Study) -> None:
    asked = ("--machine", "xeon-5418y-x2", "--one-task", "2e6", "--tasks", "1,2,24", "--samples", "8")
    answer = command("predict", open1.folder, *asked, "--format", "json")
    assert answer.status == 0, answer
    document = json.loads(answer.out)
    assert document["from"] == "trace"
    (limit,) = document["points"][-1]["limits"]
    assert (limit["kind"], limit["object"]) == ("line", LABEL)
    assert "from traces" in command("predict", open1.folder, *asked).out


def test_events_are_compared_by_function(open1: Study) -> None:
    answer = command("compare", open1.folder, "--probe", "trace")
    assert answer.status == 0, answer
    (line,) = [line for line in answer.out.splitlines() if "apparmor_file_open" in line]
    assert "2.000" in line


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["open1", "--arch", "ppc64le"], "probe trace is not supported on ppc64le yet"),
        (["hotplug-offline"], "probe trace is for workloads that run until they are stopped"),
        (["open1", "--machine", "host"], "probe trace"),
    ],
)
def test_bad_input(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    kernel = [] if "--machine" in arguments else ["--kernel", "debian/6.1"]
    answer = command("run", *arguments, *kernel, "--probe", "trace", "-o", tmp_path / "s")
    assert answer.status == 2
    assert answer.complaint.startswith(complaint)
