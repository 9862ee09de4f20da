"""The constants of `bigiron.simulator.fitted`, fitted to published curves.

Each curve is replayed once with the constants drawn from wide ranges. How the logarithm of throughput goes
with the logarithm of each constant is a straight line's slope, point by point (for what a transfer takes, a
parabola's); with those, any constants are tried in no time. The four of processors are those whose median
prediction is nearest: the mean absolute error of the logarithm, every workload on a machine counting the
same, however many curves of it were published. How long instructions take where no rate of a task is known
is the median of how long they took where one was, with the least range, besides the machines' own, that
holds nine in ten of those. The model's own error is the least with which the intervals hold as many points
as they should, of machines whose curves the others were fitted without.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bigiron.analysis.statistics.estimate import SAMPLED
from bigiron.simulator.fitted import FITTED, Constant, Constants, share_of_error

WIDE = Constants(
    crossing=Constant(0.32, 3.2, most=0.99),
    contended=Constant(1.0, 2),
    kept_ns=Constant(25, 3),
    under_locks=Constant(1.2, 2.6),
    instructions=FITTED.instructions,
    model_error=0.0,
)
CONTENDED = 1  # its place among the constants

_RIDGE = 0.02  # what keeps a constant that no curve tells of where it is
_SIMULATED = 800
_ERRORS = np.arange(0.0, 1.0, 0.01)
_RANGES = np.arange(1.0, 4.0, 0.1)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Surveyed:
    """A curve, and its replays with constants from wide ranges."""

    curve: str
    machine: str
    workload: str  # what was recorded for it
    truth: Array  # logarithm of throughput relative to the first point, by point
    replayed: Array  # the same of each sample: a row a sample
    places: Array  # where in its range each constant was, -1 to 1: a row a sample
    more: Array  # times as many tasks as at the first point, by point
    slower: Array  # logarithm of how long instructions take for the first point, of what each sample has

    def at(self, places: Array) -> Array:
        """What is replayed with those constants, a row each: the middle of all machines."""
        return self._design(places) @ self._coefficients

    @cached_property
    def rest(self) -> Array:
        """What else there is in each sample: the machine's ranges, and chance."""
        return self.replayed - self.at(self.places)

    @cached_property
    def _coefficients(self) -> Array:
        design = self._design(self.places)
        penalty = np.diag([0.0, *np.ones(design.shape[1] - 1)])
        return np.asarray(np.linalg.solve(design.T @ design + penalty, design.T @ self.replayed))

    @staticmethod
    def _design(places: Array) -> Array:
        """A straight line in each constant; a parabola in that on which most depends."""
        places = np.atleast_2d(places)
        return np.column_stack([np.ones(len(places)), places, places[:, CONTENDED] ** 2])


def fit(curves: Sequence[Surveyed]) -> Constants:
    """The constants of these curves, but for the model's error."""
    alike = Counter((curve.machine, curve.workload) for curve in curves)
    weights = [1 / alike[curve.machine, curve.workload] for curve in curves]

    def miss(places: Array) -> float:
        errors = [np.abs(curve.at(places)[0] - curve.truth).mean() for curve in curves]
        return float(np.average(errors, weights=weights) + _RIDGE * (places**2).sum())

    count = curves[0].places.shape[1]
    starts = [np.zeros(count), *np.random.default_rng(1).uniform(-1, 1, (8, count))]
    found = [minimize(miss, start, method="Powell", bounds=[(-1, 1)] * count) for start in starts]
    instructions = _instructions([curve.slower for curve in curves], np.array(weights))
    return _constants(min(found, key=lambda one: float(one.fun)).x, instructions)


def _instructions(slower: Sequence[Array], weights: Array) -> Constant:
    """The middle of all curves, and the least range with which the machines' own hold them."""
    middle = _quantile(np.array([np.median(samples) for samples in slower]), weights, 0.5)
    ends = (1 - SAMPLED) / 2, (1 + SAMPLED) / 2
    for either_way in _RANGES:
        chance = np.random.default_rng(1).uniform(-1, 1, _SIMULATED) * np.log(either_way)
        off = [np.quantile(np.resize(samples, _SIMULATED) - middle - chance, ends) for samples in slower]
        if weights @ [low <= 0 <= high for low, high in off] >= SAMPLED * weights.sum():
            break
    return Constant(float(f"{np.exp(middle):.2g}"), float(f"{either_way:.2g}"))


def _quantile(values: Array, weights: Array, share: float) -> float:
    """The least value up to which lies that share of the weights.

    >>> _quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 0.5, 0.5]), 0.5)
    2.0
    """
    order = np.argsort(values)
    so_far = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][np.searchsorted(so_far, share - 1e-9)])


def least_error(inside: Callable[[float], float], share: float) -> float:
    """The least model's error with which so many of all points are inside; the largest tried if none does."""
    for error in _ERRORS:
        if inside(float(error)) >= share:
            break
    return round(float(error), 2)


def share_inside(curves: Sequence[tuple[Surveyed, Constants]], error: float) -> float:
    """The share of all points that lie in their intervals with that model's error."""
    inside = [_inside(curve, replace(of, model_error=error)) for curve, of in curves]
    return float(np.concatenate(inside).mean())


def predicted(curve: Surveyed, constants: Constants) -> tuple[Array, Array, Array]:
    """The interval's middle, low and high end with those constants: logarithms, by point.

    The samples are moved along the lines from where their constants were to where these are.
    """
    chance = np.random.default_rng(1)
    ranges = list(zip(_processors(constants), _processors(WIDE), strict=True))
    places = np.array([np.log(now.value / wide.value) / np.log(wide.either_way) for now, wide in ranges])
    narrow = np.array([np.log(now.either_way) / np.log(wide.either_way) for now, wide in ranges])
    at = places + narrow * chance.uniform(-1, 1, (_SIMULATED, len(places)))
    samples = curve.at(at) + curve.rest[chance.integers(len(curve.rest), size=_SIMULATED)]
    kept = np.exp(np.median(samples, axis=0)) / curve.more
    error = constants.model_error * share_of_error(kept)
    samples += np.outer(chance.standard_normal(_SIMULATED), error)
    low, middle, high = np.quantile(samples, [(1 - SAMPLED) / 2, 0.5, (1 + SAMPLED) / 2], axis=0)
    return middle, low, high


def _processors(constants: Constants) -> tuple[Constant, ...]:
    return constants.crossing, constants.contended, constants.kept_ns, constants.under_locks


def _constants(places: Array, instructions: Constant) -> Constants:
    at = [
        Constant(float(f"{of.at((1 + place) / 2):.2g}"), now.either_way, now.most)
        for of, now, place in zip(_processors(WIDE), _processors(FITTED), places, strict=True)
    ]
    return Constants(*at, instructions, model_error=0.0)


def _inside(curve: Surveyed, constants: Constants) -> NDArray[np.bool_]:
    _, low, high = predicted(curve, constants)
    return np.asarray((low <= curve.truth) & (curve.truth <= high))
