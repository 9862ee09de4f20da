"""What `bigiron growth` shows: which shared lines or functions grow with the number of CPUs, worst first."""

import csv
import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bigiron import probes
from bigiron.analysis.comparison.model import Cell
from bigiron.analysis.lines import conflicts
from bigiron.analysis.probes import simulation
from bigiron.analysis.statistics import growth
from bigiron.analysis.statistics.growth import Growth, Prediction, Series, number
from bigiron.errors import UserError
from bigiron.probes import GrowthSource
from bigiron.report.formats import listing
from bigiron.report.formats.listing import code, plain
from bigiron.results import measurements
from bigiron.study.caveats import clock_step
from bigiron.study.store import CellRecord, Study
from bigiron.util.english import first_n, plural

_FURTHER = 8  # times the most CPUs measured: what is predicted for unless asked otherwise
_FAR = 16  # times the most CPUs measured: from there on a prediction comes with a warning
_WIDTH = 100
_NAME, _MEASURED, _LAW, _SURE = 26, 16, 22, 7  # widths of the text's columns
_MOST_FUNCTIONS = 4
_MOST_STANDING = 10
_INDENT = " " * 6


_Contexts = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A series and what is known of its growth."""

    series: Series
    growth: Growth
    prediction: Prediction | None

    @property
    def most(self) -> float:
        """The largest count."""
        return max(self.series.points.values())

    @property
    def rank(self) -> tuple[float, float, str, str]:
        """The worst first: how much it will grow by, then how much it is."""
        last = self.series.points[max(self.series.points)]
        by = self.prediction.value - last if self.prediction and self.growth.grows else 0.0
        return -by, -self.most, self.series.name, self.series.what


@dataclass(frozen=True)
class Table:
    """One variant's series, with one task a CPU or always the same number of tasks."""

    counted: GrowthSource
    variant: str
    tasks: str  # "one task a CPU", "8 tasks"
    cpus: list[int]
    at: int
    rows: list[Row]  # the worst first; the total is not among them
    total: Row
    lost: int  # counts that no table had room for
    clock_step: str = ""  # where the clock has another rate from some number of CPUs on

    @property
    def growing(self) -> list[Row]:
        """The rows worth a line that grow."""
        return [row for row in self.rows if row.growth.grows and row.most >= self.counted.shown]

    @property
    def standing(self) -> list[Row]:
        """The heaviest rows that do not grow, then those of them of which it cannot be told."""
        rows = [row for row in self.rows if not row.growth.grows and row.most >= self.counted.heavy]
        rows = sorted(rows, key=lambda row: -row.most)[:_MOST_STANDING]
        return sorted(rows, key=lambda row: not row.growth.law)


@dataclass(frozen=True)
class Report:
    """How a study's counts grow."""

    study: str
    workload: str
    contexts: _Contexts
    counted: GrowthSource
    tables: list[Table]


def growth_study(
    study: Study,
    variant: str | None = None,
    at: int | None = None,
    probe: str = "conflicts",
    contexts: _Contexts = conflicts.CONTEXTS[:1],
) -> Report:
    """Fit the growth of each shared line or function of a study, and of their sum. One variant, or all."""
    source = sources().get(probe)
    if not source:
        raise UserError(f"growth is told of {', '.join(sources())}, not of {probe}")
    variants = [one.name for one in study.spec.variant]
    if variant is not None and variant not in variants:
        raise UserError(f"{study.name} has no variant {variant!r}: it has {', '.join(variants)}")
    study.measured(probe)  # which says how to record it
    records = [record for record in study.records() if record.measured and probe in record.tables]
    tables = [
        table
        for name in ([variant] if variant else variants)
        for tasks in ([None] if study.spec.tasks == "all" else study.spec.tasks)
        if (
            table := _table(
                study, [r for r in records if r.variant == name], name, tasks, at, probe, source, contexts
            )
        )
    ]
    if not tables:
        raise UserError(
            f"{study.folder} has no variant measured with the probe {probe} at {growth.FEWEST} numbers of "
            "CPUs, 2 and more: growth needs that many, and 5 are better (--cpus 2,3,4,6,8)"
        )
    return Report(study.name, study.spec.workload, contexts, source, tables)


