"""A report as one file that opens offline: what it shows, and the little program that zooms and sorts, in it.

A page of untrusted names: all are escaped, the data is JSON that cannot end its element, and a strict policy
lets nothing run or load but what is in the file.
"""

import base64
import hashlib
import json
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bigiron.analysis.comparison.model import ComparedPoint, Row
from bigiron.analysis.comparison.profiles import Figure
from bigiron.report import growth
from bigiron.report.compare import figure_text
from bigiron.report.formats import lkp
from bigiron.report.study.document import Document
from bigiron.util.numbers import count, three_decimals

_MOST_ROWS = 300  # of a table
ENVIRONMENT = Environment(
    loader=PackageLoader("bigiron.report", "page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def as_html(document: Document) -> str:
    """The page, which needs no network."""
    style, script = Markup(style_of("page")), Markup(source("page.js"))
    return ENVIRONMENT.get_template("page.html").render(
        document=document,
        version=document.version,
        policy=policy(style, script),
        style=style,
        script=script,
        value=_value,
        headings=figure_text.headings,
        MOST=_MOST_ROWS,
        change=_change,
        growth=growth,
        as_json=embedded_json,
    )


def policy(style: str, script: str) -> str:
    """A content security policy: only the style and script in the page itself."""
    rules = [
        "default-src 'none'",
        f"style-src '{_digest(style)}'",
        f"script-src '{_digest(script)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)


def style_of(page: str) -> str:
    """A page's style sheet, after what all pages have in common."""
    return source("base.css") + source(f"{page}.css")


def source(name: str) -> str:
    """A file of the page's folder."""
    assert ENVIRONMENT.loader
    return ENVIRONMENT.loader.get_source(ENVIRONMENT, name)[0]


def _digest(source: str) -> str:
    """What the policy calls an element's content."""
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"


def _value(point: ComparedPoint, row: Row, measure: int, variant: str) -> str:
    """A figure as text has it; of what has three decimals there, as much as is worth reading."""
    form, mean = row.form or point.measures[measure].form, row.figures[measure].mean(variant)
    return count(mean) if form is three_decimals else form(mean)


def _change(figure: Figure, base: str, variant: str) -> tuple[str, str]:
    """The class of a change and its text, whose arrow says the same as the colour."""
    text = lkp.change(figure, base, variant)
    if not text:
        return "same", "="
    kind, arrow = ("more", "▲") if text.startswith("+") else ("less", "▼")
    return kind, f"{arrow} {text[1:].replace('%', ' %')}"


def embedded_json(data: Any) -> Markup:
    """Data for a script element: no text in it can end the element or begin a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
