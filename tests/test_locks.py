"""Locks: acquisitions that are known, that the kernel's own tracer counts too, and how long they are held."""

import csv
import io
import json
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from booted import KERNELS
from conftest import bigiron as command
from conftest import measured
from test_study import documented

import bigiron
from bigiron import compile, kernels, workloads
from bigiron.analysis.probes import instructions, locks
from bigiron.architectures import X86_64
from bigiron.introspect.memory import GuestRam
from bigiron.machines.vm import vm
from bigiron.machines.vm.topology import Topology
from bigiron.probes import CellRequest, RawOutput, probe
from bigiron.probes.locks import SCHEMA

TRACING = "/sys/kernel/tracing"
OPERATIONS = 300


def taken(
    cpu: int, object: str, path: str, times: int, held: int, *, lock: int = 0xFFFF888003C5B240,
    function: str = "_raw_spin_lock", context: str = "process", longest: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """One row of the probe's table."""
    row = (cpu, context, lock, object, function, path, times, held, longest or held // times)
    return dict(zip(SCHEMA, row, strict=True))


def profile(*rows: dict[str, Any], operations: int = 10) -> list[dict[str, Any]]:
    return locks.profile(pl.DataFrame(list(rows), schema=SCHEMA), operations).rows(named=True)


def test_locks_of_one_name_are_one_row() -> None:
    (row,) = profile(
        taken(0, "struct inode.i_lock (tmpfs file)", "openat;d_instantiate", 20, 200, longest=30),
        taken(0, "struct inode.i_lock (tmpfs file)", "openat;iput", 10, 50),
        taken(1, "struct inode.i_lock (tmpfs file)", "openat;d_instantiate", 20, 100, lock=64),
    )
    assert row == {
        "lock": "struct inode.i_lock (tmpfs file)",
        "taken_by": "spin_lock",
        "locks": 2,
        "cpus": 1,
        "acquisitions_per_op": 5,
        "held_per_op": 35,
        "longest": 30,
        "taken_in": ["d_instantiate", "iput"],
    }


def test_what_several_cpus_take_comes_first() -> None:
    rows = profile(
        taken(0, "of one", "f", 10, 1000),
        taken(0, "of two", "f", 10, 10),
        taken(1, "of two", "f", 10, 10),
        taken(0, "of two, longer", "f", 10, 50),
        taken(1, "of two, longer", "f", 10, 50),
    )
    assert [row["lock"] for row in rows] == ["of two, longer", "of two", "of one"]


def test_readers_and_writers_are_apart_and_each_cpu_s_locks_are_not() -> None:
    rows = profile(
        taken(0, "a.mmap_lock", "f", 10, 20, function="down_read_trylock"),
        taken(0, "a.mmap_lock", "f", 10, 10, function="down_write_killable"),
        taken(0, "runqueues.__lock of CPU 0", "f", 10, 5),
        taken(1, "runqueues.__lock of CPU 12", "f", 10, 5, lock=64),
        taken(1, "tick", "f", 10, 5, context="interrupt"),
    )
    found = [(row["lock"], row["taken_by"]) for row in rows]
    assert found == [
        ("a.mmap_lock", "down_read"),
        ("a.mmap_lock", "down_write"),
        ("runqueues.__lock of each CPU", "spin_lock"),
    ]


def test_nothing_taken_is_no_row() -> None:
    assert profile() == []


def rows_of(study: Path) -> list[dict[str, Any]]:
    answer = command("compare", study, "--probe", "locks", "--format", "json")
    assert (answer.status, answer.err) == (0, "")
    rows: list[dict[str, Any]] = json.loads(answer.out)["rows"]
    return rows


def figures(study: Path, lock: str, taken_by: str) -> dict[str, dict[str, float]]:
    (row,) = [row for row in rows_of(study) if (row["lock"], row["taken_by"]) == (lock, taken_by)]
    cells: dict[str, dict[str, float]] = row["cells"]
    return cells


@pytest.fixture(scope="module")
def pipe1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A write to a pipe and a read from it, on all kernels: 5.10's spin_unlock() is one store, no call."""
    study = tmp_path_factory.mktemp("pipe1") / "s"
    wanted = [word for kernel in KERNELS for word in ("--kernel", kernel)]
    measured("pipe1", *wanted, "--cpus", "2", "--operations", "100", "--probe", "locks", "-o", study)
    return study


def test_a_pipe_is_locked_once_to_write_and_once_to_read(pipe1: Path) -> None:
    mutex = figures(pipe1, "struct pipe_inode_info.mutex", "mutex_lock")
    assert set(mutex) == set(KERNELS)
    for cell in mutex.values():
        assert (cell["acquisitions_per_op"], cell["locks"], cell["cpus"]) == (2, 2, 1)
        assert 0.4 * cell["held_per_op"] < cell["longest"] < cell["held_per_op"]


def test_each_lock_that_was_taken_was_released(pipe1: Path) -> None:
    for record in bigiron.open_study(pipe1).records():
        facts = record.facts["locks"]
        assert (facts["lost_acquisitions"], facts["unreleased"]) == (0, 0)


def test_the_formats_say_the_same(pipe1: Path) -> None:
    rows = rows_of(pipe1)
    said = {format: command("compare", pipe1, "--probe", "locks", "--format", format).out
            for format in ("text", "markdown", "csv")}  # fmt: skip
    lines = list(csv.DictReader(io.StringIO(said["csv"])))
    assert len(lines) == sum(len(row["cells"]) for row in rows)
    assert {(line["lock"], float(line["held_per_op"])) for line in lines} == {
        (row["lock"], cell["held_per_op"]) for row in rows for cell in row["cells"].values()
    }
    assert "mutex_lock in pipe_read, pipe_write" in said["text"]
    table = [line for line in said["markdown"].splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {9}
    assert "`pipe_read`, `pipe_write`" in said["markdown"]


def test_growth_is_not_reported_of_locks(pipe1: Path) -> None:
    answer = command("growth", pipe1, "--probe", "locks")
    assert answer.status == 2
    assert answer.complaint.startswith("Invalid value for '--probe': 'locks' is not one of 'conflicts', ")


def test_the_table_is_as_documented(pipe1: Path) -> None:
    identity = ["cell", "variant", "cpus", "tasks", "repetition"]
    assert bigiron.open_study(pipe1).tables("locks").columns == [*identity, *documented("`locks.parquet`")]


def test_locks_of_all_tasks_are_distinguished_from_locks_of_one(tmp_path: Path) -> None:
    options = ("--cpus", "2", "--operations", "100", "--probe", "locks")
    measured("unlink1", "--kernel", "debian/6.12", *options, "-o", tmp_path / "s")
    (directory,) = figures(tmp_path / "s", "struct inode.i_rwsem (tmpfs directory)", "down_write").values()
    assert (directory["acquisitions_per_op"], directory["locks"], directory["cpus"]) == (2, 1, 2)
    (inodes,) = figures(tmp_path / "s", "struct super_block.s_inode_list_lock (tmpfs)", "spin_lock").values()
    assert (inodes["acquisitions_per_op"], inodes["locks"], inodes["cpus"]) == (2, 1, 2)
    (files,) = figures(tmp_path / "s", "struct files_struct.file_lock", "spin_lock").values()
    assert (files["acquisitions_per_op"], files["locks"], files["cpus"]) == (2, 2, 1)


def test_a_lock_is_held_while_what_it_protects_is_done(tmp_path: Path) -> None:
    """mmap_lock is held for all of do_mmap() and __do_munmap(), and little of their callers."""
    options = ("--cpus", "1", "--operations", "100", "--probe", "locks,instructions")
    measured("mmap1", "--kernel", "debian/5.10", *options, "-o", tmp_path / "s")
    (held,) = (
        cell["held_per_op"]
        for cell in figures(tmp_path / "s", "struct mm_struct.mmap_lock", "down_write").values()
    )
    study = bigiron.open_study(tmp_path / "s")
    (record,) = study.records()
    done = instructions.profile(
        study.table(record, "instructions"), sum(record.facts["instructions"]["operations"])
    )
    inclusive = dict(done.select("function", "total_per_op").iter_rows())
    assert inclusive["do_mmap"] + inclusive["__do_munmap"] < held
    assert held < inclusive["vm_mmap_pgoff"] + inclusive["__vm_munmap"]


# Task, and function and caller, unless the flags say that it was an interrupt (h, H) or a softirq (s).
TRACED_CALL = r"-(\d+) +\[\d+\] [^hHs ]+ +[\d.]+: (\S+) <-(\S+)$"
TRACED = ("_raw_spin_lock*", "mutex_lock", "down_write*", "down_read*", "do_unlinkat")


@pytest.fixture(scope="module", params=["debian/5.10", "debian/6.12"])
def traced(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Lock functions and their callers, how often per operation of unlink1: our count, and the tracer's."""
    results = tmp_path_factory.mktemp("results")
    job = [
        "mode process", "cpus 1", "tasks 1", "warmup 20", "patience_s 100",
        f"operations {OPERATIONS}", "record locks", f"set {TRACING}/buffer_size_kb=16384",
        f"set {TRACING}/options/pause-on-trace=1", f"set {TRACING}/current_tracer=function",
        f"read {TRACING}/trace",
    ]  # fmt: skip
    with GuestRam(vm.memory_mib(1)) as ram:
        machine = vm.VirtualMachine(
            architecture=X86_64,
            kernel=kernels.find(request.param).image,
            agent=compile.agent(workloads.find("unlink1"), "gcc"),
            job="\n".join(job) + "\n",
            topology=Topology(cores=1),
            memory_mib=vm.memory_mib(1),
            deadline_s=120,
            boot=f"ftrace_filter={','.join(TRACED)}",
            plugin=compile.recorder(),
            results=results,
            ram=ram,
        )
        outcome = vm.run(machine, threading.Event(), lambda _stage: None)
        request = CellRequest(1, 1, OPERATIONS, "process")
        table = (
            probe("locks")
            .collect(RawOutput(outcome.messages, results, X86_64, machine.agent, request, ram))
            .rows
        )
    ours: Counter[tuple[str, str]] = Counter()
    for function, path, acquisitions in (
        table.filter(pl.col("context") == "process").select("function", "path", "acquisitions").iter_rows()
    ):
        ours[function, path.rpartition(";")[2]] += acquisitions
    (trace,) = [message.content["lines"] for message in outcome.messages if message.type == "file"]
    events = [found.groups() for line in trace if (found := re.search(TRACED_CALL, line))]
    ((task, unlinks),) = Counter(
        task for task, function, _ in events if function == "do_unlinkat"
    ).most_common(1)
    assert unlinks > OPERATIONS
    calls = Counter((function, caller) for other, function, caller in events if other == task)
    return (
        {call: count / OPERATIONS for call, count in ours.items()},
        {call: count / unlinks for call, count in calls.items() if call[0] != "do_unlinkat"},
    )


def test_the_kernel_s_own_tracer_counts_the_same(
    traced: tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]],
) -> None:
    ours, tracers = traced
    each_operation = {call: count for call, count in tracers.items() if count > 0.9}
    assert len(each_operation) > 15
    for call, count in each_operation.items():
        assert ours.get(call, 0) == pytest.approx(round(count), abs=0.01), call
        assert count == pytest.approx(round(count), abs=0.05), call
