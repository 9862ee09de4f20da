"""The shared cache lines of several variants, lined up: what `conflicts` has measured, compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bigiron.analysis.comparison import make_rows, paths
from bigiron.analysis.comparison.model import (
    Cells,
    ComparedPoint,
    ComparedRow,
    ComparedVariants,
    Comparison,
    CpusAndTasks,
    LabelledTexts,
    Measure,
    Measurements,
    Options,
    ProbedCell,
)
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.analysis.lines import conflicts, line_verdicts, matching, shape, shared_lines_json
from bigiron.analysis.lines.line_costs import LineCosts
from bigiron.analysis.lines.matching import FieldBeside, Half, MatchedLine, SharedLine
from bigiron.errors import UserError
from bigiron.util.english import first_n, plural
from bigiron.util.lazy import polars as pl
from bigiron.util.object_name import ObjectName, common, object_type

SPREAD = 0.01
"""By which share of it a count differs between boots of one kernel where that is worth saying."""

_SMALL = 0.5  # accesses per operation below which rows are alike if their hottest function is the same
_MOST_FUNCTIONS = 8
_MOST_CPUS = 8
_MOST_FIELDS = 3  # beside the one that a line is called after
_MOST_TOUCHING = 2  # functions of each of these
_AS_A_PAIR = {False: "", True: " only where those beside each other count as one of 128 bytes"}
_OF = {"kernel": "", "user": "of the kernel and of user memory "}
_ACCESSES = 1  # the measure by which rows are ranked
_MEASURES = (
    Measure("writes", adds_up=True),
    Measure("accesses", adds_up=True),
    Measure("CPUs", "{:.0f}".format),
    Measure("", "{:.0f}".format, joined=True),
)


@dataclass(frozen=True)
class LinesAt:
    """The shared cache lines at one number of CPUs and tasks."""

    cpus: int
    tasks: int | None  # None: unknown
    variants: list[str]
    base: str
    rows: list[
        MatchedLine
    ]  # largest predicted cost, or change of it, first; then largest change, then heaviest
    lost: dict[str, int]  # accesses that no table had room for, by variant
    recycled: dict[str, tuple[float, float]]  # lines of recycled memory and accesses per operation to them
    pairs: tuple[MatchedLine, ...] = ()  # that are shared only as such, where they were looked for
    more: tuple[str, ...] = ()  # what only machines of another shape have, in sentences
    costs: LineCosts | None = None  # what they are predicted to cost on another machine

    def cost(self, rows: Sequence[MatchedLine]) -> float:
        """By which lines are ranked before all else: what they are predicted to cost, or how that changes."""
        return self.costs.weight(rows, self.base, self.others) if self.costs else 0.0

    @property
    def others(self) -> list[str]:
        """The variants that are compared with the base."""
        return [variant for variant in self.variants if variant != self.base]


@dataclass(frozen=True)
class SharedLines:
    """A study's shared cache lines, at each point that it measured."""

    study: str
    workload: str
    contexts: tuple[str, ...]
    points: list[LinesAt]


def line_up(measured: Measurements, options: Options) -> SharedLines:
    """The lines of each number of CPUs and tasks, each line, or pair of lines, in one row."""
    points = [_point(measured, point, options) for point in measured.points]
    return SharedLines(measured.study, measured.workload, options.contexts, points)


def line_up_all(measured: Measurements, options: Options) -> SharedLines:
    """The same with the pairs beside the lines, where the recording tells of any."""
    if not has_pairs(measured):
        return line_up(measured, options)
    for cells in measured.points.values():
        for cell in _all(cells):
            _profile_both(cell, options)
    found, pairs = (line_up(measured, of) for of in (options, replace(options, pairs=True)))
    points = [
        replace(point, pairs=tuple(of.rows)) for point, of in zip(found.points, pairs.points, strict=True)
    ]
    return replace(found, points=points)


