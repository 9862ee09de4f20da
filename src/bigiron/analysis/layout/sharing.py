"""How many accesses per operation share a cache line, where objects and their members lie at given places.

It is counted as lines/conflicts.py counts: of a line that several CPUs touch and one writes, as many accesses
as the others can have disturbed. So a study's own count comes out where everything lies as recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

from bigiron.analysis.layout.alignment import PAIR
from bigiron.analysis.layout.neighbourhoods import Pieces
from bigiron.analysis.layout.structure import Structures, moved
from bigiron.util.lazy import Floats, Integers, Mask
from bigiron.util.lazy import numpy as np


@dataclass(frozen=True)
class Shared:
    """Accesses per operation to the shared cache lines of each target, and to those shared as a pair only."""

    lines: Floats
    pairs: Floats


class Placed:
    """Pieces with the bytes of each struct where they lie after a change. `known`: before it."""

    def __init__(
        self, pieces: Pieces, known: Structures, after: Structures, strides: Integers, line_bytes: int
    ) -> None:
        """`strides`: bytes from each target to the next object."""
        self._pieces = pieces
        self._line_bytes = line_bytes
        self._pair_lines = max(1, PAIR // line_bytes)
        maps = [_map(known, after, *one) for one in zip(pieces.structs, pieces.rooms, strict=True)]
        begin = np.concatenate([*maps, np.zeros(0, np.int64)])
        far = max(int(np.abs(pieces.slot * strides[pieces.target]).max(initial=0)), 0)
        self._begin = begin[pieces.at] + (pieces.slot * strides[pieces.target])[pieces.access]
        self._begin += -(-far // PAIR) * PAIR + PAIR  # nothing lies below 0

    def shared(self, residues: Integers, operations: float, pairs: bool = True) -> Shared:
        """Where each target begins so many bytes after a multiple of PAIR. Without `pairs` these are 0."""
        lines = self._lines(residues)
        return _TargetLines(self._pieces, *lines, self._pair_lines).shared(operations, pairs)

    def _lines(self, residues: Integers) -> tuple[Integers, Integers]:
        """Numbers of accesses and the cache lines that they touch, each once."""
        pieces, size = self._pieces, self._line_bytes
        begin = self._begin + residues[pieces.target][pieces.access]
        first, last = begin // size, (begin + np.maximum(pieces.length, 1) - 1) // size
        if (first == last).all():
            access, line = pieces.access, first
        else:
            many = last - first + 1
            access = np.repeat(pieces.access, many)
            line = np.repeat(first, many) + np.arange(len(access)) - np.repeat(np.cumsum(many) - many, many)
        several = np.bincount(access)[access] > 1
        if not several.any():
            return access, line
        most = int(line.max(initial=0)) + 1
        both = np.sort((access * most + line)[several])
        both = both[np.concatenate([[True], both[1:] != both[:-1]])]
        alone = ~several
        return np.concatenate([access[alone], both // most]), np.concatenate([line[alone], both % most])


def _map(known: Structures, after: Structures, name: str, room: int) -> Integers:
    """Where each byte of a struct lies, and what is in its object after it."""
    if name not in known:
        return np.arange(room)
    if known[name] == after[name]:
        return np.arange(room)
    places = np.array(moved(known, after, name), np.int64)
    rest = np.arange(len(places), room) + after[name].bytes - known[name].bytes
    return np.concatenate([places, rest])[:room]


class _TargetLines:
    """The cache lines of all targets: a dense number for each, its row in tables by CPU."""

    def __init__(self, pieces: Pieces, access: Integers, line: Integers, pair_lines: int) -> None:
        self._pieces = pieces
        self._access = access
        self._pair_lines = pair_lines
        most = (int(line.max(initial=0)) // pair_lines + 1) * pair_lines
        self._row = pieces.target[access] * most + line
        self._rows = len(pieces.targets) * most
        self._targets = len(pieces.targets)

    def _by_cpu(self, chosen: slice | Mask, weights: Floats | None) -> Floats:
        cpu = self._pieces.cpu[self._access]
        key = (self._row * self._pieces.cpus + cpu)[chosen]
        sums = np.bincount(key, weights, self._rows * self._pieces.cpus)
        return np.asarray(sums, np.float64).reshape(self._rows, self._pieces.cpus)

    def _counts(self) -> tuple[Floats, Floats]:
        """Accesses to each line by CPU; and those that are the target's own."""
        pieces, access = self._pieces, self._access
        plain = pieces.copies[access] < 0
        count = np.where(plain, pieces.count[access], 0.0)
        own = pieces.slot[access] == 0
        by_cpu = self._by_cpu(slice(None), count)
        mine = np.bincount(self._row, np.where(own, count, 0.0), self._rows).astype(np.float64)
        if plain.all():
            return by_cpu, mine
        # Of a copy the line that it reads and writes is accessed once.
        of = np.flatnonzero(~plain)
        keys = np.stack(
            [self._row[of], pieces.cpu[access[of]], pieces.copies[access[of]], pieces.slot[access[of]]]
        )
        same, number = np.unique(keys, axis=1, return_inverse=True)
        number = number.reshape(-1)
        reads, writes = (np.bincount(number, one[access[of]], same.shape[1]) for one in pieces.copied)
        once = np.maximum(reads, writes)
        np.add.at(by_cpu, (same[0], same[1]), once)
        np.add.at(mine, same[0], np.where(same[3] == 0, once, 0.0))
        return by_cpu, mine

    def shared(self, operations: float, pairs: bool) -> Shared:
        by_cpu, mine = self._counts()
        access, pieces = self._access, self._pieces
        touched = self._by_cpu(slice(None), None) > 0
        written = np.bincount(self._row, pieces.writes[access], self._rows) > 0
        clears = self._by_cpu(pieces.clears[access], None) > 0
        shared = (touched.sum(1) > 1) & written
        kept = ~(shared & (clears.sum(1) == touched.sum(1)))  # else recycled
        alone = np.where(kept, _disturbed(by_cpu, shared), 0.0)
        found = self._of_targets(mine * alone) / operations
        if self._pair_lines == 1 or not pairs:
            return Shared(found, np.zeros_like(found))
        touched_at_all = touched.any(1)
        by_pair, touch = (_pairs(np.where(kept[:, None], one, 0)) for one in (by_cpu, touched))
        both = (touched_at_all & kept).reshape(-1, 2).all(1)
        shared = both & ((touch > 0).sum(1) > 1) & (_pairs(written & kept) > 0)
        only = np.clip(np.repeat(_disturbed(by_pair, shared), 2) - alone, 0.0, None)
        return Shared(found, self._of_targets(np.where(kept, mine * only, 0.0)) / operations)

    def _of_targets(self, values: Floats) -> Floats:
        if not self._targets:
            return np.zeros(0)
        return np.asarray(values.reshape(self._targets, -1).sum(1), np.float64)


def _pairs(values: Floats) -> Floats:
    """The sums of each two lines."""
    return np.asarray(values.reshape(-1, 2, *values.shape[1:]).sum(1))


def _disturbed(by_cpu: Floats, shared: Mask) -> Floats:
    """The share of a line's accesses that can have followed one of another CPU; 0 where it is not shared."""
    all, most = by_cpu.sum(1), by_cpu.max(1, initial=0.0)
    shared = shared & (all > 0)
    return np.where(shared, np.minimum(1.0, 2 * (all - most) / np.where(shared, all, 1.0)), 0.0)
