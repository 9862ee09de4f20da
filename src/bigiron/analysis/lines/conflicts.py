"""From a cell's counts to its shared cache lines: one row a line, per operation.

Tables in, tables out. A line is shared, here, if in the chosen contexts at least two CPUs touched it and one
of them wrote it; two lines beside each other are shared as a pair if they would be as one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter

from bigiron.analysis import kernel_functions
from bigiron.analysis.lines import faint
from bigiron.analysis.lines.faint import FAINT
from bigiron.analysis.lines.sharing import Written, in_pair, sharing
from bigiron.analysis.statistics import spread
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

CONTEXTS = ("process", "interrupt", "kthread")

SCHEMA = Schema(
    lambda: {
        "line": pl.UInt64(),
        "object": pl.String(),  # the field that is written most
        "beside": pl.List(  # the other fields of the line that are touched, hottest first
            pl.Struct(
                {
                    "object": pl.String(),
                    "accesses_per_op": pl.Float64(),
                    "writes_per_op": pl.Float64(),
                    "functions": pl.List(pl.String()),  # hottest first
                }
            )
        ),
        "functions": pl.List(pl.String),  # hottest first
        "weights": pl.List(pl.Float64),  # accesses per operation of each of them
        "paths": pl.List(pl.String()),  # the functions that led there, ";" between them, hottest first
        "path_weights": pl.List(pl.Float64()),  # accesses per operation of each of them
        "writes_per_op": pl.Float64(),
        "accesses_per_op": pl.Float64(),
        "all_per_op": pl.Float64(),  # accesses, also those that no other CPU can have disturbed
        "layout_writes_per_op": pl.Float64(),  # that are shared only by where objects lie in their slab
        "layout_accesses_per_op": pl.Float64(),
        "even": pl.Boolean(),  # all CPUs make as many of the other accesses
        "movable": pl.Boolean(),  # it has an object of a slab whose objects begin anywhere in a line
        "writers": pl.UInt32(),  # CPUs
        "readers": pl.UInt32(),  # CPUs
        "false_sharing": pl.Boolean(),  # no byte was touched by two CPUs
        "offsets": pl.List(pl.Struct({"cpu": pl.UInt32(), "bytes": pl.String()})),  # then which each touched
        "sharing": pl.List(pl.String()),  # what kind of sharing it is, the most telling first (sharing.py)
        "because": pl.List(pl.String()),  # the evidence for each of them
        "recycled": pl.Boolean(),  # the memory was freed and allocated again while recorded
        "number": pl.UInt32(),  # of lines that it stands for
        "halves": pl.List(  # of a pair of lines, its first and its second
            pl.Struct(
                {
                    "object": pl.String(),  # the field that is written most, or touched most if none is
                    "touched": pl.List(  # bytes, counted from the pair's first, and who touched just these
                        pl.Struct({"cpus": pl.String(), "writes": pl.Boolean(), "bytes": pl.String()})
                    ),
                }
            )
        ),
    }
)

PAIR_BYTES = 128
"""Of two lines that processors with an adjacent-line prefetcher fetch together."""

_NEARLY = 0.9  # of the writes to the field that is written most


def profile(
    counts: pl.DataFrame,
    operations: float,
    line_bytes: int,
    contexts: tuple[str, ...] = CONTEXTS[:1],
    *,
    merge_faint: bool = False,
) -> pl.DataFrame:
    """The shared cache lines of one cell, most accessed first, with `merge_faint` as `faint.merged` has them.

    `counts` has the columns of the probe conflicts; `operations` is how many were recorded, of all tasks, and
    `line_bytes` how long a cache line is.
    An instruction that reads and writes a line at once (an atomic, an increment) counts as one access.
    Of a line that one CPU has nearly to itself, only so many accesses count as the others can have disturbed:
    two for each of theirs, that access and the owner's next. A recycled line is shared only in that each of
    its CPUs had an object of its own there, one after the other.
    """
    return _profile(_Counted(_numbered(counts, contexts), operations), line_bytes, merge_faint)


def _profile(counted: _Counted, line_bytes: int, merge_faint: bool) -> pl.DataFrame:
    touched, operations = counted.touched, counted.operations
    if touched.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    lines = counted.lines.join(called_after(touched, "line"), on="line")
    touched = touched.join(lines, on="line", how="semi")
    lines = lines.join(_by_layout(touched, operations, line_bytes), on="line")
    found = _with_touching(lines, touched, merge_faint)
    # Most lines are recycled memory, or faint: no report has their kind of sharing.
    worth = ~pl.col("recycled") & (pl.col("accesses_per_op") >= FAINT)
    kept = touched.join(lines.filter(worth), on="line", how="semi")
    false_sharing = _false_sharing(kept)
    kinds = false_sharing.join(_kinds(kept, false_sharing), on="line").join(
        _beside(kept, lines), on="line", how="left"
    )
    return _described(found, kinds.with_columns(halves=pl.lit([], SCHEMA["halves"])))


def pairs(
    counts: pl.DataFrame,
    operations: float,
    contexts: tuple[str, ...] = CONTEXTS[:1],
    *,
    merge_faint: bool = False,
) -> pl.DataFrame:
    """The lines of one cell that are shared only as a pair, most accessed first: a row a pair.

    Its accesses are those that find a line gone only because another CPU took the line beside it: what the
    two would count as one line, by the rules of `profile`, without what each counts alone. A recycled line is
    no part of a pair.
    """
    return _pairs(_Counted(_numbered(counts, contexts), operations), merge_faint)


def profile_and_pairs(
    counts: pl.DataFrame, operations: float, line_bytes: int, contexts: tuple[str, ...]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both, with faint lines as `faint.merged` has them: much of the work is the same."""
    counted = _Counted(_numbered(counts, contexts), operations)
    return _profile(counted, line_bytes, merge_faint=True), _pairs(counted, merge_faint=True)


