"""A comparison in Markdown, as GitHub and most wikis render it. Every name is text."""

from collections.abc import Sequence

from bigiron.analysis.comparison.model import ComparedPoint, ComparedRow, Comparison
from bigiron.report.compare.figure_text import (
    VERDICT_ALIGN,
    caveats,
    cells_of,
    change_of,
    has_change,
    headings,
    in_columns,
    notes_on,
    verdict_notes,
    verdict_tables,
)
from bigiron.report.formats.listing import code, markdown_table, plain

_MOST_NAMES = 8


def as_markdown(comparison: Comparison) -> str:
    """All points."""
    if comparison.judged:
        return _judged(comparison)
    return "\n\n".join(_of(point) for point in comparison.points) + "\n"


def _judged(comparison: Comparison) -> str:
    """One table of verdicts for each metric, then the notes on all of them."""
    aligned = "".join("r" if align == ">" else "l" for align in VERDICT_ALIGN)
    tables = [
        f"{plain(heading)}\n\n{markdown_table(head, [map(plain, row) for row in rows], aligned)}"
        for heading, (head, *rows) in verdict_tables(comparison)
    ]
    notes = "\n".join(f"- {plain(note)}" for note in (*verdict_notes(comparison), *caveats(comparison)))
    return "\n".join([*tables, notes]) + "\n"


def _of(point: ComparedPoint) -> str:
    rows = point.rows[: point.most]
    notes = [plain(note) for note in notes_on(point, len(point.rows) - len(rows))]
    return "\n".join([plain(point.heading), "", table(point, rows), *notes]).rstrip()


def table(point: ComparedPoint, rows: Sequence[ComparedRow]) -> str:
    """A table of some rows and the sum of all rows."""
    return (_columns if in_columns(point) else _lines_of_variants)(point, rows)


def _columns(point: ComparedPoint, rows: Sequence[ComparedRow]) -> str:
    """A column for each variant, with all of its figures."""
    marks = [""] if point.legend else []
    changes = ["change"] if has_change(point) else []
    first, last = point.labels[:-1], point.labels[-1:]
    names = [*marks, point.thing, *first]
    lines = []
    for row in (*rows, *([point.total] if point.total else [])):
        labels = [*map(_label, row.labels)] or [""] * len(point.labels)
        figures = [" ".join(filter(None, cells_of(point, row, variant))) for variant in point.variants]
        change = [change_of(point, row)] if changes else []
        mark = [plain(row.mark)] if marks else []
        name = code(row.name) if point.by_symbol and row is not point.total else plain(row.name)
        name = ", ".join([name, *map(plain, row.depends)])
        lines.append(
            [*mark, name, *labels[: len(first)], *map(plain, [*figures, *change]), *labels[len(first) :]]
        )
    aligned = "l" * len(names) + "r" * (len(point.variants) + len(changes)) + "l" * len(last)
    return markdown_table([*names, *point.variants, *changes, *last], lines, aligned)


def _lines_of_variants(point: ComparedPoint, rows: Sequence[ComparedRow]) -> str:
    """A line for each row and variant, a column for each figure."""
    heads = headings(point)
    lines = [
        [
            code(row.name) if point.by_symbol else plain(row.name),
            *map(plain, [variant, *cells_of(point, row, variant)]),
        ]
        for row in rows
        for variant in point.variants
    ]
    return markdown_table([point.thing, "variant", *heads], lines, "ll" + "r" * len(heads))


def _label(names: Sequence[str]) -> str:
    """Names of kernel symbols are shown as code, names with spaces as text."""
    return ", ".join(plain(name) if " " in name else code(name) for name in names[:_MOST_NAMES] if name)
