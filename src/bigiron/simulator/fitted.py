"""The constants of a prediction that are fitted to published curves: these six, and no others.

`benchmarks/predictions/curves.py --fit` fits the first five, and scores each curve with those fitted without
its machine. The first four are of processors in general, and like a machine's figures they can be ranges, as
they differ between processors and between kernels; how wide the ranges are is not fitted. The fifth is what
machine files are off by where no rate of a task is known, with a range that holds those of other machines.
The last is what the model is off by: as much as holds 85 % of the points of curves that the others were not
fitted to (`--calibrate`). The curves that they were fitted to would give 0.1, which held 72 %.
"""

from __future__ import annotations

from dataclasses import dataclass

from bigiron.util.lazy import Floats
from bigiron.util.lazy import numpy as np


@dataclass(frozen=True)
class Constant:
    """A fitted value, and the factor by which it may be larger or smaller."""

    value: float
    either_way: float
    most: float = float("inf")

    def at(self, place: float) -> float:
        """The value at a quantile of the range, 0 to 1, on a logarithmic scale.

        >>> Constant(1, 4).at(0), Constant(1, 4).at(0.5), Constant(1, 4, most=2).at(1)
        (0.25, 1.0, 2)
        """
        return min(self.most, float(self.value * self.either_way ** (2 * place - 1)))


@dataclass(frozen=True)
class Constants:
    """All fitted constants."""

    crossing: Constant
    """Where CPUs of several nodes wait for a line, the share of its transfers that cross between nodes,
    however many wait in which: processors serve some of one node before they serve another's. Where fewer
    wait than that, it crosses after as many as there are."""

    contended: Constant
    """What a transfer takes in kernel code, of what it takes between two cores that do nothing else."""

    kept_ns: Constant
    """How long a core keeps a cache line although others request it: accesses that are near each
    other are done before anybody else's."""

    under_locks: Constant
    """What an instruction takes that a lock protects, of what the others take: its data were written by
    others, and its code is short and hot."""

    instructions: Constant
    """How long instructions and entries into the kernel take, of what the machine's file says, where no rate
    of a task is known. A workload's instructions per cycle are in no count: published rates of one task are
    from half to twice of what the files say."""

    model_error: float
    """The standard deviation of the logarithm of throughput around what is predicted, where contention takes
    nearly all: no range of a machine holds what the recording and the replay leave out."""


def share_of_error(kept: Floats) -> Floats:
    """The share of the model's error that applies where tasks keep this share of their time, or rate.

    As soon as tasks disturb each other most of it is there: of where they begin to, too, little is known.

    >>> share_of_error(np.array([1.0, 15 / 16, 0.0]))
    array([0. , 0.5, 1. ])
    """
    return (1 - np.clip(kept, 0, 1)) ** 0.25


FITTED = Constants(
    crossing=Constant(0.25, 2.5, most=0.99),
    contended=Constant(1.0, 1),
    kept_ns=Constant(20, 2),
    under_locks=Constant(1.5, 1.6),
    instructions=Constant(0.8, 1.6),
    model_error=0.26,
)
