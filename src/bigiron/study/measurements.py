"""What a study has measured, as the plain values that `bigiron.analysis` compares."""

from bigiron.analysis.comparison import Cell, Measurements
from bigiron.study.store import CellRecord, Study


def read(study: Study, probe: str) -> Measurements:
    """All measured cells of one probe, each with its tables. UserError where there is none."""
    points = {
        point: {variant: [cell(study, one, probe) for one in records] for variant, records in cells.items()}
        for point, cells in study.measured(probe).items()
    }
    recorded = [one.facts for cells in points.values() for each in cells.values() for one in each]
    return Measurements(
        study=study.name,
        workload=study.spec.workload,
        probe=probe,
        time=study.time,
        operations=max(max(facts.get("operations", [study.spec.operations])) for facts in recorded),
        scope=study.spec.scope,
        machine=study.spec.simulation.machine,
        points=points,
    )


def cell(study: Study, record: CellRecord, probe: str) -> Cell:
    """One cell's tables and facts of a probe."""
    others = [name for name in record.tables if name.startswith(f"{probe}_")]
    return Cell(
        study.table(record, probe),
        record.facts.get(probe, {}),
        {name.removeprefix(f"{probe}_"): study.table(record, name) for name in others},
        _lost(record),
    )


def _lost(record: CellRecord) -> tuple[str, ...]:
    """What the agent and the recorder had no room for, in sentences: the one place where these are made."""
    lost = record.facts.get("lost", {})
    return tuple(
        f"{count} {what} were lost: its figures are too low" for what, count in lost.items() if count
    )
