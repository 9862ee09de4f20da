"""The file descriptor table that threads share."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="file_table",
    what="the lock and bitmaps of a process's file table",
    why="threads allocate and free descriptors of one table",
    experiment="run it with processes instead of threads (--mode process): the cache line must disappear",
    source="fs/file.c: alloc_fd(), pick_file()",
    named=("struct?files_struct*", "struct?fdtable*"),
    actors=(
        "alloc_fd",
        "pick_file",
        "fd_install",
        "close_fd*",
        "file_close_fd*",
        "__close_fd",
        "__alloc_fd",
        "__fget*",
        "fget*",
        "do_dup2",
        "expand_files",
        "*put_unused_fd",
    ),
    least_share=0.6,
    rank=35,
)
