"""Every example in a docstring is real output."""

import doctest
import importlib
import pkgutil
from importlib.util import find_spec
from pathlib import Path

import pytest

import bigiron

NEED_MORE = {"bigiron.kernels.image"}  # shows what is in /boot/vmlinuz
MODULES = {module.name for module in pkgutil.walk_packages(bigiron.__path__, "bigiron.")} - NEED_MORE


def has_any(name: str) -> bool:
    """To look for examples in each object of a module that has none takes longer than most examples do."""
    found = find_spec(name)
    return bool(found and found.origin and b">>>" in Path(found.origin).read_bytes())


@pytest.mark.parametrize("name", sorted(filter(has_any, MODULES)))
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
