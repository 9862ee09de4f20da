"""Compares counts that were recorded with stacks, by function or by call chain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from bigiron.analysis.comparison import profiles
from bigiron.analysis.comparison.model import (
    ComparedPoint,
    ComparedRow,
    ComparedVariants,
    Comparison,
    CpusAndTasks,
    Item,
    Measure,
    Options,
)
from bigiron.analysis.comparison.profiles import ComparedFigure, Weights
from bigiron.util.numbers import count

StackGrouping: TypeAlias = Literal["function", "chain"]
_MOST = {"function": 40, "chain": 15}
_HOW = {"function": "by function, with all that it called", "chain": "by call chain"}
_LEAST = 0.0005  # of a figure, in any variant: what shows in three decimals


@dataclass(frozen=True)
class StackCounts:
    """The counts of a probe that were recorded with stacks."""

    study: str
    workload: str
    probe: str
    what: str  # that is counted, per operation
    unit: str
    notes: tuple[str, ...]
    points: Mapping[CpusAndTasks, Mapping[str, Sequence[Weights]]]
    """By CPUs and tasks, then by variant, one of each repetition."""
    lost: Mapping[CpusAndTasks, tuple[str, ...]]
    """What was lost on the way at each of them, in sentences."""
    machine_differences: Mapping[CpusAndTasks, str]
    """How the machines of the variants differ there, where they do."""


def compare(stacks: StackCounts, by: StackGrouping, options: Options) -> Comparison:
    """Compare the stacks of a study's variants at each number of CPUs and tasks."""
    return Comparison(
        about={
            "study": stacks.study,
            "workload": stacks.workload,
            "probe": stacks.probe,
            "by": by,
            "contexts": options.contexts,
        },
        points=tuple(
            _point(options.place(cpus, tasks, weighed), weighed, stacks, by, options)
            for (cpus, tasks), weighed in stacks.points.items()
        ),
        columns=("cpus", "tasks", by, "variant", "mean_per_op", "repetitions"),
        pairwise=True,
    )


def _point(
    at: ComparedVariants,
    weighed: Mapping[str, Sequence[Weights]],
    stacks: StackCounts,
    by: StackGrouping,
    options: Options,
) -> ComparedPoint:
    found = profiles.functions(weighed) if by == "function" else profiles.chains(weighed)
    figures = profiles.ranked(found, at.base, weighed)
    shown = [one for one in figures if one.most >= _LEAST]
    return ComparedPoint(
        at,
        probe=stacks.probe,
        heading=(
            f"{stacks.workload}, {at}: "
            f"{stacks.what} per operation "
            f"{_HOW[by]}, in {' and '.join(options.contexts)} context"
        ),
        title=f"{stacks.probe.capitalize()}: {stacks.what} per operation",
        thing=by,
        measures=(Measure(stacks.unit, count, beside="change"),),
        rows=tuple(ComparedRow(one.name, (one,)) for one in shown),
        hidden=len(figures) - len(shown),
        more=by,
        most=_MOST[by],
        by_symbol=True,
        notes=stacks.notes,
        lost=stacks.lost.get((at.cpus, at.tasks), ()),
        machine_differences=stacks.machine_differences.get((at.cpus, at.tasks), ""),
        items=tuple(Item({by: one.name}, _cells(one)) for one in figures),
        records=tuple(
            (at.cpus, at.tasks, one.name, variant, round(one.mean(variant), 6), len(values))
            for one in figures
            for variant, values in one.values.items()
        ),
    )


def _cells(figure: ComparedFigure) -> dict[str, dict[str, list[float]]]:
    return {
        variant: {"per_op": [round(value, 6) for value in values]}
        for variant, values in figure.values.items()
    }
