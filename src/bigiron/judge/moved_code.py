"""Functions of two kernels, aligned where code only moved between a function and its callers.

The compiler inlines a function into its caller in one kernel and not in the other, and authors rename and
split functions. Names alone would show that as a function that goes and another that grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from bigiron.util.lazy import polars as pl

ByFunction: TypeAlias = Mapping[str, float]
"""Self instructions per operation by function."""

Callers: TypeAlias = Mapping[str, Sequence[str]]
"""By function, those of the path in which it executes most, innermost first."""


def callers(work: pl.DataFrame) -> dict[str, list[str]]:
    """The callers of each function, from a table of the probe `instructions`."""
    by_path = work.group_by("function", "path").agg(pl.col("instructions").sum())
    most = by_path.sort("instructions", "path").group_by("function", maintain_order=True).last()
    return {function: path.split(";")[::-1] for function, path in most.select("function", "path").iter_rows()}


def align(
    base: Sequence[ByFunction],
    new: Sequence[ByFunction],
    called_by: Callers,
    same: Callable[[float, float], bool],
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """The repetitions of both kernels, with moved code counted where both kernels have it.

    Functions that only one kernel executes are counted with their nearest caller that both execute, if the
    sum is then the `same` on both kernels. What moved and changed at once stays under its names.

    >>> before, after = [{"open": 50.0, "check": 30.0}], [{"open": 81.0}]
    >>> align(before, after, {"check": ["open"]}, lambda one, other: abs(one - other) < 2)
    ([{'open': 80.0}], [{'open': 81.0}])
    >>> align(before, [{"open": 95.0}], {"check": ["open"]}, lambda one, other: abs(one - other) < 2)
    ([{'open': 50.0, 'check': 30.0}], [{'open': 95.0}])
    """
    before, after = _mean(base), _mean(new)
    groups: dict[str, list[str]] = {}
    for function in sorted({*before} ^ {*after}):
        caller = next((one for one in called_by.get(function, ()) if one in before and one in after), None)
        if caller is not None:
            groups.setdefault(caller, []).append(function)
    moved = {
        function: caller
        for caller, functions in groups.items()
        if same(*(sum(one.get(name, 0.0) for name in (caller, *functions)) for one in (before, after)))
        for function in functions
    }
    return [_counted_with(moved, one) for one in base], [_counted_with(moved, one) for one in new]


def _mean(repetitions: Sequence[ByFunction]) -> dict[str, float]:
    names: Iterable[str] = {name for one in repetitions for name in one}
    return {name: sum(one.get(name, 0.0) for one in repetitions) / len(repetitions) for name in names}


def _counted_with(moved: Mapping[str, str], repetition: ByFunction) -> dict[str, float]:
    found: dict[str, float] = {}
    for function, instructions in repetition.items():
        name = moved.get(function, function)
        found[name] = found.get(name, 0.0) + instructions
    return found
