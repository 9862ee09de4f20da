"""Debian's kernels, through apt with a configuration of its own.

Nothing of the machine's own package state is read or changed. Every index is verified by apt with Debian's
keyring, and every package by the checksum in a verified index.

An archive that is being updated names files that it does not have yet, or not any more. So apt asks
for package lists by their hash first, tries again, and if all of that fails uses the last
lists that it could read.
"""

import functools
import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.util.cache_dir import cache_folder, locked, made_whole
from bigiron.util.english import first_n, plural

MAIN_SUITES = ("bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports")
SECURITY_SUITES = ("bullseye-security", "bookworm-security", "trixie-security")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_VARIABLE = "BIGIRON_DEBIAN_MIRROR"
FRESH_SECONDS = 3600  # package lists younger than this are used as they are
PAUSES_S = (2.0, 10.0)  # before an archive that is being updated is asked again
_OLDER = "get its package from snapshot.debian.org (bigiron kernel add FILE.deb)"
_BEING_UPDATED = "Mirror sync in progress"  # says apt of a list that is not the one its Release file names


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
    images = functools.partial(apt.image_packages, flavour)
    file, package, suite = _download(wanted, f"for {arch}", apt, images, to, on_step)
    apt.keep(file, package)  # its modules may be wanted when the archive no longer has it
    return file, package, suite


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
    package = _find(wanted, form, packages(), refused, on_step)
    try:
        file = _download_one(apt, package, to, on_step)
    except UserError as error:
        on_step(f"{error}; the archive may have changed")
        refused = apt.update(on_step, again=True)
        available = packages()
        package, before = _find(wanted, form, available, refused, on_step), package
        if package == before:
            older = choose(wanted, [one for one in available if one.version != package.version])
            if older is None:
                raise UserError(f"debian/{wanted}: {error}; {_advice(str(error))}") from None
            package = older
        file = _download_one(apt, package, to, on_step)
    return file, package, apt.suite_of(package)


def _find(
    wanted: str, form: str, available: list[Package], refused: str, on_step: Callable[[str], None]
) -> Package:
    """The package that holds what is wanted. `refused`: why not all package lists are up to date."""
    package = choose(wanted, available)
    if package is None and refused:
        raise UserError(
            f"debian/{wanted}: {refused}; check the network, or name another mirror in {MIRROR_VARIABLE}"
        )
    if package is None:
        raise UserError(
            f"Debian has no kernel {wanted} {form}: it has {', '.join(_series(available)) or 'none'} "
            f"(suites {', '.join(MAIN_SUITES)}), or name an exact version such as 6.1.192-2; for one that "
            f"Debian had before, {_OLDER}"
        )
    if refused:
        on_step(f"{refused}; there may be a newer kernel")
    return package


def _download_one(apt: "Apt", package: Package, to: Path, on_step: Callable[[str], None]) -> Path:
    on_step(f"downloading {package.name} {package.version} ({package.size / 1e6:.0f} MB)")
    (file,) = apt.download([f"{package.name}={package.version}"], to)
    return file


def _advice(error: str) -> str:
    """The advice if a listed package cannot be downloaded."""
    if "404" not in error:
        return f"check the network, or name another mirror in {MIRROR_VARIABLE}"
    return (
        "the package list names it, but the archive does not have it: try again later, "
        f"name another mirror in {MIRROR_VARIABLE}, or {_OLDER}"
    )


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


def is_exactly(wanted: str, version: str, release: str, arch: str) -> bool:
    """Whether a kernel's exact version, or its release, is wanted.

    >>> is_exactly("6.1.192-2", "6.1.192-2", "6.1.0-56-cloud-amd64", "x86_64")
    True
    >>> [is_exactly(one, "6.1.192-2", "6.1.0-56-cloud-amd64", "x86_64") for one in ("6.1", "6.1.192-2-amd64")]
    [False, False]
    """
    flavour = flavour_of(release, arch)
    return wanted == release or (
        flavour_of(wanted, arch) == flavour and wanted.removesuffix(f"-{flavour}") == version
    )


def exact_name(release: str, version: str, arch: str) -> str:
    """The name by which any machine fetches exactly one kernel of Debian's.

    >>> exact_name("6.1.0-56-cloud-amd64", "6.1.192-2", "x86_64")
    'debian/6.1.192-2'
    >>> exact_name("6.1.0-56-amd64", "6.1.192-2", "x86_64")
    'debian/6.1.192-2-amd64'
    """
    flavour = flavour_of(release, arch)
    return f"debian/{version}" + ("" if flavour == architecture(arch).flavours[0] else f"-{flavour}")


def _compare(one: Package, other: Package) -> int:
    """Debian's order of versions, from dpkg. A linux-binary package goes before an empty linux-image."""
    if one.version == other.version:
        return one.name.startswith("linux-binary-") - other.name.startswith("linux-binary-")
    newer = subprocess.run(["dpkg", "--compare-versions", one.version, "gt", other.version], check=False)
    return 1 if newer.returncode == 0 else -1


def _series(available: Iterable[Package]) -> list[str]:
    pairs = {tuple(int(part) for part in p.version.split(".")[:2]) for p in available}
    return [f"debian/{major}.{minor}" for major, minor in sorted(pairs)]


