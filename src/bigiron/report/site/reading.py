"""A history's database as the pages need it: rows by subject, in order of releases."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import TypeVar

from bigiron.errors import UserError
from bigiron.history.database import History
from bigiron.history.derive import ACCESSES
from bigiron.history.records import (
    ChainRecord,
    ChangeRecord,
    FunctionRecord,
    GrowthRecord,
    IdentityRecord,
    KernelRecord,
    LineRecord,
    LockRecord,
    PointRecord,
    PredictionRecord,
    RefusalRecord,
    WorkloadRecord,
)
from bigiron.util.object_name import without_instance

_Row = TypeVar("_Row")
_Key = TypeVar("_Key", bound=Hashable)

LEAST = 0.05
"""Fewer accesses per operation are not mentioned."""

_LEAST_SHARE = 1 / 2000


def least(point: PointRecord) -> float:
    """An object with fewer accesses per operation at every point is in the database only."""
    return max(LEAST, _LEAST_SHARE * point.accesses_per_op)


@dataclass(frozen=True)
class ObjectAtPoint:
    """An object at a point: all cache lines of that name."""

    point: PointRecord
    lines: tuple[LineRecord, ...]

    @property
    def accesses(self) -> float:
        """Per operation."""
        return sum(line.accesses_per_op for line in self.lines)

    @property
    def writes(self) -> float:
        """Per operation."""
        return sum(line.writes_per_op for line in self.lines)

    @property
    def is_shown(self) -> bool:
        """Whether it is worth a row."""
        return self.accesses >= least(self.point)

    @property
    def functions(self) -> dict[str, float]:
        """Accesses per operation of each function that touches it."""
        found: dict[str, float] = defaultdict(float)
        for line in self.lines:
            for function, accesses in line.functions.items():
                found[function] += accesses
        return dict(sorted(found.items(), key=lambda one: -one[1]))


@dataclass(frozen=True)
class ObjectChange:
    """An object that a kernel changed in a workload: all its lines together, before and after."""

    workload: WorkloadRecord
    names: frozenset[str]  # that it has on the two kernels
    name: str
    was: ObjectAtPoint
    now: ObjectAtPoint

    @property
    def size(self) -> float:
        """The change in accesses per operation."""
        return abs(self.now.accesses - self.was.accesses)


class HistoryReader:
    """A history that was read."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.kernels = sorted(history.select(KernelRecord), key=lambda kernel: kernel.position)
        self.workloads = sorted(history.select(WorkloadRecord), key=_by_suite)
        self.identities = {identity.id: identity for identity in history.select(IdentityRecord)}
        self.points = history.select(PointRecord)
        if not self.points:
            raise UserError(f"{history.path} has no points yet: `bigiron history add` measures some")
        self._kernels = {kernel.id: kernel for kernel in self.kernels}
        self._workloads = {workload.id: workload for workload in self.workloads}
        self._points = {point.id: point for point in self.points}
        changes = history.select(ChangeRecord)
        self._object_changes: dict[int, list[ObjectChange]] = {}  # by kernel
        self._current = {(p.workload, p.kernel, p.cpus): p for p in self.points if p.current}
        self._lines = _grouped(history.select(LineRecord), lambda line: line.point)
        self._chains = _grouped(history.select(ChainRecord), lambda chain: chain.line)
        self._locks = _grouped(history.select(LockRecord), lambda lock: lock.point)
        self._growths = _grouped(history.select(GrowthRecord), lambda one: (one.workload, one.kernel))
        self._predictions = _grouped(history.select(PredictionRecord), lambda one: (one.workload, one.kernel))
        self._changes = _grouped(changes, lambda change: (change.workload, change.after))
        self._check(history, changes)
        self.refusals = _grouped(history.select(RefusalRecord), lambda one: (one.workload, one.kernel))

    def _check(self, history: History, changes: Iterable[ChangeRecord]) -> None:
        """UserError where rows that belong together are not: anybody can have written a history."""
        whole = all(
            math.isfinite(point.accesses_per_op) and _is_time(point.measured) for point in self.points
        ) and all(
            (change.workload, kernel, change.cpus) in self._current
            for change in changes
            for kernel in (change.before, change.after)
        )
        whole &= all(one.refused or one.tasks > 0 for of in self._predictions.values() for one in of)
        if not whole:
            raise UserError(
                f"{history.path} is damaged: a point has no count or time, a prediction no tasks, or a "
                "change no points; delete it, and `bigiron history add` makes it again from the studies "
                "beside it"
            )

    # What there is

    @cached_property
    def cpus(self) -> list[int]:
        """Numbers of CPUs that were measured."""
        return sorted({point.cpus for point in self.points if point.current})

    @cached_property
    def machines(self) -> list[tuple[str, int]]:
        """What was predicted for: machines and their tasks."""
        return sorted(
            {(p.machine, p.tasks) for of in self._predictions.values() for p in of if not p.refused}
        )

    @cached_property
    def measured(self) -> str:
        """When the newest point was measured."""
        return max(point.measured for point in self.points)

    @property
    def newest(self) -> KernelRecord:
        """The newest kernel."""
        return self.kernels[-1]

    def before(self, kernel: KernelRecord) -> KernelRecord | None:
        """The kernel before one."""
        at = self.kernels.index(kernel)
        return self.kernels[at - 1] if at else None

    def compared(self, workload: WorkloadRecord, kernel: KernelRecord, cpus: int = 0) -> KernelRecord | None:
        """What a kernel is compared with in a workload: the newest older one measured with the same setup.

        With so many CPUs; 0: the most of the workload.
        """
        cpus = cpus or self.most_cpus(workload)
        here = self.point(workload, kernel, cpus)
        for older in reversed(self.kernels[: self.kernels.index(kernel)]):
            there = self.point(workload, older, cpus)
            if here and there and there.identity == here.identity:
                return older
        return None

    def against(self, kernel: KernelRecord) -> list[KernelRecord]:
        """All kernels that it is compared with in some workload, newest first."""
        found = {
            one.id
            for workload in self.workloads
            for cpus in self.cpus
            if (one := self.compared(workload, kernel, cpus))
        }
        return [one for one in reversed(self.kernels) if one.id in found]

    def kernel(self, number: int) -> KernelRecord:
        """A kernel by its number."""
        return self._kernels[number]

    def workload(self, number: int) -> WorkloadRecord:
        """A workload by its number."""
        return self._workloads[number]

    # At a point

    def point(self, workload: WorkloadRecord, kernel: KernelRecord, cpus: int) -> PointRecord | None:
        """The current point, if it was measured."""
        return self._current.get((workload.id, kernel.id, cpus))

    def of_workload(self, workload: WorkloadRecord) -> list[PointRecord]:
        """All its points, the older ones too."""
        return [point for point in self.points if point.workload == workload.id]

    def most_cpus(self, workload: WorkloadRecord) -> int:
        """Of its current points: of those that the newest kernel has, if it has any."""
        return self._most_cpus.get(workload.id, 0)

    @cached_property
    def _most_cpus(self) -> dict[int, int]:
        found: dict[int, tuple[bool, int]] = {}
        for point in self._current.values():
            rank = point.kernel == self.newest.id, point.cpus
            found[point.workload] = max(found.get(point.workload, rank), rank)
        return {workload: cpus for workload, (_, cpus) in found.items()}

    def lines(self, point: PointRecord, pairs: bool = False) -> list[LineRecord]:
        """Its shared cache lines, hottest first; or what is shared only as a pair of lines."""
        found = [line for line in self._lines.get(point.id, ()) if line.pair is pairs]
        return sorted(found, key=lambda line: (-line.accesses_per_op, line.object, line.row))

    def chains(self, line: LineRecord) -> list[ChainRecord]:
        """The call chains that reach it, most frequent first."""
        return sorted(self._chains.get(line.id, ()), key=lambda chain: -chain.accesses_per_op)

    def locks(self, point: PointRecord) -> list[LockRecord]:
        """Locks taken there, most often first."""
        return sorted(self._locks.get(point.id, ()), key=lambda lock: -lock.acquisitions_per_op)

    def functions(self, point: PointRecord) -> list[FunctionRecord]:
        """The functions that ran there."""
        return self._history.select(FunctionRecord, point=point.id)

    def growths(self, workload: WorkloadRecord, kernel: KernelRecord, what: str) -> list[GrowthRecord]:
        """How its counts grow."""
        return [one for one in self._growths.get((workload.id, kernel.id), ()) if one.what == what]

    def predictions(self, workload: WorkloadRecord, kernel: KernelRecord) -> list[PredictionRecord]:
        """The predictions for it, and the refused ones."""
        return self._predictions.get((workload.id, kernel.id), [])

    def prediction(
        self, workload: WorkloadRecord, kernel: KernelRecord, machine: str, tasks: int
    ) -> PredictionRecord | None:
        """What is predicted for one machine."""
        of = self.predictions(workload, kernel)
        return next((p for p in of if (p.machine, p.tasks) == (machine, tasks) and not p.refused), None)

    def have_same_setup(self, one: PredictionRecord, other: PredictionRecord) -> bool:
        """Whether two predictions are based on measurements with the same setup."""
        points = [self._points.get(prediction.point) for prediction in (one, other)]
        return len({point.identity if point else 0 for point in points}) == 1

    # Changes

    def changes(self, kernel: KernelRecord, workload: WorkloadRecord | None = None) -> list[ChangeRecord]:
        """From the kernel before to this one: with the most CPUs of each workload."""
        chosen = [workload] if workload else self.workloads
        found: list[ChangeRecord] = []
        for one in chosen:
            of_workload = self._changes.get((one.id, kernel.id), [])
            most = max((change.cpus for change in of_workload), default=0)
            found += [change for change in of_workload if change.cpus == most]
        return found

    def object_changes(
        self, kernel: KernelRecord, workload: WorkloadRecord | None = None
    ) -> list[ObjectChange]:
        """Objects that changed, the largest change first; one line may be gone and another of it new."""
        of_all = self._object_changes.get(kernel.id)
        if of_all is None:
            found = chain.from_iterable(self._changed_objects(one, kernel) for one in self.workloads)
            of_all = self._object_changes[kernel.id] = sorted(found, key=lambda one: -one.size)
        return [one for one in of_all if workload is None or one.workload.id == workload.id]

    def _changed_objects(self, workload: WorkloadRecord, kernel: KernelRecord) -> Iterator[ObjectChange]:
        lines = [change for change in self.changes(kernel, workload) if change.what == "line"]
        if not lines:
            return
        of = (self._current.get((workload.id, one, lines[0].cpus)) for one in (lines[0].before, kernel.id))
        was, now = (ObjectAtPoint(point, tuple(self.lines(point))) if point else None for point in of)
        if not was or not now:
            return
        changed = {without_instance(change.name) for change in lines}
        for names in _names_of_same_lines(was, now):
            if names & changed:
                parts = [
                    ObjectAtPoint(
                        use.point, tuple(line for line in use.lines if without_instance(line.object) in names)
                    )
                    for use in (was, now)
                ]
                if not ACCESSES.takes_for_same(parts[0].accesses, parts[1].accesses):
                    hottest = next(iter(parts[1].lines or parts[0].lines))
                    yield ObjectChange(workload, frozenset(names), without_instance(hottest.object), *parts)

    # Objects

    @cached_property
    def is_even(self) -> bool:
        """Whether every point was measured with the same setup, so that sums over them are comparable."""
        for workload in self.workloads:
            found = [self.point(workload, kernel, self.most_cpus(workload)) for kernel in self.kernels]
            if len({point.identity if point else 0 for point in found}) > 1:
                return False
        return True

    @cached_property
    def objects(self) -> dict[str, list[ObjectAtPoint]]:
        """What CPUs share at any current point, and where, the hottest first."""
        found: dict[str, list[ObjectAtPoint]] = defaultdict(list)
        for point in self._current.values():
            named: dict[str, list[LineRecord]] = defaultdict(list)
            for line in self.lines(point):
                named[without_instance(line.object)].append(line)
            for name, lines in named.items():
                found[name].append(ObjectAtPoint(point, tuple(lines)))
        hot = {name: uses for name, uses in found.items() if any(use.is_shown for use in uses)}
        return dict(sorted(hot.items(), key=lambda item: (-self.weight(item[1]), item[0])))

    def object_of(self, name: str) -> str:
        """What has a page of those that are called so; "": nothing."""
        return without_instance(name) if without_instance(name) in self.objects else ""

    def weight(self, uses: Iterable[ObjectAtPoint]) -> float:
        """Accesses to an object on the newest kernel, over all workloads."""
        return sum(
            use.accesses
            for use in uses
            if use.point.kernel == self.newest.id
            and use.point.cpus == self.most_cpus(self.workload(use.point.workload))
        )


def _names_of_same_lines(was: ObjectAtPoint, now: ObjectAtPoint) -> list[set[str]]:
    """The names of objects on two kernels, those together that the same line has on one and the other."""
    found = {
        without_instance(line.object): {without_instance(line.object)}
        for use in (was, now)
        for line in use.lines
    }
    before = {line.row: without_instance(line.object) for line in was.lines}
    for line in now.lines:
        one, other = found[without_instance(line.object)], found.get(before.get(line.row, ""), set())
        if other and one is not other:
            one |= other
            for name in other:
                found[name] = one
    return list({id(names): names for names in found.values()}.values())


def _is_time(text: str) -> bool:
    """Whether it is a time with its zone, as ISO 8601 has it."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _by_suite(workload: WorkloadRecord) -> tuple[str, str]:
    """Suites together, those without one first."""
    suite, slash, _ = workload.name.rpartition("/")
    return (suite if slash else ""), workload.name


def _grouped(rows: Sequence[_Row], key: Callable[[_Row], _Key]) -> dict[_Key, list[_Row]]:
    found: dict[_Key, list[_Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return dict(found)
