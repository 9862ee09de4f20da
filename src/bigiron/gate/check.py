"""The gate: compares a study with a baseline or with a history, and records baselines (docs/howto/ci.md)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from bigiron.analysis.comparison import repeatable_counts
from bigiron.analysis.comparison.limits import LimitedCount
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.analysis.lines import shared_lines
from bigiron.analysis.lines.matching import SharedLine
from bigiron.analysis.probes import instructions
from bigiron.errors import UserError
from bigiron.gate import against_history, check_instructions, check_lines
from bigiron.gate import baseline as baselines
from bigiron.gate.baseline import Baseline
from bigiron.gate.check_lines import BaselinePoint, CheckedPoint
from bigiron.history import collect
from bigiron.history.database import open_history
from bigiron.probes.conflicts import ConflictsOptions
from bigiron.study.store import CellRecord, Study

_NO_COUNTS = "the baseline has none"
_NO_OLDER_KERNEL = "the history only has newer kernels"
_LOST = {"conflicts": "lost_accesses", "instructions": "lost_instructions"}

_Place = tuple[str, int, int | None]  # variant, CPUs, tasks if known


@dataclass(frozen=True)
class WrittenBaseline:
    """A baseline that was written."""

    path: Path
    baseline: Baseline
    changed: bool  # False: the file had the same content already
    kept: int = 0  # points that the study does not have


def check_study(study: Study, path: Path) -> list[CheckedPoint]:
    """Compare each point of a study with the same point of a baseline.

    A variant is compared with the baseline's variant of the same name, or with its only variant.
    """
    baseline = baselines.read(path)
    baselines.refuse_another(baseline, path, study.spec)
    points = _by_place(baseline)
    variants = {variant for variant, _, _ in points}
    checked, used = [], set()
    for (variant, cpus, tasks), records in _measured(study, baseline.probes).items():
        namesake = variant if variant in variants or len(variants) != 1 else min(variants)
        point = points.get((namesake, cpus, tasks))
        if not point:
            there = "; ".join(point.place for point in baseline.point) or "nothing"
            place = BaselinePoint(variant=variant, cpus=cpus, tasks=tasks).place
            raise UserError(f"{path} has no counts of {place}: it has {there}")
        _refuse_another_machine(baseline, path, point, records)
        used.add(point.place)
        findings = _findings(study, records, point, baseline)
        place = msgspec.structs.replace(point, variant=variant).place
        left_out = {probe: _NO_COUNTS for probe in check_lines.PROBES if not _has(point, baseline, probe)}
        checked.append(CheckedPoint(place, point.place, findings, left_out=left_out))
    skipped = [point.place for point in baseline.point if point.place not in used]
    return checked + [CheckedPoint(place, place, [], "not in the study") for place in skipped]


def _has(point: BaselinePoint, baseline: Baseline, probe: str) -> bool:
    """Whether the baseline has counts of a probe at a point."""
    return probe in baseline.probes and (probe != "instructions" or point.instructions is not None)


def _findings(
    study: Study, records: list[CellRecord], point: BaselinePoint, baseline: Baseline
) -> list[LimitedCount]:
    found = []
    if "conflicts" in baseline.probes:
        found += check_lines.check(point, _lines(study, records), baseline.tolerances)
    if point.instructions and "instructions" in baseline.probes:
        now = _functions(study, records)
        found.append(
            check_instructions.check(
                point.instructions, point.functions, now, baseline.instructions_tolerances
            )
        )
    return found


def check_against_history(study: Study, path: Path) -> list[CheckedPoint]:
    """Compare each point of a study with the kernel before its own in a history."""
    scope = study.spec.options[ConflictsOptions].scope
    if scope != "kernel":
        raise UserError(
            f"{study.folder} has scope {scope}: a history only has the kernel's memory (--scope kernel)"
        )
    history = open_history(path)
    probes = [probe for probe in check_lines.PROBES if probe in study.spec.probes]
    left_out = {probe: "the study did not record it" for probe in check_lines.PROBES if probe not in probes}
    checked = []
    for (variant, cpus, tasks), records in _measured(study, probes).items():
        place = BaselinePoint(variant=variant, cpus=cpus, tasks=tasks).place
        predecessor = against_history.predecessor(history, study, records[0])
        if not predecessor:
            checked.append(CheckedPoint(place, "", [], _NO_OLDER_KERNEL))
            continue
        counts = repeatable_counts.counts([collect.recording(study, record) for record in records])
        findings = repeatable_counts.check(predecessor.counts, counts)
        if "instructions" in probes:
            now = check_instructions.functions(_functions(study, records))
            grown = check_instructions.grown(predecessor.functions, now)
            findings = [
                replace(one, by=grown) if one.name == repeatable_counts.INSTRUCTIONS else one
                for one in findings
            ]
        checked.append(CheckedPoint(place, predecessor.place, findings, left_out=left_out))
    if all(one.skipped for one in checked):
        raise UserError(
            f"{path} only has kernels newer than the study's: there is no older one to compare with"
        )
    return checked


def record(study: Study, path: Path) -> WrittenBaseline:
    """Write a study's counts as a baseline.

    An existing file keeps the counts that have not changed, and the points of the same variants that the
    study does not have.
    """
    old = baselines.read(path) if path.exists() else None
    if old:
        baselines.refuse_another_question(old, path, study.spec)
    probes = [probe for probe in check_lines.PROBES if probe in study.spec.probes]
    measured = _measured(study, probes)
    first = next(iter(measured.values()))
    new = Baseline(
        workload=study.spec.workload,
        workload_sha256=study.spec.workload_sha256,
        mode=study.spec.mode,
        scope=study.spec.options[ConflictsOptions].scope,
        arch=study.spec.arch,
        clock=study.spec.clock,
        fs=str(study.spec.file_system or ""),
        probes=probes,
        time_slice=_time_slice(first),
        cgroup=_cgroup(first),
    )
    if old:
        new = msgspec.structs.replace(
            new,
            tolerance=old.tolerance,
            relative_tolerance=old.relative_tolerance,
            instructions_tolerance=old.instructions_tolerance,
            relative_instructions_tolerance=old.relative_instructions_tolerance,
        )
    was = _of_same_variant(_by_place(old), measured) if old else {}
    points = {
        place: _point(study, place, records, was.get(place), new) for place, records in measured.items()
    }
    variants = {variant for variant, _, _ in measured}
    kept = {place: point for place, point in was.items() if place not in measured and place[0] in variants}
    if old and kept:
        _refuse_another_head(old, new, path, kept.values())
    ordered = sorted(
        (points | kept).values(), key=lambda point: (point.variant, point.cpus, point.tasks or 0)
    )
    new = msgspec.structs.replace(new, point=ordered)
    if new != old:
        baselines.write(path, new)
    return WrittenBaseline(path, new, new != old, len(kept))


def _of_same_variant(
    points: Mapping[_Place, BaselinePoint], measured: Iterable[_Place]
) -> dict[_Place, BaselinePoint]:
    """A baseline's points; its only variant is the study's only one, whatever their names."""
    names = {variant for variant, _, _ in measured}
    if len(names) != 1 or len({variant for variant, _, _ in points}) != 1:
        return dict(points)
    (name,) = names
    return {
        (name, cpus, tasks): msgspec.structs.replace(point, variant=name)
        for (_, cpus, tasks), point in points.items()
    }


def _refuse_another_head(old: Baseline, new: Baseline, path: Path, kept: Iterable[BaselinePoint]) -> None:
    """UserError if what the file says of all its points would no longer be so for those that it keeps."""
    for name in new.__struct_fields__:
        was, now = getattr(old, name), getattr(new, name)
        if name != "point" and was != now:
            raise UserError(
                f"{path} has {'; '.join(point.place for point in kept)}, which the study does not have, "
                f"with {name} {was}, the study has {now}: measure all points, or record another file"
            )


def _point(
    study: Study, place: _Place, records: list[CellRecord], was: BaselinePoint | None, baseline: Baseline
) -> BaselinePoint:
    """The counts of one point for the baseline; `was` is the baseline's point so far."""
    variant, cpus, tasks = place
    kernel = str(records[0].environment.get("kernel_release", ""))
    point = BaselinePoint(
        variant=variant,
        kernel=kernel,
        cpus=cpus,
        tasks=tasks,
        boots=len(records),
        memory_mib=_memory_mib(records),
        clock_slower=records[0].clock_slower,
        topology=_topology(records),
        qemu=_known(records, "qemu"),
        recorder=_known(records, "recorder"),
        guest=_known(records, "guest"),
    )
    if "conflicts" in baseline.probes:
        lines = check_lines.known(_lines(study, records))
        lines = check_lines.renewed(was.lines, lines, baseline.tolerances) if was else lines
        point = msgspec.structs.replace(point, lines=lines)
    if "instructions" in baseline.probes:
        now = _functions(study, records)
        total = check_instructions.known(now)
        functions = check_instructions.functions(now)
        if was and was.instructions:
            total = check_instructions.renewed(was.instructions, total, baseline.instructions_tolerances)
            # The total and the functions must come from the same measurement.
            functions = was.functions if total is was.instructions else functions
        point = msgspec.structs.replace(point, instructions=total, functions=functions)
    return point


