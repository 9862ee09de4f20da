"""Instructions per operation of each function: self, and total with its callees."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import mean
from typing import Any

from bigiron.analysis.comparison import make_rows
from bigiron.analysis.comparison.model import (
    Cells,
    ComparedPoint,
    ComparedRow,
    ComparedVariants,
    Comparison,
    Item,
    Measure,
    Measurements,
    Options,
    ProbedCell,
)
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.analysis.probes import costly
from bigiron.analysis.probes.costly import Costly
from bigiron.analysis.statistics import spread
from bigiron.analysis.statistics.growth import CountSeries
from bigiron.analysis.statistics.verdict import Verdict
from bigiron.util.english import join_and
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

_TOLERANCE = 1.0  # instructions per operation up to which nothing differs, and 1 %
_OF_ALL = 0.005  # a share of all instructions, up to which they do not differ
FINENESS = "1 instruction per operation and 1 % of each function, 0.5 % of all"
"""Up to what no difference is looked for, in words."""

_LEAST = 0.05  # instructions of its own an operation: a function with less is only counted
_MOST = 40
USER = "user_instructions"  # of a program's recorded part: a fact of its cells
_MEASURES = (Measure("self", adds_up=True), Measure("total", "{:.1f}".format))

SCHEMA = Schema(
    lambda: {
        "function": pl.String(),
        "self_per_op": pl.Float64(),  # instructions of the function itself
        "total_per_op": pl.Float64(),  # and of all that it called
    }
)


def profile(
    counts: pl.DataFrame, operations: float, contexts: tuple[str, ...] = ("process",)
) -> pl.DataFrame:
    """The instructions of every function per operation, the most self instructions first.

    `counts` has the columns of the probe `instructions`. A function that occurs twice in a call path counts
    once in its total. The sum of `self_per_op` is the number of instructions per operation.
    """
    counts = counts.filter(pl.col("context").is_in(contexts))
    # Whole numbers are added up, whose sum has no order: two boots with the same count are equal.
    ran = counts.group_by("path", "function").agg(pl.col("instructions").sum())
    own = ran.group_by("function").agg(self_per_op=pl.col("instructions").sum() / operations)
    inclusive = (
        ran.with_columns(
            function=pl.concat_list(
                pl.when(pl.col("path") == "")
                .then(pl.lit([], pl.List(pl.String)))
                .otherwise(pl.col("path").str.split(";")),
                pl.col("function"),
            ).list.unique()
        )
        .explode("function")
        .group_by("function")
        .agg(total_per_op=pl.col("instructions").sum() / operations)
    )
    return (
        inclusive.join(own, on="function", how="left")
        .with_columns(pl.col("self_per_op").fill_null(0.0))
        .sort("self_per_op", "total_per_op", "function", descending=[True, True, False])
        .select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    )


def stacks(counts: pl.DataFrame, operations: float, contexts: tuple[str, ...] = ("process",)) -> pl.DataFrame:
    """The instructions by whole call path: a row per context and path.

    The sum of `instructions_per_op` is that of `profile`'s `self_per_op`.
    """
    return (
        counts.filter(pl.col("context").is_in(contexts))
        .with_columns(
            pl.concat_str("path", "function", separator=";").str.strip_chars_start(";").alias("path")
        )
        .group_by("context", "path")
        .agg(instructions_per_op=pl.col("instructions").sum() / operations)
        .sort("context", "path")
    )


def compare(measured: Measurements, options: Options) -> Comparison:
    """Compare the instructions of a study's variants, function by function."""
    names = ("self_per_op", "total_per_op")
    return Comparison(
        about=measured.about_counts(options),
        points=measured.at_each(_point, options),
        columns=("cpus", "tasks", "function", "variant"),
        cell_columns=dict(zip(names, names, strict=True)),
    )


def _total(
    rows: Mapping[str, Sequence[ComparedFigure]],
    uneven: Mapping[str, Mapping[str, float]],
    cells: Cells,
    base: str,
    boots: Mapping[str, int],
) -> ComparedRow:
    """The row of all functions. It varies by what each of them varies by."""
    total = make_rows.total("all functions", rows.values(), _MEASURES, cells)
    of_all = {
        variant: sum(
            min(own.mean(variant), uneven[variant].get(function, math.inf))
            for function, (own, *_) in rows.items()
        )
        for variant in cells
    }
    return replace(total, verdict=make_rows.verdict([(total.main, _TOLERANCE)], base, of_all, boots, _OF_ALL))


