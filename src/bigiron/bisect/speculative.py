"""Speculative builds: kernels that may be needed next are built while another one boots."""

import os
import select
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from bigiron.util.parent_death import bigiron_itself

_PATIENCE_S = 10.0  # with a build that was asked to end
_LOOK_S = 0.05
_LEAST_URGENT = 19  # niceness: the booting machine has priority


class SpeculativeBuilds:
    """Builds in the background, each in a process that ends with this one.

    Builds of the same source wait for each other. A build that fails here fails again, with its reason, when
    it is needed.
    """

    def __init__(self) -> None:
        self._building: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a build: `command` are the arguments of `bigiron`."""
        whole = bigiron_itself(*command, signal="TERM")
        quiet = subprocess.DEVNULL
        # In its own session: Ctrl-C reaches only this process, which then stops the build.
        process = subprocess.Popen(whole, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        os.setpriority(os.PRIO_PROCESS, process.pid, _LEAST_URGENT)
        self._building[name] = process

    def finish(self, name: str) -> None:
        """Wait for that build, if it was started, and stop all others."""
        for other in [other for other in self._building if other != name]:
            _stop(self._building.pop(other))
        if process := self._building.pop(name, None):
            try:
                process.wait()
            finally:
                _stop(process)

    def stop(self) -> None:
        """Stop all builds."""
        self.finish("")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a build with all its processes: the next one works in the same folder."""
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
    """Send a signal to the build's process group."""
    with suppress(ProcessLookupError):  # they have ended
        os.killpg(process.pid, number)


def _lives(group: int) -> bool:
    """Whether a process of the group runs. Zombies do not count: in a container they may stay for ever."""
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            state, _parent, its_group = process.read_bytes().rpartition(b")")[2].split()[:3]
            if int(its_group) == group and state not in b"ZX":
                return True
    return False
