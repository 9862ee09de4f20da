"""Updates a history's database from its studies."""

from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import msgspec

from bigiron import workloads
from bigiron.errors import UserError
from bigiron.history import collect, counting, derive
from bigiron.history.collect import PROBES, PointCells, PointCounts
from bigiron.history.database import History
from bigiron.history.records import (
    ChainRecord,
    FunctionRecord,
    IdentityRecord,
    KernelRecord,
    LineRecord,
    LockRecord,
    PointRecord,
    PredictionRecord,
    Record,
    ReferenceCountRecord,
    RefusalRecord,
    WorkloadRecord,
)
from bigiron.kernels import release_order
from bigiron.study import store
from bigiron.study.spec import Spec
from bigiron.study.store import CellRecord, Study
from bigiron.util.threads import StoppedError, is_stopped

STUDIES = "studies"
_OF_POINT: tuple[type[Record], ...] = (
    LineRecord,
    ChainRecord,
    LockRecord,
    FunctionRecord,
    ReferenceCountRecord,
    PredictionRecord,
)


def name_of(workload: str, fs: str) -> str:
    """The name of a workload on a file system; empty: the machine's own tmpfs.

    >>> name_of("fxmark/DWAL", "ext4")
    'fxmark/DWAL@ext4'
    """
    return f"{workload}@{fs}" if fs else workload


def kernel(history: History, name: str, release: str, version: str, architecture: str, sha256: str) -> int:
    """The number of a kernel. A new one is added, and all kernels are ordered by release again."""
    known = history.find(KernelRecord, name=name)
    if known:
        if known.sha256 != sha256:
            raise UserError(
                f"the history has another image of {name} ({known.release}): "
                "give this one another name (bigiron kernel add --name)"
            )
        return known.id
    new = KernelRecord(
        id=0,
        name=name,
        release=release,
        version=version,
        architecture=architecture,
        sha256=sha256,
        position=0,
    )
    number = history.add(new)
    ordered = sorted(history.select(KernelRecord), key=lambda one: (release_order(one.release), one.name))
    for position, one in enumerate(ordered):
        history.update(KernelRecord, one.id, position=position)
    return number


def workload(history: History, spec: Spec) -> WorkloadRecord:
    """The row of a study's workload. A new one is added."""
    name = name_of(spec.workload, spec.fs)
    if known := history.find(WorkloadRecord, name=name):
        return known
    described = {one.name: one.description for one in workloads.builtin()}
    history.add(
        WorkloadRecord(
            id=0,
            name=name,
            workload=spec.workload,
            fs=spec.fs,
            description=described.get(spec.workload, ""),
            mode=spec.mode,
            operations=spec.operations,
        )
    )
    found = history.find(WorkloadRecord, name=name)
    assert found
    return found


def studies(folder: Path) -> list[Path]:
    """The folders of a history's studies."""
    return sorted(path.parent for path in (folder / STUDIES).glob("*/*/study.toml"))


AllCounted = Mapping[tuple[str, ...], PointCounts]
"""The counts of points, by the names of their cells."""


def whole(history: History) -> set[tuple[str, ...]]:
    """The points in the database, by the names of their cells."""
    return {tuple(point.cells) for point in history.select(PointRecord)}


def count(folder: Path, study: Path, known: Collection[tuple[str, ...]]) -> AllCounted:
    """Count the unknown points of a study: the slow part of `update`, which can run in any thread.

    StoppedError if this thread is to stop.
    """
    counted = {}
    for cells in _cells(store.open_study(study), str(study.relative_to(folder))):
        if is_stopped():
            raise StoppedError
        if tuple(cells.names) not in known:
            counted[tuple(cells.names)] = counting.count(cells)
    return counted


def update(history: History, folder: Path, study: Path, counted: AllCounted) -> None:
    """Write the points of a study that the database lacks, and what follows from them.

    Points that are not in `counted` are counted here.
    """
    opened = store.open_study(study)
    with history.writing():
        of = workload(history, opened.spec)
        changed = [
            _point(history, of, cells, counted) for cells in _cells(opened, str(study.relative_to(folder)))
        ]
        _refusals(history, of, opened)
        if any(changed):
            derive.derive(history, of.id)


def refuse(history: History, spec: Spec, why: Mapping[str, str]) -> None:
    """Write why kernels, by name, cannot run a workload with any number of CPUs.

    Removes such refusals of the spec's other kernels.
    """
    if not why and not history.find(WorkloadRecord, name=name_of(spec.workload, spec.fs)):
        return
    asked = {variant.name for variant in spec.variant}
    with history.writing():
        of = workload(history, spec)
        for known in history.select(KernelRecord):
            if known.name not in asked:
                continue
            place = {"workload": of.id, "kernel": known.id, "cpus": 0}
            history.remove(RefusalRecord, **place)
            if known.name in why:
                history.add(RefusalRecord(**place, kind="input", reason=why[known.name]))


def _cells(study: Study, folder: str) -> Iterator[PointCells]:
    """The measured cells of each point: those with the same kernel, CPUs, tasks and setup."""

    def place(record: CellRecord) -> tuple[object, ...]:
        identity = msgspec.structs.astuple(collect.identity(study, record))
        return record.variant, record.cpus, record.tasks, identity

    measured = [one for one in study.records() if one.measured and set(PROBES) <= set(one.tables)]
    for _, records in groupby(sorted(measured, key=place), place):
        yield PointCells(study, folder, list(records))


def _point(history: History, of: WorkloadRecord, cells: PointCells, counted: AllCounted) -> bool:
    """Write a point, unless the database has it with the same cells."""
    record = cells.records[0]
    number = _kernel_of(history, cells.study, record)
    for point in history.select(PointRecord, workload=of.id, kernel=number, cpus=record.cpus):
        if point.cells == cells.names:
            return False
        if set(point.cells) < set(cells.names):
            _remove(history, point)
    identity = _identity(history, collect.identity(cells.study, record))
    count = counted.get(tuple(cells.names)) or collect.count(cells)
    collect.add_point(history, cells, count, of, number, identity)
    return True


def _kernel_of(history: History, study: Study, record: CellRecord) -> int:
    known = collect.setup_of(study, record)
    return kernel(
        history,
        record.variant,
        known.kernel_release,
        known.kernel_version,
        known.arch,
        known.kernel_sha256,
    )


def _remove(history: History, point: PointRecord) -> None:
    for kind in _OF_POINT:
        history.remove(kind, point=point.id)
    history.remove(PointRecord, id=point.id)


def _identity(history: History, identity: IdentityRecord) -> int:
    """The number of a setup. A new one is added."""
    values = {name: value for name, value in msgspec.structs.asdict(identity).items() if name != "id"}
    known = history.find(IdentityRecord, **values)
    return known.id if known else history.add(identity)


def _refusals(history: History, of: WorkloadRecord, study: Study) -> None:
    """Write which cells of a study failed, unless a newer measurement exists."""
    for record in study.records():
        known = history.find(KernelRecord, name=record.variant)
        if not known and "kernel_release" not in record.environment:
            continue  # it failed before its kernel was identified
        number = known.id if known else _kernel_of(history, study, record)
        place = {"workload": of.id, "kernel": number, "cpus": record.cpus}
        newest = max((point.measured for point in history.select(PointRecord, **place)), default="")
        if record.failure and record.started > newest:
            history.remove(RefusalRecord, **place)
            history.add(RefusalRecord(**place, kind=record.failure.kind, reason=record.failure.reason))
        elif record.measured:
            history.remove(RefusalRecord, **place)
