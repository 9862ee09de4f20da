"""`bigiron check`: the gate."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bigiron.errors import UserError
from bigiron.report import gate
from bigiron.study import store


class CheckFormat(StrEnum):
    """How a check is printed."""

    text = "text"
    ktap = "ktap"
    junit = "junit"
    csv = "csv"
    json = "json"


def check(
    study: Annotated[Path, typer.Argument(help="a study")],
    baseline: Annotated[Path | None, typer.Option(help="hold the study against this file")] = None,
    record: Annotated[Path | None, typer.Option(help="write this file from the study, or renew it")] = None,
    format: Annotated[CheckFormat, typer.Option(help="how to print what was found")] = CheckFormat.text,
) -> None:
    """Fail, with exit status 1, if an operation has more conflicts than a baseline has.

    Example: `bigiron check s --record open1.toml`, and later `bigiron check t --baseline open1.toml`
    """
    if (baseline is None) == (record is None):
        raise UserError("give either --baseline FILE, to check, or --record FILE, to make one")
    opened = store.open_study(study)
    if record:
        print(gate.record(opened, record))
        return
    assert baseline
    checked = gate.check_study(opened, baseline)
    print(gate.FORMATS[format.value](opened.spec.workload, checked), end="")
    if any(point.worse for point in checked):
        raise typer.Exit(1)
