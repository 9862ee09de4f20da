"""The fleet: real schedulers and workers, as processes of this machine that pass for several hosts."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import msgspec
import pytest
import yaml
from conftest import BIGIRON, Answer, bigiron, compared, machines_of, wait_until
from distributed import Client, Scheduler
from sshd import served
from test_compare import LINE, count, counts

from bigiron.commands.setup import fleet as command
from bigiron.errors import UserError
from bigiron.fleet import admission, agreement, authority, controller, files, messages
from bigiron.fleet.files import HashedFile
from bigiron.fleet.identity import host_name, identity
from bigiron.fleet.messages import Supplies, WorkerRequest
from bigiron.report.progress import ProgressBar
from bigiron.study import spec as specs
from bigiron.study import store
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import Collected, Study

ROOT = Path(__file__).resolve().parent.parent
PROBES = "conflicts,instructions"
SIMULATION = (
    "lock-bound",
    "--machine",
    "x86-2s",
    "--cpus",
    "4",
    "--set",
    "think=500,900",
    "--seeds",
    "2",
    "--duration",
    "2",
)
LONG = ("lock-bound", "--machine", "x86-2s", "--cpus", "16", "--seeds", "2", "--duration", "600")
GUEST = (
    "getppid1",
    "--kernel",
    "debian/6.1",
    "--cpus",
    "2",
    "--operations",
    "100",
    "--probe",
    "conflicts,instructions",
)


class Members:
    """A scheduler and its workers, which end with the test."""

    def __init__(self, folder: Path, stack: ExitStack, **environment: str) -> None:
        self.certificates = folder / "certificates"
        authority.create(self.certificates, 1)
        self._stack = stack
        self.scheduler = self._start("scheduler", "--listen", "tls://127.0.0.1:0", **environment)
        self.address = self.first_line(self.scheduler)

    def worker(self, host: str, *options: str, **environment: str) -> "subprocess.Popen[str]":
        """One that has joined."""
        started = self._start("worker", self.address, "--host", host, "--cpus", "1", *options, **environment)
        assert self.first_line(started).startswith("worker tls://")
        return started

    def first_line(self, process: "subprocess.Popen[str]") -> str:
        assert process.stdout
        return process.stdout.readline().strip()

    def _start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "bigiron", "fleet", *arguments, "--certificates", self.certificates],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return process

    @property
    def options(self) -> tuple[str, ...]:
        return "--fleet", self.address, "--certificates", str(self.certificates)


@contextmanager
def members(folder: Path) -> Iterator[Members]:
    with ExitStack() as stack:
        yield Members(folder, stack)


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    with members(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.worker("alpha")
        fleet.worker("beta")
        yield fleet


def simulate(study: Path, *options: str, asked: tuple[str, ...] = SIMULATION) -> Answer:
    return bigiron("simulate", *asked, *options, "-o", study)


def tables(study: Path) -> dict[str, bytes]:
    return {str(file.relative_to(study)): file.read_bytes() for file in study.rglob("cells/*/*.parquet")}


def environments(study: Path) -> list[dict[str, object]]:
    return [record.environment for record in store.open_study(study).records()]


# What comes of it


def test_a_cell_that_is_given_up_and_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the study ends with that error, and does not wait for the cell for ever."""
    spec = Spec(workload="open1", cpus=[2], variant=[Variant(name="v", kernel="k")])
    study = store.create(tmp_path / "s", spec, None)
    (cell,) = study.plan()
    shutil.rmtree(tmp_path / "s/cells", ignore_errors=True)
    (tmp_path / "s/cells").write_text("no folder")
    fleet: Any = SimpleNamespace(client=None, local=None)
    pool = controller.StudyPool(fleet, study, None, ProgressBar([cell]))
    pending = controller._PendingCell(cell, b"", {"CPU": 2})
    pool._pending["it"] = pending
    pool._members["there"] = admission.FleetWorker("there", identity(host_name()), {"CPU": 1})
    monkeypatch.setattr(controller, "PATIENCE_S", -1)
    for _ in "seen", "given up":
        pool._free_the_stuck()
    assert isinstance(pending.done.exception(timeout=60), OSError)


