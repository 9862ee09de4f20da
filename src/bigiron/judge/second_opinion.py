"""A reported regression as a study: what to measure of it, and what that says of it (docs/judge.md)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bigiron.analysis.replay.prediction import Interval
from bigiron.errors import UserError
from bigiron.judge import judgement
from bigiron.judge.judgement import Claim, Judgement, Predicted
from bigiron.readers.robot_mail import RobotMail
from bigiron.results import measurements, prediction
from bigiron.results.prediction import NothingPredictedError, Prediction
from bigiron.simulator import machine_files, reported_machine
from bigiron.study import store
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import Study
from bigiron.util.cache_dir import cache_folder, keep_whole

PROBES = ("conflicts", "locks", "instructions")
MODULES = "modules: only what is built into the kernels was compared"
CPUS = 8
"""On which it is measured unless more are asked for: what all of them touch shows from a few on."""

BOOTS = (2, 4)
"""How often each kernel is booted anew: first, and where it then seems that something differs.

Where objects lie in their lines and pages, and who waits for whom, differ from boot to boot. Each boot more
can only take differences away, as each kernel's own spread grows: where there is none, no more are needed.
"""

OPERATIONS = 200
_OF_LONG = {"page_fault1": 50, "page_fault3": 50}
"""Where an operation is 64 faults: as many say as much, and take as long to record as thousands of others."""

_DRAWS = 16
_QUIET = "numa_balancing=disable"  # it moves pages by the clock, on machines of several nodes


@dataclass(frozen=True)
class Benchmark:
    """What is run for the report's benchmark: a built-in workload, or a C file."""

    workload: str = ""
    workload_file: str = ""
    mode: Literal["process", "thread"] = "process"
    fs: str = ""


@dataclass(frozen=True)
class ReportedShape:
    """The report's machine, as far as it is known here."""

    like: str  # a machine file; "": the report does not tell enough
    base: str  # whose figures that has
    why_not: str = ""


@dataclass(frozen=True)
class Opinion:
    """A judgement with all that a reply says of it."""

    mail: RobotMail
    names: tuple[str, str]
    workload: str
    mode: str
    judgement: Judgement | None  # None: the kernels are the same, and nothing was measured
    same: str = ""  # what is the same of both kernels
    predicted: Predicted | None = None
    not_predicted: str = ""
    not_looked_at: list[str] = field(default_factory=list)
    study: str = ""


def shape(mail: RobotMail) -> ReportedShape:
    """A machine file for the report's machine, in the cache."""
    if mail.machine is None:
        return ReportedShape("", "", "the report does not say on which machine")
    if not mail.machine.memory_gib:
        return ReportedShape("", "", "the report does not say how much memory the machine has")
    try:
        found = reported_machine.like(mail.machine)
    except UserError as error:
        return ReportedShape("", "", str(error))
    content = found.toml.encode()
    file = cache_folder("reported") / f"{hashlib.sha256(content).hexdigest()[:16]}.toml"
    if not file.is_file():
        keep_whole(file, content)
    try:
        machine_files.load(str(file))
    except UserError as error:
        why = str(error).replace(str(file), found.base)
        return ReportedShape(
            "", "", f"no machine file can be made of what the report says of its machine: {why}"
        )
    return ReportedShape(str(file), found.base)


def spec(
    mail: RobotMail,
    kernels: tuple[str, str],
    what: Benchmark,
    cpus: list[int],
    arch: str,
    shaped: ReportedShape,
    repetitions: int,
) -> Spec:
    """What to measure: the report's benchmark on both kernels, in the shape of its machine."""
    return Spec(
        workload=what.workload,
        workload_file=what.workload_file,
        mode=what.mode,
        arch=arch,
        probes=[*PROBES, "trace"],
        cpus=cpus,
        tasks=_tasks(mail, cpus),
        like=shaped.like,
        repetitions=repetitions,
        operations=_OF_LONG.get(what.workload, OPERATIONS),
        fs=what.fs,
        variant=[Variant(name=kernel, kernel=kernel, boot=_QUIET) for kernel in kernels],
    )


def _tasks(mail: RobotMail, cpus: list[int]) -> list[int] | Literal["all"]:
    """As large a share of the CPUs as in the report, with at least two, as one shares nothing."""
    if mail.tasks is None or mail.machine is None or mail.tasks >= mail.machine.cpus:
        return "all"
    return sorted({max(2, round(number * mail.tasks / mail.machine.cpus)) for number in cpus})


