"""The types of the kernel's variables, of which BTF tells those that are per CPU only.

They are in the kernel's debugging information, where this machine has it. Else they are taken for what they
are in Debian's kernels of the nearest series, as far as these agree: `variables.tsv`, made by
tools/variables.py.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from bigiron.introspect import kernel_knowledge
from bigiron.introspect.btf import Btf
from bigiron.introspect.mm.structs import Memory
from bigiron.introspect.symbols import SymbolTable
from bigiron.kernels import variables

_LONGEST_NOTES = 1 << 16
_LONGEST_BANNER = 128
_FEW = 32  # pointers; what has more is a table


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
    btf.add_variables(variables.known(*kernel) or of_series(kernel.release))


@lru_cache(8)
def of_series(release: str) -> dict[str, str]:
    """The types of variables in Debian's kernels of this series, or in those of both series beside it.

    >>> of_series("6.12.118")["pcpu_nr_empty_pop_pages"], of_series("6.6.1")["vm_area_cachep"]
    ('int', '*kmem_cache')
    """
    known, lines = _table()
    before, after = _beside(known, _series(release))
    found = dict(kernel_knowledge.VARIABLES)
    found |= {name: f"*{type}" for name, type in kernel_knowledge.POINTERS.items()}
    for name, *types in lines:
        there = {types[0]} if len(types) == 1 else {types[before], types[after]} - {""}
        if len(there) == 1:
            found[name] = there.pop()
    return found


@lru_cache(8)
def types_of(btf: Btf, symbols: SymbolTable) -> Mapping[str, int]:
    """The types of the variables that have a symbol of their own, and as much room as the type takes."""
    found = {}
    for name in btf.variables:
        type, at = btf.variable(name), symbols.address(name)
        if at is not None and btf.size(type) <= symbols.room(at) and not symbols.is_repeated(name):
            found[name] = type
    return found


@lru_cache(8)
def with_pointers(btf: Btf, symbols: SymbolTable) -> Sequence[tuple[str, int, int]]:
    """Name, address and type of each variable that may change and that has a few pointers.

    Debugging information tells of ten times as many, nearly all of which are constant.
    """
    changing, types = {name for name, *_ in _table()[1]}, types_of(btf, symbols)
    return [
        (name, symbols.address(name) or 0, types[name])
        for name in sorted(changing & types.keys())
        if 0 < len(btf.pointers(types[name])) <= _FEW
    ]


def _beside(known: Sequence[tuple[int, ...]], series: tuple[int, ...]) -> tuple[int, int]:
    """The places of the last series that is no newer, and of the first that is no older."""
    before = bisect_right(known, series) - 1
    after = bisect_left(known, series)
    return max(before, 0), min(after, len(known) - 1)


def _series(release: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", release)[:2]))


@cache
def _table() -> tuple[Sequence[tuple[int, ...]], Sequence[list[str]]]:
    text = files(__package__).joinpath("variables.tsv").read_text(encoding="ascii")
    (_, *series), *lines = (line.split("\t") for line in text.splitlines())
    return [_series(one) for one in series], lines


def _between(memory: Memory, symbols: SymbolTable, start: str, stop: str) -> bytes:
    first, end = symbols.address(start) or 0, symbols.address(stop) or 0
    return (memory.read(first, end - first) if 0 < end - first <= _LONGEST_NOTES else None) or b""


def _release(memory: Memory, symbols: SymbolTable) -> str:
    """`6.1.0-56-cloud-amd64` of `Linux version 6.1.0-56-cloud-amd64 (debian-kernel@…`."""
    banner = memory.read(symbols.address("linux_banner") or 0, _LONGEST_BANNER) or b""
    words = banner.decode("ascii", "replace").split()
    return words[2] if len(words) > 2 else ""
