"""Rows of text in columns that are as wide as their widest cell."""

from collections.abc import Iterator, Sequence


def widths_of(rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column. All rows have as many cells."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def aligned(rows: Sequence[Sequence[str]], align: str = "") -> Iterator[str]:
    """Each row as a line, with two spaces between columns; `align` has `<` or `>` per column, else all `>`.

    >>> list(aligned([["function", "calls"], ["fput", "12"]], "<>"))
    ['function  calls', 'fput         12']
    """
    widths = widths_of(rows)
    form = "  ".join(
        f"{{:{side}{width}}}" for side, width in zip(align or ">" * len(widths), widths, strict=True)
    )
    return (form.format(*row) for row in rows)
