"""Where cells run, one module an engine: `from bigiron.machines import NAME` loads it where it is used."""

from typing import TYPE_CHECKING

from bigiron.util import lazy

if not TYPE_CHECKING:
    __getattr__ = lazy.submodules(__name__)
