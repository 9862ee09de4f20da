"""What hackbench prints."""

import re

from bigiron.readers.figure import Figure, Format, Reading, count, lines, number

_TASKS = re.compile(r"Running in .* mode with \d+ groups? using (\d+) file descriptors .*\(== (\d+) tasks\)")
_MESSAGES = re.compile(r"Each sender will pass (\d+) messages of")
_TIME = re.compile(r"Time: *(\S+)")


def _read(text: str) -> Reading:
    r"""How long it took; several runs may stand one below the other.

    >>> text = "Running in process mode with 1 groups using 40 file descriptors each (== 40 tasks)\nTime: 0.2"
    >>> _read(text).figures
    [Figure(metric='time', unit='s', better='less', value=0.2, tasks=40, run=1)]
    """
    figures, tasks, pairs, messages = list[Figure](), None, 0, 0
    for line, written in lines(text):
        if found := _TASKS.match(written):
            receivers = count(found[1], line, "file descriptors") // 2  # of each sender: those of its group
            tasks = count(found[2], line)
            pairs = tasks // 2 * receivers
        elif found := _MESSAGES.match(written):
            messages = pairs * count(found[1], line, "messages")
        elif found := _TIME.match(written):
            figures.append(
                Figure("time", "s", "less", number(found[1], line, "Time"), tasks, len(figures) + 1)
            )
    return Reading(figures, operations=messages * len(figures), operation="message")


FORMAT = Format("hackbench", "what hackbench prints", _read)
