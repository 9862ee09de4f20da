"""How often `bigiron judge` calls one kernel different from itself.

    nice python benchmarks/regressions/self_judgement.py -o FOLDER [--kernel debian/6.12]
                                                    [--draws 4] [NAME ...]
    python benchmarks/regressions/self_judgement.py -o FOLDER --print          # measures nothing

Each draw is a study in the folder: boots of one kernel, half of them taken for another kernel's, as many as
`judge` boots: two of each, and four if anything seems to differ. Each draw boots its own machines; those of
programs have the same random numbers in each draw, as these follow the repetition. What is measured is kept,
so run it again and it goes on. The page, docs/validation/regressions/self-judgement.md, goes to standard
output.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "counts"))  # its list of programs

from programs import listed

from bigiron.analysis.comparison.model import Measurements
from bigiron.errors import UserError
from bigiron.judge import judgement
from bigiron.judge.judgement import Judgement, ReportedClaim
from bigiron.judge.second_opinion import BOOTS, CPUS, PROBES, operations
from bigiron.results import measurements
from bigiron.study import store
from bigiron.util.parent_death import bigiron_itself

AT_TASKS = 104
"""The number of tasks for which changes are weighed, as of a report."""

WORKLOADS = {
    "open1": [],
    "open1, threads": ["--mode", "thread"],
    "mmap1": [],
    "page_fault2": [],
    "pipe1": [],
    "futex1": [],
    "context_switch1": [],
    "fxmark/DWOM": [],
    "hackbench": None,
    "perf bench sched messaging": None,
}
"""Options of `bigiron run` by workload. None: a program of benchmarks/counts/programs.toml."""

SUITE, DEADLINE_S = "trixie", 300
INTRODUCTION = """\
# One kernel, judged against itself

Made by `benchmarks/regressions/self_judgement.py` on {date}: {kernel}, {cpus} CPUs, judged at {tasks}
tasks. Half of each draw's boots are taken for another kernel's: two of each, or four where anything
seemed to differ, as `bigiron judge` boots them. Each draw boots its own machines; those of programs
have the same random numbers in each draw. **{wrong} of {draws} draws are called different.**

| workload | draws | with four boots each | called different |
|---|--:|--:|---|
"""


@dataclass(frozen=True)
class Draw:
    """A kernel judged against itself."""

    boots: int  # of each
    judged: Judgement


def main() -> None:
    """Measure what is missing, and print the page."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="where the studies go")
    parser.add_argument("--kernel", default="debian/6.12")
    parser.add_argument("--draws", type=int, default=4, help="of each workload")
    parser.add_argument("--print", action="store_true", help="measure nothing")
    parser.add_argument("names", nargs="*", help="workloads; all unless given")
    asked = parser.parse_args()
    found: dict[str, list[Draw]] = {}
    for name in asked.names or WORKLOADS:
        for number in range(1, asked.draws + 1):
            folder = asked.output / f"{re.sub(r'[^A-Za-z0-9]+', '-', name)}-{number}"
            if one := draw(name, folder, asked.kernel, measures=not asked.print):
                found.setdefault(name, []).append(one)
                print(f"{name}, draw {number}: {one.judged.kind}", file=sys.stderr, flush=True)
    print(page(found, asked.kernel), end="")


def draw(name: str, folder: Path, kernel: str, *, measures: bool) -> Draw | None:
    """The judgement after so many boots as are needed; None if they are not there."""
    one = None
    for boots in BOOTS:
        if measures:
            measure(name, folder, kernel, 2 * boots)
        try:
            one = Draw(boots, judged(folder, boots))
        except UserError:
            return one
        if one.judged.kind == "neither":
            return one
    return one


def measure(name: str, folder: Path, kernel: str, boots: int) -> None:
    """One study with so many boots at least: it goes on where it ended."""
    question = [*options(name, kernel, boots), "-o", str(folder)]
    if (folder / "study.toml").exists():
        boots = max(boots, store.open_study(folder).spec.repetitions)
        question = [str(folder), f"--reps={boots}", "--fresh-boot"]
    done = subprocess.run(bigiron_itself("run", *question), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr.strip()}")


def options(name: str, kernel: str, boots: int) -> list[str]:
    """Those of `bigiron run`."""
    of_all = [
        *(f"--kernel={kernel}", f"--cpus={CPUS}", f"--reps={boots}", "--fresh-boot"),
        f"--probe={','.join(PROBES)}",
    ]
    given = WORKLOADS[name]
    if given is not None:
        workload = name.partition(",")[0]
        return [workload, *given, f"--operations={operations(workload)}", *of_all]
    (program,) = (one for one in listed() if one.name == name)
    root = "debian:" + "+".join([SUITE, *program.packages])
    keys = {"root": root, "deadline": DEADLINE_S, **program.keys}
    return [*(f"--{key.replace('_', '-')}={value}" for key, value in keys.items()), *of_all]


def judged(folder: Path, boots: int) -> Judgement:
    """Of a study's boots the first, third and so on against the others, so many of each."""
    study = store.open_study(folder)
    lines, locks, instructions = (halves(measurements.read(study, probe), boots) for probe in PROBES)
    return judgement.judge(lines, locks, instructions, "base", "new", ReportedClaim(True, AT_TASKS))


def halves(measured: Measurements, boots: int) -> Measurements:
    """The boots of the only variant as those of two; UserError if there are too few."""
    ((point, of_variant),) = measured.points.items() or [((0, 0), {})]
    cells = next(iter(of_variant.values()), ())[: 2 * boots]
    if len(cells) < 2 * boots:
        raise UserError(f"{measured.study} has {len(cells)} boots of {2 * boots}")
    return replace(measured, points={point: {"base": cells[::2], "new": cells[1::2]}})


def page(found: dict[str, list[Draw]], kernel: str) -> str:
    """The page of docs/validation/regressions."""
    every = [one for draws in found.values() for one in draws]
    head = INTRODUCTION.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        kernel=kernel,
        cpus=CPUS,
        tasks=AT_TASKS,
        wrong=len(differing(every)),
        draws=len(every),
    )
    return head + "".join(f"{row}\n" for row in rows(found))


def rows(found: dict[str, list[Draw]]) -> Iterator[str]:
    """A row of the table for each workload."""
    for name, draws in found.items():
        again = sum(one.boots > BOOTS[0] for one in draws)
        named = ", ".join(f"{one.judged.kind} (`{one.judged.changes[0].object}`)" for one in differing(draws))
        yield f"| {name} | {len(draws)} | {again} | {named} |"


def differing(draws: Sequence[Draw]) -> list[Draw]:
    """Those that are called different."""
    return [one for one in draws if one.judged.kind != "neither"]


if __name__ == "__main__":
    main()
