"""What a report of a study says, whatever its format: the question, the answer, and all that they rest on.

Of what was not measured (yet) a report has nothing, and says so: one of an unfinished study can be made too.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import bigiron
from bigiron import probes
from bigiron.analysis.comparison.model import ComparedPoint, ComparedRow, Options, not_compared, with_caveats
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.analysis.lines import shared_lines
from bigiron.analysis.lines.shared_lines import SharedLines
from bigiron.analysis.statistics.estimate import Estimate
from bigiron.analysis.statistics.knee import ThroughputCurve
from bigiron.analysis.statistics.repetitions import where
from bigiron.analysis.statistics.verdict import MetricComparison
from bigiron.errors import UserError
from bigiron.probes.probe import Contexts
from bigiron.report import knee, predict
from bigiron.report.compare import dispatch, figure_text
from bigiron.report.explain import text as explanation
from bigiron.report.explain.text import Explanation
from bigiron.report.formats import flame, lkp
from bigiron.report.formats.chart import Chart, ChartLine, DataPoint
from bigiron.report.formats.flame import Flame
from bigiron.report.study import provenance
from bigiron.report.study.provenance import Environments
from bigiron.results import growth, measurements, scaling
from bigiron.results.prediction import Prediction
from bigiron.study import reproduce
from bigiron.study.caveats import losses, why_missing
from bigiron.study.measured import TABLE as PROFILE
from bigiron.study.spec import Spec
from bigiron.study.store import Study
from bigiron.util.english import join_and
from bigiron.util.numbers import count

_MOST_FINDINGS = 8
_MOST_CHARTS = 6
_SURE = 0.9  # of a law that is worth a sentence
_SUMMARIES = ("mean", "sum")  # measures that the name of a row tells all about
_COUNTED = {"conflicts": "shared cache lines", "locks": "locks", "instructions": "instructions"}


@dataclass(frozen=True)
class FindingText:
    """A sentence, and label and text of what it rests on."""

    sentence: str
    evidence: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ProbeSection:
    """What one probe has measured."""

    probe: str
    tables: tuple[ComparedPoint, ...]  # by CPUs and tasks
    charts: tuple[Chart, ...]  # of what matters most, against the CPUs or tasks
    flame: Flame | None
    growth: growth.GrowthReport | None  # None where there are too few numbers of CPUs to tell

    @property
    def title(self) -> str:
        """Of all its tables."""
        return self.tables[0].title


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Judged:
    """What was measured with noise: verdicts on every metric, and its curves against the tasks."""

    verdicts: tuple[Grid, ...]
    judgements: tuple[MetricComparison, ...]  # what the verdicts are on
    notes: tuple[str, ...]
    scaling: tuple[Grid, ...]  # by the number of tasks
    charts: tuple[Chart, ...]
    curves: tuple[tuple[str, tuple[str, ...]], ...]  # a variant, and its curve in words
    findings: tuple[FindingText, ...]  # for the answer


@dataclass(frozen=True)
class PredictedSection:
    """Throughput on a machine that was named."""

    title: str
    chart: Chart
    tables: tuple[Grid, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class StudyDocument:
    """A report."""

    study: str
    question: str
    answered: str  # what the answer is about
    answer: tuple[FindingText, ...]
    not_recorded: str  # what the answer says nothing of, in a sentence
    planned: int  # cells
    missing: tuple[tuple[str, str], ...]  # cells that have no results, and why
    predicted: PredictedSection | None
    judged: Judged | None
    parts: tuple[ProbeSection, ...]
    environments: Environments
    commands: tuple[tuple[str, str], ...]  # what for, and the command
    study_file: str  # study.toml
    source: str  # of the workload, where it is none that comes with bigiron
    made: str
    version: str


def document_of(
    study: Study,
    base: str | None,
    contexts: Contexts,
    prediction: Prediction | None = None,
) -> StudyDocument:
    """Gather all that there is to say of a study."""
    if study.spec.probes == [PROFILE]:
        raise UserError(
            f"{study.folder} has only a profile: see `bigiron compare STUDY --with {study.folder}`"
        )
    base = study.base(base)
    recorded = [probe for probe in study.spec.probes if _is_measured(study, probe)]
    measured = [probe for probe in recorded if all(one.is_comparable for one in probes.named([probe]))]
    judged = _judged(study, base)
    options = Options(base, contexts, costs=prediction.costs if prediction else None)
    lines = None
    if "conflicts" in measured:
        lines = shared_lines.line_up_all(measurements.read(study, "conflicts"), options)
    incomplete = losses(study.all_records())
    parts = tuple(
        _with_gaps(_part(study, probe, options, lines), study) for probe in measured if not _is_judged(probe)
    )
    if incomplete:
        parts = tuple(_without_losses(part) for part in parts)  # the answer tells them, once
    explained = None
    if set(explanation.PROBES) & set(measured):
        explained = explanation.explanation(study, options, lines)
    answered, answer = _answer(judged, parts, explained, prediction)
    cells = [(cell, study.record(cell)) for cell in study.plan()]
    return StudyDocument(
        study=study.name,
        question=_question(study.spec, base),
        answered=answered,
        answer=(*answer, *(FindingText(f"Incomplete: {sentence}.") for sentence in incomplete)),
        not_recorded=_not_recorded(study, measured, explained),
        planned=len(cells),
        missing=tuple((str(cell), why) for cell, record in cells if (why := why_missing(record))),
        predicted=_predicted(prediction) if prediction else None,
        judged=judged,
        parts=parts,
        environments=provenance.environments(study.spec, [(cell.id, record) for cell, record in cells]),
        commands=tuple(provenance.commands(study, base, recorded, contexts, prediction)),
        study_file=reproduce.study_file(study),
        source=provenance.source(study),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=bigiron.__version__,
    )


def _is_measured(study: Study, probe: str) -> bool:
    return any(record.measured and probe in record.tables for record in study.records())


def _not_recorded(study: Study, measured: Sequence[str], explained: Explanation | None) -> str:
    """The counts of a virtual machine that an answer lacks, where its own notes do not name them."""
    if explained and explained.recorded.others:
        return ""
    lacking = [what for probe, what in _COUNTED.items() if probe not in measured]
    if not (study.spec.engine.emulated and measured and lacking):
        return ""
    return (
        f"No counts of {join_and(lacking)}: they were not recorded "
        f"(bigiron run --probe {','.join(_COUNTED)})."
    )


def _is_judged(probe: str) -> bool:
    """Whether its figures are shown as verdicts."""
    return any(one.samples for one in probes.named([probe]))


# The question and the answer


def _question(spec: Spec, base: str) -> str:
    cpus = join_and([str(number) for number in spec.cpus])
    where = f"with {cpus} CPU{'' if spec.cpus == [1] else 's'}"
    if spec.engine.is_model:
        where += f" of {spec.simulation.machine}, simulated"
    elif spec.engine.emulated:
        where += " in virtual machines"
    others = [variant.name for variant in spec.variant if variant.name != base]
    if others:
        return f"{spec.workload} {where}: what is different on {join_and(others)}, against {base}?"
    return f"{spec.workload} {where}, on {base}: what will limit it as CPUs are added?"


def _answer(
    judged: Judged | None,
    parts: Sequence[ProbeSection],
    explained: Explanation | None,
    predicted: Prediction | None,
) -> tuple[str, list[FindingText]]:
    answered, findings = "", []
    if explained:
        answered, recorded = explanation.heading(explained), explained.recorded
        findings += [
            FindingText(explanation.sentence(one, recorded), tuple(explanation.evidence(one, recorded)))
            for one in explained.findings[:_MOST_FINDINGS]
        ]
        findings += map(FindingText, explanation.notes(explained))
    if predicted:
        findings += [
            FindingText(f"On {predicted.machine}, {predict.in_words(one)}.") for one in predicted.ratios
        ]
    findings += judged.findings if judged else ()
    for part in parts:
        if part.probe not in explanation.PROBES and part.tables[-1].others:
            findings += _changes(part.tables[-1])
    return answered, [*findings, *(one for part in parts if part.growth for one in _growing(part.growth))]


def _changes(table: ComparedPoint) -> Iterator[FindingText]:
    """What changed most in a probe's table: its sum, or else the row that changed most."""
    subject = table.total or next(iter(table.by_change), None)
    if subject is None:
        return
    measure = "" if table.ranked_by in _SUMMARIES else f" ({table.ranked_by})"
    what = f"{table.title.partition(':')[0]}: {subject.main.name}{measure}"
    sentence = f"{what} with {table.where}: {_by_variant(subject.main, table)}."
    moved = [
        row
        for row in table.by_change
        if row is not subject and row.main.largest_change(table.base, table.others)
    ]
    yield FindingText(sentence, tuple((row.main.name, _by_variant(row.main, table)) for row in moved[:4]))


