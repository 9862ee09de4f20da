"""Figures measured elsewhere become cells of a study (docs/import.md)."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bigiron.errors import UserError
from bigiron.probes import Options, Table, metrics
from bigiron.probes.metrics import MetricsOptions
from bigiron.readers import Figure, Format, Reading, table
from bigiron.readers.folder import Folder, read_text
from bigiron.study import store
from bigiron.study.engines import IMPORTED
from bigiron.study.plan import Cell
from bigiron.study.spec import Spec, Variant, check_variant_name
from bigiron.study.store import CellRecord, Study


@dataclass(frozen=True)
class Source:
    """A file or folder that was read."""

    format: Format
    name: str
    sha256: str
    reading: Reading


def read(format: Format, path: Path) -> Source:
    """What is in a file or folder; UserError says in which line what is wrong."""
    try:
        if format.read_folder:
            folder = Folder(path)
            reading = format.read_folder(folder)
            return Source(format, path.resolve().name, folder.sha256, reading)
        assert format.read_text
        text = read_text(path)
        return Source(format, path.name, hashlib.sha256(text.encode()).hexdigest(), format.read_text(text))
    except UserError as error:
        between = "," if str(error).startswith("line ") else ":"
        raise UserError(f"{path}{between} {error}") from None


def add(
    source: Source,
    output: Path,
    *,
    variant: str | None,
    workload: str | None,
    cpus: int | None,
    tasks: int | None,
) -> tuple[Study, list[Cell]]:
    """Add the figures to a study, which is made if there is none; the cells that are new in it.

    A variant that has such cells already gets more repetitions. What the source does not say must be given.
    """
    cells = _by_cell(source, tasks)
    before = store.open_study(output) if (output / "study.toml").exists() else None
    asked = Spec(
        machine=IMPORTED,
        workload=workload or source.reading.workload or _workload(source),
        options=Options(MetricsOptions(metric=source.format.name)),
        probes=[metrics.PROBE.name],
        cpus=[cpus or source.reading.cpus or _cpus(before) or max(count for count, _run in cells)],
        tasks=sorted({count for count, _run in cells}),
        repetitions=max(run for _tasks, run in cells),
        variant=[Variant(name=check_variant_name(variant or _stem(source)))],
    )
    if before:
        _check_alike(before, asked, source)
    else:
        store.create(output, asked, None)
    study = store.open_study(output)
    given = "given" if cpus else "the file" if source.reading.cpus else "as many as the most tasks"
    with study.writing():
        there = {cell.id for cell in study.plan() if study.record(cell)}
        placed = _placed(study, asked, source, cells)
        added = {place: cell for place, cell in placed.items() if cell.id not in there}
        if not added:
            raise UserError(f"{source.name} is in {study.name} already, as {asked.variant[0].name}")
        # The question comes first: what an interrupted import lacks is then missing, and can be added.
        study.widen(_union(study.spec, asked, added.values()))
        for place, cell in added.items():
            if not study.record(cell):
                record = _record(cell, asked, source, place[1], given)
                study.add(record, {metrics.PROBE.name: cells[place]})
    return study, list(added.values())


def _by_cell(source: Source, tasks: int | None) -> dict[tuple[int, int], Table]:
    """The figures of each number of tasks and run."""
    figures: dict[tuple[int, int], list[Figure]] = defaultdict(list)
    for figure in source.reading.figures:
        if figure.tasks is None and tasks is None:
            raise UserError(f"{source.name} does not say how many tasks there were: give --tasks N")
        figures[figure.tasks or tasks or 0, figure.run].append(figure)
    if not figures:
        raise UserError(
            f"{source.name} has no figures of {source.format.name}: is it {source.format.description}?"
        )
    try:
        table(source.reading.figures)
        return {cell: Table(table(some)) for cell, some in sorted(figures.items())}
    except UserError as error:
        raise UserError(f"{source.name}: {error}") from None


def _check_alike(study: Study, asked: Spec, source: Source) -> None:
    """UserError where the figures do not belong into that study."""
    spec = study.spec
    if not spec.engine.is_imported:
        raise UserError(f"{study.folder} was measured by bigiron: give another folder with -o")
    for what, old, new in (
        ("format", spec.options[MetricsOptions].metric, asked.options[MetricsOptions].metric),
        ("workload", spec.workload, asked.workload),
    ):
        if old != new:
            raise UserError(
                f"{study.folder} has figures of {what} {old}, these are of {new}: give another folder with -o"
                + (f", or --workload {old}" if what == "workload" else "")
            )
    if not study.records():
        return
    units = dict(study.tables(metrics.PROBE.name).select("metric", "unit").unique().rows())
    for figure in source.reading.figures:
        if units.get(figure.metric, figure.unit) != figure.unit:
            raise UserError(
                f"{source.name}: {figure.metric} is in {figure.unit!r}, and in {study.folder} "
                f"in {units[figure.metric]!r}"
            )


def _placed(
    study: Study, asked: Spec, source: Source, places: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], Cell]:
    """The cell of each number of tasks and run: the one that has it already, or the next repetition."""
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


def _record(cell: Cell, asked: Spec, source: Source, run: int, cpus_from: str) -> CellRecord:
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


def _union(spec: Spec, asked: Spec, added: Iterable[Cell]) -> Spec:
    """The question that has the old cells and the new ones for an answer."""
    names = [variant.name for variant in spec.variant]
    assert spec.tasks != "all" and asked.tasks != "all"
    return msgspec.structs.replace(
        spec,
        cpus=sorted({*spec.cpus, *asked.cpus}),
        tasks=sorted({*spec.tasks, *asked.tasks}),
        repetitions=max(spec.repetitions, *(cell.repetition for cell in added)),
        variant=[*spec.variant, *(one for one in asked.variant if one.name not in names)],
    )


def _cpus(study: Study | None) -> int | None:
    """Of the machine, as the study knows it."""
    return study.spec.cpus[0] if study and len(study.spec.cpus) == 1 else None


def _workload(source: Source) -> str:
    return _stem(source) if source.format.file_is_workload else source.format.name


def _stem(source: Source) -> str:
    return source.name.partition(".")[0] if source.format.read_text else source.name
