"""What stress-ng prints with --metrics or --metrics-brief."""

import re

from bigiron.readers.figure import Figure, Format, Reading, count, label, lines, number

_INSTANCES = re.compile(r".*dispatching hogs: (.*)")
# Name, bogo ops, real, user and system time, bogo ops/s of the real and of the CPU time.
_METRICS = re.compile(r"stress-ng: metrc: \[\d+\] +(\S+) +(\d+) +(?:\S+ +){3}(\S+) +(\S+)")


def _read(text: str) -> Reading:
    """Bogo operations per second of real time, a metric for each stressor."""
    figures, instances, done = [], dict[str, int](), 0
    for line, written in lines(text):
        if found := _INSTANCES.match(written):
            for number_of, name in (hog.split(" ", 1) for hog in found[1].split(", ") if " " in hog):
                instances[name] = count(number_of, line, f"instances of {name[:40]}")
        elif found := _METRICS.match(written):
            name = label(found[1], line)
            done += int(found[2])
            speed = number(found[3], line, f"bogo ops/s of {name}")
            figures.append(Figure(name, "bogo ops/s", "more", speed, instances.get(name)))
    return Reading(figures, operations=done, operation="bogo op")


FORMAT = Format("stress-ng", "what stress-ng prints with --metrics-brief", _read, option="--metrics-brief")
