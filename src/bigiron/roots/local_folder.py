"""A folder of this machine as a tree. No link is followed, and no other file system entered."""

import os
import stat
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

from bigiron.errors import UserError
from bigiron.roots.tree import Node, Tree

_TYPES = {
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
    stat.S_IFCHR: tarfile.CHRTYPE,
    stat.S_IFBLK: tarfile.BLKTYPE,
}


def walk(top: Path, called: str) -> Iterator[tuple[str, os.stat_result]]:
    """Each path below a folder and what it is, in the order of names. What is on another disk is left out."""
    device = os.lstat(top).st_dev
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(top / folder) as entries:
                found = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
        except OSError as error:
            raise UserError(
                f"{called} cannot be read: {error.filename or folder}: {error.strerror}"
            ) from None
        for name, here in found:
            path = f"{folder}{name}"
            yield path, here
            if stat.S_ISDIR(here.st_mode) and here.st_dev == device:
                waiting.append(f"{path}/")


def read(top: Path, tree: Tree) -> None:
    """Read a folder into a tree. What belongs to the user, if that is not root, belongs to root there."""
    known: dict[tuple[int, int], Node] = {}
    try:
        tree.put([], _node(top, os.lstat(top), tree.called))
        for path, here in walk(top, tree.called):
            if stat.S_IFMT(here.st_mode) not in _TYPES:
                continue  # a socket
            identity = (here.st_dev, here.st_ino)
            if identity not in known or stat.S_ISDIR(here.st_mode):
                known[identity] = _node(top / path, here, tree.called)
            tree.put(path.split("/"), known[identity])
    except OSError as error:
        raise UserError(f"{tree.called} cannot be read: {error.filename}: {error.strerror}") from None


def _node(path: Path, here: os.stat_result, called: str) -> Node:
    kind = _TYPES[stat.S_IFMT(here.st_mode)]
    is_file = kind == tarfile.REGTYPE
    return Node(
        kind,
        stat.S_IMODE(here.st_mode),
        _owner(here.st_uid, os.geteuid()),
        _owner(here.st_gid, os.getegid()),
        max(int(here.st_mtime), 0),
        here.st_size if is_file else 0,
        str(path.readlink()) if kind == tarfile.SYMTYPE else "",
        (os.major(here.st_rdev), os.minor(here.st_rdev)),
        _attributes(path) if is_file else {},
        partial(_open, path, called) if is_file else None,
    )


def _owner(number: int, own: int) -> int:
    return 0 if number == own else number


def _attributes(path: Path) -> dict[str, str]:
    """A program's capabilities, as tar writes them."""
    name = "security.capability"
    try:
        value = os.getxattr(path, name, follow_symlinks=False)
    except OSError:
        return {}
    return {f"SCHILY.xattr.{name}": value.decode("utf-8", "surrogateescape")}


def _open(path: Path, called: str) -> IO[bytes]:
    try:
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise UserError(f"{called} cannot be read: {path}: {error.strerror}") from None
