"""The architectures that bigiron knows: a module each, found by being here, which has its record."""

import importlib
import pkgutil
from pathlib import Path

from bigiron.architectures.architecture import Architecture, PageTables
from bigiron.errors import UserError

__all__ = [
    "AARCH64", "PPC64LE", "X86_64", "Architecture", "PageTables", "architecture", "architectures",
    "known_arch",
]  # fmt: skip


def _find() -> dict[str, Architecture]:
    modules = (
        importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    )
    found = [module.ARCHITECTURE for module in modules if hasattr(module, "ARCHITECTURE")]
    found.sort(key=lambda one: (one.name != "x86_64", one.name))  # what most use comes first
    return {one.name: one for one in found}


_ALL = _find()
X86_64, PPC64LE, AARCH64 = _ALL["x86_64"], _ALL["ppc64le"], _ALL["aarch64"]


def architectures() -> list[Architecture]:
    """All that there are."""
    return list(_ALL.values())


def architecture(name: str) -> Architecture:
    """The architecture of that name, or UserError where bigiron does not know it yet.

    >>> architecture("x86_64").line_bytes
    64
    """
    if name not in _ALL:
        raise UserError(f"machines of {name} are not supported yet: use one of {', '.join(_ALL)}")
    return _ALL[name]


def known_arch(spelled: str) -> str:
    """The kernel's own spelling of an architecture.

    >>> known_arch("ppc64el")
    'ppc64le'
    """
    for one in architectures():
        if spelled in (one.name, one.debian):
            return one.name
    names = ", ".join(name for one in architectures() for name in (one.name, one.debian))
    raise UserError(f"architecture {spelled!r} is not known: use one of {names}")
