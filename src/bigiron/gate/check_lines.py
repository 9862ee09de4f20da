"""Comparing shared cache lines with a baseline: which are new, or are accessed more often per operation.

Values in, values out. As in `compare`, a cache line is identified by its object and the functions that touch
it, never by its address. check_instructions.py compares instructions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import Annotated, Literal, TypeAlias

import msgspec

from bigiron.analysis.comparison.limits import BY_CHANCE, LEAST, LimitedCount, Tolerance, worst_first
from bigiron.analysis.lines import line_verdicts, matching, merging
from bigiron.analysis.lines.matching import PerBoot, SharedLine
from bigiron.analysis.statistics import spread
from bigiron.analysis.statistics.verdict import Verdict
from bigiron.study.spec import MOST_REPETITIONS
from bigiron.util.english import cpus_and_tasks
from bigiron.util.object_name import ObjectName

CountedProbe: TypeAlias = Literal["conflicts", "instructions"]
PROBES: tuple[CountedProbe, ...] = ("conflicts", "instructions")
"""The probes whose counts can be compared with a baseline."""


class BaselineLine(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A shared cache line in a baseline; counts are per operation.

    `most_accesses` and `most_writes` are the largest counts of a repetition, if they exceed the mean.
    """

    object: str
    writes: float
    accesses: float
    most_writes: float = 0.0
    most_accesses: float = 0.0
    boot_writes: list[float] = []
    """The count of each boot, for a line that CPUs access unequally often, so that chance may decide."""
    boot_accesses: list[float] = []
    tolerance: float | None = None
    """For this cache line, instead of the baseline's tolerance."""
    functions: dict[str, float]
    """Accesses per operation of the functions that touch it most."""


class BaselineInstructions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """All instructions per operation in a baseline; `most`: in the repetition with the largest count."""

    total: float
    most: float = 0.0
    tolerance: float | None = None
    """For this point, instead of the baseline's tolerance."""


