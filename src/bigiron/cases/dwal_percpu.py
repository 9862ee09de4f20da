"""dwal-percpu: tasks that append to files of their own on btrfs, and exact sums under one lock, simulated.

fxmark's DWAL lost half of its throughput on 288 CPUs. All tasks reserve space under one lock, and under it
the kernel looks at percpu_counters: at the shared count, or at every CPU's part.
"""

from __future__ import annotations

from collections.abc import Mapping

from bigiron.analysis.seed_range import SeedRange, seed_range
from bigiron.cases.case import Case, Claim, Figure, Published, Quick, Report
from bigiron.lazy import polars as pl
from bigiron.study.store import Study

_AT = 63  # tasks of the published headline
_BESIDE = 65
_COLUMNS = {"read": "old", "sum": "new"}


def report(studies: Mapping[str, Study], published: Published) -> Report:
    """Throughput by tasks, and what a sum under the lock costs, beside the published change."""
    study = studies["tasks"]
    rows = study.tables("simulation")
    tasks = sorted(rows["tasks"].unique())
    change = _change(rows, "read padded", "sum padded", _AT)
    headline = published.value("headline", "fxmark.hdd_btrfs_DWAL_63_bufferedio.works/sec", "change")
    waiting = {
        look: seed_range(rows, "waiting for the lock", f"{look} padded", _AT) for look in ("read", "sum")
    }
    figures = [
        Figure(
            f"throughput, {_AT} tasks: sums instead of reads under the lock",
            f"{headline:g} %",
            f"{_percent(change)}, simulated, predicted",
        ),
        *(_waiting(look, ours, published) for look, ours in waiting.items()),
        *(_packed(rows, look) for look in ("read", "sum")),
        _step(rows),
        *(_throughput(rows, number_of) for number_of in tasks),
    ]
    return Report(figures, [_halves(change, headline), _one_lock(waiting)], list(_NOTES))


def _change(rows: pl.DataFrame, old: str, new: str, tasks: int) -> SeedRange:
    before, after = (seed_range(rows, "throughput", variant, tasks).of_seeds for variant in (old, new))
    return SeedRange(tuple(100 * (b / a - 1) for a, b in zip(before, after, strict=True)))


def _percent(change: SeedRange) -> str:
    return f"{change.mean:+.1f} % ({change.low:+.1f} to {change.high:+.1f})"


def _waiting(look: str, ours: SeedRange, published: Published) -> Figure:
    column = _COLUMNS[look]
    theirs = published.value("profile_children", "native_queued_spin_lock_slowpath", column)
    return Figure(
        f"share of the tasks' time spent waiting for space_info's lock, {look}, {_AT} tasks",
        f"{theirs:g} % ({column} kernel)",
        f"{ours} %, simulated, predicted",
    )


def _throughput(rows: pl.DataFrame, tasks: int) -> Figure:
    variants = rows["variant"].unique(maintain_order=True).to_list()
    each = ", ".join(f"{variant} {seed_range(rows, 'throughput', variant, tasks)}" for variant in variants)
    plural = "s" if tasks > 1 else ""
    return Figure(
        f"operations a second, {tasks} task{plural}", "not published", f"{each}; simulated, predicted"
    )


def _packed(rows: pl.DataFrame, look: str) -> Figure:
    change = _change(rows, f"{look} padded", f"{look} packed", _AT)
    return Figure(
        f"throughput, {_AT} tasks, {look}: the parts of 16 CPUs on a line instead of one",
        "not published",
        f"{_percent(change)}, simulated, predicted",
    )


def _step(rows: pl.DataFrame) -> Figure:
    def change(variant: str) -> float:
        before, after = (seed_range(rows, "throughput", variant, tasks).mean for tasks in (_AT, _BESIDE))
        return after / before - 1

    each = ", ".join(f"{name} {change(name):+.1%}" for name in rows["variant"].unique(maintain_order=True))
    return Figure(
        f"throughput, {_BESIDE} tasks instead of {_AT}", "not published", f"{each}; simulated, predicted"
    )


def _halves(change: SeedRange, headline: float) -> Claim:
    return Claim(
        f"Throughput falls by half with {_AT} tasks",
        abs(change.mean - headline) < 15,
        f"{_percent(change)} where every operation sums exactly, against {headline:g} %: all 288 CPUs' parts "
        "are fetched under the lock, one after the other",
    )


def _one_lock(waiting: Mapping[str, SeedRange]) -> Claim:
    return Claim(
        "The tasks spend nearly all of their time waiting for one lock, with the new kernel even more",
        waiting["read"].mean > 75 and waiting["sum"].low > waiting["read"].high,
        f"{waiting['read']} % with reads, {waiting['sum']} % with sums",
    )


_NOTES = [
    "Every figure here is simulated: the mean of all seeds, and the least and the most of any of them.",
    "Nothing was fitted: the latencies are those of xeon-phi-288, and what an operation takes is an estimate "
    "(tasks.toml).",
    "A sum reads the CPUs' parts one after the other; a real CPU has several reads under way at once, so "
    "sums cost too much here.",
]

CASE = Case(
    name="dwal-percpu",
    description="fxmark's DWAL on btrfs halves with exact counter sums under the reservation lock; simulated",
    studies=("tasks",),
    quick=Quick(cpus=[288], repetitions=1, tasks=(1, 9, _AT, _BESIDE)),
    report=report,
)
