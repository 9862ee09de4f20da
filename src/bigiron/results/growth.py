"""How the counts of a study grow with the number of CPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bigiron import probes
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.analysis.lines import conflicts
from bigiron.analysis.probes import simulation
from bigiron.analysis.statistics import growth
from bigiron.analysis.statistics.estimate import Estimate
from bigiron.analysis.statistics.growth import CountSeries, Growth
from bigiron.errors import UserError
from bigiron.probes import GrowthSource
from bigiron.results import measurements
from bigiron.study.caveats import clock_step, losses, programs
from bigiron.study.store import CellRecord, Study
from bigiron.util.english import plural

_FURTHER = 8  # times the largest measured CPU count: what is extrapolated to by default
_MOST_STANDING = 10

_Contexts = tuple[str, ...]


@dataclass(frozen=True)
class GrowthRow:
    """A series and its growth."""

    series: CountSeries
    growth: Growth
    prediction: Estimate | None

    @property
    def most(self) -> float:
        """The largest count."""
        return max(self.series.points.values())

    @property
    def rank(self) -> tuple[float, float, str, str]:
        """Sort key: the largest predicted growth first, then the largest count."""
        last = self.series.points[max(self.series.points)]
        by = self.prediction.value - last if self.prediction and self.growth.grows else 0.0
        return -by, -self.most, self.series.name, self.series.what


@dataclass(frozen=True)
class GrowthTable:
    """One variant's series, with one task per CPU or always the same number of tasks."""

    counted: GrowthSource
    variant: str
    tasks: str  # "one task per CPU", "8 tasks"
    cpus: list[int]
    at: int
    rows: list[GrowthRow]  # worst first, without the total
    total: GrowthRow
    lost: int  # counts lost because a table was full
    clock_step: str = ""  # a note where the clock's rate changes with the number of CPUs
    incomplete: tuple[str, ...] = ()  # what the cells lack, or why they are not comparable, in sentences

    @property
    def growing(self) -> list[GrowthRow]:
        """The rows that grow and are large enough to show."""
        return [row for row in self.rows if row.growth.grows and row.most >= self.counted.shown]

    @property
    def standing(self) -> list[GrowthRow]:
        """The largest rows that do not grow, then those that cannot be classified."""
        rows = [row for row in self.rows if not row.growth.grows and row.most >= self.counted.heavy]
        rows = sorted(rows, key=lambda row: -row.most)[:_MOST_STANDING]
        return sorted(rows, key=lambda row: not row.growth.law)


@dataclass(frozen=True)
class GrowthReport:
    """How a study's counts grow."""

    study: str
    workload: str
    contexts: _Contexts
    counted: GrowthSource
    tables: list[GrowthTable]


def growth_study(
    study: Study,
    variant: str | None = None,
    at: int | None = None,
    probe: str = "conflicts",
    contexts: _Contexts = conflicts.CONTEXTS[:1],
) -> GrowthReport:
    """Fit the growth of each shared cache line or function of a study, and of their sum."""
    source = sources().get(probe)
    if not source:
        raise UserError(f"growth can be fitted for {', '.join(sources())}, not for {probe}")
    variants = [one.name for one in study.spec.variant]
    if variant is not None and variant not in variants:
        raise UserError(f"{study.name} has no variant {variant!r}: it has {', '.join(variants)}")
    study.measured(probe)  # its error says how to record the probe
    records = [record for record in study.records() if record.measured and probe in record.tables]
    tables = [
        table
        for name in ([variant] if variant else variants)
        for tasks in ([None] if study.spec.tasks == "all" else study.spec.tasks)
        if (
            table := _table(
                study, [r for r in records if r.variant == name], name, tasks, at, probe, source, contexts
            )
        )
    ]
    if not tables:
        raise UserError(
            f"{study.folder} has no variant measured with the probe {probe} at {growth.FEWEST} numbers of "
            "CPUs, 2 and more: growth needs that many, preferably 5 (--cpus 2,3,4,6,8)"
        )
    return GrowthReport(study.name, study.workload, contexts, source, tables)


def _tasks(study: Study, tasks: int | None) -> str:
    if tasks:
        return plural(tasks, "task")
    return "one task per CPU" if study.spec.knows_tasks else "as many tasks as it starts"


def _table(
    study: Study,
    records: list[CellRecord],
    variant: str,
    tasks: int | None,
    at: int | None,
    probe: str,
    source: GrowthSource,
    contexts: _Contexts,
) -> GrowthTable | None:
    """None if there are too few CPU counts. A single CPU shares nothing, so it is left out."""
    records = [one for one in records if one.cpus > 1 and tasks in (None, one.tasks)]
    records.sort(key=lambda record: record.cpus)
    cells: dict[int, list[ProbedCell]] = {}
    for record in records:
        cells.setdefault(record.cpus, []).append(measurements.cell(study, record, probe))
    if len(cells) < growth.FEWEST:
        return None
    series, total = source.series(cells, contexts)
    at = at or _FURTHER * max(cells)
    return GrowthTable(
        source,
        variant,
        _tasks(study, tasks),
        list(cells),
        at,
        sorted((_row(one, at) for one in series), key=lambda row: row.rank),
        _row(replace(total, name=source.total), at),
        sum(cell.facts.get(source.lost, 0) for here in cells.values() for cell in here),
        clock_step(records),
        (*losses(records), *filter(None, [programs(records)])),
    )


def _simulated_series(
    cells: Mapping[int, Sequence[ProbedCell]], _contexts: _Contexts
) -> tuple[list[CountSeries], CountSeries]:
    """Waiting time per operation for each cache line and lock; the total is all of the CPUs' time."""
    waits = {cpus: simulation.waits(here) for cpus, here in cells.items()}
    names = sorted(set().union(*(here.of for here in waits.values())))
    series = [
        CountSeries(name, "", {cpus: here.of.get(name, 0.0) for cpus, here in waits.items()})
        for name in names
    ]
    return series, CountSeries("", "", {cpus: here.total for cpus, here in waits.items()})


SIMULATION = GrowthSource(
    _simulated_series,
    thing="line or lock",
    what="nanoseconds that CPUs wait per operation",
    unit="nanoseconds per operation",
    total="all of the CPUs' time",
    shown=1.0,
    heavy=10.0,
)


def sources() -> dict[str, GrowthSource]:
    """The counts whose growth can be fitted, by probe; `simulation` for simulated cells."""
    return {one.name: one.growth for one in probes.probes() if one.growth} | {"simulation": SIMULATION}


def _row(series: CountSeries, at: int) -> GrowthRow:
    result = growth.fit_series(series)
    return GrowthRow(series, result, result.predict(at) if result.law else None)
