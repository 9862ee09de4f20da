"""The workload that corresponds to the benchmark in a report."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bigiron.errors import UserError
from bigiron.workloads.registry import builtin

_FXMARK_FS = {"tmpfs": "", "mem": "", "ext4": "ext4", "xfs": "xfs", "btrfs": "btrfs", "f2fs": "f2fs"}
_UNIXBENCH = {"context1": "context_switch1", "pipe": "pipe1"}
_WHOLE = {"perf-bench-sched-pipe": "context_switch1"}
_INSTEAD = (
    "give the part of it that matters as a C file with will-it-scale's testcase(): --workload-file F.c, "
    "or a workload that does the same: --workload NAME (`bigiron workload list`)"
)


@dataclass(frozen=True)
class Mapped:
    """A built-in workload, whether its tasks are processes or threads, and its file system ("": tmpfs)."""

    workload: str
    mode: Literal["process", "thread"]
    fs: str = ""


def workload_of(benchmark: str, parameters: Mapping[str, str]) -> Mapped:
    """The workload for a benchmark, with its parameters as the kernel test robot writes them.

    >>> workload_of("will-it-scale", {"test": "open1", "mode": "thread", "nr_task": "50%"})
    Mapped(workload='open1', mode='thread', fs='')
    >>> workload_of("fxmark", {"test": "MWCL", "fstype": "ext4", "directio": "directio"}).fs
    'ext4'
    >>> workload_of("hackbench", {"ipc": "pipe", "mode": "threads", "nr_threads": "50%", "iterations": "4"})
    Mapped(workload='hackbench/pipe', mode='thread', fs='')
    """
    known = {workload.name for workload in builtin()}
    test = parameters.get("test", "")
    if benchmark == "hackbench":
        return _hackbench(parameters)
    if benchmark == "unixbench" and test not in _UNIXBENCH:
        raise UserError(f"no workload does what unixbench's {test or 'tests'} does: {_INSTEAD}")
    if does_the_same := _UNIXBENCH.get(test) if benchmark == "unixbench" else _WHOLE.get(benchmark):
        return Mapped(does_the_same, mode_of(parameters))
    if benchmark not in ("will-it-scale", "fxmark"):
        raise UserError(f"no workload does what {benchmark} does: {_INSTEAD}")
    if not test:
        raise UserError(
            f"the report does not say which test of {benchmark} was run (parameter test): {_INSTEAD}"
        )
    if benchmark == "fxmark":
        return _fxmark(test, parameters, known)
    if test not in known:
        raise UserError(
            f"will-it-scale's {test} is not built in: give upstream's file, "
            f"--workload-file will-it-scale/tests/{test}.c"
        )
    return Mapped(test, mode_of(parameters))


def mode_of(parameters: Mapping[str, str]) -> Literal["process", "thread"]:
    """The kind of tasks that the parameter `mode` gives; processes by default."""
    return "thread" if parameters.get("mode", "process").startswith("thread") else "process"


def fs_of(parameters: Mapping[str, str]) -> str | None:
    """The file system that the report names ("": tmpfs); None if no machine here has it."""
    return _FXMARK_FS.get(parameters.get("fstype", "tmpfs"))


def _hackbench(parameters: Mapping[str, str]) -> Mapped:
    """By sockets unless pipes are requested, as hackbench does."""
    ipc = parameters.get("ipc", "socket")
    if ipc not in ("pipe", "socket"):
        raise UserError(f"hackbench by way of {ipc!r} (parameter ipc) is not built in: {_INSTEAD}")
    return Mapped(f"hackbench/{ipc}", mode_of(parameters))


def _fxmark(test: str, parameters: Mapping[str, str], known: set[str]) -> Mapped:
    of_data = test.startswith("D")  # those of metadata read and write nothing
    direct = "-direct" if of_data and parameters.get("directio") == "directio" else ""
    name = f"fxmark/{test}{direct}"
    if name not in known:
        raise UserError(f"fxmark's {test}{direct} is not built in: {_INSTEAD}")
    file_system = fs_of(parameters)
    if file_system is None:
        raise UserError(
            f"the report is of fxmark on {parameters['fstype']}, which no machine here has: use one of "
            f"{', '.join(_FXMARK_FS)}; give --workload {name} to judge it on tmpfs"
        )
    return Mapped(name, "process", file_system)
