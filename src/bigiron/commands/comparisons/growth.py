"""`bigiron growth`: fit how counts grow with the CPU count."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron import probes
from bigiron.commands.common.options import Context, InContext, choice, contexts
from bigiron.report import growth as growth_report
from bigiron.results import growth as growth_results
from bigiron.study import store


def growth(
    study: Annotated[
        Path, typer.Argument(help="folder of a study with at least three CPU counts, preferably five or more")
    ],
    variant: Annotated[str | None, typer.Option(help="one variant  [default: all]")] = None,
    at: Annotated[
        int | None,
        typer.Option(min=2, help="CPU count to extrapolate to  [default: 8 times the largest measured]"),
    ] = None,
    format: Annotated[str, choice(growth_report.FORMATS, "output format")] = "text",
    context: InContext = Context.process,
    probe: Annotated[
        str, choice((one.name for one in probes.probes() if one.growth), help="the probe whose counts to fit")
    ] = probes.DEFAULT,
) -> None:
    """Fit how accesses to each shared cache line, or instructions of each function, grow with the CPU count.

    Example: `bigiron growth s --at 512`
    """
    opened = store.open_study(study)
    counted = "simulation" if opened.spec.engine.is_model else probe
    result = growth_results.growth_study(opened, variant, at, counted, contexts(context))
    print(growth_report.FORMATS[format](result), end="")