def has_pairs(measured: Measurements) -> bool:
    """Whether what was recorded tells of pairs of lines: on POWER a line is as long as one."""
    return all(_has_pairs(cell) for cells in measured.points.values() for cell in _all(cells))


def _all(cells: Cells) -> list[ProbedCell]:
    return [cell for repetitions in cells.values() for cell in repetitions]


def _has_pairs(cell: ProbedCell) -> bool:
    return bool(cell.facts.get("pair_bytes", 0) > cell.facts.get("line_bytes", 0))


def _check_pairs(measured: Measurements) -> None:
    """UserError if what was recorded does not tell of pairs."""
    if not has_pairs(measured):
        raise UserError(
            f"{measured.study}: its cache lines have {conflicts.PAIR_BYTES} bytes already: leave out --line"
        )


def _point(measured: Measurements, point: CpusAndTasks, options: Options) -> LinesAt:
    cells = measured.points[point]
    columns: dict[str, list[SharedLine]] = {}
    recycled: dict[str, tuple[float, float]] = {}
    for variant, repetitions in cells.items():
        columns[variant] = _mean(repetitions, options)
        again = pl.concat([_profile(cell, options) for cell in repetitions]).filter("recycled")
        accesses = float(again["accesses_per_op"].sum())
        recycled[variant] = (again.height / len(repetitions), accesses / len(repetitions))
    dependence = shape.depends(columns, _changes(measured, point, options))
    rows = matching.match(columns)
    base = options.base_of(columns)
    others = [variant for variant in columns if variant != base]
    boots = {variant: len(each) for variant, each in cells.items()}
    line_verdicts.judge(rows, base, others, boots, point[0])
    for row in rows:
        row.depends = dependence.of(row.lines.values())
    lost = {variant: sum(map(_lost, repetitions)) for variant, repetitions in cells.items()}
    found = LinesAt(
        *point,
        list(columns),
        base,
        rows,
        lost,
        recycled,
        more=tuple(dependence.more),
        costs=options.costs,
    )
    rows.sort(
        key=lambda row: (
            -found.cost([row]),
            -abs(row.change(base, others)) if row.differs else 0.0,
            row.is_layout,
            -max(row.accesses(variant) for variant in columns),
            row.object,
            row.functions,
        ),
    )
    return found


def _mean(repetitions: Sequence[ProbedCell], options: Options) -> list[SharedLine]:
    return matching.mean([_lines(cell, options) for cell in repetitions])


def _lines(cell: ProbedCell, options: Options) -> list[SharedLine]:
    return cell.once(
        ("lines", options.pairs, options.contexts), lambda: matching.lines_of(_profile(cell, options))
    )


def lines_in(cell: ProbedCell, contexts: tuple[str, ...] = conflicts.CONTEXTS[:1]) -> list[SharedLine]:
    """The shared cache lines of one cell, without recycled memory."""
    return matching.lines_of(conflicts.profile(cell.table, cell.operations, cell.line_bytes, contexts))


def _profile(cell: ProbedCell, options: Options) -> pl.DataFrame:
    counted = cell.table, cell.operations
    return cell.once(
        ("profile", options.pairs, options.contexts),
        lambda: (
            conflicts.pairs(*counted, options.contexts, merge_faint=True)
            if options.pairs
            else conflicts.profile(*counted, cell.line_bytes, options.contexts, merge_faint=True)
        ),
    )


def _profile_both(cell: ProbedCell, options: Options) -> None:
    counted = cell.table, cell.operations, cell.line_bytes, options.contexts
    lines, pairs = cell.once(("profiles", options.contexts), lambda: conflicts.profile_and_pairs(*counted))
    cell.once(("profile", False, options.contexts), lambda: lines)
    cell.once(("profile", True, options.contexts), lambda: pairs)


def _changes(measured: Measurements, point: CpusAndTasks, options: Options) -> list[shape.LinesOfShape]:
    """The same lines on machines of other shapes."""
    return [
        shape.LinesOfShape(
            changed.of,
            changed.to[point],
            {variant: _mean(repetitions, options) for variant, repetitions in changed.points[point].items()},
            changed.boots,
        )
        for changed in measured.changed
        if point in changed.points
    ]


