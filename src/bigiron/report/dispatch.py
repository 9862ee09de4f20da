"""What `bigiron compare` prints of each probe."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

from bigiron import probes
from bigiron.analysis import simulation, stacked
from bigiron.analysis.comparison import Comparison, Options, time_notes
from bigiron.analysis.stacked import By, Stacks
from bigiron.report import programs, stacks, text, verdict, wiki
from bigiron.report.listing import plain
from bigiron.study import measurements
from bigiron.study.store import Study, losses

_SIMULATION = "simulation"  # the table of a simulated cell, which no probe recorded

FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": text.text,
    "markdown": wiki.text,
    "csv": programs.as_csv,
    "json": programs.as_json,
}
"""How any comparison is shown."""


@dataclass(frozen=True)
class CompareOptions:
    """How to compare, and how to print it."""

    format: str  # text, markdown, csv or json
    base: str | None  # the variant to compare with; None for the first
    contexts: tuple[str, ...]  # on whose behalf the kernel ran
    paths: int = 0  # call paths, or stacks, to show in text
    by: By | None = None  # of what was recorded with stacks
    tolerance: float | None = None  # of throughput; None for the study's
    metric: str | None = None  # of throughput; None for all


def compare(study: Study, probe: str, how: CompareOptions) -> str:
    """The variants of a study side by side, from what a probe recorded, and what was lost, in words."""
    shown = _compared(study, probe, how)
    lost = losses(study.records()) if how.format in ("text", "markdown") else []
    if not lost:
        return shown
    if how.format == "markdown":
        return "\n".join([shown, *(f"{plain(one)}\n" for one in lost)]) + "\n"
    return "\n".join([shown, *lost]) + "\n"


def _compared(study: Study, probe: str, how: CompareOptions) -> str:
    if not how.by and probes.probe(probe).samples:
        return verdict.FORMATS[how.format](verdict.compare_study(study, how.base, how.tolerance, how.metric))
    if not how.by and study.spec.engine.is_model:
        probe = _SIMULATION
    found = comparison_of(study, probe, Options(how.base, how.contexts, how.paths), how.by)
    return FORMATS[how.format](found)


def comparison_of(study: Study, probe: str, options: Options, by: By | None = None) -> Comparison:
    """What a probe measured, compared. UserError where there is nothing, or no such base."""
    options = replace(options, base=study.base(options.base))
    compare = simulation.compare if probe == _SIMULATION else probes.probe(probe).compare
    if by or not compare:
        return stacked.compare(_stacks(study, probe, options.contexts), by or "function", options)
    return compare(measurements.read(study, probe), options)


def _stacks(study: Study, probe: str, contexts: tuple[str, ...]) -> Stacks:
    source = stacks.source(probe)
    measured = study.measured(probe)
    return Stacks(
        study.name,
        study.spec.workload,
        probe,
        stacks.what(probe, chain.from_iterable(chain(*variants.values()) for variants in measured.values())),
        source.weights[0],
        time_notes(study.time) if probes.probe(probe).measures_time else (),
        {point: stacks.by_repetition(study, probe, contexts, cells) for point, cells in measured.items()},
    )
