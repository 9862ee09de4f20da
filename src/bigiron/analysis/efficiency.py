"""From what each CPU spent its time on to shares of it."""

from collections.abc import Sequence

import polars as pl

SHARES: dict[str, pl.DataType] = {
    "source": pl.String(),
    "kind": pl.String(),
    "name": pl.String(),
    "mean": pl.Float64(),  # % of the time of all CPUs
    "least": pl.Float64(),  # % of one CPU's time
    "most": pl.Float64(),
    "times_per_second": pl.Float64(),  # on all CPUs together; null where the source does not tell
}
_WAITING = "waiting"  # of tasks, while the CPU does something else: no part of its time


def shares(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Shares of the CPUs' time, of all repetitions together.

    Each table has the columns of the probe efficiency. A CPU's time is all
    that one source says that it did; `waiting` is set beside `running`.
    """
    cells = pl.concat([table.with_columns(cell=pl.lit(number)) for number, table in enumerate(tables)])
    cells = _merged(cells)
    whole = (
        cells.filter(pl.col("kind") != _WAITING)
        .group_by("cell", "cpu", "source")
        .agg(whole_ns=pl.col("nanoseconds").sum())
    )
    cpus = len(cells.select("cell", "cpu").unique())
    per_cpu = cells.join(whole, on=["cell", "cpu", "source"]).with_columns(
        share=100 * pl.col("nanoseconds") / pl.max_horizontal("whole_ns", 1)
    )
    by_what = per_cpu.group_by("source", "kind", "name").agg(
        mean=pl.col("share").sum() / cpus,
        # A CPU that never did it has no row.
        least=pl.when(pl.len() == cpus).then(pl.col("share").min()).otherwise(0.0),
        most=pl.col("share").max(),
        times_per_second=pl.when(pl.col("times").is_not_null().any()).then(
            pl.col("times").sum() / (pl.col("whole_ns").max() / 1e9) / len(tables)
        ),
    )
    return by_what.sort("source", "mean", "kind", "name", descending=[False, True, False, False]).select(
        pl.col(name).cast(kind) for name, kind in SHARES.items()
    )


def _merged(cells: pl.DataFrame) -> pl.DataFrame:
    """The workload's tasks are one, whatever each calls itself."""
    name = pl.when(pl.col("kind") == "workload").then(pl.lit("")).otherwise(pl.col("name")).alias("name")
    times = pl.when(pl.col("times").is_not_null().any()).then(pl.col("times").sum())
    return cells.group_by("cell", "cpu", "source", "kind", name).agg(pl.col("nanoseconds").sum(), times)
