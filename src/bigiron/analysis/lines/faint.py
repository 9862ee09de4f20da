"""Faint lines of a cell, added up: there are thousands of them, and only their sum is of interest."""

from __future__ import annotations

from bigiron.util.lazy import polars as pl
from bigiron.util.object_name import common_or_type, object_type

FAINT = 0.005
"""Accesses per operation below which a line is faint."""

_SUMS = ("writes_per_op", "accesses_per_op", "all_per_op", "layout_writes_per_op", "layout_accesses_per_op")


def merged(lines: pl.DataFrame) -> pl.DataFrame:
    """The lines, with faint ones of one kind and with the same hottest function added up.

    `lines` are rows of `conflicts.profile`, hottest first, as far as its columns are known by then. A row of
    several has the address of the first. A workload that creates files has ten thousand faint lines, and to
    match each with each takes minutes.
    """
    lines = lines.with_columns(pl.col("object").cast(pl.String))
    is_faint = ~pl.col("recycled") & (pl.col("accesses_per_op") < FAINT)
    faint = lines.filter(is_faint)
    objects = faint["object"].unique()
    kind = pl.col("object").replace_strict(objects, list(map(object_type, objects)), return_dtype=pl.String)
    faint = faint.with_columns(family=pl.col("line").first().over(kind, pl.col("functions").list.first()))
    sums = faint.group_by(line="family", maintain_order=True).agg(
        pl.col("object"),
        pl.col("recycled").first(),
        _in_order(*_SUMS),
        pl.col("writers", "readers").max(),
        pl.col("movable").any(),
        pl.col("even").all(),
        pl.col("number").sum(),
    )
    names = [common_or_type(objects) for objects in sums["object"].to_list()]
    families = (
        sums.with_columns(object=pl.Series(names, dtype=pl.String))
        .join(_touching(faint, "functions", "weights"), on="line", maintain_order="left")
        .join(_touching(faint, "paths", "path_weights"), on="line", maintain_order="left")
    )
    return pl.concat([lines.filter(~is_faint).select(families.columns), families])


def _touching(faint: pl.DataFrame, names: str, weights: str) -> pl.DataFrame:
    """What touches the lines of each family, hottest first."""
    return (
        faint.select("family", names, weights)
        .explode(names, weights)
        .group_by("family", names, maintain_order=True)
        .agg(_in_order(weights))
        .sort(weights, names, descending=[True, False])
        .group_by(line="family", maintain_order=True)
        .agg(names, weights)
    )


def _in_order(*columns: str) -> pl.Expr:
    """Sums that are made in the order of the rows, so that what is equally hot is so each time."""
    return pl.col(columns).cum_sum().last()
