"""One study that is harmed once, then run until it is whole, and looked at all the time.

Whatever should not be is one of `violations`; what is looked at is said in docs/validation/faults.md.
"""

import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
from sshd import Server, served

from bigiron.errors import UserError
from bigiron.study.store import CellRecord, Study, open_study

BIGIRON = Path(sys.executable).with_name("bigiron")
RELAY = Path(__file__).with_name("relay.py")
MARK = "BIGIRON_TRIAL"
FIGURE = 7  # that the external command prints
UNHURRIED_S = 900  # that anything may take where it is not looked at how long it does
SETTLE_S = 60  # that what was killed may take to be gone
TRIES = 4  # to make a study whole: on a machine that is busier than before, a cell may miss its deadline
_PROGRESS = re.compile(r".+: measured in \d+\.\d s|bigiron: waiting for another bigiron that measures on .+")
_LATE = re.compile(r"after its deadline|made no operation in \d+ s|not answered for")


@dataclass(frozen=True)
class Calm:
    """How long it takes and what comes out where nothing is harmed."""

    run_s: float
    cell_s: float
    weight: float  # of a cell's table


@dataclass(frozen=True)
class Place:
    """Where the machines are, and a small question for them."""

    question: tuple[str, ...]
    environment: dict[str, str]
    machine: str  # the program that a cell's machine is, as ps calls it
    server: Server | None = None


@dataclass(frozen=True)
class Run:
    """One `bigiron run` that has ended."""

    arguments: tuple[str, ...]
    status: int
    out: str
    err: str


@dataclass
class Started:
    """One that runs."""

    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes]
    folder: Path
    tmp: Path
    since: float


