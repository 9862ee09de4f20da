"""What a study has measured, as the plain values that `bigiron.analysis` compares."""

from bigiron.analysis.comparison import Cell, Measurements
from bigiron.probes.conflicts import ConflictsOptions
from bigiron.study.store import CellRecord, Study


def read(study: Study, probe: str) -> Measurements:
    """All measured cells of one probe, each with its tables. UserError where there is none."""
    return Measurements(
        study=study.name,
        workload=study.spec.workload,
        probe=probe,
        time=study.time,
        operations=study.operations(probe),
        scope=study.spec.options[ConflictsOptions].scope,
        machine=study.spec.simulation.machine,
        points={
            point: {
                variant: [cell(study, one, probe) for one in records] for variant, records in cells.items()
            }
            for point, cells in study.measured(probe).items()
        },
    )


def cell(study: Study, record: CellRecord, probe: str) -> Cell:
    """What a probe left of one cell: its table, and those whose names start with its own."""
    others = [name for name in record.tables if name.startswith(f"{probe}_")]
    return Cell(
        study.table(record, probe),
        record.facts.get(probe, {}),
        {name.removeprefix(f"{probe}_"): study.table(record, name) for name in others},
    )