def test_a_simulation_is_the_same_to_the_byte(tmp_path: Path) -> None:
    assert simulate(tmp_path / "here").status == 0
    answer = simulate(tmp_path / "there", "--fleet", "local:2")
    assert (answer.status, answer.out.split(":")[0]) == (0, "4 of 4 cells measured")
    assert len(tables(tmp_path / "here")) == 16
    assert tables(tmp_path / "there") == tables(tmp_path / "here")
    here, there = environments(tmp_path / "here"), environments(tmp_path / "there")
    assert [{**each, "worker": None} for each in here] == [{**each, "worker": None} for each in there]
    assert all(set(each["worker"]) == {"host", "cpu", "content"} for each in there)  # type: ignore[call-overload]


def test_counts_of_virtual_machines(tmp_path: Path) -> None:
    """As two runs here agree: what has to repeat does."""
    assert bigiron("run", *GUEST, "--reps", "2", "-o", tmp_path / "here").status == 0
    answer = bigiron("run", *GUEST, "--reps", "2", "--fleet", "local:2", "-o", tmp_path / "there")
    assert answer.status == 0, answer
    here, there = store.open_study(tmp_path / "here"), store.open_study(tmp_path / "there")
    for one, other in zip(here.records(), there.records(), strict=True):
        assert not agreement.differences(here.spec, one.cpus, collected(here, one), collected(there, other))
        kept = ("kernel", "kernel_sha256", "qemu", "accelerator", "time_slice", "boot", "memory_mib")
        assert {what: one.environment[what] for what in kept} == {
            what: other.environment[what] for what in kept
        }


def test_shapes_are_checked_on_a_fleet(tmp_path: Path) -> None:
    """A second variant's machines are like the first's of the same shape, and not like others.

    They are those of test_shape.py.
    """
    shape = ("--kernel", "debian/6.12", "--cpus", "2", "--memory", "512", "--check-shape")
    asked = ("getppid1", *shape, "--set-sweep", "/proc/sys/vm/stat_interval=1,2", "--operations", "100")
    fleet = ("--probe", "conflicts,instructions", "--fleet", "local:2")
    answer = bigiron("run", *asked, *fleet, "-o", tmp_path / "s")
    assert (answer.status, answer.out.split(":")[0]) == (0, "12 of 12 cells measured"), answer.err
    assert compared(tmp_path / "s")["rows"] == []  # it shares nothing, whatever the shape


def collected(study: Study, record: store.CellRecord) -> Collected:
    return Collected(
        {
            name: messages.ProbeTable(study.table(record, name), record.facts[name])
            for name in ("conflicts", "instructions")
        }
    )


def test_a_result_in_the_study_is_not_computed_again(tmp_path: Path, two_hosts: Members) -> None:
    study = tmp_path / "s"
    assert simulate(study, asked=(*SIMULATION[:-4], "--seeds", "1", "--duration", "2")).status == 0
    before = {path: path.stat().st_ino for path in (study / "cells").iterdir()}
    answer = simulate(study, *two_hosts.options)
    assert (answer.status, answer.out.split(":")[0]) == (0, "2 of 2 cells measured")
    assert {path: path.stat().st_ino for path in before} == before


# Two hosts


def test_one_cell_of_a_hundred_runs_on_two_hosts(tmp_path: Path, two_hosts: Members) -> None:
    answer = simulate(tmp_path / "s", *two_hosts.options)
    assert answer.status == 0, answer
    (both,) = (each for each in environments(tmp_path / "s") if "also_on" in each)
    hosts = {each["host"] for each in (both["worker"], both["also_on"])}  # type: ignore[index]
    assert hosts == {"alpha", "beta"}


def test_two_hosts_that_do_not_agree(tmp_path: Path) -> None:
    """One whose simulator counts otherwise, though it is the same bigiron."""
    (tmp_path / "sitecustomize.py").write_text(
        "import bigiron._sim as sim\n"
        "simulate = sim.simulate\n"
        "def wrong(points, stop):\n"
        "    report = simulate(points, stop)\n"
        "    report[0]['operations_per_s'] *= 1.001\n"
        "    return report\n"
        "sim.simulate = wrong\n"
    )
    with members(tmp_path) as fleet:
        fleet.worker("right")
        fleet.worker("wrong", PYTHONPATH=str(tmp_path))
        answer = simulate(tmp_path / "s", *fleet.options)
    assert answer.status == 3
    assert "two hosts, " in answer.err and "counted differently" in answer.err
    assert '"host":"right"' in answer.err and '"host":"wrong"' in answer.err
    failed = [record for record in store.open_study(tmp_path / "s").records() if record.failure]
    assert len(failed) == 1 and failed[0].failure and not failed[0].tables


