"""Repositories of rpm packages: repomd.xml, which names the list of packages, and that list (primary.xml).

Neither is signed, so both are hostile until a package's own signature was verified. Of a list only the
packages with certain names are kept, and whatever they say is checked before it is used.
"""

import re
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

import msgspec

from bigiron.errors import UserError
from bigiron.kernels.archives import archive, rpm_keys
from bigiron.kernels.archives.apt import download_file
from bigiron.kernels.archives.archive import KeptPackages, Package
from bigiron.util import compression, decode
from bigiron.util.cache_dir import STAGING, cache_folder, keep_whole, locked

_REPO = "{http://linux.duke.edu/metadata/repo}"
_RPM = "http://linux.duke.edu/metadata/rpm"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PLACE = re.compile(r"(?!/)(?!.*(?:^|/)\.\.?(?:/|$))[A-Za-z0-9._+~^/-]{1,300}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~^]*-[A-Za-z0-9._+~^]+")
_CHUNK = 1 << 20
_LARGEST_LIST, _LARGEST_ENTRY, _LARGEST_PACKAGE = 2 << 30, 16 << 20, 1 << 30  # bytes
_DAMAGED = (ElementTree.ParseError, UnicodeDecodeError, *compression.DAMAGED)


class Listed(msgspec.Struct, frozen=True):
    """A package in a list."""

    name: str
    version: str  # 6.17.1-300.fc43
    place: str  # below the repository's URI
    size: int  # bytes
    sha256: str


class KeptList(msgspec.Struct, frozen=True):
    """What is kept of a repository's list, in a JSON file, written whenever the list was found up to date."""

    uri: str
    revision: int  # grows with each list
    packages: list[Listed]


@dataclass(frozen=True)
class Repository:
    """A repository of a distribution's release."""

    name: str  # updates
    uri: str
    archived: str = ""  # its URI once it has been taken away there; "": there is none


class Repodata:
    """The repositories of a release for one architecture; see `archive.Archive`."""

    def __init__(
        self,
        owner: str,
        folder: str,
        arch: str,
        repositories: Sequence[Repository],
        names: Collection[str],
        key: Path,
    ) -> None:
        """`names`: the packages to know of. `key`: what they are signed with, by `owner`."""
        self._owner, self._arch, self._key = owner, arch, key
        self._repositories, self._names = repositories, names
        self._folder = cache_folder("rpm") / folder
        self._kept = KeptPackages(self._folder / "packages", ".rpm")

    def update(self, on_step: Callable[[str], None], *, again: bool = False) -> str:
        """As `archive.Archive` says. A list that is older than the kept one does not replace it."""
        with locked(
            self._folder, lambda: on_step("waiting for another bigiron that is updating the package lists")
        ):
            if not again and all(self._is_fresh(one) for one in self._repositories):
                return ""
            on_step(f"updating {self._owner}'s package lists for {self._arch}")
            why, unread = "", list[Repository]()
            for repository in self._repositories:
                try:
                    self._update_either(repository, on_step)
                except UserError as error:
                    why, unread = why or str(error), [*unread, repository]
        if not unread:
            return ""
        ages = {
            one.name: archive.age_s(file) if (file := self._file(one)).exists() else None for one in unread
        }
        return f"not all package lists could be read: {why}; {archive.used_instead(ages)}"

    def _is_fresh(self, repository: Repository) -> bool:
        kept = self._read(repository)
        age = archive.age_s(self._file(repository))
        known = kept is not None and kept.uri in (repository.uri, repository.archived)
        return known and age < archive.FRESH_SECONDS

    def _update_either(self, repository: Repository, on_step: Callable[[str], None]) -> None:
        """From the archive, where the repository is not to be found any more."""
        try:
            self._update(repository, on_step)
        except UserError as error:
            if not repository.archived or "404" not in str(error):
                raise
            self._update(replace(repository, uri=repository.archived), on_step)

    def _update(self, repository: Repository, on_step: Callable[[str], None]) -> None:
        """Read a repository's list and keep it; UserError says why that could not be done."""
        with tempfile.TemporaryDirectory(prefix=STAGING, dir=self._folder) as staging:
            try:
                kept = self._read_again(repository, Path(staging), on_step)
            except _DAMAGED as error:
                raise UserError(f"the list of {repository.uri} is damaged: {error}") from None
        keep_whole(self._file(repository), msgspec.json.encode(kept))

    def _read_again(self, repository: Repository, staging: Path, on_step: Callable[[str], None]) -> KeptList:
        uri, before = f"{repository.uri}/repodata/repomd.xml", self._read(repository)
        download_file(uri, staging / "repomd.xml", self._owner, on_step)
        revision, one = read_repomd(staging / "repomd.xml")
        if before and revision < before.revision:
            raise UserError(f"{uri} is older than the list that was read before")
        if before and (revision, repository.uri) == (before.revision, before.uri):
            return before
        file, place = staging / "primary", f"{repository.uri}/{one.place}"
        download_file(place, file, self._owner, on_step, sha256=one.sha256, size=one.size)
        return KeptList(repository.uri, revision, list(read_primary(file, self._arch, self._names)))

    def packages(self, name: str) -> list[Package]:
        """All versions of a package in the lists."""
        return [
            Package(one.name, one.version, f"{one.version}.{self._arch}", one.size)
            for _, one in self._listed()
            if one.name == name
        ]

    def repository_of(self, package: Package) -> str:
        """The name of the first repository that has it."""
        return next(
            repository.name
            for repository, one in self._listed()
            if (one.name, one.version) == (package.name, package.version)
        )

    def download(self, packages: Sequence[str], to: Path) -> list[Path]:
        """Download packages (`NAME=VERSION`) into a folder, with their checksums and signatures verified.

        A package that `keep` has is taken from there.
        """
        return [self._kept.copy(package, to) or self._download_one(package, to) for package in packages]

    def _download_one(self, wanted: str, to: Path) -> Path:
        known = {f"{one.name}={one.version}": (repository, one) for repository, one in self._listed()}
        if wanted not in known:
            raise UserError(f"{wanted} could not be downloaded: no package list names it")
        repository, one = known[wanted]
        file, uri = to / f"{wanted}.rpm", f"{repository.uri}/{one.place}"
        try:
            download_file(uri, file, self._owner, lambda _step: None, sha256=one.sha256, size=one.size)
        except UserError as error:
            raise UserError(f"{wanted} could not be downloaded: {error}") from None
        rpm_keys.verify(file, f"{one.name}-{one.version}.{self._arch}", self._owner, self._key)
        return file

    def keep(self, file: Path, package: Package) -> None:
        """Keep a package that was downloaded, whole or not at all."""
        self._kept.keep(file, package)

    def _listed(self) -> Iterator[tuple[Repository, Listed]]:
        for repository in self._repositories:
            if kept := self._read(repository):
                is_archived = kept.uri == repository.archived
                place = replace(repository, uri=kept.uri) if is_archived else repository
                yield from ((place, one) for one in kept.packages)

    def _read(self, repository: Repository) -> KeptList | None:
        try:
            return decode.from_json(self._file(repository).read_bytes(), KeptList)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _file(self, repository: Repository) -> Path:
        return self._folder / f"{repository.name}.json"


