"""What memcaslap, also called memaslap, prints."""

import re

from bigiron.readers.figure import Figure, Format, Reading, count, lines, number

_TASKS = re.compile(r"concurrency: (\S+)")
_TOTAL = re.compile(r"Run time: \S+s Ops: (\d{1,18}) TPS: (\S+) ")


def _read(text: str) -> Reading:
    r"""Operations, gets and sets, per second.

    >>> _read("concurrency: 4\nRun time: 0.0s Ops: 2000 TPS: 64055 Net_rate: 71.7M/s").operations
    2000
    """
    figures: list[Figure] = []
    tasks, done = None, 0
    for line, written in lines(text):
        if found := _TASKS.match(written):
            tasks = count(found[1], line, "clients")
        elif found := _TOTAL.match(written):
            done += int(found[1])
            figures.append(Figure("operations", "operations/s", "more", number(found[2], line, "TPS"), tasks))
    return Reading(figures, operations=done, operation="operation")


FORMAT = Format("memcaslap", "what memcaslap, also called memaslap, prints", _read)
