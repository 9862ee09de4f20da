"""What `bigiron check` prints: the comparison of a study with a baseline, or what it recorded as one."""

import textwrap
from collections.abc import Callable

import msgspec

from bigiron.analysis.lines import conflicts, matching
from bigiron.analysis.lines.matching import Line
from bigiron.analysis.probes import instructions
from bigiron.errors import UserError
from bigiron.gate import against_history, check_instructions, check_lines, repeatable_counts
from bigiron.gate import baseline as baselines
from bigiron.gate.baseline import Baseline
from bigiron.gate.check_lines import Checked, Finding, Point
from bigiron.history import collect
from bigiron.history.database import open_history
from bigiron.probes.conflicts import ConflictsOptions
from bigiron.report.formats import comment, junit, ktap
from bigiron.report.formats.listing import json_text
from bigiron.study.store import CellRecord, Study
from bigiron.util.english import counted, some

_WIDTH = 100
_MOST_NAMES = 8


def recorded_text(recorded: Recorded) -> str:
    """One line: what the baseline has now, and whether it changed."""
    points = recorded.baseline.point
    lines = sum(len(point.lines) for point in points)
    words = {"conflicts": plural(lines, "shared line"), "instructions": "instructions"}
    counts = ", ".join(words[probe] for probe in recorded.baseline.probes)
    state = "" if recorded.changed else "unchanged, "
    return f"{recorded.path}: {state}{counts} at {plural(len(points), 'point')}"


def _point(
    study: Study, place: _Place, records: list[CellRecord], was: Point | None, baseline: Baseline
) -> Point:
    """What the baseline records of one point; `was` is what it had."""
    variant, cpus, tasks = place
    kernel = str(records[0].environment.get("kernel_release", ""))
    point = Point(
        variant=variant,
        kernel=kernel,
        cpus=cpus,
        tasks=tasks,
        boots=len(records),
        memory_mib=_memory_mib(records),
        clock_slower=records[0].clock_slower,
    )
    if "conflicts" in baseline.probes:
        lines = check_lines.known(_lines(study, records))
        lines = check_lines.kept(was.lines, lines, baseline.tolerances) if was else lines
        point = msgspec.structs.replace(point, lines=lines)
    if "instructions" in baseline.probes:
        now = _functions(study, records)
        total = check_instructions.known(now)
        functions = check_instructions.functions(now)
        if was and was.instructions:
            total = check_instructions.kept(was.instructions, total, baseline.instructions_tolerances)
            functions = was.functions if total is was.instructions else functions  # both of one measurement
        point = msgspec.structs.replace(point, instructions=total, functions=functions)
    return point


def _by_place(baseline: Baseline) -> dict[_Place, Point]:
    return {(point.variant, point.cpus, point.tasks): point for point in baseline.point}


def _measured(study: Study, probes: Sequence[check_lines.Probe]) -> dict[_Place, list[CellRecord]]:
    """The records of each point's repetitions; UserError unless all are there and whole."""
    places: dict[_Place, list[CellRecord]] = {}
    for cell in study.plan():
        if cell.change:
            continue
        record = study.record(cell)
        if not record or record.failure:
            state = "failed" if record else "is not measured yet"
            raise UserError(f"{cell} {state}: `bigiron run {study.folder}` goes on with it")
        for probe in probes or check_lines.PROBES[:1]:
            if probe not in record.tables:
                raise UserError(
                    f"{cell} was measured without the probe {probe}, which is what is checked: "
                    f"{study.recording(probe)}"
                )
            if lost := record.facts[probe][_LOST[probe]]:
                raise UserError(
                    f"{cell}: the recorder had no room for {lost} counts, so they are too low to check"
                )
        places.setdefault((record.variant, record.cpus, record.tasks), []).append(record)
    return places


