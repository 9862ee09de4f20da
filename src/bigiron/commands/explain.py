"""`bigiron explain`: the findings of a study in words."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.analysis.comparison.model import Options
from bigiron.commands.common.options import Base, Context, ForMachine, InContext, ListFormat, contexts
from bigiron.report.explain.csv_json import FORMATS
from bigiron.report.explain.text import explanation
from bigiron.results import prediction
from bigiron.study import store


def explain(
    study: Annotated[Path, typer.Argument(help="the study's folder")],
    base: Base = None,
    context: InContext = Context.process,
    machine: ForMachine = None,
    format: Annotated[ListFormat, typer.Option(help="output format")] = ListFormat.text,
) -> None:
    """Explain what changed between variants, or what limits a single one, and how to confirm it.

    Example: `bigiron explain s`
    """
    opened = store.open_study(study)
    costs = prediction.line_costs(opened, machine) if machine else None
    options = Options(opened.base(base), contexts(context), costs=costs)
    print(FORMATS[format.value](explanation(opened, options)), end="")