@dataclass
class Trial:
    """The study, its runs so far, and what was wrong with them."""

    place: Place
    folder: Path
    chance: random.Random
    calm: Calm
    deadline_s: int
    mark: str
    study: Path
    truthful: bool = True  # whether the agent's own words came through
    hit: bool = False  # whether the fault was in time
    runs: list[Run] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    measured: dict[str, str] = field(default_factory=dict)
    harmed: int = 0  # how many of its runs
    whole: bool = False
    overtaken_by: tuple[str, ...] = ()  # the question of who made the study before the first run could
    number: int = 0  # of the next run

    @property
    def limit_s(self) -> float:
        """After which a run hangs: its cells have deadlines, and some time to put all back."""
        return 60 + 2 * self.calm.run_s + 4 * (self.deadline_s + 60)

    def start(
        self, *arguments: str, environment: dict[str, str] | None = None, tmp: Path | None = None
    ) -> Started:
        """`bigiron run` in the background; by default with the study's question."""
        folder = self.folder / f"run-{self.number}"
        self.number += 1
        (folder / "tmp").mkdir(parents=True)
        tmp = tmp or folder / "tmp"
        arguments = arguments or self.question
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [BIGIRON, "run", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ
                | self.place.environment
                | {MARK: self.mark, "TMPDIR": str(tmp)}
                | (environment or {}),
            )
        return Started(arguments, process, folder, tmp, time.monotonic())

    @property
    def question(self) -> tuple[str, ...]:
        """The arguments of a first run."""
        asked = (*self.place.question, "--deadline", str(self.deadline_s), "-o", str(self.study))
        return self.overtaken_by or asked

    def finish(self, started: Started, killed: bool = False) -> Run:
        """Wait until it ends, and look at how it did. A killed process may leave files."""
        if not self.until(lambda: started.process.poll() is not None, self.limit_s):
            self.violations.append(f"hangs: ran for more than {self.limit_s:.0f} s")
            started.process.kill()
            killed = True
        status = started.process.wait()
        err = (started.folder / "err").read_text(errors="replace")
        run = Run(started.arguments, status, (started.folder / "out").read_text(errors="replace"), err)
        self.runs.append(run)
        self._check_run(run, killed)
        if not self.until(lambda: not self.processes()):
            left = {pid: words(pid) for pid in self.processes()}
            self.violations.append(f"left running: {left}")
            for pid in left:
                kill(pid, signal.SIGKILL)
        if not killed and (files := [path.name for path in started.tmp.iterdir() if path.name != "filler"]):
            self.violations.append(f"left in TMPDIR: {files}")
        self._check_cells()
        return run

    def until(self, true: Callable[[], bool], seconds: float = SETTLE_S) -> bool:
        """Wait for something; whether it came."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def wait_for_moment(self, started: Started) -> None:
        """Some time in a run; more often than not while a cell is measured."""
        if self.chance.random() < 0.25:
            seconds = self.chance.random() * self.calm.run_s
        else:
            self.until(
                lambda: self.processes(self.place.machine) != [] or started.process.poll() is not None,
                UNHURRIED_S,
            )
            seconds = self.chance.random() * self.calm.cell_s * 0.8  # as it took some time to come there
        self.until(lambda: started.process.poll() is not None, seconds)

    def processes(self, name: str = "") -> list[int]:
        """What runs for this trial, here or by ssh: what has its mark in its environment."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                marks = (process / "environ").read_bytes().split(b"\0")
                if f"{MARK}={self.mark}".encode() in marks and (
                    not name or (process / "comm").read_text().strip().startswith(name)
                ):
                    found.append(int(process.name))
            except OSError:
                continue  # it has just ended
        return found

    def resume(self) -> None:
        """Run the study until it is whole, and look at what it is then."""
        self.harmed = len(self.runs)
        for _ in range(TRIES):
            whole = (self.study / "study.toml").exists() and self.chance.random() < 0.7
            run = self.finish(self.start(*([str(self.study)] if whole else [])))
            if run.status == 0:
                self.whole = True
                break
            if not _LATE.search(run.err):
                self.violations.append(f"does not go on: status {run.status}: {run.err[-300:]}")
                break
        else:
            self.violations.append(f"not whole after {TRIES} tries: {self.runs[-1].err[-300:]}")
        self._check_study()

    def _check_run(self, run: Run, killed: bool) -> None:
        lines = [line for line in run.err.splitlines() if not _PROGRESS.fullmatch(line)]
        if re.search(r"Traceback|Exception ignored|^\w*(Error|Exception)\b|leaked", run.err, re.MULTILINE):
            self.violations.append(f"traceback: {run.err[-1500:]}")
        if killed and run.status < 0:
            return
        if run.status not in (0, 2, 3, *([130] if killed else [])):
            self.violations.append(f"exit status {run.status}: {run.err[-300:]}")
        if run.status == 0 and lines:
            self.violations.append(f"status 0 and complaints: {lines[:3]}")
        if run.status not in (0, 130) and not any(line.startswith("bigiron: ") for line in lines):
            self.violations.append(f"status {run.status} and no reason: {run.err[-300:]}")
        if run.status not in (0, 130) and not run.out and len(lines) != 1:
            self.violations.append(f"not one line but {len(lines)}: {run.err[:600]}")

    def _opened(self) -> Study | None:
        """The study as it is now: readable, whatever has happened."""
        if not (self.study / "study.toml").exists():
            return None
        try:
            return open_study(self.study)
        except UserError as error:
            self.violations.append(f"study not readable: {error}")
            return None

    def _check_cells(self) -> None:
        """Those that are there are whole, and those that were measured are as they were."""
        study, now = self._opened(), {}
        try:
            for record in study.records() if study else []:
                if record.measured:
                    now[record.id] = digest(self.study / "cells" / record.id)
                    for probe in record.tables:
                        study.table(record, probe)  # type: ignore[union-attr]
        except UserError as error:
            self.violations.append(f"cell not readable: {error}")
        for cell, before in self.measured.items():
            if cell not in now:
                self.violations.append(f"lost: {cell} was measured")
            elif now[cell] != before:
                self.violations.append(f"changed: {cell} was measured, and is another now")
        self.measured = now

    def _check_study(self) -> None:
        """Every planned cell is there, once and measured, and nothing else; what it says is true."""
        study = self._opened()
        if study is None:
            self.violations.append("no study")
            return
        planned = sorted(cell.id for cell in study.plan())
        there = sorted(path.name for path in (self.study / "cells").iterdir())
        if there != planned:
            self.violations.append(f"cells {there}, not {planned}")
        beside = {path.name for path in self.study.iterdir()} - {"study.toml", "cells", "workload.c", ".lock"}
        if beside:
            self.violations.append(f"left in the study: {sorted(beside)}")
        for record in study.records():
            if not record.measured:
                self.violations.append(f"not measured: {record.id}")
            elif record.environment.get("command", study.spec.command) != study.spec.command:
                self.violations.append(f"{record.id} ran another command than the study asks for")
            elif record.environment.get("operations", study.spec.operations) != study.spec.operations:
                self.violations.append(f"{record.id} ran another number of operations than asked for")
            elif self.truthful and (false := falsehood(study, record, self.calm)):
                self.violations.append(f"false: {record.id}: {false}")
        if self.place.server and not self.until(lambda: not any(self.place.server.temporary.iterdir())):  # type: ignore[union-attr]
            left = [path.name for path in self.place.server.temporary.iterdir()]
            self.violations.append(f"left there in TMPDIR: {left}")


