"""A per-CPU counter whose batch is exceeded at each update."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="percpu_counter",
    what="a percpu_counter's global count and its lock",
    why="an update that exceeds the counter's batch goes to the global count, under a lock",
    experiment="make the change per operation smaller than the batch, for instance map less memory at once",
    source="lib/percpu_counter.c: percpu_counter_add_batch()",
    named=("*percpu_counter*", "vm_committed_as*"),
    actors=("percpu_counter_add_batch",),
    least_share=0.6,
    rank=16,
)
