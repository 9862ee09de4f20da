"""A study's report as one page that opens offline, with the little program in it that zooms and sorts."""

from bigiron.analysis.comparison.model import ComparedPoint, ComparedRow
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.report import growth
from bigiron.report.compare import figure_text
from bigiron.report.formats import lkp
from bigiron.report.formats.html import embedded_json, rendered
from bigiron.report.study.document import StudyDocument
from bigiron.util.numbers import count, three_decimals

_MOST_ROWS = 300  # of a table


def as_html(document: StudyDocument) -> str:
    """The page, which needs no network."""
    return rendered(
        "page",
        document=document,
        version=document.version,
        value=_value,
        headings=figure_text.headings,
        MOST=_MOST_ROWS,
        change=_change,
        growth=growth,
        as_json=embedded_json,
    )


def _value(point: ComparedPoint, row: ComparedRow, measure: int, variant: str) -> str:
    """A figure as text has it; of what has three decimals there, as much as is worth reading."""
    form, mean = row.form or point.measures[measure].form, row.figures[measure].mean(variant)
    return count(mean) if form is three_decimals else form(mean)


def _change(figure: ComparedFigure, base: str, variant: str) -> tuple[str, str]:
    """The class of a change and its text, whose arrow says the same as the colour."""
    text = lkp.change(figure, base, variant)
    if not text:
        return "same", "="
    kind, arrow = ("more", "▲") if text.startswith("+") else ("less", "▼")
    return kind, f"{arrow} {text[1:].replace('%', ' %')}"