def _refuse_another_machine(baseline: Baseline, path: Path, point: Point, records: list[CellRecord]) -> None:
    """UserError if the counts are of machines with other time slices, control groups, memory or clocks."""
    for what, old, new in (
        ("time_slice", baseline.time_slice, _time_slice(records)),
        ("cgroup", baseline.cgroup, _cgroup(records)),
        ("memory_mib", point.memory_mib or _memory_mib(records), _memory_mib(records)),
        ("clock_slower", point.clock_slower, records[0].clock_slower),
    ):
        if old != new:
            raise UserError(
                f"{path} is of machines with {what} {old}, and the study of those with {new}: "
                "record it anew (--record)"
            )


def _time_slice(records: list[CellRecord]) -> str:
    """What ended the time slices of the machine's CPUs."""
    return str(records[0].environment.get("time_slice", "time"))


def _cgroup(records: list[CellRecord]) -> str:
    """The control group of the tasks."""
    return str(records[0].environment.get("cgroup", "none"))


def _memory_mib(records: list[CellRecord]) -> int:
    return int(records[0].environment.get("memory_mib", 0))


def _lines(study: Study, records: list[CellRecord]) -> list[list[Line]]:
    """The shared lines of each repetition."""
    return [
        matching.lines_of(
            conflicts.profile(study.table(record, "conflicts"), _operations(record, "conflicts"))
        )
        for record in records
    ]


def _functions(study: Study, records: list[CellRecord]) -> list[dict[str, float]]:
    """The own instructions of each function, in each repetition."""
    profiles = [
        instructions.profile(study.table(record, "instructions"), _operations(record, "instructions"))
        for record in records
    ]
    return [dict(profile.select("function", "self_per_op").iter_rows()) for profile in profiles]


def _operations(record: CellRecord, probe: str) -> int:
    return sum(record.facts[probe]["operations"])


def as_text(workload: str, checked: list[Checked]) -> str:
    """For people: each point, and what is more than the baseline allows."""
    lines = []
    for point in checked:
        against = f" (against {point.against})" if point.against != point.place else ""
        lines.append(f"{_state(point):7} {workload}, {point.place}{against}: {_summary(point)}")
        for finding in point.worse:
            lines += [
                f"        {finding.name}",
                *_wrapped(finding.words, 12),
                *_wrapped(_cut(finding.by), 12),
            ]
    return "\n".join(lines) + "\n"


def _state(point: CheckedPoint) -> str:
    return "skipped" if point.skipped else "worse" if point.worse else "ok"


def _summary(point: CheckedPoint) -> str:
    if point.skipped:
        return point.skipped
    counts = f"{f'{len(point.worse)} of ' if point.worse else ''}{plural(len(point.findings), 'count')}"
    return "; ".join([counts, *point.gaps])


def _cut(by: str) -> str:
    """The first few of the names that are separated by commas."""
    return first_n(by.split(", "), _MOST_NAMES)


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)


def as_json(workload: str, checked: list[Checked]) -> str:
    """Every point and what was found there (docs/schema.md)."""
    document = {
        "workload": workload,
        "points": [
            {
                "point": point.place,
                "against": point.against,
                "state": _state(point),
                "why_skipped": point.skipped or None,
                "not_compared": dict(point.left_out),
                "findings": [
                    {
                        "name": finding.name,
                        "by": finding.by,
                        "state": _word(finding),
                        "counts": _counts(finding),
                    }
                    for finding in point.findings
                ],
            }
            for point in checked
        ],
    }
    return json_text(document)


def _word(finding: Finding) -> str:
    return "worse" if finding.worse else "undecided" if finding.may_be_worse else "ok"


def _counts(finding: Finding) -> list[dict[str, str | float | None]]:
    """The count of the study, the baseline's count and the limit, in each unit."""
    before = finding.before or (None,) * len(finding.units)
    columns = zip(finding.units, finding.after, before, finding.allowed, strict=True)
    return [
        {
            "unit": unit,
            "found_per_op": round(after, 6),
            "baseline_per_op": None if was is None else round(was, 6),
            "allowed_per_op": round(allowed, 6),
        }
        for unit, after, was, allowed in columns
    ]


FORMATS: dict[str, Callable[[str, list[Checked]], str]] = {
    "text": as_text,
    "ktap": ktap.as_ktap,
    "junit": junit.as_junit,
    "json": as_json,
    "comment": comment.as_comment,
}
