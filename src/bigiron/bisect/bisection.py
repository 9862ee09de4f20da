"""The search for the change that changed a value, in a list or in git's graph of commits.

The search knows nothing about kernels: it yields the candidate to measure next and is sent its value. Its
requests depend only on the values that it was sent, so a killed search is resumed by sending them again.

Invariant: one of the remaining candidates has the new value, and none of its parents has it, provided that
the ends keep their values.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bigiron.analysis.comparison.limits import Tolerance

Value = tuple[float, ...]
"""The value of a candidate: one number for each unit of the target."""

Measured = Value | None
"""None: the candidate cannot be measured, because it does not build or boot."""


@dataclass(frozen=True)
class EqualityRule:
    """When two values are the same: a tolerance for each of their numbers."""

    tolerances: tuple[Tolerance, ...]

    def same(self, one: Value, other: Value) -> bool:
        """Whether no number differs by more than its tolerance."""
        return all(
            tolerance.takes_for_same(mine, theirs)
            for tolerance, mine, theirs in zip(self.tolerances, one, other, strict=True)
        )

    def apart(self, one: Value, other: Value) -> float:
        """The distance between two values in tolerances."""
        return max(
            abs(mine - theirs) / (tolerance.allows(min(mine, theirs)) - min(mine, theirs))
            for tolerance, mine, theirs in zip(self.tolerances, one, other, strict=True)
        )


class CandidateGraph:
    """Candidates and their parents, oldest first. Sets of candidates are integers, with a bit for each."""

    def __init__(self, parents: Mapping[str, Sequence[str]]) -> None:
        """Parents that are not candidates are known to have the value of the old end."""
        self.names = tuple(parents)
        self._parents = {name: tuple(its) for name, its in parents.items()}
        self._number = {name: number for number, name in enumerate(self.names)}
        self._ancestors: dict[str, int] = {}
        for name, its in parents.items():
            mask = 1 << self._number[name]
            for parent in its:
                mask |= self.ancestors(parent)
            self._ancestors[name] = mask

    @classmethod
    def linear(cls, names: Sequence[str]) -> CandidateGraph:
        """A list in which each name is the parent of the next; the first one is the old end."""
        return cls({name: (before,) for before, name in pairwise(names)})

    def parents(self, name: str) -> tuple[str, ...]:
        """The parents of a candidate."""
        return self._parents[name]

    def ancestors(self, name: str) -> int:
        """The candidates that a candidate contains, including itself; empty for one before the old end."""
        return self._ancestors.get(name, 0)

    def members(self, mask: int) -> Iterator[str]:
        """The candidates of a set, oldest first."""
        while mask:
            lowest = mask & -mask
            yield self.names[lowest.bit_length() - 1]
            mask ^= lowest

    def mask(self, names: Iterable[str]) -> int:
        """The set of these candidates."""
        return sum(1 << self._number[name] for name in names)

    def halves(self, left: int, among: int) -> str | None:
        """The candidate of `among` that halves `left` most evenly, as git bisect does.

        None if every candidate leaves one half empty, so that measuring it would yield nothing.
        """
        total, best, worth = left.bit_count(), None, 0
        for name in self.members(among):
            contained = (self._ancestors[name] & left).bit_count()
            if (smaller := min(contained, total - contained)) > worth:
                best, worth = name, smaller
        return best


@dataclass(frozen=True)
class Culprit:
    """A candidate with a value that none of its parents has."""

    name: str
    before: Value
    after: Value
    parents: Mapping[str, Value]


@dataclass(frozen=True)
class Suspects:
    """Candidates one of which is the culprit; some cannot be measured, so it is unknown which."""

    names: tuple[str, ...]
    before: Value
    after: Value


@dataclass(frozen=True)
class Gradual:
    """The value changes in steps, each of which is within the tolerance."""

    name: str  # the first candidate that is nearer to the new value than to the old one
    before: Value
    after: Value


@dataclass(frozen=True)
class Returning:
    """Candidate and parent have the new value, an ancestor has the old one again: the change came back."""

    name: str
    parent: str
    before: Value
    after: Value


SearchResult = Culprit | Suspects | Gradual | Returning

Search = Generator[str, Measured, list[SearchResult]]
"""Yields the candidate to measure, is sent its value, and returns the results, oldest first."""


@dataclass(frozen=True)
class _Range:
    """The candidates among which the value changes; all older ones have one of the old values."""

    left: int
    old: tuple[Value, ...]
    new: str
    new_value: Value

    def side(self, value: Value, rule: EqualityRule) -> str:
        """`old`, `new`, or `third` for another value."""
        of_new, of_old = rule.apart(value, self.new_value), min(rule.apart(value, one) for one in self.old)
        if min(of_new, of_old) > 1:
            return "third"
        return "new" if of_new < of_old else "old"


def search(
    history: CandidateGraph,
    before: Value,
    new: str,
    after: Value,
    rule: EqualityRule,
    idle: Callable[[str], bool] = lambda _name: False,
) -> Search:
    """Find the candidates that change the value from `before`, the old end's, to `after`, that of `new`.

    `idle`: whether a candidate cannot change anything, as far as currently known. Idle candidates are only
    measured if the values of the others show that one of them changes something after all.
    """
    if rule.same(before, after):
        return []
    return (yield from _narrow(history, _Range(history.ancestors(new), (before,), new, after), rule, idle))


def _narrow(history: CandidateGraph, at: _Range, rule: EqualityRule, idle: Callable[[str], bool]) -> Search:
    """Halve the remaining candidates until one is left, or until the rest cannot be measured."""
    unusable, trusted = 0, True
    while True:
        active = at.left
        if trusted:
            active &= ~history.mask(name for name in history.members(at.left) if idle(name))
            trusted = bool(active)
            active = active or at.left
        choice = history.halves(active, active & ~unusable)
        if choice is None and active != at.left and active & unusable:
            trusted = False  # idle candidates may separate the others
            continue
        if choice is None and active.bit_count() > 1:
            return [Suspects(tuple(history.members(active)), at.old[-1], at.new_value)]
        if choice is None:
            found, at = yield from _verify(history, at, rule, next(history.members(active)))
            if found:
                return [found]
            trusted = False
            continue
        value = yield choice
        if value is None:
            unusable |= history.mask([choice])
            continue
        side = at.side(value, rule)
        if side == "third":
            older = replace(at, left=at.left & history.ancestors(choice), new=choice, new_value=value)
            newer = replace(at, left=at.left & ~history.ancestors(choice), old=(*at.old, value))
            first = yield from _narrow(history, older, rule, idle)
            return first + (yield from _narrow(history, newer, rule, idle))
        at = _narrowed(history, at, choice, value, side)


def _narrowed(history: CandidateGraph, at: _Range, name: str, value: Value, side: str) -> _Range:
    """The remaining candidates once the side of a candidate is known."""
    if side == "new":
        return replace(at, left=at.left & history.ancestors(name), new=name, new_value=value)
    return replace(at, left=at.left & ~history.ancestors(name))


def _verify(
    history: CandidateGraph, at: _Range, rule: EqualityRule, name: str
) -> Generator[str, Measured, tuple[SearchResult | None, _Range]]:
    """Check that the last candidate has the new value and its parents do not; if not, return a new range."""
    value = yield name
    if value is None:
        return Suspects(tuple(history.members(at.left)), at.old[-1], at.new_value), at
    if (side := at.side(value, rule)) != "new":
        return None, at if side == "third" else _narrowed(history, at, name, value, side)
    parents: dict[str, Value] = {}
    unmeasured: list[str] = []
    for parent in history.parents(name):
        mine = yield parent
        if mine is None:
            if history.ancestors(parent) & at.left:
                return None, at
            unmeasured.append(parent)
            continue
        parents[parent] = mine
        side = at.side(mine, rule)
        if side != "old" and history.ancestors(parent) & at.left:
            return None, at if side == "third" else _narrowed(history, at, parent, mine, side)
        if side == "new":
            return Returning(name, parent, at.old[-1], value), at
    if unmeasured:
        return Suspects((*unmeasured, name), at.old[-1], value), at
    known = list(parents.values())
    if known and all(rule.same(mine, value) for mine in known):
        return Gradual(name, at.old[-1], at.new_value), at
    nearest = known[0] if known else at.old[-1]
    return Culprit(name, nearest, value, parents), at


def run(search: Search, measure: Callable[[str], Measured]) -> list[SearchResult]:
    """Run a search with a function that measures a candidate."""
    try:
        name = next(search)
        while True:
            name = search.send(measure(name))
    except StopIteration as ended:
        found: list[SearchResult] = ended.value
        return found


def first_needed(history: CandidateGraph, new: str, idle: Callable[[str], bool]) -> str | None:
    """The first candidate that a search requests, whatever the difference between the ends.

    >>> first_needed(CandidateGraph.linear("abcde"), "e", lambda _name: False)
    'c'
    """
    return needed_next(search(history, (0.0,), new, (1.0,), EqualityRule((Tolerance(0.5),)), idle), {})


def needed_next(search: Search, values: Mapping[str, Measured]) -> str | None:
    """The candidate that a search requests once all given values are known; None if it has ended by then.

    >>> rule = EqualityRule((Tolerance(0.5),))
    >>> search_of = lambda: search(CandidateGraph.linear("abcde"), (1.0,), "e", (2.0,), rule)
    >>> needed_next(search_of(), {}), needed_next(search_of(), {"c": (2.0,)})
    ('c', 'b')
    """
    try:
        name = next(search)
        while name in values:
            name = search.send(values[name])
    except StopIteration:
        return None
    return name
