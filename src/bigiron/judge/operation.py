"""What one operation of a kernel needs: instructions, cache lines and locks that tasks may queue for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from bigiron.analysis.comparison import costly
from bigiron.analysis.comparison.cost import OF_A_PAIR, TRANSFER
from bigiron.analysis.lines import per_cpu
from bigiron.analysis.lines.matching import MatchedLine
from bigiron.judge.counts import LEAST_ACCESSES, NOT_TAKEN, KernelCounts, Setup, is_per_cpu, per_operation
from bigiron.util.object_name import ObjectName


@dataclass(frozen=True)
class LineDemand:
    """A cache line, or the per-CPU cache lines of one name."""

    accesses: float
    users: float  # share of the tasks that touch it
    weight: float = 1.0
    places: float = 1.0  # the number of cache lines among which the accesses are divided

    @property
    def demand(self) -> float:
        """Instructions per operation for which it occupies the line, or lines."""
        return self.accesses * TRANSFER * self.weight

    @property
    def executed(self) -> float:
        """The part of this that is instructions of the operation: none."""
        return 0.0


@dataclass(frozen=True)
class LockDemand:
    """A lock."""

    taken: float
    held: float
    users: float
    excludes: bool
    places: float = 1.0

    @property
    def demand(self) -> float:
        """Instructions per operation for which it occupies the lock."""
        return self.taken * TRANSFER + self.executed

    @property
    def executed(self) -> float:
        """The part of this that is instructions of the operation: those under the lock."""
        return self.held if self.excludes else 0.0


UNTOUCHED = LineDemand(0.0, 0.0)
UNTAKEN = LockDemand(0.0, 0.0, 0.0, False)


@dataclass(frozen=True)
class OperationDemand:
    """What one operation of a kernel needs."""

    instructions: float
    lines: Mapping[int, LineDemand]  # by row of the counts
    locks: Mapping[str, LockDemand]
    costly: Mapping[str, float]  # executions of instructions that take much longer than others

    @property
    def accesses(self) -> float:
        """To all shared cache lines."""
        return sum(line.accesses for line in self.lines.values())

    @property
    def alone(self) -> float:
        """Instructions of an operation that does not queue for anything."""
        longer = sum(times * costly.beyond(instruction) for instruction, times in self.costly.items())
        return self.instructions + longer + sum(line.demand for line in self.lines.values())


def operation(counts: KernelCounts, setup: Setup, name: str) -> OperationDemand:
    """The mean operation of one kernel, with per-CPU cache lines extrapolated to the report's CPUs."""
    functions, locks = counts.functions[name], counts.locks[name]
    return OperationDemand(
        sum(sum(one.values()) for one in functions) / len(functions),
        {
            number: _line(counts, setup, row, lines, name)
            for number, (row, lines) in enumerate(counts.rows)
            if name in row.lines
        },
        {
            lock: _lock(counts, setup, name, lock)
            for lock in counts.shared_locks
            if any(lock in taken for taken in locks)
        },
        _costly(counts, name),
    )


def _costly(counts: KernelCounts, name: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for repetition in counts.costly[name]:
        for (instruction, _), times in repetition.items():
            found[instruction] = found.get(instruction, 0.0) + times / len(counts.costly[name])
    return found


def _line(counts: KernelCounts, setup: Setup, row: MatchedLine, lines: int, name: str) -> LineDemand:
    line = row.lines[name]
    users = min(1.0, max(line.writers, line.readers) / setup.busy)
    weight = OF_A_PAIR if line.halves else 1.0
    if counts.fewer is None or not is_per_cpu(row):
        accesses = per_operation(row, setup.names, "accesses", setup.cpus)[name]
        return LineDemand(fmean(accesses), users, weight, float(lines))
    family = counts.families[ObjectName.parse(row.object).of_each_cpu]
    few = [sums.get(family, 0.0) for sums in counts.fewer.sums[name]]
    many = per_operation(row, [name], "accesses")[name]
    extrapolated = per_cpu.with_cpus(
        setup.at_cpus, (counts.fewer.cpus, few), (setup.cpus, many), LEAST_ACCESSES
    )
    return LineDemand(extrapolated, users, weight, lines * setup.at_cpus / setup.cpus)


def _lock(counts: KernelCounts, setup: Setup, name: str, lock: str) -> LockDemand:
    repetitions = [taken.get(lock, NOT_TAKEN) for taken in counts.locks[name]]
    return LockDemand(
        sum(one.taken for one in repetitions) / len(repetitions),
        sum(one.held for one in repetitions) / len(repetitions),
        max(one.users for one in repetitions) / setup.busy,
        any(one.excludes for one in repetitions),
    )
