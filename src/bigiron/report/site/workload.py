"""A workload's page: its lines over the releases, how they grow, who touches them, and why they changed."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bigiron.history.derive import by_measurement_setup, clock_steps
from bigiron.history.records import KernelRecord, LineRecord, PointRecord, WorkloadRecord
from bigiron.report.formats import flame
from bigiron.report.formats.chart import Chart, ChartLine, DataPoint
from bigiron.report.site import address, words
from bigiron.report.site.page import Answers, SitePage
from bigiron.report.site.reading import HistoryReader, ObjectChange, least
from bigiron.util.english import first_n, plural
from bigiron.util.numbers import short_count

_Key = TypeVar("_Key", bound=Hashable)
_MOST_SHOWN = 3  # objects, as a reason of a change
_LEAST_SHOWN = 0.1  # of the largest change
_MOST_CURVES = 6  # as many as can be distinguished
_MOST_LINES = 40
_MOST_CHAINS = 3
_MOST_FUNCTIONS = 15
_MOST_TOUCHING = 3  # functions of a line, in the data
_MOST_LOCKS = 12


@dataclass(frozen=True)
class LineRow:
    """A line over the releases; None where a kernel does not have it."""

    object: str
    href: str
    lines: list[LineRecord | None]
    accesses: list[float]
    chains: list[tuple[str, float]]  # of the newest kernel that has it

    @property
    def newest(self) -> LineRecord:
        """The line in the newest kernel that still has it."""
        return next(line for line in reversed(self.lines) if line)


@dataclass(frozen=True)
class LineTable:
    """The lines at one number of CPUs, measured with one setup."""

    cpus: int
    by: str  # who measured, where there are several
    kernels: list[KernelRecord]
    points: list[PointRecord]
    rows: list[LineRow]
    smaller: list[float]  # accesses to all other lines, for each kernel


def page(reading: HistoryReader, workload: WorkloadRecord) -> SitePage:
    """A workload's page."""
    points = [point for point in reading.of_workload(workload) if point.current]
    cpus = reading.most_cpus(workload)
    last = next(p for k in reversed(reading.kernels) if (p := reading.point(workload, k, cpus)))
    kernel = reading.kernel(last.kernel)
    tables = list(_tables(reading, workload))
    return SitePage(
        address=address.workload(workload.name),
        title=workload.name,
        template="workload.html",
        values={
            "reading": reading,
            "workload": workload,
            "answers": _answers(reading, workload, last),
            "last": last,
            "kernel": kernel,
            "identities": _identities(reading, points, last),
            "charts": list(_charts(reading, workload)),
            "tables": tables,
            "flame": _flame(reading, last, tables),
            "locks": reading.locks(last)[:_MOST_LOCKS],
            "functions": _functions(reading, workload, last),
            "growths": [
                (k, next(iter(reading.growths(workload, k, "lines")), None)) for k in reading.kernels
            ],
            "clock_steps": clock_steps(points, reading.identities),
            "predicted": {
                kernel.id: [reading.prediction(workload, kernel, *machine) for machine in reading.machines]
                for kernel in reading.kernels
            },
            "not_predicted": sorted(
                {p.refused for k in reading.kernels for p in reading.predictions(workload, k) if p.refused}
            ),
            "refused": [
                (reading.kernel(one.kernel).name, one)
                for k in reading.kernels
                for one in reading.refusals.get((workload.id, k.id), ())
            ],
            "MOST_CHAINS": _MOST_CHAINS,
        },
        columns=(
            *("kernel", "cpus", "identity", "line", "object", "pair", "accesses_per_op", "writes_per_op"),
            *("writers", "readers", "false_sharing"),
        ),
        rows=[_data(reading, point, line) for point in points for line in _all_lines(reading, point)],
        about=_about(reading, workload, points),
    )


def _all_lines(reading: HistoryReader, point: PointRecord) -> list[LineRecord]:
    return [
        line
        for pairs in (False, True)
        for line in reading.lines(point, pairs)
        if line.accesses_per_op >= least(point)
    ]


def _data(reading: HistoryReader, point: PointRecord, line: LineRecord) -> tuple[object, ...]:
    return (
        reading.kernel(point.kernel).name,
        point.cpus,
        point.identity,
        line.row,
        line.object,
        line.pair,
        round(line.accesses_per_op, 4),
        round(line.writes_per_op, 4),
        line.writers,
        line.readers,
        line.false_sharing,
    )


def _about(
    reading: HistoryReader, workload: WorkloadRecord, points: Sequence[PointRecord]
) -> dict[str, object]:
    return {
        "workload": workload.name,
        "description": workload.description,
        "functions": _touching(reading, points),
        "points": [
            {
                "kernel": reading.kernel(point.kernel).name,
                "cpus": point.cpus,
                "identity": point.identity,
                "accesses_per_op": round(point.accesses_per_op, 4),
                "writes_per_op": round(point.writes_per_op, 4),
                "instructions_per_op": round(point.instructions_per_op, 2),
                "measured": point.measured,
                "command": point.command,
            }
            for point in points
        ],
    }


