"""Files by their content: what a study's cells need, sent once to each host that lacks it.

Invariant: a file in the cache's room `fleet` under its digest is whole and has that digest.
"""

import hashlib
import re
from pathlib import Path

import msgspec

from bigiron.errors import UserError
from bigiron.util.cache_dir import cache_folder, keep_whole, made_whole

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class HashedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file's name, and the SHA-256 of its content."""

    name: str
    sha256: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or not _DIGEST.fullmatch(self.sha256):
            raise ValueError(f"{self.name!r} with the digest {self.sha256!r} does not describe a file")


def describe(path: Path) -> HashedFile:
    """A file that is here."""
    return HashedFile(path.name, hashlib.sha256(path.read_bytes()).hexdigest())


def is_here(file: HashedFile) -> bool:
    """Whether this host has it already."""
    return _place(file).is_file()


def keep(file: HashedFile, content: bytes) -> None:
    """Write it completely or not at all; UserError if its checksum is wrong."""
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise UserError(f"{file.name} arrived damaged")
    place = _place(file)
    if place.parent.is_dir():
        keep_whole(place, content)
        return
    with made_whole(place.parent) as made:
        made.mkdir()
        (made / file.name).write_bytes(content)


def find(file: HashedFile) -> Path:
    """Where it is; UserError if it is not what was kept."""
    place = _place(file)
    try:
        good = not place.is_symlink() and describe(place) == file
    except OSError as error:
        raise UserError(f"{place} cannot be read: {error.strerror}") from None
    if not good:
        raise UserError(
            f"{place} does not match its checksum: delete that folder, and start the worker again"
        )
    return place


def _place(file: HashedFile) -> Path:
    return cache_folder("fleet") / file.sha256 / file.name
