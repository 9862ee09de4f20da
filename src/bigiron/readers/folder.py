"""Reads an untrusted folder: only regular files in it, and no links."""

import hashlib
import os
import stat
from pathlib import Path

from bigiron.errors import UserError

MOST_BYTES = 64 << 20  # of a file with figures


class Folder:
    """All that is read from it is hashed, so that the files can be identified later."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise UserError("this is not a folder")
        self.path = path
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The hash of the names and contents of all files read so far."""
        return self._hash.hexdigest()

    def folders(self) -> list[str]:
        """The names of the folders in it, without links."""
        return sorted(entry.name for entry in os.scandir(self.path) if entry.is_dir(follow_symlinks=False))

    def has(self, name: str) -> bool:
        """Whether it has an entry of that name."""
        return os.path.lexists(self.path / name)

    def read(self, name: str) -> str:
        """The text of a file in it; UserError if that is a link, or no file, or leads through a link."""
        steps = name.split("/")
        for end in range(1, len(steps) + 1):
            if (self.path / "/".join(steps[:end])).is_symlink():
                raise UserError(f"{name} is a link, which is not followed")
        try:
            text = read_text(self.path / name)
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
        self._hash.update(f"{name}\0{len(text)}\0".encode() + text.encode())
        return text


def read_text(path: Path) -> str:
    """The text of a regular file that is not too large."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UserError("this is not a text file")
            if status.st_size > MOST_BYTES:
                raise UserError(
                    f"it has {status.st_size >> 20} MiB, and at most {MOST_BYTES >> 20} MiB are read"
                )
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UserError(f"it cannot be read: {error.strerror}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"line {line}: this is not text") from None
