"""`bigiron import`: figures that were measured elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron import readers
from bigiron.study import imported
from bigiron.util.english import plural


def import_(
    format: Annotated[
        str, typer.Argument(help=", ".join(f"{one.name} ({one.description})" for one in readers.formats()))
    ],
    path: Annotated[Path, typer.Argument(help="the file or folder with the figures")],
    output: Annotated[Path, typer.Option("-o", "--output", help="the study's folder; made, or added to")],
    variant: Annotated[
        str | None, typer.Option(help="what the figures are of; the file's name unless given")
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="what was run; as the figures say, or the file's name, unless given")
    ] = None,
    cpus: Annotated[
        int | None, typer.Option(min=1, help="of the machine; unless it says so or is given, the most tasks")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="how many ran, where the figures do not say so")
    ] = None,
) -> None:
    """Make a study of figures that were measured elsewhere, or add them to one.

    Example: `bigiron import will-it-scale old/open1.csv --variant old -o s`
    """
    source = imported.read(readers.find(format), path)
    study, added = imported.add(source, output, variant=variant, workload=workload, cpus=cpus, tasks=tasks)
    cells = plural(len(added), "cell")
    print(f"{cells} of {added[0].variant.name} in {study.folder}: see `bigiron compare {study.folder}`")
