"""How much of a job the agent takes (guest/protocol/job.h): more is refused before a machine starts."""

from collections.abc import Sequence

from bigiron.errors import UserError

MAX_SETTINGS = 64
MAX_FUNCTIONS = 256
MAX_WORDS = 256
MAX_SERVICES = 16
MAX_VARIABLES = 64
MAX_VALUE_BYTES = 4000


def check(what: str, values: Sequence[str], most: int) -> None:
    """UserError if there are more than `most` of them, or one is no line that the agent takes.

    >>> check("settings", ["/sys/x=1"], MAX_SETTINGS)
    >>> check("settings", ["/sys/x=" + 2000 * "é"], MAX_SETTINGS)
    Traceback (most recent call last):
    bigiron.errors.UserError: settings: one is 4007 bytes long, and at most 4000 are possible
    """
    if len(values) > most:
        raise UserError(f"{what}: {len(values)} are given, and at most {most} are possible")
    for value in values:
        size = len(value.encode(errors="surrogateescape"))
        if size > MAX_VALUE_BYTES:
            raise UserError(f"{what}: one is {size} bytes long, and at most {MAX_VALUE_BYTES} are possible")
        if "\n" in value or "\0" in value:
            raise UserError(f"{what}: {value!r} is not a single line")
