"""The superblock's list of inodes."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="inode_list",
    what="the superblock's list of inodes and its lock",
    why="every inode created or evicted is put on, or taken off, one list of the file system",
    experiment="give each task a file system of its own: the cache line must disappear",
    source="fs/inode.c: inode_sb_list_add()",
    named=("*s_inode_list_lock*", "*.s_inodes*"),
    actors=("inode_sb_list_*", "evict", "clear_inode", "new_inode*"),
    least_share=0.6,
    rank=30,
)
