"""Curves that `benchmarks/predictions/curves.py` scores: their machines, and recordings to predict them."""

from pathlib import Path

OURS = Path(__file__).parents[1] / "workloads"
PAGES, MORE_PAGES, HUGE, WHOLE_HUGE = 64, 512, 1024, 32768  # pages an operation of the page_fault workloads

MORE = {
    "user": ["--scope", "user"],
    "slow": ["--operations", "100"],
    # Debian clears a huge page twice, once as it is allocated.
    "huge": ["--operations", "12", "--boot", "init_on_alloc=0"],
    "whole": ["--operations", "12"],
    # More CPUs would clear their memory for longer than a cell may take.
    "whole huge": [
        *("--cpus", "4", "--memory", "4096", "--operations", "4", "--deadline", "1800"),
        *("--boot", "init_on_alloc=0 transparent_hugepage=always"),
    ],
    # The file systems of fallocate2 and of reaim's creat_clo.
    # A commit of the journal after 5 s comes once in 10^6 operations there, and once in some hundred here.
    "ext4 scan0": ["--fs", "ext4", "--mount-options", "mb_optimize_scan=0,commit=300"],
    "ext4 scan1": ["--fs", "ext4", "--mount-options", "mb_optimize_scan=1,commit=300"],
    "ext4": ["--fs", "ext4", "--mount-options", "commit=300"],
    "ext4 orphan": ["--fs", "ext4", "--mkfs-options", "-O orphan_file", "--mount-options", "commit=300"],
}
# name: workload, kernel, mode, kernel parameters or one of the above
RECORDINGS = {
    "open1-thr": ("open1", "5.10", "thread", "apparmor=0"),
    "signal1": ("signal1", "5.10", "process", "apparmor=0"),
    "brk1": ("brk1", "5.10", "process", ""),
    "malloc1": ("malloc1", "5.10", "process", ""),
    "malloc1-thr": ("malloc1", "5.10", "thread", "slow"),
    "pf1": ("page_fault1", "5.10", "process", ""),
    "pf1-7.2": ("page_fault1", "7.2", "process", ""),
    "pf3": ("page_fault3", "5.10", "process", ""),
    "pf1-thr": ("page_fault1", "5.10", "thread", ""),
    "pf3-whole-thr": (str(OURS / "page_fault3_whole.c"), "5.10", "thread", "whole"),
    "pf1-whole-huge-thr": (str(OURS / "page_fault1_whole_huge.c"), "6.1", "thread", "whole huge"),
    "pf1-huge-6.1": (str(OURS / "page_fault1_huge.c"), "6.1", "process", "huge"),
    "pft-6.1": (str(OURS / "pft.c"), "6.1", "thread", "slow"),
    "pft-6.12": (str(OURS / "pft.c"), "6.12", "thread", "slow"),
    "pft-7.2": (str(OURS / "pft.c"), "7.2", "thread", "slow"),
    "getppid1-7.2": ("getppid1", "7.2", "process", ""),
    "open1-7.2": ("open1", "7.2", "process", ""),
    "tcp_conn1-7.2": (str(OURS / "tcp_conn1.c"), "7.2", "process", ""),
    "mutex1-thr": ("pthread_mutex1", "5.10", "thread", "user"),
    "open3-6.1": ("open3", "6.1", "process", "apparmor=0"),
    "fstat2-6.1": ("fstat2", "6.1", "process", "apparmor=0"),
    "tlb_flush1-thr": (str(OURS / "tlb_flush1_apart.c"), "5.10", "thread", ""),
    "tlb_flush1-6.1-thr": ("tlb_flush1", "6.1", "thread", ""),
    "open2-6.12-thr": ("open2", "6.12", "thread", "apparmor=0"),
    "lock1-6.12-thr": ("lock1", "6.12", "thread", "apparmor=0"),
    # Before ext4's patches. Debian's 6.12 has half of them: `ext4_mb_scan_group()` leaves out locked groups.
    "falloc2-6.1-scan0": ("fallocate2", "6.1", "process", "ext4 scan0"),
    "falloc2-6.1-scan1": ("fallocate2", "6.1", "process", "ext4 scan1"),
    "falloc2-7.2-scan0": ("fallocate2", "7.2", "process", "ext4 scan0"),
    "falloc2-7.2-scan1": ("fallocate2", "7.2", "process", "ext4 scan1"),
    "creat-clo": ("aim9/creat-clo", "5.10", "process", "ext4"),
    "creat-clo-6.1": ("aim9/creat-clo", "6.1", "process", "ext4 orphan"),
    "tls_add-thr": (str(OURS / "tls_add.c"), "5.10", "thread", "user"),
    "atomic_add-thr": (str(OURS / "atomic_add.c"), "5.10", "thread", "user"),
    "cas_add-thr": (str(OURS / "cas_add.c"), "5.10", "thread", "user"),
    "cas_multi-thr": (str(OURS / "cas_multi.c"), "5.10", "thread", "user"),
    "plain_add-thr": (str(OURS / "plain_add.c"), "5.10", "thread", "user"),
    "mutex_add-thr": (str(OURS / "mutex_add.c"), "5.10", "thread", "user"),
}

