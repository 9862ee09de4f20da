"""Virtual machines: QEMU, snapshots, the clock, file systems, the guest's messages."""

from typing import TYPE_CHECKING

from bigiron.util import lazy

if not TYPE_CHECKING:
    __getattr__ = lazy.submodules(__name__)
