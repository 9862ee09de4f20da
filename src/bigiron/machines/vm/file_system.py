"""File systems that workloads work on in virtual machines: a fresh one for each, on a disk in memory.

It is made here, in a file without holes' content, and handed over: the guest copies it to the kernel's own
disk in memory (brd), loads the kernel's modules and mounts it (guest/machine/file_system.c). The host is not
asked for anything while it runs, and nothing in the machine completes a request later than at once.
"""

import hashlib
import os
import re
import shlex
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from bigiron import kernels
from bigiron.errors import UserError
from bigiron.kernels import Kernel
from bigiron.machines import limits
from bigiron.util import distribution, subprocesses
from bigiron.util.cache_dir import cache_folder, made_whole

if TYPE_CHECKING:
    from bigiron.machines.vm.vm import VirtualMachine

DISK_MIB = 16 << 10
"""The default. Unwritten blocks take no memory, and on a smaller disk file systems have fewer groups."""
MOST_DISK_MIB = 1 << 20

_MEASURING = ("raid6_pq", "xor")
"""Modules that benchmark the CPU for many ticks: minutes, with a clock that is slowed down."""

_PIECE = struct.Struct("<QQ")  # guest/machine/file_system.c: where it goes, how long it is
_BLOCK = 4096
_SAME = "6269676e-6972-4f6e-8000-000000000001"  # else it is random, and with it the hash order of names


@dataclass(frozen=True)
class FileSystemKind:
    """A file system that bigiron knows how to make."""

    mkfs: tuple[str, ...]  # without options, and the file; none: it is made by being mounted
    package: str = ""  # Debian's
    valued: str = ""  # options that take a value, and those that take none: only such as name no file
    flags: str = ""


KINDS: Mapping[str, FileSystemKind] = {
    "tmpfs": FileSystemKind(()),
    # The table of inodes at once, not by a thread of the mounted kernel's.
    "ext4": FileSystemKind(
        ("mkfs.ext4", "-q", "-F", "-U", _SAME, "-E",
         f"lazy_itable_init=0,lazy_journal_init=0,nodiscard,hash_seed={_SAME}"), "e2fsprogs",
        "-b -C -E -e -G -g -I -i -J -L -m -N -O -o -r -T -t -U", "-c -D -F -j -K -q -v"),
    "xfs": FileSystemKind(("mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={_SAME}"), "xfsprogs",
        "-b -d -i -L -l -m -n -r -s", "-f -K -q"),
    "btrfs": FileSystemKind(("mkfs.btrfs", "-q", "-f", "-K", "-U", _SAME), "btrfs-progs",
        "-b -d -L -m -n -O -R -s -U --byte-count --checksum --csum --data --features --label --metadata "
        "--nodesize --runtime-features --sectorsize --uuid",
        "-f -K -M -q -v --force --mixed --nodiscard --quiet --verbose"),
    "f2fs": FileSystemKind(("mkfs.f2fs", "-f", "-t", "0"), "f2fs-tools",
        "-a -C -d -E -e -l -O -o -R -s -T -t -U -w -z", "-f -i -m -q -r"),
}  # fmt: skip


