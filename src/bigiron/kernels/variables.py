"""The types of kernels' variables, kept for as long as the cache is: one file a build ID.

A kernel that is built here, or added with its debugging information, has them from then on. Of any other they
are read from the debugging information that its distribution has for it, where that is installed.
"""

import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from struct import Struct

from bigiron.kernels import dwarf
from bigiron.util.cache_dir import cache_folder, keep_whole

_INSTALLED = ("/usr/lib/debug/boot/vmlinux-{}", "/usr/lib/debug/lib/modules/{}/vmlinux")
_NOTE = Struct("<III")
_GNU_BUILD_ID = 3, b"GNU\0"


def read(vmlinux: Path) -> dict[str, str]:
    """The types of a vmlinux's variables, which are kept; none where it has no debugging information."""
    try:
        build = build_id(dwarf.notes_of(vmlinux))
        found = dwarf.types_of_variables(vmlinux) if build else {}
    except dwarf.NoDwarfError:
        return {}
    if found:
        content = "".join(f"{variable}\t{type}\n" for variable, type in found.items())
        with suppress(OSError):
            keep_whole(_file(build), content.encode())
    return found


@lru_cache(8)
def known(build: str, release: str) -> dict[str, str]:
    """The types of a kernel's variables, by its build ID; none where they are not known.

    `release` tells where its distribution has its debugging information. Both are a guest's word.
    """
    if not re.fullmatch(r"[0-9a-f]{8,64}", build) or not re.fullmatch(r"[\w.+~-]{1,99}", release):
        return {}
    try:
        kept = _file(build).read_text(encoding="utf-8").splitlines()
    except OSError:
        installed = filter(Path.exists, (Path(place.format(release)) for place in _INSTALLED))
        return next((read(file) for file in installed if _is_build(file, build)), {})
    return dict(line.split("\t", 1) for line in kept)


def build_id(notes: bytes) -> str:
    """The build ID among the notes of an ELF file, in hexadecimal; "" where there is none."""
    at = 0
    while at + _NOTE.size <= len(notes):
        name, length, kind = _NOTE.unpack_from(notes, at)
        start = at + _NOTE.size
        content = start + (name + 3 & ~3)
        if (kind, notes[start : start + name]) == _GNU_BUILD_ID:
            return notes[content : content + length].hex()
        at = content + (length + 3 & ~3)
    return ""


def _is_build(vmlinux: Path, build: str) -> bool:
    try:
        return build_id(dwarf.notes_of(vmlinux)) == build
    except dwarf.NoDwarfError:
        return False


def _file(build: str) -> Path:
    return cache_folder("variables") / f"{build}.tsv"
