"""The locks of a cell: how often each is taken per operation, and how long it is held."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

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
from bigiron.analysis.probes import critical_sections
from bigiron.analysis.probes.critical_sections import Call
from bigiron.analysis.statistics import spread
from bigiron.analysis.statistics.verdict import Verdict
from bigiron.util.english import first_n
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl
from bigiron.util.object_name import ObjectName

_TAKEN_LEAST, _HELD_LEAST = (
    0.05,
    1.0,
)  # acquisitions and instructions per operation: smaller ones are only counted
_TOLERANCES = {"acquisitions_per_op": 0.05, "held_per_op": 1.0}  # up to which nothing differs, and 1 %
FINENESS = "0.05 acquisitions and 1 instruction per operation and 1 %"
"""Up to what no difference is looked for, in words."""

_MOST_FUNCTIONS = 8
_HELD = 1  # the measure by which rows are ranked
_MEASURES = (
    Measure("taken"),
    Measure("held", "{:.1f}".format),
    Measure("longest", "{:.0f}".format, of_repetitions="most"),
    Measure("CPUs", "{:.0f}".format, of_repetitions="most"),
    Measure("locks", "{:.0f}".format, of_repetitions="most"),
)
_COLUMNS = ("acquisitions_per_op", "held_per_op", "longest", "cpus", "locks")

SCHEMA = Schema(
    lambda: {
        "lock": pl.String(),  # what it is: all locks that are called so together, whichever CPU's they are
        "taken_by": pl.String(),  # spin_lock, read_lock, write_lock, mutex_lock, down_read or down_write
        "locks": pl.UInt32(),  # how many there are
        "cpus": pl.UInt32(),  # the most that take one of them
        "acquisitions_per_op": pl.Float64(),
        "held_per_op": pl.Float64(),  # instructions
        "longest": pl.UInt64(),  # instructions of one acquisition
        "taken_in": pl.List(pl.String()),  # the functions that take it, most acquisitions first
    }
)


def profile(
    counts: pl.DataFrame, operations: float, contexts: tuple[str, ...] = ("process",)
) -> pl.DataFrame:
    """The locks of one cell: those that several CPUs take first, then by how long they are held.

    `counts` has the columns of the probe locks; `operations` is how many were recorded, of all tasks.
    """
    taken = _named(counts, contexts)
    if taken.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    what = ["lock", "taken_by"]
    sums = taken.group_by(what).agg(
        acquisitions_per_op=pl.col("acquisitions").sum() / operations,
        held_per_op=pl.col("instructions").sum() / operations,
        longest=pl.col("longest").max(),
    )
    cpus = (
        taken.group_by(*what, "address")
        .agg(cpus=pl.col("cpu").n_unique())
        .group_by(what)
        .agg(pl.col("cpus").max(), locks=pl.len())
    )
    takers = (
        taken.group_by(*what, "taker")
        .agg(pl.col("acquisitions").sum())
        .sort("acquisitions", "taker", descending=[True, False])
        .group_by(what, maintain_order=True)
        .agg(taken_in=pl.col("taker"))
    )
    return (
        sums.join(cpus, on=what)
        .join(takers, on=what)
        .sort(pl.col("cpus") == 1, -pl.col("held_per_op"), *what)
        .select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    )


def held_by_call(
    counts: pl.DataFrame,
    operations: float,
    lock: str,
    contexts: tuple[str, ...] = ("process",),
    taken_by: str = "",
) -> dict[Call, float]:
    """For how many instructions per operation all locks of a name are held, by the call that took them.

    `taken_by`: as in `SCHEMA`; however it is taken unless given.
    """
    taken = _named(counts, contexts).filter(pl.col("lock") == lock)
    taken = taken.filter(pl.col("taken_by") == taken_by) if taken_by else taken
    held = taken.group_by("path").agg(pl.col("instructions").sum() / operations)
    return {tuple(path.split(";")): instructions for path, instructions in held.iter_rows()}


def _named(counts: pl.DataFrame, contexts: tuple[str, ...]) -> pl.DataFrame:
    """The acquisitions, by names that all locks of a kind have in common."""
    names = {object: ObjectName.parse(object).as_lock for object in counts["object"].unique()}
    takers = {function: taken_by(function) for function in counts["function"].unique()}
    return counts.filter(pl.col("context").is_in(contexts)).select(
        pl.col("object").replace_strict(names, return_dtype=pl.String).alias("lock"),
        pl.col("function").replace_strict(takers, return_dtype=pl.String).alias("taken_by"),
        pl.col("path").str.split(";").list.last().alias("taker"),
        pl.col("lock").alias("address"),
        "path", "cpu", "acquisitions", "instructions", "longest",
    )  # fmt: skip


def _even(cell: ProbedCell, contexts: tuple[str, ...]) -> set[tuple[str, str]]:
    """The locks that all CPUs take equally often and hold for equally many instructions."""
    taken, what = _named(cell.table, contexts), ["lock", "taken_by"]
    if taken.is_empty():
        return set()
    found = [
        spread.even(taken, what, count, taken["cpu"].n_unique(), cell.operations).filter("even")
        for count in ("acquisitions", "instructions")
    ]
    return set.intersection(*(set(even.select(what).iter_rows()) for even in found))


def held_by_instructions(
    rows: Iterable[ComparedRow], locks: Cells, instructions: Cells, base: str, contexts: tuple[str, ...]
) -> set[tuple[str, str]]:
    """The locks, with what takes them, that all variants take as often as the base does, and hold longer or
    shorter by the instructions that functions execute under them.

    `rows` are of their comparison. `locks` and `instructions` are the cells of these probes, functions as in
    all kernels, without waiting for locks. None is found where the probes have not the same boots.
    """
    boots = [{name: len(each) for name, each in cells.items()} for cells in (locks, instructions)]
    if boots[0] != boots[1]:
        return set()
    work = {
        name: [replace(cell, table=cell.table.filter(pl.col("context").is_in(contexts))) for cell in each]
        for name, each in instructions.items()
    }
    explained = (row for row in rows if row.differs and _is_explained(row, locks, work, base, contexts))
    return {lock_of(row) for row in explained}


TAKEN, HELD, CPUS = 0, 1, 3
"""Which of the figures of a comparison's row."""


