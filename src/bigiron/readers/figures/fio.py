"""fio's JSON."""

from itertools import groupby
from typing import Any

import msgspec

from bigiron.errors import UserError
from bigiron.readers.figure import Figure, Format, Reading, count, document, label, number
from bigiron.util import decode
from bigiron.util.numbers import Better

_DIRECTIONS = ("read", "write", "trim")


class _Latency(msgspec.Struct):
    mean: float


class _Direction(msgspec.Struct):
    iops: float
    bw_bytes: float
    total_ios: int
    clat_ns: _Latency


class _Job(msgspec.Struct):
    jobname: str
    read: _Direction
    write: _Direction
    trim: _Direction
    options: dict[str, Any] = msgspec.field(default={}, name="job options")


class _FioOutput(msgspec.Struct):
    version: str = msgspec.field(name="fio version")
    jobs: list[_Job]
    global_options: dict[str, Any] = msgspec.field(default={}, name="global options")


def _read(text: str) -> Reading:
    """I/O operations per second, bandwidth and mean completion latency of each job that did any.

    Of processes that fio does not report as a group, operations and bandwidth add up.
    """
    try:
        output = decode.convert(document(text), _FioOutput)
    except msgspec.ValidationError as error:
        raise UserError(f"this is not fio's JSON (--output-format=json): {error}") from None
    figures = []
    for name, group in groupby(output.jobs, key=lambda job: job.jobname):
        jobs = list(group)
        numjobs = (output.global_options | jobs[0].options).get("numjobs", "1")
        tasks = max(len(jobs), count(str(numjobs), None, "numjobs"))
        for direction in _DIRECTIONS:
            done = [each for job in jobs if (each := getattr(job, direction)).total_ios]
            figures += _figures(f"{label(name, None)} {direction}", done, tasks) if done else []
    ios = sum(getattr(job, direction).total_ios for job in output.jobs for direction in _DIRECTIONS)
    about = {"fio": label(output.version, None)}
    return Reading(figures, about, operations=ios, operation="I/O operation")


def _figures(name: str, done: list[_Direction], tasks: int) -> list[Figure]:
    operations = sum(each.total_ios for each in done)
    values: tuple[tuple[str, str, Better, float], ...] = (
        ("operations", "operations/s", "more", sum(each.iops for each in done)),
        ("bandwidth", "B/s", "more", sum(each.bw_bytes for each in done)),
        (
            "latency, mean",
            "us",
            "less",
            sum(each.clat_ns.mean * each.total_ios for each in done) / operations / 1000,
        ),
    )
    return [
        Figure(f"{name}: {what}", unit, better, number(repr(value), None, f"{name}: {what}"), tasks)
        for what, unit, better, value in values
    ]


FORMAT = Format("fio", "fio's JSON (--output-format=json)", _read)
