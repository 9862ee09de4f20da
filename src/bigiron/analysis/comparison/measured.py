"""What a profiler measured on a real machine, matched with what was counted.

Locks are matched by their class and the functions that wait, functions by name, waits by the functions
that lead there; cache lines in `analysis.lines.measured_lines`. What is measured is a time, or follows one;
what is counted is how often: they agree in their order, not in size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from bigiron.analysis import kernel_functions
from bigiron.analysis.comparison.model import ComparedPoint, ComparedVariants
from bigiron.util.english import first_n
from bigiron.util.measured import MeasuredPart, MeasuredProfile, MeasuredThing, ProfileKind, symbol
from bigiron.util.object_name import ObjectName

FIRST = 10
"""How many of the first of both are compared."""

Fields: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Of a cache line: offset and name of each field that was touched, and the functions that did."""

_ALIKE = 0.5
_MOST_FUNCTIONS = 4
_TAKEN_BY = {
    "spinlock": ("spin_lock",),
    "rwlock": ("read_lock", "write_lock"),
    "rwlock:R": ("read_lock",),
    "rwlock:W": ("write_lock",),
    "rwsem": ("down_read", "down_write"),
    "rwsem:R": ("down_read",),
    "rwsem:W": ("down_write",),
    "mutex": ("mutex_lock",),
    "mutex or rwsem": ("mutex_lock", "down_read", "down_write"),
    "R": ("read_lock", "down_read"),
    "W": ("write_lock", "down_write"),
}


@dataclass(frozen=True)
class CountedThing:
    """A cache line, lock or function as it was counted."""

    name: str
    value: float  # by which it is ranked, on the variant that is compared
    cells: Mapping[str, Mapping[str, float]]  # by variant: counts per operation
    functions: tuple[str, ...]
    rank: int  # from 1
    share: float  # of all that was counted


@dataclass(frozen=True)
class Pair:
    """Something measured, and what was counted of it."""

    measured: MeasuredThing
    rank: int  # from 1
    share: float  # of all that was measured
    counted: CountedThing | None = None
    why: str = ""  # nothing was counted of it
    fields: Fields = ()


@dataclass(frozen=True)
class Agreement:
    """A profile beside the counts of a study."""

    kind: ProfileKind
    unit: str
    at: ComparedVariants
    pairs: tuple[Pair, ...]  # in the profile's order
    only_counted: tuple[CountedThing, ...]
    correlation: float | None  # Spearman's, of those that both have; None for fewer than three
    not_read: tuple[tuple[int, str], ...]
    notes: tuple[str, ...]

    @property
    def both(self) -> list[Pair]:
        """What was measured and counted."""
        return [pair for pair in self.pairs if pair.counted]

    @property
    def first(self) -> int:
        """How many of the first measured are compared with as many counted."""
        return min(FIRST, len(self.pairs))

    @property
    def first_of_both(self) -> int:
        """How many of the first measured are among the first counted."""
        return sum(bool(pair.counted and pair.counted.rank <= FIRST) for pair in self.pairs[: self.first])


def agreement(
    measured: MeasuredProfile,
    at: ComparedVariants,
    counted: Sequence[CountedThing],
    found: Mapping[int, int],
    why: Callable[[int], str],
    fields: Callable[[int, int], Fields] = lambda _one, _other: (),
) -> Agreement:
    """Both side by side; `found` has the number of what was counted by the number of what was measured."""
    total = measured.total or 1.0
    pairs = []
    for one, thing in enumerate(measured.things):
        place = (thing, one + 1, thing.weight / total)
        if one in found:
            pairs.append(Pair(*place, counted[found[one]], fields=fields(one, found[one])))
        else:
            pairs.append(Pair(*place, why=why(one)))
    return Agreement(
        measured.kind,
        measured.unit,
        at,
        tuple(pairs),
        tuple(one for number, one in enumerate(counted) if number not in found.values()),
        _correlation([(pair.measured.weight, pair.counted.value) for pair in pairs if pair.counted]),
        measured.not_read,
        measured.notes,
    )


