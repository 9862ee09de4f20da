"""A second opinion on a reported regression: is it coherence, locks, instructions, or neither?

Counts of two kernels in, a judgement out. Each change of a count is weighed by what it costs an operation
where as many tasks run as the report had, in instructions: those that queue for a line or a lock wait.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from bigiron.analysis import kernel_functions
from bigiron.analysis.comparison.cost import OF_A_PAIR, TRANSFER, longer
from bigiron.analysis.comparison.explain import evidence_of
from bigiron.analysis.comparison.model import Cell, Cells, Measurements, Options
from bigiron.analysis.lines import conflicts, matching, per_cpu, rules, shared_lines
from bigiron.analysis.lines.matching import Row
from bigiron.analysis.lines.rules import Rule
from bigiron.analysis.probes import locks
from bigiron.analysis.replay.prediction import Interval
from bigiron.analysis.replay.program import READERS
from bigiron.analysis.replay.synthetic_operation import without_waiting, work_of_operations
from bigiron.gate import check_lines
from bigiron.util.lazy import polars as pl
from bigiron.util.object_name import OF_CPU, ObjectName, object_type

Kind = Literal["coherence", "locks", "instructions", "neither"]

RELEVANT = 0.01
"""Of an operation's time: what costs less explains nothing that a robot reports, which is 2 % and more."""

LEAST_ACCESSES = 0.1
"""To a shared line, per operation: less comes from the clock's ticks and from which CPU goes first."""

_FAINT = LEAST_ACCESSES / 2
"""Accesses per operation below which a line is left out of a boot: there are thousands of them, to be matched
with each other, and none of them can change by `LEAST_ACCESSES`."""

LEAST_TAKEN, LEAST_HELD = 0.05, 5.0
"""Times that a lock is taken, and instructions that it is held, per operation."""

LEAST_WORK = 4.0
"""Instructions per operation: fewer are what the tick adds now and then."""

_SAME = 0.01  # a share of a count below which it is the same
_SAME_LINE = 0.05  # of accesses to a line, which two runs of one kernel can differ by
_MOST_FUNCTIONS = 6
_MOST_ACCESSES = 0.5  # share of a line's


@dataclass(frozen=True)
class Change:
    """One thing of which an operation does more or less on the new kernel than on the base."""

    kind: Kind
    object: str
    before: float
    after: float
    unit: str  # of both: "accesses", "times taken", "instructions"
    cost: float  # instructions an operation, with as many tasks as the report had; below 0: what it saves
    share: float  # of an operation's time there, where nothing else limits it
    held: tuple[float, float] | None = None  # of a lock: instructions before and after
    writers: tuple[str, ...] = ()  # functions, those that do it most first
    readers: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()  # what lies in the line now that did not
    rule: Rule | None = None
    is_pair: bool = False
    at_report: tuple[float, float] | None = None  # of each CPU's own lines: both, with the report's CPUs
    functions: Mapping[str, float] | None = None  # of instructions: how many more each executes

    @property
    def is_relevant(self) -> bool:
        """Whether it costs enough to explain what a robot reports."""
        return abs(self.share) >= RELEVANT


@dataclass(frozen=True)
class Judgement:
    """What the counts say of a report.

    `changes` are those that matter, what explains the report best first; `kind` is the first one's.
    """

    kind: Kind
    changes: list[Change]
    cpus: int
    tasks: int
    at_tasks: int  # the number of tasks for which costs are told
    work: tuple[float, float]  # instructions an operation
    accesses: tuple[float, float]  # to shared lines, an operation
    repetitions: int
    against_the_report: bool = False  # whether what changed goes the other way
    left_out: tuple[str, ...] = ()  # what else changed, and costs too little to matter, most first
    may_grow: bool = False  # whether what each CPU has of its own would matter more if it grew with CPUs


@dataclass(frozen=True)
class Claim:
    """What the report says, as far as a judgement needs it."""

    regression: bool
    tasks: int | None  # None: as many as were measured
    cpus: int | None = None


