"""How often `bigiron check` fails a kernel against itself, by tolerance: docs/validation/regressions/gate.md.

Six boots of each workload, 4 CPUs, compared with each other: one with one (30 pairs), and two with two
others (90). In parentheses: of how many checks some count is not decided. A few minutes:
`.venv/bin/python benchmarks/regressions/false_alarms.py`, or with names of workloads.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import bigiron
from bigiron.analysis.comparison.limits import LimitedCount, Tolerance
from bigiron.analysis.lines import conflicts, matching
from bigiron.analysis.probes import instructions
from bigiron.gate import check_instructions, check_lines
from bigiron.gate.check_lines import BaselinePoint

BIGIRON = Path(sys.executable).with_name("bigiron")
KERNEL, CPUS, REPETITIONS = "debian/6.12", 4, 6
WORKLOADS = ["open1", "mmap1", "signal1", "page_fault3", "pread1", "unlink1"]
LINES = (Tolerance(0.05), Tolerance(0.2), Tolerance(0.5))
WORK = (Tolerance(5), Tolerance(10), Tolerance(20))

Repetitions = Sequence[Any]  # of one cell: its lines, or its functions' work


def check_lines_of(base: Repetitions, other: Repetitions, tolerance: Tolerance) -> list[LimitedCount]:
    """What a check finds of shared lines."""
    lines = check_lines.known(base)
    point = BaselinePoint(variant="", cpus=CPUS, tasks=CPUS, boots=len(base), lines=lines)
    return check_lines.check(point, other, tolerance)


def check_work_of(base: Repetitions, other: Repetitions, tolerance: Tolerance) -> list[LimitedCount]:
    """What a check finds of the work."""
    return [check_instructions.check(check_instructions.known(base), [], other, tolerance)]


def rate(
    repetitions: Repetitions,
    tolerance: Tolerance,
    check: Callable[[Repetitions, Repetitions, Tolerance], list[LimitedCount]],
) -> str:
    """How many checks fail and are undecided, of one boot against one, and of two against two."""
    rates = []
    for size in 1, 2:
        checks = [
            check([repetitions[n] for n in base], [repetitions[n] for n in other], tolerance)
            for base in combinations(range(REPETITIONS), size)
            for other in combinations(sorted(set(range(REPETITIONS)) - set(base)), size)
        ]
        failed = sum(any(one.worse for one in found) for found in checks)
        undecided = sum(any(one.may_be_worse for one in found) for found in checks)
        rates.append(f"{failed} ({undecided}) of {len(checks)}")
    return ", ".join(rates)


def main() -> None:
    """Measure each workload and print a line for it."""
    tolerances = [f"{tolerance.absolute:g}" for tolerance in (*LINES, *WORK)]
    print(f"{KERNEL}, {CPUS} CPUs; {len(LINES)} tolerances of accesses and {len(WORK)} of instructions\n")
    print(f"| workload | {' | '.join(tolerances)} |\n|---|{'--:|' * len(tolerances)}")
    with tempfile.TemporaryDirectory() as folder:
        for workload in sys.argv[1:] or WORKLOADS:
            output = Path(folder) / workload
            ask = ["--cpus", str(CPUS), "--reps", str(REPETITIONS), "--fresh-boot"]
            ask += ["--probe", "conflicts,instructions"]
            subprocess.run(
                [BIGIRON, "run", workload, "--kernel", KERNEL, *ask, "-o", output],
                check=True,
                capture_output=True,
            )
            study = bigiron.open_study(output)
            lines, functions = [], []
            for record in study.records():
                operations = sum(record.facts["instructions"]["operations"])
                profile = conflicts.profile(study.table(record, "conflicts"), operations, 64)
                lines.append(matching.lines_of(profile))
                own = instructions.profile(study.table(record, "instructions"), operations).select(
                    "function", "self_per_op"
                )
                functions.append(dict(own.iter_rows()))
            rates = [rate(lines, tolerance, check_lines_of) for tolerance in LINES]
            rates += [rate(functions, tolerance, check_work_of) for tolerance in WORK]
            print(f"| `{workload}` | {' | '.join(rates)} |", flush=True)


if __name__ == "__main__":
    main()
