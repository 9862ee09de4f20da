"""Builds kernels that may be needed next, while another one boots."""

import os
import select
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from bigiron.util.parent_death import bigiron_itself

_PATIENCE_S = 10.0  # after SIGTERM, before SIGKILL
_LOOK_S = 0.05
_NICENESS = 19  # so that the machine that boots has priority


class SpeculativeBuilds:
    """Builds in the background. Each is a process, which ends when this one ends.

    Builds of the same source wait for each other. A failure here is ignored: the build is repeated when it is
    needed, and then reports its error.
    """

    def __init__(self) -> None:
        self._building: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a build; `command` is the arguments of `bigiron`."""
        whole = bigiron_itself(*command, signal="TERM")
        quiet = subprocess.DEVNULL
        # In its own session, so that Ctrl-C only reaches this process, which then stops the build.
        process = subprocess.Popen(whole, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        self._building[name] = process

    def finish(self, name: str) -> None:
        """Wait for this build, if it was started, and stop all others."""
        for other in [other for other in self._building if other != name]:
            _stop(self._building.pop(other))
        if process := self._building.pop(name, None):
            try:
                _hurry(process.pid)
                process.wait()
            finally:
                _stop(process)

    def stop(self) -> None:
        """Stop all builds."""
        self.finish("")


def _hurry(build: int) -> None:
    """Give a build that is waited for, and all that it started, this process's priority, if allowed.

    On a busy machine it would hardly get on.
    """
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            parent = int(process.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(process.parent.name))
    found = [build]
    for one in found:
        found += children.get(one, [])
        with suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, one, os.getpriority(os.PRIO_PROCESS, 0))


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Stop a build and all processes that it started, because the next build uses the same folder."""
    deadline = monotonic() + _PATIENCE_S
    _signal(process, signal.SIGTERM)
    if process.poll() is None:
        ended = os.pidfd_open(process.pid)
        select.select([ended], [], [], _PATIENCE_S)
        os.close(ended)
    while lives := _lives(process.pid):
        if monotonic() > deadline:
            break
        sleep(_LOOK_S)
    if lives:
        _signal(process, signal.SIGKILL)
    process.wait()
    while lives and _lives(process.pid):
        sleep(_LOOK_S)


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Send a signal to the process group."""
    with suppress(ProcessLookupError):  # they have ended
        os.killpg(process.pid, number)


def _lives(group: int) -> bool:
    """Whether a process of the group runs. Zombies do not count: their parent may never wait for them."""
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            state, _parent, its_group = process.read_bytes().rpartition(b")")[2].split()[:3]
            if int(its_group) == group and state not in b"ZX":
                return True
    return False
