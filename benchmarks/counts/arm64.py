"""Which cache lines are shared on arm64 and which on x86_64, of the same kernels: docs/validation/arm64.md.

    nice benchmarks/counts/arm64.py -o FOLDER [--kernels K,...] [--workloads open1,...] [--cpus 8] [--write]

Each workload is recorded on each kernel of both architectures, from one snapshot of each kernel; the guest's
clock follows its instructions, so that a busy host adds no ticks. The cache lines of one object, a struct's
or a variable's, are added up. An object is one architecture's own if it has 0.05 accesses per operation or
more on it, and less on the other, and they differ by as much.

Cells are kept in the folder: run it again, and only what is missing is measured. The page says which of the
built-in workloads it has. `--write` writes it of what there is, and measures nothing.
"""

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import polars as pl
from cgroups import LEAST, only_in
from naming import touched

from bigiron import open_study, workloads
from bigiron.analysis.lines import conflicts
from bigiron.analysis.lines.matching import SharedLine, lines_of
from bigiron.study.store import CellRecord, Study
from bigiron.util.object_name import ObjectName

BIGIRON = Path(sys.executable).with_name("bigiron")
PAGE = Path(__file__).parents[2] / "docs/validation/arm64.md"
KERNELS = "debian/6.12,debian/7.2"
ARCHITECTURES = ("x86_64", "aarch64")
PROCESS = "process"  # the context that is compared
SIMPLEST = "getppid1"  # mostly the way into the kernel and out of it
OPERATIONS, FEWER = 500, 100  # recorded of each task
LONG = ("page_fault", "unlink", "hackbench/")  # workloads whose operations are long
MOST_NAMES = 6
INTRODUCTION = """\
# arm64 beside x86_64

Made by `benchmarks/counts/arm64.py` on {date}, with QEMU {qemu}, {cpus} CPUs and as many tasks:
{number} of {of} built-in workloads on {kernels}, one cell per kernel and architecture, from one
snapshot of each, with `--clock instructions`; {operations} operations of each task, {fewer} where they are
long. Accesses are per operation, to shared cache lines, in process context, added up by object. An
object is one architecture's own where it has 0.05 accesses per operation or more on it and less
than that on the other. Where tasks contend, an object near that limit may come or go by chance.

| | x86_64 | aarch64 |
|---|--:|--:|
| accesses to shared cache lines with type and field, all cells | {named[0]:.1%} | {named[1]:.1%} |
| the same, median of the cells that share anything | {middle[0]:.1%} | {middle[1]:.1%} |

Of {pairs} pairs of cells, {same} share the same objects. Instructions per operation on aarch64 are
{instructions:.0%} of those on x86_64 in the median.
"""
MANY = 20  # instructions of a function per operation
WHAT: Mapping[str, str] = {
    "__bp_harden_el1_vectors": "arm64: a loop against branch history injection, at each entry",
    "el0t_64_sync": "arm64: saves the registers",
    "ret_to_user": "arm64: restores them",
    "entry_SYSCALL_64": "x86: saves the registers",
    "syscall_return_via_sysret": "x86: restores them",
    "get_random_u16": "arm64: the random offset of the kernel's stack; x86 takes it from its TSC",
    "chacha_permute": "arm64: makes random numbers for it",
    "prandom_u32_state": "the random offset of the kernel's stack, since 7.2",
    "fpregs_assert_state_consistent": "x86: checks the registers of the FPU",
}
"""What functions do that one architecture executes, by the kernel's source."""
WHY: Mapping[str, str] = {
    "in_lookup_hashtable": "chance: the bucket of `d_alloc_parallel` depends on the directory's address, and "
    "those of two tasks are in one cache line",
    "osq_node": "contention: tasks wait for the directory's `i_rwsem` while its owner does not run",
    "struct maple_node": "the same: entries of a tmpfs directory (`simple_offset_remove`) that another task "
    "has left there",
    "struct slab": "of 6.12, the same: the slab of those nodes",
    "struct task_struct": "the same: flags of a task that another CPU wakes",
    "cpu_tlbstate": "x86: whether a CPU needs an interrupt to flush its TLB (`should_flush_tlb`); arm64 "
    "broadcasts the flush",
    "struct cpumask": "x86: the CPUs that may have to flush, as above",
    "fpu_fpregs_owner_ctx": "x86: whose registers a CPU's FPU has (`switch_fpu_return`)",
    "qnodes": "contention: more than two tasks at once wait for `lruvec.lru_lock`; why they do so more often "
    "on aarch64 is not known",
    "struct zone": "chance: a single write to `vm_stat` or to a free list makes the cache line that all CPUs "
    "read in `get_page_from_freelist` a shared one",
    "struct page": "chance: descriptors of tasks' pages are called so where the page is free at the end, and "
    "else `struct folio`",
    "struct folio": "the same",
    "kmalloc-256": "chance: objects of two tasks are of one slab, and their `slabobj_ext` in one cache line",
    "kmalloc-512": "the same",
    "page or slab object": "chance in `futex2`: two tasks have one futex hash bucket, which has no name; in "
    "`malloc1` the flags of page blocks (`get_pfnblock_flags_mask`), which both have",
    "*nosave_regions": "those flags: the name is of what lies before them",
    "struct root_domain": "near the limit: 0.083 and less than 0.05 (`enqueue_task_fair`)",
    "struct pglist_data": "chance: how many slabs are allocated meanwhile (`mod_node_page_state`)",
}
"""Objects of one architecture in these cells, and the reason, by their functions and call paths."""