def _correlation(both: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation; None for fewer than three, or if all of one are equal."""
    from scipy.stats import spearmanr  # here, as no other command should wait a second for it

    one, other = [weight for weight, _ in both], [value for _, value in both]
    if len(both) < 3 or len(set(one)) == 1 or len(set(other)) == 1:
        return None
    return round(float(spearmanr(one, other).statistic), 3)


def most_alike(measured: int, counted: int, likeness: Callable[[int, int], float]) -> dict[int, int]:
    """Which of those counted each of those measured is: the two most alike first, each once."""
    every = [(likeness(one, other), one, other) for one in range(measured) for other in range(counted)]
    found: dict[int, int] = {}
    for _, one, other in sorted((each for each in every if each[0] > 0), key=lambda each: (-each[0], each)):
        if one not in found and other not in found.values():
            found[one] = other
    return found


# Locks


def match_locks(measured: MeasuredProfile, point: ComparedPoint) -> Agreement:
    """The locks of a profile beside those of the base variant, by class."""
    counted = _ranked(_counted_locks(point), "held_per_op", point.base)
    found = most_alike(
        len(measured.things),
        len(counted),
        lambda one, other: _lock_likeness(measured.things[one], counted[other]),
    )

    def why(one: int) -> str:
        thing = measured.things[one]
        if thing.name.startswith("0x") and not thing.functions:
            return "perf has no name for it: without -l, `perf lock contention` prints who waits"
        what = first_n(thing.functions, _MOST_FUNCTIONS) or thing.name
        return f"no recorded operation takes such a lock ({what})"

    return agreement(measured, point.at, counted, found, why)


@dataclass
class _Sum:
    """What is counted together: the locks of a class, the parts of a function."""

    cells: dict[str, dict[str, float]] = field(default_factory=dict)  # by variant
    functions: dict[str, None] = field(default_factory=dict)

    def add(self, variant: str, count: str, value: float) -> None:
        """More of a count."""
        of_variant = self.cells.setdefault(variant, {})
        of_variant[count] = of_variant.get(count, 0.0) + value


def _counted_locks(point: ComparedPoint) -> dict[str, _Sum]:
    """By class: counts by variant, and the functions that take it."""
    found: dict[str, _Sum] = {}
    for item in point.items:
        name = f"{ObjectName.parse(item.fields['lock']).whichever_cpu} ({item.fields['taken_by']})"
        of_class = found.setdefault(name, _Sum())
        of_class.functions.update(dict.fromkeys(map(symbol, item.fields["taken_in"])))
        for variant, counts in item.cells.items():
            for count in ("acquisitions_per_op", "held_per_op"):
                of_class.add(variant, count, counts[count])
    return found


def _ranked(found: Mapping[str, _Sum], count: str, base: str) -> list[CountedThing]:
    """Those that the base has, the largest count first."""
    there = [(name, of) for name, of in found.items() if of.cells.get(base, {}).get(count)]
    there.sort(key=lambda one: (-one[1].cells[base][count], one[0]))
    total = sum(of.cells[base][count] for _, of in there)
    return [
        CountedThing(name, value, of.cells, tuple(of.functions), rank, value / total)
        for rank, (name, of) in enumerate(there, start=1)
        for value in (of.cells[base][count],)
    ]


def _lock_likeness(thing: MeasuredThing, counted: CountedThing) -> float:
    """0, or half and more: the waiting's share in functions that take it, and how its class is called."""
    name, _, taken_by = counted.name.rpartition(" (")
    possible = _TAKEN_BY.get(thing.type)
    if (possible and taken_by.rstrip(")") not in possible) or (
        thing.type and ":" in thing.type and not possible
    ):
        return 0.0
    waited = sum(part.weight for part in thing.parts if part.function in counted.functions)
    likeness = waited / (thing.weight or 1.0) + _same_class(thing.name, ObjectName.parse(name))
    return likeness if likeness >= _ALIKE else 0.0


_CLASS = re.compile(
    r"&?\(?&?(?:(?P<holder>[\w.>-]+?)(?:->|\.))?(?P<member>\w+)\)?(?:->rlock|->wait_lock)?(?:#\d+)?(?:/\d+)?"
)
_KNOWN = {
    "rq_lock": "__lock",
    "zone_lock": "lock",
    "siglock": "siglock",
    "mmap_lock": "mmap_lock",
    "i_mutex_key": "i_rwsem",
    "i_mutex_dir_key": "i_rwsem",
}
"""Names that perf and lockdep give to locks of structs, and the members that they are."""


def _same_class(name: str, lock: ObjectName) -> float:
    """How much a class's name, as lockdep or perf has it, tells that it is this lock: 0 to 1."""
    found = _CLASS.fullmatch(name)
    if not found:
        return 0.0
    holder, member = found["holder"] or "", _KNOWN.get(found["member"], found["member"])
    struct = lock.base.removeprefix("struct ")
    if name.startswith("&") and not holder:  # a slab cache
        return float(struct == member or lock.detail.startswith(member))
    path = lock.path.strip(".").split(".")
    if not lock.path or not holder:
        return float(member == struct or (member in path and (not holder or found["member"] in _KNOWN)))
    holder = re.split(r"->|\.", holder)[-1]
    return (0.6 if member in path else 0.0) + (0.4 if struct.startswith(holder) and member in path else 0.0)


# Functions


def match_functions(measured: MeasuredProfile, point: ComparedPoint) -> Agreement:
    """The kernel's functions of a profile beside their instructions on the base variant."""
    found: dict[str, _Sum] = {}
    for item in point.items:
        of_function = found.setdefault(symbol(item.fields["function"]), _Sum())
        for variant, counts in item.cells.items():
            of_function.add(variant, "self_per_op", counts["self_per_op"])
    counted = _ranked(found, "self_per_op", point.base)
    number = {one.name: at for at, one in enumerate(counted)}
    of_kernel = [thing for thing in measured.things if thing.is_kernel]
    return agreement(
        replace(measured, things=tuple(of_kernel)),
        point.at,
        counted,
        {one: number[thing.name] for one, thing in enumerate(of_kernel) if thing.name in number},
        lambda _one: "no recorded operation executes it",
    )


# Waits


def match_waits(measured: MeasuredProfile, point: ComparedPoint, place: Callable[[str], str]) -> Agreement:
    """The places where tasks waited beside those of the base variant; `place` names one by its call path.

    Kernel threads whose own function waits have no work, and are left out.
    """
    found: dict[str, _Sum] = {}
    for row in point.rows:
        _state, _, where = row.name.partition(" ")
        of_place = found.setdefault(where, _Sum())
        of_place.functions.update(dict.fromkeys(map(symbol, where.split(_INSIDE))))
        for count, figure in zip(("ms_per_op", "times_per_op"), row.figures, strict=True):
            for variant in figure.values:
                of_place.add(variant, count, figure.mean(variant))
    counted = _ranked(found, "ms_per_op", point.base)
    of_tasks = replace(measured, things=tuple(_by_place(measured, place)))
    alike = most_alike(
        len(of_tasks.things),
        len(counted),
        lambda one, other: _wait_likeness(of_tasks.things[one], counted[other]),
    )
    return agreement(of_tasks, point.at, counted, alike, lambda _one: "no recorded operation waits there")


_INSIDE = " < "  # between the functions of a place, innermost first


def _by_place(measured: MeasuredProfile, place: Callable[[str], str]) -> list[MeasuredThing]:
    """The stacks of a profile added up by place, the longest waits first."""
    parts: dict[str, list[MeasuredPart]] = {}
    for part in (part for thing in measured.things for part in thing.parts):
        path = (part.function, *part.callers)
        if set(path[:2]).isdisjoint(kernel_functions.WAITING_FOR_WORK):
            parts.setdefault(place(";".join(reversed(path))), []).append(part)
    things = [
        MeasuredThing(name, sum(part.weight for part in of_place), tuple(of_place))
        for name, of_place in parts.items()
    ]
    return sorted(things, key=lambda thing: -thing.weight)


def _wait_likeness(thing: MeasuredThing, counted: CountedThing) -> float:
    """0, or half and more: which of the functions that tell what was counted led to what was measured."""
    path = {name for part in thing.parts for name in (part.function, *part.callers)}
    share = sum(name in path for name in counted.functions) / len(counted.functions)
    if counted.functions[0] not in path or share < _ALIKE:
        return 0.0
    return share + (1.0 if thing.name == counted.name else 0.0)
