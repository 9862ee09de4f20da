"""The files of a root, in memory: what each is, and where its content lies. Nothing is written anywhere.

An archive chooses its paths. Here a path only ever leads to a place in this tree: `..` is an error, a link is
followed inside the tree, and owners, set-user-id bits and device nodes are values.
"""

import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO

from bigiron.errors import UserError

MOST_FILES = 4_000_000
_MOST_LINKS = 40  # as the kernel's MAXSYMLINKS
_LONGEST_NAME, _LONGEST_PATH = 255, 4095  # bytes, of the kernel's

_KEPT_ATTRIBUTES = ("SCHILY.xattr.security.capability", "SCHILY.xattr.user.")
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE)
_OTHERS = (tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE)

Content = Callable[[], IO[bytes]]


@dataclass(eq=False)
class Node:
    """One file of the tree. A file with several names, hard links, is one node."""

    type: bytes  # tarfile's
    mode: int
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    size: int = 0
    target: str = ""  # of a symbolic link
    device: tuple[int, int] = (0, 0)
    attributes: dict[str, str] = field(default_factory=dict)
    content: Content | None = None
    children: dict[str, "Node"] = field(default_factory=dict)  # of a folder

    @property
    def is_folder(self) -> bool:
        return self.type == tarfile.DIRTYPE

    @property
    def is_file(self) -> bool:
        return self.type == tarfile.REGTYPE


def folder(mode: int = 0o755) -> Node:
    """A folder of root's, without children."""
    return Node(tarfile.DIRTYPE, mode)


def text(content: str) -> Node:
    """A file of root's that everybody may read."""
    data = content.encode()
    return Node(tarfile.REGTYPE, 0o644, size=len(data), content=lambda: io.BytesIO(data))


class Tree:
    """A root's files. `called` names it in messages."""

    def __init__(self, called: str) -> None:
        self.called = called
        self.root = folder()
        self._files = 0

    def add_member(self, member: tarfile.TarInfo, content: Content) -> None:
        """Put a member of an archive in its place, and replace what is there; a folder keeps its children."""
        parts = self.parts(member.name)
        if member.type == tarfile.LNKTYPE:
            self.put(parts, self._linked(member))
            return
        if member.isdir():
            kind = tarfile.DIRTYPE
        elif member.type in _REGULAR:
            kind = tarfile.REGTYPE
        elif member.type in _OTHERS:
            kind = member.type
        else:
            raise self._bad(f"{member.name!r} is of a kind that bigiron does not know ({member.type!r})")
        if kind == tarfile.SYMTYPE and not member.linkname:
            raise self._bad(f"the link {member.name!r} leads nowhere")
        self.put(
            parts,
            Node(
                kind,
                member.mode & 0o7777,
                member.uid,
                member.gid,
                min(max(int(member.mtime), 0), 0xFFFFFFFF),
                member.size if kind == tarfile.REGTYPE else 0,
                member.linkname if kind == tarfile.SYMTYPE else "",
                (member.devmajor, member.devminor),
                {k: v for k, v in member.pax_headers.items() if k.startswith(_KEPT_ATTRIBUTES)},
                content if kind == tarfile.REGTYPE else None,
            ),
        )

    def put(self, parts: list[str], node: Node) -> None:
        """Put a node at a path."""
        self._files += 1
        if self._files > MOST_FILES:
            raise self._bad(f"it has more than {MOST_FILES} files")
        if not parts:
            if not node.is_folder:
                raise self._bad("its root is not a folder")
            node.children = self.root.children
            self.root = node
            return
        siblings = self._parent(parts).children
        there = siblings.get(parts[-1])
        if there is not None and there.is_folder and node.is_folder:
            node.children = there.children
        siblings[parts[-1]] = node

    def remove(self, parts: list[str]) -> None:
        """Remove what is at a path, with all that is below it."""
        if parts and (above := self.find(parts[:-1])) and above.is_folder:
            above.children.pop(parts[-1], None)

    def find(self, parts: list[str]) -> Node | None:
        """What is at a path; links on the way and at its end are followed, inside the tree."""
        return self._walk(parts, make=False)

    def parts(self, name: str) -> list[str]:
        """The components of a member's name. A leading `/` means the root of the tree."""
        if len(name.encode("utf-8", "surrogateescape")) > _LONGEST_PATH:
            raise self._bad(f"a name is longer than {_LONGEST_PATH} bytes: {name[:40]!r}...")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise self._bad(f"the name {name!r} leads out of it")
        if any(len(part.encode("utf-8", "surrogateescape")) > _LONGEST_NAME for part in parts):
            raise self._bad(f"a name is longer than {_LONGEST_NAME} bytes: {name[:40]!r}...")
        return parts

    def walk(self) -> Iterator[tuple[str, Node]]:
        """Each path and its node, folders before their children, in the order of names. Not the root."""
        waiting = [("", iter(sorted(self.root.children.items())))]
        while waiting:
            path, rest = waiting[-1]
            for name, node in rest:
                yield f"{path}{name}", node
                if node.is_folder:
                    waiting.append((f"{path}{name}/", iter(sorted(node.children.items()))))
                    break
            else:
                waiting.pop()

    def size_bytes(self) -> int:
        """The bytes of all files, of each once."""
        return sum({id(node): node.size for _, node in self.walk()}.values())

    def _linked(self, member: tarfile.TarInfo) -> Node:
        target = self.parts(member.linkname)
        above = self.find(target[:-1])
        node = above.children.get(target[-1]) if target and above else None
        if node is None or node.is_folder:
            raise self._bad(f"{member.name!r} is a link to {member.linkname!r}, which is not a file in it")
        return node

    def _parent(self, parts: list[str]) -> Node:
        above = self._walk(parts[:-1], make=True)
        if above is None or not above.is_folder:
            raise self._bad(f"{'/'.join(parts)!r} is inside something that is not a folder")
        return above

    def _walk(self, parts: list[str], *, make: bool) -> Node | None:
        path, rest, links = [self.root], list(reversed(parts)), 0
        while rest:
            part, here = rest.pop(), path[-1]
            if part in ("", "."):
                continue
            if part == "..":  # of a link: above the root is the root
                del path[max(len(path) - 1, 1) :]
                continue
            if not here.is_folder:
                return None
            node = here.children.get(part)
            if node is None:
                if not make:
                    return None
                node = here.children[part] = folder()
            if node.type == tarfile.SYMTYPE:
                links += 1
                if links > _MOST_LINKS:
                    raise self._bad(f"its links lead in a circle, at {part!r}")
                if node.target.startswith("/"):
                    path = [self.root]
                rest.extend(reversed(node.target.split("/")))
                continue
            path.append(node)
        return path[-1]

    def _bad(self, why: str) -> UserError:
        return UserError(f"{self.called} is not a root file system: {why}")
