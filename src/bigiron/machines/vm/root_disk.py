"""The root file system of programs in a virtual machine: a read-only disk under an overlay in memory.

It is mounted before the machine is kept (guest/boot/root.c), and its programs and libraries are in the page
cache then. Programs run in it by chroot; the agent stays outside.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from bigiron import kernels, roots
from bigiron.errors import UserError
from bigiron.kernels import Kernel
from bigiron.roots import Root

if TYPE_CHECKING:
    from bigiron.machines.vm.vm import VirtualMachine


@dataclass(frozen=True)
class RootDisk:
    """What a study asks for."""

    name: str  # debian:trixie+stress-ng, ./image.tar
    arch: str
    sha256: str = ""  # of the image; empty: not known yet

    @property
    def root(self) -> Root:
        """The image, made if need be. UserError if the name means another image now."""
        found = _resolved(self.name, self.arch)
        if self.sha256 not in ("", found.sha256):
            raise UserError(
                f"the root {self.name} is another image ({found.sha256[:12]}) than when the study was made "
                f"({self.sha256[:12]}): give another -o, or delete the study"
            )
        return found

    def check_kernel(self, kernel: Kernel) -> None:
        """UserError where a kernel cannot mount it, as far as that is known before it boots."""
        list(self._modules(kernel))

    def put_into(self, machine: "VirtualMachine", kernel: Kernel) -> "VirtualMachine":
        """The machine with this root."""
        modules = (*machine.modules, *self._modules(kernel))
        return replace(machine, root=self.root, modules=tuple(dict.fromkeys(modules)))

    def environment(self) -> dict[str, object]:
        """What a cell's record says of it."""
        return {"root": self.name, "root_sha256": self.root.sha256}

    def _modules(self, kernel: Kernel) -> Iterator[kernels.KernelModule]:
        for name in ("virtio_pci", "virtio_blk", self.root.file_system, "overlay"):
            yield from kernels.modules_for(kernel, name) or ()


@lru_cache
def _resolved(name: str, arch: str) -> Root:
    """The root, whose image stays as long as this process: a machine starts from it for each cell."""
    while True:
        root = roots.resolve(name, arch)
        with suppress(FileNotFoundError):  # another process has just given the name to another image
            roots.hold(root)
            return root
