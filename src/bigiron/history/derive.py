"""Derives from a history's points: which lines are the same, what changed, what grows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import msgspec

from bigiron.analysis.comparison.limits import BY_CHANCE, INSTRUCTIONS_TOLERANCE, Tolerance
from bigiron.analysis.lines import line_growth, matching
from bigiron.analysis.statistics import growth
from bigiron.analysis.statistics.growth import CountSeries
from bigiron.history.database import History
from bigiron.history.records import (
    ChangeRecord,
    GrowthRecord,
    HeldKind,
    How,
    IdentityRecord,
    KernelRecord,
    LineRecord,
    LockRecord,
    PointRecord,
)
from bigiron.machines.vm.dilation import SLOWED_FROM
from bigiron.study.caveats import clock_step_of
from bigiron.util.object_name import ObjectName

ACCESSES = Tolerance(matching.TOLERANCE, matching.RELATIVE_TOLERANCE)
"""As in `compare`: a smaller difference is not a change. Applies to acquisitions of locks too."""
PREDICTED_AT = (64, 256)
_MOST_FUNCTIONS = 8
_SHAPE = ("id", "memory_mib", "sockets", "nodes", "cores", "threads")


@dataclass
class PointRows:
    """A point with its cache lines and locks."""

    point: PointRecord
    lines: list[LineRecord]
    locks: list[LockRecord]


def derive(history: History, workload: int) -> None:
    """Recompute everything that follows from a workload's points, in a transaction of the caller."""
    kernels = sorted(history.select(KernelRecord), key=lambda kernel: kernel.position)
    identities = {identity.id: identity for identity in history.select(IdentityRecord)}
    for derived in ChangeRecord, GrowthRecord:
        history.remove(derived, workload=workload)
    rows = 0
    by_setup: dict[tuple[int, int], dict[int, PointRows]] = {}
    for point in _marked(history, workload):
        counted = PointRows(
            point, history.select(LineRecord, point=point.id), history.select(LockRecord, point=point.id)
        )
        by_setup.setdefault((point.cpus, point.identity), {})[point.kernel] = counted
    for of_kernels in by_setup.values():
        ordered = [of_kernels[kernel.id] for kernel in kernels if kernel.id in of_kernels]
        rows = _number(history, ordered, rows)
        current = [one for one in ordered if one.point.current]
        for before, after in pairwise(current):
            for change in changes(before, after):
                history.add(change)
    for kernel in kernels:
        current = [
            each[kernel.id]
            for each in by_setup.values()
            if kernel.id in each and each[kernel.id].point.current
        ]
        for growing in _growths(current, identities):
            history.add(growing)


def _marked(history: History, workload: int) -> list[PointRecord]:
    """The points, after the last measured one of each kernel and number of CPUs was marked as current."""
    newest: dict[tuple[int, int], PointRecord] = {}
    for point in sorted(history.select(PointRecord, workload=workload), key=lambda point: point.measured):
        newest[point.kernel, point.cpus] = point
    for point in history.select(PointRecord, workload=workload):
        is_newest = newest[point.kernel, point.cpus].id == point.id
        if point.current is not is_newest:
            history.update(PointRecord, point.id, current=is_newest)
    return history.select(PointRecord, workload=workload)


def as_line(line: LineRecord) -> matching.SharedLine:
    """A cache line as `compare` matches it."""
    return matching.SharedLine(
        line.object,
        line.functions,
        line.writes_per_op,
        line.accesses_per_op,
        line.writers,
        line.readers,
        line.false_sharing,
        all_per_op=line.accesses_per_op,
    )


def matched(points: Sequence[Sequence[LineRecord]]) -> Iterator[dict[int, LineRecord]]:
    """The same cache line in several points, by the points' numbers in the sequence."""
    for pair in False, True:
        known: dict[int, LineRecord] = {}
        columns: dict[str, list[matching.SharedLine]] = {}
        for number, lines in enumerate(points):
            here = [(as_line(line), line) for line in lines if line.pair is pair]
            columns[str(number)] = [value for value, _ in here]
            known |= {id(value): line for value, line in here}
        rows = [
            {int(column): known[id(value)] for column, value in row.lines.items()}
            for row in matching.match(columns)
        ]
        yield from _joined(rows)


