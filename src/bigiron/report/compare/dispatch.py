"""What `bigiron compare` prints of each probe."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

from bigiron import probes
from bigiron.analysis.comparison.model import (
    Comparison,
    Measurements,
    Options,
    time_notes,
    with_caveats,
    with_missing,
)
from bigiron.analysis.lines.line_costs import LineCosts
from bigiron.analysis.probes import simulation, stack_counts
from bigiron.analysis.probes.stack_counts import StackCounts, StackGrouping
from bigiron.errors import UserError
from bigiron.report.compare import csv_json, markdown, text
from bigiron.report.compare.figure_text import caveats
from bigiron.report.formats import c2c
from bigiron.results import measurements, stacks
from bigiron.study.caveats import losses, machine_differences
from bigiron.study.store import Study

FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": text.as_text,
    "markdown": markdown.as_markdown,
    "csv": csv_json.as_csv,
    "json": csv_json.as_json,
}
"""How any comparison is shown."""

C2C = "c2c"
"""The format of one variant's shared cache lines that perf has."""


@dataclass(frozen=True)
class CompareOptions:
    """How to compare, and how to print it."""

    format: str  # text, markdown, csv or json; of cache lines c2c
    base: str | None  # the variant to compare with; None for the first
    contexts: tuple[str, ...]  # on whose behalf the kernel ran
    paths: int = 0  # call paths, or stacks, to show in text
    by: StackGrouping | None = None  # of what was recorded with stacks
    tolerance: float | None = None  # of throughput; None for the study's
    metric: str | None = None  # of throughput; None for all
    pairs: bool = False  # of conflicts: lines that are shared only as a pair
    costs: LineCosts | None = None  # of conflicts: what lines are predicted to cost


def compare(study: Study, probe: str, how: CompareOptions) -> tuple[str, list[str]]:
    """The variants of a study side by side, and what must be known where that is no place to say it."""
    if study.spec.engine.is_model and not how.by and not probes.probe(probe).samples:
        probe = "simulation"
    options = Options(how.base, how.contexts, how.paths, how.tolerance, how.metric, how.pairs, how.costs)
    if how.format == C2C:
        return c2c.encode(measurements.read(study, probe), replace(options, base=study.base(how.base))), []
    found = with_missing(comparison_of(study, probe, options, how.by), measurements.missing(study, probe))
    return FORMATS[how.format](found), caveats(found) if how.format == "csv" else []


def comparison_of(study: Study, probe: str, options: Options, by: StackGrouping | None = None) -> Comparison:
    """What a probe measured, compared. UserError where there is nothing, or no such base."""
    options = replace(options, base=study.base(options.base))
    if not all(one.is_comparable for one in probes.named([probe])):
        raise UserError(f"{probe} has no table: see `bigiron {probe} {study.folder} 'struct NAME'`")
    compare = None if by else _comparing(probe)
    if not compare:
        return stack_counts.compare(_stacks(study, probe, options.contexts), by or "function", options)
    measured = measurements.read(study, probe)
    return with_caveats(compare(measured, options), measured)


def _comparing(probe: str) -> Callable[[Measurements, Options], Comparison] | None:
    """How what a probe measured is compared; None where by function of its stacks."""
    return simulation.compare if probe == "simulation" else probes.probe(probe).compare


def _stacks(study: Study, probe: str, contexts: tuple[str, ...]) -> StackCounts:
    source, measured = stacks.source(probe), study.measured(probe)
    points = {
        point: (stacks.by_repetition(study, probe, contexts, cells), list(chain(*cells.values())))
        for point, cells in measured.items()
    }
    return StackCounts(
        study.name,
        study.spec.workload,
        probe,
        stacks.what(probe, chain.from_iterable(records for _, records in points.values())),
        source.weights[0],
        time_notes(study.time) if probes.probe(probe).measures_time else (),
        {point: weighed for point, (weighed, _) in points.items()},
        {point: tuple(losses(records)) for point, (_, records) in points.items()},
        {point: machine_differences(records) for point, (_, records) in points.items()},
    )
