"""`bigiron patch`: what a patch, or each patch of a series, does to all workloads."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from bigiron.commands.common.complaints import stopped
from bigiron.commands.common.options import (
    KERNELS,
    MACHINE,
    RESULTS,
    WORKLOAD,
    Fragments,
    Jobs,
    choice,
    grouped,
    numbers,
)
from bigiron.commands.common.output import say
from bigiron.commands.measurements.run import (
    FileSystems,
    MachineOptions,
    ProgramOptions,
    RepetitionOptions,
    Variants,
    WorkloadOptions,
    question,
)
from bigiron.commands.setup.fleet import Certificates, FleetAddress, pools
from bigiron.errors import BuildHostError, UserError
from bigiron.kernels import Kernel
from bigiron.kernels.configuration import of_file_system, of_root
from bigiron.patch import bench, series
from bigiron.patch.bench import Bench, Subject
from bigiron.patch.examine import Examined, Examiner
from bigiron.patch.series import PatchSeries, Step
from bigiron.probes import AllProbeOptions
from bigiron.report import patch as report
from bigiron.report.progress import ProgressBar
from bigiron.study.resolve import check_cpus
from bigiron.util.cache_dir import write_whole
from bigiron.util.english import join_and

_FILES = {
    "text": "block.txt",
    "comment": "comment.md",
    "junit": "junit.xml",
    "ktap": "ktap.txt",
    "json": "patch.json",
    "html": "page.html",
}


@dataclass(frozen=True)
class PatchOptions:
    """The patch, and the kernels that are built."""

    panel: ClassVar[str] = KERNELS

    linux: Annotated[Path | None, typer.Argument(help="a git tree of the kernel, which is only read")] = None
    change: Annotated[
        str | None,
        typer.Argument(help="BASE..TOPIC, or a file: a patch, an mbox or a quilt series"),
    ] = None
    base: Annotated[
        str, typer.Option(help="with a file: the commit that it is applied to  [default: HEAD]")
    ] = ""
    each: Annotated[
        bool, typer.Option("--each", help="compare every commit or patch with the one before it")
    ] = False
    config: Fragments = None


@dataclass(frozen=True)
class PatchWorkloadOptions:
    """What runs besides the built-in workloads."""

    panel: ClassVar[str] = WORKLOAD

    workload: Annotated[
        list[str] | None,
        typer.Option(
            help="run this built-in workload even if it reaches no changed function; may be repeated"
        ),
    ] = None
    workload_file: Annotated[
        list[Path] | None,
        typer.Option(help="run the testcase() of this C file, too; may be repeated"),
    ] = None
    command: Annotated[
        str | None, typer.Option(help="run this command, too, in a virtual machine with --root")
    ] = None


@dataclass(frozen=True)
class PatchExecutionOptions:
    """How cells are run, and where results go."""

    panel: ClassVar[str] = RESULTS

    cpus: Annotated[
        str, typer.Option(help="CPU counts for the growth of what changed", rich_help_panel=MACHINE)
    ] = "2,4,8,16"
    jobs: Jobs = 0
    fleet: FleetAddress = ""
    certificates: Certificates = None
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="the folder of a base, with the counts of all kernels  [default: patch-BASE]",
        ),
    ] = None
    format: Annotated[str, choice(report.FORMATS, "what to print; the folder has all of them")] = "text"


@grouped()
def patch(
    asked: PatchOptions,
    workloads: PatchWorkloadOptions,
    program: ProgramOptions,
    execution: PatchExecutionOptions,
) -> None:
    """Build a base and a topic, count what every workload does on both, and print a block for the changelog.

    Only workloads that reach a changed function run, or all if boot code or a table of functions changed.

    The same command again runs only the cells that are missing; a base's counts are kept for the next patch.

    Example: `bigiron patch ~/linux v6.12..my-topic`
    """
    cpus = numbers("--cpus", execution.cpus)
    check_cpus(cpus)
    mine = [
        *bench.asked(workloads.workload or [], workloads.workload_file or []),
        *_program(workloads, program),
    ]
    found, folder = _series(asked, execution.output)
    systems = bench.file_systems_of(found.files(found.base, found.topic))
    if execution.fleet and systems:
        _say(
            f"{join_and(systems)}: no workloads run there, not possible on a fleet: run this without --fleet"
        )
        systems = []
    subjects = _each_once([*mine, *bench.builtin(systems)])
    others = _each_once([*subjects, *bench.others()])[len(subjects) :]
    needed = [fragment for name in systems for fragment in of_file_system(name)]
    fragments = [*needed, *(of_root() if workloads.command else []), *(asked.config or [])]
    try:
        with (
            pools(execution.fleet, execution.certificates, execution.jobs) as fleet,
            ProgressBar([]) as bar,
        ):
            base = series.build(found, found.base, fragments, say(found.base.short))
            running = Bench(folder / "studies", execution.jobs, fleet, bar)
            examiner = Examiner(running, base, subjects, cpus, _say, others)
            steps = _examined(found, asked.each, base, fragments, examiner)
    except KeyboardInterrupt:
        raise stopped(folder) from None
    _write(folder / "results" / found.topic.short, steps)
    print(report.FORMATS[execution.format](steps), end="")
    if status := _status(steps):
        raise typer.Exit(status)


def _status(steps: list[Examined]) -> int:
    """1: something is worse; else 3: a workload failed, or a step does not build or boot."""
    if any(one.worse for one in steps):
        return 1
    return 3 if any(one.failed or one.why_not for one in steps) else 0


def _say(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


def _series(asked: PatchOptions, output: Path | None) -> tuple[PatchSeries, Path]:
    """What is asked about, and the folder of its base."""
    if asked.linux is None or asked.change is None:
        raise UserError("give a git tree and what to compare: bigiron patch ~/linux BASE..TOPIC")
    if ".." in asked.change and not Path(asked.change).is_file():
        if asked.base:
            raise UserError(f"--base {asked.base}: {asked.change} names its base: leave out --base")
        found = series.of_range(asked.linux, asked.change)
        if asked.each:
            series.check_each(found, asked.change)
        return found, output or Path(f"patch-{found.base.short}")
    file = Path(asked.change)
    if not file.is_file():
        raise UserError(f"{asked.change} is neither BASE..TOPIC nor a file: give one of them")
    return series.of_file(asked.linux, file, asked.base, output)


def _program(workloads: PatchWorkloadOptions, program: ProgramOptions) -> list[Subject]:
    if not workloads.command:
        if program != ProgramOptions():
            raise UserError("--root and its options need --command: give one")
        return []
    if not program.per:
        raise UserError("--command needs --per here: system-call, instruction or the name of a system call")
    asked = WorkloadOptions(command=workloads.command, probe=",".join(bench.COUNTS), cpus=str(bench.CPUS))
    kernel = Variants(kernel=["none"])
    machine = MachineOptions()
    spec = question(asked, program, kernel, machine, FileSystems(), RepetitionOptions(), AllProbeOptions())
    return [bench.of_program(spec)]


def _each_once(subjects: list[Subject]) -> list[Subject]:
    """The first of each title: two would write to one study at once. UserError if another workload has it."""
    found: dict[str, Subject] = {}
    for one in subjects:
        if found.setdefault(one.title, one).program != one.program:
            raise UserError(f"two workloads are called {one.name}: rename a file, or give a command's path")
    return list(found.values())


def _examined(
    found: PatchSeries, each: bool, base: Kernel, fragments: list[Path], examiner: Examiner
) -> list[Examined]:
    """Each step compared with the last one that builds and boots; or the last step with the base."""
    examined = []
    before: tuple[Step, Kernel] = found.base, base
    for step in found.steps if each else [found.topic]:
        if each:
            _say(step.title)
        try:
            kernel = series.build(found, step, fragments, say(step.short))
        except BuildHostError:
            raise
        except UserError as error:  # of its source, or of its configuration
            if not each:
                raise UserError(f"{step.title}: {error}") from None
            _say(f"{step.title}: {error}")
            examined.append(Examined(before[0], step, (before[1].name, ""), why_not=str(error)))
            continue
        examined.append(examiner.examine(before, (step, kernel), found))
        if not examined[-1].why_not:
            before = step, kernel
    return examined


def _write(folder: Path, steps: list[Examined]) -> None:
    """Every format into a file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in _FILES.items():
        write_whole(folder / file, report.FORMATS[name](steps).encode())
    _say(f"see {folder}: {', '.join(_FILES.values())}")
