"""A second opinion on a reported regression: is it coherence, locks, instructions, or neither?

The counts of two kernels go in, a judgement comes out. Each changed count is weighted by its cost per
operation, in instructions, at the report's number of tasks. The cost includes queueing for a cache line or a
lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bigiron.analysis.comparison.model import Measurements
from bigiron.analysis.statistics.estimate import Estimate
from bigiron.judge import counts as counts_of
from bigiron.judge.change import CountChange, JudgedKind
from bigiron.judge.counts import Setup
from bigiron.judge.differences import Differences
from bigiron.judge.operation import operation


@dataclass(frozen=True)
class Judgement:
    """What the counts say about a report.

    `changes` are the relevant ones: first those that explain the report, of the kind that costs most in all,
    the most expensive one first. `kind` is that kind, and `share` what its changes cost together.
    """

    kind: JudgedKind
    changes: list[CountChange]
    cpus: int
    tasks: int
    at_tasks: int  # the number of tasks for which costs are computed
    work: tuple[float, float]  # instructions per operation
    accesses: tuple[float, float]  # to shared cache lines, per operation
    repetitions: int
    share: float = 0.0  # of an operation's time, if nothing else limits it; 0: the changes cancel each other
    explaining: int = 0  # the number of changes that `share` includes
    against_the_report: bool = False  # whether all relevant changes go in the other direction
    left_out: tuple[str, ...] = ()  # changes that cost too little to be relevant, most expensive first
    may_grow: bool = False  # whether per-CPU cache lines would be relevant if they grew with the CPUs


@dataclass(frozen=True)
class ReportedClaim:
    """What the report says, as far as a judgement needs it."""

    regression: bool
    tasks: int | None  # None: as many as were measured
    cpus: int | None = None


@dataclass(frozen=True)
class PredictedChange:
    """How throughput is predicted to change on the report's machine, and whether the report agrees."""

    tasks: int
    machine: str
    change: Estimate
    reported: float | None  # None: the report's metric is no throughput
    why_counts: str = ""
    """Why it was predicted from counts instead of traces; empty if it was predicted from traces."""
    weighed: tuple[str, ...] = ()
    """Instructions that take long, with whose additional time it was predicted."""

    @property
    def fits(self) -> bool | None:
        """Whether the reported change lies in the interval; None if it is not one of throughput."""
        return None if self.reported is None else self.change.holds(self.reported)

    @property
    def tells_sign(self) -> bool:
        """Whether it predicts faster or slower: an interval that includes 0 predicts neither."""
        return not self.change.holds(0.0)


def judge(
    lines: Measurements,
    locks: Measurements,
    instructions: Measurements,
    base: str,
    new: str,
    claim: ReportedClaim,
) -> Judgement:
    """The judgement at the largest measured number of CPUs, from the tables of the three probes.

    Smaller numbers of CPUs show how accesses to per-CPU cache lines grow.
    """
    point = max(lines.points)
    cpus, tasks = point[0], point[1] or point[0]
    setup = Setup(base, new, *point, max(claim.cpus or cpus, cpus), max(claim.tasks or tasks, tasks))
    differences = compare(lines, locks, instructions, setup)
    both = differences.base, differences.new
    every = sorted(differences.changes(), key=lambda change: -abs(change.cost))
    relevant = [change for change in every if change.is_relevant]
    one_sided = [change for change in relevant if not change.cancels]
    explaining = [change for change in one_sided if (change.cost > 0) == claim.regression]
    costs = _costs(explaining, differences)
    explaining.sort(key=lambda change: -abs(costs[change.kind]))
    others = [change for change in one_sided if change not in explaining]
    ordered = [*explaining, *others, *(change for change in relevant if change.cancels)]
    return Judgement(
        kind=ordered[0].kind if ordered else "neither",
        changes=ordered,
        cpus=cpus,
        tasks=tasks,
        at_tasks=setup.at_tasks,
        work=(both[0].instructions, both[1].instructions),
        accesses=(both[0].accesses, both[1].accesses),
        repetitions=len(locks.points[point][base]),
        share=costs[ordered[0].kind] if explaining else others[0].share if others else 0.0,
        explaining=sum(change.kind == ordered[0].kind for change in explaining),
        against_the_report=bool(one_sided) and not explaining,
        left_out=tuple(_name(change) for change in every if not change.is_relevant),
        may_grow=differences.may_grow(),
    )


def _costs(changes: Sequence[CountChange], differences: Differences) -> dict[JudgedKind, float]:
    """What the changes of each kind cost together, as shares of an operation's time.

    One cause often changes many cache lines, each of which costs less than something else.
    """
    kinds = {change.kind for change in changes}
    return {
        kind: differences.together([change for change in changes if change.kind == kind]) for kind in kinds
    }


def compare(
    lines: Measurements, locks: Measurements, instructions: Measurements, setup: Setup
) -> Differences:
    """The counts of two kernels at the setup's number of CPUs and tasks, and what an operation needs."""
    point = setup.cpus, setup.tasks
    counts = counts_of.read(lines, locks.points[point], instructions.points[point], setup)
    both = operation(counts, setup, setup.base), operation(counts, setup, setup.new)
    return Differences(setup, counts, *both)


def _name(change: CountChange) -> str:
    if change.kind == "instructions":
        return change.instruction or "instructions"
    return f"{change.object} ({change.kind})"
