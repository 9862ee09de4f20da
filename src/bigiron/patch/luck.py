"""How much of what changed is where objects happen to lie: boots of each kernel record the layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bigiron.analysis.statistics.spread import MOST_BOOTS
from bigiron.judge import alignments
from bigiron.judge.change import CountChange
from bigiron.kernels import Kernel
from bigiron.patch.bench import Bench, Wanted, variant_name
from bigiron.patch.compared import Compared


def with_alignments(
    bench: Bench, compared: Sequence[Compared], before: Kernel, after: Kernel
) -> list[Compared]:
    """The counts, and of a struct's cache lines what each kernel counts at every alignment of its objects.

    In all workloads where they change: one that is left out would be worse by luck alone. One boot of each
    kernel records them. Where the places decide, and their averages differ, more boots tell whether this is
    chance.
    """
    once = _counted(bench, compared, before, after, [1])
    unsure = {one.subject.title for one in once if any(map(_is_unsure, one.changes))}
    again = _counted(
        bench, [one for one in once if one.subject.title in unsure], before, after, range(1, MOST_BOOTS + 1)
    )
    sure = {one.subject.title: one for one in again}
    return [sure.get(one.subject.title, one) for one in once]


def _is_unsure(change: CountChange) -> bool:
    return change.is_luck and not change.is_only_luck


def _counted(
    bench: Bench, compared: Sequence[Compared], before: Kernel, after: Kernel, boots: Sequence[int]
) -> list[Compared]:
    asked = {
        one.subject.title: one.subject.laid_out
        for one in compared
        if not one.subject.spec.runs_program and any(change.struct for change in one.changes)
    }
    both = [(before, boots), (after, boots)]
    bench.measure([Wanted(subject, both) for subject in asked.values()])
    names = variant_name(before), variant_name(after)

    def of(one: Compared) -> Compared:
        subject = asked.get(one.subject.title)
        if not subject or not all(bench.has_run(subject, kernel) for kernel in (before, after)):
            return one
        study = bench.study(subject)
        return replace(one, changes=tuple(alignments.counted(one.changes, study, *names)))

    return list(map(of, compared))
