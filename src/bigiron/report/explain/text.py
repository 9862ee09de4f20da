"""What `bigiron explain` prints: findings with their evidence, the most expensive first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from bigiron.analysis.comparison import explain, make_rows, model
from bigiron.analysis.comparison.costly import WEIGHTS
from bigiron.analysis.comparison.explain import LEAST, Explained, RecordedPoint
from bigiron.analysis.comparison.findings import CostlyFinding, Finding, LineFinding, LockFinding, WorkFinding
from bigiron.analysis.comparison.model import ComparedPoint, ComparedRow, CpusAndTasks, Measurements, Options
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.analysis.layout.outcome import LayoutCounts
from bigiron.analysis.lines import conflicts, shared_lines
from bigiron.analysis.lines.shared_lines import LinesAt, SharedLines, bytes_by_cpu, halves, predicted
from bigiron.analysis.probes import costly, instructions, locks
from bigiron.analysis.probes.costly import Costly
from bigiron.analysis.replay.synthetic_operation import without_waiting
from bigiron.analysis.statistics.spread import MOST_BOOTS
from bigiron.errors import UserError
from bigiron.report.alignments import range_of
from bigiron.results import layout, measurements
from bigiron.study.store import Study
from bigiron.util.english import first_n, join_and, plural
from bigiron.util.object_name import ObjectName

PROBES = ("conflicts", "locks", "instructions")
"""The probes that are explained, if recorded."""

_AtPlace = TypeVar("_AtPlace", LinesAt, ComparedPoint)

_WIDTH = 72  # of a mail
_MOST = 8
_MOST_FUNCTIONS = 6
_LEAST_SHOWN = 0.001  # fewer reads or writes per operation are not mentioned


@dataclass(frozen=True)
class Explanation:
    """All findings of a study at the largest number of CPUs."""

    study: str
    workload: str
    contexts: tuple[str, ...]
    explained: Explained
    boots: int  # the smallest number among the variants
    missing: tuple[str, ...]  # probes that were not recorded there
    caveats: tuple[str, ...] = ()  # missing counts, differences between machines
    measured: tuple[str, ...] = ()  # how a real machine's profile agrees, in sentences
    alone: Explanation | None = None
    """What limits a program on the first variant, where no difference between the variants is known."""

    @property
    def recorded(self) -> RecordedPoint:
        """The counts that the findings are based on."""
        return self.explained.recorded

    @property
    def findings(self) -> list[Finding]:
        """The most expensive first."""
        return self.explained.findings


def explanation(study: Study, options: Options, lines: SharedLines | None = None) -> Explanation:
    """The findings of a study; UserError if it recorded none of the probes that are explained."""
    read = {probe: measurements.read(study, probe) for probe in PROBES if study.measured_with("", probe)}
    if not read:
        raise UserError(f"{study.folder} has no counts to explain: {study.recording(*PROBES)}")
    point, there = _to_explain(read)
    explained = _with_alignments(study, point, _explanation(study, there, point, options, lines))
    if explained.findings or not (explained.recorded.others and study.spec.runs_program):
        return explained
    alone = {name: _of_variant(one, explained.recorded.base) for name, one in there.items()}
    return replace(explained, alone=_explanation(study, alone, point, options, None))


def _with_alignments(study: Study, point: CpusAndTasks, found: Explanation) -> Explanation:
    """With what each kernel would count wherever objects can lie, where the probe layout was recorded."""
    recorded = study.measured_with("", layout.PROBE).get(point, {})
    if found.contexts != conflicts.CONTEXTS[:1] or not set(found.recorded.variants) <= set(recorded):
        return found
    of_lines = [finding for finding in found.findings[:_MOST] if isinstance(finding, LineFinding)]
    structs = list(dict.fromkeys(filter(None, map(_struct, of_lines))))
    by_variant = {
        variant: layout.of_boots(recorded[variant], study, structs) for variant in found.recorded.variants
    }
    by_alignment = {
        struct: {
            variant: LayoutCounts.mean([boot.lines for boot in outcomes[struct]])
            for variant, outcomes in by_variant.items()
        }
        for struct in structs
        if all(struct in outcomes for outcomes in by_variant.values())
    }
    counts = replace(found.recorded, by_alignment=by_alignment)
    return replace(found, explained=replace(found.explained, recorded=counts))


def _struct(finding: LineFinding) -> str:
    """The struct of its objects, if they are of one; empty for adjacent lines, and for variables."""
    names = {ObjectName.parse(row.object) for row in finding.rows}
    structs = {name.whole if name.is_struct else "" for name in names}
    return structs.pop() if len(structs) == 1 and not finding.rows[0].halves else ""


def _of_variant(measured: Measurements, name: str) -> Measurements:
    points = {point: {name: cells[name]} for point, cells in measured.points.items() if name in cells}
    return replace(measured, points=points, lost={}, machine_differences={}, changed=())


def _explanation(
    study: Study,
    there: Mapping[str, Measurements],
    point: CpusAndTasks,
    options: Options,
    lines: SharedLines | None,
) -> Explanation:
    here = {name: replace(one, points={point: one.points[point]}) for name, one in there.items()}
    if "conflicts" in there:
        lines = lines or shared_lines.line_up_all(here["conflicts"], options)
    of_lock, of_work = (
        _only(compare(here[name], options).points, point) if name in there else None
        for name, compare in (("locks", locks.compare), ("instructions", instructions.compare))
    )
    of_lines = _only(lines.points, point) if lines and "conflicts" in there else None
    found = RecordedPoint(
        of_lines,
        of_lock,
        of_work,
        _costly(there, point, options),
        by_instructions=_held_by_instructions(there, point, options, of_lock),
    )
    first = next(iter(there.values()))
    return Explanation(
        first.study,
        first.workload,
        options.contexts,
        explain.explain(found),
        min(len(cells) for measured in there.values() for cells in measured.points[point].values()),
        tuple(name for name in PROBES if name not in there),
        tuple(_caveats(study, there, point)),
    )


def _costly(there: Mapping[str, Measurements], point: CpusAndTasks, options: Options) -> list[Costly]:
    cells = there["instructions"].points[point] if "instructions" in there else {}
    return instructions.costly_ones(cells, options) if cells else []


def _held_by_instructions(
    there: Mapping[str, Measurements], point: CpusAndTasks, options: Options, of_lock: ComparedPoint | None
) -> set[tuple[str, str]]:
    if not of_lock or "instructions" not in there or len(of_lock.variants) < 2:
        return set()
    of_locks, of_work = (
        instructions.with_same_names(there[probe].points[point]) for probe in ("locks", "instructions")
    )
    of_work = {
        name: [replace(cell, table=without_waiting(cell.table)) for cell in cells]
        for name, cells in of_work.items()
    }
    shared = [row for row in of_lock.rows if row.figures[locks.CPUS].most > 1]
    return locks.held_by_instructions(shared, of_locks, of_work, of_lock.base, options.contexts)


def _to_explain(read: Mapping[str, Measurements]) -> tuple[CpusAndTasks, dict[str, Measurements]]:
    """The largest machine on which most variants were measured, and the probes that have all of them."""
    variants: dict[CpusAndTasks, set[str]] = {}
    for measured in read.values():
        for point, cells in measured.points.items():
            variants.setdefault(point, set()).update(cells)
    point = max(variants, key=lambda point: (len(variants[point]), point))
    most = max(len(measured.points.get(point, ())) for measured in read.values())
    there = {name: one for name, one in read.items() if len(one.points.get(point, ())) == most}
    return point, there


def _only(points: Sequence[_AtPlace], place: CpusAndTasks) -> _AtPlace:
    return next(point for point in points if (point.cpus, point.tasks) == place)


def _caveats(study: Study, read: Mapping[str, Measurements], point: CpusAndTasks) -> Iterator[str]:
    """Warnings about the counts, and what was not explained."""
    any_probe = next(iter(read.values()))
    yield from filter(None, [any_probe.machine_differences.get(point, ""), *any_probe.lost.get(point, ())])
    absent = [name for name in PROBES if name not in read]
    if absent and len(any_probe.points[point]) == 1:
        yield f"not recorded: {join_and(absent)}"
    if lacking := {one.id: one for probe in read for one in measurements.missing(study, probe)}:
        yield model.not_compared(list(lacking.values()))
    if others := {cpus for measured in read.values() for cpus, _ in measured.points} - {point[0]}:
        cpus = join_and([str(number) for number in sorted(others)])
        yield f"this explains the cells with {point[0]} CPUs; bigiron compare also shows {cpus} CPUs"


def as_text(found: Explanation) -> str:
    """For a terminal or a mail."""
    shown = textwrap.wrap(heading(found), _WIDTH)
    lines = found.recorded.lines
    for note in lines.costs.notes if lines and lines.costs else ():
        shown += textwrap.wrap(note, _WIDTH)
    for said in found.measured:
        shown += ["", *textwrap.wrap(said, _WIDTH)]
    for number, finding in enumerate(found.findings[:_MOST], start=1):
        shown += ["", *_finding(number, finding, found.recorded)]
    if len(found.findings) > _MOST:
        shown += ["", f"{len(found.findings) - _MOST} more: see bigiron compare."]
    caveats = (f"{one[0].upper()}{one[1:].rstrip('.')}." for one in found.caveats)
    for note in (*notes(found), *caveats):
        shown += ["", *textwrap.wrap(note, _WIDTH)]
    if found.alone:
        shown += ["", as_text(replace(found.alone, caveats=())).rstrip()]
    return "\n".join(shown) + "\n"


def heading(found: Explanation) -> str:
    """What the findings are about, or that there are none."""
    recorded = found.recorded
    tasks = f" and {plural(recorded.tasks, 'task')}" if recorded.tasks else ""
    where = f"{found.workload} with {plural(recorded.cpus, 'CPU')}{tasks}"
    if found.contexts != conflicts.CONTEXTS[:1]:
        where += f" ({', '.join(found.contexts)} context)"
    if recorded.others:
        where += f", {', '.join(recorded.others)} compared with {recorded.base}"
        if not found.findings:
            return f"{where}: no difference was found in {_compared(found)}."
        return f"{where}: what changed, the most expensive first. Counts, not times."
    where += f", {recorded.base}"
    if not (recorded.lines or found.findings):
        return f"{where}: conflicts were not recorded, so what limits it is unknown."
    if not found.findings:
        which, counts = "cache line", "accesses"
        if recorded.locks:
            which, counts = "cache line or exclusive lock", "accesses or acquisitions"
        return f"{where}: no shared {which} limits it: each has fewer than {LEAST} {counts} per operation."
    if all(finding.depends for finding in found.findings):
        return (
            f"{where}: no limit shows up in every machine configuration; the following limits depend on "
            "memory size, nodes or boot. Counts, not times."
        )
    return f"{where}: what will limit it as CPUs are added. Counts, not times."


def _compared(found: Explanation) -> str:
    """What was compared, with the smallest difference that counts."""
    how_fine = {
        "conflicts": f"shared cache lines (to {explain.LEAST_CHANGE} accesses or writes per operation)",
        "locks": f"locks that several CPUs take (to {locks.FINENESS})",
        "instructions": f"instructions (to {instructions.FINENESS})",
    }
    return join_and([what for name, what in how_fine.items() if name not in found.missing])


def notes(found: Explanation) -> Iterator[str]:
    """What the findings leave out."""
    recorded = found.recorded
    if recorded.others and (undecided := found.explained.undecided):
        yield (
            f"Not decided: {plural(undecided, 'count')} that may differ. "
            + (
                f"One boot of each kernel cannot decide: run again with --reps {MOST_BOOTS}, one boot each."
                if found.boots == 1
                else f"Boots of the same kernel differ as much ({found.boots} boots of each)."
            )
        )
    if layout := found.explained.layout:
        yield (
            f"Left out as layout: {plural(len(layout), 'shared cache line')} that differ only by where "
            f"objects lie in their slab, which changes from boot to boot ({_names(layout)})."
        )
    if found.missing and recorded.others:
        yield f"Not recorded, so not compared: {join_and(list(found.missing))}."


def _names(rows: list[Any]) -> str:
    return first_n(list(dict.fromkeys(row.object for row in rows)), 3)


def _finding(number: int, finding: Finding, recorded: RecordedPoint) -> list[str]:
    lead = f"{number}. "
    indent = " " * len(lead)
    lines = textwrap.wrap(sentence(finding, recorded), _WIDTH, initial_indent=lead, subsequent_indent=indent)
    for label, value in evidence(finding, recorded):
        lines += textwrap.wrap(
            f"{label[:10]:11}{value}", _WIDTH, initial_indent=indent, subsequent_indent=indent + " " * 11
        )
    return lines


def sentence(finding: Finding, recorded: RecordedPoint) -> str:
    """The finding in a sentence."""
    match finding:
        case LineFinding():
            words = _of_lines(finding, recorded)
        case LockFinding():
            words = _of_lock(finding, recorded)
        case WorkFinding():
            words = _of_work(finding, recorded)
        case CostlyFinding():
            words = _of_costly(finding, recorded)
        case _:
            raise AssertionError(finding)
    return f"{_direction(finding, recorded)}{words}"


def _direction(finding: Finding, recorded: RecordedPoint) -> str:
    """Whether it is better or worse than on the base, and by how much: `Worse by 2.000 accesses: `."""
    if not recorded.others:
        return ""
    variant, effect = finding.effect
    change = effect.after - effect.before
    on = f" on {variant}" if len(recorded.others) > 1 else ""
    share = f", {change / effect.before:+.0%}" if effect.before >= explain.LEAST_CHANGE else ""
    if effect.direction == "neither":
        return f"Neither better nor worse{on} ({change:+.3f} {finding.unit} per operation). "
    return f"{effect.direction.capitalize()}{on} by {abs(change):.3f} {finding.unit} per operation{share}. "


def _of_lines(finding: LineFinding, recorded: RecordedPoint) -> str:
    cpus = max(row.cpus for row in finding.rows)
    who = "all" if cpus == recorded.cpus else str(cpus)
    many = f" ({len(finding.rows)} cache lines)" if finding.rule and len(finding.rows) > 1 else ""
    because = f" {finding.rule.why[0].upper()}{finding.rule.why[1:]}." if finding.rule else ""
    return (
        f"In {join_and(list(finding.ways)[:3])}, each operation accesses {finding.what}{many} "
        f"{_how_often(finding, recorded)}, from {who} CPUs.{because}{_depends(finding)}"
    )


def _depends(finding: LineFinding) -> str:
    """Whether it depends on the machine's shape or on the boot."""
    marks = [f" It {mark}." for mark in finding.depends]
    if finding.rows[0].is_layout:
        marks.append(" This is layout: it depends on where objects lie in their slab, and differs by boot.")
    return "".join(marks)


