"""From counts to findings: one list of all probes' changes, the most expensive first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from bigiron.analysis.comparison import cost, paths
from bigiron.analysis.comparison.cost import Queue
from bigiron.analysis.comparison.findings import (
    CostlyFinding,
    Effect,
    Finding,
    LineFinding,
    LockFinding,
    WorkFinding,
)
from bigiron.analysis.comparison.model import ComparedPoint, ComparedRow
from bigiron.analysis.layout.outcome import LayoutCounts
from bigiron.analysis.lines import rules
from bigiron.analysis.lines.matching import MatchedLine
from bigiron.analysis.lines.rules import Evidence
from bigiron.analysis.lines.shared_lines import LinesAt
from bigiron.analysis.probes.costly import Costly
from bigiron.analysis.probes.locks import CPUS, HELD, TAKEN, held_otherwise, lock_of
from bigiron.analysis.replay.program import READERS
from bigiron.analysis.statistics.verdict import Verdict
from bigiron.util.object_name import ANYTHING, ObjectName, object_type

LEAST = 0.5
"""Accesses per operation from which a line is worth a sentence where there is nothing to compare."""

LEAST_CHANGE = 0.1
"""Change of its accesses, or of its writes, from which it is worth one where there is."""

LEAST_COST = 0.1
"""Predicted share of the tasks' time, or change of it, from which it is worth one whatever its accesses."""


@dataclass(frozen=True)
class RecordedPoint:
    """What the probes counted at one number of CPUs and tasks; None of a probe that was not recorded."""

    lines: LinesAt | None
    locks: ComparedPoint | None
    instructions: ComparedPoint | None
    costly: Sequence[Costly] = ()
    by_alignment: Mapping[str, Mapping[str, LayoutCounts]] = field(default_factory=dict)
    """By struct and variant: accesses to all its objects, wherever an allocator can put them. Empty without
    the probe layout."""
    by_instructions: Collection[tuple[str, str]] = ()
    """Locks, with what takes them, that are held longer, or shorter, by what functions execute under them."""

    @property
    def _any(self) -> LinesAt | ComparedPoint:
        found = self.lines or self.locks or self.instructions
        assert found
        return found

    @property
    def base(self) -> str:
        """What the others are compared with."""
        return self._any.base

    @property
    def variants(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self._any.variants)

    @property
    def others(self) -> tuple[str, ...]:
        """Those that are compared with the base."""
        return tuple(variant for variant in self.variants if variant != self.base)

    @property
    def cpus(self) -> int:
        """How many the machine has."""
        return self._any.cpus

    @property
    def tasks(self) -> int | None:
        """How many run; None: unknown."""
        return self._any.tasks

    @property
    def busy(self) -> int:
        """The same; where it is unknown, one per CPU."""
        return self.tasks or self.cpus


@dataclass(frozen=True)
class Explained:
    """What is worth saying, and what was left out of it."""

    recorded: RecordedPoint
    findings: list[Finding]  # the most expensive first
    layout: list[MatchedLine] = field(
        default_factory=list
    )  # that seem to differ, by where objects lie in their slab
    undecided: int = 0  # counts that may differ: boots of one kernel do as much


def explain(recorded: RecordedPoint) -> Explained:
    """The findings, most expensive first.

    With several variants they are what differs. With one they are the lines and locks used most. If a
    machine is given, the order is the predicted share of the tasks' time, and a line that takes a tenth is a
    finding however seldom it is touched. What depends on the machine's shape, and layout, come last.
    """
    found: list[Finding] = [*_lines(recorded), *_work(recorded), *_costly(recorded)]
    found = _with_locks(found, recorded)
    ranked = sorted(found, key=lambda one: (one.is_of_chance, -_predicted(one, recorded), -one.cost))
    points = [point for point in (recorded.locks, recorded.instructions) if point]
    rows = [*recorded.lines.rows, *recorded.lines.pairs] if recorded.lines else []
    undecided = sum(row.is_undecided for row in rows)
    undecided += sum(row.is_undecided for point in points for row in point.rows)
    return Explained(recorded, ranked, [row for row in rows if row.differs_by_layout], undecided)


