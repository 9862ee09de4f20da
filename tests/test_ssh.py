"""Another machine by ssh: a real sshd on loopback, its connections broken, and nothing left behind there."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BIGIRON, bigiron, measured, wait_until
from sshd import Server, served

import bigiron as library

pytestmark = pytest.mark.usefixtures("settings_are_ours")
SETTING = Path("/proc/sys/vm/stat_interval")
CPUS = len(os.sched_getaffinity(0))
ASKED = ("getppid1", "--tasks", "1", "--probe", "throughput")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="settings are root's to change")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("ssh") / "server") as server:
        yield server


def now() -> str:
    return SETTING.read_text().strip()


def test_a_cell_measured_there(server: Server, tmp_path: Path) -> None:
    asked = ("--machine", server.address, "--probe", "throughput,efficiency")
    measured("getppid1", "--tasks", "1", *asked, "-o", tmp_path / "s", **server.environment)
    study = library.open_study(tmp_path / "s")
    (record,) = study.records()
    assert (record.machine, record.cpus, record.tasks) == ("ssh", CPUS, 1)
    environment = record.environment
    assert (environment["address"], environment["arch"]) == (server.address, os.uname().machine)
    assert (environment["kernel_release"], environment["kernel_version"]) == (
        os.uname().release,
        os.uname().version,
    )
    assert environment["boot"] == Path("/proc/cmdline").read_text().strip()
    assert environment["cpu"] and environment["memory_mib"] > 0
    assert study.tables("throughput")["operations"].min() > 0
    again = bigiron("run", tmp_path / "s", **server.environment)
    assert again.status == 0 and "every cell" in again.out
    assert left_in(server) == []


@needs_root
def test_whatever_is_killed(server: Server, tmp_path: Path) -> None:
    """The connection's two ends, the agent and bigiron, one after the other, in cells of one study."""
    before, study = now(), tmp_path / "s"
    asked = ("--machine", server.address, "--set", f"{SETTING}=9", "--reps", "5")
    command = [BIGIRON, "run", *ASKED, *asked, "-o", study]
    with subprocess.Popen(
        command,
        env=os.environ | server.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        for victim in ("ssh", "connection", "agent", "bigiron"):
            pid, folder = wait_until(lambda: in_a_cell(victim, run, server))  # noqa: B023
            os.kill(pid, signal.SIGKILL)
            # The next cell may begin before anybody sees that the setting was put back.
            wait_until(lambda: left_in(server) != folder)  # noqa: B023
        _, said = run.communicate()
    wait_until(lambda: (now(), left_in(server)) == (before, []))
    reasons = [record.failure.reason for record in library.open_study(study).records() if record.failure]
    broke = f"the connection to {server.address} broke while STAGE"
    assert [re.sub("while (starting tasks|in [a-z-]+)", "while STAGE", reason) for reason in reasons] == [
        f"{broke} (ssh ended by signal 9)",
        f"{broke}: Connection to 127.0.0.1 closed by remote host.",
        "the agent ended by signal 9 while STAGE: Killed",
    ], said
    assert len(library.open_study(study).records()) == 3
    again = measured(study, **server.environment)
    assert again.out.startswith("5 of 5 cells measured")
    assert [record.repetition for record in library.open_study(study).records()] == [1, 2, 3, 4, 5]
    assert (now(), left_in(server)) == (before, [])


def test_a_connection_that_falls_silent(server: Server, tmp_path: Path) -> None:
    """Its cell fails, and the machine clears away by itself."""
    impatient = server.with_options("-oServerAliveInterval=3", "-oServerAliveCountMax=3")
    command = [BIGIRON, "run", *ASKED, "--machine", server.address, "-o", tmp_path / "s"]
    with subprocess.Popen(command, env=os.environ | impatient, stderr=subprocess.PIPE, text=True) as run:
        wait_until(lambda: left_in(server))
        connection = wait_until(lambda: connection_of(server))
        os.kill(connection, signal.SIGSTOP)
        try:
            _, said = run.communicate()
        finally:
            os.kill(connection, signal.SIGCONT)
    assert run.returncode == 3
    assert re.search("the connection to .* broke while .*: Timeout, server 127.0.0.1 not responding", said)
    wait_until(lambda: left_in(server) == [])


def in_a_cell(victim: str, run: subprocess.Popen[str], server: Server) -> tuple[int, list[str]] | tuple[()]:
    """The process that is to be killed, and what lies there, while a cell is measured."""
    # What the cell before has set may still be so, and its agent gone, or its folder.
    folder = left_in(server)
    pid = pid_of(victim, run, server) if folder and now() == "9" else 0
    return (pid, folder) if pid and left_in(server) == folder else ()


def pid_of(victim: str, run: subprocess.Popen[str], server: Server) -> int:
    """The process that is to be killed while a cell is measured; 0 if it is not there yet."""
    if victim == "bigiron":
        return run.pid
    if victim == "connection":
        return connection_of(server)
    # The agent comes before its tasks, which have its name.
    above, program = (run.pid, b"ssh") if victim == "ssh" else (connection_of(server), b"./agent")
    return next((pid for pid in descendants(above) if program_of(pid) == program), 0)


def children(pid: int) -> list[int]:
    """The oldest first; none of a process that has ended."""
    try:
        lists = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for each in lists for child in each]


