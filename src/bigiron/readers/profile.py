"""What the formats of profiles have in common: lines that are kept in mind if they were not understood."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from bigiron.errors import UserError
from bigiron.readers.figure import Reading, lines
from bigiron.util.measured import Kind, Measured, MeasuredPart, MeasuredThing

_QUOTE = re.compile(r"^(?:> ?)+", re.MULTILINE)
_SHOWN = 120  # characters of a line that was not understood
_MOST = 1000  # such lines that are kept


class Text:
    """The lines of a profile with their numbers, and those that were not understood."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.not_read: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return lines(self._text)

    def skip(self, at: int, written: str) -> None:
        """Keep in mind that a line was not understood."""
        if written.strip() and len(self.not_read) < _MOST:
            self.not_read.append((at, written.strip()[:_SHOWN]))


def without_quotes(text: str) -> str:
    r"""A text as it was before a mail quoted it.

    >>> without_quotes("> # Index\n> >   0  0x40")
    '# Index\n  0  0x40'
    """
    return _QUOTE.sub("", text)


def measured(kind: Kind, unit: str, things: Iterable[MeasuredThing], text: Text) -> Measured:
    """The profile, its largest things first."""
    ranked = sorted(things, key=lambda thing: -thing.weight)
    return Measured(kind, unit, tuple(ranked), tuple(text.not_read))


def of_functions(weights: Mapping[tuple[str, bool], float], unit: str, text: Text) -> Reading:
    """Functions by their names, and whether they are the kernel's, with their weights.

    UserError if there are none, or if most lines were not understood.
    """
    things = [
        MeasuredThing(name, weight, (MeasuredPart(name, weight, is_kernel=is_kernel),))
        for (name, is_kernel), weight in weights.items()
        if name
    ]
    if not sum(thing.weight for thing in things):
        raise UserError("no function has a share of the samples: is the file whole, and were symbols found?")
    if len(text.not_read) > max(len(things), sum(weights.values())):
        at, written = text.not_read[0]
        raise UserError(f"line {at}: most lines are not of this format, such as {written[:60]!r}")
    return Reading([], measured=measured("functions", unit, things, text))