def _lost(cell: ProbedCell) -> int:
    return int(cell.facts["lost_accesses"])


def compare(measured: Measurements, options: Options, lines: SharedLines | None = None) -> Comparison:
    """Compare the variants of a study in the cache lines that their CPUs share, lined up already or not."""
    if options.pairs:
        _check_pairs(measured)
    lines = lines or line_up(measured, options)
    return Comparison(
        about={
            **measured.about_counts(options),
            "scope": measured.scope,
            **({"line_bytes": conflicts.PAIR_BYTES} if options.pairs else {}),
        },
        points=tuple(
            _compared(found, measured, options, measured.points[found.cpus, found.tasks])
            for found in lines.points
        ),
        columns=(
            *("cpus", "tasks", "row", "object", "functions", "sharing", "false_sharing", "differs"),
            *("verdict", "beside", "variant"),
        ),
        cell_columns={
            name: name
            for name in (
                *("writes_per_op", "accesses_per_op", "layout_per_op", "least_per_op", "most_per_op"),
                *("writers", "readers"),
            )
        },
        paths=options.paths,
    )  # fmt: skip


def _compared(found: LinesAt, measured: Measurements, options: Options, cells: Cells) -> ComparedPoint:
    every = [(_row(group, found), group.number) for group in _groups(found)]
    large = [(row, lines) for row, lines in every if row.main.most >= matching.TOLERANCE]
    shown = [(row, lines) for row, lines in large if not (row.is_undecided and row.main.most < _SMALL)]
    apart = sum(lines for row, lines in large) - sum(lines for _, lines in shown)
    boots = min(map(len, cells.values()))
    all_of_them = "all pairs of lines" if options.pairs else "all shared cache lines"
    totals = make_rows.total(all_of_them, [row.figures for row, _ in every], _MEASURES, cells, rank=_ACCESSES)
    at = ComparedVariants(found.cpus, found.tasks, tuple(found.variants), found.base)
    return ComparedPoint(
        at,
        probe="conflicts",
        heading=(
            f"{measured.workload}, {at}: "
            "writes and accesses per operation "
            f"to cache lines {_OF[measured.scope]}that several CPUs share{_AS_A_PAIR[options.pairs]}, "
            f"in {' and '.join(options.contexts)} context "
            f"({measured.recorded}; counts, not times; CPUs: writers/readers)"
        ),
        title="Conflicts: accesses per operation to cache lines that CPUs share",
        thing="adjacent lines" if options.pairs else "shared cache line",
        keeps_order=True,
        measures=_MEASURES,
        rows=tuple(row for row, _ in shown),
        hidden=sum(row.number for row in found.rows) - sum(lines for _, lines in large),
        more="cache line",
        more_below=f"below {matching.TOLERANCE} accesses per operation",
        total=totals,
        labels=("sharing", "touched by"),
        legend=(
            f"differs from {found.base} by more than {matching.TOLERANCE} per operation and 1 %"
            f"{make_rows.BEYOND_BOOTS}; -: not shared there"
        ),
        notes=(
            *make_rows.on_marks((row for row, _ in shown), boots, apart),
            *_recycled(found),
            *found.more,
            *(found.costs.notes if found.costs else ()),
        ),
        lost=tuple(_lost_accesses(found)),
        items=tuple(shared_lines_json.item(row, found.costs) for row in found.rows),
        known={
            "lost_accesses": found.lost,
            "recycled": {
                variant: {"lines": lines, "accesses_per_op": round(accesses, 6)}
                for variant, (lines, accesses) in found.recycled.items()
            },
            "cells": {
                variant: {
                    "writes_per_op": sum(row.writes(variant) for row in found.rows),
                    "accesses_per_op": sum(row.accesses(variant) for row in found.rows),
                }
                for variant in found.variants
            },
        },
    )


