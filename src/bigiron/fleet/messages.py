"""What a controller asks a worker, and what that answers: typed, and checked by who receives it.

Both travel as bytes of MessagePack. What a worker can be asked by these is to measure one cell; Dask itself
can be asked for more (docs/howto/machines/many-machines.md).
"""

from __future__ import annotations

import io
import re
from dataclasses import replace as with_fields
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bigiron import kernels, probes
from bigiron.errors import UserError
from bigiron.fleet import files
from bigiron.fleet.files import HashedFile
from bigiron.kernels import Kernel
from bigiron.machines.engine import Programs
from bigiron.machines.shape_change import CHANGES
from bigiron.probes import ProbeTable
from bigiron.study import resolve, simulated
from bigiron.study import spec as specs
from bigiron.study.plan import Cell
from bigiron.study.spec import Spec
from bigiron.study.store import CellRecord, Collected, Study
from bigiron.util import decode
from bigiron.util.lazy import polars as pl

_TABLE = re.compile(r"[a-z_]{1,60}")
_FILE = re.compile(r"[a-z_]{1,60}\.json")


class KernelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel, and its image as a file."""

    name: str
    release: str
    version: str
    arch: str
    source: str
    image: HashedFile


class Supplies(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The files of a study's cells."""

    agent: HashedFile | None = None
    recorder: HashedFile | None = None
    init: HashedFile | None = None
    bpf: list[HashedFile] = []
    time_slices: bool = False
    fresh_boot: bool = False
    kernels: dict[str, KernelFile] = {}
    """By the names that the variants use."""
    machine: HashedFile | None = None
    """Of a simulation."""

    @property
    def files(self) -> list[HashedFile]:
        """All of them."""
        one = (self.agent, self.recorder, self.init, self.machine, *self.bpf)
        return [file for file in (*one, *(kernel.image for kernel in self.kernels.values())) if file]

    def of(self, kernel: str) -> Supplies:
        """Those of a cell with that kernel."""
        return replace(self, kernels={name: one for name, one in self.kernels.items() if name == kernel})


class WorkerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One cell to measure."""

    question: bytes
    """A study.toml that asks for no other cell."""
    repetition: int
    change: str = ""
    """Of the machine's shape (bigiron.machines.shape_change); none: as asked."""
    supplies: Supplies
    same: dict[str, str | int] = {}
    """What of its environment must be as in the study's other cells."""
    topic: str
    """Under which Dask carries the news of the study."""


class TableBytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A probe's table, its rows as Parquet."""

    rows: bytes
    facts: dict[str, object]
    lost: dict[str, int]


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came of a cell."""

    record: CellRecord
    tables: dict[str, TableBytes]
    files: dict[str, bytes]
    seconds: float
    """The worker's time for the cell, by the monotonic clock."""


def supplies_of(
    study: Study, cells: list[Cell], programs: Programs | None
) -> tuple[Supplies, dict[str, Path]]:
    """What the cells need, and where it is here, by digest."""
    spec, paths = study.spec, dict[str, Path]()

    def file(path: Path | None) -> HashedFile | None:
        if not path:
            return None
        described = files.describe(path)
        paths[described.sha256] = path
        return described

    if not programs:
        # As it was when the study was made: `machine` may be the name of a file that has changed since.
        return Supplies(machine=file(study.folder / "machine.toml") if spec.engine.is_model else None), paths
    images = {}
    for name in dict.fromkeys(cell.variant.kernel for cell in cells):
        kernel = kernels.find(name, spec.arch)
        image = file(kernel.image)
        assert image
        images[name] = KernelFile(
            kernel.name, kernel.release, kernel.version, kernel.arch, kernel.source, image
        )
    supplies = Supplies(
        agent=file(programs.agent),
        recorder=file(programs.recorder),
        bpf=[one for path in programs.bpf if (one := file(path))],
        time_slices=programs.time_slices,
        init=file(programs.init),
        fresh_boot=programs.fresh_boot,
        kernels=images,
    )
    return supplies, paths


def ask(spec: Spec, cell: Cell, supplies: Supplies, same: dict[str, str | int], topic: str) -> bytes:
    """A request for one cell."""
    question = replace(
        spec,
        workload_file="",
        variant=[cell.variant],
        cpus=[cell.cpus],
        tasks="all" if spec.tasks == "all" else [cell.tasks],
        repetitions=1,
        look=[],
    )
    return msgspec.msgpack.encode(
        WorkerRequest(
            question=specs.to_toml(question),
            repetition=cell.repetition,
            change=cell.change,
            supplies=supplies.of(cell.variant.kernel),
            same=same,
            topic=topic,
        )
    )


