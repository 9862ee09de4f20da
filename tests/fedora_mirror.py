"""A mirror of Fedora's, without its key: packages by rpmbuild, signed by rpmsign, and their lists."""

import gzip
import hashlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from mirror import Keys, Mirror, serving

from bigiron.kernels.archives import fedora

_SPEC = """\
Name: {name}
Version: {version}
Release: {release}
Summary: a kernel
License: GPL
%description
A kernel.
%install
cp -r {content}/. %{{buildroot}}
%files
/lib
"""
_REPOMD = """\
<?xml version="1.0" encoding="UTF-8"?>
<repomd xmlns="http://linux.duke.edu/metadata/repo" xmlns:rpm="http://linux.duke.edu/metadata/rpm">
  <revision>{revision}</revision>
  <data type="filelists"><checksum type="sha256">{sha256}</checksum><location href="repodata/f"/></data>
  <data type="primary">
    <checksum type="sha256">{sha256}</checksum>
    <open-checksum type="sha256">{sha256}</open-checksum>
    <location href="{place}"/>
    <timestamp>1761000000</timestamp>
    <size>{size}</size>
  </data>
</repomd>
"""
_PACKAGE = """\
<package type="rpm">
  <name>{name}</name>
  <arch>{arch}</arch>
  <version epoch="0" ver="{version}" rel="{release}"/>
  <checksum type="sha256" pkgid="YES">{sha256}</checksum>
  <summary>a kernel</summary>
  <size package="{size}" installed="1" archive="1"/>
  <location href="{place}"/>
  <format><rpm:license>GPL</rpm:license></format>
</package>
"""


@dataclass(frozen=True)
class Entry:
    """What a list says of a package."""

    name: str
    version: str
    release: str
    arch: str
    file: Path


class Fedora:
    """Fedora 43 for x86_64, with nothing in it until `publish` puts packages there."""

    def __init__(self, folder: Path, mirror: Mirror, keys: Keys) -> None:
        self.mirror, self.files, self.remove = mirror, mirror.files, mirror.remove
        self.keys = keys
        (folder / "keys").mkdir()
        self.key = folder / "keys/RPM-GPG-KEY-fedora-43-primary"
        self.key.write_bytes(self.keys.gpg("--armor", "--export"))
        self._folder = folder
        for repository in ("updates", "releases"):
            self.publish(repository, [])

    def package(
        self,
        name: str,
        version: str,
        files: Mapping[str, bytes],
        *,
        keys: Keys | None = None,
        signed: bool = True,
    ) -> Entry:
        """Make a package of version VERSION-RELEASE, and sign it, by default with this mirror's key.

        It is not in the mirror yet.
        """
        number, release = version.split("-")
        top = self._folder / f"{name}-{version}"
        for path, content in files.items():
            (top / "content" / path).parent.mkdir(parents=True, exist_ok=True)
            (top / "content" / path).write_bytes(content)
        spec = _SPEC.format(name=name, version=number, release=release, content=top / "content")
        (top / "spec").write_text(spec)
        macros = {"_topdir": top, "_rpmdir": top, "__os_install_post": "%{nil}"}
        defines = [f"--define={macro} {value}" for macro, value in macros.items()]
        build = ["rpmbuild", "-bb", "--quiet", "--target=x86_64", *defines, top / "spec"]
        environment = {**self.keys.environment, "HOME": str(top)}
        subprocess.run(build, env=environment, check=True, capture_output=True)
        entry = Entry(name, number, release, "x86_64", top / f"x86_64/{name}-{version}.x86_64.rpm")
        if signed:
            self._sign(entry.file, keys or self.keys)
        return entry

    def _sign(self, file: Path, keys: Keys) -> None:
        defines = [f"--define=__gpg {shutil.which('gpg')}", "--define=_gpg_name archive"]
        sign = ["rpmsign", *defines, "--addsign", file]
        environment = {**keys.environment, "HOME": str(self._folder)}
        subprocess.run(sign, env=environment, check=True, capture_output=True)

    def publish(
        self, repository: str, packages: Sequence[Entry], revision: int = 1, place: str = "Packages/k/{}"
    ) -> None:
        """Make these the packages of a repository: the files themselves, and their list."""
        elements = []
        for entry in packages:
            content, where = entry.file.read_bytes(), place.format(entry.file.name)
            self.files[f"{self.root(repository)}/{where}"] = content
            elements.append(
                _PACKAGE.format(
                    name=entry.name,
                    version=entry.version,
                    release=entry.release,
                    arch=entry.arch,
                    sha256=sha256(content),
                    size=len(content),
                    place=where,
                )
            )
        self.publish_list(repository, "".join(elements), revision)

    def publish_list(self, repository: str, elements: str, revision: int) -> None:
        """Make this the list of a repository."""
        primary = gzip.compress(
            b'<?xml version="1.0"?>\n<metadata xmlns="http://linux.duke.edu/metadata/common" '
            b'xmlns:rpm="http://linux.duke.edu/metadata/rpm">\n' + elements.encode() + b"</metadata>\n"
        )
        where = f"repodata/{sha256(primary)}-primary.xml.gz"
        self.files[f"{self.root(repository)}/{where}"] = primary
        repomd = _REPOMD.format(revision=revision, sha256=sha256(primary), place=where, size=len(primary))
        self.files[f"{self.root(repository)}/repodata/repomd.xml"] = repomd.encode()

    @staticmethod
    def root(repository: str) -> str:
        """Where a repository is in the mirror."""
        return f"{repository}/43/Everything/x86_64" + ("/os" if repository == "releases" else "")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def served(folder: Path, monkeypatch: pytest.MonkeyPatch, keys: Keys) -> Iterator[Fedora]:
    """A mirror in place of Fedora's, and a key in place of its own."""
    with serving(monkeypatch) as mirror:
        made = Fedora(folder, mirror, keys)
        monkeypatch.setenv(fedora.MIRROR_VARIABLE, mirror.uri)
        monkeypatch.setattr(fedora, "KEYS", (made.key.parent,))
        yield made
