"""Importing results of other tools as cells of a study (docs/howto/machines/real-machine.md)."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bigiron.errors import UserError
from bigiron.probes import AllProbeOptions, ProbeTable, metrics
from bigiron.probes.metrics import MetricsOptions
from bigiron.readers import Figure, Format, Reading, table
from bigiron.readers.folder import Folder, read_text
from bigiron.study import measured, store
from bigiron.study.engines import IMPORTED
from bigiron.study.extend import extended
from bigiron.study.plan import Cell
from bigiron.study.resolve import check_names, check_variant_name
from bigiron.study.spec import Spec, Variant, check_size
from bigiron.study.store import CellRecord, Study


@dataclass(frozen=True)
class ImportedSource:
    """A file or folder that was read."""

    format: Format
    name: str
    sha256: str
    reading: Reading


def read(format: Format, path: Path) -> ImportedSource:
    """The results in a file or folder. UserError names the line that is wrong."""
    try:
        if format.read_folder:
            folder = Folder(path)
            reading = format.read_folder(folder)
            return ImportedSource(format, path.resolve().name, folder.sha256, reading)
        assert format.read_text
        text = read_text(path)
        return ImportedSource(
            format, path.name, hashlib.sha256(text.encode()).hexdigest(), format.read_text(text)
        )
    except UserError as error:
        between = "," if str(error).startswith("line ") else ":"
        raise UserError(f"{path}{between} {error}") from None


def add(
    source: ImportedSource,
    output: Path,
    *,
    variant: str | None,
    workload: str | None,
    cpus: int | None,
    tasks: int | None,
) -> tuple[Study, list[Cell]]:
    """Add the results to a study, which is created if it does not exist; returns the study and its new cells.

    A variant that already has cells gets more repetitions, but a study has one profile at most. Facts that
    the source lacks must be given.
    """
    cells = _by_cell(source, tasks)
    kept_as = measured.TABLE if source.reading.measured else metrics.PROBE.name
    before = store.open_study(output) if (output / "study.toml").exists() else None
    asked = Spec(
        machine=IMPORTED,
        workload=workload or source.reading.workload or _workload(source),
        options=AllProbeOptions(MetricsOptions(metric=source.format.name)),
        probes=[kept_as],
        cpus=[cpus or source.reading.cpus or _cpus(before) or max(count for count, _run in cells)],
        tasks=sorted({count for count, _run in cells}),
        repetitions=max(run for _tasks, run in cells),
        variant=[Variant(name=check_variant_name(variant or _variant(source)))],
    )
    check_size(asked)
    if before:
        _check_fits(before, asked, source)
    else:
        store.create(output, asked, None)
    study = store.open_study(output)
    given = "given" if cpus else "the file" if source.reading.cpus else "as many as the most tasks"
    with study.writing():
        there = {cell.id for cell in study.plan() if study.record(cell)}
        placed = _placed(study, asked, source, cells)
        added = {place: cell for place, cell in placed.items() if cell.id not in there}
        if not added:
            raise UserError(
                f"{source.name} was already imported into {study.name} as {asked.variant[0].name}"
            )
        if there and source.reading.measured:
            raise UserError(
                f"{study.folder} has a profile, which is all it can have: give another folder with -o"
            )
        # Widen study.toml first: then an interrupted import leaves missing cells, which can be added later.
        repetitions = max(cell.repetition for cell in added.values())
        spec = extended(study.spec, msgspec.structs.replace(asked, repetitions=repetitions))
        check_size(spec)
        study.widen(msgspec.structs.replace(spec, cpus=sorted(spec.cpus), tasks=sorted(spec.tasks)))
        for place, cell in added.items():
            if not study.record(cell):
                record = _record(cell, asked, source, place[1], given)
                study.add(record, {kept_as: cells[place]})
    return study, list(added.values())


def _by_cell(source: ImportedSource, tasks: int | None) -> dict[tuple[int, int], ProbeTable]:
    """The results of each number of tasks and run."""
    if source.reading.measured:
        if tasks is None:
            raise UserError(f"{source.name} does not record the number of tasks: give --tasks N")
        return {(tasks, 1): measured.table(source.reading.measured)}
    figures: dict[tuple[int, int], list[Figure]] = defaultdict(list)
    for figure in source.reading.figures:
        if figure.tasks is None and tasks is None:
            raise UserError(f"{source.name} does not record the number of tasks: give --tasks N")
        figures[figure.tasks or tasks or 0, figure.run].append(figure)
    if not figures:
        raise UserError(
            f"{source.name} has no results of {source.format.name}: is it {source.format.description}?"
        )
    try:
        table(source.reading.figures)
        return {cell: ProbeTable(table(some)) for cell, some in sorted(figures.items())}
    except UserError as error:
        raise UserError(f"{source.name}: {error}") from None


def _check_fits(study: Study, asked: Spec, source: ImportedSource) -> None:
    """UserError if the results do not fit into that study."""
    spec = study.spec
    if not spec.engine.is_imported:
        raise UserError(f"{study.folder} was measured by bigiron: give another folder with -o")
    for what, old, new in (
        ("format", spec.options[MetricsOptions].metric, asked.options[MetricsOptions].metric),
        ("workload", spec.workload, asked.workload),
    ):
        if old != new:
            raise UserError(
                f"{study.folder} has results of {what} {old}, these are of {new}: give another folder with -o"
                + (f", or --workload {old}" if what == "workload" else "")
            )
    check_names(extended(spec, asked))
    if not study.records() or source.reading.measured:
        return
    units = dict(study.tables(metrics.PROBE.name).select("metric", "unit").unique().rows())
    for figure in source.reading.figures:
        if units.get(figure.metric, figure.unit) != figure.unit:
            raise UserError(
                f"{source.name}: {figure.metric} has the unit {figure.unit!r}, but in {study.folder} "
                f"the unit {units[figure.metric]!r}"
            )


def _placed(
    study: Study, asked: Spec, source: ImportedSource, places: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], Cell]:
    """The cell of each number of tasks and run: the one that already has it, or the next repetition."""
    (variant,), (cpus,) = asked.variant, asked.cpus
    placed: dict[tuple[int, int], Cell] = {}
    for tasks, run in places:
        repetition = 1
        while (cell := Cell(variant, cpus, tasks, repetition)) in placed.values() or (
            (known := study.record(cell))
            and (known.environment["sha256"], known.environment["run"]) != (source.sha256, run)
        ):
            repetition += 1
        placed[tasks, run] = cell
    return placed


def _record(cell: Cell, asked: Spec, source: ImportedSource, run: int, cpus_from: str) -> CellRecord:
    environment = {
        "workload": asked.workload,
        "format": source.format.name,
        "file": source.name,
        "sha256": source.sha256,
        "run": run,
        "cpus_from": cpus_from,
        **({"said": dict(source.reading.about)} if source.reading.about else {}),
    }
    return store.new_record(cell, IMPORTED, environment)


def _cpus(study: Study | None) -> int | None:
    """The machine's number of CPUs, if the study has one."""
    return study.spec.cpus[0] if study and len(study.spec.cpus) == 1 else None


def _workload(source: ImportedSource) -> str:
    return _stem(source) if source.format.file_is_workload else source.format.name


def _variant(source: ImportedSource) -> str:
    return measured.TABLE if source.reading.measured else _stem(source)


def _stem(source: ImportedSource) -> str:
    return source.name.partition(".")[0] if source.format.read_text else source.name
