"""What commands write: lists, progress on stderr, and the one line that says what is wrong."""

import logging
import sys
from collections.abc import Callable

from bigiron.commands.options import ListFormat
from bigiron.report import listing
from bigiron.report.listing import Listing


def complain(message: str, status: int) -> int:
    """One line on stderr; the exit status to end with."""
    print(f"bigiron: {message}", file=sys.stderr)
    return status


class Complaints(logging.Handler):
    """What went wrong and stopped nothing: a line on stderr, which a progress bar makes room for."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show it."""
        complain(self.format(record), 0)


def say(name: str) -> Callable[[str], None]:
    """What shows the steps of something that takes long, on stderr."""
    return lambda step: print(f"{name}: {step}", file=sys.stderr)


def print_list(list: Listing, format: ListFormat) -> None:
    """A list on standard output."""
    print(listing.FORMATS[format.value](list), end="")
