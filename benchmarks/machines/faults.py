"""Random faults over small real studies, in virtual machines and by ssh, and what comes of them.

    benchmarks/machines/faults.py [--faults 20] [--seed 1] [--jobs N] [--only WORD] [--write]

Each fault harms one run of a study, which is then run until it is whole, and looked at all the time
(docs/validation/faults.md). Each has a seed of its own, and `--seed SEED --faults 1` does it again, as far as
moments repeat. Needs root, for full disks, and sshd. Ends with status 1 if anything was as it should not be.
"""

import argparse
import ctypes
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))  # its sshd

from fault_injection.kinds import KINDS, Kind
from fault_injection.trial import UNHURRIED_S, Calm, Trial, place, weight

from bigiron.study.store import open_study

SHARES = {"vm": 0.3, "ssh": 0.63, "ssh, throughput": 0.07}
LEAST_DEADLINE_S = {"vm": 45, "ssh": 12}  # a machine that boots takes several times as long as one resumed
PAGE = Path(__file__).parents[2] / "docs/validation/faults.md"
MADE_HERE = "<!-- what follows is made by benchmarks/machines/faults.py --write -->\n"
WORDS = {0: "whole", 2: "refused", 3: "cells failed", 130: "stopped"}
_CLONE_NEWNS, _MS_PRIVATE_ALL = 0x20000, 0x44000


@dataclass(frozen=True)
class Result:
    """What came of one fault."""

    seed: int
    place: str
    kind: str
    trial: Trial

    @property
    def outcomes(self) -> list[str]:
        """How the runs ended that were harmed."""
        return [WORDS.get(run.status, "killed") for run in self.trial.runs[: self.trial.harmed]]

    def __str__(self) -> str:
        what = f"{self.seed}  {self.place}: {self.kind}{'' if self.trial.hit else ' (too late)'}: "
        what += f"{', '.join(self.outcomes)}; whole after {len(self.trial.runs) - self.trial.harmed} more"
        return "".join([what, *(f"\n    VIOLATION {violation}" for violation in self.trial.violations)])


def fault(seed: int, only: str, calm: dict[str, Calm]) -> Result:
    """Choose one, do it, and look."""
    chance = random.Random(seed)
    where, kind = choose(chance, only)
    mark = f"{os.getpid()}-{seed}"
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        with place(where, folder, mark) as here:
            (folder / "disk").mkdir()
            deadline_s = int(max(LEAST_DEADLINE_S[where[:3].rstrip(",")], 6 * calm[where].cell_s))
            trial = Trial(here, folder, chance, calm[where], deadline_s, mark, folder / "disk/s")
            kind.harm(trial)
            if not trial.harmed:
                trial.resume()
    return Result(seed, where, kind.name, trial)


def choose(chance: random.Random, only: str) -> tuple[str, Kind]:
    """Where, and what."""
    while True:
        (where,) = chance.choices(list(SHARES), list(SHARES.values()))
        (kind,) = chance.choices(KINDS, [kind.weights[where[:3].rstrip(",")] for kind in KINDS])
        if only in f"{where}: {kind.name}":
            return where, kind


def calm(where: str) -> Calm:
    """A study without faults; ends the program where it does not become whole."""
    mark = f"{os.getpid()}-calm-{list(SHARES).index(where)}"  # a word, for sshd's sake
    with tempfile.TemporaryDirectory(prefix="faults-") as name, place(where, Path(name), mark) as here:
        calm = Calm(0, 0, 0)
        trial = Trial(here, Path(name), random.Random(1), calm, UNHURRIED_S, mark, Path(name) / "s")
        since = time.monotonic()
        trial.resume()
        seconds = time.monotonic() - since
        if trial.violations:
            sys.exit(f"{where}: not even where nothing is harmed: {trial.violations}")
        study = open_study(trial.study)
        records = study.records()
        return Calm(seconds, max(record.seconds for record in records), weight(study, records[0]))


def table(results: list[Result]) -> str:
    """What came of all of them, by kind, in Markdown."""
    outcomes = [*WORDS.values(), "killed"]
    lines = [
        f"| fault | machines | faults | in time | {' | '.join(outcomes)} | whole afterwards | violations |",
        "|---|---|" + "--:|" * (len(outcomes) + 4),
    ]
    for kind in KINDS:
        for where in "vm", "ssh":
            these = [r for r in results if r.kind == kind.name and r.place.startswith(where)]
            if these:
                lines.append(f"| {kind.name} | {where} | {columns(these, outcomes)} |")
    return "\n".join([*lines, f"| all | | {columns(results, outcomes)} |"])


def columns(results: list[Result], outcomes: list[str]) -> str:
    """One row's figures."""
    ended = Counter(outcome for result in results for outcome in result.outcomes)
    whole = sum(result.trial.whole for result in results)
    figures = [
        len(results),
        sum(result.trial.hit for result in results),
        *(ended[outcome] for outcome in outcomes),
        whole,
        sum(bool(result.trial.violations) for result in results),
    ]
    return " | ".join(str(figure) for figure in figures)


def have_mounts_of_our_own() -> None:
    """So that no full disk outlives this program, nor is seen by others."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) or libc.mount(b"none", b"/", None, _MS_PRIVATE_ALL, None):
        sys.exit(f"full disks are made by mounting: run this as root ({os.strerror(ctypes.get_errno())})")


def main() -> None:
    """Do so many faults, side by side, and print what came of each and of all."""
    options = argparse.ArgumentParser(description="Random faults over real studies.")
    options.add_argument("--faults", type=int, default=20)
    options.add_argument("--seed", type=int, default=1, help="of the first fault")
    options.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)) + 1, help="side by side")
    options.add_argument(
        "--only", default="", help="what its place and kind must have in it, e.g. 'vm: full'"
    )
    options.add_argument("--write", action="store_true", help=f"put the table into docs/{PAGE.name}")
    asked = options.parse_args()
    seeds = range(asked.seed, asked.seed + asked.faults)
    chosen = [choose(random.Random(seed), asked.only) for seed in seeds]
    if any(kind.name == "full disk" for _, kind in chosen):
        have_mounts_of_our_own()
    unharmed = {where: calm(where) for where in SHARES if where in {where for where, _ in chosen}}
    for where, one in unharmed.items():
        print(f"{where}: {one.cell_s:.1f} s a cell, {one.run_s:.1f} s a study where nothing is harmed")
    results, since = [], time.monotonic()
    pool = ThreadPoolExecutor(asked.jobs)
    try:
        for result in pool.map(lambda seed: fault(seed, asked.only, unharmed), seeds):
            print(result, flush=True)
            results.append(result)
    finally:
        pool.shutdown(cancel_futures=True)  # after a Ctrl-C no further fault begins
    violations = sum(len(result.trial.violations) for result in results)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds, cpu_seconds = time.monotonic() - since, used.ru_utime + used.ru_stime
    made = (
        f"{len(results)} faults from seed {asked.seed} on, {asked.jobs} side by side, took {seconds:.0f} s "
        f"and {cpu_seconds:.0f} s of CPU time; {violations} violations:\n\n{table(results)}\n"
    )
    print(f"\n{made}")
    if asked.write:
        text = PAGE.read_text()
        PAGE.write_text(text[: text.index(MADE_HERE) + len(MADE_HERE)] + made)
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
