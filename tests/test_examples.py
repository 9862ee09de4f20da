"""Every example in a docstring is real output."""

import doctest
import importlib
import pkgutil

import pytest

import bigiron

NEED_MORE = {"bigiron.kernels.image"}  # shows what is in /boot/vmlinuz
MODULES = {module.name for module in pkgutil.walk_packages(bigiron.__path__, "bigiron.")} - NEED_MORE


@pytest.mark.parametrize("name", sorted(MODULES))
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
