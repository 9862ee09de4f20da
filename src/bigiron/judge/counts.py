"""The counts of two kernels at one number of CPUs and tasks: cache lines, locks, instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias, TypeVar

from bigiron.analysis.comparison.model import Cells, Measurements, Options, ProbedCell
from bigiron.analysis.lines import matching, per_cpu, shared_lines
from bigiron.analysis.lines.matching import MatchedLine, PerBoot
from bigiron.analysis.probes import costly
from bigiron.analysis.probes import locks as lock_profile
from bigiron.analysis.probes.instructions import by_same_names, with_same_names
from bigiron.analysis.replay.program import READERS
from bigiron.analysis.replay.synthetic_operation import without_waiting, work_of_operations
from bigiron.judge import moved_code
from bigiron.judge.moved_code import Callers
from bigiron.util.lazy import polars as pl
from bigiron.util.object_name import OF_CPU, ObjectName

_Made = TypeVar("_Made")
AccessUnit: TypeAlias = Literal["accesses", "writes"]
"""What is counted of a cache line; writes are accesses, too."""

LEAST_ACCESSES = 0.1
"""Accesses per operation to a shared cache line. Timer ticks and the order of the CPUs cause fewer ones."""

_FAINT = LEAST_ACCESSES / 2
"""Accesses per operation below which a cache line is left out of a boot.

There are thousands of such lines, matching them is slow, and none of them can change by `LEAST_ACCESSES`.
"""


@dataclass(frozen=True)
class Setup:
    """The two kernels, the CPUs and tasks that were measured, and those of the report."""

    base: str
    new: str
    cpus: int
    tasks: int | None  # None: unknown
    at_cpus: int
    at_tasks: int

    @property
    def busy(self) -> int:
        """The measured tasks; where their number is unknown, one per CPU."""
        return self.tasks or self.cpus

    @property
    def names(self) -> tuple[str, str]:
        """Both variants."""
        return self.base, self.new


@dataclass(frozen=True)
class TakenLock:
    """A lock in one repetition."""

    taken: float
    held: float
    users: int
    excludes: bool
    takers: tuple[str, ...] = ()


NOT_TAKEN = TakenLock(0.0, 0.0, 0, False)


@dataclass(frozen=True)
class FewerCpus:
    """Accesses to the per-CPU cache lines on a machine with at most half as many CPUs."""

    cpus: int
    sums: Mapping[str, Sequence[Mapping[str, float]]]  # by variant and repetition: by family of lines


@dataclass(frozen=True)
class KernelCounts:
    """The counts of both kernels, by variant."""

    cells: Mapping[str, Sequence[ProbedCell]]  # of the probe conflicts, without waiting and faint lines
    rows: Sequence[
        tuple[MatchedLine, int]
    ]  # each cache line or adjacent pair, and how many lines it stands for
    families: Mapping[str, str]
    fewer: FewerCpus | None
    locks: Mapping[str, Sequence[Mapping[str, TakenLock]]]  # by repetition
    lock_cells: Cells  # of the probe locks
    work: Cells  # of the probe instructions, without waiting, functions as in all kernels
    functions: Mapping[str, Sequence[Mapping[str, float]]]  # self instructions per operation, by repetition
    called_by: Callers
    costly: Mapping[str, Sequence[Mapping[tuple[str, str], float]]]
    """Executions per operation of instructions that take long, by repetition, instruction and function."""

    @property
    def shared_locks(self) -> set[str]:
        """Locks that several CPUs take on one of the kernels."""
        repetitions = (taken for each in self.locks.values() for taken in each)
        return {lock for taken in repetitions for lock, one in taken.items() if one.users > 1}


def read(lines: Measurements, locks: Cells, instructions: Cells, setup: Setup) -> KernelCounts:
    """The counts of both kernels at the setup's number of CPUs and tasks."""
    point = setup.cpus, setup.tasks
    cells = _of_each(_prepare, lines.points[point], lines.points[point])
    (at,) = shared_lines.line_up_all(replace(lines, points={point: cells}), Options(setup.base)).points
    rows = _matched([*at.rows, *at.pairs], setup.names)
    families = per_cpu.names(rows)
    work = _of_each(_work, instructions, setup.names)
    lock_cells = with_same_names({name: locks[name] for name in setup.names})
    return KernelCounts(
        cells,
        per_cpu.merge_families(rows, families),
        families,
        _with_fewer_cpus(lines, setup, families),
        _of_each(_locks, lock_cells, setup.names),
        lock_cells,
        work,
        {name: list(map(_functions, work[name])) for name in setup.names},
        _callers([work[name][0] for name in setup.names]),
        {name: [costly.by_function(one.table, one.operations) for one in work[name]] for name in setup.names},
    )


