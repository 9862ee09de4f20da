"""What `bigiron history show` prints: an overview, a workload, an object or a kernel of a history."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bigiron.analysis.lines.matching import TOLERANCE
from bigiron.analysis.replay.prediction import limit_name
from bigiron.errors import UserError
from bigiron.history.database import History
from bigiron.history.derive import clock_steps
from bigiron.history.records import (
    ChangeRecord,
    GrowthRecord,
    IdentityRecord,
    KernelRecord,
    LineRecord,
    PointRecord,
    PredictionRecord,
    RefusalRecord,
    WorkloadRecord,
)
from bigiron.report import history_changes
from bigiron.report.formats.listing import Listing, json_text, markdown_table, plain
from bigiron.util.english import first_n, plural

_MOST_CHANGES = 20  # in the overview, for people
_MOST_FUNCTIONS = 3
_OTHER = "*"


@dataclass(frozen=True)
class TableSection:
    """A table with its heading, and the number of rows to show; 0: all."""

    name: str
    heading: str
    rows: Listing
    most: int = 0

    @property
    def shown(self) -> Listing:
        """For people."""
        return Listing(self.rows.columns, self.rows.rows[: self.most or None])

    @property
    def hidden(self) -> str:
        """How many more there are."""
        more = len(self.rows.rows) - len(self.shown.rows)
        return f"{more} more: --format csv or json, or --kernel, shows them" if more else ""


@dataclass(frozen=True)
class HistoryView:
    """What is shown; CSV has only the first section."""

    title: str
    sections: Sequence[TableSection]
    notes: Sequence[str] = ()


class _Reader:
    """A history's rows that several views need."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.kernels = sorted(history.select(KernelRecord), key=lambda kernel: kernel.position)
        self.names = {kernel.id: kernel.name for kernel in self.kernels}
        self.workloads = {workload.id: workload for workload in history.select(WorkloadRecord)}
        self.points = history.select(PointRecord, current=1)
        if not self.kernels:
            raise UserError(f"{history.path} has no kernels yet: `bigiron history add KERNEL` measures one")

    def at(self, points: Iterable[PointRecord]) -> dict[tuple[int, int], dict[int, PointRecord]]:
        """Points by workload and CPUs, then by kernel; the workloads by name."""
        found: dict[tuple[int, int], dict[int, PointRecord]] = {}
        for point in sorted(points, key=lambda point: (self.workloads[point.workload].name, point.cpus)):
            found.setdefault((point.workload, point.cpus), {})[point.kernel] = point
        return found

    def reference(self, points: Mapping[int, PointRecord]) -> int:
        """The setup of the newest kernel, with which the others are compared."""
        return next(points[kernel.id].identity for kernel in reversed(self.kernels) if kernel.id in points)

    def mark(self, point: PointRecord, points: Mapping[int, PointRecord]) -> str:
        """What marks a point whose counts are not compared with the newest kernel's."""
        return "" if point.identity == self.reference(points) else _OTHER

    def notes(self) -> list[str]:
        """What the mark means, where there is one, and how to get rid of it."""
        others = {
            point.kernel
            for points in self.at(self.points).values()
            for point in points.values()
            if self.mark(point, points)
        }
        names = " ".join(self.names[kernel.id] for kernel in self.kernels if kernel.id in others)
        return (
            [
                f"{_OTHER}: counted with another recorder, QEMU, machine or workload than the newest kernel, "
                f"so not compared: `bigiron history add {names}` measures them again"
            ]
            if others
            else []
        )

    def refusals(self, **of: int) -> dict[tuple[int, int], list[RefusalRecord]]:
        """By workload and kernel."""
        found: dict[tuple[int, int], list[RefusalRecord]] = {}
        for refusal in self.history.select(RefusalRecord, **of):
            found.setdefault((refusal.workload, refusal.kernel), []).append(refusal)
        return found


