"""A mail of the kernel test robot that reports a regression: what was measured where, of which two commits.

No document specifies its form. Lines that are not understood are kept with their numbers, and reported.

    envelope    a file to the texts of its mails
    one_line    lines that became one
    wrapped     lines that were cut
    reading     the lines of a report
    further     the table of further tests
    claim       what a mail claims of one test, completed by its tables
    table       its tables, and which of them is the report's own
    by_hand     tables that developers write
    unnamed     tests whose parameters have no names
    metric      what the name of a metric says
    machine     the machine that words describe
    processor   what the names of a processor and of a group of machines say
    model       what is returned
"""

from dataclasses import replace

from bigiron.errors import UserError
from bigiron.readers.robot_mail import by_hand, unnamed
from bigiron.readers.robot_mail.envelope import (
    MOST_BYTES,
    MailLine,
    MailText,
    after_quoted,
    depth_of,
    texts,
    unindented,
    unquoted,
)
from bigiron.readers.robot_mail.model import Commit, Elsewhere, Reported, ReportedMachine, RobotMail
from bigiron.readers.robot_mail.reading import COMMIT, FIELD, KEYS, NOTICED, SUBJECT, MailReader
from bigiron.readers.robot_mail.table import header
from bigiron.readers.robot_mail.wrapped import joined

__all__ = ["MOST_BYTES", "Commit", "Elsewhere", "Reported", "ReportedMachine", "RobotMail", "read"]

_MOST_DEPTHS = 4
_SHORT = 10  # digits of a commit's name that mails have at least


def read(content: bytes, called: str) -> RobotMail:
    """Read a mail, an mbox (also compressed), or a mail's bare text; UserError says what the report lacks.

    Of several mails it is the first that is a whole report; else an answer that quotes one; else a part.
    Where there are several whole reports, a note says how many.
    """
    best: tuple[int, str, list[MailLine]] | None = None
    table = ""
    reports = set[tuple[str, str]]()
    for text in texts(content, called):
        table = table or ("" if best else by_hand.table_in(text.lines))
        for depth in [*_depths(text), None]:
            of_depth = unindented(unquoted(text.lines, depth))
            lines = list(joined(of_depth, after_quoted(text.lines, depth)))
            rank = _rank(text.subject, lines, depth)
            if rank is not None and (best is None or rank < best[0]):
                best = rank, text.subject, lines
            if rank == 0:
                reports.add(_subject_of(lines))
                break
    if best:
        found = MailReader(called).of(best[1], best[2])
        more = f"{called} has {len(reports)} reports: the first is judged"
        return replace(found, notes=[more, *found.notes]) if len(reports) > 1 else found
    if table:
        raise UserError(by_hand.refusal(called, table))
    raise UserError(
        f"{called} reports no regression: no line says 'kernel test robot noticed a -52.4% regression of …'; "
        "give the robot's whole mail"
    )


def _depths(text: MailText) -> list[int]:
    """How deep the lines are quoted that make a report."""
    found = {depth_of(line) for _, line in text.lines if "noticed " in line or "testcase" in line.lower()}
    return sorted(found)[:_MOST_DEPTHS]


def _subject_of(report: list[MailLine]) -> tuple[str, str]:
    """The commit and the metric of a whole report, which distinguish it from another one."""
    commits = (match[1] for _, line in report if (match := COMMIT.match(line)))
    metrics = (match[3] for _, line in report if (match := NOTICED.search(line)))
    return next(commits, "")[:_SHORT], next(metrics, "")


def _rank(subject: str, lines: list[MailLine], depth: int | None) -> int | None:
    """0 for a whole report, 1 for one that is quoted, 2 for a part of one; None for something else.

    Whatever depth its lines are quoted at (None), a text is a part at best: answers quote answers.
    """
    is_noticed = any(NOTICED.search(line) for _, line in lines)
    is_old = any(unnamed.NOTICED.search(line) for _, line in lines)
    has_fields = any(FIELD.match(line) for _, line in lines)
    has_test = any(KEYS.match(line) or unnamed.TEST.match(line) for _, line in lines)
    has_table = any(header(line) for _, line in lines)
    in_subject = bool(SUBJECT.search(subject) or unnamed.SUBJECT.search(subject))
    if not (is_noticed or (in_subject and (has_fields or has_test or has_table)) or (is_old and has_test)):
        return None
    has_commit = any(COMMIT.match(line) for _, line in lines)
    if depth is not None and (has_fields or has_test) and has_commit and (is_noticed or is_old):
        return 1 if depth else 0
    return 2 if depth is None else None