def _by_place(baseline: Baseline) -> dict[_Place, BaselinePoint]:
    return {(point.variant, point.cpus, point.tasks): point for point in baseline.point}


def _measured(study: Study, probes: Sequence[check_lines.CountedProbe]) -> dict[_Place, list[CellRecord]]:
    """The records of each point's repetitions. UserError if a cell is missing, or lost some of its counts."""
    places: dict[_Place, list[CellRecord]] = {}
    for cell in study.plan():
        if cell.change:
            continue
        record = study.record(cell)
        if not record or record.failure:
            state = "failed" if record else "is not measured yet"
            raise UserError(f"{cell} {state}: run `bigiron run {study.folder}` to measure it")
        for probe in probes or check_lines.PROBES[:1]:
            if probe not in record.tables:
                raise UserError(
                    f"{cell} was measured without the probe {probe}, which the check needs: "
                    f"{study.recording(probe)}"
                )
            if lost := record.facts[probe][_LOST[probe]]:
                raise UserError(
                    f"{cell}: the recorder had no room for {lost} counts, so they are too low to check"
                )
        place = record.variant, record.cpus, study.spec.known_tasks(record.tasks)
        places.setdefault(place, []).append(record)
    return places


def _refuse_another_machine(
    baseline: Baseline, path: Path, point: BaselinePoint, records: list[CellRecord]
) -> None:
    """UserError if the study was counted by another recorder, agent or QEMU, or on another machine."""
    for what, old, new in (
        ("time_slice", baseline.time_slice, _time_slice(records)),
        ("cgroup", baseline.cgroup, _cgroup(records)),
        ("memory_mib", point.memory_mib or _memory_mib(records), _memory_mib(records)),
        ("clock_slower", point.clock_slower, records[0].clock_slower),
        ("sockets, nodes, cores and threads", point.topology or _topology(records), _topology(records)),
        ("QEMU", point.qemu or _known(records, "qemu"), _known(records, "qemu")),
        ("recorder", point.recorder or _known(records, "recorder"), _known(records, "recorder")),
        ("guest agent", point.guest or _known(records, "guest"), _known(records, "guest")),
    ):
        if old != new:
            raise UserError(
                f"baseline {path} was recorded with {what} {old}, the study with {new}: "
                "record a new baseline (--record)"
            )


