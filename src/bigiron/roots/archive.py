"""Archives: tar, compressed or not, and images of containers: OCI layouts and what `docker save` writes.

Nothing is unpacked: a compressed archive becomes one plain file, in which the content of its members is found
later.
"""

import hashlib
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TypeVar, cast

import msgspec

from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.roots.tree import MOST_FILES, Tree
from bigiron.util import compression, decode
from bigiron.util.cache_dir import OTHER_PLACE
from bigiron.util.english import join_and
from bigiron.util.numbers import size

_CHUNK = 1 << 20
_LARGEST_DOCUMENT = 16 << 20  # bytes of JSON
_DEEPEST_INDEX = 8
_LEFT_FREE = 512 << 20  # bytes of the disk, for others
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"  # image-spec, layer.md
_DAMAGED = (tarfile.TarError, *compression.DAMAGED)

_Document = TypeVar("_Document")


class _Platform(msgspec.Struct):
    architecture: str
    os: str


class _Descriptor(msgspec.Struct):
    digest: str
    platform: _Platform | None = None


class _Manifest(msgspec.Struct):
    """An image's manifest, or an index of them: image-spec, manifest.md and image-index.md."""

    manifests: list[_Descriptor] = []
    config: _Descriptor | None = None
    layers: list[_Descriptor] = []


class _Config(msgspec.Struct):
    architecture: str = ""


class _Saved(msgspec.Struct):
    """An entry of manifest.json, which `docker save` writes."""

    config: str = msgspec.field(name="Config")
    layers: list[str] = msgspec.field(name="Layers")


def read(path: Path, arch: str, tree: Tree, staging: Path, stack: ExitStack) -> None:
    """Read a tar archive, or an image's archive, into a tree. The stack keeps the files open."""
    archive = _opened(path, tree.called, staging, stack)
    members = _members(archive, tree.called)
    _check_end(archive, tree.called)
    by_name = {
        "/".join(p for p in member.name.split("/") if p not in ("", ".")): member for member in members
    }
    is_layout = {"oci-layout", "index.json"} <= by_name.keys()
    if is_layout or ("manifest.json" in by_name and not _has_programs(by_name)):
        image = _Image(tree.called, arch, partial(_blob, archive, by_name, tree.called), staging, stack)
        image.read(is_layout, tree)
        return
    for member in members:
        tree.add_member(member, partial(_content, archive, member))


def read_layout(path: Path, arch: str, tree: Tree, staging: Path, stack: ExitStack) -> None:
    """Read the image in a folder that is an OCI layout."""

    def blob(name: str) -> IO[bytes]:
        try:
            return (path / name).open("rb")
        except OSError as error:
            raise UserError(f"{tree.called} is not a complete OCI layout: {name}: {error.strerror}") from None

    _Image(tree.called, arch, blob, staging, stack).read(True, tree)


def is_layout(path: Path) -> bool:
    """Whether a folder is an OCI layout."""
    return (path / "oci-layout").is_file() and (path / "index.json").is_file()


class _Image:
    """An image of a container, whose parts `blob` opens by name."""

    def __init__(
        self, called: str, arch: str, blob: Callable[[str], IO[bytes]], staging: Path, stack: ExitStack
    ) -> None:
        self._called, self._arch, self._blob, self._staging, self._stack = called, arch, blob, staging, stack

    def read(self, is_oci: bool, tree: Tree) -> None:
        layers = self._layers() if is_oci else self._saved_layers()
        for number, name in enumerate(layers):
            plain = self._staging / f"layer-{number}"
            with self._blob(name) as packed:
                _decompress(packed, plain, f"{name} of {self._called}", _digest_in(name))
            called = f"{name} of {self._called}"
            archive = self._stack.enter_context(_tar(plain, called))
            _add_layer(archive, tree)
            if not _digest_in(name):
                _check_end(archive, called)

    def _layers(self) -> list[str]:
        return self._chosen(self._images(self._document("index.json", _Manifest), 0))

    def _saved_layers(self) -> list[str]:
        saved = self._document("manifest.json", list[_Saved])
        return self._chosen((self._arch_of(one.config), one.layers) for one in saved)

    def _images(self, manifest: _Manifest, depth: int) -> Iterator[tuple[str, list[str]]]:
        """The architecture and the layers of each image.

        Those for other platforms are not opened: `docker save` may list them all, and write only its own.
        """
        if depth > _DEEPEST_INDEX:
            raise UserError(f"{self._called}: its index of images is too deep")
        if manifest.config:
            layers = [self._name(layer.digest) for layer in manifest.layers]
            yield self._arch_of(self._name(manifest.config.digest)), layers
        for one in manifest.manifests:
            platform = one.platform
            if platform and not (self._is_ours(platform.architecture) and platform.os == "linux"):
                yield f"{platform.os}/{platform.architecture}", []
            else:
                yield from self._images(self._document(self._name(one.digest), _Manifest), depth + 1)

    def _is_ours(self, arch: str) -> bool:
        wanted = architecture(self._arch)
        return arch in (wanted.name, wanted.debian)

    def _chosen(self, images: Iterable[tuple[str, list[str]]]) -> list[str]:
        """The layers of the only image for the architecture, which may be listed once for each tag."""
        found, others = list[list[str]](), set[str]()
        for arch, layers in images:
            if not self._is_ours(arch):
                others.add(arch or "unknown architectures")
            elif layers not in found:
                found.append(layers)
        if len(found) > 1:
            raise UserError(
                f"{self._called} has {len(found)} images for {self._arch}: write one into its archive"
            )
        if not found:
            there = join_and(sorted(others)) or "none"
            raise UserError(f"{self._called} has no image for {self._arch}, only {there}")
        return found[0]

    def _arch_of(self, config: str) -> str:
        return self._document(config, _Config).architecture

    def _document(self, name: str, kind: type[_Document]) -> _Document:
        with self._blob(name) as file:
            content = file.read(_LARGEST_DOCUMENT)
        if (digest := _digest_in(name)) and hashlib.sha256(content).hexdigest() != digest:
            raise UserError(f"{self._called} is damaged: {name} has another checksum")
        try:
            return decode.from_json(content, kind)
        except msgspec.DecodeError as error:
            raise UserError(f"{self._called} is not a container image: {name}: {error}") from None

    def _name(self, digest: str) -> str:
        if not (found := _DIGEST.fullmatch(digest)):
            raise UserError(f"{self._called} is not a container image: {digest[:80]!r} is not a SHA-256")
        return f"blobs/sha256/{found[1]}"


