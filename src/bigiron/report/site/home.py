"""The first page: every workload on every kernel, changes of the newest kernel, the most shared objects."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bigiron.history.derive import ACCESSES
from bigiron.history.records import ChangeRecord, KernelRecord, PointRecord, PredictionRecord, WorkloadRecord
from bigiron.report.site import address, objects, words
from bigiron.report.site.page import SitePage
from bigiron.report.site.reading import LEAST, HistoryReader, ObjectChange
from bigiron.util.english import first_n, plural
from bigiron.util.numbers import short_count, three_digits
from bigiron.util.object_name import without_instance

_MOST = 6  # of a list
_MOST_OBJECTS = 20


@dataclass(frozen=True)
class HomeCell:
    """A workload on a kernel, in one view."""

    text: str
    shade: str = ""
    mark: str = ""  # a change since the kernel before
    apart: bool = False  # whether another recorder, QEMU or machine measured it than the newest kernel
    title: str = ""

    @property
    def packed(self) -> list[str | int]:
        """For the page's script, without empty values at the end."""
        every: list[str | int] = [self.text, self.shade, self.mark, int(self.apart), self.title]
        while every and not every[-1]:
            every.pop()
        return every


@dataclass(frozen=True)
class HomeView:
    """A view of the matrix: accesses at one CPU count, or the prediction for a machine."""

    label: str
    legend: Sequence[tuple[str, str]]
    legend_of: str
    rows: dict[int, list[HomeCell]]  # by workload, a cell for each kernel


@dataclass(frozen=True)
class HomeRow:
    """A workload, whatever the view."""

    workload: WorkloadRecord
    href: str  # "" where it has no page: it was refused everywhere
    grows: str
    ahead: list[PredictionRecord | None]  # what is predicted of the newest kernel
    hottest: str  # object with the most accesses on the newest kernel
    hottest_href: str  # "" where it has no page
    accesses: float  # on the newest kernel, with the most CPUs
    changed: bool  # by the newest kernel


@dataclass(frozen=True)
class Moved:
    """An object or a workload that the newest kernel changed."""

    name: str
    href: str
    before: float
    after: float
    note: str


def page(reading: HistoryReader) -> SitePage:
    """The first page of a site."""
    views = [*_counts(reading), *_predictions(reading)]
    newest = reading.newest
    changes = reading.changes(newest)
    changed = {change.workload for change in changes if change.what in ("line", "lines")}
    rows = [_row(reading, workload, changed) for workload in reading.workloads]
    points = [point for point in reading.points if point.current]
    return SitePage(
        address="index",
        title=f"{plural(len(reading.workloads), 'workload')} on {plural(len(reading.kernels), 'kernel')}",
        template="home.html",
        values={
            "reading": reading,
            "views": views,
            "packed": [
                {number: [cell.packed for cell in cells] for number, cells in view.rows.items()}
                for view in views
            ],
            "suites": list(_by_suite(rows)),
            "even": reading.is_even,
            "ahead": _ahead(reading),
            "grows": any(row.grows for row in rows),
            "newest": newest,
            "against": words.names(reading.against(newest)),
            "worse": moved(reading, changes, more=True),
            "better": moved(reading, changes, more=False),
            "gone": objects_moved(reading, newest, "gone"),
            "new": objects_moved(reading, newest, "new"),
            "objects": objects.rows(reading)[:_MOST_OBJECTS],
            "most": _MOST,
            "apart": incomparable(reading, newest),
        },
        columns=(
            *("workload", "kernel", "cpus", "tasks", "accesses_per_op", "writes_per_op", "shared_lines"),
            *("instructions_per_op", "identity", "measured", "command"),
        ),
        rows=[_data(reading, point) for point in points],
        about={
            "kernels": [kernel.name for kernel in reading.kernels],
            "measured": reading.measured,
            "views": [view.label for view in views],
        },
    )


def _data(reading: HistoryReader, point: PointRecord) -> tuple[object, ...]:
    return (
        reading.workload(point.workload).name,
        reading.kernel(point.kernel).name,
        point.cpus,
        point.tasks,
        round(point.accesses_per_op, 6),
        round(point.writes_per_op, 6),
        point.shared_lines,
        round(point.instructions_per_op, 3),
        point.identity,
        point.measured,
        point.command,
    )


# The matrix


def _counts(reading: HistoryReader) -> Iterator[HomeView]:
    """With the CPUs that most workloads were measured with first, and of these the most."""
    times = Counter(point.cpus for point in reading.points if point.current)
    for cpus in sorted(times, key=lambda cpus: (-times[cpus], -cpus)):
        rows = {workload.id: _plural(reading, workload, cpus) for workload in reading.workloads}
        yield HomeView(f"accesses per operation, {cpus} CPUs", words.shades(), "accesses per operation", rows)


def _plural(reading: HistoryReader, workload: WorkloadRecord, cpus: int) -> list[HomeCell]:
    points = [reading.point(workload, kernel, cpus) for kernel in reading.kernels]
    last = next((point for point in reversed(points) if point), None)
    return [
        _cell(reading, workload, kernel, point, last)
        for kernel, point in zip(reading.kernels, points, strict=True)
    ]


