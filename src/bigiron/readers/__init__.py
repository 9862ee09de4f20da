"""Figures that other tools print: one module per format, found by itself, and `--metric` for all others."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from bigiron.errors import UserError
from bigiron.readers.figure import SCHEMA, Figure, Format, Reading, document, label, number, table
from bigiron.util.english import join_and
from bigiron.util.measured import MeasuredProfile
from bigiron.util.numbers import Better

__all__ = [
    "SCHEMA",
    "Better",
    "Figure",
    "Format",
    "Reading",
    "formats",
    "needed_option",
    "operations",
    "profile",
    "reader",
    "table",
]


@cache
def _formats() -> dict[str, Format]:
    """Found when they are needed: to import them takes longer than most commands do otherwise."""
    modules = (
        importlib.import_module(f"{__name__}.{folder}.{module.name}")
        for folder in ("figures", "profiles")
        for module in pkgutil.iter_modules([str(Path(__file__).parent / folder)])
    )
    return {module.FORMAT.name: module.FORMAT for module in modules if hasattr(module, "FORMAT")}


_JSON = "json:"
_TIMED = re.compile(
    r"(?:^|/|(?<![a-z])per)[\s_-]*(?:[mun]?s|secs?|seconds?|min|minutes?)\b|(?:iops|[tq]ps|[kmg]bps)$",
    re.IGNORECASE,
)
_NO_RATE = "in a virtual machine --metric reads a number of operations, not a rate or a time"


def formats() -> list[Format]:
    """All formats that are read."""
    return list(_formats().values())


def find(name: str) -> Format:
    """The format called `name`.

    >>> find("fio").description
    "fio's JSON (--output-format=json)"
    """
    if name not in _formats():
        raise UserError(f"no format {name!r}: use one of {', '.join(_formats())}")
    return _formats()[name]


def profile(text: str) -> MeasuredProfile:
    """A profile, in whichever format it is. UserError if it is none, or is damaged."""
    text = text.replace("\r\n", "\n")
    profiles = [one for one in formats() if one.profile]
    for one in profiles:
        if one.profile and one.read_text and one.profile.search(text):
            measured = one.read_text(text).measured
            assert measured
            return measured
    known = join_and([one.description for one in profiles])
    raise UserError(f"this is no profile that bigiron reads: {known}")


def reader(metric: str, unit: str, less_is_better: bool) -> Callable[[str], list[Figure]]:
    r"""How to read the figures that `--metric` requests from a command's output.

    A format's name, json:PATH, or a regular expression with a group for the value.

    >>> reader(r"IOPS=(?P<iops>\d+)", "IOPS", False)("read: IOPS=12 IOPS=13")[1]
    Figure(metric='iops', unit='IOPS', better='more', value=13.0, tasks=None, run=1)
    >>> reader("json:jobs.0.bw", "KiB/s", False)('{"jobs": [{"bw": 5}]}')
    [Figure(metric='jobs.0.bw', unit='KiB/s', better='more', value=5.0, tasks=None, run=1)]
    """
    better: Better = "less" if less_is_better else "more"
    label(unit or "-", None)
    if known := _formats().get(metric):
        if unit or less_is_better:
            raise UserError(f"metric {metric} has its own units: leave out --unit and --less-is-better")
        read_text = known.read_text
        if read_text is None:
            raise UserError(f"{metric} is a folder, which no command prints: see `bigiron import`")
        if known.profile:
            raise UserError(f"{metric} is a profile, which has no figures: see `bigiron import`")
        return lambda output: read_text(output).figures
    if metric.startswith(_JSON):
        path = metric.removeprefix(_JSON)
        return lambda output: [Figure(path, unit, better, _in_json(output, path))]
    return _by_expression(metric, unit, better)


def operations(metric: str, unit: str) -> Callable[[str], tuple[int, str]]:
    r"""How to read the number of operations that a command did, and the name of one, from its output.

    The value that `json:PATH` or a regular expression finds is that number; several add up. UserError for
    a rate or a time.

    >>> operations(r"transactions: (\d+)", "transaction")("transactions: 12")
    (12, 'transaction')
    >>> operations("perf-bench", "")("# Executed 10,000 getppid() calls")
    (10000, 'getppid')
    """
    if known := _formats().get(metric):
        read_text = known.read_text
        if unit or read_text is None:
            reader(metric, unit, less_is_better=False)
            raise UserError(f"metric {metric} does not say how many operations there were: give --per")

        def of_format(output: str) -> tuple[int, str]:
            reading = read_text(output)
            if known.operations_need and not reading.operations:
                raise UserError(
                    f"the command's output has no number of operations for {metric}: {known.operations_need}"
                )
            return reading.operations, reading.operation

        return of_format
    if _TIMED.search(unit):
        raise UserError(f"unit {unit!r}: {_NO_RATE}")
    read = reader(metric, unit, less_is_better=False)

    def of_figures(output: str) -> tuple[int, str]:
        values = [figure.value for figure in read(output)]
        if parts := [value for value in values if not value.is_integer()]:
            raise UserError(f"the metric is {parts[0]}: {_NO_RATE}")
        return int(sum(values)), unit or "operation"

    return of_figures


def needed_option(metric: str, words: Sequence[str]) -> list[str]:
    """The option that a command lacks to print the metric.

    >>> needed_option("stress-ng", ["stress-ng", "--msg", "4"])
    ['--metrics-brief']
    >>> needed_option("stress-ng", ["stress-ng", "--msg", "4", "--metrics"])
    []
    """
    known = _formats().get(metric)
    option = known.option if known else ""
    if not option or Path(words[0]).name != metric or any(word.startswith("--metrics") for word in words):
        return []
    return [option]


def _by_expression(metric: str, unit: str, better: Better) -> Callable[[str], list[Figure]]:
    try:
        pattern = re.compile(metric, re.MULTILINE)
    except re.error as error:
        raise UserError(f"metric {metric!r} is neither a format nor a regular expression: {error}") from None
    if not pattern.groups:
        raise UserError(f"metric {metric!r} has no group for the value, as 'Time: (\\S+)' has")
    names = {index: name for name, index in pattern.groupindex.items()} or {1: "value"}

    def read(output: str) -> list[Figure]:
        return [
            Figure(name, unit, better, number(found[index], output.count("\n", 0, found.start()) + 1, name))
            for found in pattern.finditer(output)
            for index, name in names.items()
            if found[index] is not None
        ]

    return read


def _in_json(output: str, path: str) -> float:
    value = document(output)
    for step in path.split("."):
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (KeyError, ValueError, IndexError, TypeError):
            raise UserError(f"the JSON has no {path}: there is no {step!r}") from None
    return number(str(value), None, path)