def _time_slice(records: list[CellRecord]) -> str:
    """What ended the time slices of the machine's CPUs."""
    return str(records[0].environment.get("time_slice", "time"))


def _cgroup(records: list[CellRecord]) -> str:
    """The control group of the tasks."""
    return str(records[0].environment.get("cgroup", "none"))


def _topology(records: list[CellRecord]) -> list[int]:
    """The machine's sockets, nodes, cores and threads; empty if they are not known."""
    known = records[0].environment
    return [int(known[name]) for name in ("sockets", "nodes", "cores", "threads") if name in known]


def _known(records: list[CellRecord], what: str) -> str:
    """What counted; empty if it is not known."""
    return str(records[0].environment.get(what, ""))


def _memory_mib(records: list[CellRecord]) -> int:
    return int(records[0].environment.get("memory_mib", 0))


def _lines(study: Study, records: list[CellRecord]) -> list[list[SharedLine]]:
    """The shared cache lines of each repetition."""
    return [
        shared_lines.lines_in(ProbedCell(study.table(one, "conflicts"), one.facts["conflicts"]))
        for one in records
    ]


def _functions(study: Study, records: list[CellRecord]) -> list[dict[str, float]]:
    """Each function's self instructions per operation, in each repetition."""
    profiles = [
        instructions.profile(study.table(one, "instructions"), one.operations("instructions"))
        for one in records
    ]
    return [dict(profile.select("function", "self_per_op").iter_rows()) for profile in profiles]
