"""What taking CPUs away, one after the other, takes on a machine of 1920 CPUs: simulated.

Simulating every CPU that goes would take minutes. What one costs depends smoothly on how many are online, so
one is taken away at each of some sizes, and the costs are summed over all sizes, straight lines between.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from bigiron import _sim
from bigiron.analysis.statistics.estimate import Estimate, of_all
from bigiron.errors import UserError
from bigiron.simulator import machine_files

_SIZES = 13
_EVER_NS = 1e17
_EVENTS = 10_000_000_000


def total(
    values: Mapping[str, str],
    *,
    cpus: int = 1920,
    stay: int = 1,
    machine: str = "power10-1920",
    seeds: int = 3,
) -> Estimate:
    """Seconds until only `stay` CPUs of `cpus` are online; `values` are those of the design cpu-hotplug."""
    if not 0 < stay < cpus:
        raise UserError(f"of {cpus} CPUs 1 to {cpus - 1} can stay, not {stay}")
    most, least = cpus, stay + 1
    sizes = sorted({least + (most - least) * index // (_SIZES - 1) for index in range(_SIZES)})
    points = [_point(values, machine, size, seed) for seed in range(1, seeds + 1) for size in sizes]
    costs = [_cost(outcome) for outcome in _sim.simulate(points)]
    runs = [costs[first : first + len(sizes)] for first in range(0, len(costs), len(sizes))]
    return of_all([_sum(dict(zip(sizes, run, strict=True))) for run in runs])


def _sum(costs: Mapping[int, float]) -> float:
    """Over all sizes from the least to the most."""
    sizes = list(costs)
    between = sum((costs[low] + costs[high]) / 2 * (high - low) for low, high in pairwise(sizes))
    return between + (costs[sizes[0]] + costs[sizes[-1]]) / 2


def _point(values: Mapping[str, str], machine: str, cpus: int, seed: int) -> _sim.Point:
    try:
        return _sim.Point(
            "cpu-hotplug",
            machine_files.load(machine).with_cpus(cpus),
            list({**values, "cycle": "1"}.items()),
            seed=seed,
            warmup_ns=0.0,
            duration_ns=_EVER_NS,
            event_budget=_EVENTS,
        )
    except ValueError as error:
        raise UserError(str(error)) from None


def _cost(outcome: dict[str, Any]) -> float:
    """Seconds for the CPU that went."""
    if "error" in outcome:
        raise UserError(outcome["error"])
    figures: dict[str, float] = {name: value for name, value, _unit in outcome["figures"]}
    return figures["total"]
