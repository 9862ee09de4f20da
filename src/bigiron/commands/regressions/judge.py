"""`bigiron judge`: a second opinion on a reported regression."""

import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bigiron import kernels
from bigiron.commands.common.measure import measure_study
from bigiron.commands.common.options import Fragments, Jobs, choice, numbers
from bigiron.commands.common.output import say
from bigiron.errors import UserError
from bigiron.judge import alignments, regressions, second_opinion
from bigiron.judge.judgement import Judgement
from bigiron.judge.regressions import NamedRegression
from bigiron.judge.second_opinion import Opinion
from bigiron.kernels import Kernel
from bigiron.kernels.commits import (
    ancestor_and_descendant,
    build_commit,
    configured_by,
    number_of_commits,
)
from bigiron.kernels.configuration import is_whole, of_file_system, of_root
from bigiron.kernels.image_equality import sameness
from bigiron.readers import robot_mail
from bigiron.readers.robot_mail import RobotMail
from bigiron.report import reply
from bigiron.report.mail import understood
from bigiron.study import store
from bigiron.study.store import Study
from bigiron.util.english import plural
from bigiron.util.numbers import percent_change
from bigiron.workloads.of_benchmark import (
    Mapped,
    check_metric,
    fs_named,
    fs_of,
    mode_of,
    without_fs,
    workload_of,
)
from bigiron.workloads.registry import find, from_file

_STDIN = Path("-")
_MOST_NAMED = 3  # changes in an error

Report = Annotated[
    Path, typer.Argument(help="the kernel test robot's mail: a text or mbox file, or - for stdin")
]
WorkloadFile = Annotated[
    Path | None,
    typer.Option(help="a C file with will-it-scale's testcase() to run instead of the report's benchmark"),
]
OneMetric = Annotated[
    str,
    typer.Option(
        help="judge another change that the report names, by its metric or number  [default: the first]"
    ),
]


def judge(
    report: Report,
    linux: Annotated[Path | None, typer.Option(help="build both commits from this git tree")] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(help="instead of --linux: the base kernel; give the option again for the new kernel"),
    ] = None,
    base: Annotated[
        str, typer.Option(help="the commit to compare with  [default: the report's base, else the parent]")
    ] = "",
    config: Fragments = None,
    workload: Annotated[
        str, typer.Option(help="a built-in workload to run instead of the report's benchmark")
    ] = "",
    workload_file: WorkloadFile = None,
    metric: OneMetric = "",
    cpus: Annotated[
        str, typer.Option(help="CPU counts to measure with; the judgement is of the largest")
    ] = str(second_opinion.CPUS),
    jobs: Jobs = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="the study's folder  [default: judge-COMMIT, or judge-COMMIT-N for --metric N beyond 1]",
        ),
    ] = None,
    format: Annotated[str, choice(reply.FORMATS, "output format")] = "text",
) -> None:
    """Judge a reported regression: coherence, locks, instructions or neither; print a reply to the report.

    Example: `bigiron judge report.mbox --linux ~/linux -o s`
    """
    named = regressions.chosen(_read(report), metric)
    further = regressions.others(named)
    print(understood(named.mail, further), end="", file=sys.stderr)
    what = _what_or_further(named.mail, workload, workload_file, further)
    mail = replace(named.mail, fixed_tasks=what.tasks)
    of_cpus = numbers("--cpus", cpus)
    if max(of_cpus) < 2:
        raise UserError(f"--cpus {cpus}: a single CPU shares no cache lines: give 2 or more")
    print(_planned(mail, what, base, of_cpus), file=sys.stderr)
    both, commits = _kernels(mail, linux, kernel or [], base, config or [], what)
    names = (both[0].name, both[1].name)
    if same := sameness(*both):
        opinion = Opinion(
            mail,
            names,
            what.called,
            "" if what.program else what.mode,
            None,
            same,
            not_considered=[second_opinion.MODULES, *second_opinion.assumed(mail)],
        )
    else:
        folder = output or Path(f"judge-{mail.new.id[:12]}{named.suffix}")
        whole = any(map(is_whole, config or []))
        opinion = _boot_and_count(mail, both, what, of_cpus, folder, jobs, whole)
    print(reply.FORMATS[format](replace(opinion, commits=commits, further=further)), end="")


def _boot_and_count(
    mail: RobotMail,
    both: tuple[Kernel, Kernel],
    what: Mapped,
    of_cpus: list[int],
    folder: Path,
    jobs: int,
    whole_config: bool,
) -> Opinion:
    """Measure both kernels, with more boots and CPU counts as long as the judgement needs them."""
    shaped = second_opinion.shape(mail)
    names = (both[0].name, both[1].name)

    def measured(cpus: list[int], boots: int) -> tuple[Study, Judgement]:
        asked = second_opinion.spec(mail, names, what, cpus, both[0].arch, shaped, boots)
        with contextlib.redirect_stdout(sys.stderr):
            measure_study(asked, folder, jobs, fresh_boot=True)
        study = store.open_study(folder)
        return study, second_opinion.judged(study, mail)

    of_cpus = second_opinion.smaller_cpu_counts(folder, of_cpus)
    for boots in second_opinion.boot_counts(folder):
        study, judged = measured(of_cpus, boots)
        if not (judged.changes or judged.may_grow):
            break
    if (with_half := second_opinion.smaller_cpu_counts(folder, of_cpus, judged)) != of_cpus:
        study, judged = measured(with_half, boots)
    if alignments.structs(judged.changes) and not what.program:
        laid_out = folder / second_opinion.LAYOUTS
        with contextlib.redirect_stdout(sys.stderr):
            measure_study(second_opinion.layout_spec(study), laid_out, jobs)
        judged = second_opinion.with_alignments(judged, store.open_study(laid_out))
    return second_opinion.opinion(study, mail, what, shaped, judged, whole_config)


