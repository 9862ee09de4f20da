"""Findings of `bigiron explain`: what became of one object, or of all instructions, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from bigiron.analysis.comparison.model import ComparedRow
from bigiron.analysis.lines.matching import MatchedLine
from bigiron.analysis.lines.rules import Rule
from bigiron.analysis.probes.costly import Costly

Direction: TypeAlias = Literal["better", "worse", "neither"]


@dataclass(frozen=True)
class Effect:
    """What became of something on a variant, against the base: counts per operation, and what that costs."""

    before: float
    after: float
    cost: float  # how many instructions longer an operation takes, by `analysis.cost`

    @property
    def direction(self) -> Direction:
        """Whether operations take longer for it."""
        if abs(self.cost) < 1.0:
            return "neither"
        return "worse" if self.cost > 0 else "better"


@dataclass(frozen=True)
class Finding:
    """One object, or all instructions: how its counts changed, or that it will limit the workload."""

    effects: dict[str, Effect]  # of each other variant; with one variant its own, against nothing
    unit: str  # of counts: "accesses", "writes", "instructions under it", "instructions", "executions"

    @property
    def effect(self) -> tuple[str, Effect]:
        """The variant whose effect costs or saves most, and its effect."""
        return max(self.effects.items(), key=lambda item: abs(item[1].cost))

    @property
    def cost(self) -> float:
        """By which findings are ranked, in instructions per operation."""
        return abs(self.effect[1].cost)

    @property
    def rule(self) -> Rule | None:
        """The known cause, if it is one."""
        return None

    @property
    def depends(self) -> tuple[str, ...]:
        """On what of the machine's shape it depends."""
        return ()

    @property
    def is_of_chance(self) -> bool:
        """Whether another shape or boot of the machine may not have it: such findings never lead."""
        return bool(self.depends)


@dataclass(frozen=True)
class LineFinding(Finding):
    """Shared lines of one object, what is known of them, and by which ways an operation comes to them."""

    rows: list[MatchedLine]
    known: Rule | None
    ways: dict[str, dict[str, float]]  # way (openat, close, ...) -> variant -> accesses per operation
    lock: ComparedRow | None = None  # that lies in them, if it is taken otherwise

    @property
    def rule(self) -> Rule | None:
        """The known cause, if it is one."""
        return self.known

    @property
    def depends(self) -> tuple[str, ...]:
        """On what of the machine's shape the heaviest of them depends."""
        return self.rows[0].depends

    @property
    def is_of_chance(self) -> bool:
        """Whether another shape or boot of the machine may not have it: such findings never lead."""
        return bool(self.depends) or self.rows[0].is_layout

    @property
    def what(self) -> str:
        """What the lines are, as a noun phrase."""
        if self.known:
            return self.known.what
        lines = f"{len(self.rows)} cache lines" if len(self.rows) > 1 else "the cache line"
        return f"{lines} of {self.rows[0].object} (used by {', '.join(self.functions[:3])})"

    @property
    def functions(self) -> list[str]:
        """Who touches them, those of the heaviest line first."""
        return list(dict.fromkeys(function for row in self.rows for function in row.functions))

    @property
    def is_pair(self) -> bool:
        """Whether they are shared by processors alone that fetch two lines at once."""
        return bool(self.rows[0].halves)

    def writes(self, variant: str) -> float:
        """Writes per operation in a variant, to all of them."""
        return sum(row.writes(variant) for row in self.rows)

    def accesses(self, variant: str) -> float:
        """Accesses per operation in a variant, to all of them."""
        return sum(row.accesses(variant) for row in self.rows)


@dataclass(frozen=True)
class LockFinding(Finding):
    """A lock that several CPUs take, and that is taken or held otherwise."""

    lock: ComparedRow


@dataclass(frozen=True)
class WorkFinding(Finding):
    """The instructions of an operation, and the functions that execute more or fewer."""

    total: ComparedRow
    functions: list[ComparedRow]  # that changed, the largest change first
    locks: tuple[ComparedRow, ...] = ()  # that are held longer, or shorter, by these instructions


@dataclass(frozen=True)
class CostlyFinding(Finding):
    """An instruction that takes much longer than others, and is executed more or less often."""

    costly: Costly
