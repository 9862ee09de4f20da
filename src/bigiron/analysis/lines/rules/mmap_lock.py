"""The lock of an address space that threads share."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="mmap_lock",
    what="the mmap_lock of one address space",
    why="page faults, mmap, munmap and brk of all threads of a process take it",
    experiment="run it with processes instead of threads (--mode process): the cache line must disappear",
    source="include/linux/mmap_lock.h: mmap_read_lock(), mmap_write_lock()",
    named=("*mmap_lock*", "*mmap_sem*"),
    actors=(
        "do_user_addr_fault",
        "lock_mm_and_find_vma",
        "lock_vma_under_rcu",
        "vm_mmap_pgoff",
        "__vm_munmap",
        "__do_munmap",
        "do_vmi_*",
        "__do_sys_brk",
        "__x64_sys_brk",
        "__x64_sys_munmap",
        "__arm64_sys_brk",
        "__arm64_sys_munmap",
        "mmap_*",
        "vma_start_*",
        "madvise_*",
        "do_madvise",
    ),
    least_share=0.5,
    rank=30,
)
