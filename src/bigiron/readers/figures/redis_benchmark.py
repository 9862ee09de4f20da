"""What redis-benchmark prints."""

import re

from bigiron.readers.figure import Figure, Format, Reading, count, label, lines, number

_TEST = re.compile(r"====== (.+?) ======")
_DONE = re.compile(r" +(\d{1,18}) requests completed in")
_CLIENTS = re.compile(r" +(\S+) parallel clients")
_SPEED = re.compile(r" +throughput summary: (\S+) requests per second")
_LATENCIES = re.compile(r" +(\S+)(?: +\S+){4} +(\S+)$")  # avg, min, p50, p95, p99, max


def _read(text: str) -> Reading:
    """Requests per second and mean latency of each test. Progress overwrites itself by carriage returns."""
    figures: list[Figure] = []
    test, tasks, done, summary = "requests", None, 0, False
    for line, written in lines(text.replace("\r\n", "\n").replace("\r", "\n")):
        if found := _TEST.match(written):
            test, tasks, summary = label(found[1], line), None, False
        elif found := _DONE.match(written):
            done += int(found[1])
        elif found := _CLIENTS.match(written):
            tasks = count(found[1], line, "clients")
        elif found := _SPEED.match(written):
            speed = number(found[1], line, f"requests per second of {test}")
            figures.append(Figure(f"{test}: requests", "requests/s", "more", speed, tasks))
        elif "latency summary (msec)" in written:
            summary = True
        elif summary and (found := _LATENCIES.match(written)) and found[1] != "avg":
            mean = number(found[1], line, f"latency of {test}")
            figures.append(Figure(f"{test}: latency, mean", "ms", "less", mean, tasks))
            summary = False
    return Reading(figures, operations=done, operation="request")


FORMAT = Format("redis-benchmark", "what redis-benchmark prints", _read)
