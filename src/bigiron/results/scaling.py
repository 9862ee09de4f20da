"""How the throughput of a study grows with the number of tasks."""

from dataclasses import dataclass

from bigiron.analysis.statistics import knee
from bigiron.analysis.statistics.knee import Parting, ThroughputCurve
from bigiron.analysis.statistics.repetitions import Repetitions
from bigiron.analysis.statistics.verdict import MetricComparison
from bigiron.errors import UserError
from bigiron.results import metrics
from bigiron.study.store import Study

_FURTHER = 2  # times the largest measured task count: what is extrapolated to by default


@dataclass(frozen=True)
class Scaling:
    """A study's curves, the base's first, and where the others diverge from it."""

    study: str
    workload: str
    time: str
    base: str
    at: int
    curves: list[ThroughputCurve]
    partings: list[Parting]


def knee_study(
    study: Study, base: str | None = None, at: int | None = None, metric: str | None = None
) -> Scaling:
    """Every variant's curve. UserError where nothing was measured with several task counts."""
    rates = [one for one in metrics.metrics(study) if one.better == "more" and metric in (None, one.metric)]
    one_a_cpu = all(one.cpus == one.tasks for one in rates)
    groups: dict[tuple[str, int | None, str], list[Repetitions]] = {}
    for one in rates:
        groups.setdefault((one.metric, None if one_a_cpu else one.cpus, one.variant), []).append(one)
    groups = {key: group for key, group in groups.items() if len(group) > 1}
    if not groups:
        raise UserError(
            f"{study.folder} has no curve: measure throughput, or a metric where more is better, "
            "with several task counts (--tasks 1,2,4,8)"
        )
    to = at or _FURTHER * max(one.tasks for group in groups.values() for one in group)
    compared = metrics.compare(study, base, metric=metric)
    return Scaling(
        study.name,
        study.spec.workload,
        study.time,
        study.base(base),
        to,
        [knee.curve(group, cpus, to) for (_, cpus, _), group in groups.items()],
        [
            knee.parting(here, cpus)
            for name, cpus, variant in groups
            if (here := [one for one in compared if _is_of(one, name, cpus, variant)])
        ],
    )


def _is_of(comparison: MetricComparison, metric: str, cpus: int | None, variant: str) -> bool:
    ours = comparison.ours
    return (ours.metric, ours.variant) == (metric, variant) and cpus in (None, ours.cpus)
