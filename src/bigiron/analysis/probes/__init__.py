"""Compares each probe's table between variants: one module per probe."""

from typing import TYPE_CHECKING

from bigiron.util import lazy

if not TYPE_CHECKING:
    __getattr__ = lazy.submodules(__name__)