def overview(history: History) -> HistoryView:
    """Workloads by kernels, what the newest kernel changed, and which lines are gone in it."""
    reader = _Reader(history)
    refused = reader.refusals()
    places = reader.at(reader.points)
    newest = reader.kernels[-1]
    changes = [change for change in history.select(ChangeRecord, after=newest.id) if change.what != "pair"]
    gone = [change for change in changes if change.how == "gone" and change.what == "line"]
    columns = ("workload", "cpus", *(kernel.name for kernel in reader.kernels))
    return HistoryView(
        f"{plural(len({w for w, _ in places}), 'workload')} on {plural(len(reader.kernels), 'kernel')}",
        [
            TableSection(
                "workloads",
                "Accesses per operation to cache lines that several CPUs share",
                Listing(columns, _rows(reader, places, refused)),
            ),
            TableSection("changes", f"What {newest.name} changed", _changes(reader, changes), _MOST_CHANGES),
            TableSection("gone", f"Lines gone in {newest.name}", _changes(reader, gone), _MOST_CHANGES),
        ],
        [*reader.notes(), *_refused_in_words(reader, refused)],
    )


def _rows(
    reader: _Reader,
    places: Mapping[tuple[int, int], Mapping[int, PointRecord]],
    refused: Mapping[tuple[int, int], Sequence[RefusalRecord]],
) -> list[tuple[object, ...]]:
    """A row a workload and number of CPUs; one for all numbers where nothing of a workload was measured."""
    known = {
        *places,
        *((workload, one.cpus) for (workload, _), each in refused.items() for one in each if one.cpus),
    }
    measured = {workload for workload, _ in known}
    known |= {(workload, 0) for workload, _ in refused if workload not in measured}
    return [
        (
            reader.workloads[workload].name,
            cpus or "any",
            *(
                _cell(
                    reader,
                    places.get((workload, cpus), {}),
                    refused.get((workload, kernel.id), []),
                    kernel.id,
                    cpus,
                )
                for kernel in reader.kernels
            ),
        )
        for workload, cpus in sorted(known, key=lambda place: (reader.workloads[place[0]].name, place[1]))
    ]


def _cell(
    reader: _Reader,
    points: Mapping[int, PointRecord],
    refused: Sequence[RefusalRecord],
    kernel: int,
    cpus: int,
) -> str:
    if kernel in points:
        return f"{points[kernel].accesses_per_op:.3f}{reader.mark(points[kernel], points)}"
    for refusal in refused:
        if refusal.cpus in (0, cpus):
            return "not supported" if refusal.kind == "input" else "failed"
    return ""


def _refused_in_words(
    reader: _Reader, refused: Mapping[tuple[int, int], Sequence[RefusalRecord]]
) -> list[str]:
    """Each reason once, with all that it is the reason of."""
    of: dict[str, list[str]] = {}
    for (workload, kernel), each in refused.items():
        for refusal in each:
            place = f", {plural(refusal.cpus, 'CPU')}" if refusal.cpus else ""
            known = of.setdefault(refusal.reason, [])
            known.append(f"{reader.workloads[workload].name} on {reader.names[kernel]}{place}")
    return [f"{first_n(places, 4)}: {reason}" for reason, places in of.items()]


def _changes(reader: _Reader, changes: Iterable[ChangeRecord]) -> Listing:
    """Largest first; of several numbers of CPUs each."""
    return Listing(
        history_changes.COLUMNS,
        [
            history_changes.row(
                change, reader.workloads[change.workload], first_n(change.functions, _MOST_FUNCTIONS)
            )
            for change in history_changes.largest_first(changes)
        ],
    )


def of_workload(history: History, name: str) -> HistoryView:
    """A workload on all kernels: its points, its lines, what changed, how it grows, what is predicted."""
    reader = _Reader(history)
    known = next((one for one in reader.workloads.values() if one.name == name), None)
    if not known:
        there = first_n([one.name for one in reader.workloads.values()], 8)
        raise UserError(f"{history.path} has no workload {name!r}: it has {there}")
    points = [point for point in reader.points if point.workload == known.id]
    places = reader.at(points)
    columns = ("cpus", "kernel", "accesses", "writes", "lines", "instructions", "repetitions", "measured")
    rows = [
        (
            point.cpus,
            f"{reader.names[point.kernel]}{reader.mark(point, at)}",
            round(point.accesses_per_op, 3),
            round(point.writes_per_op, 3),
            point.shared_lines,
            round(point.instructions_per_op, 1),
            point.repetitions,
            point.measured[:10],
        )
        for at in places.values()
        for point in (at[kernel.id] for kernel in reader.kernels if kernel.id in at)
    ]
    commands = dict.fromkeys(point.command for point in points)
    return HistoryView(
        f"{known.name}: {known.description}",
        [
            TableSection("points", "Counts per operation", Listing(columns, rows)),
            TableSection("lines", "Shared lines: accesses per operation", _lines(reader, points)),
            TableSection("changes", "What each kernel changed", _changes_of(reader, known.id)),
            TableSection("growth", "How counts grow with the CPUs", _growth(reader, known.id)),
            TableSection(
                "predictions", "Predicted throughput, relative to one task", _predictions(reader, known.id)
            ),
        ],
        [
            *reader.notes(),
            *_refused_in_words(reader, reader.refusals(workload=known.id)),
            *clock_steps(points, {identity.id: identity for identity in history.select(IdentityRecord)}),
            *(f"measured again by: {command}" for command in list(commands)[-1:]),
        ],
    )


