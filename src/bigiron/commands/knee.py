"""`bigiron knee`: where throughput stops growing."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.options import Format
from bigiron.report import knee as knee_report
from bigiron.study import store


def knee(
    study: Annotated[Path, typer.Argument(help="a study with several numbers of tasks; five are better")],
    base: Annotated[
        str | None, typer.Option(help="the variant to compare with; the first unless given")
    ] = None,
    at: Annotated[
        int | None, typer.Option(min=2, help="tasks to predict for; twice the most measured unless given")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="one metric; all unless given")] = None,
    format: Annotated[Format, typer.Option(help="how to print it")] = Format.text,
) -> None:
    """Tell how throughput grows with the tasks: its knee, where variants part, and which law it follows.

    Example: `bigiron knee s --at 128`
    """
    scaling = knee_report.knee_study(store.open_study(study), base, at, metric)
    print(knee_report.FORMATS[format.value](scaling), end="")
