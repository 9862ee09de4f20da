"""Predictions for larger machines from a history's points."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from bigiron.errors import UserError
from bigiron.history import records
from bigiron.history.database import History
from bigiron.history.records import PointRecord
from bigiron.results import prediction
from bigiron.study import store
from bigiron.study.store import Study
from bigiron.util import decode

MACHINES = ("epyc-9654-x2", "x86-8s")
"""Two AMD sockets, and eight Intel sockets."""
TASKS = (8, 64, 256)
SAMPLES = 24  # with which the errors in docs/explanation/prediction-model.md were measured


def missing(history: History) -> list[PointRecord]:
    """The point with the most CPUs of each workload on each kernel, if it has no prediction yet."""
    predicted = {one.point for one in history.select(records.PredictionRecord)}
    most: dict[tuple[int, int], PointRecord] = {}
    for point in history.select(PointRecord, current=1):
        if point.cpus >= most.setdefault((point.workload, point.kernel), point).cpus:
            most[point.workload, point.kernel] = point
    return [point for point in most.values() if point.id not in predicted]


def predict(folder: Path, point: PointRecord) -> list[records.PredictionRecord]:
    """A row for each machine and number of tasks, or one row with the reason why the machine has none."""
    cell = folder / point.cells[0]
    study = store.open_study(cell.parent.parent)
    names = {plan.id: plan.variant for plan in study.plan()}
    alone = Study(study.folder, msgspec.structs.replace(study.spec, variant=[names[cell.name]]))
    return [row for machine in MACHINES for row in _on(alone, point, machine)]


def _on(study: Study, point: PointRecord, machine: str) -> list[records.PredictionRecord]:
    try:
        (curve,) = prediction.predict(study, machine, TASKS, samples=SAMPLES).curves
    except UserError as error:
        (variant,) = study.spec.variant
        return [_row(point, machine, refused=str(error).partition(f": {variant.name}: ")[2] or str(error))]
    return [
        _row(
            point,
            machine,
            tasks=at.tasks,
            relative=round(at.relative.value, 4),
            low=round(at.relative.low, 4),
            high=round(at.relative.high, 4),
            limits=[replace(limit, share=round(limit.share, 4)) for limit in at.limits],
            knee=round(curve.knee.value) if curve.knee else 0,
        )
        for at in curve.points
    ]


def _row(point: PointRecord, machine: str, **known: object) -> records.PredictionRecord:
    nothing = {"tasks": 0, "relative": 0.0, "low": 0.0, "high": 0.0, "limits": [], "knee": 0, "refused": ""}
    row = {"workload": point.workload, "kernel": point.kernel, "point": point.id, "machine": machine}
    return decode.convert({**row, **nothing, **known}, records.PredictionRecord)


def write(history: History, point: PointRecord, predicted: Sequence[records.PredictionRecord]) -> None:
    """Write the predictions from a point. They replace those from other points of its workload and kernel."""
    with history.writing():
        history.remove(records.PredictionRecord, workload=point.workload, kernel=point.kernel)
        for row in predicted:
            history.add(row)
