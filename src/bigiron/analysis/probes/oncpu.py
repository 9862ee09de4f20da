"""The cost of functions per operation, from samples."""

from __future__ import annotations

from bigiron.util.lazy import polars as pl

UNITS = {"cycles": "cycles", "cpu-clock": "nanoseconds"}
"""What the cost is, by the event that took the samples."""


def stacks(table: pl.DataFrame, operations: float, contexts: tuple[str, ...]) -> pl.DataFrame:
    """Cost and samples per operation by `context` and `path`: the program's functions, then the kernel's.

    `table` has the columns of the probe oncpu. Outermost frames without a name are left out.
    """
    named = pl.col("user_path").str.replace(r"^(\[unknown\](;|$))+", "")
    path = pl.concat_str(named, "path", separator=";").str.strip_chars(";")
    return (
        table.filter(pl.col("context").is_in(contexts))
        .with_columns(path=pl.when(path == "").then(pl.lit("[unknown]")).otherwise(path))
        .group_by("context", "task", "path")
        .agg(
            cost_per_op=pl.col("cost").sum() / operations,
            samples_per_op=pl.col("samples").sum() / operations,
        )
        .sort("context", "task", "path")
    )
