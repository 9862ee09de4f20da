"""How the counts of a study grow with the number of CPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bigiron import probes
from bigiron.analysis.comparison.model import Cell
from bigiron.analysis.lines import conflicts
from bigiron.analysis.probes import simulation
from bigiron.analysis.statistics import growth
from bigiron.analysis.statistics.growth import Growth, Prediction, Series
from bigiron.errors import UserError
from bigiron.probes import GrowthSource
from bigiron.results import measurements
from bigiron.study.store import CellRecord, Study, clock_step
from bigiron.util.english import counted

_FURTHER = 8  # times the largest measured CPU count: what is extrapolated to by default
_MOST_STANDING = 10

_Contexts = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A series and what is known of its growth."""

    series: Series
    growth: Growth
    prediction: Prediction | None

    @property
    def most(self) -> float:
        """The largest count."""
        return max(self.series.points.values())

    @property
    def rank(self) -> tuple[float, float, str, str]:
        """The worst first: how much it will grow by, then how much it is."""
        last = self.series.points[max(self.series.points)]
        by = self.prediction.value - last if self.prediction and self.growth.grows else 0.0
        return -by, -self.most, self.series.name, self.series.what


@dataclass(frozen=True)
class Table:
    """One variant's series, with one task a CPU or always the same number of tasks."""

    counted: GrowthSource
    variant: str
    tasks: str  # "one task a CPU", "8 tasks"
    cpus: list[int]
    at: int
    rows: list[Row]  # the worst first; the total is not among them
    total: Row
    lost: int  # counts that no table had room for
    clock_step: str = ""  # where the clock has another rate from some number of CPUs on

    @property
    def growing(self) -> list[Row]:
        """The rows worth a line that grow."""
        return [row for row in self.rows if row.growth.grows and row.most >= self.counted.shown]

    @property
    def standing(self) -> list[Row]:
        """The heaviest rows that do not grow, then those of them of which it cannot be told."""
        rows = [row for row in self.rows if not row.growth.grows and row.most >= self.counted.heavy]
        rows = sorted(rows, key=lambda row: -row.most)[:_MOST_STANDING]
        return sorted(rows, key=lambda row: not row.growth.law)


@dataclass(frozen=True)
class Report:
    """How a study's counts grow."""

    study: str
    workload: str
    contexts: _Contexts
    counted: GrowthSource
    tables: list[Table]


def growth_study(
    study: Study,
    variant: str | None = None,
    at: int | None = None,
    probe: str = "conflicts",
    contexts: _Contexts = conflicts.CONTEXTS[:1],
) -> Report:
    """Fit the growth of each shared line or function of a study, and of their sum. One variant, or all."""
    source = sources().get(probe)
    if not source:
        raise UserError(f"growth is told of {', '.join(sources())}, not of {probe}")
    variants = [one.name for one in study.spec.variant]
    if variant is not None and variant not in variants:
        raise UserError(f"{study.name} has no variant {variant!r}: it has {', '.join(variants)}")
    study.measured(probe)  # which says how to record it
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
            "CPUs, 2 and more: growth needs that many, and 5 are better (--cpus 2,3,4,6,8)"
        )
    return Report(study.name, study.spec.workload, contexts, source, tables)


def _table(
    study: Study,
    records: list[CellRecord],
    variant: str,
    tasks: int | None,
    at: int | None,
    probe: str,
    source: GrowthSource,
    contexts: _Contexts,
) -> Table | None:
    """None if there are too few CPU counts. One CPU alone shares nothing, and says nothing of growth."""
    records = [one for one in records if one.cpus > 1 and tasks in (None, one.tasks)]
    records.sort(key=lambda record: record.cpus)
    cells: dict[int, list[Cell]] = {}
    for record in records:
        cells.setdefault(record.cpus, []).append(measurements.cell(study, record, probe))
    if len(cells) < growth.FEWEST:
        return None
    series, total = source.series(cells, contexts)
    at = at or _FURTHER * max(cells)
    return Table(
        source,
        variant,
        counted(tasks, "task") if tasks else "one task a CPU",
        list(cells),
        at,
        sorted((_row(one, at) for one in series), key=lambda row: row.rank),
        _row(replace(total, name=source.total), at),
        sum(cell.facts.get(source.lost, 0) for here in cells.values() for cell in here),
        clock_step(records),
    )


def _simulated_series(
    cells: Mapping[int, Sequence[Cell]], _contexts: _Contexts
) -> tuple[list[Series], Series]:
    """What waiting for each line and for each lock costs an operation; all of the CPUs' time is the total."""
    waits = {cpus: simulation.waits(here) for cpus, here in cells.items()}
    names = sorted(set().union(*(here.of for here in waits.values())))
    series = [
        Series(name, "", {cpus: here.of.get(name, 0.0) for cpus, here in waits.items()}) for name in names
    ]
    return series, Series("", "", {cpus: here.total for cpus, here in waits.items()})


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
    """What may grow, by probe; and in simulated cells."""
    return {one.name: one.growth for one in probes.probes() if one.growth} | {"simulation": SIMULATION}


def _row(series: Series, at: int) -> Row:
    result = growth.fit_series(series)
    return Row(series, result, result.predict(at) if result.law else None)
