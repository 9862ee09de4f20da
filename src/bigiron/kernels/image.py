"""What a kernel image says of itself: its architecture, its release, Debian's version.

Both formats need a handful of fixed fields, which `struct` reads; an ELF library would be a dependency
for one machine number and a loop over the program headers.
"""

import mmap
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from bigiron.architectures import architectures
from bigiron.errors import UserError

ACCEPTED = "a bzImage, an ELF vmlinux, a .deb or a built tree"

_ELF_MACHINES = {one.elf_machine: one.name for one in architectures()}
_EXECUTABLE = (2, 3)  # ET_EXEC; ET_DYN, which a relocatable ppc64le kernel is
_PHDR, _SHDR = 56, 64  # bytes of one entry in the tables of segments and sections
_BOOTABLE = f"only {' and '.join(_ELF_MACHINES.values())} kernels can be booted"
_SMALLEST = 4096  # bytes; mmap refuses an empty file, and no kernel is this small
_BANNER = re.compile(rb"Linux version (\d[!-~]*) ([^\0\n]*)")
_DEBIAN_VERSION = re.compile(r" Debian (\d\S*)")


@dataclass(frozen=True)
class Facts:
    """What the image itself says."""

    arch: str
    release: str
    version: str  # the Debian package's version where the banner names it, else ""
    file_name: str  # vmlinuz (compressed, x86's bzImage) or vmlinux (ELF)


def read(path: Path, called: str) -> Facts:
    """Read a bzImage or an ELF vmlinux; errors speak of it as `called`.

    ```
    >>> read(Path("/boot/vmlinuz"), "/boot/vmlinuz")
    Facts(arch='x86_64', release='6.1.0-56-cloud-amd64', version='6.1.192-2', file_name='vmlinuz')
    ```
    """
    if path.stat().st_size >= _SMALLEST:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[0x202:0x206] == b"HdrS":
                return _bzimage(data, called)
            if data[:4] == b"\x7fELF":
                return _vmlinux(data, called)
    raise UserError(f"{called} is not a kernel: give {ACCEPTED}")


def _bzimage(data: mmap.mmap, called: str) -> Facts:
    """Documentation/arch/x86/boot.rst: "The Real-Mode Kernel Header"."""
    setup_sects = data[0x1F1] or 4
    (syssize,) = struct.unpack_from("<I", data, 0x1F4)
    (boot_protocol,) = struct.unpack_from("<H", data, 0x206)
    (version_at,) = struct.unpack_from("<H", data, 0x20E)
    (xloadflags,) = struct.unpack_from("<H", data, 0x236)
    _check_length(data, (setup_sects + 1) * 512 + syssize * 16, called)
    if boot_protocol < 0x20C or not xloadflags & 1:
        raise UserError(f"{called} is not a 64-bit x86 kernel: {_BOOTABLE}")
    text = data[version_at + 0x200 : version_at + 0x400].partition(b"\0")[0].decode("ascii", "replace")
    if not version_at or not text.strip():
        raise UserError(f"{called} is a bzImage that does not name its release: build it again")
    return Facts("x86_64", text.split()[0], _debian_version(text), "vmlinuz")


def _vmlinux(data: mmap.mmap, called: str) -> Facts:
    """elf(5): the header, the tables it points to (is the file whole?), and the kernel's own banner."""
    bits, byte_order = data[4], data[5]
    if (bits, byte_order) != (2, 1):
        raise UserError(f"{called} is not a 64-bit little-endian ELF file: {_BOOTABLE}")
    e_type, e_machine = struct.unpack_from("<HH", data, 16)
    if e_machine not in _ELF_MACHINES:
        raise UserError(f"{called} is for another machine (ELF machine {e_machine}): {_BOOTABLE}")
    e_phoff, e_shoff = struct.unpack_from("<QQ", data, 32)
    _, e_phnum, _, e_shnum = struct.unpack_from("<HHHH", data, 54)
    end_of_segments = e_phoff + e_phnum * _PHDR
    _check_length(data, max(end_of_segments, e_shoff + e_shnum * _SHDR), called)
    for segment in range(e_phoff, end_of_segments, _PHDR):
        p_offset, _, _, p_filesz = struct.unpack_from("<QQQQ", data, segment + 8)
        _check_length(data, p_offset + p_filesz, called)
    banner = _BANNER.search(data)
    if banner is None or e_type not in _EXECUTABLE:
        raise UserError(f"{called} is an ELF file but not a kernel: give a vmlinux")
    version = _debian_version(banner[2].decode("ascii", "replace"))
    return Facts(_ELF_MACHINES[e_machine], banner[1].decode(), version, "vmlinux")


def _check_length(data: mmap.mmap, needed: int, called: str) -> None:
    if len(data) < needed:
        raise UserError(f"{called} is cut short: {len(data)} bytes of {needed}; copy or build it again")


def _debian_version(banner: str) -> str:
    found = _DEBIAN_VERSION.search(banner)
    return found[1] if found else ""
