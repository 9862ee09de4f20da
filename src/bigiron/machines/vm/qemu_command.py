"""The command that starts QEMU for a virtual machine."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from bigiron import _sim
from bigiron.introspect.memory import GuestRam
from bigiron.machines.vm import icount, qemu
from bigiron.machines.vm.guest import Channels
from bigiron.roots import Root

if TYPE_CHECKING:
    from bigiron.machines.vm.vm import VirtualMachine


def command_line(vm: VirtualMachine, ram: GuestRam, initrd: Path, channels: Channels) -> list[str]:
    """QEMU and its options. `ram` is the guest's memory, `initrd` what it boots into."""
    topology = vm.topology
    machine = list(vm.architecture.machine)
    if vm.kvm:
        machine[machine.index("-cpu") + 1] = vm.architecture.accelerated_cpu
    command = [qemu.program(vm.architecture.qemu), *machine]
    command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none"]
    command += ["-accel", vm.accelerator, "-m", f"{vm.memory_mib}M", *_memory(vm, ram)]
    command += ["-smp", f"cpus={topology.cpus},sockets={topology.sockets},cores={topology.cores},"
                f"threads={topology.threads}"]  # fmt: skip
    command += vm.remapping
    for name, fd in (("console", channels.console), ("agent", channels.agent)):
        command += ["-chardev", f"socket,id={name},fd={fd}", "-serial", f"chardev:{name}"]
    command += ["-chardev", f"socket,id=monitor,fd={channels.monitor}", "-qmp", "chardev:monitor"]
    if channels.resumes:
        command += ["-incoming", "defer", *(icount.OPTIONS if vm.instructions_per_ns else ())]
    if vm.seed:  # RDRAND's numbers, which the kernel mixes into its own
        command += ["-seed", str(int.from_bytes(vm.seed[:8]))]
    if vm.root:
        command += _disk(vm.root)
    if plugin := vm.loaded_plugin:
        command += ["-plugin", f"{_escaped(plugin)},out={_escaped(vm.results)}"]
    return [*command, "-kernel", str(vm.kernel), "-initrd", str(initrd), "-append", _parameters(vm)]


def _disk(root: Root) -> list[str]:
    """A read-only disk with one queue: one for each CPU would be one interrupt for each."""
    # This process holds it, and it is only read.
    drive = f"file={_escaped(root.image)},file.locking=off,format=raw,if=none,id=root,read-only=on"
    return ["-drive", drive, "-device", "virtio-blk-pci,drive=root,num-queues=1"]


def _parameters(vm: VirtualMachine) -> str:
    """The clock's rate, which depends on this host and not on the study, and the boot line."""
    counter = vm.architecture.counter
    rate = f"{counter.parameter}={counter_khz()} " if counter and counter_khz() and not vm.kvm else ""
    return rate + vm.boot_line


@functools.cache
def counter_khz() -> int:
    """The rate of this machine's counter by which QEMU emulates the guest's; 0: it counts nanoseconds."""
    return round(_sim.counter_khz() or 0)


def _escaped(path: Path | None) -> str:
    """A path in QEMU's option syntax, where a comma ends a value."""
    return str(path).replace(",", ",,")


def _memory(vm: VirtualMachine, ram: GuestRam) -> list[str]:
    nodes = vm.topology.nodes
    if nodes == 1:
        return [*ram.backend("ram", 0, vm.memory_mib), "-machine", "memory-backend=ram"]
    cpus, memory = vm.topology.cpus // nodes, vm.memory_mib // nodes
    options = []
    start = 0
    for node in range(nodes):
        size = memory if node else vm.memory_mib - memory * (nodes - 1)
        last = (node + 1) * cpus - 1
        name = f"node{node}"
        options += ram.backend(name, start, size)
        options += ["-numa", f"node,nodeid={node},memdev={name},cpus={node * cpus}-{last}"]
        start += size
    for a, row in enumerate(vm.topology.distances):
        options += [
            word for b, far in enumerate(row) for word in ("-numa", f"dist,src={a},dst={b},val={far}")
        ]
    return options
