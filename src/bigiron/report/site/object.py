"""An object's page: the workloads, kernels and functions that write it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bigiron.history.records import KernelRecord, WorkloadRecord
from bigiron.report.site import address, words
from bigiron.report.site.page import Answers, SitePage
from bigiron.report.site.reading import HistoryReader, ObjectAtPoint, ObjectChange
from bigiron.report.site.workload import in_words
from bigiron.util.english import first_n, plural
from bigiron.util.numbers import short_count
from bigiron.util.object_name import without_instance

_MOST_CHAINS = 5
_MOST_FUNCTIONS = 16


@dataclass(frozen=True)
class ObjectRow:
    """A workload that touches it, over the releases."""

    workload: WorkloadRecord
    href: str
    cpus: int
    uses: list[ObjectAtPoint | None]  # for each kernel; None where it does not touch it
    measured: list[bool]
    apart: list[bool]  # measured by another than the newest


def page(reading: HistoryReader, name: str) -> SitePage:
    """An object's page."""
    uses = reading.objects[name]
    rows = _rows(reading, uses)
    newest = [row for row in rows if row.uses[-1]]
    functions = _functions(rows)
    return SitePage(
        address=address.object(name),
        title=name,
        template="object.html",
        values={
            "reading": reading,
            "name": name,
            "rows": rows,
            "answers": _answers(reading, name, rows),
            "functions": functions,
            "chains": _chains(reading, newest or rows),
            "sharing": _sharing(uses),
            "false_sharing": any(line.false_sharing for use in uses for line in use.lines),
        },
        columns=(
            *("workload", "kernel", "cpus", "identity", "lines", "accesses_per_op", "writes_per_op"),
            *("writers", "readers"),
        ),
        rows=[_data(reading, use) for use in uses if use.is_shown],
        about={"object": name, "functions": {function: round(most, 4) for function, most, _ in functions}},
    )


def _data(reading: HistoryReader, use: ObjectAtPoint) -> tuple[object, ...]:
    return (
        reading.workload(use.point.workload).name,
        reading.kernel(use.point.kernel).name,
        use.point.cpus,
        use.point.identity,
        len(use.lines),
        round(use.accesses, 4),
        round(use.writes, 4),
        max(line.writers for line in use.lines),
        max(line.readers for line in use.lines),
    )


def _rows(reading: HistoryReader, uses: Sequence[ObjectAtPoint]) -> list[ObjectRow]:
    """With the most CPUs of each workload, those first that touch it most on the newest kernel."""
    found: dict[int, dict[int, ObjectAtPoint]] = defaultdict(dict)
    for use in uses:
        if use.point.cpus == reading.most_cpus(reading.workload(use.point.workload)):
            found[use.point.workload][use.point.kernel] = use
    rows = [
        _row(reading, reading.workload(number), by_kernel)
        for number, by_kernel in found.items()
        if any(use.is_shown for use in by_kernel.values())
    ]
    return sorted(rows, key=lambda row: ([-(u.accesses if u else 0) for u in reversed(row.uses)], row.href))


def _row(reading: HistoryReader, workload: WorkloadRecord, by_kernel: dict[int, ObjectAtPoint]) -> ObjectRow:
    cpus = reading.most_cpus(workload)
    points = [reading.point(workload, kernel, cpus) for kernel in reading.kernels]
    last = next(point for point in reversed(points) if point)
    return ObjectRow(
        workload,
        address.workload(workload.name),
        cpus,
        [by_kernel.get(kernel.id) for kernel in reading.kernels],
        [point is not None for point in points],
        [point is not None and point.identity != last.identity for point in points],
    )


def _answers(reading: HistoryReader, name: str, rows: Sequence[ObjectRow]) -> Answers:
    now = [row for row in rows if row.uses[-1]]
    hottest = now[0] if now else None
    if hottest and (use := hottest.uses[-1]):
        use_now = (
            f"On {reading.newest.name} {plural(len(now), 'workload')} share it between CPUs; most often "
            f"{hottest.workload.name}, "
            f"{short_count(use.accesses)} accesses per operation, "
            f"{short_count(use.writes)} of them writes, "
            f"by up to {max(line.writers for line in use.lines)} of {use.point.cpus} CPUs."
        )
    else:
        use_now = f"No workload shares it on {reading.newest.name} any more."
    why = [text for kernel in reversed(reading.kernels[1:]) if (text := _why(reading, name, kernel))]
    ignore, because = _ignorable(reading, name, now)
    return Answers(
        measured=(
            f"Accesses to cache lines of {name} that several CPUs touch and at least one writes. {use_now}"
        ),
        why=why or ["It is the same on every kernel that was measured."],
        ignore=ignore,
        because=because,
    )


