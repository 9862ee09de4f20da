"""What `bigiron predict` shows: throughput by tasks on another machine, and what limits it."""

import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from bigiron.analysis.replay.prediction import (
    Limit,
    PredictedCurve,
    PredictedPoint,
    PredictedRatio,
    limit_name,
)
from bigiron.analysis.statistics.estimate import Estimate
from bigiron.readers.measured_points import MeasuredPoints
from bigiron.report.formats import listing
from bigiron.report.formats.chart import Chart, ChartLine, DataPoint
from bigiron.report.formats.columns import aligned
from bigiron.report.formats.listing import Listing, plain
from bigiron.results.prediction import Prediction
from bigiron.util.english import plural, shortened
from bigiron.util.numbers import rate, three_digits

_WIDTH = 100
_NAME = 46  # characters of an object's name
_MOST = 3  # limits in a row
_NO_RATE = (
    ". The rate of one task was not given (--one-task) and is a range: where tasks contend, operations/s "
    "depend less on it than throughput relative to one task does"
)
_OTHER = "; recorded on {}, whose instructions, page faults and TLB flushes are not those of {}"
_SPINLOCKS = {
    "cna": "; spinlocks are NUMA-aware (CNA)",
    "powerpc": "; spinlocks are those of POWER since kernel 6.2",
}


def as_text(found: Prediction) -> str:
    """For a terminal or a mail."""
    parts = [textwrap.fill(_heading(found), _WIDTH)]
    for (curve, there), (title, rows) in zip(_curves(found), tables(found), strict=True):
        table = "\n".join(line.rstrip() for line in aligned(rows, ">" * (len(rows[0]) - 1) + "<"))
        below = "\n".join(textwrap.fill(note, _WIDTH) for note in _notes(curve, found, there))
        parts.append(f"{textwrap.fill(title, _WIDTH)}\n{table}\n{below}")
    parts += [textwrap.fill(in_words(ratio), _WIDTH) for ratio in found.ratios]
    parts += [textwrap.fill(f"not predicted: {one.variant}: {one.why}", _WIDTH) for one in found.refused]
    return "\n\n".join(parts) + "\n"


def chart(found: Prediction) -> Chart:
    """The curves with their intervals, and the measured points."""
    measured = found.measured
    relative = measured.relative if measured else not found.one_task
    lines = [
        ChartLine(curve.variant, (), tuple(_spots(curve, measured, relative)), "predicted", style)
        for style, curve in enumerate(found.curves)
    ]
    if measured:
        points = tuple(DataPoint(tasks, value) for tasks, value in sorted(measured.throughput.items()))
        lines.append(ChartLine(f"{found.first}: measured", points, style=len(lines)))
    unit = f"of {plural(measured.first if measured else 1, 'task')}" if relative else "operations per second"
    return Chart("Throughput", "tasks", unit, tuple(lines))


def _spots(curve: PredictedCurve, measured: MeasuredPoints | None, relative: bool) -> Iterable[DataPoint]:
    for point in curve.points:
        shown = point.relative if relative else point.throughput
        if measured:
            shown = beside(curve, point, measured)
        yield DataPoint(point.tasks, shown.value, shown.low, shown.high)


def tables(found: Prediction) -> list[tuple[str, list[list[str]]]]:
    """Heading and cells of each variant's table; the first row has the column names."""
    return [
        (
            _title(curve, found),
            [_headings(found, there), *(_row(curve, p, found, there) for p in curve.points)],
        )
        for curve, there in _curves(found)
    ]


def notes(found: Prediction) -> list[str]:
    """Notes on the prediction, in sentences."""
    of_curves = [
        f"{curve.variant}: {note}" for curve, there in _curves(found) for note in _notes(curve, found, there)
    ]
    refused = [f"not predicted: {one.variant}: {one.why}" for one in found.refused]
    return [_heading(found), *of_curves, *map(in_words, found.ratios), *refused]


def as_markdown(found: Prediction) -> str:
    """The same as Markdown tables."""
    parts = [plain(_heading(found))]
    shown = zip(_curves(found), tables(found), strict=True)
    for (curve, there), (title, (headings, *rows)) in shown:
        aligned = "r" * (len(headings) - 1) + "l"
        table = listing.markdown_table(headings, [map(plain, row) for row in rows], aligned)
        notes = map(plain, _notes(curve, found, there))
        parts += [f"**{plain(title)}**", table.rstrip("\n"), *notes]
    parts += [plain(in_words(ratio)) for ratio in found.ratios]
    parts += [plain(f"not predicted: {one.variant}: {one.why}") for one in found.refused]
    return "\n\n".join(parts) + "\n"


