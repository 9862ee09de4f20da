"""fxmark's microbenchmarks on file systems: what do tasks that do the same meet at, and does it repeat?

    benchmarks/counts/file_systems.py [--kernel debian/6.1-amd64,debian/6.12-amd64] [--cpus 8,16,32,64]
                                      [--fs tmpfs,ext4,xfs,btrfs,f2fs] [--workloads DWAL,MWCM]
                                      [--operations 50] [--probe conflicts,locks,instructions]
                                      [--clock instructions] [--twice] [--kept | --history HISTORY]
                                      [--csv FILE] [-o FOLDER]

A table for each kernel, number of CPUs and file system, as Markdown: how many instructions per operation
takes, and kernel threads beside it (a journal's, those that write back), which lock costs it most that
others want too, which cache line it writes most, and of the two which costs more if an instruction takes
0.5 ns and a line 60 ns to come over from another CPU, for each acquisition and each write: operations cannot
follow each other sooner there, however many CPUs there are. What costs less than 6 ns is no limit here. Then
one table of all limits; what was refused has the reason there.

With several kernels or numbers of CPUs, for each file system a table of what limits a workload on each, and
by how many ns; and with several numbers of CPUs, which function takes most more instructions per operation
with the most CPUs than with the fewest. --csv writes all of it, a line a cell.

With --twice each cell is measured once more: how many rows from 0.5 accesses per operation on there are, how
many differ by more than 1 %, the largest difference and whose it is, and that of all instructions.

The guest's clock follows its instructions unless --clock host is given: by the host's, ticks come with every
operation, and with each tick a file gets another time, which ext4 and xfs write into their journals.

Studies are kept in the folder, if one is given: run it again, and only what is missing is measured; with
--kept, nothing is, and tables are of what there is; with --history, of what `bigiron history add` measured.
Without the probe conflicts it takes a third of the time, and knows locks only.
"""

import argparse
import csv
import itertools
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from snapshots import Recorded, change, of_rows

from bigiron import open_study
from bigiron.analysis.probes import instructions as functions
from bigiron.analysis.probes import locks

BIGIRON = Path(sys.executable).with_name("bigiron")
WORKLOADS = (
    "DRBL", "DRBM", "DRBH", "DWOL", "DWOM", "DWAL", "DWTL", "DWSL", "MRPL", "MRPM", "MRPH", "MRDL", "MRDM",
    "MWCL", "MWCM", "MWUL", "MWUM", "MWRL", "MWRM",
)  # fmt: skip
INSTRUCTION_NS, TRANSFER_NS, LEAST_NS = 0.5, 60, 6
READERS = ("read_lock", "down_read")
MUCH = 0.01  # a difference between two cells
MORE = 0.01  # of an operation's instructions: a function that takes so many more with more CPUs grows
HEADINGS = ("workload", "instructions", "kernel threads'", "limit", "lock", "line")
TWICE = ("rows", "differ", "most", "which", "instructions")
COLUMNS = (
    *("kernel", "cpus", "fs", "workload", "refused", "instructions", "kernel_threads_instructions"),
    *("limit", "limit_ns", "lock", "lock_counts", "line", "line_counts"),
)


@dataclass(frozen=True)
class Cell:
    """What is measured."""

    kernel: str
    cpus: str
    fs: str
    workload: str

    @property
    def machine(self) -> str:
        return f"{self.kernel}, {self.cpus} CPUs"

    @property
    def folder(self) -> Path:
        return Path(f"{self.kernel.rpartition('/')[2]}-{self.cpus}", f"{self.fs}-{self.workload}")


@dataclass(frozen=True)
class Limit:
    """A lock or a line that several CPUs want: what it is, what was counted, what that costs an operation."""

    name: str
    counts: str
    ns: float

    def __str__(self) -> str:
        return f"`{self.name}`" if self.ns >= LEAST_NS else "nothing shared"

    def counted(self) -> str:
        return f"`{self.name}`: {self.counts}" if self.counts else self.name


@dataclass(frozen=True)
class Found:
    """Of one cell: why it was not measured, or what came of it."""

    refused: str = ""
    instructions: float = 0
    kernel_threads: float = 0
    lock: Limit = Limit("none", "", 0)
    line: Limit = Limit("none", "", 0)

    @property
    def limit(self) -> Limit:
        return max(self.lock, self.line, key=lambda one: one.ns)

    def shown(self) -> str:
        return f"refused: {self.refused}" if self.refused else str(self.limit)

    def columns(self) -> list[str]:
        if self.refused:
            return ["", "", self.refused, "", ""]
        instructions = [f"{number:,.0f}" for number in (self.instructions, self.kernel_threads)]
        return [*instructions, self.shown(), self.lock.counted(), self.line.counted()]


Results = dict[Cell, Found]