def looks(folder: Path) -> list[int]:
    """How often to boot each kernel, at first and then, where the folder may have a study already."""
    there = store.open_study(folder).spec.repetitions if (folder / "study.toml").exists() else 0
    return [number for number in BOOTS if number >= there] or [there]


def smaller_cpu_counts(folder: Path, cpus: list[int], judged: Judgement | None = None) -> list[int]:
    """Those numbers of CPUs and the folder's, and half of the largest where that would tell more.

    That is where lines changed of which each CPU has its own: with the report's CPUs there may be many.
    """
    there = store.open_study(folder).spec.cpus if (folder / "study.toml").exists() else []
    half = [max(cpus) // 2] if judged and judged.may_grow and max(cpus) >= 4 else []
    return sorted({*there, *cpus, *half})


def judged(study: Study, mail: RobotMail) -> Judgement:
    """What the counts of a study that has been measured say."""
    base, new = (variant.name for variant in study.spec.variant)
    of = {probe: measurements.read(study, probe) for probe in PROBES}
    point = max(of["conflicts"].points)
    if missing := [name for name in (base, new) if name not in of["conflicts"].points[point]]:
        raise UserError(f"{study.folder} has no measurement of {missing[0]}: run the same command again")
    claim = Claim(mail.regression, mail.tasks_at_once, mail.machine.cpus if mail.machine else None)
    return judgement.judge(of["conflicts"], of["locks"], of["instructions"], base, new, claim)


def opinion(
    study: Study, mail: RobotMail, shaped: ReportedShape, judged: Judgement, as_configured: bool = False
) -> Opinion:
    """The judgement with what is predicted for the report's machine.

    `as_configured`: whether the kernels have the report's configuration, as far as a virtual machine can.
    """
    base, new = (variant.name for variant in study.spec.variant)
    predicted, why_not = _predicted(study, mail, shaped)
    return Opinion(
        mail,
        (base, new),
        study.spec.workload or Path(study.spec.workload_file).stem,
        study.spec.mode,
        judged,
        predicted=predicted,
        not_predicted=why_not,
        not_looked_at=_not_looked_at(study, mail, judged, shaped, as_configured),
        study=study.name,
    )


def _predicted(study: Study, mail: RobotMail, shaped: ReportedShape) -> tuple[Predicted | None, str]:
    if shaped.why_not:
        return None, shaped.why_not
    if not (tasks := mail.tasks_at_once):
        return None, "the report does not say how many tasks ran"
    found = _replayed(study, shaped.like, tasks, traces=True)
    if isinstance(found, Prediction):
        why_counts = ""
    else:
        why_counts, found = found, _replayed(study, shaped.like, tasks, traces=False)
    if isinstance(found, str):
        return None, found
    ratio = found.ratios[0].points[tasks]
    change = Interval(ratio.value - 1, ratio.low - 1, ratio.high - 1)
    return Predicted(tasks, shaped.base, change, mail.throughput_change, why_counts), ""


def _replayed(study: Study, machine: str, tasks: int, *, traces: bool) -> Prediction | str:
    """What is predicted of both kernels, from traces of both or from counts; or why that cannot be."""
    try:
        found = prediction.predict(study, machine, [tasks], samples=_DRAWS, traces=traces)
    except NothingPredictedError as error:
        return error.why
    except UserError as error:
        return str(error)
    if not found.ratios:
        return "; ".join(f"{one.variant}: {one.why}" for one in found.refused)
    if traces and not all(one.is_trace for one in found.recordings):
        return "nothing was traced"
    return found


def _not_looked_at(
    study: Study, mail: RobotMail, judged: Judgement, shaped: ReportedShape, as_configured: bool
) -> list[str]:
    """What the judgement does not rest on, so that nobody thinks it does."""
    found = ["time: nothing here was measured in seconds"]
    records = study.all_records()
    found += [f"counts that were lost: {sentence}" for sentence in store.losses(records)]
    found += [clocks] if (clocks := store.clocks(records)) else []
    if mail.tasks_at_once and mail.tasks_at_once > judged.tasks:
        found.append(
            f"more than {judged.tasks} tasks on {judged.cpus} CPUs: what grows with CPUs shows less here"
        )
    if any(change.is_pair for change in judged.changes):
        found.append(
            "pairs of lines in the prediction: it is of processors that do not prefetch the adjacent one"
        )
    found.append("interrupts and kernel threads: counts are of what system calls and faults execute")
    found.append(
        "modules: of your configuration only what is built in"
        if as_configured
        else "your configuration: the kernels judged here were built with another than the robot's"
    )
    if shaped.why_not:
        found.append("the shape of the report's machine: all CPUs here are of one socket")
    return found
