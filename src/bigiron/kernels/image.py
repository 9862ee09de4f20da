"""What a kernel image says of itself: its architecture, its release, the version of Debian's package."""

import mmap
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bigiron.architectures import AARCH64, architectures
from bigiron.errors import UserError
from bigiron.util import compression, lazy
from bigiron.util.english import join_and

if TYPE_CHECKING:
    from bigiron.kernels import elf
else:
    elf = lazy.LazyModule("bigiron.kernels.elf")

ACCEPTED = "a bzImage, an arm64 Image, an ELF vmlinux, a .deb, .rpm or .pkg.tar.zst, or a built tree"

_ELF_MACHINES = {one.elf_machine: one.name for one in architectures()}
_EXECUTABLE = ("ET_EXEC", "ET_DYN")  # a relocatable ppc64le kernel is ET_DYN
_BOOTABLE = f"only {join_and(list(_ELF_MACHINES.values()))} kernels can be booted"
_ARM64 = 183  # whose ELF files QEMU does not boot: they have no physical addresses
_SMALLEST = 4096  # bytes: mmap refuses an empty file, and every kernel is larger
_BANNER = re.compile(rb"Linux version (\d[!-~]*) ([^\0\n]*)")
_GZIP, _ZBOOT, _ARM64_IMAGE = b"\x1f\x8b", b"zimg", b"ARM\x64"  # at 0, 4 and 56
_ZSTD = ("zstd", "zstd22")  # since Linux 6.13, and before
_LARGEST = 1 << 30  # bytes of an image that is compressed
_DEBIAN_VERSION = re.compile(r" Debian (\d\S*)")
_ARM64_PAGES = {1: 4 << 10, 2: 16 << 10, 3: 64 << 10}  # bytes, by bits 1 and 2 of an arm64 Image's flags
_TAKES_SPINLOCK, _WAITS_FOR_SPINLOCK = b"\0_raw_spin_lock\0", b"\0queued_spin_lock_slowpath\0"


@dataclass(frozen=True)
class Facts:
    """What an image itself says."""

    arch: str
    release: str
    version: str  # the Debian package's version where the banner names it, else ""
    file_name: str  # vmlinuz (x86's bzImage, arm64's Image) or vmlinux (ELF)


def read(path: Path, called: str) -> Facts:
    """Read a bzImage, an arm64 Image or an ELF vmlinux; error messages name it as `called`.

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
                return _vmlinux(file, data, called)
            if (whole := _whole_arm64_image(data, called)) is not None:
                return _arm64_image(whole, called)
    raise UserError(f"{called} is not a kernel: give {ACCEPTED}")


def unpack_zstd(path: Path, called: str) -> None:
    """Put the arm64 Image in the place of an EFI zboot image that has it compressed with zstd.

    QEMU 10 unpacks only those with gzip.
    """
    with path.open("rb") as file:
        head = file.read(56)
    if head[4:8] == _ZBOOT and _compression(head) in _ZSTD:
        path.write_bytes(_payload(path.read_bytes(), called))


def has_inlined_spinlocks(path: Path) -> bool:
    """Whether an arm64 Image takes spinlocks without calling `_raw_spin_lock` (CONFIG_INLINE_SPIN_LOCK).

    kernel/locking/spinlock.c exports that function, wherever there is one, and qspinlock.c the function that
    waits. False for an image that exports neither, and for one of another architecture.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        whole = _whole_arm64_image(data, str(path))
        if whole is None:
            return False
        return whole.find(_WAITS_FOR_SPINLOCK) >= 0 > whole.find(_TAKES_SPINLOCK)


def _whole_arm64_image(data: mmap.mmap, called: str) -> bytes | mmap.mmap | None:
    """An arm64 Image, unpacked where it is compressed; None of another file."""
    if data[:2] == _GZIP:
        return _unpacked(data[:], called)
    if data[4:8] == _ZBOOT:
        return _payload(data, called)
    return data if data[56:60] == _ARM64_IMAGE else None


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