def weight(study: Study, record: CellRecord) -> float:
    """What a cell's table says, as one number that repeats: the figure, or the kernel's instructions."""
    if "metrics" in record.tables:
        return float(study.table(record, "metrics")["value"].sum())
    if "instructions" in record.tables:
        work = study.table(record, "instructions").filter(pl.col("context") == "process")
        return float(work["instructions"].sum() / max(1, len(record.facts["instructions"]["operations"])))
    return 0.0


def falsehood(study: Study, record: CellRecord, calm: Calm) -> str:
    """How a measured cell differs from one that no fault harmed; "" where it does not."""
    if "throughput" in record.tables:
        samples = study.table(record, "throughput")
        whole = samples.height == 5 * record.tasks and samples["operations"].min()
        return "" if whole else f"samples {samples.rows()}"
    if calm.weight and abs(weight(study, record) / calm.weight - 1) > 0.1:
        return f"{weight(study, record):.0f}, not {calm.weight:.0f}"
    return ""


def digest(folder: Path) -> str:
    """Of all files of a cell."""
    files = sorted(path for path in folder.iterdir())
    return hashlib.sha256(
        b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in files)
    ).hexdigest()


def kill(pid: int, signal: int) -> bool:
    """Whether it was still there."""
    try:
        os.kill(pid, signal)
    except ProcessLookupError:
        return False
    return True


def words(pid: int) -> str:
    """A process's command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "?"


def children(pid: int) -> list[int]:
    """The processes that it started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in lists for child in each.read_text().split()]


QUESTIONS = {
    "vm": ("getppid1", "--kernel", "debian/6.1", "--probe", "instructions", "--cpus", "1", "--operations",
           "20", "--reps", "2"),
    "ssh": ("--command", f"sh -c 'sleep 0.2; echo {FIGURE}'", "--metric", r"(\d+)", "--tasks", "1",
            "--reps", "3"),
    "ssh, throughput": ("getppid1", "--probe", "throughput", "--tasks", "1", "--reps", "2"),
}  # fmt: skip


@contextmanager
def place(name: str, folder: Path, mark: str) -> Iterator[Place]:
    """Virtual machines, or a server of its own that lets us in by ssh."""
    question = QUESTIONS[name]
    if name == "vm":
        yield Place(question, {}, "qemu-system")
        return
    with served(folder / "server", **{MARK: mark}) as server:
        yield Place((*question, "--machine", server.address), server.environment, "agent", server)
