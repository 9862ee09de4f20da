"""Efficiency: shares that add up to all of a CPU's time, and everything that takes part of it by its name."""

import threading
from pathlib import Path

import polars as pl
import pytest
from conftest import bigiron, compared, measured

import bigiron as library
from bigiron import compile, kernels, probes, workloads
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.analysis.probes import efficiency
from bigiron.architectures import X86_64
from bigiron.machines.vm import vm
from bigiron.machines.vm.topology import Topology
from bigiron.probes.efficiency import SCHEMA

ROWS = pl.DataFrame(
    [
        (0, "events", "workload", "a", 60, 1),
        (0, "events", "workload", "b", 30, 1),
        (0, "events", "softirq", "RCU", 10, 5),
        (1, "events", "workload", "a", 100, 1),
        (0, "/proc/schedstat", "running", "", 80, None),
        (0, "/proc/schedstat", "waiting", "", 40, None),
        (1, "/proc/schedstat", "running", "", 100, None),
    ],
    schema=SCHEMA,
    orient="row",
)


def test_shares_are_of_each_cpu_s_time() -> None:
    cell = ProbedCell(ROWS, {"nanoseconds": 200})  # schedstat has no idle time
    found = {row[:3]: row[3:6] for row in efficiency.shares([cell, cell]).iter_rows()}
    assert found == {
        ("events", "workload", ""): (95.0, 90.0, 100.0),
        ("events", "softirq", "RCU"): (5.0, 0.0, 10.0),
        ("/proc/schedstat", "running", ""): (45.0, 40.0, 50.0),
        ("/proc/schedstat", "waiting", ""): (10.0, 0.0, 20.0),
    }


