"""Throughput by tasks, measured on the machine for which it is predicted."""

import csv
from dataclasses import dataclass
from pathlib import Path

from bigiron.errors import UserError

_OTHER_UNIT = 5  # times the given rate of one task, from which points are in another unit


@dataclass(frozen=True)
class MeasuredPoints:
    """Points that were measured there."""

    file: str
    relative: bool  # to the first of them, and so are the predicted ones beside them
    first: int  # tasks of the first
    throughput: dict[int, float]


def read(path: Path, one_task: float | None) -> MeasuredPoints:
    """The columns `tasks` and `throughput` of a CSV file; UserError for what is none."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a CSV file: it is not text") from None
    except csv.Error as error:
        raise UserError(f"{path} is not a CSV file: {error}") from None
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
        relative = {number: value / points[first] for number, value in points.items()}
        return MeasuredPoints(str(path), True, first, relative)
    off = points[first] / first / one_task
    if not 1 / _OTHER_UNIT < off < _OTHER_UNIT:
        raise UserError(
            f"{path}: {points[first]:g} at {first} tasks does not match --one-task {one_task:g}: the units "
            "differ; leave out --one-task, and both are shown relative to the first point"
        )
    return MeasuredPoints(str(path), False, first, points)
