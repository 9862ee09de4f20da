"""fxmark's microbenchmarks on file systems: what do tasks that do the same meet at, and does it repeat?

    benchmarks/file_systems.py [--kernel debian/6.1-amd64] [--fs tmpfs,ext4,xfs,btrfs,f2fs] [--cpus 8]
                               [--operations 50] [--workloads DWAL,MWCM] [--probe conflicts,locks,work]
                               [--clock instructions] [--twice] [-o FOLDER]

A table for each file system, as Markdown: how many instructions an operation takes, and kernel threads beside
it (a journal's, those that write back), which lock costs it most that others want too, which cache line it
writes most, and of the two which costs more if an instruction takes 0.5 ns and a line 60 ns to come over from
another CPU, for each acquisition and each write: operations cannot follow each other sooner there, however
many CPUs there are. What costs less than 6 ns is no limit here. Then one table of all limits; what was
refused has the reason there.

With --twice each cell is measured once more: how many rows from 0.5 accesses an operation on there are, how
many differ by more than 1 %, the largest difference and whose it is, and that of all instructions.

The guest's clock follows its instructions unless --clock host is given: by the host's, ticks come with every
operation, and with each tick a file gets another time, which ext4 and xfs write into their journals.

Studies are kept in the folder, if one is given: run it again, and only what is missing is measured. Without
the probe conflicts it takes a third of the time, and knows locks only.
"""

import argparse
import csv
import io
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from templates import change, lines, of_rows, work

BIGIRON = Path(sys.executable).with_name("bigiron")
WORKLOADS = (
    "DRBL", "DRBM", "DRBH", "DWOL", "DWOM", "DWAL", "DWTL", "DWSL", "MRPL", "MRPM", "MRPH", "MRDL", "MRDM",
    "MWCL", "MWCM", "MWUL", "MWUM", "MWRL", "MWRM",
)  # fmt: skip
INSTRUCTION_NS, TRANSFER_NS, LEAST_NS = 0.5, 60, 6
READERS = ("down_read", "read_lock")
MUCH = 0.01  # a difference between two cells
HEADINGS = ("workload", "instructions", "kernel threads'", "limit", "lock", "line")
TWICE = ("rows", "differ", "most", "which", "instructions")


@dataclass(frozen=True)
class Limit:
    """A lock or a line that several CPUs want: what it is, what was counted, what that costs an operation."""

    name: str
    counts: str
    ns: float


@dataclass(frozen=True)
class Row:
    """Of one workload: what stands in the table of its file system, and what in that of all."""

    columns: list[str]
    limit: str
    measured: bool = True


