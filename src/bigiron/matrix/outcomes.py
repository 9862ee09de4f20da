"""What came of each test: which lines its two calls share, from all of its runs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from bigiron.util.object_name import ObjectName

LINE_BYTES = 64
PAIR_BYTES = 128


class Access(NamedTuple):
    """What one instruction of a call did to a line in one run of a test."""

    side: str  # "A" or "B": of which call; "A1", "B1" and so on where several copies of a test are made
    line: int
    bytes: int  # a bit for each byte of the line that was touched
    reads: int
    writes: int
    name: str  # of what lies there
    path: str  # functions that led there, outermost first, its own the last


class Conflict(msgspec.Struct, frozen=True):
    """Something that two calls of a test touch and one writes, in more than half of its runs."""

    name: str  # "struct dentry.d_lockref"
    runs: int  # in which it was there
    pair: bool  # only as two lines side by side
    false: bool  # they touch different bytes of it
    a: str  # by which functions A touched it: outermost first, the accesses to it in parentheses
    b: str


class MatrixOutcome(msgspec.Struct, frozen=True):
    """What came of a test."""

    test: int
    runs: int
    conflicts: list[Conflict] = []
    by_chance: list[str] = []  # what was there in half of the runs or fewer
    wrong: str = (
        ""  # what it returned that the model does not say, or how it failed: then it says nothing else
    )

    @property
    def is_free(self) -> bool:
        """Whether it is conflict-free; no line, that is. Adjacent lines are distinguished."""
        return all(conflict.pair for conflict in self.conflicts)


def normal(name: str) -> str:
    """A name that is the same in all runs."""
    return str(ObjectName.parse(name).in_any_run)


def struct_of(name: str) -> str:
    """The struct, or the variable, that a normal name is of."""
    return ObjectName.parse(name).struct_or_variable


@dataclass
class _LineOfRun:
    """A line in one run."""

    accesses: list[Access] = field(default_factory=list)

    @property
    def sides(self) -> set[str]:
        return {access.side for access in self.accesses}

    @property
    def is_written(self) -> bool:
        return any(access.writes for access in self.accesses)

    @property
    def is_shared(self) -> bool:
        return len(self.sides) > 1 and self.is_written

    def touched_beside(self, side: str) -> int:
        """Bytes that others than that call touched."""
        touched = 0
        for access in self.accesses:
            touched |= access.bytes if access.side != side else 0
        return touched

    def foremost(self) -> list[str]:
        """Two of the calls: who writes it most, and who else has to do with it most."""
        writes: Counter[str] = Counter()
        all_of_them: Counter[str] = Counter()
        for access in self.accesses:
            writes[access.side] += access.writes
            all_of_them[access.side] += access.reads + access.writes
        writer = min(writes, key=lambda side: (-writes[side], side))
        other = min(all_of_them.keys() - {writer}, key=lambda side: (-all_of_them[side], side))
        return sorted((writer, other))


@dataclass(frozen=True)
class _Shared:
    """A line, or a pair of them, that two calls touched in one run."""

    name: str
    pair: bool
    false: bool
    a: str
    b: str


def _shared_lines(accesses: Iterable[Access]) -> list[_Shared]:
    lines: dict[int, _LineOfRun] = defaultdict(_LineOfRun)
    for access in accesses:
        lines[access.line].accesses.append(access)
    shared = [_shared(line) for line in lines.values() if line.is_shared]
    for start in sorted({line & -PAIR_BYTES for line in lines}):
        both = [lines[at] for at in (start, start + LINE_BYTES) if at in lines]
        pair = _LineOfRun([access for line in both for access in line.accesses])
        if len(both) == 2 and pair.is_shared and not any(line.is_shared for line in both):
            shared.append(_shared(pair, pair=True))
    return shared


def _shared(line: _LineOfRun, *, pair: bool = False) -> _Shared:
    """Its name is that of what is written most of what the other side touches too."""
    other = {side: line.touched_beside(side) for side in line.sides}
    written = [access for access in line.accesses if access.writes]
    true = [] if pair else [access for access in written if access.bytes & other[access.side]]
    weights: Counter[str] = Counter()
    for access in true or written:
        weights[normal(access.name)] += access.writes
    name = min(weights, key=lambda name: (-weights[name], name))
    one, another = line.foremost()
    return _Shared(name, pair, not true, _who(line, one), _who(line, another))


def _who(line: _LineOfRun, side: str) -> str:
    """The call path that accessed the cache line most, and how often."""
    weights: Counter[str] = Counter()
    reads: Counter[str] = Counter()
    for access in line.accesses:
        if access.side == side:
            weights[access.path] += 1000 * access.writes + access.reads
            reads[access.path] += access.reads
    path = min(weights, key=lambda path: (-weights[path], path))
    return f"{path} ({reads[path]} reads, {weights[path] // 1000} writes)"


def is_borderline(runs: Sequence[Sequence[Access]]) -> bool:
    """Whether one run of these could have made the test conflict-free, or not: they are an odd number."""
    present: Counter[str] = Counter()
    for accesses in runs:
        present.update({struct_of(line.name) for line in _shared_lines(accesses) if not line.pair})
    return abs(2 * max(present.values(), default=0) - len(runs)) == 1


def outcome(test: int, runs: Sequence[Sequence[Access]]) -> MatrixOutcome:
    """What came of a test with these accesses in each of its runs.

    A line counts that is there in more than half of them, and not what is there by chance: an object that
    shares its line with another one, a counter whose batch is full. Lines are the same in two runs if they
    hold the same struct, though not the same object; they are called by the member that most runs have.
    Sharing is false where it is so of all lines of a name, in more than half of the runs that have it.
    """
    shared = [_shared_lines(accesses) for accesses in runs]
    half = len(runs) / 2
    of_struct: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    examples: dict[tuple[str, bool, bool], _Shared] = {}
    false_runs: Counter[tuple[str, bool]] = Counter()
    present: Counter[tuple[str, bool]] = Counter()
    for lines in shared:
        names = {(line.name, line.pair) for line in lines}
        for name, pair in names:
            of_struct[struct_of(name), pair][name] += 1
        for line in lines:
            examples.setdefault((line.name, line.pair, line.false), line)
        false_runs.update(names - {(line.name, line.pair) for line in lines if not line.false})
        present.update({(struct_of(name), pair) for name, pair in names})
    conflicts: list[Conflict] = []
    by_chance: set[str] = set()
    for (struct, pair), number in sorted(present.items()):
        names_of = of_struct[struct, pair]
        if number <= half:
            by_chance.update(names_of)
            continue
        steady = [name for name in sorted(names_of) if names_of[name] > half]
        chosen = steady or [min(names_of, key=lambda name: (-names_of[name], name))]
        by_chance.update(set(names_of) - set(chosen))
        for name in chosen:
            false = 2 * false_runs[name, pair] > names_of[name]
            example = examples[name, pair, false]
            runs_of = names_of[name] if steady else number
            conflicts.append(Conflict(name, runs_of, pair, false, example.a, example.b))
    lines_too = {struct_of(one.name) for one in conflicts if not one.pair}
    kept = [one for one in conflicts if not one.pair or struct_of(one.name) not in lines_too]
    return MatrixOutcome(test, len(runs), kept, sorted(by_chance))


def wrong(test: int, runs: int, why: str) -> MatrixOutcome:
    """A test whose calls returned something else than they should, or that did not end."""
    return MatrixOutcome(test, runs, wrong=why)
