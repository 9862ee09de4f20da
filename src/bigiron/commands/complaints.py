"""The one line that says what is wrong."""

import logging
import sys


def complain(message: str, status: int) -> int:
    """One line on stderr; the exit status to end with."""
    print(f"bigiron: {message}", file=sys.stderr)
    return status


class Complaints(logging.Handler):
    """What went wrong and stopped nothing: a line on stderr, which a progress bar makes room for."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show it."""
        complain(self.format(record), 0)
