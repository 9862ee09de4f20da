"""Runs compilers and similar tools: programs that do one thing and exit, and may fail."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from bigiron.errors import UserError
from bigiron.util.threads import LOOK_S, StoppedError, is_stopped


def run(command: Sequence[str | Path], what: str) -> subprocess.CompletedProcess[str]:
    """Run a compiler or a similar tool. If it fails, raises UserError with `what` and its first error."""
    try:
        done = completed(command)
    except OSError as error:
        raise UserError(f"{what}: {command[0]}: {error.strerror}") from None
    if done.returncode:
        raise UserError(f"{what}: {_first_error(done.stderr, done.returncode)}")
    return done


def last_line(output: str, otherwise: str = "it printed nothing") -> str:
    r"""The last line that a program printed, which most often says why it failed.

    >>> last_line("reading\nno such file\n"), last_line(" ")
    ('no such file', 'it printed nothing')
    """
    return (output.strip().splitlines() or [otherwise])[-1]


def completed(
    command: Sequence[str | Path], timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a tool with English messages. OSError or TimeoutExpired if it does not run or does not end.

    StoppedError if this thread's work is no longer wanted. The tool's child processes end with it, and its
    temporary files are removed: one that is killed does not do so.
    """
    with tempfile.TemporaryDirectory(prefix="bigiron-") as temporary:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C", "TMPDIR": temporary},
            start_new_session=True,  # its group is what it started
        )
        try:
            out, err = _output(process, timeout_s)
        except BaseException:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _output(process: "subprocess.Popen[str]", timeout_s: float | None) -> tuple[str, str]:
    started = monotonic()
    while not is_stopped():
        try:
            return process.communicate(timeout=LOOK_S)
        except subprocess.TimeoutExpired as error:
            if timeout_s is not None and monotonic() - started > timeout_s:
                raise subprocess.TimeoutExpired(error.cmd, timeout_s) from None
    raise StoppedError


def _first_error(output: str, status: int) -> str:
    lines = output.strip().splitlines()
    errors = [line for line in lines if "error" in line or "undefined" in line]
    how = f"killed by signal {-status}" if status < 0 else f"status {status}, without a message"
    return (errors or lines or [how])[0]
