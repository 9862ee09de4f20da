"""The instructions of the calls that hold a lock: by how much they explain that it is held longer.

The probe `locks` says in which call a lock was taken and for how many instructions it was held, the probe
`instructions` what each call executed, and neither which instructions ran under which lock. But a lock that
is held for more instructions than the call that took it executed is released by a caller of that call, as
where a function of its own takes the lock. So all instructions under a lock are in the innermost call on the
path that executed at least as many as the lock was held for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from bigiron.analysis.comparison import paths
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.util.lazy import polars as pl

EXPLAINED = 0.5
"""The share of a longer hold time that instructions of the calls must explain to be its cause. What else may
explain it, such as a lock that is now taken earlier, is then the smaller part."""

_LEAST_HELD = 1.0
"""Instructions per operation: acquisitions in a call that holds the lock for less are left out."""

Call: TypeAlias = tuple[str, ...]
"""The functions that lead to a call, outermost first, and its own."""

Held: TypeAlias = Mapping[Call, float]
"""For how many instructions per operation a lock is held, by the call that took it."""


def calls_that_hold(held: Held, work: ProbedCell) -> set[Call]:
    """The calls in which a lock is taken and released, as far as the counts of one recording tell.

    `work` is a cell of the probe `instructions`, of the contexts that count. No call is as far out as
    the kernel's entry code, which all operations share.
    """
    executed = work.once(_of_calls, partial(_of_calls, work))
    return {
        _innermost(call, instructions, executed)
        for call, instructions in held.items()
        if instructions >= _LEAST_HELD
    }


def _innermost(call: Call, held: float, executed: Mapping[Call, float]) -> Call:
    entry = len(call) - len(paths.short(";".join(call)).split(";"))
    while len(call) > entry + 1 and executed.get(call, 0.0) < held:
        call = call[:-1]
    return call


def _of_calls(work: ProbedCell) -> dict[Call, float]:
    """Instructions per operation of each call with all that it called."""
    found: dict[Call, float] = defaultdict(float)
    for call, instructions in work.once(_sums, partial(_sums, work)):
        for depth in range(1, len(call) + 1):
            found[call[:depth]] += instructions
    return found


def executed_in(calls: Collection[Call], work: ProbedCell) -> dict[str, float]:
    """Self instructions per operation of each function in these calls and in what they called."""
    if not calls:
        return {}
    depths = sorted({len(call) for call in calls})
    found: dict[str, float] = defaultdict(float)
    for call, instructions in work.once(_sums, partial(_sums, work)):
        if any(call[:depth] in calls for depth in depths):
            found[call[-1]] += instructions
    return dict(found)


def _sums(work: ProbedCell) -> list[tuple[Call, float]]:
    """Self instructions per operation of each call."""
    sums = work.table.group_by("path", "function").agg(pl.col("instructions").sum() / work.operations)
    rows = sums.sort("path", "function").iter_rows()
    return [(_call(path, function), instructions) for path, function, instructions in rows]


def _call(path: str, function: str) -> Call:
    return (*path.split(";"), function) if path else (function,)


def explain(longer: float, before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether these instructions per operation explain that a lock is held longer, or shorter, by so many.

    `before` and `after` are of the repetitions of two kernels. Any two of them must be so far apart, and
    further than two of one kernel.

    >>> explain(900, [5000, 5010], [5880, 5900]), explain(900, [5000, 5010], [5200, 5210])
    (True, False)
    >>> explain(-40, [551, 551], [511, 511]), explain(40, [551, 551], [511, 511])
    (True, False)
    """
    apart = min(after) - max(before) if longer > 0 else min(before) - max(after)
    own = max(max(of) - min(of) for of in (before, after))
    return apart > own and apart >= EXPLAINED * abs(longer)
