"""What each probe's table says, compared between variants: one module a probe."""

from typing import TYPE_CHECKING

from bigiron.util import lazy

if not TYPE_CHECKING:
    __getattr__ = lazy.submodules(__name__)
