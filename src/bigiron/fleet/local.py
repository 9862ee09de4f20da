"""`local:N`: a scheduler and workers as processes here, which end when this one does, however that ends."""

import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from bigiron.errors import UserError
from bigiron.fleet import address as addresses
from bigiron.fleet import authority
from bigiron.fleet.address import Address
from bigiron.util.host_memory import host_mib
from bigiron.util.parent_death import bigiron_itself

_DAYS = 30  # no study takes longer


class LocalWorkers:
    """So many workers of a cell each, which share half of this machine's memory."""

    def __init__(self, workers: int) -> None:
        self._number = workers
        # What a worker has started ends just after the worker, and may still write a file meanwhile.
        self._folder = tempfile.TemporaryDirectory(prefix="bigiron-fleet-", ignore_cleanup_errors=True)
        self._scheduler: subprocess.Popen[str] | None = None
        self._workers: list[subprocess.Popen[str]] = []
        self.address: Address

    @property
    def certificates(self) -> Path:
        """Made for these alone: other users of this machine do not have them."""
        return Path(self._folder.name) / "certificates"

    def __enter__(self) -> "LocalWorkers":
        authority.create(self.certificates, _DAYS)
        self._scheduler = self._start("scheduler", "--listen", "tls://127.0.0.1:0", stdout=subprocess.PIPE)
        assert self._scheduler.stdout
        line = self._scheduler.stdout.readline().strip()
        if not line:
            raise UserError("the scheduler of the fleet does not start: try `bigiron fleet scheduler`")
        self.address = addresses.parse(line)
        self.renew()
        return self

    def renew(self) -> None:
        """Start as many as there are too few of."""
        self._workers = [worker for worker in self._workers if worker.poll() is None]
        mib = max(1, host_mib() // 2 // self._number)
        while len(self._workers) < self._number:
            self._workers.append(
                self._start("worker", str(self.address), "--cpus", "1", "--memory", str(mib))
            )

    def _start(self, *command: str, stdout: int = subprocess.DEVNULL) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            bigiron_itself("fleet", *command, "--certificates", str(self.certificates)),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"TMPDIR": self._folder.name},  # they are killed, and leave their files
            start_new_session=True,  # a Ctrl-C is for us, not for them
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self._workers, *([self._scheduler] if self._scheduler else [])):
            process.kill()
            process.wait()
        if self._scheduler and self._scheduler.stdout:
            self._scheduler.stdout.close()
        self._folder.cleanup()