# curve: recording, machine, lock, its operations in one of ours, its unit in operations per second
X5_4, BROADWELL = "xeon-e7-8895v3-x4", "xeon-e5-2650v4-x2"
TWO_CALLS = 2  # iterations of a loop of brk1 and lock1
# Jobs a minute, of 1,000 files each: all points are 500 jobs of each client in whole hundredths of a second.
REAIM = 1000 / 60
CASCADE_LAKE, KUNPENG = "cascade-lake-24c-x2", "kunpeng-920-x2"
CURVES = {
    "cna14-open1-stock": ("open1-thr", X5_4, "qspinlock", 1, 1),
    "cna14-open1-cna": ("open1-thr", X5_4, "cna", 1, 1),
    "cna3-open1-stock": ("open1-thr", X5_4, "qspinlock", 1, 1),
    "cna3-open1-cna": ("open1-thr", X5_4, "cna", 1, 1),
    "cna3-open1-i7": ("open1-thr", "i7-4770", "qspinlock", 1, 1),
    "mt2-signal1-proc": ("signal1", X5_4, "qspinlock", 1, 1),
    "mt1-signal1-proc": ("signal1", X5_4, "qspinlock", 1, 1),
    "mt2-brk1-proc": ("brk1", X5_4, "qspinlock", TWO_CALLS, 1),
    "mt1-brk1-proc": ("brk1", X5_4, "qspinlock", TWO_CALLS, 1),
    "mt2-malloc1-proc": ("malloc1", X5_4, "qspinlock", 1, 1),
    "mt1-malloc1-proc": ("malloc1", X5_4, "qspinlock", 1, 1),
    "mt2-malloc1-thr": ("malloc1-thr", X5_4, "qspinlock", 1, 1),
    "mt1-malloc1-thr": ("malloc1-thr", X5_4, "qspinlock", 1, 1),
    "mt2-page_fault1-thr": ("pf1-whole-huge-thr", X5_4, "qspinlock", WHOLE_HUGE, 1),
    "mt2-page_fault3-thr": ("pf3-whole-thr", X5_4, "qspinlock", MORE_PAGES, 1),
    "mt2-pthread_mutex1-thr": ("mutex1-thr", X5_4, "qspinlock", 1, 1),
    "mt1-pthread_mutex1-thr": ("mutex1-thr", X5_4, "qspinlock", 1, 1),
    "clx-pf1-proc": ("pf1-huge-6.1", "cascade-lake-20c-x2", "qspinlock", HUGE, 1),
    "clx-pf1-proc-new": ("pf1-huge-6.1", "cascade-lake-20c-x2", "qspinlock", HUGE, 1),
    "pft-bdw-vmarw": ("pft-6.12", "xeon-e5-2690v4-x2", "qspinlock", PAGES, 1),
    "pft-bdw-vmaref": ("pft-7.2", "xeon-e5-2690v4-x2", "qspinlock", PAGES, 1),
    "pft-icx-base": ("pft-6.1", "ice-lake-32c-x2", "qspinlock", PAGES, 1),
    "pft-icx-pvl2": ("pft-6.12", "ice-lake-32c-x2", "qspinlock", PAGES, 1),
    "pft-icx-pvl2opt": ("pft-6.12", "ice-lake-32c-x2", "qspinlock", PAGES, 1),
    "r630-pf1-thr": ("pf1-thr", BROADWELL, "qspinlock", PAGES, 1),
    "r630-pf3-thr": ("pf3-whole-thr", BROADWELL, "qspinlock", MORE_PAGES, 1),
    "r630-pf1-proc": ("pf1", BROADWELL, "qspinlock", PAGES, 1),
    "r630-pf3-proc": ("pf3", BROADWELL, "qspinlock", PAGES, 1),
    "mk-getppid1": ("getppid1-7.2", "xeon-5418y-x2", "qspinlock", 1, 15.15e6),
    "mk-page_fault1": ("pf1-7.2", "xeon-5418y-x2", "qspinlock", PAGES, 0.69e6),
    "mk-tcp_conn1": ("tcp_conn1-7.2", "xeon-5418y-x2", "qspinlock", 1, 0.140e6),
    "mk-open1": ("open1-7.2", "xeon-5418y-x2", "qspinlock", 1, 2.0e6),
    "lockref-clx-open3-nopause": ("open3-6.1", CASCADE_LAKE, "qspinlock", 1, 1),
    "lockref-clx-fstat2-nopause": ("fstat2-6.1", CASCADE_LAKE, "qspinlock", 1, 1),
    "tlbflush1-skl56-stock": ("tlb_flush1-thr", "skylake-28c-x2", "qspinlock", 1, 1),
    "tlbflush1-skl56-patch": ("tlb_flush1-6.1-thr", "skylake-28c-x2", "qspinlock", 1, 1),
    "spr-open2-ql": ("open2-6.12-thr", "sapphire-rapids-48c-x2", "qspinlock", 1, 1),
    "spr-lock1-ql": ("lock1-6.12-thr", "sapphire-rapids-48c-x2", "qspinlock", TWO_CALLS, 1),
    "altra-open2-ql": ("open2-6.12-thr", "altra-max-m128-x2", "qspinlock", 1, 1),
    "altra-lock1-ql": ("lock1-6.12-thr", "altra-max-m128-x2", "qspinlock", TWO_CALLS, 1),
    "creatclo-xeon80-vanilla": ("creat-clo", "cascade-lake-20c-x2", "qspinlock", 1, REAIM),
    "creatclo-xeon80-patched": ("creat-clo-6.1", "cascade-lake-20c-x2", "qspinlock", 1, REAIM),
    "2x9654-falloc2-v3-base-scan1": ("falloc2-6.1-scan1", "epyc-9654-x2", "qspinlock", 1, 1),
    "2x9654-falloc2-v3-all-scan1": ("falloc2-7.2-scan1", "epyc-9654-x2", "qspinlock", 1, 1),
    "kp-falloc2-linear": ("falloc2-7.2-scan0", KUNPENG, "qspinlock", 1, 1),
    "kp-falloc2-optscan": ("falloc2-7.2-scan1", KUNPENG, "qspinlock", 1, 1),
    "kp-falloc2-v3-base-scan0": ("falloc2-6.1-scan0", KUNPENG, "qspinlock", 1, 1),
    "kp-falloc2-v3-base-scan1": ("falloc2-6.1-scan1", KUNPENG, "qspinlock", 1, 1),
    "kp-falloc2-v3-all-scan0": ("falloc2-7.2-scan0", KUNPENG, "qspinlock", 1, 1),
    "kp-falloc2-v3-all-scan1": ("falloc2-7.2-scan1", KUNPENG, "qspinlock", 1, 1),
    "g2-tls-add": ("tls_add-thr", "graviton2-16", "qspinlock", 1, 1),
    "g2-cas-multi": ("cas_multi-thr", "graviton2-16", "qspinlock", 1, 1),
    "g2-plain-add": ("plain_add-thr", "graviton2-16", "qspinlock", 1, 1),
    "g2-mutex-add": ("mutex_add-thr", "graviton2-16", "qspinlock", 1, 1),
    "g1-tls-add": ("tls_add-thr", "graviton-16", "qspinlock", 1, 1),
    "g1-atomic-add": ("atomic_add-thr", "graviton-16", "qspinlock", 1, 1),
    "g1-cas-add": ("cas_add-thr", "graviton-16", "qspinlock", 1, 1),
    "g1-cas-multi": ("cas_multi-thr", "graviton-16", "qspinlock", 1, 1),
    "g1-plain-add": ("plain_add-thr", "graviton-16", "qspinlock", 1, 1),
    "g1-mutex-add": ("mutex_add-thr", "graviton-16", "qspinlock", 1, 1),
}

