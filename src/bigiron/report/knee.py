"""What `bigiron knee` shows: throughput by task count, its knee, where variants diverge, and its laws."""

import math
import textwrap
from collections.abc import Callable, Iterator

from bigiron.analysis.statistics import knee
from bigiron.analysis.statistics.estimate import Estimate
from bigiron.analysis.statistics.knee import Fit, Parting, ThroughputCurve
from bigiron.analysis.statistics.ratio import CONFIDENCE, fewest
from bigiron.analysis.statistics.verdict import MetricComparison, Verdict
from bigiron.report.formats import listing
from bigiron.report.formats.columns import aligned
from bigiron.report.formats.listing import Listing, plain
from bigiron.results.scaling import Scaling
from bigiron.util.english import plural
from bigiron.util.numbers import three_digits

_WIDTH = 100


def as_text(scaling: Scaling) -> str:
    """For a terminal or a mail."""
    parts = []
    for heading, curves, cells in tables(scaling):
        parts.append("\n".join([*textwrap.wrap(heading, _WIDTH), "", *aligned(cells)]))
        parts += ["\n".join(_wrapped(in_words(scaling, curve))) for curve in curves]
    partings = _wrapped([parting(one) for one in scaling.partings])
    return "\n\n".join([*parts, *(["\n".join(partings)] if partings else [])]) + "\n"


def _wrapped(lines: list[str]) -> list[str]:
    """Each line wrapped, with a hanging indent."""
    return [
        folded
        for line in lines
        for folded in textwrap.wrap(
            line, _WIDTH, subsequent_indent=" " * (len(line) - len(line.lstrip()) + 4)
        )
    ]


def tables(scaling: Scaling) -> Iterator[tuple[str, list[ThroughputCurve], list[list[str]]]]:
    """The curves that belong side by side: a heading, the curves, and the cells of their table."""
    kinds = dict.fromkeys((curve.metric, curve.unit, curve.cpus) for curve in scaling.curves)
    for metric, unit, cpus in kinds:
        curves = [one for one in scaling.curves if (one.metric, one.unit, one.cpus) == (metric, unit, cpus)]
        on = "one CPU per task" if cpus is None else f"{cpus} CPU{'s' if cpus > 1 else ''}"
        heading = (
            f"{scaling.workload}, {on}: {metric}{f', {unit}' if unit else ''} ({scaling.time}), "
            "by the number of tasks, and its share of ideal scaling"
        )
        tasks = sorted({point.tasks for curve in curves for point in curve.points})
        cells = [["tasks", *(cell for curve in curves for cell in (curve.variant, "ideal"))]]
        for count in tasks:
            cells.append([str(count), *(cell for curve in curves for cell in _at(curve, count))])
        yield heading, curves, cells


def _at(curve: ThroughputCurve, tasks: int) -> tuple[str, str]:
    first = curve.points[0]
    for point in curve.points:
        if point.tasks == tasks:
            ideal = first.throughput.value / first.tasks * tasks
            share = f"{point.throughput.value / ideal:.0%}" if ideal else "-"
            return three_digits(point.throughput.value), share
    return "-", ""


def in_words(scaling: Scaling, curve: ThroughputCurve) -> list[str]:
    """A curve's knee and laws in words."""
    lines = [curve.variant, f"  knee: {_knee(curve)}"]
    if curve.refusal:
        lines.append(f"  no law: {curve.refusal}")
    for fit in curve.fits:
        values = ", ".join(f"{name} {_parameter(curve, name, one)}" for name, one in fit.parameters.items())
        missed = ", ".join(f"{tasks}: {100 * share:+.1f}" for tasks, share in fit.residuals.items())
        lines += [
            f"  {fit.law}: {values}",
            f"    misses, % at tasks: {missed}",
            f"    {_further(scaling, fit)}",
        ]
    return lines


def _knee(curve: ThroughputCurve) -> str:
    found, tasks = curve.knee, [point.tasks for point in curve.points]
    if not curve.points[0].throughput.value:
        return f"unknown: with {plural(tasks[0], 'task')} the throughput is 0, so ideal scaling is not known"
    if not found:
        return "unknown: at least three task counts are needed"
    if found.tasks is None:
        reached = f"none up to {tasks[-1]} tasks"
    else:
        following = tasks[tasks.index(found.tasks) + 1]
        reached = (
            f"{plural(found.tasks, 'task')}; from there to {following} and on, "
            "tasks add less than half of the ideal"
        )
    if not found.interval:
        return f"{reached} (no interval: fewer than {fewest(CONFIDENCE)} repetitions)"
    if (found.low, found.high) == (found.tasks, found.tasks):
        return reached
    low, high = (f"past {tasks[-1]}" if end is None else str(end) for end in (found.low, found.high))
    return f"{reached} (with chance: {low} to {high})"


