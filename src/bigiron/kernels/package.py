"""What is inside a distribution's package of a kernel: Debian's .deb, .rpm, and Arch's .pkg.tar.zst or .xz.

The last two are read here, by the formats' descriptions (rpm's docs/manual/format.md; cpio(5), "New ASCII
Format"). Whatever links, device nodes or `../` paths a package holds, no path of its choosing is ever opened:
files are found by name, and their content is copied. bsdtar(1) reads both, but not so: it takes what is in a
package for any format, such as an mtree(5), whose files are those of this machine.
"""

import re
import shutil
import stat
import struct
import tarfile
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, TypeVar, cast

from bigiron.errors import UserError
from bigiron.kernels import deb
from bigiron.util import compression

SUFFIXES = (".deb", ".rpm", ".pkg.tar.zst", ".pkg.tar.xz")

_CONFIG = re.compile(r"(\./)?(boot/config-[^/]+|(usr/)?lib/modules/[^/]+/config)")
_MODULE = re.compile(r"(\./)?(usr/)?lib/modules/[^/]+/kernel/.+\.ko(\.[a-z]+)?")
_READ_FROM_A_CONFIG = {
    "CONFIG_KALLSYMS": "symbols (without them cells fail)",
    "CONFIG_KALLSYMS_ALL": "symbols of variables (they name objects)",
    "CONFIG_DEBUG_INFO_BTF": "types, BTF (they name fields and locks)",
}
_ADVICE = {
    ".rpm": "give Fedora's kernel-core or openSUSE's kernel-default",
    ".pkg.tar.zst": "give Arch's package linux or linux-lts",
    ".pkg.tar.xz": "give Arch Linux ARM's package linux-aarch64",
}
_LEAD, _LEAD_BYTES = b"\xed\xab\xee\xdb", 96
_HEADER, _HEADER_LIMIT = b"\x8e\xad\xe8\x01", 256 << 20  # bytes: rpm's own limit
_CPIO, _CPIO_HEADER, _LAST = (b"070701", b"070702"), 110, b"TRAILER!!!"
_LONGEST_NAME = 4096
_CHUNK = 1 << 20
_DAMAGED = (tarfile.TarError, struct.error, *compression.DAMAGED)

_File = tuple[str, int, IO[bytes]]
"""A regular file's path, its size in bytes, and its content, which is there until the next is asked for."""
_Result = TypeVar("_Result")


def is_package(path: Path) -> bool:
    """Whether a file is a package by its name.

    >>> is_package(Path("linux-6.18.arch1-1-x86_64.pkg.tar.zst")), is_package(Path("root.tar.zst"))
    (True, False)
    """
    return path.name.endswith(SUFFIXES)


def read_version(package: Path) -> str:
    """A Debian package's version; "" of the others, whose kernels' releases have it."""
    return deb.read_version(package) if package.suffix == ".deb" else ""


def extract_image(package: Path, to: Path) -> None:
    """Write the package's kernel image, and nothing else of it, to the file `to`."""
    if package.suffix == ".deb":
        deb.extract_image(package, to)
        return

    def copy_first(found: Iterable[_File]) -> bool:
        for path, size, content in found:
            if deb.IMAGE.fullmatch(path):
                deb.check_size(path, size, "kernel image")
                with to.open("wb") as out:
                    shutil.copyfileobj(content, out, _CHUNK)
                return True
        return False

    if not _read(package, copy_first):
        raise UserError(f"{package} holds no kernel image: {_advice(package)}")


def files(package: Path, wanted: re.Pattern[str]) -> list[tuple[str, bytes]]:
    """The path and content of each regular file of the package whose path is wanted. Nothing is written."""
    if package.suffix == ".deb":
        return deb.files(package, wanted)

    def kept(found: Iterable[_File]) -> list[tuple[str, bytes]]:
        files, left = list[tuple[str, bytes]](), deb.FILES_LIMIT
        for path, size, content in found:
            if size <= deb.FILE_LIMIT and wanted.fullmatch(path):
                left -= size
                deb.check_total(package, left)
                files.append((path, content.read(size)))
        return files

    return _read(package, kept)


