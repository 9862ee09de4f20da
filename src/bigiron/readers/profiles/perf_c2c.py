"""What `perf c2c report --stdio` prints, of perf 4.10 and later."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bigiron.errors import UserError
from bigiron.readers.figure import Format, Reading, label, number
from bigiron.readers.profiles.profile import ProfileText, measured, without_quotes
from bigiron.util.measured import MeasuredPart, MeasuredThing, symbol

_PARETO = "Shared Cache Line Distribution Pareto"
_MARK = re.compile(rf"{_PARETO}|^[#> \t]*Num +\w+ +\w+ +L1 Hit", re.MULTILINE)
_SECTION = re.compile(
    r"Trace Event Information|Global Shared Cache Line Event Information|c2c details"
    rf"|Shared Data Cache Line Table|{_PARETO}"
)
_FACT = re.compile(r"\s*[\w()/ -]*\s: +\S")
_ROW_OF_TABLE = re.compile(r"\s*\d+\s+0x[0-9a-f]+\s+\S")
_RULER = re.compile(r"\s*([=#]|-{20,}|\.{3,}\s*$)|\s*$")
_COLUMNS = re.compile(r"#\s+Num\s+(.*?)\s+Offset\s")
_LINE = re.compile(r"\s*(\d+)((?:\s+[^\s%]+){4,7})\s+(0x[0-9a-f]+)\s*$")
_ROW = re.compile(
    r"\s*((?:(?:-?[\d.]+%|N/A)\s+){4,7})(0x[0-9a-f]+)\s+(?:\S+\s+)*?(0x[0-9a-f]+)"
    r"((?:\s+(?:\d+|N/A)){4,6})\s+\[(.)\] (.+)$"
)
_STARTS_ROW = re.compile(r"\s*(-?[\d.]+%|N/A)\s+(-?[\d.]+%|N/A)")
_NOT_KNOWN = "N/A"
_FRAME = re.compile(r"[\s|]*(-*(?:[\d.]+%-*)?)([\w.$:~<>]+|\[unknown\])\s*$")
_WITHOUT_RECORDS = 4  # figures behind the instruction, before perf of Linux 4.15
_TRANSFERS = {"RmtHitm", "LclHitm", "Rmt", "Lcl", "Peer"}
"""Columns with loads that another cache answered; those of stores are called after a level, or N/A."""

_STORES = ("L1 Hit", "L1 Miss", "N/A", "Any Lvl")


@dataclass
class _C2cLine:
    """A cache line while it is read: its counts by column, and its rows."""

    address: str
    counts: list[float]
    parts: list[MeasuredPart] = field(default_factory=list)
    callers: list[str] = field(default_factory=list)  # of the last row
    in_chain: bool = False
    branch: int | None = None  # where the chain's last branch stands; -1 behind the first path


@dataclass
class _Report:
    """The state between two lines of a report."""

    columns: Sequence[str] = ()  # of the counts; empty where the report was cut without its heading
    found: list[_C2cLine] = field(default_factory=list)


def _read(text: str) -> Reading:
    """The cache lines of the Pareto table, each with the instructions that touch it."""
    lines = ProfileText(without_quotes(text))
    report = _Report()
    for at, written in lines:
        if not (_taken(report, at, written) or _is_known(written)):
            lines.skip(at, written)
    for line in report.found:
        _finish_chain(line)
    things = [_thing(line, report.columns) for line in report.found]
    if not things or not any(thing.parts for thing in things):
        raise UserError(
            f"there is no cache line in a table {_PARETO!r}: "
            "is it all that `perf c2c report --stdio` prints, with LC_ALL=C?"
        )
    return Reading([], measured=measured("cache lines", "loads answered by another cache", things, lines))


def _taken(report: _Report, at: int, written: str) -> bool:
    """Whether the line is one of the Pareto table."""
    if columns := _COLUMNS.search(written):
        report.columns = _names(columns[1])
    elif found := _LINE.match(written):
        counts = [_number(count, at, "a count of the cache line") for count in found[2].split()]
        report.found.append(_C2cLine(found[3], counts))
    elif _STARTS_ROW.match(written):
        if not report.found:
            raise UserError(
                f"line {at}: this row is of no cache line: is the beginning of the table missing?"
            )
        _add_row(report, at, written)
    else:
        return bool(report.found) and _in_chain(report.found[-1], written)
    return True


def _number(text: str, at: int, what: str) -> float:
    return 0.0 if text == _NOT_KNOWN else number(text, at, what)


def _names(columns: str) -> list[str]:
    """The counts' columns in the heading of the table.

    >>> _names("RmtHitm  LclHitm   L1 Hit  L1 Miss      N/A")
    ['RmtHitm', 'LclHitm', 'L1 Hit', 'L1 Miss', 'N/A']
    """
    return re.findall("|".join((*_STORES, r"\S+")), columns)


def _add_row(report: _Report, at: int, written: str) -> None:
    line = report.found[-1]
    _finish_chain(line)
    found = _ROW.match(written)
    if not found:
        raise UserError(
            f"line {at}: this row of a cache line has no instruction and function: is the file cut off? "
            "(a report that is grouped needs --coalesce iaddr)"
        )
    shares = [_number(share.rstrip("%"), at, "a share") / 100 for share in found[1].split()]
    if len(shares) != len(line.counts):
        raise UserError(
            f"line {at}: {len(shares)} shares of a cache line with {len(line.counts)} counts: is it cut off?"
        )
    called, _object, place = (*re.split(r"\s{2,}", found[6].strip()), "", "")[:3]
    transfers, stores = _sums(
        [share * count for share, count in zip(shares, line.counts, strict=True)], report
    )
    figures = found[4].split()
    records = figures[-2] if len(figures) > _WITHOUT_RECORDS else _NOT_KNOWN
    is_kernel = found[5] in "kg"
    part = MeasuredPart(
        symbol(label(called, at)) if is_kernel else label(called, at),
        transfers,
        _number(records, at, "total records"),
        stores,
        int(found[2], 16),
        place,
        is_kernel=is_kernel,
    )
    line.parts.append(part)
    line.in_chain = True


def _sums(values: Sequence[float], report: _Report) -> tuple[float, float]:
    """The loads that another cache answered, and the stores."""
    columns = (
        report.columns if len(report.columns) == len(values) else ("Rmt", "Lcl", *_STORES)[: len(values)]
    )
    named = list(zip(columns, values, strict=True))
    return (
        sum(value for name, value in named if name in _TRANSFERS),
        sum(value for name, value in named if name in _STORES),
    )


def _in_chain(line: _C2cLine, written: str) -> bool:
    """Whether it is part of the call chain below a row; the first path is kept."""
    if not (line.in_chain and line.parts):
        return False
    if not written.strip():
        _finish_chain(line)
        return True
    found = _FRAME.fullmatch(written)
    if found and found[1]:
        first = line.branch is None or line.branch < found.start(1)
        line.branch = found.start(1) if first and line.branch != -1 else -1
    if found and line.branch != -1 and not found[2].startswith("0x"):
        line.callers.append(symbol(found[2]))
    return bool(found) or not written.strip(" |")


def _finish_chain(line: _C2cLine) -> None:
    if line.callers:
        callers = tuple(name for name in line.callers[1:] if name)
        line.parts[-1] = replace(line.parts[-1], callers=callers)
    line.callers, line.in_chain, line.branch = [], False, None


def _is_known(written: str) -> bool:
    """Whether it is a line of the report that says nothing of a cache line's instructions."""
    known = (_SECTION.search, _RULER.match, _FACT.match, _ROW_OF_TABLE.match)
    return any(find(written) for find in known)


def _thing(line: _C2cLine, columns: Sequence[str]) -> MeasuredThing:
    transfers, _stores = _sums(line.counts, _Report(columns))
    return MeasuredThing(line.address, transfers, tuple(line.parts))


FORMAT = Format("perf-c2c", "what `perf c2c report --stdio` prints", _read, profile=_MARK)