@dataclass(frozen=True)
class _Line:
    accesses: float
    users: float  # share of the tasks that touch it
    weight: float = 1.0
    places: float = 1.0  # among how many lines its accesses divide

    @property
    def demand(self) -> float:
        """Instructions of an operation in which nobody else has the line, or lines."""
        return self.accesses * TRANSFER * self.weight


@dataclass(frozen=True)
class _Lock:
    taken: float
    held: float
    users: float
    excludes: bool
    places: float = 1.0

    @property
    def demand(self) -> float:
        """Instructions of an operation in which nobody else has the lock."""
        return self.taken * TRANSFER + (self.held if self.excludes else 0.0)


_Counts: TypeAlias = Mapping[str, tuple[float, ...]]
"""A count in each repetition, by variant."""


@dataclass(frozen=True)
class _Operation:
    """What an operation of one kernel asks of the machine."""

    work: float
    lines: Mapping[int, _Line]
    locks: Mapping[str, _Lock]

    @property
    def alone(self) -> float:
        """Instructions of an operation that nobody has to queue for."""
        return self.work + sum(line.demand for line in self.lines.values())


def judge(
    lines: Measurements, taken: Measurements, work: Measurements, base: str, new: str, claim: Claim
) -> Judgement:
    """The judgement at the largest number of CPUs that was measured, of tables of the three probes.

    Smaller numbers tell how the lines grow of which each CPU has its own.
    """
    point = max(lines.points)
    cpus, tasks = point
    at_tasks = max(claim.tasks or tasks, tasks)
    at_cpus = max(claim.cpus or cpus, cpus)
    found = _Found(lines, taken.points[point], work.points[point], point, base, new, at_cpus)
    every = sorted(found.changes(at_tasks), key=_most)
    changes = [change for change in every if change.is_relevant]
    wanted = [change for change in changes if (change.cost > 0) == claim.regression]
    others = [change for change in changes if change not in wanted]
    ordered = [*wanted, *others]
    return Judgement(
        kind=ordered[0].kind if ordered else "neither",
        changes=ordered,
        cpus=cpus,
        tasks=tasks,
        at_tasks=at_tasks,
        work=(found.base.work, found.new.work),
        accesses=tuple(sum(line.accesses for line in one.lines.values()) for one in (found.base, found.new)),  # type: ignore[arg-type]
        repetitions=len(taken.points[point][base]),
        against_the_report=bool(ordered) and not wanted,
        left_out=tuple(
            f"{change.object} ({change.kind})" if change.kind != "instructions" else "instructions"
            for change in every
            if not change.is_relevant
        ),
        may_grow=found.may_grow(at_tasks),
    )


def _most(change: Change) -> float:
    return -abs(change.cost)


