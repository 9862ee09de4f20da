"""The changes that a report names: the first, of which its text is, and those of further tests."""

from dataclasses import dataclass

from bigiron.errors import UserError
from bigiron.readers.robot_mail import RobotMail
from bigiron.util.numbers import percent_change
from bigiron.workloads.of_benchmark import check_metric, workload_of

_OF_THE_SETUP = ("tbox_group", "rootfs", "kconfig", "compiler", "ucode", "cpufreq_governor")
"""Parameters that do not say which test was run."""


@dataclass(frozen=True)
class NamedRegression:
    """One of them, which may be an improvement, with its number in the report, from 1."""

    number: int
    mail: RobotMail
    first: RobotMail

    @property
    def why_not(self) -> str:
        """Why nothing does what its benchmark does; "": it can be judged."""
        try:
            check_metric(self.mail.benchmark, self.mail.metric)
            workload_of(self.mail.benchmark, self.mail.parameters, self.mail.metric)
        except UserError as error:
            return str(error)
        return ""

    @property
    def suffix(self) -> str:
        """What distinguishes the name of its study from that of the first one."""
        return f"-{self.number}" if self.number > 1 else ""

    @property
    def described(self) -> str:
        """Its metric, change and test, and what distinguishes it from the first one's.

        ```
        perf-bench-futex.ops/s -94.6% in perf-bench-futex hash on 192 CPUs
        fsmark.files_per_sec -10.2% in fsmark on 48 CPUs (filesize 9B)
        ```
        """
        mail, first = self.mail, self.first
        test = mail.parameters.get("test", "")
        cpus = f" on {mail.machine.cpus} CPUs" if mail.machine else ""
        distinct = [
            f"{name} {value}"
            for name, value in mail.parameters.items()
            if name not in ("test", *_OF_THE_SETUP) and first.parameters.get(name, value) != value
        ]
        beside = f" ({', '.join(distinct)})" if distinct and mail.benchmark == first.benchmark else ""
        words = f"{mail.metric} {percent_change(mail.change)} in {f'{mail.benchmark} {test}'.rstrip()}"
        return f"{words}{cpus}{beside}"


def named_in(mail: RobotMail) -> list[NamedRegression]:
    """All that a report names."""
    return [NamedRegression(number, one, mail) for number, one in enumerate([mail, *mail.further], 1)]


def chosen(mail: RobotMail, metric: str) -> NamedRegression:
    """The one with this number or metric, or the first; UserError if there is none, or several."""
    named = named_in(mail)
    if not metric:
        return named[0]
    found = [one for one in named if metric in (str(one.number), one.mail.metric)]
    if len(found) == 1:
        return found[0]
    listed = "; ".join(f"{one.number} is {one.described}" for one in found or named)
    what = "is the metric of several changes: give a number" if found else "is not in the report"
    raise UserError(f"--metric {metric} {what}: {listed}")


def others(judged: NamedRegression) -> tuple[NamedRegression, ...]:
    """Those that can be judged besides it."""
    return tuple(one for one in named_in(judged.first) if one.number != judged.number and not one.why_not)
