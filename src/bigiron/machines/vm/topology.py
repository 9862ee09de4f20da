"""The topology of a machine's CPUs: sockets, nodes, cores, threads."""

from dataclasses import dataclass, replace

from bigiron.architectures import Architecture
from bigiron.errors import UserError

MOST_BOOTED = 1024
"""The most CPUs of a virtual machine that came up (docs/validation/many-cpus.md)."""
_NEAR = 12  # as firmware tells of the parts of one socket
_KEYS = ("sockets", "nodes", "cores", "threads")


@dataclass(frozen=True)
class Topology:
    """A machine of `sockets` x `cores` x `threads` CPUs, divided evenly into `nodes` NUMA nodes."""

    sockets: int = 1
    nodes: int = 1
    cores: int = 1
    threads: int = 1
    distances: tuple[tuple[int, ...], ...] = ()  # between nodes; (): the emulator's own

    @property
    def cpus(self) -> int:
        """How many CPUs there are.

        >>> Topology(sockets=2, nodes=2, cores=4, threads=2).cpus
        16
        """
        return self.sockets * self.cores * self.threads

    @property
    def largest_apic_id(self) -> int:
        """The last CPU's x86 APIC ID, in which socket, core and thread each have bits of their own.

        >>> Topology(cores=8).largest_apic_id, Topology(sockets=5, cores=5, threads=5).largest_apic_id
        (7, 292)
        """
        threads, cores = (self.threads - 1).bit_length(), (self.cores - 1).bit_length()
        return (self.sockets - 1 << cores | self.cores - 1) << threads | self.threads - 1

    def with_nodes(self, times: int) -> "Topology":
        """The same CPUs on so many times the nodes: each is divided, and its parts are near each other.

        >>> Topology(cores=4, nodes=2, distances=((10, 21), (21, 10))).with_nodes(2).distances[0]
        (10, 12, 21, 21)
        """
        nodes = self.nodes * times
        if self.cpus % nodes:
            raise UserError(
                f"{self.cpus} CPUs do not divide evenly into {nodes} nodes, {times} times the requested: "
                f"use a multiple of {nodes}"
            )
        distances = tuple(
            tuple(
                _NEAR if a != b and a // times == b // times else self.distances[a // times][b // times]
                for b in range(nodes)
            )
            for a in range(nodes)
            if self.distances
        )
        return replace(self, nodes=nodes, distances=distances)

    def check(self, target: Architecture) -> None:
        """UserError if QEMU's machines of an architecture have fewer CPUs, or fewer threads per core."""
        most = target.most_threads
        if self.cpus > target.most_cpus:
            raise UserError(
                f"{self.cpus} CPUs: emulated machines of {target.name} have at most {target.most_cpus}"
            )
        if self.threads > most:
            raise UserError(
                f"{self.threads} threads per core: the emulated machines have at most {most}; "
                f"ask for {self.cpus // self.threads} CPUs, or for a topology with threads={most}"
            )


@dataclass(frozen=True)
class GivenTopology:
    """A topology as the user gave it; omitted parts (None) follow from the number of CPUs."""

    sockets: int | None = None
    nodes: int | None = None
    cores: int | None = None
    threads: int | None = None

    def at(self, cpus: int) -> Topology:
        """The topology of this shape with so many CPUs.

        >>> GivenTopology(sockets=2).at(8)
        Topology(sockets=2, nodes=1, cores=4, threads=1, distances=())
        >>> GivenTopology(sockets=2, cores=4).at(6)
        Traceback (most recent call last):
        bigiron.errors.UserError: topology sockets=2,cores=4 has 8 CPUs, not 6
        """
        sockets, threads = self.sockets or 1, self.threads or 1
        cores = self.cores or max(1, cpus // (sockets * threads))
        topology = Topology(sockets, self.nodes or 1, cores, threads)
        if topology.cpus != cpus:
            raise UserError(f"topology {self} has {topology.cpus} CPUs, not {cpus}")
        if topology.nodes > cpus or cpus % topology.nodes:
            raise UserError(f"topology {self}: {cpus} CPUs do not divide into {topology.nodes} nodes")
        return topology

    @property
    def cpus(self) -> int | None:
        """How many CPUs the shape has, where it says so."""
        return self.at((self.sockets or 1) * self.cores * (self.threads or 1)).cpus if self.cores else None

    def __str__(self) -> str:
        pairs = ((key, getattr(self, key)) for key in _KEYS)
        return ",".join(f"{key}={value}" for key, value in pairs if value is not None)


def parse(text: str) -> GivenTopology:
    """Read `sockets=2,nodes=2,cores=4,threads=1`, any of them.

    >>> parse("sockets=2,cores=4")
    GivenTopology(sockets=2, nodes=None, cores=4, threads=None)
    >>> parse("socket=2")
    Traceback (most recent call last):
    bigiron.errors.UserError: topology 'socket=2': use sockets=, nodes=, cores=, threads= with whole numbers
    """
    shape: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.strip().partition("=")
        if key not in _KEYS or not value.isdecimal() or int(value) < 1:
            raise UserError(f"topology {text!r}: use {'=, '.join(_KEYS)}= with whole numbers")
        shape[key] = int(value)
    return GivenTopology(**shape)
