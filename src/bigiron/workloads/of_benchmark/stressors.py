"""The stressors of stress-ng 0.19.02; which of them cannot run, and which make few system calls."""

STRESSORS = (
    "access", "acl", "af-alg", "affinity", "aio", "aiol", "alarm", "apparmor", "atomic", "bad-altstack",
    "bad-ioctl", "besselmath", "bigheap", "bind-mount", "binderfs", "bitonicsort", "bitops", "branch",
    "brk", "bsearch", "bubblesort", "cache", "cachehammer", "cacheline", "cap", "cgroup", "chattr", "chdir",
    "chmod", "chown", "chroot", "clock", "clone", "close", "context", "copy-file", "cpu", "cpu-online",
    "cpu-sched", "crypt", "cyclic", "daemon", "dccp", "dekker", "dentry", "dev", "dev-shm", "dfp", "dir",
    "dirdeep", "dirmany", "dnotify", "dup", "dynlib", "easy-opcode", "efivar", "eigen", "enosys", "env",
    "epoll", "eventfd", "exec", "exit-group", "expmath", "factor", "fallocate", "fanotify", "far-branch",
    "fault", "fcntl", "fd-abuse", "fd-fork", "fd-race", "fibsearch", "fiemap", "fifo", "file-ioctl",
    "filename", "filerace", "flipflop", "flock", "flushcache", "fma", "fork", "forkheavy", "fp", "fp-error",
    "fpunch", "fractal", "fsize", "fstat", "full", "funccall", "funcret", "futex", "get", "getdent",
    "getrandom", "goto", "gpu", "handle", "hash", "hdd", "heapsort", "hrtimers", "hsearch", "hyperbolic",
    "icache", "icmp-flood", "idle-page", "inode-flags", "inotify", "insertionsort", "intmath", "io",
    "io-uring", "iomix", "ioport", "ioprio", "ipsec-mb", "itimer", "jpeg", "judy", "kcmp", "key", "kill",
    "klog", "kvm", "l1cache", "landlock", "lease", "led", "link", "list", "llc-affinity", "loadavg",
    "locka", "lockbus", "lockf", "lockmix", "lockofd", "logmath", "longjmp", "loop", "lsearch", "lsm",
    "madvise", "malloc", "matrix", "matrix-3d", "mcontend", "membarrier", "memcpy", "memfd", "memhotplug",
    "memrate", "memthrash", "mergesort", "metamix", "min-nanosleep", "mincore", "misaligned", "mknod",
    "mlock", "mlockmany", "mmap", "mmapaddr", "mmapcow", "mmapfiles", "mmapfixed", "mmapfork", "mmaphuge",
    "mmapmany", "mmaptorture", "module", "monte-carlo", "mpfr", "mprotect", "mq", "mremap", "mseal", "msg",
    "msync", "msyncmany", "mtx", "munmap", "mutex", "nanosleep", "netdev", "netlink-proc", "netlink-task",
    "nice", "nop", "null", "numa", "oom-pipe", "opcode", "open", "pagemove", "pageswap", "pci",
    "personality", "peterson", "physmmap", "physpage", "pidfd", "ping-sock", "pipe", "pipeherd", "pkey",
    "plugin", "poll", "powmath", "prctl", "prefetch", "prime", "prio-inv", "priv-instr", "procfs", "pseek",
    "pthread", "ptr-chase", "ptrace", "pty", "qsort", "quota", "race-sched", "radixsort", "ramfs",
    "randlist", "rawdev", "rawpkt", "rawsock", "rawudp", "rdrand", "readahead", "reboot", "regex", "regs",
    "remap", "rename", "resched", "resources", "revio", "ring-pipe", "rlimit", "rmap", "rotate", "rseq",
    "rtc", "schedmix", "schedpolicy", "sctp", "seal", "seccomp", "secretmem", "seek", "sem", "sem-sysv",
    "sendfile", "session", "set", "shellsort", "shm", "shm-sysv", "sigabrt", "sigbus", "sigchld", "sigfd",
    "sigfpe", "sighup", "sigill", "sigio", "signal", "signest", "sigpending", "sigpipe", "sigq", "sigrt",
    "sigsegv", "sigsuspend", "sigtrap", "sigurg", "sigvtalrm", "sigxcpu", "sigxfsz", "skiplist", "sleep",
    "smi", "sock", "sockabuse", "sockdiag", "sockfd", "sockmany", "sockpair", "softlockup", "sparsematrix",
    "spawn", "spinmem", "splice", "stack", "stackmmap", "statmount", "str", "stream", "swap", "switch",
    "symlink", "sync-file", "syncload", "sysbadaddr", "syscall", "sysfs", "sysinfo", "sysinval", "tee",
    "time-warp", "timer", "timerfd", "tlb-shootdown", "tmpfs", "touch", "tree", "trig", "tsc", "tsearch",
    "tun", "udp", "udp-flood", "umask", "umount", "unlink", "unshare", "uprobe", "urandom", "userfaultfd",
    "usersyscall", "utime", "vdso", "veccmp", "vecfp", "vecmath", "vecshuf", "vecwide", "verity", "vfork",
    "vforkmany", "vm", "vm-addr", "vm-rw", "vm-segv", "vm-splice", "vma", "vnni", "wait", "waitcpu",
    "watchdog", "wcs", "workload", "x86cpuid", "x86syscall", "xattr", "yield", "zero", "zlib", "zombie",
)  # fmt: skip