def test_what_one_host_counts_more_of_is_found(tmp_path: Path, open1: Path) -> None:
    study = store.open_study(open1)
    old, new = study.records()[:2]
    same = agreement.differences(study.spec, old.cpus, collected(study, old), collected(study, old))
    more = collected(study, new)
    more.tables["instructions"].facts["operations"] = [
        count // 2 for count in old.facts["instructions"]["operations"]
    ]
    found = agreement.differences(study.spec, old.cpus, collected(study, old), more)
    assert (old.variant, new.variant, same) == ("debian/6.1", "debian/6.12", [])
    assert any(line.startswith("conflicts: ") for line in found)
    assert any(line.startswith("instructions: ") for line in found)


def test_a_line_of_one_host_alone_counts_as_far_as_the_cell_s_cpus_disturb_it() -> None:
    spec = Spec(workload="open1", cpus=[8], variant=[Variant(name="v", kernel="k")])

    def one(*rows: dict[str, Any]) -> Collected:
        return Collected({"conflicts": messages.ProbeTable(counts(*rows), {"operations": [100]})})

    alike = [count(cpu, "f", 0, 50, object="known.count") for cpu in range(8)]
    more = [count(cpu, "g", 25, 6, line=LINE + 4096, object="other.count") for cpu in range(8)]
    for hosts in (one(*alike), one(*alike, *more)), (one(*alike, *more), one(*alike)):
        (found,) = agreement.differences(spec, 8, *hosts)
        assert found.startswith("conflicts: other.count: g"), found


@pytest.mark.parametrize("how", ["raises", "ends its workers", "is not measured"])
def test_a_second_host_that_fails_costs_no_cell(how: str, tmp_path: Path) -> None:
    """What the first host measured is written, and counted as not verified."""
    spec = Spec(workload="open1", cpus=[2], variant=[Variant(name="v", kernel="k")])
    study = store.create(tmp_path / "s", spec, None)
    (cell,) = study.plan()
    fleet: Any = SimpleNamespace(client=None, local=None)
    pool = controller.StudyPool(fleet, study, None, ProgressBar([cell]))
    pending = controller._PendingCell(cell, b"", {"CPU": 2})
    pending.first = store.new_record(cell, spec.machine), Collected({})
    if how == "raises":
        task: Any = SimpleNamespace(result=lambda: int("no space left on device"))
        pool._take(task, pending)
    elif how == "ends its workers":
        pending.at, pending.deaths = "there", admission.TRIES - 1
        pool._died(pending, "there")
    else:
        failed = store.new_record(cell, spec.machine)
        failed.failure = store.Failure("machine", "QEMU ended")
        pool._judge(pending, failed, Collected({}))
    assert pending.done.result(timeout=60) is pending.first[0]
    assert (pool._unverified, study.records()[0].failure) == (1, None)


# What ends


