"""A study on disk (docs/study.md): study.toml, and a folder for every cell measured so far.

Invariant: a folder in cells/ under its final name is whole. It is made under a temporary name and renamed,
and nothing in it changes afterwards; a failed cell is replaced by its next try, and one that lacks a probe
by one that has it.
"""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

import bigiron
from bigiron import probes
from bigiron.errors import UserError
from bigiron.machines.vm import cgroup
from bigiron.probes import Table
from bigiron.simulator import machine_files
from bigiron.study import extend
from bigiron.study import spec as study_spec
from bigiron.study.plan import Cell, cells
from bigiron.study.spec import FORMAT, Spec
from bigiron.util import decode, sanitize
from bigiron.util.cache_dir import STAGING, locked
from bigiron.util.english import first_n
from bigiron.util.lazy import polars as pl
from bigiron.workloads import Workload

_NEW = "cell"  # no cell is called so
_FILES = ("study.toml", "workload.c", "machine.toml")
_OURS = {".lock", "cells", *_FILES, *(f".{name}" for name in _FILES)}


class TableFile(msgspec.Struct, frozen=True):
    """A probe's table as a file of the cell's folder."""

    file: str
    sha256: str


class Failure(msgspec.Struct, frozen=True):
    """Why a cell failed. kind: `input` for what the user gave, `machine` for the machine under test."""

    kind: Literal["input", "machine"]
    reason: str
    console: str = ""
    kernel_crashed: bool = False


class CellRecord(msgspec.Struct, kw_only=True):
    """cell.json: everything that produced a cell, and what came of it."""

    format: int = FORMAT
    id: str
    variant: str
    machine: str
    cpus: int
    tasks: int
    repetition: int
    change: str = ""  # of the machine's shape; none: as the study asks
    environment: dict[str, Any]
    started: str = ""  # UTC, ISO 8601
    seconds: float = 0.0
    seconds_to_agent: float = 0.0
    recorded_ns: int = 0  # that the recording took by the machine's clock
    times: dict[str, float] = {}  # of its stages, in seconds
    facts: dict[str, Any] = {}  # of each probe
    lost: dict[str, int] = {}  # what should be in the tables and is not, with the reason: how many
    tables: dict[str, TableFile] = {}
    failure: Failure | None = None

    @property
    def measured(self) -> bool:
        """Whether it holds results."""
        return self.failure is None

    @property
    def clock_slower(self) -> int:
        """How many times slower the machine's clock was than the host's, which it followed."""
        slower = self.environment.get("clock_slower", 1)
        return slower if isinstance(slower, int) else 1


def losses(records: Iterable[CellRecord]) -> list[str]:
    """A sentence for each variant and each kind of thing that was lost, over all of its cells.

    >>> cell = dict(id="1", machine="vm", cpus=8, tasks=8, repetition=1, environment={})
    >>> losses([CellRecord(variant="debian/6.1", lost={"samples, for which there was no room": 7}, **cell)])
    ['debian/6.1: 7 lost: samples, for which there was no room']
    """
    lost: Counter[tuple[str, str]] = Counter()
    for record in records:
        for what, count in record.lost.items():
            lost[record.variant, " ".join(what.split())] += count
    return [f"{variant}: {count} lost: {what}" for (variant, what), count in lost.items()]


def why_missing(record: CellRecord | None) -> str:
    """Why a cell has no results, "" where it has."""
    if record and record.failure:
        return f"failed: {record.failure.reason}"
    return "" if record else "not measured yet"


def machine_differences(records: Iterable[CellRecord]) -> str:
    """How the variants' machines differ in what their counts depend on; "" where they do not."""
    known = list(records)
    return "; ".join(filter(None, (clocks(known), controllers(known))))


def controllers(records: Iterable[CellRecord]) -> str:
    """A sentence where some variants' kernels lack a controller of the tasks' control group, else "".

    >>> cell = dict(id="1", machine="vm", cpus=8, tasks=8, repetition=1)
    >>> without = CellRecord(variant="ours", environment={"cgroup_absent": ["cpu"]}, **cell)
    >>> controllers([without, CellRecord(variant="debian/6.1", environment={}, **cell)]).partition(":")[0]
    'ours'
    """
    variants: dict[str, dict[str, None]] = {}
    for record in records:
        variants.setdefault(cgroup.lacking(record.environment), {})[record.variant] = None
    if len(variants) < 2:
        return ""
    return "; ".join(
        f"{first_n(list(names), 3)}: {lacking}" for lacking, names in variants.items() if lacking
    )


