"""A study on disk (docs/reference/study-toml.md): study.toml, and a folder for every cell measured so far.

Invariant: a folder in cells/ under its final name is complete. It is made under a temporary name, then
renamed, and never changed. A failed cell is replaced, and one that lacks probes by one that has more.
"""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

import bigiron
from bigiron import probes
from bigiron.errors import UserError
from bigiron.probes import ProbeTable
from bigiron.simulator import machine_files
from bigiron.study import extend
from bigiron.study import spec as study_spec
from bigiron.study.measured import TABLE as PROFILE
from bigiron.study.plan import Cell, cells
from bigiron.study.resolve import not_recorded
from bigiron.study.spec import FORMAT, MOST_CPUS, Spec
from bigiron.util import decode, sanitize
from bigiron.util.cache_dir import STAGING, locked, write_whole
from bigiron.util.english import join_and
from bigiron.util.lazy import polars as pl
from bigiron.workloads import Workload

_NEW = "cell"  # no cell has this name
_FILES = ("study.toml", "workload.c", "machine.toml")
_OURS = {".lock", "cells", *_FILES, *(f".{name}" for name in _FILES)}


class TableFile(msgspec.Struct, frozen=True):
    """A probe's table, a file in the cell's folder."""

    file: str
    sha256: str


class Failure(msgspec.Struct, frozen=True):
    """Why a cell failed: `input` is an error of the user, `machine` one of the machine under test."""

    kind: Literal["input", "machine"]
    reason: str
    console: str = ""
    kernel_crashed: bool = False


class CellRecord(msgspec.Struct, kw_only=True):
    """cell.json: everything that produced a cell, and its outcome."""

    format: int = FORMAT
    id: str
    variant: str
    machine: str
    cpus: int
    tasks: int
    repetition: int
    change: str = ""  # of the machine's shape; empty: none
    environment: dict[str, Any]
    started: str = ""  # UTC, ISO 8601
    seconds: float = 0.0
    seconds_to_agent: float = 0.0
    recorded_ns: int = 0  # duration of the recording by the machine's clock
    times: dict[str, float] = {}  # seconds of each stage
    facts: dict[str, Any] = {}  # of each probe
    lost: dict[str, int] = {}  # counts that the tables lack, by kind and reason
    tables: dict[str, TableFile] = {}
    failure: Failure | None = None

    @property
    def measured(self) -> bool:
        """Whether it has results."""
        return self.failure is None

    def operations(self, probe: str) -> float:
        """The operations of all tasks while the probe recorded; 0 if the probe does not count them."""
        recorded: list[float] = self.facts.get(probe, {}).get("operations", [])
        return sum(recorded)

    @property
    def clock_slower(self) -> int:
        """How many times slower the machine's clock was than the host's clock."""
        slower = self.environment.get("clock_slower", 1)
        return slower if isinstance(slower, int) else 1


MeasuredCells: TypeAlias = dict[tuple[int, int | None], dict[str, list[CellRecord]]]
"""By CPUs and tasks (None: unknown), then by variant, one of each repetition."""


@dataclass(frozen=True)
class Collected:
    """The results of a cell: a table of each probe, other files, and the counts that were lost."""

    tables: Mapping[str, ProbeTable]
    files: Mapping[str, bytes] = dataclass_field(default_factory=dict)
    lost: Mapping[str, int] = dataclass_field(default_factory=dict)
    seconds: float = 0.0
    seconds_to_agent: float = 0.0
    recorded_ns: int = 0
    clock_slower: int = 1  # how many times slower than the host's clock
    environment: Mapping[str, object] = dataclass_field(default_factory=dict)  # as the machine reported it


def new_record(cell: Cell, machine: str, environment: Mapping[str, Any] | None = None) -> CellRecord:
    """The record of a cell that starts now: its identity, and what is known of its environment."""
    return CellRecord(
        id=cell.id,
        variant=cell.variant.name,
        machine=machine,
        cpus=cell.cpus,
        tasks=cell.tasks,
        repetition=cell.repetition,
        change=cell.change,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        environment={"bigiron": bigiron.__version__, **(environment or {})},
    )


