"""QEMU's monitor: stops a machine, saves its state and resumes it.

Protocol: QEMU's docs/interop/qmp-spec.rst.
"""

import json
import os
import socket
import threading
import time
from typing import Any

from bigiron.errors import MachineError
from bigiron.util.threads import StoppedError

_LOOK_S = 0.25  # how soon a stop is noticed
_SOON_S = 0.002  # a state loads in about 20 ms
_LONGEST_ANSWER = 1 << 20


class MonitorEndedError(Exception):
    """QEMU has ended."""


class RefusedError(Exception):
    """QEMU refused a command, such as loading a machine's state, and said why."""


class Monitor:
    """A connection to one QEMU's monitor."""

    def __init__(self, connection: socket.socket, deadline: float, stop: threading.Event) -> None:
        """`deadline` is a time of the monotonic clock."""
        self._connection = connection
        self._connection.settimeout(_LOOK_S)
        self._pending = b""
        self._deadline = deadline
        self._stop = stop
        self._answer()  # its greeting
        self._execute("qmp_capabilities")
        # The memory is saved separately: it is shared with this process.
        capability = {"capability": "x-ignore-shared", "state": True}
        self._execute("migrate-set-capabilities", capabilities=[capability])

    def stop(self) -> None:
        """Stop the machine."""
        self._execute("stop")

    def cont(self) -> None:
        """Let the machine run."""
        self._execute("cont")

    def ping(self) -> None:
        """Wait for an answer of QEMU."""
        self._execute("query-status")

    def save(self, fd: int) -> None:
        """Write the state of a stopped machine's devices and CPUs into a file that QEMU has open, too."""
        self._migrate("migrate", fd)

    def load(self, fd: int) -> None:
        """Load the state that another machine saved."""
        self._migrate("migrate-incoming", fd)

    def _migrate(self, command: str, fd: int) -> None:
        # Without this, QEMU would exit when it cannot read the state.
        stays = {"exit-on-error": False} if command == "migrate-incoming" else {}
        file = {"transport": "file", "filename": f"/proc/self/fd/{fd}", "offset": 0}
        self._execute(command, channels=[{"channel-type": "main", "addr": file}], **stays)
        while (now := self._execute("query-migrate")).get("status") != "completed":
            if now.get("status") == "failed":
                raise RefusedError(
                    f"QEMU cannot load or save the state: {now.get('error-desc', 'no reason is given')}"
                )
            time.sleep(_SOON_S)

    def _execute(self, command: str, **arguments: Any) -> dict[str, Any]:
        request = {"execute": command} | ({"arguments": arguments} if arguments else {})
        try:
            self._connection.sendall(json.dumps(request).encode())
        except OSError:
            raise MonitorEndedError from None
        answer = self._answer()
        while "event" in answer:
            answer = self._answer()
        if "error" in answer:
            raise RefusedError(f"QEMU refuses {command}: {answer['error'].get('desc')}")
        returned = answer.get("return")
        return returned if isinstance(returned, dict) else {}

    def _answer(self) -> dict[str, Any]:
        while b"\n" not in self._pending:
            if self._stop.is_set():
                raise StoppedError
            if time.monotonic() > self._deadline or len(self._pending) > _LONGEST_ANSWER:
                raise MachineError("QEMU's monitor does not answer")
            try:
                data = self._connection.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            if not data:
                raise MonitorEndedError
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer


def state_file() -> int:
    """A file without a name for a machine's state."""
    return os.memfd_create("bigiron-state", os.MFD_CLOEXEC)
