"""Whether KVM boots kernels here: tried once, and remembered until the host reboots.

/dev/kvm may exist and not work: the trial then lasts until its deadline, with a busy CPU.
"""

import functools
import os
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from bigiron import compile, kernels, workloads
from bigiron.architectures import architecture
from bigiron.errors import MachineError, UserError
from bigiron.kernels import Kernel
from bigiron.machines.vm.qemu import find_qemu
from bigiron.machines.vm.topology import Topology
from bigiron.machines.vm.vm import VirtualMachine, memory_mib, run
from bigiron.util import decode
from bigiron.util.cache_dir import cache_folder, keep_whole, locked

DEVICE = Path("/dev/kvm")

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_DEADLINE_S = 30


class Trial(msgspec.Struct, frozen=True):
    """The result: the kernel that booted, or the reason why none did."""

    works: bool
    why: str


class _Remembered(msgspec.Struct, frozen=True):
    of: str  # the host's boot, QEMU and the kernel that was tried
    trial: Trial


def works_for(arch: str) -> bool:
    """Whether machines of that architecture can run under KVM here; tried now if not tried yet."""
    return arch == os.uname().machine and trial().works


@functools.cache
def trial() -> Trial:
    """The trial of this boot of the host, this QEMU and this kernel; made now if there is none."""
    return _trial(again=False)


def try_again() -> Trial:
    """Boot an installed kernel under KVM, whatever the earlier result, and remember the result."""
    return _trial(again=True)


def _trial(again: bool) -> Trial:
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return Trial(False, f"no right to open {DEVICE}" if DEVICE.exists() else f"no {DEVICE}")
    try:
        kernel = _kernel()
        if kernel is None:
            why = "untested: no kernel is installed to try it with (bigiron kernel fetch debian/6.12)"
            return Trial(False, why)
        with locked(cache_folder("kvm"), lambda: None):
            return (not again and _remembered(kernel)) or _boot(kernel)
    except (UserError, OSError) as error:
        return Trial(False, str(error))


def _kernel() -> Kernel | None:
    """The kernel to try: Debian's newest, or else any."""
    here = [kernel for kernel in kernels.installed() if kernel.arch == os.uname().machine]
    return max(here, key=_preference, default=None)


def _preference(kernel: Kernel) -> tuple[object, ...]:
    return kernel.name.startswith("debian/"), kernels.release_order(kernel.release), kernel.name


def _remembered(kernel: Kernel) -> Trial | None:
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        known = decode.from_json(_file().read_bytes(), _Remembered)
        return known.trial if known.of == _key(kernel) else None
    return None


def _file() -> Path:
    return cache_folder("kvm") / "trial"


def _key(kernel: Kernel) -> str:
    qemu = find_qemu(architecture(kernel.arch).qemu)
    return f"{_BOOT_ID.read_text().strip()} {qemu} {kernel.sha256}"


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
        tried = Trial(True, f"booted {kernel.name}")
    except MachineError as error:
        tried = Trial(False, f"{kernel.name}: {error}")
    with suppress(OSError):  # without room it is tried again
        keep_whole(_file(), msgspec.json.encode(_Remembered(_key(kernel), tried)))
    return tried
