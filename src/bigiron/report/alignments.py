"""What is said of a count that depends on where a struct's objects begin in a cache line."""

from __future__ import annotations

from bigiron.analysis.layout.outcome import LayoutCounts
from bigiron.judge.change import CountChange
from bigiron.util.numbers import count


def range_of(counts: LayoutCounts) -> str:
    """The range of accesses over all places that objects can have."""
    return f"{count(counts.best)} to {count(counts.worst)}" if counts.varies else count(counts.worst)


def by_alignment(change: CountChange, struct: str) -> str:
    """Whether a change of the cache lines of `struct` depends on where its objects lie."""
    if not change.by_alignment:
        return ""
    if not any(counts.varies for counts in change.by_alignment):
        return f"the same wherever {struct} begins in a cache line"
    before, after = map(range_of, change.by_alignment)
    return f"all fields of {struct}, by where it begins in a cache line: {before} before, {after} after"
