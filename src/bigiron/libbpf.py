"""libbpf and what it needs, as static libraries: for agents that load a BPF program into their kernel.

For this machine's architecture they are its own; for another they come from Debian's packages, verified, into
the cache.
"""

import contextlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bigiron.architectures import Architecture
from bigiron.errors import UserError
from bigiron.kernels.archives import debian
from bigiron.kernels.archives.apt import Apt
from bigiron.util import distribution, subprocesses
from bigiron.util.cache_dir import cache_folder, made_whole

PACKAGES = ("libbpf-dev", "libelf-dev", "zlib1g-dev")
_LIBRARIES = ("libbpf.a", "libelf.a", "libz.a")
_ZSTD = ("libzstd-dev", "libzstd.a")  # of newer releases' libelf
_WANTED = "BPF programs need the static libraries libbpf, libelf and zlib"


def flags(target: Architecture) -> tuple[str, ...]:
    """The linker options for the target's compiler; UserError says how to get the libraries."""
    if target.is_native:
        missing = [name for name in _LIBRARIES if not _has(target, name)]
        if missing:
            raise UserError(f"{_WANTED}: {distribution.install(*PACKAGES)} (no {', '.join(missing)})")
        zstd = _has(target, _ZSTD[1])
        folders: tuple[str, ...] = ()
    else:
        unpacked = _fetched(target)
        folder = next((unpacked / "usr/lib").glob("*/libbpf.a")).parent
        zstd = (folder / _ZSTD[1]).exists()
        folders = ("-isystem", str(unpacked / "usr/include"), "-L", str(folder))
    return (*folders, "-lbpf", "-lelf", "-lz", *(["-lzstd"] if zstd else []))


def _has(target: Architecture, library: str) -> bool:
    """A compiler that does not find a library answers with its bare name."""
    compiler = shutil.which(target.compiler)
    if compiler is None:
        return True  # who compiles says so
    done = subprocess.run(
        [compiler, f"-print-file-name={library}"], capture_output=True, text=True, check=False
    )
    return Path(done.stdout.strip()).is_absolute()


def _fetched(target: Architecture) -> Path:
    """The packages of this machine's Debian release, unpacked: its cross compiler's C library fits them."""
    release = _release()
    final = cache_folder("libraries") / f"{release}-{target.name}"
    if final.is_dir():
        return final
    apt = debian.apt(target.name)
    refused = apt.update(lambda _step: None)
    with made_whole(final) as unpacked:
        folder = unpacked.parent
        for package in [*PACKAGES, *([_ZSTD[0]] if release != "bookworm" else [])]:
            try:
                file = _downloaded(apt, package, _and_older(release), folder / package)
            except UserError as error:
                raise UserError(f"{_WANTED} for {target.name}: {error} {refused}".strip()) from None
            subprocesses.run(["dpkg-deb", "--extract", file, unpacked], f"{file.name} cannot be unpacked")
    return final


def _downloaded(apt: Apt, package: str, releases: Sequence[str], to: Path) -> Path:
    """A package of the first release that has it: an archive may list one that it no longer has.

    A static library of an older release links with this one's C library, too.
    """
    to.mkdir()
    try:
        (file,) = apt.download([f"{package}/{releases[0]}"], to)
    except UserError:
        for release in releases[1:]:
            with contextlib.suppress(UserError):
                (file,) = apt.download([f"{package}/{release}"], to)
                return file
        raise
    return file


def _and_older(release: str) -> Sequence[str]:
    """A release and those before it, newest first.

    >>> _and_older("trixie")
    ['trixie', 'bookworm', 'bullseye']
    """
    releases = [suite for suite in debian.MAIN_SUITES if "-" not in suite]
    return releases[releases.index(release) :: -1]


def _release() -> str:
    release = distribution.here().codename
    if release not in debian.MAIN_SUITES:
        raise UserError(
            f"{_WANTED}; for a foreign architecture they come from Debian's packages, "
            "and this machine does not run Debian 11, 12 or 13"
        )
    return release