def _curves(found: Prediction) -> Iterable[tuple[PredictedCurve, MeasuredPoints | None]]:
    """Each curve with the measured points of its variant."""
    return ((curve, found.measured if curve.variant == found.first else None) for curve in found.curves)


_HELD_OUT = ", which were made wide enough to hold 86 % of 200 published points"
"""How far a range can be trusted: docs/validation/curves.md."""


def _heading(found: Prediction) -> str:
    given = f"; the given rate of one task is {rate(found.one_task)}/s" if found.one_task else _NO_RATE
    if found.missed:
        given += f", which {found.missed} of the samples miss at every speed of instructions that was tried"
    lock = _SPINLOCKS.get(found.lock, "")
    if found.recorded_on != found.architecture:
        lock += _OTHER.format(found.recorded_on, found.architecture)
    if all(one.is_trace for one in found.recordings):
        from_ = "from traces"
    else:
        from_ = (
            "from counts. No trace: the order of accesses within an operation is unknown and is "
            "sampled at random"
        )
    return (
        f"{found.workload} on {found.machine} ({found.description}): predicted throughput, {from_}. "
        f"{found.samples} samples over {found.unknowns} unknowns; 90 % of the samples lie in the ranges in "
        f"parentheses{_HELD_OUT}{given}{lock}"
    )


def _title(curve: PredictedCurve, found: Prediction) -> str:
    (recording,) = (one for one in found.recordings if one.variant == curve.variant)
    title = (
        f"{curve.variant}: {three_digits(recording.instructions)} instructions per operation, recorded with "
        f"{plural(recording.cpus, 'CPU')}"
    )
    extrapolated = recording.extrapolated
    if recording.not_extrapolated:
        title += f"; not extrapolated to more CPUs: {recording.not_extrapolated}"
    elif extrapolated.cpus:
        whole = three_digits(recording.instructions + extrapolated.instructions)
        title += f"; extrapolated to {extrapolated.cpus}: {whole}"
    return title


def _headings(found: Prediction, measured: MeasuredPoints | None) -> list[str]:
    columns = ["tasks", "predicted, relative to one task", "predicted, operations/s"]
    if measured:
        columns += ["measured", "off by"]
    return [*columns, "limited by (share of the tasks' time)"]


def _row(
    curve: PredictedCurve, point: PredictedPoint, found: Prediction, measured: MeasuredPoints | None
) -> list[str]:
    cells = [str(point.tasks), str(point.relative), point.throughput.written(rate)]
    if measured:
        cells += _beside(curve, point, measured)
    return [*cells, limited_by(point.limited_by)]


def _beside(curve: PredictedCurve, point: PredictedPoint, measured: MeasuredPoints) -> list[str]:
    """The measured value and the prediction's error; `!` if the value is outside the interval."""
    if point.tasks not in measured.throughput:
        return ["", ""]
    value = measured.throughput[point.tasks]
    predicted = beside(curve, point, measured)
    outside = "" if predicted.holds(value) else " !"
    shown = three_digits(value) if measured.relative else rate(value)
    return [shown, f"{predicted.value / value - 1:+.0%}{outside}"]


def beside(curve: PredictedCurve, point: PredictedPoint, measured: MeasuredPoints) -> Estimate:
    """The prediction in the unit of what was measured."""
    if not measured.relative:
        return point.throughput
    first = next((p.relative.value for p in curve.points if p.tasks == measured.first), 1.0)
    return point.relative.changed(lambda share: share / first)


def _notes(curve: PredictedCurve, found: Prediction, measured: MeasuredPoints | None) -> Iterable[str]:
    if curve.knee:
        yield f"knee: predicted between {curve.knee.low:.0f} and {curve.knee.high:.0f} tasks"
    elif len({1, *found.tasks}) < 3:
        yield "knee: unknown: it takes three numbers of tasks, of which 1 is one"
    else:
        yield f"knee: none predicted up to {max(found.tasks)} tasks"
    if curve.sensitivities:
        unknowns = ", ".join(f"{one.unknown} ({one.correlation:+.2f})" for one in curve.sensitivities)
        yield f"most influential unknowns at {max(found.tasks)} tasks (rank correlation): {unknowns}"
    if measured:
        yield "off by: error of the prediction; !: the measured value is outside the interval"


