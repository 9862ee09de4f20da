"""The kernel's functions that bigiron knows by name: one list for each thing that it needs to know of them.

Names are those of Linux 5.10 to 7.2; a kernel that lacks one has no symbol of that name. A tuple has plain
names, globs (those with a `*`), or, where its docstring says so, regular expressions. Compilers add suffixes
to functions that they split or specialise (`rwsem_wake.isra.0`): `in_path` accepts them, and a glob with a
trailing `*` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SUFFIXES = r"(\.\w+)*"  # that compilers add


def in_path(names: Iterable[str]) -> str:
    """A regular expression that finds one of the names anywhere in a call path.

    >>> found = re.compile(in_path(["rwsem_wake"]))
    >>> [bool(found.search(path)) for path in ("up_write;rwsem_wake.isra.0;wake_q_add", "rwsem_wakeup")]
    [True, False]
    """
    return rf"(^|;)({'|'.join(names)}){_SUFFIXES}(;|$)"


# Waiting for locks

LOCK_SLOW_PATHS = (
    "native_queued_spin_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
    "rwsem_optimistic_spin",  # 5.10 has it as a function of its own
    "rwsem_wake",
    "osq_lock",
    "osq_unlock",
    "__mutex_lock",
    "__mutex_unlock_slowpath",
)
"""What a task executes while it waits for a contended lock, or to wake the tasks that wait."""

LOCK_SLOW_PATHS_ELSEWHERE = ("queued_spin_lock_slowpath",)
"""The same on architectures whose kernels have no paravirtual spin locks."""

SLOW_PATH_ENTRIES = (
    "resilient_queued_spin_lock_slowpath",  # from 6.15 on: kernel/bpf/rqspinlock.c
    "__mutex_lock_slowpath",
    "__mutex_lock_killable_slowpath",
    "__mutex_lock_interruptible_slowpath",
    "__down",
    "__down_common",
    "__down_interruptible",
    "__down_killable",
    "__down_timeout",
    "__down_trylock_console_sem",  # from 6.1 on; earlier it is inlined
    "__up",
)
"""How a task gets there through a semaphore, or a mutex that it may have to sleep for."""

SLEEP_AND_WAKE = ("schedule", "wake_up_q")
"""How a task that waits for a lock sleeps, and how the task that releases the lock wakes it."""

WAITING = re.compile(in_path((*LOCK_SLOW_PATHS, *LOCK_SLOW_PATHS_ELSEWHERE, *SLEEP_AND_WAKE)))
"""A call path that waits for a lock. A replay executes locks, so that waiting comes about by itself."""

WAITING_FOR_LOCK = in_path((*LOCK_SLOW_PATHS, *LOCK_SLOW_PATHS_ELSEWHERE, *SLOW_PATH_ENTRIES))
"""A call path that waits for a lock, without sleeping for anything else."""

SLEEPING_FOR_LOCK = (
    r"(^|;)(rwsem_|__mutex_|mutex_|down_|up_|futex_|preempt_schedule|exit_to_user_mode|__cond_resched)"
)
"""A call path below which a task sleeps because of a lock, or because it is preempted."""

USER_LOCKS = re.compile(r"^user:_*(pthread_(mutex|rwlock)_\w*lock|lll_lock_wait|sem_wait|new_sem_wait)")
"""glibc's functions that take a lock in user space."""


# Taking locks

LOCK_FUNCTIONS = (
    *("_raw_spin_*", "_raw_read_*", "_raw_write_*", "native_queued_*", "queued_*", "osq_*"),
    *("mutex_*", "__mutex_*", "down_*", "up_*", "rwsem_*"),
)
"""Functions that write nothing but locks. Globs."""

SEMAPHORE_SLOW_PATHS = ("__down_*", "__up_*")
"""Those that also write a semaphore's list of waiting tasks. Globs."""

_MORE_LOCKING = ("__raw_*", "do_raw_*", "lock_*", "unlock_*")

LOCKING = "^(" + "|".join(glob.removesuffix("*") for glob in (*LOCK_FUNCTIONS, *_MORE_LOCKING)) + ")"
"""The name of a function whose accesses to the cache line of a lock take or release that lock."""

LOCK_FAMILIES = {
    "spin lock": r"^(_raw_spin_|native_queued_spin_|(__pv_)?queued_spin_|do_raw_spin_|resilient_queued_)",
    "read-write lock": r"^(_raw_(read|write)_|queued_(read|write)_)",
    "rw_semaphore": r"^(rwsem_|down_(read|write)|up_(read|write)|downgrade_write)",
    "mutex": r"^(__)?mutex_",
    "queue of a sleeping lock": r"^osq_",
    "semaphore": r"^(__)?(down|up)(_|$)",
}
"""By kind of lock, the functions that take, release or wait for one, as regular expressions: which of them a
task executes depends on how contended the lock is."""