def _by_variant(figure: ComparedFigure, table: ComparedPoint) -> str:
    values = [f"{count(figure.mean(table.base))} on {table.base}"]
    for variant in table.others:
        change = lkp.change(figure, table.base, variant) if figure.ratio(table.base, variant) else ""
        values.append(f"{count(figure.mean(variant))} on {variant}" + (f" ({change})" if change else ""))
    return join_and(values)


def _growing(report: growth.GrowthReport) -> Iterator[FindingText]:
    for table in report.tables:
        if table.growing and table.growing[0].growth.sure >= _SURE:
            first = table.growing[0]
            assert first.prediction
            yield FindingText(
                f"On {table.variant}, {first.series.name} comes to {first.growth.best.formula} "
                f"{table.counted.unit} with N CPUs; predicted for {table.at} CPUs: {first.prediction}."
            )


# What was measured


def _judged(study: Study, base: str) -> Judged | None:
    """Verdicts where a metric was measured, curves where it was with several numbers of tasks."""
    grids: list[Grid] = []
    notes: list[str] = []
    judgements: list[MetricComparison] = []
    findings: list[FindingText] = []
    noisy = [probe for probe in study.spec.probes if _is_judged(probe) and _is_measured(study, probe)]
    if noisy:
        try:
            found = dispatch.comparison_of(study, noisy[0], Options(base))
        except UserError as error:
            notes.append(str(error))
        else:
            grids = _grids(figure_text.verdict_tables(found))
            notes = figure_text.verdict_notes(found)
            judgements = [
                one for point in found.points for row in point.rows for one in row.judgements.values()
            ]
            findings += _verdicts(judgements, study.time)
    try:
        measured = scaling.knee_study(study, base)
    except UserError:  # no metric has several numbers of tasks
        if not (grids or notes):
            return None
        return Judged(tuple(grids), tuple(judgements), tuple(notes), (), (), (), tuple(findings))
    findings += [FindingText(f"{knee.parting(one)}.") for one in measured.partings if one.tasks]
    curves = [knee.in_words(measured, one) for one in measured.curves]
    return Judged(
        tuple(grids),
        tuple(judgements),
        tuple(notes),
        tuple(_grids((heading, cells) for heading, _, cells in knee.tables(measured))),
        tuple(_curves(measured, [variant.name for variant in study.spec.variant])),
        tuple((variant, tuple(lines)) for variant, *lines in curves),
        tuple(findings),
    )