def _table(
    study: Study,
    records: list[CellRecord],
    variant: str,
    tasks: int | None,
    at: int | None,
    probe: str,
    source: GrowthSource,
    contexts: _Contexts,
) -> Table | None:
    """None if there are too few CPU counts. One CPU alone shares nothing, and says nothing of growth."""
    records = [one for one in records if one.cpus > 1 and tasks in (None, one.tasks)]
    records.sort(key=lambda record: record.cpus)
    cells: dict[int, list[Cell]] = {}
    for record in records:
        cells.setdefault(record.cpus, []).append(measurements.cell(study, record, probe))
    if len(cells) < growth.FEWEST:
        return None
    series, total = source.series(cells, contexts)
    at = at or _FURTHER * max(cells)
    return Table(
        source,
        variant,
        plural(tasks, "task") if tasks else "one task a CPU",
        list(cells),
        at,
        sorted((_row(one, at) for one in series), key=lambda row: row.rank),
        _row(replace(total, name=source.total), at),
        sum(cell.facts.get(source.lost, 0) for here in cells.values() for cell in here),
        clock_step(records),
    )


def _simulated_series(
    cells: Mapping[int, Sequence[Cell]], _contexts: _Contexts
) -> tuple[list[Series], Series]:
    """What waiting for each line and for each lock costs an operation; all of the CPUs' time is the total."""
    waits = {cpus: simulation.waits(here) for cpus, here in cells.items()}
    names = sorted(set().union(*(here.of for here in waits.values())))
    series = [
        Series(name, "", {cpus: here.of.get(name, 0.0) for cpus, here in waits.items()}) for name in names
    ]
    return series, Series("", "", {cpus: here.total for cpus, here in waits.items()})


_SIMULATION = GrowthSource(
    _simulated_series,
    thing="line or lock",
    what="nanoseconds that CPUs wait per operation",
    unit="nanoseconds per operation",
    total="all of the CPUs' time",
    shown=1.0,
    heavy=10.0,
)


def sources() -> dict[str, GrowthSource]:
    """What may grow, by probe; and in simulated cells."""
    return {one.name: one.growth for one in probes.probes() if one.growth} | {"simulation": _SIMULATION}


def _row(series: Series, at: int) -> Row:
    result = growth.fit_series(series)
    return Row(series, result, result.predict(at) if result.law else None)


def text(report: Report) -> str:
    """For a terminal or a mail: at most 100 columns."""
    return "\n\n".join(_text_of(report, table) for table in report.tables) + "\n"


