"""All there is to a probe, in one file that is no part of bigiron. Run it: it is bigiron with that probe.

It counts what the kernel's memory management did: the counters of /proc/vmstat that start with a prefix.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar

import polars as pl
import typer

from bigiron import probes
from bigiron.analysis.comparison.make_rows import joined, total
from bigiron.analysis.comparison.model import (
    ComparedPoint,
    ComparedRow,
    Comparison,
    Item,
    Measure,
    Measurements,
    Options,
    ProbedCell,
)
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.analysis.statistics.growth import CountSeries
from bigiron.errors import MachineError, UserError
from bigiron.probes import CellRequest, GrowthSource, Probe, ProbeOptions, ProbeTable, RawOutput, StackSource
from bigiron.probes.probe import Contexts

FILE = "/proc/vmstat"
SCHEMA = {"context": pl.String, "counter": pl.String, "events": pl.UInt64}


class EventsOptions(ProbeOptions, frozen=True, kw_only=True):
    """Which counters are kept."""

    WRONG_PROBE_MESSAGE: ClassVar[str] = "the prefix is of the probe events: add it with --probe"

    events_prefix: Annotated[str, typer.Option(help="how the names of the counters start")] = "pg"

    def check(self) -> None:
        """Some prefix."""
        if not self.events_prefix:
            raise UserError("no prefix: give --events-prefix pgfault")


def _job(_request: CellRequest) -> list[str]:
    return [f"read {FILE}"]


def _collect(raw: RawOutput) -> ProbeTable:
    files = [message.content for message in raw.messages if message.type == "file"]
    lines = next((file["lines"] for file in files if file["path"] == FILE), None)
    if lines is None:
        raise MachineError(f"the agent did not send {FILE}")
    prefix = raw.request.options[EventsOptions].events_prefix
    rows = [("process", name, int(count)) for name, count in map(str.split, lines) if name.startswith(prefix)]
    operations = [raw.request.operations] * raw.request.tasks
    return ProbeTable(pl.DataFrame(rows, schema=SCHEMA, orient="row"), {"operations": operations})


def _stacks(table: pl.DataFrame, operations: float, contexts: Contexts) -> pl.DataFrame:
    rows = table.filter(pl.col("context").is_in(contexts))
    return rows.select("context", path="counter", events_per_op=pl.col("events") / operations)


def _series(
    cells: Mapping[int, Sequence[ProbedCell]], contexts: Contexts
) -> tuple[list[CountSeries], CountSeries]:
    points = {cpus: dict(_per_operation(repetitions, contexts)) for cpus, repetitions in cells.items()}
    names = sorted(set().union(*points.values()))
    series = [
        CountSeries(name, "", {cpus: here.get(name, 0.0) for cpus, here in points.items()}) for name in names
    ]
    return series, CountSeries("", "", {cpus: sum(here.values()) for cpus, here in points.items()})


def _per_operation(repetitions: Sequence[ProbedCell], contexts: Contexts) -> Iterator[tuple[str, float]]:
    stacks = pl.concat(_stacks(cell.table, cell.operations, contexts) for cell in repetitions)
    sums = stacks.group_by("path").agg(pl.col("events_per_op").sum() / len(repetitions))
    yield from sums.iter_rows()


_EVENTS = Measure("events", adds_up=True)


def _compare(measured: Measurements, options: Options) -> Comparison:
    points = []
    for (cpus, tasks), cells in measured.points.items():
        at = options.place(cpus, tasks, cells)
        figures = joined(
            {variant: [_rows(cell, options) for cell in each] for variant, each in cells.items()}, [_EVENTS]
        )
        rows = [ComparedRow(name, figures[name]) for name in sorted(figures)]
        points.append(
            ComparedPoint(
                at,
                PROBE.name,
                heading=f"{measured.workload}, {at.cpus} CPUs: events per operation",
                title="Events: events per operation",
                thing="counter",
                measures=(_EVENTS,),
                rows=tuple(rows),
                total=total("all counters", [row.figures for row in rows], [_EVENTS], cells),
                shows_change=True,
                place=at.fields,
                items=tuple(_item(row.main) for row in rows),
            )
        )  # fmt: skip
    return Comparison(
        {"study": measured.study},
        tuple(points),
        ("cpus", "tasks", "counter", "variant"),
        {"events_per_op": "events_per_op"},
    )


def _rows(cell: ProbedCell, options: Options) -> list[tuple[str, tuple[float]]]:
    stacks = _stacks(cell.table, cell.operations, options.contexts)
    return [(name, (events,)) for name, events in stacks.select("path", "events_per_op").iter_rows()]


def _item(figure: ComparedFigure) -> Item:
    cells = {variant: {"events_per_op": figure.mean(variant)} for variant in figure.values}
    return Item({"counter": figure.name}, cells)


PROBE = Probe(
    name="events",
    description="what the kernel's memory management did",
    columns=SCHEMA,
    units={"events": "events"},
    options=EventsOptions,
    job=_job,
    collect=_collect,
    compare=_compare,
    stacks=StackSource(_stacks, "events", ("events",), ("path",)),
    growth=GrowthSource(
        _series,
        thing="counter",
        what="events per operation",
        unit="events per operation",
        total="all counters",
        shown=0.0,
        heavy=1.0,
    ),
)

probes.register(PROBE)

if __name__ == "__main__":
    from bigiron.cli import main  # whose options are those of the probes that there are

    main()
