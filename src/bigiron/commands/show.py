"""`bigiron show`: what a study asks and holds."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.options import ListFormat
from bigiron.commands.output import print_list
from bigiron.report import overview
from bigiron.study import store


def show(
    study: Annotated[Path, typer.Argument(help="a study")],
    times: Annotated[bool, typer.Option("--times", help="how long each stage of its cells took")] = False,
    format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text,
) -> None:
    """Show what a study asks, and the identity and state of its cells."""
    opened = store.open_study(study)
    if times:
        print_list(overview.times(opened), format)
        return
    print(overview.FORMATS[format.value](opened), end="")
