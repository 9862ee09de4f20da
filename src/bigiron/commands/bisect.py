"""`bigiron bisect`: which kernel, parameter or commit changes a count."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bigiron.analysis import looked_at
from bigiron.analysis.looked_at import LookedAt
from bigiron.commands.complaints import complain
from bigiron.commands.options import grouped, numbers
from bigiron.commands.run import FileSystems, Mode, Repetitions, Variants, What, Where, question
from bigiron.errors import UserError
from bigiron.kernels import commits
from bigiron.probes import Options
from bigiron.report import bisect as bisect_report
from bigiron.report.progress import ProgressBar
from bigiron.study import spec as specs
from bigiron.study.bisect import Bisection
from bigiron.study.candidates import CommitsOfTree, ListOfVariants, MeasuredByStudy
from bigiron.study.spec import Spec, Variant


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
            help="conflicts:OBJECT, locks:NAME, work:FUNCTION, conflicts or work in all  "
            "[default: what differs most between the ends]"
        ),
    ] = None
    operations: Annotated[int, typer.Option(help="operations a task does while recorded")] = 500
    cpus: Annotated[str | None, typer.Option(help="CPUs of the machines  [default: 8]")] = None
    tasks: Annotated[str, typer.Option(help="'all' (one a CPU), or how many")] = "all"
    mode: Annotated[Mode, typer.Option(help="whether tasks are processes or threads")] = Mode.process
    reps: Annotated[int, typer.Option(min=1, help="repetitions of each candidate, whose mean counts")] = 1


@dataclass(frozen=True)
class OfTree:
    """The commits to bisect instead of a list."""

    linux: Annotated[Path | None, typer.Option(help="a kernel's git tree: bisect its commits")] = None
    good: Annotated[str | None, typer.Option(help="the commit that still has the old value")] = None
    bad: Annotated[str | None, typer.Option(help="the commit that has the new one")] = None
    config: Annotated[
        list[Path] | None, typer.Option(help="a fragment of kernel configuration to add; repeat it")
    ] = None


@dataclass(frozen=True)
class Doing:
    """How it is done, and where results go."""

    jobs: Annotated[int, typer.Option(min=0, help="machines side by side; 0: by cores and memory")] = 0
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the folder; made, or gone on with")
    ] = None
    format: Annotated[BisectFormat, typer.Option(help="how to print it")] = BisectFormat.text


@grouped()
def bisect(
    asked: Asked, tree: OfTree, variants: Variants, where: Where, file_systems: FileSystems, doing: Doing
) -> None:
    """Find which of many kernels, boot parameters, settings or commits changes a count.

    It takes about log2 of their number of boots.

    Run it again and it goes on where it was.

    Example: `bigiron bisect open1 --linux ~/linux --good v6.1 --bad v6.2 --cpus 8 -o b`
    """
    if doing.output is None:
        raise UserError("no folder for what is found: give -o FOLDER")
    by = looked_at.parse(asked.by) if asked.by else None
    spec = _spec(asked, where, file_systems, by)
    candidates = _candidates(tree, variants, where)
    bisection = Bisection(
        doing.output,
        candidates,
        MeasuredByStudy(doing.output / "study", spec, doing.jobs, ProgressBar),
        _say,
        _question(tree, candidates, by),
        by,
    )
    try:
        found = bisection.find()
    except KeyboardInterrupt:
        again = f"stopped; run it again and {doing.output} goes on where it was"
        raise typer.Exit(complain(again, 130)) from None
    render = bisect_report.as_json if doing.format is BisectFormat.json else bisect_report.as_text
    print(render(bisection, found), end="")


def _say(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


def _spec(asked: Asked, where: Where, file_systems: FileSystems, by: LookedAt | None) -> Spec:
    """What is asked of each candidate."""
    what = What(
        workload=asked.workload,
        workload_file=asked.workload_file,
        probe=",".join(by.probes if by else looked_at.PROBES),
        operations=asked.operations,
        cpus=asked.cpus,
        tasks=asked.tasks,
        mode=asked.mode,
    )
    if where.kind != "vm":
        raise UserError("counts are recorded in virtual machines only: leave out --machine")
    for option, text in ("--cpus", asked.cpus), ("--tasks", asked.tasks):
        if text not in (None, "all") and len(numbers(option, text)) > 1:
            raise UserError(f"{option} {text}: a bisection looks at one number of them")
    # Its variants come one by one.
    first = Variants(kernel=["none"])
    spec = question(what, first, where, file_systems, Repetitions(reps=asked.reps), Options())
    specs.check_numbers(spec)
    return spec


def _candidates(tree: OfTree, variants: Variants, where: Where) -> CommitsOfTree | ListOfVariants:
    if tree.linux is None:
        if tree.good or tree.bad or tree.config:
            raise UserError("--good, --bad and --config are of a git tree: give --linux TREE too")
        if not variants.kernel:
            raise UserError("no kernel: give --kernel debian/6.1 --kernel debian/6.12, or --linux TREE")
        return ListOfVariants(variants.all(where.kind), where.arch)
    if not (tree.good and tree.bad):
        raise UserError("--linux TREE: give --good COMMIT and --bad COMMIT too")
    if variants.kernel or variants.boot_sweep or variants.set_sweep:
        raise UserError("either commits or a list is bisected: leave out --linux, or --kernel and sweeps")
    of_all = Variant(name="commit", boot=variants.boot, set=variants.set_ or [])
    found = commits.between(tree.linux, tree.good, tree.bad)
    return CommitsOfTree(found, tree.config or [], of_all, where.arch, _say)


def _question(
    tree: OfTree, candidates: CommitsOfTree | ListOfVariants, by: LookedAt | None
) -> dict[str, object]:
    """What tells this bisection from another one in the same folder."""
    about: dict[str, object] = {"by": by.option if by else None}
    if tree.linux:
        fragments = [str(path) for path in tree.config or []]
        return about | {
            "linux": str(tree.linux.resolve()),
            "good": candidates.old,
            "bad": candidates.new,
            "config": fragments,
        }
    return about | {"candidates": [candidates.old, *candidates.history.names]}
