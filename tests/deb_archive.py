"""An archive of packages as Debian's or Ubuntu's is, signed with a key of its own and served on loopback.

What it serves can be taken away or changed, as happens to a mirror that is being updated.
"""

import hashlib
import lzma
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mirror import Keys, Mirror, serving

from bigiron.kernels.archives import debian, ubuntu

DEBIAN = (*debian.MAIN_SUITES, *debian.SECURITY_SUITES)
UBUNTU = ubuntu.RELEASES[0].suites


class Archive:
    """Every suite of a distribution, with nothing in it until `publish` puts packages there."""

    def __init__(self, folder: Path, mirror: Mirror, arch: str, suites: Sequence[str]) -> None:
        self.mirror, self.uri, self.files = mirror, mirror.uri, mirror.files
        self.later, self.asked_for, self.remove = mirror.later, mirror.asked_for, mirror.remove
        self.arch = arch
        self.keyring = folder / "keyring.gpg"
        self.keys = Keys(folder)
        self.keyring.write_bytes(self.keys.gpg("--export"))
        self._folder = folder
        for suite in suites:
            self.publish(suite, [])

    def package(self, name: str, version: str, files: dict[str, bytes]) -> Path:
        """Make a package; it is not in the archive yet."""
        tree = self._folder / f"{name}_{version}_{self.arch}"
        for path, content in files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_bytes(content)
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: {self.arch}\n"
            "Maintainer: M <m@example.org>\nDescription: d\n"
        )
        deb = self._folder / f"{tree.name}.deb"
        subprocess.run(["dpkg-deb", "-Znone", "-b", tree, deb], check=True, capture_output=True)
        return deb

    def publish(self, suite: str, packages: Sequence[Path], at: datetime | None = None) -> None:
        """Make these the packages of a suite: the files themselves, their list and its signature."""
        stanzas = []
        for deb in packages:
            content, path = deb.read_bytes(), f"pool/{deb.name}"
            self.files[path] = content
            control = subprocess.run(["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True)
            stanzas.append(
                f"{control.stdout}Filename: {path}\nSize: {len(content)}\nSHA256: {_sha256(content)}\n\n"
            )
        plain = "".join(stanzas).encode()
        packed = lzma.compress(plain)
        folder = f"main/binary-{self.arch}"
        self.files[self.list_of(suite)] = packed
        self.files[f"dists/{suite}/{folder}/by-hash/SHA256/{_sha256(packed)}"] = packed
        lists = {f"{folder}/Packages": plain, f"{folder}/Packages.xz": packed}
        release = (
            f"Origin: Debian\nLabel: Debian\nSuite: {suite}\nCodename: {suite}\n"
            f"Date: {at or datetime.now(UTC):%a, %d %b %Y %H:%M:%S UTC}\n"
            f"Architectures: {self.arch}\nComponents: main\nSHA256:\n"
            + "".join(f" {_sha256(content)} {len(content)} {path}\n" for path, content in lists.items())
        )
        self.files[f"dists/{suite}/InRelease"] = self.keys.gpg("--clearsign", given=release.encode())

    def list_of(self, suite: str) -> str:
        """The path under which a suite's list of packages always is, whatever is in it."""
        return f"dists/{suite}/main/binary-{self.arch}/Packages.xz"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def served(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arch: str = "amd64", suites: Sequence[str] = DEBIAN
) -> Iterator[Archive]:
    """An archive in place of Debian's or, by its suites, Ubuntu's."""
    with serving(monkeypatch) as mirror:
        archive = Archive(folder, mirror, arch, suites)
        of = debian if suites == DEBIAN else ubuntu
        uris = [archive.uri, archive.uri] if of is debian else [archive.uri]
        monkeypatch.setenv(of.MIRROR_VARIABLE, " ".join(uris))
        monkeypatch.setattr(of, "KEYRING", archive.keyring)
        try:
            yield archive
        finally:
            archive.keys.close()
