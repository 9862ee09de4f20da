"""The table of further tests on which the commit has an impact: a claim for each of them.

| testcase: change | fsmark: fsmark.files_per_sec 10.2% regression |
| test machine     | 48 threads 2 sockets (Ivy Bridge-EP) with 64G memory |
| test parameters  | cpufreq_governor=performance |
|                  | filesize=9B |
"""

import re
from dataclasses import replace

from bigiron.errors import UserError
from bigiron.readers.figure import label
from bigiron.readers.robot_mail.claim import LONGEST, MailClaim, is_parameter
from bigiron.readers.robot_mail.machine import machine_of

_CELLS = re.compile(r"\s*\|\s*(testcase: change|test machine|test parameters|)\s*\|\s*(\S.*?)[\s|]*$")
_CHANGE = re.compile(
    r"(?P<benchmark>[A-Za-z0-9][\w.+-]*):\s+(?P<metric>\S+)\s+(?P<change>[-+]?\d+(?:\.\d+)?)\s?%\s+"
    r"(?P<kind>regression|improvement)$"
)
_PARAMETER = re.compile(r"([A-Za-z][\w.-]*)=(\S.*)$")
_MOST = 20


class FurtherTests:
    """The table as far as it was read."""

    def __init__(self, called: str) -> None:
        self._called = called
        self._before = ""  # the name of the last row, whatever is empty in between; "": that was another line
        self._read: list[MailClaim] = []
        self._last: MailClaim | None = None  # the one that is being read

    @property
    def claims(self) -> list[MailClaim]:
        """One for each test, in the order of the mail."""
        return [*self._read, *([self._last] if self._last else [])][:_MOST]

    def read(self, line: str) -> bool | None:
        """Whether a row of the table is understood; None: the line is none of the table."""
        if not line.strip():
            return None
        found = _CELLS.match(line)
        name = (found[1] or self._before) if found else ""
        self._before = name
        if not found or not name:
            return None
        try:
            return self._of_row(name, found[2])
        except UserError:  # a name that is too long, or a machine without a number of threads
            return False

    def _of_row(self, name: str, value: str) -> bool:
        if name == "testcase: change":
            self._read, self._last = self.claims, None
            change = _CHANGE.match(value)
            if not change or len(change["benchmark"]) > LONGEST:
                return False
            metric, is_regression = label(change["metric"], None), change["kind"] == "regression"
            self._last = MailClaim(metric, change["change"], is_regression, change["benchmark"], None, {})
        elif not self._last:
            return False
        elif name == "test machine":
            self._last = replace(self._last, machine=machine_of(value, self._called))
        elif (found := _PARAMETER.match(value)) and is_parameter(found[2]):
            parameters = {**self._last.parameters, found[1]: found[2]}
            self._last = replace(self._last, parameters=parameters)
        else:
            return False
        return True
