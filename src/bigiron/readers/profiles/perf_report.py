"""What `perf report --stdio` prints, and `perf top --stdio`: functions by their share of the samples."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bigiron.errors import UserError
from bigiron.readers.figure import Format, Reading, label, number
from bigiron.readers.profiles.profile import ProfileText, SampledEvent, of_events, without_quotes

_SHARES = r"((?:\d+\.\d+%[ \t]+)+)"
_ROW = re.compile(rf"\s*{_SHARES}([^\[%|;]*(?:\[[\w.]+\][^\[]*)?)\[(.)\] (\S+)")
_MARK = re.compile(rf"^[> \t]*{_SHARES}[^%|;\n]*\[[k.]\] \S", re.MULTILINE)
_EVENT = re.compile(r"# Samples: (\d+)([KMG]?)\s+of events? '(.+?)'")
_GROUP = re.compile(r".* \{ (.+) \}")
_HEADING = re.compile(r"#\s*(Overhead|Children\s+Self)\s")
_WEIGHTS = re.compile(r"# Total weight|#.*\sMemory access\s")
_SKIPPED = re.compile(r"\s*(#|$|[|-]|\d+\.\d+%\s*(--|\S+;|$)|[\w.<>]+\s*$)|.*--\S+$|[\s|]*$")
_STARTS_ROW = re.compile(r"\s*[\d.]+%\s*(\S*\s*){0,2}$")
_TIMES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


@dataclass
class _ReportPart:
    """The part of a report that is of an event, or of a group of events."""

    events: list[SampledEvent]
    column: int | None = None  # of the functions' own shares, from 0; None: the part has no heading

    def add_row(self, found: re.Match[str], at: int) -> None:
        """A function's own shares: one of each event, side by side in one column."""
        shares = found[1].split()
        column = len(shares) > 1 and len(self.events) == 1 if self.column is None else self.column
        own = shares[column * len(self.events) :]
        if len(own) < len(self.events):
            raise UserError(f"line {at}: this row has fewer shares than its heading says: is it cut off?")
        for event, share in zip(self.events, own, strict=False):
            event.add(label(found[4], at), found[3] in "kg", number(share.rstrip("%"), at, "overhead"))


def _read(text: str) -> Reading:
    """The share that each function has of one event's samples, without its callees."""
    lines = ProfileText(without_quotes(text))
    parts = [_ReportPart([SampledEvent()])]
    for at, written in lines:
        if of_event := _EVENT.match(written.strip()):
            parts.append(_part(of_event, at))
        elif heading := _HEADING.match(written.strip()):
            parts[-1].column = int(heading[1] != "Overhead")
        elif _WEIGHTS.match(written.strip()):
            raise UserError(f"line {at}: these are weights of `perf mem report`: print `perf script` instead")
        elif found := _ROW.match(written):
            parts[-1].add_row(found, at)
        elif not _SKIPPED.match(written):
            if _STARTS_ROW.match(written):
                raise UserError(f"line {at}: this row of a function ends early: is the file cut off?")
            lines.skip(at, written)
    return of_events([event for part in parts for event in part.events], "% of the samples", lines)


def _part(found: re.Match[str], at: int) -> _ReportPart:
    group = _GROUP.fullmatch(found[3])
    names = group[1].split(", ") if group else [found[3]]
    return _ReportPart([SampledEvent(label(name, at), float(found[1]) * _TIMES[found[2]]) for name in names])


FORMAT = Format("perf-report", "what `perf report --stdio` prints", _read, profile=_MARK)
