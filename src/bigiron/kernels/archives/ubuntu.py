"""Ubuntu's kernels, through apt: those of its releases with long-term support."""

import functools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.kernels.archives import apt as apts
from bigiron.kernels.archives import archive
from bigiron.kernels.archives.apt import Apt
from bigiron.kernels.archives.archive import Package
from bigiron.kernels.archives.numbered import Numbered, exact_name, is_exactly
from bigiron.kernels.kernel import Kernel
from bigiron.util.english import join_and

__all__ = ["TITLE", "download", "download_modules", "exact_name", "is_exactly"]

TITLE = "Ubuntu"
KEYRING = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")
MIRROR_VARIABLE = "BIGIRON_UBUNTU_MIRROR"
_ARCHIVE, _PORTS = "http://archive.ubuntu.com/ubuntu", "http://ports.ubuntu.com/ubuntu-ports"
_IMAGE = re.compile(r"linux-image-unsigned-(\d+\.\d+\.\d+-\d+-generic)")
_SOURCE = re.compile(r"Ubuntu ([a-z]+)\S*, linux-image-unsigned-(\S+) (\S+)")
_OLDER = "get its packages from launchpad.net (bigiron kernel add FILE.deb)"


@dataclass(frozen=True)
class Release:
    """A release of Ubuntu."""

    number: str
    codename: str  # its suites begin with it
    series: str  # of the kernel that it was released with

    @property
    def suites(self) -> tuple[str, str, str]:
        return self.codename, f"{self.codename}-updates", f"{self.codename}-security"


RELEASES = (Release("24.04", "noble", "6.8"), Release("26.04", "resolute", "7.0"))


def download(wanted: str, arch: str, to: Path, on_step: Callable[[str], None]) -> tuple[Path, Package, str]:
    """Download the package that holds the kernel `wanted` into a folder.

    `24.04` is the newest of the series that this release began with, `24.04-6.14` the newest of another one,
    `24.04-6.8.0-31.31` that version. Returns the file, the package, and the suite it is in.
    """
    asked = Numbered.parse(wanted)
    release = _release(asked.number)
    lists = apt(release, arch)

    def unknown(available: Sequence[Package]) -> str:
        there = ", ".join(f"ubuntu/{release.number}-{one}" for one in archive.series(available)) or "none"
        return f"Ubuntu {release.number} has no such kernel for {arch}: it has {there}; for others, {_OLDER}"

    request = archive.ArchiveRequest(
        f"ubuntu/{wanted}",
        functools.partial(image_packages, lists),
        lambda available: apts.newest(asked.fitting(available, default=release.series)),
        unknown,
        MIRROR_VARIABLE,
        _OLDER,
    )
    file, package = archive.download(request, lists, to, on_step)
    return file, package, lists.suite_of(package)


def download_modules(kernel: Kernel, to: Path) -> list[Path]:
    """Download the package that holds the modules of one of Ubuntu's kernels; [] of another one.

    Of file systems, f2fs is not in it, but in linux-modules-extra, which is three times as large.
    """
    if not (found := _SOURCE.fullmatch(kernel.source)):
        return []
    codename, release, version = found.groups()
    lists = apt(next(one for one in RELEASES if one.codename == codename), kernel.arch)
    return archive.download_more(lists, [f"linux-modules-{release}={version}"], to)


def _release(number: str) -> Release:
    for release in RELEASES:
        if release.number == number:
            return release
    known = join_and([f"ubuntu/{release.number}" for release in RELEASES])
    raise UserError(f"ubuntu/{number} is not a release whose kernels are fetched: {known} are")


def apt(release: Release, arch: str) -> Apt:
    """Apt with the lists of a release for an architecture."""
    folder = f"ubuntu-{release.number}-{architecture(arch).debian}"
    return Apt(arch, TITLE, folder, release.suites, functools.partial(_sources, release, arch))


def image_packages(lists: Apt) -> list[Package]:
    """Every package that holds an image of the kernel for any machine."""
    return [
        Package(fields["Package"], fields["Version"], found[1], int(fields["Size"]), "generic")
        for fields in lists.stanzas("^linux-image-unsigned-[0-9].*-generic$")
        if (found := _IMAGE.fullmatch(fields["Package"]))
    ]


def _sources(release: Release, arch: str) -> str:
    apts.check_keyring(TITLE, KEYRING, "ubuntu-keyring")
    usual = _ARCHIVE if architecture(arch).debian == "amd64" else _PORTS
    return apts.source(os.environ.get(MIRROR_VARIABLE) or usual, release.suites, KEYRING)
