"""`bigiron import`: import figures that were measured elsewhere."""

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
    output: Annotated[
        Path, typer.Option("-o", "--output", help="the study's folder: a new one, or one to add to")
    ],
    variant: Annotated[
        str | None,
        typer.Option(help="name of the variant  [default: the file's name; of a profile: measured]"),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(help="name of the workload  [default: from the figures, else the file's name]"),
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(
            min=1, help="CPUs of the machine  [default: from the file, else the largest task count]"
        ),
    ] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="task count, where the figures lack it")] = None,
) -> None:
    """Import figures that were measured elsewhere into a new or an existing study.

    Example: `bigiron import will-it-scale old/open1.csv --variant old -o s`
    """
    source = imported.read(readers.find(format), path)
    study, added = imported.add(source, output, variant=variant, workload=workload, cpus=cpus, tasks=tasks)
    cells = plural(len(added), "cell")
    next_step = f"STUDY --with {study.folder}" if source.reading.measured else str(study.folder)
    print(f"{cells} of {added[0].variant.name} in {study.folder}: see `bigiron compare {next_step}`")