@dataclass(frozen=True)
class Cell:
    """What a workload does on one kernel of one architecture, in process context."""

    lines: Mapping[str, float]  # accesses per operation to shared cache lines, by object
    functions: Mapping[str, str]  # that access each of them most
    named: float  # accesses per operation whose type and field are known
    executed: Mapping[str, float]  # instructions per operation, by function

    @property
    def instructions(self) -> float:
        """Per operation."""
        return sum(self.executed.values())

    @property
    def accesses(self) -> float:
        """Per operation, to all shared cache lines."""
        return sum(self.lines.values())

    @property
    def share(self) -> float:
        """Of the accesses those with type and field."""
        return self.named / self.accesses


@dataclass(frozen=True)
class Pair:
    """A workload on one kernel of both architectures."""

    workload: str
    kernel: str
    cells: tuple[Cell, Cell]  # in the order of ARCHITECTURES

    def own(self, place: int) -> dict[str, float]:
        """The objects of only one architecture."""
        return only_in(self.cells[place].lines, self.cells[1 - place].lines)

    @property
    def common(self) -> dict[str, tuple[float, float]]:
        """The objects that are worth a mention on either and no architecture's own, with both counts."""
        x86_64, aarch64 = (cell.lines for cell in self.cells)
        both = {name: (x86_64.get(name, 0.0), aarch64.get(name, 0.0)) for name in {**x86_64, **aarch64}}
        kept = {
            name: counts
            for name, counts in both.items()
            if max(counts) >= LEAST and not any(name in self.own(place) for place in (0, 1))
        }
        return dict(sorted(kept.items(), key=lambda each: -max(each[1])))


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--kernels", default=KERNELS)
    parser.add_argument("--workloads", default=",".join(one.name for one in workloads.builtin()))
    parser.add_argument("--cpus", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    kernels, names = given.kernels.split(","), given.workloads.split(",")
    given.output.mkdir(parents=True, exist_ok=True)
    for name in names if not given.write else []:
        for architecture in ARCHITECTURES:
            measure(name, architecture, kernels, given.cpus, folder_of(given.output, name, architecture))
        print(name, file=sys.stderr, flush=True)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(page(given.output, names, kernels, given.cpus)) + "\n", encoding="utf-8")


def folder_of(output: Path, workload: str, architecture: str) -> Path:
    """Where a study is."""
    return output / workload.replace("/", "-") / architecture


def measure(workload: str, architecture: str, kernels: Sequence[str], cpus: int, folder: Path) -> None:
    """Run what is missing of a study. Why it cannot run is kept beside it."""
    if not missing(folder):
        return
    what = [word for kernel in kernels for word in ("--kernel", kernel)]
    what += ["--arch", architecture, "--cpus", str(cpus), "--probe", "conflicts,instructions"]
    what += ["--reps", "1", "--clock", "instructions", "--jobs", "1"]
    what += ["--operations", str(FEWER if workload.startswith(LONG) else OPERATIONS), "--deadline", "1800"]
    if workload.startswith("smt-"):
        what += ["--topology", "threads=2"]
    folder.parent.mkdir(exist_ok=True)
    command = [str(BIGIRON), "run", workload, *what, "-o", str(folder)]
    said = subprocess.run(command, check=False, capture_output=True, text=True).stderr.splitlines()
    if not folder.exists():
        refusal_of(folder).write_text(said[-1] + "\n", encoding="utf-8")


def missing(folder: Path) -> bool:
    """Whether a study has cells that are not measured, or is not there at all."""
    if not (folder / "study.toml").exists():
        return True
    study = open_study(folder)
    return not all(study.is_measured(cell) for cell in study.plan())


def refusal_of(folder: Path) -> Path:
    """Where it is kept why a study cannot run."""
    return folder.with_suffix(".refused")


