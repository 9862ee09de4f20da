"""A tree's read-only image: squashfs, which sqfstar makes of a stream: no file is ever unpacked.

Measured with Debian's trixie and stress-ng, 300 MB, in a virtual machine: squashfs and erofs, both
uncompressed, are as large as the files, made in a second, mounted in 0.06 s and read whole in 5 to 6 s. Half
as large with lz4, an image takes twice as long to read, and the guest's kernel executes the decompression.
Before Linux 6.4, erofs mounts only images whose blocks are as large as the machine's pages; Debian 12's
mkfs.erofs reads no stream.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from bigiron.errors import UserError
from bigiron.roots.tree import Node, Tree
from bigiron.util import distribution
from bigiron.util.cache_dir import OTHER_PLACE
from bigiron.util.numbers import size
from bigiron.util.parent_death import dying_with

FILE_SYSTEM = "squashfs"
_SQFSTAR = "sqfstar"
_LONGEST_COMPLAINT = 300


def write(tree: Tree, to: Path, inherited: int) -> None:
    """Make the image of a tree. The same tree gives the same image."""
    if not tree.root.children:
        raise UserError(f"{tree.called} is not a root file system: it has no files")
    check_room(tree.called, tree.size_bytes(), to.parent)
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            [*dying_with(os.getpid()), *_command(tree.root, to)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            env={**os.environ, "LC_ALL": "C", "SOURCE_DATE_EPOCH": str(_newest(tree))},
            pass_fds=(inherited,),
        ) as process,
    ):
        try:
            _stream(tree, cast(IO[bytes], process.stdin))
            broken = False
        except BrokenPipeError:
            broken = True
        except BaseException:
            process.kill()
            raise
        _close(cast(IO[bytes], process.stdin))
        process.wait()
        complaints.seek(0)
        said = complaints.read().decode(errors="replace").strip()
    if process.returncode or broken or not to.exists():
        if "No space left" in said:
            raise UserError(f"{to.parent.parent} has no room for the image of {tree.called}; {OTHER_PLACE}")
        last = said.splitlines()[-1][:_LONGEST_COMPLAINT] if said else f"status {process.returncode}"
        raise UserError(f"{_SQFSTAR} could not make the image of {tree.called}: {last}")


def sqfstar() -> str:
    """The program, or UserError."""
    tool = shutil.which(_SQFSTAR)
    if tool is None:
        raise UserError(
            f"no {_SQFSTAR} on PATH, which makes the images of roots: "
            f"{distribution.install('squashfs-tools')}"
        )
    return tool


def check_room(called: str, needed: int, folder: Path) -> None:
    """Raise UserError if a folder's disk has no room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"{called} has {size(needed)} of files, and {folder.parent} has {size(free)} free; {OTHER_PLACE}"
        )


def _command(root: Node, to: Path) -> list[str]:
    uncompressed = ("-noI", "-noD", "-noF", "-noX")  # each kernel that has squashfs reads that
    whole = ("-root-mode", f"{root.mode:o}", "-root-uid", str(root.uid), "-root-gid", str(root.gid))
    return [sqfstar(), "-quiet", "-no-progress", *uncompressed, *whole, str(to)]


def _newest(tree: Tree) -> int:
    """The time that the image and its root folder get. squashfs-tools 4.5 ignore -root-time."""
    return max(node.mtime for _, node in tree.walk())


def _stream(tree: Tree, to: IO[bytes]) -> None:
    first: dict[int, str] = {}
    with tarfile.open(
        fileobj=to, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for path, node in tree.walk():
            member = tarfile.TarInfo(path)
            member.type, member.mode, member.mtime = node.type, node.mode, node.mtime
            member.uid, member.gid = node.uid, node.gid
            if not node.is_folder and (earlier := first.setdefault(id(node), path)) != path:
                member.type, member.linkname = tarfile.LNKTYPE, earlier
                archive.addfile(member)
                continue
            member.linkname, member.size, member.pax_headers = node.target, node.size, node.attributes
            member.devmajor, member.devminor = node.device
            if node.content is None:
                archive.addfile(member)
                continue
            with node.content() as content:
                _add(archive, member, content, tree.called)


def _add(archive: tarfile.TarFile, member: tarfile.TarInfo, content: IO[bytes], called: str) -> None:
    try:
        archive.addfile(member, content)
    except (OSError, tarfile.TarError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise UserError(f"{called}: {member.name!r} cannot be read whole: {error}") from None


def _close(stream: IO[bytes]) -> None:
    with suppress(BrokenPipeError):
        stream.close()
