"""From the times that tasks were off the CPU to where they waited."""

from collections.abc import Sequence

import polars as pl

CONTEXTS = ("operation", "kthread")

# How a task comes to leave the CPU, whatever it waits for: the innermost functions of most stacks.
_ON_THE_WAY = {
    "__schedule", "schedule", "schedule_timeout", "schedule_preempt_disabled", "preempt_schedule",
    "preempt_schedule_irq", "preempt_schedule_common", "preempt_schedule_notrace", "__cond_resched",
    "schedule_hrtimeout_range", "schedule_hrtimeout_range_clock", "io_schedule", "io_schedule_timeout",
    "__wait_for_common", "wait_for_completion", "wait_for_completion_killable", "wait_for_completion_state",
    "wait_for_completion_timeout", "__wait_rcu_gp",
}  # fmt: skip
_NAMED = 3  # functions that tell a place

PLACES: dict[str, pl.DataType] = {
    "place": pl.String(),  # place(path)
    "state": pl.String(),
    "count": pl.UInt64(),
    "total_ns": pl.UInt64(),
    "max_ns": pl.UInt64(),
}


def place(path: str) -> str:
    """The functions that say where a stack waits, innermost first.

    >>> place("ksys_write;online_store;_cpu_down;synchronize_rcu;__wait_rcu_gp;schedule;__schedule")
    'synchronize_rcu < _cpu_down < online_store'
    >>> place("schedule;__schedule")
    '__schedule < schedule'
    """
    frames = path.split(";")[::-1]
    telling = [frame for frame in frames if frame.split(".")[0] not in _ON_THE_WAY]
    return " < ".join((telling or frames)[:_NAMED])


def places(table: pl.DataFrame, contexts: Sequence[str] = CONTEXTS) -> pl.DataFrame:
    """The times of all tasks by where and in which state they waited, the longest total first.

    `table` has the columns of the probe blocked.
    """
    return (
        table.filter(pl.col("context").is_in(contexts))
        .with_columns(place=pl.col("path").map_elements(place, pl.String))
        .group_by("place", "state")
        .agg(pl.col("count").sum(), pl.col("total_ns").sum(), pl.col("max_ns").max())
        .sort("total_ns", "place", descending=[True, False])
        .select(pl.col(name).cast(kind) for name, kind in PLACES.items())
    )


def stacks(table: pl.DataFrame, operations: int, contexts: Sequence[str]) -> pl.DataFrame:
    """Microseconds and times per operation by `context`, `task` and `path`, for formats that hold stacks."""
    return (
        table.filter(pl.col("context").is_in(contexts))
        .group_by("context", "task", "path")
        .agg(
            microseconds_per_op=pl.col("total_ns").sum() / 1000 / operations,
            times_per_op=pl.col("count").sum() / operations,
        )
        .sort("context", "task", "path")
    )
