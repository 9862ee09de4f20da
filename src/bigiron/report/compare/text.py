"""A comparison for a terminal or a mail: at most 100 columns with up to two variants."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from bigiron.analysis.comparison import profiles
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
from bigiron.report.formats import lkp
from bigiron.report.formats.columns import aligned, widths_of

_WIDTH = 100
_LEAST_NAME = 32  # columns that names have at least, whatever the figures need
_GAP = 2


def as_text(comparison: Comparison) -> str:
    """All points."""
    if comparison.judged:
        return _judged(comparison)
    lay_out = _pairs if comparison.pairwise else _table
    points = (
        "\n".join(line.rstrip() for line in lay_out(comparison, point)).rstrip("\n")
        for point in comparison.points
    )
    return "\n\n".join(points) + "\n"


def _wrapped(words: str, indent: str = "", later: str = "") -> list[str]:
    return textwrap.wrap(words, _WIDTH, initial_indent=indent, subsequent_indent=later or indent)


# Verdicts


def _judged(comparison: Comparison) -> str:
    """All verdicts on one metric in one table, and after the last what must be known of them."""
    blocks = []
    for heading, cells in verdict_tables(comparison):
        lines = (line.rstrip() for line in aligned(cells, VERDICT_ALIGN))
        blocks.append([*_wrapped(heading), "", *lines])
    blocks.append(
        [
            line
            for note in (*verdict_notes(comparison), *caveats(comparison))
            for line in _wrapped(note, later="  ")
        ]
    )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


# A table


@dataclass(frozen=True)
class _TextLine:
    """A line of a table before the widths of the columns are known."""

    name: str
    cells: list[list[str]]  # by variant (one list in a line of a single variant) and column
    change: str = ""
    beneath: list[str] = field(default_factory=list)


def _table(comparison: Comparison, point: ComparedPoint) -> Iterator[str]:
    yield from _wrapped(point.heading)
    yield ""
    rows = point.rows[: point.most]
    yield from (_columns if in_columns(point) else _lines_of_variants)(comparison, point, rows)
    if notes := notes_on(point, len(point.rows) - len(rows)):
        yield ""
    for note in notes:
        yield from _wrapped(note, later="  ")
    for appendix in point.appendices:
        yield ""
        yield from _wrapped(appendix.title, later="  ")
        yield from appendix.lines


def _columns(comparison: Comparison, point: ComparedPoint, rows: Sequence[ComparedRow]) -> Iterator[str]:
    """A column for each variant."""
    heads, mark = headings(point), _mark(point, None)
    heading = "change" if has_change(point) else ""
    lines: list[_TextLine] = []
    section = None
    for row in rows:
        if row.section != section and len(heads) > 1:
            section = row.section
            lines.append(_TextLine(mark + (section or point.thing), [heads] * len(point.variants), heading))
        cells = [cells_of(point, row, variant) for variant in point.variants]
        change = change_of(point, row) if heading else ""
        lines.append(
            _TextLine(_mark(point, row) + row.name, cells, change, list(_beneath(comparison, point, row)))
        )
    if point.total:
        cells = [cells_of(point, point.total, variant) for variant in point.variants]
        change = change_of(point, point.total) if heading else ""
        lines.append(_TextLine(mark + point.total.name, cells, change))
    if comparison.paths and any(row.ways for row in rows):
        lines[0].beneath.append(" " * 6 + f"{point.ranked_by} by call path: {', '.join(point.variants)}")
    yield from _laid_out(lines, point.variants, heading if len(heads) == 1 else "")


def _lines_of_variants(
    comparison: Comparison, point: ComparedPoint, rows: Sequence[ComparedRow]
) -> Iterator[str]:
    """A line for each row and variant, where there are too many figures for a column per variant."""
    width = max(map(len, point.variants))
    lines = [_TextLine(point.thing, [[" " * width, *headings(point)]])]
    for row in rows:
        for number, variant in enumerate(point.variants):
            name = "" if number else row.name
            lines.append(_TextLine(name, [[f"{variant:{width}}", *cells_of(point, row, variant)]]))
        lines[-1].beneath.extend(_beneath(comparison, point, row))
    yield from _laid_out(lines, ())


def _laid_out(lines: Sequence[_TextLine], variants: Sequence[str], change: str = "") -> Iterator[str]:
    """Columns as wide as their cells; a name that leaves no room for the figures has its own line."""
    of_lines = [cells for line in lines for cells in line.cells]
    widths = [width + _GAP for width in widths_of(of_lines)]
    group = max([sum(widths), *(len(variant) + _GAP for variant in variants)])
    after = max((len(line.change) for line in lines), default=0)
    change = change if after else ""
    after = max(after, len(change))
    after += _GAP if after else 0
    figures_width = group * max((len(line.cells) for line in lines), default=1)
    if _WIDTH - after - figures_width < _LEAST_NAME:  # no room for changes
        lines, change, after = [replace(line, change="") for line in lines], "", 0
    room = _WIDTH - after - figures_width
    names = max(_LEAST_NAME, min(room, max((len(line.name) for line in lines), default=0)))
    if variants:
        yield " " * names + "".join(f"{variant:>{group}}" for variant in variants) + f"{change:>{after}}"
    for line in lines:
        name = line.name
        if len(name) > names:
            yield from _wrapped(name, later="    ")
            name = ""
        figures = (
            "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)).rjust(group)
            for cells in line.cells
        )
        yield f"{name:{names}}{''.join(figures)}{line.change:>{after}}"
        yield from line.beneath


def _mark(point: ComparedPoint, row: ComparedRow | None) -> str:
    """The mark before a name, where exact counts are compared."""
    if not point.legend:
        return ""
    return f"{row.mark if row else '':2}"


def _beneath(comparison: Comparison, point: ComparedPoint, row: ComparedRow) -> Iterator[str]:
    """The notes on a row and its call paths, wrapped where they are too long."""
    for caption in (*row.depends, *row.caption):
        yield from _wrapped(caption, " " * 6)
    for way in row.ways[: comparison.paths]:
        figures = " ".join(f"{way.mean(variant):7.3f}" for variant in point.variants)
        later = " " * (8 + len(figures))
        yield from _wrapped(way.name.replace(";", "; "), f"      {figures}  ", later)


# Each variant against the base


def _pairs(comparison: Comparison, point: ComparedPoint) -> Iterator[str]:
    """Each variant against the base, in the layout of the kernel test robot."""
    yield from _wrapped(point.heading)
    figures = [row.main for row in point.rows]
    for new in point.others or (point.base,):
        here = [one for one in figures if max(one.mean(point.base), one.mean(new)) >= lkp.LEAST]
        shown = profiles.ranked(here, point.base, [new])[: point.most]
        yield ""
        yield from lkp.head(point.base, new, "mean +- sd" if point.repeated else point.ranked_by)
        yield from lkp.lines(shown, point.base, new, _WIDTH, as_stacks=point.thing == "chain")
        if len(here) > len(shown):
            yield f"{len(here) - len(shown)} more (--format csv has all)"
    yield from (line for note in point.caveats for line in ("", *_wrapped(note)))
