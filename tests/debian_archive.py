"""An archive of packages as Debian's is, signed with a key of its own and served on loopback.

What it serves can be taken away or changed, as happens to a mirror that is being updated.
"""

import hashlib
import lzma
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bigiron.kernels import debian


class Archive:
    """Every suite of Debian's, with nothing in it until `publish` puts packages there."""

    def __init__(self, folder: Path, uri: str, arch: str) -> None:
        self.uri = uri
        self.arch = arch
        self.keyring = folder / "keyring.gpg"
        self.files: dict[str, bytes] = {}  # by path
        self.later: dict[str, bytes] = {}  # what takes a file's place once it was asked for
        self.asked_for: list[str] = []
        self._folder = folder
        self._environment = {**os.environ, "GNUPGHOME": str(folder / "gnupg")}
        (folder / "gnupg").mkdir(mode=0o700)
        self._gpg("--passphrase", "", "--quick-generate-key", "archive", "ed25519", "sign")
        self.keyring.write_bytes(self._gpg("--export"))
        for suite in (*debian.MAIN_SUITES, *debian.SECURITY_SUITES):
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

    def publish(self, suite: str, packages: Sequence[Path]) -> None:
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
            f"Date: {datetime.now(UTC):%a, %d %b %Y %H:%M:%S UTC}\n"
            f"Architectures: {self.arch}\nComponents: main\nSHA256:\n"
            + "".join(f" {_sha256(content)} {len(content)} {path}\n" for path, content in lists.items())
        )
        self.files[f"dists/{suite}/InRelease"] = self._gpg("--clearsign", given=release.encode())

    def list_of(self, suite: str) -> str:
        """The path under which a suite's list of packages always is, whatever is in it."""
        return f"dists/{suite}/main/binary-{self.arch}/Packages.xz"

    def remove(self, part: str) -> None:
        """What has `part` in its path is not there any more."""
        for path in [path for path in self.files if part in path]:
            del self.files[path]

    def close(self) -> None:
        """End the agent that has the key."""
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=self._environment, check=True)

    def _gpg(self, *arguments: str, given: bytes = b"") -> bytes:
        command = ["gpg", "--batch", "--quiet", *arguments]
        done = subprocess.run(command, input=given, env=self._environment, check=True, stdout=subprocess.PIPE)
        return done.stdout


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def served(folder: Path, monkeypatch: pytest.MonkeyPatch, arch: str = "amd64") -> Iterator[Archive]:
    """An archive in place of Debian's. Nothing waits before it asks again."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/debian/")
            archive.asked_for.append(path)
            content = archive.files.get(path)
            if path in archive.later:
                archive.files[path] = archive.later.pop(path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        archive = Archive(folder, f"http://127.0.0.1:{server.server_port}/debian", arch)
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        monkeypatch.setenv(debian.MIRROR_VARIABLE, f"{archive.uri} {archive.uri}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(debian, "KEYRING", archive.keyring)
        monkeypatch.setattr(debian, "PAUSES_S", (0.0, 0.0))
        try:
            yield archive
        finally:
            server.shutdown()
            serving.join()
            archive.close()