def _predicted(finding: Finding, recorded: RecordedPoint) -> float:
    """The share of the tasks' time that it is predicted to take, or by how much that changes."""
    if not (recorded.lines and recorded.lines.costs):
        return 0.0
    if isinstance(finding, LineFinding):
        return recorded.lines.cost(finding.rows)
    alone = _alone(recorded, recorded.base)
    return finding.cost / alone if alone else 1.0


# Lines


def _lines(recorded: RecordedPoint) -> list[Finding]:
    if not recorded.lines:
        return []
    point, base, others = recorded.lines, recorded.base, recorded.others
    rows = [row for row in (*point.rows, *point.pairs) if not others or row.differs]
    objects: dict[tuple[object, ...], list[MatchedLine]] = {}
    for row in sorted(rows, key=lambda row: -max(map(row.accesses, recorded.variants))):
        objects.setdefault(_object(row), []).append(row)
    found: list[Finding] = []
    for alike in objects.values():
        alone = sum(row.accesses(base) for row in alike) >= LEAST
        if (_is_worth(alike, recorded) if others else alone) or point.cost(alike) >= LEAST_COST:
            found.append(_line_finding(alike, recorded))
    return found


def _is_worth(rows: Sequence[MatchedLine], recorded: RecordedPoint) -> bool:
    """Whether accesses or writes, to one of them or to all, change by as much as is worth a sentence."""

    def change(rows: Sequence[MatchedLine], count: Callable[[MatchedLine, str], float]) -> float:
        sums = [sum(count(row, variant) for row in rows) for variant in recorded.variants]
        return max(sums) - min(sums)

    each = [rows, *([row] for row in rows)]
    return any(
        change(of, count) >= LEAST_CHANGE
        for of in each
        for count in (MatchedLine.accesses, MatchedLine.writes)
    )


def _object(row: MatchedLine) -> tuple[object, ...]:
    """What lines of one finding have in common."""
    rule = rules.first_match(evidence_of(row))
    of = object_type(row.object)
    which = row.object + row.functions[0] if of in ANYTHING else of
    return bool(row.halves), row.is_layout, which, rule.name if rule else ""


def _line_finding(rows: list[MatchedLine], recorded: RecordedPoint) -> LineFinding:
    ways: dict[str, dict[str, float]] = {}
    for row in rows:
        for variant, line in row.lines.items():
            for path, weight in line.paths.items():
                of_way = ways.setdefault(way(paths.short(path)), {})
                of_way[variant] = of_way.get(variant, 0.0) + weight
    heaviest_first = dict(sorted(ways.items(), key=lambda item: -sum(item[1].values())))
    rule = rules.first_match(evidence_of(rows[0]))
    unit, effects = _line_effects(rows, recorded)
    return LineFinding(effects, unit, rows, rule, heaviest_first)


def _line_effects(
    rows: Sequence[MatchedLine], recorded: RecordedPoint, lock: ComparedRow | None = None
) -> tuple[str, dict[str, Effect]]:
    """What is counted, and what that costs: accesses, or writes where these explain the cost better."""
    customers = round(max(row.cpus for row in rows) * recorded.busy / recorded.cpus) or 1
    places = float(len(rows)) if ObjectName.parse(rows[0].object).cpu is not None else 1.0
    transfer = cost.TRANSFER * (cost.OF_A_PAIR if rows[0].halves else 1.0)

    @cache
    def longer(before: str, after: str) -> float:
        was, now = (_firm(rows, one, recorded.cpus) for one in (before, after))
        held = _held(lock, before), _held(lock, after)
        queue = Queue(was * transfer + held[0], now * transfer + held[1], places=places, executed=held)
        return cost.longer(_alone(recorded, before or after), [queue], customers)[0]

    def counted(count: Callable[[MatchedLine, str, Collection[str]], float]) -> dict[str, Effect]:
        def effect(*pair: str) -> Effect:
            was, now = (sum(count(row, one, pair) for row in rows) for one in pair)
            return Effect(was, now, longer(*pair))

        return _effects(recorded, effect)

    accesses = counted(lambda row, variant, pair: _accesses(row, variant, pair, recorded.cpus))
    writes = counted(lambda row, variant, _pair: row.firm_writes(variant))
    leading = max(accesses, key=lambda variant: abs(accesses[variant].cost))
    if recorded.others and _explains_more(writes[leading], accesses[leading]):
        return "writes", writes
    return "accesses", accesses


