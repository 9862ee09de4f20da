"""lmbench3: each test of a report prints several figures, of which the metric names one."""

import re
from collections.abc import Iterator
from dataclasses import replace

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.built_in import of_suite
from bigiron.workloads.of_benchmark.mapped import INSTEAD, Mapped, Parameters
from bigiron.workloads.of_benchmark.out_of_scope import IN_USER_MODE

_OF_FIGURE = {
    "syscall.syscall.latency": "null",
    "syscall.read.latency": "read",
    "syscall.write.latency": "write",
    "syscall.stat.latency": "stat",
    "syscall.fstat.latency": "fstat",
    "syscall.open/close.latency": "open",
    "process.fork+exit.latency": "fork",
    "process.fork+execve.latency": "exec",
    "pipe.latency": "pipe",
    "pipe.bandwidth": "bw_pipe",
    "af_unix.sock.stream.latency": "unix",
    "af_unix.sock.stream.bandwidth": "bw_unix",
    "udp.usinglocalhost.latency": "udp",
    "tcp.localhost.latency": "tcp",
    "tcp.socket.bandwidth.64b": "bw_tcp-64",
    "tcp.socket.bandwidth.10mb": "bw_tcp",
    "connect.localhost.latency": "connect",
    "pagefaults": "pagefault",
    "mmap.read.latency": "mmap",
}
"""What the robot calls the figures (lkp-tests: programs/lmbench3/parse), in lower case; a unit follows."""

_SELECT = re.compile(r"select\.(\d+)(fd|tcp)\.")
_CTX = re.compile(r"ctx\.96p\.(\d+)k\.")
_DESCRIPTORS = 100

_SUITE = "lmbench3"
_COMPUTE = ("ops.", "bcopy.", "mem.")
_WITH_ONE_FIGURE = ("CONNECT", "CTX", "PAGEFAULT", "UDP")
_ON_ONE_CPU = {
    **dict.fromkeys(("pipe", "unix", "tcp", "udp"), "both processes of the pair on one CPU"),
    "connect": "client and server in one task, and connections that are reset",
}
"""Where the partner of a task is here, in tests of latency. Those of bandwidth say so themselves."""


def lmbench(parameters: Parameters, metric: str) -> Mapped:
    """The test that prints the metric's figure; without a metric, the latency where a test prints several."""
    test = parameters.get("test", "")
    found = of_suite(_SUITE, {**parameters, "test": _named(test, metric) if metric else test}, "")
    differs = [*found.differs, *_of_size(metric.lower())]
    if where := _ON_ONE_CPU.get(found.workload.removeprefix("lmbench/")):
        differs.append(where)
    return replace(found, differs=tuple(differs))


def _of_size(metric: str) -> Iterator[str]:
    """In what a test of another size differs."""
    select, ctx = _SELECT.search(metric), _CTX.search(metric)
    if select and int(select[1]) != _DESCRIPTORS:
        yield f"{_DESCRIPTORS} descriptors instead of {int(select[1])}"
    if ctx and int(ctx[1]):
        yield f"no array of {int(ctx[1])} KiB that each process reads before it passes the token on"


def _named(test: str, metric: str) -> str:
    """The test of a report's metric, as a workload's name. UserError if none is built in.

    >>> _named("TCP", "lmbench3.TCP.socket.bandwidth.10MB.MB/sec"), _named("UDP", "lmbench3.time.user_time")
    ('bw_tcp', 'UDP')
    """
    suite, _, figure = metric.partition(".")
    if suite != _SUITE or figure.startswith("time."):
        if test in _WITH_ONE_FIGURE:
            return test
        raise UserError(
            f"the report's metric, {metric}, does not say which figure of lmbench3's {test or 'test'} it is: "
            f"{INSTEAD}"
        )
    lower = figure.lower()
    if select := _SELECT.match(lower):
        return "select-tcp" if select[2] == "tcp" else "select"
    if _CTX.match(lower):
        return "ctx"
    for key, name in _OF_FIGURE.items():
        if lower == key or lower.startswith(f"{key}."):
            return name
    why = IN_USER_MODE if lower.startswith(_COMPUTE) else "is not built in:"
    raise UserError(f"lmbench3's {figure} {why} {INSTEAD}")