def read_repomd(file: Path) -> tuple[int, Listed]:
    """A repository's revision, and its list of packages; what _DAMAGED has if it is none."""
    root = ElementTree.fromstring(file.read_bytes())
    for data in root.iterfind(f"{_REPO}data[@type='primary']"):
        revision, size = int(root.findtext(f"{_REPO}revision") or ""), data.findtext(f"{_REPO}size") or ""
        return revision, _listed(data, _REPO, "primary.xml", str(revision), size, _LARGEST_LIST)
    raise ValueError("no list of packages is named")


def read_primary(file: Path, arch: str, names: Collection[str]) -> Iterator[Listed]:
    """The packages of an architecture with certain names; raises what _DAMAGED has.

    Only their own elements are parsed: a list has 70,000 others, in 200 MB.
    """
    wanted = tuple(f"<name>{name}</name>".encode() for name in names)
    with (
        tempfile.TemporaryDirectory(dir=file.parent) as staging,
        file.open("rb") as packed,
        closing(_elements(packed, Path(staging))) as elements,
    ):
        for element in elements:
            if not any(name in element for name in wanted):
                continue
            (package,) = ElementTree.fromstring(b'<x xmlns:rpm="%b">%b</x>' % (_RPM.encode(), element))
            name, version = package.findtext("name") or "", package.find("version")
            if name not in names or package.findtext("arch") != arch or version is None:
                continue
            full = f"{version.get('ver')}-{version.get('rel')}"
            if not _VERSION.fullmatch(full):
                raise ValueError(f"{name} has the version {full!r}")
            size = _attribute(package.find("size"), "package")
            yield _listed(package, "", name, full, size, _LARGEST_PACKAGE)


def _elements(packed: IO[bytes], staging: Path) -> Generator[bytes]:
    """The elements of packages in a list that may be compressed."""
    kind = compression.kind(packed.read(6))
    packed.seek(0)
    rest, total = b"", 0
    with compression.plain(packed, kind, staging, "the list of packages") as stream:
        while chunk := stream.read(_CHUNK):
            total += len(chunk)
            *parts, rest = (rest + chunk).split(b"</package>")
            for part in parts:
                if (start := part.find(b"<package ")) >= 0:
                    yield part[start:] + b"</package>"
            if total > _LARGEST_LIST or len(rest) > _LARGEST_ENTRY:
                raise ValueError("it is larger than any list of packages")


def _listed(
    element: ElementTree.Element, space: str, name: str, version: str, size: str, most: int
) -> Listed:
    """What an element of repomd.xml or primary.xml says of a file, checked."""
    checksum, location = element.find(f"{space}checksum"), element.find(f"{space}location")
    place = _attribute(location, "href")
    digest = (checksum.text or "") if checksum is not None else ""
    if _attribute(checksum, "type") != "sha256" or not _SHA256.fullmatch(digest):
        raise ValueError(f"{name} has no SHA-256")
    if not _PLACE.fullmatch(place):
        raise ValueError(f"{name} is at {place!r}")
    if not 0 < int(size) <= most:
        raise ValueError(f"{name} has {size} bytes")
    return Listed(name, version, place, int(size), digest)


def _attribute(element: ElementTree.Element | None, name: str) -> str:
    return element.get(name, "") if element is not None else ""
