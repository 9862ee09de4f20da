"""open1-rcu: open1's curves part where cond_resched counts as a quiescent state for RCU, simulated.

Since 3.16-rc0 every RCU_COND_RESCHED_LIM-th cond_resched is a quiescent state. That makes grace periods
shorter, so objects come back to SLUB in smaller batches.
"""

from __future__ import annotations

from collections.abc import Mapping

from bigiron.analysis.seed_range import SeedRange, seed_range
from bigiron.cases.case import Case, Claim, Figure, Published, Quick, Report
from bigiron.lazy import polars as pl
from bigiron.study.store import Study

_SLOW, _RECOVERED = "RCU_COND_RESCHED_LIM=256", "RCU_COND_RESCHED_LIM=100000"
_APART = 0.01
"""Curves part where the limit of 256 costs more than this, whatever the seed."""


def report(studies: Mapping[str, Study], published: Published) -> Report:
    """Throughput by tasks and limit, where the curves part, and what differs between them."""
    rows = studies["limits"].tables("simulation")
    tasks = sorted(rows["tasks"].unique())
    most = max(tasks)
    theirs = published.value("divergence", "curves diverge", "tasks")
    apart = _first_apart(rows, tasks)
    figures = [
        Figure(
            "the curves part at",
            f"{theirs:g} tasks",
            f"{apart} tasks, simulated, predicted"
            if apart
            else f"nowhere up to {most} tasks, simulated, predicted",
        ),
        *(_at(rows, number) for number in tasks),
        *(_inside(rows, limit, most) for limit in rows["variant"].unique(maintain_order=True)),
    ]
    return Report(figures, _claims(rows, most, apart, theirs), list(_NOTES))


def _throughput(rows: pl.DataFrame, limit: str, tasks: int) -> SeedRange:
    return seed_range(rows, "throughput", limit, tasks)


def _first_apart(rows: pl.DataFrame, tasks: list[int]) -> int | None:
    def apart(number: int) -> bool:
        slow, recovered = (_throughput(rows, limit, number) for limit in (_SLOW, _RECOVERED))
        return recovered.low > slow.high * (1 + _APART)

    return next((number for number in tasks if apart(number)), None)


def _at(rows: pl.DataFrame, tasks: int) -> Figure:
    each = ", ".join(
        f"{limit.partition('=')[2]}: {_throughput(rows, limit, tasks)}"
        for limit in rows["variant"].unique(maintain_order=True)
    )
    plural = "s" if tasks > 1 else ""
    return Figure(
        f"operations a second by RCU_COND_RESCHED_LIM, {tasks} task{plural}",
        "not published",
        f"{each}; simulated, predicted",
    )


def _inside(rows: pl.DataFrame, limit: str, tasks: int) -> Figure:
    period, taken, waits = (
        seed_range(rows, name, limit, tasks)
        for name in ("grace period", "list_lock", "waiting for list_lock")
    )
    return Figure(
        f"what differs, {limit}, {tasks} tasks",
        "not published",
        f"a grace period takes {period} ms, list_lock is taken {taken} times an operation and waited "
        f"for {waits} ns; simulated, predicted",
    )


def _claims(rows: pl.DataFrame, most: int, apart: int | None, published: float) -> list[Claim]:
    slow, recovered = (_throughput(rows, limit, most) for limit in (_SLOW, _RECOVERED))
    return [
        Claim(
            "A limit of 256 is slower than one of 100,000 with many tasks",
            recovered.low > slow.high,
            f"{slow} against {recovered} operations a second with {most} tasks, "
            f"{100 * (slow.mean / recovered.mean - 1):+.1f} %",
        ),
        Claim(
            f"The curves are one up to about {published:g} tasks",
            apart is not None and published / 2 <= apart <= 2 * published,
            f"256 costs more than {_APART:.0%} from {apart} tasks on"
            if apart
            else "256 never costs that much",
        ),
    ]


_NOTES = [
    "Every figure here is simulated: the mean of all seeds, and the least and the most of any of them.",
    "Nothing was fitted: what an operation takes is an estimate (limits.toml), and the latencies are "
    "those of a later machine (machine.toml).",
    "Caches are unlimited here: an object that was unused for long costs nothing more when it is used again.",
]

CASE = Case(
    name="open1-rcu",
    description="open1's curves part where cond_resched counts as a quiescent state (3.16-rc0); simulated",
    studies=("limits",),
    quick=Quick(cpus=[160], repetitions=1, tasks=(1, 40, 160), shorter=4),
    report=report,
)
