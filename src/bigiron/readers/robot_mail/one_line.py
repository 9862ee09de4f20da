"""Reports whose lines became one, or one for each paragraph, as in web pages that were turned into text."""

import re

_FLOWED = re.compile(r"\btestcase:\s.{1,300}\btest machine:\s")
"""Two lines of a report that are in one."""
_APART = re.compile(r"^[> \t:|]*(?:in )?testcase:[ \t]*\S+[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
"""A line of a report whose lines are apart: what names a test and a machine in one is a sentence."""
_HASH, _TITLE = r"[0-9a-f]{7,40}", r"\(\".{1,300}?\"\)"
_CUTS = (
    (
        r"(?<!\|)(?<!\b[io]n)(?<!following) (?=(?:(?:in )?testcase|(?:on )?test machine"
        r"|(?:with following )?parameters|commit|url|base|config|compiler|patch (?:link|subject)"
        r"|test-(?:description|url)|details are as below|to reproduce|disclaimer): "
        r"|in addition to that|if you fix|[-=*+]{20}|https?://|git://|\[(?:still|test) )"
    ),
    r"(?<=[-=*+>]{4}) ",
    r"(?<=\|) (?=\+-|\| (?:testcase: change|test machine|test parameters|\| ))",
    rf"(?<=commit:) (?=(?:{_HASH} {_TITLE}|v\d\S{{1,40}}) {_HASH}\b)",
    rf"(?<=\"\)) (?={_HASH}\b)",
    r"(?<=[/\w]:) (?=[^\s/]{1,80}(?:/[^\s/]{1,80}){2})",
    r" (?=(?:%stddev|fail:runs) )",
    r"(?<=\|) \\ (?=[-\d])",
)
"""What is between two lines: before a line of the head, a commit, or the values of keys."""
_BETWEEN = re.compile("|".join(_CUTS), re.IGNORECASE)
_ROW = re.compile(r"( [A-Za-z]\S{0,300}\.\S{1,300}) (?=[-+]?\d\S{0,40} (?:[^\w\s]{1,3} ?\d{1,6}% )?[-+]\d)")
_BASE = re.compile(rf"^(v\d\S{{1,40}}) (?={_HASH} \(\")", re.MULTILINE)
"""The ends of a row, and of a base that is a tag."""


def lines_of(text: str) -> str:
    """The text; where several lines of a report are in one, with its lines apart, and without quoting.

    >>> head = 'we noticed a -5.0% regression of a.b on: > commit: 1234567 ("a change") > in testcase: a '
    >>> print(lines_of(f"FYI, {head}on test machine: 8 threads parameters: nr_task: 100%"))
    FYI, we noticed a -5.0% regression of a.b on:
    commit: 1234567 ("a change")
    in testcase: a
    on test machine: 8 threads
    parameters: nr_task: 100%
    """
    if not _FLOWED.search(text) or _APART.search(text):
        return text
    plain = (" ".join(word for word in line.split() if word.strip(">")) for line in text.split("\n"))
    cut = _BETWEEN.sub("\n", "\n".join(plain))
    return _BASE.sub(r"\1\n", _ROW.sub(r"\1\n", cut))
