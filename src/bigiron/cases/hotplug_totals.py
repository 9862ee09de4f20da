"""What taking CPUs away, one after the other, takes on a machine of 1920 CPUs: simulated.

Simulating every CPU that goes would take minutes. What one costs depends on how many are online, so a few
are taken away at each of some sizes, and their cost is summed over all sizes by Simpson's rule, which is
exact for the design's own terms: a constant, N, and N^2.
"""

from collections.abc import Mapping
from typing import Any

from bigiron import _sim
from bigiron.analysis.predicted import Predicted
from bigiron.errors import UserError
from bigiron.machines import files

_SIZES = 9  # odd, as Simpson's rule wants it
_CYCLES = 4  # CPUs at each size: their grace periods begin at other moments of a tick
_EVER_NS = 1e17
_EVENTS = 10_000_000_000


def total(
    values: Mapping[str, str],
    *,
    cpus: int = 1920,
    stay: int = 1,
    machine: str = "power10-1920",
    seeds: int = 3,
) -> Predicted:
    """Seconds until only `stay` CPUs of `cpus` are online; `values` are those of the design cpu-hotplug."""
    if not 0 < stay < cpus:
        raise UserError(f"of {cpus} CPUs 1 to {cpus - 1} can stay, not {stay}")
    # The sum over stay + 1 .. cpus is the integral from half below to half above.
    step = (cpus - stay) / (_SIZES - 1)
    sizes = [stay + 0.5 + step * index for index in range(_SIZES)]
    points = [_point(values, machine, max(2, round(size)), seed) for seed in _seeds(seeds) for size in sizes]
    costs = [_cost(outcome) for outcome in _sim.simulate(points)]
    weights = [1.0, *([4.0, 2.0] * (_SIZES // 2 - 1)), 4.0, 1.0]
    return Predicted(
        tuple(
            step / 3 * sum(weight * cost for weight, cost in zip(weights, costs[first:], strict=False))
            for first in range(0, len(costs), _SIZES)
        )
    )


def _seeds(seeds: int) -> range:
    return range(1, seeds + 1)


def _point(values: Mapping[str, str], machine: str, cpus: int, seed: int) -> _sim.Point:
    cycle = {"cycle": str(min(_CYCLES, cpus - 1))}
    try:
        return _sim.Point(
            "cpu-hotplug",
            files.load(machine).with_cpus(cpus),
            list({**values, **cycle}.items()),
            seed=seed,
            warmup_ns=0.0,
            duration_ns=_EVER_NS,
            event_budget=_EVENTS,
        )
    except ValueError as error:
        raise UserError(str(error)) from None


def _cost(outcome: dict[str, Any]) -> float:
    """Seconds for each CPU."""
    if "error" in outcome:
        raise UserError(outcome["error"])
    figures: dict[str, float] = {name: value for name, value, _unit in outcome["figures"]}
    return figures["total"] / int(outcome["operations"])
