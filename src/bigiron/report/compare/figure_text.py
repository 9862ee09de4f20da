"""Figures, changes and notes of a comparison as text, for all of its renderers."""

import math
from collections.abc import Iterator
from itertools import groupby
from statistics import median, stdev

from bigiron.analysis.comparison.make_rows import largest_change
from bigiron.analysis.comparison.model import ComparedPoint, ComparedRow, Comparison
from bigiron.report.formats import lkp
from bigiron.util.english import plural

_MOST_BESIDE = 4  # figures per variant; where there are more, each variant has a line of its own

_VERDICT_COLUMNS = (
    "tasks",
    "CPUs",
    "variant",
    "median",
    "least to most",
    "reps",
    "ratio",
    "interval",
    "p",
    "verdict",
)
VERDICT_ALIGN = ">><>>>>>><"
"""Alignment of the columns of a table of verdicts."""


def in_columns(point: ComparedPoint) -> bool:
    """Whether each variant has a column; otherwise each row has a line per variant."""
    return len(point.columns) <= _MOST_BESIDE


def headings(point: ComparedPoint) -> list[str]:
    """The headings of the columns under each variant."""
    return [
        "/".join(filter(None, (point.measures[number].name for number in column))) for column in point.columns
    ]


def cells_of(point: ComparedPoint, row: ComparedRow, variant: str, with_spread: bool = False) -> list[str]:
    """A row's figures for one variant, one per column; on request with the spread of repetitions."""
    if variant not in row.main.values:
        return [row.missing.get(variant, "-"), *[""] * (len(point.columns) - 1)]
    return [
        "/".join(
            _figure(point, row, variant, number, with_spread)
            for number in column
            if number < len(row.figures)
        )
        for column in point.columns
    ]


def _figure(point: ComparedPoint, row: ComparedRow, variant: str, number: int, with_spread: bool) -> str:
    measure, figure = point.measures[number], row.figures[number]
    form, values = row.form or measure.form, figure.values.get(variant, ())
    if not values:
        return "-"
    shown = form(figure.mean(variant))
    match measure.beside:
        case "range" if len(values) > 1:
            return f"{shown} ({form(min(values))} to {form(max(values))})"
        case "deviation":
            spread = f" +- {form(stdev(values))}" if len(values) > 1 else ""
            ratio = figure.ratio(point.base, variant) if variant in point.others else None
            return shown + spread + (f" {ratio:+.0%}" if ratio is not None else "")
        case "change" if variant in point.others:
            return f"{shown} {lkp.change(figure, point.base, variant)}".rstrip()
    share = figure.spread(variant) if with_spread and measure.beside == "nothing" else None
    return shown + (f" +-{100 * share:.0f}%" if share is not None else "")


def has_change(point: ComparedPoint) -> bool:
    """Whether there is a column for the change of the figure by which rows are ranked."""
    if point.shows_change:
        return bool(point.others)
    changed_beside = any(measure.beside in ("change", "deviation") for measure in point.measures)
    return len(point.variants) == 2 and len(point.others) == 1 and not changed_beside


def change_of(point: ComparedPoint, row: ComparedRow) -> str:
    """The largest change of the figure by which rows are ranked; nothing where it is too small to show."""
    form = row.form or point.measures[row.rank].form
    if row.missing:
        return ""
    change = largest_change(row.main, point.base, point.others)
    shown = form(abs(change))
    is_shown = any(digit in "123456789" for digit in shown)
    return f"{'+' if change > 0 else '-'}{shown}" if is_shown else ""


def notes_on(point: ComparedPoint, cut: int) -> list[str]:
    """Notes on marks, rows not shown and missing data. `cut`: number of rows left out here."""
    notes = [f"* {point.legend}"] if point.legend and point.others else []
    if point.hidden + cut:
        more = plural(point.hidden + cut, f"more {point.more}")
        notes.append(f"{' '.join(filter(None, (more, point.more_below)))} (--format csv has all)")
    return [*notes, *point.notes, *point.caveats]


def verdict_tables(comparison: Comparison) -> Iterator[tuple[str, list[list[str]]]]:
    """The heading and the cells for each metric; the first row has the names of the columns."""
    for heading, points in groupby(comparison.points, key=lambda point: point.heading):
        cells = [list(_VERDICT_COLUMNS)]
        for point in points:
            where = [str(point.tasks), str(point.cpus)]
            for row in point.rows:
                for variant in row.main.values:
                    cells.append([*where, variant, *_verdict_cells(point, row, variant)])
                    where = ["", ""]
        yield heading, cells


def _verdict_cells(point: ComparedPoint, row: ComparedRow, variant: str) -> list[str]:
    values, form = row.main.values[variant], point.measures[0].form
    figures = [form(median(values)), f"{form(min(values))} to {form(max(values))}", str(len(values))]
    found = row.judgements.get(variant)
    if not found:
        return [*figures, "", "", "", row.missing.get(variant, "")]
    ratio = found.ratio
    interval = "-" if math.isnan(ratio.low) else f"{ratio.low:.3f} to {ratio.high:.3f}"
    p = "<0.001" if found.p < 0.001 else f"{found.p:.3f}"
    return [*figures, f"{ratio.value:.3f}", interval, p, found.in_words]


def verdict_notes(comparison: Comparison) -> list[str]:
    """Notes on the figures of all tables: what they are, their certainty, oddities."""
    return list(dict.fromkeys(note for point in comparison.points for note in point.notes))


def caveats(comparison: Comparison) -> list[str]:
    """Warnings with their place: missing data, differing machines."""
    found = [
        one if one == point.missing else f"{point.where}: {one}"
        for point in comparison.points
        for one in point.caveats
    ]
    return list(dict.fromkeys(found))
