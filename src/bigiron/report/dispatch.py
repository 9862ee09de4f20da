"""What `bigiron compare` prints of each probe."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

from bigiron.analysis import (
    blocked,
    efficiency,
    functions,
    locks,
    operations,
    shared_lines,
    simulation,
    stacked,
    work,
)
from bigiron.analysis.comparison import Comparison, Measurements, Options, time_notes, with_losses
from bigiron.analysis.stacked import By, Stacks
from bigiron.errors import UserError
from bigiron.report import programs, stacks, text, verdict, wiki
from bigiron.study import measurements
from bigiron.study.store import Study

COMPARED: dict[str, Callable[[Measurements, Options], Comparison]] = {
    "conflicts": shared_lines.compare,
    "locks": locks.compare,
    "work": work.compare,
    "functions": functions.compare,
    "blocked": blocked.compare,
    "operations": operations.compare,
    "efficiency": efficiency.compare,
    "simulation": simulation.compare,
}
"""By probe: how what it measured is compared. What is not here was recorded with stacks."""

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
    """The variants of a study side by side, from what a probe recorded."""
    if probe == "throughput" and not how.by:
        return verdict.FORMATS[how.format](verdict.compare_study(study, how.base, how.tolerance, how.metric))
    if study.spec.machine == "simulated" and not how.by:
        probe = "simulation"
    found = comparison_of(study, probe, Options(how.base, how.contexts, how.paths), how.by)
    return FORMATS[how.format](found)


def comparison_of(study: Study, probe: str, options: Options, by: By | None = None) -> Comparison:
    """What a probe measured, compared. UserError where there is nothing, or no such base."""
    options = replace(options, base=study.base(options.base))
    if by or probe not in COMPARED:
        return stacked.compare(_stacks(study, probe, options.contexts), by or "function", options)
    measured = measurements.read(study, probe)
    return with_losses(COMPARED[probe](measured, options), measured)


def _stacks(study: Study, probe: str, contexts: tuple[str, ...]) -> Stacks:
    if probe not in stacks.PROBES:
        raise UserError(f"stacks are recorded by the probes {', '.join(stacks.PROBES)}, not by {probe}")
    measured = study.measured(probe)
    return Stacks(
        study.name,
        study.spec.workload,
        probe,
        stacks.what(probe, chain.from_iterable(chain(*variants.values()) for variants in measured.values())),
        stacks.PROBES[probe].weights[0],
        time_notes(study.time) if probe in ("oncpu", "blocked") else (),
        {point: stacks.by_repetition(study, probe, contexts, cells) for point, cells in measured.items()},
    )
