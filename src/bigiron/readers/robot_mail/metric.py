"""What the name of a metric says: whether more is better, how many tasks ran, and in which mode."""

import re
from typing import Literal

from bigiron.util.numbers import Better

_RATE = re.compile(r"(?:per[_-]?|/)(?:s|secs?|seconds?|min|minutes?|hours?)(?![a-z])", re.IGNORECASE)
_AMOUNT = re.compile(r"(?:ops|throughput|bandwidth|score|[kmg]bps|tps)$", re.IGNORECASE)
_TIME = re.compile(
    r"time(?!r|out)|latency|(?<![a-z])c?lat(?![a-z])|delay|duration|overhead|seconds?|secs?(?![a-z])"
    r"|(?<![a-z])[mun]s(?![a-z])|[mun]sec|(?:/|per[_-])op(?![a-z])",
    re.IGNORECASE,
)
_OF_SOMETHING_ELSE = re.compile(
    r"overhead|cost|(?<![a-z])(?:max|min)(?![a-z])|\d(?:th|st|nd|rd)(?![a-z])|(?<![a-z])p\d\d"
    r"|percentile|%|stddev|jitter|\.time\.(?!elapsed)",
    re.IGNORECASE,
)
"""Extremes, percentiles and histograms of times, the time that the benchmark itself takes, and CPU time."""
_MONITORS = (
    "time", "perf-stat", "perf-profile", "perf-c2c", "proc-vmstat", "vmstat", "numa-vmstat", "meminfo",
    "numa-meminfo", "turbostat", "sched_debug", "slabinfo", "softirqs", "interrupts", "cpuidle", "iostat",
    "mpstat", "dmesg", "last_state",
)  # fmt: skip
"""What the robot observes beside every benchmark."""
_OF_TIMES = (
    "boot-time",
    "cyclictest",
    "fwq",
    "schbench",
    "rcuscale",
    "rcuperf",
    "autonuma-benchmark",
    "kbuild",
)
"""Benchmarks that measure nothing but times."""

_FXMARK = re.compile(
    r"fxmark\.(?P<media>[a-z]+)_(?P<fstype>[a-z0-9]+(?:_no_jnl)?)_(?P<test>[A-Za-z]\w*?)"
    r"_(?P<tasks>\d{1,7})_(?P<directio>bufferedio|directio)\b"
)
_FXMARK_TASKS = re.compile(r"_(\d{1,7})_(?:buffered|direct)io\b")
_MEMORY = "mem"  # fxmark's disk in memory
_WILL_IT_SCALE = re.compile(
    r"will-it-scale\.(?:per_(?P<per>process|thread)_ops|(?P<tasks>\d{1,7})\."
    r"(?P<of>process|thread)(?:es|s))$"
)


def direction(metric: str) -> Better | None:
    """Whether more or less of a metric is better; None: its name does not say.

    >>> direction("dbench.max_latency"), direction("fio.read_iops"), direction("postmark.transactions")
    ('less', 'more', None)
    """
    benchmark, _, name = metric.partition(".")
    if _RATE.search(name) or _AMOUNT.search(name):
        return "more"
    return "less" if benchmark in _OF_TIMES or _TIME.search(name) else None


def is_of_operations(metric: str) -> bool:
    """Whether a metric is a rate, the mean time of an operation, or that of the whole run.

    Only its change is one of throughput.

    >>> is_of_operations("aim7.jobs-per-min"), is_of_operations("lmbench3.PIPE.latency.us")
    (True, True)
    >>> [is_of_operations(f"x.{name}") for name in ("app_overhead", "latency_95th_ms", "clat_90%_us")]
    [False, False, False]
    """
    name = metric.partition(".")[2]
    return bool(_RATE.search(name) or _AMOUNT.search(name)) or not _OF_SOMETHING_ELSE.search(f".{name}")


def better(metric: str) -> Better:
    """Whether more or less of a metric is better; of most benchmarks' metrics it is more.

    >>> better("stress-ng.msg.ops_per_sec"), better("filebench.sum_operations/s"), better("aim7.jobs-per-min")
    ('more', 'more', 'more')
    >>> better("filebench.sum_time_ms/op"), better("lmbench3.PIPE.latency.us"), better("fsmark.app_overhead")
    ('less', 'less', 'less')
    >>> better("phoronix-test-suite.build-linux-kernel.defconfig.seconds"), better("stress-ng.utime.ops")
    ('less', 'more')
    """
    return direction(metric) or "more"


def benchmark_in(metric: str) -> str:
    """The benchmark that a metric begins with; "": it is one of every benchmark's.

    >>> [benchmark_in(name) for name in ("stress-ng.pagemove.ops", "time.user_time", "ops")]
    ['stress-ng', '', '']
    """
    benchmark, dot, _ = metric.partition(".")
    return benchmark if dot and benchmark not in _MONITORS else ""


def parameters_in(metric: str) -> dict[str, str]:
    """The parameters that a metric's name contains, as the robot names them; its tasks are left out.

    >>> parameters_in("fxmark.ssd_xfs_dbench_client_72_directio.works/sec")
    {'disk': 'ssd', 'media': 'ssd', 'fstype': 'xfs', 'test': 'dbench_client', 'directio': 'directio'}
    >>> parameters_in("fxmark.mem_ext4_no_jnl_MWCL_1_bufferedio.works/sec")["fstype"]
    'ext4_no_jnl'
    """
    found = _FXMARK.match(metric)
    if not found:
        return {}
    disk = {} if found["media"] == _MEMORY else {"disk": found["media"]}
    return disk | {name: found[name] for name in ("media", "fstype", "test", "directio")}


def tasks_in(metric: str, benchmark: str) -> int | None:
    """The number of tasks that a metric's name contains; None if it has none.

    >>> tasks_in("fxmark.ssd_btrfs_MWUM_72_bufferedio.works/sec", "fxmark")
    72
    >>> tasks_in("will-it-scale.104.processes", "will-it-scale")
    104
    """
    if benchmark == "fxmark":
        found = _FXMARK_TASKS.search(metric)
        return int(found[1]) or None if found else None
    of_all = _WILL_IT_SCALE.match(metric)
    return int(of_all["tasks"]) or None if of_all and of_all["tasks"] else None


def mode_in(metric: str) -> Literal["process", "thread"] | None:
    """Whether a metric's name says that the tasks are processes or threads; None if it says neither.

    >>> mode_in("will-it-scale.per_thread_ops"), mode_in("will-it-scale.104.processes"), mode_in("fio.x")
    ('thread', 'process', None)
    """
    found = _WILL_IT_SCALE.match(metric)
    word = (found["per"] or found["of"]) if found else None
    return "thread" if word == "thread" else "process" if word else None
