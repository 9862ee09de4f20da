"""Lining up the shared cache lines of several cells.

The same line is the same kind of thing, touched by the same functions. Addresses differ from boot to boot
and mean nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from statistics import fmean
from typing import Any, NamedTuple

from bigiron.analysis.lines.overlap import by_function, overlaps
from bigiron.analysis.statistics.spread import strongest
from bigiron.analysis.statistics.verdict import Verdict
from bigiron.util.lazy import Floats, Integers, Mask
from bigiron.util.lazy import numpy as np
from bigiron.util.lazy import polars as pl
from bigiron.util.object_name import UNNAMED, ObjectName, object_type

TOLERANCE = 0.05
"""Accesses per operation up to which a difference is not marked: the clock's ticks alone cause that much."""

RELATIVE_TOLERANCE = 0.01
_ALIKE = 0.25  # overlap of the functions from which two lines are taken for one
_SURELY_ALIKE = 0.5  # the same, where one of them could not be named
_OTHER_MEMBER = 0.95  # what is left of the likeness of two lines of one struct with different members
_AT_ONCE = 1 << 20  # likenesses that are held in memory: of thousands of pages there are hundreds of millions
_SHORTLIST = 256  # rows that a line may be, before more are looked for


class PerBoot(NamedTuple):
    """A line in one repetition, each of which has a boot of its own; counts per operation."""

    writes: float
    accesses: float
    layout_writes: float = 0.0  # of these, shared only by where objects lie in their slab
    layout_accesses: float = 0.0

    def disturbed(self, cpus: int) -> float:
        """Accesses that may wait for another CPU, but for what is layout: a write makes each CPU fetch once.

        Chance decides whether a line that all CPUs read is written in a recording: then all reads count.

        >>> PerBoot(0.00025, 1.0).disturbed(8), PerBoot(1.0, 1.5).disturbed(8)
        (0.002, 1.5)
        """
        return min(self.accesses - self.layout_accesses, (self.writes - self.layout_writes) * cpus)


@dataclass(frozen=True)
class Half:
    """One of two lines that are shared as a pair only."""

    object: str
    touched: tuple[dict[str, Any], ...]  # CPUs, whether they write, and bytes, counted from the pair's first


@dataclass(frozen=True)
class FieldBeside:
    """A field of a line that is called after another one."""

    object: str
    accesses_per_op: float
    writes_per_op: float
    functions: tuple[str, ...]  # that touch it, hottest first


@dataclass(frozen=True)
class SharedLine:
    """One shared cache line, or a pair, in one column: a row of `conflicts.profile`, or a mean of several."""

    object: str
    weights: dict[str, float]  # accesses per operation of each function, hottest first
    writes_per_op: float
    accesses_per_op: float
    writers: int
    readers: int
    false_sharing: bool
    sharing: dict[str, str] = field(default_factory=dict)  # what kind it is, and the evidence for it
    paths: dict[str, float] = field(default_factory=dict)  # accesses per operation of each call path
    all_per_op: float = 0.0  # accesses, also those that no other CPU can have disturbed
    offsets: dict[int, str] = field(default_factory=dict)  # if falsely shared, which bytes each CPU touched
    repetitions: tuple[PerBoot, ...] = ()
    even: bool = False  # whether in each of them all CPUs access it as often, but for what is layout
    movable: bool = False  # whether where it begins in a cache line differs from object to object
    number: int = 1  # of lines that it stands for
    address: int = 0  # in the first repetition; 0 where that lacks it

    @property
    def layout_per_op(self) -> float:
        """Accesses per operation that are shared only by where objects lie in their slab."""
        return fmean(one.layout_accesses for one in self.repetitions) if self.repetitions else 0.0

    halves: tuple[Half, ...] = ()  # of a pair
    beside: tuple[FieldBeside, ...] = ()  # hottest first

    def disturbed(self, cpus: int) -> tuple[float, ...]:
        """In each repetition, accesses that may wait for one of so many CPUs, but for what is layout."""
        each = self.repetitions or (PerBoot(self.writes_per_op, self.accesses_per_op),)
        if self.halves:  # what disturbs one half are writes of the other
            return tuple(one.accesses - one.layout_accesses for one in each)
        return tuple(one.disturbed(cpus) for one in each)

    @cached_property
    def shares(self) -> dict[str, float]:
        """The share of its accesses that each function does."""
        total = sum(self.weights.values())
        return {name: weight / total for name, weight in self.weights.items()} if total else {}


