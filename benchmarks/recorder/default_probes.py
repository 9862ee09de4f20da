"""What a virtual machine's cell costs with all probes that it records by default, beside conflicts alone.

    nice benchmarks/recorder/default_probes.py -o FOLDER [--kernel debian/6.12] [--workloads open1,...]
                                               [--cpus 8] [--cells 4]

Of each workload, cells with one probe and cells with all take turns, resumed from one snapshot; the first of
each is not counted, as it loads libraries and compiles. The guest's clock follows its instructions, so that a
busy host adds no ticks. What a cell costs are the CPU seconds of QEMU and of Python, of the cell that took
least: others on the host only add to it.

What was measured is kept in the folder: run it again, and it goes on. The page,
docs/validation/default-probes.md, is written at the end.
"""

import argparse
import json
import resource
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bigiron import workloads
from bigiron.errors import UserError
from bigiron.machines.engine import Programs
from bigiron.machines.vm.qemu import require_qemu
from bigiron.study import cell
from bigiron.study import run as runner
from bigiron.study.plan import cells
from bigiron.study.spec import Spec, Variant

PAGE = Path(__file__).parents[2] / "docs/validation/default-probes.md"
ALONE = ["conflicts"]
A_THIRD = 4 / 3
INTRODUCTION = """\
# What the default probes cost

Made by `benchmarks/recorder/default_probes.py` on {date}: {kernel}, QEMU {qemu}, {cpus} CPUs, `--clock
instructions`. CPU seconds of a cell that is resumed from a snapshot, QEMU's and Python's together, with
`conflicts` alone and with all probes that are recorded by default: the least of {cells} cells each, which
took turns.

Of {number} workloads, {more} cost more than a third more. The median ratio is {middle:.2f}.

| workload | conflicts, s | all, s | ratio | of QEMU | of Python |
|---|--:|--:|--:|--:|--:|
"""

Costs = list[tuple[float, float]]
"""CPU seconds of Python and of QEMU, of each cell."""


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--kernel", default="debian/6.12")
    parser.add_argument("--workloads", default=",".join(one.name for one in workloads.builtin()))
    parser.add_argument("--cpus", type=int, default=8)
    parser.add_argument("--cells", type=int, default=4)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    rows, failed = [], []
    for workload in given.workloads.split(","):
        kept = given.output / f"{workload.replace('/', '-')}.json"
        if not kept.exists():
            try:
                found = measure(workload, given.kernel, given.cpus, given.cells)
            except UserError as error:
                failed.append(f"{workload} ({error})")
                continue
            kept.write_text(json.dumps(found))
        rows.append((workload, *json.loads(kept.read_text())))
        print(row(*rows[-1]), flush=True)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(rows, failed, given))


def measure(workload: str, kernel: str, cpus: int, number: int) -> tuple[Costs, Costs]:
    """With conflicts alone, and with all."""
    prepared = [prepare(workload, kernel, cpus, probes) for probes in (ALONE, [])]
    found: tuple[Costs, Costs] = ([], [])
    for turn in range(number + 1):
        for costs, (spec, programs) in zip(found, prepared, strict=True):
            before = cpu_seconds()
            record, _ = cell.run_cell(spec, cells(spec)[0], programs, {}, threading.Event(), _unheard)
            after = cpu_seconds()
            if record.failure:
                raise UserError(record.failure.reason)
            if turn:
                costs.append((after[0] - before[0], after[1] - before[1]))
    return found


def prepare(workload: str, kernel: str, cpus: int, probes: Sequence[str]) -> tuple[Spec, Programs | None]:
    """The question, and the programs that it takes."""
    asked = Spec(
        workload=workload,
        probes=list(probes),
        cpus=[cpus],
        clock="instructions",
        topology="threads=2" if workload.startswith("smt-") else "",
        variant=[Variant(name=kernel, kernel=kernel)],
    )
    spec, found = runner.resolve(asked)
    return spec, runner.prepare(spec, found)


def cpu_seconds() -> tuple[float, float]:
    """Of this process, and of all that it started."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    mine, theirs = (one.ru_utime + one.ru_stime for one in used)
    return mine, theirs


def _unheard(_stage: str) -> None:
    """No progress is shown."""


def row(workload: str, alone: Costs, everything: Costs) -> str:
    """A row of the table."""
    (before, python_before, qemu_before), (after, python, qemu) = map(least, (alone, everything))
    return (
        f"| `{workload}` | {before:.2f} | {after:.2f} | {after / before:.2f} "
        f"| {qemu / qemu_before:.2f} | {python / python_before:.2f} |"
    )


def least(costs: Costs) -> tuple[float, float, float]:
    """Of the cell that took least: in all, Python's and QEMU's part."""
    python, qemu = min(costs, key=sum)
    return python + qemu, python, qemu


def page(rows: Sequence[tuple[str, Costs, Costs]], failed: Sequence[str], given: argparse.Namespace) -> str:
    """The page, in Markdown, the most expensive first."""
    ratio = {workload: least(everything)[0] / least(alone)[0] for workload, alone, everything in rows}
    introduction = INTRODUCTION.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        kernel=given.kernel,
        qemu=require_qemu("qemu-system-x86_64"),
        cpus=given.cpus,
        cells=given.cells,
        number=len(rows),
        more=sum(one > A_THIRD for one in ratio.values()),
        middle=median(ratio.values()),
    )
    table = [row(*one) for one in sorted(rows, key=lambda one: -ratio[one[0]])]
    missing = ["", f"Not measured: {'; '.join(failed)}."] if failed else []
    return introduction + "\n".join([*table, *missing, ""])


if __name__ == "__main__":
    main()
