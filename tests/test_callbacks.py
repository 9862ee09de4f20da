"""What operations leave to RCU is executed in a replay: many callbacks one after the other."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from conftest import measured

from bigiron.analysis.replay import callbacks, synthetic_operation
from bigiron.analysis.replay.program import Event, ReplayLine, ReplayLock, ReplayProgram
from bigiron.results import prediction
from bigiron.study import store

SOFTIRQ = "asm_sysvec_apic_timer_interrupt;__do_softirq;rcu_core"
CRED, SLAB = 64, 128
OPERATIONS = 8  # of each of two tasks


def counted(
    beside: pl.DataFrame | None = None, cpus: tuple[int, ...] = (0, 1)
) -> synthetic_operation.Reconstruction:
    """A callback an operation, which counts in a cred and takes a slab's lock, beside RCU's own work."""

    def rows(*of: tuple[str, str, dict[str, object]]) -> pl.DataFrame:
        return pl.DataFrame(
            {"cpu": cpu, "context": "interrupt", "path": path, "function": function} | more
            for path, function, more in of
            for cpu in cpus
        )

    def touch(address: int, object: str) -> dict[str, object]:
        of = {"line": address - address % 64, "address": address, "object": object, "types": "", "pc": 1}
        return of | {"reads": OPERATIONS, "writes": OPERATIONS}

    freed = f"{SOFTIRQ};rcu_do_batch.cold;file_free_rcu"
    touched = rows(
        (f"{SOFTIRQ};rcu_do_batch.cold", "file_free_rcu", touch(CRED, "cred")),
        (freed, "_raw_spin_lock", touch(SLAB, "list_lock")),
        (SOFTIRQ, "rcu_report_qs_rnp", touch(1024, "rcu_state")),
    )
    lock = {"lock": SLAB, "object": "list_lock", "acquisitions": OPERATIONS, "instructions": 20 * OPERATIONS}
    work = rows(
        (f"{SOFTIRQ};rcu_do_batch.cold", "file_free_rcu", {"instructions": 300 * OPERATIONS}),
        (SOFTIRQ, "note_gp_changes", {"instructions": 5000 * OPERATIONS}),
    )
    of = {"operations": 2 * OPERATIONS, "tasks": 2, "most_tasks": 2, "threads": False}
    tables = callbacks.of_operations(touched, rows((freed, "_raw_spin_lock", lock)), work)
    return synthetic_operation.count(*tables, beside=beside, **of)


def test_one_operation_executes_what_all_have_left() -> None:
    operations = [[Event("access", 0, 0, "atomic")]] * 4
    program = ReplayProgram([ReplayLine("cred", "shared")], [], operations, places={CRED // 64: 0})
    found = callbacks.with_callbacks(program, counted(), np.random.default_rng(1))
    assert found.lines == [ReplayLine("cred", "shared"), ReplayLine("list_lock", "shared")]
    assert found.locks == [ReplayLock("list_lock", "spinlock", 1)]
    assert found.operations[:3] == operations[:3]
    kinds = [event.kind for event in found.operations[3]]
    assert [kinds.count(kind) for kind in ("access", "lock", "unlock", "system call")] == [5, 4, 4, 0]
    assert {event.object for event in found.operations[3] if event.kind == "access"} == {0}
    assert sum(event.amount for event in found.operations[3]) == 4 * 300


def test_a_lock_that_operations_take_too_is_the_same() -> None:
    takes = [Event("lock", 0, 0, "write"), Event("unlock", 0, 0, "write")]
    lines, locks = [ReplayLine("list_lock", "shared")], [ReplayLock("struct kmem_cache_node", "spinlock", 0)]
    program = ReplayProgram(lines, locks, [takes, takes], places={SLAB // 64: 0})
    found = callbacks.with_callbacks(program, counted(), np.random.default_rng(1))
    assert found.locks == [ReplayLock("struct kmem_cache_node", "spinlock", 0)]
    assert [line.name for line in found.lines] == ["list_lock", "cred"]
    assert {event.object for event in found.operations[1] if event.kind == "lock"} == {0}


def test_a_lock_within_another_is_not_taken() -> None:
    """Operations may take both in the other order, and wait for ever."""
    program = ReplayProgram([], [], [[Event("work", 1)]])
    both = replace(counted(), locks=[ReplayLock("a", "spinlock", 0), ReplayLock("b", "spinlock", 0)])
    inner = [Event("lock", 0, 1, "write"), Event("unlock", 0, 1, "write")]
    steps = [Event("lock", 0, 0, "write"), *inner, Event("unlock", 0, 0, "write"), *inner]
    drawn = ReplayProgram(both.lines, both.locks, [steps])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic_operation.Reconstruction, "program", lambda *_: drawn)
        found = callbacks.with_callbacks(program, both, np.random.default_rng(1))
    assert len(found.locks) == 2
    kinds = [(event.kind, event.object) for event in found.operations[0] if event.kind != "work"]
    assert kinds == [("lock", 0), ("unlock", 0), ("lock", 1), ("unlock", 1)]


def test_interrupts_and_rcu_itself_are_no_callbacks() -> None:
    paths = ["rcu_core;rcu_do_batch;free", "rcu_core;rcu_do_batch;free;asm_sysvec_irq_work", "rcu_core"]
    rows = {"context": "kthread", "path": paths, "function": ["kfree", "tick", "wake_nocb_gp"]}
    (found,) = callbacks.of_operations(pl.DataFrame(rows))
    assert found.rows() == [("process", "free", "kfree")]


def test_a_line_may_be_shared_with_operations_alone() -> None:
    """One CPU's callbacks touch it, and operations of the others."""
    of = {
        "line": CRED,
        "address": CRED,
        "object": "cred",
        "types": "",
        "path": "",
        "function": "open",
        "pc": 2,
    }
    rows = [{"cpu": cpu, "context": "process", "reads": 9, "writes": 9} | of for cpu in (2, 3)]
    assert not counted(cpus=(0,)).lines
    assert [line.name for line in counted(pl.DataFrame(rows), (0,)).lines] == ["cred"]


def test_threads_that_close_files_count_in_their_cred_once_more(tmp_path: Path) -> None:
    """5.10's file_free_rcu puts what opening the file has got: as often, but later."""
    study = tmp_path / "s"
    options = ("--mode", "thread", "--boot", "apparmor=0", "--probe", "conflicts,locks,instructions,trace")
    measured("open1", "--kernel", "debian/5.10", "--cpus", "4", "--operations", "1000", *options, "-o", study)
    (recording,), refused = prediction.record(store.open_study(study), 4)
    assert recording.is_trace and not refused
    program = recording.source(np.random.default_rng(1))

    def counts(operation: list[Event]) -> int:
        on = {number for number, line in enumerate(program.lines) if line.name.startswith("struct cred")}
        return sum(
            event.object in on and event.how == "atomic" for event in operation if event.kind == "access"
        )

    *others, last = (counts(list(operation)) for operation in program.operations)
    assert set(others) == {1}
    assert len(others) / 4 < last < 4 * len(others)
