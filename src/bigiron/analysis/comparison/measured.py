"""What a profiler measured on a real machine, matched with what was counted.

A profile has no names of the kernel's objects: cache lines are matched by the functions that touch them, at
which bytes and in which instructions; locks by their class and the functions that wait; functions by name.
Measured is a time, or what follows one; counted is how often: what agrees is the order, not the size.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from bigiron.analysis import kernel_functions
from bigiron.analysis.comparison.model import ComparedPoint, Place
from bigiron.analysis.lines.matching import TOLERANCE
from bigiron.analysis.lines.matching import Row as Line
from bigiron.analysis.lines.shared_lines import LinesAt
from bigiron.util.english import first_n
from bigiron.util.lazy import polars as pl
from bigiron.util.measured import CUT, Kind, Measured, MeasuredPart, MeasuredThing, symbol
from bigiron.util.object_name import ObjectName

FIRST = 10
"""How many of the first of both are compared."""

_ALIKE = 0.45  # from which a measured cache line and a counted one are taken for one
_FINER = 0.2  # what it adds that the same bytes, or the same instructions, are touched
_ONLY_LOCKS = 1.0 + 2 * _FINER  # the most where nothing tells but the kind of lock; one more where more does
_AS_ALIKE = 0.1  # by which less a second cache line may be meant as well, if only functions of locks tell
_LOCK_ALIKE = 0.5
_MOST_FUNCTIONS = 4
_INSTRUCTION = re.compile(r".+\+(\d+)")
_FAMILIES = tuple((re.compile(names), family) for family, names in kernel_functions.LOCK_FAMILIES.items())
_TAKEN_BY = {
    "spinlock": ("spin_lock",),
    "rwlock": ("read_lock", "write_lock"),
    "rwlock:R": ("read_lock",),
    "rwlock:W": ("write_lock",),
    "rwsem": ("down_read", "down_write"),
    "rwsem:R": ("down_read",),
    "rwsem:W": ("down_write",),
    "mutex": ("mutex_lock",),
    "R": ("read_lock", "down_read"),
    "W": ("write_lock", "down_write"),
}


@dataclass(frozen=True)
class Counted:
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
    counted: Counted | None = None
    why: str = ""  # nothing was counted of it
    fields: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Of a cache line: offset and name of each field that was touched, and the functions that did."""


@dataclass(frozen=True)
class Agreement:
    """A profile beside the counts of a study."""

    kind: Kind
    unit: str
    at: Place
    pairs: tuple[Pair, ...]  # in the profile's order
    only_counted: tuple[Counted, ...]
    correlation: float | None  # Spearman's, of those that both have; None for fewer than three
    not_read: tuple[tuple[int, str], ...]

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


def _agreement(
    measured: Measured,
    at: Place,
    counted: Sequence[Counted],
    found: Mapping[int, int],
    why: Callable[[int], str],
    fields: Callable[[int, int], tuple[tuple[str, tuple[str, ...]], ...]] = lambda _one, _other: (),
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
    )


