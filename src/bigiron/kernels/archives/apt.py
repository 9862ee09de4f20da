"""apt with a configuration of its own: for Debian's and Ubuntu's packages, and to download single files.

Nothing of the machine's own package state is read or changed. apt verifies every list with the distribution's
keyring, and every package by the checksum in a verified list. It asks for lists by their hash first.
"""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.kernels.archives.archive import (
    FRESH_SECONDS,
    KeptPackages,
    Package,
    age_s,
    until_settled,
    used_instead,
)
from bigiron.util import distribution
from bigiron.util.cache_dir import cache_folder, locked

_BEING_UPDATED = "Mirror sync in progress"  # says apt of a list that is not the one its Release file names
_HELPERS = ("/usr/lib/apt/apt-helper", "/usr/libexec/apt/apt-helper")
_LONGEST_UNKNOWN = 16 << 20  # bytes of a file whose size no list tells


class Apt:
    """apt with its own sources, lists and cache, in a folder of its own."""

    def __init__(
        self, arch: str, owner: str, folder: str, suites: Sequence[str], sources: Callable[[], str]
    ) -> None:
        """`owner`: whose packages these are. `sources`: makes the text of sources.list(5)."""
        self._arch = architecture(arch).debian
        self._owner, self._suites, self._sources = owner, suites, sources
        self._folder = cache_folder("apt") / folder
        for needed in ("sources", "state/lists/partial", "cache/archives/partial"):
            (self._folder / needed).mkdir(parents=True, exist_ok=True)
        self._kept = KeptPackages(self._folder / "packages", ".deb")
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
            stamp, sources = self._folder / "sources" / f"{self._owner.lower()}.sources", self._sources()
            if not again and age_s(stamp) < FRESH_SECONDS and stamp.read_text(encoding="utf-8") == sources:
                return ""
            stamp.write_text(sources, encoding="utf-8")
            os.utime(stamp, (0, 0))  # not up to date, however this ends
            on_step(f"updating {self._owner}'s package lists for {self._arch}")
            done = self._try_to_update(on_step)
            unread = _suites_in(done.stderr, self._suites) if done.returncode else []
            for suite in set(self._suites).difference(unread):
                self._read_at(suite).touch()
            if done.returncode == 0:
                stamp.touch()
                return ""
            ages = {one: age_s(file) if (file := self._read_at(one)).exists() else None for one in unread}
            return f"apt could not read all package lists: {_reason(done)}; {used_instead(ages)}"

    def _try_to_update(self, on_step: Callable[[str], None]) -> "subprocess.CompletedProcess[str]":
        return until_settled(
            lambda: self._run("apt-get", "update", "--error-on=any"), _is_being_updated, self._owner, on_step
        )

    def _read_at(self, suite: str) -> Path:
        """A file made when a suite's list was last found to be up to date."""
        return self._folder / f"read-{suite}"

    def stanzas(self, names: str) -> list[dict[str, str]]:
        """The fields of every listed package whose name matches a regular expression."""
        done = self._run("apt-cache", "show", names)
        return [_fields(text) for text in done.stdout.split("\n\n") if text.strip()]

    def download(self, packages: Sequence[str], to: Path) -> list[Path]:
        """Download packages (`NAME`, the newest, or `NAME=VERSION`) into a folder that has none yet.

        A version that `keep` has is taken from there, whatever the archive has by now.
        """
        left = [package for package in packages if not self._kept.copy(package, to)]
        if not left:
            return list(to.glob("*.deb"))
        done = self._run("apt-get", "download", *left, cwd=to)
        files = list(to.glob("*.deb"))
        if done.returncode or len(files) != len(packages):
            raise UserError(f"{' '.join(left)} could not be downloaded: {_reason(done)}")
        return files

    def keep(self, file: Path, package: Package) -> None:
        """Keep a package that was downloaded, whole or not at all."""
        self._kept.keep(file, package)

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
            "APT::Architectures": self._arch,  # else those that dpkg has on this machine, too
            "Dir::Etc::sourceparts": folder / "sources",
            "Dir::State": folder / "state",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder / "cache",
        }
        options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
        return _completed([tool, "-q", *options, *arguments], folder / "apt.conf", cwd or folder)


