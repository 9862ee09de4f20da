"""What `bigiron compare` prints of each probe."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from bigiron import probes
from bigiron.analysis.comparison import Comparison, Options
from bigiron.report import (
    blocked,
    efficiency,
    functions,
    operations,
    profile,
    programs,
    simulation,
    text,
    verdict,
    wiki,
    work,
)
from bigiron.report.listing import plain
from bigiron.study import measurements
from bigiron.study.store import Study, losses

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
    by: profile.By | None = None  # of what was recorded with stacks
    tolerance: float | None = None  # of throughput; None for the study's
    metric: str | None = None  # of throughput; None for all

    @property
    def is_text(self) -> bool:
        """Whether it is for a terminal or a mail."""
        return self.format == "text"


def compare(study: Study, probe: str, how: CompareOptions) -> str:
    """The variants of a study side by side, from what a probe recorded, and what was lost, in words."""
    text = _compared(study, probe, how)
    lost = losses(study.records()) if how.format in ("text", "markdown") else []
    if not lost:
        return text
    return (
        text + "\n" + "".join(f"{plain(one)}\n\n" if how.format == "markdown" else f"{one}\n" for one in lost)
    )


def _compared(study: Study, probe: str, how: CompareOptions) -> str:
    if how.by:
        return _profile(study, probe, how, how.by)
    if study.spec.engine.is_model and probe != "throughput":
        return simulation.FORMATS[how.format](simulation.compare_study(study))
    known = probes.probe(probe)
    if known.samples:
        return _noisy(study, how)
    if known.compare:
        found = comparison_of(study, probe, Options(how.base, how.contexts, how.paths))
        return FORMATS[how.format](found)
    if probe in _COMPARED:
        return _COMPARED[probe](study, how)
    return _profile(study, probe, how, "function")


def _profile(study: Study, probe: str, how: CompareOptions, by: profile.By) -> str:
    return profile.FORMATS[how.format](profile.compare_study(study, probe, by, how.base, how.contexts))


def comparison_of(study: Study, probe: str, options: Options) -> Comparison:
    """What a probe measured, compared. UserError where there is nothing, or no such base."""
    options = replace(options, base=study.base(options.base))
    compare = probes.probe(probe).compare
    assert compare
    return compare(measurements.read(study, probe), options)


def _work(study: Study, how: CompareOptions) -> str:
    return work.FORMATS[how.format](work.compare_study(study, how.base, how.contexts))


def _functions(study: Study, how: CompareOptions) -> str:
    found = functions.compare_study(study)
    return functions.text(found, True) if how.is_text and how.paths else functions.FORMATS[how.format](found)


def _blocked(study: Study, how: CompareOptions) -> str:
    found = blocked.compare_study(study, how.contexts)
    return blocked.text(found, how.paths) if how.is_text else blocked.FORMATS[how.format](found)


def _operations(study: Study, how: CompareOptions) -> str:
    return operations.FORMATS[how.format](operations.compare_study(study, how.base))


def _efficiency(study: Study, how: CompareOptions) -> str:
    return efficiency.FORMATS[how.format](efficiency.compare_study(study))


def _noisy(study: Study, how: CompareOptions) -> str:
    found = verdict.compare_study(study, how.base, how.tolerance, how.metric)
    return verdict.FORMATS[how.format](found)


_Compared: TypeAlias = Callable[[Study, CompareOptions], str]
_COMPARED: dict[str, _Compared] = {
    "work": _work,
    "functions": _functions,
    "blocked": _blocked,
    "operations": _operations,
    "efficiency": _efficiency,
}
