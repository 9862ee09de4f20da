"""What a mail claims of one test, and what its tables add to that."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bigiron.readers.figure import number
from bigiron.readers.robot_mail import table as tables
from bigiron.readers.robot_mail.machine import completed
from bigiron.readers.robot_mail.metric import better, mode_in, parameters_in, tasks_in
from bigiron.readers.robot_mail.model import Commit, Reported, ReportedMachine, RobotMail
from bigiron.readers.robot_mail.table import About, MailTable, is_same

_MOST_NOTES = 3  # of tables
LONGEST = 120  # characters of a parameter, or of a line that is not understood
_OF_A_SHELL = re.compile(r"[$`;|&<>\\\"'*?{}\[\]#~^]")
"""Characters that no parameter of the robot's has, and that a shell would act on."""


@dataclass(frozen=True)
class MailClaim:
    """A regression, or an improvement, as a mail's lines name it."""

    metric: str
    change: str  # in percent, as it is printed
    regression: bool
    benchmark: str
    machine: ReportedMachine | None
    parameters: Mapping[str, str]

    @property
    def size(self) -> float:
        """The change as a share, with the sign that is printed.

        >>> [MailClaim("a.b", change, True, "a", None, {}).size for change in ("-52.4", "94.7")]
        [-0.524, 0.947]
        """
        size = round(number(self.change.lstrip("+-"), None, "the change") / 100, 6)
        return -size if self.change.startswith("-") else size


def is_parameter(value: str) -> bool:
    """Whether a value can be that of a parameter."""
    return not _OF_A_SHELL.search(value) and len(value) <= LONGEST and value.isprintable()


def mail_of(claim: MailClaim, new: Commit, of_mail: list[MailTable], is_cut: bool = False) -> RobotMail:
    """The claim with the figures, the parameters and the commits of the table that is of its test.

    Of a mail that is cut, whose lines give no parameters, those are taken that all tables of the test share.
    """
    about = About(claim.metric, claim.size, claim.benchmark, claim.machine, claim.parameters, new)
    chosen, others = tables.choose(of_mail, about)
    used = [chosen] if chosen else []
    is_of_others = is_cut and not (chosen and chosen.keys)
    keyed = tables.of_benchmark(of_mail, claim.benchmark, new) if is_of_others else used
    keys = tables.shared_keys(keyed)
    assumptions = list(_assumptions(claim, new, keyed if keys else used)) if chosen or keys else []
    if keys and is_of_others:
        assumptions.append("the parameters are those of tables whose figures are left out")
    figures = chosen.figures(new) if chosen else []
    of_test = [chosen] if chosen else of_mail
    commits = [one for each in of_test for one in each.commits]
    bases = {base for one in of_test if (base := one.base(new))}
    title = next((one.title for one in commits if is_same(one.id, new.id)), "")
    parameters = _parameters(claim, keys)
    machine = claim.machine or (chosen.machine if chosen else None)
    found = RobotMail(
        metric=claim.metric,
        change=_signed(claim, figures),
        regression=claim.regression,
        new=Commit(new.id, new.title or title),
        base=bases.pop() if len(bases) == 1 else None,
        benchmark=claim.benchmark,
        machine=completed(machine, parameters.get("tbox_group", "")),
        parameters=parameters,
        figures=figures,
        assumptions=assumptions,
    )
    return replace(
        found, notes=[*assumptions, *_left_out(chosen, others), *_contradictions(found, claim.change)]
    )


def _assumptions(claim: MailClaim, new: Commit, used: list[MailTable]) -> Iterator[str]:
    """What must be so for the tables to be of the report's commit and test."""
    for other in dict.fromkeys(one.rebased(new) for one in used):
        if other:
            yield f"a table's {other} has the title of {new.id[:12]}, so it is taken for the same, rebased"
    for test in dict.fromkeys(one.test for one in used):
        if test:
            yield f"the report's parameters have no names, so they are taken from {test[:LONGEST]}"


def _parameters(claim: MailClaim, keys: Mapping[str, str]) -> dict[str, str]:
    """The parameters, with those that only the table has, and those that the metric's name has or implies."""
    found = dict(claim.parameters)
    for name, value in keys.items():
        if name != "testcase" and is_parameter(value):
            found.setdefault(name, value)
    for name, value in parameters_in(claim.metric).items():
        found.setdefault(name, value)
    if mode := mode_in(claim.metric):
        found.setdefault("mode", mode)
    return found


def _signed(claim: MailClaim, figures: list[Reported]) -> float:
    """What is reported, with the sign of the table, else the mail's, else the metric's by its name.

    Nothing falls by more than 100 %: what changes by more has grown.
    """
    row = next((one for one in figures if one.name == claim.metric), None)
    if row and (changed := row.relative):
        return math.copysign(claim.size, changed)
    if not claim.change.startswith(("-", "+")):
        has_grown = claim.size > 1 or (better(claim.metric) == "less") == claim.regression
        return claim.size if has_grown else -claim.size
    return claim.size


def _left_out(chosen: MailTable | None, others: list[tuple[MailTable, str]]) -> list[str]:
    """Which tables were left out, and why: the first of them."""
    said = [f"the table at line {one.at} is left out: {why}" for one, why in others[:_MOST_NOTES]]
    if more := len(others) - len(said):
        said.append(f"{more} more tables are left out")
    if others and not chosen:
        said.append("the report has no table of its own test and machine: none of its figures are used")
    return said


def _contradictions(mail: RobotMail, printed: str) -> list[str]:
    """What a mail says twice, and differently."""
    said = []
    row, signed = mail.headline, printed.startswith(("-", "+"))
    if row and row.relative and signed and (row.relative < 0) != printed.startswith("-"):
        said.append(f"the report says {printed}% {mail.metric}, and its table {row.relative:+.1%}")
    of_metric = mode_in(mail.metric)
    if of_metric and of_metric != mail.mode:
        said.append(f"the parameter mode is {mail.parameters['mode']}, and the metric {mail.metric}")
    counted = next((found for one in mail.figures if (found := tasks_in(one.name, "will-it-scale"))), None)
    if mail.tasks and counted and mail.benchmark == "will-it-scale" and counted != mail.tasks:
        said.append(f"the parameters make {mail.tasks} tasks, and the table is of {counted}")
    if mail.is_worse != mail.regression:
        words = "an improvement", "a regression"
        how = "falls" if mail.change < 0 else "grows"
        said.append(
            f"the report calls it {words[mail.regression]} that {mail.metric} {how}: it is judged as "
            f"{words[mail.is_worse]}"
        )
    return said
