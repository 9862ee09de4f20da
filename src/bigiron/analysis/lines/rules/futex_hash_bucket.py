"""A bucket of the futex hash."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="futex_hash_bucket",
    what="the lock and waiter count of a futex hash bucket",
    why="tasks wait for, or wake, futexes that hash to one bucket",
    experiment="give each task a futex of its own: the cache line must disappear",
    source="kernel/futex/core.c: futex_q_lock()",
    named=("*futex_hash_bucket*", "futex_queues*"),
    actors=("futex_*", "__futex_*", "do_futex", "queue_lock", "get_futex_key"),
    least_share=0.6,
    rank=20,
)
