"""A comparison: what a probe measured, variant beside variant.

One model, made by the probe's own module: what is compared is decided here and there, once. Text, Markdown,
CSV, JSON and the report's page (`bigiron.report`) only lay it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar

from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.analysis.lines.line_costs import LineCosts
from bigiron.analysis.statistics.verdict import MetricComparison, Repeated, Verdict
from bigiron.util.english import cpus_and_tasks, plural
from bigiron.util.lazy import polars as pl
from bigiron.util.numbers import three_decimals

LabelledTexts: TypeAlias = tuple[tuple[str, str], ...]

_MOST_MISSING = 4  # cells that are named

# What is compared


_Made = TypeVar("_Made")


@dataclass(frozen=True)
class ProbedCell:
    """What a probe left of one repetition."""

    table: pl.DataFrame
    facts: Mapping[str, Any]
    more: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """The probe's other tables, where it has several: without its name in front."""
    _made: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def once(self, key: object, make: Callable[[], _Made]) -> _Made:
        """What `make` makes of the cell, made the first time that it is asked for by this key."""
        if key not in self._made:
            self._made[key] = make()
        made: _Made = self._made[key]
        return made

    @property
    def operations(self) -> float:
        """Of all tasks together."""
        return float(sum(self.facts["operations"])) or 1.0

    @property
    def line_bytes(self) -> int:
        """How long a cache line of the machine is, as the probe conflicts reports it."""
        return int(self.facts.get("line_bytes", 64))


CpusAndTasks: TypeAlias = tuple[int, int | None]
"""CPUs and tasks; None: unknown, as a program was not told how many to start."""

Cells: TypeAlias = Mapping[str, Sequence[ProbedCell]]
"""By variant, one of each repetition."""


@dataclass(frozen=True)
class Measurements:
    """All that one probe has measured in a study."""

    study: str
    workload: str
    probe: str
    time: str  # VM time, real time or simulated time
    operations: float  # of a task, or of a program; where cells differ, the most
    scope: str
    machine: str  # that was simulated; else ""
    points: Mapping[CpusAndTasks, Cells]
    lost: Mapping[CpusAndTasks, tuple[str, ...]] = field(default_factory=dict)
    """What was lost on the way at each of them, whatever the probe, in sentences."""
    machine_differences: Mapping[CpusAndTasks, str] = field(default_factory=dict)
    """How the machines of the variants differ there, where they do, in a sentence."""
    repeated: Repeated | None = None  # all metrics of the study that have noise, if the probe's have
    changed: tuple[ChangedShape, ...] = ()  # the same on machines of other shapes, where they were measured
    operation: str = ""  # what one is, of a program: a bogo op, a system call

    @property
    def recorded(self) -> str:
        """What its counts are divided by, for a heading.

        `500 operations per task`; `an operation is one bogo op, 160,000 recorded`
        """
        if not self.operation:
            return f"{self.operations} operations per task"
        return f"an operation is one {self.operation}, {self.operations:,.6g} recorded"

    @property
    def about(self) -> dict[str, Any]:
        """What a comparison of it says of itself."""
        return {"study": self.study, "workload": self.workload}

    def about_counts(self, options: Options) -> dict[str, Any]:
        """The same of counts per operation."""
        what = {"operation": self.operation} if self.operation else {}
        return {**self.about, "operations": self.operations, **what, "contexts": options.contexts}

    def at_each(self, compare_at: CompareAt, options: Options) -> tuple[ComparedPoint, ...]:
        """What is compared at each number of CPUs and tasks."""
        return tuple(
            compare_at(options.place(cpus, tasks, cells), cells, self, options)
            for (cpus, tasks), cells in self.points.items()
        )

    @property
    def time_notes(self) -> tuple[str, ...]:
        """What must be known of its times."""
        return time_notes(self.time)


@dataclass(frozen=True)
class Missing:
    """A cell that a study asks for and that has nothing to compare."""

    id: str
    cell: str  # in words: debian/6.1, 8 CPUs
    why: str


@dataclass(frozen=True)
class ChangedShape:
    """What was measured on machines with one thing of their shape changed."""

    of: str  # memory, nodes, time slices or the boot
    to: Mapping[CpusAndTasks, str]  # by CPUs and tasks, as a phrase: `with 8 GiB`
    points: Mapping[CpusAndTasks, Cells]
    boots: bool  # those machines have boots of their own


@dataclass(frozen=True)
class Options:
    """What to compare with what."""

    base: str | None = None  # the variant to compare with; the first unless given, or where it is missing
    contexts: tuple[str, ...] = ("process",)  # on whose behalf the kernel ran
    paths: int = 0  # call paths, stacks or the levels of a call tree to show in text
    tolerance: float | None = None  # of what has noise; the study's unless given
    metric: str | None = None  # of what has noise; all unless given
    pairs: bool = False  # of conflicts: lines that are shared only as a pair, instead of those that are alone
    costs: LineCosts | None = None  # of conflicts: what lines are predicted to cost, by which they are ranked

    def base_of(self, variants: Iterable[str]) -> str:
        """The variant that those of one point are compared with."""
        there = list(variants)
        return self.base if self.base in there else there[0]

    def place(self, cpus: int, tasks: int | None, variants: Iterable[str]) -> ComparedVariants:
        """Where these variants are compared."""
        there = tuple(variants)
        return ComparedVariants(cpus, tasks, there, self.base_of(there))


