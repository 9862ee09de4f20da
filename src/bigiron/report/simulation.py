"""What `bigiron compare` shows of a simulated study: each figure by variant, with the range of the seeds."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from bigiron.analysis.comparison import Cell
from bigiron.analysis.seed_range import SeedRange, number
from bigiron.report import listing
from bigiron.report.listing import plain
from bigiron.study import measurements
from bigiron.study.store import CellRecord, Study

_LINES = 5  # shown of each variant


@dataclass(frozen=True)
class Wait:
    """Where CPUs waited: a line or a lock, and nanoseconds per operation."""

    what: str
    ns: float


@dataclass(frozen=True)
class Point:
    """What each variant gives with so many CPUs and tasks."""

    cpus: int
    tasks: int
    figures: dict[tuple[str, str], dict[str, SeedRange]]
    """By name and unit, then by variant."""
    waits: dict[str, list[Wait]]
    """By variant, the longest first."""


@dataclass(frozen=True)
class Comparison:
    """A simulated study."""

    study: str
    design: str
    machine: str
    seeds: int
    variants: list[str]
    points: list[Point]


@dataclass(frozen=True)
class Waits:
    """Nanoseconds per operation that CPUs waited for each line and lock, and spent in all."""

    of: dict[str, float]
    total: float


def compare_study(study: Study) -> Comparison:
    """Gather the figures of a study's cells."""
    rows = study.tables("simulation")
    points = []
    for (cpus, tasks), here in rows.group_by("cpus", "tasks", maintain_order=True):
        figures: dict[tuple[str, str], dict[str, SeedRange]] = {}
        for (name, unit, variant), one in here.group_by("figure", "unit", "variant", maintain_order=True):
            figures.setdefault((str(name), str(unit)), {})[str(variant)] = SeedRange(tuple(one["value"]))
        longest = {
            variant.name: _longest(
                waits([measurements.cell(study, record, "simulation") for record in records])
            )
            for variant in study.spec.variant
            if (records := _records(study, variant.name, int(str(cpus)), int(str(tasks))))
        }
        points.append(Point(int(str(cpus)), int(str(tasks)), figures, longest))
    spec = study.spec
    names = [variant.name for variant in spec.variant]
    return Comparison(study.name, spec.workload, spec.simulation.machine, spec.repetitions, names, points)


def _records(study: Study, variant: str, cpus: int, tasks: int) -> list[CellRecord]:
    wanted = (variant, cpus, tasks)
    return [one for one in study.records() if one.measured and (one.variant, one.cpus, one.tasks) == wanted]


def _longest(waits: Waits) -> list[Wait]:
    longest = sorted(waits.of.items(), key=lambda wait: -wait[1])[:_LINES]
    return [Wait(what, ns) for what, ns in longest if ns > 0]


def waits(cells: Sequence[Cell]) -> Waits:
    """The mean of a cell's seeds. What a lock's own lines take is part of its waiting."""
    of: dict[str, float] = {}
    total = 0.0
    for cell in cells:
        cpus = cell.more["cpus"]
        each = 1 / max(1, cpus["operations"].sum()) / len(cells)
        total += (
            cpus.select(pl.sum_horizontal(pl.selectors.ends_with("_ns").exclude("interrupt_ns")).sum()).item()
            * each
        )
        for kind in ("line", "lock"):
            table = cell.more[f"{kind}s"]
            waited = pl.col("waiting_ns") + (pl.col("transferring_ns") if kind == "line" else 0.0)
            for what, ns in table.select(kind, waited).iter_rows():
                of[f"{kind} {what}"] = of.get(f"{kind} {what}", 0.0) + ns * each
    return Waits(of, total)


def text(comparison: Comparison) -> str:
    """For a terminal or a mail."""
    return "\n\n".join(_text_of(comparison, point) for point in comparison.points) + "\n"


def _heading(comparison: Comparison, point: Point) -> str:
    tasks = "" if point.tasks == point.cpus else f", {point.tasks} task{'s' if point.tasks > 1 else ''}"
    seeds = f"mean of {comparison.seeds} seeds (least to most)" if comparison.seeds > 1 else "one seed"
    return f"{comparison.design} on {comparison.machine}, {point.cpus} CPUs{tasks}, simulated: {seeds}"


def _text_of(comparison: Comparison, point: Point) -> str:
    cells = _cells(comparison, point)
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = [_heading(comparison, point), ""]
    for name, *figures in cells:
        aligned = "  ".join(f"{figure:>{width}}" for figure, width in zip(figures, widths[1:], strict=True))
        lines.append(f"{name:{widths[0]}}  {aligned}".rstrip())
    for variant, waits in point.waits.items():
        where = ", ".join(f"{wait.what} {number(wait.ns)}" for wait in waits)
        lines += ["", f"{variant}: CPUs wait, ns/operation: {where or 'for nothing'}"]
    return "\n".join(lines)


def _cells(comparison: Comparison, point: Point) -> list[list[str]]:
    rows = [["", *comparison.variants]]
    for (name, unit), figures in point.figures.items():
        shown = (figures.get(variant) for variant in comparison.variants)
        rows.append([f"{name}, {unit}", *(_shown(figure, comparison) for figure in shown)])
    return rows


def _shown(figure: SeedRange | None, comparison: Comparison) -> str:
    if figure is None:
        return ""
    return str(figure) if comparison.seeds > 1 else number(figure.mean)


def markdown(comparison: Comparison) -> str:
    """Tables as GitHub and most wikis render them."""
    tables = []
    for point in comparison.points:
        head, *rows = _cells(comparison, point)
        table = listing.markdown(
            head, [map(plain, row) for row in rows], "l" + "r" * len(comparison.variants)
        )
        tables.append(f"{plain(_heading(comparison, point))}\n\n{table}")
    return "\n".join(tables)


def as_csv(comparison: Comparison) -> str:
    """One line a figure and variant (docs/schema.md)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["cpus", "tasks", "variant", "figure", "unit", "mean", "least", "most", "seeds"])
    for point in comparison.points:
        for (name, unit), figures in point.figures.items():
            for variant, of in figures.items():
                row = [
                    point.cpus,
                    point.tasks,
                    variant,
                    name,
                    unit,
                    of.mean,
                    of.low,
                    of.high,
                    len(of.of_seeds),
                ]
                writer.writerow(row)
    return out.getvalue()


def as_json(comparison: Comparison) -> str:
    """Every seed's figures (docs/schema.md)."""
    points = [
        {
            "cpus": point.cpus,
            "tasks": point.tasks,
            "figures": [
                {"figure": name, "unit": unit, "of_seeds": {one: of.of_seeds for one, of in figures.items()}}
                for (name, unit), figures in point.figures.items()
            ],
        }
        for point in comparison.points
    ]
    document = {"study": comparison.study, "design": comparison.design, "machine": comparison.machine}
    return listing.as_json({**document, "points": points})


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": as_csv,
    "json": as_json,
}
