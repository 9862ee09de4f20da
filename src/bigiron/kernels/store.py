"""The kernels in the cache: one folder each, with the image and `kernel.json`.

Invariant: a folder under its final name is complete and never changes, though another may take its place. It
is made under a temporary name and renamed; every writer holds the lock, so a temporary folder found under
the lock is a dead writer's.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec

from bigiron.errors import UserError
from bigiron.kernels.image import Facts
from bigiron.kernels.kernel import Kernel
from bigiron.util import decode
from bigiron.util.cache_dir import OTHER_PLACE, STAGING, cache_folder, locked

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,99}")
_COMPILED_FROM = "compiled-from"


class _KernelRecord(msgspec.Struct, forbid_unknown_fields=True):
    """kernel.json: a Kernel, its image by file name only, because the cache may be moved."""

    name: str
    release: str
    version: str
    arch: str
    image: str
    sha256: str
    source: str


def is_name(name: str) -> bool:
    """Whether a kernel may have this name: it becomes a folder's name and a column's heading."""
    return bool(_NAME.fullmatch(name))


def check_name(name: str) -> None:
    """Raise UserError if no kernel may have this name."""
    if not is_name(name):
        raise UserError(f"{name!r} cannot name a kernel: use up to 100 letters, digits and . _ + ~ -")


def lookup(name: str, arch: str) -> Kernel | None:
    """The kernel of that name, its image's checksum verified; None if there is none."""
    folder = _folder(name, arch)
    if not folder.is_dir():
        return None
    kernel = _read(folder)
    if (kernel.name, kernel.arch) != (name, arch):
        raise _damaged(folder, f"kernel.json is of {kernel.name} for {kernel.arch}")
    if sha256_of(kernel.image) != kernel.sha256:
        raise _damaged(folder, f"{kernel.image.name} is not the image that was stored")
    return kernel


def list_kernels() -> list[Kernel]:
    """All kernels in the cache, by name; their images are not read."""
    folders = [f for f in cache_folder("kernels").iterdir() if f.is_dir() and not f.name.startswith(".")]
    return sorted((_read(folder) for folder in folders), key=lambda kernel: (kernel.name, kernel.arch))


@contextmanager
def writing(on_wait: Callable[[str], None]) -> Iterator[Path]:
    """Hold the cache's lock; gives a temporary folder on the cache's own file system."""
    root = cache_folder("kernels")
    try:
        with locked(root, lambda: on_wait("waiting for another bigiron that is adding a kernel")):
            for dead in root.glob(STAGING + "*"):
                shutil.rmtree(dead)
            with tempfile.TemporaryDirectory(prefix=STAGING, dir=root) as staging:
                yield Path(staging)
    except OSError as error:
        raise UserError(f"the cache {root} cannot be written: {error.strerror}; {OTHER_PLACE}") from None


def keep(
    image: Path,
    name: str,
    facts: Facts,
    version: str,
    source: str,
    *,
    replace: bool = False,
    compiled_from: Iterable[str] = (),
) -> Kernel:
    """Give an image in the temporary folder its final place. The lock is held.

    The name is free, or its kernel is replaced (`replace`). `compiled_from`: the source files that the
    compiler read.
    """
    folder = image.parent / "kernel"
    folder.mkdir()
    image.rename(folder / facts.file_name)
    digest = sha256_of(folder / facts.file_name)
    record = _KernelRecord(name, facts.release, version, facts.arch, facts.file_name, digest, source)
    (folder / "kernel.json").write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    if files := sorted(compiled_from):
        (folder / _COMPILED_FROM).write_text("\n".join(files) + "\n", encoding="utf-8")
    for file in folder.iterdir():
        with file.open("rb") as written:
            os.fsync(written.fileno())  # a power cut must not leave a final name with half an image
    final = _folder(name, facts.arch)
    if replace and final.exists():
        final.rename(image.parent / "replaced")
    folder.rename(final)
    return _read(final)


def compiled_from(kernel: Kernel) -> frozenset[str] | None:
    """The source files that the compiler read; None if it was not built here or by an old version."""
    try:
        return frozenset((kernel.image.parent / _COMPILED_FROM).read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return None


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. It is cached while the file does not change."""
    now = path.stat()
    return _sha256_of(path, now.st_ino, now.st_size, now.st_mtime_ns)


@lru_cache
def _sha256_of(path: Path, _inode: int, _size: int, _modified_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder(name: str, arch: str) -> Path:
    # '@' is in no name, so two names never share a folder
    return cache_folder("kernels") / f"{name.replace('/', '@')}@{arch}"


def _read(folder: Path) -> Kernel:
    try:
        record = decode.from_json((folder / "kernel.json").read_bytes(), _KernelRecord)
    except (OSError, msgspec.DecodeError) as error:
        raise _damaged(folder, f"kernel.json: {error}") from None
    image = folder / record.image
    if record.image not in ("vmlinuz", "vmlinux") or image.is_symlink() or not image.is_file():
        raise _damaged(folder, f"it has no image {record.image!r}")
    return Kernel(
        record.name, record.release, record.version, record.arch, image, record.sha256, record.source
    )


def _damaged(folder: Path, why: str) -> UserError:
    return UserError(
        f"the stored kernel {folder} is damaged ({why}): delete that folder, and fetch or add it again"
    )
