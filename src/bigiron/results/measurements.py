"""The measurements of a study as the plain values that `bigiron.analysis` compares."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from bigiron import probes
from bigiron.analysis.comparison.model import ChangedShape, CpusAndTasks, Measurements, Missing, ProbedCell
from bigiron.machines.shape_change import CHANGES
from bigiron.probes.conflicts import ConflictsOptions
from bigiron.results import metrics
from bigiron.study.caveats import losses, machine_differences, why_missing
from bigiron.study.store import CellRecord, MeasuredCells, Study

NOT_RECORDED = "the probe was not recorded"


def read(study: Study, probe: str) -> Measurements:
    """All measured cells of one probe, each with its tables. UserError if there are none."""
    if any(one.samples for one in probes.named([probe])):
        return _with_noise(study, probe)
    measured = study.measured(probe)
    return Measurements(
        study=study.name,
        workload=study.workload,
        probe=probe,
        time=study.time,
        operations=study.operations(probe),
        operation=study.operation,
        scope=study.spec.options[ConflictsOptions].scope,
        machine=study.spec.simulation.machine,
        points=_cells(study, measured, probe),
        lost={point: tuple(losses(chain(*cells.values()))) for point, cells in measured.items()},
        machine_differences={
            point: machine_differences(chain(*cells.values())) for point, cells in measured.items()
        },
        changed=tuple(_changed(study, probe)) if probe == probes.DEFAULT else (),
    )


def _cells(
    study: Study, measured: MeasuredCells, probe: str
) -> dict[CpusAndTasks, dict[str, list[ProbedCell]]]:
    return {
        point: {variant: [cell(study, one, probe) for one in records] for variant, records in cells.items()}
        for point, cells in measured.items()
    }


def _changed(study: Study, probe: str) -> Iterator[ChangedShape]:
    """The measurements on machines of changed shapes."""
    for change in CHANGES:
        if measured := study.measured_with(change.name, probe):
            records = {point: next(chain.from_iterable(cells.values())) for point, cells in measured.items()}
            phrases = {point: _phrase(change.of, record.environment) for point, record in records.items()}
            # Without a snapshot each cell boots. With other memory or nodes it never resumes the same boot.
            resumed = all("resuming" in record.times for record in records.values())
            boots = not resumed or change.times_memory * change.times_nodes > 1
            yield ChangedShape(change.of, phrases, _cells(study, measured, probe), boots)


def _phrase(of: str, environment: Mapping[str, Any]) -> str:
    """How the machine differs, in words."""
    if of == "memory":
        return f"with {environment['memory_mib'] / 1024:g} GiB"
    if of == "nodes":
        return f"with {environment['nodes']} nodes"
    if of == "the boot":
        return "when booted again"
    ended_by = environment["time_slice"]
    return (
        "with time slices at random" if ended_by.startswith("random") else f"with time slices of {ended_by}"
    )


def _with_noise(study: Study, probe: str) -> Measurements:
    """All metrics of all probes, because their verdicts are corrected for multiple comparisons."""
    records = [record for record in study.records() if record.measured]
    return Measurements(
        study=study.name,
        workload=study.workload,
        probe=probe,
        time=study.time,
        operations=study.spec.operations,
        scope="",
        machine=study.spec.simulation.machine,
        points={},
        lost={
            point: tuple(losses(record for record in records if (record.cpus, record.tasks) == point))
            for point in dict.fromkeys((record.cpus, record.tasks) for record in records)
        },
        repeated=metrics.repeated(study),
    )


def missing(study: Study, probe: str) -> tuple[Missing, ...]:
    """The requested cells that have no results of a probe, in the plan's order."""
    any_will_do = any(one.samples for one in probes.named([probe]))  # all metrics are compared together
    found = []
    for cell in study.plan():
        record = study.record(cell)
        why = why_missing(record)
        if record and not why and not any_will_do and probe not in record.tables:
            why = NOT_RECORDED
        if why and (probe == probes.DEFAULT or not cell.change):
            found.append(Missing(cell.id, str(cell), why))
    return tuple(found)


def cell(study: Study, record: CellRecord, probe: str) -> ProbedCell:
    """A probe's results in one cell: its table, and the tables whose names start with the probe's."""
    others = [name for name in record.tables if name.startswith(f"{probe}_")]
    return ProbedCell(
        study.table(record, probe),
        record.facts.get(probe, {}),
        {name.removeprefix(f"{probe}_"): study.table(record, name) for name in others},
    )
