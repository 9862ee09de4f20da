"""What netperf prints: its tables, and KEY=VALUE with the test's option -k."""

import re

from bigiron.errors import UserError
from bigiron.readers.figure import Figure, Format, Reading, label, lines, number

_TEST = re.compile(r"(?:MIGRATED )?(.+?) TEST from ")
_KEY = re.compile(r"([A-Z_]+)=(.*)")
_HEADING = re.compile(r"[A-Za-z ]* secs\.? [# ]*(?:per sec|(\S+)/sec) *$")
# The last column of a row: sizes and the time stand before it; of datagrams, that of those received.
_OF_TRANSACTIONS = re.compile(r" *(?:\d+ +){4}[\d.]+ +([\d.]+) *$")
_OF_BYTES = re.compile(r" *(?:(?:\d+ +){3}[\d.]+|\d+ +[\d.]+ +\d+) +([\d.]+) *$")
_UNITS = {"Trans/s": ("transactions", "transactions/s"), "10^6bits/s": ("throughput", "Mbit/s")}


def _read(text: str) -> Reading:
    r"""The speed of each test. LOCAL_SEND_CALLS, where asked for, is how many operations there were.

    >>> _read("UDP_RR TEST from a to b\nTHROUGHPUT=2.5\nTHROUGHPUT_UNITS=Trans/s").figures[0].metric
    'UDP_RR: transactions'
    """
    figures: list[Figure] = []
    test, sends, speed, unit = "netperf", 0, 0.0, ""
    for line, written in lines(text):
        if found := _TEST.match(written):
            test = label(found[1], line)
        elif found := _KEY.fullmatch(written.strip()):
            key, value = found.groups()
            if key == "LOCAL_SEND_CALLS":
                sends += round(number(value, line, key))
            elif key == "THROUGHPUT":
                speed = number(value, line, key)
            elif key == "THROUGHPUT_UNITS":
                figures.append(_figure(test, speed, value, line))
        elif found := _HEADING.match(written):
            unit = f"{found[1] or 'Trans'}/s"
        elif found := _OF_TRANSACTIONS.match(written):
            figures.append(_figure(test, number(found[1], line, "the speed"), "Trans/s", line))
        elif found := _OF_BYTES.match(written):
            if unit in ("", "Trans/s"):
                raise UserError(f"line {line}: no heading names the unit: run netperf without -P 0")
            figures.append(_figure(test, number(found[1], line, "the speed"), unit, line))
    return Reading(figures, operations=sends, operation="send")


def _figure(test: str, speed: float, unit: str, line: int) -> Figure:
    """A test's speed in a unit of netperf's option -f."""
    metric, unit = _UNITS.get(unit, ("throughput", label(unit, line)))
    return Figure(f"{test}: {metric}", unit, "more", speed)


FORMAT = Format(
    "netperf",
    "what netperf prints",
    _read,
    operations_need="end the command with -- -k LOCAL_SEND_CALLS,THROUGHPUT,THROUGHPUT_UNITS",
)