def without_layout(line: SharedLine) -> SharedLine:
    """The line without the accesses that are shared only by where objects lie in their slab."""
    if not line.layout_per_op:
        return line
    each = tuple(
        PerBoot(one.writes - one.layout_writes, one.accesses - one.layout_accesses)
        for one in line.repetitions
    )
    return replace(
        line,
        repetitions=each,
        writes_per_op=fmean(one.writes for one in each),
        accesses_per_op=fmean(one.accesses for one in each),
    )


@dataclass
class MatchedLine:
    """A line in all columns that have it, by variant."""

    lines: dict[str, SharedLine] = field(default_factory=dict)
    depends: tuple[str, ...] = ()  # on what of the machine's shape, in words
    verdicts: dict[str, Verdict] = field(default_factory=dict)  # of each other variant, against the base
    differs_by_layout: bool = False  # and by nothing else

    @property
    def object(self) -> str:
        """What the line is, in the column where it is hottest."""
        return self._hottest.object

    @property
    def false_sharing(self) -> bool:
        """Whether in some column no byte of it is touched by two CPUs."""
        return any(line.false_sharing for line in self.lines.values())

    @property
    def number(self) -> int:
        """Of lines that it stands for, in the column that has most."""
        return max(line.number for line in self.lines.values())

    @property
    def cpus(self) -> int:
        """The most that touch it in a column."""
        return max(max(line.writers, line.readers) for line in self.lines.values())

    @property
    def offsets(self) -> dict[int, str]:
        """Which bytes each CPU touched, in the hottest of the columns in which it is falsely shared."""
        lines = [line for line in self.lines.values() if line.offsets]
        return max(lines, key=lambda line: line.accesses_per_op).offsets if lines else {}

    @property
    def sharing(self) -> dict[str, str]:
        """What kind of sharing it is in the column where it is hottest, and the evidence for it."""
        return self._hottest.sharing

    @property
    def halves(self) -> tuple[Half, ...]:
        """Of a pair, its two lines in the column where it is hottest."""
        return self._hottest.halves

    @property
    def beside(self) -> tuple[FieldBeside, ...]:
        """The other fields that are touched there, in the column where it is hottest."""
        return self._hottest.beside

    @property
    def functions(self) -> list[str]:
        """Who touches it in any column, hottest first."""
        return list(summed(line.weights for line in self.lines.values()))

    @property
    def paths(self) -> list[str]:
        """By which call paths it is reached in any column, hottest first."""
        return list(summed(line.paths for line in self.lines.values()))

    def accesses(self, variant: str) -> float:
        """Accesses per operation in a column; 0 where the line is not shared."""
        return self.lines[variant].accesses_per_op if variant in self.lines else 0.0

    def writes(self, variant: str) -> float:
        """Writes per operation in a column."""
        return self.lines[variant].writes_per_op if variant in self.lines else 0.0

    def disturbed(self, variant: str, cpus: int) -> float:
        """Accesses per operation in a column that may wait for another CPU, but for what is layout."""
        return fmean(self.lines[variant].disturbed(cpus)) if variant in self.lines else 0.0

    def firm_writes(self, variant: str) -> float:
        """Writes per operation in a column, but for what is layout."""
        return without_layout(self.lines[variant]).writes_per_op if variant in self.lines else 0.0

    def layout(self, variant: str) -> float:
        """Accesses per operation in a column that are shared only by where objects lie in their slab."""
        return self.lines[variant].layout_per_op if variant in self.lines else 0.0

    def change(self, base: str, variants: Sequence[str]) -> float:
        """The largest change of accesses per operation from the base, signed, but for what is layout."""
        changes = [
            self.accesses(variant) - self.layout(variant) - self.accesses(base) + self.layout(base)
            for variant in variants
        ]
        return max(changes, key=abs, default=0.0)

    @property
    def differs(self) -> bool:
        """Whether some column differs from the base by more than boots of one kernel do."""
        return self.verdict is Verdict.changed

    @property
    def verdict(self) -> Verdict | None:
        """The strongest of all columns'; None where nothing was compared."""
        return strongest(self.verdicts.values()) if self.verdicts else None

    @property
    def is_undecided(self) -> bool:
        """Whether some column may differ from the base, and none is known to."""
        return self.verdict is Verdict.undecided

    @property
    def is_layout(self) -> bool:
        """Whether most of it is shared only by where objects lie in their slab, wherever it is hottest."""
        return self._hottest.layout_per_op > self._hottest.accesses_per_op / 2

    @property
    def last(self) -> SharedLine:
        """The line in the last column that has it, with which those of the next are compared.

        From kernel to kernel other functions touch it: after some of them the first has little of the last.
        """
        return next(reversed(self.lines.values()))

    @property
    def _hottest(self) -> SharedLine:
        return max(self.lines.values(), key=lambda line: line.accesses_per_op)