def _recycled(found: LinesAt) -> list[str]:
    return [
        f"{variant}: not counted above: {lines:.0f} lines of memory that one CPU freed and another "
        f"allocated again ({accesses:.3f} accesses per operation)"
        for variant, (lines, accesses) in found.recycled.items()
        if accesses >= matching.TOLERANCE
    ]


def _lost_accesses(found: LinesAt) -> list[str]:
    return [
        f"{variant}: the recorder had no room for {lost} accesses: its figures are too low"
        for variant, lost in found.lost.items()
        if lost
    ]


# Lines that are alike


@dataclass(frozen=True)
class _LineGroup:
    """Lines of one kind that the same functions touch, shown as one; the figures are their sums."""

    rows: list[MatchedLine]

    @property
    def name(self) -> str:
        """What the lines are, and how many."""
        first = self.rows[0].object
        if self.number == 1:
            return first
        return f"{self.number} x {common([row.object for row in self.rows])}"

    @property
    def number(self) -> int:
        """How many lines they are."""
        return sum(row.number for row in self.rows)

    def lines(self, variant: str) -> list[SharedLine]:
        """Those that a variant has."""
        return [row.lines[variant] for row in self.rows if variant in row.lines]

    def accesses(self, variant: str) -> float:
        """Accesses per operation in a variant."""
        return sum(row.accesses(variant) for row in self.rows)


def _groups(found: LinesAt) -> list[_LineGroup]:
    """Rows that are alike put together: for instance the pages of one slab cache."""
    groups: dict[tuple[object, ...], list[MatchedLine]] = {}
    for row in found.rows:
        kind, marked = object_type(row.object), (row.differs, row.is_undecided, row.is_layout)
        small = max(row.accesses(variant) for variant in found.variants) < _SMALL
        one_of_many = small or kind == "struct page"
        touched_by = row.functions[0] if one_of_many else frozenset(row.functions)
        groups.setdefault((kind, touched_by, marked, bool(row.depends)), []).append(row)

    def rank(group: _LineGroup) -> tuple[float, float, float]:
        marked = group.rows[0].differs
        change = abs(sum(row.change(found.base, found.others) for row in group.rows))
        cost = found.cost(group.rows)
        return (-cost, -change if marked else 0.0, -max(map(group.accesses, found.variants)))

    return sorted(map(_LineGroup, groups.values()), key=rank)


def _row(group: _LineGroup, found: LinesAt) -> ComparedRow:
    first = group.rows[0]
    kinds = ", ".join(first.sharing)
    touched = first_n(first.functions, _MOST_FUNCTIONS)
    captions = (
        f"{kinds}: {touched}" if kinds else touched,
        *beside(first),
        bytes_by_cpu(first),
        halves(first),
        predicted(group.rows, found),
    )
    return ComparedRow(
        group.name,
        _figures(group, found),
        verdict=first.verdict,
        is_layout=first.is_layout,
        labels=((kinds,), tuple(first.functions[:_MOST_FUNCTIONS])),
        caption=tuple(filter(None, captions)),
        depends=first.depends,
        details=_details(group, found),
        ways=tuple(_ways(group)),
        rank=_ACCESSES,
    )


def _figures(group: _LineGroup, found: LinesAt) -> tuple[ComparedFigure, ...]:
    """Writes and accesses per operation in each repetition; the most CPUs that write and read any of them."""
    figures: tuple[dict[str, tuple[float, ...]], ...] = ({}, {}, {}, {})
    for variant in found.variants:
        if lines := group.lines(variant):
            repetitions = [zip(*line.repetitions, strict=True) for line in lines]
            for of, each in zip(figures, zip(*repetitions, strict=True), strict=False):
                of[variant] = tuple(map(sum, zip(*each, strict=True)))
            figures[2][variant] = (max(line.writers for line in lines),)
            figures[3][variant] = (max(line.readers for line in lines),)
    return tuple(ComparedFigure(group.name, of) for of in figures)