def _point(at: ComparedVariants, cells: Cells, measured: Measurements, options: Options) -> ComparedPoint:
    base = at.base
    cells = with_same_names(cells)
    rows = make_rows.joined(
        {variant: [_rows(cell, options.contexts) for cell in each] for variant, each in cells.items()},
        _MEASURES,
    )
    uneven = {variant: _uneven(each, options.contexts) for variant, each in cells.items()}
    boots = {variant: len(each) for variant, each in cells.items()}

    def verdict(function: str, own: ComparedFigure) -> Verdict | None:
        of = {variant: uneven[variant].get(function, math.inf) for variant in cells}
        return make_rows.verdict([(own, _TOLERANCE)], base, of, boots)

    ordered = sorted(
        rows.items(),
        key=lambda row: (-round(row[1][0].largest_change(base, at.others), 3), -row[1][0].most, row[0]),
    )
    shown = [
        ComparedRow(function, figures, verdict(function, figures[0]))
        for function, figures in ordered
        if figures[0].most >= _LEAST
    ]
    total = _total(rows, uneven, cells, base, boots)
    longer = costly.executed(cells, base, options.contexts)
    return ComparedPoint(
        at,
        probe="instructions",
        heading=_heading(at, measured, options),
        title="Kernel instructions per operation",
        thing="function",
        keeps_order=True,
        measures=_MEASURES,
        rows=(*(_row(one) for one in longer if one.executed.most >= _LEAST), *shown),
        hidden=len(rows) - len(shown),
        more="function",
        most=_MOST,
        total=total,
        by_symbol=True,
        legend=(
            f"differs from {base} by more than {_TOLERANCE:.0f} instruction per operation and 1 %"
            f"{make_rows.BEYOND_BOOTS}"
        ),
        notes=(*_in_user_mode(cells, total), *make_rows.on_marks(shown, min(boots.values()))),
        shows_change=True,
        items=tuple(Item({"function": function}, _cells(figures)) for function, figures in ordered),
        known={
            "cells": {
                variant: {"self_per_op": round(total.main.mean(variant), 6), **_user_per_op(each)}
                for variant, each in cells.items()
            },
            "costly": list(map(_known, longer)),
        },
    )


def _user_per_op(each: Sequence[ProbedCell]) -> dict[str, float]:
    """What a program executed in user mode per operation; empty of a workload."""
    counted = [cell.facts[USER] / cell.operations for cell in each if USER in cell.facts]
    return {"user_per_op": round(mean(counted), 6)} if counted else {}


def _in_user_mode(cells: Cells, total: ComparedRow) -> Iterator[str]:
    """What programs executed beside the kernel's instructions, which alone are in the table."""
    counted = [
        f"{user:.1f} on {variant} ({user / ((user + total.main.mean(variant)) or 1.0):.0%} of all)"
        for variant, each in cells.items()
        for user in _user_per_op(each).values()
    ]
    if counted:
        yield f"Instructions per operation in user mode: {join_and(counted)}."


OF_COSTLY = "instruction that takes longer"
"""Under which instructions are listed that take much longer than others."""


def _row(one: Costly) -> ComparedRow:
    return ComparedRow(f"{one.instruction} ({one.where})", (one.executed,), one.verdict, section=OF_COSTLY)


def _known(one: Costly) -> dict[str, Any]:
    """For programs."""
    return {
        "instruction": one.instruction,
        "beyond": round(one.beyond, 3),
        "functions": [function.name for function in one.functions],
        "cells": {
            variant: {"executed_per_op": round(one.executed.mean(variant), 6)}
            for variant in one.executed.values
        },
    }


def _heading(at: ComparedVariants, measured: Measurements, options: Options) -> str:
    return (
        f"{measured.workload}, {at}: "
        f"kernel instructions per operation, in {' and '.join(options.contexts)} context "
        f"({measured.recorded}; self: the function's own; total: with its callees)"
    )


