"""What a kernel image says of itself: its architecture, its release, Debian's version.

Both formats need a handful of fixed fields, which `struct` reads; an ELF library would be a dependency
for one machine number and a loop over the program headers.
"""

import mmap
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from bigiron.errors import UserError

_X86_64, _PPC64 = 62, 21  # ELF e_machine
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
    with path.open("rb") as file:
        if path.stat().st_size < 4096:  # mmap refuses an empty file; no kernel is this small
            raise UserError(f"{called} is not a kernel: give a bzImage, an ELF vmlinux, a .deb or a built tree")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[0x202:0x206] == b"HdrS":
                return _bzimage(data, called)
            if data[:4] == b"\x7fELF":
                return _vmlinux(data, called)
    raise UserError(f"{called} is not a kernel: give a bzImage, an ELF vmlinux, a .deb or a built tree")


def _bzimage(data: mmap.mmap, called: str) -> Facts:
    """Documentation/arch/x86/boot.rst: "The Real-Mode Kernel Header"."""
    setup_sects = data[0x1F1] or 4
    (syssize,) = struct.unpack_from("<I", data, 0x1F4)
    (boot_protocol,) = struct.unpack_from("<H", data, 0x206)
    (version_at,) = struct.unpack_from("<H", data, 0x20E)
    (xloadflags,) = struct.unpack_from("<H", data, 0x236)
    _check_length(data, (setup_sects + 1) * 512 + syssize * 16, called)
    if boot_protocol < 0x20C or not xloadflags & 1:
        raise UserError(f"{called} is not a 64-bit x86 kernel: only x86_64 and ppc64le can be booted")
    text = data[version_at + 0x200 : version_at + 0x400].split(b"\0")[0].decode("ascii", "replace")
    if not version_at or not text:
        raise UserError(f"{called} is a bzImage that does not name its release: build it again")
    return Facts("x86_64", text.split()[0], _debian_version(text), "vmlinuz")


def _vmlinux(data: mmap.mmap, called: str) -> Facts:
    """The ELF header, the program headers (is the file whole?), and the banner in the kernel's own data."""
    bits, order = data[4], data[5]
    if (bits, order) != (2, 1):
        raise UserError(f"{called} is not a 64-bit little-endian ELF file: only x86_64 and ppc64le can be booted")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if machine not in (_X86_64, _PPC64):
        raise UserError(f"{called} is for another machine (ELF machine {machine}): only x86_64 and ppc64le can be booted")
    (table,) = struct.unpack_from("<Q", data, 32)
    entry_size, entries = struct.unpack_from("<HH", data, 54)
    _check_length(data, table + entry_size * entries, called)
    for at in range(table, table + entry_size * entries, entry_size or 1):
        offset, _vaddr, _paddr, size = struct.unpack_from("<QQQQ", data, at + 8)
        _check_length(data, offset + size, called)
    banner = _BANNER.search(data)
    if banner is None or kind not in (2, 3):
        raise UserError(f"{called} is an ELF file but not a kernel (no 'Linux version' in it): give a vmlinux")
    arch = "x86_64" if machine == _X86_64 else "ppc64le"
    return Facts(arch, banner[1].decode(), _debian_version(banner[2].decode("ascii", "replace")), "vmlinux")


def _check_length(data: mmap.mmap, needed: int, called: str) -> None:
    if len(data) < needed:
        raise UserError(f"{called} is cut short: {len(data)} bytes of {needed}; copy or build it again")


def _debian_version(banner: str) -> str:
    found = _DEBIAN_VERSION.search(banner)
    return found[1] if found else ""
