"""The model's error, from curves that nothing was fitted to: `benchmarks/predictions/curves.py --calibrate`.

Each curve is replayed with the constants that bigiron comes with, and no error of the model. The error is the
least with which the intervals hold as many of all points as they should. Whether it holds elsewhere, too, is
seen where the points of one vendor, or of one machine, are not looked at when it is chosen. All other
constants stay as they are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from curve_scores import vendor
from fitting import least_error
from numpy.typing import NDArray
from scipy.special import ndtri

from bigiron.analysis.statistics.estimate import SAMPLED
from bigiron.simulator.fitted import share_of_error

WANTED = 0.85  # of all points, in their intervals
_PLACES = ndtri((np.arange(200) + 0.5) / 200)  # of the model's error, each as likely

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sampled:
    """A curve, and its replays without an error of the model."""

    curve: str
    machine: str
    fitted: bool  # whether constants were fitted to it
    truth: Array  # logarithm of throughput relative to the first point, by point
    replayed: Array  # the same of each sample: a row a sample
    kept: Array  # of the tasks' time for instructions, of that at the first point, by point

    def interval(self, error: float) -> tuple[Array, Array]:
        """Its low and high end with that error: logarithms, by point."""
        off = np.outer(_PLACES, error * share_of_error(self.kept))
        samples = (self.replayed[:, np.newaxis] + off).reshape(-1, len(self.truth))
        low, high = np.quantile(samples, [(1 - SAMPLED) / 2, (1 + SAMPLED) / 2], axis=0)
        return low, high


@dataclass(frozen=True)
class Held:
    """How many points lie in their intervals."""

    inside: int
    points: int
    width: float  # median of high to low

    @property
    def share(self) -> float:
        """Of all points."""
        return self.inside / self.points


def held(curves: Sequence[Sampled], error: float) -> Held:
    """The points of these curves with that error."""
    parts = [(one.truth, *one.interval(error)) for one in curves]
    truth, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
    inside = int(((low <= truth) & (truth <= high)).sum())
    return Held(inside, len(truth), float(np.median(np.exp(high - low))))


def table(curves: Sequence[Sampled], now: float) -> Iterator[str]:
    """Lines of Markdown: with all curves, and without each vendor's and each machine's."""
    unfitted = [one for one in curves if not one.fitted]
    if not unfitted:
        yield "no curve that nothing was fitted to"
        return
    yield "| left out | model's error by the others | points inside | median width | with all curves' error |"
    yield "|---|--:|--:|--:|--:|"
    of_all = _calibrated(unfitted)
    yield f"| none | {of_all:g} | {_cell(held(unfitted, of_all))} | |"
    ways: tuple[Callable[[Sampled], str], ...] = (lambda one: vendor(one.machine), lambda one: one.machine)
    for group in ways:
        names = sorted({group(one) for one in unfitted})
        for name in names if len(names) > 1 else ():
            own = [one for one in unfitted if group(one) == name]
            error = _calibrated([one for one in unfitted if group(one) != name])
            share = held(own, of_all)
            yield f"| {name} | {error:g} | {_cell(held(own, error))} | {share.share:.0%} |"
    yield "\n| with the model's error | curves that nothing was fitted to | width | fitted curves | width |"
    yield "|--:|--:|--:|--:|--:|"
    for error in sorted({0.0, now, of_all}):
        cells = [
            _cell(held(some, error)) for some in (unfitted, [one for one in curves if one.fitted]) if some
        ]
        yield f"| {error:g} | {' | '.join(cells)} |"


def _calibrated(curves: Sequence[Sampled]) -> float:
    """The least model's error with which as many points of these curves are inside as should be."""
    return least_error(lambda error: held(curves, error).share, WANTED)


def _cell(of: Held) -> str:
    return f"{of.share:.0%} of {of.points} | {of.width:.2f}"
