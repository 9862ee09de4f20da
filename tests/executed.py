"""What an operation executes, on every architecture."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

import bigiron
from bigiron.analysis.probes import instructions


def exact_instructions(folder: Path, operations: int, functions: Sequence[str]) -> pl.DataFrame:
    """The instructions of a study's only cell: none is lost, and those of `functions` are whole."""
    study = bigiron.open_study(folder)
    (record,) = study.records()
    table, facts = study.table(record, "instructions"), record.facts["instructions"]
    assert facts["lost_instructions"] == 0
    for context, total in facts["instructions"].items():
        assert table.filter(pl.col("context") == context)["instructions"].sum() == total
    found = {row[0]: row[1] for row in instructions.profile(table, operations).iter_rows()}
    for function in functions:
        assert found[function] and found[function] % 1 == 0, function
    return table


def mostly_process(study: Path, function: str) -> bool:
    """Whether a function is executed in process context, but by some kernel threads made meanwhile."""
    opened = bigiron.open_study(study)
    table = opened.tables("instructions").filter(function=function)
    by_context = dict(table.group_by("context").agg(pl.col("instructions").sum()).iter_rows())
    return bool(by_context.get("process", 0) > 0.9 * sum(by_context.values()))
