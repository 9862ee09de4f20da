"""Locks that are held longer, or shorter, because functions execute more or fewer instructions under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bigiron.analysis.probes import critical_sections, locks
from bigiron.analysis.probes.critical_sections import Call
from bigiron.judge.change import Change
from bigiron.judge.counts import Counts


@dataclass(frozen=True)
class Under:
    """Such locks, and what is executed in the calls that hold them."""

    locks: tuple[Change, ...]  # the most expensive first
    functions: Mapping[str, Sequence[Mapping[str, float]]]
    """Self instructions per operation there of each function, by variant and repetition."""


def find(changed: Iterable[Change], counts: Counts, names: tuple[str, str]) -> Under:
    """Of changed locks that are taken as often as before, those that are held longer by instructions."""
    explained: list[Change] = []
    calls: set[Call] = set()
    for lock in sorted(changed, key=lambda change: -abs(change.cost)):
        held = lock.held or (0.0, 0.0)
        holding = _calls(lock.object, counts, names)
        base, new = (list(map(_sum, of)) for of in _executed(holding, counts, names).values())
        same_direction = (held[1] > held[0]) == (lock.cost > 0)
        if same_direction and critical_sections.explain(held[1] - held[0], base, new):
            explained.append(lock)
            calls |= holding
    return Under(tuple(explained), _executed(calls, counts, names))


def _calls(lock: str, counts: Counts, names: tuple[str, str]) -> set[Call]:
    """Those that hold it on either kernel: a function that is inlined on one of them moves no instruction."""
    return {
        call
        for name in names
        for taken, work in zip(counts.lock_cells[name], counts.work[name], strict=True)
        for call in critical_sections.calls_that_hold(
            locks.held_by_call(taken.table, taken.operations, lock), work.table, work.operations
        )
    }


def _executed(calls: set[Call], counts: Counts, names: tuple[str, str]) -> dict[str, list[dict[str, float]]]:
    return {
        name: [critical_sections.executed_in(calls, one.table, one.operations) for one in counts.work[name]]
        for name in names
    }


def _sum(functions: Mapping[str, float]) -> float:
    return sum(functions.values())
