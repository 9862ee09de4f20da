"""Benchmarks of the network, over loopback, with their servers as services."""

from bigiron.errors import UserError
from bigiron.readers.figure import count
from bigiron.workloads.of_benchmark.built_in import given_test
from bigiron.workloads.of_benchmark.mapped import INSTEAD, Mapped, MappedProgram, Parameters, of_network, size

_WARM_UP_S = 0.03  # copies of large messages are few instructions, and so little time of the machine
_LONG_S = 100_000  # longer than any recorded part

_PER = {
    "TCP_STREAM": "sendto",
    "TCP_MAERTS": "sendto",
    "TCP_SENDFILE": "sendfile",
    "TCP_RR": "sendto",
    "TCP_CRR": "accept",
    "UDP_STREAM": "sendto",
    "UDP_RR": "sendto",
}
"""netperf's tests, and the system call that counts are per: two sends make a request and its response."""

_OF_SOCKPERF = {
    "under-load": "under-load",
    "ping-pong": "ping-pong",
    "throughput": "throughput",
    "tput": "throughput",
}
"""Words in the names of metrics, and sockperf's tests."""


def netperf(parameters: Parameters, _metric: str) -> Mapped:
    """As many clients as the report's share of the CPUs, each with a netserver of its own."""
    test = given_test("netperf", parameters).upper()
    if test.startswith(("SCTP", "DCCP")):
        raise UserError(
            f"netperf's {test}: Debian's netperf is built without it. For what TCP and it share, memory and "
            f"its control group, change the mail's test to TCP_STREAM; or {INSTEAD}"
        )
    if test not in _PER:
        raise UserError(f"netperf's {test} is not mapped (those are {', '.join(_PER)}): {INSTEAD}")
    sent = size(parameters, "send_size")
    file = " -F /usr/bin/netperf" if test == "TCP_SENDFILE" else ""
    options = f" -m {sent}" if sent else ""
    if buffers := size(parameters, "socket_buffer_size"):
        options += f" -s {buffers} -S {buffers}"
    client = f"netperf -H 127.0.0.1 -t {test} -l {_LONG_S}{file}{f' --{options}' if options else ''}"
    return Mapped(
        program=MappedProgram(
            "netperf",
            _at_once(client),
            _PER[test],
            service=("netserver -D -4",),
            ready=("netperf -H 127.0.0.1 -l -1000",),
            warm_up_s=_WARM_UP_S,
        ),
        differs=of_network(parameters),
    )


def iperf(parameters: Parameters, metric: str) -> Mapped:
    """iperf3: one client with one stream, or with as many as the report has sessions or tasks."""
    sessions = count(parameters.get("sessions", "1"), None, "sessions")
    kind = (parameters.get("protocol") or parameters.get("test") or metric).lower()
    differs = [] if sessions == 1 else [f"{sessions} streams of one client instead of {sessions} clients"]
    if "udp" not in kind and "tcp" not in kind:
        differs.append("TCP, iperf3's default, as the report names no protocol")
    protocol = " --udp --bitrate 0" if "udp" in kind else ""
    return Mapped(
        program=MappedProgram(
            "iperf3",
            f"iperf3 --client 127.0.0.1 --parallel {{tasks}} --time {_LONG_S}{protocol}",
            "write",
            service=("iperf3 --server",),
            ready=("iperf3 --client 127.0.0.1 --bytes 1K",),
            warm_up_s=_WARM_UP_S,
        ),
        tasks=_clients(parameters, sessions),
        differs=(*of_network(parameters), *differs),
    )


def sockperf(parameters: Parameters, metric: str) -> Mapped:
    """One client and one server: it sends without waiting, at a rate, or waits for each response.

    The robot runs all three by TCP and by UDP; the metric says which one is reported.
    """
    kind = f"{parameters.get('test', '')} {metric}".lower()
    test = next((name for word, name in _OF_SOCKPERF.items() if word in kind), "")
    if not test or ("udp" in kind) == ("tcp" in kind):
        raise UserError(
            "the report does not say which of sockperf's tests it is about, or whether by TCP or by UDP (as "
            f"the metric sockperf.under-load.TCP.avg-lat does): {INSTEAD}"
        )
    tcp = "" if "udp" in kind else " --tcp"
    port = "-i 127.0.0.1 -p 11111"
    messages = f" --msg-size {sent}" if (sent := size(parameters, "msg_size")) else ""
    return Mapped(
        program=MappedProgram(
            "sockperf",
            _at_once(f"sockperf {test}{tcp} {port}{messages} -t {_LONG_S}"),
            "sendto",
            service=(f"sockperf server{tcp} {port}",),
            ready=(f"sockperf ping-pong{tcp} {port} -t 1",),
            warm_up_s=_WARM_UP_S,
        ),
        tasks=_clients(parameters, 1),
        differs=of_network(parameters),
    )


def _clients(parameters: Parameters, number: int) -> int | None:
    """How many clients the robot starts: not one per CPU, unless the report gives a number of tasks."""
    return None if {"nr_threads", "nr_task"} & set(parameters) else number


def _at_once(command: str) -> str:
    """A command as often as there are tasks, side by side."""
    return f"sh -c 'for task in $(seq {{tasks}}); do {command} & done; wait'"
