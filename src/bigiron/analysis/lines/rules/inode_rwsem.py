"""The lock of a directory's or file's inode."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="inode_rwsem",
    what="the i_rwsem of one inode",
    why="creating, removing and writing take the inode's lock for writing, one task at a time",
    experiment="give each task a directory or file of its own: the cache line must disappear",
    source="include/linux/fs.h: inode_lock()",
    named=("*i_rwsem*",),
    rank=30,
)
