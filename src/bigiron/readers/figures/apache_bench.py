"""What ab, ApacheBench, prints."""

import re

from bigiron.readers.figure import Figure, Format, Pattern, Reading, count, figures_in, lines

_TASKS = re.compile(r"Concurrency Level: +(\S+)")
_REQUESTS = re.compile(r"Complete requests: +(\d{1,18})")
_FIGURES: tuple[Pattern, ...] = (
    (re.compile(r"Requests per second: +(\S+) \[#/sec\] \(mean\)"), "requests", "requests/s", "more"),
    (re.compile(r"Time per request: +(\S+) \[ms\] \(mean\)"), "latency, mean", "ms", "less"),
)


def _read(text: str) -> Reading:
    """Requests per second and mean latency."""
    figures: list[Figure] = []
    tasks, done = None, 0
    for line, written in lines(text):
        if found := _TASKS.match(written):
            tasks = count(found[1], line, "requests at once")
        elif found := _REQUESTS.match(written):
            done += int(found[1])
        figures += figures_in(written, line, _FIGURES, tasks)
    return Reading(figures, operations=done, operation="request")


FORMAT = Format("ab", "what ab, ApacheBench, prints", _read)
