"""The built-in workloads beside will-it-scale's own files: the same system calls, instructions and accesses?

    benchmarks/counts/upstream_loops.py CHECKOUT [-o FOLDER] [--workloads open1,...] [--calls]

CHECKOUT is one of github.com/antonblanchard/will-it-scale. System calls are those of one task between two
operations, as strace lists them, without addresses, texts and descriptors: names, sizes, flags, results, and
how often per operation. Instructions and accesses are counted in a virtual machine, two tasks on two CPUs;
--calls leaves that out. An operation of ours may be several of upstream's (OPERATIONS): all counts are per
operation of upstream's. Where upstream has a pass of 32,768 operations, its file runs with 256, so that
whole passes are recorded.

Studies are kept in the folder: run it again, and only what is missing is measured. The page,
docs/validation/will-it-scale.md, is written if all workloads were measured.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from snapshots import Recorded

from bigiron import workloads
from bigiron.study.store import open_study

HERE = Path(__file__).parent
BIGIRON = Path(sys.executable).with_name("bigiron")
PAGE = HERE.parents[1] / "docs/validation/will-it-scale.md"
KERNEL, CPUS = "debian/6.12", "2"
CALLED = 257 * 4  # operations of which system calls are listed: whole passes over a file of 256 blocks
COUNTED = 500
SELDOM = 0.002  # calls per operation: where in a pass over a file the operations begin
GOAL = 0.01

# How many of upstream's operations are one of ours.
PAGE_FAULTS = ("page_fault1", "page_fault2", "page_fault3")
OPERATIONS = {"context_switch1": 2} | dict.fromkeys(PAGE_FAULTS, 64)
LONG_PASSES = (*PAGE_FAULTS, "tlb_flush1", "tlb_flush3")
LARGE, SMALL = "(128 * 1024 * 1024)", "(1 * 1024 * 1024)"
PASSES = 256 * 80  # operations of upstream's, where a pass is 256 of them
TAKES_TURNS = "context_switch1"  # with a helper

HEADING = """\
# The built-in tests of will-it-scale and upstream's

Made by `benchmarks/counts/upstream_loops.py` on {day}, with {kernel}, {cpus} CPUs and as many tasks as
processes. {same} of {all} tests make the same system calls, with the same sizes and flags and as often, as
upstream's files do; {close} of {all} have the same instructions per operation within 1 %.

Counts are per operation of upstream's. In the built-in page_fault tests, one operation is a pass over 64
pages, and in context_switch1 two switches. For page_fault and tlb_flush1 and 3, upstream's file was compiled
with 1 MiB instead of 128 MiB, so that whole passes are recorded; upstream's passes map and unmap, which the
built-in page_fault tests leave out. In open1, open2 and unlink1 a file's path has one directory more.

| workload | system calls | instructions: ours | upstream's | difference | accesses: ours | upstream's |
|---|---|--:|--:|--:|--:|--:|
"""


@dataclass(frozen=True)
class Counts:
    """Per operation of upstream's."""

    instructions: float
    accesses: float


@dataclass(frozen=True)
class Compared:
    """A workload and upstream's file of the same name."""

    name: str
    calls: str  # "same", or what differs
    ours: Counts | None
    theirs: Counts | None

    @property
    def difference(self) -> float:
        """In instructions, as a share of upstream's."""
        if not self.ours or not self.theirs:
            return float("nan")
        return (self.ours.instructions - self.theirs.instructions) / max(self.theirs.instructions, 1)

    def row(self) -> str:
        words = [self.name, self.calls]
        if self.ours and self.theirs:
            words += [f"{counts.instructions:,.0f}" for counts in (self.ours, self.theirs)]
            words += [f"{self.difference:+.1%}", f"{self.ours.accesses:.3f}", f"{self.theirs.accesses:.3f}"]
        return f"| {' | '.join(words)} |"


def calls(source: Path, operations: int, folder: Path) -> dict[str, float]:
    """Each distinct system call of a task and how often it makes it, per operation."""
    compiler = ["gcc", "-std=gnu11", "-O2", "-w", "-static", "-pthread"]
    task, program, trace = folder / "task.o", folder / "program", folder / "trace"
    subprocess.run([*compiler, "-fsanitize-coverage=trace-pc", "-c", source, "-o", task], check=True)
    subprocess.run([*compiler, HERE / "upstream_loops.c", task, "-o", program], check=True)
    traced = ["strace", "-f", "-qq", "--signal=none", "-o", trace, program, str(operations)]
    subprocess.run(traced, check=True, capture_output=True)
    found = Counter(between_the_marks(trace.read_text(errors="replace").splitlines()))
    return {call: number / operations for call, number in found.items()}


def between_the_marks(lines: list[str]) -> Iterator[str]:
    """Names, sizes and flags of the calls of the operations, the helper's among them."""
    inside = False
    for line in lines:
        call = line.split(maxsplit=1)[1]
        if call.startswith('write(-1, "end"'):
            return
        if call.startswith('write(-1, "begin"'):
            inside = True
        elif inside and not call.startswith("<..."):
            yield plain(call)


