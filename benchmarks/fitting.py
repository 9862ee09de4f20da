"""The constants of `bigiron.simulator.fitted`, fitted to published curves.

Each curve is replayed once with the constants drawn from wide ranges. How the logarithm of throughput goes with
the logarithm of each constant is a straight line's slope, point by point; with those, any constants are tried in
no time (in the last but one, a parabola's). The four of processors are those whose median prediction is nearest: the mean absolute error of the
logarithm, every curve counting the same. The model's own error is the least with which the intervals hold as many
of the points as they should.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bigiron.analysis.prediction import CONFIDENCE
from bigiron.simulator.fitted import FITTED, Constant, Constants

WIDE = Constants(
    crossing=Constant(0.32, 3.2, most=0.99),
    contended=Constant(1.0, 2),
    kept_ns=Constant(25, 3),
    under_locks=Constant(0.9, 2.2),
    model_error=0.0,
)
CONTENDED, UNDER_LOCKS = 1, 3  # their places among the constants

_RIDGE = 0.02  # what keeps a constant that no curve tells of where it is
_SIMULATED = 400
_ERRORS = np.arange(0.0, 1.0, 0.02)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Surveyed:
    """A curve, and its replays with constants from wide ranges."""

    curve: str
    machine: str
    truth: Array  # logarithm of throughput relative to the first point, by point
    replayed: Array  # the same of each draw: a row a draw
    places: Array  # where in its range each constant was, -1 to 1: a row a draw

    def at(self, places: Array) -> Array:
        """What is replayed with those constants, a row each: the middle of all machines."""
        return self._design(places) @ self._coefficients

    @cached_property
    def rest(self) -> Array:
        """What else there is in each draw: the machine's ranges, and chance."""
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
    """The constants of these curves."""

    def miss(places: Array) -> float:
        errors = [np.abs(curve.at(places)[0] - curve.truth).mean() for curve in curves]
        return float(np.mean(errors) + _RIDGE * (places**2).sum())

    count = curves[0].places.shape[1]
    starts = [np.zeros(count), *np.random.default_rng(1).uniform(-1, 1, (8, count))]
    found = [minimize(miss, start, method="Powell", bounds=[(-1, 1)] * count) for start in starts]
    places = min(found, key=lambda one: float(one.fun)).x
    return _constants(places, _model_error(curves, places))


def _constants(places: Array, model_error: float) -> Constants:
    wide = (WIDE.crossing, WIDE.contended, WIDE.kept_ns, WIDE.under_locks)
    now = (FITTED.crossing, FITTED.contended, FITTED.kept_ns, FITTED.under_locks)
    at = [
        Constant(round(of.at((1 + place) / 2), 3), kept.either_way, kept.most)
        for of, kept, place in zip(wide, now, places, strict=True)
    ]
    return Constants(*at, model_error=round(model_error, 3))


def _model_error(curves: Sequence[Surveyed], places: Array) -> float:
    """The least with which the intervals hold what they should of the curves' points."""
    chance = np.random.default_rng(1)
    for error in _ERRORS:
        inside = np.concatenate([_inside(curve, places, float(error), chance) for curve in curves])
        if inside.mean() >= CONFIDENCE:
            return float(error)
    return float(_ERRORS[-1])


def _inside(curve: Surveyed, places: Array, error: float, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Which points lie in the interval with those constants, each in its range as it is predicted."""
    pairs = [
        (FITTED.crossing, WIDE.crossing),
        (FITTED.contended, WIDE.contended),
        (FITTED.kept_ns, WIDE.kept_ns),
        (FITTED.under_locks, WIDE.under_locks),
    ]
    narrow = np.array([np.log(now.either_way) / np.log(wide.either_way) for now, wide in pairs])
    at = places + narrow * chance.uniform(-1, 1, (_SIMULATED, len(places)))
    longer = error * chance.standard_normal(_SIMULATED)
    for constant in (CONTENDED, UNDER_LOCKS):
        at[:, constant] += longer / np.log(pairs[constant][1].either_way)
    draws = curve.at(at) + curve.rest[chance.integers(len(curve.rest), size=_SIMULATED)]
    low, high = np.quantile(draws, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return np.asarray((low <= curve.truth) & (curve.truth <= high))
