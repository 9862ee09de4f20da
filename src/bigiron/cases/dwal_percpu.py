"""dwal-percpu: tasks that append to files of their own on btrfs, and exact sums under one lock, simulated.

fxmark's DWAL lost half of its throughput on 288 CPUs. All tasks reserve space under one lock, and under it
the kernel looks at percpu_counters: at the shared count, or at every CPU's part.
"""

from collections.abc import Mapping

import polars as pl

from bigiron.analysis.predicted import Predicted, predicted
from bigiron.cases.case import Case, Claim, Figure, Published, Quick, Report
from bigiron.study.store import Study

_AT = 63  # tasks of the published headline
_BESIDE = 65


def report(studies: Mapping[str, Study], published: Published) -> Report:
    """Throughput by tasks, and what a sum under the lock costs, beside the published change."""
    study = studies["tasks"]
    rows = study.tables("simulation")
    tasks = sorted(rows["tasks"].unique())
    change = _change(rows, "read padded", "sum padded", _AT)
    headline = published.value("headline", "fxmark.hdd_btrfs_DWAL_63_bufferedio.works/sec", "change")
    figures = [
        Figure(
            f"throughput, {_AT} tasks: sums instead of reads under the lock",
            f"{headline:g} %",
            f"{_percent(change)}, simulated, predicted",
        ),
        *(_waiting(rows, look, column, published) for look, column in (("read", "old"), ("sum", "new"))),
        *(_throughput(rows, number_of) for number_of in tasks),
    ]
    return Report(figures, [_sum_costs(change), _packed(rows), _no_step(rows)], list(_NOTES))


def _change(rows: pl.DataFrame, old: str, new: str, tasks: int) -> Predicted:
    before, after = (predicted(rows, "throughput", variant, tasks).of_seeds for variant in (old, new))
    return Predicted(tuple(100 * (b / a - 1) for a, b in zip(before, after, strict=True)))


def _percent(change: Predicted) -> str:
    return f"{change.mean:+.1f} % ({change.low:+.1f} to {change.high:+.1f})"


def _waiting(rows: pl.DataFrame, look: str, column: str, published: Published) -> Figure:
    theirs = published.value("profile_children", "native_queued_spin_lock_slowpath", column)
    ours = predicted(rows, "waiting for the lock", f"{look} padded", _AT)
    return Figure(
        f"share of the tasks' time spent waiting for space_info's lock, {look}, {_AT} tasks",
        f"{theirs:g} % ({column} kernel)",
        f"{ours} %, simulated, predicted",
    )


def _throughput(rows: pl.DataFrame, tasks: int) -> Figure:
    variants = rows["variant"].unique(maintain_order=True).to_list()
    each = ", ".join(f"{variant} {predicted(rows, 'throughput', variant, tasks)}" for variant in variants)
    plural = "s" if tasks > 1 else ""
    return Figure(f"operations a second, {tasks} task{plural}", "not told", f"{each}; simulated, predicted")


def _sum_costs(change: Predicted) -> Claim:
    return Claim(
        "An exact sum under the reservation lock costs half of the throughput",
        -75 < change.mean < -25,
        f"it costs {_percent(change)} with {_AT} tasks, as a sum goes to all 288 CPUs' parts",
    )


def _packed(rows: pl.DataFrame) -> Claim:
    summed, read = (_change(rows, f"{look} padded", f"{look} packed", _AT) for look in ("sum", "read"))
    return Claim(
        "Parts of 16 CPUs on one line cost nothing while the lock is the bottleneck, and make sums cheaper",
        read.mean > -2 and summed.mean > 0,
        f"packed against padded with {_AT} tasks: {_percent(read)} with reads, {_percent(summed)} with sums",
    )


def _no_step(rows: pl.DataFrame) -> Claim:
    changes = [
        (name, after.mean / before.mean - 1)
        for name in rows["variant"].unique(maintain_order=True)
        for before, after in [[predicted(rows, "throughput", name, tasks) for tasks in (_AT, _BESIDE)]]
    ]
    steps = ", ".join(f"{name} {change:+.1%}" for name, change in changes)
    return Claim(
        f"Nothing special happens between {_AT} and {_BESIDE} tasks",
        all(abs(change) < 0.05 for _, change in changes),
        steps,
    )


_NOTES = [
    "Every figure here is simulated: the mean of all seeds, and the least and the most of any of them.",
    "Nothing was fitted: the latencies are those of xeon-phi-288, and what an operation takes is an estimate "
    "(tasks.toml).",
    "A sum reads one CPU's part after the other; a CPU has several reads under way at once, so sums are too "
    "dear here.",
]

CASE = Case(
    name="dwal-percpu",
    description="fxmark's DWAL on btrfs halves with exact counter sums under the reservation lock; simulated",
    studies=("tasks",),
    quick=Quick(cpus=[288], repetitions=1, tasks=(1, 9, _AT, _BESIDE)),
    report=report,
)