def lock_of(row: ComparedRow) -> tuple[str, str]:
    """The lock of a comparison's row, and what takes it."""
    return row.name, row.labels[0][0]


def held_otherwise(row: ComparedRow, base: str) -> list[str]:
    """The variants that hold a row's lock for more or fewer instructions than the base does."""
    held = row.figures[HELD]
    least = _HELD_LEAST + 0.01 * held.most
    return [name for name in held.values if name != base and abs(held.change(base, name)) > least]


def _is_explained(row: ComparedRow, locks: Cells, work: Cells, base: str, contexts: tuple[str, ...]) -> bool:
    taken, held = row.figures[TAKEN], row.figures[HELD]
    calls = {
        call
        for name, each in locks.items()
        for cell, executed in zip(each, work[name], strict=True)
        for call in critical_sections.calls_that_hold(
            held_by_call(cell.table, cell.operations, row.name, contexts, row.labels[0][0]), executed
        )
    }
    sums = {
        name: [sum(critical_sections.executed_in(calls, one).values()) for one in each]
        for name, each in work.items()
    }
    as_often = (abs(taken.change(base, name)) <= _TAKEN_LEAST + 0.01 * taken.most for name in locks)
    otherwise = held_otherwise(row, base)
    return (
        bool(otherwise)
        and all(as_often)
        and all(
            critical_sections.explain(held.change(base, name), sums[base], sums[name]) for name in otherwise
        )
    )


def taken_by(function: str) -> str:
    """The lock function's name without its variants, such as those that disable interrupts.

    >>> taken_by("_raw_spin_lock_irqsave"), taken_by("mutex_trylock"), taken_by("down_read_killable")
    ('spin_lock', 'mutex_lock', 'down_read')
    """
    return waiting(lock_function(function))


def lock_function(function: str) -> str:
    """The same, but a trylock keeps its name.

    >>> lock_function("_raw_spin_trylock_bh"), lock_function("down_read_killable")
    ('spin_trylock', 'down_read')
    """
    return re.sub(r"_(bh|irq|irqsave|interruptible|killable)$", "", function.removeprefix("_raw_"))


def waiting(name: str) -> str:
    """The waiting counterpart of a trylock function.

    >>> waiting("spin_trylock"), waiting("down_write_trylock"), waiting("mutex_lock")
    ('spin_lock', 'down_write', 'mutex_lock')
    """
    return name.removesuffix("_trylock") if name.startswith("down_") else name.replace("trylock", "lock")


def compare(measured: Measurements, options: Options) -> Comparison:
    """Compare the locks of a study's variants, by their names."""
    return Comparison(
        about=measured.about_counts(options),
        points=measured.at_each(_point, options),
        columns=("cpus", "tasks", "lock", "taken_by", "taken_in", "differs", "variant"),
        cell_columns={
            "acquisitions_per_op": "acquisitions_per_op",
            "held_per_op": "held_per_op",
            "longest": "longest",
            "locks": "locks",
            "lock_cpus": "cpus",
        },
    )