def _how_often(finding: LineFinding, recorded: RecordedPoint) -> str:
    """Accesses and writes in each variant."""
    only_writes = all(
        finding.accesses(variant) - finding.writes(variant) < _LEAST_SHOWN for variant in recorded.variants
    )
    counts = []
    for variant in recorded.variants:
        writes, accesses = finding.writes(variant), finding.accesses(variant)
        if not accesses:
            counts.append(f"0 times on {variant} (not shared there)")
            continue
        written = f"{writes:.3f} of them writes" if writes >= _LEAST_SHOWN else "only reads"
        counts.append(f"{accesses:.3f} times on {variant}" + ("" if only_writes else f" ({written})"))
    return join_and(counts) + (", always to write" if only_writes else "")


def _of_lock(finding: LockFinding, recorded: RecordedPoint) -> str:
    return f"The lock {finding.lock.name} is {_taken(finding.lock, recorded)}."


def _taken(lock: ComparedRow, recorded: RecordedPoint) -> str:
    taken, held = lock.figures[0], lock.figures[1]
    return join_and(
        [
            f"taken {taken.mean(variant):.3f} times on {variant}, for {held.mean(variant):.1f} instructions"
            for variant in recorded.variants
        ]
    )


def _of_work(finding: WorkFinding, recorded: RecordedPoint) -> str:
    counts = [f"{finding.total.main.mean(variant):.1f} on {variant}" for variant in recorded.variants]
    text = f"The kernel executes {join_and(counts)} instructions per operation."
    if changed := [_moved(row, recorded) for row in finding.functions[:2]]:
        text += f" Most of the change is in {join_and(changed)}."
    for lock in finding.locks:
        text += f" Part of it is under {lock.name}, which is {_taken(lock, recorded)}."
    return text


