"""A mail of the kernel test robot that reports a regression: what was measured where, of which two commits.

No document specifies its form. Lines that are not understood are kept with their numbers, and reported.
"""

import email
import email.policy
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage

from bigiron.errors import UserError
from bigiron.readers.figure import count, label, lines, number
from bigiron.util.sanitize import sanitize

MOST_BYTES = 16 << 20  # of a mail or mbox
_MOST_FIGURES = 20_000
_MOST_UNKNOWN = 20  # lines that are kept
_MOST_CPUS = 8192
_LONGEST = 120  # characters kept of a line that is not understood
_LONGEST_READ = 1000  # characters that are read of any line
_LEAST_LEFT = 0.0005  # of a time that fell by what rounds to 100.0 %

_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_SPREAD = rf"(?:\s*(?:±|Â±|\+-)\s*({_NUMBER})%)?"
_ROW = re.compile(
    rf"\s*({_NUMBER}){_SPREAD}\s+([-+]\d\S*)?\s+({_NUMBER}){_SPREAD}\s+(\S.*?)\s*", re.IGNORECASE
)
_NOTICED = re.compile(
    r"noticed (?:an? )?([-+]?\d+(?:\.\d+)?)%\s+(regression|improvement)\s+of\s+"
    r"(\S+?)(?:\s+(?:on|due to commit)\b.*|:)?\s*$"
)
_SUBJECT = re.compile(r"([0-9a-f]{7,40})\b:?\s+(\S+)\s+([-+]?\d+(?:\.\d+)?)%\s+(regression|improvement)")
_COMMIT = re.compile(r"commit:\s*([0-9a-f]{7,40})\s*(?:\(\s*\"(.*?)\"?\s*\)\s*)?$")
_PAIR_LINE = re.compile(r"\s+([0-9a-f]{7,40}) \(\"(.*?)\"?\)\s*$")
_FIELD = re.compile(r"(testcase|test machine|config|compiler|in testcase|on test machine)\s*:\s*(\S.*?)\s*$")
_PARAMETER = re.compile(r"\s+([a-z][\w-]*):\s+(\S.*?)\s*$")
_MACHINE = re.compile(
    r"(?P<cpus>\d+) threads(?: (?P<sockets>\d+) sockets?)?(?P<processor>.*?)"
    r"(?:\s+with (?P<memory>\d+(?:\.\d+)?)\s*(?P<unit>[GT])(?:i?B)?(?: (?:of )?memory)?)?\s*$"
)
_KEYS = re.compile(r"\S+/testcase:\s*$")
_END = re.compile(r"\*{20}|disclaimer|-- $|--$|0-day ci", re.IGNORECASE)
"""What comes after the first table: those of other tests, and the signature."""
_PROFILE = re.compile(r"perf-profile\.(calltrace|children|self)\.cycles-pp\.(\S+)$")
_EMAIL_HEADER = re.compile(rb"[A-Za-z][A-Za-z0-9-]*:[ \t]")
_MBOX = re.compile(rb"^From \S.*$", re.MULTILINE)

