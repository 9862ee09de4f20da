"""Blocked time: counts that the workload knows, totals as in the kernel's trace, stacks that are known."""

import json
import re
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from conftest import WORKLOADS, bigiron, measured

from bigiron import compile, kernels, libbpf, open_study, probes, workloads
from bigiron.analysis.probes import blocked
from bigiron.architectures import X86_64
from bigiron.errors import UserError
from bigiron.machines.vm import vm
from bigiron.machines.vm.topology import Topology
from bigiron.probes.blocked import SCHEMA, STATES

TRACING = "/sys/kernel/tracing"
SLEEPS = workloads.from_file(WORKLOADS / "sleeps.c")
NR_SLEEPS = 50


def row(context: str, task: str, state: str, path: str, count: int, total_ns: int) -> dict[str, object]:
    return {
        "context": context, "task": task, "pid": 7, "tgid": 7, "state": state, "path": path, "user_path": "",
        "count": count, "total_ns": total_ns, "max_ns": total_ns, "histogram": [count],
    }  # fmt: skip


ROWS = pl.DataFrame(
    [
        row("process", "init", "D", "write;store;work_on_cpu;schedule;__schedule", 1, 5000),
        row("process", "kworker/0:1", "D", "kthread;cpu_down;synchronize_rcu;schedule;__schedule", 2, 4000),
        row("process", "kworker/1:1", "D", "kthread;cpu_down;synchronize_rcu;schedule;__schedule", 1, 2000),
        row("kthread", "rcu_sched", "I", "kthread;rcu_gp_kthread;schedule;__schedule", 9, 90000),
    ],
    schema=SCHEMA,
)


def test_places_add_up_over_tasks_the_longest_first() -> None:
    found = blocked.places(ROWS, ("process",)).rows()
    assert found == [
        ("synchronize_rcu < cpu_down < kthread", "D", 3, 6000, 4000),
        ("work_on_cpu < store < write", "D", 1, 5000, 5000),
    ]
    assert blocked.places(ROWS)["total_ns"].sum() == 101000


def test_stacks_are_per_operation() -> None:
    found = blocked.stacks(ROWS, 2, ("process",)).filter(task="kworker/0:1")
    assert found.select("microseconds_per_op", "times_per_op").row(0) == (2.0, 1.0)


def sleep(kernel: str, *job: str, with_bpf: bool = True) -> vm.MachineOutcome:
    """Run a round of sleeps on two CPUs."""
    found = kernels.find(kernel)
    machine = vm.VirtualMachine(
        architecture=X86_64,
        kernel=found.image,
        release=found.release,
        from_snapshot=True,
        agent=compile.agent(SLEEPS, "gcc", libbpf.flags(X86_64) if with_bpf else ()),
        job="\n".join(
            ["mode process", "cpus 2", "tasks 1", "patience_s 100", "blocked /blocked.bpf.o", *job, ""]
        ),
        topology=Topology(cores=2),
        memory_mib=vm.memory_mib(2),
        deadline_s=200,
        files=(compile.bpf("blocked"),),
    )
    return vm.run(machine, threading.Event(), lambda _stage: None)


def table_of(outcome: vm.MachineOutcome) -> probes.ProbeTable:
    request = probes.CellRequest(cpus=2, tasks=1, operations=NR_SLEEPS, mode="process")
    return probes.probe("blocked").collect(
        probes.RawOutput(outcome.messages, Path(), X86_64, Path(), request)
    )


def sleeps_in(table: probes.ProbeTable) -> pl.DataFrame:
    return table.rows.filter(pl.col("path").str.contains("hrtimer_nanosleep"), state="S")


def test_every_sleep_is_counted_and_its_time_is_what_the_trace_says() -> None:
    outcome = sleep(
        "debian/6.1",
        "blocked_user",
        f"set {TRACING}/trace_clock=mono",
        f"set {TRACING}/events/sched/sched_switch/trigger=stacktrace",
        f"set {TRACING}/events/sched/sched_switch/enable=1",
        f"read {TRACING}/trace",
    )
    table = table_of(outcome)
    assert (table.facts["way"], table.facts["lost"], table.facts["operations"]) == ("bpf", 0, [NR_SLEEPS])
    (found,) = sleeps_in(table).to_dicts()
    assert found["count"] == sum(found["histogram"]) == NR_SLEEPS
    # From glibc 2.41 on, every call that a thread can be cancelled in is made by one function.
    assert re.search("nanosleep|;__internal_syscall_cancel$", found["user_path"])
    (trace,) = [message.content["lines"] for message in outcome.messages if message.type == "file"]
    slept = sleeps_of(trace, found["pid"])
    # Every other one is not in an operation.
    assert len(slept) == 2 * NR_SLEEPS
    assert found["total_ns"] / 1e9 == pytest.approx(sum(slept[::2]), rel=0.01)


