"""What a page of the site is made of, and its files: HTML, and the same data as JSON and CSV."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

import bigiron
from bigiron.analysis.comparison import paths
from bigiron.report.formats.html import embedded_json
from bigiron.report.site import address, words
from bigiron.util import numbers
from bigiron.util.english import plural

# Scripts and styles lie beside the pages: written into each of a thousand they would be most of the site.
_POLICY = (
    "default-src 'none'; style-src 'self' file:; script-src 'self' file:; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
_ENVIRONMENT = Environment(
    loader=ChoiceLoader([PackageLoader("bigiron.report", folder) for folder in ("site/templates", "page")]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Answers:
    """The answers at the top of every page."""

    measured: str
    why: Sequence[str]
    ignore: str  # Yes, No, or what else
    because: str


@dataclass(frozen=True)
class SitePage:
    """A page, and the rows of the data beside it."""

    address: str  # without its ending
    title: str
    template: str
    values: Mapping[str, Any]
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    about: Mapping[str, Any] = field(default_factory=dict)  # what the JSON has besides


def files(page: SitePage, kernels: str) -> Iterator[tuple[str, bytes]]:
    """A page's files by their addresses."""
    yield f"{page.address}.html", _html(page, kernels).encode()
    document = {"title": page.title, **page.about, "columns": page.columns, "rows": page.rows}
    yield f"{page.address}.json", (json.dumps(document, separators=(",", ":")) + "\n").encode()


def _html(page: SitePage, kernels: str) -> str:
    return _ENVIRONMENT.get_template(page.template).render(
        page=page,
        root="../" * page.address.count("/"),
        file=page.address.rpartition("/")[2],
        policy=_POLICY,
        version=bigiron.__version__,
        kernels=kernels,
        address=address,
        words=words,
        numbers=numbers,
        plural=plural,
        without_entry=paths.short,
        as_json=embedded_json,
        **page.values,
    )
