"""Makes the outputs in README and docs/ again, and says which documented counts no longer hold.

A fenced block that begins with `$ ` is a transcript: commands, and what they print. The comment before it
says how it is made again; who reads the page does not see it:

    <!-- output: counts -->              figures that repeat: compared, within 1 %, and written if they differ
    <!-- output: counts within 10 % -->  the same, less strictly
    <!-- output: exact -->               not a letter differs: what is simulated, lists, refusals
    <!-- output: of the day -->          times, or what depends on this machine: written again, not compared
    <!-- output: not made: WHY -->       needs hours, or hardware

Lines of the comment that begin with `$ ` are run first, unseen. All commands of a page are run in one new
folder, in their order. `<!-- file: NAME -->` before a fenced block puts the block into that folder; so does
`$ cat NAME` in a transcript. Where a transcript has a line `…`, what was left out is left out again: what
follows it is looked for by its first line's words. A command whose output is not shown stays without.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MADE_BY_BENCHMARKS = ("validation", "results")
CUT = "…"
TOLERANCE = 0.01
NOISE = 0.1  # an operation: what is less often than that comes and goes
FENCED = re.compile(
    r"(?:^<!-- (?P<note>(?:(?!-->).)*?)\s-->\n)?^```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
DATE = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d(:\d\d)?")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?![\w]|\.\d)")


@dataclass(frozen=True)
class Step:
    """A command, and what is shown of its output."""

    command: str  # as it is written, with its continuation lines
    shown: list[str]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and the comment before it."""

    page: Path
    line: int  # of the first line inside
    start: int  # where its text begins in the page
    note: str
    text: str

    @property
    def is_transcript(self) -> bool:
        return self.text.startswith("$ ")

    @property
    def kind(self) -> str:
        """Such as "counts within 10 %", or "" where there is no comment."""
        first = self.note.partition("\n")[0]
        return first.removeprefix("output: ") if first.startswith("output: ") else ""

    @property
    def tolerance(self) -> float | None:
        """Of its figures; None where they are not compared."""
        found = re.fullmatch(r"counts(?: within (\d+) %)?", self.kind)
        return None if found is None else int(found[1]) / 100 if found[1] else TOLERANCE

    @property
    def is_made(self) -> bool:
        return self.tolerance is not None or self.kind in ("exact", "of the day")

    @property
    def first(self) -> list[str]:
        """Commands that are run unseen."""
        return (
            [step.command for step in steps(self.note[self.note.find("\n$ ") + 1 :])]
            if "\n$ " in self.note
            else []
        )


def blocks(page: Path) -> list[Block]:
    content = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            content.count("\n", 0, found.start("text")) + 1,
            found.start("text"),
            found["note"] or "",
            found["text"],
        )
        for found in FENCED.finditer(content)
    ]


def steps(transcript: str) -> list[Step]:
    r"""Commands, each with the lines that follow it.

    >>> steps("$ cd /tmp\n$ echo a \\\n    b\na b\n")
    [Step(command='cd /tmp', shown=[]), Step(command='echo a \\\n    b', shown=['a b'])]
    """
    found: list[Step] = []
    continued = False
    for line in transcript.splitlines():
        if continued:
            found[-1] = Step(f"{found[-1].command}\n{line}", [])
        elif line.startswith("$ "):
            found.append(Step(line[2:], []))
        else:
            found[-1].shown.append(line)
        continued = line.endswith("\\") and (continued or line.startswith("$ "))
    return found


class StaleError(Exception):
    """A block that cannot be made as it is."""