def _read(report: Path) -> RobotMail:
    if report == _STDIN:
        return robot_mail.read(sys.stdin.buffer.read(robot_mail.MOST_BYTES + 1), "standard input")
    try:
        with report.open("rb") as file:
            return robot_mail.read(file.read(robot_mail.MOST_BYTES + 1), str(report))
    except OSError as error:
        raise UserError(f"{report} cannot be read: {error.strerror}") from None


def _what_or_further(
    mail: RobotMail, workload: str, workload_file: Path | None, further: tuple[NamedRegression, ...]
) -> Mapped:
    """What to run; where nothing is mapped, the error names the changes in the report that are."""
    try:
        return _what(mail, workload, workload_file)
    except UserError as error:
        if workload or workload_file or not further:
            raise
        named = ", ".join(f"--metric {one.number} ({one.described})" for one in further[:_MOST_NAMED])
        raise UserError(f"{error}. The report also names what can be judged: {named}") from None


def _what(mail: RobotMail, workload: str, workload_file: Path | None) -> Mapped:
    if workload and workload_file:
        raise UserError(f"both --workload {workload} and --workload-file {workload_file}: give one of them")
    check_metric(mail.benchmark, mail.metric)
    if not (workload or workload_file):
        return workload_of(mail.benchmark, mail.parameters, mail.metric)
    given = from_file(workload_file) if workload_file else find(workload)
    fs, test = fs_of(mail.parameters), mail.parameters.get("test", "")
    on_tmpfs = () if fs is not None else (f"tmpfs instead of {fs_named(mail.parameters)}",)
    with contextlib.suppress(UserError):
        parameters = without_fs(mail.parameters) if on_tmpfs else mail.parameters
        own = workload_of(mail.benchmark, parameters, mail.metric)
        if workload and own.workload == workload:
            return replace(own, differs=(*own.differs, *on_tmpfs), replaces=bool(on_tmpfs))
    return Mapped(
        workload,
        mode_of(mail.parameters),
        fs or "",
        differs=(f"{given.name} instead of {mail.benchmark} {test}".rstrip(), *on_tmpfs),
        workload_file=str(workload_file or ""),
        replaces=True,
    )


def _planned(mail: RobotMail, what: Mapped, base: str, cpus: list[int]) -> str:
    """What was read and what will run, in a line."""
    given = second_opinion.task_counts(mail, what, cpus)
    tasks = max(cpus) if given == "all" else max(given)
    against = base or (mail.base.id[:12] if mail.base else "its parent")
    mode = "" if what.program else f" in {what.mode} mode"
    differs = f"; differs: {'; '.join(what.differs)}" if what.differs else ""
    return (
        f"read: {mail.metric} {percent_change(mail.change)}, {mail.new.id[:12]} against {against}; runs "
        f"{what.called.replace('{tasks}', str(tasks))}{mode}, {plural(tasks, 'task')} on {max(cpus)} CPUs, "
        f"{what.fs or 'tmpfs'}{differs}"
    )


def _kernels(
    mail: RobotMail, linux: Path | None, given: list[str], base: str, config: list[Path], what: Mapped
) -> tuple[tuple[Kernel, Kernel], int | None]:
    """Both kernels, and the number of commits between them; None: they were given."""
    if linux and given:
        raise UserError("both --linux and --kernel: give the tree or the two kernels")
    if linux:
        needed = [*of_file_system(what.fs), *(of_root() if what.program else [])]
        return _built(mail, linux, base, [*needed, *config])
    if config:
        raise UserError("--config applies to kernels that are built: give --linux TREE too")
    if len(given) != 2:
        raise UserError(
            "two kernels are needed: give --linux TREE to build both commits, or --kernel BASE --kernel NEW"
        )
    first, second = (kernels.find(name, "x86_64", say(name)) for name in given)
    return (first, second), None


def _built(mail: RobotMail, linux: Path, base: str, config: list[Path]) -> tuple[tuple[Kernel, Kernel], int]:
    before = base or (mail.base.id if mail.base else f"{mail.new.id}^")
    called = configured_by(config)
    ids = ancestor_and_descendant(linux, before, mail.new.id)
    first, second = (
        build_commit(linux.resolve(), commit, config, "x86_64", say(commit[:12]), called=called)
        for commit in ids
    )
    return (first, second), number_of_commits(linux, *ids)