@pytest.fixture(scope="module")
def with_ls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two CPUs compute, and a directory is listed, with and without expedited grace periods."""
    study = tmp_path_factory.mktemp("efficiency") / "s"
    measured(
        *("spin-ls", "--kernel", "debian/6.12", "--cpus", "2", "--probe", "efficiency"),
        *("--set-sweep", "/sys/kernel/rcu_expedited=0,1", "-o", study),
    )
    return study


def test_all_of_every_cpu_s_time_is_accounted_for(with_ls: Path) -> None:
    study = library.open_study(with_ls)
    for record in study.records():
        facts = record.facts["efficiency"]
        assert (facts["lost"], facts["why_not_bpf"]) == (0, "")
        assert len(facts["operations"]) == 2 and all(facts["operations"])
        per_cpu = study.table(record, "efficiency").filter(source="events").group_by("cpu")
        totals = per_cpu.agg(pl.col("nanoseconds").sum())["nanoseconds"].to_list()
        assert totals == pytest.approx([facts["nanoseconds"]] * 2, rel=0.001)


def test_what_takes_part_of_it(with_ls: Path) -> None:
    every: set[tuple[str, str]] = set()
    for cell in compared(with_ls, "--probe", "efficiency")["points"][0]["cells"].values():
        said = {(row["kind"], row["name"]) for row in cell["rows"] if row["source"] == "events"}
        every |= said
        assert {("workload", ""), ("interrupt", "timer"), ("softirq", "RCU")} <= said
        assert {"kthread"} < {kind for kind, _ in said} <= {
            "workload", "task", "kthread", "agent", "idle", "softirq", "interrupt"
        }  # fmt: skip
        assert {row["source"] for row in cell["rows"]} == {"events", "/proc/stat", "/proc/schedstat"}
    assert ("task", "ls") in every  # on a busy host it may wait through the whole of one cell


def test_a_sweep_s_variants_stand_side_by_side(with_ls: Path) -> None:
    text = bigiron("compare", with_ls, "--probe", "efficiency").out
    assert "debian/6.12 rcu_expedited=0" in text and "debian/6.12 rcu_expedited=1" in text
    assert [record.environment["set"] for record in library.open_study(with_ls).records()] == [
        ["/sys/kernel/rcu_expedited=0"],
        ["/sys/kernel/rcu_expedited=1"],
    ]


def test_without_bpf_the_kernel_s_own_accounts_are_left() -> None:
    found = kernels.find("debian/6.1")
    machine = vm.VirtualMachine(
        architecture=X86_64,
        kernel=found.image,
        release=found.release,
        from_snapshot=True,
        agent=compile.agent(workloads.find("spin"), "gcc"),
        job="mode process\ncpus 2\ntasks 2\npatience_s 100\nefficiency /none\nefficiency_ms 500\n",
        topology=Topology(cores=2),
        memory_mib=vm.memory_mib(2),
        deadline_s=200,
    )
    messages = vm.run(machine, threading.Event(), lambda _stage: None).messages
    request = probes.CellRequest(cpus=2, tasks=2, operations=1, mode="process")
    table = probes.probe("efficiency").collect(probes.RawOutput(messages, Path(), X86_64, Path(), request))
    assert table.facts["why_not_bpf"] == "the agent was made without it"
    assert set(table.rows["source"]) == {"/proc/stat", "/proc/schedstat"}
    assert table.rows.filter(kind="user")["nanoseconds"].min() > 0


def test_a_clock_that_follows_instructions_has_a_shorter_window() -> None:
    """Each second of it is two thousand million instructions of each CPU."""
    job = probes.probe("efficiency").job
    host, slow = (job(probes.CellRequest(2, 2, 1, "process", slow_clock=slow)) for slow in (False, True))
    assert (host[1], slow[1]) == ("efficiency_ms 2000", "efficiency_ms 100")


def test_by_that_clock_several_cpus_end_soon(tmp_path: Path) -> None:
    """An interrupt of all CPUs, and a grace period, is millions of the instructions of tasks that compute."""
    study = tmp_path / "s"
    measured(
        *("spin", "--kernel", "debian/6.1", "--cpus", "4", "--probe", "efficiency"),
        *("--clock", "instructions", "-o", study),
    )
    (record,) = library.open_study(study).records()
    events = library.open_study(study).table(record, "efficiency").filter(source="events")
    by_cpu = events.group_by("cpu").agg(pl.col("nanoseconds").sum())
    assert by_cpu["nanoseconds"].to_list() == pytest.approx(
        [record.facts["efficiency"]["nanoseconds"]] * 4, rel=0.001
    )
    tasks = events.filter(kind="workload").group_by("cpu").agg(pl.col("nanoseconds").sum())
    assert tasks["nanoseconds"].min() > 0.99 * record.facts["efficiency"]["nanoseconds"]


def test_no_function_is_traced_any_more(tmp_path: Path) -> None:
    """What `functions` leaves switched on in a machine that ends would take most of the tasks' time."""
    operations = {}
    for asked in ("efficiency", "functions,efficiency"):
        study = tmp_path / asked
        functions = ("--functions", "do_sys_openat2", "--depth", "1") if "," in asked else ()
        measured(
            *("open1", "--kernel", "debian/6.1", "--cpus", "2", "--operations", "20", "--probe", asked),
            *("--clock", "instructions", *functions, "-o", study),
        )
        (record,) = library.open_study(study).records()
        operations[asked] = sum(record.facts["efficiency"]["operations"])
    assert operations["functions,efficiency"] == pytest.approx(operations["efficiency"], rel=0.05)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--boot-sweep", "rcu_nocbs"], "--boot-sweep 'rcu_nocbs': use NAME=V1,V2, for instance rcutree."),
        (["--boot-sweep", "=1"], "--boot-sweep '=1': use NAME=V1,V2"),
        (["--set-sweep", "x=1,2"], "--set-sweep 'x=1,2': use PATH=V1,V2, for instance /sys/"),
        (["--set-sweep", "/a/x=1", "--set-sweep", "/b/y=1,1"], "variants need different names"),
    ],
)
def test_bad_sweeps(options: list[str], complaint: str, tmp_path: Path) -> None:
    answer = bigiron("run", "spin", "--kernel", "debian/6.1", *options, "-o", tmp_path / "s")
    assert answer.status == 2 and complaint in answer.complaint


def test_hotplug_has_no_efficiency(tmp_path: Path) -> None:
    answer = bigiron(
        *("run", "smt-off", "--kernel", "debian/6.1", "--probe", "efficiency", "-o", tmp_path / "s")
    )
    assert answer.status == 2 and "workloads that run until they are stopped" in answer.complaint


def test_a_study_without_it(open1: Path) -> None:
    answer = bigiron("compare", open1, "--probe", "efficiency")
    assert answer.status == 2 and "no measured cell with the probe efficiency" in answer.complaint
