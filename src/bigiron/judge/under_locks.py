"""Locks that are held longer, or shorter, because functions execute more or fewer instructions under them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bigiron.analysis.probes import critical_sections, locks
from bigiron.analysis.probes.critical_sections import Call
from bigiron.judge.change import CountChange
from bigiron.judge.counts import KernelCounts

FunctionCounts: TypeAlias = Mapping[str, Sequence[Mapping[str, float]]]
"""Self instructions per operation of each function, by variant and repetition."""


@dataclass(frozen=True)
class Under:
    """Such locks, all held longer or all shorter, and what is executed in the calls that hold them."""

    locks: tuple[CountChange, ...]  # the most expensive first
    calls: frozenset[Call]
    functions: FunctionCounts


def find(changed: Iterable[CountChange], counts: KernelCounts, names: tuple[str, str]) -> list[Under]:
    """Of changed locks that are taken as often as before, those that are held longer by instructions, and
    those that are held shorter.
    """
    explained: dict[bool, list[CountChange]] = {True: [], False: []}
    calls: dict[bool, set[Call]] = {True: set(), False: set()}
    for lock in sorted(changed, key=lambda change: -abs(change.cost)):
        held = lock.held or (0.0, 0.0)
        is_longer = held[1] > held[0]
        holding = _calls(lock.object, counts, names)
        base, new = (list(map(_sum, of)) for of in executed(holding, counts, names).values())
        same_direction = is_longer == (lock.cost > 0)
        if same_direction and critical_sections.explain(held[1] - held[0], base, new):
            explained[is_longer].append(lock)
            calls[is_longer] |= holding
    return [
        Under(tuple(locks), frozenset(calls[is_longer]), executed(calls[is_longer], counts, names))
        for is_longer, locks in explained.items()
        if locks
    ]


def _calls(lock: str, counts: KernelCounts, names: tuple[str, str]) -> set[Call]:
    """Those that hold it on either kernel: a function that is inlined on one of them moves no instruction."""
    return {
        call
        for name in names
        for taken, work in zip(counts.lock_cells[name], counts.work[name], strict=True)
        for call in critical_sections.calls_that_hold(
            locks.held_by_call(taken.table, taken.operations, lock), work
        )
    }


def executed(
    calls: Collection[Call], counts: KernelCounts, names: tuple[str, str]
) -> dict[str, list[dict[str, float]]]:
    """What functions execute in these calls, as in `Functions`."""
    return {name: [critical_sections.executed_in(calls, one) for one in counts.work[name]] for name in names}


def _sum(functions: Mapping[str, float]) -> float:
    return sum(functions.values())
