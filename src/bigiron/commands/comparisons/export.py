"""`bigiron export`: call stacks for other tools."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bigiron import probes
from bigiron.commands.common.options import Context, InContext, choice, contexts
from bigiron.errors import UserError
from bigiron.report.formats import folded, pprof
from bigiron.results import stacks
from bigiron.study import store


class StackFormat(StrEnum):
    """The format of the stacks."""

    folded = "folded"
    pprof = "pprof"


_SOURCES = {one.name: one.stacks for one in probes.probes() if one.stacks}


def export(
    study: Annotated[Path, typer.Argument(help="the study's folder")],
    probe: Annotated[str, choice(_SOURCES, help="the probe whose stacks to export")] = probes.DEFAULT,
    format: Annotated[StackFormat, typer.Option(help="output format")] = StackFormat.folded,
    variant: Annotated[
        str | None, typer.Option(help="the variant to export, where the study has several")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="another variant: write the weights of both, for a differential flame graph"),
    ] = None,
    cpus: Annotated[int | None, typer.Option(help="CPU count  [default: the largest measured]")] = None,
    tasks: Annotated[int | None, typer.Option(help="task count  [default: the largest measured]")] = None,
    weight: Annotated[
        str | None,
        choice(
            dict.fromkeys(weight for source in _SOURCES.values() for weight in source.weights),
            help="weight of a stack  [default: accesses, instructions or microseconds, by probe]",
        ),
    ] = None,
    context: InContext = Context.process,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="output file  [default: standard output]")
    ] = None,
) -> None:
    """Write call stacks for flame graphs (flamegraph.pl, inferno, speedscope) or for pprof.

    Example: `bigiron export s --variant debian/6.1 | flamegraph.pl >s.svg`
    """
    opened = store.open_study(study)

    def of(variant: str | None, cpus: int | None, tasks: int | None) -> stacks.StackComparison:
        return stacks.stacks_of(
            opened,
            probe,
            contexts(context),
            variant=variant,
            cpus=cpus,
            tasks=tasks,
            weight=weight,
        )

    chosen = of(variant, cpus, tasks)
    if base is not None:
        if format is StackFormat.pprof:
            raise UserError("pprof compares two files itself (-diff_base): export each without --base")
        encoded = folded.encode_difference(of(base, chosen.cpus, chosen.tasks), chosen)
    else:
        encoded = {StackFormat.folded: folded.encode, StackFormat.pprof: pprof.encode}[format](chosen)
    if output:
        output.write_bytes(encoded)
    elif format is StackFormat.pprof and sys.stdout.isatty():
        raise UserError("pprof's format is binary: give a file with -o FILE")
    else:
        sys.stdout.buffer.write(encoded)
        sys.stdout.buffer.flush()
    print(chosen.summary, file=sys.stderr)
