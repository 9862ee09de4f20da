"""Where the fields of structs and variables lie: what that costs, at any alignment and after any move."""

from typing import TYPE_CHECKING

from bigiron.util import lazy

if not TYPE_CHECKING:
    __getattr__ = lazy.submodules(__name__)