def bigiron(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What the command does."""
    return subprocess.run([BIGIRON, *arguments], check=False, capture_output=True, text=True)


def lock(study: Path) -> Limit:
    """The one that costs most, of those that several CPUs take; readers hold none alone."""
    found = [Limit("none", "", 0)]
    printed = bigiron("compare", study, "--probe", "locks", "--format", "csv").stdout
    for row in csv.DictReader(io.StringIO(printed)):
        taken, held = float(row["acquisitions_per_op"]), float(row["held_per_op"])
        reads = all(how.startswith(READERS) for how in row["taken_by"].split())
        if int(row["lock_cpus"]) > 1 and not reads:
            counts = f"{taken:.3g} taken, {held:.0f} instructions held"
            found.append(Limit(row["lock"], counts, held * INSTRUCTION_NS + taken * TRANSFER_NS))
    return max(found, key=lambda one: one.ns)


def line(study: Path) -> Limit:
    """The one that is written most."""
    found = [Limit("none", "", 0)]
    for one in lines(study):
        counts = f"{one.writes_per_op:.3g} writes, {one.accesses_per_op:.3g} accesses"
        found.append(Limit(one.object, counts, one.writes_per_op * TRANSFER_NS))
    return max(found, key=lambda one: one.ns)


def measured(study: Path, probes: str) -> Row:
    """What a study's row is."""
    by_lock = lock(study)
    by_line = line(study) if "conflicts" in probes else Limit("not counted", "", 0)
    limit = max(by_lock, by_line, key=lambda one: one.ns)
    name = f"`{limit.name}`" if limit.ns >= LEAST_NS else "nothing shared"
    both = [f"`{one.name}`: {one.counts}" if one.counts else one.name for one in (by_lock, by_line)]
    instructions = [f"{work(study, context):,.0f}" for context in ("operation", "kthread")]
    return Row([*instructions, name, *both], name)


def run(study: Path, workload: str, fs: str, arguments: argparse.Namespace) -> str:
    """Measure one cell; why not, if it was not."""
    command = [f"fxmark/{workload}", "--fs", fs, "--kernel", arguments.kernel, "--cpus", arguments.cpus]
    options = ["--operations", arguments.operations, "--probe", arguments.probe, "--jobs", "1"]
    options += ["--clock", arguments.clock]
    done = bigiron("run", *command, *options, "-o", study)
    if not done.returncode:
        return ""
    said = [text for text in done.stderr.splitlines() if text.startswith("bigiron: ")]
    return said[-1].removeprefix("bigiron: ") if said else f"status {done.returncode}"


def agreement(one: Path, other: Path) -> list[str]:
    """By how much two cells of the same differ."""
    changes = of_rows(lines(one), lines(other))
    differ = sorted((row for row in changes if abs(row[0]) > MUCH), key=lambda row: -abs(row[0]))
    most = [f"{differ[0][0]:+.1%}", f"`{differ[0][1]}`"] if differ else ["", ""]
    return [str(len(changes)), str(len(differ)), *most, f"{change(work(one), work(other)):+.2%}"]


def row(workload: str, fs: str, arguments: argparse.Namespace) -> Row:
    """Measure one, and say what came of it."""
    study = arguments.output / f"{fs}-{workload}"
    if refused := run(study, workload, fs, arguments):
        columns = ["", "", refused, *[""] * (len(HEADINGS) - 4), *[""] * len(TWICE) * arguments.twice]
        return Row(columns, f"refused: {refused}", measured=False)
    found = measured(study, arguments.probe)
    if not arguments.twice:
        return found
    again = arguments.output / f"{fs}-{workload}-again"
    refused = run(again, workload, fs, arguments)
    differs = ["", "", "", refused, ""] if refused else agreement(study, again)
    return Row([*found.columns, *differs], found.limit)


def table(headings: list[str]) -> None:
    """The start of one."""
    print(f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}", flush=True)


def everything(arguments: argparse.Namespace) -> None:
    """All that the options ask for."""
    workloads, file_systems = arguments.workloads.split(","), arguments.fs.split(",")
    found: dict[tuple[str, str], Row] = {}
    for fs in file_systems:
        print(f"\n**{fs}**, {arguments.kernel}, {arguments.cpus} CPUs\n")
        table([*HEADINGS, *TWICE] if arguments.twice else list(HEADINGS))
        for workload in workloads:
            found[workload, fs] = row(workload, fs, arguments)
            print(f"| {' | '.join([workload, *found[workload, fs].columns])} |", flush=True)
    of_them = sum(one.measured for one in found.values())
    print(f"\n**What limits each**: {of_them} of {len(found)} measured, {len(found) - of_them} refused\n")
    table(["workload", *file_systems])
    for workload in workloads:
        print(f"| {' | '.join([workload, *(found[workload, fs].limit for fs in file_systems)])} |")


def main() -> None:
    """Parse, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kernel", default="debian/6.1-amd64")
    parser.add_argument("--fs", default="tmpfs,ext4,xfs,btrfs,f2fs")
    parser.add_argument("--cpus", default="8")
    parser.add_argument("--operations", default="50")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--probe", default="conflicts,locks,work")
    parser.add_argument("--clock", default="instructions")
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    needed = {"locks", "work"} | ({"conflicts"} if arguments.twice else set())
    if lacking := needed - set(arguments.probe.split(",")):
        parser.error(f"--probe lacks {', '.join(sorted(lacking))}, of which the table is made")
    with tempfile.TemporaryDirectory() as folder:
        arguments.output = arguments.output or Path(folder)
        everything(arguments)


if __name__ == "__main__":
    main()
