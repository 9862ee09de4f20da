"""How far counts repeat from boot to boot and from resumption to resumption.

    benchmarks/counts/repeatability.py STUDIES [--workloads open1,...] [--tests WILL-IT-SCALE] [--kernel NAME]
                                       [--recordings 8] [--print]

Each workload is recorded on one kernel with 8 CPUs: on eight boots, and eight times resumed from the
snapshot of one boot, or as many as asked. STUDIES keeps the recordings; what is missing there is recorded
first, in hours. WILL-IT-SCALE is a checkout of github.com/antonblanchard/will-it-scale, whose tests are
recorded beside the built-in workloads. The table, docs/validation/repeatability.md, goes to standard
output; with `--print` nothing is recorded, and it has the workloads that are.

A count's deviation is the largest difference between two recordings, as a share of their mean. Of conflicts
it is taken of the accesses to all cache lines of one kind, of locks of how often each is taken and for how
long it is held, of instructions of all together. Counts below 0.1 accesses, 0.1 acquisitions or 1 instruction
per operation are left out. What depends on where objects lie in their slab is a column of its own.
"""

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bigiron import workloads
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.analysis.lines import matching, shared_lines
from bigiron.analysis.probes import instructions, locks
from bigiron.results import measurements
from bigiron.study import store
from bigiron.util.object_name import object_type

BIGIRON = Path(sys.executable).with_name("bigiron")
PROBES = ("conflicts", "locks", "instructions")
LEAST = {"conflicts": 0.1, "locks": 0.1, "instructions": 1.0}
SAME = 0.0005
"""Difference per operation below which two counts are the same, to the third decimal."""

CLASSES = ((0.0, "exact"), (0.01, "1 %"), (0.1, "10 %"))
"""The largest deviation of each class."""

MORE = "more"
SLOW = {f"page_fault{number}": 50 for number in (1, 2, 3, 4)} | {"fxmark/MWCM": 100, "unlink1": 200}
"""Operations of workloads whose operations take long."""


