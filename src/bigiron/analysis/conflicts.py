"""From a cell's counts to its shared lines: one row a line, per operation.

Tables in, tables out. A line is shared, here, if in the chosen contexts at least two CPUs touched it and one
of them wrote it.
"""

import polars as pl

from bigiron.analysis.sharing import Touched, sharing

CONTEXTS = ("operation", "interrupt", "kthread")

SCHEMA: dict[str, pl.DataType] = {
    "line": pl.UInt64(),
    "object": pl.String(),  # what the hottest instruction touched
    "functions": pl.List(pl.String),  # hottest first
    "weights": pl.List(pl.Float64),  # accesses per operation of each of them
    "paths": pl.List(pl.String()),  # the functions that led there, ";" between them, hottest first
    "path_weights": pl.List(pl.Float64()),  # accesses per operation of each of them
    "writes_per_op": pl.Float64(),
    "accesses_per_op": pl.Float64(),
    "all_per_op": pl.Float64(),  # accesses, also those that no other CPU can have disturbed
    "writers": pl.UInt32(),  # CPUs
    "readers": pl.UInt32(),  # CPUs
    "false_sharing": pl.Boolean(),  # no byte was touched by two CPUs
    "offsets": pl.List(pl.Struct({"cpu": pl.UInt32(), "bytes": pl.String()})),  # then which each touched
    "sharing": pl.List(pl.String()),  # what kind of sharing it is, the most telling first (sharing.py)
    "because": pl.List(pl.String()),  # what told each of them
    "recycled": pl.Boolean(),  # the memory was freed and allocated again while recorded
}

_ALLOCATORS = r"^(_*memset|clear_page|clear_highpage|kmem_cache_alloc|__kmalloc|kmalloc)"
"""Functions that write an object when it is allocated: Debian's kernels set memory to zero then."""


def profile(counts: pl.DataFrame, operations: int, contexts: tuple[str, ...] = CONTEXTS[:1]) -> pl.DataFrame:
    """The shared lines of one cell, most accessed first.

    `counts` has the columns of the probe conflicts; `operations` is how many were recorded, of all tasks.
    An instruction that reads and writes a line at once (an atomic, an increment) counts as one access.
    Of a line that one CPU has nearly to itself, only so many accesses count as the others can have disturbed:
    two for each of theirs, that access and the owner's next. A recycled line is shared only in that each of
    its CPUs had an object of its own there, one after the other.
    """
    touched = _weighted(counts, operations, contexts)
    if touched.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    lines = _shared_lines(touched)
    touched = touched.join(lines, on="line", how="semi")
    # Of recycled memory, which can be most, nobody is told what kind of sharing it is.
    kept = touched.join(lines.filter(~pl.col("recycled")), on="line", how="semi")
    false_sharing = _false_sharing(kept)
    return (
        lines.join(_hottest(touched, "function", "functions", "weights"), on="line")
        .join(_hottest(touched, "path", "paths", "path_weights"), on="line")
        .join(false_sharing, on="line", how="left")
        .join(_kinds(kept, false_sharing), on="line", how="left")
        .with_columns(
            pl.col("false_sharing").fill_null(False), pl.col("offsets", "sharing", "because").fill_null([])
        )
        .sort("accesses_per_op", "line", descending=[True, False])
        .select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    )


def stacks(counts: pl.DataFrame, operations: int, contexts: tuple[str, ...] = CONTEXTS[:1]) -> pl.DataFrame:
    """By which paths the shared lines are reached, without recycled ones: a row a context, path and object.

    The columns `accesses_per_op` and `writes_per_op` have the sums that `profile` has. `object` is what
    `profile` calls the line.
    """
    touched = _weighted(counts, operations, contexts)
    lines = _shared_lines(touched).filter(~pl.col("recycled")).select("line", "object")
    return (
        touched.drop("object")
        .join(lines, on="line")
        .group_by("context", "path", "object")
        .agg(pl.col("accesses_per_op", "writes_per_op").sum())
        .sort("context", "path", "object")
    )


def _weighted(counts: pl.DataFrame, operations: int, contexts: tuple[str, ...]) -> pl.DataFrame:
    """The counts with what each is per operation, and with whole paths."""
    touched = counts.filter(pl.col("context").is_in(contexts)).with_columns(
        accesses=pl.max_horizontal("reads", "writes")
    )
    return touched.join(_disturbed(touched), on="line").with_columns(
        pl.concat_str("path", "function", separator=";").str.strip_chars_start(";").alias("path"),
        (pl.col("writes") * pl.col("disturbed") / operations).alias("writes_per_op"),
        (pl.col("accesses") * pl.col("disturbed") / operations).alias("accesses_per_op"),
        (pl.col("accesses") / operations).alias("all_per_op"),
    )


