"""Engines: what a study knows of where it runs, and that what happens to a cell is that cell's failure."""

import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from conftest import BIGIRON, wait_until

from bigiron.errors import MachineError, UserError
from bigiron.machines.engine import BootedKernel, Engine, FromOutcome, Job
from bigiron.machines.messages import Message
from bigiron.machines.outcome import MachineOutcome
from bigiron.machines.real import real
from bigiron.report.progress import ProgressBar
from bigiron.study import engines, run, simulated, store
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import Study
from bigiron.util import subprocesses
from bigiron.util.threads import StoppedError


@dataclass(frozen=True)
class Elsewhere(Engine):
    """An engine in one place, as a fleet will be: its second repetition fails as it is told to."""

    time = "some time"
    is_model = True  # so that no programs are compiled for it

    failure: Exception

    def cpus(self, asked: list[int]) -> list[int]:
        """All."""
        return asked

    def arch(self, asked: str) -> str:
        """Any."""
        return asked

    def kernel(self, name: str, boot: str) -> BootedKernel:
        """None."""
        return BootedKernel(name, "")

    def prepare(self, cpus: list[int]) -> None:
        """Nothing."""

    def side_by_side(self, cpus: int) -> int:
        """Two."""
        return 2

    def deadline_s(self, cpus: int) -> int:
        """One."""
        return 1

    def environment(self, job: Job) -> dict[str, object]:
        """The repetition."""
        return {"seed": job.repetition}

    def run(
        self,
        job: Job,
        collect: Callable[[MachineOutcome], FromOutcome],
        stop: threading.Event,
        on_stage: Callable[[str], None],
    ) -> FromOutcome:
        """A report like a simulation's."""
        if job.repetition == 2:
            raise self.failure
        cpus = {f"{what}_ns": [1.0] for what in simulated._SPENT} | {"interrupt_ns": [0.0]}
        report = {"elapsed_ns": 1.0, "cpus": cpus, "figures": [], "operations_per_s": 7.0}
        return collect(
            MachineOutcome([Message("simulation", report | {"lines": [], "locks": [], "timeline": None})])
        )


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], Study]:
    """A study on that engine, which is all that it takes to have another one."""

    def study(failure: Exception) -> Study:
        monkeypatch.setattr(engines, "_ENGINES", {"elsewhere": lambda _spec: Elsewhere(failure)})
        monkeypatch.setattr("bigiron.simulator.machine_files.text", lambda _name: "")
        spec = Spec(workload="w", machine="elsewhere", repetitions=3, cpus=[1], variant=[Variant(name="v")])
        return store.create(tmp_path / "s", spec, None)

    return study


@pytest.mark.parametrize(
    ("failure", "kind", "reason"),
    [
        (UserError("no such setting"), "input", "no such setting"),
        (MachineError("it burnt"), "machine", "it burnt"),
        (KeyError("operations"), "machine", "KeyError in test_engine.py, line "),
        (MemoryError(), "machine", "out of memory on this host"),
        (OSError(28, "No space left on device", "/tmp/x"), "machine", "No space left on device (/tmp/x)"),
    ],
)
def test_what_happens_to_one_cell_is_its_failure(
    failure: Exception, kind: str, reason: str, elsewhere: Callable[[Exception], Study]
) -> None:
    study = elsewhere(failure)
    assert study.time == "some time"
    with ProgressBar([]) as progress:
        run.run(study, None, run.default_jobs(study.spec), progress)
    first, second, third = study.records()
    assert (first.failure, third.failure) == (None, None)
    assert first.environment["seed"] == 1
    assert study.table(first, "simulation").filter(pl.col("figure") == "throughput")["value"].item() == 7
    assert second.failure and second.failure.kind == kind
    assert second.failure.reason.startswith(reason)


@pytest.mark.parametrize("failure", [UserError("a\x1b[31mb"), MachineError("a\x1b[31mb", "\x1b[2J")])
def test_what_a_machine_says_steers_no_terminal(
    failure: Exception, elsewhere: Callable[[Exception], Study]
) -> None:
    with ProgressBar([]) as progress:
        _, record, _ = run.run(elsewhere(failure), None, 1, progress)
    assert record.failure and record.failure.reason == "a\\x1b[31mb"
    assert "\x1b" not in record.failure.console
    outcome = MachineOutcome()
    outcome.receive(Message("stage", {"stage": "\x1b[2J"}), 0.0)
    assert outcome.stage == "in \\x1b[2J"