class BaselineFunction(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A function's self instructions per operation in a baseline, to show where an increase is."""

    function: str
    instructions: float


class BaselinePoint(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The shared cache lines and the instructions of a variant at one number of CPUs and tasks."""

    variant: str
    kernel: str = ""
    """The measured release, as information; it is not compared."""
    cpus: int
    tasks: int | None = None
    """None: unknown."""
    boots: Annotated[int, msgspec.Meta(ge=1, le=MOST_REPETITIONS)] = 1
    """The number of boots that were measured."""
    memory_mib: int = 0
    """Of the machine; 0: unknown."""
    clock_slower: int = 1
    """How many times slower the machine's clock was than the host's."""
    topology: list[int] = []
    """The machine's sockets, nodes, cores and threads; empty: unknown."""
    qemu: str = ""
    """The version of QEMU; empty: unknown."""
    recorder: str = ""
    """A hash of the recorder's source; empty: unknown."""
    guest: str = ""
    """A hash of the source of the agent in the guest; empty: unknown."""
    lines: list[BaselineLine] = []
    instructions: BaselineInstructions | None = None
    functions: list[BaselineFunction] = []

    @property
    def place(self) -> str:
        """The point in words."""
        return f"{self.variant}, {cpus_and_tasks(self.cpus, self.tasks)}"


ALLOCATORS = "slab pages and free pages"
"""The name of the one line in a baseline for the allocators' data about pages.

Chance decides which page goes back to its node.
"""


@dataclass(frozen=True)
class CheckedPoint:
    """The result for one point: its findings, worst first, or why it was not checked."""

    place: str
    against: str  # the baseline's point
    findings: list[LimitedCount]
    skipped: str = ""
    left_out: Mapping[CountedProbe, str] = field(default_factory=dict)  # those not compared, and why
    failed: str = ""  # why it could not be measured

    @property
    def worse(self) -> list[LimitedCount]:
        """The findings that exceed their limit."""
        return [finding for finding in self.findings if finding.worse]

    @property
    def undecided(self) -> list[LimitedCount]:
        """The findings that may exceed it: two boots of one kernel may differ as much."""
        return [finding for finding in self.findings if finding.may_be_worse]

    @property
    def gaps(self) -> list[str]:
        """The probes that were not compared, and how many findings are undecided, in words."""
        found = [f"{probe} not compared ({why})" for probe, why in self.left_out.items()]
        if self.undecided:
            found.append(f"{len(self.undecided)} may be worse: {UNDECIDED}")
        return found


UNDECIDED = f"boots of one kernel may differ as much (run both with --reps {spread.MOST_BOOTS})"
"""Why a finding is undecided."""


_MOST_FUNCTIONS = 8
_LEAST_SHARE = 0.02  # of a cache line's accesses, for a function to be recorded


def _merged(lines: Sequence[SharedLine]) -> list[SharedLine]:
    """Similar lines as one, and all lines of the allocators as one; without accesses due to the layout."""
    lines = [matching.without_layout(line) for line in lines]
    theirs = [line for line in lines if ObjectName.parse(line.object).is_of_allocators]
    others = merging.merge_similar([line for line in lines if line not in theirs])
    return [*others, replace(merging.sum_of(theirs), object=ALLOCATORS)] if theirs else others


def known(repetitions: Sequence[Sequence[SharedLine]]) -> list[BaselineLine]:
    """The cache lines that a baseline records, in a fixed order."""
    columns = {str(number): _merged(lines) for number, lines in enumerate(repetitions)}
    rows = [row for row in matching.match(columns) if max(map(row.accesses, columns)) > LEAST]
    return sorted((_known(row, list(columns)) for row in rows), key=_order)


def _known(row: matching.MatchedLine, columns: list[str]) -> BaselineLine:
    writes = [round(row.writes(column), 3) for column in columns]
    accesses = [round(row.accesses(column), 3) for column in columns]
    even = all(line.even for line in row.lines.values())
    weights = {f: sum(line.weights.get(f, 0) for line in row.lines.values()) for f in row.functions}
    total = sum(weights.values())
    mean_writes, mean_accesses = (round(sum(counts) / len(columns), 3) for counts in (writes, accesses))
    return BaselineLine(
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


def check(
    baseline: BaselinePoint, repetitions: Sequence[Sequence[SharedLine]], tolerance: Tolerance
) -> list[LimitedCount]:
    """Each cache line of the baseline or of the study, largest increase first."""
    before = [(line, _as_line(line, baseline.boots)) for line in baseline.lines]
    columns = {str(number): _merged(lines) for number, lines in enumerate(repetitions)}
    rows = matching.match({_BASE: [line for _, line in before], **columns})
    by_chance = _by_chance(rows, list(columns), baseline)
    findings = []
    for row, is_chance in zip(rows, by_chance, strict=True):
        recorded = next((known for known, line in before if line is row.lines.get(_BASE)), None)
        if recorded:
            found = _known_line(row, recorded, columns, tolerance)
        else:
            after = min(map(row.writes, columns)), min(map(row.accesses, columns))
            disturbed = min(row.disturbed(column, baseline.cpus) for column in columns)
            if disturbed <= LEAST:
                continue
            found = _new_line(row, after, disturbed, tolerance)
        findings.append(replace(found, is_chance=is_chance))
    return worst_first(findings)


def _by_chance(
    rows: Sequence[matching.MatchedLine], columns: Sequence[str], baseline: BaselinePoint
) -> list[bool]:
    """Whether two boots of one kernel may differ as much, for each row, by the rules of `compare`."""
    both = []
    for row in rows:
        lines = {}
        if was := row.lines.get(_BASE):
            lines[_BASE] = was
        if now := [row.lines[column] for column in columns if column in row.lines]:
            each = tuple(PerBoot(row.writes(column), row.accesses(column)) for column in columns)
            lines[_NOW] = replace(now[0], repetitions=each, even=all(line.even for line in now))
        both.append(matching.MatchedLine(lines))
    boots = {_BASE: baseline.boots, _NOW: len(columns)}
    line_verdicts.judge(both, _BASE, [_NOW], boots, baseline.cpus)
    return [row.verdicts[_NOW] is not Verdict.changed for row in both]


_BASE, _NOW = "baseline", "study"
_UNITS = ("writes", "accesses")


def _new_line(
    row: matching.MatchedLine, after: tuple[float, float], disturbed: float, tolerance: Tolerance
) -> LimitedCount:
    allowed = _of(row.object, None, tolerance).allows(LEAST)
    writes, accesses = after
    by = _by(row)
    if accesses > disturbed:
        by += f"; {accesses:.3f} accesses including those that no write disturbs"
    return LimitedCount(_name(row), _UNITS, None, (allowed, allowed), (writes, disturbed), by)


def _known_line(
    row: matching.MatchedLine, recorded: BaselineLine, columns: Iterable[str], tolerance: Tolerance
) -> LimitedCount:
    tolerance = _of(recorded.object, recorded.tolerance, tolerance)
    names = list(columns)
    before, allowed, after = zip(
        compared(recorded.writes, recorded.most_writes, [*map(row.writes, names)], tolerance),
        compared(recorded.accesses, recorded.most_accesses, [*map(row.accesses, names)], tolerance),
        strict=True,
    )
    return LimitedCount(_name(row), _UNITS, before, allowed, after, _by(row))


def compared(
    mean: float, most: float, now: Sequence[float], tolerance: Tolerance
) -> tuple[float, float, float]:
    """The baseline's count, its limit, and the smallest count of all boots.

    The limit allows the tolerance, or the difference between boots of one kernel if that is larger.
    """
    most = max(mean, most)
    own = max(2 * (most - mean), max(now) - min(now))
    return mean, max(tolerance.allows(most), most + own), min(now)


def _name(row: matching.MatchedLine) -> str:
    return f"{row.object}: {row.functions[0]}" if row.functions else row.object


def _by(row: matching.MatchedLine) -> str:
    return f"touched by {', '.join(row.functions)}"


def _of(object: str, own: float | None, tolerance: Tolerance) -> Tolerance:
    return (BY_CHANCE if object == ALLOCATORS else tolerance).or_own(own)


def _as_line(known: BaselineLine, boots: int = 1) -> SharedLine:
    each = [*zip(known.boot_writes, known.boot_accesses, strict=True)] or [(known.writes, known.accesses)]
    return SharedLine(
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


def renewed(
    old: Sequence[BaselineLine], new: Sequence[BaselineLine], tolerance: Tolerance
) -> list[BaselineLine]:
    """A baseline's new lines. A line that differs by no more than the tolerance stays as it is."""
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


def _differs(was: BaselineLine, now: BaselineLine, tolerance: Tolerance) -> bool:
    same = _of(was.object, was.tolerance, tolerance).takes_for_same
    return len(was.boot_accesses) != len(now.boot_accesses) or not (
        same(was.writes, now.writes)
        and same(was.accesses, now.accesses)
        and same(max(was.writes, was.most_writes), max(now.writes, now.most_writes))
        and same(max(was.accesses, was.most_accesses), max(now.accesses, now.most_accesses))
    )


def _order(line: BaselineLine) -> tuple[str, ...]:
    return line.object, *line.functions
