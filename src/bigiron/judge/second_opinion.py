"""A reported regression as a study: what to measure, and what the results say about it.

See docs/howto/answer-a-robot-mail.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from bigiron.analysis.comparison import costly
from bigiron.errors import UserError
from bigiron.judge import alignments, judgement
from bigiron.judge.change import CountChange
from bigiron.judge.judgement import Judgement, PredictedChange, ReportedClaim
from bigiron.judge.regressions import NamedRegression
from bigiron.readers.robot_mail import RobotMail
from bigiron.results import layout, measurements, prediction
from bigiron.results.prediction import NothingPredictedError, Prediction
from bigiron.simulator import machine_files, reported_machine
from bigiron.study import caveats, store
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import Study
from bigiron.util.cache_dir import cache_folder, keep_whole
from bigiron.workloads.of_benchmark import Mapped, MappedProgram

PROBES = ("conflicts", "locks", "instructions")
LAYOUTS = "layouts"
"""The study of layouts, a folder in that of the judgement."""

MODULES = "modules: only built-in code was compared"
CPUS = 8
"""The default number of CPUs: a few are enough to show the cache lines that all CPUs touch."""

BOOTS = (2, 4)
"""The number of boots of each kernel: at first, and again if something seems to differ.

The offsets of objects in cache lines and pages, and which task waits for which, differ from boot to boot.
An additional boot can only remove differences, because it widens each kernel's own range: without a
difference, no more boots are needed.
"""

OPERATIONS = 200
_LONG_OPERATIONS = dict.fromkeys(("page_fault1", "page_fault2", "page_fault3", "page_fault4"), 50)
"""Operations of workloads with 64 page faults per operation, which take long to record."""

_NO_SERVER = "sleep 1000000"  # the service of a program that needs none: a `ready` command belongs to one
_SAMPLES = 16
_HUGE_PAGES = ("always", "madvise", "never")
_QUIET = "numa_balancing=disable"  # on machines with several nodes it migrates pages by a timer


@dataclass(frozen=True)
class ReportedShape:
    """The shape of the report's machine, as far as it is known."""

    like: str  # a machine file; "": the report does not contain enough
    base: str  # the machine whose latencies the file has
    why_not: str = ""
    assumed: str = ""  # the number of sockets where the report implies none, and why that one


@dataclass(frozen=True)
class Opinion:
    """A judgement with everything that a reply contains."""

    mail: RobotMail
    names: tuple[str, str]
    workload: str  # its name, or a program's command
    mode: str  # empty: a program has its own
    judgement: Judgement | None  # None: the kernels are the same, and nothing was measured
    same: str = ""  # what is identical in both kernels
    predicted: PredictedChange | None = None
    not_predicted: str = ""
    not_considered: list[str] = field(default_factory=list)
    study: str = ""
    commits: int | None = 1  # after the base, up to the new kernel's; None: the kernels were given by hand
    replaces: bool = False  # whether the workload was given instead of the report's benchmark
    further: tuple[NamedRegression, ...] = ()  # that the report names, too, and that can be judged

    @property
    def instructions(self) -> tuple[float | None, float | None]:
        """The change of instructions per operation: reported, and counted in the kernel."""
        row, found = None if self.replaces else self.mail.path_length, self.judgement
        counted = (found.work[1] / found.work[0] - 1 if found.work[0] else None) if found else 0.0
        return (row.relative if row else None), counted


def operations(workload: str) -> int:
    """How many operations of a workload each task records."""
    return _LONG_OPERATIONS.get(workload, OPERATIONS)


def shape(mail: RobotMail) -> ReportedShape:
    """Write a machine file for the report's machine into the cache."""
    if mail.machine is None:
        return ReportedShape("", "", "the report does not name the machine")
    if not mail.machine.memory_gib:
        return ReportedShape("", "", "the report does not give the machine's memory size")
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
            "", "", f"the report's description of its machine is not enough for a machine file: {why}"
        )
    return ReportedShape(str(file), found.base, assumed=found.assumed)


def spec(
    mail: RobotMail,
    kernels: tuple[str, str],
    what: Mapped,
    cpus: list[int],
    arch: str,
    shaped: ReportedShape,
    repetitions: int,
) -> Spec:
    """The study: the report's benchmark on both kernels, in the shape of its machine."""
    of_workload = Spec(
        workload=what.workload,
        workload_file=what.workload_file,
        mode=what.mode,
        arch=arch,
        probes=[*PROBES, "trace"],
        cpus=cpus,
        tasks=task_counts(mail, what, cpus),
        like=shaped.like,
        repetitions=repetitions,
        operations=operations(what.workload),
        fs=what.fs,
        variant=[Variant(name=kernel, kernel=kernel, boot=_boot(mail)) for kernel in kernels],
    )
    return _of_program(of_workload, what.program) if what.program else of_workload


