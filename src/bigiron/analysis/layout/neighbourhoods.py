"""The accesses to each object and to what may lie in a cache line with it, as arrays that can be laid out.

An object's neighbourhood is the object and those of its slab beside it, as far as they may reach into one of
its cache lines. Accesses are in pieces, each within one member, so that each piece stays together whatever
is moved. No order of accesses is kept: a conflict is counted by how often each CPU accesses a cache line
(lines/conflicts.py), not by when.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bigiron.analysis.layout.structure import Structures, boundaries
from bigiron.analysis.lines import conflicts
from bigiron.util.lazy import Floats, Integers, Mask
from bigiron.util.lazy import numpy as np
from bigiron.util.lazy import polars as pl


@dataclass(frozen=True)
class CountedObject:
    """An object whose accesses are counted."""

    start: int
    struct: str  # of all of it
    detail: str  # what tells it from others: `tmpfs directory`
    cache: str  # empty: it is a variable, whose place the linker chose
    stride: int
    pad: int
    cache_align: int
    per_slab: int
    name: str = ""  # of a variable


@dataclass(frozen=True)
class Pieces:
    """Accesses by neighbourhood. Each access has one piece or more.

    Of a piece: `access`, its number; `at`, its place in the concatenated maps of all structs; its `length`.
    Of an access: `target`, a number; `slot`, how many objects further it is than the target; `cpu`; `count`,
    how often; whether it `writes`; whether it `clears` a new object.
    """

    targets: tuple[CountedObject, ...]
    structs: tuple[str, ...]  # in the order of the maps; "": unknown ones, which never change
    rooms: tuple[int, ...]  # bytes of each map
    cpus: int
    access: Integers
    at: Integers
    length: Integers
    target: Integers
    slot: Integers
    cpu: Integers
    count: Floats
    writes: Mask
    clears: Mask
    copies: Integers  # of a copy within an object, of which each line counts once: its number; -1: of none
    copied: tuple[Floats, Floats]  # its reads and writes

    def starts(self) -> list[int]:
        """Where each struct's map begins."""
        return [sum(self.rooms[:number]) for number in range(len(self.rooms))]

    def of_targets(self, chosen: Sequence[int]) -> Pieces:
        """The neighbourhoods of some targets alone."""
        number = np.full(len(self.targets), -1)
        number[list(chosen)] = np.arange(len(chosen))
        kept = number[self.target] >= 0
        renumbered = np.cumsum(kept) - 1
        pieces = kept[self.access]
        return Pieces(
            tuple(self.targets[one] for one in chosen),
            self.structs,
            self.rooms,
            self.cpus,
            renumbered[self.access[pieces]],
            self.at[pieces],
            self.length[pieces],
            number[self.target[kept]],
            self.slot[kept],
            self.cpu[kept],
            self.count[kept],
            self.writes[kept],
            self.clears[kept],
            self.copies[kept],
            (self.copied[0][kept], self.copied[1][kept]),
        )


def counted(accesses: pl.DataFrame) -> pl.DataFrame:
    """How often each range of bytes of an object is accessed by a CPU: columns as in `Pieces`, and `start`.

    An instruction that reads and writes a cache line at once counts once there, as in lines/conflicts.py. It
    is nearly always one access to the same bytes. Of one that copies within an object both are kept apart,
    as whether they lie in one line depends on the layout: `copies` is its number then.
    """
    of_one = ["start", "cpu", "pc", "chain"]
    both = ((pl.col("reads") > pl.col("writes")).any() & (pl.col("writes") > pl.col("reads")).any()).over(
        of_one
    )
    marked = accesses.filter(pl.col("address") >= pl.col("start")).with_columns(
        offset=(pl.col("address") - pl.col("start")).cast(pl.Int64),
        clears=conflicts.allocates(),
        copies=pl.when(both)
        .then(pl.col("pc").rank("dense").cast(pl.Int64) * (1 << 32) + pl.col("chain"))
        .otherwise(-1),
    )
    many = pl.max_horizontal("reads", "writes")
    keys = ["start", "offset", "length", "cpu", "clears", "copies", pl.col("writes") > 0]
    return (
        marked.group_by(keys)
        .agg(
            count=many.sum().cast(pl.Float64),
            read=pl.col("reads").sum().cast(pl.Float64),
            written=pl.col("writes").sum().cast(pl.Float64),
        )
        .sort("start", "offset", "length", "cpu", "copies", "clears", "writes")
    )