class _Found:
    """Both kernels' operations, and what of them differs by more than chance."""

    def __init__(
        self,
        measured: Measurements,
        taken: Cells,
        work: Cells,
        point: tuple[int, int],
        base: str,
        new: str,
        at_cpus: int,
    ) -> None:
        self._names = (base, new)
        self._cpus, self._tasks = point
        self._at_cpus = at_cpus
        self._cells = _prepared(measured.points[point])
        (at,) = shared_lines.line_up_all(replace(measured, points={point: self._cells}), Options(base)).points
        rows = self._matched([*at.rows, *at.pairs])
        self._families = per_cpu.names(rows)
        self._rows = per_cpu.merge_families(rows, self._families)
        self._fewer = _with_fewer_cpus(measured, point, self._names, self._families)
        self._kinds = {name: self._by_kind(name) for name in self._names}
        self._called = {
            name: Counter(
                (row.lines[name].object, bool(row.halves)) for row, _ in self._rows if name in row.lines
            )
            for name in self._names
        }
        self._locks = {name: _locks(taken[name]) for name in self._names}
        self._work = {name: [_functions(cell) for cell in work[name]] for name in self._names}
        self.base, self.new = (self._operation(name) for name in self._names)

    def _matched(self, rows: Sequence[Row]) -> list[Row]:
        """The rows, with what is a line on one kernel and a pair on the other in one.

        Where a slab's object begins differs from boot to boot, and so does which line is beside which.
        """
        of_both = [row for row in rows if len(row.lines) == len(self._names)]
        of_one = {name: [row.lines[name] for row in rows if [*row.lines] == [name]] for name in self._names}
        return [*of_both, *matching.match(of_one)]

    def _by_kind(self, name: str) -> dict[str, tuple[float, ...]]:
        """Accesses in each repetition to all lines and pairs of a kind."""
        found: dict[str, tuple[float, ...]] = {}
        for line in (row.lines[name] for row, _ in self._rows if name in row.lines):
            accesses = tuple(one.accesses for one in line.repetitions)
            was = found.get(object_type(line.object), (0.0,) * len(accesses))
            found[object_type(line.object)] = tuple(map(sum, zip(was, accesses, strict=True)))
        return found

    def _differs(self, row: Row) -> bool:
        """Whether a line's accesses do, and those of its kind unless both kernels have one line called so."""
        if not self._differ(_accesses(row, self._names), LEAST_ACCESSES, _SAME_LINE):
            return False
        called = {line.object for line in row.lines.values()}
        called_so = (row.object, bool(row.halves))
        if len(called) == 1 and all(self._called[name][called_so] == 1 for name in self._names):
            return True
        of_kind = {name: self._kinds[name].get(object_type(row.object), (0.0,)) for name in self._names}
        return self._differ(of_kind, LEAST_ACCESSES, _SAME_LINE)

    def _operation(self, name: str) -> _Operation:
        functions = self._work[name]
        return _Operation(
            sum(sum(of.values()) for of in functions) / len(functions),
            {n: self._line(*of, name) for n, of in enumerate(self._rows) if name in of[0].lines},
            {lock: self._lock(name, lock) for lock in self._lock_names() if lock in self._locks[name][0]},
        )

    def _line(self, row: Row, lines: int, name: str) -> _Line:
        """A line, or those of each CPU: with as many CPUs as the report has, where that is known."""
        line = row.lines[name]
        users = max(line.writers, line.readers) / self._tasks
        accesses, places = line.accesses_per_op, float(lines)
        if self._fewer and self._is_each_cpu_s(row):
            accesses = self._with_all_cpus(row, name)
            places *= self._at_cpus / self._cpus
        return _Line(accesses, min(1.0, users), OF_A_PAIR if line.halves else 1.0, places)

    def _is_each_cpu_s(self, row: Row) -> bool:
        return bool(ObjectName.parse(row.object).of_each_cpu) and not row.halves

    def _with_all_cpus(self, row: Row, name: str) -> float:
        """Accesses an operation to the lines of all CPUs, with as many as the report has."""
        if name not in row.lines or not self._fewer:
            return row.accesses(name)
        cpus, sums = self._fewer
        family = self._families[ObjectName.parse(row.object).of_each_cpu]
        few = [of.get(family, 0.0) for of in sums[name]]
        many = _accesses(row, [name])[name]
        return per_cpu.with_cpus(self._at_cpus, (cpus, few), (self._cpus, many), LEAST_ACCESSES)

    def may_grow(self, tasks: int) -> bool:
        """Whether some of what each CPU has of its own would matter more if it grew with the CPUs."""
        if self._fewer or self._at_cpus <= self._cpus:
            return False
        times = self._at_cpus / self._cpus
        for number, (row, _) in enumerate(self._rows):
            if self._is_each_cpu_s(row) and self._differs(row):
                before, after = (
                    replace(line, accesses=line.accesses * times, places=line.places * times)
                    for line in (one.lines.get(number, _UNTOUCHED) for one in (self.base, self.new))
                )
                if abs(self._cost(before, after, tasks)[1]) >= RELEVANT:
                    return True
        return False

    def _lock(self, name: str, lock: str) -> _Lock:
        repetitions = [of.get(lock, _NOT_TAKEN) for of in self._locks[name]]
        n = len(repetitions)
        return _Lock(
            sum(one.taken for one in repetitions) / n,
            sum(one.held for one in repetitions) / n,
            max(one.users for one in repetitions) / self._tasks,
            any(one.excludes for one in repetitions),
        )

    def _lock_names(self) -> set[str]:
        """Locks that several CPUs take on one of the kernels."""
        return {
            lock
            for repetitions in self._locks.values()
            for of in repetitions
            for lock, one in of.items()
            if one.users > 1
        }

    def changes(self, tasks: int) -> Iterator[Change]:
        """All changes that are no chance."""
        changed = list(self._changed_locks(tasks))
        yield from changed
        relevant = [change for change in changed if change.is_relevant]
        for number, (row, _) in enumerate(self._rows):
            if change := self._changed_line(number, row, relevant, tasks):
                yield change
        if change := self._changed_work():
            yield change

    def _changed_locks(self, tasks: int) -> Iterator[Change]:
        for lock in sorted(self._lock_names()):
            figures = {
                what: {
                    name: tuple(getattr(of.get(lock, _NOT_TAKEN), what) for of in self._locks[name])
                    for name in self._names
                }
                for what in ("taken", "held")
            }
            before, after = (one.locks.get(lock, _UNTAKEN) for one in (self.base, self.new))
            if not (
                self._differ(figures["taken"], LEAST_TAKEN)
                or self._differ(figures["held"], LEAST_HELD)
                or (before.excludes != after.excludes and min(before.taken, after.taken) >= LEAST_TAKEN)
            ):
                continue
            of_chance = ObjectName.parse(lock).is_of_allocators
            if of_chance and check_lines.BY_CHANCE.takes_for_same(before.taken, after.taken):
                continue
            yield Change(
                "locks",
                lock,
                before.taken,
                after.taken,
                "times taken",
                *self._cost(before, after, tasks),
                held=(before.held, after.held),
                writers=_takers(self._locks[self._names[1]], self._locks[self._names[0]], lock),
            )

    def _changed_line(
        self, number: int, row: Row, locks_changed: Sequence[Change], tasks: int
    ) -> Change | None:
        base, new = self._names
        if not self._differs(row) or _of_a_lock(row, locks_changed) or self._holds(row, locks_changed):
            return None
        before, after = (one.lines.get(number, _UNTOUCHED) for one in (self.base, self.new))
        of_chance = ObjectName.parse(row.object).is_of_allocators
        counts = (row.accesses(base), row.accesses(new))
        if of_chance and check_lines.BY_CHANCE.takes_for_same(*counts):
            return None
        grown = self._fewer and self._is_each_cpu_s(row)
        writers, readers = _who(row, self._cells[new if new in row.lines else base])
        return Change(
            "coherence",
            row.object,
            *counts,
            "accesses",
            *self._cost(before, after, tasks),
            writers=writers,
            readers=readers,
            joined=self._joined(row),
            rule=rules.first_match(evidence_of(row)),
            is_pair=bool(row.halves),
            at_report=(before.accesses, after.accesses) if grown else None,
        )

    def _holds(self, row: Row, locks_changed: Sequence[Change]) -> bool:
        """Whether a lock that is taken otherwise lies in the line itself, whatever is touched most there."""
        if row.halves:
            return False
        called = [ObjectName.parse(lock.object) for lock in locks_changed]
        for name in row.lines:
            table = self._cells[name][0].table
            lines = table.filter(pl.col("object") == row.lines[name].object)["line"].unique()
            there = table.filter(pl.col("line").is_in(lines.implode()))["object"].unique()
            if any(ObjectName.parse(one).is_in(lock) for one in there for lock in called):
                return True
        return False

    def _joined(self, row: Row) -> tuple[str, ...]:
        """What functions touch in the line on the new kernel alone."""
        base, new = self._names
        if base not in row.lines or new not in row.lines:
            return ()
        return tuple(
            function for function in row.lines[new].weights if function not in row.lines[base].weights
        )

    def _changed_work(self) -> Change | None:
        totals = {name: tuple(sum(of.values()) for of in self._work[name]) for name in self._names}
        if not self._differ(totals, LEAST_WORK):
            return None
        by_function = _grown(self._work[self._names[0]], self._work[self._names[1]])
        more = self.new.work - self.base.work
        first = max(by_function, key=lambda name: by_function[name] * (1 if more > 0 else -1), default="")
        return Change(
            "instructions",
            first,
            self.base.work,
            self.new.work,
            "instructions",
            more,
            more / self.base.alone if self.base.alone else 0.0,
            functions=by_function,
        )

    def _cost(self, before: _Line | _Lock, after: _Line | _Lock, tasks: int) -> tuple[float, float]:
        """How much longer an operation takes where nothing else limits it; and that as a share."""
        customers = max(1, round(max(before.users, after.users) * tasks))
        places = max(before.places, after.places)
        return longer(self.base.alone, before.demand, after.demand, customers, places)

    def _differ(self, counts: _Counts, tolerance: float, share: float = _SAME) -> bool:
        """Whether the two kernels lie further apart than the repetitions of either."""
        base, new = (counts[name] for name in self._names)
        apart = max(min(new) - max(base), min(base) - max(new))
        own = max(max(of) - min(of) for of in (base, new))
        return apart > max(own, tolerance + share * max(*base, *new))


