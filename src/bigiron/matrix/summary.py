"""What a matrix says: how many tests are conflict-free, and what keeps the others from it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bigiron.matrix.listing import CallPair, pair_of
from bigiron.matrix.model.calls import CALLS, EXTENDED_CALLS, Test
from bigiron.matrix.outcomes import MatrixOutcome

PUBLISHED = {"Linux, 2013": (9389, 13664), "sv6, 2013": (13528, 13664)}
"""Conflict-free tests, and all: Clements et al., The Scalable Commutativity Rule, SOSP 2013, Figure 6."""

MOST_LINES = 10
_MOST_CANDIDATES = 200


@dataclass(frozen=True)
class Count:
    """Tests, and how many of them are conflict-free. `wrong` ones are in neither."""

    tests: int = 0
    free: int = 0
    wrong: int = 0

    @property
    def share(self) -> float | None:
        """Of 1; None where there is no test."""
        return self.free / self.tests if self.tests else None

    def with_outcome(self, outcome: MatrixOutcome) -> "Count":
        """And that one."""
        if outcome.wrong:
            return Count(self.tests, self.free, self.wrong + 1)
        return Count(self.tests + 1, self.free + outcome.is_free, self.wrong)


@dataclass(frozen=True)
class SharedObject:
    """Something that calls share."""

    name: str
    tests: int  # that fail with it
    alone: int  # of them with nothing else
    share_without: float  # of the conflict-free tests, without it and those before it in a list


@dataclass(frozen=True)
class PlaceSummary:
    """What came of the tests in one place."""

    place: str
    all: Count
    as_pairs: int  # conflict-free also where CPUs fetch lines by two
    false_only: int  # fail though no byte is touched by both and written
    cells: Mapping[CallPair, Count]
    culprits: Sequence[SharedObject]
    wrong: Sequence[MatrixOutcome]
    missing: int  # tests that have not run


def summary(place: str, tests: Sequence[Test], outcomes: Mapping[int, MatrixOutcome]) -> PlaceSummary:
    """Of the tests that ran."""
    cells: dict[CallPair, Count] = {}
    total = Count()
    for test in tests:
        if outcome := outcomes.get(test.number):
            cells[pair_of(test)] = cells.get(pair_of(test), Count()).with_outcome(outcome)
            total = total.with_outcome(outcome)
    ran = [outcomes[test.number] for test in tests if test.number in outcomes]
    good = [outcome for outcome in ran if not outcome.wrong]
    return PlaceSummary(
        place,
        total,
        sum(not outcome.conflicts for outcome in good),
        sum(_is_false_only(outcome) for outcome in good),
        cells,
        culprits(good),
        [outcome for outcome in ran if outcome.wrong],
        len(tests) - len(ran),
    )


def _is_false_only(outcome: MatrixOutcome) -> bool:
    lines = [conflict for conflict in outcome.conflicts if not conflict.pair]
    return bool(lines) and all(conflict.false for conflict in lines)


def lines_of(outcome: MatrixOutcome) -> frozenset[str]:
    """What keeps a test from being conflict-free."""
    return frozenset(conflict.name for conflict in outcome.conflicts if not conflict.pair)


def culprits(outcomes: Iterable[MatrixOutcome]) -> list[SharedObject]:
    """What causes most failures.

    Few tests share one thing only. So what is looked for, again and again, is what one test shares, all of
    it, without which most more tests would be conflict-free for each thing in it.
    """
    all_lines = [lines_of(outcome) for outcome in outcomes]
    left = Counter(lines for lines in all_lines if lines)
    free = len(all_lines) - left.total()
    of_all: Counter[str] = Counter()
    for lines, number in left.items():
        of_all.update(dict.fromkeys(lines, number))
    alone = {next(iter(lines)): number for lines, number in left.items() if len(lines) == 1}
    found: list[SharedObject] = []
    while left and len(found) < MOST_LINES:
        for name in sorted(_best(left, MOST_LINES - len(found)), key=lambda name: (-of_all[name], name)):
            without: Counter[frozenset[str]] = Counter()
            for lines, number in left.items():
                if lines - {name}:
                    without[lines - {name}] += number
                else:
                    free += number
            left = without
            found.append(SharedObject(name, of_all[name], alone.get(name, 0), free / len(all_lines)))
    return found


def _best(left: Counter[frozenset[str]], most: int) -> frozenset[str]:
    """Of what tests share, at most so many things, that without which most are conflict-free by thing."""
    candidates = [lines for lines, _ in left.most_common() if len(lines) <= most][:_MOST_CANDIDATES]
    if not candidates:
        names = Counter(name for lines, number in left.items() for name in lines for _ in range(number))
        return frozenset([min(names, key=lambda name: (-names[name], name))])

    def freed(lines: frozenset[str]) -> float:
        return sum(number for others, number in left.items() if others <= lines) / len(lines)

    return min(candidates, key=lambda lines: (-freed(lines), sorted(lines)))


@dataclass(frozen=True)
class PairChange:
    """A pair of calls of which another number of tests is conflict-free than before."""

    pair: CallPair
    before: Count
    after: Count
    gone: Sequence[tuple[str, int]]  # what fewer tests fail with, and how many fewer
    come: Sequence[tuple[str, int]]


def changes(
    tests: Sequence[Test], before: Mapping[int, MatrixOutcome], after: Mapping[int, MatrixOutcome]
) -> list[PairChange]:
    """By pair, the largest first; only of tests that ran and said something in both."""
    both: dict[CallPair, list[tuple[MatrixOutcome, MatrixOutcome]]] = {}
    for test in tests:
        one, other = before.get(test.number), after.get(test.number)
        if one and other and not one.wrong and not other.wrong:
            both.setdefault(pair_of(test), []).append((one, other))
    found = []
    for pair, outcomes in both.items():
        counts = [Count(), Count()]
        names: Counter[str] = Counter()
        for each in outcomes:
            counts = [count.with_outcome(one) for count, one in zip(counts, each, strict=True)]
            if each[0].is_free != each[1].is_free:
                names.subtract(lines_of(each[0]))
                names.update(lines_of(each[1]))
        if counts[0].free != counts[1].free:
            gone = [(name, -number) for name, number in sorted(names.items(), key=_by_number) if number < 0]
            come = [(name, number) for name, number in sorted(names.items(), key=_by_number) if number > 0]
            found.append(PairChange(pair, counts[0], counts[1], gone[:3], come[:3]))
    return sorted(found, key=lambda change: (-abs(change.after.free - change.before.free), change.pair))


def _by_number(item: tuple[str, int]) -> tuple[int, str]:
    return -abs(item[1]), item[0]


def calls_of(tests: Iterable[Test]) -> list[str]:
    """The calls of some tests: as COMMUTER lists them, then the extended ones."""
    there = {name for test in tests for name in pair_of(test)}
    return [name for name in {**CALLS, **EXTENDED_CALLS} if name in there]


def published(calls: Iterable[str]) -> Mapping[str, tuple[int, int]]:
    """What was published of such calls: nothing of the extended ones."""
    return PUBLISHED if CALLS.keys() >= set(calls) else {}
