"""What `perf report --stdio` prints, and `perf top --stdio`: functions by their share of the samples."""

from __future__ import annotations

import re

from bigiron.errors import UserError
from bigiron.readers.figure import Format, Reading, label, number
from bigiron.readers.profiles.profile import Text, of_functions, without_quotes
from bigiron.util.measured import symbol

_ROW = re.compile(r"\s*([\d.]+)%\s+(?:([\d.]+)%\s+)?([^\[%|;]*(?:\[[\w.]+\][^\[]*)?)\[(.)\] (\S+)")
_MARK = re.compile(r"^[> \t]*\d+\.\d+%\s+(?:\d+\.\d+%\s+)?[^%|;\n]*\[[k.]\] \S", re.MULTILINE)
_EVENT = re.compile(r"# Samples: \S+\s+of event '(.+?)'")
_SKIPPED = re.compile(r"\s*(#|$|[|-]|\d+\.\d+%\s*(--|\S+;)|[\w.<>]+\s*$)|.*--\S+$|[\s|]*$")
_STARTS_ROW = re.compile(r"\s*[\d.]+%\s*(\S*\s*){0,2}$")


def _read(text: str) -> Reading:
    """The share that each function has of the first event's samples, without its callees."""
    lines = Text(without_quotes(text))
    shares: dict[tuple[str, bool], float] = {}
    events: list[str] = []
    for at, written in lines:
        if event := _EVENT.match(written.strip()):
            events.append(event[1])
        if len(events) > 1:
            lines.skip(at, written)
        elif found := _ROW.match(written):
            share = number(found[2] or found[1], at, "overhead")
            of = symbol(label(found[5], at)), found[4] in "kg"
            shares[of] = shares.get(of, 0.0) + share
        elif not _SKIPPED.match(written):
            if _STARTS_ROW.match(written):
                raise UserError(f"line {at}: this row of a function ends early: is the file cut off?")
            lines.skip(at, written)
    return of_functions(shares, "% of the samples", lines)


FORMAT = Format("perf-report", "what `perf report --stdio` prints", _read, profile=_MARK)
