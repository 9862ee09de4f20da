"""`bigiron predict` of this host beside what it does: the table in docs/explanation/prediction-model.md.

Each built-in workload of single tasks: its throughput at one and at two tasks is measured here, what it does
is recorded in a virtual machine, and from one task's rate the other is predicted for this machine, as
`bigiron machine measure` describes it. Beside it stands twice one task's rate.

    benchmarks/predictions/this_host.py FOLDER KERNEL [BOOT]

FOLDER gets here.toml, the measurements and the recordings; what is there is not made again. KERNEL is the
nearest that a virtual machine can boot, BOOT what makes it more like this one's (`lsm=...`). The files of
workloads are on the file system that /tmp is on here, if `bigiron run --fs` knows it. Nothing else should run
meanwhile.
"""

import csv
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bigiron.analysis.statistics.estimate import Estimate
from bigiron.errors import UserError
from bigiron.machines.vm.file_system import KINDS
from bigiron.report.predict import limited_by
from bigiron.results import prediction
from bigiron.study import store

BIGIRON = Path(sys.executable).with_name("bigiron")
WORKLOADS = (
    *(
        "brk1",
        "context_switch1",
        "dup1",
        "eventfd1",
        "futex1",
        "getppid1",
        "lseek1",
        "mmap1",
        "open1",
        "open2",
    ),
    *("page_fault1", "page_fault3", "pipe1", "posix_semaphore1", "pread1", "pwrite1", "sched_yield"),
    *("signal1", "unlink1"),
)


@dataclass(frozen=True)
class Compared:
    """A workload at two tasks."""

    workload: str
    one: float  # operations per second of one task, median
    two: tuple[float, float, float]  # of two tasks: least, median and most of the repetitions
    predicted: Estimate
    limits: str

    @property
    def error(self) -> float:
        """Of the prediction."""
        return self.predicted.value / self.two[1] - 1

    @property
    def doubled(self) -> float:
        """Of twice one task's rate."""
        return 2 * self.one / self.two[1] - 1


def run(*command: object) -> None:
    """One of bigiron's own commands, which says on stderr what it does."""
    subprocess.run([BIGIRON, *map(str, command)], check=True, stdout=sys.stderr)


def made(study: Path, *asked: object) -> store.Study:
    """A study, made or gone on with."""
    run("run", *((study,) if study.exists() else (*asked, "-o", study)))
    return store.open_study(study)


def file_system(folder: str) -> str:
    """That a folder is on."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    return max((len(place), kind) for place, kind in mounts if Path(folder).is_relative_to(place))[1]


def rates(study: store.Study) -> dict[int, tuple[float, float, float]]:
    """Least, median and most operations per second of the repetitions, by tasks."""
    command = [str(BIGIRON), "compare", str(study.folder), "--format", "csv"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = csv.DictReader(said.splitlines())
    return {
        int(row["tasks"]): (float(row["least"]), float(row["median"]), float(row["most"])) for row in rows
    }


def compare(workload: str, folder: Path, kernel: str, boot: list[str]) -> Compared:
    """Measure one, record it, and predict two tasks from one; UserError where that is refused."""
    on_host = ("--machine", "host", "--tasks", "1,2", "--probe", "throughput", "--reps", 3)
    at = rates(made(folder / "host" / workload, workload, *on_host))
    kind = file_system("/tmp")
    what = (
        "--cpus",
        8,
        "--clock",
        "instructions",
        "--probe",
        "conflicts,locks,instructions,trace",
        "--deadline",
        1800,
    )
    like_here = [*(("--boot", *boot) if boot else ()), *(("--fs", kind) if kind in KINDS else ())]
    recording = made(folder / "recordings" / workload, workload, "--kernel", kernel, *like_here, *what)
    found = prediction.predict(recording, str(folder / "here.toml"), [1, 2], one_task=at[1][1])
    point = found.curves[0].points[-1]
    return Compared(workload, at[1][1], at[2], point.throughput, limited_by(point.limited_by))


def table(rows: list[Compared]) -> None:
    """A line a workload."""
    print("| workload | one task, /s | two, measured | predicted | error | inside | twice one | limited by |")
    print("|---|--:|--:|--:|--:|---|--:|---|")
    for row in rows:
        least, two, most = (value / row.one for value in row.two)
        holds = "yes" if row.predicted.holds(row.two[1]) else "no"
        of = row.predicted.changed(lambda rate, one=row.one: rate / one)  # type: ignore[misc]
        print(
            f"| {row.workload} | {row.one:,.0f} | {two:.2f} ({least:.2f} to {most:.2f}) "
            f"| {of.written('{:.2f}'.format)} | {row.error:+.1%} "
            f"| {holds} | {row.doubled:+.1%} | {row.limits} |"
        )


def summary(rows: list[Compared], refused: int) -> None:
    """Over all workloads."""
    inside = sum(row.predicted.holds(row.two[1]) for row in rows)
    ours, doubled = ([abs(row.error) for row in rows], [abs(row.doubled) for row in rows])
    print(
        f"\n{len(rows)} workloads, {refused} refused: median error {median(ours):.1%}, most {max(ours):.1%}; "
        f"{inside} inside the intervals. Twice one task's rate: {median(doubled):.1%} and {max(doubled):.1%}"
    )


def main() -> None:
    """Measure, record, predict, and compare."""
    if len(sys.argv) < 3:
        print(
            "this_host: not run, as it needs an idle machine: "
            "benchmarks/predictions/this_host.py FOLDER KERNEL [BOOT]"
        )
        return
    folder, kernel, boot = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "here.toml").exists():
        run("machine", "measure", "-o", folder / "here.toml")
    rows, refused = [], []
    for workload in WORKLOADS:
        try:
            rows.append(compare(workload, folder, kernel, boot))
        except (UserError, subprocess.CalledProcessError) as error:
            refused.append((workload, error))
    table(rows)
    for workload, why in refused:
        print(f"\nrefused: {workload}: {why}")
    if rows:
        summary(rows, len(refused))


if __name__ == "__main__":
    main()
