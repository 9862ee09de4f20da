"""What `perf script` prints of samples, with call chains or without."""

from __future__ import annotations

import re

from bigiron.errors import UserError
from bigiron.readers.figure import Format, Reading, label
from bigiron.readers.profiles.profile import ProfileText, SampledEvent, of_events, without_quotes

_MARK = re.compile(r"(?:^|:)[ \t]+[0-9a-f]{5,16} .+ \(\S.*\)\s*$", re.MULTILINE)
_SAMPLE = re.compile(
    r"\s*\S.*?\s\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?(?:[\w.]+\s+)?\d+\.\d+:\s+(?:\d+\s+)?(\S+):(?=\s|$)"
)
_FRAME = re.compile(r"\s+([0-9a-f]+) (.+?) \((.+)\)\s*$")
_SOURCE_LINE = re.compile(r"\s+\S+:\d+(?: \(discriminator \d+\))?\s*$")
_INLINED = "inlined"
_KERNEL = re.compile(r"\[kernel|\[guest\.kernel|vmlinux|\.ko\b|\[(?!unknown|vdso|vsyscall)\w+\]$")


def _read(text: str) -> Reading:
    """Samples of one event by their innermost function, as the program or the kernel has it: not inlined."""
    lines = ProfileText(without_quotes(text))
    events: dict[str, SampledEvent] = {}
    event = None  # of a sample whose innermost function comes next
    for at, written in lines:
        sample = _SAMPLE.match(written)
        if sample:
            event = events.setdefault(sample[1], SampledEvent(label(sample[1], at)))
        if frame := _FRAME.match(written, sample.end() if sample else 0):
            if event and frame[3] != _INLINED:
                event.add(frame[2], _is_kernel(int(frame[1], 16), frame[3]), 1)
                event.samples += 1
                event = None
        elif not (sample or _SOURCE_LINE.match(written)):
            lines.skip(at, written)
    if not events:
        raise UserError(
            "no sample has its time and event: print `perf script -F comm,tid,time,event,ip,sym,dso`"
        )
    return of_events(events.values(), "samples", lines)


def _is_kernel(address: int, image: str) -> bool:
    return bool(address >> 63) if image == "[unknown]" else bool(_KERNEL.search(image))


FORMAT = Format("perf-script", "what `perf script` prints", _read, profile=_MARK)
