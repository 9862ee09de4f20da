"""Debian's kernels, and their sources, through apt."""

import functools
import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bigiron.architectures import architecture
from bigiron.kernels.archives import apt as apts
from bigiron.kernels.archives import archive
from bigiron.kernels.archives.apt import Apt
from bigiron.kernels.archives.archive import Package
from bigiron.kernels.kernel import Kernel

TITLE = "Debian"
MAIN_SUITES = ("bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports")
SECURITY_SUITES = ("bullseye-security", "bookworm-security", "trixie-security")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_VARIABLE = "BIGIRON_DEBIAN_MIRROR"
_OWN = ("http://deb.debian.org/debian", "http://security.debian.org/debian-security")
_RELEASES = (
    "oldoldstable", "oldstable", "stable", "testing", "unstable",
    "bullseye", "bookworm", "trixie", "forky", "sid",
)  # fmt: skip
"""What the names of suites begin with."""
_OLDER = "get its package from snapshot.debian.org (bigiron kernel add FILE.deb)"
_SOURCE = re.compile(r"Debian \S+, (linux-(image|binary)-\S+) (\S+)")


def download(wanted: str, arch: str, to: Path, on_step: Callable[[str], None]) -> tuple[Path, Package, str]:
    """Download the package that holds the kernel `wanted` (`6.1`, `6.1-amd64`, `6.1.192-2`) into a folder.

    Returns the file, the package, and the suite it is in.
    """
    _say_where(on_step)
    lists, flavour = apt(arch), flavour_of(wanted, arch)
    images = functools.partial(image_packages, lists, flavour)
    file, package = archive.download(_request(wanted, f"for {arch}", images), lists, to, on_step)
    lists.keep(file, package)  # its modules may be wanted when the archive no longer has it
    return file, package, lists.suite_of(package)


def download_source(wanted: str, to: Path, on_step: Callable[[str], None]) -> tuple[Path, Package, str]:
    """Download the package that holds the source `wanted` (`6.1`, `6.1.192-2`) into the folder `to`.

    Returns the file, the package, and the suite it is in.
    """
    _say_where(on_step)
    lists = apt("x86_64")  # a source is the same for all
    sources = functools.partial(source_packages, lists)
    file, package = archive.download(_request(wanted, "as source", sources), lists, to, on_step)
    return file, package, lists.suite_of(package)


def _say_where(on_step: Callable[[str], None]) -> None:
    if not os.environ.get(MIRROR_VARIABLE, "").split() and not mirrors_of_this_machine()[0]:
        on_step(
            f"this machine's apt has no Debian archive: using {_OWN[0]} ({MIRROR_VARIABLE} names another)"
        )


def _request(wanted: str, form: str, listed: Callable[[], list[Package]]) -> archive.ArchiveRequest:
    def unknown(available: Sequence[Package]) -> str:
        there = ", ".join(f"debian/{one}" for one in archive.series(available)) or "none"
        return (
            f"Debian has no kernel {wanted} {form}: it has {there} "
            f"(suites {', '.join(MAIN_SUITES)}), or name an exact version such as 6.1.192-2; for one that "
            f"Debian had before, {_OLDER}"
        )

    choose_it = functools.partial(choose, wanted)
    return archive.ArchiveRequest(f"debian/{wanted}", listed, choose_it, unknown, MIRROR_VARIABLE, _OLDER)


def download_modules(kernel: Kernel, to: Path) -> list[Path]:
    """Download the packages that hold the modules of one of Debian's kernels; [] of another one."""
    if not (found := _SOURCE.fullmatch(kernel.source)):
        return []
    name, kind, version = found.groups()
    # From 7.x on, the image, the modules and modules.builtin are in separate packages.
    parts = (kind,) if kind == "image" else ("modules", "base")
    names = [name.replace(f"-{kind}-", f"-{part}-", 1) for part in parts]
    return archive.download_more(apt(kernel.arch), [f"{one}={version}" for one in names], to)


def flavour_of(wanted: str, arch: str) -> str:
    """Which of Debian's kernels of one version is wanted.

    >>> flavour_of("6.1", "x86_64"), flavour_of("6.1-amd64", "x86_64")
    ('cloud-amd64', 'amd64')
    """
    flavours = architecture(arch).flavours
    return next((flavour for flavour in flavours if wanted.endswith(f"-{flavour}")), flavours[0])


def release_of(package: str, flavour: str) -> str:
    """The kernel's release; "" of a metapackage, whose name has no a.b.c, and of another flavour.

    >>> release_of("linux-image-6.1.0-56-amd64", "amd64")
    '6.1.0-56-amd64'
    >>> [release_of(f"linux-image-{one}-amd64", "amd64") for one in ("6.1.0-56-rt", "6.1.0-56-cloud", "6.1")]
    ['', '', '']
    """
    name = rf"linux-(?:image|binary)-(\d+\.\d+\.\d+[^-]*(?:-\d[^-]*)?-{re.escape(flavour)})"
    found = re.fullmatch(name, package)
    return found[1] if found else ""


