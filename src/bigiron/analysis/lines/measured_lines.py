"""The cache lines of a profile, matched with those that were counted.

A profile has addresses of another boot, and no names of the kernel's objects: what tells that two cache lines
are the same is which functions touch them, at which bytes and in which instructions.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache

from bigiron.analysis import kernel_functions
from bigiron.analysis.comparison.measured import Agreement, CountedThing, Fields, agreement, most_alike
from bigiron.analysis.comparison.model import ComparedVariants
from bigiron.analysis.lines.matching import TOLERANCE, MatchedLine
from bigiron.analysis.lines.shared_lines import LinesAt
from bigiron.util.english import first_n
from bigiron.util.lazy import polars as pl
from bigiron.util.measured import CUT, MeasuredPart, MeasuredProfile, MeasuredThing, symbol

_MOST_FUNCTIONS = 4
_ALIKE = 0.45  # from which a measured cache line and a counted one are taken for one
_FINER = 0.2  # what it adds that the same bytes, or the same instructions, are touched
_ONLY_LOCKS = 1.0 + 2 * _FINER  # the most where nothing tells but the kind of lock; one more where more does
_AS_ALIKE = 0.1  # by which less a second cache line may be meant as well, if only functions of locks tell
_INSTRUCTION = re.compile(r".+\+(\d+)")
_NOT_THESE = "no counted cache line has these functions"
_FAMILIES = tuple((re.compile(names), family) for family, names in kernel_functions.LOCK_FAMILIES.items())


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


def match(
    measured: MeasuredProfile, point: LinesAt, counts: pl.DataFrame, executed: Set[str] | None, user: str
) -> Agreement:
    """The cache lines of a profile beside those of the base variant.

    `counts` are `conflicts.shared` of the base's first repetition; `executed` are all functions that its
    operations execute, None if they were not recorded; `user` is why user memory was not counted, empty if
    it was.
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
    found = most_alike(len(ours), len(theirs), lambda one, at: 0.0 if unclear[one] else alike[one][at])

    def why(one: int) -> str:
        if unclear[one]:
            names = first_n(list(dict.fromkeys(counted[at].name for at in unclear[one])), 3)
            return f"only functions of locks tell what it is: {names}? (`perf c2c record -g` keeps callers)"
        return _why_no_line(measured, measured.things[one], known, executed, user)

    at = ComparedVariants(point.cpus, point.tasks, tuple(point.variants), point.base)
    return agreement(measured, at, counted, found, why, lambda one, other: _fields(ours[one], theirs[other]))


def _counted_lines(rows: Sequence[MatchedLine], point: LinesAt) -> list[CountedThing]:
    """The cache lines in their order, by predicted cost if a machine was given, else by accesses."""
    values = [point.cost([row]) if point.costs else row.accesses(point.base) for row in rows]
    total = sum(values) or 1.0
    return [
        CountedThing(
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


def _of_row(row: MatchedLine, variant: str) -> list[_Touch]:
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


def _fields(ours: Sequence[_Touch], theirs: Sequence[_Touch]) -> Fields:
    """What lies at the measured bytes: what the same functions touch there.

    If they touch none of these bytes, the layout is another one, and the field that they touch most is meant.
    """
    of_byte: dict[int, list[_Touch]] = {}
    for touch in sorted(ours, key=lambda touch: -touch.weight):
        if touch.byte is not None:
            of_byte.setdefault(touch.byte, []).append(touch)
    names = {byte: _field(touches, theirs, byte) for byte, touches in of_byte.items()}
    if not any(names.values()):
        names = {byte: _field(touches, theirs, None) for byte, touches in of_byte.items()}
    return tuple(
        (
            f"{byte:#x} {names[byte]}".strip(),
            tuple(dict.fromkeys(touch.function for touch in touches if touch.function))[:_MOST_FUNCTIONS],
        )
        for byte, touches in sorted(of_byte.items())
    )


def _field(ours: Sequence[_Touch], theirs: Sequence[_Touch], byte: int | None) -> str:
    """The field that the same functions touch most, at a byte or anywhere; empty if there is none."""
    keys = {touch.key for touch in ours}
    fields: dict[str, float] = defaultdict(float)
    for touch in theirs:
        if touch.key in keys and byte in (None, touch.byte):
            fields[touch.field] += touch.weight
    return max(fields, key=lambda name: fields[name], default="")


def _why_no_line(
    measured: MeasuredProfile, thing: MeasuredThing, known: Set[str], executed: Set[str] | None, user: str
) -> str:
    """Why nothing was counted of a cache line; `known` are the functions that touch counted ones."""
    if not thing.is_kernel:
        return user or _NOT_THESE
    functions = [name for name in thing.functions if not _family(name)]
    if functions and known.isdisjoint(functions):
        if executed is None:
            return f"{_NOT_THESE} (record `instructions` to see whether they run)"
        if executed.isdisjoint(functions):
            return f"no recorded operation executes {first_n(functions, _MOST_FUNCTIONS)}"
    if measured.has_stores and not any(part.stores for part in thing.parts):
        return "no store to it was measured: the adjacent cache line may be written (`compare --line 128`)"
    return f"{_NOT_THESE}: in the recording one CPU alone touches it"
