"""Debian's kernels, through apt with a configuration of its own.

Nothing of the machine's own package state is read or changed. Every index is verified by apt with Debian's
keyring, and every package by the checksum in a verified index.
"""

import functools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bigiron.architectures import architecture
from bigiron.cache_dir import cache_folder
from bigiron.errors import UserError

MAIN_SUITES = ("bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports")
SECURITY_SUITES = ("bullseye-security", "bookworm-security", "trixie-security")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_VARIABLE = "BIGIRON_DEBIAN_MIRROR"
FRESH_SECONDS = 3600  # package lists younger than this are used as they are


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


def download(wanted: str, arch: str, to: Path, on_step: Callable[[str], None]) -> tuple[Path, Package, str]:
    """Download the package that holds the kernel `wanted` (`6.1`, `6.1-amd64`, `6.1.192-2`) into a folder.

    Returns the file, the package, and the suite it is in.
    """
    apt, flavour = Apt(arch), flavour_of(wanted, arch)
    return _download(wanted, f"for {arch}", apt, lambda: apt.image_packages(flavour), to, on_step)


def flavour_of(wanted: str, arch: str) -> str:
    """Which of Debian's kernels of one version is wanted.

    >>> flavour_of("6.1", "x86_64"), flavour_of("6.1-amd64", "x86_64")
    ('cloud-amd64', 'amd64')
    """
    flavours = architecture(arch).flavours
    return next((flavour for flavour in flavours if wanted.endswith(f"-{flavour}")), flavours[0])


def download_source(wanted: str, to: Path, on_step: Callable[[str], None]) -> tuple[Path, Package, str]:
    """Download the package that holds the source `wanted` (`6.1`, `6.1.192-2`) into the folder `to`.

    Returns the file, the package, and the suite it is in.
    """
    apt = Apt("x86_64")  # a source is the same for all
    return _download(wanted, "as source", apt, apt.source_packages, to, on_step)


def _download(
    wanted: str,
    form: str,
    apt: "Apt",
    packages: Callable[[], list[Package]],
    to: Path,
    on_step: Callable[[str], None],
) -> tuple[Path, Package, str]:
    refused = apt.update(on_step)
    available = packages()
    package = choose(wanted, available)
    if package is None:
        if refused:
            raise UserError(
                f"debian/{wanted}: apt could not read all package lists: {refused}; "
                f"check the network, or name another mirror in {MIRROR_VARIABLE}"
            )
        raise UserError(
            f"Debian has no kernel {wanted} {form}: it has {', '.join(_series(available)) or 'none'} "
            f"(suites {', '.join(MAIN_SUITES)}), or name an exact version such as 6.1.192-2"
        )
    if refused:
        on_step(f"apt could not read all package lists, so there may be a newer one: {refused}")
    on_step(f"downloading {package.name} {package.version} ({package.size / 1e6:.0f} MB)")
    try:
        (file,) = apt.download([f"{package.name}={package.version}"], to)
    except UserError as error:
        # An archive that is being updated may list what is not there any more.
        older = choose(wanted, [one for one in available if one.version != package.version])
        if older is None:
            raise
        on_step(f"{error}; the one before it: {older.name} {older.version}")
        (file,) = apt.download([f"{older.name}={older.version}"], to)
        package = older
    return file, package, apt.suite_of(package)


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


def choose(wanted: str, available: Iterable[Package]) -> Package | None:
    """The newest package of a series (`6.1`), or of an exact version (`6.1.192`, `6.1.192-2`) or release.

    Their flavour may follow (`6.1-amd64`): all packages are of it.

    A release's own kernel is preferred to one backported to an older release: it is what Debian's users run.
    """
    matching = [p for p in available if _matches(wanted, p)]
    own = [p for p in matching if not p.is_backport]
    return max(own or matching, key=functools.cmp_to_key(_compare), default=None)


def _matches(wanted: str, package: Package) -> bool:
    bare = wanted.removesuffix(f"-{package.flavour}")
    if re.fullmatch(r"\d+\.\d+", bare):
        return package.version.startswith(bare + ".")
    return bare in (package.version, package.version.partition("-")[0]) or wanted == package.release


def _compare(one: Package, other: Package) -> int:
    """Debian's order of versions, asked of dpkg. A linux-binary package goes before an empty linux-image."""
    if one.version == other.version:
        return one.name.startswith("linux-binary-") - other.name.startswith("linux-binary-")
    newer = subprocess.run(["dpkg", "--compare-versions", one.version, "gt", other.version], check=False)
    return 1 if newer.returncode == 0 else -1


def _series(available: Iterable[Package]) -> list[str]:
    pairs = {tuple(int(part) for part in p.version.split(".")[:2]) for p in available}
    return [f"debian/{major}.{minor}" for major, minor in sorted(pairs)]


