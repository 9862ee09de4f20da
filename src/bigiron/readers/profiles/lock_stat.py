"""/proc/lock_stat, of kernels with CONFIG_LOCK_STAT."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bigiron.errors import UserError
from bigiron.readers.figure import Format, Reading, label, number
from bigiron.readers.profiles.profile import ProfileText, measured, without_quotes
from bigiron.util.measured import MeasuredPart, MeasuredThing, symbol

_MARK = re.compile(r"^ *class name +con-bounces +contentions +waittime-min", re.MULTILINE)
_HEADING = re.compile(r"\s*class name\s+(con-bounces\s.*)")
_VERSION = re.compile(r"\s*(lock_stat version|\*WARNING\*|[-.]{6,}\s*$|$)")
_CLASS = re.compile(r"\s*(\S.*?):((?:\s+[\d.]+){2,})\s*$")
_POINT = re.compile(r"\s*(\S.*?)\s+(\d+)\s+\[<\w+>\]\s+(\S+)(?: \[\w+\])?\s*$")
_MICROSECOND = 1e3
_KINDS = {"-R": "R", "-W": "W"}
_SHARED = (
    "/proc/lock_stat has one list of functions for readers and writers of a lock: "
    "the waiting of each is divided among all of them."
)


@dataclass
class _Class:
    """A class of locks, while its contention points are read."""

    name: str
    kind: str  # R or W where readers and writers are distinguished
    waited_ns: float
    contentions: float
    points: dict[str, float] = field(default_factory=dict)


def _read(text: str) -> Reading:
    """The classes of locks, each with the functions that waited."""
    lines, columns = ProfileText(without_quotes(text)), list[str]()
    classes: list[_Class] = []
    rulers = 0  # below a class: the functions behind the second one are those that were waited for
    for at, written in lines:
        if found := _HEADING.match(written):
            columns = found[1].split()
        elif columns and (found := _CLASS.match(written)):
            classes.append(_class(label(found[1], at), found[2].split(), columns, at))
            _share_points(classes[-2:])
            rulers = 0
        elif classes and (found := _POINT.match(written)):
            if rulers < 2:
                function = symbol(found[3])
                points = classes[-1].points
                points[function] = points.get(function, 0.0) + number(found[2], at, "contentions")
        elif _VERSION.match(written):
            rulers += written.strip().startswith("-")
        else:
            lines.skip(at, written)
    if not classes:
        raise UserError("there is no class of locks in it: was lock_stat on, and is the file whole?")
    shared = any(one.points and one.points is other.points for one, other in pairwise(classes))
    notes = [_SHARED] if shared else []
    return Reading([], measured=measured("locks", "ns waited", map(_thing, classes), lines, notes))


def _class(name: str, values: list[str], columns: list[str], at: int) -> _Class:
    if len(values) != len(columns):
        raise UserError(
            f"line {at}: {name[:60]} has {len(values)} values for {len(columns)} columns: is it cut?"
        )
    row = {column: number(value, at, column) for column, value in zip(columns, values, strict=True)}
    kind = _KINDS.get(name[-2:], "")
    waited = row.get("waittime-total", 0.0) * _MICROSECOND
    return _Class(name[:-2] if kind else name, kind, waited, row.get("contentions", 0.0))


def _share_points(classes: Sequence[_Class]) -> None:
    """The kernel prints a lock's writers, its readers, then the functions of both."""
    if len({found.name for found in classes}) == 1 and [found.kind for found in classes] == ["W", "R"]:
        classes[1].points = classes[0].points


def _thing(found: _Class) -> MeasuredThing:
    """Waiting is shared out by how often each function waited, as the kernel keeps no times of them."""
    times = sum(found.points.values()) or 1.0
    parts = [
        MeasuredPart(function, found.waited_ns * count / times, count)
        for function, count in found.points.items()
    ] or [MeasuredPart("", found.waited_ns, found.contentions)]
    return MeasuredThing(found.name, found.waited_ns, tuple(parts), found.kind)


FORMAT = Format("lock-stat", "/proc/lock_stat", _read, profile=_MARK)