def neighbourhoods(
    counts: pl.DataFrame,
    targets: Sequence[CountedObject],
    struct_at: Mapping[int, str],
    known: Structures,
    reach: int,
) -> Pieces:
    """Of these targets those that several CPUs touch, or of which several touch what lies beside them.

    `counts` is made by `counted`; `struct_at` has the struct of each object by its start; `reach` is the
    length of two adjacent cache lines in bytes.
    """
    starts, first, many = np.unique(counts["start"].to_numpy(), return_index=True, return_counts=True)
    rows_of = dict(zip(starts.tolist(), zip(first.tolist(), many.tolist(), strict=True), strict=True))
    cpu, writes = counts["cpu"].to_numpy().astype(np.int64), counts["writes"].to_numpy()
    kept: list[CountedObject] = []
    index, target_of, slot_of = [], [], []
    for target in targets:
        near = [(slot, *rows_of[at]) for slot, at in _slots(target, reach) if at in rows_of]
        rows = np.concatenate([np.arange(at, at + n) for _, at, n in near]) if near else np.arange(0)
        if len(np.unique(cpu[rows])) < 2 or not writes[rows].any() or target.start not in rows_of:
            continue
        index.append(rows)
        slot_of.append(np.repeat([slot for slot, *_ in near], [n for *_, n in near]))
        target_of.append(np.full(len(rows), len(kept)))
        kept.append(target)
    rows = np.concatenate(index) if index else np.arange(0)
    chosen = counts[rows]
    pieces = _Splitter(
        known, [struct_at.get(start, "") for start in chosen["start"].to_list()], chosen
    ).split()
    return Pieces(
        tuple(kept),
        *pieces,
        np.concatenate(target_of) if index else rows,
        np.concatenate(slot_of) if index else rows,
        chosen["cpu"].to_numpy().astype(np.int64),
        chosen["count"].to_numpy(),
        chosen["writes"].to_numpy(),
        chosen["clears"].to_numpy(),
        chosen["copies"].to_numpy(),
        (chosen["read"].to_numpy(), chosen["written"].to_numpy()),
    )


def _slots(target: CountedObject, reach: int) -> Iterator[tuple[int, int]]:
    """How much further each object is that may share a cache line, and where it starts."""
    beside = -(-reach // target.stride) if target.stride else 0
    return ((slot, target.start + slot * target.stride) for slot in range(-beside, beside + 1))


class _Splitter:
    """Cuts accesses where a member ends."""

    def __init__(self, known: Structures, structs: Sequence[str], rows: pl.DataFrame) -> None:
        self._known = known
        self._names = tuple(sorted(set(structs)))
        number = {name: at for at, name in enumerate(self._names)}
        self._struct = np.array([number[name] for name in structs], np.int64)
        self._offset = rows["offset"].to_numpy()
        self._length = rows["length"].to_numpy().astype(np.int64)
        self._cpus = int(rows["cpu"].to_numpy().max(initial=0)) + 1

    def split(self) -> tuple[tuple[str, ...], tuple[int, ...], int, Integers, Integers, Integers]:
        """Structs, the room of the map of each, CPUs, and of each piece its access, place and length."""
        access, at, length = [], [], []
        rooms: list[int] = []
        for number, name in enumerate(self._names):
            mine = np.flatnonzero(self._struct == number)
            ends = self._offset[mine] + self._length[mine]
            known = self._known.get(name)
            cuts = np.array(boundaries(self._known, name) if known else [], np.int64)
            of, begin, end = _cut(self._offset[mine], ends, cuts)
            access.append(mine[of])
            at.append(begin + sum(rooms))
            length.append(end - begin)
            rooms.append(max(int(ends.max(initial=0)), known.bytes if known else 0))
        if not access:
            none = np.arange(0)
            return (), (), self._cpus, none, none, none
        order = np.argsort(np.concatenate(access), kind="stable")
        of, begins, lengths = (np.concatenate(one)[order] for one in (access, at, length))
        return self._names, tuple(rooms), self._cpus, of, begins, lengths


def _cut(begin: Integers, end: Integers, cuts: Integers) -> tuple[Integers, Integers, Integers]:
    """Ranges cut at these places: the number of each piece's range, its begin and its end."""
    first = np.searchsorted(cuts, begin, "right")
    many = np.searchsorted(cuts, end, "left") - first + 1
    of = np.repeat(np.arange(len(begin)), many)
    place = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many) + first[of]
    padded = np.concatenate([cuts, [np.iinfo(np.int64).max]])
    before = np.concatenate([[0], cuts])
    return of, np.maximum(begin[of], before[place]), np.minimum(end[of], padded[place])