@dataclass(frozen=True)
class _Taken:
    """A lock in one repetition."""

    taken: float
    held: float
    users: int
    excludes: bool
    takers: tuple[str, ...] = ()


_NOT_TAKEN = _Taken(0.0, 0.0, 0, False)
_UNTAKEN = _Lock(0.0, 0.0, 0.0, False)
_UNTOUCHED = _Line(0.0, 0.0)


def _locks(repetitions: Sequence[Cell]) -> list[dict[str, _Taken]]:
    """The locks of each repetition by name; who reads and who writes one of them excludes each other."""
    found = []
    for cell in repetitions:
        of: dict[str, _Taken] = {}
        for row in locks.profile(cell.table, cell.operations).iter_rows(named=True):
            was = of.get(row["lock"], _NOT_TAKEN)
            of[row["lock"]] = _Taken(
                was.taken + row["acquisitions_per_op"],
                was.held + row["held_per_op"],
                max(was.users, row["cpus"]),
                was.excludes or row["taken_by"] not in READERS,
                (*was.takers, *row["taken_in"]),
            )
        found.append(of)
    return found


def _takers(
    new: Sequence[Mapping[str, _Taken]], base: Sequence[Mapping[str, _Taken]], lock: str
) -> tuple[str, ...]:
    """The functions that take a lock, first those that do so on the new kernel alone."""
    after, before = (
        dict.fromkeys(name for of in one if lock in of for name in of[lock].takers) for one in (new, base)
    )
    ordered = sorted(after or before, key=lambda function: function in before)
    return tuple(ordered[:_MOST_FUNCTIONS])


