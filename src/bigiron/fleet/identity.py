"""What a worker is: the host, what it has for cells, and whether it is the same bigiron."""

import hashlib
import os
import platform
import re
import time
from functools import cache
from pathlib import Path

import msgspec

import bigiron
from bigiron.architectures import architectures
from bigiron.machines.vm.qemu import find_qemu


class WorkerIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of one worker."""

    host: str
    bigiron: str
    content: str
    """A hash of bigiron's own code."""
    cpu: str
    """The model."""
    qemu: dict[str, str]
    """The version that boots an architecture's kernels."""
    clock: float
    """Seconds since 1970, by the host's clock."""

    @property
    def environment(self) -> dict[str, str]:
        """What the record of a cell says of the worker."""
        return {"host": self.host, "cpu": self.cpu, "content": self.content[:12]}


def identity(host: str) -> WorkerIdentity:
    """Of this process on a host of that name."""
    versions = {one.name: find_qemu(one.qemu) for one in architectures()}
    return WorkerIdentity(
        host=host,
        bigiron=bigiron.__version__,
        content=content(),
        cpu=_cpu_model(),
        qemu={arch: qemu.version for arch, qemu in versions.items() if qemu and not qemu.fault},
        clock=time.time(),
    )


@cache
def content() -> str:
    """A hash of bigiron's Python: two with the same do the same with a cell.

    The simulator's library is not in it, as the same source does not compile to the same bytes everywhere.
    """
    root = Path(bigiron.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def capacity(cpus: int, mib: int) -> dict[str, float]:
    """The resources that a worker declares: what its cells may take, and the architectures that it has."""
    here = {arch: float(cpus) for arch in identity("").qemu}
    return {"CPU": float(cpus), "MiB": float(mib), **here}


def host_name() -> str:
    """What this host is called."""
    return platform.node() or os.uname().nodename


def _cpu_model() -> str:
    try:
        found = re.search(r"^(?:model name|cpu)\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.machine()
