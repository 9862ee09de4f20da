"""Which share of the accesses to each workload's most accessed shared line has a name.

An access has a name if what its instruction touched is a field of a struct, or a variable. The table in
docs/conflict.md is of `.venv/bin/python benchmarks/names.py` and, for threads, of the same with the arguments
`debian/6.12 4 thread`. Each takes two minutes and a half.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

import bigiron
from bigiron import workloads
from bigiron.analysis import conflicts
from bigiron.study.store import CellRecord, Study

BIGIRON = Path(sys.executable).with_name("bigiron")
NAMED = re.compile(
    r"struct \w+\.\S+( \(.*\))?( of CPU \d+)?"  # a field of a struct
    r"|\*?\w+(\.\S+|\+0x[0-9a-f]+)( of CPU \d+)?"  # a variable, or what it points to
)
DEFAULTS = ("debian/6.12", "4", "process")
LEAST = 0.05  # accesses per operation: with fewer, nothing is shared


def most_accessed(study: Study, record: CellRecord) -> tuple[str, float, float] | None:
    """The most accessed line of a cell, its accesses per operation, and which share of them has a name."""
    counts = study.table(record, "conflicts").filter(pl.col("context") == "operation")
    lines = conflicts.profile(counts, sum(record.facts["conflicts"]["operations"]))
    top = next(lines.filter(~pl.col("recycled")).iter_rows(named=True), None)
    if not top or top["accesses_per_op"] < LEAST:
        return None
    touched = counts.filter(pl.col("line") == top["line"]).select(
        "object", accesses=pl.max_horizontal("reads", "writes")
    )
    named = sum(accesses for name, accesses in touched.iter_rows() if NAMED.fullmatch(name))
    return top["object"], top["accesses_per_op"], named / touched["accesses"].sum()


def main() -> None:
    """Run every built-in workload but a suite's and print a line for each."""
    kernel, cpus, mode = (*sys.argv[1:], *DEFAULTS[len(sys.argv) - 1 :])
    print(f"{kernel}, {cpus} CPUs, tasks are {'processes' if mode == 'process' else 'threads'}\n")
    print("| workload | most accessed line | accesses per operation | with a name |\n|---|---|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for workload in (one for one in workloads.builtin() if "/" not in one.name):
            output = Path(folder) / workload.name
            ask = [
                "run",
                workload.name,
                "--kernel",
                kernel,
                "--cpus",
                cpus,
                "--mode",
                mode,
                "-o",
                str(output),
            ]
            subprocess.run([BIGIRON, *ask], check=True, capture_output=True)
            study = bigiron.open_study(output)
            found = most_accessed(study, *study.records())
            cells = f"`{found[0]}` | {found[1]:.3f} | {found[2]:.1%}" if found else "none | |"
            print(f"| `{workload.name}` | {cells} |", flush=True)


if __name__ == "__main__":
    main()
