"""dbench, which replays what a file server's clients asked of its disk, and tbench, of its network."""

from bigiron.workloads.of_benchmark.mapped import Mapped, MappedProgram, Parameters, of_network, on_disk

_LOAD = "-c /usr/share/dbench/client.txt"
_LONG_S = 100_000


def dbench(parameters: Parameters, _metric: str) -> Mapped:
    """As many clients as the report's tasks, on its file system."""
    program = MappedProgram(
        "dbench",
        f"dbench {_LOAD} -D /tmp -t {_LONG_S} {{tasks}}",
        ready=(f"dbench {_LOAD} -D /tmp -t 1 1",),
    )
    return on_disk("dbench", parameters, program)


def tbench(parameters: Parameters, _metric: str) -> Mapped:
    """The same without a disk: over loopback."""
    return Mapped(
        program=MappedProgram(
            "dbench",
            f"tbench {_LOAD} -t {_LONG_S} {{tasks}} 127.0.0.1",
            service=("tbench_srv",),
            ready=(f"tbench {_LOAD} -t 1 1 127.0.0.1",),
        ),
        differs=of_network(parameters),
    )
