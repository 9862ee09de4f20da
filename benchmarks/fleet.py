"""What a fleet costs: cells an hour by workers, and what the engine takes of cells that do nothing.

    benchmarks/fleet.py [cells|engine|crowd] [CELLS] [WORKERS]

`cells` runs open1 with 2 CPUs, recorded, on 1 to 8 workers here, beside `--jobs 1`: real machines.
`engine` runs simulations that end at once, each a task with its request, its tables and its record: what is
left is Dask, our messages and the writing of the study. It says how long controller, scheduler and the
workers are busy with a cell: who is busiest is the bottleneck of a fleet in which each has a core of its own.
`crowd` is the same with 1,000 workers that share four processes, as so many processes do not fit here.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import dask
from distributed import Worker
from rich.console import Console
from rich.table import Table

from bigiron.fleet import authority, serve
from bigiron.fleet.identity import capacity
from bigiron.fleet.worker import Stops

BIGIRON = Path(sys.executable).with_name("bigiron")
WORKERS = (1, 2, 4, 8)
PROCESSES = 4  # of the crowd
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


def timed(study: Path, *command: str, **others: list[int]) -> tuple[float, dict[str, float]]:
    """Seconds from the first cell that is in the study to the end, and how long who was busy in them."""
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
    last: dict[int, float] = {}
    while process.poll() is None:
        for pid in roles:
            try:
                last[pid] = busy_s(pid) - before[pid]
            except OSError:
                continue
        os.set_blocking(process.stderr.fileno(), False)
        process.stderr.read()
        time.sleep(0.1)
    took = time.monotonic() - begin
    busy = {
        role: sum(last.get(pid, 0) for pid, one in roles.items() if one == role) for role in roles.values()
    }
    return took, busy


def cells(number: int) -> Table:
    """Real machines: cells an hour by workers."""
    table = Table(title=f"{number} cells of open1 on debian/6.12 with 2 CPUs, {os.cpu_count()} cores")
    for heading in ("where", "seconds", "cells an hour", "beside --jobs 1"):
        table.add_column(heading, justify="right")
    baseline = 0.0
    for where in (("--jobs", "1"), ("--jobs", "2"), *(("--fleet", f"local:{n}") for n in WORKERS)):
        with tempfile.TemporaryDirectory() as folder:
            took, _busy = timed(Path(folder) / "s", *GUEST, "--reps", str(number), *where)
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
            took, busy = timed(Path(folder) / "s", *asked, *where)
        print(json.dumps({"where": where, "seconds": took, "busy": busy}), file=sys.stderr, flush=True)
        each = [f"{1000 * busy.get(role, 0) / number:.1f}" for role in ("controller", "scheduler", "workers")]
        table.add_row(" ".join(where), f"{number / took:.0f}", *each)
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
        command = [BIGIRON, "fleet", "scheduler", "--listen", "tls://127.0.0.1:0", *certificates]
        scheduler = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(scheduler.kill)
        assert scheduler.stdout
        where = scheduler.stdout.readline().strip()
        processes = []
        for _ in range(PROCESSES):
            command = [sys.executable, __file__, "join", str(workers // PROCESSES), where, str(folder / "c")]
            processes.append(stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE)))
            stack.callback(processes[-1].kill)
        for process in processes:
            assert process.stdout
            process.stdout.readline()
        took, busy = timed(
            folder / "s",
            *empty(number),
            "--fleet",
            where,
            *certificates,
            scheduler=[scheduler.pid],
            workers=[process.pid for process in processes],
        )
    each = ", ".join(f"{1000 * of / number:.1f} ms of {role}" for role, of in busy.items())
    print(
        f"{number} cells that do nothing on {workers} workers: {number / took:.0f} a second; a cell: {each}"
    )


async def join(workers: int, where: str, certificates: Path) -> None:
    """Be so many workers."""
    serve.quiet()
    mine = {"security": authority.security(certificates), "plugins": (Stops(),), "memory_limit": 0}
    listen = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "dashboard": False}
    for _ in range(workers):
        await Worker(where, nthreads=1, resources=capacity(1, 1), **mine, **listen)
    print("joined", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Cells and the engine, or the one that is named."""
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if chosen == "join":
        with dask.config.set({"distributed.worker.http.routes": []}):
            asyncio.run(join(number, sys.argv[3], Path(sys.argv[4])))
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
