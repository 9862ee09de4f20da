"""How throughput grows with tasks: where it stops, where two variants part, and which law it follows."""

from dataclasses import dataclass
from enum import StrEnum

from bigiron.analysis.ratio import Estimate
from bigiron.analysis.verdict import Comparison


class Law(StrEnum):
    """What keeps throughput from growing with the tasks."""

    universal = "universal scalability law"
    lock_bound = "lock-bound"


@dataclass(frozen=True)
class Point:
    """What so many tasks achieve: the median of the repetitions; no interval where there is but one."""

    tasks: int
    throughput: Estimate
    repetitions: int


@dataclass(frozen=True)
class Knee:
    """The N past which adding tasks adds less than half of what ideal scaling would."""

    tasks: int | None
    """None: up to the most tasks measured there is none."""
    low: int | None
    """The bootstrap's interval, as far as tasks were measured; None: none, or one past what was measured."""
    high: int | None


@dataclass(frozen=True)
class Fit:
    """A law fitted to a curve: its parameters by name, each with an interval, and what it misses."""

    law: Law
    parameters: dict[str, Estimate]
    curve: dict[int, float]
    """The law's throughput, by tasks, as far as was measured."""
    residuals: dict[int, float]
    """By tasks: how far the measured throughput lies above the law's, as a share of it."""
    refusal: str
    """Why it must not be extrapolated; empty where it may be."""
    predicted: dict[int, Estimate]
    """By tasks, past what was measured; empty where it is refused."""


@dataclass(frozen=True)
class Curve:
    """One variant's throughput against tasks."""

    variant: str
    cpus: int | None
    """None where there were as many CPUs as tasks."""
    metric: str
    unit: str
    points: tuple[Point, ...]
    knee: Knee | None
    """None where too little was measured to tell."""
    fits: tuple[Fit, ...]


@dataclass(frozen=True)
class Parting:
    """Where a variant's curve leaves the base's: the first N from which the difference stays significant."""

    base: str
    variant: str
    cpus: int | None
    metric: str
    tasks: int | None
    """None: they do not part as far as was measured."""
    comparisons: dict[int, Comparison]
    """At every number of tasks that both have."""
