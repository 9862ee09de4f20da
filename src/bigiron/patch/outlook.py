"""How what changed goes on: its growth with the CPUs, and the throughput of large machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bigiron.analysis.statistics.estimate import Estimate
from bigiron.errors import UserError
from bigiron.history.predict import MACHINES
from bigiron.judge.change import Change
from bigiron.kernels import Kernel
from bigiron.patch.bench import CPUS, Bench, Subject, Wanted
from bigiron.patch.compared import Compared, Key, key
from bigiron.results import growth, prediction
from bigiron.util.object_name import object_type

AT = 512
"""The CPUs that counts are extrapolated to."""

TASKS = 256
_SAMPLES = 16
_PROBE = {"coherence": "conflicts", "locks": "locks", "instructions": "instructions"}


@dataclass(frozen=True)
class Grown:
    """How a changed count grows, in the workload where it changed most."""

    of: Key
    subject: Subject
    law: str  # empty: none fits
    formula: str
    at: Estimate | None  # with `AT` CPUs


@dataclass(frozen=True)
class Effect:
    """How the throughput of a workload is predicted to change on a machine."""

    subject: Subject
    machine: str
    tasks: int
    change: Estimate | None
    why_not: str = ""


def most_changed(compared: Sequence[Compared]) -> dict[Key, tuple[Compared, Change]]:
    """By what changed: the workload in which it changed most, most expensive first."""
    found: dict[Key, tuple[Compared, Change]] = {}
    for one in compared:
        for change in one.changes:
            there = found.get(key(change))
            if not there or abs(change.after - change.before) > abs(there[1].after - there[1].before):
                found[key(change)] = one, change
    return dict(sorted(found.items(), key=lambda item: -abs(item[1][1].cost)))


def grown(
    bench: Bench,
    changed: Sequence[tuple[Compared, Change]],
    before: Kernel,
    after: Kernel,
    cpus: Sequence[int],
) -> list[Grown]:
    """The growth of each change, from one boot of both kernels at each other number of CPUs."""
    others = sorted({*cpus} - {CPUS})
    subjects = {one.subject.title: one.subject for one, _ in changed}
    bench.measure([Wanted(subject, [before, after], [1], others) for subject in subjects.values() if others])
    return [_growth(bench, one.subject, change, before, after) for one, change in changed]


def _growth(bench: Bench, subject: Subject, change: Change, before: Kernel, after: Kernel) -> Grown:
    kernel = after if change.after >= change.before else before
    try:
        study = bench.alone(subject, [kernel])
        (table,) = growth.growth_study(study, at=AT, probe=_PROBE[change.kind]).tables
    except (UserError, ValueError):
        return Grown(key(change), subject, "", "", None)
    named = [one for one in table.rows if object_type(one.series.name) == object_type(change.object)]
    row = table.total if change.kind == "instructions" else max(named, key=lambda one: one.most, default=None)
    if row is None or not row.growth.law:
        return Grown(key(change), subject, "", "", None)
    return Grown(key(change), subject, row.growth.law.value, row.growth.best.formula, row.prediction)


def effects(bench: Bench, subject: Subject, before: Kernel, after: Kernel) -> list[Effect]:
    """The predicted change of throughput on each machine, or why there is none."""
    return [_effect(bench, subject, machine, before, after) for machine in MACHINES]


def _effect(bench: Bench, subject: Subject, machine: str, before: Kernel, after: Kernel) -> Effect:
    try:
        study = bench.alone(subject, [before, after])
        found = prediction.predict(study, machine, [TASKS], samples=_SAMPLES)
    except UserError as error:
        return Effect(subject, machine, TASKS, None, str(error))
    if not found.ratios:
        why = "; ".join(f"{one.variant}: {one.why}" for one in found.refused)
        return Effect(subject, machine, TASKS, None, why)
    ratio = found.ratios[0].points[TASKS]
    return Effect(subject, machine, TASKS, ratio.changed(lambda share: share - 1))
