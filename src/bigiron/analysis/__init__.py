"""Statistics, comparison, growth, knees, rules: tables in, tables out.

To measure takes none of it: `from bigiron.analysis import NAME` loads it where it is first used.
"""

from typing import TYPE_CHECKING

from bigiron.util import lazy

if not TYPE_CHECKING:
    __getattr__ = lazy.submodules(__name__)
