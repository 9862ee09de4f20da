"""`bigiron compare`: variants side by side."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bigiron import probes
from bigiron.commands.options import Context, ForMachine, Format, choice, contexts
from bigiron.errors import UserError
from bigiron.probes import conflicts
from bigiron.report.compare import dispatch
from bigiron.results import prediction
from bigiron.study import store
from bigiron.study.spec import Spec


class LineBytes(StrEnum):
    """How long a cache line is taken for."""

    one = "64"
    pair = "128"


class By(StrEnum):
    """Into what stacks are added up."""

    function = "function"
    chain = "chain"


def compare(
    study: Annotated[Path, typer.Argument(help="a study")],
    base: Annotated[
        str | None, typer.Option(help="the variant to compare with; the first unless given")
    ] = None,
    format: Annotated[Format, typer.Option(help="how to print it")] = Format.text,
    context: Annotated[Context, typer.Option(help="on whose behalf the kernel ran")] = Context.process,
    probe: Annotated[
        str | None,
        choice(
            (one.name for one in probes.probes()),
            help="what to compare; conflicts if they were recorded, else what was",
        ),
    ] = None,
    paths: Annotated[int, typer.Option(help="call paths to show for each line, in text")] = 0,
    tolerance: Annotated[
        float | None,
        typer.Option(help="of throughput: a change that does not matter; the study's unless given"),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="of throughput: one metric; all unless given")] = None,
    by: Annotated[
        By | None, typer.Option(help="compare what was recorded with stacks by function, or by call chain")
    ] = None,
    line: Annotated[
        LineBytes,
        typer.Option(help="of conflicts: 128 shows lines that are shared only with the one beside them"),
    ] = LineBytes.one,
    machine: ForMachine = None,
) -> None:
    """Compare a study's variants: one row a shared cache line, a lock or a function; counts per operation.

    Throughput, which has noise, gets a verdict: changed, unchanged or undecided.

    Example: `bigiron compare s --base debian/6.1 --format markdown`
    """
    opened = store.open_study(study)
    compared, pairs = probe or _recorded(opened.spec), line is LineBytes.pair
    of_lines = {f"--line {line.value}": pairs, f"--machine {machine}": machine is not None}
    for option in (option for option, given in of_lines.items() if given):
        if compared != conflicts.PROBE.name or by:
            raise UserError(f"{option} is of the shared lines of the probe {conflicts.PROBE.name} alone")
    costs = prediction.line_costs(opened, machine) if machine else None
    how = dispatch.CompareOptions(
        format.value,
        base,
        contexts(context),
        paths,
        by.value if by else None,
        tolerance,
        metric,
        pairs,
        costs,
    )
    found, missing = dispatch.compare(opened, compared, how)
    print(found, end="")
    for sentence in missing:
        print(f"bigiron: {sentence}", file=sys.stderr)


def _recorded(spec: Spec) -> str:
    """What a study is about, where nobody says what to compare."""
    recorded = [one.name for one in probes.named(spec.probes)]
    return recorded[0] if recorded and probes.DEFAULT not in recorded else probes.DEFAULT