def _cell(
    reading: HistoryReader,
    workload: WorkloadRecord,
    kernel: KernelRecord,
    point: PointRecord | None,
    last: PointRecord | None,
) -> HomeCell:
    if point is None:
        refused = reading.refusals.get((workload.id, kernel.id), [])
        return HomeCell("×" if refused else "–", title=refused[0].reason if refused else "not measured")
    mark = ""
    older = reading.compared(workload, kernel, point.cpus)
    before = reading.point(workload, older, point.cpus) if older else None
    if before and not ACCESSES.takes_for_same(before.accesses_per_op, point.accesses_per_op):
        mark = "▲" if point.accesses_per_op > before.accesses_per_op else "▼"
    apart = last is not None and last.identity != point.identity
    value = point.accesses_per_op
    return HomeCell(short_count(value), words.shade(value), mark, apart)


def _predictions(reading: HistoryReader) -> Iterator[HomeView]:
    for machine, tasks in reading.machines:
        rows = {
            workload.id: [_predicted(reading, workload, kernel, machine, tasks) for kernel in reading.kernels]
            for workload in reading.workloads
        }
        label = f"predicted throughput of {tasks} tasks on {machine}, relative to one task"
        yield HomeView(label, words.efficiencies(), "predicted share of perfect scaling", rows)


def _predicted(
    reading: HistoryReader, workload: WorkloadRecord, kernel: KernelRecord, machine: str, tasks: int
) -> HomeCell:
    here = reading.prediction(workload, kernel, machine, tasks)
    if here is None:
        refused = [p.refused for p in reading.predictions(workload, kernel) if p.refused]
        return HomeCell("–", title=refused[0] if refused else "not predicted")
    return HomeCell(three_digits(here.relative), words.efficiency_shade(here), title=_range(here))


def _range(prediction: PredictionRecord) -> str:
    return f"{three_digits(prediction.low)} to {three_digits(prediction.high)}"


def _row(reading: HistoryReader, workload: WorkloadRecord, changed: set[int]) -> HomeRow:
    newest = reading.newest
    point = reading.point(workload, newest, reading.most_cpus(workload))
    lines = reading.lines(point) if point else []
    total = next(iter(reading.growths(workload, newest, "lines")), None)
    hottest = without_instance(lines[0].object) if lines and lines[0].accesses_per_op >= LEAST else ""
    return HomeRow(
        workload,
        address.workload(workload.name) if reading.most_cpus(workload) else "",
        total.law if total else "",
        [reading.prediction(workload, newest, *machine) for machine in _ahead(reading)],
        hottest,
        _object_href(reading, hottest),
        point.accesses_per_op if point else 0.0,
        workload.id in changed,
    )


def _ahead(reading: HistoryReader) -> list[tuple[str, int]]:
    """What every row tells of, whatever the view: the first machine with more tasks than were measured."""
    first = [(machine, tasks) for machine, tasks in reading.machines if machine == reading.machines[0][0]]
    return [(machine, tasks) for machine, tasks in first if tasks > max(reading.cpus)]


def _object_href(reading: HistoryReader, name: str) -> str:
    """Of an object's page; "" where it has none."""
    found = reading.object_of(name)
    return address.object(found) if found else ""


def _by_suite(rows: Iterable[HomeRow]) -> Iterator[tuple[str, list[HomeRow]]]:
    found: dict[str, list[HomeRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: -row.accesses):
        suite, slash, _ = row.workload.name.rpartition("/")
        found[suite if slash else ""].append(row)
    yield from sorted(found.items())


# What changed


def moved(reading: HistoryReader, changes: Sequence[ChangeRecord], more: bool) -> list[Moved]:
    """Workloads of which all lines together are accessed more often, or less, the largest change first."""
    totals = [c for c in changes if c.what == "lines" and (c.count_after > c.count_before) is more]
    totals.sort(key=lambda change: -abs(change.count_after - change.count_before))
    return [
        Moved(
            reading.workload(one.workload).name,
            address.workload(reading.workload(one.workload).name),
            one.count_before,
            one.count_after,
            _most_of(reading, one),
        )
        for one in totals
    ]


def _most_of(reading: HistoryReader, total: ChangeRecord) -> str:
    """The object that changed most, the same way."""
    changes = reading.object_changes(reading.kernel(total.after), reading.workload(total.workload))
    more = total.count_after > total.count_before
    return next((c.name for c in changes if (c.now.accesses > c.was.accesses) is more), "")


def objects_moved(reading: HistoryReader, kernel: KernelRecord, how: Literal["gone", "new"]) -> list[Moved]:
    """Objects that a kernel rid some workload of, or brought to it: that with the most accesses first."""
    found: dict[str, list[ObjectChange]] = defaultdict(list)
    for one in reading.object_changes(kernel):
        there, not_there = (one.was, one.now) if how == "gone" else (one.now, one.was)
        if there.accesses >= LEAST > not_there.accesses:
            found[one.name].append(one)
    return [
        Moved(
            name,
            _object_href(reading, name),
            of[0].was.accesses,
            of[0].now.accesses,
            f"in {first_n([one.workload.name for one in of], 3)}",
        )
        for name, of in found.items()
    ]


def incomparable(reading: HistoryReader, kernel: KernelRecord) -> int:
    """The number of workloads without a comparable older kernel, as the setup differed."""
    older = reading.kernels[: reading.kernels.index(kernel)]
    found = 0
    for workload in reading.workloads:
        cpus = reading.most_cpus(workload)
        both = reading.point(workload, kernel, cpus) and any(reading.point(workload, k, cpus) for k in older)
        found += bool(both and not reading.compared(workload, kernel, cpus))
    return found
