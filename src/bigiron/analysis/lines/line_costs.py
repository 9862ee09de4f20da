"""What shared cache lines are predicted to cost on a machine: an order that counts alone do not give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bigiron.analysis.lines.matching import MatchedLine
from bigiron.analysis.replay.program import ReplayProgram
from bigiron.analysis.statistics.estimate import Estimate
from bigiron.util.english import plural
from bigiron.util.object_name import ObjectName

WORTH_SAYING = 0.01
"""Share of the tasks' time from which a line's cost is shown."""


@dataclass(frozen=True)
class LineCosts:
    """What share of the tasks' time lines take, with the locks on them, by variant and `member`."""

    machine: str
    tasks: int
    by_variant: Mapping[str, Mapping[str, Estimate]]
    refused: Mapping[str, str]  # why nothing is predicted of the other variants

    def of(self, row: MatchedLine) -> dict[str, Estimate]:
        """A line's cost in each variant where it is worth saying; the replay prefetches no adjacent line."""
        if row.halves:
            return {}
        name = ObjectName.parse(row.object).member
        costs = {variant: costs[name] for variant, costs in self.by_variant.items() if name in costs}
        return {variant: cost for variant, cost in costs.items() if cost.value >= WORTH_SAYING}

    @property
    def notes(self) -> list[str]:
        """What the order is, and of what it knows nothing, in sentences."""
        ranked = f"Ranked by what lines are predicted to take of the time of {plural(self.tasks, 'task')}"
        return [
            f"{ranked} on {self.machine}, with the locks on them; in parentheses 90 % of the samples.",
            *(f"Nothing is predicted of {variant}: {why}." for variant, why in self.refused.items()),
        ]

    def weight(self, rows: Iterable[MatchedLine], base: str, others: Sequence[str]) -> float:
        """By which lines of one cause are ranked: the most that they cost, or the largest change of that."""
        by_name = {ObjectName.parse(row.object).member: self.of(row) for row in rows}
        total = {
            variant: sum(costs[variant].value for costs in by_name.values() if variant in costs)
            for variant in (base, *others)
        }
        if not others:
            return total[base]
        return max(abs(total[variant] - total[base]) for variant in others)


def line_costs(program: ReplayProgram, shares: Sequence[float]) -> dict[str, float]:
    """The share that each line takes of the tasks' time, with that of the locks on it, by its members' names.

    `shares` are the replay's, in the order of `program.objects`. Lines of one name are added up.

    >>> from bigiron.analysis.replay.program import ReplayLine, ReplayLock
    >>> lines = [ReplayLine("struct mm_struct.pgd", "shared")]
    >>> program = ReplayProgram(lines, [ReplayLock("struct mm_struct.mmap_lock", "rwsem", 0)], [])
    >>> line_costs(program, [0.5, 0.0, 0.0, 0.25, 0.25])
    {'struct mm_struct.mmap_lock': 0.5, 'struct mm_struct.pgd': 0.5}
    """
    of_lines = shares[len(program.objects) - len(program.lines) - len(program.locks) :]
    costs = list(of_lines[: len(program.lines)])
    names = [{line.name, *program.names.get(number, ())} for number, line in enumerate(program.lines)]
    for lock, share in zip(program.locks, of_lines[len(program.lines) :], strict=True):
        costs[lock.line] += share
        names[lock.line].add(lock.name)
    found: defaultdict[str, float] = defaultdict(float)
    for cost, objects in zip(costs, names, strict=True):
        for name in sorted({ObjectName.parse(object).member for object in objects}):
            found[name] += cost
    return dict(found)