@contextmanager
def running(study: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A study in the background; its processes' files are under `tmp` beside it."""
    temporary = study.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    with subprocess.Popen(
        [BIGIRON, *arguments, "-o", study],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def workers_of(controller: "subprocess.Popen[str]") -> list[int]:
    """Those that it has started."""
    children = Path(f"/proc/{controller.pid}/task").glob("*/children")
    pids = [int(pid) for file in children for pid in file.read_text().split()]
    return [pid for pid in pids if b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def of_another_worker(controller: "subprocess.Popen[str]", mark: Path, killed: int) -> list[int]:
    """The machines of workers but the `killed` one: it, and its machine, may be listed for a moment."""
    found = []
    for pid in machines_of(mark):
        with suppress(OSError):  # it has just ended
            found += [pid] * (parent_of(pid) in {*workers_of(controller)} - {killed})
    return found


def test_workers_and_machines_that_are_killed(tmp_path: Path) -> None:
    """A cell that loses its worker is tried elsewhere; one that loses its machine fails, and is said once."""
    study, mark = tmp_path / "s", tmp_path / "tmp"
    asked = ("run", *GUEST, "--reps", "3", "--fleet", "local:1")
    with running(study, *asked) as controller:
        wait_until(lambda: machines_of(mark))
        (worker,) = workers_of(controller)
        assert parent_of(machines_of(mark)[0]) == worker
        os.kill(worker, signal.SIGKILL)
        machines: list[int] = []
        wait_until(lambda: machines.extend(of_another_worker(controller, mark, worker)) or machines)
        os.kill(machines[0], signal.SIGKILL)
        _, err = controller.communicate()
    assert controller.returncode == 3 and "Traceback" not in err
    assert (
        len(
            [
                line
                for line in err.splitlines()
                if "has left the fleet: its cells run on other workers" in line
            ]
        )
        == 1
    )
    assert len([line for line in err.splitlines() if "its worker ended, try 1 of 3" in line]) == 1
    assert len([line for line in err.splitlines() if "was ended by signal 9" in line]) == 1
    records = store.open_study(study).records()
    assert [record.measured for record in records].count(True) == 2
    answer = bigiron("run", study, "--fleet", "local:1")
    assert (answer.status, answer.out.split(":")[0]) == (0, "1 of 1 cells measured"), answer
    assert not machines_of(mark)


def test_a_controller_that_is_killed(tmp_path: Path) -> None:
    """Its workers leave no machine, and the study goes on."""
    study, mark = tmp_path / "s", tmp_path / "tmp"
    with ExitStack() as stack:
        fleet = Members(tmp_path, stack)
        mark.mkdir()
        fleet.worker("alpha", TMPDIR=str(mark))
        asked = ("run", *GUEST, "--reps", "2", *fleet.options)
        with running(study, *asked) as controller:
            wait_until(lambda: machines_of(mark))
            controller.kill()
        wait_until(lambda: not machines_of(mark))
        assert not store.open_study(study).records()
        with running(study, *asked) as controller:
            wait_until(lambda: machines_of(mark))
            controller.send_signal(signal.SIGINT)
            _, err = controller.communicate()
        assert (controller.returncode, err.splitlines()[-1]) == (
            130,
            f"bigiron: stopped: the same command continues {study}",
        )
        wait_until(lambda: not machines_of(mark))
        answer = bigiron("run", study, *fleet.options)
        assert (answer.status, answer.out.split(":")[0]) == (0, "2 of 2 cells measured"), answer


def test_a_cell_that_ends_its_workers_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, bigiron._sim as sim\nsim.simulate = lambda points, stop: os._exit(1)\n"
    )
    answer = bigiron(
        "simulate", "lock-bound", "--machine", "x86-2s", "--cpus", "2", "-o", tmp_path / "s",
        "--fleet", "local:1", PYTHONPATH=str(tmp_path),
    )  # fmt: skip
    assert answer.status == 3
    assert "3 workers ended while they ran it" in answer.err
    assert [f"try {number} of 3" in answer.err for number in (1, 2, 3)] == [True] * 3


def test_a_scheduler_that_ends(tmp_path: Path) -> None:
    with ExitStack() as stack:
        fleet = Members(tmp_path, stack)
        worker = fleet.worker("alpha")
        with running(tmp_path / "s", "simulate", *LONG, *fleet.options) as controller:
            wait_until((tmp_path / "s" / "study.toml").exists)
            fleet.scheduler.kill()
            _, err = controller.communicate()
        assert controller.returncode == 2 and "Traceback" not in err
        assert "the fleet's scheduler has ended" in err
        _, said = worker.communicate()
        assert said.strip() == "bigiron: the scheduler has ended"


def test_a_scheduler_that_tells_no_more(tmp_path: Path) -> None:
    """It closes the stream by which it says what has ended, as after a fault of its own."""
    with ExitStack() as stack:
        fleet = Members(tmp_path, stack)
        fleet.worker("alpha")
        with running(tmp_path / "s", "simulate", *LONG, *fleet.options) as controller:
            wait_until((tmp_path / "s" / "study.toml").exists)
            security = authority.security(fleet.certificates)
            cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the scheduler has no tests
            with Client(fleet.address, security=security, set_as_default=False) as client:
                wait_until(lambda: client.run_on_scheduler(close_streams, client.id))
                _, err = controller.communicate()
        assert controller.returncode == 2 and "Traceback" not in err
        assert "the fleet's scheduler has ended" in err


def close_streams(mine: str, dask_scheduler: Scheduler) -> bool:
    """Of all clients but one that have asked for anything; whether there were any."""
    others = [one for one, known in dask_scheduler.clients.items() if one != mine and known.wants_what]
    for one in others:
        dask_scheduler.client_comms[one].send({"op": "stream-closed"})
    return bool(others)


# Who takes part


def test_workers_that_differ(tmp_path: Path) -> None:
    """Another QEMU, another bigiron, too little memory, a wrong clock: each is said in a line."""
    study = tmp_path / "s"
    assert bigiron("run", *GUEST, "-o", study).status == 0
    with ExitStack() as stack:
        fleet = Members(tmp_path, stack)
        fleet.worker("good", LD_PRELOAD=str(wrong_clock(tmp_path)))
        fleet.worker("newer", PATH=f"{another_qemu(tmp_path)}:{os.environ['PATH']}")
        fleet.worker("edited", PYTHONPATH=str(another_bigiron(tmp_path)))
        fleet.worker("small", "--memory", "100")
        answer = bigiron("run", study, "--reps", "2", *fleet.options)
    assert (answer.status, answer.out.split(":")[0]) == (0, "1 of 1 cells measured"), answer
    lines = [line for line in answer.err.splitlines() if " on " in line and "worker " in line]
    assert len(lines) == 4, lines
    assert any("newer has qemu 10.1.7, but the study's cells have " in line for line in lines), lines
    assert any("edited has another bigiron" in line for line in lines)
    assert any("small has 100 MiB, and " in line for line in lines)
    assert any(re.search(r"good: its clock is 3\d\d\d s ahead", line) for line in lines)
    first, second = store.open_study(study).records()
    assert second.environment["worker"]["host"] == "good"
    assert first.started <= second.started
    assert second.started < time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 600))


