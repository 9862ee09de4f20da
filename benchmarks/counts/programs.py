"""Real programs in virtual machines, on two kernels: which run, and their most accessed shared cache lines.

    nice benchmarks/counts/programs.py -o FOLDER [--stressors] [--kernel debian/6.12 ...] [--suite trixie]
                                       [--cpus 4] [--only REGEX]

The programs are those of benchmarks/counts/programs.toml; with --stressors, the stressors of stress-ng
instead, each as `stress-ng --STRESSOR N --STRESSOR-ops OPERATIONS` with as many instances as CPUs. A stressor
that executed few instructions is run again with 20 times the operations, so that its start counts less. Some,
sem and mutex among them, do not end after their operations, nor do they on a real machine: a part of them is
recorded.

Each program is a study in the folder, measured by `bigiron run`: what is measured is kept, so run it again
and it goes on. The page, docs/results/programs.md or stressors.md, is written at the end.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bigiron import open_study
from bigiron.util.parent_death import bigiron_itself
from bigiron.workloads.of_benchmark.stressors import STRESSORS

LIST = Path(__file__).with_name("programs.toml")
RESULTS = Path(__file__).parents[2] / "docs/results"
OPERATIONS, FACTOR, MOST_OPERATIONS = 20, 20, 160_000  # of a stressor
ENOUGH_INSTRUCTIONS = 150e6  # its start alone takes 100 million
DEADLINE_S, STRESSORS_DEADLINE_S = 300, 120
PART_S = 0.05
ENDLESS = "was not done in"  # part of the message about a command that does not end
CACHE_LINES = 3
OPTIONS = {"deadline_s": "deadline", "warm_up_s": "warm-up", "record_s": "for"}
"""Of `bigiron run`, by the keys of study.toml that they are not called after."""
INTRODUCTION = """\
# {title}

Made by `benchmarks/counts/programs.py{option}` on {date}: {kernels}, {cpus} CPUs, packages of
Debian's {suite}. Counts of each program's three most accessed shared cache lines, per operation on each
kernel; *unit* says what an operation is. {good} of {all} programs were measured.

