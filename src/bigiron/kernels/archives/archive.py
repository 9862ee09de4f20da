"""What all archives of packages have in common: how a package is chosen, downloaded and kept.

An archive that is being updated names files that it does not have yet, or not any more. So lists are asked
for again, the last good list is used where that fails, and an older version where a listed one is gone.
"""

import math
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from bigiron.errors import UserError
from bigiron.util.cache_dir import made_whole
from bigiron.util.english import first_n, plural

FRESH_SECONDS = 3600  # package lists younger than this are used as they are
PAUSES_S = (2.0, 10.0)  # before an archive that is being updated is asked again

_T = TypeVar("_T")


class UntrustedError(UserError):
    """A package that is not what its distribution signed: no older one is taken in its place."""


@dataclass(frozen=True)
class Package:
    """A package that holds a kernel image, or a kernel's source."""

    name: str  # linux-image-6.1.0-56-cloud-amd64
    version: str  # 6.1.192-2
    release: str  # 6.1.0-56-cloud-amd64; "" of a source
    size: int  # bytes to download
    flavour: str = ""  # cloud-amd64

    @property
    def is_backport(self) -> bool:
        return "~" in self.version


class Archive(Protocol):
    """Lists of packages, kept in the cache, and the packages that they name."""

    def update(self, on_step: Callable[[str], None], *, again: bool = False) -> str:
        """Bring the lists up to date; why that failed and which are used instead, "" if it did not.

        `again`: even if they are young.
        """

    def download(self, packages: Sequence[str], to: Path) -> list[Path]:
        """Download packages (`NAME=VERSION`), verified, into a folder; UserError says why not."""


@dataclass(frozen=True)
class ArchiveRequest:
    """A kernel or a source that is asked for."""

    name: str  # debian/6.12
    listed: Callable[[], list[Package]]
    """Every package of its kind in the lists."""
    choose: Callable[[Sequence[Package]], Package | None]
    unknown: Callable[[Sequence[Package]], str]
    """What to say where no package fits."""
    mirror_variable: str
    older: str
    """Where to get a version that the archive no longer has."""


def download(
    asked: ArchiveRequest, archive: Archive, to: Path, on_step: Callable[[str], None]
) -> tuple[Path, Package]:
    """Download the package that is asked for into a folder."""
    refused = archive.update(on_step)
    package = _find(asked, refused, on_step)
    try:
        file = _download_one(archive, package, to, on_step)
    except UntrustedError:
        raise
    except UserError as error:
        on_step(f"{error}; the archive may have changed")
        refused = archive.update(on_step, again=True)
        package, before = _find(asked, refused, on_step), package
        if package == before:
            older = asked.choose([one for one in asked.listed() if one.version != package.version])
            if older is None:
                raise UserError(f"{asked.name}: {error}; {_advice(asked, str(error))}") from None
            package = older
        file = _download_one(archive, package, to, on_step)
    return file, package


def download_more(archive: Archive, packages: Sequence[str], to: Path) -> list[Path]:
    """Download packages that belong to a kernel which is here already: its modules."""
    try:
        return archive.download(packages, to)
    except UntrustedError:
        raise
    except UserError:  # the local package lists may be older than the kernel
        refused = archive.update(lambda _step: None)
    try:
        return archive.download(packages, to)
    except UserError as error:
        raise UserError(f"{error} ({refused})" if refused else str(error)) from None


def _find(asked: ArchiveRequest, refused: str, on_step: Callable[[str], None]) -> Package:
    """The package that holds what is wanted. `refused`: why not all package lists are up to date."""
    available = asked.listed()
    package = asked.choose(available)
    if package is None and refused:
        advice = f"check the network, or name another mirror in {asked.mirror_variable}"
        raise UserError(f"{asked.name}: {refused}; {advice}")
    if package is None:
        raise UserError(asked.unknown(available))
    if refused:
        on_step(f"{refused}; there may be a newer kernel")
    return package


