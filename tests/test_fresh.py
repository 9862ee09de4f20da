"""tools/fresh.sh, which makes a Debian of packages: nothing of it is left, however it ends."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import wait_until
from test_setup import ROOT

FRESH = ROOT / "tools/fresh.sh"
CANNOT = 77


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """One that is unpacking packages."""
    with subprocess.Popen(
        [FRESH, "setup"],
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as fresh:
        unpacked = tmp_path / "bigiron/fresh/bookworm/root/var/lib/dpkg/status"
        wait_until(lambda: unpacked.exists() or fresh.poll() is not None)
        if fresh.poll() == CANNOT:
            pytest.skip(fresh.communicate()[0].strip())
        assert fresh.poll() is None, fresh.communicate()[0]
        yield fresh


def left_of(folder: Path) -> list[str]:
    """Mounts below a folder, and processes that work there or name it."""
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            inside = str(folder) in str((process / "root").readlink())
        except OSError:
            continue  # it has just ended
        if (inside or os.fsencode(folder) in command) and int(process.name) != os.getpid():
            processes.append(command.decode(errors="replace"))
    return mounts + processes


@pytest.mark.needs_more
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left(begun: subprocess.Popen[str], how: signal.Signals, tmp_path: Path) -> None:
    apt_conf = (tmp_path / "bigiron/fresh/bookworm/apt.conf").read_text()
    assert 'Acquire::By-Hash "force";' in apt_conf and "Acquire::Retries" in apt_conf
    if how == signal.SIGINT:
        os.killpg(begun.pid, how)  # as the terminal's Ctrl-C
    else:
        begun.kill()
    begun.wait()
    wait_until(lambda: not left_of(tmp_path))
    if how == signal.SIGINT:  # who is killed cannot remove its files; the next one does
        assert begun.returncode == 130
        assert not (tmp_path / "bigiron/fresh/bookworm/root").exists()


def test_what_it_cannot_do_is_one_line() -> None:
    done = subprocess.run([FRESH, "some"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: fresh.sh all|setup [RELEASE]\n")
    if os.geteuid():
        done = subprocess.run([FRESH, "setup"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (CANNOT, 1)
