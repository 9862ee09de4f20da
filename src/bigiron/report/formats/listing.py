"""A list as a table for people, as CSV and as JSON."""

import csv
import io
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table


class Listing:
    """Rows of the same columns; a column has a name, which CSV and JSON have, and a heading."""

    def __init__(
        self,
        columns: Mapping[str, str] | Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        width: int = 200,
    ) -> None:
        self.columns = columns if isinstance(columns, Mapping) else {name: name for name in columns}
        self.rows = [tuple(row) for row in rows]
        self._width = width

    def as_text(self) -> str:
        """As wide as the terminal; in a pipe `width` columns, where longer cells are wrapped."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in self.columns.values():
            table.add_column(heading, overflow="fold")
        for row in self.rows:
            table.add_row(*(escape("" if cell is None else str(cell)) for cell in row))
        console = Console(highlight=False, width=None if sys.stdout.isatty() else self._width)
        with console.capture() as text:
            console.print(table)
        return "".join(f"{line.rstrip()}\n" for line in text.get().splitlines())

    def as_csv(self) -> str:
        """One line a row."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return out.getvalue()

    def as_json(self) -> str:
        """One object a row."""
        return json_text(self.as_dicts())

    def as_dicts(self) -> list[dict[str, object]]:
        """One for each row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def markdown_table(headings: Sequence[str], rows: Iterable[Iterable[str]], align: str = "") -> str:
    r"""A table as GitHub and most wikis render it. A cell is Markdown; `align` has `l` or `r` a column.

    >>> print(markdown_table(["function", "calls"], [[code("a|b"), "2"]], "lr"), end="")
    | function | calls |
    |---|--:|
    | `a\|b` | 2 |
    """
    rules = ["--:" if column == "r" else "---" for column in align or "l" * len(headings)]
    lines = [f"| {' | '.join(plain(heading) for heading in headings)} |", f"|{'|'.join(rules)}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def plain(text: str) -> str:
    r"""A text in Markdown that is to be read as it is, whatever is in it.

    >>> print(plain("<script> a|b *c*"))
    &lt;script> a\|b \*c\*
    """
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")


def code(text: str) -> str:
    """A name in Markdown, in a cell of a table too."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    around = " " if "`" in text else ""
    return f"{fence}{around}{text}{around}{fence}".replace("|", "\\|")


def json_text(document: object) -> str:
    """A document as JSON that people can read too."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


FORMATS = {"text": Listing.as_text, "csv": Listing.as_csv, "json": Listing.as_json}
