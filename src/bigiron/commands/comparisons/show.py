"""`bigiron show`: the question and the cells of a study."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.common.options import choice
from bigiron.commands.common.output import print_list
from bigiron.report import overview
from bigiron.study import store


def show(
    study: Annotated[Path, typer.Argument(help="the study's folder")],
    times: Annotated[
        bool, typer.Option("--times", help="show how long each stage of each cell took")
    ] = False,
    format: Annotated[str, choice(overview.FORMATS, "output format")] = "text",
) -> None:
    """Show what a study measures, and the identity and state of its cells."""
    opened = store.open_study(study)
    if times:
        print_list(overview.times(opened), format)
        return
    print(overview.FORMATS[format](opened), end="")
