"""Output of commands: lists, and progress on stderr."""

import sys
from collections.abc import Callable

from bigiron.commands.common.options import ListFormat
from bigiron.report.formats import listing
from bigiron.report.formats.listing import Listing


def say(name: str) -> Callable[[str], None]:
    """A function that prints the steps of a long task on stderr."""
    return lambda step: print(f"{name}: {step}", file=sys.stderr)


def print_list(list: Listing, format: ListFormat) -> None:
    """Print a list on standard output."""
    print(listing.FORMATS[format.value](list), end="")
