"""The lockref of a directory in which all tasks work."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="lockref_parent",
    what="the lockref (lock and count) of one dentry",
    why="opening, creating or removing in one directory takes references to, or locks, its dentry",
    experiment="give each task a directory of its own: the cache line must disappear",
    source="fs/dcache.c: d_alloc(), dput(), lib/lockref.c: lockref_get()",
    named=("*d_lockref*",),
    functions=("lockref_*",),
    least_share=0.2,
    rank=35,
)
