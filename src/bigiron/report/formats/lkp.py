"""Figures of two variants as the kernel test robot's mails lay them out: base, change, new, and what."""

import textwrap
from collections.abc import Iterable, Iterator

from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.util.numbers import count

LEAST = 0.0005
"""Of a figure: what shows in three decimals."""

_BASE, _CHANGE, _NEW = 13, 9, 14  # widths of the columns
_NAME = _BASE + _CHANGE + _NEW + 2  # where the last begins


def head(base: str, new: str, figures: str = "mean +- sd") -> list[str]:
    """Names of the variants, cut where they are too long, above a rule; what the figures are below it."""
    rest = _CHANGE + _NEW - 1
    return [
        f"{_cut(base, _BASE):>{_BASE}} {_cut(new, rest):>{rest}}",
        f"{'-' * _BASE} {'-' * rest}",
        f"{figures:>{_BASE}}{'change':>{_CHANGE}}{figures:>{_NEW}}",
    ]


def lines(
    figures: Iterable[ComparedFigure], base: str, new: str, width: int, as_stacks: bool = False
) -> Iterator[str]:
    """A line a figure; its name comes last, as it may be long.

    A stack is shown as perf shows it, a function a line, innermost first.
    """
    for figure in figures:
        changed = f"{change(figure, base, new):>{_CHANGE}}"
        numbers = f"{value(figure, base):>{_BASE}}{changed}{value(figure, new):>{_NEW}}"
        if as_stacks:
            yield from (numbers, *(f"{'':8}{frame}" for frame in reversed(figure.name.split(";"))), "")
            continue
        name, *more = textwrap.wrap(figure.name, width - _NAME, break_long_words=False) or [""]
        yield f"{numbers}  {name}"
        yield from (f"{'':{_NAME}}{rest}" for rest in more)


def change(figure: ComparedFigure, base: str, new: str) -> str:
    """In percent; of what is only on one side, in its own unit.

    >>> change(ComparedFigure("f", {"old": (4.0,), "new": (1.0,)}), "old", "new")
    '-75.0%'
    >>> change(ComparedFigure("f", {"new": (1.0,)}), "old", "new")
    '+1.000'
    """
    ratio = figure.ratio(base, new)
    if ratio is not None:
        return f"{100 * ratio:+.1f}%" if abs(ratio) >= 5e-4 else ""
    difference = figure.change(base, new)
    return (
        f"{'+' if difference > 0 else '-'}{count(abs(difference))}"
        if count(difference) not in ("0", "0.000")
        else ""
    )


def value(figure: ComparedFigure, variant: str) -> str:
    spread = figure.spread(variant)
    return count(figure.mean(variant)) + ("       " if spread is None else f" +-{100 * spread:3.0f}%")


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else f"..{name[2 - width :]}"