def _point(at: ComparedVariants, cells: Cells, measured: Measurements, options: Options) -> ComparedPoint:
    rows = _rows(cells, at.base, options.contexts)
    shown = [row for row in rows if row.figures[0].most >= _TAKEN_LEAST or row.main.most >= _HELD_LEAST]
    lost = {
        variant: sum(cell.facts["lost_acquisitions"] + cell.facts["unreleased"] for cell in repetitions)
        for variant, repetitions in cells.items()
    }
    return ComparedPoint(
        at,
        probe="locks",
        heading=(
            f"{measured.workload}, {at}: "
            "the kernel's locks: acquisitions per operation "
            "and hold time in instructions, in "
            f"{' and '.join(options.contexts)} context ({measured.recorded}; longest: "
            "instructions of one acquisition; CPUs: that take one of them)"
        ),
        title="Locks: acquisitions per operation, and hold time in instructions",
        thing="lock",
        keeps_order=True,
        measures=_MEASURES[:-1],
        rows=tuple(replace(row, figures=row.figures[:-1]) for row in shown),
        hidden=len(rows) - len(shown),
        more="lock",
        more_below=(
            f"taken less than {_TAKEN_LEAST} times and held for less than "
            f"{_HELD_LEAST:.0f} instruction per operation"
        ),
        labels=("taken by", "taken in"),
        legend=(
            f"differs from {at.base}: taken by more than {_TOLERANCES['acquisitions_per_op']} per "
            f"operation and 1 %, or held by more than {_TOLERANCES['held_per_op']:.0f} instruction and 1 %"
            f"{make_rows.BEYOND_BOOTS}"
        ),
        notes=tuple(make_rows.on_marks(shown, min(map(len, cells.values())))),
        lost=tuple(
            f"{variant}: {count} acquisitions are not counted: no release was seen, or no room was left"
            for variant, count in lost.items()
            if count
        ),
        items=tuple(_item(row) for row in rows),
        known={"lost_acquisitions": lost},
    )


def _rows(cells: Cells, base: str, contexts: tuple[str, ...]) -> list[ComparedRow]:
    """Those that several CPUs take first; the largest change first, then those held longest."""
    profiles = {
        variant: [profile(cell.table, cell.operations, contexts) for cell in repetitions]
        for variant, repetitions in cells.items()
    }
    takers: dict[tuple[str, str], dict[str, None]] = {}
    for found in (found for repetitions in profiles.values() for found in repetitions):
        for lock, taken_by_, functions in found.select("lock", "taken_by", "taken_in").iter_rows():
            takers.setdefault((lock, taken_by_), {}).update(dict.fromkeys(functions))
    others = [variant for variant in cells if variant != base]
    even = {
        variant: set.intersection(*(_even(cell, contexts) for cell in repetitions))
        for variant, repetitions in cells.items()
    }
    boots = {variant: len(repetitions) for variant, repetitions in cells.items()}
    figures = make_rows.joined(
        {variant: [_figures(found) for found in repetitions] for variant, repetitions in profiles.items()},
        _MEASURES,
        called=lambda key: f"{key[0]} ({key[1]})",
    )
    rows = [
        _row(
            key,
            figures[key],
            list(takers[key]),
            make_rows.verdict(
                zip(figures[key], _TOLERANCES.values(), strict=False),
                base,
                {variant: 0.0 for variant in cells if key in even[variant]},
                boots,
            ),
        )
        for key in figures
    ]
    return sorted(
        rows,
        key=lambda row: (
            row.figures[3].most <= 1,
            -abs(make_rows.largest_change(row.main, base, others)) if row.differs else 0.0,
            -row.main.most,
            row.name,
            row.labels,
        ),
    )


def _figures(found: pl.DataFrame) -> Iterator[tuple[tuple[str, str], tuple[float, ...]]]:
    for lock, taken_by_, *figures in found.select("lock", "taken_by", *_COLUMNS).iter_rows():
        yield (lock, taken_by_), tuple(figures)


def _row(
    key: tuple[str, str], figures: tuple[ComparedFigure, ...], functions: list[str], verdict: Verdict | None
) -> ComparedRow:
    lock, taken_by_ = key
    return ComparedRow(
        lock,
        figures,
        verdict=verdict,
        labels=((taken_by_,), tuple(functions)),
        caption=(f"{taken_by_} in {first_n(functions, _MOST_FUNCTIONS)}",),
        details=(("taken by", taken_by_), ("taken in", ", ".join(functions))),
        rank=_HELD,
    )


def _item(row: ComparedRow) -> Item:
    (taken_by_,), functions = row.labels
    taken, held, longest, cpus, locks = row.figures
    return Item(
        {
            "lock": row.name,
            "taken_by": taken_by_,
            "taken_in": functions,
            "differs": row.differs,
            "verdict": row.verdict,
        },
        {
            variant: {
                "acquisitions_per_op": round(taken.mean(variant), 6),
                "held_per_op": round(held.mean(variant), 6),
                "longest": int(longest.mean(variant)),
                "locks": int(locks.mean(variant)),
                "cpus": int(cpus.mean(variant)),
            }
            for variant in taken.values
        },
    )
