"""The noisy metrics of a study, and the comparison of its variants."""

from collections.abc import Sequence
from datetime import datetime

from bigiron import probes
from bigiron.analysis.probes import throughput
from bigiron.analysis.statistics.repetitions import Repetitions
from bigiron.analysis.statistics.verdict import MetricComparison, Repeated
from bigiron.errors import UserError
from bigiron.probes import Metric
from bigiron.probes.probe import MetricSamples
from bigiron.study.plan import Cell
from bigiron.study.spec import looks
from bigiron.study.store import CellRecord, Study

_SIMULATED = "simulation"


def metrics(study: Study) -> list[Repetitions]:
    """Every metric of every variant at all points, in the plan's order. UserError if there is none."""
    gathered: dict[tuple[Metric, str, int, int], list[tuple[CellRecord, tuple[float, ...]]]] = {}
    first: dict[str, tuple[Metric, CellRecord]] = {}
    for record in filter(lambda record: record.measured, study.records()):
        for metric, samples in of_cell(study, record):
            known, cell = first.setdefault(metric.name, (metric, record))
            if known != metric:
                raise UserError(_mixed(known, cell, metric, record))
            key = metric, record.variant, record.cpus, record.tasks
            gathered.setdefault(key, []).append((record, samples))
    if not gathered:
        raise UserError(f"no cell of {study.folder} has a throughput: {study.recording('throughput')}")
    order = [variant.name for variant in study.spec.variant]
    return [
        Repetitions(
            variant,
            cpus,
            tasks,
            metric.name,
            metric.unit,
            metric.better,
            tuple(record.repetition for record, _ in cells),
            tuple(samples for _, samples in cells),
            _spans([record for record, _ in cells]),
        )
        for (metric, variant, cpus, tasks), cells in sorted(
            gathered.items(), key=lambda one: (one[0][0].name, one[0][2], one[0][3], order.index(one[0][1]))
        )
    ]


def _spans(records: Sequence[CellRecord]) -> tuple[tuple[float, float], ...]:
    """When the cells were measured; empty if the record of one of them lacks it."""
    if not all(record.started for record in records):
        return ()
    starts = [datetime.fromisoformat(record.started).timestamp() for record in records]
    return tuple((start, start + record.seconds) for start, record in zip(starts, records, strict=True))


def of_cell(study: Study, record: CellRecord) -> MetricSamples:
    """Each metric of a cell with its samples."""
    for probe in probes.named(record.tables):
        if probe.samples:
            yield from probe.samples(study.table(record, probe.name))
    if _SIMULATED in record.tables:
        figure = study.table(record, _SIMULATED).filter(figure="throughput")
        if figure.height:
            yield Metric("throughput", figure["unit"][0], "more"), tuple(figure["value"])


def _mixed(one: Metric, first: CellRecord, other: Metric, record: CellRecord) -> str:
    def in_words(metric: Metric) -> str:
        return f"in {metric.unit or 'no unit'} ({metric.better} is better)"

    return (
        f"{one.name} is {in_words(one)} in cell {first.id} and {in_words(other)} in cell {record.id}: "
        "a study cannot mix units; make one study for each"
    )


def compare(study: Study, base: str | None = None, metric: str | None = None) -> list[MetricComparison]:
    """Compare the study's variants with one of them, in all metrics or in one.

    Empty if there is only one variant. UserError if variants have nothing in common.
    """
    return throughput.judgements(repeated(study), study.base(base), metric=metric)


def repeated(study: Study) -> Repeated:
    """All metrics of a study, and how they are judged. UserError if there are none."""
    return Repeated(
        folder=str(study.folder),
        repetitions=tuple(metrics(study)),
        looks=tuple(looks(study.spec)),
        paired=study.spec.interleaved,
        tolerance=study.spec.tolerance,
        unfinished=frozenset((cell.cpus, cell.tasks) for cell in untried(study)),
        adds_more="import"
        if study.spec.engine.is_imported
        else "run STUDY --until-decided --max-time SECONDS",
    )


def untried(study: Study) -> list[Cell]:
    """The cells of the plan that were not tried yet."""
    return [cell for cell in study.plan() if study.record(cell) is None]
