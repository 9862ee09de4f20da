"""What a mail of the kernel test robot reports, as typed values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bigiron.errors import UserError
from bigiron.readers.figure import count, number
from bigiron.readers.robot_mail.metric import direction, is_of_operations, tasks_in
from bigiron.util.numbers import Better

_LEAST_LEFT = 0.0005  # of a time that fell by what rounds to 100.0 %
_MOST_TASKS = 1 << 20
_PROFILE = re.compile(r"perf-profile\.(calltrace|children|self)\.cycles-pp\.(\S+)$")
_TASKS = ("nr_task", "nr_threads", "thread_nr")
_ALWAYS = {"perf-bench-sched-pipe": 2, "postmark": 1, "aim9": 1}
"""Benchmarks whose number of tasks is fixed: a pair that passes a token, and programs of one process."""
_AT_MOST = {"fsmark": 64}
"""The limit of a benchmark's tasks, whatever the parameters make."""


@dataclass(frozen=True)
class Commit:
    """A commit as the mail names it: as many digits as it gives, or a tag, and its title."""

    id: str
    title: str = ""


@dataclass(frozen=True)
class ReportedMachine:
    """The machine that the robot measured on; what the mail does not say is None or empty."""

    cpus: int
    sockets: int | None = None
    processor: str = ""
    memory_gib: float | None = None
    code_name: str = ""
    """The processor's, such as `Ice Lake`: in the mail's words, or else by the machine's group."""


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

    @property
    def relative(self) -> float | None:
        """The change as a share of the base; None if the base is 0."""
        return self.change if self.change is not None else self.new / self.base - 1 if self.base else None


@dataclass(frozen=True)
class Elsewhere:
    """What the robot says of another branch: `still regression` on `linus/master` at a commit."""

    what: str
    branch: str
    commit: str


@dataclass(frozen=True)
class RobotMail:
    """What a mail reports.

    ```
    RobotMail(metric='will-it-scale.per_process_ops', change=-0.524, regression=True,
              new=Commit('6d73…', 'mm: …'),
              base=Commit('99fb…', 'mm: …'), benchmark='will-it-scale',
              machine=ReportedMachine(104, 2, '(Skylake)', 192.0, 'Skylake'),
              parameters={'nr_task': '50%', …}, figures=[…])
    ```
    """

    metric: str
    change: float  # relative, with the sign that the metric has
    regression: bool  # what the mail calls it; `is_worse` is what the metric says
    new: Commit
    base: Commit | None  # None: the mail does not name the parent
    benchmark: str
    machine: ReportedMachine | None
    parameters: Mapping[str, str]
    """As the mail gives them; `mode` is filled in from the metric (`per_thread_ops`) where it is missing."""
    figures: list[Reported] = field(default_factory=list)
    """The rows of the one table that is of this test on this machine."""
    unknown: list[tuple[int, str]] = field(default_factory=list)
    """Lines of the mail's text that were not understood, the first of them."""
    more_unknown: int = 0
    notes: list[str] = field(default_factory=list)
    """What contradicts itself in the mail, which of its tables were left out, and what is assumed."""
    assumptions: list[str] = field(default_factory=list)
    """Those of the notes that are assumptions about what was measured: a reply repeats them."""
    elsewhere: list[Elsewhere] = field(default_factory=list)
    further: list["RobotMail"] = field(default_factory=list)
    """What the mail reports of further tests: each as a report of its own."""
    fixed_tasks: int | None = None
    """The number that the benchmark has whatever the mail says; the mail alone does not tell."""

    @property
    def tasks(self) -> int | None:
        """How many tasks ran: a parameter, a part of the metric's name, or else one per CPU.

        Of hackbench the parameter is that of groups, each of 20 senders and 20 receivers, or as many as
        `fds` says.
        """
        given = self._given_tasks
        tasks = given if given is not None else self.machine.cpus if self.machine else None
        return None if tasks is None else min(tasks, _AT_MOST.get(self.benchmark, tasks))

    @property
    def tasks_are_assumed(self) -> bool:
        """Whether the mail gives no number of tasks, so that one per CPU is assumed."""
        return self.tasks is not None and self._given_tasks is None

    @property
    def _given_tasks(self) -> int | None:
        if self.benchmark in _ALWAYS:
            return _ALWAYS[self.benchmark]
        if self.fixed_tasks:
            return self.fixed_tasks
        each = (
            2 * count(self.parameters.get("fds", "20"), None, "fds") if self.benchmark == "hackbench" else 1
        )
        for name in (*_TASKS, *(["load"] if self.benchmark == "aim7" else [])):
            if given := self.parameters.get(name):
                tasks = _number_of_tasks(given, self.machine.cpus if self.machine else None, name)
                return None if tasks is None else _possible(each * tasks, name)
        return tasks_in(self.metric, self.benchmark)

    @property
    def tasks_at_once(self) -> int | None:
        """How many of them can run at a time: no more than there are CPUs."""
        return min(self.tasks, self.machine.cpus) if self.tasks and self.machine else self.tasks

    @property
    def mode(self) -> Literal["process", "thread"]:
        """Whether the tasks are processes or threads; processes where the mail says neither."""
        return "thread" if self.parameters.get("mode", "").startswith("thread") else "process"

    @property
    def better(self) -> Better:
        """Whether more or less of the metric is better: by its name, else by what the mail calls it."""
        return direction(self.metric) or ("more" if (self.change < 0) == self.regression else "less")

    @property
    def is_worse(self) -> bool:
        """Whether the metric changed for the worse, whatever the mail calls it."""
        return (self.change > 0) == (self.better == "less") if self.change else self.regression

    @property
    def throughput_change(self) -> float | None:
        """Of operations per second: a time that grows is a throughput that falls.

        None if the metric is of something else, such as the longest latency.
        """
        if not is_of_operations(self.metric):
            return None
        return self.change if self.better == "more" else 1 / max(1 + self.change, _LEAST_LEFT) - 1

    @property
    def headline(self) -> Reported | None:
        """The row of the metric that is complained about."""
        return self._row(self.metric)

    @property
    def path_length(self) -> Reported | None:
        """Instructions per operation, of the program and the kernel together."""
        return self._row("perf-stat.overall.path-length") or self._row("perf-stat.path-length")

    @property
    def ipc(self) -> Reported | None:
        """Instructions per cycle."""
        return self._row("perf-stat.overall.ipc") or self._row("perf-stat.ipc")

    @property
    def profile(self) -> list[Reported]:
        """The rows of perf's profile, the largest change first."""
        found = [one for one in self.figures if one.profiled]
        return sorted(found, key=lambda one: -abs(one.new - one.base))

    def _row(self, name: str) -> Reported | None:
        return next((one for one in self.figures if one.name == name), None)


def _number_of_tasks(given: str, cpus: int | None, name: str) -> int | None:
    """Of a number, a number of threads such as `8t`, or a share of the CPUs; None if those are unknown."""
    share = given.removesuffix("%")
    if share == given:
        return count(given.removesuffix("t"), None, name)
    part = number(share, None, name)
    return _possible(max(1, int(part * cpus / 100)), name) if cpus else None


def _possible(tasks: int, name: str) -> int:
    if tasks > _MOST_TASKS:
        raise UserError(f"{name} makes {tasks} tasks: at most {_MOST_TASKS} are possible")
    return tasks