def per_operation(
    row: MatchedLine, names: Sequence[str], unit: AccessUnit, cpus: int = 0
) -> dict[str, tuple[float, ...]]:
    """Accesses, or writes, per operation to a cache line in each repetition, by variant.

    Where one kernel does not share it, the tasks there may read it as often: with `cpus`, only accesses count
    then that a write of one of so many can disturb. What disturbs half a pair are writes of the other half.
    """
    most = cpus if any(name not in row.lines for name in names) and not row.halves else 0
    return {
        name: tuple(in_boot(one, unit, most) for one in row.lines[name].repetitions)
        if name in row.lines
        else (0.0,)
        for name in names
    }


def in_boot(one: PerBoot, unit: AccessUnit, cpus: int = 0) -> float:
    """A count of one repetition; with `cpus`, of accesses that a write of one of so many can disturb."""
    if unit == "writes":
        return one.writes
    return min(one.accesses, one.writes * cpus) if cpus else one.accesses


def is_per_cpu(row: MatchedLine) -> bool:
    """Whether each CPU has its own copy of the cache line."""
    return bool(ObjectName.parse(row.object).of_each_cpu) and not row.halves


def _matched(rows: Sequence[MatchedLine], names: tuple[str, str]) -> list[MatchedLine]:
    """The rows, in which a line of one kernel is also matched with an adjacent pair of the other kernel.

    The offset of a slab object in its cache line differs from boot to boot, and with it the adjacent line.
    """
    of_both = [row for row in rows if len(row.lines) == len(names)]
    of_one = {name: [row.lines[name] for row in rows if [*row.lines] == [name]] for name in names}
    return [*of_both, *matching.match(of_one)]


def _locks(cell: ProbedCell) -> dict[str, TakenLock]:
    """The locks of a repetition by name. Readers and writers of a lock exclude each other."""
    found: dict[str, TakenLock] = {}
    for row in lock_profile.profile(cell.table, cell.operations).iter_rows(named=True):
        was = found.get(row["lock"], NOT_TAKEN)
        found[row["lock"]] = TakenLock(
            was.taken + row["acquisitions_per_op"],
            was.held + row["held_per_op"],
            max(was.users, row["cpus"]),
            was.excludes or row["taken_by"] not in READERS,
            (*was.takers, *row["taken_in"]),
        )
    return found


def _work(cell: ProbedCell) -> ProbedCell:
    """The work of operations, without waiting for locks, which is chance; functions as in all kernels."""
    return replace(cell, table=by_same_names(work_of_operations(cell.table)))


def _functions(work: ProbedCell) -> dict[str, float]:
    """Self instructions per operation of each function."""
    ran = work.table.group_by("function")
    return dict(ran.agg(pl.col("instructions").sum() / work.operations).sort("function").iter_rows())


def _callers(work: Iterable[ProbedCell]) -> Callers:
    """From one repetition of each kernel."""
    return {function: callers for one in work for function, callers in moved_code.callers(one.table).items()}


def _of_each(
    make: Callable[[ProbedCell], _Made], cells: Cells, names: Iterable[str]
) -> dict[str, list[_Made]]:
    """What that makes of each cell, once for each: a cell may be compared with several others."""
    return {name: [cell.once(make, partial(make, cell)) for cell in cells[name]] for name in names}


def _prepare(cell: ProbedCell) -> ProbedCell:
    """Without waiting for locks, and without faint cache lines other than per-CPU ones."""
    touched = pl.max_horizontal("reads", "writes").sum().over("line")
    per_cpu_line = pl.col("object").str.contains(OF_CPU).any().over("line")
    bright = cell.table.filter((touched >= _FAINT * cell.operations) | per_cpu_line)
    return replace(cell, table=without_waiting(bright).drop("whole"))


def _with_fewer_cpus(measured: Measurements, setup: Setup, families: Mapping[str, str]) -> FewerCpus | None:
    """The largest measured machine with at most half as many CPUs and the same share of tasks."""
    fewer = [
        (cpus, tasks)
        for (cpus, tasks), cells in measured.points.items()
        if 2 * cpus <= setup.cpus and _is_same_share(cpus, tasks, setup) and set(setup.names) <= set(cells)
    ]
    if not fewer:
        return None
    there = _of_each(_prepare, measured.points[max(fewer)], setup.names)
    sums = {name: per_cpu.sums(map(shared_lines.lines_in, there[name]), families) for name in setup.names}
    return FewerCpus(max(fewer)[0], sums)


def _is_same_share(cpus: int, tasks: int | None, setup: Setup) -> bool:
    """Whether that is the measured share of tasks, though both numbers are rounded, and at least two.

    >>> measured = Setup("a", "b", 8, 5, 24, 16)
    >>> [tasks for tasks in range(1, 5) if _is_same_share(4, tasks, measured)]
    [2, 3]
    """
    if tasks is None or setup.tasks is None:
        return tasks == setup.tasks
    least = min(2, setup.tasks)
    return tasks >= least and abs(tasks - max(least, cpus * setup.tasks / setup.cpus)) < 1
