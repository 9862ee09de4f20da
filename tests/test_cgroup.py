"""The control group that tasks run in, and what else a guest has that a server has."""

import doctest
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import WORKLOADS, bigiron, compared, measured, says

import bigiron as library
from bigiron.machines.messages import Message
from bigiron.machines.outcome import MachineOutcome
from bigiron.machines.vm import cgroup

NEW = ("--kernel", "debian/6.12", "--cpus", "2")
SERVICE = "/system.slice/bigiron.service"


def recorded(study: Path) -> dict[str, Any]:
    """What its only cell's record says of what produced it."""
    (record,) = library.open_study(study).records()
    return record.environment


def test_the_examples() -> None:
    assert doctest.testmod(cgroup).failed == 0


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ("pids.max=5", "cgroup: pids.max=5: use none, depth, memory.max, memory.high, cpu.max, cpu.weight"),
        ("depth=0", "cgroup: depth=0: use a number of levels from 1 to 8"),
        ("depth", "cgroup: depth: use a number of levels from 1 to 8"),
        ("none,depth=2", "cgroup: none: use none, depth, memory.max, memory.high, cpu.max, cpu.weight"),
        ("depth=2,depth=3", "cgroup: depth is given twice"),
        ("cpu.weight=x", "cgroup: cpu.weight=x: use a number from 1 to 10000"),
    ],
)
def test_what_is_no_control_group(asked: str, complaint: str, tmp_path: Path) -> None:
    answer = bigiron("run", "getppid1", *NEW, "--cgroup", asked, "-o", tmp_path / "s")
    assert (answer.status, answer.complaint) == (2, complaint)


def test_a_real_machine_has_its_own(tmp_path: Path) -> None:
    answer = bigiron("run", "getppid1", "--machine", "host", "--cgroup", "none", "-o", tmp_path / "s")
    assert answer.status == 2
    assert answer.complaint == (
        "cgroup = 'none' is for virtual machines: on this machine tasks run in the control group in which "
        "bigiron was started"
    )


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_tasks_are_in_it_while_they_are_recorded(mode: str, tmp_path: Path) -> None:
    workload = ("--workload-file", WORKLOADS / "in_cgroup.c", "--mode", mode, *NEW)
    measured(*workload, "--set", says(SERVICE), "--probe", "instructions", "-o", tmp_path / "s")
    environment = recorded(tmp_path / "s")
    assert environment["cgroup"] == "depth=2"
    assert environment["cgroup_controllers"] == ["cpu", "memory"]
    functions = set(library.open_study(tmp_path / "s").tables("instructions")["function"])
    assert "proc_cgroup_show" in functions
    assert not functions & {"cgroup_mkdir", "cgroup_procs_write", "__cgroup_procs_write", "css_create"}


def test_none_and_others(tmp_path: Path) -> None:
    workload = ("--workload-file", WORKLOADS / "in_cgroup.c", *NEW, "--probe", "instructions")
    limits = "depth=3,memory.max=64M,cpu.weight=50"
    deep = "/system.slice/system-bigiron.slice/bigiron.service"
    for asked, path, as_recorded in (("none", "/", "none"), (limits, deep, None)):
        study = tmp_path / asked
        measured(*workload, "--set", says(path), "--cgroup", asked, "-o", study)
        assert set(recorded(study)["cgroup"].split(",")) == set((as_recorded or asked).split(","))
    # It is handed over, and no machine has to boot for it.
    assert recorded(study)["from_snapshot"]
    told = bigiron(
        "run", "--workload-file", WORKLOADS / "tell.c", *NEW, "--cgroup", limits, "--probe", "instructions",
        "--boot", "tell=" + ",".join(f"/sys/fs/cgroup{deep}/{file}" for file in ("memory.max", "cpu.weight")),
        "-o", tmp_path / "t",
    )  # fmt: skip
    assert "67108864; 50; " in told.err