def read(folder: Path, kernel: str) -> Cell | str:
    """A cell, or why there is none; "" where it was not tried."""
    if not (folder / "study.toml").exists():
        refusal = refusal_of(folder)
        return refusal.read_text(encoding="utf-8").strip() if refusal.exists() else ""
    study = open_study(folder)
    for record in study.records():
        if record.variant == kernel:
            return record.failure.reason if record.failure else cell_of(study, record)
    return ""


def cell_of(study: Study, record: CellRecord) -> Cell:
    """The counts of a cell."""
    done = sum(record.facts["conflicts"]["operations"])
    found: dict[str, list[SharedLine]] = defaultdict(list)
    for line in lines_of(conflicts.profile(study.table(record, "conflicts"), done, 64, (PROCESS,))):
        found[ObjectName.parse(line.object).base].append(line)
    lines = {name: sum(line.accesses_per_op for line in those) for name, those in found.items()}
    known = float(touched(study, record, PROCESS).filter(pl.col("types") != "")["accesses"].sum())
    done = sum(record.facts["instructions"]["operations"])
    counts = study.table(record, "instructions").filter(context=PROCESS).group_by("function")
    executed = {name: count / done for name, count in counts.agg(pl.col("instructions").sum()).iter_rows()}
    return Cell(lines, {name: hottest(those) for name, those in found.items()}, known, executed)


def hottest(lines: Sequence[SharedLine]) -> str:
    """The function that accesses them most."""
    weights: dict[str, float] = defaultdict(float)
    for line in lines:
        for function, weight in line.weights.items():
            weights[function] += weight
    return max(weights, key=lambda name: weights[name])


def page(output: Path, names: Sequence[str], kernels: Sequence[str], cpus: int) -> Iterator[str]:
    """The page, in Markdown."""
    pairs: list[Pair] = []
    reasons: dict[str, list[str]] = defaultdict(list)
    for name in names:
        for kernel in kernels:
            cells = [read(folder_of(output, name, one), kernel) for one in ARCHITECTURES]
            found = [cell for cell in cells if isinstance(cell, Cell)]
            if len(found) == len(ARCHITECTURES):
                pairs.append(Pair(name, kernel, (found[0], found[1])))
            for architecture, cell in zip(ARCHITECTURES, cells, strict=True):
                if isinstance(cell, str) and cell:
                    reasons[cell].append(f"`{name}` on {kernel} {architecture}")
    yield introduction(output, pairs, kernels, cpus)
    for reason, cells_without in reasons.items():
        yield f"Not measured: {', '.join(cells_without)}: {reason}.\n"
    yield from totals(pairs)
    yield from functions(pairs)
    yield from objects(pairs)
    yield from causes(pairs)
    yield NOTES


def introduction(output: Path, pairs: Sequence[Pair], kernels: Sequence[str], cpus: int) -> str:
    """What was measured, and what comes of it."""
    study = open_study(folder_of(output, pairs[0].workload, ARCHITECTURES[0]))
    (record, *_) = [record for record in study.records() if record.measured]
    of_one = [[pair.cells[place] for pair in pairs] for place in (0, 1)]
    executed = [tuple(cell.instructions for cell in pair.cells) for pair in pairs]
    sharing = [[cell for cell in cells if cell.accesses >= LEAST] for cells in of_one]
    return INTRODUCTION.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        qemu=record.environment["qemu"],
        cpus=cpus,
        number=len({pair.workload for pair in pairs}),
        of=len(workloads.builtin()),
        kernels=" and ".join(f"`{kernel}`" for kernel in kernels),
        named=[sum(cell.named for cell in cells) / sum(cell.accesses for cell in cells) for cells in sharing],
        middle=[median(cell.share for cell in cells) for cells in sharing],
        operations=OPERATIONS,
        fewer=FEWER,
        pairs=len(pairs),
        same=sum(not (pair.own(0) or pair.own(1)) for pair in pairs),
        instructions=median(after / before for before, after in executed if min(before, after) >= 1),
    )


def totals(pairs: Sequence[Pair]) -> Iterator[str]:
    """Accesses, their share with type and field, and instructions."""
    yield "## Accesses and instructions\n"
    yield "Per operation; in parentheses the share of the accesses with type and field.\n"
    yield "| workload | kernel | accesses, x86_64 | aarch64 | instructions, x86_64 | aarch64 |"
    yield "|---|---|--:|--:|--:|--:|"
    for pair in pairs:
        accesses = [
            f"{cell.accesses:.3f} ({cell.share:.0%})" if cell.accesses >= LEAST else f"{cell.accesses:.3f}"
            for cell in pair.cells
        ]
        instructions = [f"{cell.instructions:.0f}" for cell in pair.cells]
        yield f"| `{pair.workload}` | {short(pair.kernel)} | {' | '.join([*accesses, *instructions])} |"


