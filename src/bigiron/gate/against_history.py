"""What a history allows a newer kernel: the counts of the one before it, and by how much counts vary anyway.

A line varies by as much as it does between the repetitions of any kernel, or between kernels that follow each
other, whichever is more: of these differences the median, the lower one of two, as a release that changes a
line is no reason to let the next one do so. Two kernels alone differ once, which may be such a change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

import msgspec

from bigiron.errors import UserError
from bigiron.gate.check_lines import Function
from bigiron.gate.check_lines import Point as Baseline
from bigiron.gate.repeatable_counts import ReferenceValue, RepeatableCount
from bigiron.history import collect, points, records
from bigiron.history.database import History
from bigiron.history.records import Identity, Kernel, Point, ReferenceCount, Workload
from bigiron.kernels import release_order
from bigiron.study.store import CellRecord, Study

_FEWEST = 2  # differences between kernels that follow each other


@dataclass(frozen=True)
class Predecessor:
    """The kernel before a study's, at one point."""

    place: str
    """Where it was measured, in words."""
    counts: Sequence[ReferenceValue]
    functions: Sequence[Function]
    """What each executes, to tell where there is more."""


def predecessor(history: History, study: Study, record: CellRecord) -> Predecessor | None:
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
    ordered = _older_points(history, _same_setup(history, there, study, record, place), study, record)
    if not ordered:
        return None
    newest = ordered[-1]
    names = {kernel.id: kernel.name for kernel in history.select(Kernel)}
    held = {names[point.kernel]: history.select(ReferenceCount, point=point.id) for point in ordered}
    if lacking := next((kernel for kernel, counts in held.items() if not counts), None):
        raise UserError(
            f"{history.path} has not been brought up to date for {place} on {lacking}: "
            f"`bigiron history add {lacking}` goes on with it"
        )
    return Predecessor(
        Baseline(variant=names[newest.kernel], cpus=newest.cpus, tasks=newest.tasks).place,
        _known(list(held.values())),
        [
            Function(function=one.function, instructions=one.self_per_op)
            for one in history.select(records.Function, point=newest.id)
        ],
    )


def _same_setup(
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


def _older_points(history: History, alike: Sequence[Point], study: Study, record: CellRecord) -> list[Point]:
    """The points of other kernels that are no newer, oldest first; of the same image where it is alone."""
    kernels = {kernel.id: kernel for kernel in history.select(Kernel)}
    mine = collect.setup_of(study, record)
    others = [point for point in alike if kernels[point.kernel].sha256 != mine.kernel_sha256] or list(alike)
    others.sort(key=lambda point: kernels[point.kernel].position)
    release = release_order(mine.kernel_release)
    return [point for point in others if release_order(kernels[point.kernel].release) <= release]


def _known(kernels: Sequence[Sequence[ReferenceCount]]) -> list[ReferenceValue]:
    """The newest kernel's counts, with by how much each varies."""
    of_name: dict[tuple[str, str, str], list[ReferenceCount | None]] = {}
    for number, counts in enumerate(kernels):
        for one in counts:
            of_name.setdefault(_key(one), [None] * len(kernels))[number] = one
    return [
        ReferenceValue(
            RepeatableCount(
                one.what, one.name, one.unit, (one.least, one.most), tuple(one.functions.items())
            ),
            one.per_op,
            round(_spread(of_name[_key(one)]), 6),
        )
        for one in kernels[-1]
    ]


def _key(one: ReferenceCount) -> tuple[str, str, str]:
    return one.what, one.name, one.unit


def _spread(kernels: Sequence[ReferenceCount | None]) -> float:
    """By how much a count varies."""
    repetitions = [one.most - one.least for one in kernels if one]
    return max(*repetitions, _between([one.per_op if one else 0.0 for one in kernels]))


def _between(counts: Sequence[float]) -> float:
    """The median of what counts of kernels that follow each other differ by.

    >>> _between([6.0, 6.0, 2.0, 2.0]), _between([0.9, 1.2, 0.8]), _between([6.0, 2.0])
    (0.0, 0.3, 0.0)
    """
    differences = [round(abs(after - before), 6) for before, after in pairwise(counts)]
    return median_low(differences) if len(differences) >= _FEWEST else 0.0