def _of_program(spec: Spec, program: MappedProgram) -> Spec:
    """The same study of a program, whose operations have no trace."""
    without_server = len(program.ready) - len(program.service)
    return msgspec.structs.replace(
        spec,
        root=program.root,
        command=program.command,
        service=[*program.service, *[_NO_SERVER] * without_server],
        ready=list(program.ready),
        ready_port=list(program.ready_port),
        folder=program.folder,
        user=program.user,
        begin_at=program.begin_at,
        warm_up_s=0 if program.begin_at else program.warm_up_s,
        record_s=program.record_s,
        per=program.per,
        probes=list(PROBES),
    )


def task_counts(mail: RobotMail, what: Mapped, cpus: list[int]) -> list[int] | Literal["all"]:
    """The same share of the CPUs as in the report; of several tasks at least two: one shares nothing."""
    if what.tasks:
        return sorted({min(what.tasks, number) for number in cpus})
    if mail.tasks is None or mail.machine is None or mail.tasks >= mail.machine.cpus:
        return "all"
    least = min(2, mail.tasks)
    return sorted({max(least, round(number * mail.tasks / mail.machine.cpus)) for number in cpus})


def _boot(mail: RobotMail) -> str:
    """The kernels' boot parameters: with transparent huge pages as in the report, where it says."""
    huge = mail.parameters.get("thp_enabled", "")
    return f"{_QUIET} transparent_hugepage={huge}" if huge in _HUGE_PAGES else _QUIET


def boot_counts(folder: Path) -> list[int]:
    """The numbers of boots of each kernel, one after the other. The folder may have a study with some."""
    there = store.open_study(folder).spec.repetitions if (folder / "study.toml").exists() else 0
    return [number for number in BOOTS if number >= there] or [there]


