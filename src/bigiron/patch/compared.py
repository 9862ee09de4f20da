"""What two kernels do differently in one workload, and what only chance does differently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from bigiron.analysis.comparison.model import Cells, CpusAndTasks, Measurements
from bigiron.analysis.probes import instructions as executed
from bigiron.judge import judgement
from bigiron.judge.change import CountChange
from bigiron.judge.counts import Setup
from bigiron.judge.differences import Differences
from bigiron.kernels import Kernel
from bigiron.patch.bench import COUNTS, CPUS, Bench, Subject
from bigiron.util.object_name import object_type

SCREEN = (1, 2), (1,)
"""The boots of the base and of the new kernel that are compared first. More boots only remove differences."""

ALL = (1, 2, 3, 4)
"""The boots of both kernels where the first ones differ."""

_BASE, _NEW = "base", "new"
_LEAST = 0.5  # instructions per operation of a changed function that are worth a word

ChangeKey = tuple[str, str, str]
"""What a change is of: its kind, the type of its object, and its instruction or unit."""


@dataclass(frozen=True)
class Compared:
    """The counts of two kernels in one workload, per operation."""

    subject: Subject
    changes: tuple[CountChange, ...] = ()  # beyond chance and relevant, most expensive first
    small: tuple[CountChange, ...] = ()  # beyond chance, but less than 1 % of an operation
    by_chance: tuple[CountChange, ...] = ()  # that the base differs in from itself, booted again
    instructions: tuple[float, float] = (0.0, 0.0)
    functions: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Self instructions of the functions that the patch changes, before and after, where they differ by more
    than chance."""
    boots: int = 1
    lost: tuple[str, ...] = ()  # counts that the recorder had no room for
    failed: str = ""

    @property
    def may_differ(self) -> bool:
        """Whether anything relevant seems to differ, by chance or not."""
        return any(change.is_relevant for change in (*self.changes, *self.by_chance))

    @property
    def worse(self) -> list[CountChange]:
        """The changes that make an operation longer."""
        return [change for change in self.changes if is_worse(change)]


def is_worse(change: CountChange) -> bool:
    """Whether it costs time, and is not only where objects lie."""
    return verdict(change) == "worse"


def verdict(change: CountChange) -> str:
    """What it does to an operation. Code that moved between functions makes it neither longer nor shorter."""
    if change.is_only_luck:
        return "by alignment"
    if change.cancels or not change.cost:
        return "as long"
    return "worse" if change.cost * change.lasting > 0 else "better"


def key(change: CountChange) -> ChangeKey:
    """What two changes are compared by. An object's offset in a cache line is chance, so its type counts."""
    if change.kind == "instructions":
        return change.kind, "", change.instruction
    return change.kind, object_type(change.object), "pair" if change.is_pair else change.unit


def keys(change: CountChange) -> frozenset[ChangeKey]:
    """The same, with those of the locks that instructions are executed under."""
    return frozenset(map(key, (change, *change.locks)))


def control(measured: Sequence[Measurements]) -> frozenset[ChangeKey]:
    """What differs between the first and the second half of the base's boots."""
    found = _differences([replace(one, points=_halves(one.points)) for one in measured])
    return frozenset().union(*map(keys, found.changes()))


def _halves(points: Mapping[CpusAndTasks, Cells]) -> dict[CpusAndTasks, Cells]:
    halves: dict[CpusAndTasks, Cells] = {}
    for point, cells in points.items():
        boots = cells[_BASE]
        half = len(boots) // 2
        halves[point] = {_BASE: boots[:half], _NEW: boots[half:]}
    return halves


def compare(
    bench: Bench,
    subject: Subject,
    before: Kernel,
    after: Kernel,
    boots: tuple[Sequence[int], Sequence[int]],
    changed: Iterable[str],
) -> Compared:
    """The counts of both kernels. What differs in the control is set aside.

    `changed`: the functions that the patch changes.
    """
    for kernel in (before, after):
        if why := bench.why_failed(subject, kernel):
            return Compared(subject, failed=f"{kernel.name}: {why}")
    variants = {_BASE: (before, boots[0]), _NEW: (after, boots[1])}
    measured = [one for probe in COUNTS if (one := bench.measurements(subject, probe, variants))]
    if len(measured) < len(COUNTS):
        return Compared(subject, failed="a cell is missing")
    found = _differences(measured)
    every = sorted(found.changes(), key=lambda change: -abs(change.cost))
    chance = control(measured) if every else frozenset()
    real = [change for change in every if not keys(change) & chance]
    return Compared(
        subject,
        tuple(change for change in real if change.is_relevant),
        tuple(change for change in real if not change.is_relevant),
        tuple(change for change in every if keys(change) & chance),
        (found.base.instructions, found.new.instructions),
        _functions(found, changed),
        len(boots[1]),
        tuple(bench.losses(subject, (before, after))),
    )


def _differences(measured: Sequence[Measurements]) -> Differences:
    """What was measured with `COUNTS`, compared."""
    lines, locks, instructions = measured
    return judgement.compare(lines, locks, instructions, Setup(_BASE, _NEW, CPUS, CPUS, CPUS, CPUS))


def _functions(found: Differences, changed: Iterable[str]) -> dict[str, tuple[float, float]]:
    """The mean self instructions of these functions, where they differ by more than boots do.

    Which functions to look at is known, so no share of a function's instructions counts as the same.
    """
    means = {}
    for name in dict.fromkeys(map(executed.same_function, changed)):
        boots = {of: tuple(one.get(name, 0.0) for one in found.counts.functions[of]) for of in (_BASE, _NEW)}
        if found.differ(boots, _LEAST, share=0.0):
            means[name] = fmean(boots[_BASE]), fmean(boots[_NEW])
    return means