class Apt:
    """apt with its own sources, lists and cache, one folder an architecture."""

    def __init__(self, arch: str) -> None:
        self._arch = architecture(arch).debian
        self._folder = cache_folder("apt") / self._arch
        for needed in ("sources", "state/lists/partial", "cache/archives/partial"):
            (self._folder / needed).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        (self._folder / "apt.conf").write_text(_configuration(), encoding="utf-8")

    def update(self, on_step: Callable[[str], None]) -> str:
        """Bring the package lists up to date; what apt refused, in its own words, "" if nothing.

        One suite that a mirror no longer (or not yet) has does not keep the others from being used.
        """
        sources, stamp = _sources(), self._folder / "sources" / "debian.sources"
        if stamp.exists() and stamp.read_text(encoding="utf-8") == sources:
            age = time.time() - stamp.stat().st_mtime
            if 0 <= age < FRESH_SECONDS:
                return ""
        stamp.write_text(sources, encoding="utf-8")
        on_step(f"updating Debian's package lists for {self._arch}")
        done = self._run("apt-get", "update", "--error-on=any")
        if done.returncode == 0:
            return ""
        os.utime(stamp, (0, 0))  # not up to date: try again the next time
        return _reason(done)

    def image_packages(self, flavour: str) -> list[Package]:
        """Every package of a flavour that may hold a kernel image."""
        done = self._run("apt-cache", "show", f"^linux-(image|binary)-[0-9].*-{re.escape(flavour)}$")
        stanzas = [_fields(text) for text in done.stdout.split("\n\n") if text.strip()]
        return [
            Package(fields["Package"], fields["Version"], release, int(fields["Size"]), flavour)
            for fields in stanzas
            if (release := release_of(fields["Package"], flavour))
        ]

    def source_packages(self) -> list[Package]:
        """Every package that holds a kernel's source, with Debian's patches."""
        done = self._run("apt-cache", "show", r"^linux-source-[0-9]+\.[0-9]+$")
        stanzas = [_fields(text) for text in done.stdout.split("\n\n") if text.strip()]
        return [Package(fields["Package"], fields["Version"], "", int(fields["Size"])) for fields in stanzas]

    def download(self, packages: Sequence[str], to: Path) -> list[Path]:
        """Download packages (`NAME`, the newest, or `NAME=VERSION`) into a folder that has none yet."""
        done = self._run("apt-get", "download", *packages, cwd=to)
        files = list(to.glob("*.deb"))
        if done.returncode or len(files) != len(packages):
            raise UserError(f"{' '.join(packages)} could not be downloaded: {_reason(done)}")
        return files

    def suite_of(self, package: Package) -> str:
        """The first suite that has it: `linux-… | 6.1.192-2 | URI bookworm-security/main amd64 Packages`."""
        for line in self._run("apt-cache", "madison", package.name).stdout.splitlines():
            _name, version, place = (part.strip() for part in line.split("|"))
            if version == package.version:
                return place.split()[1].removesuffix("/main")
        return "unknown suite"

    def _run(self, tool: str, *arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        folder = self._folder
        settings = {
            "APT::Architecture": self._arch,
            "Dir::Etc::sourceparts": folder / "sources",
            "Dir::State": folder / "state",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder / "cache",
        }
        options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
        environment = {**os.environ, "LC_ALL": "C", "APT_CONFIG": str(folder / "apt.conf")}
        return subprocess.run(
            [tool, "-q", *options, *arguments],
            cwd=cwd or folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )


def _configuration() -> str:
    """apt.conf, read before and instead of the machine's own, of which only the way to the network is taken.

    The sandbox user is root, which means: do not change user. As root, apt would become _apt, which cannot
    enter a user's cache folder; anyone else stays who they are.
    """
    network = _output_of(
        "apt-config", "dump", "--no-empty", "Acquire::http", "Acquire::https", "Acquire::Retries"
    )
    return f"""\
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::GzipIndexes "true";
Acquire::Languages "none";
APT::Sandbox::User "root";
{network}"""


def _sources() -> str:
    if not KEYRING.exists():
        raise UserError(f"Debian's keys are not in {KEYRING}: install the package debian-archive-keyring")
    main, security = mirrors()
    text = _stanza(main, MAIN_SUITES)
    return text + ("\n" + _stanza(security, SECURITY_SUITES) if security else "")


def _stanza(uri: str, suites: Iterable[str]) -> str:
    return f"Types: deb\nURIs: {uri}\nSuites: {' '.join(suites)}\nComponents: main\nSigned-By: {KEYRING}\n"


def mirrors() -> tuple[str, str]:
    """The URIs of Debian's main and security archives: the variable's, else those this machine uses.

    A machine whose lists were never updated does not know an index's origin: there the suite's name tells.
    """
    override = os.environ.get(MIRROR_VARIABLE, "").split()
    if override:
        return override[0], override[1] if len(override) > 1 else ""
    main = security = ""
    for line in _output_of(
        "apt-get", "indextargets", "--format", "$(ORIGIN)|$(RELEASE)|$(REPO_URI)"
    ).splitlines():
        origin, suite, uri = line.split("|", 2)
        if origin not in ("Debian", "$(ORIGIN)", "") or uri.startswith("cdrom:"):
            continue
        if origin != "Debian" and suite not in (*MAIN_SUITES, *SECURITY_SUITES):
            continue
        if suite.endswith("-security"):
            security = security or uri
        else:
            main = main or uri
    if not main:
        raise UserError(
            f"this machine's apt has no Debian archive: set {MIRROR_VARIABLE} to a mirror's URI "
            "(and, after a space, its security archive's)"
        )
    return main, security


def _output_of(tool: str, *arguments: str) -> str:
    """What the machine's own apt says."""
    if shutil.which(tool) is None:
        raise UserError(f"no {tool} on PATH: Debian's kernels need apt; or use `bigiron kernel add PATH`")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise UserError(f"{tool} failed: {_reason(done)}")
    return done.stdout


def _reason(done: "subprocess.CompletedProcess[str]") -> str:
    """Why, in apt's own words: its first E: line, else its last line."""
    lines = (done.stderr + done.stdout).strip().splitlines()
    for line in lines:
        if line.startswith("E:"):
            return line
    return lines[-1] if lines else f"exit status {done.returncode}"


def _fields(stanza: str) -> dict[str, str]:
    return dict(re.findall(r"^(\S+): (.*)$", stanza, re.MULTILINE))