def test_what_is_charged_shows_by_default(tmp_path: Path) -> None:
    workload = ("--workload-file", WORKLOADS / "private_file.c", *NEW, "--operations", "1000")
    objects = {}
    for asked in "", "none":
        study = tmp_path / f"s{asked}"
        measured(*workload, "--cgroup", asked, "--probe", "conflicts", "-o", study)
        objects[asked] = {row["object"].partition(".")[0] for row in compared(study)["rows"]}
    assert "struct mem_cgroup" in objects[""] and "struct mem_cgroup" not in objects["none"]
    # Those of both levels have their type.
    assert not [name for name in objects[""] - objects["none"] if "kmalloc" in name]


def test_a_kernel_without_a_controller_says_so_and_goes_on(tmp_path: Path) -> None:
    lacks = ("--boot", "cgroup_disable=memory", "--operations", "20", "-o", tmp_path / "s")
    answer = measured("getppid1", *NEW, *lacks, "--tasks", "1,2", "--probe", "instructions")
    said = "bigiron: debian/6.12: the kernel has no memory controller for control groups: "
    assert sum(line.startswith(said) for line in answer.err.splitlines()) == 1
    records = library.open_study(tmp_path / "s").records()
    assert [record.environment["cgroup_absent"] for record in records] == [["memory"], ["memory"]]
    refused = bigiron("run", "getppid1", *NEW, *lacks[:-1], tmp_path / "t", "--cgroup", "memory.max=1G")
    assert refused.status == 2 and "memory.max" in refused.err


def test_a_study_has_one(tmp_path: Path) -> None:
    study = tmp_path / "s"
    few = ("--operations", "20", "--probe", "instructions", "-o", study)
    measured("getppid1", *NEW, *few)
    other = bigiron("run", "getppid1", *NEW, *few, "--cgroup", "none")
    assert other.status == 2 and "has another question (cgroup = '', not 'none')" in other.complaint
    # A cell of a bigiron that ran tasks in the root group.
    (cell,) = study.glob("cells/*/cell.json")
    record = msgspec.json.decode(cell.read_bytes())
    del record["environment"]["cgroup"]
    cell.write_bytes(msgspec.json.encode(record))
    unlike = bigiron("run", study, "--reps", "2")
    assert unlike.status == 2
    assert "the study's other cells were measured with cgroup unknown and this one with depth=2" in unlike.err


def test_a_baseline_is_of_one(tmp_path: Path) -> None:
    for asked in "", "none":
        few = ("--operations", "20", "--probe", "conflicts", "-o", tmp_path / f"s{asked}")
        measured("getppid1", *NEW, *few, "--cgroup", asked)
    baseline = tmp_path / "b.toml"
    assert bigiron("check", tmp_path / "s", "--record", baseline).status == 0
    assert 'cgroup = "depth=2"' in baseline.read_text()
    answer = bigiron("check", tmp_path / "snone", "--baseline", baseline)
    assert answer.status == 2
    assert "was recorded with cgroup depth=2, the study with none" in answer.complaint


@pytest.mark.parametrize("kernel", ["debian/5.10", "debian/6.12"])
def test_a_guest_has_what_a_server_has(kernel: str, tmp_path: Path) -> None:
    workload = (
        "--workload-file",
        WORKLOADS / "environment.c",
        "--operations",
        "20",
        "--probe",
        "instructions",
    )
    measured(*workload, "--kernel", kernel, "--cpus", "2", "-o", tmp_path / "s")
    environment = recorded(tmp_path / "s")
    assert {"capability", "apparmor"} <= set(environment["security_modules"].split(","))
    assert environment["security_label"] == "unconfined"
    assert environment["security_chosen_by"] == "the kernel's configuration"
    assert environment["security_policy"].startswith("none")


def test_another_agent_s_word_of_it_is_checked() -> None:
    outcome = MachineOutcome()
    outcome.receive(Message("cgroup", {"controllers": ["cpu"], "absent": ["memory"]}), 0.0)
    assert outcome.environment == {"cgroup_controllers": ["cpu"], "cgroup_absent": ["memory"]}
    with pytest.raises(Exception, match="cannot read the agent's message cgroup"):
        outcome.receive(Message("cgroup", {"controllers": "all"}), 0.0)