def wrong_clock(folder: Path) -> Path:
    """A library that puts the time of day an hour ahead."""
    source = folder / "clock.c"
    source.write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <time.h>\n"
        "int clock_gettime(clockid_t id, struct timespec *now)\n{\n"
        "\tint (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, __func__);\n"
        "\tint failed = real(id, now);\n\n"
        "\tif (id == CLOCK_REALTIME)\n\t\tnow->tv_sec += 3600;\n\treturn failed;\n}\n"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", folder / "clock.so"], check=True)
    return folder / "clock.so"


def another_qemu(folder: Path) -> Path:
    """A folder with one that calls itself newer."""
    (folder / "bin").mkdir()
    qemu = folder / "bin/qemu-system-x86_64"
    qemu.write_text("#!/bin/sh\necho 'QEMU emulator version 10.1.7'\n")
    qemu.chmod(0o755)
    return qemu.parent


def another_bigiron(folder: Path) -> Path:
    """A folder with a copy that differs."""
    copy = folder / "edited"
    shutil.copytree(ROOT / "src/bigiron", copy / "bigiron", symlinks=True)
    for link in (one for one in (copy / "bigiron").iterdir() if one.is_symlink()):
        link.unlink()
    with (copy / "bigiron/errors.py").open("a") as file:
        file.write("# edited\n")
    return copy


def test_a_worker_that_the_scheduler_cannot_reach(tmp_path: Path) -> None:
    """As one behind a firewall, or that ends just now: the others measure, and a line says so."""
    with ExitStack() as stack:
        fleet = Members(tmp_path, stack, DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="500ms")
        fleet.worker("good")
        stack.enter_context(unreachable_worker(fleet))
        answer = simulate(tmp_path / "s", *fleet.options)
        assert (answer.status, answer.out.split(":")[0]) == (0, "4 of 4 cells measured"), answer.err
        with running(tmp_path / "long", "simulate", *LONG, *fleet.options) as controller:
            assert controller.stderr
            said = next(line for line in controller.stderr if "worker tls://" in line)
    assert re.search("tls://127.0.0.1:1 does not answer: .+: it is not used", said), said


