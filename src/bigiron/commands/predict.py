"""`bigiron predict`: throughput on a machine that nobody here has, from what was recorded."""

import csv
from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.options import Format, choice, doublings
from bigiron.errors import UserError
from bigiron.report import predict as prediction_report
from bigiron.report.predict import Measured
from bigiron.study import prediction, store

_OTHER_UNIT = 5  # times the given rate of one task, from which points are in another unit


def predict(
    study: Annotated[Path, typer.Argument(help="a study with the probes conflicts, locks and work")],
    machine: Annotated[
        str, typer.Option(help="the machine to predict for (`bigiron machine list`), or a TOML file")
    ],
    tasks: Annotated[
        str | None, typer.Option(help="numbers of tasks: 1,8,48, or 1..48 by doubling  [default: all]")
    ] = None,
    one_task: Annotated[
        float | None,
        typer.Option(help="operations a second of one task of the first variant there, where that is known"),
    ] = None,
    measured: Annotated[
        Path | None, typer.Option(help="a CSV file with tasks and throughput that were measured there")
    ] = None,
    lock: Annotated[str, choice(("qspinlock", "cna"), "what the kernel's spinlocks are")] = "qspinlock",
    spread: Annotated[
        bool, typer.Option("--spread", help="tasks go to all nodes in turns, not to one after the other")
    ] = False,
    draws: Annotated[
        int, typer.Option(min=8, max=4096, help="machines drawn from all that is not known")
    ] = 64,
    seed: Annotated[int, typer.Option(min=0, help="of all that chance decides")] = 1,
    format: Annotated[Format, typer.Option(help="how to print it")] = Format.text,
) -> None:
    """Predict throughput by tasks on another machine, with its interval and what limits it.

    Example: `bigiron predict s --machine xeon-5418y-x2 --one-task 2.0e6`
    """
    if one_task is not None and not one_task > 0:
        raise UserError(f"--one-task {one_task}: use operations a second, more than none")
    points = _measured(measured, one_task) if measured else None
    asked = doublings("--tasks", tasks) if tasks is not None else []
    if points:
        asked = sorted({*asked, *points.throughput})
    found = prediction.predict(
        store.open_study(study),
        machine,
        asked,
        known=(1, one_task) if one_task else None,
        draws=draws,
        seed=seed,
        lock=lock,
        spread=spread,
    )
    print(prediction_report.FORMATS[format.value](found, points), end="")


def _measured(path: Path, one_task: float | None) -> Measured:
    """The columns `tasks` and `throughput` of a CSV file; UserError for what is none."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except UnicodeDecodeError:
        raise UserError(f"{path} is no CSV file: it is not text") from None
    if not rows or not {"tasks", "throughput"} <= set(rows[0]):
        raise UserError(f"{path}: no columns tasks and throughput: its first line names the columns")
    points: dict[int, float] = {}
    for line, row in enumerate(rows, 2):
        tasks, throughput = row["tasks"], row["throughput"]
        try:
            number, value = int(tasks or ""), float(throughput or "")
        except ValueError:
            raise UserError(
                f"{path}, line {line}: {tasks!r} tasks, throughput {throughput!r}: use numbers"
            ) from None
        if number < 1 or not 0 < value < float("inf") or number in points:
            raise UserError(
                f"{path}, line {line}: {number} tasks, throughput {value}: use each once, above zero"
            )
        points[number] = value
    first = min(points)
    if one_task is None:
        return Measured(True, first, {number: value / points[first] for number, value in points.items()})
    off = points[first] / first / one_task
    if not 1 / _OTHER_UNIT < off < _OTHER_UNIT:
        raise UserError(
            f"{path}: {points[first]:g} at {first} tasks beside --one-task {one_task:g}: that is another "
            "unit; leave out --one-task, and both are shown relative to the first point"
        )
    return Measured(False, first, points)