def main() -> None:
    """Record what is missing, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("studies", type=Path)
    parser.add_argument("--tests", type=Path)
    parser.add_argument("--kernel", default="debian/6.12")
    parser.add_argument("--recordings", type=int, default=8)
    parser.add_argument("--workloads", default="")
    parser.add_argument("--print", action="store_true")
    asked = parser.parse_args()
    rows = []
    only = set(filter(None, asked.workloads.split(",")))
    for name, options in sorted(chosen(asked.tests)):
        if only and name not in only:
            continue
        folder = asked.studies / name.replace("/", "-")
        found = [record(options, folder, asked, boots) for boots in (True, False)]
        if all(found):
            rows.append((name, *(deviations(cells) for cells in found)))
    print(page(rows, asked))


def chosen(checkout: Path | None) -> Iterator[tuple[str, list[str]]]:
    """The workloads by name, with the options that run them."""
    builtin = [one.name for one in workloads.unbounded()]
    for name in builtin:
        yield name, [name]
    for file in sorted((checkout / "tests").glob("*.c")) if checkout else []:
        if file.stem not in builtin:
            yield file.stem, ["--workload-file", str(file)]


def record(
    options: Sequence[str], folder: Path, asked: argparse.Namespace, boots: bool
) -> dict[str, list[ProbedCell]] | None:
    """The recordings of a workload: of as many boots as asked, or as many resumptions of one."""
    operations = str(SLOW.get(options[0], 500))
    common = ["--kernel", asked.kernel, "--cpus", "8", "--operations", operations]
    common += ["--probe", ",".join(PROBES)]
    studies = (
        [(folder / "boots", ["--reps", str(asked.recordings)])]
        if boots
        else [(folder / f"resumed-{number}", ["--reps", "1"]) for number in range(asked.recordings)]
    )
    cells: dict[str, list[ProbedCell]] = defaultdict(list)
    for study, more in studies:
        if asked.print and not (study / "study.toml").exists():
            return None
        command = [str(BIGIRON), "run", *options, *common, *more, "--jobs", "1", "-o", str(study)]
        ran = None if asked.print else subprocess.run(command, capture_output=True, text=True)
        if ran and ran.returncode:
            print(f"{options[-1]}: {ran.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return None
        opened = store.open_study(study)
        for probe in PROBES:
            (points,) = measurements.read(opened, probe).points.values()
            cells[probe] += next(iter(points.values()))
    return cells if all(len(cells[probe]) >= asked.recordings for probe in PROBES) else None


Deviations = dict[str, float | str]


def deviations(cells: dict[str, list[ProbedCell]]) -> Deviations:
    """Of each probe the largest, and the range of the accesses that are layout."""
    lines = [shared_lines.lines_in(cell) for cell in cells["conflicts"]]
    layout = [sum(line.layout_per_op for line in each) for each in lines]
    return {
        "conflicts": largest("conflicts", map(by_kind, lines)),
        "locks": largest("locks", map(by_lock, cells["locks"])),
        "instructions": largest("instructions", map(executed, cells["instructions"])),
        "layout": f"{min(layout):.3g} to {max(layout):.3g}" if max(layout) >= LEAST["conflicts"] else "",
    }


def by_kind(lines: Iterable[matching.SharedLine]) -> dict[str, float]:
    """Accesses per operation to all lines of a kind, but for those that are layout."""
    found: dict[str, float] = defaultdict(float)
    for line in lines:
        found[object_type(line.object)] += line.accesses_per_op - line.layout_per_op
    return found


def by_lock(cell: ProbedCell) -> dict[str, float]:
    """How often each lock is taken, and for how many instructions it is held."""
    found: dict[str, float] = defaultdict(float)
    for row in locks.profile(cell.table, cell.operations).iter_rows(named=True):
        if row["cpus"] > 1:
            found[f"{row['lock']} taken"] += row["acquisitions_per_op"]
            found[f"{row['lock']} held"] += row["held_per_op"]
    return found


def executed(cell: ProbedCell) -> dict[str, float]:
    """All of them."""
    return {"all": instructions.profile(cell.table, cell.operations)["self_per_op"].sum()}


def largest(probe: str, recordings: Iterable[dict[str, float]]) -> float:
    """The largest deviation of any count."""
    every = list(recordings)
    found = [0.0]
    for name in {name for one in every for name in one}:
        counts = [one.get(name, 0.0) for one in every]
        if max(counts) >= LEAST[probe] and max(counts) - min(counts) >= SAME:
            found.append((max(counts) - min(counts)) * len(counts) / sum(counts))
    return max(found)


def called(deviation: float) -> str:
    """The class of a deviation."""
    return next((name for most, name in CLASSES if deviation <= most), MORE)


def page(rows: Sequence[tuple[str, Deviations, Deviations]], asked: argparse.Namespace) -> str:
    """The table, and what it comes to."""
    names = [name for _, name in CLASSES] + [MORE]
    lines = [
        "# Repeatability",
        "",
        f"Generated by `benchmarks/counts/repeatability.py` on {datetime.now(UTC):%Y-%m-%d}: {len(rows)} "
        f"workloads on {asked.kernel} with 8 CPUs, {asked.recordings} boots and as many resumptions of one "
        "boot's snapshot.",
        "",
        "| workloads of which the counts repeat | " + " | ".join(names) + " |",
        "|---|" + "--:|" * len(names),
    ]
    for probe in PROBES:
        for which, of in ((1, "boots"), (2, "resumptions")):
            classes = [called(float(row[which][probe])) for row in rows]  # type: ignore[index]
            counts = " | ".join(str(classes.count(name)) for name in names)
            lines.append(f"| {probe}, {of} | {counts} |")
    lines += [
        "",
        "exact: no two recordings differ in the third decimal; 1 %, 10 %: by more than that. Counts below "
        "0.1 accesses, 0.1 acquisitions or 1 instruction per operation are left out. Layout: accesses per "
        "operation that are shared only by where objects lie in their slab, fewest to most of the boots.",
        "",
        "| workload | conflicts, boots | resumed | locks, boots | resumed | instructions, boots | resumed "
        "| layout |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, boots, resumed in rows:
        cells = [shown(float(one[probe])) for probe in PROBES for one in (boots, resumed)]
        lines.append(f"| {name} | {' | '.join(cells)} | {boots['layout']} |")
    return "\n".join(lines)


def shown(deviation: float) -> str:
    """A deviation in the table."""
    return "exact" if not deviation else f"{deviation:.2%}"


if __name__ == "__main__":
    main()
