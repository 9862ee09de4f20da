"""Whether two images are the same kernel: if so, no measurement of the two can differ."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from bigiron.kernels.kernel import Kernel
from bigiron.util import lazy

if TYPE_CHECKING:
    from bigiron.kernels import elf
else:
    elf = lazy.Module("bigiron.kernels.elf")

Sameness = Literal["image", "code and data", ""]

_SAYS_WHERE = {"__bug_table", ".notes", ".BTF", ".BTF_ids", "__ksymtab_strings"}
"""Sections that hold source line numbers, types and the build's identity.

Only warnings, the module loader and the BPF verifier read them: no operation that is counted does. Nor does
one read the names of symbols, of which that of an initcall contains the number of its line."""


def sameness(one: Kernel, other: Kernel) -> Sameness:
    """What is the same in both: the whole image, or all code and data, or nothing ("").

    Compressed images are compared only as a whole.
    """
    if one.sha256 == other.sha256:
        return "image"
    of_one, of_other = _sections(one), _sections(other)
    return "code and data" if of_one and of_one == of_other else ""


def _sections(kernel: Kernel) -> dict[tuple[int, str], tuple[int, int, str]]:
    """Address, size and content's hash of each section that is in memory, by its number and name.

    Empty if the file is not a complete ELF file.
    """
    found = {}
    try:
        with kernel.image.open("rb") as image, elf.reading(image) as file:
            names = elf.places_of_names(file)
            for number, section in enumerate(file.iter_sections()):
                if not section["sh_flags"] & elf.IN_MEMORY or section.name in _SAYS_WHERE:
                    continue
                content = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
                start = section["sh_addr"]
                digest = hashlib.sha256(_without(content, start, names)).hexdigest()
                found[number, section.name] = (start, section["sh_size"], digest)
    except elf.DamagedElfError:
        return {}
    return found


def _without(content: bytes, start: int, places: Sequence[tuple[int, int]]) -> bytes:
    """A section's content from address `start` on, with zeros at these places.

    >>> _without(b"abcdef", 100, [(102, 104), (200, 300)]).hex()
    '616200006566'
    """
    kept = bytearray(content)
    for first, end in places:
        if start <= first < end <= start + len(kept):
            kept[first - start : end - start] = bytes(end - first)
    return bytes(kept)
