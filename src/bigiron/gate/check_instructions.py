"""Comparing the instructions per operation with a baseline.

Only the total is checked, because kernels differ in the functions that they have and inline. The functions
show where more instructions are executed.
"""

from collections.abc import Mapping, Sequence

import msgspec

from bigiron.analysis.comparison.limits import LimitedCount, Tolerance
from bigiron.gate.check_lines import BaselineFunction, BaselineInstructions, compared
from bigiron.util.english import first_n

LEAST = 1.0
"""Instructions per operation that a function needs to be recorded, and additional ones to be named."""

_MOST_NAMED = 8

Counts = Mapping[str, float]
"""Self instructions per operation of each function, in one repetition."""


def known(repetitions: Sequence[Counts]) -> BaselineInstructions:
    """The total that a baseline records."""
    totals = [sum(counts.values()) for counts in repetitions]
    mean, most = round(sum(totals) / len(totals), 3), round(max(totals), 3)
    return BaselineInstructions(total=mean, most=most if most > mean + 0.001 else 0.0)


def functions(repetitions: Sequence[Counts]) -> list[BaselineFunction]:
    """The functions that a baseline records, by name."""
    names = sorted(set().union(*repetitions))
    means = {name: sum(counts.get(name, 0.0) for counts in repetitions) / len(repetitions) for name in names}
    return [
        BaselineFunction(function=name, instructions=round(means[name], 3))
        for name in names
        if means[name] > LEAST
    ]


def check(
    was: BaselineInstructions,
    recorded: Sequence[BaselineFunction],
    repetitions: Sequence[Counts],
    tolerance: Tolerance,
) -> LimitedCount:
    """Compare the total, and name the functions that execute more instructions than in the baseline."""
    totals = [sum(counts.values()) for counts in repetitions]
    own = tolerance.or_own(was.tolerance)
    before, allowed, after = compared(was.total, was.most, totals, own)
    by = grown(recorded, functions(repetitions))
    return LimitedCount("instructions", ("instructions",), (before,), (allowed,), (after,), by)


def grown(was: Sequence[BaselineFunction], now: Sequence[BaselineFunction]) -> str:
    """The functions that execute more instructions than before, largest increase first."""
    before = {one.function: one.instructions for one in was}
    more = {one.function: one.instructions - before.get(one.function, 0.0) for one in now}
    names = sorted((name for name in more if more[name] > LEAST), key=lambda name: -more[name])
    named = first_n([f"{name} +{more[name]:.3f}" for name in names], _MOST_NAMED)
    return f"more in {named}" if names else ""


def renewed(
    was: BaselineInstructions, now: BaselineInstructions, tolerance: Tolerance
) -> BaselineInstructions:
    """The baseline's total, replaced by the new one if they differ by more than the tolerance."""
    same = tolerance.or_own(was.tolerance).takes_for_same
    most = max(was.total, was.most), max(now.total, now.most)
    if same(was.total, now.total) and same(*most):
        return was
    return msgspec.structs.replace(now, tolerance=was.tolerance)
