"""Throughput under bigiron's agent beside will-it-scale's own binary, on this machine: the harness's cost.

Both run the same testcases, compiled from will-it-scale's own files: open1, getppid1, page_fault1 and pipe1,
as processes pinned to CPUs, for as many seconds after the same warm-up. They take turns, and who comes first
in a pair is chance. The ratio is of bigiron's operations per second to will-it-scale's: below 1 where our
harness costs.

    benchmarks/recorder/harness.py [WILL-IT-SCALE [PAIRS]]

WILL-IT-SCALE is a checkout of github.com/antonblanchard/will-it-scale, which needs libhwloc-dev; it is
compiled in a copy.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bigiron import compile, workloads
from bigiron.analysis.statistics.ratio import ratio_of_means
from bigiron.machines.messages import Decoder

TESTCASES = ("open1", "getppid1", "page_fault1", "pipe1")
TASKS = (1, 2)
WARM_UP_S, SAMPLES = 5, 3  # will-it-scale's own warm-up
GOAL = 0.99


def theirs(binary: Path, tasks: int) -> float:
    """Operations per second of will-it-scale's binary: the mean that it prints."""
    command = [binary, "-m", "-t", str(tasks), "-s", str(SAMPLES)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (average,) = re.findall(r"^average:(\d+)$", said, re.MULTILINE)
    return float(average)


def ours(agent: Path, tasks: int, folder: Path) -> float:
    """The same under bigiron's agent."""
    job = folder / "job"
    samples = [f"samples {WARM_UP_S + SAMPLES}", "sample_ms 1000"]
    job.write_text("\n".join(["mode process", f"tasks {tasks}", "warmup 0", *samples, ""]))
    said = subprocess.run([agent, job], check=True, capture_output=True, cwd=folder).stdout
    points = [message.content for message in Decoder().feed(said) if message.type == "sample"]
    first, last = points[WARM_UP_S], points[-1]
    done = sum(last["operations"]) - sum(first["operations"])
    return float(done * 1e9 / (last["nanoseconds"] - first["nanoseconds"]))


def compare(checkout: Path, pairs: int, folder: Path) -> Table:
    """A row a testcase and number of tasks."""
    table = Table(
        title=f"Operations per second in {SAMPLES} s after {WARM_UP_S} s of warm-up, median of {pairs} pairs"
    )
    goal = f"ratio of means (95 %; goal {GOAL})"
    for heading in ("testcase", "tasks", "will-it-scale", "bigiron", goal):
        table.add_column(heading, justify="left" if heading == "testcase" else "right")
    chance = random.Random(0)
    for testcase in TESTCASES:
        subprocess.run(
            ["make", "-s", "-C", checkout, f"{testcase}_processes"], check=True, capture_output=True
        )
        binary = checkout / f"{testcase}_processes"
        agent = compile.agent(workloads.from_file(checkout / f"tests/{testcase}.c"), "gcc")
        for tasks in TASKS:
            rates: dict[str, list[float]] = {"theirs": [], "ours": []}
            for _pair in range(pairs):
                for who in chance.sample(["theirs", "ours"], 2):
                    rate = theirs(binary, tasks) if who == "theirs" else ours(agent, tasks, folder)
                    rates[who].append(rate)
            ratio = ratio_of_means(rates["ours"], rates["theirs"])
            figures = [f"{median(rates[who]):,.0f}" for who in ("theirs", "ours")]
            table.add_row(testcase, str(tasks), *figures, ratio.written("{:.3f}".format))
            print(json.dumps({"testcase": testcase, "tasks": tasks, **rates}), file=sys.stderr)
    return table


def main() -> None:
    """Compile both, and compare them."""
    if len(sys.argv) < 2:
        print(
            "harness: not run, as it needs a checkout of will-it-scale: "
            "benchmarks/recorder/harness.py WILL-IT-SCALE"
        )
        return
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(shutil.copytree(sys.argv[1], Path(folder) / "will-it-scale"))
        os.chdir(folder)
        Console(width=110).print(compare(checkout, pairs, Path(folder)))


if __name__ == "__main__":
    main()
