"""From a cell's acquisitions to its locks: how often an operation takes each, and how long it holds it."""

import re

import polars as pl

SCHEMA: dict[str, pl.DataType] = {
    "lock": pl.String(),  # what it is: all locks that are called so together, whichever CPU's they are
    "taken_by": pl.String(),  # spin_lock, read_lock, write_lock, mutex_lock, down_read or down_write
    "locks": pl.UInt32(),  # how many there are
    "cpus": pl.UInt32(),  # the most that take one of them
    "acquisitions_per_op": pl.Float64(),
    "held_per_op": pl.Float64(),  # instructions
    "longest": pl.UInt64(),  # instructions of one acquisition
    "taken_in": pl.List(pl.String()),  # the functions that take it, most acquisitions first
}


def profile(
    counts: pl.DataFrame, operations: int, contexts: tuple[str, ...] = ("operation",)
) -> pl.DataFrame:
    """The locks of one cell: those that several CPUs take first, then by how long they are held.

    `counts` has the columns of the probe locks; `operations` is how many were recorded, of all tasks.
    """
    taken = counts.filter(pl.col("context").is_in(contexts)).select(
        pl.col("object")
        .str.replace(r" of CPU \d+$", " of each CPU")
        .str.replace(r"^(vmalloc memory of \w+)\+0x[0-9a-f]+$", "$1")
        .alias("lock"),
        pl.col("function").map_elements(taken_by, pl.String).alias("taken_by"),
        pl.col("path").str.split(";").list.last().alias("taker"),
        pl.col("lock").alias("address"),
        "cpu", "acquisitions", "instructions", "longest",
    )  # fmt: skip
    if taken.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    what = ["lock", "taken_by"]
    sums = taken.group_by(what).agg(
        acquisitions_per_op=pl.col("acquisitions").sum() / operations,
        held_per_op=pl.col("instructions").sum() / operations,
        longest=pl.col("longest").max(),
    )
    cpus = (
        taken.group_by(*what, "address")
        .agg(cpus=pl.col("cpu").n_unique())
        .group_by(what)
        .agg(pl.col("cpus").max(), locks=pl.len())
    )
    takers = (
        taken.group_by(*what, "taker")
        .agg(pl.col("acquisitions").sum())
        .sort("acquisitions", "taker", descending=[True, False])
        .group_by(what, maintain_order=True)
        .agg(taken_in=pl.col("taker"))
    )
    return (
        sums.join(cpus, on=what)
        .join(takers, on=what)
        .sort(pl.col("cpus") == 1, -pl.col("held_per_op"), *what)
        .select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    )


def taken_by(function: str) -> str:
    """The kernel's lock function without what it does besides: to interrupts, or if it has to wait.

    >>> taken_by("_raw_spin_lock_irqsave"), taken_by("mutex_trylock"), taken_by("down_read_killable")
    ('spin_lock', 'mutex_lock', 'down_read')
    """
    name = re.sub(r"_(bh|irq|irqsave|interruptible|killable)$", "", function.removeprefix("_raw_"))
    return name.removesuffix("_trylock") if name.startswith("down_") else name.replace("trylock", "lock")
