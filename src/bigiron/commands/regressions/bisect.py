"""`bigiron bisect`: find the kernel, parameter or commit that changes a count."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from bigiron.analysis.statistics.verdict import TOLERANCE
from bigiron.bisect import target
from bigiron.bisect.candidates import ListOfVariants, OptionsOfConfiguration
from bigiron.bisect.commits_of_tree import CommitsOfTree
from bigiron.bisect.measure import MeasuredByStudy
from bigiron.bisect.search import Bisection, TimedBisection
from bigiron.bisect.target import Target
from bigiron.commands.common.complaints import stopped
from bigiron.commands.common.options import (
    KERNELS,
    MACHINE,
    RECORD,
    RESULTS,
    STATISTICS,
    WORKLOAD,
    Fragments,
    Jobs,
    grouped,
    numbers,
)
from bigiron.commands.measurements.run import (
    FileSystems,
    MachineOptions,
    Mode,
    ProgramOptions,
    RepetitionOptions,
    Variants,
    WorkloadOptions,
    question,
)
from bigiron.commands.setup.fleet import Certificates, FleetAddress, pools
from bigiron.errors import UserError
from bigiron.kernels import commits
from bigiron.probes import AllProbeOptions, throughput
from bigiron.report import bisect as bisect_report
from bigiron.report.progress import ProgressBar
from bigiron.simulator import machine_files
from bigiron.study import resolve
from bigiron.study.spec import Spec, Variant
from bigiron.util.sanitize import sanitize


class BisectFormat(StrEnum):
    """How the result is printed."""

    text = "text"
    json = "json"


@dataclass(frozen=True)
class TargetOptions:
    """What is measured, and the count that the bisection follows."""

    panel: ClassVar[str] = WORKLOAD

    workload: Annotated[str | None, typer.Argument(help="a built-in workload")] = None
    workload_file: Annotated[
        Path | None, typer.Option(help="run the testcase() of this C file (will-it-scale's interface)")
    ] = None
    by: Annotated[
        str | None,
        typer.Option(
            help="the count to follow: conflicts:OBJECT, locks:NAME, instructions:FUNCTION, conflicts or "
            "instructions (the sum of all), predicted, predicted:TASKS or throughput  "
            "[default: the count that differs most between the ends]",
            rich_help_panel=RECORD,
        ),
    ] = None
    on: Annotated[
        str,
        typer.Option(
            help="with --by predicted: the machine to predict for (`bigiron machine list`), or a TOML file",
            rich_help_panel=RECORD,
        ),
    ] = ""
    operations: Annotated[
        int, typer.Option(help="operations of each task that are recorded", rich_help_panel=RECORD)
    ] = 500
    cpus: Annotated[
        str | None, typer.Option(help="CPUs of the machine  [default: 8]", rich_help_panel=MACHINE)
    ] = None
    tasks: Annotated[str, typer.Option(help="number of tasks, or 'all' (one per CPU)")] = "all"
    mode: Annotated[Mode, typer.Option(help="run the tasks as processes or as threads")] = Mode.process
    reps: Annotated[
        int,
        typer.Option(
            min=1, help="repetitions of each candidate; their mean is used", rich_help_panel=STATISTICS
        ),
    ] = 1
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="with --by throughput: the largest change that does not matter  [default: 0.02]",
            rich_help_panel=STATISTICS,
        ),
    ] = None
    most_runs: Annotated[
        int | None,
        typer.Option(
            min=6,
            max=1000,
            help="with --by throughput: end undecided after this many runs  [default: 200]",
            rich_help_panel=STATISTICS,
        ),
    ] = None


@dataclass(frozen=True)
class TreeOptions:
    """The commits or configuration options to bisect instead of a list of kernels."""

    panel: ClassVar[str] = KERNELS

    linux: Annotated[Path | None, typer.Option(help="bisect the commits of this git tree of the kernel")] = (
        None
    )
    good: Annotated[str | None, typer.Option(help="a commit with the old value")] = None
    bad: Annotated[str | None, typer.Option(help="a commit with the new value")] = None
    config: Fragments = None
    config_option: Annotated[
        list[str] | None,
        typer.Option(
            help="CONFIG_NAME=y: bisect these options instead of commits, each added to those before it; "
            "may be repeated"
        ),
    ] = None


@dataclass(frozen=True)
class BisectExecutionOptions:
    """How candidates are measured, and where results go."""

    panel: ClassVar[str] = RESULTS

    jobs: Jobs = 0
    fleet: FleetAddress = ""
    certificates: Certificates = None
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="the bisection's folder: a new one, or one to continue"),
    ] = None
    format: Annotated[BisectFormat, typer.Option(help="how to print it")] = BisectFormat.text


@grouped()
def bisect(
    asked: TargetOptions,
    file_systems: FileSystems,
    variants: Variants,
    tree: TreeOptions,
    machine: MachineOptions,
    execution: BisectExecutionOptions,
) -> None:
    """Find the kernel, boot parameter, setting, option or commit that changes a count.

    Among N candidates it measures about log2 N.

    The same command again continues where the bisection stopped.

    Example: `bigiron bisect open1 --linux ~/linux --good v6.1 --bad v6.2 --cpus 8 -o b`
    """
    if execution.output is None:
        raise UserError("no folder for the bisection: give -o FOLDER")
    timed = asked.by == throughput.PROBE.name
    by = target.parse(asked.by) if asked.by and not timed else None
    spec = _spec(asked, machine, file_systems, by)
    candidates = _candidates(tree, variants, machine)
    predicted = _prediction(asked, by)
    about = {"by": asked.by, "on": asked.on, **candidates.question}
    try:
        with pools(execution.fleet, execution.certificates, execution.jobs) as fleet:
            study = execution.output / "study"
            measure = MeasuredByStudy(study, spec, execution.jobs, ProgressBar, *predicted, fleet)
            if timed:
                tolerance = TOLERANCE if asked.tolerance is None else asked.tolerance
                runs = asked.most_runs or _MOST_RUNS
                of_time = TimedBisection(
                    execution.output, candidates, measure.throughput, _say, about, tolerance, runs
                )
                print(_TIMED[execution.format](of_time, of_time.find()), end="")
            else:
                of_counts = Bisection(execution.output, candidates, measure, _say, about, by)
                found = of_counts.find()
                if measure.machine_differences:
                    _say(measure.machine_differences)
                print(_COUNTED[execution.format](of_counts, found), end="")
    except KeyboardInterrupt:
        raise stopped(execution.output) from None


_MOST_RUNS = 200
_COUNTED = {BisectFormat.text: bisect_report.as_text, BisectFormat.json: bisect_report.as_json}
_TIMED = {BisectFormat.text: bisect_report.timed_as_text, BisectFormat.json: bisect_report.timed_as_json}


def _say(step: str) -> None:
    print(sanitize(step), file=sys.stderr, flush=True)


def _spec(
    asked: TargetOptions, machine: MachineOptions, file_systems: FileSystems, by: Target | None
) -> Spec:
    """What is measured of each candidate."""
    workload = WorkloadOptions(
        workload=asked.workload,
        workload_file=asked.workload_file,
        probe=",".join(_probes(asked.by, by)),
        operations=asked.operations,
        cpus=asked.cpus,
        tasks=asked.tasks,
        mode=asked.mode,
    )
    timed = asked.by == throughput.PROBE.name
    if machine.kind != "vm" and not timed:
        raise UserError(
            "counts are recorded in virtual machines only: give --by throughput, or leave out --machine"
        )
    if timed and asked.reps > 1:
        raise UserError(
            "--reps applies to counts: with --by throughput each candidate runs until it is decided"
        )
    if not timed and (asked.tolerance is not None or asked.most_runs):
        raise UserError(
            "--tolerance and --most-runs apply to --by throughput only: each count has its own tolerance"
        )
    for option, text in ("--cpus", asked.cpus), ("--tasks", asked.tasks):
        if text not in (None, "all") and len(numbers(option, text)) > 1:
            raise UserError(f"{option} {text}: a bisection uses one number: give only one")
    # The candidates are added as variants one by one.
    first = Variants(kernel=["none"] if machine.kind == "vm" else None)
    repetitions = RepetitionOptions(reps=asked.reps, tolerance=asked.tolerance)
    spec = question(workload, ProgramOptions(), first, machine, file_systems, repetitions, AllProbeOptions())
    resolve.check_numbers(spec)
    return spec


def _prediction(asked: TargetOptions, by: Target | None) -> tuple[str, int]:
    """The machine to predict for, and the number of tasks."""
    if by is None or by.kind != "predicted":
        if asked.on:
            raise UserError(f"--on {asked.on}: give --by predicted too")
        return "", 0
    if not asked.on:
        raise UserError("--by predicted: name the machine with --on (`bigiron machine list`)")
    cpus = machine_files.load(asked.on).cpus
    tasks = int(by.name) if by.name else cpus
    if tasks > cpus:
        raise UserError(f"--by predicted:{tasks}: {asked.on} has {cpus} CPUs")
    return asked.on, tasks


def _probes(given: str | None, by: Target | None) -> tuple[str, ...]:
    if by:
        return by.probes
    return (throughput.PROBE.name,) if given else target.PROBES


def _candidates(
    tree: TreeOptions, variants: Variants, machine: MachineOptions
) -> CommitsOfTree | OptionsOfConfiguration | ListOfVariants:
    if tree.linux is None:
        if tree.good or tree.bad or tree.config or tree.config_option:
            raise UserError(
                "--good, --bad, --config and --config-option need a kernel's source: give --linux TREE too"
            )
        if not variants.kernel and machine.kind == "vm":
            raise UserError("no kernel: give --kernel debian/6.1 --kernel debian/6.12, or --linux TREE")
        if variants.kernel and machine.kind != "vm":
            raise UserError("the kernel of a real machine cannot be chosen: leave out --kernel, or --machine")
        return ListOfVariants(variants.all(machine.kind), machine.arch)
    if tree.config_option and (tree.good or tree.bad):
        raise UserError("a bisection is of commits or of options, not both: leave out --good and --bad")
    if not tree.config_option and not (tree.good and tree.bad):
        raise UserError("--linux TREE: give --good COMMIT and --bad COMMIT too")
    if machine.kind != "vm":
        raise UserError(
            "the kernel of a real machine cannot be chosen: bisect settings there, or leave out --machine"
        )
    if variants.kernel or variants.boot_sweep or variants.set_sweep:
        raise UserError(
            "a bisection is of commits or of a list, not both: leave out --linux, or --kernel and the sweeps"
        )
    of_all = Variant(name="commit", boot=variants.boot, set=variants.set_ or [])
    if tree.config_option:
        return OptionsOfConfiguration(
            tree.linux, tree.config_option, tree.config or [], of_all, machine.arch, _say
        )
    assert tree.good and tree.bad
    found = commits.between(tree.linux, tree.good, tree.bad)
    return CommitsOfTree(found, tree.config or [], of_all, machine.arch, _say)
