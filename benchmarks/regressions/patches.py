"""What `bigiron patch` says of patches whose effect is known: a table on standard output.

    benchmarks/regressions/patches.py -o FOLDER TREE BASE [NAME...]

TREE is a git tree of the kernel, BASE a commit of it. The patches are those of tests/corpus and of
tests/corpus/real that apply to BASE and are not held out, or those named. What must be said of each stands
in corpus.toml and real.toml, and was written before any was measured. Each patch is built and run alone, in
the folder of its base, so what the first one counts of the base is there for the others: its time is longer.
The same command again runs what is missing.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from corpus import CORPUS, in_words
from real_regressions import read_cases

from bigiron.util.numbers import short_count

MODES = {"process": "", "thread": " (threads)"}


@dataclass(frozen=True)
class Expected:
    """What must be said of a patch."""

    file: Path
    what: str
    kinds: tuple[str, ...]
    objects: tuple[str, ...]


@dataclass(frozen=True)
class Said:
    """What was said of it."""

    of: Expected
    step: dict[str, Any]  # of `--format json`; empty: it failed
    why_not: str
    seconds: float

    @property
    def changes(self) -> list[tuple[dict[str, Any], str]]:
        """What is worse or better, not by alignment alone: with its workload, the largest share first."""
        found = [
            (change, f"{one['workload']}{MODES[one['mode']]}")
            for one in self.step.get("workloads", [])
            for change in one["changes"]
            if change["verdict"] in ("worse", "better")
        ]
        return sorted(found, key=lambda item: -abs(item[0]["share"]))

    @property
    def right(self) -> dict[str, bool | None]:
        """Whether the first change is of the right kind and object; or, for *neither*, that there is none."""
        if not self.step:
            return {"run": False}
        if self.of.kinds == ("neither",):
            return {"kind": not self.changes}
        if not self.changes:
            return {"kind": False}
        first, _ = self.changes[0]
        named = " ".join([first["object"], *(first["functions"] or ())])
        is_object = any(part in named for part in self.of.objects) if self.of.objects else None
        return {"kind": first["kind"] in self.of.kinds, "object": is_object}


def main() -> None:
    """Run what is asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("patches"), help="where the studies go")
    parser.add_argument("tree", type=Path)
    parser.add_argument("base")
    parser.add_argument("names", nargs="*", help="patches; all that apply unless given")
    asked = parser.parse_args()
    said = []
    for expected in known():
        if (asked.names and expected.file.stem not in asked.names) or not applies(expected.file, asked):
            continue
        said.append(run(expected, asked))
        print(row(said[-1]), file=sys.stderr, flush=True)
    print(f"Made by `benchmarks/regressions/patches.py` on {datetime.now(UTC):%Y-%m-%d}.\n")
    print("| patch | must be | said first, per operation | workloads | seconds | right |")
    print("|---|---|---|--:|--:|---|")
    print("\n".join(map(row, said)))


def known() -> Iterator[Expected]:
    """The patches of both corpora but those that are held out, and those of two patches."""
    corpus = tomllib.loads((CORPUS / "corpus.toml").read_text(encoding="utf-8"))
    for one in corpus["patch"]:
        objects = (one["object"],) if one.get("object") else ()
        yield Expected(CORPUS / f"{one['name']}.patch", one["what"], (one["kind"],), objects)
    for case in read_cases():
        if not case.held_out and not case.before and len(case.after) == 1:
            yield Expected(CORPUS / "real" / f"{case.after[0]}.patch", case.what, case.kinds, case.objects)


def applies(patch: Path, asked: argparse.Namespace) -> bool:
    """Whether a patch applies to the base, which is checked out in the tree."""
    command = ["git", "-C", asked.tree, "apply", "--check", patch]
    return not subprocess.run(command, capture_output=True, check=False).returncode


def run(expected: Expected, asked: argparse.Namespace) -> Said:
    """`bigiron patch` of one."""
    command = [sys.executable, "-m", "bigiron", "patch", asked.tree, expected.file, "--base", asked.base]
    start = monotonic()
    done = subprocess.run(
        [*command, "-o", asked.output, "--format", "json"], stdout=subprocess.PIPE, text=True, check=False
    )
    failed = done.returncode not in (0, 1)
    step = {} if failed else json.loads(done.stdout)[0]
    return Said(expected, step, f"exit status {done.returncode}" if failed else "", monotonic() - start)


def row(one: Said) -> str:
    """A row of the table."""
    said = one.why_not or "nothing"
    if one.changes:
        change, workload = one.changes[0]
        counts = f"{short_count(change['before'])} to {short_count(change['after'])}"
        others = len({(each["kind"], each["object"]) for each, _ in one.changes}) - 1
        more = f", and {others} more" if others else ""
        said = f"{change['kind']}: `{change['object']}` {counts} in {workload}{more}"
    compared = len(one.step.get("workloads", []))
    return (
        f"| {one.of.what} | {' or '.join(one.of.kinds)} | {said} | {compared} | {one.seconds:.0f} "
        f"| {in_words(one.right)} |"
    )


if __name__ == "__main__":
    main()
