"""What several commands' options may be, and how their text is read."""

from enum import StrEnum

from bigiron.analysis import conflicts
from bigiron.errors import UserError


class Format(StrEnum):
    """How a comparison is printed."""

    text = "text"
    markdown = "markdown"
    csv = "csv"
    json = "json"


class ListFormat(StrEnum):
    """How a list is printed."""

    text = "text"
    csv = "csv"
    json = "json"


class Context(StrEnum):
    """On whose behalf the kernel ran."""

    operation = "operation"
    interrupt = "interrupt"
    kthread = "kthread"
    all = "all"


class Compared(StrEnum):
    """A probe whose counts can be compared."""

    conflicts = "conflicts"
    locks = "locks"
    work = "work"
    operations = "operations"
    functions = "functions"
    blocked = "blocked"
    oncpu = "oncpu"
    efficiency = "efficiency"
    throughput = "throughput"


def words(text: str) -> list[str]:
    """Words with commas between them."""
    return [word.strip() for word in text.split(",") if word.strip()]


def numbers(option: str, text: str) -> list[int]:
    """Whole numbers with commas between them."""
    given = words(text)
    if not given or not all(word.isdecimal() for word in given):
        raise UserError(f"{option} {text!r}: use whole numbers with commas, for instance 2,4,8")
    return [int(word) for word in given]


def doublings(option: str, text: str) -> list[int]:
    """Numbers, or FIRST..LAST: the first, its doubles, and the last."""
    first, dots, last = text.partition("..")
    if not dots:
        return numbers(option, text)
    if not (first.isdecimal() and last.isdecimal()) or not 0 < int(first) <= int(last):
        raise UserError(f"{option} {text!r}: use FIRST..LAST, for instance 2..512, or numbers with commas")
    doubles = range((int(last) // int(first)).bit_length())
    return list(dict.fromkeys([*(int(first) << power for power in doubles), int(last)]))


def contexts(context: Context) -> tuple[str, ...]:
    """Those that the recorder knows."""
    return conflicts.CONTEXTS if context is Context.all else (context.value,)
