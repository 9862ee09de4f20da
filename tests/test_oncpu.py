"""Samples of what CPUs execute, on real kernels."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import BIGIRON, bigiron, measured

import bigiron as package
from bigiron.probes.oncpu import CONTEXTS

FIRST_PID_NAMESPACE = Path("/proc/self/ns/pid").stat().st_ino == 0xEFFFFFFC


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = tmp_path_factory.mktemp("oncpu") / "s"
    kernels = ("--kernel", "debian/5.10", "--kernel", "debian/6.12")
    measured("open1", *kernels, "--cpus", "2", "--probe", "oncpu", "-o", study)
    return study


def test_each_sample_has_its_cpu_its_task_and_its_stack(sampled: Path) -> None:
    study = package.open_study(sampled)
    for record in study.records():
        facts, rows = record.facts["oncpu"], study.table(record, "oncpu")
        assert facts["event"] == "cpu-clock" and all(facts["operations"])
        assert 100 * facts["lost"] <= rows["samples"].sum()  # stacks whose places in the maps others had
        assert rows["cost"].sum() == rows["samples"].sum() * facts["period"]
        assert set(rows["cpu"]) == {0, 1} and set(rows["context"]) <= set(CONTEXTS)
        own = rows.filter(context="process")
        assert set(own["cpu"]) == {0, 1} and own["pid"].n_unique() == 2
        # Where the program asks, from glibc 2.41 on by the latter, and what the kernel does then.
        assert own["user_path"].str.contains(r"(^|;)(__open|__internal_syscall_cancel)").any()
        assert own["path"].str.contains("do_syscall_64;__x64_sys_openat;do_sys_openat2").any()
        assert (own["path"] == "").any()  # in user space


def test_profiles_can_be_exported(sampled: Path) -> None:
    answer = bigiron("export", sampled, "--variant", "debian/6.12", "--probe", "oncpu")
    assert answer.status == 0 and "cost per operation" in answer.err
    assert any(";__x64_sys_close" in line for line in answer.out.splitlines())


def test_profiles_stand_side_by_side(sampled: Path) -> None:
    assert "on the CPU per operation by function" in bigiron("compare", sampled).out
    for by in "function", "chain":
        answer = bigiron("compare", sampled, "--probe", "oncpu", "--by", by, "--format", "csv")
        assert answer.status == 0 and "__x64_sys_openat" in answer.out, answer


def test_another_architecture_s_too(tmp_path: Path) -> None:
    options = ("--arch", "ppc64le", "--kernel", "debian/6.1", "--cpus", "2", "--probe", "oncpu")
    measured("getppid1", *options, "-o", tmp_path / "s")
    study = package.open_study(tmp_path / "s")
    (record,) = study.records()
    rows = study.table(record, "oncpu")
    assert set(rows["cpu"]) == {0, 1}
    assert rows["path"].str.contains("system_call_exception").any()


def test_hotplug_has_none(tmp_path: Path) -> None:
    answer = bigiron("run", "smt-off", "--kernel", "debian/6.1", "--probe", "oncpu", "-o", tmp_path / "s")
    assert (
        answer.status == 2
        and "probe oncpu is for workloads that run until they are stopped" in answer.complaint
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces")
def test_in_a_pid_namespace(tmp_path: Path) -> None:
    """Events have the numbers that tasks have outside: none would be told."""
    namespace = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("no process may make namespaces on this machine")
    why = "in a PID namespace, such as a container's, tasks have other numbers"
    for probe, status in ("oncpu", 3), ("blocked", 3), ("efficiency", 0):
        options = ("--machine", "host", "--tasks", "1", "--probe", probe, "-o", tmp_path / probe)
        done = subprocess.run(
            [*namespace, BIGIRON, "run", "getppid1", *options], capture_output=True, text=True
        )
        assert done.returncode == status, done
        assert not status or why in done.stderr
    (record,) = package.open_study(tmp_path / "efficiency").records()
    assert record.facts["efficiency"]["why_not_bpf"].startswith(why)


def test_on_this_machine(tmp_path: Path) -> None:
    """Its kernel may lack perf events, and says so; in a container tasks cannot be told."""
    answer = bigiron(
        *("run", "getppid1", "--machine", "host", "--tasks", "1", "--probe", "oncpu"), "-o", tmp_path / "s"
    )
    if answer.status == 3:
        why = "the kernel permits no perf event here: " if FIRST_PID_NAMESPACE else "in a PID namespace, "
        assert f"cannot sample: {why}" in answer.err
    else:
        study = package.open_study(tmp_path / "s")
        (record,) = study.records()
        assert study.table(record, "oncpu").filter(context="process")["samples"].sum() > 0