def _accesses(row: MatchedLine, variant: str, pair: Collection[str], cpus: int) -> float:
    """But for what is layout; of a line that one of the pair does not share, those that a write disturbs."""
    if all(one in row.lines for one in pair if one):
        return row.accesses(variant) - row.layout(variant)
    return row.disturbed(variant, cpus)


def _explains_more(writes: Effect, accesses: Effect) -> bool:
    """Whether the writes change in the direction of the cost, and the accesses do not, or change less."""
    of_writes, of_accesses = (one.after - one.before for one in (writes, accesses))
    if of_writes * writes.cost <= 0:
        return False
    return of_accesses * accesses.cost <= 0 or abs(of_writes) > abs(of_accesses)


def _effects(recorded: RecordedPoint, effect: Callable[[str, str], Effect]) -> dict[str, Effect]:
    """Of each other variant against the base; of the only one against nothing."""
    if not recorded.others:
        return {recorded.base: effect("", recorded.base)}
    return {variant: effect(recorded.base, variant) for variant in recorded.others}


def _alone(recorded: RecordedPoint, variant: str) -> float:
    """Instructions of an operation without queueing, each with what it takes (`costly`, `cost.TRANSFER`)."""
    work = (
        recorded.instructions.total.main.mean(variant)
        if recorded.instructions and recorded.instructions.total
        else 0.0
    )
    lines = _firm(recorded.lines.rows, variant, recorded.cpus) if recorded.lines else 0.0
    longer = sum(one.executed.mean(variant) * one.beyond for one in recorded.costly)
    return work + longer + lines * cost.TRANSFER


def _firm(rows: Sequence[MatchedLine], variant: str, cpus: int) -> float:
    """Accesses per operation that a write of one of so many CPUs can disturb, but for what is layout."""
    return sum(row.disturbed(variant, cpus) for row in rows)


def evidence_of(row: MatchedLine) -> Evidence:
    """What rules are asked about a line."""
    known: dict[str, float] = {}
    for line in row.lines.values():
        for path, weight in line.paths.items():
            short = paths.short(path)
            known[short] = known.get(short, 0.0) + weight
    return Evidence(row.object, known, row.sharing)


def way(short_path: str) -> str:
    """How an operation came there: the system call, whatever the kernel's version does later.

    >>> way("openat;do_sys_openat2;path_openat")
    'openat'
    >>> way("syscall_exit_to_user_mode;exit_to_user_mode_prepare;task_work_run;__fput;security_file_free")
    'close'
    """
    functions = short_path.split(";")
    if "__fput" in functions:
        return "close"  # put off until the way back to user mode, before 6.5
    if functions[0] in ("syscall_exit_to_user_mode", "irqentry_exit_to_user_mode", "do_notify_resume"):
        return "return to user mode"
    if functions[0].startswith("user:"):
        return "user code"
    if not functions[0]:
        return "kernel entry"
    is_fault = functions[0].endswith("exc_page_fault") or functions[0] in ("el0_da", "el0_ia")
    return "page fault" if is_fault else functions[0]


# Locks and instructions


def _with_locks(found: list[Finding], recorded: RecordedPoint) -> list[Finding]:
    """The findings with the locks that changed, or that operations take: with its line's, else alone."""
    for lock in recorded.locks.rows if recorded.locks else ():
        worth = lock.differs if recorded.others else _excludes(lock, recorded.base)
        if not worth or lock.figures[CPUS].most <= 1:
            continue
        number = next((n for n, one in enumerate(found) if _explains(one, lock, recorded)), None)
        if number is not None:
            work = found[number]
            assert isinstance(work, WorkFinding)
            found[number] = _with_lock(work, lock, recorded)
            continue
        number = next((n for n, one in enumerate(found) if _lies_in(lock, one)), None)
        if number is None:
            found.append(LockFinding(_lock_effects(lock, recorded), "instructions under it", lock))
        else:
            line = found[number]
            assert isinstance(line, LineFinding)
            unit, effects = _line_effects(line.rows, recorded, lock)
            found[number] = replace(line, lock=lock, unit=unit, effects=effects)
    return found


