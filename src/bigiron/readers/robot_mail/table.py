"""The tables of a mail, and which of them is of the test and the machine that the mail is about."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bigiron.errors import UserError
from bigiron.readers.figure import label
from bigiron.readers.robot_mail.model import Commit, Reported, ReportedMachine
from bigiron.readers.robot_mail.processor import code_name_in, code_name_of_group

MOST_FIGURES = 20_000  # rows of a mail
MOST_COLUMNS = 5
_MOST_KEYS = 64
_MOST_SLASHES = 8  # in the values of a table
_ROUNDED = 0.0006  # of a share that is printed in percent with one decimal

_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_SPREAD = r"(?:\+/?-|\?|~|[^\x00-\x7f\s]{1,3})"
"""± as mails have it: also in ASCII, and what a wrong character set makes of it."""
_VALUE = re.compile(rf"\s*({_NUMBER})(?:\s*{_SPREAD}\s*({_NUMBER}|-?nan)%)?(?=\s)", re.IGNORECASE)
_CHANGE = re.compile(r"\s+([-+](?:\d|inf|nan)\S*|\d[\d.]*%)(?=\s)", re.IGNORECASE)
_OF_ALL = re.compile(r"(?:TOTAL|GEO-MEAN)\s+")
_VERSION = re.compile(r"(?:(?<![a-z])|patch|rfc)v0*(\d+(?:\.\d+)?)(?![a-z\d])", re.IGNORECASE)
_OF_PATCH = re.compile(r"(?<![a-z])(?:patch|rfc)|(?<![a-z\d])\d+/\d", re.IGNORECASE)
_COLUMNS = re.compile(
    r"\s*((?:v\d\S*|[0-9a-f]{12,40})(?:\s+(?:v\d\S*|[0-9a-f]{12,40}))+)(?:\s+(test\w+(?:/test\w+)+))?\s*$"
)


@dataclass(frozen=True)
class MetricValue:
    """A value in a row: its spread as a share of it, and the change to the first column as it is printed."""

    value: float
    spread: float | None
    change: str = ""


@dataclass(frozen=True)
class MetricRow:
    """A metric's values, one for each commit; the first is that of the base."""

    name: str
    columns: tuple[MetricValue, ...]
    of_all: bool = False
    """Whether it is the sum or the mean of the rows of tests before it."""

    def of(self, position: int) -> Reported | None:
        """The base compared with one commit; None if the row has no value for it."""
        if position >= len(self.columns):
            return None
        base, new = self.columns[0], self.columns[position]
        return Reported(
            self.name, base.value, base.spread, new.value, new.spread, relative_change(new.change)
        )


@dataclass
class MailTable:
    """A table as far as it was read."""

    at: int = 0  # its first line
    keys: Mapping[str, str] = field(default_factory=dict)
    has_unclear_keys: bool = False
    """Whether it has keys whose values were not understood."""
    machine: ReportedMachine | None = None
    """As the line before a table of another machine describes it; None: there is no such line."""
    commits: list[Commit] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    """The commits in the line above the rows, cut short; [] if it has none."""
    test: str = ""
    """The test whose name the keys are taken from."""
    order: Sequence[str] = ()
    """The parts of the names of tests in its rows."""
    tests: list[str] = field(default_factory=list)
    """The names of tests in rows since the last row of all."""
    rows: list[MetricRow] = field(default_factory=list)

    def figures(self, new: Commit) -> list[Reported]:
        """The rows as they compare the base with a commit."""
        position = self.position(new)
        found = [row.of(position) for row in self.rows] if position else []
        return [one for one in found if one]

    def position(self, new: Commit) -> int:
        """The column of a commit, which may have been rebased; 0 if it has none."""
        if not self._known:
            return 1
        return self._position(new.id) or self._position(self.rebased(new))

    def rebased(self, new: Commit) -> str:
        """What a commit is called here if only its title is the same: one that was rebased; "": it is not.

        Another version of a patch is another commit. Git drops what patches have before their titles: a
        title without that may be of any version.
        """
        if self._position(new.id) or not _subject(new.title):
            return ""
        found = [one.id for one in self.commits if _may_be(one.title, new.title)]
        return found[0] if len(found) == 1 and self._position(found[0]) else ""

    def _position(self, commit: str) -> int:
        return next((at for at, one in enumerate(self._known) if at and commit and is_same(one, commit)), 0)

    def base(self, new: Commit) -> Commit | None:
        """What a commit is compared with; None if the table does not say, or does not have the commit."""
        if not self._known or not self._position(new.id):
            return None
        first = self._known[0]
        return next((one for one in self.commits if is_same(one.id, first)), Commit(first))

    @property
    def _known(self) -> list[str]:
        """The commits of its columns: in their list, unless the line above the rows has more of them."""
        if len(self.commits) < len(self.columns):
            return self.columns
        return [one.id for one in self.commits]


