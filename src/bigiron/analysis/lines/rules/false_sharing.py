"""Different data of different CPUs in one line."""

from bigiron.analysis.lines.rules.rule import Rule
from bigiron.analysis.lines.sharing import FALSE_SHARING

RULE = Rule(
    name="false_sharing",
    what="a cache line in which each CPU touches bytes of its own",
    why="data of several CPUs lies in one cache line by accident",
    experiment="pad each CPU's data to a line of its own: the cache line must disappear",
    source="Documentation/kernel-hacking/false-sharing.rst",
    sharing=FALSE_SHARING,
    rank=70,
)