def more_modules(name: str, release: str, arch: str) -> str:
    """The kernel that has more modules than one of Debian's, "" where that has all.

    >>> more_modules("debian/6.1", "6.1.0-56-cloud-amd64", "x86_64")
    'debian/6.1-amd64'
    >>> more_modules("debian/6.1-amd64", "6.1.0-56-amd64", "x86_64")
    ''
    """
    own, all_of_them = flavour_of(release, arch), architecture(arch).flavours[-1]
    return "" if own == all_of_them else f"{name.removesuffix(f'-{own}')}-{all_of_them}"


def choose(wanted: str, available: Sequence[Package]) -> Package | None:
    """The newest package of a series (`6.1`), or of an exact version (`6.1.192`, `6.1.192-2`) or release.

    Their flavour may follow (`6.1-amd64`): all packages are of it.
    """
    return apts.newest([p for p in available if _matches(wanted, p)])


def _matches(wanted: str, package: Package) -> bool:
    bare = wanted.removesuffix(f"-{package.flavour}") if package.flavour else wanted
    return archive.matches(bare, package) or wanted == package.release


def is_exactly(wanted: str, kernel: Kernel) -> bool:
    """Whether the exact version of a kernel of Debian's, or its release, is wanted.

    >>> newest = Kernel("debian/6.1", "6.1.0-56-cloud-amd64", "6.1.192-2", "x86_64", Path(), "", "")
    >>> [is_exactly(one, newest) for one in ("6.1.192-2", "6.1", "6.1.192-2-amd64")]
    [True, False, False]
    """
    flavour = flavour_of(kernel.release, kernel.arch)
    return wanted == kernel.release or (
        flavour_of(wanted, kernel.arch) == flavour and wanted.removesuffix(f"-{flavour}") == kernel.version
    )


def exact_name(name: str, release: str, version: str, arch: str) -> str:
    """The name by which any machine fetches exactly one kernel of Debian's.

    >>> exact_name("debian/6.1", "6.1.0-56-cloud-amd64", "6.1.192-2", "x86_64")
    'debian/6.1.192-2'
    >>> exact_name("debian/6.1-amd64", "6.1.0-56-amd64", "6.1.192-2", "x86_64")
    'debian/6.1.192-2-amd64'
    """
    flavour = flavour_of(release, arch)
    return f"debian/{version}" + ("" if flavour == architecture(arch).flavours[0] else f"-{flavour}")


def apt(arch: str) -> Apt:
    """Apt with Debian's lists for an architecture."""
    return Apt(arch, TITLE, architecture(arch).debian, (*MAIN_SUITES, *SECURITY_SUITES), _sources)


def image_packages(lists: Apt, flavour: str) -> list[Package]:
    """Every package of a flavour that may hold a kernel image."""
    return [
        Package(fields["Package"], fields["Version"], release, int(fields["Size"]), flavour)
        for fields in lists.stanzas(f"^linux-(image|binary)-[0-9].*-{re.escape(flavour)}$")
        if (release := release_of(fields["Package"], flavour))
    ]


def source_packages(lists: Apt) -> list[Package]:
    """Every package that holds a kernel's source, with Debian's patches."""
    return [
        Package(fields["Package"], fields["Version"], "", int(fields["Size"]))
        for fields in lists.stanzas(r"^linux-source-[0-9]+\.[0-9]+$")
    ]


def check_keyring() -> None:
    """Raise UserError if Debian's keys are not on this machine."""
    apts.check_keyring(TITLE, KEYRING, "debian-archive-keyring")


def _sources() -> str:
    check_keyring()
    main, security = mirrors()
    text = apts.source(main, MAIN_SUITES, KEYRING)
    return text + ("\n" + apts.source(security, SECURITY_SUITES, KEYRING) if security else "")


def mirrors() -> tuple[str, str]:
    """The URIs of Debian's main and security archives: the variable's, this machine's, or Debian's own.

    What comes from any of them is verified with Debian's keys.
    """
    override = os.environ.get(MIRROR_VARIABLE, "").split()
    if override:
        return override[0], override[1] if len(override) > 1 else ""
    main, security = mirrors_of_this_machine()
    return (main, security) if main else _OWN


def mirrors_of_this_machine() -> tuple[str, str]:
    """The URIs of Debian's main and security archives in the sources of this machine's apt; "" of none.

    A machine whose lists were never updated does not know an index's origin: there the suite's name tells.
    Others than Debian's main archive also say that they are Debian's.
    """
    main, security = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    known = ("apt-get", "indextargets", "--format", "$(ORIGIN)|$(RELEASE)|$(REPO_URI)")
    # apt 3 leaves out what it has no list of, unless it is told not to look.
    for line in (apts.output_of(*known) or apts.output_of(*known, "--no-release-info")).splitlines():
        origin, suite, uri = line.split("|", 2)
        if origin not in ("Debian", "$(ORIGIN)", "") or uri.startswith("cdrom:"):
            continue
        if origin == "Debian" and (suite.partition("-")[0] not in _RELEASES or suite.endswith("-debug")):
            continue
        if origin != "Debian" and suite not in (*MAIN_SUITES, *SECURITY_SUITES):
            continue
        (security if suite.endswith("-security") else main)[uri].add(suite)
    return _with_most(main), _with_most(security)


def _with_most(suites: Mapping[str, set[str]]) -> str:
    """The URI with the most suites, "" of none."""
    return max(suites, key=lambda uri: len(suites[uri]), default="")
