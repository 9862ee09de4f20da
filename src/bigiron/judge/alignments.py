"""How much of a change in a struct's cache lines is where its objects happen to lie."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bigiron.analysis.layout.outcome import LayoutCounts
from bigiron.judge.change import CountChange
from bigiron.results import layout
from bigiron.study.store import Study


def structs(changes: Iterable[CountChange]) -> list[str]:
    """Structs of the cache lines that changed: where their objects begin in a cache line may decide."""
    return list(dict.fromkeys(change.struct for change in changes if change.struct))


def counted(changes: Iterable[CountChange], study: Study, base: str, new: str) -> list[CountChange]:
    """The changes with what each kernel would count wherever allocators can put the objects.

    `study` has the probe layout of both variants.
    """
    changes = list(changes)
    before, after = (
        layout.of_boots(layout.boots(study, name), study, structs(changes)) for name in (base, new)
    )

    def of(change: CountChange) -> CountChange:
        if change.struct not in before.keys() & after.keys() or change.unit == "writes":
            return change  # by alignment there are accesses
        old, now = (
            LayoutCounts.mean([one.pairs if change.is_pair else one.lines for one in boots])
            for boots in (before[change.struct], after[change.struct])
        )
        return replace(change, by_alignment=(old, now))

    return list(map(of, changes))