@dataclass
class Absence:
    """From when a task left its CPU, until it came back."""

    left: float
    slept: bool = False
    seconds: float = 0.0


def sleeps_of(trace: list[str], pid: int) -> list[float]:
    """Seconds of each sleep of a task, from the kernel's own events and the stacks that follow them.

    A task that loses its CPU to another while it falls asleep or wakes up does not sleep (state R).
    """
    absences: list[Absence] = []
    last_on: dict[str, Absence | None] = {}  # of each CPU's last event, if the task left there
    dumped = None
    for line in trace:
        if event := re.search(r"\[(\d+)\] \S+ +([\d.]+): (sched_switch|<stack trace>)(.*)", line):
            cpu, time, kind, rest = event.groups()
            dumped = last_on.get(cpu) if kind == "<stack trace>" else None
            if f" prev_pid={pid} " in rest:
                absences.append(Absence(float(time)))
                last_on[cpu] = absences[-1] if " prev_state=S " in rest else None
            elif kind == "sched_switch":
                last_on[cpu] = None
            if f" next_pid={pid} " in rest and absences:
                absences[-1].seconds = float(time) - absences[-1].left
        elif dumped and "hrtimer_nanosleep" in line:
            dumped.slept = True
    return [absence.seconds for absence in absences if absence.slept]


@pytest.mark.parametrize(
    ("since", "left_in", "state"),
    [
        ("since 5.18", "0x1", STATES["S"]),
        ("before", "0x1", STATES["R"]),
        ("since 5.18", "0x0", STATES["R"]),  # as sched_yield() leaves
        ("since 5.18", "0x1000", STATES["D"]),  # TASK_RTLOCK_WAIT: PREEMPT_RT
        ("since 5.18", "0x8000", STATES["D"]),  # TASK_FROZEN
    ],
)
def test_a_task_that_is_woken_at_once_has_waited(
    since: str, left_in: str, state: int, tmp_path: Path
) -> None:
    """Waking it changes its state before the tracepoint comes, which has the state that it left in."""
    source, program = Path(__file__).with_name("sched_switch_test.c"), tmp_path / "sched_switch"
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", source, "-o", program]
    subprocess.run(command, check=True)
    assert int(subprocess.check_output([program, since, left_in])) == state


@pytest.mark.parametrize("kernel", ["debian/5.10", "debian/7.2"])
def test_every_kernel_has_the_program(kernel: str) -> None:
    table = table_of(sleep(kernel))
    assert (table.facts["way"], table.facts["lost"]) == ("bpf", 0)
    assert sleeps_in(table)["count"].to_list() == [NR_SLEEPS]


def test_without_bpf_the_scheduler_s_events_give_the_same() -> None:
    table = table_of(sleep("debian/6.1", with_bpf=False))
    assert (table.facts["way"], table.facts["lost"]) == ("tracefs", 0)
    assert table.facts["why_not_bpf"] == "the agent was made without it"
    (found,) = sleeps_in(table).to_dicts()
    assert found["count"] == sum(found["histogram"]) == NR_SLEEPS
    assert found["path"].startswith("entry_SYSCALL_64_after_hwframe;do_syscall_64;")
    assert found["path"].endswith(";schedule;__schedule")
    # 20 ms are from 2^24 ns to 2^25. Shorter is what is left of them if a CPU loses its turn after it has set
    # the timer: on a busy host, once in a thousand times.
    assert sum(found["histogram"][: 24 - 10]) <= NR_SLEEPS / 10


def test_filters() -> None:
    least_us, letters = 2048, "SD"
    states = sum(STATES[letter] for letter in letters)
    table = table_of(sleep("debian/6.12", f"blocked_min_us {least_us}", f"blocked_states {states}"))
    assert sleeps_in(table)["count"].to_list() == [NR_SLEEPS]
    assert set(table.rows["state"]) <= set(letters)
    assert table.rows["max_ns"].min() >= least_us * 1000  # type: ignore[operator]
    assert all(sum(histogram[: 20 - 10]) == 0 for histogram in table.rows["histogram"])