def _functions(cell: Cell) -> dict[str, float]:
    """Own instructions an operation of each function, without waiting for locks, which is chance."""
    ran = work_of_operations(cell.table).group_by(pl.col("function").str.strip_suffix("_noprof"))
    return dict(ran.agg(pl.col("instructions").sum() / cell.operations).sort("function").iter_rows())


def _prepared(cells: Cells) -> dict[str, list[Cell]]:
    return {variant: list(map(_prepare, repetitions)) for variant, repetitions in cells.items()}


def _with_fewer_cpus(
    measured: Measurements, point: tuple[int, int], names: tuple[str, str], families: Mapping[str, str]
) -> tuple[int, dict[str, list[Mapping[str, float]]]] | None:
    """At most half as many CPUs with as large a share of tasks: how many, and the lines of all, by kernel."""
    cpus, tasks = point
    fewer = [
        one
        for one, cells in measured.points.items()
        if 2 * one[0] <= cpus and one[1] == max(2, round(one[0] * tasks / cpus)) and set(names) <= set(cells)
    ]
    if not fewer:
        return None
    there = _prepared(measured.points[max(fewer)])
    return max(fewer)[0], {
        name: per_cpu.sums(
            (matching.lines_of(conflicts.profile(cell.table, cell.operations)) for cell in there[name]),
            families,
        )
        for name in names
    }