| program | unit | cache lines: accesses per operation{on} |
|---|---|---|
"""


@dataclass(frozen=True)
class Program:
    """What is run, and how."""

    name: str
    packages: Sequence[str]
    keys: Mapping[str, Any]
    """Of study.toml."""
    file_systems: Sequence[str] = ()


def listed() -> list[Program]:
    """The programs of benchmarks/counts/programs.toml."""
    tables = tomllib.loads(LIST.read_text(encoding="utf-8"))["program"]
    return [
        Program(one.pop("name"), one.pop("packages"), file_systems=one.pop("file_systems", ()), keys=one)
        for one in tables
    ]


@dataclass(frozen=True)
class Where:
    """On what all of them are measured."""

    folder: Path
    kernels: Sequence[str]
    suite: str
    cpus: int


@dataclass(frozen=True)
class Outcome:
    """A study that has what was asked, or why it has not."""

    name: str
    study: Path
    failure: str = ""


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--kernel", action="append", default=[])
    parser.add_argument("--suite", default="trixie")
    parser.add_argument("--cpus", type=int, default=4)
    parser.add_argument("--only", default="", help="programs whose name has this regular expression")
    parser.add_argument("--stressors", action="store_true")
    asked = parser.parse_args()
    where = Where(asked.output, asked.kernel or ["debian/6.12", "debian/7.2"], asked.suite, asked.cpus)
    found = measured_stressors(where, asked.only) if asked.stressors else measured(where, asked.only)
    outcomes = [
        outcome
        for outcome in found
        if not print(f"{outcome.name}: {outcome.failure or 'measured'}", flush=True)
    ]
    if not asked.only:
        page = RESULTS / ("stressors.md" if asked.stressors else "programs.md")
        page.write_text(text(outcomes, where, stressors=asked.stressors), encoding="utf-8")


def measured(where: Where, only: str) -> Iterator[Outcome]:
    """Each program, on each of its file systems."""
    for program in listed():
        for kind in program.file_systems or [""]:
            name = f"{program.name} on {kind}" if kind else program.name
            if re.search(only, name):
                yield measure(name, program, where, ["--fs", kind] if kind and kind != "tmpfs" else [])


def measured_stressors(where: Where, only: str) -> Iterator[Outcome]:
    """Each stressor."""
    for name in STRESSORS:
        if not re.search(only, name):
            continue
        outcome = measure(f"{name}, {OPERATIONS} operations", stressor(name, OPERATIONS), where, [])
        if ENDLESS in outcome.failure:
            outcome = measure(f"{name}, a part", stressor(name, 0), where, [])
        elif not outcome.failure:
            outcome = with_more_operations(name, outcome, where)
        yield Outcome(name, outcome.study, outcome.failure)


def with_more_operations(name: str, outcome: Outcome, where: Where) -> Outcome:
    """The outcome with as many operations as are worth their while."""
    operations = OPERATIONS
    while operations < MOST_OPERATIONS and instructions(outcome.study) < ENOUGH_INSTRUCTIONS:
        operations *= FACTOR
        more = measure(f"{name}, {operations} operations", stressor(name, operations), where, [])
        if more.failure:
            break
        outcome = more
    return outcome


def stressor(name: str, operations: int) -> Program:
    """What ends after so many operations; 0: only a part of it is recorded."""
    if operations:
        keys = {"command": f"stress-ng --{name} {{tasks}} --{name}-ops {operations}", "metric": "stress-ng"}
    else:
        part = {"warm_up_s": 2 * PART_S, "record_s": PART_S}
        keys = {"command": f"stress-ng --{name} {{tasks}}", "per": "system-call", **part}
    return Program(name, ["stress-ng"], {**keys, "folder": "/tmp", "deadline_s": STRESSORS_DEADLINE_S})


def measure(name: str, program: Program, where: Where, options: Sequence[str]) -> Outcome:
    """One study. What failed is asked again only in a folder without it."""
    study = where.folder / re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
    failure = study / "failure"
    if failure.exists():
        return Outcome(name, study, failure.read_text(encoding="utf-8"))
    # A study that is here has what was asked, and what it lacks is measured.
    is_here = (study / "study.toml").exists()
    question = [str(study)] if is_here else [*asked_of(program, where), *options, "-o", str(study)]
    done = subprocess.run(
        bigiron_itself("run", *question),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return Outcome(name, study)
    if done.returncode not in (2, 3) or is_here:
        sys.exit(done.stderr)
    shutil.rmtree(study, ignore_errors=True)
    study.mkdir(parents=True)
    why = (done.stderr.strip().splitlines() or ["no message"])[-1].removeprefix("bigiron: ")
    failure.write_text(why, encoding="utf-8")
    return Outcome(name, study, why)


def asked_of(program: Program, where: Where) -> list[str]:
    """The options of `bigiron run` for a program."""
    keys = {
        "root": "debian:" + "+".join([where.suite, *program.packages]),
        "cpus": where.cpus,
        "kernel": list(where.kernels),
        "deadline_s": DEADLINE_S,
        **program.keys,
    }
    return [
        f"--{OPTIONS.get(key, key.replace('_', '-'))}={one_line(value)}"
        for key, values in keys.items()
        for value in (values if isinstance(values, list) else [values])
    ]


def one_line(value: object) -> str:
    """A command that is written on several lines as one."""
    return " ".join(str(value).split("\n")).strip()


def instructions(study: Path) -> float:
    """How many instructions were recorded in the cell that has fewest."""
    facts = [record.facts["instructions"] for record in open_study(study).records()]
    return float(min(sum(each["instructions"].values()) + each["user_instructions"] for each in facts))


def text(outcomes: Sequence[Outcome], where: Where, *, stressors: bool) -> str:
    """The page."""
    head = INTRODUCTION.format(
        title="Stressors of stress-ng" if stressors else "Programs",
        option=" --stressors" if stressors else "",
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        kernels=" and ".join(where.kernels),
        cpus=where.cpus,
        suite=where.suite,
        good=sum(not outcome.failure for outcome in outcomes),
        all=len(outcomes),
        on="".join(f", {kernel}" for kernel in where.kernels),
    )
    return head + "".join(row(outcome, where.kernels) + "\n" for outcome in outcomes)


def row(outcome: Outcome, kernels: Sequence[str]) -> str:
    """A row of the page's table."""
    if outcome.failure:
        return f"| {outcome.name} | | {outcome.failure.replace('|', ' ')} |"
    done = subprocess.run(
        bigiron_itself("compare", str(outcome.study), "--probe", "conflicts", "--format", "json"),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    shared = [f"`{one['object']}` {counts(one, kernels)}" for one in found["rows"][:CACHE_LINES]]
    return f"| {outcome.name} | {found['operation']} | {'; '.join(shared) or 'none'} |"


def counts(row: dict[str, Any], kernels: Sequence[str]) -> str:
    """Accesses per operation on each kernel."""
    cells = [row["cells"].get(kernel) or {} for kernel in kernels]
    return " ".join(f"{cell.get('accesses_per_op') or 0:.3g}" for cell in cells)


if __name__ == "__main__":
    main()
