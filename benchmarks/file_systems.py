"""fxmark's 19 microbenchmarks on file systems: what do tasks that do the same meet at?

    benchmarks/file_systems.py [--kernel debian/6.1] [--fs tmpfs,ext4,xfs,btrfs] [--cpus 8] [--operations 200]
                               [--workloads DWAL,MWCM] [--probe conflicts,locks,work] -o FOLDER

A table for each file system, as Markdown: how many instructions an operation takes, which lock costs it most
that others want too, which cache line it writes most, and of the two which costs more if an instruction takes
0.5 ns and a line 60 ns to come over from another CPU, for each acquisition and each write: operations cannot
follow each other sooner there, however many CPUs there are. What costs less than 6 ns is no limit here.
Studies are kept in the folder: run it again, and only what is missing is measured. Without the probe
conflicts it takes a third of the time, and knows locks only.
"""

import argparse
import csv
import io
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BIGIRON = Path(sys.executable).with_name("bigiron")
WORKLOADS = (
    "DRBL", "DRBM", "DRBH", "DWOL", "DWOM", "DWAL", "DWTL", "DWSL", "MRPL", "MRPM", "MRPH", "MRDL", "MRDM",
    "MWCL", "MWCM", "MWUL", "MWUM", "MWRL", "MWRM",
)  # fmt: skip
INSTRUCTION_NS, TRANSFER_NS, LEAST_NS = 0.5, 60, 6
READERS = ("down_read", "read_lock")


@dataclass(frozen=True)
class Limit:
    """A lock or a line that several CPUs want: what it is, what was counted, what that costs an operation."""

    name: str
    counts: str
    ns: float


def bigiron(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What the command does."""
    return subprocess.run([BIGIRON, *arguments], check=False, capture_output=True, text=True)


def rows(study: Path, probe: str) -> list[dict[str, str]]:
    """What it compares, a dictionary a line."""
    printed = bigiron("compare", study, "--probe", probe, "--format", "csv").stdout
    return list(csv.DictReader(io.StringIO(printed)))


def lock(study: Path) -> Limit:
    """The one that costs most, of those that several CPUs take; readers hold none alone."""
    found = [Limit("none", "", 0)]
    for row in rows(study, "locks"):
        taken, held = float(row["acquisitions_per_op"]), float(row["held_per_op"])
        reads = all(how.startswith(READERS) for how in row["taken_by"].split())
        if int(row["lock_cpus"]) > 1 and not reads:
            counts = f"{taken:.3g} taken, {held:.0f} instructions held"
            found.append(Limit(row["lock"], counts, held * INSTRUCTION_NS + taken * TRANSFER_NS))
    return max(found, key=lambda one: one.ns)


def line(study: Path) -> Limit:
    """The one that is written most."""
    found = [Limit("none", "", 0)]
    for row in rows(study, "conflicts"):
        writes, accesses = float(row["writes_per_op"]), float(row["accesses_per_op"])
        found.append(
            Limit(row["object"], f"{writes:.3g} writes, {accesses:.3g} accesses", writes * TRANSFER_NS)
        )
    return max(found, key=lambda one: one.ns)


def instructions(study: Path) -> float:
    """All of an operation."""
    return sum(float(row["own_per_op"]) for row in rows(study, "work"))


def measured(study: Path, probes: str) -> list[str]:
    """The columns of a study's row."""
    by_lock = lock(study)
    by_line = line(study) if "conflicts" in probes else Limit("not counted", "", 0)
    limit = max(by_lock, by_line, key=lambda one: one.ns)
    name = f"`{limit.name}`" if limit.ns >= LEAST_NS else "nothing shared"
    both = [f"`{one.name}`: {one.counts}" if one.counts else one.name for one in (by_lock, by_line)]
    return [f"{instructions(study):,.0f}", name, *both]


def row(workload: str, fs: str, arguments: argparse.Namespace) -> list[str]:
    """Measure one, and say what came of it."""
    study = arguments.output / f"{fs}-{workload}"
    command = [f"fxmark/{workload}", "--fs", fs, "--kernel", arguments.kernel, "--cpus", arguments.cpus]
    options = ["--operations", arguments.operations, "--probe", arguments.probe, "--jobs", "1"]
    done = bigiron("run", *command, *options, "-o", study)
    if done.returncode:
        return ["", " ".join(done.stderr.split()), "", ""]
    return measured(study, arguments.probe)


def main() -> None:
    """All that the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", default="debian/6.1")
    parser.add_argument("--fs", default="tmpfs,ext4,xfs,btrfs")
    parser.add_argument("--cpus", default="8")
    parser.add_argument("--operations", default="200")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--probe", default="conflicts,locks,work")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    for fs in arguments.fs.split(","):
        print(f"\n**{fs}**, {arguments.kernel}, {arguments.cpus} CPUs\n")
        print("| workload | instructions | limit | lock | line |")
        print("|---|---|---|---|---|", flush=True)
        for workload in arguments.workloads.split(","):
            print(f"| {' | '.join([workload, *row(workload, fs, arguments)])} |", flush=True)


if __name__ == "__main__":
    main()