def read_request(content: bytes) -> WorkerRequest:
    """A controller's request; UserError for what is none."""
    try:
        return decode.from_msgpack(content, WorkerRequest)
    except msgspec.DecodeError as error:
        raise UserError(f"cannot read the controller's request: {error}") from None


def read_question(request: WorkerRequest) -> tuple[Spec, Cell]:
    """What is to be measured; UserError for what a fleet does not measure."""
    spec = specs.from_toml(request.question, "the controller's question")
    refuse_real_machines(spec)
    if not spec.engine.is_model:
        for probe in spec.probes:
            probes.probe(probe)
    resolve.check_numbers(spec)
    resolve.check_options(spec)
    if len(spec.variant) != 1 or len(specs.points(spec)) != 1:
        raise UserError("the controller's question asks for more than one cell")
    if not spec.engine.is_model:
        resolve.check_variant(spec.variant[0])
    if not 1 <= request.repetition <= specs.MOST_REPETITIONS:
        raise UserError(f"there is no repetition {request.repetition}")
    if request.change not in ("", *(change.name for change in CHANGES if spec.check_shape)):
        raise UserError(f"the question's machine has no other shape {request.change!r}")
    (cpus, tasks), *_ = specs.points(spec)
    return spec, Cell(spec.variant[0], cpus, tasks, request.repetition, request.change)


def refuse_real_machines(spec: Spec) -> None:
    """UserError where cells need one certain machine."""
    if spec.fs:
        raise UserError(
            f"fs = {spec.fs!r}: a fleet's workers are given no modules and no disk: leave out --fleet"
        )
    if not (spec.engine.emulated or spec.engine.is_model):
        raise UserError(
            f"a fleet runs only virtual machines and simulations, but the study's machine is {spec.machine}: "
            "leave out --fleet"
        )


def localized(spec: Spec, cell: Cell, supplies: Supplies) -> tuple[Spec, Cell, Programs | None]:
    """The same with the files that lie on this host."""
    if supplies.machine:
        simulation = replace(spec.simulation, machine=str(files.find(supplies.machine)))
        return simulated.resolve(replace(spec, simulation=simulation)), cell, None
    if not supplies.agent:
        raise UserError("the controller sent no agent")
    programs = Programs(
        files.find(supplies.agent),
        files.find(supplies.recorder) if supplies.recorder else None,
        tuple(map(files.find, supplies.bpf)),
        supplies.time_slices,
        files.find(supplies.init) if supplies.init else None,
        supplies.fresh_boot,
    )
    sent = supplies.kernels.get(cell.variant.kernel)
    if not sent or sent.arch != spec.arch or sent.image.sha256 != cell.variant.kernel_sha256:
        raise UserError(f"the controller sent another kernel than {cell.variant.kernel}")
    image = files.find(sent.image)
    kernel = kernels.keep(
        image,
        Kernel(sent.name, sent.release, sent.version, sent.arch, image, sent.image.sha256, sent.source),
    )
    variant = replace(cell.variant, kernel=kernel.name)
    return replace(spec, variant=[variant]), with_fields(cell, variant=variant), programs


def answer(record: CellRecord, collected: Collected, seconds: float) -> bytes:
    """What a worker sends back."""
    tables = {}
    for name, table in collected.tables.items():
        content = io.BytesIO()
        table.rows.write_parquet(content)
        tables[name] = TableBytes(content.getvalue(), dict(table.facts), dict(table.lost))
    return msgspec.msgpack.encode(Reply(record, tables, dict(collected.files), seconds))


def read_reply(content: bytes, cell: Cell) -> tuple[CellRecord, Collected, float]:
    """What a worker measured; UserError for what is no answer, or another cell's."""
    try:
        reply = decode.from_msgpack(content, Reply)
        if reply.record.id != cell.id:
            raise UserError(f"it is for cell {reply.record.id}")
        if not all(map(_TABLE.fullmatch, reply.tables)) or not all(map(_FILE.fullmatch, reply.files)):
            raise UserError(f"unknown tables {', '.join([*reply.tables, *reply.files])}")
        tables = {
            name: ProbeTable(pl.read_parquet(table.rows), table.facts, table.lost)
            for name, table in reply.tables.items()
        }
    except (msgspec.DecodeError, pl.exceptions.PolarsError, UserError) as error:
        raise UserError(f"a worker's answer for {cell} cannot be used: {error}") from None
    return reply.record, Collected(tables, reply.files), reply.seconds
