"""A mirror of an archive on loopback, whose files can be changed or taken away, and keys to sign them."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bigiron.kernels.archives import archive


class Mirror:
    """What is served, by path."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.files: dict[str, bytes] = {}
        self.later: dict[str, bytes] = {}  # what takes a file's place once it was asked for
        self.cut: set[str] = set()  # of these only the first half is sent
        self.asked_for: list[str] = []

    def remove(self, part: str) -> None:
        """What has `part` in its path is not there any more."""
        for path in [path for path in self.files if part in path]:
            del self.files[path]


class Keys:
    """GnuPG with a key of its own, called `archive`."""

    def __init__(self, folder: Path, kind: str = "ed25519") -> None:
        self.environment = {**os.environ, "GNUPGHOME": str(folder / "gnupg")}
        (folder / "gnupg").mkdir(mode=0o700, parents=True)
        self.gpg("--passphrase", "", "--quick-generate-key", "archive", kind, "sign")

    def gpg(self, *arguments: str, given: bytes = b"") -> bytes:
        """What gpg prints."""
        command = ["gpg", "--batch", "--quiet", *arguments]
        done = subprocess.run(command, input=given, env=self.environment, check=True, stdout=subprocess.PIPE)
        return done.stdout

    def close(self) -> None:
        """End the agent that has the key."""
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=self.environment, check=True)


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    """A mirror without any file. Nothing waits before it asks again."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/mirror/").replace("%7e", "~").replace("%2b", "+")
            mirror.asked_for.append(path)
            content = mirror.files.get(path)
            if path in mirror.later:
                mirror.files[path] = mirror.later.pop(path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if path in mirror.cut else content)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        mirror = Mirror(f"http://127.0.0.1:{server.server_port}/mirror")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(archive, "PAUSES_S", (0.0, 0.0))
        try:
            yield mirror
        finally:
            server.shutdown()
            thread.join()
