"""The roots in the cache: an image each, called by its checksum, and a record of each name that has one.

Invariant: an image under its final name is complete and never changes, and a record names an image that is
there. Both are made under a temporary name and renamed; every writer holds the lock, so a temporary folder
found under the lock is a dead writer's.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from bigiron.errors import UserError
from bigiron.roots.image import FILE_SYSTEM
from bigiron.roots.packages import namespaces
from bigiron.roots.root import Root
from bigiron.util import decode
from bigiron.util.cache_dir import OTHER_PLACE, STAGING, cache_folder, keep_whole, locked


class RootRecord(msgspec.Struct, forbid_unknown_fields=True):
    """What a name means."""

    name: str
    arch: str
    source: str  # a checksum of what it was made from; another one means that it is to be made again
    sha256: str
    size_bytes: int
    file_system: str
    made: float  # seconds since 1970
    packages: list[str] = []  # NAME VERSION, where it was made of packages


def lookup(name: str, arch: str, source: str) -> Root | None:
    """The root of that name, made from just that; None if there is none."""
    file = _record(name, arch)
    if not file.exists():
        return None
    record = _read(file)
    root = root_of(record)
    if record.source != source or not root.image.is_file() or root.image.stat().st_size != root.size_bytes:
        return None
    return root


def root_of(record: RootRecord) -> Root:
    """The root that a record is of."""
    image = _image(record.sha256, record.file_system)
    return Root(record.name, record.arch, record.sha256, image, record.size_bytes, record.file_system)


def records() -> list[RootRecord]:
    """What all names mean, sorted by name."""
    found = [_read(file) for file in cache_folder("roots").glob("*.json")]
    return sorted(found, key=lambda record: (record.name, record.arch))


@contextmanager
def writing(on_wait: Callable[[str], None]) -> Iterator[tuple[Path, int]]:
    """Hold the lock; gives a temporary folder on the cache's own file system, and a file that is the lock.

    A program that inherits the file holds the lock too: nothing is removed that it still writes.
    """
    top = cache_folder("roots")
    try:
        with locked(top, lambda: on_wait("waiting for another bigiron that is making a root")) as inherited:
            for dead in top.glob(STAGING + "*"):
                _remove(dead)
            staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=top))
            try:
                yield staging, inherited
            finally:
                _remove(staging)
    except OSError as error:
        raise UserError(f"the cache {top} cannot be written: {error.strerror}; {OTHER_PLACE}") from None


def keep(image: Path, name: str, arch: str, source: str, made: float, packages: list[str]) -> Root:
    """Give an image in the temporary folder its final place and its name. The lock is held."""
    with image.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())  # a power cut must not leave a final name with half an image
    final = _image(digest, FILE_SYSTEM)
    image.chmod(0o444)
    image.rename(final)
    record = RootRecord(name, arch, source, digest, final.stat().st_size, FILE_SYSTEM, made, packages)
    keep_whole(_record(name, arch), msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    _drop_unnamed()
    return root_of(record)


def drop(chosen: Callable[[RootRecord], bool]) -> list[RootRecord]:
    """Remove the chosen names, and the images that no name has any more."""
    with writing(lambda _step: None):
        dropped = [record for record in records() if chosen(record)]
        for record in dropped:
            _record(record.name, record.arch).unlink()
        _drop_unnamed()
    return dropped


def hold(root: Root) -> None:
    """Keep a root's image while this process runs, whatever becomes of its name: it stays open.

    FileNotFoundError where it has just been removed.
    """
    image = os.open(root.image, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(image, fcntl.LOCK_SH)
    if not os.fstat(image).st_nlink:
        os.close(image)
        raise FileNotFoundError(root.image)


def _drop_unnamed() -> None:
    """An image that a process uses stays until the next time."""
    named = {root_of(record).image for record in records()}
    for image in cache_folder("roots").glob(f"*.{FILE_SYSTEM}"):
        if image not in named:
            with image.open("rb") as file, suppress(OSError):  # one that is used, or NFS
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                image.unlink()


def _image(sha256: str, file_system: str) -> Path:
    return cache_folder("roots") / f"{sha256}.{file_system}"


def _record(name: str, arch: str) -> Path:
    called = hashlib.sha256(f"{name}\0{arch}".encode(errors="surrogateescape")).hexdigest()
    return cache_folder("roots") / f"{called[:32]}.json"


def _read(file: Path) -> RootRecord:
    try:
        return decode.from_json(file.read_bytes(), RootRecord)
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"the record {file} of a root is damaged ({error}): delete that file") from None


def _remove(folder: Path) -> None:
    """Remove a temporary folder. What packages' scripts made there may belong to other users' numbers."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists() and os.geteuid() != 0:
        command = [*namespaces(), "rm", "-rf", "--", str(folder)]
        subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True)
    if folder.exists():
        shutil.rmtree(folder)
