"""What sockperf prints."""

import re

from bigiron.readers.figure import Figure, Format, Pattern, Reading, figures_in, lines

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_SENT = re.compile(r"sockperf: \[Total Run\] .*SentMessages=(\d{1,18})")
_FIGURES: tuple[Pattern, ...] = (
    (re.compile(r"sockperf: Summary: Latency is (\S+) usec"), "latency, mean", "us", "less"),
    (re.compile(r"sockperf: Summary: Message Rate is (\S+) \[msg/sec\]"), "messages", "messages/s", "more"),
    (re.compile(r"sockperf: Summary: BandWidth is (\S+) MBps"), "bandwidth", "MB/s", "more"),
    (re.compile(r"sockperf: ---> percentile 99\.000 = +(\S+)"), "latency, 99th percentile", "us", "less"),
)


def _read(text: str) -> Reading:
    """Latencies and speed; the operations are all messages that it sent, those of its warm-up too."""
    figures: list[Figure] = []
    sent = 0
    for line, written in lines(_COLOUR.sub("", text)):
        if found := _SENT.match(written):
            sent += int(found[1])
        figures += figures_in(written, line, _FIGURES, None)
    return Reading(figures, operations=sent, operation="message")


FORMAT = Format("sockperf", "what sockperf prints", _read)