def _of_costly(finding: CostlyFinding, recorded: RecordedPoint) -> str:
    one = finding.costly
    counts = [_executed(one.executed.mean(variant), variant) for variant in recorded.variants]
    return (
        f"{one.instruction} is executed {join_and(counts)} (in {one.where}). "
        f"It takes as long as {one.beyond + 1:.0f} instructions."
    )


def _executed(count: float, variant: str) -> str:
    return f"{count:.3f} times on {variant}" if count else f"not at all on {variant}"


def _moved(row: ComparedRow, recorded: RecordedPoint) -> str:
    return f"{row.name} ({make_rows.largest_change(row.main, recorded.base, recorded.others):+.1f})"


def _moved_executions(function: ComparedFigure, recorded: RecordedPoint) -> str:
    return f"{function.name} ({make_rows.largest_change(function, recorded.base, recorded.others):+.3f})"


def evidence(finding: Finding, recorded: RecordedPoint) -> list[tuple[str, str]]:
    """Label and text of each piece of evidence for a finding."""
    match finding:
        case LineFinding():
            return _evidence_of_lines(finding, recorded)
        case LockFinding():
            return [("taken in", ", ".join(finding.lock.labels[1][:_MOST_FUNCTIONS]))]
        case WorkFinding():
            return list(_evidence_of_work(finding, recorded))
        case CostlyFinding():
            moved = [
                _moved_executions(one, recorded)
                for one in finding.costly.functions[:_MOST_FUNCTIONS]
                if one.largest_change(recorded.base, recorded.others) >= costly.LEAST
            ]
            return [("in", ", ".join(moved)), ("source", WEIGHTS[finding.costly.instruction].source)]
    return []