def clocks(records: Iterable[CellRecord]) -> str:
    """A sentence where the variants' machines had clocks of different rates, else "".

    >>> cell = dict(id="1", machine="vm", cpus=64, tasks=64, repetition=1)
    >>> slowed = CellRecord(variant="debian/6.1", environment={"clock_slower": 128}, **cell)
    >>> clocks([slowed, CellRecord(variant="ours", environment={}, **cell)])
    "the clock was the host's on ours, 128 times slower on debian/6.1: what lives on time does not compare"
    """
    by_clock = _by_clock((record.variant, record.clock_slower) for record in records)
    rates = {slower: first_n(variants, 3) for slower, variants in by_clock.items()}
    if len(rates) < 2:
        return ""
    return f"the clock was {_rates(rates, 'on')}: what lives on time does not compare"


def clock_step(records: Iterable[CellRecord]) -> str:
    """A sentence where machines of few CPUs had the host's clock, and those of more a slower one; else "".

    >>> cell = dict(id="1", variant="debian/6.1", machine="vm", tasks=1, repetition=1)
    >>> slowed = CellRecord(cpus=32, environment={"clock_slower": 64}, **cell)
    >>> clock_step([CellRecord(cpus=8, environment={}, **cell), slowed]).partition(":")[0]
    "the clock was the host's at 8 CPUs, 64 times slower at 32 CPUs"
    """
    return clock_step_of((record.cpus, record.clock_slower) for record in records)


def clock_step_of(clocks: Iterable[tuple[int, int]]) -> str:
    """The same of numbers of CPUs, and how many times slower than the host's the clock was there."""
    by_clock = _by_clock((str(cpus), slower) for cpus, slower in clocks)
    rates = {slower: f"{first_n(cpus, 8)} CPUs" for slower, cpus in by_clock.items()}
    if len(rates) < 2 or 1 not in rates:
        return ""
    return (
        f"the clock was {_rates(rates, 'at')}: what lives on time, as ticks and RCU do, may have a step "
        "there and no law; with --clock instructions it has none"
    )


def _by_clock(clocks: Iterable[tuple[str, int]]) -> dict[int, list[str]]:
    """What there is of each rate of the clock, of names and how many times slower it was."""
    rates: dict[int, dict[str, None]] = {}
    for name, slower in clocks:
        rates.setdefault(slower, {})[name] = None
    return {slower: list(names) for slower, names in sorted(rates.items())}


def _rates(rates: Mapping[int, str], where: str) -> str:
    return ", ".join(
        (f"{slower} times slower" if slower > 1 else "the host's") + f" {where} {what}"
        for slower, what in rates.items()
    )


@dataclass(frozen=True)
class Collected:
    """What came of a cell: a table of each probe, files that go with them, and what is missing in them."""

    tables: Mapping[str, Table]
    files: Mapping[str, bytes] = dataclass_field(default_factory=dict)
    lost: Mapping[str, int] = dataclass_field(default_factory=dict)
    seconds: float = 0.0
    seconds_to_agent: float = 0.0
    recorded_ns: int = 0
    clock_slower: int = 1  # than the host's, which it followed
    environment: Mapping[str, object] = dataclass_field(default_factory=dict)  # as the machine told


