"""How what changed goes on: its growth with the CPUs, and the throughput of large machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bigiron.analysis.statistics.estimate import Estimate
from bigiron.errors import UserError
from bigiron.history.predict import MACHINES
from bigiron.judge.change import CountChange
from bigiron.kernels import Kernel
from bigiron.patch.bench import CPUS, Bench, Subject, Wanted
from bigiron.patch.compared import ChangeKey, Compared, keys, verdict
from bigiron.results import growth, prediction
from bigiron.results.prediction import NothingPredictedError
from bigiron.util.object_name import object_type
from bigiron.util.threads import StoppableThreads, result

AT = 512
"""The CPUs that counts are extrapolated to."""

TASKS = 256
_SAMPLES = 16
_TURNS = "on average over alignments, a count changes in the other direction"
_PROBE = {"coherence": "conflicts", "locks": "locks", "instructions": "instructions"}


@dataclass(frozen=True)
class Grown:
    """How a changed count grows, in the workload where it changed most."""

    change: CountChange
    subject: Subject
    law: str  # empty: none fits
    formula: str
    at: Estimate | None  # with `AT` CPUs


@dataclass(frozen=True)
class PredictedEffect:
    """How the throughput of a workload is predicted to change on a machine."""

    subject: Subject
    machine: str
    tasks: int
    change: Estimate | None
    why_not: str = ""


def most_changed(compared: Sequence[Compared]) -> list[tuple[Compared, CountChange]]:
    """Of each kind and object what became worse most and better most, with the workload; worst first.

    Most is the largest share of an operation. What is worse in one workload may be better in another.
    """
    found: dict[tuple[frozenset[ChangeKey], str], tuple[Compared, CountChange]] = {}
    for one in compared:
        for change in one.changes:
            group = group_of(change)
            there = found.get(group)
            if not there or _size(change) > _size(there[1]):
                found[group] = one, change
    return sorted(found.values(), key=lambda item: _rank(item[1]))


def _rank(change: CountChange) -> tuple[bool, float]:
    return change.is_only_luck, -abs(change.share * change.lasting)


def _size(change: CountChange) -> tuple[float, float]:
    return abs(change.share), abs(change.after - change.before)


def group_of(change: CountChange) -> tuple[frozenset[ChangeKey], str]:
    """What changes are of one kind and object, and do the same to an operation."""
    return keys(change), verdict(change)


def grown(
    bench: Bench,
    changed: Sequence[tuple[Compared, CountChange]],
    before: Kernel,
    after: Kernel,
    cpus: Sequence[int],
) -> list[Grown]:
    """The growth of each change, from one boot at each other number of CPUs.

    That of the kernel with more is shown. Throughput is predicted in the first change's workload, for both.
    """
    others = sorted({*cpus} - {CPUS})
    if not others:
        return []
    wanted: dict[str, tuple[Subject, set[bool]]] = {}
    for number, (one, change) in enumerate(changed):
        are_new = wanted.setdefault(one.subject.title, (one.subject, set()))[1]
        are_new |= {False, True} if number == 0 else {change.after >= change.before}
    bench.measure(
        [
            Wanted(subject, [((before, after)[is_new], [1]) for is_new in sorted(are_new)], others)
            for subject, are_new in wanted.values()
        ]
    )
    fitted = (_growth(bench, one.subject, change, before, after) for one, change in changed)
    return [one for one in fitted if one]


def _growth(
    bench: Bench, subject: Subject, change: CountChange, before: Kernel, after: Kernel
) -> Grown | None:
    """None: too few numbers of CPUs were counted, or it is of writes or some instructions: no series.

    Nor is what changes in the other direction on average over the objects' places extrapolated.
    """
    kernel = after if change.after >= change.before else before
    if change.instruction or change.locks or change.elsewhere or change.unit == "writes":
        return None
    if change.lasting < 0:
        return None
    try:
        study = bench.alone(subject, [kernel])
        (table,) = growth.growth_study(study, at=AT, probe=_PROBE[change.kind]).tables
    except (UserError, ValueError):
        return None
    row = table.total if change.kind == "instructions" else _row(table.rows, change.object)
    if row is None:
        return None
    if not row.growth.law:
        return Grown(change, subject, "", "", None)
    return Grown(change, subject, row.growth.law.value, row.growth.best.formula, row.prediction)


def _row(rows: Sequence[growth.GrowthRow], object: str) -> growth.GrowthRow | None:
    """The series of an object; else the largest one of its type, as its place in a cache line is chance."""
    same = [one for one in rows if one.series.name == object]
    of_type = [one for one in rows if object_type(one.series.name) == object_type(object)]
    return max(same or of_type, key=lambda one: one.most, default=None)


def effects(bench: Bench, one: Compared, before: Kernel, after: Kernel) -> list[PredictedEffect]:
    """The predicted change of throughput on each machine, or why there is none."""
    subject = one.subject
    if any(change.lasting < 0 for change in one.changes):
        return [PredictedEffect(subject, machine, TASKS, None, _TURNS) for machine in MACHINES]
    with StoppableThreads() as threads:
        predicted = [threads.submit(_effect, bench, subject, machine, before, after) for machine in MACHINES]
        return [result(one) for one in predicted]


def _effect(bench: Bench, subject: Subject, machine: str, before: Kernel, after: Kernel) -> PredictedEffect:
    try:
        study = bench.alone(subject, [before, after])
        found = prediction.predict(study, machine, [TASKS], samples=_SAMPLES)
    except NothingPredictedError as error:
        return PredictedEffect(subject, machine, TASKS, None, error.why)
    except UserError as error:
        return PredictedEffect(subject, machine, TASKS, None, str(error))
    if not found.ratios:
        why = "; ".join(f"{one.variant}: {one.why}" for one in found.refused)
        return PredictedEffect(subject, machine, TASKS, None, why)
    ratio = found.ratios[0].points[TASKS]
    return PredictedEffect(subject, machine, TASKS, ratio.changed(lambda share: share - 1))