@dataclass(frozen=True)
class FileSystem:
    """What a study asks for."""

    name: str  # of KINDS
    mkfs_options: str = ""
    mount_options: str = ""
    disk_mib: int = 0  # 0: as by default

    def __str__(self) -> str:
        """For instance `ext4 on 16384 MiB, mkfs -O ^has_journal, mounted noatime`."""
        on = f" on {self.size_mib} MiB" if self.size_mib else ""
        made = f", mkfs {self.mkfs_options}" if self.mkfs_options else ""
        mounted = f", mounted {self.mount_options}" if self.mount_options else ""
        return f"{self.name}{on}{made}{mounted}"

    @property
    def size_mib(self) -> int:
        """Of its disk; 0 where it lies on none."""
        return (self.disk_mib or DISK_MIB) if KINDS[self.name].mkfs else 0

    def check(self) -> None:
        """UserError for what cannot be asked for."""
        if self.name not in KINDS:
            raise UserError(f"fs = {self.name!r}: use one of {', '.join(KINDS)}")
        if not KINDS[self.name].mkfs and (self.mkfs_options or self.disk_mib):
            raise UserError(f"{self.name} has no disk and no mkfs: mount options may say its size")
        limits.check("mount options", [self.mount_options], 1)
        try:
            words = shlex.split(self.mkfs_options)
        except ValueError as error:
            raise UserError(f"mkfs options {self.mkfs_options!r}: {error}") from None
        if refused := _refused(KINDS[self.name], words):
            raise UserError(
                f"mkfs options: {refused!r} is refused: it is unknown, or may name a file or a device"
            )
        if not (self.mkfs_options + self.mount_options).isprintable() or " " in self.mount_options:
            raise UserError(
                "mkfs and mount options must be printable, and mount options must not contain spaces"
            )

    def check_kernel(self, kernel: Kernel) -> None:
        """UserError where a kernel does not have it, as far as that is known before it boots."""
        for root in self._roots:
            kernels.modules_for(kernel, root)

    def put_into(self, machine: "VirtualMachine", kernel: Kernel) -> "VirtualMachine":
        """The machine with this file system: with what it is given, loads, makes and mounts.

        Modules that measure are loaded before the machine is kept, and before its clock is slowed down.
        """
        modules = self._modules(kernel)
        later = [module for module in modules if module.name not in _MEASURING]
        disk = (self.made(),) if self.size_mib else ()
        return replace(
            machine,
            job=machine.job + "".join(f"{line}\n" for line in self._job(later)),
            files=(*machine.files, *disk, *(module.file for module in later)),
            modules=(*machine.modules, *(module for module in modules if module not in later)),
        )

    def _job(self, modules: Sequence[kernels.KernelModule]) -> list[str]:
        """What the agent is to do (docs/contributing/protocol.md)."""
        lines = []
        for module in modules:
            how = "required" if module.required else "optional"
            parameters = f" rd_nr=1 rd_size={self.size_mib << 10}" if module.name == "brd" else ""
            lines.append(f"module {how} {module.file.name}{parameters}")
        if self.size_mib:
            lines.append(f"disk_mib {self.size_mib}")
        if self.mount_options:
            lines.append(f"mount_options {self.mount_options}")
        return [*lines, f"file_system {self.name}"]

    def environment(self, kernel: Kernel) -> dict[str, object]:
        """What a cell's record says of it."""
        return {
            "fs": self.name,
            "mkfs_options": self.mkfs_options,
            "mount_options": self.mount_options,
            "disk_mib": self.size_mib,
            "mkfs": _version(self._mkfs()) if self.size_mib else "",
            "modules": [module.name for module in self._modules(kernel)],
        }

    def made(self) -> Path:
        """What lies on a fresh disk: the pieces of it that are not zero. Made once.

        UserError with mkfs's own words where it refuses.
        """
        program = self._mkfs()
        arguments = [*KINDS[self.name].mkfs[1:], *shlex.split(self.mkfs_options)]
        key = "\0".join([_version(program), *arguments, str(self.size_mib)])
        final = cache_folder("disks") / hashlib.sha256(key.encode()).hexdigest()[:32] / "disk"
        if final.exists():
            return final
        with made_whole(final.parent) as folder:
            image = folder.parent / "image"
            with image.open("wb") as file:
                file.truncate(self.size_mib << 20)
            command = [program, *arguments, str(image)]
            done = subprocesses.completed(command)
            if done.returncode:
                why = _why(done.stderr, done.stdout) or f"{command[0]} ended with status {done.returncode}"
                why = why.replace(str(image), "the disk")
                raise UserError(f"a disk of {self.size_mib} MiB with {self.name} cannot be made: {why}")
            folder.mkdir()
            _pack(image, folder / final.name)
        return final

    @property
    def _roots(self) -> tuple[str, ...]:
        return ("brd", self.name) if self.size_mib else ()

    def _modules(self, kernel: Kernel) -> list[kernels.KernelModule]:
        found: dict[str, kernels.KernelModule] = {}
        for root in self._roots:
            for module in kernels.modules_for(kernel, root) or ():
                found.setdefault(module.name, module)
        return list(found.values())

    def _mkfs(self) -> str:
        """Where Debian puts it is not on every user's PATH."""
        kind = KINDS[self.name]
        program = shutil.which(kind.mkfs[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if program is None:
            raise UserError(f"no {kind.mkfs[0]} on PATH: {distribution.install(kind.package)}")
        return program


_OTHER_FILE = re.compile(r"/|\b(device|file|logdev|name|rtdev)=")


def _refused(kind: FileSystemKind, words: Sequence[str]) -> str:
    """The first word that may let mkfs read or write another file than the disk: a study may be a stranger's.

    >>> _refused(KINDS["ext4"], ["-O", "^has_journal", "-Estride=4", "-K"])
    ''
    >>> _refused(KINDS["btrfs"], ["--nodesize", "65536", "--data=single", "--mixed"])
    ''
    >>> _refused(KINDS["btrfs"], ["-q", "disk.img"]), _refused(KINDS["xfs"], ["-l", "size=9m,logdev=x"])
    ('disk.img', 'size=9m,logdev=x')
    """
    left = iter(words)
    for word in left:
        name, value = word.partition("=")[::2] if word.startswith("--") else (word[:2], word[2:])
        if name in kind.valued.split():
            value = value or next(left, "")
            if _OTHER_FILE.search(value):
                return value
        elif value or name not in kind.flags.split():
            return word
    return ""


@lru_cache
def _version(mkfs: str) -> str:
    """What it says of itself: of what it prints, the line with a version.

    `mke2fs 1.47.0 (5-Feb-2023)`, `mkfs.xfs version 6.1.0`, `mkfs.btrfs, part of btrfs-progs v6.2`
    """
    for option in ("-V", "--version"):
        done = subprocesses.completed([mkfs, option], timeout_s=30)
        for line in (done.stdout + done.stderr).splitlines():
            if re.search(r"\d+\.\d+", line):
                return line.strip()
    return "unknown"


def _why(stderr: str, stdout: str) -> str:
    r"""The line with the reason, of what a mkfs that failed printed: mkfs.f2fs uses its standard output.

    >>> _why("size 2304 of data subvolume is too small, minimum 4096 blocks\nUsage: mkfs.xfs\n", "")
    'size 2304 of data subvolume is too small, minimum 4096 blocks'
    >>> _why("", "Info: total sectors = 18432 (9 MB)\n\tError: Device size is not sufficient\n")
    'Error: Device size is not sufficient'
    """
    for text, sign in ((stderr, ""), (stdout, "Error"), (stdout, "")):
        for line in text.splitlines():
            if line.strip() and sign in line:
                return line.strip()
    return ""


def _pack(image: Path, to: Path) -> None:
    """A header, offset and length, before each piece that is not zero."""
    zeros = bytes(_BLOCK)
    with image.open("rb") as file, to.open("wb") as out:
        for start, end in _data(file.fileno(), image.stat().st_size):
            piece, at = bytearray(), start
            for offset in range(start, end, _BLOCK):
                block = os.pread(file.fileno(), min(_BLOCK, end - offset), offset)
                if block != zeros[: len(block)]:
                    at = at if piece else offset
                    piece += block
                elif piece:
                    out.write(_PIECE.pack(at, len(piece)) + piece)
                    piece = bytearray()
            if piece:
                out.write(_PIECE.pack(at, len(piece)) + piece)


def _data(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file has content, and no hole."""
    at = 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            return  # only a hole is left
        at = os.lseek(fd, start, os.SEEK_HOLE)
        yield start - start % _BLOCK, at
