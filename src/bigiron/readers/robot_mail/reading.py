"""The lines of a report: a state machine that keeps what each of them says."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bigiron.errors import UserError
from bigiron.readers.figure import label
from bigiron.readers.robot_mail import table as tables
from bigiron.readers.robot_mail import unnamed
from bigiron.readers.robot_mail.claim import LONGEST, MailClaim, is_parameter, mail_of
from bigiron.readers.robot_mail.envelope import MailLine
from bigiron.readers.robot_mail.further import FurtherTests
from bigiron.readers.robot_mail.machine import machine_of
from bigiron.readers.robot_mail.metric import benchmark_in, better, is_of_operations
from bigiron.readers.robot_mail.model import Commit, Elsewhere, ReportedMachine, RobotMail
from bigiron.readers.robot_mail.table import MOST_COLUMNS, MOST_FIGURES, MailTable, MetricRow, is_same

_MOST_UNKNOWN = 20  # lines that are kept
_MOST_TABLES = 200
_MOST_OTHERS = 20  # branches, and commits
_LONGEST_KEYS = 1000  # characters of a table's values

NOTICED = re.compile(
    r"noticed (?:an? |a\(n\) )?([-+]?\d+(?:\.\d+)?)\s?%\s+(regression|improvement)\s+of\s+"
    r"(\S+?)(?:\s+(?:on|due)\b.*|:)?\s*$"
)
SUBJECT = re.compile(r"([0-9a-f]{7,40})\b:?\s+(\S+)\s+([-+]?\d+(?:\.\d+)?)%\s+(regression|improvement)")
FIELD = re.compile(r"(?:(?:[Ii]n|[Oo]n) )?([Tt]estcase|[Tt]est machine|config|compiler)\s*:\s*(\S.*?)\s*$")
_OF_NOTICE = r"commit(?::\s*|\s+)([0-9a-f]{7,40})\s*(?:\(\s*\"(.*?)\"?\s*\)?\s*)?$"
COMMIT = re.compile(rf"(?:due to )?{_OF_NOTICE}")
_DUE_TO = re.compile(rf"\bdue to {_OF_NOTICE}")
"""The commit in the line of the regression itself."""
_OF_TABLE = re.compile(r"\s*([0-9a-f]{7,40}|v\d[\w.+-]*)(?:\s+\(\"?(.*?)\"?\)?)?(?:\s*(?:<-|=\s).*)?\s*$")
"""A commit that a table compares, with its title, and what a developer adds to it."""
_PARAMETERS = re.compile(r"\s*(?:with following )?parameters:(\s*|\s+[a-z][\w.-]*:\s.*)$", re.IGNORECASE)
_PARAMETER = re.compile(r"\s*([A-Za-z][\w.-]*):\s+(\S.*?)\s*$")
_IN_ONE_LINE = re.compile(r"\s+(?=[a-z][\w.-]*:\s)")
"""What is between the parameters of a mail whose lines became one."""
_OF_METRIC = {"mode"}
"""The parameter that is filled in from the metric."""
_DESCRIBED = ("test-description", "test-url")
"""Fields that follow the parameters, where a text lost its empty lines."""
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*$")
_ELSEWHERE = re.compile(r"\[((?:still |test )?[a-z ]{1,40}) on\s+(\S+)\s+([0-9a-f]{7,40})\]\s*$")
_HARDWARE = re.compile(r"(model|nr_node|nr_cpu|memory|brand):\s+(\S.*?)\s*$")
_NODES = ("1", "2", "4", "8")
_OTHER_MACHINE = re.compile(r"([a-z][\w-]*): (\d{1,6} threads.*)$")
KEYS = re.compile(r"\s*[\w.-]+(?:/[\w.-]+)+:\s*$")
_NEXT = re.compile(r"\*{20}")
"""The line between the tables of a mail."""
_END = re.compile(r"disclaimer|-- $|--$|0-day ci", re.IGNORECASE)
"""What follows a report: of that, only tables are read."""

_FURNITURE = re.compile(
    r"""\s*$ | hello[,\s] | hi\b | fyi,? | greeting | \(?please\b | https?://
    | (?:base|url|patch\ link|patch\ subject|tree|head|test-description|test-url)\s*:
    | \s*(?:commit|parameters|with\ following\ parameters|details\ are\ as\ below|to\ reproduce)\s*:?\s*$
    | \s*in\ addition\ to\ that
    | \s*if\ you\ (?:fix|come\ across) | \s*the\ same\ patch | .*kindly\ add | \s*\| | \s*\+[-+=]+ | [-=*]{4,}
    | the\ kernel\ config | reported-by | closes: | link: | fixes:
    | [\s|\\/]*$ | \s*%stddev | \s*(?:[0-9a-f]{12,40}|v\d\S*)(?:\ +[0-9a-f]{12,40})+\s*$ | [-\s]+$
    | > | \s*fail:runs | \s*\d*:\d+\s | \s*(?:git\ clone|cd\ lkp|sudo\ bin/|bin/lkp|lkp|\#)(?:\s|-tests|lkp\s)
    | \s{8,}[\w.+-]+\s*$
    | \s*[\d.e+]+\s+[|+*O][-+|\s.:*O\#X]*$ | \s*[*O][*O\s]*\|?$ | \s*\[[*O]\]\s+bisect
    | git:// | legend: | \s*(?:~XX%|\[\+-\]XX%) | memory:\s\d | lkp-\w+:\s[A-Z]
    | \s*(?:apt-get|bin/(?:setup|run)-local)\s
    | \s*(?:for\ details,\ please|thanks|intel|kernel\ test\ robot) | .*significant\ impact | .*all\ results?:
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Lines that say nothing of what was measured: greetings, rules, tags, addresses, plots, quotes."""


class MailReader:
    """What the lines have said so far."""

    def __init__(self, called: str) -> None:
        self._called = called
        self._metric, self._change, self._regression = "", "", True
        self._of_subject: list[str] = []  # what the metrics in the mail's subject begin with
        self._commits: list[Commit] = []  # of the lines "commit: …"
        self._before: int | None = None  # how many of them come before the line of the regression
        self._fields: dict[str, str] = {}
        self._parameters: dict[str, str] = {}
        self._tables = [MailTable()]
        self._rows = 0
        self._keys: list[str] = []  # of the line of values that comes next
        self._begun = ""  # the first half of that line
        self._unknown: list[tuple[int, str]] = []
        self._more_unknown = 0
        self._notes: list[str] = []
        self._assumptions: list[str] = []
        self._elsewhere: list[Elsewhere] = []
        self._further = FurtherTests(called)
        self._hardware: dict[str, str] = {}  # of the machine of the table that comes next
        self._block = ""  # "parameters" or "commits": what the lines belong to
        self._at_end = False

    def of(self, subject: str, lines: list[MailLine]) -> RobotMail:
        """All that a mail says."""
        found = SUBJECT.search(subject)
        self._of_subject = [found[2].partition(".")[0]] if found else unnamed.benchmarks_in(subject)
        for at, line in lines:
            self._line(at, line.rstrip())
        if found and not self._metric:
            self._metric, self._change = found[2], found[3]
            self._regression = found[4] == "regression"
        found = found or unnamed.SUBJECT.search(subject)
        new = self._complained_about(found[1] if found else "")
        benchmark = self._benchmark(subject)
        if not self._metric:
            self._of_unnamed(subject, benchmark)
        return self._whole(benchmark, new)

    def _of_unnamed(self, subject: str, benchmark: str) -> None:
        """The metric and change of a mail that says neither in its text: its subject's, else the table's."""
        rows = [row for one in self._tables for row in one.rows if row.name.startswith(f"{benchmark}.")]
        if found := unnamed.change_in(subject, benchmark):
            self._metric, self._change, self._regression = found
        elif rows:
            row = max(rows, key=_by_weight)
            less = better(row.name) == "less"
            self._metric, self._change = row.name, row.columns[1].change.rstrip("%")
            self._regression = self._change.startswith("-") != less
            if len(rows) > 1:
                self._assumptions.append(
                    f"no line says which metric is reported, so {row.name} is taken, which changed most"
                )
        if not re.fullmatch(r"[-+]?\d+(?:\.\d+)?", self._change):
            raise self._lacks("which metric changed", "noticed a -5.0% regression of fsmark.files_per_sec")

    def _complained_about(self, in_subject: str) -> Commit:
        """The subject's commit, else the one after the line of the regression: it may cite other reports."""
        given = [*self._commits[self._before or 0 :], *self._commits]
        of_subject = (one for one in given if in_subject and is_same(one.id, in_subject))
        found = next(of_subject, Commit(in_subject) if in_subject else next(iter(given), None))
        if not found:
            raise self._lacks("which commit it complains about", 'commit: 1234567890ab ("title")')
        return found

    def _line(self, at: int, line: str) -> None:
        if self._fields and _END.match(line):
            self._at_end = True
            self._tables.append(MailTable(at))
        elif self._keys and line.strip():
            self._values(at, line)
        elif (understood := self._further.read(line)) is not None:
            if not understood:
                self._not_understood(at, line)
        elif _NEXT.match(line) or KEYS.match(line):
            self._begin_table(at, line)
        elif not (
            self._of_block(at, line)
            or self._of_columns(at, line)
            or self._of_table(at, line)
            or self._at_end
            or self._of_head(line)
            or _FURNITURE.match(line)
        ):
            self._not_understood(at, line)

    def _begin_table(self, at: int, line: str) -> None:
        """The line between two tables, or a table's keys: names of parameters with slashes between them."""
        self._block = ""
        if KEYS.match(line):
            names = line.strip().rstrip(":").split("/")
            if "testcase" not in names or len(self._tables) == _MOST_TABLES:
                self._not_understood(at, line)
                return
            self._keys = names
        self._new_table(at)
        self._tables[-1].machine = self._described() or self._tables[-1].machine

    def _new_table(self, at: int) -> None:
        """A further table, unless the last one is still empty."""
        last = self._tables[-1]
        if (last.rows or last.commits or last.columns or last.keys) and len(self._tables) < _MOST_TABLES:
            self._tables.append(MailTable(at))

    def _described(self) -> ReportedMachine | None:
        """The machine of the lines "model: Skylake", "nr_cpu: 36" above a table of a keeper's answer."""
        given, self._hardware = self._hardware, {}
        if not given.get("nr_cpu", "").isdecimal():
            return None
        size = given.get("memory", "")
        with_memory = f" with {size} memory" if re.fullmatch(r"\d+[GT]", size) else ""
        words = f"{given['nr_cpu']} threads {given.get('brand', '')} ({given.get('model', '')}){with_memory}"
        found = machine_of(words, self._called)
        return replace(found, sockets=int(given["nr_node"])) if given.get("nr_node") in _NODES else found

    def _values(self, at: int, line: str) -> None:
        """Of the keys in the line before; a program that sends answers may have cut them in two."""
        begun, self._begun = self._begun, ""
        more = "" if " " in line.strip() or line.endswith(":") else line.strip()
        whole = begun + more if begun else line.strip()
        is_cut = whole.count("/") < len(self._keys) - 1 or whole.endswith("-")
        if is_cut and "/" in line and (more or not begun) and len(whole) < _LONGEST_KEYS:
            self._begun = whole
            return
        known = {**self._parameters, "testcase": self._fields.get("testcase", "")}
        found = tables.keyed(self._keys, whole, known)
        if not found:
            self._not_understood(at, whole)
        last = self._tables[-1]
        last.at = last.at or at
        last.keys, last.has_unclear_keys = found, not found
        self._keys = []
        if begun and not more:
            self._line(at, line)

    def _of_block(self, at: int, line: str) -> bool:
        """A parameter, or a commit that a table compares."""
        if re.match(r"\s*commit:\s*$", line):
            if self._tables[-1].rows and len(self._tables) < _MOST_TABLES:
                self._tables.append(MailTable(at))
            self._block = "commits"
        elif self._at_end and self._block != "commits":
            return False
        elif found := _PARAMETERS.match(line):
            self._block = "parameters"
            if of_line := _PARAMETER.match(found[1]):
                return self._parameter(of_line[1], of_line[2])
        elif self._block == "commits" and (found := _OF_TABLE.match(line)):
            if len(self._tables[-1].commits) < MOST_COLUMNS:
                self._tables[-1].commits.append(Commit(found[1], found[2] or ""))
        elif self._block == "parameters" and line.strip() and (found := _PARAMETER.match(line)):
            return self._parameter(found[1], found[2])
        else:
            if line.strip() or self._parameters:
                self._block = ""
            return False
        return True

    def _parameter(self, name: str, value: str) -> bool:
        """False where it cannot be one: it is listed with the lines that were not understood."""
        if name in _DESCRIBED:
            return True
        first, *others = _IN_ONE_LINE.split(value)
        given = [(name, first), *((one, other) for one, _, other in (two.partition(":") for two in others))]
        read = [(one, other.strip()) for one, other in given if is_parameter(other.strip())]
        for one, other in read:
            self._parameters.setdefault(one, other)
        return len(read) == len(given)

    def _of_columns(self, at: int, line: str) -> bool:
        """The line above a table's rows, or the name of a test without keys."""
        if found := tables.header(line):
            if self._tables[-1].columns != found[0] and self._tables[-1].rows:
                self._new_table(at)
            self._tables[-1].columns, self._tables[-1].order = found
            self._block = ""
        elif test := unnamed.TEST.match(line):
            self._new_table(at)
            self._of_test(self._tables[-1], test["test"], (test["order"] or "").split("/"))
        else:
            return False
        return True

    def _of_test(self, table: MailTable, test: str, order: Sequence[str]) -> None:
        """Take the keys of a test whose parameters have no names; of several tests, what they share."""
        keys = unnamed.keys(test, order, [*self._of_subject, self._metric.partition(".")[0]])
        shared = {name: value for name, value in keys.items() if table.keys.get(name, value) == value}
        table.keys = {name: shared[name] for name in shared if name in (table.keys or shared)}
        table.test = test

    def _of_table(self, at: int, line: str) -> bool:
        if found := _OTHER_MACHINE.match(line):
            self._tables[-1].machine = machine_of(found[2], self._called)
            return True
        row = tables.row(line)
        if row and unnamed.is_test(row.name):
            self._tables[-1].tests.append(row.name)
            self._of_test(self._tables[-1], row.name, self._tables[-1].order)
            return True
        if row and row.of_all:
            tests, self._tables[-1].tests = self._tables[-1].tests, []
            if len(tests) > 1:
                if row.name == self._metric or row.name.startswith(f"{self._testcases()[0]}."):
                    self._notes.append(
                        f"line {at}: {row.name} is left out: it is of {len(tests)} tests together"
                    )
                return True
        if not row or (self._rows >= MOST_FIGURES and row.name != self._metric):
            if row and self._rows == MOST_FIGURES:
                self._rows += 1
                self._notes.append(f"line {at}: only the first {MOST_FIGURES} rows of tables are read")
            return row is not None
        self._rows += 1
        self._tables[-1].at = self._tables[-1].at or at
        self._tables[-1].rows.append(row)
        return True

    def _of_head(self, line: str) -> bool:
        if found := NOTICED.search(line):
            if not self._metric:
                self._before = len(self._commits)
                self._metric, self._change = label(found[3], None), found[1]
                self._regression = found[2] == "regression"
            due = _DUE_TO.search(line)
            if due and len(self._commits) < _MOST_OTHERS:
                self._commits.append(Commit(due[1], due[2] or ""))
        elif found := COMMIT.match(line):
            if len(self._commits) < _MOST_OTHERS:
                self._commits.append(Commit(found[1], found[2] or ""))
        elif found := FIELD.match(line):
            self._fields.setdefault(found[1].lower(), found[2])
        elif found := _HARDWARE.match(line):
            self._hardware[found[1]] = found[2]
        elif found := _ELSEWHERE.match(line):
            if len(self._elsewhere) < _MOST_OTHERS:
                self._elsewhere.append(Elsewhere(found[1], label(found[2], None), found[3]))
        else:
            return False
        return True

    def _not_understood(self, at: int, line: str) -> None:
        if len(self._unknown) < _MOST_UNKNOWN:
            self._unknown.append((at, line.strip()[:LONGEST]))
        else:
            self._more_unknown += 1

    def _whole(self, benchmark: str, new: Commit) -> RobotMail:
        of_lines = self._machine()
        claim = MailClaim(self._metric, self._change, self._regression, benchmark, of_lines, self._parameters)
        try:
            found = mail_of(claim, new, self._tables, is_cut=not (self._parameters or self._fields))
        except UserError as error:  # a number of tasks that is none, before a kernel is built for it
            raise UserError(f"{self._called}: {error}") from None
        if not found.parameters.keys() - _OF_METRIC:
            self._assumptions.append("no line names the benchmark's parameters, so its defaults are assumed")
        return replace(
            found,
            unknown=self._unknown,
            more_unknown=self._more_unknown,
            notes=[*self._notes, *self._assumptions, *found.notes],
            assumptions=[*self._assumptions, *found.assumptions],
            elsewhere=self._elsewhere,
            further=list(self._of_further_tests(new)),
        )

    def _of_further_tests(self, new: Commit) -> Iterator[RobotMail]:
        for claim in self._further.claims:
            with contextlib.suppress(UserError):  # a number of tasks that is none
                found = mail_of(claim, new, self._tables)
                yield replace(found, unknown=self._unknown, more_unknown=self._more_unknown)

    def _testcases(self) -> list[str]:
        """The benchmarks of the tables; [""]: none has keys."""
        return [one.keys["testcase"] for one in self._tables if "testcase" in one.keys] or [""]

    def _benchmark(self, subject: str) -> str:
        of_tables = self._testcases()
        of_metric = (one for one in of_tables if one and one == benchmark_in(self._metric))
        in_subject = (one for one in of_tables if one and unnamed.is_of(subject, one))
        found = self._fields.get("testcase") or next(of_metric, next(in_subject, of_tables[0]))
        if not found and (found := benchmark_in(self._metric)):
            self._notes.append(f"no line names the benchmark: the metric {self._metric} is that of {found}")
        if not found:
            raise self._lacks("which benchmark was run", "testcase: will-it-scale")
        if not _NAME.match(found) or len(found) > LONGEST:
            raise UserError(
                f"{self._called}: the testcase {found[:LONGEST]!r} is not the name of a benchmark"
            )
        return found

    def _machine(self) -> ReportedMachine | None:
        given = self._fields.get("test machine")
        return machine_of(given, self._called) if given else None

    def _lacks(self, what: str, form: str) -> UserError:
        return UserError(
            f"{self._called} does not say {what} (no line '{form}'): it may be cut short; give the whole mail"
        )


def _by_weight(row: MetricRow) -> tuple[bool, float]:
    """A row's order among those that may be reported: rates and times of operations, then by its change."""
    return is_of_operations(row.name), abs(tables.relative_change(row.columns[1].change) or 0)