WHY_NOT = {
    "it needs a device that a virtual machine here lacks": (
        "binderfs", "dev", "efivar", "gpu", "ioport", "kvm", "led", "loop", "pci", "quota", "rawdev",
        "rtc", "smi", "swap", "tun", "watchdog",
    ),
    "it needs a module that these kernels do not load": ("dccp", "module", "sctp"),
    "it turns on the kernel's tracing, which bigiron itself uses": ("uprobe",),
    "it takes CPUs or memory offline (--workload hotplug-cycle does so with CPUs)": (
        "cpu-online", "memhotplug",
    ),
}  # fmt: skip
"""The stressors that are refused, by the reason."""

PATHOLOGICAL = ("bad-ioctl", "bind-mount", "mlockmany", "oom-pipe", "sysinval")
"""Those of CLASS_PATHOLOGICAL, which stress-ng skips without --pathological."""

NOT_AS_ROOT = ("bad-ioctl", "exec", "spawn")
"""Those that the robot runs without privileges; exec and spawn skip themselves as root."""

IN_USER_MODE = (
    "atomic", "besselmath", "bitonicsort", "bitops", "branch", "bsearch", "bubblesort", "cache",
    "cachehammer", "cacheline", "cpu", "dekker", "dfp", "easy-opcode", "eigen", "expmath", "factor",
    "far-branch", "fibsearch", "flushcache", "fma", "fp", "fractal", "funccall", "funcret", "goto", "hash",
    "heapsort", "hsearch", "hyperbolic", "icache", "insertionsort", "intmath", "ipsec-mb", "jpeg", "judy",
    "l1cache", "list", "llc-affinity", "lockbus", "logmath", "lsearch", "matrix", "matrix-3d", "mcontend",
    "memcpy", "memrate", "memthrash", "mergesort", "misaligned", "monte-carlo", "mpfr", "nop", "opcode",
    "peterson", "powmath", "prefetch", "prime", "ptr-chase", "qsort", "radixsort", "randlist", "rdrand",
    "regs", "rotate", "rseq", "shellsort", "skiplist", "sparsematrix", "str", "stream", "syncload", "tree",
    "trig", "tsc", "tsearch", "veccmp", "vecfp", "vecmath", "vecshuf", "vecwide", "vnni", "waitcpu", "wcs",
    "x86cpuid", "zlib",
)  # fmt: skip
"""Stressors that compute in user mode: reports of them are of code layout, clock rates or placement."""

OF_FAULTS = (
    "bad-altstack", "bigheap", "malloc", "mlockmany", "mmapcow", "mmapfork", "mmaphuge", "mmaptorture",
    "physpage", "rmap", "stack", "userfaultfd", "vm", "vm-rw",
)  # fmt: skip
"""Stressors that mostly take page faults: too few system calls to count per."""