def lacks(package: Path) -> list[str]:
    """What bigiron would use, and the kernel in this .rpm or .pkg.tar.zst does not have."""
    found = files(package, re.compile(f"{_CONFIG.pattern}|{_MODULE.pattern}"))
    configs = [
        content.decode(errors="replace").splitlines() for path, content in found if _CONFIG.match(path)
    ]
    missing = [] if len(configs) < len(found) else ["modules (--fs and --root have only what is built in)"]
    if not configs:
        return [*missing, "configuration (whether it has symbols and types shows when it boots)"]
    return [
        *missing,
        *(what for option, what in _READ_FROM_A_CONFIG.items() if f"{option}=y" not in configs[0]),
    ]


def _advice(package: Path) -> str:
    return next(what for suffix, what in _ADVICE.items() if package.name.endswith(suffix))


def _read(package: Path, reader: Callable[[Iterable[_File]], _Result]) -> _Result:
    """What a reader makes of the package's regular files."""
    try:
        with tempfile.TemporaryDirectory() as staging, closing(_files(package, Path(staging))) as found:
            return reader(found)
    except _DAMAGED as error:
        why = str(error) or type(error).__name__
        raise UserError(f"{package} is not a complete package ({why}): copy it again") from None


def _files(package: Path, staging: Path) -> Generator[_File]:
    with package.open("rb") as packed:
        if package.suffix == ".rpm":
            _skip_headers(packed)
        start = packed.tell()
        kind = compression.kind(packed.read(6))
        packed.seek(start)
        with compression.plain(packed, kind, staging, package.name) as stream:
            yield from _of_cpio(stream) if package.suffix == ".rpm" else _of_tar(stream)
            while stream.read(_CHUNK):  # to its end: only there a decompressor finds that it is cut short
                pass


def _skip_headers(rpm: IO[bytes]) -> None:
    """Go to the payload: past the lead, the signature, which is padded to 8 bytes, and the header."""
    if not _exactly(rpm, _LEAD_BYTES).startswith(_LEAD):
        raise ValueError("it does not begin as an rpm does")
    for alignment in (8, 1):
        intro = _exactly(rpm, 16)
        entries, data = struct.unpack(">8xII", intro)
        size = 16 * entries + data
        if not intro.startswith(_HEADER) or size > _HEADER_LIMIT:
            raise ValueError("a header of it is damaged")
        rpm.seek(size + -size % alignment, 1)


def _of_cpio(stream: IO[bytes]) -> Iterator[_File]:
    while True:
        header = _exactly(stream, _CPIO_HEADER)
        if not header.startswith(_CPIO):
            raise ValueError("its payload is no cpio archive, or is compressed in an unknown way")
        _, mode, _, _, _, _, size, _, _, _, _, length, _ = struct.unpack(
            ">13I", bytes.fromhex(header[6:].decode("ascii"))
        )
        if length > _LONGEST_NAME:
            raise ValueError(f"a file's name has {length} bytes")
        name = _exactly(stream, length + -(_CPIO_HEADER + length) % 4)[:length].rstrip(b"\0")
        if name == _LAST:
            return
        content = _StreamPart(stream, size)
        if stat.S_ISREG(mode) and size:  # without a size: all but the last of a file's names
            yield name.decode(errors="surrogateescape"), size, cast(IO[bytes], content)
        while content.read(_CHUNK):
            pass
        _exactly(stream, -size % 4)


def _of_tar(stream: IO[bytes]) -> Iterator[_File]:
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.isreg():
                yield member.name, member.size, cast(IO[bytes], archive.extractfile(member))


class _StreamPart:
    """The next bytes of a stream, as a file."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int) -> bytes:
        wanted = min(size, self._left)
        data = self._stream.read(wanted)
        if wanted and not data:
            raise EOFError("it ends in the middle of a file")
        self._left -= len(data)
        return data


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("it is cut short")
    return data
