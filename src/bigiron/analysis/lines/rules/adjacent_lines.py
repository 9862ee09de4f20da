"""Data of different CPUs in two cache lines that are fetched together."""

from bigiron.analysis.lines.rules.rule import Rule
from bigiron.analysis.lines.sharing import ADJACENT

RULE = Rule(
    name="adjacent_lines",
    what="a cache line that other CPUs take by writing the adjacent one",
    why="a processor with an adjacent-line prefetcher fetches and loses both; others are not affected",
    experiment="align each CPU's data to 128 bytes, or turn that prefetcher off in the firmware",
    source="Documentation/kernel-hacking/false-sharing.rst; Intel's optimization manual: spatial prefetcher",
    sharing=ADJACENT,
    rank=1,
)
