"""Turns the cells of a study into points of a history: counts per operation as rows of the database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from statistics import fmean
from typing import Any

import msgspec

from bigiron.analysis.comparison import repeatable_counts
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.analysis.lines import conflicts, matching, merging, shared_lines
from bigiron.analysis.lines.matching import SharedLine
from bigiron.analysis.probes import instructions, locks
from bigiron.errors import UserError
from bigiron.history import records
from bigiron.history.database import History
from bigiron.history.records import (
    ChainRecord,
    FunctionRecord,
    IdentityRecord,
    LockRecord,
    PointRecord,
    ReferenceCountRecord,
)
from bigiron.study.store import CellRecord, Study
from bigiron.util import decode
from bigiron.util.object_name import object_type

PROBES = ("conflicts", "locks", "instructions", "trace")
LEAST = 0.01  # accesses per operation that a cache line needs for a row of its own
_LEAST_OF_LINE = 0.01  # of a cache line's accesses that a call chain needs
_MOST_CHAINS = 8
_LEAST_TAKEN, _LEAST_HELD = (
    0.05,
    1.0,
)  # acquisitions, and hold time in instructions, per operation that a lock needs
_LEAST_WORK = 1.0  # instructions per operation that a function needs


@dataclass(frozen=True)
class PointCells:
    """The repetitions of one point, all measured with the same setup."""

    study: Study
    folder: str  # the study's, relative to the history's
    records: Sequence[CellRecord]

    @property
    def names(self) -> list[str]:
        """The folders of the cells, relative to the history's."""
        return [f"{self.folder}/cells/{record.id}" for record in self.records]


class RecordedSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a cell's environment that a history needs."""

    workload_sha256: str
    recorder: str = "unknown"
    qemu: str
    accelerator: str
    time_slice: str
    memory_mib: int
    sockets: int
    nodes: int
    cores: int
    threads: int
    cgroup: str = "none"
    mkfs: str = ""
    kernel_release: str
    kernel_version: str
    kernel_sha256: str
    arch: str


def setup_of(study: Study, record: CellRecord) -> RecordedSetup:
    """The setup of a cell. UserError if its record lacks it, as that of a real machine does."""
    try:
        return decode.convert(record.environment, RecordedSetup)
    except msgspec.ValidationError as error:
        raise UserError(
            f"{study.folder} is not a study of a history ({record.id}: {error}): use another study, or move "
            "this one out of the history's folder"
        ) from None


def identity(study: Study, record: CellRecord) -> IdentityRecord:
    """The setup of a cell, except its kernel."""
    known, file_system = setup_of(study, record), study.spec.file_system
    return IdentityRecord(
        id=0,
        workload_sha256=known.workload_sha256,
        recorder=known.recorder,
        qemu=known.qemu,
        accelerator=known.accelerator,
        architecture=study.spec.arch,
        mode=study.spec.mode,
        operations=study.spec.operations,
        time_slice=known.time_slice,
        clock=_clock(study, record),
        memory_mib=known.memory_mib,
        sockets=known.sockets,
        nodes=known.nodes,
        cores=known.cores,
        threads=known.threads,
        cgroup=known.cgroup,
        fs=f"{file_system}, {known.mkfs}".strip(", ") if file_system else "",
    )


def _clock(study: Study, record: CellRecord) -> str:
    """What the machine's clock followed, and how many times slower it was, if it was slowed down."""
    clock, slower = study.spec.clock or "host", record.clock_slower
    return f"{clock}, {slower} times slower" if slower > 1 else clock


_Sums = tuple[float, float, int]  # accesses, writes, number of lines


@dataclass(frozen=True)
class PointCounts:
    """The counts of a point's cells, which may have a hundred thousand cache lines."""

    lines: Sequence[tuple[tuple[list[SharedLine], list[SharedLine]], _Sums]]  # of each repetition
    instructions: Sequence[Mapping[str, tuple[float, float]]]  # of each
    locks: Sequence[LockRecord]  # with point 0, because the point has no number yet
    reference_counts: Sequence[repeatable_counts.RepeatableCount]