@dataclass(frozen=True)
class _Counted:
    """The counts of a cell, numbered, and what follows from them for lines and for pairs."""

    counts: pl.DataFrame
    operations: float

    @cached_property
    def touched(self) -> pl.DataFrame:
        return _weighted(self.counts, self.operations)

    @cached_property
    def lines(self) -> pl.DataFrame:
        return _unnamed_lines(self.touched)


def _pairs(counted: _Counted, merge_faint: bool) -> pl.DataFrame:
    operations = counted.operations
    if counted.counts.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    alone = counted.lines
    kept = counted.counts.join(alone.filter("recycled"), on="line", how="anti")
    pair = pl.col("line") - pl.col("line") % PAIR_BYTES
    touched = _weighted(kept.with_columns(half="line", line=pair), operations)
    share_alone = alone.select(half="line", alone=pl.col("accesses_per_op") / pl.col("all_per_op"))
    touched = touched.filter(pl.col("half").n_unique().over("line") == 2)
    if touched.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    touched = (
        touched.join(share_alone, on="half", how="left")
        .with_columns(only_here=(pl.col("disturbed") - pl.col("alone").fill_null(0.0)).clip(lower_bound=0.0))
        .with_columns(
            accesses=pl.col("accesses") * pl.col("only_here"),
            accesses_per_op=pl.col("all_per_op") * pl.col("only_here"),
            writes_per_op=pl.col("writes") * pl.col("only_here") / operations,
        )
    )
    lines = _shared_lines(touched).filter(pl.col("accesses_per_op") > _ROUNDING).with_columns(recycled=False)
    touched = touched.join(lines, on="line", how="semi")
    lines = lines.join(_by_layout(touched, operations, PAIR_BYTES, of_pairs=True), on="line")
    found = _with_touching(lines, touched, merge_faint)
    touched = touched.join(found, on="line", how="semi")
    kinds = _halves(touched).join(_kinds(touched, None), on="line")
    nothing = {name: pl.lit([], SCHEMA[name]) for name in ("offsets", "beside")}
    return _described(found, kinds.with_columns(**nothing, false_sharing=False))


_ROUNDING = 1e-9


def _with_touching(lines: pl.DataFrame, touched: pl.DataFrame, merge_faint: bool) -> pl.DataFrame:
    """The lines, most accessed first, with the functions and paths that touch them."""
    found = (
        lines.join(_hottest(touched, "function", "functions", "weights"), on="line")
        .join(_hottest(touched, "path", "paths", "path_weights"), on="line")
        .with_columns(number=pl.lit(1, pl.UInt32))
        .sort("accesses_per_op", "line", descending=[True, False])
    )
    return faint.merged(found) if merge_faint else found


