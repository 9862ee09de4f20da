"""`bigiron explain`: the findings of a study in words."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bigiron.analysis.comparison.model import Options
from bigiron.commands.common.options import (
    Base,
    Context,
    ForMachine,
    InContext,
    WithProfile,
    choice,
    contexts,
)
from bigiron.commands.common.profile import beside
from bigiron.report import measured
from bigiron.report.explain.csv_json import FORMATS
from bigiron.report.explain.text import explanation, notes
from bigiron.results import prediction
from bigiron.study import store


def explain(
    study: Annotated[Path, typer.Argument(help="the study's folder")],
    base: Base = None,
    context: InContext = Context.process,
    machine: ForMachine = None,
    profile: WithProfile = None,
    format: Annotated[str, choice(FORMATS, "output format")] = "text",
) -> None:
    """Explain what changed between variants, or what limits a single one, and how to confirm it.

    Example: `bigiron explain s`
    """
    opened = store.open_study(study)
    costs = prediction.line_costs(opened, machine) if machine else None
    options = Options(opened.base(base), contexts(context), costs=costs)
    found = explanation(opened, options)
    if profile:
        found = replace(found, measured=tuple(measured.sentences(beside(opened, profile, options))))
    print(FORMATS[format](found), end="")
    for sentence in (*found.caveats, *notes(found)) if format == "csv" else ():
        print(f"bigiron: {sentence}", file=sys.stderr)
