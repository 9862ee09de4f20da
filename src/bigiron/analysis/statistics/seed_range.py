"""Figures that were simulated several times: with different seeds, or on machines sampled from ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bigiron.analysis.statistics.estimate import Estimate, of_all, of_samples
from bigiron.util.lazy import numpy as np
from bigiron.util.lazy import polars as pl


def of_machines(values: Sequence[float]) -> Estimate:
    """Of a figure on a machine itself, which comes first, and on machines sampled from its ranges.

    >>> str(of_machines([12.3, *range(101)]))
    '12.3 (4.15 to 95.8)'
    """
    return replace(of_samples(np.array(values, float)), value=values[0])


def seed_range(rows: pl.DataFrame, figure: str, variant: str, tasks: int | None = None) -> Estimate:
    """The mean of a figure over all seeds, and the least and the most of any."""
    return of_all(repetitions(rows, figure, variant, tasks))


def repetitions(rows: pl.DataFrame, figure: str, variant: str, tasks: int | None = None) -> list[float]:
    """A figure of one variant in each repetition, of the rows of a study's table `simulation`."""
    chosen = rows.filter(figure=figure, variant=variant)
    if tasks is not None:
        chosen = chosen.filter(tasks=tasks)
    return chosen.sort("repetition")["value"].to_list()
