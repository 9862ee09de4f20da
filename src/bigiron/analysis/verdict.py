"""Whether two variants differ: a verdict with its error rates stated."""

from dataclasses import dataclass
from enum import StrEnum

from bigiron.analysis.ratio import Estimate
from bigiron.analysis.repetitions import Repetitions


class Verdict(StrEnum):
    """What the repetitions carry."""

    changed = "changed"
    unchanged = "unchanged"
    undecided = "undecided"


@dataclass(frozen=True)
class Comparison:
    """A variant against the base, in one metric at so many CPUs and tasks."""

    base: Repetitions
    ours: Repetitions
    paired: bool
    """Whether repetitions of one number ran beside each other, and are compared with each other."""
    judged: int
    """How many repetitions the verdict rests on, the first ones: those of the look at which it was reached."""
    ratio: Estimate
    """Ours to the base: of medians, or the median of the ratios of each pair."""
    confidence: float
    """That the ratio's interval has: 0.95 at the first look."""
    p: float
    """Of the rank test, corrected for the number of comparisons and of looks: changed up to 0.05."""
    tolerance: float
    """A change within it is none that matters: 0.02 is 2 %."""
    verdict: Verdict
    more: int | None
    """Of an undecided one: how many more repetitions would probably decide; None where no number would."""

    @property
    def improved(self) -> bool:
        """Whether a change is one for the better."""
        return (self.ratio.value > 1) == (self.ours.better == "more")
