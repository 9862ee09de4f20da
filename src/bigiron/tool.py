"""Compilers and their like: programs that do one thing and end, and may fail."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bigiron.errors import UserError


def run(command: Sequence[str | Path], what: str) -> subprocess.CompletedProcess[str]:
    """Run a compiler or one of its tools. UserError with `what` and its first error where it fails."""
    try:
        done = completed(command)
    except OSError as error:
        raise UserError(f"{what}: {command[0]}: {error.strerror}") from None
    if done.returncode:
        raise UserError(f"{what}: {_first_error(done.stderr, done.returncode)}")
    return done


def completed(
    command: Sequence[str | Path], timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """What a tool that speaks plain English said. OSError or TimeoutExpired where it does not run or end."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, "LC_ALL": "C"},
        timeout=timeout_s,
    )


def _first_error(output: str, status: int) -> str:
    lines = output.strip().splitlines()
    errors = [line for line in lines if "error" in line or "undefined" in line]
    how = f"killed by signal {-status}" if status < 0 else f"status {status}, and it said nothing"
    return (errors or lines or [how])[0]