def test_a_machine_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="machine = 'moon': use one of vm, host, ssh, simulated, imported"):
        engines.engine(Spec(workload="w", machine="moon", variant=[]))


@pytest.mark.parametrize("script", ["echo 'a.c:1: error: so it is' >&2; exit 1", "kill -9 $$", "exit 3"])
def test_a_compiler_that_fails_is_one_line(script: str) -> None:
    expected = {"e": "a.c:1: error: so it is", "k": "killed by signal 9"}.get(
        script[0] * (script[1] != "x"), ""
    )
    with pytest.raises(UserError) as failed:
        subprocesses.run(["sh", "-c", script], "x does not compile")
    assert str(failed.value) == f"x does not compile: {expected or 'status 3, without a message'}"


def test_what_ends_its_output_and_stays_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a remote program does that waits for input that never comes."""
    monkeypatch.setattr(real, "_RESTORE_S", 1)
    stays = ["sh", "-c", "exec >&-; exec sleep 100000"]
    with subprocess.Popen(stays, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert real._status(process) == -signal.SIGKILL


@pytest.mark.parametrize("says", ["remains", "nothing"])
def test_the_folder_goes_however_long_the_agent_removes_files(
    says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for no longer, and removes the folder all the same."""
    payload = '{"pid":0}'
    message = f"@bigiron remains {len(payload)} {zlib.crc32(payload.encode()):08x}\n{payload}\n"
    said = message if says == "remains" else ""
    goes_on, agent = tmp_path / "goes_on", tmp_path / "slow"
    agent.write_text(
        f"#!/bin/sh\ncat >/dev/null\nprintf %s '{said}'\nuntil test -e {goes_on}; do sleep 0.1; done\n"
    )
    monkeypatch.setattr(real, "_CLEAR_S", 0.5)
    monkeypatch.setattr(real, "_RESTORE_S", 60 if said else 0.5)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    stop = threading.Event()
    stop.set()
    machine = real.RealMachine("", real.system(""), agent, "", deadline_s=100)
    with pytest.raises(StoppedError if said else MachineError):
        real.run(machine, stop, lambda stage: None)
    goes_on.touch()
    wait_until(lambda: not list((tmp_path / "tmp").iterdir()))


# Ctrl-C


def test_ctrl_c_stops_a_simulation(tmp_path: Path) -> None:
    """One that would take days. What is looked at is that it ends, not how soon."""
    asked = ("lock-bound", "--machine", "altix-512", "--duration", "900000000", "-o", str(tmp_path / "s"))
    running = subprocess.Popen([BIGIRON, "simulate", *asked], stderr=subprocess.PIPE, text=True)
    try:
        while not (tmp_path / "s" / "study.toml").exists():
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 130
    assert "stopped: the same command continues" in said and "Traceback" not in said


def test_ctrl_c_stops_a_sweep() -> None:
    script = (
        "import os, signal, threading; from bigiron import _sim; "
        "threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start(); "
        "machine = _sim.Machine.named('altix-512'); "
        "_sim.simulate([_sim.Point('lock-bound', machine, [], seed=1, warmup_ns=0, duration_ns=1e17,"
        " event_budget=10**18)] * 3)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.stderr.strip().endswith("KeyboardInterrupt")


# Measuring this machine


@pytest.mark.parametrize("what", ["transfer_ns", "wakeup_ns", "memory_ns"])
@pytest.mark.parametrize("cpu", [8000, 10000])
def test_a_cpu_on_which_no_thread_can_run(what: str, cpu: int) -> None:
    """Neither thread waits for the other for ever; and more than 1024 CPUs can be named."""
    for pair in ((0, cpu), (cpu, 0)):
        given = (*pair, 1 << 20) if what == "memory_ns" else pair
        script = f"from bigiron import _sim; _sim.{what}{given}"
        ended = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
        )
        assert "OSError: Invalid argument" in ended.stderr