class Apt:
    """apt with its own sources, lists and cache, one folder per architecture."""

    def __init__(self, arch: str) -> None:
        self._arch = architecture(arch).debian
        self._folder = cache_folder("apt") / self._arch
        for needed in ("sources", "packages", "state/lists/partial", "cache/archives/partial"):
            (self._folder / needed).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        (self._folder / "apt.conf").write_text(_configuration(), encoding="utf-8")

    def update(self, on_step: Callable[[str], None], *, again: bool = False) -> str:
        """Bring the package lists up to date; why that failed and which are used instead, "" if it did not.

        One suite that a mirror no longer (or not yet) has does not keep the others from being used.
        `again`: even if they are young.
        """
        with locked(
            self._folder, lambda: on_step("waiting for another bigiron that is updating the package lists")
        ):
            stamp, sources = self._folder / "sources" / "debian.sources", _sources()
            if not again and _age_s(stamp) < FRESH_SECONDS and stamp.read_text(encoding="utf-8") == sources:
                return ""
            stamp.write_text(sources, encoding="utf-8")
            os.utime(stamp, (0, 0))  # not up to date, however this ends
            on_step(f"updating Debian's package lists for {self._arch}")
            done = self._try_to_update(on_step)
            unread = _suites_in(done.stderr) if done.returncode else []
            for suite in {*MAIN_SUITES, *SECURITY_SUITES}.difference(unread):
                self._read_at(suite).touch()
            if done.returncode == 0:
                stamp.touch()
                return ""
            return f"apt could not read all package lists: {_reason(done)}; {self._in_their_place(unread)}"

    def _try_to_update(self, on_step: Callable[[str], None]) -> "subprocess.CompletedProcess[str]":
        done = self._run("apt-get", "update", "--error-on=any")
        for pause in PAUSES_S:
            if done.returncode == 0 or _BEING_UPDATED not in done.stderr:
                break
            on_step(f"Debian's archive is being updated: trying again in {pause:g} s")
            time.sleep(pause)
            done = self._run("apt-get", "update", "--error-on=any")
        return done

    def _in_their_place(self, unread: Sequence[str]) -> str:
        """The lists used instead of those that could not be read."""
        here = [suite for suite in unread if self._read_at(suite).exists()]
        none = [suite for suite in unread if suite not in here]
        said = []
        if here:
            oldest = max(_age_s(self._read_at(suite)) for suite in here)
            said.append(f"using the lists of {first_n(here, 3)} from {_ago(oldest)}")
        if none:
            said.append(f"there is no list of {first_n(none, 3)} yet")
        return "; ".join(said)

    def _read_at(self, suite: str) -> Path:
        """A file made when a suite's list was last found to be up to date."""
        return self._folder / f"read-{suite}"

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
        """Download packages (`NAME`, the newest, or `NAME=VERSION`) into a folder that has none yet.

        A version that `keep` has is taken from there, whatever the archive has by now.
        """
        if all(self._kept(package).exists() for package in packages):
            return [Path(shutil.copy(self._kept(package), to)) for package in packages]
        done = self._run("apt-get", "download", *packages, cwd=to)
        files = list(to.glob("*.deb"))
        if done.returncode or len(files) != len(packages):
            raise UserError(f"{' '.join(packages)} could not be downloaded: {_reason(done)}")
        return files

    def keep(self, file: Path, package: Package) -> None:
        """Keep a package that was downloaded, whole or not at all."""
        kept = self._kept(f"{package.name}={package.version}")
        with made_whole(kept) as whole:
            shutil.copy(file, whole)

    def _kept(self, package: str) -> Path:
        return self._folder / "packages" / f"{package}.deb"

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
    return f"""\
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::By-Hash "force";
Acquire::Retries "3";
Acquire::GzipIndexes "true";
Acquire::Languages "none";
APT::Sandbox::User "root";
{network_settings()}"""


def network_settings() -> str:
    """How the machine's own apt gets to the network."""
    return _output_of(
        "apt-config", "dump", "--no-empty", "Acquire::http", "Acquire::https", "Acquire::Retries"
    )


def _sources() -> str:
    if not KEYRING.exists():
        raise UserError(f"Debian's keys are not in {KEYRING}: install the package debian-archive-keyring")
    main, security = mirrors()
    text = _stanza(main, MAIN_SUITES)
    return text + ("\n" + _stanza(security, SECURITY_SUITES) if security else "")


def _suites_in(complaints: str) -> list[str]:
    """The suites that apt complains about; all if it names none.

    >>> _suites_in("E: Failed to fetch http://x/debian/dists/trixie-backports/main/binary-amd64/Packages.xz")
    ['trixie-backports']
    >>> _suites_in("E: The repository 'http://x/security bookworm-security Release' has no Release file.")
    ['bookworm-security']
    """
    every = (*MAIN_SUITES, *SECURITY_SUITES)
    named = [suite for suite in every if re.search(rf"/dists/{suite}/| {suite} (In)?Release'", complaints)]
    return named or list(every)


def _age_s(file: Path) -> float:
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
    known = ("apt-get", "indextargets", "--format", "$(ORIGIN)|$(RELEASE)|$(REPO_URI)")
    # apt 3 leaves out what it has no list of, unless it is told not to look.
    for line in (_output_of(*known) or _output_of(*known, "--no-release-info")).splitlines():
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