TRYLOCK = "down_read_trylock"
"""It compares and exchanges; up to 5.16 it expects that the lock is free, and fails if it has readers."""


# Functions that act for their callers

REFERENCE_COUNTS = ("refcount_*",)
"""Globs."""

LISTS = ("__list_*", "list_*", "plist_*", "rb_*")
"""Globs."""

PRIMITIVES = (
    *LOCK_FUNCTIONS,
    *SEMAPHORE_SLOW_PATHS,
    *REFERENCE_COUNTS,
    *LISTS,
    *("xas_*", "memset*", "memcpy*", "__memset*", "__memcpy*", "__pi_mem*"),  # the last three on arm64
    *("__x86_*", "_find_*", "find_next_*"),
)
"""Functions that do the same for every caller: their caller is what touches the cache line. Globs."""

ALLOCATING_FOR_CALLER = re.compile(
    r"_*(k[vz]?m(alloc|emdup|em_cache)|k[vz]?realloc|kvmemdup|kstrdup|kstrndup|mempool_)"
)
"""Functions that allocate memory for their callers. Since 6.10 they have `_noprof` variants."""

CLEARING_NEW_OBJECTS = r"^((_*|__pi_)memset|clear_page|clear_highpage|kmem_cache_alloc|__kmalloc|kmalloc)"
"""Functions that write an object when it is allocated: Debian's kernels set memory to zero then."""

NEW_PAGES = re.compile(
    r"^(clear_(page|highpage|huge_page|user_highpage|contig_highpages)\w*"
    r"|copy_(mc_)?(page|page_regs|highpage|huge_page|user_highpage|user_huge_page))(\.|$)"
)
"""Functions that fill a whole page, which takes memory bandwidth."""

EXCHANGES = re.compile(r"^lockref_|^dget_parent")
"""Functions that compare and exchange in a loop: a lost race is repeated."""


# Interrupting other CPUs

INTERRUPTING = ("smp_call_function_many_cond", "smp_call_function_many", "on_each_cpu_cond_mask")
"""Functions that interrupt other CPUs and wait for their answers: a replay executes that."""

QUEUING_CALLS = ("smp_call_function_many_cond", "llist_add_batch")
"""Functions that queue a call for another CPU: kernel/smp.c, lib/llist.c."""

INTERRUPTS = rf"^({'|'.join(INTERRUPTING)})$"
INTERRUPTS_IN_PATH = rf"(^|;)({'|'.join(INTERRUPTING)})(;|$)"


# Sleeping

LEAVING_CPU = (
    "__schedule",
    "schedule",
    "schedule_timeout",
    "schedule_preempt_disabled",
    "preempt_schedule",  # from 6.1 on, as the next but two: with PREEMPT_DYNAMIC
    "preempt_schedule_irq",
    "preempt_schedule_common",
    "preempt_schedule_notrace",
    "__cond_resched",
    "schedule_hrtimeout_range",
    "schedule_hrtimeout_range_clock",
    "io_schedule",
    "io_schedule_timeout",
    "__wait_for_common",
    "wait_for_completion",
    "wait_for_completion_killable",
    "wait_for_completion_state",
    "wait_for_completion_timeout",
    "__wait_rcu_gp",
)
"""How a task leaves the CPU, whatever it waits for: the innermost functions of most stacks."""

WAITING_FOR_WORK = ("kthread", "do_idle")
"""Below these, threads of the kernel's own wait, and CPUs that have nothing to do."""

SLEEPING_OR_WAKING = in_path(("schedule", "try_to_wake_up"))
SLEEPING = in_path(("schedule", "__schedule"))

PREEMPTED = (
    r"(^|;)(((syscall_)?exit_to_user_mode\w*|do_notify_resume);(__)?schedule"
    r"|(__cond_resched|dynamic_cond_resched|preempt_schedule\w*);[\w;]*schedule)" + _SUFFIXES + "(;|$)"
)
"""A call path of a task whose time slice is over."""