def _why(reading: HistoryReader, name: str, kernel: KernelRecord) -> str:
    changes = [change for change in reading.object_changes(kernel) if name in change.names]
    if not changes:
        return ""
    first = changes[0]
    also = _kinds(changes[1:])
    sentence = f"{kernel.name}: in {first.workload.name} {in_words(first)}"
    return f"{sentence}; {also}." if also else f"{sentence}."


def _kinds(changes: Sequence[ObjectChange]) -> str:
    """The number of other workloads in which it changed, and how."""
    found: dict[str, int] = defaultdict(int)
    for one in changes:
        was, now = one.was.accesses, one.now.accesses
        how = "more often in" if now > was else "less often in"
        found["gone from" if not now else "new in" if not was else how] += 1
    return ", ".join(f"{how} {plural(number, 'workload')} more" for how, number in found.items())


def _ignorable(reading: HistoryReader, name: str, now: Sequence[ObjectRow]) -> tuple[str, str]:
    """By the largest share of the time that it is predicted to take."""
    if not now:
        return "Yes", f"{reading.newest.name} no longer has it."
    found = [
        (limit.share, prediction, row.workload.name)
        for row in now
        for prediction in reading.predictions(row.workload, reading.newest)
        for limit in prediction.limits
        if without_instance(limit.object) == name and not prediction.refused
    ]
    if not found:
        made = any(not p.refused for row in now for p in reading.predictions(row.workload, reading.newest))
        if made:
            return "Yes", "In every prediction it takes less than 1 % of the time."
        return (
            "It depends",
            "There is no prediction for the workloads that share it: see the access counts below.",
        )
    share, prediction, workload = max(found, key=lambda one: one[0])
    answer = "No" if share >= 0.1 else "Up to a point"
    return answer, (
        f"It is predicted to take {100 * share:.0f} % of the time of {workload} with {prediction.tasks} "
        f"tasks on {prediction.machine}, "
        f"which then does {words.interval(prediction)} times what one task does."
    )


def _functions(rows: Sequence[ObjectRow]) -> list[tuple[str, float, int]]:
    """The functions that access it on the newest kernel that has it: most accesses, number of workloads."""
    most: dict[str, float] = {}
    times: dict[str, int] = defaultdict(int)
    for row in rows:
        use = row.uses[-1] or next((use for use in reversed(row.uses) if use), None)
        counts: dict[str, float] = defaultdict(float)
        for line in use.lines if use else ():
            for function, accesses in line.functions.items():
                counts[function] += accesses
        for function, accesses in counts.items():
            most[function] = max(most.get(function, 0.0), accesses)
            times[function] += 1
    found = sorted(((name, value, times[name]) for name, value in most.items()), key=lambda one: -one[1])
    return found[:_MOST_FUNCTIONS]


def _chains(reading: HistoryReader, rows: Sequence[ObjectRow]) -> list[tuple[str, float, str]]:
    """The call chains that reach it, most frequent first, and their workloads."""
    most: dict[str, float] = {}
    names: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        use = row.uses[-1] or next((use for use in reversed(row.uses) if use), None)
        for line in use.lines if use else ():
            for chain in reading.chains(line):
                most[chain.path] = max(most.get(chain.path, 0.0), chain.accesses_per_op)
                names[chain.path].append(row.workload.name)
    found = sorted(most.items(), key=lambda one: -one[1])[:_MOST_CHAINS]
    return [(path, value, first_n(list(dict.fromkeys(names[path])), 3)) for path, value in found]


def _sharing(uses: Sequence[ObjectAtPoint]) -> dict[str, str]:
    """The kinds of sharing, and their evidence."""
    found: dict[str, str] = {}
    for use in uses:
        for line in use.lines:
            found |= line.sharing
    return found