def _lines(reader: _Reader, points: Iterable[PointRecord]) -> Listing:
    """A row a line and number of CPUs, a column a kernel; those of all points that are one row."""
    rows: dict[tuple[int, int, int], dict[int, LineRecord]] = {}
    for at in reader.at(points).values():
        for point in at.values():
            for line in reader.history.select(LineRecord, point=point.id):
                if line.accesses_per_op > TOLERANCE:
                    rows.setdefault((point.workload, point.cpus, line.row), {})[point.kernel] = line
    ordered = sorted(rows.items(), key=lambda row: (row[0][1], -max(_accesses(row[1]))))
    columns = ("workload", "cpus", "line", "functions", *(kernel.name for kernel in reader.kernels))
    return Listing(
        columns,
        [
            (
                reader.workloads[of].name,
                cpus,
                _named(max(lines.values(), key=lambda line: line.accesses_per_op)),
                first_n(list(max(lines.values(), key=lambda line: line.accesses_per_op).functions), 3),
                *(
                    f"{lines[kernel.id].accesses_per_op:.3f}" if kernel.id in lines else ""
                    for kernel in reader.kernels
                ),
            )
            for (of, cpus, _), lines in ordered
        ],
    )


def _accesses(lines: Mapping[int, LineRecord]) -> list[float]:
    return [line.accesses_per_op for line in lines.values()]


def _named(line: LineRecord) -> str:
    return f"{line.object} (pair)" if line.pair else line.object


def _changes_of(reader: _Reader, workload: int) -> Listing:
    found = reader.history.select(ChangeRecord, workload=workload)
    listed = _changes(reader, [])
    rows = []
    for kernel in reader.kernels:
        of_kernel = _changes(reader, (change for change in found if change.after == kernel.id))
        rows += [(kernel.name, *row) for row in of_kernel.rows]
    return Listing(("kernel", *listed.columns), rows)


def _growth(reader: _Reader, workload: int) -> Listing:
    rows = [
        (
            reader.names[one.kernel],
            one.what,
            one.name,
            ", ".join(f"{cpus}: {count:.3f}" for cpus, count in one.points.items()),
            one.law or "none",
            one.text,
        )
        for one in reader.history.select(GrowthRecord, workload=workload)
    ]
    return Listing(("kernel", "what", "name", "counts", "law", "formula"), rows)


def _predictions(reader: _Reader, workload: int) -> Listing:
    rows = [
        (
            one.machine,
            reader.names[one.kernel],
            one.tasks or "",
            f"{one.relative:.3g} ({one.low:.3g} to {one.high:.3g})" if one.tasks else "",
            one.refused or _limit(one),
        )
        for one in reader.history.select(PredictionRecord, workload=workload)
    ]
    position = {kernel.name: kernel.position for kernel in reader.kernels}
    rows.sort(key=lambda row: (row[0], position[str(row[1])]))
    return Listing(("machine", "kernel", "tasks", "predicted", "limited by"), rows)


def _limit(predicted: PredictionRecord) -> str:
    if not predicted.limits:
        return "nothing"
    limit = predicted.limits[0]
    return f"{limit_name(limit.kind, limit.object)} {limit.share:.0%}"


