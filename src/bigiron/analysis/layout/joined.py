"""Joins what the recorder took apart every 64 bytes: at another place, cache lines end elsewhere."""

from __future__ import annotations

from bigiron.util.lazy import polars as pl

_BLOCK = 64  # the unit of counting, a cache line or on POWER half of one: plugin/cache_lines/lines.h
_WHOLE = (1, 2, 4, 8)  # bytes that one access of the kernel has, unless it copies or fills memory


def joined(accesses: pl.DataFrame) -> pl.DataFrame:
    """The accesses with those in one piece that an instruction made to bytes of two blocks.

    `accesses` has `cpu`, `context`, `pc`, `chain`, `start` (of the object), `address`, `length` (bytes, in
    one block), `reads` and `writes`. Two pieces are one access if they were made equally often and if
    together they are as long as an access is, or if one of them is of another length, as only pieces of a
    copy or a fill are. An access counts once for each cache line that it touches, whole or not.
    """
    of_one = ["cpu", "context", "pc", "chain", "start"]
    end = pl.col("address") + pl.col("length")
    before = {name: pl.col(name).shift(1) for name in (*of_one, "reads", "writes", "length")}
    together = pl.col("length") + before["length"]
    of_string = ~pl.col("length").is_in(_WHOLE) | ~before["length"].is_in(_WHOLE)
    goes_on = pl.all_horizontal(
        *(pl.col(name) == before[name] for name in (*of_one, "reads", "writes")),
        end.shift(1) == pl.col("address"),
        pl.col("address") % _BLOCK == 0,
        together.is_in(_WHOLE) | of_string,
    ).fill_null(False)
    return (
        accesses.sort(*of_one, "address", "length")
        .with_columns(piece=(~goes_on).cum_sum())
        .group_by("piece", *of_one, maintain_order=True)
        .agg(
            pl.col("address", "line", "function", "reads", "writes").first(),
            pl.col("length").sum(),
        )
        .drop("piece")
    )