def count(cells: PointCells) -> PointCounts:
    """Count the tables of a point's cells. Does not use the database, so it can run in any thread."""
    return PointCounts(
        _lines(cells),
        [dict(_functions(cells.study, record)) for record in cells.records],
        _locks(cells),
        repeatable_counts.counts([recording(cells.study, record) for record in cells.records]),
    )


def add_point(
    history: History,
    cells: PointCells,
    counted: PointCounts,
    workload: records.WorkloadRecord,
    kernel: int,
    identity: int,
) -> None:
    """Write a point with all of its counts."""
    newest = max(cells.records, key=lambda record: record.started)
    repetitions = [sums for _, sums in counted.lines]
    point = history.add(
        PointRecord(
            id=0,
            workload=workload.id,
            kernel=kernel,
            cpus=newest.cpus,
            tasks=newest.tasks,
            identity=identity,
            current=True,
            repetitions=len(cells.records),
            accesses_per_op=fmean(accesses for accesses, _, _ in repetitions),
            writes_per_op=fmean(writes for _, writes, _ in repetitions),
            shared_lines=round(fmean(number for _, _, number in repetitions)),
            instructions_per_op=fmean(sum(own for own, _ in each.values()) for each in counted.instructions),
            lost=_lost(cells.records),
            measured=newest.started,
            seconds=round(sum(record.seconds for record in cells.records), 3),
            bigiron=str(newest.environment.get("bigiron", "")),
            cells=cells.names,
            command=_command(cells.study, newest),
        )
    )
    for pair in False, True:
        for line in matching.mean([lines[pair] for lines, _ in counted.lines]):
            _add_line(history, point, line, pair)
    for name, (own, inclusive) in _mean(counted.instructions).items():
        if own >= _LEAST_WORK:
            history.add(
                FunctionRecord(
                    point=point, function=name, self_per_op=round(own, 6), total_per_op=round(inclusive, 6)
                )
            )
    for lock in counted.locks:
        history.add(msgspec.structs.replace(lock, point=point))
    add_reference_counts(history, counted.reference_counts, point)


def add_reference_counts(
    history: History, counts: Sequence[repeatable_counts.RepeatableCount], point: int
) -> None:
    """Write the counts that newer kernels are compared with."""
    for count in counts:
        history.add(
            ReferenceCountRecord(
                point=point,
                what=count.what,
                name=count.name,
                unit=count.unit,
                per_op=round(count.mean, 6),
                least=round(min(count.repetitions), 6),
                most=round(max(count.repetitions), 6),
                functions=dict(count.functions),
            )
        )


def recording(study: Study, record: CellRecord) -> repeatable_counts.CellTables:
    """The tables of a cell that are compared with a history."""
    probes = [probe for probe in ("conflicts", "instructions") if probe in record.tables]
    return repeatable_counts.CellTables(
        **{
            probe: study.table(record, probe) if probe in probes else None
            for probe in ("conflicts", "instructions")
        },
        operations=round(record.operations(probes[0])),
        cpus=record.cpus,
        tasks=study.spec.known_tasks(record.tasks) or 0,
    )


def _lines(cells: PointCells) -> list[tuple[tuple[list[SharedLine], list[SharedLine]], _Sums]]:
    """The cache lines, the adjacent pairs and the sums over all lines, of each repetition."""
    found = []
    for record in cells.records:
        cell = ProbedCell(cells.study.table(record, "conflicts"), record.facts["conflicts"])
        lines = shared_lines.lines_in(cell)
        pairs = matching.lines_of(conflicts.pairs(cell.table, cell.operations))
        sums = (
            sum(line.accesses_per_op for line in lines),
            sum(line.writes_per_op for line in lines),
            len(lines),
        )
        found.append(((merging.merge_similar(lines), merging.merge_similar(pairs)), sums))
    return found