def smaller_cpu_counts(folder: Path, cpus: list[int], judged: Judgement | None = None) -> list[int]:
    """The given numbers of CPUs, those of the study in the folder, and half of the largest if that helps.

    It helps if per-CPU cache lines changed, because their accesses may grow up to the report's CPUs.
    """
    there = store.open_study(folder).spec.cpus if (folder / "study.toml").exists() else []
    half = [max(cpus) // 2] if judged and judged.may_grow and max(cpus) >= 4 else []
    return sorted({*there, *cpus, *half})


def judged(study: Study, mail: RobotMail) -> Judgement:
    """The judgement from the counts of a measured study."""
    base, new = (variant.name for variant in study.spec.variant)
    of = {probe: measurements.read(study, probe) for probe in PROBES}
    point = max(of["conflicts"].points)
    there = [set(one.points.get(point, ())) for one in of.values()]
    if missing := [name for name in (base, new) if not all(name in names for names in there)]:
        raise UserError(f"{study.folder} has no measurement of {missing[0]}: run the same command again")
    claim = ReportedClaim(mail.is_worse, mail.tasks_at_once, mail.machine.cpus if mail.machine else None)
    return judgement.judge(of["conflicts"], of["locks"], of["instructions"], base, new, claim)


def layout_spec(study: Study) -> Spec:
    """The same question for the layout of objects, which one boot of each kernel answers."""
    point = max(study.spec.cpus)
    return msgspec.structs.replace(study.spec, probes=[layout.PROBE], cpus=[point], repetitions=1)


def with_alignments(judged: Judgement, study: Study) -> Judgement:
    """The judgement with what each kernel would count wherever allocators can put the objects.

    `study`: that of the layouts.
    """
    base, new = (one.name for one in study.spec.variant)
    return replace(judged, changes=alignments.counted(judged.changes, study, base, new))


def opinion(
    study: Study,
    mail: RobotMail,
    what: Mapped,
    shaped: ReportedShape,
    judged: Judgement,
    as_configured: bool = False,
) -> Opinion:
    """The judgement, and the prediction for the report's machine.

    `as_configured`: whether the kernels have the report's configuration, as far as a virtual machine allows.
    """
    base, new = (variant.name for variant in study.spec.variant)
    predicted, why_not = _predicted(study, mail, shaped, judged)
    if predicted and what.replaces:
        predicted = replace(predicted, reported=None)
    return Opinion(
        mail,
        (base, new),
        _what_ran(study, judged),
        "" if study.spec.runs_program else study.spec.mode,
        judged,
        predicted=predicted,
        not_predicted=why_not,
        not_considered=[
            *_not_considered(study, mail, judged, shaped, as_configured),
            *(f"the report's benchmark itself: here with {one}" for one in what.differs),
        ],
        study=str(study.folder),
        replaces=what.replaces,
    )


def _what_ran(study: Study, judged: Judgement) -> str:
    """The workload, or the program's command with what its counts are per."""
    if not study.spec.runs_program:
        return study.spec.workload or Path(study.spec.workload_file).stem
    command = study.spec.command.replace("{tasks}", str(judged.tasks))
    return f"{command} ({1000 * study.spec.record_s:g} ms of it, counts per {study.operation})"


def longer(judged: Judgement, base: str, new: str) -> dict[str, dict[str, float]]:
    """By how many instructions each kernel's operations take longer than those they execute, by function.

    This is the time of instructions that take long and that the other kernel executes less often, as far as
    it is relevant. What both kernels execute is not added, nor what a replay has itself (`costly.REPLAYED`).
    """
    found: dict[str, dict[str, float]] = {base: {}, new: {}}
    for change in _weighed(judged):
        of_kernel = found[new if change.cost > 0 else base]
        of_kernel[change.object] = of_kernel.get(change.object, 0.0) + abs(change.cost)
    return found


def _weighed(judged: Judgement) -> list[CountChange]:
    return [one for one in judged.changes if one.instruction and one.instruction not in costly.REPLAYED]


def _predicted(
    study: Study, mail: RobotMail, shaped: ReportedShape, judged: Judgement
) -> tuple[PredictedChange | None, str]:
    if study.spec.runs_program:
        return None, "the operations of a program are not traced"
    if shaped.why_not:
        return None, shaped.why_not
    if not (tasks := mail.tasks_at_once):
        return None, "the report does not give the number of tasks"
    base, new = (variant.name for variant in study.spec.variant)
    more = longer(judged, base, new)
    found = _replayed(study, shaped.like, tasks, more, traces=True)
    if isinstance(found, Prediction):
        why_counts = ""
    else:
        why_counts, found = found, _replayed(study, shaped.like, tasks, more, traces=False)
    if isinstance(found, str):
        return None, found
    ratio = found.ratios[0].points[tasks]
    change = ratio.changed(lambda share: share - 1)
    weighed = tuple(dict.fromkeys(one.instruction for one in _weighed(judged)))
    return PredictedChange(tasks, shaped.base, change, mail.throughput_change, why_counts, weighed), ""


def _replayed(
    study: Study, machine: str, tasks: int, more: Mapping[str, Mapping[str, float]], *, traces: bool
) -> Prediction | str:
    """The prediction for both kernels, from traces of both or from counts; or why there is none."""
    try:
        found = prediction.predict(study, machine, [tasks], samples=_SAMPLES, traces=traces, longer=more)
    except NothingPredictedError as error:
        return error.why
    except UserError as error:
        return str(error)
    if not found.ratios:
        return "; ".join(f"{one.variant}: {one.why}" for one in found.refused)
    if traces and not all(one.is_trace for one in found.recordings):
        return "no trace was recorded"
    return found


def _not_considered(
    study: Study, mail: RobotMail, judged: Judgement, shaped: ReportedShape, as_configured: bool
) -> list[str]:
    """What the judgement does not consider."""
    found = ["time: nothing was measured in seconds"]
    records = study.all_records()
    found += [f"lost counts: {sentence}" for sentence in caveats.losses(records)]
    found += [clocks] if (clocks := caveats.clocks(records)) else []
    if mail.tasks_at_once and mail.tasks_at_once > judged.tasks:
        found.append(
            f"more than {judged.tasks} tasks on {judged.cpus} CPUs: effects that grow with CPUs look smaller"
        )
    if mail.tasks and mail.machine and mail.tasks >= 2 * mail.machine.cpus:
        found.append(f"run queues of {mail.tasks / mail.machine.cpus:.0f} tasks per CPU")
    if any(change.is_pair for change in judged.changes):
        found.append(
            "adjacent cache lines in the prediction: it assumes processors that do not prefetch them"
        )
    found.append("interrupts and kernel threads: counts include only system calls and page faults")
    found.append(
        "modules: only the built-in part of your configuration was compared"
        if as_configured
        else "your configuration: the kernels compared here were built with another one"
    )
    if shaped.why_not:
        found.append("the shape of the report's machine: all CPUs here are on one socket")
    if shaped.assumed:
        found.append(
            f"the report's number of sockets, which it does not give: here it is assumed ({shaped.assumed})"
        )
    return [*found, *assumed(mail)]


def assumed(mail: RobotMail) -> list[str]:
    """What is taken for granted of a report, for the list of what the judgement does not consider."""
    return [f"whether an assumption about the report holds: {one}" for one in mail.assumptions]
