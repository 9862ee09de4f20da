"""A reader-writer semaphore."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="rwsem",
    what="a reader-writer semaphore",
    why="all tasks take it, and even a reader writes its count",
    experiment="find its owner in the call paths, and give each task one of its own",
    source="kernel/locking/rwsem.c: down_read(), down_write()",
    functions=("down_*", "up_*", "rwsem_*", "osq_*", "__down_*", "__up_*"),
    least_share=0.6,
    rank=60,
)