def download_file(
    uri: str, to: Path, owner: str, on_step: Callable[[str], None], *, sha256: str = "", size: int = 0
) -> None:
    """Download a file, of this checksum and size in bytes where they are known.

    It is not longer than 16 MiB where its size is unknown. UserError says why it could not be downloaded.
    """
    configuration = to.with_name("apt.conf")
    configuration.write_text(_configuration(), encoding="utf-8")
    expected = [f"SHA256:{sha256}", f"Checksum-FileSize:{size}"] if sha256 else []
    command = [
        "prlimit",
        f"--fsize={size or _LONGEST_UNKNOWN}",
        _helper(),
        "-q",
        "download-file",
        re.sub("^file:", "copy:", uri),  # of file: it makes a link
        str(to),
        *expected,
    ]
    done = until_settled(
        lambda: _completed(command, configuration, to.parent), _is_being_updated, owner, on_step
    )
    if done.returncode:
        raise UserError(_reason(done))


def _helper() -> str:
    """Apt's program that downloads as apt does: by its methods, again if need be, through its proxies."""
    for helper in _HELPERS:
        if os.access(helper, os.X_OK):
            return helper
    raise UserError(f"no {_HELPERS[0]}, which downloads packages: {distribution.install('apt')}")


def _completed(command: Sequence[str], configuration: Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C", "APT_CONFIG": str(configuration)},
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
Dir::Cache::srcpkgcache "";
Acquire::By-Hash "force";
Acquire::Retries "3";
Acquire::GzipIndexes "true";
Acquire::Languages "none";
APT::Sandbox::User "root";
{network_settings()}"""


def network_settings() -> str:
    """How the machine's own apt gets to the network."""
    return output_of(
        "apt-config", "dump", "--no-empty", "Acquire::http", "Acquire::https", "Acquire::Retries"
    )


def output_of(tool: str, *arguments: str) -> str:
    """What the machine's own apt says."""
    if shutil.which(tool) is None:
        raise UserError(
            f"no {tool} on PATH: distributions' kernels need apt; or use `bigiron kernel add PATH`"
        )
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise UserError(f"{tool} failed: {_reason(done)}")
    return done.stdout


def source(uri: str, suites: Iterable[str], keyring: Path) -> str:
    """A stanza of sources.list(5)."""
    return f"Types: deb\nURIs: {uri}\nSuites: {' '.join(suites)}\nComponents: main\nSigned-By: {keyring}\n"


def check_keyring(owner: str, keyring: Path, package: str) -> None:
    """Raise UserError if a distribution's keys are not on this machine."""
    if not keyring.exists():
        raise UserError(f"{owner}'s keys are not in {keyring}: {distribution.install(package)}")


def newest(packages: Sequence[Package]) -> Package | None:
    """The newest package, in Debian's order of versions.

    A distribution's own kernel is preferred to one backported to an older release: it is what its users run.
    """
    own = [p for p in packages if not p.is_backport]
    return max(own or packages, key=functools.cmp_to_key(_compare), default=None)


def _compare(one: Package, other: Package) -> int:
    """By dpkg. A linux-binary package goes before an empty linux-image."""
    if one.version == other.version:
        return one.name.startswith("linux-binary-") - other.name.startswith("linux-binary-")
    newer = subprocess.run(["dpkg", "--compare-versions", one.version, "gt", other.version], check=False)
    return 1 if newer.returncode == 0 else -1


def _is_being_updated(done: "subprocess.CompletedProcess[str]") -> bool:
    return done.returncode != 0 and _BEING_UPDATED in done.stderr


def _suites_in(complaints: str, every: Sequence[str]) -> list[str]:
    """The suites that apt complains about; all if it names none.

    >>> suites = ["trixie-backports", "bookworm-security"]
    >>> _suites_in("E: Failed to fetch http://x/dists/trixie-backports/main/binary-amd64/Packages.xz", suites)
    ['trixie-backports']
    >>> _suites_in("E: The repository 'http://x bookworm-security Release' has no Release file.", suites)
    ['bookworm-security']
    """
    named = [suite for suite in every if re.search(rf"/dists/{suite}/| {suite} (In)?Release'", complaints)]
    return named or list(every)


def _reason(done: "subprocess.CompletedProcess[str]") -> str:
    """Why, in apt's own words: its first E: line, else its last line."""
    lines = (done.stderr + done.stdout).strip().splitlines()
    for line in lines:
        if line.startswith("E:"):
            return line
    return lines[-1] if lines else f"exit status {done.returncode}"


def _fields(stanza: str) -> dict[str, str]:
    return dict(re.findall(r"^(\S+): (.*)$", stanza, re.MULTILINE))