def lock(recorded: Recorded) -> Limit:
    """The one that costs most, of those that several CPUs take; readers hold none alone."""
    counts = recorded.study.table(recorded.record, "locks")
    found = [Limit("none", "", 0)]
    for row in locks.profile(counts, recorded.operations("locks")).to_dicts():
        taken, held = row["acquisitions_per_op"], row["held_per_op"]
        if row["cpus"] > 1 and row["taken_by"] not in READERS:
            said = f"{taken:.3g} taken, {held:.0f} instructions held"
            found.append(Limit(row["lock"], said, held * INSTRUCTION_NS + taken * TRANSFER_NS))
    return max(found, key=lambda one: one.ns)


def line(recorded: Recorded) -> Limit:
    """The one that is written most."""
    found = [Limit("none", "", 0)]
    for one in recorded.lines():
        counts = f"{one.writes_per_op:.3g} writes, {one.accesses_per_op:.3g} accesses"
        found.append(Limit(one.object, counts, one.writes_per_op * TRANSFER_NS))
    return max(found, key=lambda one: one.ns)


def own(recorded: Recorded) -> dict[str, float]:
    """Self instructions per operation of each function."""
    counts = recorded.study.table(recorded.record, "instructions")
    found = functions.profile(counts, recorded.operations("instructions"))
    return dict(found.select("function", "self_per_op").iter_rows())


def of_history(folder: Path) -> dict[Cell, Recorded]:
    """What a history measured of fxmark; without `fs` a workload is on the machine's tmpfs."""
    found = {}
    for file in sorted(folder.glob("studies/fxmark-*/*/study.toml")):
        study = open_study(file.parent)
        workload, fs = study.spec.workload.removeprefix("fxmark/"), study.spec.fs or "tmpfs"
        for record in study.records():
            if record.measured:
                found[Cell(record.variant, str(record.cpus), fs, workload)] = Recorded(study, record)
    return found


def is_measured(study: Path) -> bool:
    """Whether the folder has it."""
    return study.exists() and bool(open_study(study).records())


def run(study: Path, cell: Cell, arguments: argparse.Namespace) -> str:
    """Measure one cell; why not, if it was not."""
    if is_measured(study):
        return ""
    command = [f"fxmark/{cell.workload}", "--fs", cell.fs, "--kernel", cell.kernel, "--cpus", cell.cpus]
    options = ["--operations", arguments.operations, "--probe", arguments.probe, "--jobs", "1"]
    options += ["--clock", arguments.clock, "-o", study]
    done = subprocess.run([BIGIRON, "run", *command, *options], check=False, capture_output=True, text=True)
    if not done.returncode:
        return ""
    said = [text for text in done.stderr.splitlines() if text.startswith("bigiron: ")]
    return said[-1].removeprefix("bigiron: ") if said else f"status {done.returncode}"


def recorded(cell: Cell, arguments: argparse.Namespace) -> Recorded:
    """One that was measured."""
    return arguments.of_history.get(cell) or Recorded.only(arguments.output / cell.folder)


def measured(cell: Cell, arguments: argparse.Namespace) -> Found:
    """Measure one, if it is not there, and say what came of it."""
    if cell not in arguments.of_history and (refused := run(arguments.output / cell.folder, cell, arguments)):
        return Found(refused)
    here = recorded(cell, arguments)
    by_line = line(here) if "conflicts" in arguments.probe else Limit("not counted", "", 0)
    return Found("", here.work(), here.work("kthread"), lock(here), by_line)


def again(study: Path, cell: Cell, arguments: argparse.Namespace) -> list[str]:
    """Measure it once more: by how much do the two differ?"""
    other = study.with_name(f"{study.name}-again")
    if refused := run(other, cell, arguments):
        return ["", "", "", refused, ""]
    one, two = Recorded.only(study), Recorded.only(other)
    changes = of_rows(one.lines(), two.lines())
    differ = sorted((row for row in changes if abs(row[0]) > MUCH), key=lambda row: -abs(row[0]))
    most = [f"{differ[0][0]:+.1%}", f"`{differ[0][1]}`"] if differ else ["", ""]
    return [str(len(changes)), str(len(differ)), *most, f"{change(one.work(), two.work()):+.2%}"]


def table(*headings: str) -> None:
    """The start of one."""
    print(f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}", flush=True)


def row(*columns: str) -> None:
    """And what it goes on with."""
    print(f"| {' | '.join(columns)} |", flush=True)


def file_system(cells: list[Cell], arguments: argparse.Namespace) -> Results:
    """Measure and print all workloads on one."""
    if arguments.history:
        cells = [cell for cell in cells if cell in arguments.of_history]
    elif arguments.kept:
        cells = [cell for cell in cells if is_measured(arguments.output / cell.folder)]
    if not cells:
        return {}
    print(f"\n**{cells[0].fs}**, {cells[0].machine}\n")
    table(*HEADINGS, *TWICE * arguments.twice)
    found: Results = {}
    for cell in cells:
        found[cell] = measured(cell, arguments)
        twice = arguments.twice and not found[cell].refused
        repeats = again(arguments.output / cell.folder, cell, arguments) if twice else []
        row(cell.workload, *found[cell].columns(), *repeats)
    return found


