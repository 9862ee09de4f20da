"""`bigiron explain`: the findings in words."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.analysis.comparison.model import Options
from bigiron.commands.options import Context, ForMachine, ListFormat, contexts
from bigiron.report import explain as explanation
from bigiron.results import prediction
from bigiron.study import store


def explain(
    study: Annotated[Path, typer.Argument(help="a study")],
    base: Annotated[
        str | None, typer.Option(help="the variant to compare with; the first unless given")
    ] = None,
    context: Annotated[Context, typer.Option(help="on whose behalf the kernel ran")] = Context.process,
    machine: ForMachine = None,
    format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text,
) -> None:
    """Say in words what changed between variants, or what will limit the only one, and how to confirm it.

    Example: `bigiron explain s`
    """
    opened = store.open_study(study)
    costs = prediction.line_costs(opened, machine) if machine else None
    options = Options(opened.base(base), contexts(context), costs=costs)
    print(explanation.FORMATS[format.value](explanation.explanation(opened, options)), end="")
