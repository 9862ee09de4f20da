"""Bisecting a noisy value: the probability that each candidate is the culprit, and that there is none.

A run yields a value, not a verdict, and is weighted by what it reveals about the candidate's side. Values
are compared as logarithms, so that a change is a ratio. If candidate k is the culprit, runs of candidates
that contain k are Normal(m + d, s), others Normal(m, s); without a culprit, all runs are Normal(m, s). The
unknowns are integrated out: m with a flat prior, in closed form (Gelman et al., Bayesian Data Analysis, 3rd
edition, 3.2); s and d over log-uniform grids, with d of either sign and not below the tolerance. Half of
the prior is on "no culprit", because many reports have none.

The next run is at the candidate that halves the probability (Horstein, Sequential Transmission Using
Noiseless Feedback, IEEE Transactions on Information Theory 9, 1963; Waeber, Frazier and Henderson,
Bisection Search with Noisy Responses, SIAM Journal on Control and Optimization 51, 2013), or at the end
with fewer runs, because all other runs are compared with the ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bigiron.analysis.statistics.verdict import TOLERANCE
from bigiron.bisect.bisection import CandidateGraph
from bigiron.util.lazy import numpy as np

CONFIDENT = 0.95
"""The probability of a hypothesis at which the search ends."""

MOST_CANDIDATES = 4096  # rows and columns of the containment matrix

_NONE = 0.5  # prior probability of no culprit
_FIRST = 3  # runs of each end before other runs
_CHANGES = 32  # grid points in either direction
_LARGEST = 1.5  # change as a logarithm: a factor of 4.5
_SPREADS = 24
_SMALLEST_SPREAD, _LARGEST_SPREAD = 0.001, 0.5


@dataclass(frozen=True)
class Chances:
    """The probabilities after the runs so far."""

    none: float  # that there is no culprit
    culprit: Mapping[str, float]
    change: float
    """If there is a culprit: the mean of the runs that contain it, divided by the mean of the others."""

    @property
    def likeliest(self) -> str | None:
        """The likeliest culprit, if it is likelier than no culprit."""
        name = max(self.culprit, key=lambda name: self.culprit[name])
        return name if self.culprit[name] > self.none else None

    @property
    def decided(self) -> bool:
        """Whether the probability of a hypothesis has reached `CONFIDENT`."""
        return max(self.none, *self.culprit.values()) >= CONFIDENT

    @property
    def credible(self) -> list[str]:
        """The smallest set of candidates that reaches `CONFIDENT`, given a culprit; likeliest first."""
        total, found = 0.0, []
        for name in sorted(self.culprit, key=lambda name: -self.culprit[name]):
            found.append(name)
            total += self.culprit[name]
            if total >= CONFIDENT * (1 - self.none):
                break
        return found


class TimedSearch:
    """A search among candidates with noisy values, to which runs are added one after the other."""

    def __init__(self, history: CandidateGraph, old: str, new: str, tolerance: float = TOLERANCE) -> None:
        """`tolerance`: the relative change up to which values count as the same."""
        self._old, self._new = old, new
        self._names = list(history.members(history.ancestors(new)))
        rows = [history.ancestors(name) for name in self._names]
        bits = [history.mask([name]) for name in self._names]
        # Row c, column k: whether candidate c contains k.
        self._contains = np.array([[bool(row & bit) for bit in bits] for row in rows])
        self._row = {name: number for number, name in enumerate(self._names)}
        sizes = np.geomspace(math.log1p(tolerance), _LARGEST, _CHANGES)
        self._changes = np.concatenate([-sizes[::-1], sizes])
        self._spreads = np.geomspace(_SMALLEST_SPREAD, _LARGEST_SPREAD, _SPREADS)
        self._logs: dict[str, list[float]] = {}
        self._chances: Chances | None = None
        self._usable = np.ones(len(self._names), bool)

    def skip(self, name: str) -> None:
        """Mark a candidate that cannot be measured."""
        self._usable[self._row[name]] = False

    def add(self, name: str, value: float) -> None:
        """Add the value of a run, which is greater than zero."""
        self._logs.setdefault(name, []).append(math.log(value))
        self._chances = None

    def runs(self, name: str) -> int:
        """The number of runs of a candidate."""
        return len(self._logs.get(name, ()))

    @property
    def ready(self) -> bool:
        """Whether there are enough runs for `chances`."""
        return min(self.runs(self._old), self.runs(self._new)) >= _FIRST

    def next(self) -> str:
        """The candidate to run next."""
        ends = sorted((self._old, self._new), key=self.runs)
        inner = max((self.runs(name) for name in self._logs if name not in ends), default=0)
        if not self.ready or self.runs(ends[0]) <= inner:
            return ends[0]
        given = np.array(list(self.chances.culprit.values()))
        before = self._contains @ (given / given.sum())
        from_middle = np.where(self._usable, np.abs(before - 0.5), np.inf)
        choice = self._names[int(np.argmin(from_middle))]
        # If the last candidate is the likeliest, the open question is whether the ends differ.
        return ends[0] if choice == self._new else choice

    @property
    def chances(self) -> Chances:
        """The probabilities of all hypotheses, by Bayes' rule."""
        if self._chances is None:
            self._chances = self._by_bayes()
        return self._chances

    def _by_bayes(self) -> Chances:
        counts = np.array([len(logs) for logs in self._logs.values()])
        sums = np.array([sum(logs) for logs in self._logs.values()])
        every = np.array([value for logs in self._logs.values() for value in logs])
        number, mean = len(every), every.mean()
        spread = float(((every - mean) ** 2).sum())
        none = float(_log_sum(self._likelihood(number, np.array(spread))))
        kinds, which = self._kinds()
        inside = kinds @ counts
        covariance = kinds @ sums - inside * mean
        variance = inside - inside**2 / number
        change = self._changes[:, None]
        likelihood = self._likelihood(number, spread - 2 * change * covariance + change**2 * variance)
        of_kind = _log_sum(likelihood.reshape(-1, len(kinds))) - math.log(len(self._changes))
        prior = math.log((1 - _NONE) / len(self._names))
        logs = np.concatenate([[none + math.log(_NONE)], of_kind[which] + prior])
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        # Computed from the runs, not the likeliest grid point, because the grid is bounded.
        has = kinds[int(np.argmax(of_kind))]
        return Chances(
            float(weights[0]),
            dict(zip(self._names, weights[1:].tolist(), strict=True)),
            math.exp(sums[has].sum() / counts[has].sum() - sums[~has].sum() / counts[~has].sum()),
        )

    def _kinds(self) -> tuple[np.ndarray, np.ndarray]:
        """The kinds of candidates, and the kind of each candidate.

        Candidates that are contained in the same runs cannot be distinguished, and are of one kind. A kind is
        the set of the measured candidates that contain it.
        """
        nowhere = np.zeros(len(self._names), bool)
        columns = np.array(
            [self._contains[self._row[name]] if name in self._row else nowhere for name in self._logs]
        )
        packed = np.ascontiguousarray(np.packbits(columns, axis=0).T)
        _, first, which = np.unique(
            packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True
        )
        return columns.T[first], which.ravel()

    def _likelihood(self, number: int, squares: np.ndarray) -> np.ndarray:
        """The log-likelihood of the runs for each spread, with the mean integrated out."""
        spreads = self._spreads.reshape(-1, *[1] * squares.ndim)
        found: np.ndarray = -(number - 1) * np.log(spreads) - squares / (2 * spreads**2)
        return found


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """The logarithm of the sum over the first axis."""
    most = logs.max(axis=0)
    found: np.ndarray = most + np.log(np.exp(logs - most).sum(axis=0))
    return found
