"""What `perf script` prints of samples with call chains."""

from __future__ import annotations

import re

from bigiron.readers.figure import Format, Reading
from bigiron.readers.profiles.profile import Text, of_functions, without_quotes
from bigiron.util.measured import symbol

_MARK = re.compile(r"^\s+[0-9a-f]{5,16} .+ \(\S.*\)\s*$", re.MULTILINE)
_SAMPLE = re.compile(r"\S.*?\s+\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?(?:[\w.]+\s+)?\d+\.\d+:\s+(?:\d+\s+)?(\S+):")
_FRAME = re.compile(r"\s+[0-9a-f]+ (.+?) \((.+)\)\s*$")
_KERNEL = re.compile(r"\[kernel|\[guest\.kernel|vmlinux|\.ko\b|\[(?!unknown|vdso|vsyscall)\w+\]$")


def _read(text: str) -> Reading:
    """Samples by their innermost function, of the event that has most samples."""
    lines = Text(without_quotes(text))
    samples: dict[str, dict[tuple[str, bool], float]] = {}
    event = ""  # of a sample whose innermost function comes next
    for at, written in lines:
        if found := _SAMPLE.match(written):
            event = found[1]
            samples.setdefault(event, {})
        elif found := _FRAME.match(written):
            if event:
                of = symbol(found[1]), bool(_KERNEL.search(found[2]))
                samples[event][of] = samples[event].get(of, 0.0) + 1
            event = ""
        else:
            lines.skip(at, written)
    most = max(samples.values(), key=lambda each: sum(each.values()), default={})
    return of_functions(most, "samples", lines)


FORMAT = Format("perf-script", "what `perf script` prints", _read, profile=_MARK)