def _touching(reading: HistoryReader, points: Sequence[PointRecord]) -> dict[str, list[str]]:
    """The functions that access each line most, on the newest kernel that has it."""
    found: dict[str, list[str]] = {}
    for point in reversed(points):
        for line in _all_lines(reading, point):
            found.setdefault(line.object, list(line.functions)[:_MOST_TOUCHING])
    return found


# The three answers


def _answers(reading: HistoryReader, workload: WorkloadRecord, last: PointRecord) -> Answers:
    kernel = reading.kernel(last.kernel)
    growth = next(iter(reading.growths(workload, kernel, "lines")), None)
    ignore, because = words.ignorable(
        last.accesses_per_op, last.cpus, growth, reading.predictions(workload, kernel)
    )
    return Answers(
        measured=(
            f"{workload.description[:1].upper()}{workload.description[1:]}, on {last.cpus} virtual CPUs "
            "at once. "
            f"On {kernel.name} each operation accesses shared cache lines "
            f"{short_count(last.accesses_per_op)} times, {short_count(last.writes_per_op)} of them to "
            "write, "
            f"and executes {short_count(last.instructions_per_op)} instructions in the kernel."
        ),
        why=[why(reading, workload, kernel) for kernel in reversed(reading.kernels[1:])],
        ignore=ignore,
        because=because,
    )


def why(reading: HistoryReader, workload: WorkloadRecord, kernel: KernelRecord) -> str:
    """What a kernel changed in a workload and in which functions, in a sentence."""
    changes = reading.object_changes(kernel, workload)
    if not changes:
        return f"{kernel.name}: {_why_not(reading, workload, kernel)}."
    large = [change for change in changes if change.size >= _LEAST_SHOWN * changes[0].size]
    shown = [in_words(change) for change in large[:_MOST_SHOWN]]
    others = len(changes) - len(shown)
    rest = f"; {plural(others, 'smaller change')}" if others else ""
    before = reading.kernel(changes[0].was.point.kernel)
    against = f", against {before.name}" if before != reading.before(kernel) else ""
    return f"{kernel.name}{against}: {'; '.join(shown)}{rest}."


def in_words(one: ObjectChange) -> str:
    """An object's change, and the functions that caused it."""
    by = words.by_functions(one.was.functions, one.now.functions)
    counts = f"{short_count(one.was.accesses)} → {short_count(one.now.accesses)}"
    return f"{one.name} {counts}" + (f" ({by})" if by else "")


def _why_not(reading: HistoryReader, workload: WorkloadRecord, kernel: KernelRecord) -> str:
    cpus = reading.most_cpus(workload)
    now = reading.point(workload, kernel, cpus)
    older = [
        point
        for one in reading.kernels[: reading.kernels.index(kernel)]
        if (point := reading.point(workload, one, cpus))
    ]
    if now is None or not older:
        return "not measured, or no older kernel was"
    if compared := reading.compared(workload, kernel, cpus):
        return f"no line changed against {compared.name}"
    was = older[-1]
    apart = words.differing(reading.identities[was.identity], reading.identities[now.identity])
    before = reading.kernel(was.kernel).name
    return f"cannot be compared with {before}, as the setup differs ({first_n(apart, 4)})"


def _identities(reading: HistoryReader, points: Sequence[PointRecord], last: PointRecord) -> list[str]:
    """What differs between what measured the points, of the same number of CPUs."""
    found = {point.identity for point in points if point.cpus == last.cpus} - {last.identity}
    return [
        first_n(words.differing(reading.identities[one], reading.identities[last.identity]), 4)
        for one in sorted(found)
    ]


# Curves


def _charts(reading: HistoryReader, workload: WorkloadRecord) -> Iterator[Chart]:
    names = tuple(kernel.name.rpartition("/")[2] or kernel.name for kernel in reading.kernels)
    curves = list(_over_releases(reading, workload))
    if len(reading.kernels) > 1 and curves:
        yield Chart(
            "Over the releases",
            "kernel",
            "accesses per operation to shared cache lines",
            tuple(curves),
            names,
        )
    curves = list(_over_cpus(reading, workload))
    if any(len(curve.measured) > 1 for curve in curves):
        yield Chart("With more CPUs", "CPUs", "accesses per operation to shared cache lines", tuple(curves))


def _over_releases(reading: HistoryReader, workload: WorkloadRecord) -> Iterator[ChartLine]:
    """A line for each number of CPUs, and for each identity: points of several are never one line."""
    places = {kernel.id: place for place, kernel in enumerate(reading.kernels)}
    found = _by(reading.of_workload(workload), lambda point: (point.cpus, point.identity))
    for style, ((cpus, identity), points) in enumerate(sorted(found.items())):
        others = [reading.identities[one] for number, one in found if number == cpus]
        by = words.distinguishing_name(reading.identities[identity], others)
        points.sort(key=lambda point: places[point.kernel])
        spots = tuple(DataPoint(places[point.kernel], round(point.accesses_per_op, 4)) for point in points)
        yield ChartLine(f"{plural(cpus, 'CPU')}{', ' if by else ''}{by}", spots, style=style)


