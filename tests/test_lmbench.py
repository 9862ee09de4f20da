"""Which workload runs for a figure of lmbench3, by the names that the robot gives the figures."""

import pytest
from test_mapping import refused

from bigiron.workloads.of_benchmark import lmbench, workload_of
from bigiron.workloads.registry import names

RING = "a ring of 16 processes on one CPU instead of 96 on all"
PAIR = "both processes of the pair on one CPU"


@pytest.mark.parametrize(
    ("test", "figure", "name"),
    [
        ("TCP", "TCP.socket.bandwidth.10MB.MB/sec", "bw_tcp"),
        ("TCP", "TCP.socket.bandwidth.64B.MB/sec", "bw_tcp-64"),
        ("TCP", "TCP.localhost.latency", "tcp"),
        ("PIPE", "PIPE.bandwidth.MB/sec", "bw_pipe"),
        ("PIPE", "PIPE.latency.us", "pipe"),
        ("UNIX", "AF_UNIX.sock.stream.bandwidth.MB/sec", "bw_unix"),
        ("UNIX", "AF_UNIX.sock.stream.latency.us", "unix"),
        ("UDP", "UDP.usinglocalhost.latency.us", "udp"),
        ("CONNECT", "CONNECT.localhost.latency.us", "connect"),
        ("SYSCALL", "syscall.syscall.latency.us", "null"),
        ("SYSCALL", "syscall.open/close.latency.us", "open"),
        ("PROC", "Process.fork+exit.latency.us", "fork"),
        ("PAGEFAULT", "Pagefaults.ms", "pagefault"),
        ("MMAP", "MMAP.read.latency.us", "mmap"),
        ("SELECT", "Select.100fd.latency.us", "select"),
        ("SELECT", "Select.100tcp.latency.us", "select-tcp"),
    ],
)
def test_a_figure_is_of_the_test_that_prints_it(test: str, figure: str, name: str) -> None:
    found = workload_of("lmbench3", {"test": test, "mode": "development"}, f"lmbench3.{figure}")
    assert (found.workload, found.mode) == (f"lmbench/{name}", "process")
    is_pair = name.startswith("bw_") or name in ("tcp", "pipe", "unix", "udp")
    assert any(one.endswith(PAIR) for one in found.differs) is is_pair


@pytest.mark.parametrize(
    ("figure", "workload", "differs"),
    [
        ("Select.500tcp.latency.us", "select-tcp", ("100 descriptors instead of 500",)),
        ("Select.100fd.latency.us", "select", ()),
        ("CTX.96P.0K.latency.us", "ctx", (RING,)),
        (
            "CTX.96P.16K.latency.us",
            "ctx",
            ("no array of 16 KiB that each process reads before it passes the token on", RING),
        ),
    ],
)
def test_another_size_is_told(figure: str, workload: str, differs: tuple[str, ...]) -> None:
    found = workload_of("lmbench3", {"test": "x"}, f"lmbench3.{figure}")
    assert (found.workload, found.differs) == (f"lmbench/{workload}", differs)


def test_every_figure_has_a_workload() -> None:
    assert {f"lmbench/{name}" for name in lmbench._OF_FIGURE.values()} <= names()


@pytest.mark.parametrize(
    ("test", "figure", "why"),
    [
        ("TCP", "TCP.socket.bandwidth.1437B.MB/sec", "is not built in"),
        ("FILE", "FILE.read.bandwidth.MB/sec", "is not built in"),
        ("MMAP", "MMAP.read.bandwidth.MB/sec", "is not built in"),
        ("PROC", "Process.fork+/bin/sh.latency.us", "is not built in"),
        ("BCOPY", "BCOPY.memory_read.bandwidth.MB/sec", "computes in user mode"),
        ("TCP", "time.system_time", "does not say which figure of lmbench3's TCP"),
    ],
)
def test_a_figure_that_nothing_prints_here_is_refused(test: str, figure: str, why: str) -> None:
    told = refused("lmbench3", f"lmbench3.{figure}", test=test)
    assert figure in told and why in told
    assert workload_of("lmbench3", {"test": "UDP"}, "time.system_time").workload == "lmbench/udp"
