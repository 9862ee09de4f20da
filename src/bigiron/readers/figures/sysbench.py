"""What sysbench prints."""

import re

from bigiron.readers.figure import Figure, Format, Pattern, Reading, count, figures_in, lines

_THREADS = re.compile(r"Number of threads: (\S+)")
_EVENTS = re.compile(r" *total number of events: +(\d+)")
_FIGURES: tuple[Pattern, ...] = (
    (re.compile(r" *events per second: +(\S+)"), "events", "events/s", "more"),
    (re.compile(r"Total operations: \d+ \( *(\S+) per second\)"), "operations", "operations/s", "more"),
    (re.compile(r".* MiB transferred \((\S+) MiB/sec\)"), "transferred", "MiB/s", "more"),
    (re.compile(r" *transactions: +\d+ +\((\S+) per sec\.\)"), "transactions", "transactions/s", "more"),
    (re.compile(r" *queries: +\d+ +\((\S+) per sec\.\)"), "queries", "queries/s", "more"),
    (re.compile(r" *reads/s: +(\S+)"), "reads", "reads/s", "more"),
    (re.compile(r" *writes/s: +(\S+)"), "writes", "writes/s", "more"),
    (re.compile(r" *fsyncs/s: +(\S+)"), "fsyncs", "fsyncs/s", "more"),
    (re.compile(r" *total time: +(\S+)s$"), "total time", "s", "less"),
    (re.compile(r" *avg: +(\S+)"), "latency, mean", "ms", "less"),
    (re.compile(r" *95th percentile: +(\S+)"), "latency, 95th percentile", "ms", "less"),
)


def _read(text: str) -> Reading:
    """What its tests say of their speed, and latencies; the time only of tests that say nothing else."""
    figures: list[Figure] = []
    tasks, events = None, 0
    for line, written in lines(text):
        if found := _THREADS.match(written):
            tasks = count(found[1], line)
        elif found := _EVENTS.match(written):
            events += int(found[1])
        figures += figures_in(written, line, _FIGURES, tasks)
    has_speed = any(figure.better == "more" for figure in figures)
    kept = [figure for figure in figures if not (has_speed and figure.metric == "total time")]
    return Reading(kept, operations=events, operation="event")


FORMAT = Format("sysbench", "what sysbench prints", _read)
