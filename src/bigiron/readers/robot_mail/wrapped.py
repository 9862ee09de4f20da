"""Lines that programs which send answers have wrapped: each in one piece again."""

import re
from collections.abc import Iterator

from bigiron.readers.robot_mail.envelope import Line
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

_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_FIGURES = re.compile(rf"\s*{_NUMBER}(?:[^\w\n]+{_NUMBER}%?)+\s*$", re.IGNORECASE)
"""A row of a table without the metric's name."""
_HALF_NAMED = re.compile(rf"\s*{_NUMBER}\s[^a-z]*\s(?:GEO-MEAN|TOTAL|\S*[a-z]\S*-)\s*$", re.IGNORECASE)
_NAME = re.compile(r"\s*(?=[^\s.=*+|-])(?=\S*[a-z])\S+\s*$")
_COLUMNS = re.compile(r"\s*(?:v\d\S*|[0-9a-f]{15,16})(?:\s+(?:v\d\S*|[0-9a-f]{20,40}))+\s*$")
_MORE_COLUMNS = re.compile(r"\s*(?:v\d\S*|[0-9a-f]{20,40}|test\w+(?:/test\w+)+)\s*$")
"""The line above a table that says which commits its columns are of."""


def joined(lines: list[Line]) -> Iterator[Line]:
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
    """What belongs between a line and the one that continues it; None: that is no continuation."""
    if len(line) > _LONGEST or not following.strip():
        return None
    word = "" if _HYPHENED.search(line) else " "
    if _is_cut_head(line):
        return None if _OWN_LINE.match(following) else word
    if _COMMIT.match(line):
        return word
    if _KEYS.match(line) and _REST_OF_KEYS.match(following):
        return ""
    if _COLUMNS.match(line) and _MORE_COLUMNS.match(following):
        return "  "
    if _NAME.match(following):
        return "  " if _FIGURES.match(line) else word if _HALF_NAMED.match(line) else None
    return None


def _is_cut_head(line: str) -> bool:
    """Whether a line of a report's head goes on in the next one, unless that is a line of its own."""
    if not _HEAD.match(line):
        return False
    if noticed := NOTICED.search(line):
        return bool(_HYPHENED.search(noticed[3]))
    return not line.rstrip().endswith('")')
