"""Kernels that are built while another one boots, as they may be needed next."""

import os
import select
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from bigiron.util.parent_death import bigiron_itself

_PATIENCE_S = 10.0  # with a build that is told to end
_LOOK_S = 0.05
_LEAST_URGENT = 19  # of all niceness: the machine that boots has the CPUs first


class SpeculativeBuilds:
    """Builds in the background, each a process of its own, which ends with this one.

    Those of one source wait for each other. What fails here fails again where it is needed, and says why.
    """

    def __init__(self) -> None:
        self._building: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str]) -> None:
        """Begin a build: `command` is what follows `bigiron`."""
        whole = bigiron_itself(*command, signal="TERM")
        quiet = subprocess.DEVNULL
        # In a session of its own: an interrupt from the keyboard is for this process, which then stops it.
        process = subprocess.Popen(whole, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        os.setpriority(os.PRIO_PROCESS, process.pid, _LEAST_URGENT)
        self._building[name] = process

    def finish(self, name: str) -> None:
        """Have that one built, if it was begun, and stop all others."""
        for other in [other for other in self._building if other != name]:
            _stop(self._building.pop(other))
        if process := self._building.pop(name, None):
            try:
                process.wait()
            finally:
                _stop(process)

    def stop(self) -> None:
        """Stop all."""
        self.finish("")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a build with all that it started: the next one works in the same folder."""
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
    """To all of its group."""
    with suppress(ProcessLookupError):  # they have ended
        os.killpg(process.pid, number)


def _lives(group: int) -> bool:
    """Whether one of its processes runs: what has ended stays listed where nobody waits for orphans."""
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            state, _parent, its_group = process.read_bytes().rpartition(b")")[2].split()[:3]
            if int(its_group) == group and state not in b"ZX":
                return True
    return False
