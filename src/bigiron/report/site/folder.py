"""A site's folder: written whole or not at all, and only where no foreign file is lost.

The folder's `site.json` lists the files that were written: a folder is replaced only if it holds no others.
"""

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from bigiron.errors import UserError

_MARK = "site.json"
_FORMAT = 1


def write(folder: Path, files: Iterable[tuple[str, bytes]], about: Mapping[str, str]) -> int:
    """Write a site's files by their addresses, and return how many bytes they have."""
    folder = folder.absolute()
    try:
        _check(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as staging:
            whole = Path(staging) / "new"
            size = _fill(whole, files, about)
            _replace(folder, whole, Path(staging) / "old")
    except OSError as error:
        raise UserError(f"the site cannot be written to {folder}: {error.strerror or error}") from None
    return size


def _check(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError(f"{folder} is not a folder: name a folder for the site")
    if not folder.exists():
        return
    if foreign := _foreign(folder, _written(folder)):
        raise UserError(
            f"{folder} has {foreign}, which `bigiron history site` did not write: name a new folder "
            "or the folder of a site"
        )


def _foreign(folder: Path, written: set[str]) -> str:
    """The first file in a folder that is not part of the site there."""
    folders = {parent.as_posix() for file in written for parent in PurePosixPath(file).parents}
    looking = [folder]
    for at in looking:
        for entry in at.iterdir():
            name = entry.relative_to(folder).as_posix()
            if name in folders and entry.is_dir() and not entry.is_symlink():
                looking.append(entry)
            elif name not in written:
                return name
    return ""


def _written(folder: Path) -> set[str]:
    """The files of the site that is there; empty if there is none."""
    try:
        document = json.loads((folder / _MARK).read_bytes())
    except (OSError, ValueError):
        return set()
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        return set()
    files = document.get("files")
    return {_MARK, *map(str, files)} if isinstance(files, list) else set()


def _fill(folder: Path, files: Iterable[tuple[str, bytes]], about: Mapping[str, str]) -> int:
    written: dict[str, int] = {}
    for address, content in files:
        if address in written:
            raise UserError(f"two names of the history would share the page {address}: one of them is forged")
        file = folder / address
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        written[address] = len(content)
    mark = json.dumps({"format": _FORMAT, **about, "files": sorted(written)}, indent=1).encode()
    (folder / _MARK).write_bytes(mark)
    return sum(written.values()) + len(mark)


def _replace(folder: Path, whole: Path, old: Path) -> None:
    """Put the new folder in the old one's place."""
    if folder.exists():
        folder.rename(old)
    try:
        whole.rename(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
