"""Verdicts, intervals, growth laws, knees: numbers in, numbers out."""

from typing import TYPE_CHECKING

from bigiron.util import lazy

if not TYPE_CHECKING:
    __getattr__ = lazy.submodules(__name__)