def _described(found: pl.DataFrame, kinds: pl.DataFrame) -> pl.DataFrame:
    """The lines with the kinds of sharing of some."""
    return (
        found.join(kinds, on="line", how="left", maintain_order="left")
        .with_columns(
            pl.col("false_sharing").fill_null(False),
            pl.col("offsets", "sharing", "because", "halves", "beside").fill_null([]),
        )
        .select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    )


def stacks(counts: pl.DataFrame, operations: float, contexts: tuple[str, ...] = CONTEXTS[:1]) -> pl.DataFrame:
    """Paths to the shared cache lines, without recycled ones: a row per context, path and object.

    The columns `accesses_per_op` and `writes_per_op` have the sums that `profile` has. `object` is what
    `profile` calls the line.
    """
    return (
        shared(counts, operations, contexts)
        .group_by("context", "path", "object")
        .agg(pl.col("accesses_per_op", "writes_per_op").sum())
        .sort("context", "path", "object")
    )


def shared(counts: pl.DataFrame, operations: float, contexts: tuple[str, ...] = CONTEXTS[:1]) -> pl.DataFrame:
    """The counts of the shared cache lines, without recycled ones, with what each is per operation.

    `path` has the function at its end, `object` is what `profile` calls the line, and `field` what lies at
    the address.
    """
    touched = _weighted(_numbered(counts, contexts), operations)
    lines = _shared_lines(touched).filter(~pl.col("recycled")).select("line", "object")
    found = touched.rename({"object": "field"}).join(lines, on="line")
    texts = [name for name, kind in found.schema.items() if kind == pl.Enum]
    return found.with_columns(pl.col(texts).cast(pl.String))


def _numbered(counts: pl.DataFrame, contexts: tuple[str, ...]) -> pl.DataFrame:
    """The counts of these contexts with whole paths, and with an enumeration instead of each text.

    There are a million rows and few texts. Grouping and sorting texts as long as paths takes most of the
    time. Values of an enumeration are sorted as their texts are.
    """
    counts = _enumerated(counts.filter(pl.col("context").is_in(contexts)))
    path, function = (pl.col(name).to_physical().cast(pl.UInt64) for name in ("path", "function"))
    way = path * (1 << 32) + function
    ways = counts.select("path", "function", way=way).unique("way")
    whole = pl.concat_str("path", "function", separator=";").str.strip_chars_start(";")
    ways = _enumerated(ways.select("way", path=whole))
    return counts.with_columns(path=way.replace_strict(ways["way"], ways["path"]))


def _enumerated(table: pl.DataFrame) -> pl.DataFrame:
    known = table.select(pl.col(pl.String).unique().drop_nulls().sort().implode())
    return table.with_columns(pl.col(texts.name).cast(pl.Enum(texts[0])) for texts in known)


def _weighted(counts: pl.DataFrame, operations: float) -> pl.DataFrame:
    """The counts with what each is per operation."""
    touched = counts.with_columns(accesses=pl.max_horizontal("reads", "writes"))
    return touched.join(_disturbed(touched), on="line").with_columns(
        (pl.col("writes") * pl.col("disturbed") / operations).alias("writes_per_op"),
        (pl.col("accesses") * pl.col("disturbed") / operations).alias("accesses_per_op"),
        (pl.col("accesses") / operations).alias("all_per_op"),
    )


def _shared_lines(touched: pl.DataFrame) -> pl.DataFrame:
    """One row a line that several CPUs touched and one wrote."""
    return _unnamed_lines(touched).join(called_after(touched, "line"), on="line")


def _unnamed_lines(touched: pl.DataFrame) -> pl.DataFrame:
    by_cpu = touched.group_by("line", "cpu").agg(
        writers=(pl.col("writes") > 0).any(),
        readers=(pl.col("reads") > 0).any(),
        allocating=allocates().any(),
    )
    cpus = (
        by_cpu.group_by("line")
        .agg(pl.col("writers", "readers").sum(), touchers=pl.len(), recycled=pl.col("allocating").all())
        .filter((pl.col("touchers") > 1) & (pl.col("writers") > 0))
    )
    sums = touched.group_by("line").agg(pl.col("writes_per_op", "accesses_per_op", "all_per_op").sum())
    return sums.join(cpus, on="line")


