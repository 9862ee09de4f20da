"""Error messages of one line on stderr."""

import logging
import sys
from pathlib import Path

import typer

from bigiron.util.sanitize import sanitize


def complain(message: str, status: int) -> int:
    """Print one line on stderr, harmless to a terminal; return the exit status to end with."""
    print(f"bigiron: {sanitize(message)}", file=sys.stderr)
    return status


def stopped(what: Path | str) -> typer.Exit:
    """Report that Ctrl-C stopped a command that continues when it is given again; what to raise."""
    return typer.Exit(complain(f"stopped: the same command continues {what}", 130))


class Complaints(logging.Handler):
    """Warnings: one line on stderr each, for which a progress bar makes room."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the warning."""
        complain(self.format(record), 0)
