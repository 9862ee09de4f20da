"""What `perf lock contention` prints, of perf 6.0 and later."""

from __future__ import annotations

import re
from collections import defaultdict

from bigiron.errors import UserError
from bigiron.readers.figure import Format, Reading, label, number
from bigiron.readers.profiles.profile import NANOSECONDS, ProfileText, measured, without_quotes
from bigiron.util.measured import MeasuredPart, MeasuredThing, symbol

_MARK = re.compile(
    r"^(?:\^C)? *contended +total wait +max wait +avg wait +|^# output: contended, total wait", re.MULTILINE
)
_HEADING = re.compile(r"(?:\^C)?\s*contended\s+total wait\s+max wait\s+avg wait\s+(\w+)\s+(\w+)")
_TIME = r"([\d.]+) ?(ns|us|ms|s|m|h)"
_ROW = re.compile(rf"\s*(\d+)\s+{_TIME}\s+{_TIME}\s+{_TIME}\s+(.*\S)\s*$")
_CALLER = re.compile(r"(\S+)\s+(\S.*)")
_ADDRESS = re.compile(r"(?:0x)?([0-9a-f]{8,16})(?:\s+([^\s(]\S*))?(?:\s+\((.+)\))?")
_FRAME = re.compile(r"\s*0x[0-9a-f]+\s+\S+$")
_CSV = re.compile(r"# output: contended,")
_STARTS_ROW = re.compile(r"\s*\d+\s+[\d.]+ (?:[mun]s|s|m|h)\b")


def _read(text: str) -> Reading:
    """The locks, by their types and the functions that wait, or by their names."""
    lines, by = ProfileText(without_quotes(text)), ""
    parts: dict[tuple[str, str], list[MeasuredPart]] = defaultdict(list)
    for at, written in lines:
        if found := _HEADING.match(written):
            by = _checked(found[1], at)
        elif _CSV.match(written):
            raise UserError(f"line {at}: these are values for a program: leave -x out")
        elif by and (found := _ROW.match(written)):
            lock, part = _lock(by, found, at)
            parts[lock].append(part)
        elif by and _STARTS_ROW.match(written):
            raise UserError(f"line {at}: this row of a lock ends early: is the file cut off?")
        elif not _FRAME.match(written):
            lines.skip(at, written)
    if not parts:
        raise UserError("there is no lock in it: did `perf lock contention` print no row?")
    things = [
        MeasuredThing("" if each[0].function else name, sum(part.weight for part in each), tuple(each), type)
        for (name, type), each in parts.items()
    ]
    return Reading([], measured=measured("locks", "ns waited", things, lines))


def _checked(column: str, at: int) -> str:
    if column not in ("type", "address"):
        raise UserError(
            f"line {at}: these are waits by {column}, not by lock: "
            "leave --threads, --lock-owner or --lock-cgroup out"
        )
    return column


def _lock(by: str, found: re.Match[str], at: int) -> tuple[tuple[str, str], MeasuredPart]:
    """The lock's name and type, and the function that waits for it. Callers share a lock only if named so."""
    waited = number(found[2], at, "total wait") * NANOSECONDS[found[3]]
    contended = number(found[1], at, "contended")
    whose = label(found[8], at)
    if by == "type" and (row := _CALLER.fullmatch(whose)):
        function = symbol(row[2])
        return (function, row[1]), MeasuredPart(function, waited, contended, place=row[2])
    if by == "address" and (row := _ADDRESS.fullmatch(whose)):
        name = row[2] or f"0x{row[1]}"
        return (name, row[3] or ""), MeasuredPart("", waited, contended)
    raise UserError(f"line {at}: the lock's {by} is {whose[:60]!r}")


FORMAT = Format("perf-lock", "what `perf lock contention` prints", _read, profile=_MARK)
