# SPDX-License-Identifier: GPL-2.0-or-later
"""Decompression of files that may be damaged, or hostile: as a stream, so that its reader sets the bounds."""

import bz2
import gzip
import io
import lzma
import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from bigiron.errors import UserError
from bigiron.util import distribution
from bigiron.util.parent_death import dying_with

DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, ValueError, OverflowError)
"""What reading a damaged file raises."""
_CHUNK = 1 << 20
_LARGEST_SMALL = 256 << 20  # bytes


def kind(magic: bytes) -> str:
    r"""The compression that a file's first bytes show.

    >>> kind(b"\x1f\x8b\x08\0\0\0"), kind(b"./\0\0\0\0")
    ('gzip', '')
    """
    known = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
    return next((name for start, name in known.items() if magic.startswith(start)), "")


@contextmanager
def plain(packed: IO[bytes], compression: str, staging: Path, called: str) -> Iterator[IO[bytes]]:
    """What the rest of a file is when it is not compressed. `staging`: a folder with room for that rest."""
    match compression:
        case "gzip":
            with gzip.open(packed) as unpacked:
                yield cast(IO[bytes], unpacked)
        case "xz":
            with lzma.open(packed) as unpacked:
                yield cast(IO[bytes], unpacked)
        case "bzip2":
            with bz2.open(packed) as unpacked:
                yield cast(IO[bytes], unpacked)
        case "zstd":
            with _unzstd(packed, staging, called) as unpacked:
                yield unpacked
        case _:
            yield packed


def small(content: bytes, called: str) -> bytes:
    """A small file, such as a kernel's module, decompressed; UserError where it is damaged, or not small."""
    with tempfile.TemporaryDirectory() as staging:
        try:
            with plain(io.BytesIO(content), kind(content), Path(staging), called) as stream:
                unpacked = stream.read(_LARGEST_SMALL)
                if stream.read(1):
                    raise OSError(f"it unpacks to more than {_LARGEST_SMALL >> 20} MiB")
                return unpacked
        except DAMAGED as error:
            raise UserError(f"{called} is damaged: {error}") from None


@contextmanager
def _unzstd(packed: IO[bytes], staging: Path, called: str) -> Iterator[IO[bytes]]:
    """Python has no decoder of its own before 3.14."""
    tool = shutil.which("zstd")
    if tool is None:
        raise UserError(f"no zstd on PATH, which decompresses {called}: {distribution.install('zstd')}")
    with tempfile.TemporaryFile(dir=staging) as file, tempfile.TemporaryFile() as complaints:
        shutil.copyfileobj(packed, file, _CHUNK)
        file.seek(0)
        command = [*dying_with(os.getpid()), tool, "--decompress", "--stdout", "--quiet"]
        with subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=complaints) as process:
            plain = cast(IO[bytes], process.stdout)
            yield plain
            plain.close()
        if process.returncode:
            complaints.seek(0)
            said = complaints.read().decode(errors="replace").strip() or f"status {process.returncode}"
            raise OSError(said.splitlines()[-1])
