"""What the renderers of a comparison have in common: its figures, changes and notes as text."""

from statistics import stdev

from bigiron.analysis.comparison import Point, Row, largest_change

_MOST_BESIDE = 4  # columns a variant; with more of them the variants stand one below the other


def stand_beside(point: Point) -> bool:
    """Whether the variants stand beside each other; else each row has a line for each."""
    return len(point.columns) <= _MOST_BESIDE


def headings(point: Point) -> list[str]:
    """Of the columns under each variant."""
    return ["/".join(point.measures[number].name for number in column) for column in point.columns]


def cells_of(point: Point, row: Row, variant: str) -> list[str]:
    """A row's figures of one variant, one for each column."""
    if variant not in row.main.values:
        return ["-", *[""] * (len(point.columns) - 1)]
    return [
        "/".join(_figure(point, row, variant, number) for number in column if number < len(row.figures))
        for column in point.columns
    ]


def _figure(point: Point, row: Row, variant: str, number: int) -> str:
    measure, figure = point.measures[number], row.figures[number]
    form, values = row.form or measure.form, figure.values.get(variant, ())
    if not values:
        return "-"
    shown = form(figure.mean(variant))
    match measure.spread:
        case "range" if len(values) > 1:
            return f"{shown} ({form(min(values))} to {form(max(values))})"
        case "deviation":
            spread = f" +- {form(stdev(values))}" if len(values) > 1 else ""
            ratio = figure.ratio(point.base, variant) if variant in point.others else None
            return shown + spread + (f" {ratio:+.0%}" if ratio is not None else "")
    return shown


def change_of(point: Point, row: Row) -> str:
    """The largest change of the figure by which rows are ranked; nothing where it is too small to show."""
    form = row.form or point.measures[row.rank].form
    change = largest_change(row.main, point.base, point.others)
    shown = form(abs(change))
    return f"{'+' if change > 0 else '-'}{shown}" if float(shown) else ""


def notes_on(point: Point, cut: int) -> list[str]:
    """What marks mean, what is not shown, and what is missing. `cut`: rows that were left out here."""
    notes = [f"* {point.legend}"] if point.legend and point.others else []
    if point.hidden + cut:
        notes.append(f"{point.hidden + cut} more {point.more} (--format csv has all)")
    return [*notes, *point.notes, *point.lost]
