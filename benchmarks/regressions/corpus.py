"""How often `bigiron judge` is right: tests/corpus, a patch each, judged from its report and two kernels.

The judgement gets the mail and two kernels that are called by a checksum, and not the patch or its name.
Kernels are built once each, the first in a quarter of an hour, the others in about a minute; what has been
measured in the folder is not measured again.

    python benchmarks/regressions/corpus.py -o /tmp/corpus            # all of them
    python benchmarks/regressions/corpus.py -o /tmp/corpus flag pair  # two of them

It prints the table of docs/validation/regressions/judge.md.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from bigiron import kernels

CORPUS = Path(__file__).parents[2] / "tests" / "corpus"
BASE = "corpus-base"


@dataclass(frozen=True)
class Scored:
    """One patch: what must be said, what was said, and what of it is right."""

    patch: dict[str, str]
    kind: str  # "" if there was no judgement
    object: str
    change: dict[str, Any] | None  # the first of the judgement
    predicted: str
    seconds: float

    @property
    def kind_is_right(self) -> bool:
        return self.kind == self.patch["kind"]

    @property
    def object_is_right(self) -> bool | None:
        """None: it has none to name."""
        expected = self.patch.get("object", "")
        return expected in self.object if expected else None

    @property
    def sign_is_right(self) -> bool | None:
        """Every patch of the corpus makes its kernel do more."""
        return None if self.change is None else self.change["cost"] > 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("corpus"), help="where the studies go")
    parser.add_argument("names", nargs="*", help="patches; all unless given")
    given = parser.parse_args()
    corpus = tomllib.loads((CORPUS / "corpus.toml").read_text(encoding="utf-8"))
    patches = [one for one in corpus["patch"] if not given.names or one["name"] in given.names]
    kernels.build(corpus["source"], [], [], "x86_64", BASE, say)
    scored = []
    for patch in patches:
        scored.append(_score(patch, corpus["source"], given.output))
        print(_row(scored[-1]), f"{scored[-1].seconds:.0f} s", file=sys.stderr)
    _print(scored)


def _score(patch: dict[str, str], source: str, output: Path) -> Scored:
    file = CORPUS / f"{patch['name']}.patch"
    hidden = hidden_name("corpus", [file])
    kernels.build(source, [file], [], "x86_64", hidden, say)
    start = monotonic()
    found, failure = judged(file.with_suffix(".eml"), (BASE, hidden), output / hidden)
    seconds = monotonic() - start
    if not found:
        print(f"{patch['name']}: {failure}", file=sys.stderr)
        return Scored(patch, "", "", None, "", seconds)
    first = found["changes"][0] if found["changes"] else None
    inside = found["predicted"]
    return Scored(
        patch,
        found["kind"],
        first["object"] if first else "",
        first,
        f"{inside['change']:+.0%} ({inside['low']:+.0%} to {inside['high']:+.0%})" if inside else "",
        seconds,
    )


def hidden_name(kind: str, files: Sequence[Path]) -> str:
    """A kernel's name by what its patches contain, which says nothing of them."""
    return f"{kind}-{hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()[:8]}"


def judged(mail: Path, both: tuple[str, str], study: Path) -> tuple[dict[str, Any], str]:
    """What `bigiron judge` says of a mail and two kernels; nothing, and the reason, if it fails."""
    command = [sys.executable, "-m", "bigiron", "judge", str(mail), "-o", str(study), "--format", "json"]
    command += [word for name in both for word in ("--kernel", name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {}, (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
    return json.loads(done.stdout), ""


def _print(scored: list[Scored]) -> None:
    print("| patch | must be | judged | object named | before, after | predicted | right |")
    print("|---|---|---|---|--:|--:|---|")
    for one in scored:
        print(_row(one))
    changed = [one for one in scored if one.patch["kind"] != "neither"]
    harmless = [one for one in scored if one.patch["kind"] == "neither"]
    objects = [one for one in changed if one.object_is_right is not None]
    signs = [one for one in changed if one.sign_is_right is not None]
    print(
        f"\nkind right in {sum(one.kind_is_right for one in changed)} of {len(changed)}, object in "
        f"{sum(bool(one.object_is_right) for one in objects)} of {len(objects)}, sign in "
        f"{sum(bool(one.sign_is_right) for one in signs)} of {len(signs)}; false alarms on "
        f"{sum(one.kind not in ('neither', '') for one in harmless)} of {len(harmless)} that are neither"
    )


def _row(one: Scored) -> str:
    counts = figures(one.change) if one.change else ""
    right = {"kind": one.kind_is_right, "object": one.object_is_right, "sign": one.sign_is_right}
    named = f"`{one.object}`" if one.object else ""
    return (
        f"| {one.patch['what']} | {one.patch['kind']} | {one.kind or 'nothing'} | {named} | {counts} "
        f"| {one.predicted} | {in_words(right)} |"
    )


def in_words(right: Mapping[str, bool | None]) -> str:
    """Whether all of an answer is right, or what of it is not; None: it has no such thing."""
    wrong = [what for what, is_right in right.items() if is_right is False]
    return f"not {', '.join(wrong)}" if wrong else "yes"


def figures(change: dict[str, Any]) -> str:
    """A change's counts before and after; of a lock that is taken as often, its hold times."""
    before, after = (
        f"{of:.4g}" if of < 10_000 else f"{of:.0f}" for of in (change["before"], change["after"])
    )
    if change["held"] and before == after:
        return f"held {change['held'][0]:.0f}, {change['held'][1]:.0f}"
    return f"{before}, {after}"


def say(step: str) -> None:
    """What a build does."""
    print(step, file=sys.stderr)


if __name__ == "__main__":
    main()
