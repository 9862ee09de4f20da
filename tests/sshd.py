"""A real sshd on loopback for the tests: its own port, host key and configuration, keys of its own."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import wait_until

PROGRAM = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@dataclass(frozen=True)
class Server:
    """One that runs, and how its client is told of it."""

    folder: Path
    port: int
    pid: int

    @property
    def address(self) -> str:
        return f"ssh://{USER}@127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """For bigiron, so that nothing of the user's own is used."""
        return self.with_options()

    def with_options(self, *options: str, key: str = "user") -> dict[str, str]:
        return {"BIGIRON_SSH": " ".join(["ssh", "-F", str(self.folder / f"client-{key}"), *options])}

    @property
    def temporary(self) -> Path:
        """The folder for temporary files there."""
        return self.folder / "tmp"


USER = pwd.getpwuid(os.geteuid()).pw_name


@contextmanager
def served(folder: Path, **environment: str) -> Iterator[Server]:
    """A server that lets this user in with a key made for it, to such an environment."""
    if PROGRAM is None:
        pytest.skip("no sshd: apt-get install openssh-server")
    folder.mkdir(mode=0o700)
    (folder / "tmp").mkdir()
    for key in ("host", "user", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd's own, where it separates privileges
    (folder / "server").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        f"StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        f"PidFile none\nPermitRootLogin yes\nSetEnv TMPDIR={folder}/tmp"
        + "".join(f" {name}={value}" for name, value in environment.items())
        + "\n"
    )
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    for key in ("user", "stranger"):
        (folder / f"client-{key}").write_text(
            f"IdentityFile {folder}/{key}\nIdentitiesOnly yes\nIdentityAgent none\n"
            f"UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile none\n"
        )
    server = subprocess.Popen(
        [PROGRAM, "-D", "-e", "-f", folder / "server"], stderr=(folder / "log").open("w")
    )
    try:
        wait_until(lambda: "Server listening" in (folder / "log").read_text() or server.poll() is not None)
        assert server.poll() is None, (folder / "log").read_text()
        yield Server(folder, port, server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
