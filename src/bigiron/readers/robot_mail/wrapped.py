"""Lines that programs which send answers have wrapped: each in one piece again."""

import re
from collections.abc import Iterator

from bigiron.readers.robot_mail.envelope import MailLine
from bigiron.readers.robot_mail.reading import NOTICED

_HEAD = re.compile(
    r".*\bnoticed (?:an? |a\(n\) )?[-+]?\d|commit:? [0-9a-f]{7,40} \(|(?:on )?test machine\s*:"
)
"""The beginning of a long line of a report's head."""
_LONGEST = 400  # characters
_HYPHENED = re.compile(r"\S-\s*$")
"""Those programs cut words at hyphens, too: `a regression of will-it-`."""
_OWN_LINE = re.compile(r"\s*(?:$|\[|https?:|[\w -]{1,30}:(?:\s|$))")

_COMMIT = re.compile(r"\s+[0-9a-f]{7,40} \(\"[^\"]*$")
"""A commit that a table compares, its title without an end."""
_KEYS = re.compile(r"\s*[\w.-]+(?:/[\w.-]+){3,}\s*$")
_REST_OF_KEYS = re.compile(r"\s*[\w./-]*:\s*$")
_COLUMNS = re.compile(
    r"\s*(?:v\d\S*|[0-9a-f]{15,16})(?:\s+(?:v\d\S*|[0-9a-f]{20,40}))+(?P<order>\s+test[\w/]*)?\s*$"
)
_MORE_COLUMNS = re.compile(r"\s*(?:v\d\S*|[0-9a-f]{20,40}|test\w+(?:/test\w+)+)\s*$")
_REST_OF_ORDER = re.compile(r"[\w/]*(?:box|params|case)\s*$")
"""The line above a table that says which commits its columns are of."""

_FIGURE = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?%?")
_SPREAD = re.compile(r"(?:[^\w\s]|[^\x00-\x7f]){1,3}(?:\d+%)?")
_OF_ALL = ("GEO-MEAN", "TOTAL")


def joined(lines: list[MailLine]) -> Iterator[MailLine]:
    """The lines, each that was cut with what follows it."""
    position = 0
    while position < len(lines):
        at, line = lines[position]
        position += 1
        while position < len(lines) and (joint := _joint(line, lines[position][1])) is not None:
            line = f"{line.rstrip()}{joint}{lines[position][1].strip()}"
            position += 1
        yield at, line


def _joint(line: str, following: str) -> str | None:
    """What belongs between a line and the one that continues it; None: that line does not continue it."""
    if len(line) > _LONGEST or not following.strip():
        return None
    word = "" if _HYPHENED.search(line) else " "
    if _is_cut_head(line):
        return None if _OWN_LINE.match(following) else word
    if _COMMIT.match(line):
        return word
    if _KEYS.match(line) and _REST_OF_KEYS.match(following):
        return ""
    if columns := _COLUMNS.match(line):
        rest, joint = (_REST_OF_ORDER, "") if columns["order"] else (_MORE_COLUMNS, "  ")
        return joint if rest.match(following) else None
    return _joint_of_row(line, following, word)


def _joint_of_row(line: str, following: str, word: str) -> str | None:
    """The same for a row of a table, without the metric's name or with half of it."""
    *figures, last = line.split() or [""]
    if not figures or not _FIGURE.fullmatch(figures[0]) or not all(map(_is_figure, figures)):
        return None
    *more, name = following.split()
    if not re.match(r"[a-z]", name, re.IGNORECASE) or not all(
        one in _OF_ALL or _is_figure(one) for one in more
    ):
        return None
    if _is_figure(last):
        return "  " if len(more) <= 2 else None
    return word if not more and (last in _OF_ALL or last.endswith("-")) else None


def _is_figure(word: str) -> bool:
    return bool(_FIGURE.fullmatch(word) or _SPREAD.fullmatch(word))


def _is_cut_head(line: str) -> bool:
    """Whether a line of a report's head goes on in the next one, unless that is a line of its own."""
    if not _HEAD.match(line):
        return False
    if noticed := NOTICED.search(line):
        return bool(_HYPHENED.search(noticed[3]))
    return not line.rstrip().endswith('")')
