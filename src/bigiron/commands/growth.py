"""`bigiron growth`: how counts grow with the CPUs."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron import probes
from bigiron.commands.options import Context, Format, choice, contexts
from bigiron.report import growth as growth_report
from bigiron.study import store


def growth(
    study: Annotated[
        Path, typer.Argument(help="a study with three numbers of CPUs or more; five are better")
    ],
    variant: Annotated[str | None, typer.Option(help="one variant; all unless given")] = None,
    at: Annotated[
        int | None, typer.Option(min=2, help="CPUs to predict for; 8 times the most measured unless given")
    ] = None,
    format: Annotated[Format, typer.Option(help="how to print it")] = Format.text,
    context: Annotated[Context, typer.Option(help="on whose behalf the kernel ran")] = Context.process,
    probe: Annotated[
        str, choice((one.name for one in probes.probes()), help="whose counts grow")
    ] = probes.DEFAULT,
) -> None:
    """Fit how the accesses to each shared cache line grow with the CPUs, the fastest growing first.

    Example: `bigiron growth s --at 512`
    """
    opened = store.open_study(study)
    counted = "simulation" if opened.spec.engine.is_model else probe
    result = growth_report.growth_study(opened, variant, at, counted, contexts(context))
    print(growth_report.FORMATS[format.value](result), end="")