def _predicted(found: Prediction) -> PredictedSection:
    return PredictedSection(
        f"Predicted for {found.machine}",
        predict.chart(found),
        tuple(_grids(predict.tables(found))),
        tuple(predict.notes(found)),
    )


def _grids(tables: Iterable[tuple[str, list[list[str]]]]) -> list[Grid]:
    return [Grid(heading, tuple(head), tuple(map(tuple, rows))) for heading, (head, *rows) in tables]


def _verdicts(judgements: Sequence[MetricComparison], time: str) -> Iterator[FindingText]:
    """With the most CPUs and tasks, of every metric and variant."""
    last = {(one.ours.metric, one.ours.variant): one for one in judgements}
    for (metric, variant), one in last.items():
        yield FindingText(
            f"{metric} ({time}) with {where(*one.ours.point)}, {variant} against {one.base.variant}: "
            f"{one.in_words}."
        )


def _curves(measured: scaling.Scaling, names: Sequence[str]) -> Iterator[Chart]:
    """A chart for each metric and number of CPUs, with the law that fits each variant best."""
    kinds = dict.fromkeys((curve.metric, curve.unit, curve.cpus) for curve in measured.curves)
    for metric, unit, cpus in kinds:
        here = [one for one in measured.curves if (one.metric, one.unit, one.cpus) == (metric, unit, cpus)]
        title = metric if cpus is None else f"{metric}, {cpus} CPU{'' if cpus == 1 else 's'}"
        x = "tasks, each with a CPU" if cpus is None else "tasks"
        lines = tuple(_curve(one, names.index(one.variant)) for one in here)
        yield Chart(title, x, f"{unit} ({measured.time})".strip(), lines)


def _curve(curve: ThroughputCurve, style: int) -> ChartLine:
    measured = tuple(_estimated(point.tasks, point.throughput) for point in curve.points)
    if not curve.fits:
        return ChartLine(curve.variant, measured, style=style)
    best = min(curve.fits, key=lambda fit: sum(missed**2 for missed in fit.residuals.values()))
    law = [DataPoint(tasks, value) for tasks, value in sorted(best.curve.items())]
    further = [_estimated(tasks, estimate) for tasks, estimate in sorted(best.predicted.items())]
    return ChartLine(curve.variant, measured, (*law, *further), best.law.value, style)


def _estimated(x: int, estimate: Estimate) -> DataPoint:
    if math.isnan(estimate.low):
        return DataPoint(x, estimate.value)
    return DataPoint(x, estimate.value, estimate.low, estimate.high)


