"""Output of commands: lists, and progress on stderr."""

import sys
from collections.abc import Callable
from typing import Annotated

from bigiron.commands.common.options import choice
from bigiron.report.formats import listing
from bigiron.report.formats.listing import Listing

InListFormat = Annotated[str, choice(listing.FORMATS, "output format")]


def say(name: str) -> Callable[[str], None]:
    """A function that prints the steps of a long task on stderr."""
    return lambda step: print(f"{name}: {step}", file=sys.stderr)


def print_list(list: Listing, format: str) -> None:
    """Print a list on standard output."""
    print(listing.FORMATS[format](list), end="")
