"""What a history allows a newer kernel: the counts of the one before it, and by how much counts vary anyway.

A line varies by as much as it does between the repetitions of any kernel, or between kernels that follow each
other, whichever is more: of these differences the median, the lower one of two, as a release that changes a
line is no reason to let the next one do so. Two kernels alone differ once, which may be such a change.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median_low

import msgspec

from bigiron.analysis.check import ALLOCATORS, LEAST, Function, Known, Tolerance, Work, is_of_allocators
from bigiron.analysis.check import Point as Baseline
from bigiron.errors import UserError
from bigiron.history import collect, derive, points, records
from bigiron.history.database import History
from bigiron.history.records import Identity, Kernel, Line, Point, Workload
from bigiron.study.baseline import WORK_TOLERANCE
from bigiron.study.store import CellRecord, Study

_FEWEST = 2  # differences between kernels that follow each other


def baseline(history: History, study: Study, record: CellRecord) -> Baseline | None:
    """What one point of a study is held against; None where the history has newer kernels alone.

    UserError where the history has nothing to compare with.
    """
    name = points.name_of(study.spec.workload, study.spec.fs)
    place = f"{name} at {record.cpus} CPUs and {record.tasks} tasks"
    workload = history.find(Workload, name=name)
    there = history.select(
        Point, workload=workload.id if workload else 0, cpus=record.cpus, tasks=record.tasks, current=1
    )
    if not there:
        raise UserError(
            f"{history.path} has no counts of {place}: "
            f"`bigiron history add KERNEL --workloads {name} --cpus {record.cpus}` measures them"
        )
    ordered = _before(history, _made_alike(history, there, study, record, place), record)
    if not ordered:
        return None
    lines = {point.id: history.select(Line, point=point.id) for point in ordered}
    newest = ordered[-1]
    kernel = next(one for one in history.select(Kernel) if one.id == newest.kernel)
    return Baseline(
        variant=kernel.name,
        kernel=kernel.release,
        cpus=newest.cpus,
        tasks=newest.tasks,
        lines=_known([lines[point.id] for point in ordered]),
        work=Work(instructions=newest.instructions_per_op, tolerance=_work_tolerance(ordered)),
        functions=[
            Function(function=one.function, instructions=one.own_per_op)
            for one in history.select(records.Function, point=newest.id)
        ],
    )


def _made_alike(
    history: History, there: Sequence[Point], study: Study, record: CellRecord, place: str
) -> list[Point]:
    """The points that the same recorder, QEMU and machine made as the study's."""
    known = {identity.id: identity for identity in history.select(Identity)}
    mine = collect.identity(study, record)
    alike = [point for point in there if _same(known[point.identity], mine)]
    if not alike:
        was, now = next(iter(_differences(known[there[-1].identity], mine)))
        raise UserError(
            f"{history.path} has {place} with {was}, and the study with {now}: counts of the two are not "
            f"compared; measure the study as the history was ({there[-1].command}), or the history again"
        )
    return alike


def _same(one: Identity, other: Identity) -> bool:
    return not list(_differences(one, other))


def _differences(one: Identity, other: Identity) -> Iterable[tuple[str, str]]:
    for name, was in msgspec.structs.asdict(one).items():
        if name != "id" and was != getattr(other, name):
            yield f"{name} {was}", f"{name} {getattr(other, name)}"


def _before(history: History, alike: Sequence[Point], record: CellRecord) -> list[Point]:
    """The points of other kernels that are no newer, oldest first; of the same image where it is alone."""
    kernels = {kernel.id: kernel for kernel in history.select(Kernel)}
    image = str(record.environment["kernel_sha256"])
    others = [point for point in alike if kernels[point.kernel].sha256 != image] or list(alike)
    others.sort(key=lambda point: kernels[point.kernel].position)
    release = derive.release_order(str(record.environment["kernel_release"]))
    return [point for point in others if derive.release_order(kernels[point.kernel].release) <= release]


def _known(kernels: Sequence[Sequence[Line]]) -> list[Known]:
    """The newest kernel's lines, each with a tolerance of its own where it varies."""
    newest = kernels[-1]
    of_row: dict[int, list[Line | None]] = {}
    for number, lines in enumerate(kernels):
        for line in lines:
            of_row.setdefault(line.row, [None] * len(kernels))[number] = line
    single = [line for line in newest if not line.pair]
    theirs = [line for line in single if is_of_allocators(line.object)]
    found = [
        _as_known(line, Tolerance().absolute + _spread(of_row[line.row]))
        for line in single
        if line not in theirs
    ]
    if theirs:
        found.append(_allocators(theirs))
    return [known for known in found if known.accesses > LEAST]


def _as_known(line: Line, tolerance: float) -> Known:
    return Known(
        object=line.object,
        writes=line.writes_per_op,
        accesses=line.accesses_per_op,
        most_writes=line.most_writes,
        most_accesses=line.most_accesses,
        tolerance=round(tolerance, 3),
        functions=line.functions,
    )


def _allocators(lines: Sequence[Line]) -> Known:
    """All that allocators keep of pages, as `check` has it: one line, with its own tolerance."""
    functions: dict[str, float] = {}
    for line in lines:
        for function, accesses in line.functions.items():
            functions[function] = functions.get(function, 0.0) + accesses
    return Known(
        object=ALLOCATORS,
        writes=sum(line.writes_per_op for line in lines),
        accesses=sum(line.accesses_per_op for line in lines),
        most_writes=sum(line.most_writes for line in lines),
        most_accesses=sum(line.most_accesses for line in lines),
        functions=functions,
    )


def _spread(kernels: Sequence[Line | None]) -> float:
    """By how many accesses or writes an operation a line varies."""
    repetitions = [
        max(line.most_accesses - line.least_accesses, line.most_writes - line.least_writes)
        for line in kernels
        if line
    ]
    accesses = _between([line.accesses_per_op if line else 0.0 for line in kernels])
    writes = _between([line.writes_per_op if line else 0.0 for line in kernels])
    return max(*repetitions, accesses, writes)


def _between(counts: Sequence[float]) -> float:
    """The median of what counts of kernels that follow each other differ by.

    >>> _between([6.0, 6.0, 2.0, 2.0]), _between([0.9, 1.2, 0.8]), _between([6.0, 2.0])
    (0.0, 0.3, 0.0)
    """
    differences = [round(abs(after - before), 6) for before, after in pairwise(counts)]
    return median_low(differences) if len(differences) >= _FEWEST else 0.0


def _work_tolerance(kernels: Sequence[Point]) -> float:
    return round(WORK_TOLERANCE.absolute + _between([point.instructions_per_op for point in kernels]), 3)
