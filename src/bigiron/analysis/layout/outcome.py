"""What a layout costs: accesses to shared cache lines, as recorded and at each place an object can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from bigiron.analysis.layout.alignment import PAIR, places, stride_after
from bigiron.analysis.layout.change import Change, changed
from bigiron.analysis.layout.neighbourhoods import Pieces
from bigiron.analysis.layout.recorded import RecordedObjects
from bigiron.analysis.layout.sharing import Placed
from bigiron.analysis.layout.structure import Structure, Structures, within
from bigiron.util.lazy import Floats
from bigiron.util.lazy import numpy as np

_SAME = 0.05  # relative difference of accesses to the same cache lines on two boots
_EXACT = 0.002  # of what two boots predict for objects at the same places (docs/validation/layout.md)


@dataclass(frozen=True)
class At:
    """The objects of one cache at one place in a cache line. Counts are accesses per operation."""

    place: int  # bytes from the start of a cache line to the first struct in an object
    chance: float  # that an object lies there
    recorded: int  # objects that did
    lines: float  # to shared cache lines, if all objects lay there
    pairs: float  # to lines that are shared only with the adjacent line


@dataclass(frozen=True)
class LayoutCounts:
    """Accesses per operation: as recorded, with each object at its best place, at its worst, on average."""

    recorded: float | None  # None: after a change of the objects' size they lie elsewhere
    best: float
    worst: float
    expected: float
    spread: float = 0.0  # of `expected`, between boots of one kernel: the most less the least

    @classmethod
    def mean(cls, boots: Sequence[LayoutCounts]) -> LayoutCounts:
        """Of several boots of one kernel.

        >>> LayoutCounts.mean([LayoutCounts(2, 1, 9, 4), LayoutCounts(8, 1, 9, 5)])
        LayoutCounts(recorded=5.0, best=1.0, worst=9.0, expected=4.5, spread=1)
        """
        recorded = [one.recorded for one in boots if one.recorded is not None]
        expected = [one.expected for one in boots]
        return cls(
            fmean(recorded) if recorded else None,
            fmean(one.best for one in boots),
            fmean(one.worst for one in boots),
            fmean(expected),
            max(expected) - min(expected),
        )

    @property
    def varies(self) -> bool:
        """Whether the places of the objects decide more than boots of one kernel differ by."""
        return self.worst - self.best > _SAME * self.worst

    def can_be(self, count: float) -> bool:
        """Whether the places decide, and objects can lie so that there are as many accesses as this."""
        return self.varies and self.best * (1 - _SAME) <= count <= self.worst * (1 + _SAME)

    def more_than(self, other: LayoutCounts) -> float:
        """How many more accesses there are on average; 0 if two boots of one kernel may differ as much."""
        more = self.expected - other.expected
        by_chance = max(_EXACT * max(self.expected, other.expected), self.spread, other.spread)
        return more if abs(more) > by_chance else 0.0


class LayoutOutcome:
    """A layout: that of the study, or one after changes of the struct's declaration."""

    def __init__(
        self, recorded: RecordedObjects, changes: Sequence[Change] = (), tried_on: Pieces | None = None
    ) -> None:
        """`tried_on`: the neighbourhoods of some objects, of which only lines are counted, not pairs."""
        self._recorded = recorded
        self._span = PAIR if tried_on is None else recorded.line_bytes
        self._pieces = recorded.pieces if tried_on is None else tried_on
        self.changes = tuple(changes)
        self.structure: Structure = changed(recorded.structure, changes)
        self._after: Structures = within(recorded.known, self.structure, recorded.bases)
        targets = self._pieces.targets
        self._strides = np.array(
            [stride_after(one, recorded.known, self._after) for one in targets], np.int64
        )
        self._placed = Placed(self._pieces, recorded.known, self._after, self._strides, recorded.line_bytes)
        strides = self._strides.tolist()
        self._chances = [places(*one, self._span) for one in zip(targets, strides, strict=True)]

    @property
    def bytes(self) -> int:
        """Of the struct."""
        return self.structure.bytes

    @cached_property
    def objects_grow(self) -> int:
        """Bytes by which the distance between objects grew, in the cache where it grew most."""
        before = np.array([one.stride for one in self._pieces.targets], np.int64)
        return int((self._strides - before).max(initial=0))

    @cached_property
    def _all(self) -> list[int]:
        return sorted({place for chances in self._chances for place in chances})

    @cached_property
    def _tables(self) -> tuple[Floats, Floats, Floats]:
        """Of each target and place: accesses to shared lines, to pairs, and the chance of the place."""
        shape = len(self._pieces.targets), len(self._all)
        lines, pairs, chances = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for number, place in enumerate(self._all):
            chances[:, number] = [one.get(place, 0.0) for one in self._chances]
            everywhere = np.full(shape[0], place, np.int64)
            found = self._placed.shared(everywhere, self._recorded.operations, self._span == PAIR)
            lines[:, number], pairs[:, number] = found.lines, found.pairs
        return lines, pairs, chances

    @cached_property
    def as_recorded(self) -> tuple[Floats, Floats] | None:
        """Of each target where the study had it; None where the layout has objects of another size."""
        targets = self._pieces.targets
        if self._strides.tolist() != [one.stride for one in targets]:
            return None
        residues = np.array([one.start % PAIR for one in targets], np.int64)
        found = self._placed.shared(residues, self._recorded.operations)
        return found.lines, found.pairs

    @cached_property
    def expected(self) -> float:
        """Accesses per operation to shared cache lines, on average over the places of each object."""
        lines, _, chances = self._tables
        return float((lines * chances).sum())

    @cached_property
    def lines(self) -> LayoutCounts:
        """Of shared cache lines."""
        return self._counts(0)

    @cached_property
    def pairs(self) -> LayoutCounts:
        """Of cache lines that are shared only with the adjacent line."""
        return self._counts(1)

    def _counts(self, of: int) -> LayoutCounts:
        values, chances = self._tables[of], self._tables[2]
        possible = chances > 0
        recorded = None if self.as_recorded is None else float(self.as_recorded[of].sum())
        if not len(values):
            return LayoutCounts(recorded, 0.0, 0.0, 0.0)
        return LayoutCounts(
            recorded,
            float(np.where(possible, values, np.inf).min(1).sum()),
            float(np.where(possible, values, 0.0).max(1).sum()),
            float((values * chances).sum()),
        )

    def by_target(self) -> Floats:
        """Accesses per operation to shared cache lines of each target at its worst place."""
        lines, _, chances = self._tables
        return np.asarray(np.where(chances > 0, lines, 0.0).max(1, initial=0.0))

    def places(self) -> Mapping[tuple[str, int], list[At]]:
        """By cache and distance of its objects: each place in a cache line that an object can have."""
        found: dict[tuple[str, int], list[int]] = {}
        for number, target in enumerate(self._pieces.targets):
            if target.cache:
                found.setdefault((target.cache, int(self._strides[number])), []).append(number)
        return {cache: self._places(numbers) for cache, numbers in found.items()}

    def _places(self, numbers: list[int]) -> list[At]:
        lines, pairs, chances = (table[numbers] for table in self._tables)
        size = self._recorded.line_bytes
        targets = [self._pieces.targets[number] for number in numbers]
        bases = np.array([self._recorded.bases[target.struct][0] for target in targets])
        found = []
        where = (np.array(self._all)[None, :] + bases[:, None]) % size
        now = [(target.start + base) % size for target, base in zip(targets, bases.tolist(), strict=True)]
        for place in np.unique(where[chances > 0]).tolist():
            weight = np.where(where == place, chances, 0.0)
            sums = weight.sum(1)
            share = weight / np.where(sums > 0, sums, 1.0)[:, None]
            found.append(
                At(
                    place,
                    float(sums.mean()),
                    now.count(place),
                    float((lines * share).sum()),
                    float((pairs * share).sum()),
                )
            )
        return found
