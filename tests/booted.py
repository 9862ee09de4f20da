"""A machine that has just recorded unlink1: what it left, for tests that look into it."""

import tempfile
import threading
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from bigiron import compile, kernels, workloads
from bigiron.architectures import X86_64
from bigiron.introspect.allocation_log import Allocation
from bigiron.introspect.btf import Btf
from bigiron.introspect.memory import GuestRam, KernelMemory
from bigiron.introspect.symbolize import Objects
from bigiron.introspect.symbols import SymbolTable
from bigiron.machines.vm import vm
from bigiron.machines.vm.topology import Topology
from bigiron.probes.recording import Chains, read_allocations, read_recording

KERNELS = ("debian/5.10", "debian/6.1", "debian/6.12", "debian/7.2")
JOB = "cpus 2\ntasks 2\nmode process\nwarmup 10\npatience_s 60\nstay\noperations 50\nrecord conflicts\n"


@dataclass(frozen=True)
class Guest:
    """What a machine left."""

    ram: GuestRam
    symbols: SymbolTable
    memory: KernelMemory
    per_cpu_offsets: list[int]
    stack_bytes: int
    allocations: list[Allocation]
    clock_slower: int

    @cached_property
    def types(self) -> bytes:
        """The kernel's BTF."""
        start, end = self.address("__start_BTF"), self.address("__stop_BTF")
        content = self.memory.read(start, end - start)
        assert content
        return content

    @cached_property
    def btf(self) -> Btf:
        """Only to be read: all tests have the same one."""
        return Btf(self.types)

    @property
    def objects(self) -> Objects:
        return Objects(self.memory, self.symbols, self.per_cpu_offsets, X86_64, self.allocations)

    def address(self, symbol: str) -> int:
        address = self.symbols.address(symbol)
        assert address, symbol
        return address

    def number(self, address: int, size: int = 8) -> int:
        content = self.memory.read(address, size)
        assert content, hex(address)
        return int.from_bytes(content, "little")


@cache
def left_by(
    kernel: str,
    nodes: int = 1,
    instructions_per_ns: int = 0,
    clock_slower: int = 1,
    *,
    from_snapshot: bool = True,
) -> Guest:
    """Run unlink1 on two CPUs of a machine; it is kept for later callers that ask for the same.

    It has the memory that machines of two CPUs have, so that those of other tests are of the same snapshot.
    """
    memory_mib = vm.memory_mib(2)
    found, ram = kernels.find(kernel, "x86_64"), GuestRam(memory_mib)
    with tempfile.TemporaryDirectory() as results:
        machine = vm.VirtualMachine(
            architecture=X86_64,
            kernel=found.image,
            release=found.release,
            agent=compile.agent(workloads.find("unlink1"), X86_64.compiler),
            job=JOB,
            topology=Topology(sockets=nodes, nodes=nodes, cores=2 // nodes),
            memory_mib=memory_mib,
            deadline_s=120,
            plugin=compile.recorder(),
            results=Path(results),
            ram=ram,
            instructions_per_ns=instructions_per_ns,
            clock_slower=clock_slower,
            from_snapshot=from_snapshot,
        )
        outcome = vm.run(machine, threading.Event(), lambda _stage: None)
        symbols = SymbolTable.read(Path(results) / "kallsyms")
        recording = read_recording(Path(results))
        allocations = read_allocations(Path(results), Chains(Path(results), symbols))
    return Guest(
        ram,
        symbols,
        KernelMemory.of(ram, X86_64, symbols),
        recording.per_cpu_offsets,
        recording.stack_bytes,
        allocations,
        outcome.clock_slower,
    )