def _text_of(report: Report, table: Table) -> str:
    measured = f"at {table.cpus[0]} - {table.cpus[-1]} CPUs"
    lines = [*textwrap.wrap(_heading(report, table), _WIDTH), ""]
    lines.append(
        f"{table.counted.thing:{_NAME}}{measured:>{_MEASURED}}  {'law':{_LAW}}{'sure':>{_SURE}}"
        f"  predicted at {table.at}"
    )
    for row in (*table.growing, table.total):
        name, what = row.series.name, _touched_by(row)
        if len(name) >= _NAME:
            name, what = f"..{name[3 - _NAME :]}", f"{name}: {what}" if what else name
        law, sure, predicted = in_words(row)
        lines.append(
            f"{name:{_NAME}}{measured_range(row):>{_MEASURED}}  {law:{_LAW}}{sure:>{_SURE}}  {predicted}"
        )
        if what:
            lines += textwrap.wrap(what, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    for note in notes_on(table):
        lines += ["", *textwrap.wrap(note, _WIDTH, subsequent_indent="  ")]
    for row in table.standing:
        lines += textwrap.wrap(f"- {standing(row)}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(line.rstrip() for line in lines)


def _heading(report: Report, table: Table) -> str:
    counts = ", ".join(map(str, table.cpus))
    contexts = f"{' and '.join(report.contexts)} context; counts, not times"
    return (
        f"{report.workload} on {table.variant}, {table.tasks}, at {counts} CPUs: how the "
        f"{table.counted.what} grow with the number N of CPUs "
        f"({'simulated' if table.counted is _SIMULATION else contexts})"
    )


def notes_on(table: Table) -> list[str]:
    """What the figures do not say."""
    notes = []
    if not table.growing:
        notes.append(f"No {table.counted.thing} grows.")
    if table.growing or table.total.growth.grows:
        notes.append("predicted: by the law, and in brackets what holds 95 % of all laws' predictions")
    notes += warnings(table)
    hidden = len(table.rows) - len(table.growing) - len(table.standing)
    if hidden:
        notes.append(f"{hidden} more {table.counted.thing}s are small, or do not grow (--format csv has all)")
    if table.standing:
        notes.append("Large, and not growing or without a law:")
    return notes


def warnings(table: Table) -> list[str]:
    """Why figures are less sure than they look."""
    notes = []
    if table.at > _FAR * table.cpus[-1]:
        notes.append(
            f"{table.at} CPUs are {table.at // table.cpus[-1]} times the most that were measured: no "
            "interval knows of what changes on the way"
        )
    if table.total.growth.refusal:
        notes.append(f"{table.counted.total}: no law: {table.total.growth.refusal}")
    if table.clock_step:
        notes.append(table.clock_step)
    if table.lost:
        notes.append(f"the recorder had no room for {table.lost} of them: the counts are too low")
    return notes


def standing(row: Row) -> str:
    """A row that does not grow, in words."""
    said = f"constant, {row.growth.best.formula}" if row.growth.law else row.growth.refusal
    by = f" ({_touched_by(row)})" if row.series.what else ""
    return f"{row.series.name}{by}: {said}"


def in_words(row: Row) -> tuple[str, str, str]:
    """The law, how sure, the prediction."""
    if not row.prediction:
        return "none", "", ""
    predicted = row.prediction
    interval = f"({number(predicted.low)} to {number(predicted.high)})"
    return row.growth.best.formula, _sure(row.growth.sure), f"{number(predicted.value)} {interval}"


def _sure(share: float) -> str:
    return next((f">{high} %" for high in (99.9, 99) if share > high / 100), f"{100 * share:.0f} %")


def measured_range(row: Row) -> str:
    """The first and the last count."""
    counts = sorted(row.series.points)
    first, last = row.series.points[counts[0]], row.series.points[counts[-1]]
    exact = f"{first:.3f} - {last:.3f}"
    return exact if len(exact) <= _MEASURED else f"{first:.1f} - {last:.1f}"


def _touched_by(row: Row) -> str:
    return first_n(row.series.what.split(", "), _MOST_FUNCTIONS)


def markdown(report: Report) -> str:
    """Tables as GitHub and most wikis render them."""
    return "\n\n".join(_markdown_of(report, table) for table in report.tables) + "\n"


def _markdown_of(report: Report, table: Table) -> str:
    rows = []
    for row in (*table.growing, table.total):
        functions = ", ".join(code(name) for name in _touched_by(row).split(", ") if name)
        rows.append([*map(plain, (row.series.name, measured_range(row), *in_words(row))), functions])
    measured = f"at {table.cpus[0]} - {table.cpus[-1]} CPUs"
    headings = [table.counted.thing, measured, "law", "sure", f"predicted at {table.at}", "touched by"]
    lines = [plain(_heading(report, table)), "", listing.markdown(headings, rows, "lrlrrl")]
    lines += [f"{plain(note)}\n" for note in notes_on(table)]
    lines += [f"- {plain(standing(row))}" for row in table.standing]
    return "\n".join(lines).rstrip()


def as_csv(report: Report) -> str:
    """One line a series, all of them (docs/growth.md)."""
    out = io.StringIO()
    rows = [_flat(table, row) for table in report.tables for row in (*table.rows, table.total)]
    for row in rows:
        row["points"] = " ".join(f"{cpus}:{value}" for cpus, value in row["points"].items())
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_json(report: Report) -> str:
    """The documented, stable schema (docs/growth.md), all series."""
    document = {
        "study": report.study,
        "workload": report.workload,
        "unit": report.counted.unit,
        "contexts": report.contexts,
        "series": [_flat(table, row) for table in report.tables for row in (*table.rows, table.total)],
    }
    return listing.as_json(document)


def _flat(table: Table, row: Row) -> dict[str, Any]:
    best = row.growth.best if row.growth.law else None
    predicted = row.prediction
    return {
        "variant": table.variant,
        "tasks": table.tasks,
        "series": row.series.name,
        "touched_by": row.series.what,
        "law": row.growth.law.value if row.growth.law else None,
        "a": round(best.a, 6) if best else None,
        "b": round(best.b, 9) if best else None,
        "term": best.form.term if best else None,
        "sure": round(row.growth.sure, 6) if best else None,
        "refusal": row.growth.refusal or None,
        "at": table.at,
        "predicted": round(predicted.value, 6) if predicted else None,
        "predicted_low": round(predicted.low, 6) if predicted else None,
        "predicted_high": round(predicted.high, 6) if predicted else None,
        "points": row.series.points,
        "clock_step": table.clock_step or None,
    }


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": as_csv,
    "json": as_json,
}