def plain(call: str) -> str:
    """One call without what differs from run to run.

    >>> plain('openat(AT_FDCWD, "/tmp/willitscale.Xy12Za", O_RDWR) = 3')
    'openat(AT_FDCWD, TEXT, O_RDWR) = 3'
    >>> plain("tgkill(4711, 4711, SIGUSR1) = 0")
    'tgkill(TASK, TASK, SIGUSR1) = 0'
    >>> plain("lseek(3, 0, SEEK_SET) = 0")
    'lseek(FD, 0, SEEK_SET) = 0'
    """
    if " <unfinished" in call or call.startswith("read("):  # one that waits is in two pieces
        return call.partition("(")[0]
    text = re.sub(r'"[^"]*"(\.\.\.)?', "TEXT", re.sub(r"0x[0-9a-f]+", "ADDRESS", call))
    if re.match(r"\w*(kill|[pgt]id)\(", text):
        text = re.sub(r"\b\d{2,}\b", "TASK", text)
    text = re.sub(r"^(\w+)\(\d+, ", r"\1(FD, ", text)
    return re.sub(r"\s+", " ", text)


def difference_of_calls(name: str, checkout: Path) -> str:
    """What to print: "same", or which calls one of the two makes more often."""
    of_ours = OPERATIONS.get(name, 1)
    with tempfile.TemporaryDirectory() as folder:
        theirs = calls(upstream(name, checkout, Path(folder)), CALLED, Path(folder))
        ours = calls(workloads.find(name).source, CALLED // of_ours, Path(folder))
    if name == TAKES_TURNS:  # which of the two is in two pieces is chance
        ours, theirs = by_name(ours), by_name(theirs)
    more = {call: ours.get(call, 0) / of_ours - theirs.get(call, 0) for call in {*ours, *theirs}}
    differ = sorted(call.partition("(")[0] for call, by in more.items() if abs(by) > SELDOM)
    return f"differ: {', '.join(differ)}" if differ else "same"


def by_name(rates: dict[str, float]) -> dict[str, float]:
    found: Counter[str] = Counter()
    for call, rate in rates.items():
        found[call.partition("(")[0]] += rate
    return dict(found)


def upstream(name: str, checkout: Path, folder: Path) -> Path:
    """Its file; with short passes in place of long ones, a copy."""
    source = checkout / f"tests/{name}.c"
    if name not in LONG_PASSES:
        return source
    copy = folder / source.name
    copy.write_text(source.read_text().replace(LARGE, SMALL))
    return copy


def counted(folder: Path, name: str, workload: list[str | Path], of_upstream: int) -> Counts:
    """Of one cell."""
    operations = (PASSES if name in LONG_PASSES else COUNTED) // of_upstream
    command = ["run", *workload, "--kernel", KERNEL, "--cpus", CPUS, "--operations", str(operations)]
    command += ["--probe", "conflicts,instructions", "--clock", "instructions", "--jobs", "1", "-o", folder]
    if not folder.exists() or not open_study(folder).records():
        subprocess.run([BIGIRON, *command], check=True, stdout=subprocess.DEVNULL)
    recorded = Recorded.only(folder)
    accesses = sum(line.accesses_per_op for line in recorded.lines())
    return Counts(recorded.work() / of_upstream, accesses / of_upstream)


def compare(name: str, arguments: argparse.Namespace) -> Compared:
    """Both of a name."""
    differ = difference_of_calls(name, arguments.checkout)
    if arguments.calls:
        return Compared(name, differ, None, None)
    folder = arguments.output / name
    folder.mkdir(parents=True, exist_ok=True)
    theirs = upstream(name, arguments.checkout, folder)
    return Compared(
        name,
        differ,
        counted(folder / "ours", name, [name], OPERATIONS.get(name, 1)),
        counted(folder / "theirs", name, ["--workload-file", theirs], 1),
    )


def main() -> None:
    """Print a row for each as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--workloads", default="")
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    upstreams = sorted(file.stem for file in arguments.checkout.glob("tests/*.c"))
    if not upstreams:
        parser.error(f"{arguments.checkout} has no tests/*.c: give a checkout of will-it-scale")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        arguments.output = arguments.output or Path(folder)
        for name in arguments.workloads.split(",") if arguments.workloads else upstreams:
            found.append(compare(name, arguments))
            print(found[-1].row(), flush=True)
    if not arguments.workloads and not arguments.calls:
        write(found)


def write(found: list[Compared]) -> None:
    """The page."""
    heading = HEADING.format(
        day=datetime.now(UTC).date(),
        kernel=KERNEL,
        cpus=CPUS,
        all=len(found),
        same=sum(one.calls == "same" for one in found),
        close=sum(abs(one.difference) <= GOAL for one in found),
    )
    PAGE.write_text(heading + "\n".join(one.row() for one in found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