UNFITTED = tuple(CURVES)[tuple(CURVES).index("lockref-clx-open3-nopause") :]
"""Added when all constants but the model's error had been fitted."""

PAIRS = (
    ("cna14-open1-stock", "cna14-open1-cna"),
    ("cna3-open1-stock", "cna3-open1-cna"),
    ("pft-bdw-vmarw", "pft-bdw-vmaref"),
    ("pft-icx-base", "pft-icx-pvl2"),
    ("pft-icx-base", "pft-icx-pvl2opt"),
    ("tlbflush1-skl56-stock", "tlbflush1-skl56-patch"),
    ("creatclo-xeon80-vanilla", "creatclo-xeon80-patched"),
    ("2x9654-falloc2-v3-base-scan1", "2x9654-falloc2-v3-all-scan1"),
    ("kp-falloc2-v3-base-scan0", "kp-falloc2-v3-all-scan0"),
    ("kp-falloc2-v3-base-scan1", "kp-falloc2-v3-all-scan1"),
)
"""Before and after a patch, where a kernel of either was recorded."""

WITHOUT_RATE = (
    *("cna14-open1-stock", "cna3-open1-i7", "mt2-signal1-proc", "mt2-brk1-proc", "mt2-malloc1-proc"),
    *("pft-bdw-vmarw", "pft-icx-base", "pft-icx-pvl2", "clx-pf1-proc", "r630-pf1-proc", "r630-pf3-proc"),
    *("mk-getppid1", "mk-page_fault1", "mk-tcp_conn1", "mk-open1"),
)
"""Curves that are predicted without a rate as well: one of each recording and machine."""

