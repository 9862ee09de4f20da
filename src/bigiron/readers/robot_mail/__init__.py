"""A mail of the kernel test robot that reports a regression: what was measured where, of which two commits.

No document specifies its form. Lines that are not understood are kept with their numbers, and reported.

    envelope    a file to the texts of its mails
    reading     the lines of a report
    table       its tables, and which of them is the report's own
    metric      what the name of a metric says
    model       what is returned
"""

import re
from collections.abc import Iterator

from bigiron.errors import UserError
from bigiron.readers.robot_mail.envelope import MOST_BYTES, Line, Text, depth_of, texts, unquoted
from bigiron.readers.robot_mail.model import Commit, Elsewhere, Machine, Reported, RobotMail
from bigiron.readers.robot_mail.reading import COMMIT, FIELD, NOTICED, SUBJECT, Reading

__all__ = ["MOST_BYTES", "Commit", "Elsewhere", "Machine", "Reported", "RobotMail", "read"]

_WRAPPED = re.compile(
    r".*\bnoticed (?:an? |a\(n\) )?[-+]?\d|commit: [0-9a-f]{7,40} \(|(?:on )?test machine\s*:"
)
"""The beginning of a long line, which programs that send answers wrap."""
_HYPHENED = re.compile(r"\S-\s*$")
"""Those programs cut words at hyphens, too: `a regression of will-it-`."""
_OWN_LINE = re.compile(r"\s*(?:$|\[|https?:|[\w -]{1,30}:(?:\s|$))")


_MOST_DEPTHS = 4
_LONGEST_HEAD = 400  # characters


def read(content: bytes, called: str) -> RobotMail:
    """Read a mail, an mbox (also compressed), or a mail's bare text; UserError says what the report lacks.

    Of several mails it is the first that is a whole report; else an answer that quotes one; else a part.
    """
    best: tuple[int, str, list[Line]] | None = None
    for text in texts(content, called):
        for depth in _depths(text):
            lines = list(_unwrapped(unquoted(text.lines, depth)))
            rank = _rank(text.subject, lines, depth)
            if rank is not None and (best is None or rank < best[0]):
                best = rank, text.subject, lines
        if best and not best[0]:
            break
    if best:
        return Reading(called).of(best[1], best[2])
    raise UserError(
        f"{called} reports no regression: no line says 'kernel test robot noticed a -52.4% regression of …'; "
        "give the robot's whole mail"
    )


def _depths(text: Text) -> list[int]:
    """How deep the lines are quoted that make a report."""
    found = {depth_of(line) for _, line in text.lines if "noticed a" in line or "testcase" in line}
    return sorted(found)[:_MOST_DEPTHS]


def _rank(subject: str, lines: list[Line], depth: int) -> int | None:
    """0 for a whole report, 1 for one that is quoted, 2 for a part of one; None for something else."""
    is_noticed = any(NOTICED.search(line) for _, line in lines)
    has_fields = any(FIELD.match(line) for _, line in lines)
    if not is_noticed and not (has_fields and SUBJECT.search(subject)):
        return None
    has_commit = any(COMMIT.match(line) for _, line in lines)
    return (1 if depth else 0) if has_fields and has_commit else 2


def _unwrapped(lines: list[Line]) -> Iterator[Line]:
    """The lines, long ones of a report's head in one piece."""
    position = 0
    while position < len(lines):
        at, line = lines[position]
        position += 1
        while position < len(lines) and _is_cut(line) and not _OWN_LINE.match(lines[position][1]):
            joint = "" if _HYPHENED.search(line) else " "
            line = f"{line.rstrip()}{joint}{lines[position][1].strip()}"
            position += 1
        yield at, line


def _is_cut(line: str) -> bool:
    """Whether a line of a report's head goes on in the next one, unless that is a line of its own."""
    if len(line) > _LONGEST_HEAD or not _WRAPPED.match(line):
        return False
    if noticed := NOTICED.search(line):
        return bool(_HYPHENED.search(noticed[3]))
    return not line.rstrip().endswith('")')
