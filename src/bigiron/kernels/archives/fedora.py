"""Fedora's kernels: from the lists of its mirrors, each package verified with its release's key."""

import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from bigiron.errors import UserError
from bigiron.kernels.archives import archive, rpm_keys
from bigiron.kernels.archives.archive import Package
from bigiron.kernels.archives.numbered import Numbered, exact_name, is_exactly
from bigiron.kernels.archives.repodata import Repodata, Repository
from bigiron.kernels.kernel import Kernel
from bigiron.kernels.release import release_order
from bigiron.util import distribution

__all__ = ["TITLE", "download", "download_modules", "exact_name", "is_exactly"]

TITLE = "Fedora"
MIRROR_VARIABLE = "BIGIRON_FEDORA_MIRROR"
KEYS = (Path("/usr/share/distribution-gpg-keys/fedora"), Path("/etc/pki/rpm-gpg"))
_MIRROR = "https://dl.fedoraproject.org/pub/fedora/linux"
_SECONDARY = "https://dl.fedoraproject.org/pub/fedora-secondary"  # of the others
_ARCHIVE = "https://archives.fedoraproject.org/pub/archive/fedora/linux"  # of releases that have ended
_SECONDARY_ARCHIVE = "https://archives.fedoraproject.org/pub/archive/fedora-secondary"
_PRIMARY = ("x86_64", "aarch64")  # architectures
_IMAGE = "kernel-core"
_MODULES = (_IMAGE, "kernel-modules-core", "kernel-modules")  # the first has modules.builtin
_SOURCE = re.compile(r"Fedora (\d+) \S+, kernel-core (\S+)")
_OLDER = "get its packages from koji.fedoraproject.org (bigiron kernel add FILE.rpm)"


def download(wanted: str, arch: str, to: Path, on_step: Callable[[str], None]) -> tuple[Path, Package, str]:
    """Download the package that holds the kernel `wanted` into a folder.

    `43` is the newest of that release, `43-6.17` the newest of a series, `43-6.17.1-300.fc43` that version.
    Returns the file, the package, and the release and repository it is in.
    """
    asked = Numbered.parse(wanted)
    lists = repositories(asked.number, arch)

    def choose(available: Sequence[Package]) -> Package | None:
        fitting = asked.fitting(available)
        return max(fitting, key=lambda package: release_order(package.release), default=None)

    def unknown(available: Sequence[Package]) -> str:
        there = ", ".join(f"fedora/{asked.number}-{one}" for one in archive.series(available)) or "none"
        return f"Fedora {asked.number} has no such kernel for {arch}: it has {there}; for others, {_OLDER}"

    listed = functools.partial(lists.packages, _IMAGE)
    request = archive.ArchiveRequest(f"fedora/{wanted}", listed, choose, unknown, MIRROR_VARIABLE, _OLDER)
    file, package = archive.download(request, lists, to, on_step)
    lists.keep(file, package)
    return file, package, f"{asked.number} {lists.repository_of(package)}"


def download_modules(kernel: Kernel, to: Path) -> list[Path]:
    """Download the packages that hold the modules of one of Fedora's kernels; [] of another one."""
    if not (found := _SOURCE.fullmatch(kernel.source)):
        return []
    number, version = found.groups()
    names = [f"{name}={version}" for name in _MODULES]
    return archive.download_more(repositories(number, kernel.arch), names, to)


def repositories(number: str, arch: str) -> Repodata:
    """The lists of a release for an architecture."""
    rpm_keys.check()
    usual = (_MIRROR, _ARCHIVE) if arch in _PRIMARY else (_SECONDARY, _SECONDARY_ARCHIVE)
    named = os.environ.get(MIRROR_VARIABLE, "").rstrip("/")
    mirrors = (named,) if named else usual
    places = {
        "updates": f"updates/{number}/Everything/{arch}",
        "releases": f"releases/{number}/Everything/{arch}/os",
    }
    both = [Repository(name, *(f"{mirror}/{place}" for mirror in mirrors)) for name, place in places.items()]
    return Repodata(TITLE, f"fedora-{number}-{arch}", arch, both, _MODULES, _key(number))


def _key(number: str) -> Path:
    """The key that a release's packages are signed with."""
    if not re.fullmatch(r"[1-9]\d{0,2}", number):
        raise UserError(f"fedora/{number} is not a release of Fedora: name one as fedora/43")
    name = f"RPM-GPG-KEY-fedora-{number}-primary"
    for file in (folder / name for folder in KEYS):
        if file.exists():
            return file
    raise UserError(
        f"Fedora {number} has no key {name} in {' or '.join(map(str, KEYS))}: "
        f"{distribution.install('distribution-gpg-keys')}, or name another release"
    )