def new_record(cell: Cell, machine: str, environment: Mapping[str, Any] | None = None) -> CellRecord:
    """The record of a cell that begins now: its identity, and what is known of all that produces it."""
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
    """A study in a folder; made by `create`, found again by `open_study`."""

    def __init__(self, folder: Path, spec: Spec) -> None:
        self.folder = folder
        self.spec = spec

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def time(self) -> str:
        """What its times are: never is an emulator's or a simulator's time shown as a real one."""
        return self.spec.engine.time

    def base(self, name: str | None) -> str:
        """The variant that the others are compared with: the one named, else the first."""
        variants = [variant.name for variant in self.spec.variant]
        if name is not None and name not in variants:
            raise UserError(f"{self.name} has no variant {name!r}: it has {', '.join(variants)}")
        return name or variants[0]

    def plan(self) -> list[Cell]:
        """All cells that it asks for; of figures measured elsewhere, those that there are."""
        asked = cells(self.spec)
        if not self.spec.engine.is_imported:
            return asked
        return [cell for cell in asked if (self._cells / cell.id).is_dir()]

    def record(self, cell: Cell) -> CellRecord | None:
        """What is known of a cell; None if it was never tried. UserError if its folder is damaged."""
        return self._known(cell.id)

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
            raise UserError(f"{folder} has format {record.format}, this bigiron reads {FORMAT}")
        if record.id != cell_id:
            raise _damaged(folder, f"cell.json is of cell {record.id}")
        return record

    def records(self, change: str = "") -> list[CellRecord]:
        """What is known of all cells of that shape that were tried, in the plan's order."""
        cells = (cell for cell in self.plan() if cell.change == change)
        return [record for cell in cells if (record := self.record(cell))]

    def all_records(self) -> list[CellRecord]:
        """The same of all shapes."""
        return [record for cell in self.plan() if (record := self.record(cell))]

    def is_measured(self, cell: Cell) -> bool:
        """Whether a cell has been measured with all probes: more can be added to a study."""
        record = self.record(cell)
        return bool(record and record.measured and not self._lacks(record))

    def measured_again(self) -> int:
        """How many of its measured cells lack a probe that was added since."""
        return sum(record.measured and bool(self._lacks(record)) for record in self.all_records())

    def _lacks(self, record: CellRecord) -> list[str]:
        return [one.name for one in probes.named(self.spec.probes) if one.name not in record.tables]

    def recording(self, *names: str) -> str:
        """What to run so that its cells have those probes, or why they cannot have them."""
        if self.spec.engine.is_model or self.spec.engine.is_imported:
            return f"its cells {'are simulated' if self.spec.engine.is_model else 'were measured elsewhere'}"
        added = [name for name in names if name not in self.spec.probes]
        for probe in probes.named(added):
            if why := study_spec.not_recorded(probe, self.spec.arch):
                return why
        command = f"bigiron run {shlex.quote(str(self.folder))}"
        if not added:
            return f"`{command}` goes on with it"
        them = "it" if len(added) == 1 else "them"
        return f"`{command} --probe {','.join(added)}` measures its cells again with {them}"

    def measured(self, probe: str) -> dict[tuple[int, int], dict[str, list[CellRecord]]]:
        """The measured cells that have a probe: by CPUs and tasks, then by variant. UserError for none."""
        if not (found := self.measured_with("", probe)):
            why = "`bigiron show` tells why" if probe in self.spec.probes else self.recording(probe)
            raise UserError(f"{self.folder} has no measured cell with the probe {probe}: {why}")
        return found

    def measured_with(self, change: str, probe: str) -> dict[tuple[int, int], dict[str, list[CellRecord]]]:
        """The same on machines whose shape was changed so; none where there is none."""
        measured = [record for record in self.records(change) if record.measured and probe in record.tables]
        names = [variant.name for variant in self.spec.variant]
        points: dict[tuple[int, int], dict[str, list[CellRecord]]] = {}
        for record in sorted(measured, key=lambda r: (r.cpus, r.tasks, names.index(r.variant))):
            point = points.setdefault((record.cpus, record.tasks), {})
            point.setdefault(record.variant, []).append(record)
        return points

    def operations(self, probe: str) -> int:
        """How many operations each task did while the probe recorded it: where cells differ, the most."""
        told = (record.facts.get(probe, {}).get("operations") for record in self.records() if record.measured)
        return max((max(operations) for operations in told if operations), default=self.spec.operations)

    def table(self, record: CellRecord, probe: str) -> pl.DataFrame:
        """A probe's table in one cell, its checksum verified."""
        if probe not in record.tables:
            raise UserError(f"cell {record.id} of {self.folder} has no probe {probe}")
        folder, table = self._cells / record.id, record.tables[probe]
        path = folder / table.file
        try:
            if Path(table.file).name != table.file or path.is_symlink():
                raise _damaged(folder, f"{table.file} is not a file of its own")
            content = path.read_bytes()
        except OSError as error:
            raise _damaged(folder, f"{table.file}: {error.strerror}") from None
        if hashlib.sha256(content).hexdigest() != table.sha256:
            raise _damaged(folder, f"{table.file} is not what was written")
        return sanitize.in_table(pl.read_parquet(content))

    def table_bytes(self, record: CellRecord) -> int:
        """How large the files of a cell's tables are; 0 for one that is missing."""
        files = (self._cells / record.id / Path(table.file).name for table in record.tables.values())
        return sum(file.lstat().st_size for file in files if file.exists())

    def tables(self, probe: str) -> pl.DataFrame:
        """A probe's tables of all measured cells, one below the other, each row with its cell's identity.

        Adds the columns `cell`, `variant`, `cpus`, `tasks` and `repetition` in front (docs/schema.md).
        """
        frames = [
            self.table(record, probe).select(
                pl.lit(record.id).alias("cell"),
                pl.lit(record.variant).alias("variant"),
                pl.lit(record.cpus, pl.UInt32).alias("cpus"),
                pl.lit(record.tasks, pl.UInt32).alias("tasks"),
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
        self, record: CellRecord, tables: Mapping[str, Table], others: Mapping[str, bytes] | None = None
    ) -> None:
        """Write a cell, whole or not at all. It replaces one that failed, or that lacks a probe it has."""
        final = self._cells / record.id
        if (known := self._known(record.id)) and known.measured:
            if not self._lacks(known):
                raise UserError(f"the cell {final} is measured already: another bigiron may have done so")
            if record.failure:
                return  # it keeps what it has
        with _naming(self.folder), tempfile.TemporaryDirectory(prefix=STAGING, dir=self._cells) as staging:
            folder = Path(staging) / _NEW
            folder.mkdir()
            for probe, table in tables.items():
                # Not straight to the file: what Polars says of a full disk is no OSError.
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
        """Ask more than so far; the cells that there are stay what they are."""
        with _naming(self.folder):
            _write_question(self.folder, spec)
        self.spec = spec

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only one that adds cells; UserError if another bigiron does."""
        with _locked(self.folder):
            now = open_study(self.folder).spec
            if _first_difference(now, self.spec):
                raise UserError(f"the study {self.folder} was asked something else meanwhile: run it again")
            self.spec = now
            for dead in self._cells.glob(STAGING + "*"):
                self._put_back(dead)
                shutil.rmtree(dead)
            yield

    def _put_back(self, staging: Path) -> None:
        """The cell that was to be replaced when a writer died between the two renames of `add`."""
        for cell in staging.iterdir():
            if cell.name != _NEW and not (self._cells / cell.name).exists():
                cell.rename(self._cells / cell.name)

    @property
    def _cells(self) -> Path:
        return self.folder / "cells"


def create(folder: Path, spec: Spec, workload: Workload | None) -> Study:
    """Make the folder of a new study, or find it if it asks the same. What only adds to it widens it.

    One in which nothing was measured yet may be asked something else. It keeps the workload's file, or
    that of the simulated machine. Invariant: it is a study once it has its study.toml, which comes last.
    """
    if (folder / "study.toml").exists():
        study = open_study(folder)
        if not _first_difference(study.spec, spec):
            return study
    elif folder.exists() and not _is_free(folder):
        raise UserError(f"{folder} is there already and is no study: give another folder with -o")
    with _naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            _write_question(folder, _widened(folder, spec), workload)
    return open_study(folder)


def _is_free(folder: Path) -> bool:
    """Whether it has nothing but what a study leaves that never came to be one, as on a full disk.

    Cells without a study.toml answer nobody knows what.
    """
    return (
        folder.is_dir()
        and _OURS.issuperset(path.name for path in folder.iterdir())
        and not any((folder / "cells").glob("*"))
    )


def _widened(folder: Path, spec: Spec) -> Spec:
    """The question for a study to answer from now on; UserError if what it has measured is of another one."""
    if not (folder / "study.toml").exists():
        return spec
    study = open_study(folder)
    difference = _first_difference(study.spec, spec)
    if not difference:
        return study.spec
    if not any(record.measured for record in study.records()):
        return spec
    wider = extend.wider(study.spec, spec)
    if not wider:
        raise UserError(
            f"the study {folder} asks something else ({difference}): give another -o, or delete it"
        )
    return wider


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Be the only one that writes there; UserError if another bigiron does."""

    def refuse() -> None:
        raise UserError(f"another bigiron is running the study {folder}: wait for it")

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
    """What is asked, and what it is asked of: each file whole, or as it was."""
    (folder / "cells").mkdir(exist_ok=True)
    if workload:
        write_whole(folder / "workload.c", workload.source.read_bytes())
    if machine := spec.simulation.machine if spec.engine.is_model else spec.like:
        write_whole(folder / "machine.toml", machine_files.text(machine).encode())
    write_whole(folder / "study.toml", study_spec.to_toml(spec))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that, whatever ends this process, it has all of the content or what it had before."""
    temporary = path.with_name(f".{path.name}")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Make an error name the folder where it names no file, as one of a full disk does not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(folder)
        raise


def _first_difference(one: Spec, other: Spec) -> str:
    asked = study_spec.document(other)
    for key, old in study_spec.document(one).items():
        if old != asked[key] and key == "variant":
            return _first_difference_of_variants(one.variant, other.variant)
        if old != asked[key] and key not in ("workload_file", "look"):
            return f"{key} = {old}, not {asked[key]}"
    return ""


def _first_difference_of_variants(one: list[study_spec.Variant], other: list[study_spec.Variant]) -> str:
    names, others = ([variant.name for variant in variants] for variants in (one, other))
    if names != others:
        return f"variants {', '.join(names)}, not {', '.join(others)}"
    for old, new in zip(one, other, strict=True):
        if old.kernel_sha256 != new.kernel_sha256:
            return f"another image of kernel {old.kernel}"
        if old != new:
            return f"variant {old.name} with boot {old.boot!r} and settings {old.set}"
    return ""


def _damaged(folder: Path, why: str) -> UserError:
    return UserError(f"the cell {folder} is damaged ({why}): delete that folder and run the study again")