def _over_cpus(reading: HistoryReader, workload: WorkloadRecord) -> Iterator[ChartLine]:
    """A line for each kernel, and for each that measured it, whatever the machine's shape."""
    current = [point for point in reading.of_workload(workload) if point.current]
    for style, kernel in enumerate(reversed(reading.kernels[-_MOST_CURVES:])):
        found = by_measurement_setup(
            (point for point in current if point.kernel == kernel.id), reading.identities
        )
        for made_by, points in found.items():
            by = words.distinguishing_name(made_by, found)
            points.sort(key=lambda point: point.cpus)
            spots = tuple(DataPoint(point.cpus, round(point.accesses_per_op, 4)) for point in points)
            yield ChartLine(f"{kernel.name}{', ' if by else ''}{by}", spots, style=style)


def _by(points: Iterable[PointRecord], key: Callable[[PointRecord], _Key]) -> dict[_Key, list[PointRecord]]:
    found: dict[_Key, list[PointRecord]] = defaultdict(list)
    for point in points:
        found[key(point)].append(point)
    return found


# Lines


def _tables(reading: HistoryReader, workload: WorkloadRecord) -> Iterator[LineTable]:
    """The most CPUs first, what measured the newest kernel first."""
    places = {kernel.id: place for place, kernel in enumerate(reading.kernels)}
    found: dict[tuple[int, int], list[PointRecord]] = defaultdict(list)
    for point in reading.of_workload(workload):
        if point.current:
            found[point.cpus, point.identity].append(point)
    order = sorted(found, key=lambda key: (-key[0], -max(places[point.kernel] for point in found[key])))
    for cpus, identity in order:
        others = [reading.identities[one] for number, one in order if number == cpus]
        by = words.distinguishing_name(reading.identities[identity], others)
        points = sorted(found[cpus, identity], key=lambda point: places[point.kernel])
        yield _table(reading, cpus, by, points)


def _table(reading: HistoryReader, cpus: int, by: str, points: list[PointRecord]) -> LineTable:
    by_row: dict[int, list[LineRecord | None]] = defaultdict(lambda: [None] * len(points))
    for place, point in enumerate(points):
        for line in reading.lines(point):
            by_row[line.row][place] = line
    enough = [least(point) for point in points]
    rows = [_row(reading, lines) for lines in by_row.values() if _is_shown(lines, enough)]
    rows.sort(key=lambda row: (-_most(row.lines), row.object))
    rows = rows[:_MOST_LINES]
    shown = [sum(row.accesses[place] for row in rows) for place in range(len(points))]
    smaller = [max(0.0, point.accesses_per_op - sum_) for point, sum_ in zip(points, shown, strict=True)]
    kernels = [reading.kernel(point.kernel) for point in points]
    return LineTable(cpus, by, kernels, points, rows, smaller)


def _is_shown(lines: Sequence[LineRecord | None], least: Sequence[float]) -> bool:
    return any(line and line.accesses_per_op >= accesses for line, accesses in zip(lines, least, strict=True))


def _most(lines: Sequence[LineRecord | None]) -> float:
    return max(line.accesses_per_op for line in lines if line)


def _row(reading: HistoryReader, lines: list[LineRecord | None]) -> LineRow:
    newest = next(line for line in reversed(lines) if line)
    page = reading.object_of(newest.object)
    chains = [(chain.path, chain.accesses_per_op) for chain in reading.chains(newest)]
    return LineRow(
        newest.object,
        address.object(page) if page else "",
        lines,
        [line.accesses_per_op if line else 0.0 for line in lines],
        chains,
    )


def _flame(reading: HistoryReader, last: PointRecord, tables: Sequence[LineTable]) -> flame.Flame | None:
    """The chains with the most CPUs, of every kernel that the same measured: the newest against its last."""
    table = next(one for one in tables if last in one.points)
    weighed = {
        kernel.name: [
            {
                (*chain.path.split(";"), line.object): chain.accesses_per_op
                for line in reading.lines(point)
                for chain in reading.chains(line)
            }
        ]
        for kernel, point in reversed(list(zip(table.kernels, table.points, strict=True)))
    }
    root = flame.tree_of(weighed)
    if not any(root.weights):
        return None
    base = list(weighed)[min(1, len(weighed) - 1)]
    return flame.Flame(
        "conflicts", "accesses to shared cache lines", last.cpus, last.tasks, tuple(weighed), base, root
    )


def _functions(
    reading: HistoryReader, workload: WorkloadRecord, last: PointRecord
) -> list[tuple[str, float, float]]:
    """Functions whose self instructions the newest kernel changed most: before and after."""
    before = reading.compared(workload, reading.kernel(last.kernel), last.cpus)
    was = reading.point(workload, before, last.cpus) if before else None
    if was is None:
        return []
    one, other = ({f.function: f.self_per_op for f in reading.functions(point)} for point in (was, last))
    both = [(name, one.get(name, 0.0), other.get(name, 0.0)) for name in dict.fromkeys([*other, *one])]
    both.sort(key=lambda found: -abs(found[2] - found[1]))
    return [found for found in both if abs(found[2] - found[1]) >= 1][:_MOST_FUNCTIONS]