def _ways(group: _LineGroup) -> list[ComparedFigure]:
    """Accesses per operation by each call path, most first."""
    counted: dict[str, dict[str, tuple[float, ...]]] = {}
    for row in group.rows:
        for variant, line in row.lines.items():
            for path, weight in line.paths.items():
                (before,) = counted.setdefault(path, {}).get(variant, (0.0,))
                counted[path][variant] = (before + weight,)
    ordered = sorted(counted, key=lambda path: (-sum(value for (value,) in counted[path].values()), path))
    return [ComparedFigure(paths.short(path), counted[path]) for path in ordered]


def _details(group: _LineGroup, found: LinesAt) -> LabelledTexts:
    first = group.rows[0]
    cpus = [
        f"{max(one.writers for one in lines)} write and {max(one.readers for one in lines)} read on {variant}"
        for variant in found.variants
        if (lines := group.lines(variant))
    ]
    details = (
        ("sharing", "; ".join(f"{kind} ({why})" for kind, why in first.sharing.items())),
        ("touched by", ", ".join(first.functions)),
        ("fields", "; ".join(beside(first))),
        ("CPUs", "; ".join(cpus)),
        ("bytes", bytes_by_cpu(first)),
        ("pair", halves(first)),
        ("cost", predicted(group.rows, found)),
    )
    return tuple((label, text) for label, text in details if text)


def predicted(rows: Sequence[MatchedLine], found: LinesAt) -> str:
    """The predicted cost of lines with one cause; empty where it is nothing, or was not predicted."""
    if not found.costs:
        return ""
    by_name = {ObjectName.parse(row.object).member: found.costs.of(row) for row in rows}
    costliest = max(
        by_name.values(), key=lambda costs: max((cost.value for cost in costs.values()), default=0)
    )
    said = [
        cost.written("{:.0%}".format) + (f" on {variant}" if len(found.variants) > 1 else "")
        for variant, cost in costliest.items()
    ]
    if not said:
        return ""
    where = f"{plural(found.costs.tasks, 'task')} on {found.costs.machine}"
    return f"predicted to take, of the time of {where}: {', '.join(said)}"


def beside(row: MatchedLine) -> tuple[str, ...]:
    """The other fields of a line that are read there, and those that are written, with who does so."""
    there = [field for field in row.beside if field.accesses_per_op >= matching.TOLERANCE]
    read = [field for field in there if field.writes_per_op < matching.TOLERANCE]
    written = [field for field in there if field.writes_per_op >= matching.TOLERANCE]
    return tuple(
        f"also {how} there: {first_n([_with_functions(field, row) for field in fields], _MOST_FIELDS)}"
        for how, fields in (("read", read), ("written", written))
        if fields
    )


def _with_functions(field: FieldBeside, row: MatchedLine) -> str:
    more = ["…"] if len(field.functions) > _MOST_TOUCHING else []
    functions = ", ".join([*field.functions[:_MOST_TOUCHING], *more])
    return f"{ObjectName.parse(field.object).part_of(ObjectName.parse(row.object))} ({functions})"


def bytes_by_cpu(row: MatchedLine) -> str:
    """Which bytes of a falsely shared cache line each CPU touches."""
    return first_n([f"CPU {cpu} bytes {touched}" for cpu, touched in row.offsets.items()], _MOST_CPUS)


def halves(row: MatchedLine) -> str:
    """Of a pair, what its two lines are and which of their bytes which CPUs touch."""
    return "; ".join(f"{half.object}: {first_n(_touched(half), _MOST_CPUS)}" for half in row.halves)


def _touched(half: Half) -> list[str]:
    return [
        (
            f"CPU {by['cpus']} {'writes' if by['writes'] else 'reads'}"
            if by["cpus"].isdecimal()
            else f"CPUs {by['cpus']} {'write' if by['writes'] else 'read'}"
        )
        + f" bytes {by['bytes']}"
        for by in half.touched
    ]
