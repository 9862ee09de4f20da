"""Data of different CPUs in two lines that are fetched together."""

from bigiron.analysis.lines.rules.rule import Rule
from bigiron.analysis.lines.sharing import ADJACENT

RULE = Rule(
    name="adjacent_lines",
    what="a pair of cache lines in which CPUs touch one line and others the line beside it",
    why="a processor that prefetches the adjacent line takes both from who writes one; others do not mind",
    experiment="align each CPU's data to 128 bytes, or turn that prefetcher off in the firmware",
    source="Documentation/kernel-hacking/false-sharing.rst; Intel's optimization manual: spatial prefetcher",
    sharing=ADJACENT,
    rank=1,
)
