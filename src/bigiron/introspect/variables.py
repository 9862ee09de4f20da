"""The types of the kernel's variables, of which BTF tells those that are per CPU only.

They are in the kernel's debugging information, where this machine has it. Else `variables.tsv` tells what they
are in Debian's kernels from 5.10 to 7.2 (tools/variables.py makes it): several types where these do not agree,
of which only one may be known to the kernel at hand.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from bigiron.introspect import kernel_knowledge
from bigiron.introspect.btf import Btf
from bigiron.introspect.mm.structs import Memory
from bigiron.introspect.symbols import SymbolTable
from bigiron.kernels import variables

_LONGEST_NOTES = 1 << 16
_LONGEST_BANNER = 128


class KernelId(NamedTuple):
    """What a kernel says that it is."""

    build: str  # its build ID
    release: str


def kernel_in(memory: Memory, symbols: SymbolTable) -> KernelId:
    """The kernel in a guest's memory."""
    notes = _between(memory, symbols, "__start_notes", "__stop_notes")
    return KernelId(variables.build_id(notes), _release(memory, symbols))


def describe(btf: Btf, kernel: KernelId) -> None:
    """Add the types of its variables to a kernel's types."""
    known = variables.known(*kernel)
    btf.add_variables(dict(_resolved(btf)) if known is None else known)


def _resolved(btf: Btf) -> Iterator[tuple[str, str]]:
    for variable, types in _of_debian().items():
        there = [type for type in types if btf.is_spelled(type)]
        if len(there) == 1:
            yield variable, there[0]


@cache
def _of_debian() -> Mapping[str, tuple[str, ...]]:
    lines = files(__package__).joinpath("variables.tsv").read_text(encoding="ascii").splitlines()
    found = {name: tuple(types) for name, *types in (line.split("\t") for line in lines)}
    found |= {name: (type,) for name, type in kernel_knowledge.VARIABLES.items()}
    return found | {name: (f"*{type}",) for name, type in kernel_knowledge.POINTERS.items()}


def _between(memory: Memory, symbols: SymbolTable, start: str, stop: str) -> bytes:
    first, end = symbols.address(start) or 0, symbols.address(stop) or 0
    return (memory.read(first, end - first) if 0 < end - first <= _LONGEST_NOTES else None) or b""


def _release(memory: Memory, symbols: SymbolTable) -> str:
    """`6.1.0-56-cloud-amd64` of `Linux version 6.1.0-56-cloud-amd64 (debian-kernel@…`."""
    banner = memory.read(symbols.address("linux_banner") or 0, _LONGEST_BANNER) or b""
    words = banner.decode("ascii", "replace").split()
    return words[2] if len(words) > 2 else ""
