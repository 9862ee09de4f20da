"""A spinlock, or what it protects."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="spinlock",
    what="a spinlock",
    why="all tasks take and release it",
    experiment="find its owner in the call paths, and give each task one of its own",
    source="kernel/locking/qspinlock.c: queued_spin_lock_slowpath()",
    functions=("_raw_spin_*", "_raw_read_*", "_raw_write_*", "native_queued_*"),
    least_share=0.6,
    rank=65,
)