def in_words(ratio: PredictedRatio) -> str:
    """The task count from which a variant differs from the first, and by how much."""
    last = max(ratio.points)
    if ratio.differs_from is None:
        return (
            f"{ratio.variant} vs {ratio.base}: predicted {ratio.points[last]!s} times as much at "
            f"{last} tasks; not a significant difference"
        )
    there, then = str(ratio.points[ratio.differs_from]), str(ratio.points[last])
    return (
        f"{ratio.variant} vs {ratio.base}: differs from {plural(ratio.differs_from, 'task')} on, "
        f"predicted {there} times as much, and {then} at {last}"
    )


def limited_by(limits: list[Limit]) -> str:
    """The names with their shares; `nothing` where there are none."""
    shown = [
        f"{shortened(limit_name(limit.kind, limit.object), _NAME)} {limit.share:.0%}"
        for limit in limits[:_MOST]
    ]
    if len(limits) > _MOST:
        shown.append(f"{len(limits) - _MOST} more")
    return ", ".join(shown) or "nothing"


def as_json(found: Prediction) -> str:
    """The whole prediction for programs (docs/reference/schema.md)."""
    document = {
        "study": found.study,
        "workload": found.workload,
        "machine": found.machine,
        "from": "trace" if all(one.is_trace for one in found.recordings) else "counts",
        "samples": found.samples,
        "lock": found.lock,
        "one_task_per_s": found.one_task,
        "samples_missing_rate": found.missed,
        "recorded_on": found.recorded_on,
        "architecture": found.architecture,
        "recordings": [
            {
                "variant": one.variant,
                "cpus": one.cpus,
                "instructions": round(one.instructions, 3),
                "extrapolated_to": one.extrapolated.cpus or None,
                "extrapolated_instructions": round(one.extrapolated.instructions, 3),
                "extrapolated_visits": {
                    name: round(times, 3) for name, times in one.extrapolated.visits.items()
                },
            }
            for one in found.recordings
        ],
        "points": [_point(curve, point, there) for curve, there in _curves(found) for point in curve.points],
        "knees": [
            {"variant": curve.variant, **(_figures("tasks", curve.knee) if curve.knee else {"tasks": None})}
            for curve in found.curves
        ],
        "decided_by": [
            {"variant": curve.variant, "unknown": one.unknown, "correlation": round(one.correlation, 3)}
            for curve in found.curves
            for one in curve.sensitivities
        ],
        "ratios": [
            {
                "variant": ratio.variant,
                "base": ratio.base,
                "differs_from": ratio.differs_from,
                "points": [{"tasks": tasks, **_figures("ratio", of)} for tasks, of in ratio.points.items()],
            }
            for ratio in found.ratios
        ],
        "refused": [{"variant": one.variant, "why": one.why} for one in found.refused],
    }
    return listing.json_text(document)


def _point(curve: PredictedCurve, point: PredictedPoint, there: MeasuredPoints | None) -> dict[str, Any]:
    return {
        "variant": curve.variant,
        "tasks": point.tasks,
        **_figures("relative", point.relative),
        "throughput_per_s": point.throughput.value,
        "throughput_low": point.throughput.low,
        "throughput_high": point.throughput.high,
        "measured": there.throughput.get(point.tasks) if there else None,
        "limits": [
            {"kind": limit.kind, "object": limit.object, "share": round(limit.share, 4)}
            for limit in point.limits
        ],
    }


def _figures(name: str, found: Estimate) -> dict[str, float]:
    return {name: round(found.value, 6), "low": round(found.low, 6), "high": round(found.high, 6)}


def as_csv(found: Prediction) -> str:
    """One line per variant and task count."""
    columns = ("variant", "tasks", "relative", "low", "high", "throughput_per_s", "measured", "limited_by")
    rows = [
        (
            curve.variant,
            point.tasks,
            *_figures("relative", point.relative).values(),
            point.throughput.value,
            there.throughput.get(point.tasks) if there else None,
            limited_by(point.limited_by),
        )
        for curve, there in _curves(found)
        for point in curve.points
    ]
    return Listing(columns, rows).as_csv()


FORMATS: dict[str, Callable[[Prediction], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
