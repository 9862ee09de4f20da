"""The cache lines that CPUs share: named, matched between kernels, grown, explained by rules."""

from typing import TYPE_CHECKING

from bigiron.util import lazy

if not TYPE_CHECKING:
    __getattr__ = lazy.submodules(__name__)