def _shared_lines(touched: pl.DataFrame) -> pl.DataFrame:
    """One row a line that several CPUs touched and one wrote."""
    allocates = (pl.col("writes") > 0) & pl.col("function").str.contains(_ALLOCATORS)
    return (
        touched.group_by("line")
        .agg(
            pl.col("object").sort_by("accesses", "pc", descending=True).first(),
            pl.col("writes_per_op", "accesses_per_op", "all_per_op").sum(),
            pl.col("cpu").filter(pl.col("writes") > 0).n_unique().alias("writers"),
            pl.col("cpu").filter(pl.col("reads") > 0).n_unique().alias("readers"),
            pl.col("cpu").n_unique().alias("touchers"),
            pl.col("cpu").filter(allocates).n_unique().alias("allocating"),
        )
        .with_columns(recycled=pl.col("allocating") == pl.col("touchers"))
        .filter((pl.col("touchers") > 1) & (pl.col("writers") > 0))
    )


def _disturbed(touched: pl.DataFrame) -> pl.DataFrame:
    """Which share of a line's accesses can have followed one of another CPU."""
    accesses = touched.group_by("line", "cpu").agg(pl.col("accesses").sum())
    others = pl.col("accesses").sum() - pl.col("accesses").max()
    return accesses.group_by("line").agg(
        disturbed=pl.min_horizontal(1.0, 2 * others / pl.col("accesses").sum())
    )


def _hottest(touched: pl.DataFrame, what: str, names: str, weights: str) -> pl.DataFrame:
    """For each line what touched it, hottest first, and the accesses per operation of each."""
    return (
        touched.group_by("line", what)
        .agg(weight=pl.col("accesses_per_op").sum())
        .sort("weight", what, descending=[True, False])
        .group_by("line", maintain_order=True)
        .agg(pl.col(what).alias(names), pl.col("weight").alias(weights))
    )


def _false_sharing(touched: pl.DataFrame) -> pl.DataFrame:
    """Whether the sets of bytes that the CPUs touch are disjoint, for lines in which any were touched.

    And if so, which bytes of the line each CPU touched.
    """
    block = pl.col("address") - pl.col("address") % 64
    masks = (
        touched.with_columns(block=block)
        .group_by("line", "block", "cpu")
        .agg(mask=pl.col("bytes").bitwise_or())
        .with_columns(bits=pl.col("mask").bitwise_count_ones())
    )
    lines = (
        masks.group_by("line", "block")
        .agg(apart=pl.col("bits").sum() == pl.col("mask").bitwise_or().bitwise_count_ones())
        .group_by("line")
        .agg(false_sharing=pl.col("apart").all())
    )
    offsets: dict[int, dict[int, int]] = {}
    apart = masks.join(lines.filter("false_sharing"), on="line")
    for line, block_at, cpu, mask in apart.select("line", "block", "cpu", "mask").sort("cpu").iter_rows():
        of_cpu = offsets.setdefault(line, {})
        of_cpu[cpu] = of_cpu.get(cpu, 0) | mask << (block_at - line)
    named = [
        [{"cpu": cpu, "bytes": ranges(mask)} for cpu, mask in offsets.get(line, {}).items()]
        for line in lines["line"]
    ]
    return lines.with_columns(offsets=pl.Series(named, dtype=SCHEMA["offsets"]))


def ranges(mask: int) -> str:
    """The bits of a mask as ranges of their numbers.

    >>> ranges(0b11110001)
    '0,4-7'
    """
    found = []
    while mask:
        first = (mask & -mask).bit_length() - 1
        rest = mask >> first
        length = (rest ^ rest + 1).bit_length() - 1
        found.append(f"{first}-{first + length - 1}" if length > 1 else str(first))
        mask &= ~((1 << length) - 1 << first)
    return ",".join(found)


def _kinds(touched: pl.DataFrame, false_sharing: pl.DataFrame) -> pl.DataFrame:
    """What kind of sharing each line is, and what told it."""
    rows = []
    apart = set(false_sharing.filter("false_sharing")["line"])
    for (line,), of_line in touched.group_by("line", maintain_order=True):
        touches = of_line.select("object", "types", "function", "reads", "writes").iter_rows()
        kinds = sharing([Touched(*touch) for touch in touches], line in apart)
        rows.append((line, list(kinds), list(kinds.values())))
    names = ("line", "sharing", "because")
    return pl.DataFrame(rows, schema={name: SCHEMA[name] for name in names}, orient="row")
