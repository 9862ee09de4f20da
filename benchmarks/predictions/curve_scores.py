"""Scores of predicted curves: one each, and by vendor and by how much of a machine the tasks fill."""

import tomllib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from math import prod
from statistics import median

import numpy as np
from curve_list import CURVES, UNBOUND

from bigiron.simulator import machine_files

_VENDORS = {
    "AMD": ("epyc", "threadripper"),
    "Arm": ("graviton", "altra", "kunpeng", "grace"),
    "POWER": ("power",),
}
"""How the names of a vendor's machine files begin; all others are Intel's."""

CACHE, NODE, MORE = EXTENTS = ("one cache", "one node", "more")


@dataclass(frozen=True)
class Score:
    """How near a prediction comes to a curve, relative to its first point."""

    curve: str
    machine: str
    error: float  # median, of the points after the first
    inside: int
    points: int
    width: float  # median of high to low
    knee: str
    no_contention: float
    universal: float | None
    contends: bool
    leads: bool  # nearer than both, over the points that the law was not fitted to
    rows: tuple[tuple[int, float, float, float, float], ...]

    def at(self, tasks: int) -> np.ndarray:
        """Published and predicted, relative to the first point."""
        return next(np.array(row[1:3]) for row in self.rows if row[0] == tasks)


def vendor(machine: str) -> str:
    """Whose processors a machine has.

    >>> vendor("epyc-9654-x2"), vendor("xeon-5418y-x2")
    ('AMD', 'Intel')
    """
    return next((name for name, begins in _VENDORS.items() if machine.startswith(begins)), "Intel")


def extent(machine: str, tasks: int, spread: bool = False) -> str:
    """The least that holds all tasks: CPUs that share a last-level cache, a node, or more.

    One task goes to each core before a core gets a second one. With `spread`, nodes get tasks in turn.

    >>> [extent("epyc-9654-x2", tasks) for tasks in (8, 9, 96, 97)]
    ['one cache', 'one node', 'one node', 'more']
    >>> extent("xeon-e5-2690v4-x2", 2, spread=True)
    'more'
    """
    of_cache, of_node, of_all = _cores(machine)
    cores = min(tasks, of_all)
    if spread and tasks > 1 and of_node < of_all:
        return MORE
    return CACHE if cores <= of_cache else NODE if cores <= of_node else MORE


@cache
def _cores(machine: str) -> tuple[int, int, int]:
    """The cores of a machine's first cache and first node, and of all of it."""
    file = tomllib.loads(machine_files.text(machine))
    names = [level["name"] for level in file["level"]]
    counts = [level["count"] for level in file["level"] if level["name"] != "thread"]
    first = [count[0] if isinstance(count, list) else count for count in counts]

    def within(level: str) -> int:
        return prod(first[names.index(level) + 1 :])

    units = 1
    for count in counts:
        units = sum(count) if isinstance(count, list) else units * count
    return within(file.get("cache", file["node"])), within(file["node"]), units


def extents(score: Score) -> list[str]:
    """Of every point of a curve."""
    spread = CURVES[score.curve][0] in UNBOUND
    return [extent(score.machine, tasks, spread) for tasks, *_ in score.rows]


def by_vendor(scores: list[Score]) -> None:
    """Print a line a vendor: errors, and points inside their intervals by how much of a machine is filled."""
    print(f"\n| vendor | curves | machines | median error | inside | {' | '.join(EXTENTS)} |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    of_vendor = defaultdict(list)
    for score in scores:
        of_vendor[vendor(score.machine)].append(score)
    for name, some in sorted(of_vendor.items()):
        inside = _inside(some)
        parts = " | ".join(_share(inside[part]) for part in EXTENTS)
        machines = len({score.machine for score in some})
        error = median(score.error for score in some)
        every = [one for part in EXTENTS for one in inside[part]]
        print(f"| {name} | {len(some)} | {machines} | {error:.0%} | {_share(every)} | {parts} |")


def _inside(scores: list[Score]) -> dict[str, list[bool]]:
    """Whether each published point is in its interval, by extent."""
    found = defaultdict(list)
    for score in scores:
        for part, (_, truth, _, low, high) in zip(extents(score), score.rows, strict=True):
            found[part].append(low <= truth <= high)
    return found


def _share(points: list[bool]) -> str:
    return f"{sum(points) / len(points):.0%} of {len(points)}" if points else "-"
