"""The guest's clock, the host's beside that which follows instructions: what comes of ticks, and of time?

    benchmarks/machines/clock.py [--kernel debian/6.12] [--workload open1] [--cpus 8,32,64] [--reps 3]

For each number of CPUs, cells with either clock, in alternation: instructions per operation, what it takes by
the guest's clock, instructions a nanosecond of it and CPU, timer interrupts, and the seconds of recording.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import polars as pl

from bigiron import open_study

BIGIRON = Path(sys.executable).with_name("bigiron")
HEADINGS = (
    *("CPUs", "clock", "instructions per operation", "us VM time", "instructions a ns and CPU"),
    *("ticks for 1,000 operations", "spread of VM time", "all counts the same", "recording, s"),
)
_TICK = "scheduler_tick|sched_tick"  # each takes its run queue's lock once; so called from 6.11 on


@dataclass(frozen=True)
class Cell:
    """What one cell says of time."""

    instructions: float  # an operation
    nanoseconds: float  # VM time an operation
    ticks: float  # an operation
    seconds: float
    counts: frozenset[tuple[object, ...]]  # rows of all tables


def measure(folder: Path, workload: str, kernel: str, cpus: int, operations: int, clock: str) -> Cell:
    """Run one cell."""
    what = [workload, "--kernel", kernel, "--cpus", str(cpus), "--probe", "locks,instructions"]
    how = ["--operations", str(operations), "--clock", clock, "--jobs", "1", "-o", str(folder)]
    subprocess.run([BIGIRON, "run", *what, *how], check=True, stdout=subprocess.DEVNULL)
    study = open_study(folder)
    (record,) = study.records()
    done = sum(record.facts["instructions"]["operations"])
    locks = study.tables("locks")
    ticks = locks.filter(
        pl.col("path").str.contains(f"({_TICK})$") & pl.col("object").str.starts_with("runqueues")
    )
    return Cell(
        record.facts["instructions"]["instructions"]["operation"] / done,
        record.recorded_ns / record.environment["operations"],
        ticks["acquisitions"].sum() / done,
        record.times["in recording"],
        frozenset((*locks.rows(), *study.tables("instructions").rows())),
    )


def main() -> None:
    """Measure, and print a row for each number of CPUs and clock."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", default="debian/6.12")
    parser.add_argument("--workload", default="open1")
    parser.add_argument("--cpus", default="8,32,64")
    parser.add_argument("--operations", type=int, default=500)
    parser.add_argument("--reps", type=int, default=3)
    asked = parser.parse_args()
    print(f"{json.dumps(vars(asked))}\n\n| {' | '.join(HEADINGS)} |\n|{'--:|' * len(HEADINGS)}")
    with tempfile.TemporaryDirectory() as folder:
        for cpus in map(int, asked.cpus.split(",")):
            cells: dict[str, list[Cell]] = {"host": [], "instructions": []}
            for rep in range(asked.reps):
                for clock, measured in cells.items():
                    study = Path(folder) / f"{cpus}-{clock}-{rep}"
                    measured.append(
                        measure(study, asked.workload, asked.kernel, cpus, asked.operations, clock)
                    )
            for clock, measured in cells.items():
                print(f"| {' | '.join([str(cpus), clock, *row(measured)])} |", flush=True)


def row(cells: list[Cell]) -> list[str]:
    """Means, and how far VM times of the same lie apart."""
    times = [cell.nanoseconds for cell in cells]
    rates = [cell.instructions / cell.nanoseconds for cell in cells]
    return [
        f"{mean(cell.instructions for cell in cells):,.0f}",
        f"{mean(times) / 1000:,.1f}",
        f"{mean(rates):.3f}",
        f"{1000 * mean(cell.ticks for cell in cells):,.2f}",
        f"{(max(times) - min(times)) / mean(times):.2%}",
        "yes" if len({cell.counts for cell in cells}) == 1 else "no",
        f"{mean(cell.seconds for cell in cells):.1f}",
    ]


if __name__ == "__main__":
    main()