def _excludes(lock: ComparedRow, variant: str) -> bool:
    """Whether most operations take it, and only one task at a time can have it."""
    return lock.labels[0][0] not in READERS and lock.figures[TAKEN].mean(variant) >= LEAST


def _lies_in(lock: ComparedRow, finding: Finding) -> bool:
    """Whether it is a lock of the lines."""
    if not isinstance(finding, LineFinding) or finding.lock or finding.is_pair:
        return False
    called = ObjectName.parse(lock.name)
    names = [ObjectName.parse(row.object) for row in finding.rows]
    return any(name.is_in(called) or called.is_in(name) for name in names)


def _explains(finding: Finding, lock: ComparedRow, recorded: RecordedPoint) -> bool:
    """Whether these instructions are why it is held longer, or shorter."""
    if not isinstance(finding, WorkFinding) or lock_of(lock) not in recorded.by_instructions:
        return False
    held, total = lock.figures[HELD], finding.total.main
    return all(
        held.change(recorded.base, one) * total.change(recorded.base, one) > 0
        for one in held_otherwise(lock, recorded.base)
    )


def _with_lock(finding: WorkFinding, lock: ComparedRow, recorded: RecordedPoint) -> WorkFinding:
    """The finding with a lock for which tasks wait longer, or shorter, by it."""
    locks = (*finding.locks, lock)
    total = finding.total.main

    def effect(before: str, after: str) -> Effect:
        counts = total.mean(before), total.mean(after)
        queues = [
            replace(_lock_queue(one, before, after), users=one.figures[CPUS].most / recorded.cpus)
            for one in locks
        ]
        more = counts[1] - counts[0]
        return Effect(*counts, cost.longer(_alone(recorded, before), queues, recorded.busy, more)[0])

    return replace(finding, locks=locks, effects=_effects(recorded, effect))


def _held(lock: ComparedRow | None, variant: str) -> float:
    """Instructions per operation while it is held; none by readers, who do not exclude each other."""
    if lock is None or lock.labels[0][0] in READERS:
        return 0.0
    return _mean(lock, HELD, variant)


def _mean(lock: ComparedRow, figure: int, variant: str) -> float:
    """One of a lock's figures; 0 of no variant."""
    return lock.figures[figure].mean(variant) if variant else 0.0


def _lock_effects(lock: ComparedRow, recorded: RecordedPoint) -> dict[str, Effect]:
    customers = round(lock.figures[CPUS].most * recorded.busy / recorded.cpus) or 1

    def effect(before: str, after: str) -> Effect:
        queue = _lock_queue(lock, before, after)
        longer, _ = cost.longer(_alone(recorded, before or after), [queue], customers)
        return Effect(_mean(lock, HELD, before), _mean(lock, HELD, after), longer)

    return _effects(recorded, effect)


def _lock_queue(lock: ComparedRow, before: str, after: str) -> Queue:
    held = _held(lock, before), _held(lock, after)
    passed_on = [_mean(lock, TAKEN, one) * cost.TRANSFER for one in (before, after)]
    return Queue(passed_on[0] + held[0], passed_on[1] + held[1], executed=held)


def _work(recorded: RecordedPoint) -> list[Finding]:
    """All instructions, if they or those of a function differ."""
    if not (recorded.instructions and recorded.instructions.total and recorded.others):
        return []
    total = recorded.instructions.total
    changed = [row for row in recorded.instructions.rows if row.differs and not row.section]
    if not (total.differs or changed):
        return []

    def effect(before: str, after: str) -> Effect:
        counts = total.main.mean(before), total.main.mean(after)
        return Effect(*counts, counts[1] - counts[0])

    return [WorkFinding(_effects(recorded, effect), "instructions", total, changed)]


def _costly(recorded: RecordedPoint) -> list[Finding]:
    """Instructions that take long, by what executing them more or less often costs beyond their number."""
    return [
        CostlyFinding(_costly_effects(one, recorded), "executions", one)
        for one in recorded.costly
        if recorded.others and one.verdict is Verdict.changed and one.beyond
    ]


def _costly_effects(one: Costly, recorded: RecordedPoint) -> dict[str, Effect]:
    def effect(before: str, after: str) -> Effect:
        counts = one.executed.mean(before), one.executed.mean(after)
        return Effect(*counts, (counts[1] - counts[0]) * one.beyond)

    return _effects(recorded, effect)
