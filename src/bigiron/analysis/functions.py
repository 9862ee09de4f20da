"""From the calls of a trace to what each function took."""

import polars as pl

SCHEMA: dict[str, pl.DataType] = {
    "function": pl.String(),
    "calls": pl.UInt64(),
    "total_ns": pl.Float64(),  # all calls together; of a function that calls itself, the outermost
    "own_ns": pl.Float64(),  # without what was traced below them
    "min_ns": pl.Float64(),
    "median_ns": pl.Float64(),
    "p99_ns": pl.Float64(),
    "max_ns": pl.Float64(),
}


def profile(calls: pl.DataFrame) -> pl.DataFrame:
    """What each function took, the longest total first. `calls` has the columns of the probe functions."""
    outermost = ~pl.col("path").str.split(";").list.contains(pl.col("function"))
    took = pl.col("nanoseconds")
    return (
        calls.group_by("function")
        .agg(
            calls=pl.len(),
            total_ns=took.filter(outermost).sum(),
            own_ns=pl.col("own_ns").sum(),
            min_ns=took.min(),
            median_ns=took.median(),
            p99_ns=took.quantile(0.99, "higher"),
            max_ns=took.max(),
        )
        .sort("total_ns", "function", descending=[True, False])
        .select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    )


def tree(calls: pl.DataFrame) -> list[tuple[str, int, int, int]]:
    """Path (with the function itself at its end), calls, nanoseconds and own nanoseconds.

    Each stands below what called it, the longest first.
    """
    whole = pl.when(pl.col("path") == "").then(pl.col("function")).otherwise(
        pl.concat_str("path", "function", separator=";")
    )  # fmt: skip
    nodes = calls.group_by(whole.alias("path")).agg(
        calls=pl.len(), total_ns=pl.col("nanoseconds").sum(), own_ns=pl.col("own_ns").sum()
    )
    totals = {path: total for path, _, total, _ in nodes.iter_rows()}

    def place(path: str) -> list[tuple[int, str]]:
        names = path.split(";")
        above = [";".join(names[: depth + 1]) for depth in range(len(names))]
        return [(-totals.get(ancestor, 0), ancestor) for ancestor in above]

    return sorted(nodes.iter_rows(), key=lambda node: place(node[0]))