def of_object(history: History, name: str) -> HistoryView:
    """A struct, a member or a variable: every workload that touches it, on which kernels."""
    reader = _Reader(history)
    points = {point.id: point for point in reader.points}
    lines = [
        line
        for line in history.select(LineRecord)
        if line.point in points and (line.kind == name or _is(name, line.object))
    ]
    if not lines:
        raise UserError(
            f"no workload of {history.path} shares a cache line of {name!r}: `history show` lists the objects"
        )
    rows: dict[tuple[str, int, str], dict[int, LineRecord]] = {}
    for line in sorted(lines, key=lambda line: line.accesses_per_op):
        point = points[line.point]
        place = (reader.workloads[point.workload].name, point.cpus, _named(line))
        rows.setdefault(place, {})[point.kernel] = line
    columns = ("workload", "cpus", "line", "functions", "unit", *(kernel.name for kernel in reader.kernels))
    listed = [
        (
            *place,
            first_n(list(max(of.values(), key=lambda line: line.accesses_per_op).functions), _MOST_FUNCTIONS),
            unit,
            *(f"{getattr(of[k.id], f'{unit}_per_op'):.3f}" if k.id in of else "" for k in reader.kernels),
        )
        for place, of in sorted(rows.items(), key=lambda row: (-max(_accesses(row[1])), row[0]))
        for unit in ("accesses", "writes")
    ]
    writers = {place[0] for place, of in rows.items() if any(line.writes_per_op > 0 for line in of.values())}
    return HistoryView(
        f"{name}: {plural(len(writers), 'workload')} "
        f"{'writes' if len(writers) == 1 else 'write'} it where CPUs share it",
        [TableSection("lines", "Accesses and writes per operation", Listing(columns, listed))],
    )


def _is(name: str, object: str) -> bool:
    """Whether an object is that, or a part of it."""
    return object == name or object.startswith((f"{name}.", f"{name}+", f"{name}[", f"{name} ("))


def of_kernel(history: History, name: str) -> HistoryView:
    """What a kernel changed, in all workloads, and what it refuses."""
    reader = _Reader(history)
    known = next((one for one in reader.kernels if one.name == name), None)
    if not known:
        there = ", ".join(one.name for one in reader.kernels)
        raise UserError(f"{history.path} has no kernel {name!r}: it has {there}")
    changes = history.select(ChangeRecord, after=known.id)
    before = dict.fromkeys(reader.names[change.before] for change in changes)
    against = f", compared with {' and '.join(before)}" if before else ""
    measured = len([point for point in reader.points if point.kernel == known.id])
    return HistoryView(
        f"{known.name}: Linux {known.release}, {plural(measured, 'point')}{against}",
        [TableSection("changes", f"What {known.name} changed", _changes(reader, changes))],
        [*reader.notes(), *_refused_in_words(reader, reader.refusals(kernel=known.id))],
    )


def as_text(view: HistoryView) -> str:
    """For people."""
    parts = [view.title + "\n"]
    for section in view.sections:
        if section.rows.rows:
            hidden = f"({section.hidden})\n" if section.hidden else ""
            parts.append(f"{section.heading}\n{section.shown.as_text()}{hidden}")
    return "\n".join([*parts, *(f"{note}\n" for note in view.notes)])


def as_markdown(view: HistoryView) -> str:
    """The same as text, for a wiki or a mail."""
    parts = [f"# {plain(view.title)}\n"]
    for section in view.sections:
        if section.rows.rows:
            rows = [[plain(str(cell)) for cell in row] for row in section.shown.rows]
            hidden = f"\n{plain(section.hidden)}\n" if section.hidden else ""
            parts.append(
                f"## {plain(section.heading)}\n\n{markdown_table(list(section.rows.columns), rows)}{hidden}"
            )
    return "\n".join([*parts, *(f"- {plain(note)}" for note in view.notes)]).rstrip("\n") + "\n"


def as_csv(view: HistoryView) -> str:
    """Its first table, whole."""
    return view.sections[0].rows.as_csv()


def as_json(view: HistoryView) -> str:
    """All tables, whole: a list of objects each."""
    tables = {
        section.name: [dict(zip(section.rows.columns, row, strict=True)) for row in section.rows.rows]
        for section in view.sections
    }
    return json_text({"title": view.title, **tables, "notes": list(view.notes)})


FORMATS: dict[str, Callable[[HistoryView], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
