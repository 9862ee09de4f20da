"""The constants of a prediction that were fitted to published curves, and no others are.

`benchmarks/curves.py` scores them, each curve with constants fitted to other machines' curves. Like a
machine's figures they are ranges: where in it is not known, so predictions draw from all of it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Constant:
    """A range, and the value in its middle."""

    low: float
    value: float
    high: float

    def at(self, place: float) -> float:
        """The value at a place of the range, 0 to 1, on a logarithmic scale.

        >>> Constant(0.5, 1, 4).at(0.5), Constant(0.5, 1, 4).at(1)
        (1.0, 4.0)
        """
        if place < 0.5:
            return float(self.low * (self.value / self.low) ** (2 * place))
        return float(self.value * (self.high / self.value) ** (2 * place - 1))


CROSSING = Constant(0.1, 0.25, 0.6)
"""Of the transfers for which several CPUs wait, and which would cross between nodes if they were served in
the order in which they were asked for, the share that does. Processors serve those near the line first."""

CONTENDED = Constant(0.75, 0.95, 1.35)
"""What a transfer takes in kernel code, of what it takes between two cores that do nothing else."""

KEPT_NS = Constant(10, 25, 60)
"""For how long a core keeps a line that it has got, whoever else wants it: accesses that are near each other
are done before anybody else's."""

OVERLAPPED_NS = Constant(20, 40, 80)
"""How much of the time that a read waits for its line a core spends on other instructions, as it executes out
of order: some hundred instructions are in flight."""

UNDER_LOCKS = Constant(0.5, 1, 2)
"""What an instruction takes that a lock protects, of what the others take: its data were written by others,
and its code is short and hot."""
