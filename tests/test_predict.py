"""`bigiron predict`: what was recorded, replayed on machines that are ranges."""

import csv
import io
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import bigiron, measured

from bigiron import _sim
from bigiron.analysis.replay import prediction, synthetic_operation, trace
from bigiron.analysis.replay.extrapolated import Extrapolated
from bigiron.analysis.replay.program import Event, ReplayLine, ReplayLock, ReplayProgram
from bigiron.analysis.statistics import knee
from bigiron.analysis.statistics.estimate import of_samples
from bigiron.errors import UserError
from bigiron.probes import ProbeTable, conflicts, locks
from bigiron.results import prediction as study_prediction
from bigiron.simulator import machine_files
from bigiron.simulator.fitted import FITTED, Constant
from bigiron.simulator.replay import SPEED, Draws, KnownRate, ReplayOptions, replay
from bigiron.study import store
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import Study

XEON = "xeon-5418y-x2"
LABEL = 0xFFFF888000001000


def events(label_accesses: int, *, lock: str = "", tasks: int = 4, more: int = 0) -> pl.DataFrame:
    """A trace: work, atomic accesses to one line, and a lock on another."""
    rows = []
    for task in range(tasks):
        for operation in range(2):
            steps: list[tuple[str, int, int, str, str, str]] = [("enter", 100, 0, "", "", "")]
            steps += [("access", 800, LABEL, "atomic", "", "aa_label.count")] * label_accesses
            if lock:
                steps.append(("lock", 400, LABEL + 64, "", lock, "file_lock"))
                steps.append(("unlock", 400, LABEL + 64, "", lock, "file_lock"))
            steps.append(("exit", 1000 + more, 0, "", "", ""))
            rows += [(task, operation, number, *step) for number, step in enumerate(steps)]
    columns = ["task", "operation", "sequence", "kind", "instructions", "line", "access", "lock", "object"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def trace_of_steps(*steps: tuple[str, str, str, str]) -> pl.DataFrame:
    """A trace of two tasks that do these steps to one word: kind, access, lock, function."""
    rows = [
        (task, 0, number, kind, 100, LABEL, access or None, lock or None, "word", function)
        for task in range(2)
        for number, (kind, access, lock, function) in enumerate(steps)
    ]
    columns = ["task", "operation", "sequence", "kind", "instructions", "line", "access", "lock", "object"]
    return pl.DataFrame(rows, schema=[*columns, "function"], orient="row")


def traced(folder: Path, arch: str = "x86_64", **variants: pl.DataFrame) -> Study:
    """A study whose cells have these traces."""
    spec = Spec(
        workload="open1",
        arch=arch,
        cpus=[4],
        probes=["conflicts"],
        variant=[Variant(name=name, kernel="debian/6.12") for name in variants],
    )
    study = store.create(folder, spec, None)
    for cell in study.plan():
        study.add(store.new_record(cell, "vm"), {"trace": ProbeTable(variants[cell.variant.name])})
    return study


def answered(study: Study, *options: str) -> dict[str, Any]:
    answer = bigiron("predict", study.folder, "--samples", "16", "--format", "json", *options)
    assert answer.status == 0, answer
    document: dict[str, Any] = json.loads(answer.out)
    return document


def relative(document: dict[str, Any], variant: str) -> dict[int, tuple[float, float, float]]:
    return {
        point["tasks"]: (point["low"], point["relative"], point["high"])
        for point in document["points"]
        if point["variant"] == variant
    }


def test_a_shared_line_levels_off_and_is_named(tmp_path: Path) -> None:
    study = traced(tmp_path / "s", two=events(2), none=events(0))
    asked = ("--tasks", "1..48", "--one-task", "2e6", "--samples", "64")
    document = answered(study, "--machine", XEON, *asked)
    assert document["from"] == "trace" and document["one_task_per_s"] == 2e6
    two, none = (relative(document, variant) for variant in ("two", "none"))
    assert two[1][1] == pytest.approx(1)
    assert two[8][1] == pytest.approx(two[16][1], rel=0.1)
    assert two[48][1] < 8 < 30 < none[48][1] < 40  # turbo takes a quarter
    assert none[48][2] / none[48][0] < two[48][2] / two[48][0]
    last = [point for point in document["points"] if point["tasks"] == 48]
    assert [[limit["kind"] for limit in point["limits"]] for point in last] == [["line"], []]
    assert last[0]["limits"][0]["object"] == "aa_label.count" and last[0]["limits"][0]["share"] > 0.5
    (ratio,) = document["ratios"]
    assert (ratio["base"], ratio["variant"]) == ("two", "none") and ratio["differs_from"] <= 16
    knees = {knee["variant"]: knee["tasks"] for knee in document["knees"]}
    assert knees["two"] <= 8 and knees["none"] is None
    deciding = {one["unknown"] for one in document["decided_by"] if one["variant"] == "two"}
    assert {"core transfer", "what the model leaves out"} & deciding


def test_a_lock_is_executed_and_named(tmp_path: Path) -> None:
    study = traced(tmp_path / "s", spin=events(0, lock="spin_lock"), read=events(0, lock="down_read"))
    document = answered(study, "--machine", "xeon-e7-8895v3-x4", "--tasks", "8,72")
    for variant in "spin", "read":
        (point,) = (one for one in document["points"] if (one["variant"], one["tasks"]) == (variant, 72))
        assert (point["limits"][0]["kind"], point["limits"][0]["object"]) == ("lock", "file_lock")
    spin, read = (relative(document, variant) for variant in ("spin", "read"))
    assert spin[72][1] < spin[8][1]  # on four sockets it is worse than on one
    assert read[72][1] > 1.5 * spin[72][1]  # readers share the lock, and its line


def test_every_kind_of_lock_and_event_is_replayed() -> None:
    lines = [ReplayLine("line", "shared"), ReplayLine("zone", "node"), ReplayLine("own", "task")]
    kinds = ("spinlock", "rwlock", "mutex", "rwsem")
    locks = [ReplayLock(kind, kind, 0) for kind in kinds]
    operation = [Event("system call", 2), Event("work", 500), Event("fill", 4096)]
    operation += [Event("interrupt", 1.0, 0, "share"), Event("interrupt", 2, 0, "number")]
    operation += [Event("access", 0, 1, how) for how in ("read", "write", "atomic", "exchange")]
    operation += [Event("access", 0, 2, "write"), Event("visit", 0, 2, "read")]
    for number, how in [(number, how) for number in range(len(kinds)) for how in ("write", "read")]:
        shared = how if kinds[number] in ("rwlock", "rwsem") else "write"
        operation += [
            Event("lock", 0, number, shared),
            Event("work", 50),
            Event("unlock", 0, number, shared),
        ]
        tries = Event("lock", 0, number, f"try {shared}")
        operation += [tries, Event("work", 50), Event("unlock", 0, number, shared)]
    program = ReplayProgram(lines, locks, [operation])
    machine = machine_files.load("epyc-9654-x2")
    found = replay({"all": lambda _: program}, ReplayOptions(machine, [2, 40], samples=4))
    samples: Draws = found.variants["all"]
    assert samples.throughput.shape == (4, 3) and (samples.throughput > 0).all()
    shares = samples.shares[0][-1]
    assert sum(shares.values()) == pytest.approx(1, abs=0.3)
    assert {kind for kind, _ in shares} == {"work", "memory", "interrupts", "line", "lock"}


def nested(first: int, then: int, lock: str) -> list[tuple[str, int, str]]:
    """Steps that take one lock within another: kind, line, lock."""
    inside = [("lock", then, lock), ("unlock", then, lock)]
    return [("lock", first, "spin_lock"), *inside, ("unlock", first, "spin_lock")]


def in_both_orders(lock: str) -> pl.DataFrame:
    """A trace whose tasks take two locks, the second task against the order, with that function."""
    rows = [
        (task, 0, number, kind, 300, line, lock)
        for task, steps in enumerate([nested(1, 2, "spin_lock"), nested(2, 1, lock)])
        for number, (kind, line, lock) in enumerate([*steps, ("exit", 0, "")])
    ]
    columns = ["task", "operation", "sequence", "kind", "instructions", "line", "lock"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_a_trylock_against_the_order_of_locks_is_no_deadlock(tmp_path: Path) -> None:
    """dentry_kill() took locks so up to 6.7."""
    tries, waits = (
        bigiron("predict", traced(tmp_path / lock, v=in_both_orders(lock)).folder, "--machine", XEON, *ASKED)
        for lock in ("spin_trylock", "spin_lock")
    )
    assert (tries.status, waits.status) == (0, 2)
    assert "the replay failed: deadlock" in waits.err and waits.err.count("\n") == 1


ASKED = ("--tasks", "2,16", "--samples", "8")


def test_as_many_cpus_are_interrupted_as_were_recorded() -> None:
    def interrupts(target: int | None) -> Event:
        rows = [
            (task, 0, number, kind, 100, target if kind == "ipi" else None)
            for task in range(5)
            for number, kind in enumerate(["enter", "ipi", "exit"])
        ]
        columns = ["task", "operation", "sequence", "kind", "instructions", "target"]
        found = trace.program(pl.DataFrame(rows, schema=columns, orient="row")).operations[0]
        (event,) = (event for event in found if event.kind == "interrupt")
        return event

    assert interrupts(4)[1:] == interrupts(None)[1:] == (1.0, 4, "share")
    assert interrupts(3)[1:] == (0.75, 3, "share")
    assert interrupts(1)[1:] == (1.0, 1, "number")


def test_calls_on_other_cpus_are_replayed_once() -> None:
    """As kernel/smp.c does them, and not as recorded, too; wakeups use its queues without an interrupt."""

    def lines(first: str) -> list[str]:
        queued = ("access", "call_single_queue of CPU 3", "llist_add_batch")
        generation = ("access", "struct mm_struct.context.tlb_gen", "flush_tlb_mm_range")
        rows = [
            (task, 0, number, kind, 100, number, "atomic", object, function)
            for task in range(2)
            for number, (kind, object, function) in enumerate([(first, "", ""), queued, generation])
        ]
        columns = ["task", "operation", "sequence", "kind", "instructions", "line", "access", "object"]
        table = pl.DataFrame(rows, schema=[*columns, "function"], orient="row")
        program = trace.program(table)
        assert sum(event.amount for event in program.operations[0] if event.kind == "work") == 300
        return [line.name for line in program.lines]

    assert lines("ipi") == ["struct mm_struct.context.tlb_gen"]
    assert lines("enter") == ["call_single_queue of CPU 3", "struct mm_struct.context.tlb_gen"]


def test_a_broadcast_to_all_tlbs_is_waited_for() -> None:
    rows = [
        (task, 0, number, kind, 100, 7 if kind == "tlbi" else None)
        for task in range(2)
        for number, kind in enumerate(["enter", "tlbi", "exit"])
    ]
    columns = ["task", "operation", "sequence", "kind", "instructions", "target"]
    found = trace.program(pl.DataFrame(rows, schema=columns, orient="row"))
    assert [event.kind for event in found.operations[0]].count("broadcast") == 1
    _sim.Program(found.lines, found.locks, found.operations)  # the simulator knows it


def test_operations_that_take_no_time_are_one_line(tmp_path: Path) -> None:
    table = trace_of_steps(("access", "atomic", "", ""), ("access", "read", "", "")).with_columns(
        operation=pl.col("sequence"), sequence=pl.lit(0), instructions=pl.lit(0)
    )
    answer = bigiron("predict", traced(tmp_path / "s", v=table).folder, "--machine", XEON, *ASKED)
    assert answer.status == 2 and answer.err.count("\n") == 1
    assert answer.err.startswith("bigiron: v: its trace cannot be replayed: operation ")
    assert answer.err.endswith(": it takes no time\n")


def test_on_power_spinlocks_are_powers_own(tmp_path: Path) -> None:
    study = traced(tmp_path / "s", spin=events(0, lock="spin_lock"))
    asked = ("--machine", "power10-1920", "--tasks", "64")
    own, generic = (answered(study, *asked, *more) for more in ((), ("--lock", "qspinlock")))
    assert (own["lock"], generic["lock"]) == ("powerpc", "qspinlock")
    assert relative(own, "spin") != relative(generic, "spin")
    text = bigiron("predict", study.folder, *asked, "--samples", "8").out
    assert "spinlocks are those of POWER since kernel 6.2" in " ".join(text.split())


def test_the_same_seed_gives_the_same(tmp_path: Path) -> None:
    study = traced(tmp_path / "s", two=events(2))
    first, again, other = (
        answered(study, "--machine", XEON, "--tasks", "8", "--seed", seed) for seed in ("1", "1", "2")
    )
    assert first == again != other


def test_another_architecture_than_the_machine_s_is_named(tmp_path: Path) -> None:
    study = traced(tmp_path / "s", v=events(1))
    asked = ("--tasks", "2", "--samples", "8")
    says = "recorded on x86_64, whose instructions, page faults and TLB flushes are not those of aarch64"
    for machine, architecture in (("graviton3", "aarch64"), (XEON, "x86_64")):
        document = answered(study, "--machine", machine, *asked)
        assert (document["recorded_on"], document["architecture"]) == ("x86_64", architecture)
        text = " ".join(bigiron("predict", study.folder, "--machine", machine, *asked).out.split())
        assert (says in text) == (architecture != "x86_64")


def test_a_machine_whose_file_names_no_architecture_has_that_of_the_kernels(tmp_path: Path) -> None:
    study = traced(tmp_path / "s", "aarch64", v=events(1))
    mine = tmp_path / "mine.toml"
    mine.write_text(machine_files.text("graviton3").replace('architecture = "aarch64"\n', ""))
    document = answered(study, "--machine", str(mine), "--tasks", "2")
    assert (document["recorded_on"], document["architecture"]) == ("aarch64", "aarch64")


def test_a_rate_that_cache_lines_do_not_allow_is_counted_or_refused(tmp_path: Path) -> None:
    machine = machine_files.load(XEON)
    lines = [ReplayLine(f"line {number}", "shared") for number in range(8)]
    accesses = [Event("access", 0, number, "atomic") for number in range(8)]
    program = ReplayProgram(lines, [], [[event for one in accesses for event in (Event("work", 100.0), one)]])

    def missed(given: float) -> int:
        options = ReplayOptions(machine, [2], samples=16, known=KnownRate("v", 2, given))
        return replay({"v": lambda _: program}, options).missed

    assert missed(2e6) == 0 < missed(4e6) <= 8
    with pytest.raises(UserError, match="16 of 16 samples miss the given rate of 2 tasks, 50 M/s, at every"):
        missed(5e7)
    study = traced(tmp_path / "s", v=events(1))
    answer = bigiron("predict", study.folder, "--machine", XEON, "--one-task", "1e9", *ASKED)
    assert answer.status == 2 and "8 of 8 samples miss the given rate of 1 task" in answer.complaint, answer


def test_a_known_rate_sets_how_fast_instructions_are() -> None:
    machine = machine_files.load(XEON)
    program = ReplayProgram([], [], [[Event("work", 5000.0)]])
    found = replay(
        {"work": lambda _: program}, ReplayOptions(machine, [8], samples=8, known=KnownRate("work", 1, 1e6))
    )
    assert found.variants["work"].throughput[:, 0] == pytest.approx([1e6] * 8, rel=0.02)
    assert (found.slower > 0.2).all()


def test_without_a_rate_how_fast_one_task_is_is_a_range() -> None:
    """Waiting for one line shows in figures relative to one task, less in operations per second."""
    machine = machine_files.load(XEON)
    line = ReplayLine("count", "shared")
    program = ReplayProgram([line], [], [[Event("work", 5000.0), *[Event("access", 0, 0, "atomic")] * 2]])
    options = ReplayOptions(machine, [24], samples=64)
    given, told = (
        replay({"v": lambda _: program}, replace(options, known=known))
        for known in (None, KnownRate("v", 1, 1.8e6))
    )
    assert SPEED in given.unknowns and SPEED not in told.unknowns
    one, many = given.variants["v"].throughput.T
    assert one.max() / one.min() > 4
    relative, per_s = of_samples(many / one), of_samples(many)
    assert relative.high / relative.low > 1.5 * per_s.high / per_s.low
    faster = replace(options, constants=replace(FITTED, instructions=Constant(0.4, 1)))
    slower = replace(options, constants=replace(FITTED, instructions=Constant(0.8, 1)))
    ones = [replay({"v": lambda _: program}, of).variants["v"].throughput[:, 0] for of in (faster, slower)]
    assert np.median(ones[0]) == pytest.approx(2 * np.median(ones[1]), rel=0.05)


def test_operations_per_second_are_shown_without_a_rate_too(tmp_path: Path) -> None:
    study = traced(tmp_path / "s", two=events(2))
    text = bigiron("predict", study.folder, "--machine", XEON, "--tasks", "1,24", "--samples", "8").out
    assert "predicted, operations/s" in text
    assert "The rate of one task was not given (--one-task)" in " ".join(text.split())


def test_what_goes_from_task_to_task_is_no_line_that_all_wait_for() -> None:
    """A sheaf of a slab cache's objects: after some time each of eight CPUs has had each of eight."""
    rows = [
        (task, operation, number, "access", 100, line, "write", object)
        for task in range(8)
        for operation in range(8)
        for number, (line, object) in enumerate(
            [(100 + (task + operation) % 8, "struct slab_sheaf.size"), (7, "struct aa_label.count")]
        )
    ]
    columns = ["task", "operation", "sequence", "kind", "instructions", "line", "access", "object"]
    program = trace.program(pl.DataFrame(rows, schema=columns, orient="row"))
    scopes = {line.name: line.scope for line in program.lines}
    assert scopes == {"struct slab_sheaf.size": "task", "struct aa_label.count": "shared"}


def test_what_each_node_has_is_one_a_node_also_where_several_were_recorded() -> None:
    """Each of two nodes has a lock, which half of the tasks take; and one line that all touch."""
    rows = [
        (task, operation, number, kind, 100, line + (task // 4 if line < 9 else 0), lock, access, object)
        for task in range(8)
        for operation in range(4)
        for number, (kind, line, lock, access, object) in enumerate(
            [
                ("lock", 1, "spin_lock", None, f"struct zone.lock (Normal, node {task // 4})"),
                ("access", 3, None, "write", f"struct zone.free_area (Normal, node {task // 4})"),
                ("unlock", 1, "spin_lock", None, f"struct zone.lock (Normal, node {task // 4})"),
                ("access", 9, None, "atomic", "struct aa_label.count"),
            ]
        )
    ]
    columns = ["task", "operation", "sequence", "kind", "instructions", "line", "lock", "access", "object"]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    program = trace.program_of_followed(trace.whole(table), nodes=2)
    assert [line.scope for line in program.lines] == ["node", "node", "shared"]
    assert [(lock.kind, lock.line) for lock in program.locks] == [("spinlock", 0)]
    assert len({tuple(operation) for operation in program.operations}) == 1


def test_an_interval_holds_ranges_and_not_only_seeds() -> None:
    machine = machine_files.load(XEON)
    line = ReplayLine("count", "shared")
    program = ReplayProgram([line], [], [[Event("work", 2000.0), Event("access", 0, 0, "atomic")]])
    options = ReplayOptions(machine, [24], samples=64, known=KnownRate("v", 1, 2e6))
    found = replay({"v": lambda _: program}, options)
    interval = of_samples(found.variants["v"].throughput[:, 1])
    assert 1.3 < interval.high / interval.low < 4
    assert len(np.unique(found.unknowns["core transfer"])) == 64


@pytest.mark.slow
@pytest.mark.parametrize("samples", [19, 64])
def test_one_more_draw_lies_in_an_interval_with_90_percent(samples: int) -> None:
    chance = np.random.default_rng(1)
    held = [
        of_samples(chance.standard_normal(samples)).holds(chance.standard_normal()) for _ in range(10_000)
    ]
    assert np.mean(held) == pytest.approx(0.9, abs=0.01)


def test_what_the_model_leaves_out_is_in_the_interval() -> None:
    machine = machine_files.load(XEON)
    program = ReplayProgram(
        [ReplayLine("count", "shared")],
        [],
        [[Event("work", 2000.0), Event("access", 0, 0, "atomic")]],
    )
    alone = ReplayProgram([], [], [[Event("work", 2000.0)]])
    none, some = (replace(FITTED, model_error=error) for error in (0.0, 0.3))
    for of, wider in (program, 1.3), (alone, 1.0):
        widths = []
        for constants in none, some:
            known = KnownRate("v", 1, 2e6)
            options = ReplayOptions(machine, [24], samples=64, known=known, constants=constants)
            found = replay({"v": lambda _, of=of: of}, options)  # type: ignore[misc]
            interval = of_samples(found.variants["v"].throughput[:, 1])
            widths.append(interval.high / interval.low)
        assert widths[1] >= wider * widths[0]
        assert found.variants["v"].throughput[:, 0] == pytest.approx([2e6] * 64, rel=0.02)


def counts(path: str, function: str, **columns: object) -> dict[str, object]:
    return {"cpu": 0, "context": "process", "path": path, "function": function, **columns}


@pytest.mark.parametrize(
    ("entry", "own", "clears"),
    [
        (("asm_exc_page_fault",), ("asm_exc_page_fault", 8.5), ("clear_page_erms", 4)),
        (
            ("el0t_64_sync", "el0t_64_sync_handler", "el0_da", "do_mem_abort"),
            ("do_mem_abort", 24),
            ("clear_page", 264),
        ),
    ],
)
def test_page_faults_are_laid_out_one_by_one(
    entry: tuple[str, ...], own: tuple[str, float], clears: tuple[str, float]
) -> None:
    """Eight faults, each of which clears a page and takes a lock, give eight of each, alternating."""
    fault, (function, each), (clear, per_page) = ";".join(entry), own, clears
    work = [
        counts(fault.rpartition(";")[0], function, instructions=8 * each),
        counts(fault, clear, instructions=8 * per_page),
    ]
    taken = counts(fault, "_raw_spin_lock", lock=64, object="zone", acquisitions=8, instructions=80)
    of = {"line": 64, "address": 64, "object": "zone", "reads": 8, "writes": 8, "pc": 1}
    work = [{**row, "cpu": cpu} for row in work for cpu in (0, 1)]
    touched = [{**counts(fault, "_raw_spin_lock", **of), "cpu": cpu} for cpu in (0, 1)]
    locks = [{**taken, "cpu": cpu} for cpu in (0, 1)]
    tables = [pl.DataFrame(rows) for rows in (touched, locks, work)]
    counted = synthetic_operation.count(*tables, operations=2, tasks=2, most_tasks=64, threads=True)
    assert counted.faults == pytest.approx(8)
    kinds = [event.kind for event in counted.program(np.random.default_rng(1)).operations[0]]
    assert kinds.count("fill") in range(6, 11) and kinds.count("lock") in range(6, 11)
    last_fill = len(kinds) - 1 - kinds[::-1].index("fill")
    assert kinds.index("fill") < last_fill and "lock" in kinds[kinds.index("fill") : last_fill]


def test_calls_are_in_the_order_of_their_names_as_draws_go_by_it() -> None:
    """The order in which polars adds up rows differs from process to process, and so would predictions."""
    names = [f"f{number:03}" for number in range(200)]
    nothing_touched, nothing_taken = (pl.DataFrame(schema=dict(of.SCHEMA)) for of in (conflicts, locks))
    work = pl.DataFrame([counts("", name, instructions=800) for name in names])
    tables = (nothing_touched, nothing_taken, work)
    counted = synthetic_operation.count(*tables, operations=8, tasks=2, most_tasks=64, threads=False)
    assert list(counted.root.calls) == names


def test_reads_beside_a_lock_are_as_many_as_it_is_taken_and_given_back() -> None:
    """A lock's line is written whenever it is taken: so often what lies beside it has to be read again."""
    fault = "asm_exc_page_fault"
    of = {"line": 64, "pc": 1}
    rows = [
        counts(fault, "down_read", **of, address=64, object="mmap_lock", reads=16, writes=16),
        counts(fault, "handle_mm_fault", **{**of, "pc": 2}, address=72, object="pgd", reads=10, writes=0),
    ]
    taken = counts(fault, "down_read", lock=64, object="mmap_lock", acquisitions=8, instructions=8000)
    work = [counts("", fault, instructions=8 * 9), counts(fault, "handle_mm_fault", instructions=72_000)]
    both = [[{**row, "cpu": cpu} for row in table for cpu in (0, 1)] for table in (rows, [taken], work)]
    tables = [pl.DataFrame(table) for table in both]
    counted = synthetic_operation.count(*tables, operations=2, tasks=2, most_tasks=64, threads=True)
    operations = counted.program(np.random.default_rng(1)).operations
    reads = [sum(event[0::3] == ("access", "read") for event in operation) for operation in operations]
    assert np.mean(reads) == pytest.approx(10, abs=1)  # and not the 4 of a line that no CPU writes


def test_a_lock_of_user_space_is_refused() -> None:
    rows = [
        {"cpu": cpu, "context": "process", "function": function, "line": 64, "writes": 1}
        for cpu in (0, 1)
        for function in ("user:___pthread_mutex_lock", "main")
    ]
    assert synthetic_operation.lock_of_user_space(pl.DataFrame(rows)) == "user:___pthread_mutex_lock"
    assert not synthetic_operation.lock_of_user_space(pl.DataFrame(rows).filter(pl.col("cpu") == 0))


def test_a_numa_aware_lock_is_better_across_sockets() -> None:
    """However short the lock is held: who is next looks at the one behind, held or not."""
    held = [
        Event("lock", 0, 0, "write"),
        Event("work", 100),
        Event("unlock", 0, 0, "write"),
    ]
    program = ReplayProgram(
        [ReplayLine("l", "shared")], [ReplayLock("l", "spinlock", 0)], [[Event("work", 500), *held]]
    )
    machine = machine_files.load("xeon-e7-8895v3-x4")
    stock, cna = (
        replay({"v": lambda _: program}, ReplayOptions(machine, [36], samples=8, lock=lock))
        .variants["v"]
        .throughput
        for lock in ("qspinlock", "cna")
    )
    assert np.median(cna[:, 1]) > 1.5 * np.median(stock[:, 1])


def test_measured_points_are_shown_next_to_the_predicted(tmp_path: Path) -> None:
    study = traced(tmp_path / "s", two=events(2))
    points = tmp_path / "points.csv"
    points.write_text("tasks,throughput\n1,2000000\n8,9700000\n24,9600000\n")
    answer = bigiron(
        *("predict", study.folder, "--machine", XEON, "--one-task", "2e6", "--measured", points),
        *("--samples", "16"),
    )
    assert answer.status == 0 and "9.6 M" in answer.out and "off by" in answer.out
    relative_ = bigiron(
        *("predict", study.folder, "--machine", XEON, "--measured", points, "--format", "csv"),
        *("--samples", "16"),
    )
    rows = list(csv.DictReader(io.StringIO(relative_.out)))
    shown = {row["tasks"]: row["measured"] for row in rows}
    assert {tasks: value for tasks, value in shown.items() if value} == {"1": "1.0", "8": "4.85", "24": "4.8"}
    assert {"2", "16", "48"} <= shown.keys()  # all that are predicted without it


def test_a_rate_is_that_of_the_first_variant_or_refused(tmp_path: Path) -> None:
    """Where the first cannot be replayed, it must not be taken for the rate of the second."""
    points = tmp_path / "points.csv"
    points.write_text("tasks,throughput\n1,2000000\n8,9700000\n")
    study = traced(tmp_path / "s", first=cut("middle"), second=events(1))
    for options in ["--one-task", "2e6"], ["--measured", str(points)]:
        answer = bigiron("predict", study.folder, "--machine", XEON, *options)
        assert answer.status == 2 and f"{options[0]}: of first" in answer.complaint, answer
        assert "was cut" in answer.complaint and f"leave out {options[0]}" in answer.complaint
    kept = traced(tmp_path / "t", first=events(1), second=cut("middle"))
    assert answered(kept, "--machine", XEON, "--measured", str(points))["points"][0]["measured"] == 1


def test_a_known_rate_is_replayed_first() -> None:
    """It sets the pace of instructions for every other variant, in whatever order they stand."""
    machine = machine_files.load(XEON)

    def source(instructions: float) -> Any:
        return lambda _: ReplayProgram([], [], [[Event("work", instructions)]])

    sources = {"twice": source(10_000.0), "known": source(5000.0)}
    found = replay(sources, ReplayOptions(machine, [8], samples=8, known=KnownRate("known", 1, 1e6)))
    assert list(found.variants) == ["twice", "known"]
    assert found.variants["known"].throughput[:, 0] == pytest.approx([1e6] * 8, rel=0.02)
    assert found.variants["twice"].throughput[:, 0] == pytest.approx([5e5] * 8, rel=0.02)


def test_a_report_says_how_it_was_ranked(tmp_path: Path) -> None:
    """Its commands give the same order: with the machine, and what is known of it."""
    study = traced(tmp_path / "s", two=events(2))
    points = tmp_path / "my points.csv"
    points.write_text("tasks,throughput\n1,2000000\n8,9700000\n")
    options = ("--machine", XEON, "--one-task", "2e6", "--measured", points)
    report = bigiron("report", study.folder, *options, "--format", "markdown").out
    (command,) = [line for line in report.splitlines() if line.startswith("bigiron report ")]
    assert shlex.split(command)[2:-2] == [
        "s", "--machine", XEON, "--one-task", "2000000.0", "--measured", str(points)
    ]  # fmt: skip


def test_names_are_text_in_markdown(tmp_path: Path) -> None:
    """A bit field's name has a `|`, which would be another column."""
    bits = events(2).with_columns(object=pl.lit("task_struct.sched_migrated|in_iowait"))
    study = traced(tmp_path / "s", a_b_c=bits, other=events(0))
    answer = bigiron(
        *("predict", study.folder, "--machine", XEON, "--tasks", "24", "--samples", "16"),
        *("--format", "markdown"),
    )
    rows = [line for line in answer.out.splitlines() if line.startswith("|")]
    assert any("sched\\_migrated\\|in\\_iowait" in row for row in rows), answer.out
    for table in re.split(r"\n(?!\|)", answer.out):
        of_table = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines() if row.startswith("|")}
        assert len(of_table) <= 1 and of_table <= {4, 5}, table
    assert "**a\\_b\\_c: " in answer.out


def test_there_is_one_knee() -> None:
    """A dip between two numbers of tasks is no knee, for `predict` as for `knee`."""
    tasks, dips = [1, 2, 4, 8], np.array([[1, 1.4, 3.9, 7.9]] * 8)
    shares: Any = [[{}] * 4] * 8
    assert knee.knee(dict(zip(tasks, dips[0], strict=True))) is None
    assert prediction.curve("v", tasks, dips, shares, {}, tasks).knee is None
    bends = np.array([[1, 1.9, 3.5, 4.0]] * 8)
    found = prediction.curve("v", tasks, bends, shares, {}, tasks).knee
    assert found and found.value == knee.knee(dict(zip(tasks, bends[0], strict=True))) == 4
    assert (found.low, found.high) == (4, 8)  # what was replayed on both sides


def test_one_number_of_tasks_shows_no_knee(tmp_path: Path) -> None:
    study = traced(tmp_path / "s", v=events(2))
    answer = bigiron("predict", study.folder, "--machine", XEON, "--tasks", "48", "--samples", "8")
    assert answer.status == 0, answer.err
    assert "knee: unknown: it takes three numbers of tasks, of which 1 is one" in answer.out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--machine", "cray"], "no machine 'cray'"),
        (["--machine", "uniform"], "does not describe its processors"),
        (["--machine", XEON, "--tasks", "64"], "64 tasks: xeon-5418y-x2 has 48 CPUs"),
        (["--machine", XEON, "--one-task", "0"], "--one-task 0.0"),
        (["--machine", XEON, "--measured", "POINTS"], "no columns tasks and throughput"),
        (["--machine", XEON, "--measured", "OPEN"], "is not a CSV file: field larger than field limit"),
        (["--machine", XEON, "--one-task", "2e6", "--measured", "UNITS"], "the units differ"),
        (["--machine", "UPSIDE"], "use 0 < low <= high"),
        (["--machine", "OUTSIDE"], "the figure itself, is not in"),
        (["--machine", "OTHER"], "the file has no such figure"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path: Path, options: list[str], complaint: str) -> None:
    study = traced(tmp_path / "s", two=events(2))
    text = machine_files.text(XEON)
    files = {
        "POINTS": "cpus,rate\n1,2\n",
        "OPEN": 'tasks,throughput\n1,"' + "2" * (1 << 18),
        "UNITS": "tasks,throughput\n1,1\n8,4.8\n",
        "UPSIDE": text.replace("low = 36\nhigh = 72", "low = 72\nhigh = 36"),
        "OUTSIDE": text.replace("low = 36\nhigh = 72", "low = 60\nhigh = 72"),
        "OTHER": text.replace('of = "core transfer"', 'of = "tile transfer"'),
    }
    for name, content in files.items():
        (tmp_path / f"{name}.toml").write_text(content)
    given = [str(tmp_path / f"{option}.toml") if option in files else option for option in options]
    answer = bigiron("predict", study.folder, *given)
    assert answer.status == 2 and complaint in answer.complaint, answer


def woken(target: pl.Expr | None) -> pl.DataFrame:
    """A trace in which each operation wakes that task at its end."""
    kind = pl.col("kind").str.replace("exit", "wake")
    return events(1).with_columns(kind=kind, target=pl.lit(None, pl.Int64) if target is None else target)


def cut(what: str) -> pl.DataFrame:
    whole = events(1, lock="mutex_lock")
    return {
        "middle": whole.filter(pl.col("sequence") != 1),
        "end": whole.filter(pl.col("sequence") < 3),
        "kind": whole.with_columns(kind=pl.col("kind").str.replace("exit", "jump")),
        "column": whole.drop("instructions"),
        "sleep": whole.with_columns(kind=pl.col("kind").str.replace("exit", "sleep")),
        "wake": woken(None),
        "wake task": woken((pl.col("task") + 1) % 4),
        "wake seldom": pl.concat(
            [
                *(events(1).with_columns(operation=pl.col("operation") + 2 * times) for times in range(16)),
                woken(None)
                .filter(operation=0)
                .with_columns(operation=pl.lit(32, pl.Int64), instructions=pl.col("instructions") * 10),
            ],
            how="diagonal",
        ),
    }[what]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("middle", "was cut: operation 0 of task 0 lacks events"),
        ("end", "was cut: operation 0 of task 0 ends with a lock held"),
        ("kind", "unknown kind: jump"),
        ("column", "has no instructions"),
        ("sleep", "its tasks sleep for others than locks"),
        ("wake", "its tasks wake others than themselves"),
        ("wake task", "its tasks wake others than themselves"),
        ("wake seldom", "its tasks wake others than themselves"),
    ],
)
def test_a_trace_that_is_not_whole_is_refused(tmp_path: Path, what: str, why: str) -> None:
    study = traced(tmp_path / "s", cut=cut(what), whole=events(1))
    (refused,) = answered(study, "--machine", XEON, "--tasks", "2")["refused"]
    assert refused["variant"] == "cut" and why in refused["why"]


def test_a_task_may_wake_itself(tmp_path: Path) -> None:
    """As a signal to itself does."""
    study = traced(tmp_path / "s", woken=woken(pl.col("task")))
    assert not answered(study, "--machine", XEON, "--tasks", "2")["refused"]


def test_a_study_without_what_it_takes_is_refused(tmp_path: Path) -> None:
    variant = Variant(name="v", kernel="debian/6.12")
    study = store.create(
        tmp_path / "s", Spec(workload="open1", probes=["conflicts"], cpus=[4], variant=[variant]), None
    )
    (cell,) = study.plan()
    study.add(store.new_record(cell, "vm"), {"conflicts": ProbeTable(pl.DataFrame({"cpu": [0]}))})
    answer = bigiron("predict", study.folder, "--machine", XEON)
    assert answer.status == 2
    assert (
        f"`bigiron run {study.folder} --probe locks,instructions` to measure its cells again with them"
        in answer.complaint
    )


def test_a_trace_s_lines_and_locks() -> None:
    found = trace.program(events(2, lock="down_read"))
    assert found.lines == [ReplayLine("aa_label.count", "shared"), ReplayLine("file_lock", "shared")]
    assert found.locks == [ReplayLock("file_lock", "rwsem", 1)]
    kinds = [event.kind for event in found.operations[0] if event.kind != "work"]
    assert kinds == ["system call", "access", "access", "lock", "unlock"]


def test_a_lock_at_which_a_trylock_looks_and_which_it_takes_comes_once() -> None:
    """Others' reads, and a look that did not end in taking it, are transfers of their own."""

    def kinds(function: str, instructions: int) -> list[str]:
        taken = (("lock", "", "down_read", "f"), ("unlock", "", "down_read", "f"))
        table = trace_of_steps(("access", "read", "", function), *taken)
        program = trace.program(table.with_columns(instructions=pl.lit(instructions)))
        return [event.kind for event in program.operations[0] if event.kind != "work"]

    assert kinds("down_read_trylock", 10) == ["lock", "unlock"]
    assert kinds("down_read_trylock", 500) == kinds("f", 10) == ["access", "lock", "unlock"]


def test_the_line_of_a_lock_that_is_held_is_had_again_for_each_access() -> None:
    """Who waits for the lock takes its line away; without a lock a task finds it where it had it."""
    two = [("access", "write", "", "f")] * 2
    taken = (("lock", "", "spin_lock", "f"), *two, ("unlock", "", "spin_lock", "f"))

    def accesses(*steps: tuple[str, str, str, str]) -> int:
        table = trace_of_steps(*steps).with_columns(instructions=pl.lit(10))
        return [event.kind for event in trace.program(table).operations[0]].count("access")

    assert (accesses(*two), accesses(*taken), accesses(*taken, *two)) == (1, 2, 3)


def test_what_is_downgraded_is_given_back_by_a_reader() -> None:
    table = trace_of_steps(
        ("lock", "", "down_write", "f"),
        ("downgrade", "", "down_write", "f"),
        ("unlock", "", "down_write", "f"),
    )
    program = trace.program(table)
    assert [event[::3] for event in program.operations[0] if event.kind != "work"] == [
        ("lock", "write"), ("downgrade", ""), ("unlock", "read"),
    ]  # fmt: skip
    machine = machine_files.load(XEON)
    assert (
        replay({"of": lambda _: program}, ReplayOptions(machine, [8], samples=2)).variants["of"].throughput
        > 0
    ).all()


def test_a_downgrade_of_what_is_not_held_is_refused() -> None:
    down = ("downgrade", "", "down_write", "f")
    assert "downgrades a lock that it has not taken" in trace.why_not(trace_of_steps(down))
    with pytest.raises(trace.CutTraceError, match="not held to write"):
        trace.program(trace_of_steps(("lock", "", "down_read", "f"), down, ("unlock", "", "down_read", "f")))


def test_a_lockref_is_counted_with_its_spinlock_in_sight() -> None:
    """Where nothing takes its lock it is a count; who has the lock itself does not count so."""
    count = ("access", "atomic", "", "lockref_get")
    taken = (("lock", "", "spin_lock", "f"), ("unlock", "", "spin_lock", "f"))
    program = trace.program(trace_of_steps(*taken, count))
    assert [event.kind for event in program.operations[0] if event.kind != "work"][-1] == "lockref"
    machine = machine_files.load(XEON)
    assert (
        replay({"of": lambda _: program}, ReplayOptions(machine, [8], samples=2)).variants["of"].throughput
        > 0
    ).all()
    for steps in [(count,), (taken[0], count, taken[1])]:
        events_of = [event for event in trace.program(trace_of_steps(*steps)).operations[0]]
        assert [event.how for event in events_of if event.kind == "access"] == ["exchange"]


def test_a_ratio_says_from_where_on_it_is_sure() -> None:
    base = np.array([[1.0, 2.0, 2.0], [1.0, 2.2, 2.1]])
    found = prediction.ratio("a", "b", [1, 2, 4], base, base * [1.0, 1.01, 1.5])
    assert found.differs_from == 2
    assert prediction.ratio("a", "b", [1, 2, 4], base, base).differs_from is None
    crosses = prediction.ratio("a", "b", [1, 2, 4], base, base * [0.8, 1.2, 1.5])
    assert crosses.differs_from == 2


def test_a_program_that_is_wrong_is_refused() -> None:
    with pytest.raises(ValueError, match="line 3 is none"):
        _sim.Program([("a", "shared")], [], [[("access", 0.0, 3, "read")]])
    with pytest.raises(ValueError, match="gives a back without having it"):
        _sim.Program([("a", "shared")], [("a", "mutex", 0)], [[("unlock", 0.0, 0, "write")]])


def test_what_one_variant_executes_more_of_is_not_added_to_others(tmp_path: Path) -> None:
    """Not even where none of their events is in the function: a case's kernel that never sums had sums."""
    study = traced(tmp_path / "s", sums=events(0), reads=events(0))
    found = study_prediction.predict(
        study,
        XEON,
        [1],
        samples=8,
        extrapolated={"sums": Extrapolated({"__percpu_counter_sum": 5000.0}, cpus=48)},
    )
    assert [one.extrapolated.instructions for one in found.recordings] == [5000, 0]
    (ratio,) = found.ratios
    assert ratio.points[1].value > 3


def test_instructions_that_take_long_make_the_operations_of_their_variant_longer(tmp_path: Path) -> None:
    study = traced(tmp_path / "s", without=events(2), having=events(2))

    def ratio(longer: dict[str, dict[str, float]] | None) -> float:
        found = study_prediction.predict(study, XEON, [1], samples=8, longer=longer)
        return found.ratios[0].points[1].value

    assert ratio(None) == ratio({"without": {}, "having": {}}) == 1.0
    slower = ratio({"having": {"read_tsc": 300.0}})
    assert slower < 0.95 and ratio({"without": {"read_tsc": 300.0}}) > 1.05
    more = events(2, more=300)
    assert traced(tmp_path / "t", without=events(2), having=more)
    counted = study_prediction.predict(store.open_study(tmp_path / "t"), XEON, [1], samples=8)
    assert slower == pytest.approx(counted.ratios[0].points[1].value, rel=0.01)


def test_operations_that_differ_much_are_all_replayed(tmp_path: Path) -> None:
    """One in 65 that takes longer than the others together, beside as many that share its instructions."""
    light, seldom = events(0, tasks=8), events(100, tasks=8).filter(operation=1)
    of_its_own = {"operation": pl.lit(64, pl.Int64), "line": pl.col("task") + 1}
    often = [light.with_columns(operation=pl.col("operation") + 2 * times) for times in range(32)]
    uneven = pl.concat([*often, seldom.with_columns(**of_its_own)])
    even = events(0, tasks=2, more=round((seldom["instructions"].sum() / 8 - 1100) / 65))
    study = traced(tmp_path / "s", uneven=uneven, even=even)
    document = answered(study, "--machine", XEON, "--tasks", "1,2", "--samples", "64")
    (ratio,) = document["ratios"]
    assert [point["ratio"] for point in ratio["points"]] == [pytest.approx(1, rel=0.1)] * 2
    low, _, high = relative(document, "uneven")[2]
    assert 1.7 < low < high < 2.3


@pytest.mark.parametrize("probes", ["conflicts,locks,instructions", "conflicts,locks,instructions,trace"])
def test_operations_of_user_mode_are_refused(tmp_path: Path, probes: str) -> None:
    """Whatever limits them, the kernel's counts have nothing of it: they would be said to scale."""
    measured(
        *("counters_packed", "--kernel", "debian/6.12", "--cpus", "2", "--probe", probes),
        *("--operations", "20", "-o", tmp_path / "s"),
    )
    answer = bigiron("predict", tmp_path / "s", "--machine", XEON)
    assert answer.status == 2 and "never enter the kernel" in answer.complaint


@pytest.mark.parametrize("kernel", ["debian/5.10", "debian/7.2"])
def test_the_smallest_system_call_enters_the_kernel(tmp_path: Path, kernel: str) -> None:
    measured(
        *("getppid1", "--kernel", kernel, "--cpus", "2", "--probe", "conflicts,locks,instructions"),
        *("--operations", "20", "-o", tmp_path / "s"),
    )
    document = answered(store.open_study(tmp_path / "s"), "--machine", XEON, "--tasks", "2")
    assert not document["refused"] and document["recordings"][0]["instructions"] > 100


def test_counts_of_a_real_kernel(tmp_path: Path) -> None:
    """AppArmor's label limits open1, and nothing does without it."""
    study = tmp_path / "s"
    measured(
        *("open1", "--kernel", "debian/6.12", "--boot-sweep", "apparmor=1,0", "--cpus", "4"),
        *("--probe", "conflicts,locks,instructions", "--operations", "200", "-o", study),
    )
    document = answered(store.open_study(study), "--machine", XEON, "--tasks", "1,24", "--one-task", "2e6")
    assert document["from"] == "counts" and not document["refused"]
    with_label, without = (point for point in document["points"] if point["tasks"] == 24)
    assert with_label["limits"][0]["object"].startswith("struct aa_label.count")
    assert with_label["throughput_low"] < 9.6e6 < with_label["throughput_high"]
    assert without["throughput_per_s"] > 3e7
    (ratio,) = document["ratios"]
    assert ratio["differs_from"] == 24
