"""Makes text from outside harmless: a name from a guest or an imported study must not control a terminal."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from bigiron.util.lazy import polars as pl

_STEERING = re.compile(r"[^\S\n\t ]|[^\s -~]")  # all that might not be printable; most texts have none of it
_STEERING_IN_TABLES = r"[\p{C}\p{Zl}\p{Zp}]"


def sanitize(text: str) -> str:
    r"""A text with unprintable characters escaped, except line ends and tabs.

    >>> sanitize("a\x1b[31mb\u202ec, größer\n")
    'a\\x1b[31mb\\u202ec, größer\n'
    """
    return _STEERING.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else ascii(character)[1:-1]


def everywhere(document: Any, but: Collection[str] = ()) -> Any:
    """A JSON or TOML document whose texts are sanitized, except the values of some keys."""
    match document:
        case str():
            return sanitize(document)
        case dict():
            return {
                sanitize(name): value if name in but else everywhere(value, but)
                for name, value in document.items()
            }
        case list():
            return [everywhere(value, but) for value in document]
        case _:
            return document


def in_table(table: pl.DataFrame) -> pl.DataFrame:
    r"""A table whose texts are sanitized, including line ends: each cell is one line.

    >>> in_table(pl.DataFrame({"task": ["init", "a\nb"]}))["task"].to_list()
    ['init', 'a\\nb']
    """
    is_hostile = pl.col(pl.String).unique().str.contains(_STEERING_IN_TABLES).any()
    hostile = [one.name for one in table.select(is_hostile) if one.any()]
    return table.with_columns(pl.col(hostile).map_elements(_one_line, pl.String)) if hostile else table


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
