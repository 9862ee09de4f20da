"""What was recorded of all objects of one struct, or of a variable and the variables beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bigiron.analysis.layout.alignment import PAIR
from bigiron.analysis.layout.neighbourhoods import CountedObject, Pieces, counted, neighbourhoods
from bigiron.analysis.layout.structure import Field, Structure, Unit, as_it_is, holders, structures
from bigiron.errors import UserError
from bigiron.util.english import first_n
from bigiron.util.lazy import polars as pl
from bigiron.util.numbers import count

_STRUCT = "struct "
_MOST_NAMED = 8


@dataclass(frozen=True)
class Tables:
    """The tables of the probe layout in one cell, in the contexts asked for (tables.py)."""

    accesses: pl.DataFrame
    objects: pl.DataFrame
    fields: pl.DataFrame
    operations: float
    line_bytes: int
    elsewhere: float = 0.0  # accesses per operation to other memory, in all contexts

    @property
    def left_out(self) -> str:
        """The accesses that the tables do not have; "" if there are none or their number is not known."""
        if not self.elsewhere:
            return ""
        return (
            f"{count(self.elsewhere)} accesses per operation to other memory, in all contexts, were left out"
        )


@dataclass(frozen=True)
class RecordedObjects:
    """The objects, and the accesses to them and to what lies beside them."""

    wanted: str  # the struct or variable
    is_variable: bool
    structure: Structure  # of it; of a variable the memory around it, whose members are variables
    known: Mapping[str, Structure]  # all structs
    bases: Mapping[str, tuple[int, ...]]  # where wanted ones begin in each struct that has any
    pieces: Pieces  # of those that may be shared
    accesses: pl.DataFrame  # all of all objects, with `struct` and `offset` (in the object)
    objects: int  # that were accessed
    operations: float
    line_bytes: int


def find(tables: Tables, wanted: str) -> RecordedObjects:
    """What was recorded of a struct (`struct inode`) or variable (`jiffies`). UserError if nothing was."""
    known = structures(tables.fields)
    if (
        not wanted.startswith(_STRUCT)
        and not tables.objects.filter(pl.col("name") == wanted, pl.col("kind") != "slab").is_empty()
    ):
        return _around_variable(tables, known, wanted)
    name = wanted.removeprefix(_STRUCT)
    bases = {holder: tuple(sorted(set(places))) for holder, places in holders(known, name).items()}
    objects = tables.objects.filter(pl.col("struct").is_in(list(bases)))
    if objects.is_empty():
        raise UserError(_unknown(tables, wanted))
    targets = [
        CountedObject(*row)
        for row in objects.select(
            "start", "struct", "detail", "cache", "stride", "pad", "cache_align", "per_slab", "name"
        ).iter_rows()
    ]
    struct_at = dict(tables.objects.select("start", "struct").iter_rows())
    return RecordedObjects(
        name,
        False,
        known[name],
        known,
        bases,
        neighbourhoods(counted(tables.accesses), targets, struct_at, known, PAIR - 1),
        _with_offsets(tables.accesses.join(objects, on="start", how="inner")),
        tables.accesses["start"]
        .filter(tables.accesses["start"].is_in(objects["start"].to_list()))
        .n_unique(),
        tables.operations,
        tables.line_bytes,
    )


def _with_offsets(accesses: pl.DataFrame) -> pl.DataFrame:
    return accesses.filter(pl.col("address") >= pl.col("start")).with_columns(
        offset=(pl.col("address") - pl.col("start")).cast(pl.Int64)
    )


def _unknown(tables: Tables, wanted: str) -> str:
    touched = (
        tables.accesses.join(tables.objects.filter(pl.col("struct") != ""), on="start")
        .group_by("struct")
        .agg(pl.len())
        .sort("len", "struct", descending=[True, False])["struct"]
        .to_list()
    )
    there = first_n([f"'struct {name}'" for name in touched], _MOST_NAMED)
    return (
        f"{wanted!r}: no accesses to it were recorded; layout records slab objects whose type is known, here "
        f"{there or 'none'}, and variables, by their names{tables.left_out and f'; {tables.left_out}'}"
    )


def _around_variable(tables: Tables, known: Mapping[str, Structure], wanted: str) -> RecordedObjects:
    """The cache lines of a variable, or of each CPU's, as an object whose members are variables."""
    name = f"around {wanted}"  # no struct's: a variable may be called as its own struct is
    copies = tables.objects.filter(pl.col("name") == wanted, pl.col("kind") != "slab").sort("start")
    blocks = {
        start: (start - start % PAIR, start + size) for start, size in copies["start", "bytes"].iter_rows()
    }
    inside: dict[int, tuple[str, int, int, str]] = {}
    moved_accesses, targets = [], []
    for begin, last in blocks.values():
        end = last + -last % PAIR
        there = tables.objects.filter(
            pl.col("kind") != "slab", pl.col("start") < end, pl.col("start") + pl.col("bytes") > begin
        )
        for start, size, called, struct in there.select("start", "bytes", "name", "struct").iter_rows():
            at, to = max(start, begin) - begin, min(start + size, end) - begin
            inside[at] = max(
                inside.get(at, ("", 0, 0, "")), (called, at, to - at, struct if start >= begin else "")
            )
        of_block = tables.accesses.filter(pl.col("address").is_between(begin, end, closed="left"))
        moved_accesses.append(of_block.with_columns(start=pl.lit(begin, pl.UInt64)))
        targets.append(CountedObject(begin, name, "", "", 0, 0, 0, 0, wanted))
    whole = max(end - begin for begin, end in blocks.values())
    around = _of_variables(
        name, whole + -whole % PAIR, sorted(inside.values(), key=lambda one: one[1]), tables.line_bytes
    )
    accesses = pl.concat(moved_accesses)
    everything = {**known, name: around}
    return RecordedObjects(
        wanted,
        True,
        around,
        everything,
        {name: (0,)},
        neighbourhoods(
            counted(accesses),
            targets,
            dict.fromkeys((one.start for one in targets), name),
            everything,
            PAIR - 1,
        ),
        _with_offsets(accesses).with_columns(struct=pl.lit(name), detail=pl.lit("")),
        accesses["start"].n_unique(),
        tables.operations,
        tables.line_bytes,
    )


def _of_variables(
    name: str, size: int, inside: list[tuple[str, int, int, str]], line_bytes: int
) -> Structure:
    return as_it_is(name, size, PAIR, list(_units(inside, line_bytes)))


def _units(inside: list[tuple[str, int, int, str]], line_bytes: int) -> Iterator[Unit]:
    aligns = [line_bytes >> less for less in range(line_bytes.bit_length())]
    for number, (name, at, size, struct) in enumerate(inside):
        align = next(align for align in aligns if at % align == 0 and align <= max(size, 1))
        type = f"struct {struct}" if struct else "char" if size == 1 else f"char [{size}]"
        yield Unit(number, (Field(name, 0, size, type, struct),), at, size, align)