def test_tasks_are_on_their_own_cpus_after_another_probe(tmp_path: Path) -> None:
    """While functions begin and end to be traced, all are on one: each would be off it half of the time."""
    measured(
        "getppid1", "--kernel", "debian/6.12", "--cpus", "2", "--probe", "functions,blocked",
        "--functions", "__do_sys_getppid", "--depth", "1", "--operations", "20000", "-o", tmp_path / "s",
    )  # fmt: skip
    study = open_study(tmp_path / "s")
    (record,) = study.records()
    ready = study.table(record, "blocked").filter(context="process", state="R")
    off = ready.group_by("pid").agg(pl.col("total_ns").sum())["total_ns"].to_list()
    # Work that tracing leaves behind may take the CPU from one of them.
    assert len(off) < 2 or min(off) < 0.25 * record.facts["blocked"]["nanoseconds"]


@pytest.fixture(scope="module")
def hotplug(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three CPUs of a POWER machine taken offline."""
    study = tmp_path_factory.mktemp("blocked") / "s"
    measured(
        "hotplug-offline", "--arch", "ppc64le", "--kernel", "debian/6.1", "--cpus", "4", "--probe", "blocked",
        "-o", study,
    )  # fmt: skip
    return study


def test_power_s_idle_handler_waits_for_a_grace_period(hotplug: Path) -> None:
    answer = bigiron("compare", hotplug, "--probe", "blocked", "--format", "json")
    assert answer.status == 0
    (point,) = json.loads(answer.out)["points"]
    cell = point["cells"]["debian/6.1"]
    assert (cell["way"], cell["operations"]) == ("bpf", 3)  # a kernel without types
    # Debian's compiler has copied cpuidle_uninstall_idle_handler() into its caller.
    stack = re.compile(r"pseries_cpuidle_cpu_dead;cpuidle_pause_and_lock;(\w+;)?synchronize_rcu;")
    waited = [row for row in cell["rows"] if stack.search(row["path"])]
    assert sum(row["count"] for row in waited if row["state"] == "D") == 3
    assert all(row["context"] == "process" for row in waited)


def test_compare_prints_stacks_as_bcc_does(hotplug: Path) -> None:
    answer = bigiron("compare", hotplug, "--probe", "blocked", "--paths", "30")
    assert answer.status == 0
    assert "synchronize_rcu < cpuidle_pause_and_lock" in answer.out
    stack = re.search(
        r"    synchronize_rcu\n    cpuidle_pause_and_lock\n    pseries_cpuidle_cpu_dead\n(    \w+\n)+"
        r"    -                kworker/\S+ \(\d+\)\n        \d+\n\n",
        answer.out,
    )
    assert stack, answer.out
    csv = bigiron("compare", hotplug, "--probe", "blocked", "--format", "csv", "--context", "all").out
    assert "rcu_sched" in csv
    markdown = bigiron("compare", hotplug, "--probe", "blocked", "--format", "markdown").out
    assert "| waited in, 4 CPUs |" in markdown


def test_stacks_are_exported(hotplug: Path) -> None:
    folded = bigiron("export", hotplug, "--probe", "blocked").out
    assert re.search(
        r"^kworker/\S+;ret_from_kernel_thread;kthread;\S+;synchronize_rcu;\S+ \d+$", folded, re.M
    )


def test_bad_input(tmp_path: Path) -> None:
    answer = bigiron("run", "open1", "--kernel", "debian/6.1", "--blocked-min-us", "5", "-o", tmp_path / "s")
    assert (answer.status, answer.complaint) == (
        2, "blocked time is counted by the probe blocked: add it with --probe"
    )  # fmt: skip
    file = tmp_path / "study.toml"
    file.write_text(
        'workload = "open1"\nprobes = ["blocked"]\nblocked_states = "DX"\n'
        '[[variant]]\nname = "v"\nkernel = "debian/6.1"\n'
    )
    answer = bigiron("run", file, "-o", tmp_path / "s")
    assert answer.complaint.startswith("blocked_states = 'DX': use letters of RSDITtP")


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libbpf, "_has", lambda _target, library: library == "libz.a")
    with pytest.raises(UserError, match=r"apt-get install libbpf-dev .* \(no libbpf.a, libelf.a\)"):
        libbpf.flags(X86_64)