@dataclass(frozen=True)
class About:
    """What a table must be of."""

    metric: str
    change: float
    benchmark: str
    machine: ReportedMachine | None
    parameters: Mapping[str, str]
    new: Commit


def choose(tables: list[MailTable], about: About) -> tuple[MailTable | None, list[tuple[MailTable, str]]]:
    """The table of the mail's own test, commit and machine, and why the others are not: None if all others.

    Of several, one with the row of the headline, and of these one with keys: answers repeat a part.
    """
    why = [(one, why_not(one, about)) for one in tables if one.rows]
    fitting = [one for one, reason in why if not reason]
    fitting.sort(key=lambda one: (not _has(one, about.metric), not one.keys))
    found = next(iter(fitting), None)
    return found, [(one, reason) for one, reason in why if reason]


def _has(table: MailTable, metric: str) -> bool:
    return any(row.name == metric for row in table.rows)


def of_benchmark(tables: Iterable[MailTable], benchmark: str, new: Commit) -> list[MailTable]:
    """The tables of a benchmark and a commit, whatever their figures."""
    return [one for one in tables if one.keys.get("testcase") == benchmark and one.position(new)]


def shared_keys(tables: Sequence[MailTable]) -> dict[str, str]:
    """What the tables agree on."""
    first = tables[0].keys if tables else {}
    return {
        name: value for name, value in first.items() if all(one.keys.get(name) == value for one in tables)
    }


def why_not(table: MailTable, about: About) -> str:
    """Why a table is not of the test, the commit and the machine that the mail is about; "": it is."""
    if (test := table.keys.get("testcase", about.benchmark)) != about.benchmark:
        return f"it is of {test}"
    if of_machine := _other_machine(table, about.machine):
        return f"it is of another machine ({of_machine})"
    for name, given in about.parameters.items():
        if name in table.keys and _plain(given) != _plain(table.keys[name]):
            return f"its {name} is {table.keys[name]}, and the report's parameter {given}"
    if not table.position(about.new):
        return "it does not have the commit as its second column"
    changes = [one.relative for one in table.figures(about.new) if one.name == about.metric]
    if table.rebased(about.new) and not changes:
        return f"it has another commit of the same title, without {about.metric}"
    if table.has_unclear_keys and not changes:
        return "its parameters were not understood"
    if changes and not any(_is_reported(change, about.change) for change in changes):
        printed = f"{changes[0]:+.1%}" if changes[0] is not None else "otherwise"
        return f"its {about.metric} changes {printed}, and the reported change is {about.change:.1%}"
    return ""


def row(line: str) -> MetricRow | None:
    """A row of a table; None if the line is none.

    >>> row("      0.02 ± 10%      -0.0        0.02 ±  7%  mpstat.cpu.all.soft%").of(1)
    Reported(name='mpstat.cpu.all.soft%', base=0.02, base_spread=0.1, new=0.02, new_spread=0.07, change=None)
    """
    columns: list[MetricValue] = []
    at = 0
    while len(columns) < MOST_COLUMNS:
        changed = _CHANGE.match(line, at) if columns else None
        found = _VALUE.match(line, changed.end() if changed else at)
        if not found:
            break
        spread = relative_change(f"+{found[2]}%") if found[2] else None
        columns.append(MetricValue(float(found[1]), spread, changed[1] if changed else ""))
        at = found.end()
    name = _OF_ALL.sub("", line[at:].strip(), count=1)
    if len(columns) < 2 or not name or not all(math.isfinite(one.value) for one in columns):
        return None
    try:
        return MetricRow(label(name, None), tuple(columns), bool(_OF_ALL.match(line[at:].strip())))
    except UserError:  # a name that is too long
        return None


def header(line: str) -> tuple[list[str], Sequence[str]] | None:
    """The commits in the line above a table's rows, and the parts of tests' names; None: it is another line.

    >>> header("75485363ce85526  e82e0561dae9f3ae5a21fc2d3")
    (['75485363ce85526', 'e82e0561dae9f3ae5a21fc2d3'], [])
    """
    found = _COLUMNS.match(line)
    commits = found[1].split() if found else []
    if not found or all(one.startswith("v") for one in commits):
        return None
    return commits[:MOST_COLUMNS], found[2].split("/") if found[2] else []


