"""The virtual machine: how it can fail, its topology and settings, and that it never stays behind."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import (
    SAFETY_NET_S,
    WORKLOADS,
    Answer,
    bigiron,
    compared,
    machines_of,
    measured,
    says,
    started,
    wait_until,
)

import bigiron as library
from bigiron.introspect.memory import GuestRam
from bigiron.machines.vm import guest, vm
from bigiron.study.spec import Spec, Variant, to_toml
from bigiron.study.store import CellRecord, Failure
from bigiron.util.parent_death import dying_with

DEADLINE_S = 20  # in which a machine is resumed on a busy host too, and which two of them wait for here


@pytest.fixture(autouse=True)
def _no_machine_survives_a_failed_test(tmp_path: Path) -> Iterator[None]:
    yield
    for machine in machines_of(tmp_path):
        os.kill(machine, signal.SIGKILL)


SYSRQ = "/proc/sysrq-trigger="
CRASHES = {
    "panic": Variant(name="panic", kernel="debian/6.1", set=[SYSRQ + "c"]),
    "oops": Variant(name="oops", kernel="debian/6.1", set=[says("oops")]),
    "reset": Variant(name="reset", kernel="debian/6.1", set=[SYSRQ + "b"]),
    "no init": Variant(name="no init", kernel="debian/6.1", boot="rdinit=/none"),
    "fewer CPUs": Variant(name="fewer CPUs", kernel="debian/6.1", boot="maxcpus=1"),
    "silence": Variant(name="silence", kernel="debian/6.1", boot="rdinit=/none root=/dev/none rootwait"),
    "hang": Variant(name="hang", kernel="debian/6.1", set=["/dev/console=\x1b[31mred", says("hang")]),
}
WAITING = {"silence", "hang"}
REASONS = {
    "panic": "the kernel crashed while starting tasks: Kernel panic - not syncing: sysrq triggered crash",
    "oops": "the kernel crashed while starting tasks: BUG: kernel NULL pointer dereference, "
    "address: 000000000000006e",
    "reset": "the machine stopped while starting tasks, without a reason",
    "no init": "the kernel crashed while booting: Kernel panic - not syncing: VFS: Unable to mount root fs "
    "on unknown-block(0,0)",
    "fewer CPUs": "1 CPUs came up, not 2",
    "silence": f"the machine was still booting after its deadline of {DEADLINE_S} s",
    "hang": f"the machine was still starting tasks after its deadline of {DEADLINE_S} s",
}
CONSOLES = {
    "panic": ("sysrq: Trigger a crash", "Kernel panic"),
    "oops": (
        "BUG: kernel NULL pointer dereference",
        "RIP: 0010:__do_sys_getppid+0x0",
        "Kernel panic - not syncing: Fatal exception",
    ),
    "reset": ("sysrq: Resetting",),
    "hang": ("\\x1b[31mred",),
    "no init": ("Kernel panic - not syncing: VFS", "mount_block_root"),
}


@pytest.fixture(scope="module")
def crashes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Answer, CellRecord]]:
    """What the command said of a study in which every machine fails, and the record, by variant.

    The machines that wait for their deadline are in a study of their own, and resume what the others booted.
    """
    folder, found = tmp_path_factory.mktemp("crashes"), {}
    for study, names, deadline_s in (
        ("crashing", CRASHES.keys() - WAITING, 0),
        ("waiting", WAITING, DEADLINE_S),
    ):
        spec = Spec(
            workload="",
            workload_file=str(WORKLOADS / "crash.c"),
            probes=["conflicts"],
            cpus=[2],
            deadline_s=deadline_s,
            variant=[CRASHES[name] for name in sorted(names)],
        )
        (folder / f"{study}.toml").write_bytes(to_toml(spec))
        answer = bigiron("run", folder / f"{study}.toml", "-o", folder / study, "--jobs", "2")
        assert answer.out.startswith(f"0 of {len(names)} cells measured")
        records = library.open_study(folder / study).records()
        found |= {record.variant: (answer, record) for record in records}
    return found


@pytest.mark.parametrize("name", CRASHES)
def test_a_machine_that_fails(crashes: dict[str, tuple[Answer, CellRecord]], name: str) -> None:
    answer, record = crashes[name]
    failure = record.failure
    assert failure
    assert (failure.kind, failure.reason) == ("machine", REASONS[name])
    assert failure.kernel_crashed == (name in ("panic", "oops", "no init"))
    for words in CONSOLES.get(name, ()):
        assert words in failure.console
    assert "\x1b" not in failure.console
    assert failure.console in answer.err
    assert f"bigiron: {name}, 2 CPUs: {failure.reason}" in answer.err.splitlines()
    assert answer.status == 3


def test_a_silent_kernel_has_no_console_output(crashes: dict[str, tuple[Answer, CellRecord]]) -> None:
    _, record = crashes["silence"]
    assert record.failure == Failure("machine", REASONS["silence"], console="")


def test_a_machine_that_is_too_small(tmp_path: Path) -> None:
    """Which is no crash of its kernel: a bisection tries it again."""
    said = bigiron(
        *("run", "--workload-file", WORKLOADS / "crash.c", "--kernel", "debian/6.12", "--cpus", "1"),
        *("--memory", "256", "--set", "/proc/sys/vm/panic_on_oom=1", "--set", says("memory")),
        *("-o", tmp_path / "s"),
    )
    (record,) = library.open_study(tmp_path / "s").records()
    assert said.status == 3 and record.failure and not record.failure.kernel_crashed
    assert re.fullmatch(
        r"the machine ran out of memory while starting tasks: .*Out of memory.*: "
        r"give it more \(--memory MIB\)",
        record.failure.reason,
    )
    assert "Kernel panic" in record.failure.console


@pytest.mark.parametrize(
    ("log", "crash", "memory"),
    [
        ("[1.0] Out of memory: Killed process 1\n[1.1] Kernel panic - not syncing: Attempted to", 1, 1),
        ("[1.0] Out of memory: Killed process 9\n[1.1] BUG: kernel NULL pointer", 1, 0),
        ("[1.0] Memory cgroup out of memory: Killed process 9\n[1.1] Kernel panic - not syncing: x", 1, 0),
        ("[1.0] Memory cgroup out of memory: Killed process 9", 0, 0),
        ("[1.0] watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [swapper/3:0]", 0, 0),
        ("[1.0] BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 43s!", 0, 0),
        ("[1.0] watchdog: BUG: soft lockup - CPU#3\n[1.1] Kernel panic - not syncing: softlockup: hu", 1, 0),
    ],
)  # fmt: skip
def test_what_a_console_says_of_the_end(log: str, crash: bool, memory: bool) -> None:
    assert any(guest._crashes(log.encode())) is bool(crash)
    assert bool(guest._out_of_memory(log.encode())) is bool(memory)


@pytest.mark.parametrize(
    "line",
    ["watchdog: BUG: soft lockup - CPU#3 stuck for 22s!", "Out of memory: Killed process 9", "Oops: 2"],
)
def test_a_machine_that_the_host_ended_is_no_crash(line: str) -> None:
    """What its kernel printed before, and survived, is not why it ended."""

    def command(channels: guest.Channels) -> list[str]:
        said = f"[1.0] {line}\n".encode()
        script = f"import os; os.write({channels.console}, {said!r}); os.kill(os.getpid(), 9)"
        return [sys.executable, "-ISc", script]

    limits = guest.RunLimits(SAFETY_NET_S, threading.Event(), lambda stage: None)
    with (
        pytest.raises(library.errors.MachineError) as raised,
        GuestRam(1) as ram,
        guest.started(command, ram, limits) as machine,
    ):
        machine.boot(lambda: None)
    assert type(raised.value) is library.errors.MachineError
    assert raised.value.reason.endswith(" was ended by signal 9 while booting: is this host out of memory?")
    assert line in raised.value.console_tail


def test_the_kernel_sees_the_topology_and_the_settings(tmp_path: Path) -> None:
    cpu, node = "/sys/devices/system/cpu", "/sys/devices/system/node"
    files = {
        f"{cpu}/online": "0-7",
        f"{cpu}/cpu0/topology/thread_siblings_list": "0-1",
        f"{cpu}/cpu0/topology/core_siblings_list": "0-3",
        f"{cpu}/cpu4/topology/physical_package_id": "1",
        f"{node}/online": "0-1",
        f"{node}/node1/cpulist": "4-7",
        "/proc/sys/kernel/hostname": "a value, with = and spaces",
    }
    answer = bigiron(
        "run", "--workload-file", WORKLOADS / "tell.c", "--kernel", "debian/6.12",
        "--topology", "sockets=2,nodes=2,cores=2,threads=2",
        "--set", "/proc/sys/kernel/hostname=a value, with = and spaces",
        "--boot", f"tell={','.join(files)}", "-o", tmp_path / "s",
    )  # fmt: skip
    told = "".join(f"{content}; " for content in files.values())
    assert answer.complaint == f"debian/6.12, 8 CPUs: the workload ended by itself with status 0: {told}"


def test_cpus_whose_numbers_have_nine_bits(tmp_path: Path) -> None:
    # x86 numbers them by socket, core and thread: this is the smallest machine that has a number above 254.
    options = ("--topology", "sockets=5,cores=5,threads=5", "--memory", "4000", "--operations", "20")
    measured("getppid1", "--kernel", "debian/6.1", *options, "--probe", "conflicts", "-o", tmp_path / "s")
    (record,) = library.open_study(tmp_path / "s").records()
    assert record.measured and record.cpus == 125


def test_a_kernel_for_more_cpus_than_glibc_expects(tmp_path: Path) -> None:
    # Its sets of CPUs are longer than a cpu_set_t.
    for_many = ("--kernel", "debian/6.1", "--cpus", "2", "--boot", "possible_cpus=1100")
    measured("open1", *for_many, "--probe", "conflicts", "-o", tmp_path / "s")
    heaviest = compared(tmp_path / "s")["rows"][0]["cells"]["debian/6.1"]
    assert heaviest["writes_per_op"] == pytest.approx(6, abs=0.01) and heaviest["writers"] == 2


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_ended_in_the_middle_it_leaves_no_machine_and_goes_on(tmp_path: Path, end: signal.Signals) -> None:
    study = tmp_path / "s"
    first = study / "cells/debian-6.1-1cpus-1tasks-r1/cell.json"
    running = started(study)
    wait_until(lambda: first.exists() and machines_of(tmp_path))
    running.send_signal(end)
    _, said = running.communicate(timeout=SAFETY_NET_S)
    wait_until(lambda: not machines_of(tmp_path))
    if end == signal.SIGINT:
        assert running.returncode == 130
        assert said.splitlines()[-1] == f"bigiron: stopped: the same command continues {study}"
        assert list((tmp_path / "tmp").iterdir()) == []
    assert "Traceback" not in said

    shown = bigiron("show", study).out
    assert [word for word in shown.split() if word in ("measured", "missing")].count("missing") == 1
    before = first.read_bytes()
    assert measured(study).out.startswith("1 of 1 cells measured")
    assert first.read_bytes() == before
    assert measured(study).out.startswith("every cell of")


def test_a_parent_that_died_first_leaves_nothing_started(tmp_path: Path) -> None:
    for parent, starts in (os.getpid(), True), (1, False):
        done = subprocess.run([*dying_with(parent), "touch", tmp_path / str(parent)], check=False)
        assert (done.returncode == 0) is starts is (tmp_path / str(parent)).exists()


def test_a_machine_that_is_killed(tmp_path: Path) -> None:
    running = started(tmp_path / "s")
    for _repetition in range(2):
        wait_until(lambda: machines_of(tmp_path))
        (machine,) = machines_of(tmp_path)
        os.kill(machine, signal.SIGKILL)
        wait_until(lambda machine=machine: machine not in machines_of(tmp_path))  # type: ignore[misc]
    _, said = running.communicate(timeout=SAFETY_NET_S)
    assert running.returncode == 3
    assert re.search(
        "qemu-system-x86_64 was ended by signal 9 while (booting|resuming): is this host out of memory", said
    )
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_machine_that_cannot_fit_is_refused() -> None:
    with pytest.raises(library.errors.UserError, match=r"^a machine with 4 CPUs and 99999999 MiB writes"):
        vm.check_memory(99999999, 4)