def connection_of(server: Server) -> int:
    """The process that speaks with the client, 0 between two cells.

    From OpenSSH 9.8 on it is a child of what the server starts.
    """
    # The one before may not be gone yet.
    pid = next(reversed(children(server.pid)), 0)
    while below := [child for child in children(pid) if b"sshd" in program_of(child)]:
        (pid,) = below
    return pid


def descendants(pid: int) -> list[int]:
    return [one for child in children(pid) for one in (child, *descendants(child))]


def program_of(pid: int) -> bytes:
    """By what name it was started; nothing once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return b""


def left_in(server: Server) -> list[str]:
    return sorted(path.name for path in server.temporary.iterdir())


def refused(address: str, environment: dict[str, str], study: Path, *options: str) -> str:
    answer = bigiron("run", *ASKED, "--machine", address, *options, "-o", study, **environment)
    assert (answer.status, answer.out) == (2, ""), answer
    assert not study.exists()
    return answer.complaint


def test_connections_that_are_refused(server: Server, tmp_path: Path) -> None:
    study, address = tmp_path / "s", server.address
    unknown = refused(address, server.with_options("-oUserKnownHostsFile=none"), study)
    assert unknown == f"{address}: Host key verification failed. Connect once by hand, and check the host key"
    (tmp_path / "known").write_text(
        f"[127.0.0.1]:{server.port} {(server.folder / 'stranger.pub').read_text()}"
    )
    another = refused(address, server.with_options(f"-oUserKnownHostsFile={tmp_path}/known"), study)
    assert "Host key verification failed" in another
    stranger = refused(address, server.with_options(key="stranger"), study)
    assert stranger.startswith(f"{address}: ") and "Permission denied (publickey)" in stranger
    unreachable = refused("ssh://127.0.0.1:1", server.environment, study)
    assert unreachable == "ssh://127.0.0.1:1: ssh: connect to host 127.0.0.1 port 1: Connection refused"
    nowhere = refused("ssh://nowhere.invalid", server.environment, study)
    assert nowhere.startswith("ssh://nowhere.invalid: ssh: Could not resolve hostname nowhere.invalid")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--machine ssh://", "machine 'ssh://': use ssh://USER@HOST or ssh://USER@HOST:PORT"),
        ("--machine ssh://-oProxyCommand=reboot", "use ssh://USER@HOST"),
        ("--machine ssh://a@b/c", "use ssh://USER@HOST"),
        ("--machine ssh://a;reboot@b", "use ssh://USER@HOST"),
        ("--machine telnet://a", "--machine 'telnet://a': use vm, host or ssh://USER@HOST"),
        ("--machine ssh://a --kernel debian/6.1", "the kernel of a real machine cannot be chosen"),
    ],
)
def test_what_is_no_machine(arguments: str, complaint: str, tmp_path: Path) -> None:
    answer = bigiron("run", *ASKED, *arguments.split(), "-o", tmp_path / "s")
    assert answer.status == 2 and complaint in answer.complaint, answer


def test_no_ssh(tmp_path: Path) -> None:
    assert refused("ssh://a", {"BIGIRON_SSH": "no-ssh -4"}, tmp_path / "s").startswith("no no-ssh on PATH")


def test_another_architecture(tmp_path: Path) -> None:
    """What its uname says, which is not what it is."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/uname").write_text("#!/bin/sh\necho riscv64\n")
    (tmp_path / "bin/uname").chmod(0o755)
    with served(tmp_path / "server", PATH=f"{tmp_path}/bin:{os.environ['PATH']}") as server:
        complaint = refused(server.address, server.environment, tmp_path / "s")
    assert complaint == "machines of riscv64 are not supported yet: use one of x86_64, aarch64, ppc64le"
