"""Holding counts against a baseline: which shared lines has an operation now that it had not, or had less of.

Values in, values out. A line is found again as `compare` does it, by what it is and who touches it, never by
its address. check_work.py does the same with instructions.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import Literal, TypeAlias

import msgspec

from bigiron.analysis.lines import line_verdicts, matching, merging
from bigiron.analysis.lines.matching import Line, PerBoot
from bigiron.analysis.statistics import spread
from bigiron.analysis.statistics.verdict import Verdict
from bigiron.util.english import plural

Probe: TypeAlias = Literal["conflicts", "instructions"]
PROBES: tuple[Probe, ...] = ("conflicts", "instructions")
"""Those whose counts can be held against a baseline."""


class Known(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A shared line in a baseline; counts are per operation.

    `most_accesses` and `most_writes` are those of the repetition that had most, where that was not the mean.
    """

    object: str
    writes: float
    accesses: float
    most_writes: float = 0.0
    most_accesses: float = 0.0
    boot_writes: list[float] = []
    """In each boot, of a line that CPUs do not access equally often: chance may decide how often they do."""
    boot_accesses: list[float] = []
    tolerance: float | None = None
    """For this line, instead of the baseline's."""
    functions: dict[str, float]
    """Accesses per operation of those that touch it most."""


class Instructions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """All instructions per operation in a baseline; `most` are those of the repetition that had most."""

    total: float
    most: float = 0.0
    tolerance: float | None = None
    """For this point, instead of the baseline's."""