def _evidence_of_work(finding: WorkFinding, recorded: RecordedPoint) -> Iterator[tuple[str, str]]:
    for label, sign in (("more in", 1), ("fewer in", -1)):
        moved = [
            _moved(row, recorded)
            for row in finding.functions
            if sign * sum(row.main.change(recorded.base, one) for one in recorded.others) > 0
        ]
        if moved:
            yield label, first_n(moved, _MOST_FUNCTIONS)


def _evidence_of_lines(finding: LineFinding, recorded: RecordedPoint) -> list[tuple[str, str]]:
    first = finding.rows[0]
    known = [("object", first_n(objects(finding), 3)), ("functions", ", ".join(finding.functions[:6]))]
    if first.sharing:
        known.append(("sharing", "; ".join(f"{kind} ({why})" for kind, why in first.sharing.items())))
    if first.offsets:
        known.append(("bytes", bytes_by_cpu(first)))
    if first.halves:
        known.append(("halves", halves(first)))
    for name, by_variant in list(finding.ways.items())[:4]:
        figures = ", ".join(f"{by_variant.get(variant, 0):.3f} on {variant}" for variant in recorded.variants)
        known.append((name, f"{figures} (accesses per operation)"))
    known += [("boots", text) for text in _by_boot(finding, recorded)]
    anywhere = by_alignment(finding, recorded)
    if any(counts.varies for counts in anywhere.values()):
        known.append(("layout", _at_any_place(finding, anywhere)))
    if finding.lock:
        known.append(("lock", f"{finding.lock.name}: {_taken(finding.lock, recorded)}"))
    if recorded.lines and (cost := predicted(finding.rows, recorded.lines)):
        known.insert(0, ("cost", cost))
    if finding.rule:
        known += [("confirm", finding.rule.experiment), ("source", finding.rule.source)]
    return known