def _part(study: Study, probe: str, options: Options, lines: SharedLines | None) -> ProbeSection:
    if lines and probe == "conflicts":
        read = measurements.read(study, probe)
        points = with_caveats(shared_lines.compare(read, options, lines), read).points
    else:
        points = dispatch.comparison_of(study, probe, options).points
    burning = None
    if any(one.stacks for one in probes.named([probe])):
        burning = flame.flame_of(study, probe, study.base(options.base), options.contexts)
    grown = _growth(study, probe, options.contexts)
    names = [variant.name for variant in study.spec.variant]
    charts = _growth_charts(grown, names) if grown else _charts(points, names)
    return ProbeSection(probe, points, tuple(charts), burning, grown)


def _with_gaps(part: ProbeSection, study: Study) -> ProbeSection:
    """The same, with the measured cells that lack the probe; the page lists the others at its top."""
    lacking = [one for one in measurements.missing(study, part.probe) if one.why == measurements.NOT_RECORDED]
    if not lacking:
        return part
    *tables, last = part.tables
    return replace(part, tables=(*tables, replace(last, missing=not_compared(lacking))))


def _without_losses(part: ProbeSection) -> ProbeSection:
    return replace(part, tables=tuple(replace(table, lost=()) for table in part.tables))


def _charts(points: Sequence[ComparedPoint], names: Sequence[str]) -> Iterator[Chart]:
    """The sum, or the rows that matter most, against the number of CPUs, or of tasks; of each kind."""
    for kind in dict.fromkeys(point.kind for point in points):
        yield from _charts_of([point for point in points if point.kind == kind], names)


def _charts_of(found: Sequence[ComparedPoint], names: Sequence[str]) -> Iterator[Chart]:
    last = found[-1]
    many_cpus = len({table.cpus for table in found}) > 1
    if len({(table.cpus if many_cpus else table.tasks) for table in found}) < max(2, len(found)):
        return
    chosen = [last.total] if last.total else list(last.rows[:_MOST_CHARTS])
    for row in chosen:
        at = [
            (table.cpus if many_cpus else table.tasks or 0, _row_named(table, row.main.name))
            for table in found
        ]
        lines = tuple(
            ChartLine(
                variant,
                tuple(_spot(x, one.main, variant) for x, one in at if one and variant in one.main.values),
                style=names.index(variant),
            )
            for variant in last.variants
        )
        lines = tuple(line for line in lines if line.measured)
        unit = "" if last.ranked_by in _SUMMARIES else last.ranked_by
        if lines:
            yield Chart(row.main.name, "CPUs" if many_cpus else "tasks", unit, lines)


def _row_named(table: ComparedPoint, name: str) -> ComparedRow | None:
    rows = (*([table.total] if table.total else []), *table.rows)
    return next((row for row in rows if row.main.name == name), None)


def _spot(x: int, figure: ComparedFigure, variant: str) -> DataPoint:
    """The mean of the repetitions, and their range."""
    values = figure.values[variant]
    spread = (min(values), max(values)) if len(values) > 1 else (None, None)
    return DataPoint(x, figure.mean(variant), *spread)


def _growth(study: Study, probe: str, contexts: Contexts) -> growth.GrowthReport | None:
    if probe not in growth.sources():
        return None
    try:
        return growth.growth_study(study, None, None, probe, contexts)
    except UserError:
        return None  # too few numbers of CPUs


def _growth_charts(report: growth.GrowthReport, names: Sequence[str]) -> Iterator[Chart]:
    """What grows most in any variant, in all of them, with the laws."""
    named: dict[str, list[tuple[growth.GrowthTable, growth.GrowthRow]]] = {}
    for table in report.tables:
        for row in (*table.growing[:_MOST_CHARTS], table.total):
            named.setdefault(row.series.name, [])
    for table in report.tables:
        for row in (*table.rows, table.total):
            if row.series.name in named and row.most >= table.counted.shown:
                named[row.series.name].append((table, row))
    unit = report.counted.unit
    for name, rows in list(named.items())[:_MOST_CHARTS]:
        if rows:
            yield Chart(
                name,
                "CPUs",
                unit,
                tuple(_law_line(table, row, names.index(table.variant)) for table, row in rows),
            )


def _law_line(table: growth.GrowthTable, row: growth.GrowthRow, style: int) -> ChartLine:
    measured = tuple(DataPoint(cpus, value) for cpus, value in sorted(row.series.points.items()))
    if not row.growth.grows:
        return ChartLine(table.variant, measured, style=style)
    first, last = min(row.series.points), table.at
    steps = [round(first * (last / first) ** (step / 40)) for step in range(41)]
    law = {cpus: row.growth.predict(cpus) for cpus in sorted({*steps, *row.series.points})}
    most = max(row.series.points)
    law_spots = tuple(
        DataPoint(cpus, one.value, one.low, one.high) if cpus >= most else DataPoint(cpus, one.value)
        for cpus, one in law.items()
    )
    return ChartLine(table.variant, measured, law_spots, row.growth.best.formula, style)