def summed(columns: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Of each name what all columns have together, hottest first."""
    total: dict[str, float] = {}
    for weights in columns:
        for name, weight in weights.items():
            total[name] = total.get(name, 0.0) + weight
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def lines_of(profile: pl.DataFrame) -> list[SharedLine]:
    """The rows of `conflicts.profile` as values, without recycled memory."""
    return [
        SharedLine(
            object=row["object"],
            weights=dict(zip(row["functions"], row["weights"], strict=True)),
            paths=dict(zip(row["paths"], row["path_weights"], strict=True)),
            writes_per_op=row["writes_per_op"],
            accesses_per_op=row["accesses_per_op"],
            writers=row["writers"],
            readers=row["readers"],
            false_sharing=row["false_sharing"],
            sharing=dict(zip(row["sharing"], row["because"], strict=True)),
            all_per_op=row["all_per_op"],
            offsets={touched["cpu"]: touched["bytes"] for touched in row["offsets"]},
            repetitions=(
                PerBoot(
                    row["writes_per_op"],
                    row["accesses_per_op"],
                    row["layout_writes_per_op"],
                    row["layout_accesses_per_op"],
                ),
            ),
            even=row["even"],
            movable=row["movable"],
            number=row["number"],
            address=row["line"],
            halves=tuple(Half(half["object"], tuple(half["touched"])) for half in row["halves"]),
            beside=tuple(
                FieldBeside(**{**field, "functions": tuple(field["functions"])}) for field in row["beside"]
            ),
        )
        for row in profile.filter(~pl.col("recycled")).iter_rows(named=True)
    ]


def mean(repetitions: Sequence[list[SharedLine]]) -> list[SharedLine]:
    """The mean of several repetitions of one cell: a line that one of them lacks counts there as 0."""
    if len(repetitions) == 1:
        return repetitions[0]
    columns = {str(number): lines for number, lines in enumerate(repetitions)}
    return [_mean_line(row, len(repetitions)) for row in match(columns)]


def _mean_line(row: MatchedLine, repetitions: int) -> SharedLine:
    lines = list(row.lines.values())
    return SharedLine(
        object=row.object,
        weights=_mean_weights([line.weights for line in lines], repetitions),
        paths=_mean_weights([line.paths for line in lines], repetitions),
        writes_per_op=sum(line.writes_per_op for line in lines) / repetitions,
        accesses_per_op=sum(line.accesses_per_op for line in lines) / repetitions,
        writers=max(line.writers for line in lines),
        readers=max(line.readers for line in lines),
        false_sharing=row.false_sharing,
        sharing=row.sharing,
        all_per_op=sum(line.all_per_op for line in lines) / repetitions,
        offsets=row.offsets,
        repetitions=tuple(
            row.lines[number].repetitions[0] if number in row.lines else PerBoot(0.0, 0.0)
            for number in map(str, range(repetitions))
        ),
        even=len(lines) == repetitions and all(line.even for line in lines),
        movable=any(line.movable for line in lines),
        number=max(line.number for line in lines),
        address=row.lines["0"].address if "0" in row.lines else 0,
        halves=row.halves,
        beside=row.beside,
    )


def _mean_weights(columns: list[dict[str, float]], repetitions: int) -> dict[str, float]:
    return {name: weight / repetitions for name, weight in summed(columns).items()}


def match(columns: dict[str, list[SharedLine]]) -> list[MatchedLine]:
    """Rows of all columns' lines, each line in one row; the pairs most alike are joined first.

    Columns are in the order of versions. Each is compared with the rows' lines in the columns before it.
    """
    rows: list[MatchedLine] = []
    for variant, lines in columns.items():
        joined: set[int] = set()
        for row, number in _joined(rows, lines):
            row.lines[variant] = lines[number]
            joined.add(number)
        rows += [MatchedLine({variant: line}) for number, line in enumerate(lines) if number not in joined]
    return rows


def _joined(rows: list[MatchedLine], lines: list[SharedLine]) -> list[tuple[MatchedLine, int]]:
    """Rows with the number of the line that is taken for the same; each of both at most once.

    Those most alike are joined first, of one kind before others, and of lines the one touched most. Each
    line waits with the best row that was free when it looked. If that is taken when its turn comes, it waits
    again: what is left of its choice is less alike.
    """
    rows_of_kind: dict[str, list[MatchedLine]] = {}
    for row in rows:
        rows_of_kind.setdefault(object_type(row.last.object), []).append(row)
    by_kind = [row for of_kind in rows_of_kind.values() for row in of_kind]
    free = np.full(len(rows), True)
    waiting: list[tuple[float, bool, float, int, int]] = []
    choices: dict[int, _Choice] = {}

    def wait(number: int) -> None:
        if found := choices[number].next(free):
            likeness, is_other_kind, row = found
            heappush(waiting, (-likeness, is_other_kind, -lines[number].accesses_per_op, number, row))

    for candidates, numbers in _by_candidates(rows_of_kind, lines):
        size = max(1, _AT_ONCE // candidates.row.size)
        for some in (numbers[at : at + size] for at in range(0, len(numbers), size)):
            found = candidates.best([lines[number] for number in some], free)
            for number, best in zip(some, found, strict=True):
                choices[number] = _Choice(lines[number], candidates, best)
                wait(number)
    joined: list[tuple[MatchedLine, int]] = []
    while waiting:
        *_, number, chosen = heappop(waiting)
        if free[chosen]:
            free[chosen] = False
            joined.append((by_kind[chosen], number))
        else:
            wait(number)
    return joined


class _Ready(NamedTuple):
    """Lines of one type with which others are compared."""

    shares: dict[str, tuple[Integers, Floats]]  # by function, as `by_function` has them
    members: Any  # the array of what `member` says of each
    is_own_kind: bool


class _Candidates:
    """The rows that lines of one kind can be: those of their kind first, then by their number."""

    def __init__(self, row: Integers, is_other_kind: Mask, ready: list[_Ready]) -> None:
        self.row, self.is_other_kind, self._ready = row, is_other_kind, ready

    def best(self, lines: list[SharedLine], free: Mask) -> list[_Best]:
        """Of each line the free rows that it is most like, at most `_SHORTLIST`."""
        likeness = np.concatenate([_likeness(lines, ready) for ready in self._ready], axis=1)
        likeness[:, ~free[self.row]] = 0.0
        return [self._most(of_line) for of_line in likeness]

    def _most(self, likeness: Floats) -> _Best:
        at = np.flatnonzero(likeness >= _ALIKE)
        if at.size > _SHORTLIST:
            least = np.partition(likeness[at], -_SHORTLIST)[-_SHORTLIST]
            more = at[likeness[at] > least]
            at = np.sort(np.concatenate([more, at[likeness[at] == least][: _SHORTLIST - more.size]]))
        at = at[np.argsort(-likeness[at], kind="stable")]
        return _Best(likeness[at], self.is_other_kind[at], self.row[at])


class _Best(NamedTuple):
    """Rows that a line can be, the best one first."""

    likeness: Floats
    is_other_kind: Mask
    row: Integers


class _Choice:
    """The rows that a line can be; more are looked for where all of the best are taken."""

    def __init__(self, line: SharedLine, candidates: _Candidates, best: _Best) -> None:
        self._line, self._candidates = line, candidates
        self._best, self._is_all = best, best.row.size < _SHORTLIST

    def next(self, free: Mask) -> tuple[float, bool, int] | None:
        """The best row that is free: how alike it is, whether it is of another kind, and which."""
        while not (there := free[self._best.row]).any():
            if self._is_all:
                return None
            (self._best,) = self._candidates.best([self._line], free)
            self._is_all = self._best.row.size < _SHORTLIST
        first, best = int(there.argmax()), self._best
        self._best = _Best(*(column[first + 1 :] for column in best))  # type: ignore[arg-type]
        return best.likeness[first].item(), best.is_other_kind[first].item(), best.row[first].item()


def _by_candidates(
    rows_of_kind: dict[str, list[MatchedLine]], lines: list[SharedLine]
) -> Iterator[tuple[_Candidates, list[int]]]:
    """Lines, by their numbers, with what they can be. Rows are numbered through all kinds."""
    lines_of_kind: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        lines_of_kind.setdefault(object_type(line.object), []).append(number)
    ready: dict[str, tuple[Integers, _Ready]] = {}
    before = 0
    for other, rows in rows_of_kind.items():
        last = [row.last for row in rows]
        members = np.array([ObjectName.parse(line.object).member for line in last])
        ready[other] = np.arange(before, before + len(rows)), _Ready(by_function(last), members, False)
        before += len(rows)
    for known_as, numbers in lines_of_kind.items():
        others = [other for other in ready if _may_be(known_as, other)]
        others.sort(key=lambda other: other != known_as)
        if others:
            row = np.concatenate([ready[other][0] for other in others])
            of_other = np.concatenate([np.full(ready[other][0].size, other != known_as) for other in others])
            against = [ready[other][1]._replace(is_own_kind=other == known_as) for other in others]
            yield _Candidates(row, of_other, against), numbers


def _may_be(one: str, other: str) -> bool:
    """Whether lines of two kinds may be the same: what could not be named in one kernel may be a struct."""
    if one in UNNAMED:
        one, other = other, one
    return one == other or (other in UNNAMED and one.startswith("struct ") and one != "struct page")


def _likeness(lines: list[SharedLine], others: _Ready) -> Floats:
    """How alike lines of two kinds are, each with each, 0 to 1: by how much the same functions touch both.

    A symbol is itself, whatever touches it; neighbouring lines of one symbol are distinguished by their
    functions. The same member of a struct is likely to be the same. An object without a name in one kernel
    may have one in another.
    """
    shares = overlaps(lines, others.shares, others.members.size)
    if not others.is_own_kind:
        return np.where(shares >= _SURELY_ALIKE, shares, 0.0)
    names = [ObjectName.parse(line.object) for line in lines]
    known = np.array([_known(name) for name in names])[:, None]
    likeness = known + (1 - known) * shares
    of_struct = np.array([name.is_struct for name in names])[:, None]
    members = np.array([name.member for name in names])[:, None]
    return np.where(of_struct & (members != others.members), _OTHER_MEMBER * shares, likeness)


def _known(name: ObjectName) -> float:
    """How much an object's name alone tells that lines are the same."""
    if name.is_struct:
        return _ALIKE / 2
    return _ALIKE if name.is_symbol else 0.0