def by_alignment(finding: Finding, recorded: RecordedPoint) -> Mapping[str, LayoutCounts]:
    """By variant: accesses to all objects of its struct, wherever they can lie; empty if not known."""
    return recorded.by_alignment.get(_struct(finding), {}) if isinstance(finding, LineFinding) else {}


def _at_any_place(finding: LineFinding, anywhere: Mapping[str, LayoutCounts]) -> str:
    ranges = (f"{range_of(counts)} on {variant}" for variant, counts in anywhere.items())
    return (
        f"all fields of {_struct(finding)}: {', '.join(ranges)}, by where it begins in a cache line, "
        "which is chance"
    )


def _by_boot(finding: LineFinding, recorded: RecordedPoint) -> Iterator[str]:
    """The range of counts over the boots of one kernel, where it is wide."""
    ranges = []
    for variant in recorded.variants:
        lines = [row.lines[variant] for row in finding.rows if variant in row.lines]
        boots = zip(*(line.repetitions for line in lines), strict=True)
        each = [sum(one.accesses for one in boot) for boot in boots]
        if each and max(each) - min(each) > shared_lines.SPREAD * max(each):
            ranges.append(f"{min(each):.3f} to {max(each):.3f} on {variant}")
    if ranges:
        yield f"{', '.join(ranges)} (accesses per operation)"


def objects(finding: Finding) -> list[str]:
    """The cache lines or the lock that it is about."""
    match finding:
        case LineFinding():
            return list(dict.fromkeys(row.object for row in finding.rows))
        case LockFinding():
            return [finding.lock.name]
        case WorkFinding():
            return [lock.name for lock in finding.locks]
    return []