class Study:
    """A study in a folder, made by `create` or opened by `open_study`."""

    def __init__(self, folder: Path, spec: Spec) -> None:
        self.folder = folder
        self.spec = spec

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def time(self) -> str:
        """The kind of its times: an emulator's or a simulator's time is never shown as a real machine's."""
        return self.spec.engine.time

    def base(self, name: str | None) -> str:
        """The variant that the others are compared with: the named one, else the first."""
        variants = [variant.name for variant in self.spec.variant]
        if name is not None and name not in variants:
            raise UserError(f"{self.name} has no variant {name!r}: it has {', '.join(variants)}")
        return name or variants[0]

    def plan(self) -> list[Cell]:
        """All requested cells; in an imported study, all imported cells."""
        asked = cells(self.spec)
        if not self.spec.engine.is_imported:
            return asked
        return [cell for cell in asked if (self._cells / cell.id).is_dir()]

    def record(self, cell: Cell) -> CellRecord | None:
        """The record of a cell; None if it was never tried. UserError if its folder is damaged."""
        record = self._known(cell.id)
        if record and _place(record) != (
            cell.variant.name,
            cell.cpus,
            cell.tasks,
            cell.repetition,
            cell.change,
        ):
            raise _damaged(self._cells / cell.id, "cell.json belongs to another cell")
        return record

    def _known(self, cell_id: str) -> CellRecord | None:
        folder = self._cells / cell_id
        if not folder.is_dir():
            return None
        try:
            document = msgspec.json.decode((folder / "cell.json").read_bytes())
            record = decode.convert(sanitize.everywhere(document), CellRecord)
        except (OSError, msgspec.DecodeError) as error:
            raise _damaged(folder, f"cell.json: {error}") from None
        if record.format != FORMAT:
            raise UserError(f"{folder} has format {record.format}, but this bigiron reads {FORMAT}")
        if record.id != cell_id:
            raise _damaged(folder, f"cell.json belongs to cell {record.id}")
        return record

    def records(self, change: str = "") -> list[CellRecord]:
        """The records of all tried cells with a change of shape, in the plan's order."""
        cells = (cell for cell in self.plan() if cell.change == change)
        return [record for cell in cells if (record := self.record(cell))]

    def all_records(self) -> list[CellRecord]:
        """The records of all tried cells, with any change of shape."""
        return [record for cell in self.plan() if (record := self.record(cell))]

    def is_measured(self, cell: Cell) -> bool:
        """Whether a cell has been measured with all probes, which may have been added to the study later."""
        record = self.record(cell)
        return bool(record and record.measured and not self._lacks(record))

    def measured_again(self) -> int:
        """How many measured cells lack a probe that was added later."""
        return sum(record.measured and bool(self._lacks(record)) for record in self.all_records())

    def _lacks(self, record: CellRecord) -> list[str]:
        return [one.name for one in probes.named(self.spec.probes) if one.name not in record.tables]

    def recording(self, *names: str) -> str:
        """The command that records these probes, or why they cannot be recorded."""
        if self.spec.probes == [PROFILE]:
            return f"it has only a profile: see `bigiron compare STUDY --with {self.folder}`"
        if self.spec.engine.is_model or self.spec.engine.is_imported:
            return f"its cells {'are simulated' if self.spec.engine.is_model else 'were measured elsewhere'}"
        added = [name for name in names if name not in self.spec.probes]
        for probe in probes.named(added):
            if why := not_recorded(probe, self.spec.arch):
                return why
        command = f"bigiron run {shlex.quote(str(self.folder))}"
        if not added:
            return f"run `{command}` to continue it"
        them = "it" if len(added) == 1 else "them"
        return f"run `{command} --probe {','.join(added)}` to measure its cells again with {them}"

    def measured(self, probe: str) -> MeasuredCells:
        """The measured cells with a probe, by CPUs and tasks, then by variant. UserError if there is none."""
        if not (found := self.measured_with("", probe)):
            why = "see `bigiron show`" if probe in self.spec.probes else self.recording(probe)
            raise UserError(f"{self.folder} has no measured cell with the probe {probe}: {why}")
        return found

    def measured_with(self, change: str, probe: str) -> MeasuredCells:
        """Like `measured`, on machines with this change of shape; empty if there are none."""
        measured = [record for record in self.records(change) if record.measured and probe in record.tables]
        names = [variant.name for variant in self.spec.variant]
        points: MeasuredCells = {}
        for record in sorted(measured, key=lambda r: (r.cpus, r.tasks, names.index(r.variant))):
            point = points.setdefault((record.cpus, self.spec.known_tasks(record.tasks)), {})
            point.setdefault(record.variant, []).append(record)
        return points

    def operations(self, probe: str) -> float:
        """Recorded operations of each task, or of a program; the largest number if cells differ."""
        facts = (record.facts.get(probe, {}) for record in self.records() if record.measured)
        recorded = (one["operations"] for one in facts if one.get("operations"))
        return max(map(max, recorded), default=self.spec.operations)

    @property
    def operation(self) -> str:
        """What one operation of a program is: `bogo op`; "" for a workload. UserError where cells differ."""
        if not self.spec.runs_program:
            return ""
        facts = (one for record in self.records() if record.measured for one in record.facts.values())
        names = sorted({str(one["operation"]) for one in facts if one.get("operation")})
        if len(names) > 1:  # by versions of bigiron that divide by different things
            raise UserError(f"{self.folder} has counts per {join_and(names)}: measure it again elsewhere")
        return "".join(names)

    @property
    def workload(self) -> str:
        """The workload as titles name it: for a program, with what its counts are divided by.

        `open1`, `stress-ng (per bogo op)`
        """
        per = self.operation
        return f"{self.spec.workload} (per {per})" if per else self.spec.workload

    def table(self, record: CellRecord, probe: str) -> pl.DataFrame:
        """A probe's table in one cell. Verifies its checksum."""
        if probe not in record.tables:
            raise UserError(f"cell {record.id} of {self.folder} has no probe {probe}")
        folder, table = self._cells / record.id, record.tables[probe]
        path = folder / table.file
        try:
            if Path(table.file).name != table.file or path.is_symlink():
                raise _damaged(folder, f"{table.file} is not a file of the cell")
            content = path.read_bytes()
        except OSError as error:
            raise _damaged(folder, f"{table.file}: {error.strerror}") from None
        if hashlib.sha256(content).hexdigest() != table.sha256:
            raise _damaged(folder, f"{table.file} has another checksum than when it was written")
        rows = sanitize.in_table(pl.read_parquet(content))
        if "cpu" in rows and (rows["cpu"] >= MOST_CPUS).any():  # a set of them is as long as the highest
            raise _damaged(folder, f"{table.file} has counts of a CPU that no machine has")
        return rows

    def table_bytes(self, record: CellRecord) -> int:
        """The size of a cell's table files. A missing file counts 0."""
        files = (self._cells / record.id / Path(table.file).name for table in record.tables.values())
        return sum(file.lstat().st_size for file in files if file.exists())

    def tables(self, probe: str) -> pl.DataFrame:
        """A probe's tables of all measured cells in one table, each row with its cell's identity.

        The columns `cell`, `variant`, `cpus`, `tasks` and `repetition` come first (docs/reference/schema.md).
        """
        frames = [
            self.table(record, probe).select(
                pl.lit(record.id).alias("cell"),
                pl.lit(record.variant).alias("variant"),
                pl.lit(record.cpus, pl.UInt32).alias("cpus"),
                pl.lit(self.spec.known_tasks(record.tasks), pl.UInt32).alias("tasks"),
                pl.lit(record.repetition, pl.UInt32).alias("repetition"),
                pl.all(),
            )
            for record in self.records()
            if record.measured and probe in record.tables
        ]
        if not frames:
            how = self.recording(probe)
            raise UserError(f"no cell of {self.folder} was measured with the probe {probe}: {how}")
        return pl.concat(frames)

    def add(
        self, record: CellRecord, tables: Mapping[str, ProbeTable], others: Mapping[str, bytes] | None = None
    ) -> None:
        """Write a cell completely or not at all.

        It replaces a cell that failed or lacks one of its probes.
        """
        final = self._cells / record.id
        if (known := self._known(record.id)) and known.measured:
            if not self._lacks(known):
                raise UserError(f"the cell {final} is already measured, perhaps by another bigiron")
            if record.failure:
                return  # keep the measured cell
        with _naming(self.folder), tempfile.TemporaryDirectory(prefix=STAGING, dir=self._cells) as staging:
            folder = Path(staging) / _NEW
            folder.mkdir()
            for probe, table in tables.items():
                # Not directly to the file: on a full disk Polars does not raise an OSError.
                content = io.BytesIO()
                table.rows.write_parquet(content)
                (folder / f"{probe}.parquet").write_bytes(content.getvalue())
                record.facts[probe] = dict(table.facts)
                record.lost |= {what: count for what, count in table.lost.items() if count}
                digest = hashlib.sha256(content.getvalue()).hexdigest()
                record.tables[probe] = TableFile(f"{probe}.parquet", digest)
            for name, written in (others or {}).items():
                (folder / name).write_bytes(written)
            text = msgspec.json.format(msgspec.json.encode(record), indent=2)
            (folder / "cell.json").write_bytes(text + b"\n")
            for file in folder.iterdir():
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
            if final.exists():
                final.rename(Path(staging) / record.id)
            folder.rename(final)

    def widen(self, spec: Spec) -> None:
        """Extend the question. Existing cells do not change."""
        with _naming(self.folder):
            _write_question(self.folder, spec)
        self.spec = spec

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the study for adding cells. UserError if another bigiron has locked it."""
        with _locked(self.folder):
            now = open_study(self.folder).spec
            if extend.first_difference(now, self.spec):
                raise UserError(
                    f"another bigiron changed study {self.folder} while this one ran: run the command again"
                )
            self.spec = now
            for dead in self._cells.glob(STAGING + "*"):
                if dead.is_symlink():
                    dead.unlink()
                    continue
                self._put_back(dead)
                shutil.rmtree(dead)
            yield

    def _put_back(self, staging: Path) -> None:
        """Restore the old cell if a writer died between the two renames of `add`."""
        for cell in staging.iterdir():
            is_cell = cell.name != _NEW and not cell.is_symlink()
            if is_cell and not (self._cells / cell.name).exists():
                cell.rename(self._cells / cell.name)

    @property
    def _cells(self) -> Path:
        return self.folder / "cells"


def create(folder: Path, spec: Spec, workload: Workload | None) -> Study:
    """Create a study, or open the one in the folder if its question is the same or can be extended.

    A study without measurements may get another question. The folder keeps the file of the workload or of the
    simulated machine. Invariant: study.toml is written last, and makes the folder a study.
    """
    if (folder / "study.toml").exists():
        study = open_study(folder)
        if not extend.first_difference(study.spec, spec):
            return study
    elif folder.exists() and not _is_free(folder):
        raise UserError(f"{folder} exists and is not a study: give another folder with -o")
    with _naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            _write_question(folder, _widened(folder, spec), workload)
    return open_study(folder)


def _is_free(folder: Path) -> bool:
    """Whether it has only files of a study whose creation failed, and no cells, whose question is unknown."""
    return (
        folder.is_dir()
        and _OURS.issuperset(path.name for path in folder.iterdir())
        and not any((folder / "cells").glob("*"))
    )


def _widened(folder: Path, spec: Spec) -> Spec:
    """The extended question of a study. UserError if its measurements belong to another question."""
    if not (folder / "study.toml").exists():
        return spec
    study = open_study(folder)
    known = extend.with_machine(study.spec, spec, folder / "machine.toml")
    difference = extend.first_difference(known, spec)
    if not difference:
        return known
    if not any(record.measured for record in study.records()):
        return spec
    union = extend.union_of(known, spec)
    if not union:
        raise UserError(
            f"study {folder} has another question ({difference}): give another -o, or delete the study"
        )
    return union


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder for writing. UserError if another bigiron has locked it, or its cells are elsewhere."""

    def refuse() -> None:
        raise UserError(f"another bigiron is running study {folder}: wait until it ends")

    if (folder / "cells").is_symlink():
        raise UserError(f"{folder}/cells is a symbolic link: the cells of a study must be in its own folder")
    with locked(folder, refuse):
        yield


