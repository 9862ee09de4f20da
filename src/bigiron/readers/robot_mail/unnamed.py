"""Tests whose parameters have no names: the robot's mails of 2013 to 2016, and its keepers' answers.

test case: lkp-st02/micro/ebizzy/200%-100-10
testbox/testcase/testparams: lkp-snb01/aim7/performance-3000-exec_test
66597 ± 3%  -97%  2260  will-it-scale/performance-process-100%-lock1-ucode=0x11/lkp-knm01
"""

import re
from collections.abc import Collection, Sequence

from bigiron.readers.figure import label
from bigiron.readers.robot_mail.metric import direction

TEST = re.compile(r"(?:test ?case|(?P<order>test\w+(?:/test\w+)+)):\s*(?P<test>[\w.-]+(?:/[^\s/]+)+)\s*$")
SUBJECT = re.compile(r"\b([0-9a-f]{7,40}):?\s+(?=[-+]?\d+(?:\.\d+)?%\s+\w[\w-]*\.)(.*)$")
"""A mail's subject: [mm] 0123456789a: -18.2% vm-scalability.throughput +2.1% time.system_time"""
_CHANGE = re.compile(r"([-+]?\d+(?:\.\d+)?)%\s+(\w[\w-]*\.\S+)")
NOTICED = re.compile(r"\bnoticed (?:the )?(?:below|following) (?:\w+ )?changes?\b")
ORDER = ("testbox", "testcase", "testparams")
_ORDERS = (("testcase", "testparams", "testbox"), ORDER, ("testbox", "testparams", "testcase"))
"""By the place of the benchmark."""

_ROW = re.compile(r"[\w-]+/(?:[\w.%-]+/)*\S+/\S+$")
_KIND = re.compile(r"(?:micro|debug|stress)\d*")
"""What mails of 2013 have between the machine and the benchmark."""

_BY_FORM = (
    ("nr_threads", r"\d+%"),
    ("runtime", r"\d+s"),
    ("size", r"\d+[KMGT]B?"),
    ("mode", r"process(?:es)?|threads?"),
    ("ipc", r"pipe|socket"),
    ("cpufreq_governor", r"performance|powersave|ondemand"),
    ("fs", r"ext4|xfs|btrfs|f2fs|tmpfs"),
    ("disk", r"\d+(?:HDD|SSD|BRD|DRAM|pmem)\w*"),
)
"""Parameters that a value tells apart."""
_WITH_IPC, _LOAD = "hackbench", "aim7"
"""The benchmark by way of pipes or sockets, and the one whose parameter is a plain number, its load."""
_OF_CLASSES = {"stress-ng": "class"}
"""Benchmarks whose tests ran in classes: the metric names the test."""


def is_test(name: str) -> bool:
    """Whether what a row is of is a test, not a metric, which has a dot before its first slash.

    >>> [is_test(name) for name in ("lkp-ib03/micro/ebizzy/400%-5-30", "filebench.sum_operations/s")]
    [True, False]
    """
    return bool(_ROW.match(name))


def keys(test: str, order: Sequence[str] = (), benchmarks: Collection[str] = ()) -> dict[str, str]:
    """The test as the keys of a table name it; {}: it is not understood.

    `benchmarks`: what metrics begin with. The part of such a name is the benchmark, whatever the order.

    >>> keys("lkp-snb01/aim7/3000-exec_test")
    {'testcase': 'aim7', 'tbox_group': 'lkp-snb01', 'load': '3000', 'test': 'exec_test'}
    >>> keys("will-it-scale/thread-lock1/lkp-knm01", ("testcase", "testparams", "testbox"))
    {'testcase': 'will-it-scale', 'tbox_group': 'lkp-knm01', 'mode': 'thread', 'test': 'lock1'}
    >>> keys("will-it-scale/thread-lock1/lkp-knm01", benchmarks=["will-it-scale"])["test"]
    'lock1'
    """
    parts = [part for part in test.split("/") if not _KIND.fullmatch(part)]
    if len(parts) != len(ORDER):
        return {}
    of = dict(zip(order if len(order) == len(ORDER) else ORDER, parts, strict=True))
    at = next((at for at, part in enumerate(parts) if part in benchmarks), None)
    if at is not None and of.get("testcase") != parts[at]:
        of = dict(zip(_ORDERS[at], parts, strict=True))
    if set(of) != set(ORDER):
        return {}
    return {
        "testcase": of["testcase"],
        "tbox_group": of["testbox"],
        **_parameters(of["testcase"], of["testparams"]),
    }


def _parameters(benchmark: str, values: str) -> dict[str, str]:
    """By the form of each value; what is left is the test."""
    found: dict[str, str] = {}
    left: list[str] = []
    for value in values.split("-"):
        name = next((name for name, form in _BY_FORM if re.fullmatch(form, value)), "")
        given, _, of_name = value.partition("=")
        if of_name:
            found[given] = of_name
        elif name and (name != "ipc" or benchmark == _WITH_IPC):
            found.setdefault(name, value)
        elif not value.isdecimal():
            left.append(value)
        elif benchmark == _LOAD:
            found.setdefault("load", value)
    return found | ({_OF_CLASSES.get(benchmark, "test"): "-".join(left)} if left else {})


def change_in(subject: str, benchmark: str) -> tuple[str, str, bool] | None:
    """The metric in a subject, its change as it is printed, and whether that is a regression.

    Of several it is that of the benchmark itself, else the first.

    >>> change_in("[sched] 0123456789a: -46.9% time.user_time +1.5% aim7.jobs-per-min", "aim7")
    ('aim7.jobs-per-min', '+1.5', False)
    """
    found = SUBJECT.search(subject)
    pairs = _CHANGE.findall(found[2]) if found else []
    of_benchmark = [pair for pair in pairs if pair[1].startswith(f"{benchmark}.")]
    for printed, metric in (of_benchmark or pairs)[:1]:
        less = direction(metric) == "less"
        return label(metric, None), printed, printed.startswith("-") != less
    return None


def benchmarks_in(subject: str) -> list[str]:
    """What the metrics in a subject begin with.

    >>> benchmarks_in("[sched] 0123456789a: -46.9% time.user_time +1.5% aim7.jobs-per-min")
    ['time', 'aim7']
    """
    found = SUBJECT.search(subject)
    return [metric.partition(".")[0] for _, metric in _CHANGE.findall(found[2])] if found else []


def is_of(subject: str, benchmark: str) -> bool:
    """Whether a subject names a metric of a benchmark."""
    found = change_in(subject, benchmark)
    return bool(found and found[0].startswith(f"{benchmark}."))