def functions(pairs: Sequence[Pair]) -> Iterator[str]:
    """What the way into the kernel and out of it takes on each."""
    chosen = [pair for pair in pairs if pair.workload == SIMPLEST]
    counts: dict[str, list[float]] = defaultdict(list)
    for name in {name for pair in chosen for cell in pair.cells for name in cell.executed}:
        counts[name] = [cell.executed.get(name, 0.0) for pair in chosen for cell in pair.cells]
    if not chosen:
        return
    yield f"\n## Instructions of `{SIMPLEST}`, by function\n"
    yield f"Per operation; functions with {MANY} or more on one of them.\n"
    headings = [f"{short(pair.kernel)}, {one}" for pair in chosen for one in ARCHITECTURES]
    yield f"| function | {' | '.join(headings)} | what |"
    yield f"|---|{'--:|' * len(headings)}---|"
    for name, those in sorted(counts.items(), key=lambda each: (-max(each[1]), each[0])):
        if max(those) >= MANY:
            yield f"| `{name}` | {' | '.join(f'{one:.0f}' for one in those)} | {WHAT.get(name, '')} |"


def objects(pairs: Sequence[Pair]) -> Iterator[str]:
    """The objects of both architectures, and of each alone."""
    yield "\n## Objects\n"
    yield "Accesses per operation: of both, on x86_64 and aarch64; of one, with the function of most.\n"
    yield "| workload | kernel | both | x86_64 only | aarch64 only |"
    yield "|---|---|---|---|---|"
    for pair in pairs:
        both = [f"`{name}` {one:.3f}, {other:.3f}" for name, (one, other) in pair.common.items()]
        alone = [
            [f"`{name}` {count:.3f} ({cell.functions[name]})" for name, count in pair.own(place).items()]
            for place, cell in enumerate(pair.cells)
        ]
        if both or any(alone):
            columns = [first(one) for one in (both, *alone)]
            yield f"| `{pair.workload}` | {short(pair.kernel)} | {' | '.join(columns)} |"


def causes(pairs: Sequence[Pair]) -> Iterator[str]:
    """Why objects are of one architecture, as far as that was looked up."""
    seen = {name for pair in pairs for place in (0, 1) for name in pair.own(place)}
    if known := {name: why for name, why in WHY.items() if name in seen}:
        yield "\n## Why an object is of one architecture\n"
        yield "| object | why |\n|---|---|"
        yield from (f"| `{name}` | {why} |" for name, why in known.items())
    if rest := sorted(seen - WHY.keys()):
        yield f"\nNot looked into: {', '.join(f'`{name}`' for name in rest)}."


NOTES = """
## Where the counts of one object differ

As found on 2026-11-28 by the addresses, functions and call paths of the cells:

- `init_ucounts` in `signal1` on 6.12: the same instructions access it. On x86_64 its fields `ns` and
  `count` are in one cache line, on aarch64 in two, and `ns` alone is only read.
- `struct inode` in `unlink1`: on x86_64 inodes of several tasks lie in one slab and share cache
  lines, which is chance; the directory's inode has the same accesses.
- `struct mem_cgroup` in `page_fault1`: a watermark that is raised once in a thousand operations makes
  the 19 reads beside it accesses to a shared cache line, in one of the two cells.
- `struct zone` in `malloc1` on 6.12: `__rmqueue_pcplist` splits free blocks more often on aarch64,
  3.4 writes per operation to the list of order 0, and less than 0.14 to any list on x86_64. Why was
  not looked into.
- `struct page` and `struct folio` in `page_fault1` are descriptors of the tasks' pages: which of the
  two names one has depends on whether its page is free at the end. Together they have 148 and 141.

Instructions: `clear_page` is 268 on aarch64 (`dc zva` in a loop) and one `rep stosb` on x86_64; a copy
of 4 KiB is 1168 (`__arch_copy_to_user` in `pread1`) and one `rep movsb`, counted as one;
`setup_rt_frame` and `restore_sigframe` copy a signal's registers one by one, which is 1775 of the
8996 instructions of `signal1` on 7.2.
"""


def short(kernel: str) -> str:
    """Without its distribution."""
    return kernel.partition("/")[2] or kernel


def first(items: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(items) - MOST_NAMES
    return "; ".join([*items[:MOST_NAMES], *([f"{more} more"] if more > 0 else [])])


if __name__ == "__main__":
    main()
