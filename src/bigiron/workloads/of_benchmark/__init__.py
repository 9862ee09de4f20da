"""What does the same as the benchmark in a report: a built-in workload, or a program in a virtual machine.

One file per kind of benchmark; `_FAMILIES` is the table of contents.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark import (
    built_in,
    dbench,
    fio,
    lmbench,
    network,
    out_of_scope,
    perf_bench,
    phoronix,
    scripts,
    stress_ng,
    sysbench,
)
from bigiron.workloads.of_benchmark.mapped import (
    INSTEAD,
    FamilyMapper,
    Mapped,
    MappedProgram,
    Parameters,
    fs_named,
    fs_of,
    mode_of,
    without_fs,
)
from bigiron.workloads.registry import find

__all__ = [
    "Mapped",
    "MappedProgram",
    "Parameters",
    "check_metric",
    "families",
    "fs_named",
    "fs_of",
    "mode_of",
    "without_fs",
    "workload_of",
]

_FAMILIES: Mapping[str, FamilyMapper] = {
    "will-it-scale": built_in.will_it_scale,
    "fxmark": built_in.fxmark,
    "hackbench": built_in.hackbench,
    "filebench": built_in.filebench,
    "fsmark": built_in.fsmark,
    "reaim": built_in.reaim,
    "postmark": built_in.postmark,
    **{name: partial(built_in.of_suite, name) for name in ("aim7", "vm-scalability")},
    "lmbench3": lmbench.lmbench,
    "aim9": scripts.aim9,
    "unixbench": scripts.unixbench,
    "dbench": dbench.dbench,
    "tbench": dbench.tbench,
    "phoronix-test-suite": phoronix.phoronix,
    "stress-ng": stress_ng.stress_ng,
    "netperf": network.netperf,
    "iperf": network.iperf,
    "sockperf": network.sockperf,
    "fio-basic": fio.fio,
    "sysbench": sysbench.sysbench,
    "perf-bench": perf_bench.perf_bench,
    **out_of_scope.FAMILIES,
}  # fmt: skip

_ALIASES = {
    "lmbench": "lmbench3",
    "iperf3": "iperf",
    "fio": "fio-basic",
    "fs_mark": "fsmark",
    "fileio": "sysbench-fileio",
    "pts": "phoronix-test-suite",
}
_WITH_TEST = ("perf-bench-", "sysbench-")
"""Benchmarks whose names go on with the test: perf-bench-futex, sysbench-threads."""


def families() -> list[str]:
    """The benchmarks that are mapped, or refused with a reason of their own."""
    return list(_FAMILIES)


def workload_of(benchmark: str, parameters: Parameters, metric: str = "") -> Mapped:
    """What does the same as a benchmark, with its parameters and metric as the kernel test robot writes them.

    UserError says why there is nothing, and what to give instead.

    >>> workload_of("will-it-scale", {"test": "open1", "mode": "thread"}) == Mapped("open1", "thread")
    True
    >>> workload_of("fxmark", {"test": "MWCL", "fstype": "ext4", "directio": "directio"}).fs
    'ext4'
    >>> workload_of("stress-ng", {"nr_threads": "100%"}, "stress-ng.msg.ops_per_sec").called
    'stress-ng --verbose --no-rand-seed --msg {tasks}'
    """
    name, test = _family(benchmark)
    if test:
        parameters = {**parameters, "test": " ".join([test, parameters.get("test", "")]).strip()}
    if name not in _FAMILIES:
        raise UserError(f"no workload does what {benchmark} does: {INSTEAD}")
    found = _FAMILIES[name](parameters, metric)
    differs = find(found.workload).differs if found.workload else ""
    return replace(found, differs=(*found.differs, differs)) if differs else found


def check_metric(benchmark: str, metric: str) -> None:
    """UserError if a report's metric is one of another benchmark: its lines are of two reports.

    >>> check_metric("fio-basic", "fio.write_iops"), check_metric("ebizzy", "ebizzy.throughput")
    (None, None)
    """
    of_metric, _ = _family(metric.partition(".")[0])
    if of_metric in _FAMILIES and of_metric != _family(benchmark)[0]:
        raise UserError(
            f"the report's metric is {metric}, but its benchmark is {benchmark}: give the lines of one report"
        )


def _family(benchmark: str) -> tuple[str, str]:
    """What a benchmark is called here, and the test that its name goes on with; "": it does not."""
    name = _ALIASES.get(benchmark, benchmark)
    for prefix in _WITH_TEST:
        if name.startswith(prefix):
            return prefix.removesuffix("-"), name.removeprefix(prefix)
    return name, ""
