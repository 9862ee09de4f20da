"""How fast the simulator is: against SimPy and another engine in Rust, and by the number of CPUs.

The contended lock is one model in three engines: tasks think for a random time, wait for one lock, first
come first served, and hold it for a fixed time. All draw the same random numbers, and all must give the same
history: as many operations, at the same moments. bigiron's is a program per task with accounts
(where each task's time went, which one task holds the lock); SimPy's is a process per task; simrs
has no processes: one component gets an event for each end of thinking and of holding. They run in turn.
Times are CPU times, as this machine may be busy.

The second table is bigiron's alone: MCS locks on cache lines, with so many tasks that the lock is always
held. An event is what the engine takes off its queue: the end of a piece of work, a memory access that is
done, a write that leaves the store buffer, the end of a sleep, an interrupt that arrives. Bytes are what the
process has grown by, the design's own state among it: with an MCS lock that is a queue node and a program of
a few hundred bytes for each CPU.
"""

import json
import os
import subprocess
import venv
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bigiron.util.cache_dir import cache_folder

HERE = Path(__file__).with_name("simulator")
SIMPY = "simpy==4.1.2"
ROUNDS = 5
TASKS = (8, 64, 512)
CPUS = (8, 64, 512, 4096, 16384)
EVENTS = 20_000_000
OPERATIONS = {"bigiron": 2_000_000, "simrs": 2_000_000, "SimPy": 20_000}  # as many as take long enough
THINK_S, HOLD_S = 10e-3, 100e-6  # as in simulator/src/main.rs and lock_simpy.py

GOALS = {"SimPy": 100, "simrs": 2}


def set_up() -> dict[str, list[str]]:
    """Compile the Rust engines and install SimPy, and say how each is started."""
    home = cache_folder("benchmarks")
    python = home / SIMPY / "bin" / "python"
    if not python.exists():
        print(f"installing {SIMPY} by pip into {home}: a peer that the simulator is measured against")
        venv.create(home / SIMPY, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", SIMPY], check=True)
    target = home / "simulator"
    build = ["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", HERE / "Cargo.toml"]
    subprocess.run(build, check=True, env={**os.environ, "CARGO_TARGET_DIR": str(target)})
    rust = str(target / "release/simulator-benchmark")
    return {
        "bigiron": [rust, "lock", "bigiron"],
        "simrs": [rust, "lock", "simrs"],
        "SimPy": [str(python), str(HERE / "lock_simpy.py")],
        "events": [rust, "events", "mcs"],
    }


def run(command: list[str], *arguments: int) -> dict[str, float]:
    """One run's JSON."""
    done = subprocess.run([*command, *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def until(tasks: int, operations: int) -> int:
    """Picoseconds in which the model does about so many operations."""
    return round(operations * max((THINK_S + HOLD_S) / tasks, HOLD_S) * 1e12)


def compare_engines(engines: dict[str, list[str]]) -> Table:
    """Operations per second of the contended lock, and that all have the same."""
    table = Table(
        title=f"Contended lock: operations simulated a second of CPU time, median of {ROUNDS}, in turn"
    )
    for heading in (
        "tasks",
        *OPERATIONS,
        *(f"bigiron / {peer} (goal {goal})" for peer, goal in GOALS.items()),
    ):
        table.add_column(heading, justify="right")
    for tasks in TASKS:
        histories = {
            name: run(engines[name], tasks, until(tasks, OPERATIONS["SimPy"])) for name in OPERATIONS
        }
        different = {(result["operations"], result["moments"]) for result in histories.values()}
        if len(different) > 1:
            raise SystemExit(f"{tasks} tasks: the engines differ: {histories}")
        rates: dict[str, list[float]] = {name: [] for name in OPERATIONS}
        for _round in range(ROUNDS):
            for name, operations in OPERATIONS.items():
                result = run(engines[name], tasks, until(tasks, operations))
                rates[name].append(result["operations"] / result["seconds"])
        rate = {name: median(values) for name, values in rates.items()}
        ratios = [f"{rate['bigiron'] / rate[peer]:.3g}" for peer in GOALS]
        table.add_row(str(tasks), *(f"{rate[name]:,.0f}" for name in OPERATIONS), *ratios)
    return table


def by_cpus(engines: dict[str, list[str]]) -> Table:
    """Events per second and bytes per CPU, by the number of CPUs."""
    table = Table(
        title=f"MCS lock: bigiron's engine by the number of CPUs, one core, median of {ROUNDS}, in turn"
    )
    for heading in (
        "CPUs",
        "events/s (goal 20 million at 512)",
        "ns/event",
        "ns/event per log2 N",
        "bytes/CPU (goal 1024)",
    ):
        table.add_column(heading, justify="right")
    results: dict[int, list[dict[str, float]]] = {cpus: [] for cpus in CPUS}
    for _round in range(ROUNDS):
        for cpus in CPUS:
            results[cpus].append(run(engines["events"], cpus, EVENTS))
    for cpus, measured in results.items():
        seconds = median(result["seconds"] / result["events"] for result in measured)
        size = median(result["bytes"] for result in measured) / cpus
        levels = cpus.bit_length() - 1
        cells = (
            f"{1 / seconds:,.0f}",
            f"{seconds * 1e9:.1f}",
            f"{seconds * 1e9 / levels:.2f}",
            f"{size:,.0f}",
        )
        table.add_row(str(cpus), *cells)
    return table


def main() -> None:
    """Print both tables."""
    engines = set_up()
    console = Console(width=130)
    console.print(compare_engines(engines))
    console.print(by_cpus(engines))


if __name__ == "__main__":
    main()
