"""Whether `conflicts` says of a test of the matrix what the matrix says, on a workload of the same two calls.

    benchmarks/counts/matrix.py [MATRIX] [--kernel debian/6.12] [--tests 10] [--seed 1] [-o FOLDER]

Of a matrix's tests on a kernel and tmpfs it samples so many that are conflict-free and so many that are not,
writes of each a C file with testcase() (benchmarks/workloads/of_a_test.h), and records that with the probe
conflicts: two tasks, 60 operations, in each of which A and then B is called in a situation of its own. A
struct counts there if both tasks touch lines of it, one writes them, and each does so at least every second
operation. A line for each test: whether both agree on conflict-free or not, and which structs only one
of them has. Without a matrix, one of a few tests is made first. With -o a benchmark that was stopped goes on.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

import polars as pl

from bigiron.analysis.lines import conflicts
from bigiron.matrix import store
from bigiron.matrix.model import situations
from bigiron.matrix.model.calls import ResultText, SystemCall, Test
from bigiron.matrix.outcomes import MatrixOutcome, normal, struct_of

BIGIRON = Path(sys.executable).with_name("bigiron")
HEADER = Path(__file__).parents[1] / "workloads" / "of_a_test.h"
OPERATIONS = 60
OFTEN = 0.5
A_FEW = 400  # every so many of all tests


def fd(number: object) -> str:
    """The descriptor that a test calls so."""
    return f"fd_of(copy, {number})"


def made(call: SystemCall, row: int, name: str) -> str:
    """A call as C. `name`: how its names are written, with {name} and {place}."""
    given = call.named()

    def named(parameter: str, place: int = 0) -> str:
        return name.format(name=given[parameter], place=place, row=row)

    def protection() -> str:
        return "PROT_READ | PROT_WRITE" if given["writable"] else "PROT_READ"

    def at() -> str:
        return f"slot(copy, {given['slot']})"

    match call.name:
        case "open":
            flags = [f"O_{flag.upper()}" for flag in ("creat", "excl", "trunc") if given[flag]]
            return f"open({named('name')}, {' | '.join(['O_RDWR', *flags])}, 0600)"
        case "link" | "rename":
            return f"{call.name}({named('old')}, {named('new', 1)})"
        case "unlink":
            return f"unlink({named('name')})"
        case "stat":
            return f"stat({named('name')}, &status[{row}])"
        case "fstat":
            return f"fstat({fd(given['fd'])}, &status[{row}])"
        case "lseek":
            return f"lseek({fd(given['fd'])}, {given['offset']} * (long)PAGE, SEEK_SET)"
        case "pipe":
            return "pipe2((int[2]){ 0 }, O_NONBLOCK)"
        case "read" | "write":
            return f"{call.name}({fd(given['fd'])}, page, PAGE)"
        case "pread" | "pwrite":
            return f"{call.name}({fd(given['fd'])}, page, PAGE, {given['offset']} * (long)PAGE)"
        case "mmap" if given["fd"] is None:
            return f"mmap({at()}, PAGE, {protection()}, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)"
        case "mmap":
            what = f"{fd(given['fd'])}, {given['offset']} * (long)PAGE"
            return f"mmap({at()}, PAGE, {protection()}, MAP_FIXED | MAP_SHARED, {what})"
        case "munmap":
            return f"munmap({at()}, PAGE)"
        case "mprotect":
            return f"mprotect({at()}, PAGE, {protection()})"
        case "memread":
            return f"if (!sigsetjmp(after_fault, 0)) *(volatile char *){at()}"
        case "memwrite":
            return f"if (!sigsetjmp(after_fault, 0)) *(volatile char *){at()} = {given['value']}"
    return f"{call.name}({fd(given['fd'])})"


def steps(call: SystemCall, result: ResultText) -> list[tuple[int, str]]:
    """What it takes to set up a call, and by which process."""
    given = call.named()
    text = made(call, 0, 'name_in((char[32]){{ 0 }}, copy, "{name}")')
    match call.name:
        case "open" if result.isdigit():
            text = f"move({text}, {fd(result)})"
        case "pipe":
            reads, writes = result.split()
            moves = f"move(ends[0], {fd(reads)}); move(ends[1], {fd(writes)})"
            text = f"int ends[2]; must(pipe2(ends, O_NONBLOCK)); {moves}"
        case "dup":
            text = f"must(dup2({fd(given['fd'])}, {fd(given['to'])}))"
        case "receive":
            other = f"give({fd(given['fd'])})"
            return [(1 - call.process, other), (call.process, f"move(receive(), {fd(given['to'])})")]
        case "mmap":
            text = f"keep_page_table(slot(copy, {given['slot']})); {text}"
        case "write" | "pwrite":
            text = f"memset(page, {given['value']}, PAGE); {text}"
    return [(call.process, text)]


def workload(test: Test) -> str:
    """A C file with testcase() for a test."""
    all_steps = [(0, 'must(mkdir(name_in((char[32]){ 0 }, copy, ""), 0700))')]
    for call, result in test.set_up:
        all_steps += steps(call, result)
    # Threads are tasks 0 and 1, as A and B; of two processes each task is its process.
    tasks = (0, 1) if test.same else (test.a[0].process, test.b[0].process)
    for task, (call, _) in zip(tasks, (test.a, test.b), strict=True):
        given = call.named()
        there = [given[parameter] for parameter in ("name", "old", "new") if parameter in given]
        for place, name in enumerate(there):
            all_steps.append((call.process, f'name_in(names[{task}][copy][{place}], copy, "{name}")'))
    lines = [f'#include "{HEADER}"', "", "static void set_up(int process, unsigned long copy)", "{"]
    lines.append(f"\tunsigned long first = copy * {len(all_steps)};")
    for number, (process, text) in enumerate(all_steps):
        lines += [
            f"\tif (process == {process}) {{",
            f"\t\tturn(first + {number});\n\t\t{{ {text}; }}",
            f"\t\tprogress->step = first + {number + 1};\n\t}}",
        ]
    lines += [f"\tturn(first + {len(all_steps)});" if not test.same else "", "}", ""]
    lines += ["void testcase(unsigned long long *iterations, unsigned long nr)", "{"]
    values = {
        task: call.named().get("value", 1) for task, (call, _) in zip(tasks, (test.a, test.b), strict=True)
    }
    lines.append("\tif (!nr)\n\t\tstart_set_up();" if test.same else "\tset_up_all(nr);")
    lines.append(f"\tprepare_task(nr ? {values[1]} : {values[0]});")
    waits = ("progress->given < copy + 1", "progress->a < copy + 1")
    for side, task, (call, _), wait in zip("ab", tasks, (test.a, test.b), waits, strict=True):
        text = made(call, task, "names[{row}][copy][{place}]")
        lines.append(f"\tif (nr == {task})\n\t\tOPERATIONS({wait}, {side}, {text})")
    return "\n".join([*lines, "}", ""])


Touched = dict[str, tuple[float, float]]  # operations of each task that touch it, of all, by struct


def recorded(test: Test, kernel: str, folder: Path) -> pl.DataFrame:
    """What the calls of a test do to lines, as a workload."""
    source, study = folder / f"{test.number}.c", folder / f"study-{test.number}"
    if not list(study.rglob("conflicts.parquet")):
        source.write_text(workload(test))
        mode = "thread" if test.same else "process"
        subprocess.run(
            [BIGIRON, "run", "--workload-file", source, "--kernel", kernel, "--cpus", "4", "--tasks", "2",
             "--mode", mode, "--operations", str(OPERATIONS), "-o", study],
            check=True, capture_output=True,
        )  # fmt: skip
    counts = pl.read_parquet(next(study.rglob("conflicts.parquet")))
    # In memory that was freed and allocated again each operation had objects of its own.
    lines = conflicts.profile(counts, 2 * OPERATIONS, 64).filter(~pl.col("recycled"))["line"]
    return counts.filter(pl.col("context") == "process", pl.col("line").is_in(lines.implode()))


def shared(table: pl.DataFrame) -> Touched:
    """What both tasks touched and one wrote, about how often an operation."""
    by_line: dict[int, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in table.iter_rows(named=True):
        by_line[row["line"]][row["cpu"]].append(row)
    found: Touched = {}
    for cpus in by_line.values():
        writes: Counter[str] = Counter()
        for row in (row for rows in cpus.values() for row in rows):
            writes[normal(row["object"])] += row["writes"]
        if len(cpus) < 2 or not writes.total():
            continue
        # An operation touches a line by several instructions, by most of them once.
        a, b = (
            min(OPERATIONS, max(max(row["reads"], row["writes"]) for row in rows)) / OPERATIONS
            for _, rows in sorted(cpus.items())
        )
        name = struct_of(min(writes, key=lambda name: (-writes[name], name)))
        before = found.get(name, (0.0, 0.0))
        found[name] = (before[0] + a, before[1] + b)
    return found


def often(touched: Touched) -> set[str]:
    """What both tasks touch at least every second operation."""
    return {name for name, (a, b) in touched.items() if a >= OFTEN and b >= OFTEN}


def show(both: tuple[float, float]) -> str:
    """How often, by A and B."""
    return f"({both[0]:.1f}, {both[1]:.1f})"


def compared(test: Test, outcome: MatrixOutcome, kernel: str, folder: Path) -> str:
    """Print a line; whether both say the same."""
    counted = shared(recorded(test, kernel, folder))
    found, of_matrix = often(counted), {struct_of(one.name) for one in outcome.conflicts if not one.pair}
    said = "DIFFER" if outcome.is_free is bool(found) else "agree"
    rest = [f"only conflicts: {name} {show(counted[name])}" for name in sorted(found - of_matrix)]
    rest += [f"only matrix: {name} {show(counted.get(name, (0, 0)))}" for name in sorted(of_matrix - found)]
    print(
        f"test {test.number} {test.pair} {'same' if test.same else 'two'}: "
        f"{'conflict-free' if outcome.is_free else 'not conflict-free'}, {said}; "
        f"{len(found & of_matrix)} structs in both; {'; '.join(rest)}",
        flush=True,
    )
    return said


def a_few(kernel: str, folder: Path) -> Path:
    """A matrix of a few tests."""
    file, matrix = folder / "tests", folder / "matrix"
    chosen = [test for test in situations.tests() if test.number % A_FEW == 1]
    file.write_text("\n".join(map(str, chosen)))
    subprocess.run(
        [BIGIRON, "matrix", kernel, "--tests", file, "-o", matrix], check=True, capture_output=True
    )
    return matrix


def drawn(column: store.PlaceOutcomes, free: bool, options: argparse.Namespace) -> list[MatrixOutcome]:
    """Tests at random that are conflict-free, or are not."""
    some = [one for one in column.outcomes.values() if not one.wrong and one.is_free is free]
    return random.Random(options.seed).sample(some, min(options.tests, len(some)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("matrix", nargs="?", type=Path)
    parser.add_argument("--kernel", default="debian/6.12")
    parser.add_argument("--tests", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        matrix = store.open_matrix(options.matrix or a_few(options.kernel, folder))
        wanted = (options.kernel, "tmpfs")
        column = next(one for one in matrix.columns if (one.place.kernel, one.place.fs) == wanted)
        tests = {test.number: test for test in matrix.tests}
        said: Counter[tuple[bool, str]] = Counter()
        for pair in zip_longest(*(drawn(column, free, options) for free in (False, True))):
            for outcome in filter(None, pair):
                both = compared(tests[outcome.test], outcome, options.kernel, folder)
                said[outcome.is_free, both] += 1
        for (free, what), number in sorted(said.items()):
            print(f"{'conflict-free' if free else 'not conflict-free'}: {number} {what}")


if __name__ == "__main__":
    main()