def open_study(path: str | Path) -> Study:
    """Open a study for reading.

    >>> study = bigiron.open_study("s")  # doctest: +SKIP
    >>> study.tables("conflicts").group_by("variant").agg(pl.col("writes").sum())  # doctest: +SKIP
    """
    folder = Path(path)
    if not (folder / "study.toml").is_file():
        raise UserError(f"{folder} is not a study: it has no study.toml")
    return Study(folder, study_spec.read(folder / "study.toml"))


def _write_question(folder: Path, spec: Spec, workload: Workload | None = None) -> None:
    """Write study.toml and the files that it needs. Each file is written completely or not at all."""
    (folder / "cells").mkdir(exist_ok=True)
    if workload:
        write_whole(folder / "workload.c", workload.source.read_bytes())
    if machine := spec.simulation.machine if spec.engine.is_model else spec.like:
        write_whole(folder / "machine.toml", machine_files.text(machine).encode())
    write_whole(folder / "study.toml", study_spec.to_toml(spec))


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Add the folder to an OSError that names no file, such as the one of a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(folder)
        raise


def _place(record: CellRecord) -> tuple[str, int, int, int, str]:
    return record.variant, record.cpus, record.tasks, record.repetition, record.change


def _damaged(folder: Path, why: str) -> UserError:
    return UserError(f"the cell {folder} is damaged ({why}): delete that folder and run the study again")
