"""What `bigiron check` does: hold a study against a baseline, or make one of it; and what it prints."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import msgspec

from bigiron.analysis import check, compare, conflicts
from bigiron.analysis.check import Checked, Point
from bigiron.analysis.compare import Line
from bigiron.errors import UserError
from bigiron.report import junit, ktap
from bigiron.study import baseline as baselines
from bigiron.study.baseline import Baseline
from bigiron.study.store import CellRecord, Study

_WIDTH = 100
_MOST_FUNCTIONS = 8

_Place = tuple[str, int, int]  # variant, CPUs, tasks


def check_study(study: Study, path: Path) -> list[Checked]:
    """Hold each point of a study against the baseline's.

    A variant is held against its namesake, or against the baseline's only variant.
    """
    baseline = baselines.read(path)
    baselines.refuse_another(baseline, path, study.spec)
    points = _by_place(baseline)
    variants = {variant for variant, _, _ in points}
    checked, used = [], set()
    for (variant, cpus, tasks), records in _measured(study).items():
        namesake = variant if variant in variants or len(variants) != 1 else min(variants)
        point = points.get((namesake, cpus, tasks))
        if not point:
            there = "; ".join(point.place for point in baseline.point) or "nothing"
            place = Point(variant=variant, cpus=cpus, tasks=tasks).place
            raise UserError(f"{path} has no counts of {place}: it has {there}")
        used.add(point.place)
        findings = check.check(point, _repetitions(study, records), baseline.tolerances)
        checked.append(Checked(msgspec.structs.replace(point, variant=variant).place, point.place, findings))
    skipped = [point.place for point in baseline.point if point.place not in used]
    return checked + [Checked(place, place, [], "not in the study") for place in skipped]


def record(study: Study, path: Path) -> str:
    """Write a study's baseline and say so. In one that is there, what has not changed stays as it is."""
    old = baselines.read(path) if path.exists() else None
    if old and old.workload != study.spec.workload:
        raise UserError(f"{path} is of workload {old.workload}, the study of {study.spec.workload}")
    new = Baseline(
        workload=study.spec.workload,
        workload_sha256=study.spec.workload_sha256,
        mode=study.spec.mode,
        arch=study.spec.arch,
    )
    was: dict[_Place, Point] = {}
    if old:
        new = msgspec.structs.replace(new, tolerance=old.tolerance, relative_tolerance=old.relative_tolerance)
        was = _by_place(old)
    points = []
    for place, records in sorted(_measured(study).items()):
        lines = check.known(_repetitions(study, records), new.tolerances)
        if place in was:
            lines = check.kept(was[place].lines, lines, new.tolerances)
        variant, cpus, tasks = place
        kernel = str(records[0].environment.get("kernel_release", ""))
        points.append(Point(variant=variant, kernel=kernel, cpus=cpus, tasks=tasks, lines=lines))
    new = msgspec.structs.replace(new, point=points)
    if new != old:
        baselines.write(path, new)
    counted = _numbered(sum(len(point.lines) for point in points), "shared line")
    return f"{path}: {'unchanged, ' if new == old else ''}{counted} at {_numbered(len(points), 'point')}"


def _by_place(baseline: Baseline) -> dict[_Place, Point]:
    return {(point.variant, point.cpus, point.tasks): point for point in baseline.point}


def _measured(study: Study) -> dict[_Place, list[CellRecord]]:
    """The records of each point's repetitions; UserError unless all are there and whole."""
    places: dict[_Place, list[CellRecord]] = {}
    for cell in study.plan():
        record = study.record(cell)
        if not record or record.failure:
            state = "failed" if record else "is not measured yet"
            raise UserError(f"{cell} {state}: `bigiron run {study.folder}` goes on with it")
        if "conflicts" not in record.tables:
            raise UserError(f"{cell} was measured without the probe conflicts, which is what is checked")
        if lost := record.facts["conflicts"]["lost_accesses"]:
            raise UserError(
                f"{cell}: the recorder had no room for {lost} accesses, so its counts are too low to check"
            )
        places.setdefault((record.variant, record.cpus, record.tasks), []).append(record)
    return places


def _repetitions(study: Study, records: list[CellRecord]) -> list[list[Line]]:
    return [
        compare.lines_of(
            conflicts.profile(study.table(record, "conflicts"), sum(record.facts["conflicts"]["operations"]))
        )
        for record in records
    ]


def text(workload: str, checked: list[Checked]) -> str:
    """For people: each point, and the lines that are more than the baseline allows."""
    lines = []
    for point in checked:
        against = f" (against {point.against})" if point.against != point.place else ""
        lines.append(f"{_state(point):7} {workload}, {point.place}{against}: {_summary(point)}")
        for finding in point.worse:
            lines += [f"        {finding.object}", f"            {finding.words}"]
            lines += _wrapped(", ".join(finding.functions[:_MOST_FUNCTIONS]), 12)
    return "\n".join(lines) + "\n"


def _state(point: Checked) -> str:
    return "skipped" if point.skipped else "worse" if point.worse else "ok"


def _summary(point: Checked) -> str:
    if point.skipped:
        return point.skipped
    lines = _numbered(len(point.findings), "shared line")
    return f"{len(point.worse)} of {lines}" if point.worse else lines


def _numbered(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)


FORMATS: dict[str, Callable[[str, list[Checked]], str]] = {
    "text": text,
    "ktap": ktap.text,
    "junit": junit.text,
}
