"""How much of what changed is where objects happen to lie: one boot of each kernel records the layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bigiron.judge import alignments
from bigiron.kernels import Kernel
from bigiron.patch.bench import Bench, Wanted, variant_name
from bigiron.patch.compared import Compared

_MOST = 8  # workloads whose layouts are recorded: each takes seconds


def with_alignments(
    bench: Bench, compared: Sequence[Compared], before: Kernel, after: Kernel
) -> list[Compared]:
    """The counts, and of a struct's cache lines what each kernel counts at every alignment of its objects.

    In the workloads where they change most.
    """
    costs = {
        one.subject.title: max((abs(change.cost) for change in one.changes if change.struct), default=0.0)
        for one in compared
        if not one.subject.spec.runs_program
    }
    worst = sorted((title for title in costs if costs[title]), key=lambda title: -costs[title])[:_MOST]
    asked = {one.subject.title: one.subject.laid_out for one in compared if one.subject.title in worst}
    boots = [(before, [1]), (after, [1])]
    bench.measure([Wanted(subject, boots) for subject in asked.values()])
    names = variant_name(before), variant_name(after)

    def of(one: Compared) -> Compared:
        subject = asked.get(one.subject.title)
        if not subject or any(bench.why_failed(subject, kernel) for kernel in (before, after)):
            return one
        study = bench.study(subject)
        return replace(one, changes=tuple(alignments.counted(one.changes, study, *names)))

    return list(map(of, compared))
