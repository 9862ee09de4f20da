"""What a fleet costs: cells an hour by workers, and what the engine takes of cells that do nothing.

    benchmarks/machines/fleet.py [cells|engine|crowd|controller] [CELLS] [WORKERS]

`cells` runs open1 with 2 CPUs, recorded, on 1 to 8 workers here, beside `--jobs 1`: real machines.
`engine` runs simulations that end at once, each a task with its request, its tables and its record: what is
left is Dask, our messages and the writing of the study. It says how long controller, scheduler and the
workers are busy with a cell: who is busiest is the bottleneck of a fleet in which each has a core of its own.
`crowd` is the same with 1,000 workers that share four processes, as so many processes do not fit here; they
answer with the first cell's tables. `controller` is the controller alone, with 100,000 cells: who answers
at once is in Dask's place.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
from distributed import Worker
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from bigiron.fleet import authority, messages, serve, worker
from bigiron.fleet.controller import StudyPool
from bigiron.fleet.identity import capacity, identity
from bigiron.fleet.worker import Stops
from bigiron.report.progress import ProgressBar
from bigiron.study import cell, pool, run, simulated, store
from bigiron.study.plan import Cell
from bigiron.study.spec import Spec

BIGIRON = Path(sys.executable).with_name("bigiron")
WORKERS = (1, 2, 4, 8)
PROCESSES = 4  # of the crowd
JOINING = 25  # at once in each of them
ENGINE_WORKERS = (1, 2, 4, 8, 16)
GUEST = ("run", "open1", "--kernel", "debian/6.12", "--cpus", "2", "--operations", "100")
EMPTY = (
    "simulate",
    "lock-bound",
    "--machine",
    "x86-2s",
    "--cpus",
    "1",
    "--warmup",
    "0",
    "--duration",
    "0.000001",
)
UNOBSERVED = {
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    "distributed.worker.use-file-locking": False,
    "distributed.worker.memory.monitor-interval": "1h",
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.tick.interval": "1h",
    "distributed.admin.tick.cycle": "1h",
}
"""What a worker does by itself 50 to 100 times per second: a thousand of them keep a host busy."""
Measured = tuple[store.CellRecord, store.Collected]
_TICKS = os.sysconf("SC_CLK_TCK")


def busy_s(pid: int) -> float:
    """How long a process has run on CPUs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def children(pid: int) -> list[int]:
    """The processes that it has started."""
    return [
        int(one) for file in Path(f"/proc/{pid}/task").glob("*/children") for one in file.read_text().split()
    ]