def relative_change(printed: str) -> float | None:
    """A change or spread in percent as a share; None where it is a difference, or not finite.

    >>> relative_change("-52.4%"), relative_change("+20.1"), relative_change("+Inf%")
    (-0.524, None, None)
    """
    if not printed.endswith("%"):
        return None
    try:
        share = float(printed[:-1].lstrip("+")) / 100
    except ValueError:
        return None
    return round(share, 6) if math.isfinite(share) else None


def keyed(names: list[str], line: str, known: Mapping[str, str]) -> dict[str, str]:
    """The values of a table's keys; {}: they were not understood.

    Where values contain slashes, those of the known parameters tell them apart, and only these are returned.

    >>> keyed(["bs", "disk", "rw"], "  4k/dev/sdb/write", {"bs": "4k", "disk": "dev/sdb"})
    {'bs': '4k', 'disk': 'dev/sdb'}
    """
    fields = line.strip().split("/")
    if len(fields) == len(names):
        return dict(zip(names, fields, strict=True))
    if not len(names) < len(fields) <= min(len(names) + _MOST_SLASHES, _MOST_KEYS):
        return {}
    values_of = zip(names, _aligned(names, fields, known), strict=True)
    return {name: value for name, value in values_of if name in (*known, "tbox_group")}


def is_same(one: str, other: str) -> bool:
    """Whether two names, of which one may be shortened, are those of one commit."""
    return one.startswith(other) or other.startswith(one)


def _aligned(names: list[str], fields: list[str], known: Mapping[str, str]) -> list[str]:
    """The values, of one field or more each, that differ least from the known ones."""

    def cost(name: str, value: list[str]) -> int:
        if name not in known:
            return len(value) - 1
        return 0 if _plain("/".join(value)) == _plain(known[name]) else len(fields)

    best: dict[int, tuple[int, list[str]]] = {0: (0, [])}  # by the number of fields that are used
    for position, name in enumerate(names, 1):
        most = len(fields) - (len(names) - position)
        best = {
            end: min(
                (spent + cost(name, fields[start:end]), [*values, "/".join(fields[start:end])])
                for start, (spent, values) in best.items()
                if start < end
            )
            for end in range(position, most + 1)
        }
    return best[len(fields)][1]


def _other_machine(table: MailTable, machine: ReportedMachine | None) -> str:
    """The machine of a table that is not the mail's; "": it is the mail's, as far as one can tell."""
    if machine is None:
        return ""
    group = table.keys.get("tbox_group", "")
    if table.machine and table.machine.cpus != machine.cpus:
        return f"{group or 'one'} of {table.machine.cpus} CPUs"
    ours, theirs = code_name_in(machine.processor), code_name_of_group(group)
    return f"{group}: {theirs}" if ours and theirs and ours != theirs else ""


def _is_reported(change: float | None, reported: float) -> bool:
    """Whether a row's change has the size that the mail's first line reports; older mails round to 1 %."""
    if change is None:
        return False
    rounded = _ROUNDED * 10 if abs(change * 100 % 1) < 1e-9 else _ROUNDED
    return abs(abs(change) - abs(reported)) <= max(rounded, 0.01 * abs(reported) if abs(reported) > 1 else 0)


def _subject(title: str) -> str:
    """A title without what patches have before it.

    >>> _subject("[PATCH v2 1/3] mm: a change")
    'mm: a change'
    """
    return re.sub(r"^(?:\[[^\]]*\]\s*)+", "", title)


def _may_be(title: str, reported: str) -> bool:
    """Whether a commit with a title may be the reported one, rebased.

    >>> reported = "[PATCH 1/3] mm: a change"
    >>> [_may_be(f"{tag}mm: a change", reported) for tag in ("", "[PATCH v1 1/2] ", "[PATCH v2 1/3] ")]
    [True, True, False]
    """
    version = _version(title)
    return _subject(title) == _subject(reported) and version in ("", _version(reported))


def _version(title: str) -> str:
    """The version of a patch, which is 1 where its title has none; "": the title is that of a commit.

    >>> [_version(f"[{tag}] mm: a change") for tag in ("RFCv2 PATCH", "PATCH_v2.1", "1/3", "tip: mm/urgent")]
    ['2', '2.1', '1', '']
    """
    tag = title.removesuffix(_subject(title))
    found = _VERSION.search(tag)
    return found[1] if found else "1" if _OF_PATCH.search(tag) else ""


def _plain(value: str) -> str:
    """A parameter without what file names have no room for."""
    return re.sub(r"[^a-z0-9%.]", "", value.lower())