def time_notes(time: str) -> tuple[str, ...]:
    """What must be known of times that are no real machine's."""
    if time == "VM time":
        return ("Times are VM times: their ratios mean more than their values.",)
    return ()


# What comes of it


@dataclass(frozen=True)
class Measure:
    """A kind of figure: a column under each variant."""

    name: str
    form: Callable[[float], str] = three_decimals
    joined: bool = False  # in one column with the measure before it: `8/8`
    beside: Literal["nothing", "deviation", "range", "change"] = "nothing"  # what text shows with the mean
    of_repetitions: Literal["mean", "most", "least"] = "mean"
    adds_up: bool = False  # whether the sum of all rows means something


@dataclass(frozen=True)
class ComparedRow:
    """Something that was measured, as people read it."""

    name: str
    figures: tuple[ComparedFigure, ...]
    """One for each of the first measures. A variant that has none of it has no values."""
    verdict: Verdict | None = None
    """Whether counts differ by more than boots of one kernel do; None where that is not asked."""
    is_layout: bool = False
    """Whether it is shared only by where objects lie in their slab, which is another place in each boot."""
    labels: tuple[tuple[str, ...], ...] = ()
    """What else is known of it, one for each of the point's labels; several names are symbols."""
    caption: tuple[str, ...] = ()
    """What of it must be read with the figures."""
    depends: tuple[str, ...] = ()
    """On what of the machine's shape it depends, where that was tried."""
    details: LabelledTexts = ()
    """Label and text of what can be looked up."""
    ways: tuple[ComparedFigure, ...] = ()
    """By which call paths an operation comes there, most first."""
    section: str = ""
    """What it is listed under, where the rows are of several kinds."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """What is to be said of a variant that has none of it, where that is more than `-`."""
    form: Callable[[float], str] | None = None
    """How its figures are written, where that differs from row to row."""
    rank: int = 0
    """Which of the figures is the one by which rows are ranked."""
    judgements: Mapping[str, MetricComparison] = field(default_factory=dict)
    """Of what has noise: whether a variant differs from the base."""

    @property
    def main(self) -> ComparedFigure:
        """The figure by which rows are ranked; its name is what the row is called where it stands alone."""
        return self.figures[self.rank]

    @property
    def differs(self) -> bool:
        """Whether it is known to differ."""
        return self.verdict is Verdict.changed

    @property
    def is_undecided(self) -> bool:
        """Whether it may differ: boots of one kernel differ as much, or there is only one."""
        return self.verdict is Verdict.undecided

    @property
    def mark(self) -> str:
        """In front of its name: `*` differs, `~` layout, `?` undecided."""
        if self.verdict is Verdict.changed:
            return "*"
        if self.is_layout:
            return "~"
        return "?" if self.is_undecided else ""


@dataclass(frozen=True)
class Item:
    """Something that was measured, as programs read it (docs/reference/schema.md)."""

    fields: Mapping[str, Any]
    cells: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By variant; none where it is one variant's alone, and its fields have all, the place too."""


@dataclass(frozen=True)
class Appendix:
    """Lines that belong to one variant: stacks, a call tree."""

    title: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparedVariants:
    """Where variants are compared."""

    cpus: int
    tasks: int | None  # None: unknown
    variants: tuple[str, ...]
    base: str  # one of them, with which the others are compared

    def __str__(self) -> str:
        return cpus_and_tasks(self.cpus, self.tasks)

    @property
    def where(self) -> str:
        """CPUs, and tasks where there is not one a CPU."""
        return plural(self.cpus, "CPU") if self.tasks == self.cpus else str(self)

    @property
    def others(self) -> tuple[str, ...]:
        """The variants that are compared with the base."""
        return tuple(variant for variant in self.variants if variant != self.base)

    @property
    def fields(self) -> dict[str, Any]:
        """As programs read it."""
        return {"cpus": self.cpus, "tasks": self.tasks}


