"""A profile as a table of a study's cell (docs/reference/schema.md)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from bigiron.probes import ProbeTable
from bigiron.util.english import plural
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl
from bigiron.util.measured import MeasuredPart, MeasuredProfile, MeasuredThing

TABLE = "measured"

SCHEMA = Schema(
    lambda: {
        "rank": pl.UInt32,  # of the cache line, lock, function or wait, from 1
        "name": pl.String,  # address, class or function; empty if unknown
        "type": pl.String,  # of a lock: spinlock, rwsem:W
        "total": pl.Float64,  # its weight, in the unit that the facts name
        "function": pl.String,  # that touches it, takes it or waits for it
        "weight": pl.Float64,  # of the total
        "records": pl.Float64,  # samples, or waits
        "stores": pl.Float64,  # samples of stores to a cache line
        "offset": pl.Int64,  # bytes from the cache line's first one; null elsewhere
        "place": pl.String,  # source line or instruction
        "callers": pl.String,  # innermost first, ";" between them
        "kernel": pl.Boolean,
    }
)


def table(measured: MeasuredProfile) -> ProbeTable:
    """One row for each part of what was measured."""
    rows = [
        (
            *(rank, thing.name, thing.type, thing.weight),
            *(part.function, part.weight, part.records, part.stores, part.offset, part.place),
            *(";".join(part.callers), part.is_kernel),
        )
        for rank, thing in enumerate(measured.things, start=1)
        for part in thing.parts
    ]
    facts = {
        "kind": measured.kind,
        "unit": measured.unit,
        "not_read": len(measured.not_read),
        "notes": list(measured.notes),
    }
    return ProbeTable(pl.DataFrame(rows, schema=SCHEMA, orient="row"), facts)


def of_table(rows: pl.DataFrame, facts: Mapping[str, Any]) -> MeasuredProfile:
    """What the table was made of; of the lines that were not understood, how many."""
    things = []
    for (_rank, name, type, total), parts in groupby(rows.iter_rows(), itemgetter(0, 1, 2, 3)):
        of_thing = tuple(
            MeasuredPart(
                function,
                weight,
                records,
                stores,
                offset,
                place,
                tuple(filter(None, callers.split(";"))),
                kernel,
            )
            for *_, function, weight, records, stores, offset, place, callers, kernel in parts
        )
        things.append(MeasuredThing(name, total, of_thing, type))
    notes = [*facts.get("notes", ())]
    if lines := facts["not_read"]:
        notes.append(f"{plural(lines, 'line')} of it {'was' if lines == 1 else 'were'} not understood.")
    return MeasuredProfile(facts["kind"], facts["unit"], tuple(things), notes=tuple(notes))
