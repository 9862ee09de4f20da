"""Figures that tools print, and how they are read from the output."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bigiron.errors import UserError
from bigiron.readers.folder import Folder
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl
from bigiron.util.measured import MeasuredProfile
from bigiron.util.numbers import Better

SCHEMA = Schema(
    lambda: {
        "metric": pl.String,
        "unit": pl.String,
        "better": pl.String,  # more or less
        "sample": pl.UInt32,  # of the metric, from 0
        "value": pl.Float64,
    }
)
_MOST_TASKS = 1 << 20
_MOST = 1e18  # what is more is no measurement
_LONGEST = 200  # characters of a name


@dataclass(frozen=True)
class Figure:
    """One value of a metric. `tasks`: how many ran, where the output says so; `run`: of several, from 1."""

    metric: str
    unit: str
    better: Better
    value: float
    tasks: int | None = None
    run: int = 1


@dataclass(frozen=True)
class Reading:
    """The content of an output. `about` describes the machine and the run, for later readers."""

    figures: list[Figure]
    about: Mapping[str, str] = field(default_factory=dict)
    cpus: int | None = None
    workload: str | None = None
    operations: int = 0
    """How many operations the program did in all, where the output says so."""
    operation: str = ""
    """What one of them is: a bogo op, an event."""
    measured: MeasuredProfile | None = None
    """What a profile has instead of figures."""


@dataclass(frozen=True)
class Format:
    """An output that bigiron reads: a text, or a folder. Some call the file as the workload is called."""

    name: str
    description: str
    read_text: Callable[[str], Reading] | None = None
    read_folder: Callable[[Folder], Reading] | None = None
    file_is_workload: bool = False
    option: str = ""
    """An option without which the program of that name does not print the figures."""
    operations_need: str = ""
    """What to give where the program printed no number of operations; "": it always prints one, or never."""
    profile: re.Pattern[str] | None = None
    """What a text of this format contains, if it is a profile."""


def number(text: str, line: int | None, what: str) -> float:
    """A value as a number; UserError if it cannot be a measured value.

    >>> number("12.5", 3, "events per second")
    12.5
    >>> number("nan", 3, "events per second")
    Traceback (most recent call last):
    bigiron.errors.UserError: line 3: events per second is 'nan', not a number
    """
    place = f"line {line}: " if line is not None else ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{place}{what} is {text[:40]!r}, not a number")
    if value < 0:
        raise UserError(f"{place}{what} is {text[:40]}: it cannot be negative")
    if value > _MOST:
        raise UserError(f"{place}{what} is {text[:40]}: that is implausibly large")
    return value


def count(text: str, line: int | None, what: str = "tasks") -> int:
    """A number of tasks or CPUs.

    >>> count("0", 2)
    Traceback (most recent call last):
    bigiron.errors.UserError: line 2: tasks is '0': use whole numbers from 1 to 1048576
    """
    digits = text.lstrip("0") if text.isascii() and text.isdecimal() else ""
    if not 1 <= len(digits) <= len(str(_MOST_TASKS)) or int(digits) > _MOST_TASKS:
        place = f"line {line}: " if line is not None else ""
        raise UserError(f"{place}{what} is {text[:40]!r}: use whole numbers from 1 to {_MOST_TASKS}")
    return int(digits)


def label(text: str, line: int | None) -> str:
    r"""A name from outside, as text.

    >>> label("<script>", 1)
    '<script>'
    >>> label("a\x1b[2J", 1)
    Traceback (most recent call last):
    bigiron.errors.UserError: line 1: the name 'a\x1b[2J' has characters that cannot be printed
    """
    place = f"line {line}: " if line is not None else ""
    if not text.isprintable():
        raise UserError(f"{place}the name {text[:_LONGEST]!r} has characters that cannot be printed")
    if not text or len(text) > _LONGEST:
        raise UserError(f"{place}a name has {len(text)} characters: 1 to {_LONGEST} are possible")
    return text


def lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers, as an editor counts them."""
    return enumerate(text.replace("\r\n", "\n").split("\n"), 1)


Pattern: TypeAlias = tuple[re.Pattern[str], str, str, Better]
"""What a line looks like that has a figure as its first group; the metric, its unit, and what is better."""


def figures_in(
    written: str, line: int, patterns: Iterable[Pattern], tasks: int | None, prefix: str = ""
) -> Iterator[Figure]:
    """The figures in a line, their metrics' names after `prefix`."""
    for pattern, metric, unit, better in patterns:
        if found := pattern.match(written):
            yield Figure(prefix + metric, unit, better, number(found[1], line, metric), tasks)


def document(text: str) -> Any:
    """The JSON in a text, which may have warnings before and after it.

    >>> document('careful: {"bw": 5} done')
    {'bw': 5}
    """
    try:
        found, _end = json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))
    except (ValueError, RecursionError) as error:
        raise UserError(f"this is not JSON: {error}") from None
    return found


def table(figures: list[Figure]) -> pl.DataFrame:
    """The figures as rows, samples numbered within their metric.

    UserError where one metric has two units.
    """
    seen: dict[str, int] = {}
    kinds: dict[str, tuple[str, str]] = {}
    rows = []
    for figure in figures:
        kind = kinds.setdefault(figure.metric, (figure.unit, figure.better))
        if kind != (figure.unit, figure.better):
            raise UserError(
                f"metric {figure.metric} in {kind[0]!r} ({kind[1]} is better) "
                f"and in {figure.unit!r} ({figure.better} is better)"
            )
        sample = seen[figure.metric] = seen.get(figure.metric, -1) + 1
        rows.append((figure.metric, figure.unit, figure.better, sample, figure.value))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")