def _add_layer(archive: tarfile.TarFile, tree: Tree) -> None:
    """A layer's files replace and remove those of the layers below it."""
    members = _members(archive, tree.called)
    for member in members:
        *above, name = tree.parts(member.name) or [""]
        if name == _OPAQUE and (there := tree.find(above)):
            there.children = {}
        elif name.startswith(_WHITEOUT) and name != _OPAQUE:
            tree.remove([*above, name.removeprefix(_WHITEOUT)])
    for member in members:
        if not PurePosixPath(member.name).name.startswith(_WHITEOUT):
            tree.add_member(member, partial(_content, archive, member))


def _digest_in(name: str) -> str:
    found = re.fullmatch(r"blobs/sha256/([0-9a-f]{64})", name)
    return found[1] if found else ""


def _has_programs(by_name: dict[str, tarfile.TarInfo]) -> bool:
    return any(name.split("/")[0] in ("bin", "usr") for name in by_name)


def _blob(archive: tarfile.TarFile, by_name: dict[str, tarfile.TarInfo], called: str, name: str) -> IO[bytes]:
    member = by_name.get(name)
    for _ in range(2):  # `docker save` links a layer that it has written before
        if member and (member.issym() or member.islnk()):
            target = (
                member.linkname
                if member.islnk()
                else f"{PurePosixPath(member.name).parent}/{member.linkname}"
            )
            member = by_name.get(_normal(target))
    if member is None or not member.isreg():
        raise UserError(f"{called} is not a complete container image: it has no {name}")
    return _content(archive, member)


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts[-1:] = []
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _opened(path: Path, called: str, staging: Path, stack: ExitStack) -> tarfile.TarFile:
    """A tar archive whose members can be read in any order."""
    try:
        file = stack.enter_context(path.open("rb"))
        packed = compression.kind(file.read(6))
        file.seek(0)
    except OSError as error:
        raise UserError(f"{called} cannot be read: {error.strerror}") from None
    if packed:
        path = staging / "archive"
        _decompress(file, path, called)
    return stack.enter_context(_tar(path, called))


@contextmanager
def _tar(path: Path, called: str) -> Iterator[tarfile.TarFile]:
    try:
        archive = tarfile.open(path, "r:", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115
    except _DAMAGED as error:
        raise _not_whole(called, error) from None
    with archive:
        yield archive


def _members(archive: tarfile.TarFile, called: str) -> list[tarfile.TarInfo]:
    found: list[tarfile.TarInfo] = []
    try:
        for member in archive:
            found.append(member)
            if len(found) > MOST_FILES:
                raise UserError(f"{called} has more than {MOST_FILES} files")
        return found
    except _DAMAGED as error:
        raise _not_whole(called, error) from None


def _check_end(archive: tarfile.TarFile, called: str) -> None:
    """UserError if its members end at anything but zeros, which end an archive and fill its last record.

    tarfile takes a damaged header for the end, and a missing one too; it reads no archive behind another.
    """
    file = cast(IO[bytes], archive.fileobj)
    file.seek(archive.offset)
    if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise _not_whole(called, f"it has no valid header at byte {archive.offset}")
    while rest := file.read(_CHUNK):
        if rest.strip(b"\0"):
            raise _not_whole(called, "more follows its end: give one archive")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    return cast(IO[bytes], archive.extractfile(member))


def _not_whole(called: str, why: object) -> UserError:
    return UserError(f"{called} is not a complete tar archive: {why or type(why).__name__}")


def _decompress(packed: IO[bytes], to: Path, called: str, digest: str = "") -> None:
    """Write what a file is when it is not compressed; if there is a checksum, the packed file has it."""
    room, written = max(shutil.disk_usage(to.parent).free - _LEFT_FREE, 0), 0
    checked = hashlib.sha256()
    magic = packed.read(6)
    packed.seek(0)
    if digest:
        while chunk := packed.read(_CHUNK):
            checked.update(chunk)
        if checked.hexdigest() != digest:
            raise UserError(f"{called} is damaged: it has another checksum")
        packed.seek(0)
    try:
        with (
            to.open("wb") as out,
            compression.plain(packed, compression.kind(magic), to.parent, called) as plain,
        ):
            while chunk := plain.read(_CHUNK):
                written += len(chunk)
                if written > room:
                    raise UserError(
                        f"{called} unpacks to more than the {size(room)} free in {to.parent.parent}; "
                        f"{OTHER_PLACE}"
                    )
                out.write(chunk)
    except _DAMAGED as error:
        raise _not_whole(called, error) from None