def allocates() -> pl.Expr:
    """Whether a count is of what writes an object when it is allocated."""
    clears = pl.col("function").cast(pl.String).str.contains(kernel_functions.CLEARING_NEW_OBJECTS)
    return (pl.col("writes") > 0) & clears


def called_after(touched: pl.DataFrame, *of: str) -> pl.DataFrame:
    """The field that is written most, `object`, of all counts that have the columns `of` alike.

    An allocator writes all of an object: its writes decide only where there are no others. Reads decide
    only where there are no writes. Of several fields that are nearly as hot it is the first by address; of
    two at one address, as in memory that was allocated again, the first by name.
    """
    fields = touched.group_by(*of, "object").agg(
        written=pl.col("writes").filter(~allocates()).sum(),
        cleared=pl.col("writes").sum(),
        read=pl.col("reads").sum(),
        address=pl.col("address").min(),
    )
    telling = (pl.when(pl.col(heat).max().over(of) > 0).then(heat) for heat in ("written", "cleared", "read"))
    return (
        fields.with_columns(heat=pl.coalesce(*telling))
        .filter(pl.col("heat") >= _NEARLY * pl.col("heat").max().over(of))
        .sort("address", "object")
        .group_by(of, maintain_order=True)
        .agg(pl.col("object").first())
    )


def _by_layout(
    touched: pl.DataFrame, operations: float, line_bytes: int, of_pairs: bool = False
) -> pl.DataFrame:
    """What of a line's accesses depends on where objects lie in their slab, and whether the rest is even.

    Objects of a slab begin anywhere in a line, unless their distance is a multiple of its length. Then an
    access is shared wherever its object lies only if it is to a byte that several CPUs touch and one writes.
    No access to a pair is, as what lies beside what shares its lines.
    """
    anywhere = (pl.col("start") > 0) & (pl.col("stride") % line_bytes != 0)
    touched = touched.with_columns(
        movable=anywhere.any().over("line"), block=pl.col("address") - pl.col("address") % 64
    )
    shared = _shared_bytes(touched.filter("movable" if not of_pairs else pl.lit(False)))
    kept = touched.join(shared, on=["line", "block"], how="left").with_columns(
        by_layout=pl.col("movable") & (pl.col("bytes") & pl.col("shared").fill_null(0) == 0)
    )
    sums = kept.group_by("line").agg(
        pl.col("movable").first(),
        layout_writes_per_op=pl.col("writes_per_op").filter("by_layout").sum(),
        layout_accesses_per_op=pl.col("accesses_per_op").filter("by_layout").sum(),
    )
    rest = kept.filter(~pl.col("by_layout"))
    even = spread.even(rest, ["line"], "accesses", touched["cpu"].n_unique(), operations)
    return sums.join(even, on="line", how="left").with_columns(pl.col("even").fill_null(False))


def _shared_bytes(touched: pl.DataFrame) -> pl.DataFrame:
    """Of each 64-byte block of a line the bytes that several CPUs touch and one writes, a bit each."""
    masks = touched.group_by("line", "block", "cpu").agg(
        touched=pl.col("bytes").bitwise_or(),
        written=pl.col("bytes").filter(pl.col("writes") > 0).bitwise_or().fill_null(0),
    )
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    for line, block, _, mask, writes in masks.iter_rows():
        once, twice, written = found.get((line, block), (0, 0, 0))
        found[line, block] = once | mask, twice | once & mask, written | writes
    return pl.DataFrame(
        [(line, block, twice & written) for (line, block), (_, twice, written) in found.items()],
        {"line": pl.UInt64, "block": pl.UInt64, "shared": pl.UInt64},
        orient="row",
    )