def _correlation(both: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation; None for fewer than three, or if all of one are equal."""
    from scipy.stats import spearmanr  # here, as no other command should wait a second for it

    one, other = [weight for weight, _ in both], [value for _, value in both]
    if len(both) < 3 or len(set(one)) == 1 or len(set(other)) == 1:
        return None
    return round(float(spearmanr(one, other).statistic), 3)


def _most_alike(measured: int, counted: int, likeness: Callable[[int, int], float]) -> dict[int, int]:
    """Which of those counted each of those measured is: the two most alike first, each once."""
    every = [(likeness(one, other), one, other) for one in range(measured) for other in range(counted)]
    found: dict[int, int] = {}
    for _, one, other in sorted((each for each in every if each[0] > 0), key=lambda each: (-each[0], each)):
        if one not in found and other not in found.values():
            found[one] = other
    return found


# Cache lines


@dataclass(frozen=True)
class _Touch:
    """Accesses of an instruction to a cache line, measured or counted."""

    function: str
    weight: float
    caller: str = ""  # the first one that is no lock's function, where it is known
    byte: int | None = None  # of the cache line
    instruction: str = ""  # its offset in the function, in decimal
    field: str = ""  # what lies there, where it was counted

    @property
    def key(self) -> str:
        """The function, or the kind of lock that it takes, releases or waits for."""
        return _family(self.function) or self.function


@cache
def _family(function: str) -> str:
    return next((family for names, family in _FAMILIES if names.match(function)), "")


def match_lines(
    measured: Measured, point: LinesAt, counts: pl.DataFrame, executed: Iterable[str]
) -> Agreement:
    """The cache lines of a profile beside those of the base variant.

    `counts` are `conflicts.shared` of the base's first repetition; `executed` are all functions that its
    operations execute.
    """
    rows = [row for row in point.rows if row.accesses(point.base) >= TOLERANCE]
    rows.sort(key=lambda row: (-point.cost([row]), -row.accesses(point.base)))
    counted = _counted_lines(rows, point)
    of_line = _by_line(counts)
    theirs = [of_line.get(row.lines[point.base].address) or _of_row(row, point.base) for row in rows]
    known = {touch.function for touches in theirs for touch in touches}
    ours = [[_measured_touch(part, known) for part in thing.parts] for thing in measured.things]
    likeness = _Likeness(theirs)
    alike = [likeness.of(one) for one in ours]
    unclear = [_unclear(of_one) for of_one in alike]
    found = _most_alike(len(ours), len(theirs), lambda one, at: 0.0 if unclear[one] else alike[one][at])
    executed = set(executed) | known

    def why(one: int) -> str:
        if unclear[one]:
            names = first_n(list(dict.fromkeys(counted[at].name for at in unclear[one])), 3)
            return f"only functions of locks tell what it is: {names}? (`perf c2c record -g` keeps callers)"
        return _why_no_line(measured, measured.things[one], executed)

    at = Place(point.cpus, point.tasks, tuple(point.variants), point.base)
    return _agreement(measured, at, counted, found, why, lambda one, other: _fields(ours[one], theirs[other]))


def _counted_lines(rows: Sequence[Line], point: LinesAt) -> list[Counted]:
    """The cache lines in their order, by predicted cost if a machine was given, else by accesses."""
    values = [point.cost([row]) if point.costs else row.accesses(point.base) for row in rows]
    total = sum(values) or 1.0
    return [
        Counted(
            row.object,
            value,
            {
                variant: {"writes_per_op": line.writes_per_op, "accesses_per_op": line.accesses_per_op}
                for variant, line in row.lines.items()
            },
            tuple(row.lines[point.base].weights),
            rank,
            value / total,
        )
        for rank, (row, value) in enumerate(zip(rows, values, strict=True), start=1)
    ]


def _by_line(counts: pl.DataFrame) -> dict[int, list[_Touch]]:
    """What touches each counted cache line, by its address."""
    columns = ("line", "function", "accesses_per_op", "path", "address", "offset", "field")
    found: dict[int, list[_Touch]] = {}
    for line, function, weight, path, address, offset, name in counts.select(columns).iter_rows():
        callers = map(symbol, reversed(path.split(";")))
        touch = _Touch(symbol(function), weight, _caller(callers), address - line, str(offset), name)
        found.setdefault(line, []).append(touch)
    return found


def _of_row(row: Line, variant: str) -> list[_Touch]:
    """The same of a cache line that the first repetition lacks: by function only."""
    return [
        _Touch(symbol(name), weight, field=row.object) for name, weight in row.lines[variant].weights.items()
    ]


def _caller(functions: Iterable[str]) -> str:
    """The first function that takes no lock for another one."""
    return next((name for name in functions if name and not _family(name)), "")


def _measured_touch(part: MeasuredPart, known: Iterable[str]) -> _Touch:
    """As it was measured; a name that perf has cut is the only known one that begins so."""
    function = part.function
    if len(function) >= CUT and function not in known:
        whole = [name for name in known if name.startswith(function)]
        function = whole[0] if len(whole) == 1 else function
    instruction = _INSTRUCTION.fullmatch(part.place)
    weight = part.records or part.weight + part.stores
    return _Touch(function, weight, _caller(part.callers), part.offset, instruction[1] if instruction else "")


class _Likeness:
    """How alike a measured cache line is to each of those counted.

    Functions decide, bytes and instructions tell apart what the same functions touch. A function tells the
    more, the fewer cache lines it touches. All of one kind of lock are one: contention decides which of them
    a task executes. They count with their callers, where these were measured.
    """

    def __init__(self, theirs: Sequence[Sequence[_Touch]]) -> None:
        self._theirs = theirs

    def of(self, ours: Sequence[_Touch]) -> list[float]:
        """0, or `_ALIKE` and more, for each of those counted; one more where not only locks tell."""
        by_caller = any(touch.caller for touch in ours)

        def function(touch: _Touch) -> str:
            return f"{touch.key} in {touch.caller}" if by_caller and _family(touch.function) else touch.key

        def byte(touch: _Touch) -> str:
            return f"{touch.key} {touch.byte}"

        def instruction(touch: _Touch) -> str:
            return f"{touch.function}+{touch.instruction}" if touch.instruction else ""

        functions, bytes_too, instructions = (
            self._overlaps(ours, key) for key in (function, byte, instruction)
        )
        return [
            same + _FINER * (finer + finest) + (1.0 if plain else 0.0) if same >= _ALIKE else 0.0
            for same, finer, finest, plain in zip(
                functions, bytes_too, instructions, self._share_more(ours, function), strict=True
            )
        ]

    def _share_more(self, ours: Sequence[_Touch], key: Callable[[_Touch], str]) -> list[bool]:
        """Whether something tells besides that both are locks of a kind."""
        families = kernel_functions.LOCK_FAMILIES
        known = {key(touch) for touch in ours} - {"", *families}
        return [any(key(touch) in known for touch in touches) for touches in self._theirs]

    def _overlaps(self, ours: Sequence[_Touch], key: Callable[[_Touch], str]) -> list[float]:
        """Bhattacharyya's coefficient of both distributions over keys, those of few cache lines first.

        What no counted cache line has lowers it by its share, whatever that would tell.
        """
        theirs = [_shares(touches, key) for touches in self._theirs]
        lines = Counter(name for shares in theirs for name in shares)
        tells = {name: math.log(1 + len(theirs) / number) for name, number in lines.items()}
        one = {name: share for name, share in _shares(ours, key).items() if name in tells}
        known = math.sqrt(sum(one.values()))
        return [known * _overlap(one, other, tells) for other in theirs]


def _overlap(one: Mapping[str, float], other: Mapping[str, float], tells: Mapping[str, float]) -> float:
    both = sum(tells[name] * math.sqrt(share * other[name]) for name, share in one.items() if name in other)
    return (
        both
        / math.sqrt(
            sum(tells[name] * share for name, share in one.items())
            * sum(tells[name] * share for name, share in other.items())
        )
        if both
        else 0.0
    )


def _shares(touches: Sequence[_Touch], key: Callable[[_Touch], str]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for touch in touches:
        sums[key(touch)] += touch.weight
    total = sum(sums.values()) or 1.0
    return {name: weight / total for name, weight in sums.items() if name}


def _unclear(alike: Sequence[float]) -> list[int]:
    """The counted cache lines that it may be, where nothing tells but the kind of lock."""
    best = max(alike, default=0.0)
    if not 0 < best <= _ONLY_LOCKS:
        return []
    near = [at for at, likeness in enumerate(alike) if likeness >= best - _AS_ALIKE]
    return near if len(near) > 1 else []


def _fields(ours: Sequence[_Touch], theirs: Sequence[_Touch]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What lies at the measured bytes: the field that the same functions touch most."""
    of_byte: dict[int, list[_Touch]] = {}
    for touch in sorted(ours, key=lambda touch: -touch.weight):
        if touch.byte is not None:
            of_byte.setdefault(touch.byte, []).append(touch)
    found = []
    for byte, touches in sorted(of_byte.items()):
        keys = {touch.key for touch in touches}
        fields: dict[str, float] = defaultdict(float)
        for touch in theirs:
            if touch.key in keys:
                fields[touch.field] += touch.weight
        functions = tuple(dict.fromkeys(touch.function for touch in touches if touch.function))
        name = max(fields, key=lambda name: fields[name], default="")
        found.append((f"{byte:#x} {name}".strip(), functions[:_MOST_FUNCTIONS]))
    return tuple(found)


def _why_no_line(measured: Measured, thing: MeasuredThing, executed: set[str]) -> str:
    """Why nothing was counted of a cache line."""
    if not thing.is_kernel:
        return "user memory: count it with --scope user"
    functions = [name for name in thing.functions if not _family(name)]
    if functions and not executed & set(functions):
        return f"no recorded operation executes {first_n(functions, _MOST_FUNCTIONS)}"
    if measured.has_stores and not any(part.stores for part in thing.parts):
        return "no store to it was measured: the adjacent cache line may be written (--line 128)"
    return "no counted cache line has these functions: in the recording one CPU alone touches it"


# Locks


def match_locks(measured: Measured, point: ComparedPoint) -> Agreement:
    """The locks of a profile beside those of the base variant, by class."""
    counted = _ranked(_counted_locks(point), "held_per_op", point.base)
    found = _most_alike(
        len(measured.things),
        len(counted),
        lambda one, other: _lock_likeness(measured.things[one], counted[other]),
    )

    def why(one: int) -> str:
        thing = measured.things[one]
        what = first_n(thing.functions, _MOST_FUNCTIONS) or thing.name
        return f"no recorded operation takes such a lock ({what})"

    return _agreement(measured, point.at, counted, found, why)


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


def _ranked(found: Mapping[str, _Sum], count: str, base: str) -> list[Counted]:
    """Those that the base has, the largest count first."""
    there = [(name, of) for name, of in found.items() if of.cells.get(base, {}).get(count)]
    there.sort(key=lambda one: (-one[1].cells[base][count], one[0]))
    total = sum(of.cells[base][count] for _, of in there)
    return [
        Counted(name, value, of.cells, tuple(of.functions), rank, value / total)
        for rank, (name, of) in enumerate(there, start=1)
        for value in (of.cells[base][count],)
    ]


def _lock_likeness(thing: MeasuredThing, counted: Counted) -> float:
    """0, or half and more: the waiting's share in functions that take it, and how its class is called."""
    name, _, taken_by = counted.name.rpartition(" (")
    possible = _TAKEN_BY.get(thing.type)
    if (possible and taken_by.rstrip(")") not in possible) or (
        thing.type and ":" in thing.type and not possible
    ):
        return 0.0
    waited = sum(part.weight for part in thing.parts if part.function in counted.functions)
    likeness = waited / (thing.weight or 1.0) + _same_class(thing.name, ObjectName.parse(name))
    return likeness if likeness >= _LOCK_ALIKE else 0.0


_CLASS = re.compile(
    r"&?\(?&?(?:(?P<holder>[\w.>-]+?)(?:->|\.))?(?P<member>\w+)\)?(?:->rlock|->wait_lock)?(?:#\d+)?(?:/\d+)?"
)
_KNOWN = {"rq_lock": "__lock", "zone_lock": "lock", "siglock": "siglock", "mmap_lock": "mmap_lock"}
"""Names that `perf lock contention -l` gives to locks of structs, and the members that they are."""


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


def match_functions(measured: Measured, point: ComparedPoint) -> Agreement:
    """The kernel's functions of a profile beside their instructions on the base variant."""
    found: dict[str, _Sum] = {}
    for item in point.items:
        of_function = found.setdefault(symbol(item.fields["function"]), _Sum())
        for variant, counts in item.cells.items():
            of_function.add(variant, "self_per_op", counts["self_per_op"])
    counted = _ranked(found, "self_per_op", point.base)
    number = {one.name: at for at, one in enumerate(counted)}
    of_kernel = [thing for thing in measured.things if thing.is_kernel]
    kernel = Measured(measured.kind, measured.unit, tuple(of_kernel), measured.not_read)
    return _agreement(
        kernel,
        point.at,
        counted,
        {one: number[thing.name] for one, thing in enumerate(of_kernel) if thing.name in number},
        lambda _one: "no recorded operation executes it",
    )
