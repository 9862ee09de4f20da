"""The cache of kernels, symbols and compiled C, which can be made again, and safe ways to write files."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from bigiron.errors import UserError

STAGING = ".new-"
"""How the name of a temporary folder starts, in which something is made."""

OTHER_PLACE = "free some space, or name another folder in BIGIRON_CACHE"


def cache_folder(room: str) -> Path:
    """The folder of one room of the cache (`kernels`, `sources`, `builds`), created if need be.

    The environment variable `BIGIRON_CACHE` replaces the user's cache folder.
    """
    base = os.environ.get("BIGIRON_CACHE")
    folder = (Path(base) if base else platformdirs.user_cache_path("bigiron")) / room
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the cache {folder} cannot be made: {error.strerror}; {OTHER_PLACE}") from None
    return folder


def keep_whole(file: Path, content: bytes) -> None:
    """Write a file completely or not at all. Several processes may do so at once."""
    with made_whole(file) as whole:
        whole.write_bytes(content)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it has the new or the old content, even if this process is killed.

    Links are replaced, not followed: the folder may be of another user.
    """
    temporary = path.with_name(f".{path.name}")
    temporary.unlink(missing_ok=True)
    with temporary.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


@contextmanager
def made_whole(final: Path) -> Iterator[Path]:
    """A path at which the `with` block makes a file or a folder, which is then renamed to `final`.

    A file replaces an earlier one. Where `final` is a folder that another process has made meanwhile, that
    one stays. The path's parent is a temporary folder, in which other files may be made on the way.
    """
    with tempfile.TemporaryDirectory(prefix=STAGING, dir=final.parent) as staging:
        whole = Path(staging) / final.name
        yield whole
        try:
            whole.rename(final)
        except OSError:
            if not final.is_dir():
                raise


@contextmanager
def locked(
    folder: Path,
    on_wait: Callable[[], None],
    *,
    name: str = ".lock",
    pause: Callable[[], None] | None = None,
) -> Iterator[int]:
    """Hold the lock of a folder, a file in it. Calls `on_wait` if another process holds the lock now.

    Then it waits for the lock, or calls `pause` between two tries; both may raise an exception instead. Gives
    the file's descriptor: programs that inherit it hold the lock too, until the last of them has ended.
    OSError if the file is a symbolic link: the folder may be of another user.
    """
    lock = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        if not _taken(lock):
            on_wait()
            if pause is None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            else:
                while not _taken(lock):
                    pause()
        yield lock
    finally:
        os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
