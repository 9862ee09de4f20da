"""How much of what changed is where objects happen to lie: one boot of each kernel records the layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bigiron.judge import alignments
from bigiron.kernels import Kernel
from bigiron.patch.bench import Bench, Wanted, variant_name
from bigiron.patch.compared import Compared


def with_alignments(
    bench: Bench, compared: Sequence[Compared], before: Kernel, after: Kernel
) -> list[Compared]:
    """The counts, and of a struct's cache lines what each kernel counts at every alignment of its objects.

    In all workloads where they change: one that is left out would be worse by luck alone.
    """
    asked = {
        one.subject.title: one.subject.laid_out
        for one in compared
        if not one.subject.spec.runs_program and any(change.struct for change in one.changes)
    }
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