def _joined(rows: Sequence[dict[int, LineRecord]]) -> list[dict[int, LineRecord]]:
    """Joins rows of one object that have no point in common, most accesses first.

    From release to release functions are renamed and inlined elsewhere, but the cache line stays the same.
    """
    of_object: dict[str, list[dict[int, LineRecord]]] = {}
    for row in sorted(rows, key=_heat, reverse=True):
        named = of_object.setdefault(max(row.values(), key=lambda line: line.accesses_per_op).object, [])
        apart = next((other for other in named if not other.keys() & row.keys()), None)
        if apart is None:
            named.append(dict(row))
        else:
            apart.update(row)
    return [row for named in of_object.values() for row in named]


def _heat(row: dict[int, LineRecord]) -> float:
    return max(line.accesses_per_op for line in row.values())


def _number(history: History, points: Sequence[PointRows], rows: int) -> int:
    """Give the same cache line the same number in all points. Returns the last number used."""
    numbers: dict[int, int] = {}
    for found in matched([counted.lines for counted in points]):
        rows += 1
        numbers |= {line.id: rows for line in found.values()}
    for counted in points:
        for line in counted.lines:
            if line.row != numbers[line.id]:
                history.update(LineRecord, line.id, row=numbers[line.id])
        counted.lines = [msgspec.structs.replace(line, row=numbers[line.id]) for line in counted.lines]
    return rows


_Pair = tuple[LineRecord | None, LineRecord | None]


def changes(before: PointRows, after: PointRows) -> Iterator[ChangeRecord]:
    """The differences between two points with the same setup: totals first, then the largest change first."""
    yield from _total(before, after, "lines", "accesses", ACCESSES)
    yield from _total(before, after, "instructions", "instructions", INSTRUCTIONS_TOLERANCE)
    lines: dict[int, _Pair] = {line.row: (line, None) for line in before.lines}
    for line in after.lines:
        lines[line.row] = (lines.get(line.row, (None, None))[0], line)
    found = [
        *filter(None, (_of_line(before, after, *pair) for pair in lines.values())),
        *_of_locks(before, after),
    ]
    yield from sorted(found, key=lambda change: -abs(change.count_after - change.count_before))


def _total(
    before: PointRows, after: PointRows, what: HeldKind, unit: str, tolerance: Tolerance
) -> Iterator[ChangeRecord]:
    was, now = (getattr(one.point, f"{unit}_per_op") for one in (before, after))
    if not tolerance.takes_for_same(was, now):
        yield _change(before, after, what, "", unit, (was, now), [])


def _of_line(
    before: PointRows, after: PointRows, was: LineRecord | None, now: LineRecord | None
) -> ChangeRecord | None:
    there = was or now
    assert there
    tolerance = BY_CHANCE if ObjectName.parse(there.object).is_of_allocators else ACCESSES
    for unit in "accesses", "writes":
        spans = [
            (getattr(line, f"least_{unit}"), getattr(line, f"most_{unit}")) if line else (0.0, 0.0)
            for line in (was, now)
        ]
        if not _apart(spans[0], spans[1], tolerance):
            continue
        counts = tuple(getattr(line, f"{unit}_per_op") if line else 0.0 for line in (was, now))
        functions = list(dict.fromkeys([*(now or there).functions, *there.functions]))
        change = _change(
            before,
            after,
            "pair" if there.pair else "line",
            (now or there).object,
            unit,
            (counts[0], counts[1]),
            functions,
        )
        ends = (was.id if was else 0), (now.id if now else 0)
        return msgspec.structs.replace(change, line_before=ends[0], line_after=ends[1])
    return None


def _apart(one: tuple[float, float], other: tuple[float, float], tolerance: Tolerance) -> bool:
    """Whether the ranges of the repetitions are further apart than the tolerance."""
    low, high = sorted((one, other))
    return high[0] > tolerance.allows(low[1])


def _of_locks(before: PointRows, after: PointRows) -> Iterator[ChangeRecord]:
    """The changes of locks that several CPUs take in one of the points."""
    was, now = ({(lock.name, lock.taken_by): lock for lock in one.locks} for one in (before, after))
    for key in dict.fromkeys([*was, *now]):
        locks = [lock for lock in (now.get(key), was.get(key)) if lock]
        counts = tuple(one[key].acquisitions_per_op if key in one else 0.0 for one in (was, now))
        if max(lock.cpus for lock in locks) > 1 and not ACCESSES.takes_for_same(*counts):
            functions = locks[0].taken_in
            yield _change(before, after, "lock", key[0], "acquisitions", (counts[0], counts[1]), functions)