def _add_line(history: History, point: int, line: SharedLine, pair: bool) -> None:
    writes = [one.writes for one in line.repetitions]
    accesses = [one.accesses for one in line.repetitions]
    if max(accesses) < LEAST:
        return
    number = history.add(
        records.LineRecord(
            id=0,
            point=point,
            row=0,
            object=line.object,
            kind=object_type(line.object),
            pair=pair,
            accesses_per_op=round(line.accesses_per_op, 6),
            writes_per_op=round(line.writes_per_op, 6),
            least_accesses=round(min(accesses), 6),
            most_accesses=round(max(accesses), 6),
            least_writes=round(min(writes), 6),
            most_writes=round(max(writes), 6),
            writers=line.writers,
            readers=line.readers,
            false_sharing=line.false_sharing,
            sharing=line.sharing,
            functions=_largest(line.weights, line.accesses_per_op),
        )
    )
    for path, accesses_per_op in list(_largest(line.paths, line.accesses_per_op).items())[:_MOST_CHAINS]:
        history.add(ChainRecord(point=point, line=number, path=path, accesses_per_op=accesses_per_op))


def _largest(weights: Mapping[str, float], total: float) -> dict[str, float]:
    """The weights that are large enough, largest first."""
    ordered = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return {name: round(weight, 6) for name, weight in ordered if weight >= _LEAST_OF_LINE * total}


def _functions(study: Study, record: CellRecord) -> Iterator[tuple[str, tuple[float, float]]]:
    """The self and total instructions per operation of each function."""
    profile = instructions.profile(study.table(record, "instructions"), record.operations("instructions"))
    for function, own, total in profile.iter_rows():
        yield function, (own, total)


def _mean(repetitions: Sequence[Mapping[str, tuple[float, float]]]) -> dict[str, tuple[float, float]]:
    names = dict.fromkeys(name for each in repetitions for name in each)
    figures = {name: [each.get(name, (0.0, 0.0)) for each in repetitions] for name in names}
    means = {
        name: (fmean(own for own, _ in each), fmean(all for _, all in each)) for name, each in figures.items()
    }
    return dict(sorted(means.items(), key=lambda item: (-item[1][0], item[0])))


def _locks(cells: PointCells) -> list[LockRecord]:
    """The locks that need a row, longest hold time first: means, and the maximum of what has no mean."""
    profiles = [
        locks.profile(cells.study.table(record, "locks"), record.operations("locks"))
        for record in cells.records
    ]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for profile in profiles:
        for row in profile.iter_rows(named=True):
            found.setdefault((row["lock"], row["taken_by"]), []).append(row)
    rows = [_lock(each, len(profiles)) for each in found.values()]
    rows = [
        lock for lock in rows if lock.acquisitions_per_op >= _LEAST_TAKEN or lock.held_per_op >= _LEAST_HELD
    ]
    return sorted(rows, key=lambda lock: (lock.cpus == 1, -lock.held_per_op, lock.name, lock.taken_by))


def _lock(rows: Sequence[Mapping[str, Any]], repetitions: int) -> LockRecord:
    def mean(column: str) -> float:
        return round(float(sum(row[column] for row in rows)) / repetitions, 6)

    def most(column: str) -> int:
        return int(max(row[column] for row in rows))

    taken_in = dict.fromkeys(function for row in rows for function in row["taken_in"])
    return LockRecord(
        point=0,
        name=rows[0]["lock"],
        taken_by=rows[0]["taken_by"],
        acquisitions_per_op=mean("acquisitions_per_op"),
        held_per_op=mean("held_per_op"),
        longest=most("longest"),
        cpus=most("cpus"),
        locks=most("locks"),
        taken_in=list(taken_in),
    )


def _lost(repetitions: Sequence[CellRecord]) -> dict[str, int]:
    lost: dict[str, int] = {}
    for record in repetitions:
        for what, count in record.lost.items():
            lost[what] = lost.get(what, 0) + count
    return lost


def _command(study: Study, record: CellRecord) -> str:
    """The command that measures such a point again, in a study of its own."""
    spec = study.spec
    kernel = next(variant.kernel for variant in spec.variant if variant.name == record.variant)
    words = ["bigiron run", quote(spec.workload), f"--kernel {quote(kernel)} --cpus {record.cpus}"]
    words += [f"--probe {','.join(spec.probes)}"]
    if spec.operations != 500:
        words.append(f"--operations {spec.operations}")
    if spec.arch != "x86_64":
        words.append(f"--arch {spec.arch}")
    if spec.fs:
        words.append(f"--fs {spec.fs}")
    if spec.clock != "host":
        words.append(f"--clock {spec.clock}")
    return " ".join([*words, "-o s"])
