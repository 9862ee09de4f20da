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
    """The repetitions of both kernels, with the functions of the new one under the names of the base.

    A function that only one kernel executes is taken for a renamed one if the other kernel has one of the
    `same` size with the same caller. What then remains under a caller is taken for inlined, and is counted
    with the caller, if the caller has the same size with it as on the other kernel. What moved and changed at
    once keeps its names, so it looks like a function that shrinks and another that grows.

    >>> def same(one: float, other: float) -> bool:
    ...     return abs(one - other) < 2
    >>> before, called_by = [{"open": 50.0, "check": 30.0}], {"check": ["open"], "may_open": ["open"]}
    >>> align(before, [{"open": 81.0}], called_by, same)
    ([{'open': 80.0}], [{'open': 81.0}])
    >>> align(before, [{"open": 50.0, "may_open": 31.0}], called_by, same)
    ([{'open': 50.0, 'check': 30.0}], [{'open': 50.0, 'check': 31.0}])
    >>> align(before, [{"open": 95.0}], called_by, same)
    ([{'open': 50.0, 'check': 30.0}], [{'open': 95.0}])
    """
    before, after = _mean(base), _mean(new)
    names: dict[str, str] = {}
    for caller, functions in _of_one_kernel(before, after, called_by).items():
        gone, added = ([one for one in functions if one in of] for of in (before, after))
        for function in gone:
            alike = [one for one in added if one not in names and same(before[function], after[one])]
            if alike:
                nearest = min(alike, key=lambda one: abs(before[function] - after[one]))
                names |= {nearest: function, function: function}
        for rest, of, other in ((gone, before, after), (added, after, before)):
            inlined = [one for one in rest if one not in names]
            if same(of[caller] + sum(of[one] for one in inlined), other[caller]):
                names |= dict.fromkeys(inlined, caller)
    return [_named(names, one) for one in base], [_named(names, one) for one in new]


def _of_one_kernel(before: ByFunction, after: ByFunction, called_by: Callers) -> dict[str, list[str]]:
    """The functions that only one kernel executes, by the nearest caller that both do."""
    found: dict[str, list[str]] = {}
    for function in sorted({*before} ^ {*after}):
        caller = next((one for one in called_by.get(function, ()) if one in before and one in after), None)
        if caller is not None:
            found.setdefault(caller, []).append(function)
    return found


def _mean(repetitions: Sequence[ByFunction]) -> dict[str, float]:
    names: Iterable[str] = {name for one in repetitions for name in one}
    return {name: sum(one.get(name, 0.0) for one in repetitions) / len(repetitions) for name in names}


def _named(names: Mapping[str, str], repetition: ByFunction) -> dict[str, float]:
    found: dict[str, float] = {}
    for function, instructions in repetition.items():
        name = names.get(function, function)
        found[name] = found.get(name, 0.0) + instructions
    return found