def _uneven(repetitions: Sequence[ProbedCell], contexts: tuple[str, ...]) -> dict[str, float]:
    """By function, the instructions per operation that differ between CPUs, in the worst boot."""
    found: dict[str, list[float]] = {}
    for cell in repetitions:
        counts = cell.table.filter(pl.col("context").is_in(contexts))
        cpus = counts["cpu"].n_unique()
        for function, rest in spread.uneven(
            counts, "function", "instructions", cpus, cell.operations
        ).items():
            found.setdefault(function, []).append(rest)
    return {function: max(each) for function, each in found.items() if len(each) == len(repetitions)}


def _rows(cell: ProbedCell, contexts: tuple[str, ...]) -> Iterator[tuple[str, tuple[float, ...]]]:
    rows = cell.once((profile, contexts), lambda: profile(cell.table, cell.operations, contexts))
    for function, *figures in rows.iter_rows():
        yield function, tuple(figures)


def costly_ones(cells: Cells, options: Options) -> list[Costly]:
    """The instructions that take much longer than others, the change that costs most first."""
    return costly.executed(with_same_names(cells), options.base_of(cells), options.contexts)


def with_same_names(cells: Cells) -> Cells:
    """The cells of a probe with its functions, also those on paths, by `same_function`."""
    return {variant: [_renamed(cell) for cell in each] for variant, each in cells.items()}


def _renamed(cell: ProbedCell) -> ProbedCell:
    return cell.once(by_same_names, lambda: replace(cell, table=by_same_names(cell.table)))


def by_same_names(counts: pl.DataFrame) -> pl.DataFrame:
    """The counts with the functions, also those on the paths, by `same_function`."""
    paths = counts["path"].unique()  # a tenth of the rows, or less
    functions = paths.str.split(";")
    names = pl.concat([counts["function"], functions.explode()]).unique().drop_nulls()
    same = {name: same_function(name) for name in names}
    changed = {name: short for name, short in same.items() if name != short}
    if not changed:
        return counts
    renamed = functions.list.eval(pl.element().replace(changed)).list.join(";")
    return counts.with_columns(
        pl.col("function").replace(changed), path=counts["path"].replace(paths, renamed)
    )


@cache
def same_function(symbol: str) -> str:
    """A function by the name that it has in all kernels.

    The compiler adds suffixes to clones of a function. Since 6.10 memory allocators have `_noprof` variants.

    >>> same_function("exit_to_user_mode_prepare.isra.0"), same_function("kmem_cache_alloc_noprof")
    ('exit_to_user_mode_prepare', 'kmem_cache_alloc')
    """
    return re.sub(r"(\.(isra|part|constprop|cold|llvm)(\.\d+)?)+$", "", symbol).removesuffix("_noprof")


def _cells(figures: tuple[ComparedFigure, ...]) -> dict[str, dict[str, float]]:
    own, inclusive = figures
    return {
        variant: {
            "self_per_op": round(own.mean(variant), 6),
            "total_per_op": round(inclusive.mean(variant), 6),
        }
        for variant in own.values
    }


def series(
    cells: Mapping[int, Sequence[ProbedCell]], contexts: tuple[str, ...]
) -> tuple[list[CountSeries], CountSeries]:
    """The self instructions of each function as a series over the CPU counts; their sum is the total."""
    own = {cpus: _own(repetitions, contexts) for cpus, repetitions in cells.items()}
    functions = sorted(set().union(*own.values()))
    found = [
        CountSeries(function, "", {cpus: round(here.get(function, 0.0), 6) for cpus, here in own.items()})
        for function in functions
    ]
    return found, CountSeries("", "", {cpus: round(sum(here.values()), 6) for cpus, here in own.items()})


def _own(repetitions: Sequence[ProbedCell], contexts: tuple[str, ...]) -> dict[str, float]:
    """The mean of the repetitions."""
    profiles = [profile(cell.table, cell.operations, contexts) for cell in repetitions]
    sums = pl.concat(profiles).group_by("function").agg(pl.col("self_per_op").sum() / len(profiles))
    return dict(sums.iter_rows())