@dataclass(frozen=True)
class ComparedPoint:
    """The comparison at one number of CPUs and tasks."""

    at: ComparedVariants
    probe: str
    heading: str  # what is counted, of what, and how
    title: str  # of the page
    thing: str  # what a row is
    measures: tuple[Measure, ...]
    rows: tuple[ComparedRow, ...]  # those worth a line: the largest change first, or in their own order
    hidden: int = 0  # how many more there are
    more: str = ""  # what one of those is
    more_below: str = ""  # the limit that keeps them out
    kind: str = ""  # what tells points with the same CPUs and tasks apart
    most: int | None = None  # rows for people who have no page to scroll
    total: ComparedRow | None = None
    labels: tuple[str, ...] = ()  # of ComparedRow.labels
    by_symbol: bool = False  # whether the rows' names are symbols
    keeps_order: bool = False  # whether the rows' own order says more than how much each changed
    shows_change: bool = False  # of the main measure, in text
    legend: str = ""  # what a mark and a dash mean
    notes: tuple[str, ...] = ()  # what the figures do not say
    lost: tuple[str, ...] = ()  # what is missing in the figures
    machine_differences: str = ""  # how the machines of the variants differ
    missing: str = ""  # which cells the whole comparison lacks: reported once, at its last point
    appendices: tuple[Appendix, ...] = ()
    place: Mapping[str, Any] | None = None  # where it is, for programs; None: CPUs and tasks
    items: tuple[Item, ...] = ()
    known: Mapping[str, Any] = field(default_factory=dict)  # what else JSON has of the point
    records: tuple[tuple[Any, ...], ...] = ()  # lines of CSV, where they are not the items'

    @property
    def fields(self) -> Mapping[str, Any]:
        """Where it is, as programs read it."""
        return self.at.fields if self.place is None else self.place

    @property
    def has_undecided(self) -> bool:
        """Whether some of what it shows may differ, or their sum may."""
        rows = (*self.rows, self.total) if self.total else self.rows
        return any(row.is_undecided for row in rows)

    def left_out(self, most: int) -> int:
        """How many rows are not shown where so many are at most."""
        return max(len(self.rows) - most, 0) + self.hidden

    @property
    def caveats(self) -> tuple[str, ...]:
        """What must be known of the figures whatever the probe."""
        return tuple(filter(None, (self.machine_differences, *self.lost, self.missing)))

    @property
    def cpus(self) -> int:
        """Of the machine."""
        return self.at.cpus

    @property
    def tasks(self) -> int | None:
        """That ran the workload; None: unknown."""
        return self.at.tasks

    @property
    def variants(self) -> tuple[str, ...]:
        """That are compared."""
        return self.at.variants

    @property
    def base(self) -> str:
        """The variant that the others are compared with."""
        return self.at.base

    @property
    def others(self) -> tuple[str, ...]:
        """The variants that are compared with the base."""
        return self.at.others

    @property
    def by_change(self) -> tuple[ComparedRow, ...]:
        """The rows, the largest change first unless they have an order of their own."""
        if self.keeps_order or not self.others:
            return self.rows
        return tuple(
            sorted(
                self.rows,
                key=lambda row: (-round(row.main.largest_change(self.base, self.others), 6), -row.main.most),
            )
        )

    @property
    def ranked_by(self) -> str:
        """The measure by which rows are ranked."""
        return self.measures[self.rows[0].rank if self.rows else 0].name

    @property
    def repeated(self) -> bool:
        """Whether any cell was measured more than once."""
        return any(len(values) > 1 for row in self.rows for values in row.main.values.values())

    @property
    def columns(self) -> list[list[int]]:
        """The numbers of the measures that share a column."""
        columns: list[list[int]] = []
        for number, measure in enumerate(self.measures):
            if measure.joined:
                columns[-1].append(number)
            else:
                columns.append([number])
        return columns

    @property
    def where(self) -> str:
        """CPUs, tasks where there is not one a CPU, and the kind."""
        return self.at.where + (f", {self.kind}" if self.kind else "")


CompareAt: TypeAlias = Callable[[ComparedVariants, Cells, Measurements, Options], ComparedPoint]
"""Compares what was measured at a place."""


@dataclass(frozen=True)
class Comparison:
    """A study's comparison in what one probe measured."""

    about: Mapping[str, Any]  # for programs: the study, the workload and what was compared
    points: tuple[ComparedPoint, ...]
    columns: tuple[str, ...]  # of CSV: the place, the items' fields, `variant`
    cell_columns: Mapping[str, str] = field(default_factory=dict)  # then these, by the items' names for them
    by_item: bool = True  # whether JSON has all items in one list; else what is known of each point
    paths: int = 0  # call paths to show in text
    pairwise: bool = False  # whether text has a table for each variant against the base
    judged: bool = False  # whether it has noise: verdicts, all points of one heading in one table
    missing: tuple[Missing, ...] = ()  # cells that the study asks for, and that are not compared


def with_caveats(found: Comparison, measured: Measurements) -> Comparison:
    """The same, each point with what its cells lost on the way and how they differ, whatever the probe."""
    points = (
        replace(
            point,
            lost=measured.lost.get((point.cpus, point.tasks)) or point.lost,
            machine_differences=measured.machine_differences.get((point.cpus, point.tasks), ""),
        )
        for point in found.points
    )
    return replace(found, points=tuple(points))


def with_missing(found: Comparison, missing: tuple[Missing, ...]) -> Comparison:
    """The same, with the cells that it lacks: of them it cannot be said that nothing changed."""
    if not missing:
        return found
    *points, last = found.points
    return replace(found, points=(*points, replace(last, missing=not_compared(missing))), missing=missing)


def not_compared(missing: Sequence[Missing]) -> str:
    """Cells that are missing, in a sentence."""
    named = [f"{one.cell} ({one.why})" for one in missing[:_MOST_MISSING]]
    more = len(missing) - len(named)
    return f"not compared: {'; '.join(named)}" + (f"; and {more} more (bigiron show has all)" if more else "")
