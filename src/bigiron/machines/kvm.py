"""Whether KVM boots stock kernels here: tried once, and remembered until the host is booted again.

A /dev/kvm may be there and run none: the trial then lasts until its deadline, with a processor at work.
"""

import functools
import hashlib
import os
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from bigiron import compile, kernels, workloads
from bigiron.architectures import architecture
from bigiron.cache_dir import cache_folder, keep_whole, locked
from bigiron.errors import MachineError
from bigiron.kernels import Kernel
from bigiron.machines.qemu import find_qemu
from bigiron.machines.topology import Topology
from bigiron.machines.vm import VirtualMachine, memory_mib, run

_DEVICE = Path("/dev/kvm")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_DEADLINE_S = 30


class Trial(msgspec.Struct, frozen=True):
    """How it ended: which kernel booted, or why none did."""

    works: bool
    why: str


def works_for(arch: str) -> bool:
    """Whether machines of that architecture can run under KVM here; tried now if it was not yet."""
    return arch == os.uname().machine and trial().works


@functools.cache
def trial() -> Trial:
    """The trial of this boot of the host with this QEMU, made now if there was none."""
    with locked(cache_folder("kvm"), lambda: None):
        return _untried() or _remembered() or _try()


def try_again() -> Trial:
    """Boot an installed kernel under KVM, whatever came of it before."""
    with locked(cache_folder("kvm"), lambda: None):
        return _untried() or _try()


def _untried() -> Trial | None:
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return Trial(False, f"no right to open {_DEVICE}" if _DEVICE.exists() else f"no {_DEVICE}")
    if not _kernels():
        no_kernel = "untested: no kernel is installed to try it with (bigiron kernel fetch debian/6.12)"
        return Trial(False, no_kernel)
    return None


def _kernels() -> list[Kernel]:
    return [kernel for kernel in kernels.installed() if kernel.arch == os.uname().machine]


def _remembered() -> Trial | None:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(_file().read_bytes(), type=Trial)
    return None


def _try() -> Trial:
    tried = _boot(_kernels()[-1])
    with suppress(OSError):  # without room it is tried again
        keep_whole(_file(), msgspec.json.encode(tried))
    return tried


def _file() -> Path:
    """Where a trial on this boot of the host with this QEMU is kept."""
    key = f"{_BOOT_ID.read_text()} {find_qemu(architecture(os.uname().machine).qemu)}"
    return cache_folder("kvm") / hashlib.sha256(key.encode()).hexdigest()[:16]


def _boot(kernel: Kernel) -> Trial:
    target = architecture(kernel.arch)
    vm = VirtualMachine(
        architecture=target,
        kernel=kernel.image,
        agent=compile.agent(workloads.find("getppid1"), target.compiler),
        job="cpus 1\n",
        topology=Topology(),
        memory_mib=memory_mib(1),
        deadline_s=_DEADLINE_S,
        kvm=True,
    )
    try:
        run(vm, threading.Event(), lambda _stage: None)
    except MachineError as error:
        return Trial(False, str(error))
    return Trial(True, f"booted {kernel.name}")
