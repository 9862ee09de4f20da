"""`bigiron check`: compare a study with a baseline or a history, and fail if it is worse."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.common.options import choice
from bigiron.errors import UserError
from bigiron.gate import check as gate
from bigiron.report import gate as report
from bigiron.study import store


def check(
    study: Annotated[Path, typer.Argument(help="the study's folder")],
    baseline: Annotated[Path | None, typer.Option(help="compare the study with this baseline file")] = None,
    record: Annotated[
        Path | None, typer.Option(help="write this baseline file from the study, or update it")
    ] = None,
    history: Annotated[
        Path | None, typer.Option(help="compare the study with the preceding kernel in this history")
    ] = None,
    format: Annotated[str, choice(report.FORMATS, "output format")] = "text",
) -> None:
    """Fail with exit status 1 if conflicts or instructions per operation exceed a baseline or a history.

    Example: `bigiron check s --record open1.toml`, and later `bigiron check t --baseline open1.toml`
    """
    if sum(one is not None for one in (baseline, record, history)) != 1:
        raise UserError(
            "give one of --baseline FILE or --history FOLDER (to check) or --record FILE (to write one)"
        )
    opened = store.open_study(study)
    if record:
        print(report.recorded_as_text(gate.record(opened, record)))
        return
    if history:
        checked = gate.check_against_history(opened, history)
    else:
        assert baseline
        checked = gate.check_study(opened, baseline)
    print(report.FORMATS[format](opened.spec.workload, checked), end="")
    if any(point.worse for point in checked):
        raise typer.Exit(1)
