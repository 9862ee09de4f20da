"""From a file to the texts of the mails in it: gzip, mbox, parts of mails, character sets, quoting."""

import email
import email.policy
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage

from bigiron.errors import UserError
from bigiron.readers.robot_mail.one_line import lines_of
from bigiron.util.sanitize import sanitize

MOST_BYTES = 16 << 20  # of a mail or mbox
_MOST_LINES = 400_000
_MOST_MAILS = 10_000
_LONGEST_READ = 1000  # characters that are read of any line

_GZIP = b"\x1f\x8b"
_HEADER = re.compile(rb"[A-Za-z][A-Za-z0-9-]*:(?:\r?\n)?[ \t]")
_OF_A_REPORT = (b"commit:", b"testcase:")  # lines of a report's text that look like headers
_MBOX = re.compile(rb"^From \S+[ \t]+\w{3}[ \t]+\w{3}[ \t]+\d+[ \t]+\d\d:\d\d:\d\d\b.*$", re.MULTILINE)
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)  # by mboxrd
_QUOTE = re.compile(r"(?:> ?)+")
_INDENTS = " \t:|"
_NOTICED = re.compile(r"\bnoticed (?:an? [-+]?\d|the )")

MailLine = tuple[int, str]
"""A line of a mail's text, with its number."""


@dataclass(frozen=True)
class MailText:
    """A text of a mail, as it was sent or alone. `subject`: that of the mail; "": there was none."""

    subject: str
    lines: list[MailLine]


def texts(content: bytes, called: str) -> Iterator[MailText]:
    """All texts of the mails in a file, each with its mail's subject.

    UserError where the file is too large, no text, or contains nothing but HTML.
    """
    content = _uncompressed(content, called)
    if len(content) > MOST_BYTES:
        raise UserError(f"{called} is larger than {MOST_BYTES >> 20} MiB: give the robot's mail alone")
    if b"\0" in content:
        raise UserError(f"{called} is not text: give the report as a mail, an mbox or text")
    html, plain = False, False
    for mail in _mails(content, called):
        try:
            parts = list(_parts(mail)) if _is_mail(mail) else [("", _decoded(mail, ""))]
        except RecursionError:
            raise UserError(
                f"{called}: the mail's parts are nested too deep: give the report's text"
            ) from None
        html = html or not parts
        for subject, text in parts:
            plain = True
            yield MailText(" ".join(sanitize(subject[:_LONGEST_READ]).split()), _lines(text, called))
    if html and not plain:
        raise UserError(
            f"{called} has no plain text, only HTML or attachments: give the mail's plain text, for example "
            "as its archive's raw message"
        )


def unquoted(lines: list[MailLine], depth: int | None) -> list[MailLine]:
    """The lines that are quoted so deep or deeper, without that many marks; None: all, without any.

    >>> unquoted([(1, "> a"), (2, "why?"), (3, ">> b")], 1)
    [(1, 'a'), (3, '> b')]
    """
    if depth is None:
        return [(at, _QUOTE.sub("", line, count=1) if line.startswith(">") else line) for at, line in lines]
    if not depth:
        return lines
    marks = re.compile(rf"(?:> ?){{{depth}}}")
    return [(at, marks.sub("", line, count=1)) for at, line in lines if depth_of(line) >= depth]


def after_quoted(lines: list[MailLine], depth: int | None) -> list[MailLine]:
    """The lines that come directly after those quoted so deep, and are quoted less deep, without any marks.

    Each may be the rest of a line that was wrapped after it had been quoted, or an answer.

    >>> after_quoted([(1, "> > a"), (2, "> b"), (3, "> c"), (4, ""), (5, "d")], 2)
    [(2, 'b'), (3, 'c')]
    """
    found: list[MailLine] = []
    is_after = False
    for at, line in lines if depth else []:
        is_quoted = depth_of(line) >= (depth or 0)
        plain = _QUOTE.sub("", line, count=1) if line.startswith(">") else line
        is_after = is_quoted or (is_after and bool(plain.strip()))
        if is_after and not is_quoted:
            found.append((at, plain))
    return found