_FURNITURE = re.compile(
    r"""\s*$ | hello[,\s] | hi\b | fyi,? | greeting | \(?please\b | https?://
    | (?:base|url|patch\ link|patch\ subject|tree|head)\s*:
    | \s*(?:commit|parameters|with\ following\ parameters|details\ are\ as\ below)\s*:?\s*$
    | \s*in\ addition\ to\ that
    | \s*if\ you\ (?:fix|come\ across) | \s*the\ same\ patch | .*kindly\ add | \s*\| | \s*\+[-+=]+ | [-=*]{4,}
    | the\ kernel\ config | \s*to\ reproduce | reported-by | closes: | link: | fixes:
    | [\s|\\/]*$ | \s*%stddev | \s*[0-9a-f]{12,40}\ [0-9a-f]{12,40}\s*$ | [-\s]+$
    | \s*(?:for\ details,\ please|thanks|intel|kernel\ test\ robot) | .*significant\ impact | .*all\ results?:
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Lines that say nothing of what was measured: greetings, rules, tags, addresses."""


@dataclass(frozen=True)
class Commit:
    """A commit as the mail names it: as many digits as it gives, and its title."""

    id: str
    title: str = ""


@dataclass(frozen=True)
class Machine:
    """The machine that the robot measured on; what the mail does not say is None or empty."""

    cpus: int
    sockets: int | None = None
    processor: str = ""
    memory_gib: float | None = None


@dataclass(frozen=True)
class Reported:
    """A row of the table. Spreads are shares of the mean; `change` is None where it is not in percent."""

    name: str
    base: float
    base_spread: float | None
    new: float
    new_spread: float | None
    change: float | None

    @property
    def profiled(self) -> str:
        """The function, or call chain innermost first, where the row is one of perf's profile."""
        found = _PROFILE.match(self.name)
        return found[2] if found else ""


@dataclass(frozen=True)
class RobotMail:
    """What a mail reports.

    ```
    RobotMail(metric='will-it-scale.per_process_ops', change=-0.524, regression=True,
              new=Commit('6d73…', 'mm: …'),
              base=Commit('99fb…', 'mm: …'), benchmark='will-it-scale',
              machine=Machine(104, 2, '(Skylake)', 192.0), parameters={'nr_task': '50%', …}, figures=[…])
    ```
    """

    metric: str
    change: float  # relative, with the sign that the metric has
    regression: bool
    new: Commit
    base: Commit | None  # None: the mail does not name the parent
    benchmark: str
    machine: Machine | None
    parameters: Mapping[str, str]
    figures: list[Reported] = field(default_factory=list)
    unknown: list[tuple[int, str]] = field(default_factory=list)
    """Lines of the mail's text that were not understood, the first of them."""
    more_unknown: int = 0

    @property
    def tasks(self) -> int | None:
        """How many tasks ran: the parameter is a number, or a share of the CPUs.

        Of hackbench it is that of groups, each of 20 senders and 20 receivers, or as many as `fds` says.
        """
        if self.benchmark == "perf-bench-sched-pipe":
            return 2
        each = (
            2 * count(self.parameters.get("fds", "20"), None, "fds") if self.benchmark == "hackbench" else 1
        )
        for name in ("nr_task", "nr_threads"):
            if given := self.parameters.get(name):
                share = given.removesuffix("%")
                if share == given:
                    return each * count(given, None, name)
                cpus = self.machine.cpus if self.machine else None
                return each * max(1, int(number(share, None, name) * cpus / 100)) if cpus else None
        return None

    @property
    def tasks_at_once(self) -> int | None:
        """How many of them can run at a time: no more than there are CPUs."""
        return min(self.tasks, self.machine.cpus) if self.tasks and self.machine else self.tasks

    @property
    def throughput_change(self) -> float:
        """Of operations per second: a time that grows is a throughput that falls."""
        return (
            self.change if (self.change < 0) == self.regression else 1 / max(1 + self.change, _LEAST_LEFT) - 1
        )

    @property
    def headline(self) -> Reported | None:
        """The row of the metric that is complained about."""
        return next((one for one in self.figures if one.name == self.metric), None)

    @property
    def profile(self) -> list[Reported]:
        """The rows of perf's profile, the largest change first."""
        found = [one for one in self.figures if one.profiled]
        return sorted(found, key=lambda one: -abs(one.new - one.base))


def read(content: bytes, called: str) -> RobotMail:
    """Read a mail, an mbox or a mail's bare text; UserError says what the report lacks."""
    if len(content) > MOST_BYTES:
        raise UserError(f"{called} has {len(content) >> 20} MiB, and at most {MOST_BYTES >> 20} MiB are read")
    if b"\0" in content:
        raise UserError(f"{called} is not text: give the report as a mail, an mbox or text")
    for subject, text in (tuple(map(_harmless, mail)) for mail in _mails(content, called)):
        if _is_report(subject, text):
            return _Reading(called).of(subject, text)
    raise UserError(
        f"{called} reports no regression: no line says 'kernel test robot noticed a -52.4% regression of …'; "
        "give the robot's whole mail"
    )


def _harmless(text: str) -> str:
    """A text whose lines are short enough to be matched, and which steers no terminal."""
    plain = text.replace("\r\n", "\n").replace("\xa0", " ")
    return sanitize("\n".join(line[:_LONGEST_READ] for line in plain.split("\n")))


def _mails(content: bytes, called: str) -> Iterator[tuple[str, str]]:
    """Subject and text of each; of bare text the subject is empty."""
    content = content.lstrip()
    starts = [match.end() for match in _MBOX.finditer(content)] if content.startswith(b"From ") else []
    if starts:
        ends = [*[match.start() for match in _MBOX.finditer(content)][1:], len(content)]
        pieces = [content[start:end].lstrip(b"\r\n") for start, end in zip(starts, ends, strict=True)]
    else:
        pieces = [content]
    for piece in pieces:
        first_line = piece.partition(b"\n")[0]
        is_mail = _EMAIL_HEADER.match(piece) and not first_line.startswith((b"commit:", b"testcase:"))
        try:
            yield _parts(piece) if is_mail else ("", piece.decode("utf-8", "replace"))
        except RecursionError:
            raise UserError(
                f"{called}: the mail's parts are nested too deep: give the report's text"
            ) from None


def _parts(piece: bytes) -> tuple[str, str]:
    mail = email.message_from_bytes(piece, policy=email.policy.default)
    assert isinstance(mail, EmailMessage)
    subject = str(mail.get("subject", ""))
    body = mail.get_body(("plain",))
    if body is None:
        return subject, ""
    try:
        return subject, str(body.get_content())
    except (LookupError, ValueError):  # an unknown charset, or a broken transfer encoding
        payload = body.get_payload(decode=True)
        return subject, payload.decode("latin-1") if isinstance(payload, bytes) else ""


def _is_report(subject: str, text: str) -> bool:
    plain = _unquoted(text)
    written = [line for _, line in lines(plain)]
    by_subject = _SUBJECT.search(subject) and any(_FIELD.match(line) for line in written)
    return bool(by_subject) or any(map(_NOTICED.search, written))


def _unquoted(text: str) -> str:
    """The text of a mail that is quoted whole in an answer, without the marks."""
    found = [line for _, line in lines(text)]
    quoted = sum(line.startswith(">") for line in found)
    while 2 * quoted > len([line for line in found if line.strip()]):
        found = [re.sub(r"^> ?", "", line) for line in found]
        quoted = sum(line.startswith(">") for line in found)
    return "\n".join(found)


class _Reading:
    """What the lines have said so far."""

    def __init__(self, called: str) -> None:
        self._called = called
        self._metric, self._change, self._regression = "", 0.0, True
        self._new: Commit | None = None
        self._named: list[Commit] = []
        self._fields: dict[str, str] = {}
        self._parameters: dict[str, str] = {}
        self._figures: list[Reported] = []
        self._unknown: list[tuple[int, str]] = []
        self._more_unknown = 0
        self._in_parameters = False
        self._keys: list[str] = []  # of the line of values that comes next
        self._at_end = False

    def of(self, subject: str, text: str) -> RobotMail:
        """All that a mail says."""
        if found := _SUBJECT.search(" ".join(subject.split())):
            self._new = Commit(found[1])
            self._metric, self._change = found[2], _signed(found[3])
            self._regression = found[4] == "regression"
        for at, line in lines(_unquoted(text)):
            self._line(at, line.rstrip())
        return self._whole()

    def _line(self, at: int, line: str) -> None:
        if self._at_end:
            return
        if self._new and _END.match(line):
            self._at_end = True
        elif self._keys or _KEYS.match(line):
            self._values(line)
        elif not (self._of_table(at, line) or self._of_head(line) or _FURNITURE.match(line)):
            self._not_understood(at, line)

    def _of_head(self, line: str) -> bool:
        if found := _NOTICED.search(line):
            self._metric, self._change = label(found[3], None), _signed(found[1])
            self._regression = found[2] == "regression"
        elif found := _COMMIT.match(line):
            self._new = Commit(found[1], found[2] or "")
        elif found := _FIELD.match(line):
            self._fields.setdefault(found[1].split()[-1], found[2])
        elif re.match(r"\s*(with following )?parameters:\s*$", line):
            self._in_parameters = True
            return True
        elif self._in_parameters and (found := _PARAMETER.match(line)):
            self._parameters.setdefault(found[1], label(found[2], None))
            return True
        elif self._new and (found := _PAIR_LINE.match(line)):
            self._named.append(Commit(found[1], found[2]))
        else:
            return False
        self._in_parameters = False
        return True

    def _values(self, line: str) -> None:
        """The table's head: names of parameters with slashes between them, and below it their values."""
        if not self._keys:
            self._keys = line.strip().rstrip(":").split("/")
            return
        given = line.strip().split("/")
        if len(given) == len(self._keys):
            for key, value in zip(self._keys, given, strict=True):
                self._parameters.setdefault(key, label(value, None))
        self._keys = []

    def _of_table(self, at: int, line: str) -> bool:
        found = _ROW.fullmatch(line)
        if not found or len(self._figures) >= _MOST_FIGURES:
            return False
        base, base_spread, change, new, new_spread, name = found.groups()
        relative = change[:-1] if change and change.endswith("%") else None
        try:
            row = Reported(
                label(name, at),
                float(base),
                _share(base_spread),
                float(new),
                _share(new_spread),
                _share(relative),
            )
        except (ValueError, UserError):  # a change such as +Inf%, a name that is too long
            return False
        self._figures.append(row)
        return True

    def _not_understood(self, at: int, line: str) -> None:
        if len(self._unknown) < _MOST_UNKNOWN:
            self._unknown.append((at, line.strip()[:_LONGEST]))
        else:
            self._more_unknown += 1

    def _whole(self) -> RobotMail:
        if not self._new:
            raise self._lacks("which commit it complains about", 'commit: 1234567890ab ("title")')
        benchmark = self._fields.get("testcase") or self._parameters.pop("testcase", "")
        if not benchmark:
            raise self._lacks("which benchmark was run", "testcase: will-it-scale")
        machine = _machine(self._fields["machine"], self._called) if "machine" in self._fields else None
        base = next((one for one in self._named if not _same(one.id, self._new.id)), None)
        title = self._new.title or next((one.title for one in self._named if _same(one.id, self._new.id)), "")
        found = RobotMail(
            metric=self._metric,
            change=self._signed_change(),
            regression=self._regression,
            new=Commit(self._new.id, title),
            base=base,
            benchmark=label(benchmark, None),
            machine=machine,
            parameters=self._parameters,
            figures=self._figures,
            unknown=self._unknown,
            more_unknown=self._more_unknown,
        )
        try:
            _ = found.tasks  # refused before a kernel is built for it
        except UserError as error:
            raise UserError(f"{self._called}: {error}") from None
        return found

    def _signed_change(self) -> float:
        """What is reported, with the sign that the table has: the text may leave it out."""
        row = next((one for one in self._figures if one.name == self._metric), None)
        return math.copysign(self._change, row.change) if row and row.change else self._change

    def _lacks(self, what: str, form: str) -> UserError:
        return UserError(
            f"{self._called} does not say {what} (no line '{form}'): it may be cut short; give the whole mail"
        )


def _same(one: str, other: str) -> bool:
    """Whether two names, of which one may be shortened, are one commit's."""
    return one.startswith(other) or other.startswith(one)


def _signed(percent: str) -> float:
    """The metric's change as a share.

    >>> _signed("-52.4"), _signed("+94.7")
    (-0.524, 0.947)
    """
    return round(number(percent.lstrip("+-"), None, "the change") / 100, 6) * (
        -1 if percent.startswith("-") else 1
    )


def _share(percent: str | None) -> float | None:
    return None if percent is None else round(float(percent) / 100, 6)


def _machine(text: str, called: str) -> Machine:
    """Of the mail's words.

    >>> _machine("104 threads 2 sockets (Skylake) with 192G memory", "a mail")
    Machine(cpus=104, sockets=2, processor='(Skylake)', memory_gib=192.0)
    """
    found = _MACHINE.match(text)
    if not found:
        raise UserError(f"{called}: the test machine is {text[:80]!r}: it has no number of threads")
    cpus = count(found["cpus"], None, "threads")
    if cpus > _MOST_CPUS:
        raise UserError(f"{called}: a test machine of {cpus} threads: Linux has {_MOST_CPUS} CPUs at most")
    sockets = count(found["sockets"], None, "sockets") if found["sockets"] else None
    gib = float(found["memory"]) * (1024 if found["unit"] == "T" else 1) if found["memory"] else None
    return Machine(cpus, sockets, found["processor"].strip(), gib)
