"""Turns by operation, and the memory that a machine is named to have: what an emulator would tell wrongly."""

import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import WORKLOADS, bigiron, compared, measured

from bigiron import open_study, workloads
from bigiron.machines.vm import vm
from bigiron.study import run, spec
from bigiron.util import host_memory

QUESTION = """
workload_file = "{source}"
probes = ["conflicts"]
arch = "{arch}"
time_slice = "{time_slice}"
cpus = [4]
operations = 10000
[[variant]]
name = "as it is"
kernel = "debian/6.1"
"""
OPERATIONS = 2000  # as in time_slices.c


def followed(time_slice: str, arch: str, folder: Path) -> int:
    """After how many of its operations the first task of four found that another had done one."""
    source = WORKLOADS / "time_slices.c"
    (folder / "slices.toml").write_text(QUESTION.format(source=source, arch=arch, time_slice=time_slice))
    answer = bigiron("run", folder / "slices.toml", "-o", folder / "s")
    found = re.search(rf"ended by itself with status 0: (\d+) of {OPERATIONS}", answer.err)
    assert found, answer
    return int(found[1])


@pytest.mark.parametrize("arch", ["x86_64", "ppc64le"])
def test_time_slices_end_with_each_operation(arch: str, tmp_path: Path) -> None:
    assert followed("operation", arch, tmp_path) > 0.95 * OPERATIONS


def test_without_that_they_hardly_meet(tmp_path: Path) -> None:
    assert followed("time", "x86_64", tmp_path) < 0.5 * OPERATIONS


def hints(**machine: str) -> int:
    """How many places of open1's loop can end a turn, as it is compiled for a machine."""
    workload = workloads.find("open1")
    asked = spec.Spec(workload="open1", variant=[spec.Variant(name="v")], **machine)  # type: ignore[arg-type]
    agent = run.prepare(asked, workload).agent
    listed = subprocess.run(["objdump", "-d", agent], capture_output=True, text=True, check=True).stdout
    return len(re.findall(r"call .*<__sanitizer_cov_trace_pc>", listed))


def test_a_real_machine_pays_nothing_for_it() -> None:
    assert hints(machine="vm") > 0
    assert hints(machine="vm", time_slice="time") == 0
    assert hints(machine="host", probes=["throughput"]) == 0  # type: ignore[arg-type]


def test_a_helper_takes_none_of_its_task_s_time_slices(tmp_path: Path) -> None:
    """A hint of the helper's would hand its CPU on while the task waits for it."""
    measured(
        "context_switch1",
        "--kernel",
        "debian/6.1",
        "--cpus",
        "2",
        "--probe",
        "conflicts",
        "-o",
        tmp_path / "s",
    )
    (record,) = open_study(tmp_path / "s").records()
    assert record.environment["time_slice"] == "operation"
    assert record.facts["conflicts"]["operations"] == [500, 500]


def test_rounds_have_no_time_slices(tmp_path: Path) -> None:
    measured("hotplug-offline", "--kernel", "debian/6.1", "--cpus", "2", "--probe", "operations",
             "-o", tmp_path / "s")  # fmt: skip
    (record,) = open_study(tmp_path / "s").records()
    assert record.environment["time_slice"] in ("time", "none")


def test_cells_of_other_time_slices_do_not_join_a_study(tmp_path: Path) -> None:
    options = (
        "getppid1",
        "--kernel",
        "debian/6.1",
        "--cpus",
        "1",
        "--probe",
        "conflicts",
        "-o",
        tmp_path / "s",
    )
    measured(*options)
    (cell,) = (tmp_path / "s" / "cells").iterdir()
    record = msgspec.json.decode((cell / "cell.json").read_bytes())
    record["environment"]["time_slice"] = "time"
    (cell / "cell.json").write_bytes(msgspec.json.encode(record))
    question = (tmp_path / "s" / "study.toml").read_text()
    (tmp_path / "s" / "study.toml").write_text(question.replace("repetitions = 1", "repetitions = 2"))
    answer = bigiron("run", tmp_path / "s")
    assert answer.status == 2
    assert (
        "the study's other cells were measured with time_slice time and this one with operation" in answer.err
    )


