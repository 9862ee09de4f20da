"""Holding an operation's work against a baseline: which way into the kernel takes more instructions now.

What is checked is a way, `openat` or `page fault`, with all that it leads to: which functions there are, and
which are inlined where, differs between kernels that do the same. The functions tell where more is done.
"""

from collections.abc import Mapping, Sequence

import msgspec

from bigiron.analysis.check import Finding, Tolerance, Work, worst_first

Counts = Mapping[str, float]
"""Instructions per operation, by name."""

_UNITS = ("instructions",)
LEAST = 1.0
"""Instructions per operation of a function that is recorded, and more of them of one that is named."""


def known(repetitions: Sequence[Counts], least: float) -> list[Work]:
    """What a baseline records, by name: all with more than the least."""
    return [
        _work(name, [counts.get(name, 0.0) for counts in repetitions])
        for name in sorted(set().union(*repetitions))
        if max(counts.get(name, 0.0) for counts in repetitions) > least
    ]


def _work(name: str, counts: list[float]) -> Work:
    mean, most = round(sum(counts) / len(counts), 3), round(max(counts), 3)
    return Work(name=name, instructions=mean, most=most if most > mean + 0.001 else 0.0)


def check(
    ways: Sequence[Work],
    functions: Sequence[Work],
    repetitions: Sequence[Counts],
    functions_now: Sequence[Counts],
    tolerance: Tolerance,
) -> list[Finding]:
    """Each way that the baseline or the repetitions have, the one with the largest increase first."""
    recorded = {work.name: work for work in ways}
    now = _fewest(repetitions)
    by = _grown(functions, _fewest(functions_now))
    return worst_first(
        _finding(name, recorded.get(name), now.get(name, 0.0), by, tolerance)
        for name in sorted(
            recorded.keys() | {name for name, count in now.items() if count > tolerance.absolute}
        )
    )


def _fewest(repetitions: Sequence[Counts]) -> dict[str, float]:
    names = set().union(*repetitions)
    return {name: min(counts.get(name, 0.0) for counts in repetitions) for name in names}


def _finding(way: str, recorded: Work | None, after: float, by: str, tolerance: Tolerance) -> Finding:
    name = f"work of {way}"
    if recorded is None:
        return Finding(name, _UNITS, None, (tolerance.allows(tolerance.absolute),), (after,), by)
    allowed = tolerance.or_own(recorded.tolerance).allows(max(recorded.instructions, recorded.most))
    return Finding(name, _UNITS, (recorded.instructions,), (allowed,), (after,), by)


def _grown(functions: Sequence[Work], now: Counts) -> str:
    """The functions that execute more than they did, most first."""
    before = {work.name: work.instructions for work in functions}
    more = {name: count - before.get(name, 0.0) for name, count in now.items()}
    grown = sorted((name for name in more if more[name] >= LEAST), key=lambda name: -more[name])
    return (
        f"more own instructions in {', '.join(f'{name} +{more[name]:.3f}' for name in grown)}"
        if grown
        else ""
    )


def kept(old: Sequence[Work], new: Sequence[Work], tolerance: Tolerance) -> list[Work]:
    """A baseline's work, renewed: what differs by no more than the tolerance stays as it is."""
    was = {work.name: work for work in old}
    return [
        _renewed(was[work.name], work, tolerance) if work.name in was else work
        for work in sorted(new, key=lambda work: work.name)
    ]


def _renewed(was: Work, now: Work, tolerance: Tolerance) -> Work:
    same = tolerance.or_own(was.tolerance).takes_for_same
    most = max(was.instructions, was.most), max(now.instructions, now.most)
    if same(was.instructions, now.instructions) and same(*most):
        return was
    return msgspec.structs.replace(now, tolerance=was.tolerance)
