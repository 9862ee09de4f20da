"""Which counts of two kernels differ by more than chance, and what each difference costs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from statistics import fmean
from typing import Literal, TypeAlias, get_args

from bigiron.analysis import kernel_functions
from bigiron.analysis.comparison import costly
from bigiron.analysis.comparison.cost import Queue, longer
from bigiron.analysis.comparison.explain import evidence_of
from bigiron.analysis.comparison.limits import BY_CHANCE
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.analysis.lines import rules
from bigiron.analysis.lines.matching import MatchedLine, SharedLine
from bigiron.analysis.probes.instructions import same_function
from bigiron.judge import moved_code, under_locks
from bigiron.judge.change import RELEVANT, CountChange
from bigiron.judge.counts import (
    LEAST_ACCESSES,
    NOT_TAKEN,
    AccessUnit,
    KernelCounts,
    Setup,
    TakenLock,
    in_boot,
    is_per_cpu,
    per_operation,
)
from bigiron.judge.operation import UNTAKEN, UNTOUCHED, LineDemand, LockDemand, OperationDemand
from bigiron.judge.under_locks import FunctionCounts, Under
from bigiron.util.lazy import polars as pl
from bigiron.util.object_name import ObjectName, object_type

_LEAST_TAKEN, _LEAST_HELD = 0.05, 5.0
"""Acquisitions of a lock per operation, and its hold time in instructions per operation."""

_LEAST_INSTRUCTIONS = 4.0
"""Instructions per operation. An occasional timer tick adds fewer."""

_LEAST_EXECUTED = 0.05  # executions per operation of an instruction that takes long

_SAME = 0.01  # relative difference up to which two counts are the same
_SAME_LINE = 0.05  # for accesses to a cache line, which differ that much between runs of one kernel
_MOST_FUNCTIONS = 6
_MOST_ACCESSES = 0.5  # share of the accesses to a cache line

_NOTHING = 1e-6  # instructions per operation: what remains of a difference of equal sums

_ByVariant: TypeAlias = Mapping[str, tuple[float, ...]]
"""A count in each repetition, by variant."""


@dataclass(frozen=True)
class Differences:
    """The counts of two kernels, and the mean operation of each."""

    setup: Setup
    counts: KernelCounts
    base: OperationDemand
    new: OperationDemand

    def changes(self) -> Iterator[CountChange]:
        """All changes that are larger than chance."""
        changed_locks = list(self._locks())
        relevant = [change for change in changed_locks if change.is_relevant]
        under = self._under(relevant)
        explained = [lock for one in under for lock in one.locks]
        yield from (change for change in changed_locks if change not in explained)
        for number in range(len(self.counts.rows)):
            if change := self._line(number, relevant):
                yield change
        yield from map(self._under_locks, under)
        calls = {call for one in under for call in one.calls}
        there = under_locks.executed(calls, self.counts, self.setup.names)
        if change := self._instructions(self._aligned(_without(self.counts.functions, there))):
            yield replace(change, elsewhere=bool(under))
        yield from self._costly()

    def may_grow(self) -> bool:
        """Whether a changed per-CPU cache line would be relevant if its accesses grew with the CPUs."""
        if self.counts.fewer or self.setup.at_cpus <= self.setup.cpus:
            return False
        times = self.setup.at_cpus / self.setup.cpus
        for number, (row, _) in enumerate(self.counts.rows):
            if is_per_cpu(row) and self._line_differs(row):
                before, after = (
                    replace(line, accesses=line.accesses * times, places=line.places * times)
                    for line in (one.lines.get(number, UNTOUCHED) for one in (self.base, self.new))
                )
                if abs(self._cost(_queue(before, after))[1]) >= RELEVANT:
                    return True
        return False

    def _locks(self) -> Iterator[CountChange]:
        locks = self.counts.locks
        for name in sorted(self.counts.shared_locks):
            before, after = (one.locks.get(name, UNTAKEN) for one in (self.base, self.new))
            if not self._lock_differs(name, before, after) or _is_chance(name, before.taken, after.taken):
                continue
            queue = _queue(before, after)
            yield CountChange(
                "locks",
                name,
                before.taken,
                after.taken,
                "times taken",
                *self._cost(queue),
                queue=queue,
                held=(before.held, after.held),
                writers=_takers(locks[self.setup.new], locks[self.setup.base], name),
            )

    def _lock_differs(self, lock: str, before: LockDemand, after: LockDemand) -> bool:
        """Whether it is taken more or less often, held for a longer or shorter time, or no longer shared."""
        return (
            not self._is_taken_as_often(lock)
            or self.differ(self._of_lock(lock, "held"), _LEAST_HELD)
            or (before.excludes != after.excludes and min(before.taken, after.taken) >= _LEAST_TAKEN)
        )

    def _is_taken_as_often(self, lock: str) -> bool:
        return not self.differ(self._of_lock(lock, "taken"), _LEAST_TAKEN)

    def _of_lock(self, lock: str, what: Literal["taken", "held"]) -> dict[str, tuple[float, ...]]:
        return {
            name: tuple(getattr(one.get(lock, NOT_TAKEN), what) for one in self.counts.locks[name])
            for name in self.setup.names
        }

    def _under(self, changed: Iterable[CountChange]) -> list[Under]:
        """The locks that are only held longer or shorter, and that by the instructions under them."""
        both = self.base.locks.keys() & self.new.locks.keys()
        only_held = [
            change
            for change in changed
            if change.object in both
            and self._is_taken_as_often(change.object)
            and self.base.locks[change.object].excludes == self.new.locks[change.object].excludes
        ]
        return under_locks.find(only_held, self.counts, self.setup.names)

    def _under_locks(self, under: Under) -> CountChange:
        """The change of the instructions under these locks. It costs what tasks wait for the locks, too."""
        functions = self._aligned(under.functions)
        before, after = (fmean(sum(one.values()) for one in functions[name]) for name in self.setup.names)
        by_function = _grown(functions[self.setup.base], functions[self.setup.new])
        queues = [lock.queue for lock in under.locks if lock.queue]
        return CountChange(
            "instructions",
            _first(by_function, after - before),
            before,
            after,
            "instructions",
            *longer(self.base.alone, queues, self.setup.at_tasks, after - before),
            functions=by_function,
            locks=under.locks,
        )

    def _line(self, number: int, locks: Sequence[CountChange]) -> CountChange | None:
        """The change of a cache line; None if it has not changed, or if a changed lock explains it."""
        base, new = self.setup.names
        row, lines = self.counts.rows[number]
        if not (unit := self._what_differs(row)):
            return None
        counted = per_operation(row, self.setup.names, unit, self.setup.cpus)
        before_after = fmean(counted[base]), fmean(counted[new])
        if (
            _is_of_a_lock(row, locks)
            or self._contains_a_lock(row, locks)
            or _is_chance(row.object, *before_after)
        ):
            return None
        before, after = (one.lines.get(number, UNTOUCHED) for one in (self.base, self.new))
        extrapolated = self.counts.fewer and is_per_cpu(row) and unit == "accesses"
        if unit == "writes":  # tasks queue to write; those that only read it do not wait for each other
            before, after = (
                replace(line, accesses=writes, places=float(lines))
                for line, writes in zip((before, after), before_after, strict=True)
            )
        queue = _queue(before, after)
        writers, readers = _functions_of(row, self.counts.cells[new if new in row.lines else base])
        return CountChange(
            "coherence",
            row.object,
            *before_after,
            unit,
            *self._cost(queue),
            queue=queue,
            writers=writers,
            readers=readers,
            joined=self._joined(row),
            rule=rules.first_match(evidence_of(row)),
            is_pair=bool(row.halves),
            at_report=(before.accesses, after.accesses) if extrapolated else None,
        )

    def _what_differs(self, row: MatchedLine) -> AccessUnit | None:
        """Whether the accesses to a cache line differ, or else how many of them are writes."""
        both = len(row.lines) == len(self.setup.names)
        units: tuple[AccessUnit, ...] = ("accesses", "writes") if both and not row.halves else ("accesses",)
        return next((unit for unit in units if self._line_differs(row, unit)), None)

    def _line_differs(self, row: MatchedLine, unit: AccessUnit = "accesses") -> bool:
        """Whether the accesses to a cache line, or the writes, differ.

        Unless each kernel has exactly one line of that name, the sum over the lines of that type must too.
        """
        counts = per_operation(row, self.setup.names, unit, self.setup.cpus)
        if not self.differ(counts, LEAST_ACCESSES, _SAME_LINE):
            return False
        objects = {line.object for line in row.lines.values()}
        name = row.object, bool(row.halves)
        if len(objects) == 1 and all(names[name] == 1 for names in self._lines_by_name.values()):
            return True
        of_type = {
            name: sums.get(object_type(row.object), (0.0,)) for name, sums in self._sums_by_type[unit].items()
        }
        return self.differ(of_type, LEAST_ACCESSES, _SAME_LINE)

    @cached_property
    def _lines_by_name(self) -> dict[str, Counter[tuple[str, bool]]]:
        """How many cache lines, and how many adjacent pairs, have a name, by variant."""
        rows = [row for row, _ in self.counts.rows]
        return {
            name: Counter((row.lines[name].object, bool(row.halves)) for row in rows if name in row.lines)
            for name in self.setup.names
        }

    @cached_property
    def _sums_by_type(self) -> dict[AccessUnit, dict[str, dict[str, tuple[float, ...]]]]:
        """Accesses, or writes, in each repetition to all cache lines of a type, by variant."""
        return {
            unit: {
                name: _by_type((row.lines[name] for row, _ in self.counts.rows if name in row.lines), unit)
                for name in self.setup.names
            }
            for unit in get_args(AccessUnit)
        }

    def _contains_a_lock(self, row: MatchedLine, locks: Sequence[CountChange]) -> bool:
        """Whether a changed lock lies in the cache line, even if other objects are touched more there."""
        if row.halves:
            return False
        names = [ObjectName.parse(lock.object) for lock in locks]
        for variant in row.lines:
            table = self.counts.cells[variant][0].table
            lines = table.filter(pl.col("object") == row.lines[variant].object)["line"].unique()
            objects = table.filter(pl.col("line").is_in(lines.implode()))["object"].unique()
            if any(ObjectName.parse(one).is_in(lock) for one in objects for lock in names):
                return True
        return False

    def _joined(self, row: MatchedLine) -> tuple[str, ...]:
        """Functions that touch the cache line only on the new kernel."""
        base, new = self.setup.names
        if base not in row.lines or new not in row.lines:
            return ()
        before = set(map(same_function, row.lines[base].weights))
        after = dict.fromkeys(map(same_function, row.lines[new].weights))
        return tuple(one for one in after if one not in before)

    def _instructions(self, functions: FunctionCounts) -> CountChange | None:
        """The change of all these instructions, or of functions that grew and others that shrank."""
        totals = {name: tuple(sum(one.values()) for one in functions[name]) for name in self.setup.names}
        moved, differs = self._moved(functions), self.differ(totals, _LEAST_INSTRUCTIONS)
        if not differs and max(moved) < RELEVANT:
            return None
        by_function = _grown(functions[self.setup.base], functions[self.setup.new])
        before, after = (fmean(totals[name]) for name in self.setup.names)
        more = after - before
        return CountChange(
            "instructions",
            _first(by_function, more),
            before,
            after,
            "instructions",
            more,
            self._share(more),
            functions=by_function,
            moved=moved,
            cancels=max(moved) >= RELEVANT and not (differs and abs(self._share(more)) >= RELEVANT),
        )

    def _aligned(self, functions: FunctionCounts) -> FunctionCounts:
        """Without moves of code between functions."""
        base, new = self.setup.names

        def same(before: float, after: float) -> bool:
            return abs(after - before) <= _LEAST_INSTRUCTIONS + _SAME * max(before, after)

        both = moved_code.align(functions[base], functions[new], self.counts.called_by, same)
        return dict(zip(self.setup.names, both, strict=True))

    def _moved(self, functions: FunctionCounts) -> tuple[float, float]:
        """The sum of what grew and of what shrank, as shares of an operation's time; 0 if it may be chance.

        Each sum is of the two most similar repetitions of both kernels, less what is between the two least
        similar repetitions of one kernel.
        """
        base, new = (functions[name] for name in self.setup.names)
        tolerance = _LEAST_INSTRUCTIONS + _SAME * max(self.base.instructions, self.new.instructions)
        own = max(_growth(one, other) for of in (base, new) for one, other in product(of, of))
        grew = min(_growth(before, after) for before, after in product(base, new)) - own
        shrank = min(_growth(after, before) for before, after in product(base, new)) - own
        least = max(own, tolerance)
        return (
            self._share(grew) if grew > least else 0.0,
            self._share(shrank) if shrank > least else 0.0,
        )

    def _costly(self) -> Iterator[CountChange]:
        """Instructions that take much longer than others, and are executed more or less often."""
        counts = self.counts.costly
        for instruction in sorted({*self.base.costly, *self.new.costly}):
            functions = {
                name: [_of_instruction(one, instruction) for one in counts[name]] for name in self.setup.names
            }
            executed = {
                name: tuple(sum(one.values()) for one in functions[name]) for name in self.setup.names
            }
            before, after = (one.costly.get(instruction, 0.0) for one in (self.base, self.new))
            more = (after - before) * costly.beyond(instruction)
            if not more or not self.differ(executed, _LEAST_EXECUTED):
                continue
            by_function = _grown(functions[self.setup.base], functions[self.setup.new], least=_LEAST_EXECUTED)
            yield CountChange(
                "instructions",
                _first(by_function, more),
                before,
                after,
                "executions",
                more,
                self._share(more),
                functions=by_function,
                instruction=instruction,
            )

    def _share(self, cost: float) -> float:
        return cost / (self.base.alone or self.new.alone or 1.0)

    def _cost(self, queue: Queue) -> tuple[float, float]:
        """How much longer an operation takes if nothing else limits it: in instructions, and as a share."""
        customers = max(1, round(queue.users * self.setup.at_tasks))
        return longer(self.base.alone, [replace(queue, users=1.0)], customers)

    def together(self, changes: Sequence[CountChange]) -> float:
        """How much longer an operation takes by all these changes, if nothing else limits it, as a share."""
        queues = [queue for change in changes for queue in change.queues]
        executed = sum(change.executed for change in changes)
        return longer(self.base.alone, queues, self.setup.at_tasks, executed)[1]

    def differ(self, counts: _ByVariant, tolerance: float, share: float = _SAME) -> bool:
        """Whether the two kernels are further apart than the repetitions of either one."""
        base, new = (counts[name] for name in self.setup.names)
        apart = max(min(new) - max(base), min(base) - max(new))
        own = max(max(of) - min(of) for of in (base, new))
        return apart > max(own, tolerance + share * max(*base, *new))


def _first(by_function: Mapping[str, float], more: float) -> str:
    """The function that changed most in the direction of the sum; empty if none did."""
    sign = 1 if more > 0 else -1
    return max(by_function, key=lambda name: by_function[name] * sign, default="")


def _without(functions: FunctionCounts, others: FunctionCounts) -> FunctionCounts:
    """What each function executes elsewhere."""

    def less(own: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
        rest = {name: count - other.get(name, 0.0) for name, count in own.items()}
        return {name: count for name, count in rest.items() if count > _NOTHING}

    return {
        name: [less(own, other) for own, other in zip(of, others[name], strict=True)]
        for name, of in functions.items()
    }


def _queue(before: LineDemand | LockDemand, after: LineDemand | LockDemand) -> Queue:
    users, places = max(before.users, after.users), max(before.places, after.places)
    return Queue(before.demand, after.demand, users, places, (before.executed, after.executed))


def _is_chance(name: str, before: float, after: float) -> bool:
    """Whether it belongs to the allocators, and differs no more than two runs of one kernel do."""
    return ObjectName.parse(name).is_of_allocators and BY_CHANCE.takes_for_same(before, after)


def _by_type(lines: Iterable[SharedLine], unit: AccessUnit) -> dict[str, tuple[float, ...]]:
    found: dict[str, tuple[float, ...]] = {}
    for line in lines:
        each = tuple(in_boot(one, unit) for one in line.repetitions)
        was = found.get(object_type(line.object), (0.0,) * len(each))
        found[object_type(line.object)] = tuple(map(sum, zip(was, each, strict=True)))
    return found


def _takers(
    new: Sequence[Mapping[str, TakenLock]], base: Sequence[Mapping[str, TakenLock]], lock: str
) -> tuple[str, ...]:
    """The functions that take a lock, those that take it only on the new kernel first."""
    after, before = (
        dict.fromkeys(same_function(name) for taken in one if lock in taken for name in taken[lock].takers)
        for one in (new, base)
    )
    ordered = sorted(after or before, key=lambda function: function in before)
    return tuple(ordered[:_MOST_FUNCTIONS])


def _growth(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """The sum of what grew."""
    return sum(max(0.0, count - before.get(name, 0.0)) for name, count in after.items())


def _of_instruction(repetition: Mapping[tuple[str, str], float], instruction: str) -> dict[str, float]:
    return {function: times for (of, function), times in repetition.items() if of == instruction}


def _grown(
    base: Sequence[Mapping[str, float]], new: Sequence[Mapping[str, float]], least: float = 1.0
) -> dict[str, float]:
    """How many instructions per operation more or fewer each function executes, largest change first."""
    names = {name for each in (*base, *new) for name in each}
    change = {
        name: sum(each.get(name, 0.0) for each in new) / len(new)
        - sum(each.get(name, 0.0) for each in base) / len(base)
        for name in names
    }
    kept = {name: more for name, more in change.items() if abs(more) >= least}
    return dict(sorted(kept.items(), key=lambda item: (-abs(item[1]), item[0])))


def _is_of_a_lock(row: MatchedLine, changed: Iterable[CountChange]) -> bool:
    """Whether a changed lock explains a cache line's change.

    Either the cache line has the lock's name, or it belongs to the lock's structure and is touched mostly by
    lock functions and by functions that take this lock.
    """
    name = ObjectName.parse(row.object)
    for lock in changed:
        other = ObjectName.parse(lock.object)
        if name.is_in(other) or other.is_in(name):
            return True
        is_of_its_structure = (name.base, name.index) == (other.base, other.index)
        if is_of_its_structure and _share_of(row, lock.writers) >= _MOST_ACCESSES:
            return True
    return False


def _share_of(row: MatchedLine, takers: Collection[str]) -> float:
    """The share of a cache line's accesses by lock functions and by these functions that take a lock."""
    weights = [item for line in row.lines.values() for item in line.weights.items()]
    theirs = sum(
        weight
        for name, weight in weights
        if same_function(name) in takers or re.match(kernel_functions.LOCKING, name)
    )
    return theirs / (sum(weight for _, weight in weights) or 1.0)


def _functions_of(
    row: MatchedLine, repetitions: Sequence[ProbedCell]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Functions that write the object of a cache line, and those that only read it: not its neighbours'."""
    table = repetitions[0].table.filter(pl.col("context") == "process")
    named = [half.object for half in row.halves] or [row.object]
    touched = (
        table.filter(pl.col("object").is_in(named) & pl.col("function").is_in(row.functions))
        .group_by("function")
        .agg(pl.col("reads", "writes").sum())
        .sort(pl.col("writes") + pl.col("reads"), "function", descending=[True, False])
    )
    writers = touched.filter(pl.col("writes") > 0)["function"].to_list()
    readers = touched.filter(pl.col("writes") == 0)["function"].to_list()
    return tuple(writers[:_MOST_FUNCTIONS]), tuple(readers[:_MOST_FUNCTIONS])
