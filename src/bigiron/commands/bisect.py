"""`bigiron bisect`: which kernel, parameter or commit changes a count."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bigiron.analysis.statistics.verdict import TOLERANCE
from bigiron.bisect import target
from bigiron.bisect.candidates import CommitsOfTree, ListOfVariants, MeasuredByStudy, OptionsOfConfiguration
from bigiron.bisect.search import Bisection, TimedBisection
from bigiron.bisect.target import LookedAt
from bigiron.commands.complaints import complain
from bigiron.commands.fleet import Certificates, FleetAddress, pools
from bigiron.commands.options import Fragments, Jobs, grouped, numbers
from bigiron.commands.run import FileSystems, Mode, Repetitions, Variants, What, Where, question
from bigiron.errors import UserError
from bigiron.kernels import commits
from bigiron.probes import Options, throughput
from bigiron.report import bisect as bisect_report
from bigiron.report.progress import ProgressBar
from bigiron.simulator import machine_files
from bigiron.study import spec as specs
from bigiron.study.spec import Spec, Variant
from bigiron.util.sanitize import sanitize


class BisectFormat(StrEnum):
    """How what is found is printed."""

    text = "text"
    json = "json"


@dataclass(frozen=True)
class Asked:
    """What is measured, and what is looked at."""

    workload: Annotated[str | None, typer.Argument(help="a built-in workload")] = None
    workload_file: Annotated[
        Path | None, typer.Option(help="a C file with will-it-scale's testcase() instead of a workload")
    ] = None
    by: Annotated[
        str | None,
        typer.Option(
            help="conflicts:OBJECT, locks:NAME, instructions:FUNCTION, conflicts or instructions in "
            "all, predicted, predicted:TASKS or throughput  "
            "[default: the count that differs most between the ends]"
        ),
    ] = None
    on: Annotated[
        str, typer.Option(help="of predicted: the machine to predict for (`bigiron machine list`), or a file")
    ] = ""
    operations: Annotated[int, typer.Option(help="operations a task does while recorded")] = 500
    cpus: Annotated[str | None, typer.Option(help="CPUs of the machines  [default: 8]")] = None
    tasks: Annotated[str, typer.Option(help="'all' (one a CPU), or how many")] = "all"
    mode: Annotated[Mode, typer.Option(help="whether tasks are processes or threads")] = Mode.process
    reps: Annotated[int, typer.Option(min=1, help="repetitions of each candidate, whose mean counts")] = 1
    tolerance: Annotated[
        float | None, typer.Option(help="of throughput: a change that does not matter  [default: 0.02]")
    ] = None
    most_runs: Annotated[
        int | None, typer.Option(min=6, max=1000, help="of throughput: end undecided then  [default: 200]")
    ] = None


@dataclass(frozen=True)
class OfTree:
    """The commits to bisect instead of a list, or the options of its configuration."""

    linux: Annotated[Path | None, typer.Option(help="a kernel's git tree: bisect its commits")] = None
    good: Annotated[str | None, typer.Option(help="the commit that still has the old value")] = None
    bad: Annotated[str | None, typer.Option(help="the commit that has the new one")] = None
    config: Fragments = None
    config_option: Annotated[
        list[str] | None,
        typer.Option(
            help="CONFIG_NAME=y: instead of commits bisect options, each set on top of those before; repeat"
        ),
    ] = None


@dataclass(frozen=True)
class Doing:
    """How it is done, and where results go."""

    jobs: Jobs = 0
    fleet: FleetAddress = ""
    certificates: Certificates = None
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the folder; made, or gone on with")
    ] = None
    format: Annotated[BisectFormat, typer.Option(help="how to print it")] = BisectFormat.text


@grouped()
def bisect(
    asked: Asked, tree: OfTree, variants: Variants, where: Where, file_systems: FileSystems, doing: Doing
) -> None:
    """Find which of many kernels, boot parameters, settings, options or commits changes a count.

    It takes about log2 of their number of boots.

    Run it again and it goes on where it was.

    Example: `bigiron bisect open1 --linux ~/linux --good v6.1 --bad v6.2 --cpus 8 -o b`
    """
    if doing.output is None:
        raise UserError("no folder for what is found: give -o FOLDER")
    timed = asked.by == throughput.PROBE.name
    by = target.parse(asked.by) if asked.by and not timed else None
    spec = _spec(asked, where, file_systems, by)
    candidates = _candidates(tree, variants, where)
    predicted = _prediction(asked, by)
    about = {"by": asked.by, "on": asked.on, **candidates.question}
    try:
        with pools(doing.fleet, doing.certificates, doing.jobs) as fleet:
            study = doing.output / "study"
            measure = MeasuredByStudy(study, spec, doing.jobs, ProgressBar, *predicted, fleet)
            if timed:
                tolerance = TOLERANCE if asked.tolerance is None else asked.tolerance
                runs = asked.most_runs or _MOST_RUNS
                of_time = TimedBisection(
                    doing.output, candidates, measure.throughput, _say, about, tolerance, runs
                )
                print(_TIMED[doing.format](of_time, of_time.find()), end="")
            else:
                of_counts = Bisection(doing.output, candidates, measure, _say, about, by)
                found = of_counts.find()
                if measure.machine_differences:
                    _say(measure.machine_differences)
                print(_COUNTED[doing.format](of_counts, found), end="")
    except KeyboardInterrupt:
        again = f"stopped; run it again and {doing.output} goes on where it was"
        raise typer.Exit(complain(again, 130)) from None


_MOST_RUNS = 200
_COUNTED = {BisectFormat.text: bisect_report.as_text, BisectFormat.json: bisect_report.as_json}
_TIMED = {BisectFormat.text: bisect_report.timed_as_text, BisectFormat.json: bisect_report.timed_as_json}


def _say(step: str) -> None:
    print(sanitize(step), file=sys.stderr, flush=True)


def _spec(asked: Asked, where: Where, file_systems: FileSystems, by: LookedAt | None) -> Spec:
    """What is asked of each candidate."""
    what = What(
        workload=asked.workload,
        workload_file=asked.workload_file,
        probe=",".join(_probes(asked.by, by)),
        operations=asked.operations,
        cpus=asked.cpus,
        tasks=asked.tasks,
        mode=asked.mode,
    )
    timed = asked.by == throughput.PROBE.name
    if where.kind != "vm" and not timed:
        raise UserError("counts are recorded in virtual machines only: give --by throughput, or no --machine")
    if timed and asked.reps > 1:
        raise UserError("--reps is of counts: with --by throughput each candidate runs as often as it tells")
    if not timed and (asked.tolerance is not None or asked.most_runs):
        raise UserError("--tolerance and --most-runs are of --by throughput: each count has its own")
    for option, text in ("--cpus", asked.cpus), ("--tasks", asked.tasks):
        if text not in (None, "all") and len(numbers(option, text)) > 1:
            raise UserError(f"{option} {text}: a bisection looks at one number of them")
    # Its variants come one by one.
    first = Variants(kernel=["none"] if where.kind == "vm" else None)
    repetitions = Repetitions(reps=asked.reps, tolerance=asked.tolerance)
    spec = question(what, first, where, file_systems, repetitions, Options())
    specs.check_numbers(spec)
    return spec


def _prediction(asked: Asked, by: LookedAt | None) -> tuple[str, int]:
    """The machine to predict for, and how many tasks."""
    if by is None or by.kind != "predicted":
        if asked.on:
            raise UserError(f"--on {asked.on}: give --by predicted too")
        return "", 0
    if not asked.on:
        raise UserError("--by predicted: say for which machine with --on (`bigiron machine list`)")
    cpus = machine_files.load(asked.on).cpus
    tasks = int(by.name) if by.name else cpus
    if tasks > cpus:
        raise UserError(f"--by predicted:{tasks}: {asked.on} has {cpus} CPUs")
    return asked.on, tasks


def _probes(given: str | None, by: LookedAt | None) -> tuple[str, ...]:
    if by:
        return by.probes
    return (throughput.PROBE.name,) if given else target.PROBES


def _candidates(
    tree: OfTree, variants: Variants, where: Where
) -> CommitsOfTree | OptionsOfConfiguration | ListOfVariants:
    if tree.linux is None:
        if tree.good or tree.bad or tree.config or tree.config_option:
            raise UserError(
                "--good, --bad, --config and --config-option are of a kernel's source: give --linux TREE too"
            )
        if not variants.kernel and where.kind == "vm":
            raise UserError("no kernel: give --kernel debian/6.1 --kernel debian/6.12, or --linux TREE")
        if variants.kernel and where.kind != "vm":
            raise UserError("a real machine runs the kernel that it runs: leave out --kernel, or --machine")
        return ListOfVariants(variants.all(where.kind), where.arch)
    if tree.config_option and (tree.good or tree.bad):
        raise UserError("either commits or options are bisected: leave out --good and --bad")
    if not tree.config_option and not (tree.good and tree.bad):
        raise UserError("--linux TREE: give --good COMMIT and --bad COMMIT too")
    if where.kind != "vm":
        raise UserError(
            "a real machine runs the kernel that it runs: bisect settings there, or leave out --machine"
        )
    if variants.kernel or variants.boot_sweep or variants.set_sweep:
        raise UserError("either commits or a list is bisected: leave out --linux, or --kernel and sweeps")
    of_all = Variant(name="commit", boot=variants.boot, set=variants.set_ or [])
    if tree.config_option:
        return OptionsOfConfiguration(
            tree.linux, tree.config_option, tree.config or [], of_all, where.arch, _say
        )
    assert tree.good and tree.bad
    found = commits.between(tree.linux, tree.good, tree.bad)
    return CommitsOfTree(found, tree.config or [], of_all, where.arch, _say)
