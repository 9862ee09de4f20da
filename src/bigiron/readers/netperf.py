"""What netperf prints: its tables, and KEY=VALUE with the test's option -k."""

import re

from bigiron.readers.figure import Figure, Format, Reading, label, lines, number

_TEST = re.compile(r"(?:MIGRATED )?(.+?) TEST from ")
_KEY = re.compile(r"([A-Z_]+)=(.*)")
# The last column of a table's row: of requests and responses five numbers stand before it, of streams four.
_ROWS = (
    (re.compile(r" *(?:\d+ +){4}[\d.]+ +([\d.]+) *$"), "transactions", "transactions/s"),
    (re.compile(r" *(?:\d+ +){3}[\d.]+ +([\d.]+) *$"), "throughput", "Mbit/s"),
)
_UNITS = {"Trans/s": ("transactions", "transactions/s"), "10^6bits/s": ("throughput", "Mbit/s")}


def _read(text: str) -> Reading:
    r"""The speed of each test. LOCAL_SEND_CALLS, where asked for, is how many operations there were.

    >>> _read("UDP_RR TEST from a to b\nTHROUGHPUT=2.5\nTHROUGHPUT_UNITS=Trans/s").figures[0].metric
    'UDP_RR: transactions'
    """
    figures: list[Figure] = []
    test, sends, speed = "netperf", 0, 0.0
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
                metric, unit = _UNITS.get(value, ("throughput", label(value, line)))
                figures.append(Figure(f"{test}: {metric}", unit, "more", speed))
        else:
            for pattern, metric, unit in _ROWS:
                if found := pattern.match(written):
                    figures.append(Figure(f"{test}: {metric}", unit, "more", number(found[1], line, metric)))
                    break
    return Reading(figures, operations=sends, operation="send")


FORMAT = Format(
    "netperf",
    "what netperf prints",
    _read,
    operations_need="end the command with -- -k LOCAL_SEND_CALLS,THROUGHPUT,THROUGHPUT_UNITS",
)