def peak_mib(pid: int) -> float:
    """The most memory that a process has had."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status.get("VmHWM", "0 kB").split()[0]) / 1024


@dataclass
class Spent:
    """From the first cell that is in the study to the end."""

    seconds: float
    busy: dict[str, float]  # seconds of CPUs, by role
    mib: dict[str, float]  # the most that a process of the role has had


def timed(study: Path, *command: str, **others: list[int]) -> Spent:
    """What a command takes, and processes beside it by role."""
    process = subprocess.Popen(
        [BIGIRON, *command, "-o", study], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    cells = study / "cells"
    while not cells.is_dir() or not any(not one.name.startswith(".") for one in cells.iterdir()):
        if process.poll() is not None:
            raise SystemExit(f"{command}: {process.stderr.read().decode() if process.stderr else ''}")
        time.sleep(0.02)
    begin, roles = time.monotonic(), {process.pid: "controller"}
    for pid in children(process.pid):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        roles[pid] = "scheduler" if b"scheduler" in words else "workers"
    roles |= {pid: role for role, pids in others.items() for pid in pids}
    before = {pid: busy_s(pid) for pid in roles}
    last, most = dict[int, float](), dict[int, float]()
    while process.poll() is None:
        for pid in roles:
            try:
                last[pid], most[pid] = busy_s(pid) - before[pid], max(peak_mib(pid), most.get(pid, 0))
            except OSError:
                continue
        os.set_blocking(process.stderr.fileno(), False)
        process.stderr.read()
        time.sleep(0.1)
    took = time.monotonic() - begin
    if process.returncode:
        raise SystemExit(f"{command} ended with status {process.returncode}")
    pids = {role: [pid for pid, one in roles.items() if one == role] for role in roles.values()}
    return Spent(
        took,
        {role: sum(last.get(pid, 0) for pid in each) for role, each in pids.items()},
        {role: max(most.get(pid, 0) for pid in each) for role, each in pids.items()},
    )


def cells(number: int) -> Table:
    """Real machines: cells an hour by workers."""
    table = Table(title=f"{number} cells of open1 on debian/6.12 with 2 CPUs, {os.cpu_count()} cores")
    for heading in ("where", "seconds", "cells an hour", "beside --jobs 1"):
        table.add_column(heading, justify="right")
    baseline = 0.0
    for where in (("--jobs", "1"), ("--jobs", "2"), *(("--fleet", f"local:{n}") for n in WORKERS)):
        with tempfile.TemporaryDirectory() as folder:
            took = timed(Path(folder) / "s", *GUEST, "--reps", str(number), *where).seconds
        rate = 3600 * (number - 1) / took  # the clock starts when the first has landed
        print(json.dumps({"where": where, "seconds": took, "rate": rate}), file=sys.stderr, flush=True)
        baseline = baseline or rate
        table.add_row(" ".join(where), f"{took:.0f}", f"{rate:.0f}", f"{rate / baseline:.2f}")
    return table


def engine(number: int, workers: tuple[int, ...]) -> Table:
    """Cells that do nothing: what all the rest costs."""
    table = Table(title=f"{number} cells that do nothing, {os.cpu_count()} cores")
    for heading in ("where", "cells a second", "ms of controller", "of scheduler", "of workers, a cell"):
        table.add_column(heading, justify="right")
    asked = empty(number)
    for where in (("--jobs", "2"), *(("--fleet", f"local:{n}") for n in workers)):
        with tempfile.TemporaryDirectory() as folder:
            spent = timed(Path(folder) / "s", *asked, *where)
        print(json.dumps({"where": where, **asdict(spent)}), file=sys.stderr, flush=True)
        roles = ("controller", "scheduler", "workers")
        each = [f"{1000 * spent.busy.get(role, 0) / number:.1f}" for role in roles]
        table.add_row(" ".join(where), f"{number / spent.seconds:.0f}", *each)
    return table


def empty(number: int) -> tuple[str, ...]:
    """What asks for so many cells that do nothing."""
    seeds = min(number, 1000)
    variants = ",".join(map(str, range(1, number // seeds + 1)))
    return (*EMPTY, "--seeds", str(seeds), "--set", f"think={variants}")


def crowd(number: int, workers: int) -> None:
    """So many workers in a few processes: what the controller and the scheduler take then."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        authority.create(folder / "c", 1)
        certificates = ("--certificates", str(folder / "c"))
        listen = ("--listen", "tls://127.0.0.1:0")
        scheduler = launched(stack, BIGIRON, "fleet", "scheduler", *listen, *certificates)
        where = first_line(scheduler)
        begin = time.monotonic()
        each = (str(workers // PROCESSES), where, str(folder / "c"))
        hosts = [launched(stack, sys.executable, __file__, "join", *each) for _ in range(PROCESSES)]
        for host in hosts:
            first_line(host)
        pids = {"scheduler": [scheduler.pid], "workers": [host.pid for host in hosts]}
        took, busy = time.monotonic() - begin, {role: sum(map(busy_s, here)) for role, here in pids.items()}
        print(f"{workers} workers joined in {took:.0f} s; busy: {busy}", file=sys.stderr, flush=True)
        spent = timed(folder / "s", *empty(number), "--fleet", where, *certificates, **pids)
    print(f"{number} cells that do nothing on {workers} workers: {number / spent.seconds:.0f} a second")
    for role, seconds in spent.busy.items():
        print(f"{role}: {1000 * seconds / number:.1f} ms a cell, {spent.mib[role]:.0f} MiB")


def launched(stack: ExitStack, *command: str | Path) -> "subprocess.Popen[str]":
    """A process that ends with the stack; in a session of its own, as Linux shares CPUs out by them."""
    process = stack.enter_context(
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    )
    stack.callback(process.kill)
    return process


def first_line(process: "subprocess.Popen[str]") -> str:
    """What it prints first."""
    assert process.stdout
    return process.stdout.readline().strip()


async def join(workers: int, where: str, certificates: Path) -> None:
    """Be so many workers."""
    serve.quiet()
    cell.run_cell = at_once(cell.run_cell)
    mine: dict[str, Any] = {
        "security": authority.security(certificates),
        "memory_limit": 0,
        "nthreads": 1,
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "dashboard": False,
    }
    with tempfile.TemporaryDirectory() as scratch:
        for so_far in range(0, workers, JOINING):
            joining = [
                Worker(where, resources=capacity(1, 1), plugins=(Stops(),), local_directory=scratch, **mine)
                for _ in range(min(JOINING, workers - so_far))
            ]
            await asyncio.gather(*joining)
        print("joined", flush=True)
        await asyncio.Event().wait()


def at_once(measure: Callable[..., Measured]) -> Callable[..., Measured]:
    """Measure the first cell, and answer with its tables to what asks for others: they have no host each."""
    kept: list[Measured] = []

    def answer(spec: Spec, cell: Cell, *more: object) -> Measured:
        kept[:] = kept or [measure(spec, cell, *more)]
        record, collected = kept[0]
        mine = store.new_record(cell, spec.machine)
        return replace(mine, environment=dict(record.environment), seconds=record.seconds), collected

    return answer


class Answer:
    """A task that has ended."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def result(self) -> bytes:
        return self._content


class AtOnce:
    """In Dask's place: so many workers, which answer at once, and who calls back when they have."""

    status = "running"
    _handle_report_task = None  # it has no stream of news
    scheduler = SimpleNamespace(identity=None)

    def __init__(self, workers: int) -> None:
        known = {"resources": capacity(1, 1)}
        self._workers = {f"tls://10.0.{one >> 8}.{one & 255}:1": known for one in range(workers)}
        self._answers: dict[object, object] = {worker.identify: worker.identify(), worker.lacks: []}
        self._here = identity("").environment
        self._callbacks = ThreadPoolExecutor(1)
        self._measure = at_once(cell.run_cell)
        self.busy_s = 0.0  # that are no controller's

    def sync(self, *_: object, **_more: object) -> dict[str, object]:
        return {"workers": self._workers}  # it is asked for nothing else

    def run(self, function: object, *_: object, workers: list[str], **_more: object) -> dict[str, object]:
        return dict.fromkeys(workers, self._answers.get(function))

    def submit(self, _function: object, content: bytes, **_more: object) -> "Submitted":
        begin = time.thread_time()
        request = messages.read_request(content)
        question = messages.localized(*messages.read_question(request), request.supplies)
        record, collected = self._measure(*question, request.same, threading.Event(), lambda _stage: None)
        record.environment["worker"] = self._here
        answer = Answer(messages.answer(record, collected, 0.0))
        self.busy_s += time.thread_time() - begin
        return Submitted(self._callbacks, answer)

    def cancel(self, *_: object, **_more: object) -> None: ...
    def subscribe_topic(self, *_: object) -> None: ...
    def unsubscribe_topic(self, *_: object) -> None: ...


@dataclass
class Submitted:
    """What is told when it has ended."""

    callbacks: ThreadPoolExecutor
    answer: Answer

    def add_done_callback(self, told: Callable[[Answer], None]) -> None:
        self.callbacks.submit(told, self.answer)


def controller(number: int, workers: int) -> None:
    """The controller's own code, without Dask: so many cells of so many workers that answer at once."""
    seeds = min(number, 1000)
    spec = simulated.asking(
        "lock-bound", "x86-2s", [1], settings=[f"think={','.join(map(str, range(1, number // seeds + 1)))}"],
        seeds=seeds, warmup_ms=0, duration_ms=1e-6,
    )  # fmt: skip
    serve.quiet()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        study = store.create(Path(folder) / "s", simulated.resolve(spec), None)
        dask = AtOnce(workers)
        fleet: Any = SimpleNamespace(client=dask, local=None, here=0)
        missing = pool.missing(study)
        prepared = time.process_time()
        with ProgressBar(missing) as bar:
            records = run.run(study, None, partial(StudyPool, fleet), bar)
    assert len(records) == number and all(record.measured for record in records)
    took = time.process_time() - prepared - dask.busy_s
    print(
        f"{number} cells, {workers} workers: {1000 * took / number:.2f} ms a cell, "
        f"{prepared - begin:.1f} s to plan them, {peak_mib(os.getpid()):.0f} MiB"
    )


def main() -> None:
    """Cells and the engine, or the one that is named."""
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if chosen == "join":
        with dask.config.set(UNOBSERVED):
            asyncio.run(join(number, sys.argv[3], Path(sys.argv[4])))
    if chosen == "controller":
        controller(number or 100_000, int(sys.argv[3]) if len(sys.argv) > 3 else 1000)
        return
    if chosen == "crowd":
        crowd(number or 5000, int(sys.argv[3]) if len(sys.argv) > 3 else 1000)
        return
    workers = tuple(map(int, sys.argv[3].split(","))) if len(sys.argv) > 3 else ENGINE_WORKERS
    console = Console(width=110)
    if chosen != "engine":
        console.print(cells(number or 8))
    if chosen != "cells":
        console.print(engine(number or 1000, workers))


if __name__ == "__main__":
    main()