class Function(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A function's own instructions per operation in a baseline: they show where more is executed."""

    function: str
    instructions: float


class Point(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The shared cache lines and the instructions of a variant at a number of CPUs and tasks."""

    variant: str
    kernel: str = ""
    """The release that was measured; to be read, not compared."""
    cpus: int
    tasks: int
    boots: int = 1
    """On which it was measured."""
    memory_mib: int = 0
    """Of the machine; 0: not known."""
    clock_slower: int = 1
    """How many times slower the machine's clock was than the host's."""
    lines: list[Known] = []
    instructions: Instructions | None = None
    functions: list[Function] = []

    @property
    def place(self) -> str:
        """Where it was measured, in words."""
        return f"{self.variant}, {plural(self.cpus, 'CPU')}, {plural(self.tasks, 'task')}"


ALLOCATORS = "slab pages and free pages"
"""One line in a baseline of all that allocators keep of pages: which page goes back to its node is chance."""

_OF_ALLOCATORS = re.compile(r"struct (slab|kmem_cache_node)\b.*|.*\((free page|slab|freed)\)")


def is_of_allocators(object: str) -> bool:
    """Whether a line is what allocators keep of pages, of which there is more or less by chance."""
    return bool(_OF_ALLOCATORS.fullmatch(object))


LEAST = matching.TOLERANCE
"""Accesses per operation that a line must have to be recorded: one that is not may have had as many."""


@dataclass(frozen=True)
class Tolerance:
    """By how much a count per operation may exceed the baseline's: by the sum of both."""

    absolute: float = 0.5
    relative: float = matching.RELATIVE_TOLERANCE

    def allows(self, count: float) -> float:
        """The most that passes where the baseline has this count."""
        return count * (1 + self.relative) + self.absolute

    def or_own(self, own: float | None) -> "Tolerance":
        """The same for what may have a tolerance of its own."""
        return self if own is None else replace(self, absolute=own)

    def takes_for_same(self, one: float, other: float) -> bool:
        """Whether two counts are no further apart."""
        return max(one, other) <= self.allows(min(one, other))


BY_CHANCE = Tolerance(1.0, 1.0)
"""Of ALLOCATORS: the same kernel has up to twice as many as in another run."""


@dataclass(frozen=True)
class Finding:
    """What the baseline, the study, or both have counts of, per operation, a unit each."""

    name: str
    units: tuple[str, ...]
    before: tuple[float, ...] | None  # None: not in the baseline
    allowed: tuple[float, ...]
    after: tuple[float, ...]  # of the repetition that has fewest: a regression is in each of them
    by: str = ""  # who does it: "touched by dput, d_alloc"
    is_chance: bool = False  # whether boots of one kernel may differ as much

    @property
    def worse(self) -> bool:
        """Whether it is known to be more than is allowed."""
        return self._exceeds and not self.is_chance

    @property
    def may_be_worse(self) -> bool:
        """Whether it is more than is allowed, of what may differ as much from boot to boot."""
        return self._exceeds and self.is_chance

    @property
    def _exceeds(self) -> bool:
        return any(after > allowed for after, allowed in zip(self.after, self.allowed, strict=True))

    @property
    def words(self) -> str:
        """What is found, and what the baseline has."""
        now = ", ".join(f"{count:.3f} {unit}" for count, unit in zip(self.after, self.units, strict=True))
        had = f"the baseline has {_and(self.before)}" if self.before else "not in the baseline"
        passes = "pass" if len(self.allowed) > 1 else "passes"
        return f"{now} per operation; {had} ({_and(self.allowed)} {passes})"

    @property
    def more(self) -> float:
        """By how much it is beyond the baseline, in the unit that is most so."""
        before = self.before or (0.0,) * len(self.after)
        return max(after - was for after, was in zip(self.after, before, strict=True))


def _and(counts: tuple[float, ...]) -> str:
    return " and ".join(f"{count:.3f}" for count in counts)


@dataclass(frozen=True)
class Checked:
    """What became of one point: its cache lines, worst first, its instructions, or why it was not checked."""

    place: str
    against: str  # the baseline's place
    findings: list[Finding]
    skipped: str = ""
    left_out: Mapping[Probe, str] = field(default_factory=dict)  # probes that were not compared, and why

    @property
    def worse(self) -> list[Finding]:
        """What is more than the baseline allows."""
        return [finding for finding in self.findings if finding.worse]

    @property
    def undecided(self) -> list[Finding]:
        """What may be: boots of one kernel may differ as much."""
        return [finding for finding in self.findings if finding.may_be_worse]

    @property
    def gaps(self) -> list[str]:
        """What was not compared, or not decided, in words."""
        found = [f"{probe} not compared ({why})" for probe, why in self.left_out.items()]
        if self.undecided:
            found.append(f"{len(self.undecided)} may be worse: {UNDECIDED}")
        return found


UNDECIDED = f"boots of one kernel may differ as much (run both with --reps {spread.MOST_BOOTS})"
"""Why something is not decided."""


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """In the order in which they are told."""
    return sorted(findings, key=lambda finding: (not finding.worse, -finding.more, finding.name))


_MOST_FUNCTIONS = 8
_LEAST_SHARE = 0.02  # of a line's accesses: functions with less are not recorded


def _added_up(lines: Sequence[Line]) -> list[Line]:
    """Lines that are alike as one, and all that is the allocators'; without accesses that are layout."""
    lines = [matching.without_layout(line) for line in lines]
    theirs = [line for line in lines if is_of_allocators(line.object)]
    others = merging.added_up([line for line in lines if line not in theirs])
    return [*others, replace(merging.sum_of(theirs), object=ALLOCATORS)] if theirs else others


def known(repetitions: Sequence[Sequence[Line]]) -> list[Known]:
    """What a baseline records of a cell, in a fixed order."""
    columns = {str(number): _added_up(lines) for number, lines in enumerate(repetitions)}
    rows = [row for row in matching.match(columns) if max(map(row.accesses, columns)) > LEAST]
    return sorted((_known(row, list(columns)) for row in rows), key=_order)


def _known(row: matching.Row, columns: list[str]) -> Known:
    writes = [round(row.writes(column), 3) for column in columns]
    accesses = [round(row.accesses(column), 3) for column in columns]
    even = all(line.even for line in row.lines.values())
    weights = {f: sum(line.weights.get(f, 0) for line in row.lines.values()) for f in row.functions}
    total = sum(weights.values())
    mean_writes, mean_accesses = (round(sum(counts) / len(columns), 3) for counts in (writes, accesses))
    return Known(
        object=row.object,
        writes=mean_writes,
        accesses=mean_accesses,
        most_writes=max(writes) if max(writes) > mean_writes + 0.001 else 0.0,
        most_accesses=max(accesses) if max(accesses) > mean_accesses + 0.001 else 0.0,
        boot_writes=[] if even else writes,
        boot_accesses=[] if even else accesses,
        functions={
            function: round(weights[function] / len(columns), 3)
            for function in row.functions[:_MOST_FUNCTIONS]
            if weights[function] >= _LEAST_SHARE * total
        },
    )


def check(baseline: Point, repetitions: Sequence[Sequence[Line]], tolerance: Tolerance) -> list[Finding]:
    """Each line that the baseline or the cell's repetitions have, the one with the largest increase first."""
    before = [(line, _as_line(line, baseline.boots)) for line in baseline.lines]
    columns = {str(number): _added_up(lines) for number, lines in enumerate(repetitions)}
    rows = matching.match({_BASE: [line for _, line in before], **columns})
    by_chance = _by_chance(rows, list(columns), baseline.boots)
    findings = []
    for row, is_chance in zip(rows, by_chance, strict=True):
        recorded = next((known for known, line in before if line is row.lines.get(_BASE)), None)
        if recorded:
            found = _known_line(row, recorded, columns, tolerance)
        else:
            after = min(map(row.writes, columns)), min(map(row.accesses, columns))
            disturbed = min(_disturbed(row, column, baseline.cpus) for column in columns)
            if disturbed <= LEAST:
                continue
            found = _new_line(row, after, disturbed, tolerance)
        findings.append(replace(found, is_chance=is_chance))
    return worst_first(findings)


def _by_chance(rows: Sequence[matching.Row], columns: Sequence[str], boots: int) -> list[bool]:
    """Of each row whether boots of one kernel may differ as much, by the rules of `compare`."""
    both = []
    for row in rows:
        lines = {}
        if was := row.lines.get(_BASE):
            lines[_BASE] = was
        if now := [row.lines[column] for column in columns if column in row.lines]:
            each = tuple(PerBoot(row.writes(column), row.accesses(column)) for column in columns)
            lines[_NOW] = replace(now[0], repetitions=each, even=all(line.even for line in now))
        both.append(matching.Row(lines))
    line_verdicts.judge(both, _BASE, [_NOW], {_BASE: boots, _NOW: len(columns)})
    return [row.verdicts[_NOW] is not Verdict.changed for row in both]


def _disturbed(row: matching.Row, column: str, cpus: int) -> float:
    """Accesses that may wait for another CPU: a write makes each CPU fetch the line once, at most.

    Whether a line that all read is written at all while it is recorded, once in a thousand operations, is
    chance, and makes all reads those of a shared line.
    """
    return min(row.accesses(column), row.writes(column) * cpus)


_BASE, _NOW = "baseline", "study"
_UNITS = ("writes", "accesses")


def _new_line(
    row: matching.Row, after: tuple[float, float], disturbed: float, tolerance: Tolerance
) -> Finding:
    allowed = _of(row.object, None, tolerance).allows(LEAST)
    writes, accesses = after
    by = _by(row)
    if accesses > disturbed:
        by += f"; {accesses:.3f} accesses with those that no write disturbs"
    return Finding(_name(row), _UNITS, None, (allowed, allowed), (writes, disturbed), by)


def _known_line(row: matching.Row, recorded: Known, columns: Iterable[str], tolerance: Tolerance) -> Finding:
    tolerance = _of(recorded.object, recorded.tolerance, tolerance)
    names = list(columns)
    before, allowed, after = zip(
        compared(recorded.writes, recorded.most_writes, [*map(row.writes, names)], tolerance),
        compared(recorded.accesses, recorded.most_accesses, [*map(row.accesses, names)], tolerance),
        strict=True,
    )
    return Finding(_name(row), _UNITS, before, allowed, after, _by(row))


def compared(
    mean: float, most: float, now: Sequence[float], tolerance: Tolerance
) -> tuple[float, float, float]:
    """A count in the baseline, the most that is allowed, and the fewest of all boots.

    The tolerance is allowed, or as much as boots of one kernel differ by.
    """
    most = max(mean, most)
    own = max(2 * (most - mean), max(now) - min(now))
    return mean, max(tolerance.allows(most), most + own), min(now)


def _name(row: matching.Row) -> str:
    return f"{row.object}: {row.functions[0]}" if row.functions else row.object


def _by(row: matching.Row) -> str:
    return f"touched by {', '.join(row.functions)}"


def _of(object: str, own: float | None, tolerance: Tolerance) -> Tolerance:
    return (BY_CHANCE if object == ALLOCATORS else tolerance).or_own(own)


def _as_line(known: Known, boots: int = 1) -> Line:
    each = [*zip(known.boot_writes, known.boot_accesses, strict=True)] or [(known.writes, known.accesses)]
    return Line(
        known.object,
        known.functions,
        known.writes,
        known.accesses,
        0,
        0,
        false_sharing=False,
        repetitions=tuple(PerBoot(*counts) for counts in islice(cycle(each), boots)),
        even=not known.boot_accesses,
    )


def kept(old: Sequence[Known], new: Sequence[Known], tolerance: Tolerance) -> list[Known]:
    """A baseline's lines, renewed: those that differ by no more than the tolerance stay as they are."""
    lines = {_BASE: [_as_line(line) for line in old], "new": [_as_line(line) for line in new]}
    known = {id(line): one for line, one in zip((*lines[_BASE], *lines["new"]), (*old, *new), strict=True)}
    renewed = []
    for row in matching.match(lines):
        was, now = (known.get(id(row.lines.get(column))) for column in (_BASE, "new"))
        if was and (now is None or not _differs(was, now, tolerance)):
            if now or tolerance.takes_for_same(was.accesses, LEAST):
                renewed.append(was)
        elif now and (was or not tolerance.takes_for_same(now.accesses, LEAST)):
            renewed.append(msgspec.structs.replace(now, tolerance=was.tolerance if was else None))
    return sorted(renewed, key=_order)


def _differs(was: Known, now: Known, tolerance: Tolerance) -> bool:
    same = _of(was.object, was.tolerance, tolerance).takes_for_same
    return len(was.boot_accesses) != len(now.boot_accesses) or not (
        same(was.writes, now.writes)
        and same(was.accesses, now.accesses)
        and same(max(was.writes, was.most_writes), max(now.writes, now.most_writes))
        and same(max(was.accesses, was.most_accesses), max(now.accesses, now.most_accesses))
    )


def _order(line: Known) -> tuple[str, ...]:
    return line.object, *line.functions
