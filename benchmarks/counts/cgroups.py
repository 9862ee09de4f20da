"""Which cache lines come and go as tasks run in a nested control group, and not in the root group.

    nice benchmarks/counts/cgroups.py -o FOLDER [--kernels debian/5.10,...] [--workloads open1,...] [--cpus 8]

Each workload is recorded on each kernel with `--cgroup none` and with the default, from one snapshot of
each kernel; the guest's clock follows its instructions, so that a busy host adds no ticks. The cache lines
of one object, a struct's or a variable's, are added up. An object has come, or gone, if it has 0.05
accesses per operation or more in one of the two, and less in the other, and they differ by as much.

Cells are kept in the folder: run it again, and only what is missing is measured. The page,
docs/validation/cgroup.md, is written once all are there, and with --write of what there is.
"""

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bigiron import open_study, workloads
from bigiron.analysis.lines import conflicts
from bigiron.analysis.lines.matching import lines_of
from bigiron.study.store import CellRecord, Study

BIGIRON = Path(sys.executable).with_name("bigiron")
PAGE = Path(__file__).parents[2] / "docs/validation/cgroup.md"
KERNELS = "debian/5.10,debian/6.1,debian/6.12,debian/7.2"
LEAST = 0.05  # accesses per operation
MOST_NAMES = 4
GROUPS = {"none": ("--cgroup", "none"), "nested": ()}
INTRODUCTION = """\
# Cache lines that come with a control group

Made by `benchmarks/counts/cgroups.py` on {date}, with QEMU {qemu}, {cpus} CPUs and as many tasks: of {of}
built-in workloads {number} with `--cgroup none` and with the default, one cell each, from one
snapshot of each kernel, with `--clock instructions`. Accesses per operation to shared cache lines,
in process context. An object has come, or gone, where it has 0.05 accesses per operation or more
in one of the two cells and less than that in the other. Where tasks contend, an object near that
limit may come or go by chance.

{compared} cells were compared with another. In {unchanged} no object came or went.
Objects that came most often: {often}.
"""


@dataclass(frozen=True)
class Compared:
    """What the control group changes for a workload on a kernel."""

    workload: str
    kernel: str
    before: float  # accesses per operation to all shared cache lines, in the root group
    after: float
    came: Mapping[str, float]
    went: Mapping[str, float]


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--kernels", default=KERNELS)
    parser.add_argument("--workloads", default=",".join(one.name for one in workloads.builtin()))
    parser.add_argument("--cpus", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    kernels = given.kernels.split(",")
    found, failed = [], []
    for workload in given.workloads.split(","):
        folders = {name: given.output / f"{workload.replace('/', '-')}-{name}" for name in GROUPS}
        for name, options in GROUPS.items():
            if not given.write:
                measure(workload, kernels, given.cpus, folders[name], options)
        for kernel in kernels:
            if compared := compare(workload, kernel, folders):
                found.append(compared)
            else:
                failed.append(f"{workload} on {kernel}")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(found, failed, given.cpus, next(iter(folders.values()))))


def measure(workload: str, kernels: Sequence[str], cpus: int, folder: Path, options: Sequence[str]) -> None:
    """Run what is missing of a study; what fails is told on the page."""
    what = [word for kernel in kernels for word in ("--kernel", kernel)]
    what += [
        "--cpus",
        str(cpus),
        "--probe",
        "conflicts",
        "--reps",
        "1",
        "--clock",
        "instructions",
        "--jobs",
        "1",
        *options,
    ]
    if workload.startswith("smt-"):
        what += ["--topology", "threads=2"]
    subprocess.run([BIGIRON, "run", workload, *what, "-o", folder], check=False, stdout=subprocess.DEVNULL)


def compare(workload: str, kernel: str, folders: Mapping[str, Path]) -> Compared | None:
    """None where one of the two is not measured."""
    both = [objects(folders[name], kernel) for name in GROUPS]
    if not (both[0] is not None and both[1] is not None):
        return None
    before, after = both
    return Compared(
        workload,
        kernel,
        sum(before.values()),
        sum(after.values()),
        only_in(after, before),
        only_in(before, after),
    )


def only_in(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """The objects of one that are not in the other, the most accessed first."""
    only = {
        name: count
        for name, count in one.items()
        if count >= LEAST > other.get(name, 0.0) and count - other.get(name, 0.0) >= LEAST
    }
    return dict(sorted(only.items(), key=lambda each: -each[1]))


def objects(folder: Path, kernel: str) -> dict[str, float] | None:
    """Accesses per operation to the shared cache lines of each object."""
    if not (folder / "study.toml").exists():
        return None
    study = open_study(folder)
    for record in study.records():
        if record.variant == kernel and record.measured:
            return by_object(study, record)
    return None


def by_object(study: Study, record: CellRecord) -> dict[str, float]:
    done = sum(record.facts["conflicts"]["operations"])
    found: dict[str, float] = defaultdict(float)
    for line in lines_of(conflicts.profile(study.table(record, "conflicts"), done, 64)):
        found[whole(line.object)] += line.accesses_per_op
    return found


def whole(object: str) -> str:
    """A struct or a variable without its field, its place and what tells it from others.

    >>> whole("struct mem_cgroup.memory.usage"), whole("kmalloc-2k+0x40 (2048 bytes)")
    ('struct mem_cgroup', 'kmalloc-2k')
    """
    return object.partition(" (")[0].partition(".")[0].partition("+")[0].partition("[")[0]


def page(found: Sequence[Compared], failed: Sequence[str], cpus: int, folder: Path) -> str:
    """The page, in Markdown."""
    changed = [one for one in found if one.came or one.went]
    rows = [
        f"| `{one.workload}` | {one.kernel.partition('/')[2]} | {one.before:.3f} | {one.after:.3f} "
        f"| {names(one.came)} | {names(one.went)} |"
        for one in changed
    ]
    came: dict[str, int] = defaultdict(int)
    for one in found:
        for name in one.came:
            came[name] += 1
    often = sorted(came.items(), key=lambda each: -each[1])[:8]
    (record, *_) = [record for record in open_study(folder).records() if record.measured]
    introduction = INTRODUCTION.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        qemu=record.environment["qemu"],
        cpus=cpus,
        of=len(list(workloads.builtin())),
        number=len({one.workload for one in found}),
        compared=len(found),
        unchanged=len(found) - len(changed),
        often=", ".join(f"`{name}` ({times})" for name, times in often),
    )
    missing = [f"Not measured: {', '.join(failed)}.\n"] if failed else []
    headings = [
        "| workload | kernel | all, root group | all, nested | came | went |",
        "|---|---|--:|--:|---|---|",
    ]
    return "\n".join([introduction, *missing, *headings, *rows, ""])


def names(objects: Mapping[str, float]) -> str:
    """The most accessed, each with its accesses per operation."""
    said = [f"`{name}` {count:.3f}" for name, count in list(objects.items())[:MOST_NAMES]]
    more = len(objects) - MOST_NAMES
    return ", ".join([*said, *([f"{more} more"] if more > 0 else [])])


if __name__ == "__main__":
    main()