def unindented(lines: list[MailLine]) -> list[MailLine]:
    """The lines without what the line of the regression begins with, where that is cited by indenting it.

    >>> unindented([(1, "It says:"), (2, ": FYI, we noticed a 5.0%"), (3, ":"), (4, ": commit: 1")])
    [(1, 'It says:'), (2, 'FYI, we noticed a 5.0%'), (3, ''), (4, 'commit: 1')]
    """
    first = next((line for _, line in lines if _NOTICED.search(line)), "")
    indent = first[: len(first) - len(first.lstrip(_INDENTS))]
    if not indent:
        return lines
    return [(at, line.removeprefix(indent if line.strip(_INDENTS) else line)) for at, line in lines]


def depth_of(line: str) -> int:
    """How many marks of quoting a line begins with."""
    found = _QUOTE.match(line)
    return found[0].count(">") if found else 0


def _uncompressed(content: bytes, called: str) -> bytes:
    whole = b""
    while content.startswith(_GZIP) and len(whole) <= MOST_BYTES:
        one = zlib.decompressobj(wbits=31)
        try:
            whole += one.decompress(content, MOST_BYTES + 1 - len(whole))
        except zlib.error as error:
            raise UserError(f"{called} cannot be decompressed: {error}") from None
        if not one.eof and len(whole) <= MOST_BYTES:
            raise UserError(f"{called} is cut short: its compressed data has no end")
        content = one.unused_data
    return whole or content


def _mails(content: bytes, called: str) -> Iterator[bytes]:
    """Of an mbox each mail, with what mboxrd escaped; else all of it."""
    content = content.lstrip()
    starts = list(_MBOX.finditer(content))
    if not starts or starts[0].start():
        yield content
        return
    if len(starts) > _MOST_MAILS:
        raise UserError(f"{called} has {len(starts)} mails: at most {_MOST_MAILS} are read")
    ends = [*(match.start() for match in starts[1:]), len(content)]
    for match, end in zip(starts, ends, strict=True):
        yield _ESCAPED.sub(rb"\1", content[match.end() : end].lstrip(b"\r\n"))


def _is_mail(piece: bytes) -> bool:
    return bool(_HEADER.match(piece)) and not piece.startswith(_OF_A_REPORT)


def _parts(piece: bytes) -> Iterator[tuple[str, str]]:
    """Subject and text of each part in plain text, forwarded mails included."""
    mail = email.message_from_bytes(piece, policy=email.policy.default)
    assert isinstance(mail, EmailMessage)
    subject = _subject(mail)
    for part in mail.walk():
        if part.get_content_type() == "text/plain":
            payload = part.get_payload(decode=True)
            charset = part.get_content_charset("")
            yield subject, _decoded(payload if isinstance(payload, bytes) else b"", charset)


def _subject(mail: EmailMessage) -> str:
    try:
        return str(mail.get("subject", ""))
    except (LookupError, ValueError, IndexError, AttributeError):  # what cannot be decoded
        return ""


def _decoded(content: bytes, charset: str) -> str:
    r"""By the character set that is given if it fits, else UTF-8 if that fits, else ISO-8859-1.

    >>> _decoded(b"1 \xb1 2%", "utf-8"), _decoded(b"1 \xc2\xb1 2%", "")
    ('1 ± 2%', '1 ± 2%')
    """
    for given in (charset, "utf-8"):
        try:
            if given:
                return content.decode(given)
        except (LookupError, ValueError):
            pass
    return content.decode("latin-1")


def _lines(text: str, called: str) -> list[MailLine]:
    """The lines, short enough to be matched, and with nothing that steers a terminal."""
    plain = lines_of(text.replace("\r\n", "\n").replace("\xa0", " "))
    if (number := plain.count("\n")) > _MOST_LINES:
        raise UserError(f"{called} has {number} lines: at most {_MOST_LINES} are read")
    short = "\n".join(line[:_LONGEST_READ] for line in plain.split("\n"))
    return list(enumerate(sanitize(short).split("\n"), 1))
