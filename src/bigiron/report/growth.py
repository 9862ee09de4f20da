"""What `bigiron growth` shows: cache lines or functions that grow with the CPUs, worst first."""

import csv
import io
import textwrap
from collections.abc import Callable
from typing import Any

from bigiron.report.formats import listing
from bigiron.report.formats.listing import code, plain
from bigiron.results.growth import SIMULATION, GrowthReport, GrowthRow, GrowthTable
from bigiron.util.english import first_n

_FAR = 16  # times the largest measured CPU count: a prediction further away has a warning
_WIDTH = 100
_NAME, _MEASURED, _LAW, _SURE = 26, 16, 22, 7  # widths of the text's columns
_MOST_FUNCTIONS = 4
_INDENT = " " * 6


def as_text(report: GrowthReport) -> str:
    """For a terminal or a mail: at most 100 columns."""
    return "\n\n".join(_text_of(report, table) for table in report.tables) + "\n"


def _text_of(report: GrowthReport, table: GrowthTable) -> str:
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


def _heading(report: GrowthReport, table: GrowthTable) -> str:
    counts = ", ".join(map(str, table.cpus))
    contexts = f"{' and '.join(report.contexts)} context; counts, not times"
    return (
        f"{report.workload} on {table.variant}, {table.tasks}, at {counts} CPUs: how the "
        f"{table.counted.what} grow with the number N of CPUs "
        f"({'simulated' if table.counted is SIMULATION else contexts})"
    )


def notes_on(table: GrowthTable) -> list[str]:
    """Notes below a table."""
    notes = []
    if not table.growing:
        notes.append(f"No {table.counted.thing} grows.")
    if table.growing or table.total.growth.grows:
        notes.append("predicted: by the law; in parentheses the range of 95 % of all laws' predictions")
    notes += warnings(table)
    hidden = len(table.rows) - len(table.growing) - len(table.standing)
    if hidden:
        notes.append(f"{hidden} more {table.counted.thing}s are small or do not grow (--format csv has all)")
    if table.standing:
        notes.append("Large but not growing, or without a law:")
    return notes


def warnings(table: GrowthTable) -> list[str]:
    """Reasons to trust the figures less."""
    notes = []
    if table.at > _FAR * table.cpus[-1]:
        notes.append(
            f"{table.at} CPUs are {table.at // table.cpus[-1]} times the largest measured count: the "
            "intervals do not cover what may change in between"
        )
    if table.total.growth.refusal:
        notes.append(f"{table.counted.total}: no law: {table.total.growth.refusal}")
    if table.clock_step:
        notes.append(table.clock_step)
    notes += table.incomplete
    if table.lost and not table.incomplete:  # cells of before their losses had words
        notes.append(f"the recorder lost {table.lost} counts for lack of room: the counts are too low")
    return notes


def standing(row: GrowthRow) -> str:
    """A row that does not grow, in words."""
    law = f"constant, {row.growth.best.formula}" if row.growth.law else row.growth.refusal
    by = f" ({_touched_by(row)})" if row.series.what else ""
    return f"{row.series.name}{by}: {law}"


def in_words(row: GrowthRow) -> tuple[str, str, str]:
    """The law, its certainty, the prediction."""
    if not row.prediction:
        return "none", "", ""
    return row.growth.best.formula, _sure(row.growth.sure), str(row.prediction)


def _sure(share: float) -> str:
    return next((f">{high} %" for high in (99.9, 99) if share > high / 100), f"{100 * share:.0f} %")


def measured_range(row: GrowthRow) -> str:
    """The first and the last count."""
    counts = sorted(row.series.points)
    first, last = row.series.points[counts[0]], row.series.points[counts[-1]]
    exact = f"{first:.3f} - {last:.3f}"
    return exact if len(exact) <= _MEASURED else f"{first:.1f} - {last:.1f}"


def _touched_by(row: GrowthRow) -> str:
    return first_n(row.series.what.split(", "), _MOST_FUNCTIONS)


def as_markdown(report: GrowthReport) -> str:
    """Tables as GitHub and most wikis render them."""
    return "\n\n".join(_markdown_of(report, table) for table in report.tables) + "\n"


def _markdown_of(report: GrowthReport, table: GrowthTable) -> str:
    rows = []
    for row in (*table.growing, table.total):
        functions = ", ".join(code(name) for name in _touched_by(row).split(", ") if name)
        rows.append([*map(plain, (row.series.name, measured_range(row), *in_words(row))), functions])
    measured = f"at {table.cpus[0]} - {table.cpus[-1]} CPUs"
    headings = [table.counted.thing, measured, "law", "sure", f"predicted at {table.at}", "touched by"]
    lines = [plain(_heading(report, table)), "", listing.markdown_table(headings, rows, "lrlrrl")]
    lines += [f"{plain(note)}\n" for note in notes_on(table)]
    lines += [f"- {plain(standing(row))}" for row in table.standing]
    return "\n".join(lines).rstrip()


def as_csv(report: GrowthReport) -> str:
    """One line per series (docs/reference/schema.md)."""
    out = io.StringIO()
    rows = [_flat(table, row) for table in report.tables for row in (*table.rows, table.total)]
    for row in rows:
        row["points"] = " ".join(f"{cpus}:{value}" for cpus, value in row["points"].items())
        row["warnings"] = "; ".join(row["warnings"])
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_json(report: GrowthReport) -> str:
    """The documented, stable schema (docs/reference/schema.md), all series."""
    document = {
        "study": report.study,
        "workload": report.workload,
        "unit": report.counted.unit,
        "contexts": report.contexts,
        "series": [_flat(table, row) for table in report.tables for row in (*table.rows, table.total)],
    }
    return listing.json_text(document)


def _flat(table: GrowthTable, row: GrowthRow) -> dict[str, Any]:
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
        "lost": table.lost,
        "warnings": warnings(table),
    }


FORMATS: dict[str, Callable[[GrowthReport], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