def _beside(touched: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """For each line the fields that it is not called after, hottest first, and who touches them."""
    by_field = ["line", "object"]
    # Sums are made in any order: what is equally hot would be in another order each time.
    sums = pl.col("accesses_per_op", "writes_per_op").sum().round(9)
    others = touched.filter(~allocates()).join(lines, on=by_field, how="anti")
    functions = (
        others.group_by(*by_field, "function")
        .agg(sums)
        .sort("accesses_per_op", "function", descending=[True, False])
        .group_by(by_field, maintain_order=True)
        .agg(functions="function")
    )
    return (
        others.group_by(by_field)
        .agg(sums)
        .join(functions, on=by_field)
        .sort("accesses_per_op", "object", descending=[True, False])
        .group_by("line", maintain_order=True)
        .agg(beside=pl.struct("object", "accesses_per_op", "writes_per_op", "functions"))
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
        # Sums are made in any order: what is equally hot would be in another order each time.
        .agg(weight=pl.col("accesses_per_op").sum().round(9))
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
    offsets: dict[tuple[int, int], int] = {}
    apart = masks.join(lines.filter("false_sharing"), on="line")
    for line, block_at, cpu, mask in apart.select("line", "block", "cpu", "mask").sort("cpu").iter_rows():
        offsets[line, cpu] = offsets.get((line, cpu), 0) | mask << (block_at - line)
    named = pl.DataFrame(
        [(line, cpu, ranges(mask)) for (line, cpu), mask in offsets.items()],
        {"line": pl.UInt64, "cpu": pl.UInt32, "bytes": pl.String},
        orient="row",
    )
    return lines.join(
        named.group_by("line", maintain_order=True).agg(offsets=pl.struct("cpu", "bytes")),
        on="line",
        how="left",
    ).with_columns(pl.col("offsets").fill_null([]))


def ranges(mask: int) -> str:
    """The bits of a mask as ranges of their numbers: bytes, or CPUs.

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


def _halves(touched: pl.DataFrame) -> pl.DataFrame:
    """Of each pair its two lines: what lies there, and which bytes which CPUs touched."""
    objects = called_after(touched, "line", "half")
    masks = touched.group_by("line", "half", "cpu").agg(
        writes=pl.col("writes").sum() > 0, mask=pl.col("bytes").bitwise_or()
    )
    # CPUs that did the same to the same bytes of a line are one entry: their numbers, a bit each.
    cpus_of: dict[tuple[int, int, bool, int], int] = {}
    for line, half, cpu, writes, mask in masks.sort("line", "half", "cpu").iter_rows():
        cpus_of[line, half, writes, mask] = cpus_of.get((line, half, writes, mask), 0) | 1 << cpu
    touched_by = pl.DataFrame(
        [
            (line, half, ranges(cpus), writes, ranges(mask << (half - line)))
            for (line, half, writes, mask), cpus in cpus_of.items()
        ],
        {"line": pl.UInt64, "half": pl.UInt64, "cpus": pl.String, "writes": pl.Boolean, "bytes": pl.String},
        orient="row",
    )
    return (
        touched_by.group_by("line", "half", maintain_order=True)
        .agg(touched=pl.struct("cpus", "writes", "bytes"))
        .join(objects, on=["line", "half"], maintain_order="left")
        .group_by("line", maintain_order=True)
        .agg(halves=pl.struct("object", "touched"))
    )


def _kinds(touched: pl.DataFrame, false_sharing: pl.DataFrame | None) -> pl.DataFrame:
    """The kind of sharing of each line, and the evidence for it; of pairs, without `false_sharing`."""
    apart = set() if false_sharing is None else set(false_sharing.filter("false_sharing")["line"])
    written = (
        touched.with_columns(accesses=pl.max_horizontal("reads", "writes").sum().over("line"))
        .filter(pl.col("writes") > 0)
        .group_by("line", "accesses", "object", "types", "function", maintain_order=True)
        .agg(pl.col("writes").sum())
        .sort("line", maintain_order=True)
    )
    rows = []
    for (line, accesses), of_line in groupby(written.iter_rows(), itemgetter(0, 1)):
        fields = [Written(*field) for _, _, *field in of_line]
        kinds = in_pair(fields) if false_sharing is None else sharing(fields, accesses, line in apart)
        rows.append((line, list(kinds), list(kinds.values())))
    names = ("line", "sharing", "because")
    return pl.DataFrame(rows, schema={name: SCHEMA[name] for name in names}, orient="row")
