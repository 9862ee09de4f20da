"""Where bigiron keeps what can be made or fetched again: kernels, symbols, compiled C."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from bigiron.errors import UserError

OTHER_PLACE = "free some space, or name another folder in BIGIRON_CACHE"


def cache_folder(room: str) -> Path:
    """The folder of one room of the cache (`kernels`, `sources`, `builds`), created if need be.

    `BIGIRON_CACHE` names another place than the user's cache folder.
    """
    base = os.environ.get("BIGIRON_CACHE")
    folder = (Path(base) if base else platformdirs.user_cache_path("bigiron")) / room
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the cache {folder} cannot be made: {error.strerror}; {OTHER_PLACE}") from None
    return folder


def keep_whole(file: Path, content: bytes) -> None:
    """Keep a file in the cache, whole or not at all, whoever else keeps it. OSError where it cannot be."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=file.parent) as staging:
        whole = Path(staging) / file.name
        whole.write_bytes(content)
        whole.rename(file)


@contextmanager
def locked(folder: Path, on_wait: Callable[[], None]) -> Iterator[int]:
    """Hold a folder's lock, the file `.lock` in it; calls `on_wait` if another process holds it now.

    Programs that are given its descriptor hold it too, until the last of them ended.
    """
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()
