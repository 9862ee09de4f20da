"""The cost of a round of operations: compares the sums of the repetitions between variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TypeAlias

from bigiron.analysis.comparison.model import (
    Cells,
    ComparedPoint,
    ComparedRow,
    ComparedVariants,
    Comparison,
    Measure,
    Measurements,
    Options,
)
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.util.english import plural
from bigiron.util.lazy import polars as pl
from bigiron.util.numbers import three_decimals


@dataclass(frozen=True)
class OperationQuantity:
    """A quantity that is measured for each operation: a column of the probe's table."""

    column: str
    title: str
    scale: float = 1.0


_TAKEN = (
    OperationQuantity("nanoseconds", "wall time, s", 1e-9),
    OperationQuantity("system_ns", "of it in the kernel, s", 1e-9),
    OperationQuantity("voluntary", "context switches to wait"),
    OperationQuantity("involuntary", "other context switches"),
    OperationQuantity("grace_periods", "normal grace periods waited for"),
    OperationQuantity("expedited", "expedited grace periods"),
)
_Sums: TypeAlias = dict[str, tuple[float, ...]]  # of each repetition, by variant


def compare(measured: Measurements, options: Options) -> Comparison:
    """Compare the costs of each round's operations, for each CPU state that they lead to."""
    return Comparison(
        about=measured.about,
        points=tuple(
            _point(options.place(cpus, tasks, cells), state, cells, measured)
            for (cpus, tasks), cells in measured.points.items()
            for state in _states(cells)
        ),
        columns=(
            "cpus",
            "state",
            "operations",
            "variant",
            "measure",
            "mean",
            "standard_deviation",
            "repetitions",
        ),
        by_item=False,
    )


def _states(cells: Cells) -> list[str]:
    tables = (cell.table for repetitions in cells.values() for cell in repetitions)
    return list(dict.fromkeys(state for table in tables for state in table["state"]))


def _point(at: ComparedVariants, state: str, cells: Cells, measured: Measurements) -> ComparedPoint:
    rounds = {
        variant: [cell.table.filter(state=state) for cell in repetitions]
        for variant, repetitions in cells.items()
    }
    operations = pl.concat([table for each in rounds.values() for table in each])["operation"].n_unique()
    repetitions = max(map(len, rounds.values()))
    sums = {taken: _sums(taken, rounds) for taken in _TAKEN}
    return ComparedPoint(
        at,
        probe="operations",
        kind=state,
        heading=(
            f"{measured.workload}, {plural(at.cpus, 'CPU')}, {state}: "
            f"{plural(operations, 'operation')}, "
            f"mean of {plural(repetitions, 'repetition')}"
            f"{' +- standard deviation' if repetitions > 1 else ''}"
        ),
        title="What the operations took",
        thing="metric",
        keeps_order=True,
        measures=(Measure("sum", beside="deviation"),),
        rows=tuple(_row(taken, of, state, cells) for taken, of in sums.items() if of),
        notes=measured.time_notes,
        place={"cpus": at.cpus, "state": state, "operations": operations},
        known={
            "cells": {
                variant: {
                    taken.column: [round(value, 9) for value in of.get(variant, ())]
                    for taken, of in sums.items()
                }
                for variant in cells
            }
        },
        records=tuple(
            (
                *(at.cpus, state, operations, variant, taken.column, round(fmean(of[variant]), 9)),
                round(stdev(of[variant]), 9) if len(of[variant]) > 1 else "",
                len(of[variant]),
            )
            for variant in cells
            for taken, of in sums.items()
            if variant in of
        ),
    )


def _sums(taken: OperationQuantity, rounds: Mapping[str, list[pl.DataFrame]]) -> _Sums:
    """Empty for a variant whose kernel does not report it."""
    sums = {
        variant: tuple(
            float(table[taken.column].sum()) * taken.scale
            for table in tables
            if not table[taken.column].has_nulls()
        )
        for variant, tables in rounds.items()
    }
    return {variant: values for variant, values in sums.items() if values}


def _row(taken: OperationQuantity, of: _Sums, state: str, cells: Cells) -> ComparedRow:
    return ComparedRow(
        taken.title,
        (ComparedFigure(f"{state}: {taken.title}", of),),
        missing=dict.fromkeys(cells, "unknown"),
        form=three_decimals if taken.scale != 1 else _count,
    )


def _count(value: float) -> str:
    return f"{value:.{0 if value == int(value) else 1}f}"