@contextmanager
def unreachable_worker(fleet: Members) -> Iterator[None]:
    """Dask's own, that names another address than it listens at."""
    keys = {"ca-file": "authority.pem", "cert": "certificate.pem", "key": "key.pem"}
    command = [sys.executable, "-m", "distributed.cli.dask_worker", fleet.address, "--no-nanny"]
    for option, name in keys.items():
        command += [f"--tls-{option}", str(fleet.certificates / name)]
    command += ["--preload", "bigiron.fleet.worker", "--no-dashboard"]
    command += ["--listen-address", "tls://127.0.0.1:0", "--contact-address", "tls://127.0.0.1:1"]
    with subprocess.Popen(command, cwd=fleet.certificates, stderr=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stderr
            assert any("Registered to" in line for line in worker.stderr)
            yield
        finally:
            worker.kill()


def test_a_fleet_without_the_memory_for_a_cell(tmp_path: Path) -> None:
    with ExitStack() as stack:
        fleet = Members(tmp_path, stack)
        fleet.worker("small", "--memory", "100")
        answer = bigiron("run", *GUEST, "-o", tmp_path / "s", *fleet.options)
    assert answer.status == 2
    assert "no worker of the fleet can run it: worker " in answer.err and "on small has 100 MiB" in answer.err
    assert "277 are needed" in bigiron("show", tmp_path / "s").out


# To copy


def test_hosts_by_ssh(tmp_path: Path) -> None:
    """The page's script, with a real sshd, which is two hosts to ssh."""
    (tmp_path / "bin").mkdir()
    with served(tmp_path / "sshd", PATH=f"{BIGIRON.parent}:{os.environ['PATH']}") as server:
        ssh = tmp_path / "bin/ssh"
        ssh.write_text(
            f'#!/bin/sh\nexec {shutil.which("ssh")} -F {server.folder}/client-user -p {server.port} "$@"\n'
        )
        ssh.chmod(0o755)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        script = subprocess.Popen(
            ["sh", ROOT / "docs/fleet/ssh.sh", "127.0.0.1", "127.0.0.1"],
            cwd=tmp_path,
            env=os.environ
            | {"PATH": f"{ssh.parent}:{BIGIRON.parent}:{os.environ['PATH']}"}
            | {"PORT": str(port), "THERE": str(tmp_path / "there")},
            stdout=subprocess.PIPE,
            stderr=(tmp_path / "stderr").open("wb"),
            text=True,
        )
        try:
            assert script.stdout
            while not (line := script.stdout.readline()).startswith("bigiron run ... "):
                assert line
            answer = simulate(tmp_path / "s", *line.split()[3:])
        finally:
            script.terminate()
            said, _ = script.communicate()
    everything = f"{answer.err}{said}{(tmp_path / 'stderr').read_text()}"
    assert (answer.status, answer.out.split(":")[0]) == (0, "4 of 4 cells measured"), everything
    assert sorted(file.name for file in (tmp_path / "there").iterdir()) == sorted(
        file.name for file in (tmp_path / "certificates").iterdir()
    )


def test_the_other_files_to_copy_are_well_formed() -> None:
    subprocess.run(["sh", "-n", ROOT / "docs/fleet/slurm.sh"], check=True)
    documents = list(yaml.safe_load_all((ROOT / "docs/fleet/kubernetes.yaml").read_text()))
    assert [one["kind"] for one in documents] == ["Service", "Deployment", "Deployment"]


# Bad input


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--fleet", "local:0"), "--fleet local:0: use at least one worker"),
        (("--fleet", "moon"), "--fleet 'moon': use local:N for N workers here, or tls://HOST:PORT"),
        (("--fleet", "tls://127.0.0.1:99999"), "'tls://127.0.0.1:99999' is not the address of a scheduler"),
        (("--fleet", "tls://127.0.0.1:1"), "no certificates for tls://127.0.0.1:1"),
        (("--fleet", "tcp://192.0.2.1:1"), "tcp://192.0.2.1:1 is not encrypted"),
        (("--fleet", "tcp://127.0.0.1:1"), "no scheduler answers at tcp://127.0.0.1:1"),
        (("--fleet", "local:1", "--jobs", "1"), "--jobs does not apply to a fleet"),
        (("--certificates", "/none"), "--certificates needs a fleet"),
        (("--fleet", "tls://127.0.0.1:1", "--certificates", "/none"), "/none has no authority.pem"),
    ],
)
def test_what_is_refused(options: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    answer = simulate(tmp_path / "s", *options)
    assert answer.status == 2 and complaint in answer.complaint, answer
    assert not (tmp_path / "s").exists()


def test_a_certificate_of_another_authority(tmp_path: Path, two_hosts: Members) -> None:
    other = tmp_path / "other"
    assert bigiron("fleet", "init", other).status == 0
    answer = simulate(tmp_path / "s", "--fleet", two_hosts.address, "--certificates", str(other))
    assert answer.status == 2
    assert answer.complaint.startswith(f"no scheduler answers at {two_hosts.address}: ")
    joining = bigiron("fleet", "worker", two_hosts.address, "--certificates", other)
    assert joining.status == 2
    assert joining.complaint.startswith(f"no scheduler answers at {two_hosts.address}: ")


def test_certificates(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    assert bigiron("fleet", "init", folder).status == 0
    assert sorted(file.name for file in folder.iterdir()) == ["authority.pem", "certificate.pem", "key.pem"]
    assert (folder / "key.pem").stat().st_mode & 0o777 == 0o600
    assert "is not empty" in bigiron("fleet", "init", folder).complaint
    (folder / "key.pem").chmod(0o644)
    with pytest.raises(UserError, match="can be read by others"):
        authority.security(folder)
    (folder / "key.pem").chmod(0o600)
    (folder / "certificate.pem").write_text("none")
    with pytest.raises(UserError, match="cannot be used"):
        authority.security(folder)


def test_a_scheduler_that_would_listen_unencrypted() -> None:
    answer = bigiron("fleet", "scheduler", "--listen", "tcp://0.0.0.0:0")
    assert answer.status == 2 and "is not encrypted" in answer.complaint


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(UserError, match=r"pip install 'bigiron\[fleet\]'"):
        command.require_dask()


# What a worker can be asked


def request(spec: Spec, repetition: int = 1, change: str = "") -> WorkerRequest:
    return WorkerRequest(
        question=specs.to_toml(spec), repetition=repetition, change=change, supplies=Supplies(), topic="t"
    )


SOUND = Spec(workload="getppid1", cpus=[2], variant=[Variant(name="v", kernel="k")])


def test_a_question_for_one_cell() -> None:
    spec, cell = messages.read_question(request(SOUND, 3))
    assert (spec, cell.cpus, cell.tasks, cell.repetition) == (SOUND, 2, 2, 3)


def test_a_question_for_a_machine_of_another_shape() -> None:
    checked = msgspec.structs.replace(SOUND, check_shape=True)
    assert messages.read_question(request(checked, change="2x-nodes"))[1].id == "v-2cpus-2tasks-r1-2x-nodes"
    for spec, change in ((SOUND, "2x-nodes"), (checked, "3x-nodes")):
        with pytest.raises(UserError, match=f"no other shape '{change}'"):
            messages.read_question(request(spec, change=change))


@pytest.mark.parametrize(
    ("spec", "repetition", "complaint"),
    [
        (
            {"machine": "host"},
            1,
            "a fleet runs only virtual machines and simulations, but .* machine is host",
        ),
        ({"machine": "ssh", "address": "ssh://a@b"}, 1, "machine is ssh"),
        ({"cpus": [2, 4]}, 1, "more than one cell"),
        ({"cpus": [1 << 20]}, 1, "cpus = 1048576"),
        ({"variant": [Variant(name="v", boot="a\nb")]}, 1, "boot parameters"),
        ({"variant": [Variant(name="v", set=["rm"])]}, 1, "setting 'rm'"),
        ({"variant": [Variant(name="../v\n")]}, 1, "variant"),
        ({"probes": ["sh"]}, 1, "no probe 'sh'"),
        ({}, 0, "no repetition 0"),
    ],
)
def test_what_a_worker_does_not_do(spec: dict[str, object], repetition: int, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        messages.read_question(request(msgspec.structs.replace(SOUND, **spec), repetition))


def test_messages_that_are_none() -> None:
    for content in (b"", b"\xff", msgspec.msgpack.encode({"question": 1})):
        with pytest.raises(UserError, match="cannot read the controller's request"):
            messages.read_request(content)
    bad = {
        "question": b"",
        "repetition": 1,
        "supplies": {"agent": {"name": "../x", "sha256": "0" * 64}},
        "topic": "t",
    }
    with pytest.raises(UserError, match="cannot read the controller's request"):
        messages.read_request(msgspec.msgpack.encode(bad))


def test_files_are_what_they_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    (tmp_path / "agent").write_bytes(b"agent")
    file = files.describe(tmp_path / "agent")
    assert not files.is_here(file)
    with pytest.raises(UserError, match="arrived damaged"):
        files.keep(file, b"other")
    files.keep(file, b"agent")
    files.keep(file, b"agent")
    assert files.find(file).read_bytes() == b"agent"
    files.find(file).write_bytes(b"tampered")
    with pytest.raises(UserError, match="does not match its checksum"):
        files.find(file)
    with pytest.raises(ValueError, match="does not describe a file"):
        HashedFile("../agent", file.sha256)