def limits(found: Results, machine: str, arguments: argparse.Namespace) -> None:
    """One table of all file systems of a machine."""
    these = {(cell.workload, cell.fs): one for cell, one in found.items() if cell.machine == machine}
    of_them, file_systems = sum(not one.refused for one in these.values()), arguments.fs.split(",")
    print(f"\n**What limits each**, {machine}: {of_them} of {len(these)} measured\n")
    table("workload", *file_systems)
    for workload in arguments.workloads.split(","):
        row(
            workload, *(these[workload, fs].shown() if (workload, fs) in these else "" for fs in file_systems)
        )


def side_by_side(found: Results, machines: list[str], fs: str) -> None:
    """What limits a workload on each machine, and by how much."""
    these = {(cell.workload, cell.machine): one for cell, one in found.items() if cell.fs == fs}
    if not these:
        return
    print(f"\n**{fs}**, ns by which operations cannot follow each other sooner\n")
    table("workload", *machines)
    for workload in dict.fromkeys(workload for workload, _ in these):
        cells = [these.get((workload, machine)) for machine in machines]
        row(workload, *(f"{one.limit.ns:,.0f} {one.shown()}" if one else "" for one in cells))


def growing(found: Results, arguments: argparse.Namespace) -> None:
    """Which function takes more instructions the more CPUs there are."""
    print("\n**What grows**: instructions per operation, with the fewest CPUs and the most\n")
    table("kernel", "file system", "workload", "CPUs", "all functions", "of them most", "its own")
    alike = itertools.groupby(
        sorted(found, key=lambda cell: (cell.kernel, cell.fs, cell.workload, int(cell.cpus))),
        key=lambda cell: (cell.kernel, cell.fs, cell.workload),
    )
    for (kernel, fs, workload), cells in alike:
        there = [cell for cell in cells if not found[cell].refused]
        if len(there) < 2:
            continue
        few, many = (own(recorded(cell, arguments)) for cell in (there[0], there[-1]))
        most = max(many, key=lambda name: many[name] - few.get(name, 0))
        more = many[most] - few.get(most, 0)
        whose = (
            [f"`{most}`", f"{few.get(most, 0):,.1f}, {many[most]:,.1f}"]
            if more >= MORE * sum(few.values())
            else ["none", ""]
        )
        row(
            kernel,
            fs,
            workload,
            f"{there[0].cpus}, {there[-1].cpus}",
            f"{sum(few.values()):,.0f}, {sum(many.values()):,.0f}",
            *whose,
        )


def write(found: Results, path: Path) -> None:
    """All of it, a line a cell."""
    with path.open("x", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for cell, one in found.items():
            counted = (
                f"{one.instructions:.1f}",
                f"{one.kernel_threads:.1f}",
                one.limit.name,
                f"{one.limit.ns:.1f}",
            )
            both = (one.lock.name, one.lock.counts, one.line.name, one.line.counts)
            figures = ("",) * 8 if one.refused else (*counted, *both)
            writer.writerow((cell.kernel, cell.cpus, cell.fs, cell.workload, one.refused, *figures))


def everything(arguments: argparse.Namespace) -> None:
    """All that the options ask for."""
    workloads, file_systems = arguments.workloads.split(","), arguments.fs.split(",")
    numbers, found = arguments.cpus.split(","), Results()
    for kernel, cpus in itertools.product(arguments.kernel.split(","), numbers):
        for fs in file_systems:
            cells = [Cell(kernel, cpus, fs, workload) for workload in workloads]
            found |= file_system(cells, arguments)
    machines = list(dict.fromkeys(cell.machine for cell in found))
    for machine in machines:
        limits(found, machine, arguments)
    if len(machines) > 1:
        for fs in file_systems:
            side_by_side(found, machines, fs)
    if len(numbers) > 1:
        growing(found, arguments)
    if arguments.csv:
        write(found, arguments.csv)


def main() -> None:
    """Parse, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kernel", default="debian/6.1-amd64")
    parser.add_argument("--fs", default="tmpfs,ext4,xfs,btrfs,f2fs")
    parser.add_argument("--cpus", default="8")
    parser.add_argument("--operations", default="50")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--probe", default="conflicts,locks,instructions")
    parser.add_argument("--clock", default="instructions")
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--history", type=Path)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    needed = {"locks", "instructions"} | ({"conflicts"} if arguments.twice else set())
    if lacking := needed - set(arguments.probe.split(",")):
        parser.error(f"--probe lacks {', '.join(sorted(lacking))}, of which the table is made")
    if arguments.history and (arguments.twice or arguments.kept):
        parser.error("--history measures nothing: leave out --twice and --kept")
    arguments.of_history = of_history(arguments.history) if arguments.history else {}
    if arguments.history and not arguments.of_history:
        parser.error(
            f"--history {arguments.history} has no cell of fxmark's: `bigiron history add` makes some"
        )
    if arguments.csv and arguments.csv.exists():
        parser.error(f"--csv {arguments.csv} is there already: name another file")
    with tempfile.TemporaryDirectory() as folder:
        arguments.output = arguments.output or Path(folder)
        everything(arguments)


if __name__ == "__main__":
    main()
