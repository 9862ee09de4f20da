"""Tables without a report: they are refused, as what they are of is in sentences.

Developers write them; and those who keep the robot answer patches with its tables alone.
"""

import re
from collections.abc import Iterable
from itertools import islice

from bigiron.readers.robot_mail.envelope import MailLine

_MARKS = re.compile(r"[>\s|+]*")
_MMTESTS = re.compile(r"(?:[HAG]mean|B[HA]mean-\d+|CoeffVar|[123](?:st|nd|rd)-qrtle)\s+\S.*\d")
_WITHOUT = re.compile(
    r"(?<!\w)(?:w/o|without|before|base(?:line)?|vanilla|mainline|unpatched|original|stock)(?!\w)",
    re.IGNORECASE,
)
_WITH = re.compile(r"(?<!\w)(?:with|w/|after|patch(?:ed)?|new|change|diff|delta)(?!\w)|%", re.IGNORECASE)
_FIGURES = re.compile(r"\d\D{1,40}\d")
_PRINTED = re.compile(
    r"\b(?:[nu]?secs/op|ops/sec)\b|bogo ops|seconds time elapsed|Performance counter stats for"
    r"|Total time:\s+\d"
)
_OF_ROBOT = re.compile(r"\s*%stddev\s+%?change\s+%stddev")
THE_ROBOTS = "a table of the robot"
_LONGEST, _MOST_LINES = 200, 5000  # of a table that a developer wrote
_WORDS = 6  # in a line of prose
_NEAR = 6  # lines between the heads of columns and the first figures
_LEAST = 2  # rows


def table_in(lines: Iterable[MailLine]) -> str:
    """What kind of figures a text has; "": none."""
    above, rows = 0, 0  # how many lines may still be between the heads and the figures; rows so far
    printed = ""
    for _, written in islice(lines, _MOST_LINES):
        if len(written) > _LONGEST:
            continue
        line = _MARKS.sub("", written, count=1)
        if _OF_ROBOT.match(line):
            return THE_ROBOTS
        if _MMTESTS.match(line):
            return "a table of mmtests"
        if sum(word.isalpha() for word in line.split()) >= _WORDS:
            continue
        if _PRINTED.search(line):
            printed = "figures as a benchmark prints them"
        if (without := _WITHOUT.search(line)) and _WITH.search(line, without.end()):
            above, rows = _NEAR, 0
        elif above and _FIGURES.search(line):
            rows += 1
            if rows == _LEAST:
                return "a table of figures with and without a change"
        else:
            above = max(above - 1, 0)
    return printed


def refusal(called: str, table: str) -> str:
    """Why such a mail cannot be judged, and what to do instead."""
    if table == THE_ROBOTS:
        return (
            f"{called} has {table}, but no line says which commit changed which metric: give the robot's own "
            "mail, or add the lines 'noticed a -5.0% regression of METRIC on:' and 'commit: HASH'"
        )
    return (
        f"{called} is not a report of the kernel test robot: it has {table}, without the commit, the test "
        "and its parameters in lines of their own. Measure the benchmark yourself: `bigiron run WORKLOAD "
        "--kernel BASE --kernel NEW` (`bigiron workload list`); or add the lines 'noticed a -5.0% regression "
        "of BENCHMARK.METRIC on:', 'commit: HASH', 'testcase: BENCHMARK', 'parameters:' and ' test: TEST'"
    )
