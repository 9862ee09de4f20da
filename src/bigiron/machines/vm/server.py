"""The shape of a server, or of a part of it, for a virtual machine: from its machine file.

See docs/howto/machines/numa-and-topology.md.
"""

from dataclasses import dataclass

from bigiron.errors import UserError
from bigiron.machines.vm.topology import Topology
from bigiron.simulator import machine_files

_LEAST_NODE_MIB = 4096  # so that most of the first one is no DMA32 zone


@dataclass(frozen=True)
class Server:
    """The shape of a machine file: what a kernel sizes itself by."""

    name: str
    cpus: int
    sockets: int
    nodes: int
    threads: int  # of a core
    mib: int
    distances: tuple[tuple[int, ...], ...]  # between its nodes; () where the file does not tell

    def part(self, cpus: int) -> Topology:
        """So many of its CPUs: as many on each node, one thread of each core as long as there are cores.

        >>> Server("two", 16, 2, 2, 2, 16384, ((10, 21), (21, 10))).part(8)
        Topology(sockets=2, nodes=2, cores=4, threads=1, distances=((10, 21), (21, 10)))
        """
        if cpus > self.cpus:
            raise UserError(f"{self.name} has {self.cpus} CPUs, not {cpus}")
        nodes = min(self.nodes, cpus)
        of_node, cores_of_node = cpus // nodes, self.cpus // self.nodes // self.threads
        threads = next(
            (
                threads
                for threads in range(1, self.threads + 1)
                if of_node % threads == 0 and of_node // threads <= cores_of_node
            ),
            0,
        )
        sockets = min(self.sockets, nodes)
        if cpus % nodes or not threads or nodes % sockets:
            raise UserError(
                f"{cpus} CPUs do not divide evenly among the {nodes} nodes of {self.name}, each with "
                f"{cores_of_node} cores of {self.threads} threads: use a multiple of {nodes}"
            )
        chosen = [number * self.nodes // nodes for number in range(nodes)]
        distances = tuple(tuple(self.distances[a][b] for b in chosen) for a in chosen if self.distances)
        return Topology(sockets, nodes, cpus // sockets // threads, threads, distances)

    def mib_of(self, cpus: int) -> int:
        """The memory for some of its CPUs: the same per CPU, as a kernel's batches depend on it."""
        share = self.mib * cpus // self.cpus
        return max(share, min(self.mib, _LEAST_NODE_MIB * min(self.nodes, cpus)))


def server(name: str) -> Server:
    """The server of a machine file; UserError if the file does not give its memory."""
    machine = machine_files.load(name)
    if machine.memory_gib is None:
        raise UserError(
            f"{name} does not give the machine's memory: copy it (bigiron machine show) and add "
            "memory_gib = ... before its first [[level]]"
        )
    units = dict(machine.levels)
    outside = [count for level, count in machine.levels if level != "thread"]
    return Server(
        name=machine.name,
        cpus=machine.cpus,
        sockets=min(units.get("socket", machine.nodes), machine.nodes),
        nodes=machine.nodes,
        threads=machine.cpus // max(outside),
        mib=round(machine.memory_gib * 1024),
        distances=tuple(map(tuple, machine.node_distances or ())) if machine.nodes > 1 else (),
    )
