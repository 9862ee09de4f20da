"""`bigiron knee`: find the task count from which throughput stops growing."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.common.options import Base, choice
from bigiron.report import knee as knee_report
from bigiron.results import scaling
from bigiron.study import store


def knee(
    study: Annotated[
        Path, typer.Argument(help="folder of a study with several task counts, preferably five or more")
    ],
    base: Base = None,
    at: Annotated[
        int | None,
        typer.Option(min=2, help="task count to extrapolate to  [default: twice the largest measured]"),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="one metric  [default: all]")] = None,
    format: Annotated[str, choice(knee_report.FORMATS, "output format")] = "text",
) -> None:
    """Show how throughput grows with tasks: the knee, where variants diverge, and the growth law.

    Example: `bigiron knee s --at 128`
    """
    found = scaling.knee_study(store.open_study(study), base, at, metric)
    print(knee_report.FORMATS[format](found), end="")