@pytest.mark.parametrize(
    ("was", "other", "words"),
    [
        (
            'time_slice = "operation"\n',
            "",
            "was recorded with time_slice time, the study with operation",
        ),
        ("memory_mib = 4096", "memory_mib = 2048", "with memory_mib 2048, the study with 4096"),
    ],
)
def test_a_baseline_of_other_machines_is_refused(was: str, other: str, words: str, tmp_path: Path) -> None:
    measured(
        "getppid1", "--kernel", "debian/6.1", "--cpus", "1", "--probe", "conflicts", "-o", tmp_path / "s"
    )
    baseline = tmp_path / "b.toml"
    assert bigiron("check", tmp_path / "s", "--record", baseline).status == 0
    assert bigiron("check", tmp_path / "s", "--baseline", baseline).status == 0
    assert was in baseline.read_text()
    baseline.write_text(baseline.read_text().replace(was, other))
    answer = bigiron("check", tmp_path / "s", "--baseline", baseline)
    assert answer.status == 2
    assert words in answer.complaint


# The memory


def test_a_server_s_share_for_every_cpu() -> None:
    assert [vm.memory_mib(cpus) >> 10 for cpus in (1, 4, 8, 64, 256, 300)] == [4, 4, 8, 64, 256, 256]
    assert vm.memory_mib(8192) < 1 << 20  # QEMU's 40 bits of an address


@pytest.mark.parametrize("probe", ["conflicts", "throughput"])
def test_a_machine_may_be_named_more_than_there_is(probe: str, tmp_path: Path) -> None:
    named = min(host_memory.host_mib() * 3 // 2, 900 << 10)
    measured("getppid1", "--kernel", "debian/6.1", "--cpus", "1", "--memory", str(named), "--probe", probe,
             "-o", tmp_path / "s")  # fmt: skip
    (record,) = open_study(tmp_path / "s").records()
    assert record.environment["memory_mib"] == named


def test_what_is_touched_has_to_fit() -> None:
    assert vm.touched_mib(vm.memory_mib(64), 64) < 8 << 10
    assert vm.touched_mib(1024, 300) == 1024, "no more than it has"
    vm.check_memory(host_memory.host_mib(), 8)
    with pytest.raises(Exception, match="and this host has"):
        vm.check_memory(100 * host_memory.host_mib(), 8)


def test_several_machines_run_beside_each_other_where_what_they_touch_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_memory, "host_mib", lambda: 24 << 10)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(4)))
    asked = spec.Spec(workload="open1", cpus=[128], variant=[spec.Variant(name="v")])
    assert run.default_jobs(asked) == 1
    assert run.default_jobs(msgspec.structs.replace(asked, cpus=[8])) == 4


def test_mmap1_s_mappings_fit_into_a_batch(tmp_path: Path) -> None:
    """A machine of 2 GiB with 8 CPUs writes vm_committed_as 6 times per operation, and a server never."""
    measured("mmap1", "--kernel", "debian/6.12", "--cpus", "8", "--probe", "conflicts", "-o", tmp_path / "s")
    rows = compared(tmp_path / "s")["rows"]
    assert not any("vm_committed_as" in row["object"] for row in rows)

    def accesses(of: list[dict[str, Any]]) -> float:
        return sum(row["cells"]["debian/6.12"]["accesses_per_op"] for row in of)

    # Slabs are refilled the more often the later RCU frees what is in them, and that depends on the host.
    others = [row for row in rows if not all("kmem_cache_" in call["path"] for call in row["paths"])]
    assert accesses(others) < 0.3 and accesses(rows) < 1