def made(step: Step, folder: Path) -> list[str]:
    """What is to be shown of a command's output now."""
    if named := re.fullmatch(r"cat (\S+)", step.command):
        (folder / named[1]).write_text("\n".join(step.shown) + "\n", encoding="utf-8")
        return step.shown
    done = subprocess.run(
        ["bash", "-c", step.command],
        cwd=folder,
        env=os.environ | {"PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    expected = done.returncode in (0, 1) or any(line.startswith("bigiron: ") for line in step.shown)
    if not expected or "Traceback" in done.stdout:
        last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
        raise StaleError(f"`{step.command}` ended with {done.returncode}: {last}")
    lines = [line.rstrip() for line in done.stdout.replace(f"{folder}/", "").splitlines()]
    return cut_like(step.shown, lines) if step.shown else []


def cut_like(shown: list[str], lines: list[str]) -> list[str]:
    """The lines that correspond to those shown, with the same left out.

    >>> cut_like(["a 1", "…", "z 9"], ["a 2", "b 3", "c 4", "z 5", "all 14"])
    ['a 2', '…', 'z 5']
    """
    if CUT not in shown:
        return lines
    result: list[str] = []
    at = 0
    for number, part in enumerate(parts(shown)):
        if number:
            result.append(CUT)
            if not part:
                break
            at = next((n for n in range(at, len(lines)) if words(lines[n]) == words(part[0])), -1)
            if at < 0:
                raise StaleError(f"its output has no line like {part[0]!r} any more")
        result += lines[at : at + len(part)]
        at += len(part)
    return result


def parts(shown: list[str]) -> list[list[str]]:
    result: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == CUT:
            result.append([])
        else:
            result[-1].append(line)
    return result


def words(line: str) -> str:
    """What a line is about: all but its figures."""
    return " ".join(NUMBER.sub("#", line).split())


def figures(lines: list[str]) -> dict[str, list[float]]:
    """The figures of every line that has some, by its words; figures alone belong to the line before.

    >>> figures(["* struct x.y", "      1,000  2.5  8/8", "no figure"])
    {'* struct x.y': [1000.0, 2.5, 8.0, 8.0]}
    """
    found: dict[str, list[float]] = {}
    before = ""
    for line in (DATE.sub("", line) for line in lines):
        numbers = [float(number.replace(",", "")) for number in NUMBER.findall(line)]
        about = words(line)
        name = (about.replace("#", "").strip(" -/.") and about) or before
        if numbers:
            found.setdefault(name, []).extend(numbers)
        before = about
    return found


def differences(old: list[str], new: list[str], tolerance: float) -> Iterator[str]:
    """What of the old figures does not hold in the new, in words.

    >>> list(differences(["label 6.000", "slab 0.05"], ["label 2.000", "list 1.5"], 0.01))
    ["'label #' was 6, is 2", "'list #' is new: 1.5"]
    """
    before, after = figures(old), figures(new)
    for name, was in before.items():
        now = after.get(name)
        if now is None or len(now) != len(was):
            if is_more_than_noise(was):
                yield f"{name!r} was {said(was)}, is {said(now or []) or 'gone'}"
        elif not all(abs(a - b) <= max(NOISE, tolerance * abs(a)) for a, b in zip(was, now, strict=True)):
            yield f"{name!r} was {said(was)}, is {said(now)}"
    for name in after.keys() - before.keys():
        if is_more_than_noise(after[name]):
            yield f"{name!r} is new: {said(after[name])}"


def is_more_than_noise(numbers: list[float]) -> bool:
    """Of counts an operation, which have decimals; whole numbers are CPUs and such."""
    fractions = [number for number in numbers if number % 1] or numbers
    return max(map(abs, fractions), default=0) > 2 * NOISE


def said(numbers: list[float]) -> str:
    return " ".join(f"{number:g}" for number in numbers)


def make_page(page: Path, *, write: bool) -> list[str]:
    """Run what a page shows, and list what no longer holds. Writes the new output if `write`."""
    stale: list[str] = []
    content = page.read_text(encoding="utf-8")
    replaced: list[tuple[Block, str]] = []
    with tempfile.TemporaryDirectory(prefix="bigiron-docs-") as temporary:
        folder = Path(temporary)
        for name in ("benchmarks", "cases", "docs", "sim", "tests", ".venv"):
            (folder / name).symlink_to(ROOT / name)
        for block in blocks(page):
            where = f"{page.relative_to(ROOT)}:{block.line}"
            if file := re.fullmatch(r"file: (\S+)", block.note):
                (folder / file[1]).write_text(block.text, encoding="utf-8")
            if not (block.is_transcript and block.is_made):
                continue
            began = time.monotonic()
            try:
                text, changes = make_block(block, folder)
            except StaleError as error:
                stale.append(f"{where}: {error}")
                continue
            print(f"{where}: made in {time.monotonic() - began:.0f} s", file=sys.stderr)
            stale += [f"{where}: {change}" for change in changes]
            if changes or block.kind == "of the day":
                replaced.append((block, text))
    if write:
        for block, text in reversed(replaced):
            content = content[: block.start] + text + content[block.start + len(block.text) :]
        page.write_text(content, encoding="utf-8")
    return stale


def make_block(block: Block, folder: Path) -> tuple[str, list[str]]:
    """A block's text now, and which of its figures do not hold."""
    for command in block.first:
        made(Step(command, []), folder)
    text, changes = "", list[str]()
    for step in steps(block.text):
        lines = made(step, folder)
        if block.tolerance is not None:
            changes += differences(step.shown, lines, block.tolerance)
        elif block.kind == "exact" and lines != step.shown:
            changes.append(f"`{step.command}` prints something else")
        text += "".join(f"{line}\n" for line in (f"$ {step.command}", *lines))
    return text, changes


def pages() -> list[Path]:
    """README and the pages of docs/ that people write: the others are made by benchmarks."""
    written = (
        page
        for page in (ROOT / "docs").rglob("*.md")
        if page.relative_to(ROOT / "docs").parts[0] not in MADE_BY_BENCHMARKS
    )
    return [ROOT / "README.md", *sorted(written)]


def main() -> None:
    """Make pages, and end with 1 where a count no longer holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("page", nargs="*", type=Path, help="README and all of docs/ unless given")
    parser.add_argument("--check", action="store_true", help="change no page")
    asked = parser.parse_args()
    stale = [
        line for page in asked.page or pages() for line in make_page(page.resolve(), write=not asked.check)
    ]
    print("\n".join(stale) or "every documented count holds")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