def _payload(data: bytes | mmap.mmap, called: str) -> bytes:
    """What an EFI zboot image unpacks: drivers/firmware/efi/libstub/zboot-header.S."""
    start, size = struct.unpack_from("<II", data, 8)
    kind = _compression(data)
    if kind not in ("gzip", *_ZSTD):
        raise UserError(
            f"{called} is an EFI zboot image compressed with {kind}: give one with gzip or zstd, or the Image"
        )
    _check_length(data, start + size, called)
    payload = data[start : start + size]
    return (
        _unpacked(payload, called) if kind == "gzip" else _image(compression.small(payload, called), called)
    )


def _compression(zboot: bytes | mmap.mmap) -> str:
    return zboot[24:56].partition(b"\0")[0].decode("ascii", "replace")


def _unpacked(content: bytes, called: str) -> bytes:
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        image = _image(unpacker.decompress(content, _LARGEST), called)
    except zlib.error as error:
        raise UserError(f"{called} is damaged ({error}): copy or build it again") from None
    if not unpacker.eof:
        raise UserError(f"{called} is cut short: copy or build it again")
    return image


def _image(content: bytes, called: str) -> bytes:
    if content[56:60] != _ARM64_IMAGE:
        raise UserError(f"{called} is not a kernel: give {ACCEPTED}")
    return content


def _arm64_image(image: bytes | mmap.mmap, called: str) -> Facts:
    """Documentation/arch/arm64/booting.rst; where EFI can start it, its sections tell its length."""
    try:
        _check_length(image, _pe_bytes(image), called)
    except struct.error:
        raise UserError(f"{called} is a damaged arm64 Image: copy or build it again") from None
    pages = _ARM64_PAGES.get(image[24] >> 1 & 3, AARCH64.page_bytes)
    if pages not in AARCH64.page_sizes:
        raise UserError(
            f"{called} is an arm64 kernel with pages of {pages >> 10} KiB, which are not supported yet: "
            "give one with CONFIG_ARM64_4K_PAGES"
        )
    banner = _BANNER.search(image)
    if banner is None:
        raise UserError(f"{called} is an arm64 Image that does not name its release: build it again")
    version = _debian_version(banner[2].decode("ascii", "replace"))
    return Facts("aarch64", banner[1].decode(), version, "vmlinuz")


def _pe_bytes(image: bytes | mmap.mmap) -> int:
    """The length of a PE file by its sections; 0 of another one."""
    (pe,) = struct.unpack_from("<I", image, 60)
    if not pe or image[pe : pe + 4] != b"PE\0\0":
        return 0
    (number,), (options,) = struct.unpack_from("<H", image, pe + 6), struct.unpack_from("<H", image, pe + 20)
    first = pe + 24 + options
    sections = (struct.unpack_from("<II", image, first + 40 * section + 16) for section in range(number))
    return max((start + size for size, start in sections), default=0)


def _vmlinux(file: IO[bytes], data: mmap.mmap, called: str) -> Facts:
    """The ELF header, whether the file is complete, and the kernel's own banner."""
    try:
        with elf.reading(file) as header:
            if header.elfclass != 64 or not header.little_endian:
                raise UserError(f"{called} is not a 64-bit little-endian ELF file: {_BOOTABLE}")
            machine, kind = elf.machine(header), header["e_type"]
            if machine not in _ELF_MACHINES:
                raise UserError(f"{called} is for another machine (ELF machine {machine}): {_BOOTABLE}")
            if machine == _ARM64:
                raise UserError(
                    f"{called} is an ELF file, which QEMU does not boot on arm64: give arch/arm64/boot/Image"
                )
            _check_length(data, elf.least_bytes(header), called)
    except elf.DamagedElfError as error:
        raise UserError(f"{called} is a damaged ELF file ({error}): copy or build it again") from None
    banner = _BANNER.search(data)
    if banner is None or kind not in _EXECUTABLE:
        raise UserError(f"{called} is an ELF file but not a kernel: give a vmlinux")
    version = _debian_version(banner[2].decode("ascii", "replace"))
    return Facts(_ELF_MACHINES[machine], banner[1].decode(), version, "vmlinux")


def _check_length(data: bytes | mmap.mmap, needed: int, called: str) -> None:
    if len(data) < needed:
        raise UserError(f"{called} is cut short: {len(data)} bytes of {needed}; copy or build it again")


def _debian_version(banner: str) -> str:
    found = _DEBIAN_VERSION.search(banner)
    return found[1] if found else ""
