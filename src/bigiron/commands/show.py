"""`bigiron show`: what a study asks and holds."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.options import ListFormat
from bigiron.report import overview
from bigiron.study import store


def show(
    study: Annotated[Path, typer.Argument(help="a study")],
    format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text,
) -> None:
    """Show what a study asks, and the identity and state of its cells."""
    print(overview.FORMATS[format.value](store.open_study(study)), end="")