DRIVEN_BY_TIME = in_path(
    (
        "file_update_time",
        "file_update_time_flags",
        "file_modified_flags",
        "touch_atime",
        "update_load_avg",
        r"__update_load_avg_\w+",
        "update_rq_clock",
        r"psi_\w+",
        r"(__)?rseq_\w+",
        "mem_cgroup_handle_over_high",
        "__mem_cgroup_handle_over_high",
        "blkcg_maybe_throttle_current",
    )
)
"""A call path that runs when the clock has moved: timestamps of files, the scheduler's averages."""


# System calls, page faults and interrupts

ENTRY_CODE = re.compile(
    r"entry_\w+|do_syscall_\w+|x64_sys_call|system_call_\w+|asm_\w+"  # x86 and POWER
    r"|vectors|__bp_harden_\w+|el0(t_64)?_sync(_handler)?|(do_)?el0_svc[.\w]*|invoke_syscall"  # arm64
)
"""What all call paths from user mode begin with."""

SYSTEM_CALL = re.compile(r"__(?:x64|ia32|arm64|se|do)_sys_(\w+)|sys_(\w+)")
"""The function of a system call, whose name is in one of the groups."""

PAGE_FAULTS = ("asm_exc_page_fault", "el0_da", "el0_ia")
"""How a page fault enters the kernel from user mode: on x86; on arm64 for data, for instructions."""

SHARED_ENTRY = r"^el0(t_64)?_sync;el0(t_64)?_sync_handler(;|$)"
"""What call paths of all system calls and page faults on arm64 begin with."""

INSTRUCTIONS_PER_SYSTEM_CALL = {"entry_SYSCALL_64": 40.0, "do_el0_svc": 12.0}
"""Instructions of one call, from which numbers of calls are derived: in kernels 5.10 to 7.2 on x86_64, and in
6.12 and 7.2 on arm64."""

INSTRUCTIONS_PER_FAULT = {"asm_exc_page_fault": 8.5, "do_mem_abort": 24.0}
"""The same of page faults."""

INSTRUCTIONS_PER_CLEARED_PAGE = {
    "clear_page": 264.0,  # arm64, with a `dc zva` for 64 bytes; 263 in 6.12
    "clear_page_erms": 4.0,
    "clear_page_rep": 6.0,
    "clear_page_orig": 700.0,
    "clear_highpages_kasan_tagged": 11.0,  # as 7.2 has it, with the instruction of clear_page_erms inside
}
"""The same of functions that clear pages."""

INTERRUPT_ENTRY = re.compile(
    r"(^|;)(asm_sysvec_|asm_common_interrupt|asm_spurious_|(__)?do_softirq|handle_softirqs"  # x86, and all
    r"|decrementer_|hardware_interrupt_|doorbell_|timer_interrupt|(__)?do_irq|(__)?do_IRQ"  # POWER
    r"|el[01][ht]_64_irq|el[01]_irq|el[01]_interrupt)"  # arm64
)
"""A call path in interrupt context."""

INTERRUPT_ON_X86 = r"(?:^|;)asm_(?:sysvec_|common_interrupt)"


# RCU: kernel/rcu/tree.c

RCU_BATCH = ("rcu_do_batch",)
RCU_CORE = ("rcu_core",)
"""Where compilers have put rcu_do_batch() into its caller, as in 5.10, only this one is there."""

RCU_CORE_UP_TO_5_0 = ("rcu_process_callbacks",)

RCU_CALLBACKS = r"^rcu_(?:free|work)"
"""Callbacks whose names begin like those of RCU's own functions."""

RCU_ITSELF = (
    r"^(?:rcu_|(?:__)?note_gp_changes|swake_up|try_to_wake_up|wake_nocb|do_nocb|force_qs|check_cpu_stall"
    r"|strict_work|mod_timer|_raw_spin_|raise_softirq|invoke_rcu|__x86_)"
)
"""What RCU does around callbacks as grace periods pass: that follows the clock, and no operation."""


ON_ARM64 = ("do_el0_svc", "do_mem_abort", "clear_page")
"""Those of the names below that kernels for other architectures lack."""

PLAIN_NAMES = (
    *LOCK_SLOW_PATHS,
    *SLOW_PATH_ENTRIES,
    *SLEEP_AND_WAKE,
    TRYLOCK,
    *INTERRUPTING,
    *QUEUING_CALLS,
    *LEAVING_CPU,
    *WAITING_FOR_WORK,
    *INSTRUCTIONS_PER_SYSTEM_CALL,
    *INSTRUCTIONS_PER_FAULT,
    *INSTRUCTIONS_PER_CLEARED_PAGE,
    *RCU_BATCH,
    *RCU_CORE,
)
"""All that are neither globs nor regular expressions: a test finds each in the symbols of a Debian kernel."""
