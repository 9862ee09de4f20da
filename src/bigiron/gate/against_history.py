"""What a kernel is compared with in a history: the counts of the kernel before it, and how much they vary.

A count varies by the larger of two amounts: the range of its repetitions on any kernel, and the median
difference between consecutive kernels. It is the lower median, because a release that changes a count does
not entitle the next release to do so. With two kernels there is one difference, which may be such a change,
so it is not used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

import msgspec

from bigiron.analysis.comparison.repeatable_counts import ReferenceValue, RepeatableCount
from bigiron.errors import UserError
from bigiron.gate.check_lines import BaselineFunction, BaselinePoint
from bigiron.history import collect, points, records
from bigiron.history.database import History
from bigiron.history.records import (
    IdentityRecord,
    KernelRecord,
    PointRecord,
    ReferenceCountRecord,
    WorkloadRecord,
)
from bigiron.kernels import release_order
from bigiron.study.store import CellRecord, Study

_FEWEST = 2  # differences between consecutive kernels


@dataclass(frozen=True)
class Predecessor:
    """The kernel before the study's, at one point."""

    place: str
    """The point in words."""
    counts: Sequence[ReferenceValue]
    functions: Sequence[BaselineFunction]
    """Instructions per operation of each function, to show where a newer kernel executes more."""


def predecessor(history: History, study: Study, record: CellRecord) -> Predecessor | None:
    """What one point of a study is compared with; None if the history only has newer kernels.

    UserError if the history has nothing to compare with.
    """
    name = points.name_of(study.spec.workload, study.spec.fs)
    place = f"{name} at {record.cpus} CPUs and {record.tasks} tasks"
    workload = history.find(WorkloadRecord, name=name)
    there = history.select(
        PointRecord, workload=workload.id if workload else 0, cpus=record.cpus, tasks=record.tasks, current=1
    )
    if not there:
        raise UserError(
            f"{history.path} has no counts of {place}: "
            f"run `bigiron history add KERNEL --workloads {name} --cpus {record.cpus}` to measure them"
        )
    ordered = _older_points(history, _same_setup(history, there, study, record, place), study, record)
    if not ordered:
        return None
    newest = ordered[-1]
    names = {kernel.id: kernel.name for kernel in history.select(KernelRecord)}
    held = {names[point.kernel]: history.select(ReferenceCountRecord, point=point.id) for point in ordered}
    if lacking := next((kernel for kernel, counts in held.items() if not counts), None):
        raise UserError(
            f"{history.path} is not up to date for {place} on {lacking}: "
            f"run `bigiron history add {lacking}` to update it"
        )
    return Predecessor(
        BaselinePoint(variant=names[newest.kernel], cpus=newest.cpus, tasks=newest.tasks).place,
        _known(list(held.values())),
        [
            BaselineFunction(function=one.function, instructions=one.self_per_op)
            for one in history.select(records.FunctionRecord, point=newest.id)
        ],
    )


def _same_setup(
    history: History, there: Sequence[PointRecord], study: Study, record: CellRecord, place: str
) -> list[PointRecord]:
    """The points that were measured with the same recorder, QEMU and machine as the study."""
    known = {identity.id: identity for identity in history.select(IdentityRecord)}
    mine = collect.identity(study, record)
    comparable = [point for point in there if _same(known[point.identity], mine)]
    if not comparable:
        was, now = next(iter(_differences(known[there[-1].identity], mine)))
        raise UserError(
            f"{history.path} has {place} with {was}, the study has {now}: such counts are not comparable; "
            f"measure the study as the history was measured ({there[-1].command}), or the history again"
        )
    return comparable


def _same(one: IdentityRecord, other: IdentityRecord) -> bool:
    return not list(_differences(one, other))


def _differences(one: IdentityRecord, other: IdentityRecord) -> Iterable[tuple[str, str]]:
    for name, was in msgspec.structs.asdict(one).items():
        if name != "id" and was != getattr(other, name):
            yield f"{name} {was}", f"{name} {getattr(other, name)}"


def _older_points(
    history: History, comparable: Sequence[PointRecord], study: Study, record: CellRecord
) -> list[PointRecord]:
    """The points of other kernels that are not newer, oldest first; if none, those of this image."""
    kernels = {kernel.id: kernel for kernel in history.select(KernelRecord)}
    mine = collect.setup_of(study, record)
    others = [point for point in comparable if kernels[point.kernel].sha256 != mine.kernel_sha256] or list(
        comparable
    )
    others.sort(key=lambda point: kernels[point.kernel].position)
    release = release_order(mine.kernel_release)
    return [point for point in others if release_order(kernels[point.kernel].release) <= release]


def _known(kernels: Sequence[Sequence[ReferenceCountRecord]]) -> list[ReferenceValue]:
    """The counts of the newest kernel, and how much each varies."""
    of_name: dict[tuple[str, str, str], list[ReferenceCountRecord | None]] = {}
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


def _key(one: ReferenceCountRecord) -> tuple[str, str, str]:
    return one.what, one.name, one.unit


def _spread(kernels: Sequence[ReferenceCountRecord | None]) -> float:
    """How much a count varies."""
    repetitions = [one.most - one.least for one in kernels if one]
    return max(*repetitions, _between([one.per_op if one else 0.0 for one in kernels]))


def _between(counts: Sequence[float]) -> float:
    """The lower median of the differences between consecutive kernels.

    >>> _between([6.0, 6.0, 2.0, 2.0]), _between([0.9, 1.2, 0.8]), _between([6.0, 2.0])
    (0.0, 0.3, 0.0)
    """
    differences = [round(abs(after - before), 6) for before, after in pairwise(counts)]
    return median_low(differences) if len(differences) >= _FEWEST else 0.0