def _prepare(cell: Cell) -> Cell:
    """Without waiting for locks, and without faint lines, but for those that each CPU has of its own."""
    touched = pl.max_horizontal("reads", "writes").sum().over("line")
    each_cpu_s = pl.col("object").str.contains(OF_CPU).any().over("line")
    bright = cell.table.filter((touched >= _FAINT * cell.operations) | each_cpu_s)
    return replace(cell, table=without_waiting(bright).drop("whole"))


def _grown(base: Sequence[Mapping[str, float]], new: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """By how many instructions each function executes more or less, most first."""
    names = {name for of in (*base, *new) for name in of}
    change = {
        name: sum(of.get(name, 0.0) for of in new) / len(new)
        - sum(of.get(name, 0.0) for of in base) / len(base)
        for name in names
    }
    kept = {name: more for name, more in change.items() if abs(more) >= 1.0}
    return dict(sorted(kept.items(), key=lambda item: (-abs(item[1]), item[0])))


def _accesses(row: Row, names: Iterable[str]) -> dict[str, tuple[float, ...]]:
    return {
        name: tuple(one.accesses for one in row.lines[name].repetitions) if name in row.lines else (0.0,)
        for name in names
    }


def _of_a_lock(row: Row, changed: Iterable[Change]) -> bool:
    """Whether a line is that of a lock which is taken otherwise: then it is the lock that matters.

    Either it is called as the lock is, or it is of its structure and touched most by functions of locks
    and by those that take this one.
    """
    name = ObjectName.parse(row.object)
    for lock in changed:
        called = ObjectName.parse(lock.object)
        if name.is_in(called) or called.is_in(name):
            return True
        is_of_its_structure = (name.base, name.index) == (called.base, called.index)
        if is_of_its_structure and _share_of(row, lock.writers) >= _MOST_ACCESSES:
            return True
    return False


def _share_of(row: Row, takers: Collection[str]) -> float:
    """Of a line's accesses, those of functions of locks and of those that take one."""
    weights = [item for line in row.lines.values() for item in line.weights.items()]
    theirs = sum(
        weight for name, weight in weights if name in takers or re.match(kernel_functions.LOCKING, name)
    )
    return theirs / (sum(weight for _, weight in weights) or 1.0)


def _who(row: Row, repetitions: Sequence[Cell]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Functions that write the line, and those that only read it."""
    table = repetitions[0].table.filter(pl.col("context") == "process")
    named = [half.object for half in row.halves] or [row.object]
    lines = table.filter(pl.col("object").is_in(named))["line"].unique()
    touched = (
        table.filter(pl.col("line").is_in(lines.implode()) & pl.col("function").is_in(row.functions))
        .group_by("function")
        .agg(pl.col("reads", "writes").sum())
        .sort(pl.col("writes") + pl.col("reads"), "function", descending=[True, False])
    )
    writers = touched.filter(pl.col("writes") > 0)["function"].to_list()
    readers = touched.filter(pl.col("writes") == 0)["function"].to_list()
    return tuple(writers[:_MOST_FUNCTIONS]), tuple(readers[:_MOST_FUNCTIONS])


@dataclass(frozen=True)
class Predicted:
    """How throughput changes on the report's machine, and whether the report fits."""

    tasks: int
    machine: str
    change: Interval
    reported: float
    why_counts: str = ""
    """Why it is from counts, and not from what operations did in order; empty if it is from that."""

    @property
    def fits(self) -> bool:
        """Whether the reported change lies in the interval."""
        return self.change.holds(self.reported)

    @property
    def tells_sign(self) -> bool:
        """Whether it says faster or slower: an interval that holds 0 says neither."""
        return not self.change.holds(0.0)