OWN_CPUS = (
    *("cna14-open1-stock", "mt2-signal1-proc", "mt2-brk1-proc", "mt2-malloc1-proc"),
    *("r630-pf1-proc", "r630-pf3-proc", "mk-getppid1", "mk-page_fault1", "mk-tcp_conn1", "mk-open1"),
)
"""Curves whose recordings are made with the CPUs and nodes of their machine as well."""

UNBOUND = ("pft-6.1", "pft-6.12", "pft-7.2", "creat-clo", "creat-clo-6.1")
"""Recordings of benchmarks that do not bind their tasks (mmtests starts `pft -m SIZE -t THREADS`, and reaim
sets no affinity: github.com/davidlohr/areaim): the scheduler spreads them over all nodes. Will-it-scale binds
each to a core, one socket's after the other."""

UNLIKE = ("pf3-whole-thr", "pf1-whole-huge-thr", "malloc1-thr")
"""Recordings that are scored, and not fitted to: of another mixture than the benchmark's, or another kernel;
and of tasks that sleep for a semaphore: published throughput of two is an eighth of that of five."""

JUDGED = (
    "atomic_add-thr",
    "cas_add-thr",
    "cas_multi-thr",
    "creat-clo",
    "creat-clo-6.1",
    "falloc2-6.1-scan0",
    "falloc2-6.1-scan1",
    "falloc2-7.2-scan0",
    "falloc2-7.2-scan1",
    "fstat2-6.1",
    "lock1-6.12-thr",
    "mutex_add-thr",
    "open2-6.12-thr",
    "open3-6.1",
    "plain_add-thr",
    "tlb_flush1-6.1-thr",
    "tlb_flush1-thr",
    "tls_add-thr",
)
"""Recordings of curves that came when the constants had been fitted: scored, and not fitted to.

Of Graviton 2's curves, atomic additions are left out: what its machine file says of far atomics is from them.
"""