def _download_one(archive: Archive, package: Package, to: Path, on_step: Callable[[str], None]) -> Path:
    on_step(f"downloading {package.name} {package.version} ({package.size / 1e6:.0f} MB)")
    (file,) = archive.download([f"{package.name}={package.version}"], to)
    return file


def _advice(asked: ArchiveRequest, error: str) -> str:
    """The advice if a listed package cannot be downloaded."""
    if "404" not in error:
        return f"check the network, or name another mirror in {asked.mirror_variable}"
    return (
        "the package list names it, but the archive does not have it: try again later, "
        f"name another mirror in {asked.mirror_variable}, or {asked.older}"
    )


def matches(wanted: str, package: Package) -> bool:
    """Whether a package is of a series (`6.1`), version (`6.1.192`, `6.1.192-2`) or release."""
    if re.fullmatch(r"\d+\.\d+", wanted):
        return package.version.startswith(wanted + ".")
    return wanted in (package.version, package.version.partition("-")[0], package.release)


def series(packages: Sequence[Package]) -> list[str]:
    """The series of packages, in order.

    >>> series([Package("linux", version, "", 0) for version in ("6.12.9-1", "6.1.192-2", "6.1.7-1")])
    ['6.1', '6.12']
    """
    pairs = {tuple(int(part) for part in p.version.split(".")[:2]) for p in packages}
    return [f"{major}.{minor}" for major, minor in sorted(pairs)]


class KeptPackages:
    """Packages that were downloaded: their modules may be wanted when the archive no longer has them."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder, self._suffix = folder, suffix
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, file: Path, package: Package) -> None:
        """Keep a package, whole or not at all."""
        with made_whole(self._file(f"{package.name}={package.version}")) as whole:
            shutil.copy(file, whole)

    def copy(self, package: str, to: Path) -> Path | None:
        """A copy of a package (`NAME=VERSION`) in a folder; None if it is not kept."""
        file = self._file(package)
        return Path(shutil.copy(file, to)) if file.exists() else None

    def _file(self, package: str) -> Path:
        return self._folder / f"{package}{self._suffix}"


def until_settled(
    do: Callable[[], _T], is_being_updated: Callable[[_T], bool], owner: str, on_step: Callable[[str], None]
) -> _T:
    """Do something again while its outcome is that of an archive that is being updated."""
    done = do()
    for pause in PAUSES_S:
        if not is_being_updated(done):
            break
        on_step(f"{owner}'s archive is being updated: trying again in {pause:g} s")
        time.sleep(pause)
        done = do()
    return done


def used_instead(ages_s: Mapping[str, float | None]) -> str:
    """The lists used instead of those that could not be read: each one's age in seconds, None of none.

    >>> used_instead({"trixie": 7300, "bookworm": 60, "trixie-backports": None})
    'using the lists of trixie, bookworm from 2 hours ago; there is no list of trixie-backports yet'
    """
    here = [name for name, age in ages_s.items() if age is not None]
    none = [name for name, age in ages_s.items() if age is None]
    said = []
    if here:
        oldest = max(age for age in ages_s.values() if age is not None)
        said.append(f"using the lists of {first_n(here, 3)} from {_ago(oldest)}")
    if none:
        said.append(f"there is no list of {first_n(none, 3)} yet")
    return "; ".join(said)


def age_s(file: Path) -> float:
    """Seconds since a file was written; endless where there is none, or where that was in the future."""
    age = time.time() - file.stat().st_mtime if file.exists() else math.inf
    return age if age >= 0 else math.inf


def _ago(seconds: float) -> str:
    """In words.

    >>> _ago(59), _ago(7300), _ago(200_000), _ago(math.inf)
    ('a minute ago', '2 hours ago', '2 days ago', 'some time ago')
    """
    if seconds == math.inf:
        return "some time ago"
    for unit, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit:
            return f"{plural(int(seconds // unit), name)} ago"
    return "a minute ago"
