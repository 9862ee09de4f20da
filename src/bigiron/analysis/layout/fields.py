"""The members of a struct: how often each is accessed and by how many CPUs, and which disturb each other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import combinations

from bigiron.analysis.layout.alignment import places
from bigiron.analysis.layout.recorded import RecordedObjects
from bigiron.analysis.layout.structure import Structure, Unit
from bigiron.analysis.lines import conflicts
from bigiron.util.lazy import Floats, Mask
from bigiron.util.lazy import numpy as np
from bigiron.util.lazy import polars as pl

_FAINT = 0.005  # accesses per operation below which a member is not named
_TOGETHER = 0.9  # share of the writes to two members that the same functions do
_DEEPEST = 8


@dataclass(frozen=True)
class FieldUse:
    """What is done to a member, or to a part of it, per operation."""

    unit: int  # the number of its declaration
    field: str
    offset: int  # in the struct
    bytes: int
    reads: float
    writes: float
    readers: int  # CPUs that read it, in the one struct where most do
    writers: int


@dataclass(frozen=True)
class Loss:
    """Two members that share no byte, and what they cost each other where they lie in one cache line."""

    one: str
    other: str
    accesses: float  # per operation
    chance: float  # that they are in one line, by the places that objects can have


@dataclass(frozen=True)
class _ByCpu:
    """The accesses to a member by struct and CPU, and whether each CPU writes."""

    accesses: Floats
    writes: Mask

    def with_(self, other: _ByCpu) -> _ByCpu:
        """Those to both."""
        return _ByCpu(self.accesses + other.accesses, self.writes | other.writes)

    @property
    def disturbed(self) -> float:
        """Accesses that can have followed one of another CPU, if this alone is in a cache line."""
        all, most = self.accesses.sum(1), self.accesses.max(1, initial=0.0)
        shared = ((self.accesses > 0).sum(1) > 1) & self.writes.any(1)
        return float(np.where(shared, np.minimum(all, 2 * (all - most)), 0.0).sum())


class Members:
    """The members of the struct that was recorded."""

    def __init__(self, recorded: RecordedObjects) -> None:
        self.recorded = recorded

    def uses(self) -> list[FieldUse]:
        """The members that are accessed, in their order; a part of a member of its own."""
        by_field = self._by_field
        sums = by_field.group_by("unit", "field", "field_at", "field_bytes").agg(
            pl.col("reads", "writes").sum() / self.recorded.operations
        )
        cpus = by_field.group_by("unit", "field", "field_at", "start", "base").agg(
            readers=pl.col("cpu").filter(pl.col("reads") > 0).n_unique(),
            writers=pl.col("cpu").filter(pl.col("writes") > 0).n_unique(),
        )
        most = cpus.group_by("unit", "field", "field_at").agg(pl.col("readers", "writers").max())
        found = sums.join(most, on=["unit", "field", "field_at"]).sort("field_at", "field")
        columns = ("unit", "field", "field_at", "field_bytes", "reads", "writes", "readers", "writers")
        return [FieldUse(*row) for row in found.select(columns).iter_rows() if row[4] + row[5] >= _FAINT]

    def written_together(self) -> list[tuple[str, ...]]:
        """Members that the same functions write about as often: a compiler may write them at once."""
        written = (
            self._by_field.filter((pl.col("writes") > 0) & ~conflicts.allocates())
            .group_by("unit", "function")
            .agg(pl.col("writes").sum())
        )
        shares: dict[int, dict[str, float]] = {}
        for unit, function, writes in written.iter_rows():
            shares.setdefault(unit, {})[function] = writes / self.recorded.operations
        hot = sorted(unit for unit, of in shares.items() if sum(of.values()) >= _FAINT)
        groups: list[list[int]] = []
        for unit in hot:
            group = next((one for one in groups if _same_functions(shares[one[0]], shares[unit])), None)
            if group is None:
                groups.append([unit])
            else:
                group.append(unit)
        names = {unit.number: unit.fields[0].name for unit in self.recorded.structure.units}
        return [tuple(names[unit] for unit in group) for group in groups if len(group) > 1]

    def losses(self, structure: Structure) -> list[Loss]:
        """Pairs of members that lie within a cache line of each other, those that cost most first.

        What two cost each other is counted as if they were alone in a line: the accesses that can have been
        disturbed there, without those that can have been in a line of each member's own.
        """
        by_unit = self._by_unit
        units = {unit.number: unit for unit in structure.units}
        found = []
        for one, other in combinations(sorted(by_unit), 2):
            chance = _in_one_line(units[one], units[other], self._places, self.recorded.line_bytes)
            if not chance:
                continue
            together = by_unit[one].with_(by_unit[other]).disturbed
            accesses = (together - self._alone[one] - self._alone[other]) / self.recorded.operations
            if accesses >= _FAINT:
                names = units[one].fields[0].name, units[other].fields[0].name
                found.append(Loss(*names, accesses, chance))
        return sorted(found, key=lambda loss: (-loss.accesses * loss.chance, loss.one, loss.other))

    @cached_property
    def _by_field(self) -> pl.DataFrame:
        """The accesses to each struct, one row for each, with its first field.

        `base` is where in its object the struct begins.
        """
        accesses, size = self.recorded.accesses, self.recorded.structure.bytes
        name = cache(partial(_named, self.recorded))
        keys = accesses.select("struct", "offset", "length").unique()
        rows = []
        for struct, offset, length in keys.iter_rows():
            bases = self.recorded.bases[struct]
            for base in bases[bisect_right(bases, offset - size) : bisect_left(bases, offset + length)]:
                rows.append((struct, offset, length, base, *name(max(offset - base, 0), length)))
        numbers = dict.fromkeys(("base", "unit", "field_at", "field_bytes"), pl.Int64)
        columns = ("base", "unit", "field", "field_at", "field_bytes")
        schema = {**keys.schema, **{one: numbers.get(one, pl.String) for one in columns}}
        named = pl.DataFrame(rows, schema, orient="row").filter(pl.col("unit") >= 0)
        return accesses.join(named, on=keys.columns)

    @cached_property
    def _by_unit(self) -> dict[int, _ByCpu]:
        """Of each member that is accessed: accesses by struct and CPU, and whether each CPU writes."""
        recorded = self.recorded
        sums = (
            self._by_field.group_by("unit", "start", "base", "cpu")
            .agg(accesses=pl.max_horizontal("reads", "writes").sum(), writes=pl.col("writes").sum() > 0)
            .filter(pl.col("accesses").sum().over("unit") >= _FAINT * recorded.operations)
            .filter(pl.col("start").is_in([target.start for target in recorded.pieces.targets]))
        )
        structs = sums.select("start", "base").unique(maintain_order=True).iter_rows()
        number = {struct: at for at, struct in enumerate(structs)}
        shape = len(number), recorded.pieces.cpus
        found: dict[int, _ByCpu] = {}
        for unit, start, base, cpu, accesses, writes in sums.iter_rows():
            if unit not in found:
                found[unit] = _ByCpu(np.zeros(shape), np.zeros(shape, bool))
            found[unit].accesses[number[start, base], cpu] += accesses
            found[unit].writes[number[start, base], cpu] |= writes
        return found

    @cached_property
    def _alone(self) -> dict[int, float]:
        """What each member costs that is alone in a cache line."""
        return {unit: table.disturbed for unit, table in self._by_unit.items()}

    @cached_property
    def _places(self) -> dict[int, float]:
        """How likely each place in a cache line is for the struct of a target."""
        recorded = self.recorded
        size, found = recorded.line_bytes, dict[int, float]()
        for target in recorded.pieces.targets:
            bases = recorded.bases[target.struct]
            for base, many in Counter(base % size for base in bases).items():
                share = many / len(bases) / len(recorded.pieces.targets)
                for place, chance in places(target, target.stride, size).items():
                    at = (place + base) % size
                    found[at] = found.get(at, 0.0) + chance * share
        return found


def _same_functions(one: dict[str, float], other: dict[str, float]) -> bool:
    both = sum(min(of, other.get(function, 0.0)) for function, of in one.items())
    return both >= _TOGETHER * max(sum(one.values()), sum(other.values()))


def _named(recorded: RecordedObjects, at: int, length: int) -> tuple[int, str, int, int]:
    """The innermost field that has these bytes, or the first of them: its unit, name, offset and size."""
    structure, start, path, number = recorded.structure, 0, "", -1
    found = (number, "", at, length)
    for _ in range(_DEEPEST):
        there = structure.field_at(at - start)
        if there is None:
            break
        unit, field, inside = there
        number = unit.number if number < 0 else number
        start = at - inside
        inner = recorded.known.get(field.inner)
        element = ""
        size = field.bytes
        if inner and inner.bytes and inner.bytes < field.bytes:
            element = f"[{inside // inner.bytes}]"
            start, size = start + inside // inner.bytes * inner.bytes, inner.bytes
        path = f"{path}.{field.name}{element}" if path else f"{field.name}{element}"
        found = (number, path, start, size)
        if inner is None or at + length > start + size:
            break
        structure = inner
    return found


def _in_one_line(one: Unit, other: Unit, places: dict[int, float], size: int) -> float:
    def lines(unit: Unit, place: int) -> range:
        return range(
            (unit.offset + place) // size, (unit.offset + place + max(unit.bytes, 1) - 1) // size + 1
        )

    return sum(
        chance for place, chance in places.items() if set(lines(one, place)) & set(lines(other, place))
    )