def _parameter(curve: ThroughputCurve, name: str, estimate: Estimate) -> str:
    """A parameter with its unit: a time where throughput is per second, a share in %."""
    factor, unit = 1.0, ""
    if name in ("serial", "crosstalk"):
        factor, unit = 100.0, " %"
    elif name != "alone":
        factor, unit = (1e9, " ns") if curve.unit.endswith("/s") else (1.0, "")
    value, low, high = (
        "0" if abs(end) * factor < 1e-6 else three_digits(end * factor)
        for end in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value}{unit} ({low} to {high})"


def _further(scaling: Scaling, fit: Fit) -> str:
    if fit.refusal:
        return f"not extrapolated: {fit.refusal}"
    found = fit.predicted[scaling.at]
    interval = f"{three_digits(found.low)} to {three_digits(found.high)}"
    return f"predicted for {scaling.at} tasks: {three_digits(found.value)} ({interval})"


def parting(one: Parting) -> str:
    """Where a variant diverges from the base, in words."""
    on = f" on {plural(one.cpus, 'CPU')}" if one.cpus else ""
    at = ", ".join(f"{tasks}: {_difference(found)}" for tasks, found in one.comparisons.items())
    if one.tasks is None:
        return f"{one.variant} does not diverge from {one.base}{on} (by tasks, {at})"
    where = f"at {plural(one.tasks, 'task')}{on}"
    return f"{one.variant} diverges from {one.base} {where} and beyond (by tasks, {at})"


def _difference(found: MetricComparison) -> str:
    """The change where there is one, else the verdict."""
    return f"{found.ratio.value - 1:+.1%}" if found.verdict is Verdict.changed else found.verdict.value


def as_markdown(scaling: Scaling) -> str:
    """Tables as GitHub and most wikis render them."""
    parts = []
    for heading, curves, (head, *rows) in tables(scaling):
        table = listing.markdown_table(head, [map(plain, row) for row in rows], "r" * len(head))
        parts.append(f"{plain(heading)}\n\n{table.rstrip()}")
        parts += ["\n".join(_items(in_words(scaling, curve))) for curve in curves]
    partings = "\n".join(f"- {plain(parting(one))}" for one in scaling.partings)
    return "\n\n".join([*parts, *([partings] if partings else [])]) + "\n"


def _items(lines: list[str]) -> list[str]:
    return [f"{' ' * (len(line) - len(line.lstrip()))}- {plain(line.lstrip())}" for line in lines]


def as_csv(scaling: Scaling) -> str:
    """One line per point of a curve (docs/reference/schema.md)."""
    columns = ("metric", "unit", "cpus", "variant", "tasks", "repetitions", "median", "low", "high", "knee",
               "ratio", "verdict", *(f"{law.name}_residual" for law in knee.ScalingLaw))  # fmt: skip
    found = {
        (one.metric, one.cpus, one.variant, tasks): comparison
        for one in scaling.partings
        for tasks, comparison in one.comparisons.items()
    }
    rows = []
    for curve in scaling.curves:
        residuals = {fit.law: fit.residuals for fit in curve.fits}
        for point in curve.points:
            here = found.get((curve.metric, curve.cpus, curve.variant, point.tasks))
            rows.append(
                (
                    curve.metric, curve.unit, curve.cpus, curve.variant, point.tasks, point.repetitions,
                    point.throughput.value, _finite(point.throughput.low), _finite(point.throughput.high),
                    curve.knee and curve.knee.tasks, here and here.ratio.value, here and here.verdict.value,
                    *(residuals.get(law, {}).get(point.tasks) for law in knee.ScalingLaw),
                )
            )  # fmt: skip
    return Listing(columns, rows).as_csv()


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else value


def as_json(scaling: Scaling) -> str:
    """Everything (docs/reference/schema.md)."""
    partings = [
        {
            "metric": one.metric,
            "cpus": one.cpus,
            "variant": one.variant,
            "tasks": one.tasks,
            "verdicts": {str(tasks): found.verdict.value for tasks, found in one.comparisons.items()},
            "ratios": {str(tasks): found.ratio for tasks, found in one.comparisons.items()},
        }
        for one in scaling.partings
    ]
    document = {
        "study": scaling.study,
        "workload": scaling.workload,
        "time": scaling.time,
        "base": scaling.base,
        "at": scaling.at,
        "curves": scaling.curves,
        "partings": partings,
    }
    return listing.json_text(document)


FORMATS: dict[str, Callable[[Scaling], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
