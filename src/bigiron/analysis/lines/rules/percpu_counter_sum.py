"""The exact sum of a per-CPU counter in a hot path."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="percpu_counter_sum",
    what="every CPU's part of a percpu_counter",
    why="the exact sum reads the counter of each CPU in turn, and each of them writes its own",
    experiment=(
        "patch the caller to read the approximate value (percpu_counter_read_positive): "
        "the cache line must disappear"
    ),
    source="lib/percpu_counter.c: __percpu_counter_sum()",
    functions=("__percpu_counter_sum", "percpu_counter_sum*", "__percpu_counter_compare"),
    least_share=0.1,
    rank=15,
)
