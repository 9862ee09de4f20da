"""A case's traces, replayed on the published machine: what `bigiron predict` says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bigiron.analysis.replay.extrapolated import Extrapolated
from bigiron.analysis.replay.prediction import Limit, limit_name
from bigiron.analysis.statistics.estimate import Estimate
from bigiron.errors import UserError
from bigiron.results import prediction
from bigiron.study.store import Study


@dataclass(frozen=True)
class ReplayedStudy:
    """Predictions of all variants of a study, on the same machines."""

    found: prediction.Prediction

    @classmethod
    def on(
        cls,
        machine: str,
        study: Study,
        tasks: Sequence[int],
        extrapolated: Mapping[str, Extrapolated] | None = None,
    ) -> ReplayedStudy:
        """On a machine. `extrapolated`: what each variant adds per operation there, as it has more CPUs.

        UserError where a variant's trace cannot be replayed: there is nothing to compare the others with.
        """
        found = prediction.predict(study, machine, tasks, extrapolated=extrapolated)
        if found.refused:
            raise UserError(f"{study.folder}: {found.refused[0].variant}: {found.refused[0].why}")
        return cls(found)

    def change(self, variant: str, tasks: int) -> Estimate:
        """Of a variant's throughput against the first one's, in per cent."""
        (ratio,) = [one for one in self.found.ratios if one.variant == variant]
        at = ratio.points[tasks]
        return at.changed(lambda share: 100 * (share - 1))

    def limits(self, variant: str, tasks: int) -> list[Limit]:
        """What takes a tenth of the tasks' time or more, the most first."""
        (curve,) = [one for one in self.found.curves if one.variant == variant]
        return next(point for point in curve.points if point.tasks == tasks).limited_by

    def in_words(self, variant: str, tasks: int) -> str:
        """What limits a variant, with its share of the tasks' time."""
        limits = [
            f"{limit_name(limit.kind, limit.object)} {limit.share:.0%}"
            for limit in self.limits(variant, tasks)
        ]
        return f"{variant}: {', '.join(limits) or 'nothing'}"


def not_replayed(why: UserError) -> str:
    """What a report says in place of what traces come to."""
    return f"The traces were not replayed: {why}"


def percent(change: Estimate) -> str:
    """A change with its interval.

    >>> percent(Estimate(-52.4, -60.0, 1.25))
    '-52.4 % (-60.0 to +1.2)'
    """
    return change.written("{:+.1f}".format, " %")
