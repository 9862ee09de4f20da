"""Instructions that take much longer than others: how often each is executed, and by which functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bigiron.analysis.comparison import costly, make_rows
from bigiron.analysis.comparison.model import Cells, Measure, ProbedCell
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.analysis.statistics import spread
from bigiron.analysis.statistics.verdict import Verdict
from bigiron.util.english import first_n
from bigiron.util.lazy import polars as pl

LEAST = 0.05
"""Executions per operation up to which nothing differs, and 1 %."""

_MEASURE = Measure("executed", adds_up=True)


@dataclass(frozen=True)
class Costly:
    """An instruction, by the recorder's name: executions per operation in all variants."""

    instruction: str
    executed: ComparedFigure
    functions: tuple[ComparedFigure, ...]  # the largest change first, then the most executions
    verdict: Verdict | None

    @property
    def beyond(self) -> float:
        """How much longer than one instruction it takes, in instructions."""
        return costly.beyond(self.instruction)

    @property
    def where(self) -> str:
        """The functions that execute it most, or more or less often."""
        return first_n([function.name for function in self.functions], 2)


def by_function(counts: pl.DataFrame, operations: float) -> dict[tuple[str, str], float]:
    """Executions per operation of each instruction and function, of the table of the probe `instructions`."""
    ran = counts.filter(pl.col("instruction") != "").group_by("instruction", "function")
    found = ran.agg(pl.col("instructions").sum() / operations).sort("instruction", "function")
    return {(instruction, function): count for instruction, function, count in found.iter_rows()}


def executed(cells: Cells, base: str, contexts: tuple[str, ...]) -> list[Costly]:
    """All such instructions, the change that costs most first, then the one that takes longest in all."""
    in_contexts = {
        variant: [cell.table.filter(pl.col("context").is_in(contexts)) for cell in each]
        for variant, each in cells.items()
    }
    figures = make_rows.joined(
        {
            variant: [
                [(key, (count,)) for key, count in by_function(table, cell.operations).items()]
                for table, cell in zip(in_contexts[variant], each, strict=True)
            ]
            for variant, each in cells.items()
        },
        (_MEASURE,),
        lambda key: key[1],
    )
    others = [variant for variant in cells if variant != base]
    uneven = {variant: _uneven(in_contexts[variant], each) for variant, each in cells.items()}
    found = []
    for instruction in {instruction for instruction, _ in figures}:
        functions = [figure for (of, _), (figure,) in figures.items() if of == instruction]
        functions.sort(key=lambda one: (-_change(one, base, others), -one.most, one.name))
        total = make_rows.total(instruction, [(one,) for one in functions], (_MEASURE,), cells).main
        of = {variant: uneven[variant].get(instruction, math.inf) for variant in cells}
        boots = {variant: len(each) for variant, each in cells.items()}
        verdict = make_rows.verdict([(total, LEAST)], base, of, boots)
        found.append(Costly(instruction, total, tuple(functions), verdict))
    return sorted(found, key=lambda one: _rank(one, base, others))


def _change(figure: ComparedFigure, base: str, others: Sequence[str]) -> float:
    change = figure.largest_change(base, others)
    return change if change >= LEAST else 0.0


def _rank(one: Costly, base: str, others: Sequence[str]) -> tuple[float, float, str]:
    return -_change(one.executed, base, others) * one.beyond, -one.executed.most * one.beyond, one.instruction


def _uneven(tables: Sequence[pl.DataFrame], cells: Sequence[ProbedCell]) -> Mapping[str, float]:
    """By instruction, the executions per operation that differ between CPUs, in the worst boot."""
    found: dict[str, list[float]] = {}
    for table, cell in zip(tables, cells, strict=True):
        cpus = table["cpu"].n_unique()
        for instruction, rest in spread.uneven(
            table, "instruction", "instructions", cpus, cell.operations
        ).items():
            found.setdefault(instruction, []).append(rest)
    return {one: max(each) for one, each in found.items() if len(each) == len(cells)}
