"""Cells that are resumed from a snapshot beside cells that boot: the same counts? and how much faster?

    benchmarks/counts/snapshots.py [--kernels 6.1,6.12] [--workloads open1,mmap1] [--fs ext4] [--cpus 8]
                                   [--reps 1] [--operations 500] [--clock host]

For each workload and kernel, in alternation: a cell with --fresh-boot and a cell resumed from an existing
snapshot. Rows are those of `bigiron compare`, from 0.5 accesses per operation on, matched as it does
for two kernels; work is all instructions per operation. With two repetitions or more, two booted cells are
compared too: what differs between those is not caused by a snapshot. CPU time is that of bigiron and its
machine, and less blurred on a busy machine than real time.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bigiron import open_study
from bigiron.analysis.lines import conflicts
from bigiron.analysis.lines.matching import SharedLine, lines_of, match
from bigiron.analysis.lines.merging import merge_similar
from bigiron.study.store import CellRecord, Study

BIGIRON = Path(sys.executable).with_name("bigiron")
SMALLEST = 0.5  # accesses per operation
HEADINGS = (
    *("workload", "kernel", "rows", "largest change", "of", "instructions", "of two booted", "instructions"),
    *("booted, s", "resumed, s", "ratio", "of CPU time"),
)


@dataclass(frozen=True)
class Cell:
    """What one cell counted, and what it took."""

    lines: list[SharedLine]
    work: float  # instructions per operation
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Recorded:
    """One cell of a study."""

    study: Study
    record: CellRecord

    @classmethod
    def only(cls, folder: Path) -> "Recorded":
        """That of a study of one."""
        study = open_study(folder)
        (record,) = study.records()
        return cls(study, record)

    def operations(self, probe: str) -> int:
        """How many the probe recorded, of all tasks."""
        return sum(self.record.facts[probe]["operations"])

    def lines(self) -> list[SharedLine]:
        """All lines that several CPUs share."""
        counts = self.study.table(self.record, "conflicts")
        return lines_of(conflicts.profile(counts, self.operations("conflicts"), 64))

    def work(self, context: str = "process") -> float:
        """Instructions per operation, of the operations themselves or of kernel threads beside them."""
        instructions = self.record.facts["instructions"]["instructions"]
        return float(instructions.get(context, 0) / self.operations("instructions"))


def measure(folder: Path, workload: str, kernel: str, cpus: int, *options: str) -> Cell:
    """Run one cell."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    what = [
        workload,
        "--kernel",
        f"debian/{kernel}",
        "--cpus",
        str(cpus),
        "--probe",
        "conflicts,instructions",
    ]
    bigiron("run", *what, "--jobs", "1", "-o", folder, *options)
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    recorded = Recorded.only(folder)
    return Cell(recorded.lines(), recorded.work(), seconds, cpu)


def bigiron(*arguments: str | Path) -> str:
    """What the command prints."""
    command = [BIGIRON, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def differences(booted: Cell, resumed: Cell) -> tuple[int, float, str, float]:
    """How many rows are compared, the largest difference of one and which, and that of work."""
    changes = of_rows(booted.lines, resumed.lines)
    largest, worst = max(changes, key=lambda one: abs(one[0]), default=(0.0, ""))
    return len(changes), largest, worst, change(booted.work, resumed.work)


def of_rows(one: list[SharedLine], other: list[SharedLine]) -> list[tuple[float, str]]:
    """By how much each row differs that has enough accesses in one of two cells, and what it is."""
    both = {"one": merge_similar(one), "other": merge_similar(other)}
    rows = [row for row in match(both) if max(map(row.accesses, both)) >= SMALLEST]
    return [(change(*map(row.accesses, both)), row.object) for row in rows]


def change(before: float, after: float) -> float:
    """As a share of the larger one, so that what is gone is 100 %."""
    return (after - before) / max(before, after, 1e-9)


def main() -> None:
    """Print a line for each as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kernels", default="6.1,6.12")
    parser.add_argument("--workloads", default="open1,mmap1,unlink1,page_fault3")
    parser.add_argument("--fs", default="")
    parser.add_argument("--operations", default="500")
    parser.add_argument("--clock", default="host")
    parser.add_argument("--cpus", type=int, default=8)
    parser.add_argument("--reps", type=int, default=1)
    given = parser.parse_args()
    workloads = given.workloads.split(",")
    options = ("--operations", given.operations, "--clock", given.clock)
    options += ("--fs", given.fs) if given.fs else ()
    print(f"| {' | '.join(HEADINGS)} |\n|{'--|' * len(HEADINGS)}", flush=True)
    for kernel in given.kernels.split(","):
        with tempfile.TemporaryDirectory() as name:  # which makes the snapshot
            measure(Path(name) / "first", workloads[0], kernel, given.cpus)
        for workload in workloads:
            try:
                words = row(workload, kernel, given.cpus, given.reps, *options)
            except subprocess.CalledProcessError as error:
                words = [workload, kernel, f"failed, status {error.returncode}"]
            print(f"| {' | '.join(words)} |", flush=True)


def row(workload: str, kernel: str, cpus: int, reps: int, *options: str) -> list[str]:
    """Measure in turn."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        booted, resumed = [], []
        for number in range(reps):
            name, again = f"booted{number}", f"resumed{number}"
            booted.append(measure(folder / name, workload, kernel, cpus, "--fresh-boot", *options))
            resumed.append(measure(folder / again, workload, kernel, cpus, *options))
    found = [differences(one, other) for one, other in zip(booted, resumed, strict=True)]
    number, largest, line, _ = max(found, key=lambda one: abs(one[1]))
    of_work = max((one[3] for one in found), key=abs)
    alike = differences(*booted[:2]) if reps > 1 else None
    real = [median(cell.seconds for cell in cells) for cells in (booted, resumed)]
    cpu = [median(cell.cpu_seconds for cell in cells) for cells in (booted, resumed)]
    return [
        workload, kernel, str(number), f"{largest:+.2%}", line, f"{of_work:+.3%}",
        *((f"{alike[1]:+.2%}", f"{alike[3]:+.3%}") if alike else ("", "")),
        f"{real[0]:.1f}", f"{real[1]:.1f}", f"{real[0] / real[1]:.1f}", f"{cpu[0] / cpu[1]:.1f}",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
