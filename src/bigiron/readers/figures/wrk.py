"""What wrk prints."""

import re

from bigiron.readers.figure import Figure, Format, Pattern, Reading, count, figures_in, lines, number

_TASKS = re.compile(r" +\S+ threads and (\S+) connections")
_REQUESTS = re.compile(r" +(\d{1,18}) requests in ")
_LATENCY = re.compile(r" +Latency +([\d.]+)(us|ms|s) ")
_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}
_FIGURES: tuple[Pattern, ...] = ((re.compile(r"Requests/sec: +(\S+)"), "requests", "requests/s", "more"),)


def _read(text: str) -> Reading:
    """Requests per second and mean latency; as many tasks as connections."""
    figures: list[Figure] = []
    tasks, done = None, 0
    for line, written in lines(text):
        if found := _TASKS.match(written):
            tasks = count(found[1], line, "connections")
        elif found := _REQUESTS.match(written):
            done += int(found[1])
        elif found := _LATENCY.match(written):
            mean = number(found[1], line, "Latency") * _MS[found[2]]
            figures.append(Figure("latency, mean", "ms", "less", mean, tasks))
        figures += figures_in(written, line, _FIGURES, tasks)
    return Reading(figures, operations=done, operation="request")


FORMAT = Format("wrk", "what wrk prints", _read)
