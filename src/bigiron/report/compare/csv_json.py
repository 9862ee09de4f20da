"""A comparison for programs: JSON and CSV (docs/reference/schema.md). All of it, however small."""

import csv
import io
from collections.abc import Iterator
from typing import Any

from bigiron.analysis.comparison.model import ComparedPoint, Comparison
from bigiron.report.formats import listing


def as_json(comparison: Comparison) -> str:
    """All items in one list, or what is known of each point."""
    if comparison.by_item:
        rows = [
            {**point.fields, **item.fields, "cells": item.cells} if item.cells else item.fields
            for point in comparison.points
            for item in point.items
        ]
        totals = [{**point.fields, **point.known} for point in comparison.points if point.known]
        document = {"rows": rows, **({"totals": totals} if totals else {})}
    else:
        document = {"points": [{**point.fields, **point.known} for point in comparison.points]}
    lost: list[dict[str, Any]] = []
    for point in comparison.points:
        entry = {**point.fields, "lost": point.lost}
        if point.lost and entry not in lost:  # as points of several metrics have the same
            lost.append(entry)
    unlike: list[dict[str, Any]] = []
    for point in comparison.points:
        entry = {**point.fields, "unlike": point.machine_differences}
        if point.machine_differences and entry not in unlike:
            unlike.append(entry)
    missing = [{"cell": one.id, "why": one.why} for one in comparison.missing]
    every = (("lost", lost), ("unlike", unlike), ("missing", missing))
    caveats = {name: entries for name, entries in every if entries}
    return listing.json_text({**comparison.about, **document, **caveats})


def as_csv(comparison: Comparison) -> str:
    """A line for each item and variant that has it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*comparison.columns, *comparison.cell_columns])
    for point in comparison.points:
        writer.writerows(point.records or _records(comparison, point))
    return out.getvalue()


def _records(comparison: Comparison, point: ComparedPoint) -> Iterator[list[Any]]:
    for number, item in enumerate(point.items):
        if not item.cells:
            yield [item.fields[column] for column in comparison.columns]
        for variant in item.cells:
            known = {**point.fields, "row": number, **item.fields, "variant": variant}
            yield [
                *(_flat(known[column]) for column in comparison.columns),
                *(item.cells[variant][name] for name in comparison.cell_columns.values()),
            ]


def _flat(value: Any) -> Any:
    """Names with spaces between them, kinds with commas, as docs/reference/schema.md has it."""
    match value:
        case bool():
            return int(value)
        case [dict(), *_]:
            return ", ".join(next(iter(one.values())) for one in value)
        case list() | tuple():
            return " ".join(value)
    return value
