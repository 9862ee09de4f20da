"""Whether two images are the same kernel: then nothing that is measured of them can differ."""

import hashlib
import struct
from typing import Literal

from bigiron.kernels.kernel import Kernel

Sameness = Literal["image", "code and data", ""]

_IN_MEMORY = 2  # SHF_ALLOC
_NO_BITS = 8  # SHT_NOBITS: memory that is zero at first
_SAYS_WHERE = {"__bug_table", ".notes", ".BTF", ".BTF_ids", "__ksymtab_strings"}
"""Sections that say which line of the source something comes from, what types there are, which build this is.

Warnings, the module loader and the BPF verifier read them: no operation that is counted does."""


def sameness(one: Kernel, other: Kernel) -> Sameness:
    """What is the same of both: the whole image; all code and data; or "", something differs.

    Of compressed images only the whole is compared.
    """
    if one.sha256 == other.sha256:
        return "image"
    of_one, of_other = _sections(one), _sections(other)
    return "code and data" if of_one and of_one == of_other else ""


def _sections(kernel: Kernel) -> dict[tuple[int, str], tuple[int, int, str]]:
    """Address, size and content's hash of each section that is in memory, by its number and name.

    None of what is no ELF file, or not a whole one.
    """
    data = kernel.image.read_bytes()
    if data[:4] != b"\x7fELF":
        return {}
    try:
        return _of_elf(data)
    except (IndexError, ValueError, struct.error):  # cut short, or no ELF file but for its start
        return {}


def _of_elf(data: bytes) -> dict[tuple[int, str], tuple[int, int, str]]:
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names_at = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, table + n * size) for n in range(count)]
    names = headers[names_at][4]
    found = {}
    for number, (name, kind, flags, address, offset, length) in enumerate(headers):
        called = data[names + name : data.index(b"\0", names + name)].decode("ascii", "replace")
        if flags & _IN_MEMORY and called not in _SAYS_WHERE:
            content = b"" if kind == _NO_BITS else data[offset : offset + length]
            found[number, called] = (address, length, hashlib.sha256(content).hexdigest())
    return found
