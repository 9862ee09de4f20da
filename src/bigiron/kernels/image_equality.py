"""Whether two images are the same kernel: if so, no measurement of the two can differ."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from bigiron.kernels.kernel import Kernel
from bigiron.util import lazy

if TYPE_CHECKING:
    from bigiron.kernels import elf
else:
    elf = lazy.LazyModule("bigiron.kernels.elf")

Sameness = Literal["image", "code and data", ""]

_SAYS_WHERE = {"__bug_table", ".notes", ".BTF", ".BTF_ids", "__ksymtab_strings"}
"""Sections that hold source line numbers, types and the build's identity.

Only warnings, the module loader and the BPF verifier read them: no operation that is counted does. Nor does
one read the names of symbols, of which that of an initcall contains the number of its line."""

_WITH_NAMES = ".rodata"


def sameness(one: Kernel, other: Kernel) -> Sameness:
    """What is the same in both: the whole image, or all code and data, or nothing ("").

    Compressed images are compared only as a whole.
    """
    if one.sha256 == other.sha256:
        return "image"
    of_one, of_other = _sections(one), _sections(other)
    if not (of_one and of_other):
        return ""
    differ = {key[1] for key in of_one.keys() | of_other.keys() if of_one.get(key) != of_other.get(key)}
    # To look for names takes seconds: most images differ elsewhere, too.
    is_same = not differ or (differ == {_WITH_NAMES} and _but_names(one) == _but_names(other))
    return "code and data" if is_same else ""


def _sections(kernel: Kernel) -> dict[tuple[int, str], tuple[int, int, str]]:
    """Address, size and content's hash of each section that is in memory, by its number and name.

    Empty if the file is not a complete ELF file.
    """
    found = {}
    try:
        with kernel.image.open("rb") as image, elf.reading(image) as file:
            for number, section in enumerate(file.iter_sections()):
                if not section["sh_flags"] & elf.IN_MEMORY or section.name in _SAYS_WHERE:
                    continue
                content = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
                digest = hashlib.sha256(content).hexdigest()
                found[number, section.name] = (section["sh_addr"], section["sh_size"], digest)
    except elf.DamagedElfError:
        return {}
    return found


def _but_names(kernel: Kernel) -> tuple[int, bytes]:
    """The address and content of the section that holds the names of symbols, with zeros in their place."""
    with kernel.image.open("rb") as image, elf.reading(image) as file:
        section = file.get_section_by_name(_WITH_NAMES)
        assert section, "it differs"
        start: int = section["sh_addr"]
        return start, _without(section.data(), start, elf.places_of_names(file))


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