def _change(
    before: PointRows,
    after: PointRows,
    what: HeldKind,
    name: str,
    unit: str,
    counts: tuple[float, float],
    functions: Iterable[str],
) -> ChangeRecord:
    was, now = counts
    how: How = "more" if now > was else "less"
    if what in ("line", "pair", "lock") and min(counts) <= matching.TOLERANCE:
        how = "new" if now > was else "gone"
    return ChangeRecord(
        id=0,
        workload=after.point.workload,
        cpus=after.point.cpus,
        before=before.point.kernel,
        after=after.point.kernel,
        what=what,
        name=name,
        how=how,
        unit=unit,
        count_before=was,
        count_after=now,
        functions=list(functions)[:_MOST_FUNCTIONS],
        line_before=0,
        line_after=0,
    )


def _growths(points: Sequence[PointRows], identities: Mapping[int, IdentityRecord]) -> Iterator[GrowthRecord]:
    """The growth of a kernel's counts with the CPUs, if all points have the same setup."""
    points = [counted for counted in points if counted.point.cpus > 1]
    setups = by_measurement_setup((counted.point for counted in points), identities)
    if len(points) < growth.FEWEST or len(setups) > 1:
        return
    totals = {
        what: CountSeries(
            "", "", {one.point.cpus: round(getattr(one.point, f"{unit}_per_op"), 6) for one in points}
        )
        for what, unit in (("lines", "accesses"), ("instructions", "instructions"))
    }
    lines = {one.point.cpus: [as_line(line) for line in one.lines if not line.pair] for one in points}
    each = [("line", series) for series in line_growth.series_of(lines)]
    for what, series in [*totals.items(), *each]:
        if max(series.points.values()) > matching.TOLERANCE:
            yield _growth(points[0].point, what, series)


def clock_steps(points: Iterable[PointRecord], identities: Mapping[int, IdentityRecord]) -> list[str]:
    """A sentence for each step of the clock rate over the CPUs, if there are enough points for growth."""
    of_kernel: dict[int, list[PointRecord]] = {}
    for point in points:
        of_kernel.setdefault(point.kernel, []).append(point)
    steps = (
        clock_step_of((point.cpus, identities[point.identity].clock_slower) for point in each)
        for each in of_kernel.values()
        if len({point.cpus for point in each}) >= growth.FEWEST
    )
    return [text for text in dict.fromkeys(steps) if text]


def by_measurement_setup(
    points: Iterable[PointRecord], identities: Mapping[int, IdentityRecord]
) -> dict[IdentityRecord, list[PointRecord]]:
    """A kernel's points by their setup, without shape and clock rate, which follow from the CPUs.

    Points with many CPUs are separated by whether the clock was slowed down. Points with fewer CPUs belong to
    the slowed ones, because one version of bigiron measures both.
    """
    found: dict[IdentityRecord, list[PointRecord]] = {}
    for point in points:
        identity = identities[point.identity]
        clock = identity.clock.partition(",")[0]
        shapeless = msgspec.structs.replace(identity, clock=clock, **dict.fromkeys(_SHAPE, 0))
        found.setdefault(shapeless, []).append(point)
    return dict(chain.from_iterable(_by_clock(setup, each, identities) for setup, each in found.items()))


def _by_clock(
    setup: IdentityRecord, points: Sequence[PointRecord], identities: Mapping[int, IdentityRecord]
) -> Iterator[tuple[IdentityRecord, list[PointRecord]]]:
    slowed = {point.id for point in points if identities[point.identity].clock != setup.clock}
    fast = [point for point in points if point.id not in slowed and point.cpus >= SLOWED_FROM]
    if not (slowed and fast):
        yield setup, list(points)
        return
    yield setup, fast
    slower = msgspec.structs.replace(setup, clock=f"{setup.clock}, slower from {SLOWED_FROM} CPUs on")
    yield slower, [point for point in points if point not in fast]


def _growth(point: PointRecord, what: Any, series: CountSeries) -> GrowthRecord:
    fitted = growth.fit_series(series)
    at = [cpus for cpus in PREDICTED_AT if cpus > max(series.points)] if fitted.law else []
    predicted = {str(cpus): fitted.predict(cpus) for cpus in at}
    return GrowthRecord(
        workload=point.workload,
        kernel=point.kernel,
        what=what,
        name=series.name,
        functions=series.what,
        law=fitted.law.value if fitted.law else "",
        sure=round(fitted.sure, 4),
        text=fitted.best.formula if fitted.law else fitted.refusal,
        points={str(cpus): count for cpus, count in sorted(series.points.items())},
        predicted={
            cpus: (round(one.value, 3), round(one.low, 3), round(one.high, 3))
            for cpus, one in predicted.items()
        },
    )
