"""Lines that programs which send answers have wrapped or run together: each in one piece again."""

import re
from collections.abc import Iterator, Sequence

from bigiron.readers.robot_mail.envelope import MailLine
from bigiron.readers.robot_mail.reading import NOTICED

_MACHINE = re.compile(r"(?:on )?test machine\s*:", re.IGNORECASE)
_END_OF_MACHINE = re.compile(r"\bmemory\s*$|\bparameters:", re.IGNORECASE)
_LONGEST = 400  # characters
_MOST_LINES = 4  # that continue one
_NARROWEST = 60  # characters at which programs wrap lines
_HYPHENED = re.compile(r"\S-\s*$")
"""Those programs cut words at hyphens, too: `a regression of will-it-`."""
_OWN_LINE = re.compile(r"\s*(?:$|\[|https?:|[\w -]{1,30}:(?:\s|$))")
_END_OF_NOTICE = re.compile(r"\s*(?:on|(?:(?:due )?to )?commit)\s*:\s*$")
"""What programs cut from `noticed a -5.0% regression of fsmark.files_per_sec due to commit:`."""
_BEFORE_PARAMETERS = re.compile(r"\s+((?:with following )?parameters:(?:\s.*)?)$", re.IGNORECASE)
_END_OF_METRIC = re.compile(r"\s*\S+\s+(?:on|due to commit):\s*$")
_HASH = re.compile(r"\s*[0-9a-f]{7,40}\b")
_BEFORE_COMMIT = re.compile(r"\bdue to commit:?\s*$")
_DESCRIPTION = "test-description:"
_BRANCH = re.compile(r"\s*\[(?:still |test )?[a-z ]{1,40} on\s+\S+\s*$")
"""`[still regression on linux-next/master`, without the commit."""

_CELL = re.compile(
    r"\s*\|\s*(?:testcase: change|test machine|test parameters|(?=\|\s*[A-Za-z][\w.-]*=))\s*\|"
)
"""The beginning of a row of the table of further tests."""
_OTHER_CELL = re.compile(r"\s*(?:\|\s*\S|\+-)")

_COMMIT = re.compile(r"(?:commit:?)?\s*(?:[0-9a-f]{7,40}|v\d\S*)(?:\s*$|\s+(?P<title>\(\"))")
"""A commit, with the beginning of its title or without."""
_TITLE, _END_OF_TITLE = '("', '")'
_UNBROKEN = re.compile(r"\s*\S{60,}\s*$")
"""Names of parameters, their values or the line between two tables, without a place to wrap them."""
_KEYS = re.compile(r"\s*[\w.-]+(?:/[\w.-]+){3,}\s*$")
_REST_OF_KEYS = re.compile(r"\s*(?!commit:)[\w./-]*:\s*$")
_COLUMNS = re.compile(
    r"\s*(?:v\d\S*|[0-9a-f]{15,16})(?:\s+(?:v\d\S*|[0-9a-f]{20,40}))+(?P<order>\s+test[\w/]*)?\s*$"
)
_MORE_COLUMNS = re.compile(
    r"\s*(?:(?:(?:v\d\S*|[0-9a-f]{20,40})(?:\s+|$))+(?:test[\w/]*)?|test\w+(?:/test\w+)+)\s*$"
)
_REST_OF_ORDER = re.compile(r"[\w/]*(?:box|params|case)\s*$")
"""The line above a table that says which commits its columns are of."""

_FIGURE = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?%?")
_SPREAD = re.compile(r"(?:[^\w\s]|[^\x00-\x7f]){1,3}(?:\d+%)?")
_OF_ALL = ("GEO-MEAN", "TOTAL")


def joined(lines: list[MailLine], after_quoted: Sequence[MailLine] = ()) -> Iterator[MailLine]:
    """The lines, each that was cut with what follows it.

    Of the lines after quoted ones, those are used that continue a line; others are answers.
    """
    lines = sorted([*lines, *after_quoted]) if after_quoted else lines
    answers = {at for at, _ in after_quoted}
    position = 0
    while position < len(lines):
        at, line = lines[position]
        position += 1
        if at in answers and not _UNBROKEN.match(line):
            continue
        following = [text for _, text in lines[position : position + _MOST_LINES]]
        more = following[: _rest(line, following)]
        line = _in_one(line, more)
        position += len(more)
        while position < len(lines) and (joint := _joint(line, lines[position][1])) is not None:
            next_at, more_of_it = lines[position]
            if next_at in answers and len(line.rstrip()) + len(more_of_it.split()[0]) < _NARROWEST:
                break
            line = f"{line.rstrip()}{joint}{more_of_it.strip()}"
            position += 1
        if _MACHINE.match(line) and (next_line := _BEFORE_PARAMETERS.search(line)):
            yield at, line[: next_line.start()]
            line = next_line[1]
        yield at, line


def _rest(line: str, following: list[str]) -> int:
    """How many lines continue a line of one of the kinds that say where they end."""
    kinds = (_rest_of_title, _rest_of_notice, _rest_of_cell)
    return next((number for kind in kinds if (number := kind(line, following))), 0)


def _in_one(line: str, more: list[str]) -> str:
    for one in more:
        line = f"{line.rstrip()}{_between(line)}{one.strip()}"
    return line


def _between(line: str) -> str:
    return "" if _HYPHENED.search(line) else " "


def _rest_of_title(line: str, following: list[str]) -> int:
    """How many lines continue the title of a line's commit; 0: it is whole, or has no end."""
    commit = _COMMIT.match(line)
    if not commit or _END_OF_TITLE in line:
        return 0
    is_begun = bool(commit["title"])
    for position, one in enumerate(following):
        if not one.strip() or _COMMIT.match(one) or not (is_begun or one.lstrip().startswith(_TITLE)):
            return 0
        is_begun = True
        if _END_OF_TITLE in one:
            return position + 1
    return 0


def _rest_of_notice(line: str, following: list[str]) -> int:
    """How many lines continue the line of the regression; 0: it is whole, or something else."""
    if "noticed" not in line or len(line) > _LONGEST:
        return 0
    for position, one in enumerate([*following, ""]):
        if NOTICED.search(line):
            is_cut = not line.rstrip().endswith(":") and _END_OF_NOTICE.match(one)
            return position + bool(is_cut or (_BEFORE_COMMIT.search(line) and _HASH.match(one)))
        if _OWN_LINE.match(one):
            return 0
        line = _in_one(line, [one])
    return 0


def _rest_of_cell(line: str, following: list[str]) -> int:
    """How many lines continue a row of the table of further tests; 0: it is whole, or has no end."""
    if not _CELL.match(line) or line.rstrip().endswith("|"):
        return 0
    for position, one in enumerate(following):
        if not one.strip() or _OTHER_CELL.match(one):
            return 0
        if one.rstrip().endswith("|"):
            return position + 1
    return 0


def _joint(line: str, following: str) -> str | None:
    """What belongs between a line and the one that continues it; None: that line does not continue it."""
    if len(line) > _LONGEST or not following.strip():
        return None
    word = _between(line)
    if _is_cut_head(line):
        return None if _OWN_LINE.match(following) and not _END_OF_METRIC.match(following) else word
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
    if noticed := NOTICED.search(line):
        return bool(_HYPHENED.search(noticed[3]))
    is_machine = _MACHINE.match(line) and not _END_OF_MACHINE.search(line)
    return bool(is_machine or line.lstrip().lower().startswith(_DESCRIPTION) or _BRANCH.match(line))
