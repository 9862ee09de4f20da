"""layout: which bytes of each slab object, variable and per-CPU variable which CPU reads and writes.

Recorded by the QEMU plugin in plugin/ with the same accesses as conflicts, but also to cache lines that only
one CPU touches: at another alignment, or after a move, they may be shared. `bigiron layout` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bigiron.analysis.layout import joined, tables
from bigiron.introspect.containers import SLAB, Containers
from bigiron.introspect.struct_layout import StructLayouts
from bigiron.probes.probe import CellRequest, Probe, ProbeTable, RawOutput
from bigiron.probes.recording import read_all_lines, recorded, resolve_symbols, touched_bytes
from bigiron.util.lazy import DType
from bigiron.util.lazy import polars as pl


def _job(request: CellRequest) -> list[str]:
    return ["stay", f"operations {request.operations}", "record conflicts", "record layout"]


def _collect(raw: RawOutput) -> ProbeTable:
    left, line_bytes = recorded(raw), raw.architecture.line_bytes
    lines = read_all_lines(raw.results).filter(pl.col("line") >= raw.architecture.kernel_start)
    lines = lines.with_columns(
        *resolve_symbols(lines["bytes"], touched_bytes, first=pl.UInt64, length=pl.UInt64),
        *resolve_symbols(lines["pc"], lambda pc: (left.symbols.lookup(pc)[0],), function=pl.String),
    ).with_columns(address=pl.col("line") + pl.col("first"))
    containers = Containers(left.objects)
    held = containers.at(set(lines["address"].unique()))
    starts = pl.DataFrame(
        [(address, one.start) for address, one in held.items()],
        {"address": pl.UInt64, "start": pl.UInt64},
        orient="row",
    )
    accesses = joined.joined(lines.join(starts, on="address"))
    found = {one.start: one for one in held.values()}
    variables = [start for start, one in found.items() if one.kind != SLAB]
    of_variables = accesses.filter(pl.col("start").is_in(variables))["line"].unique()
    beside = containers.beside(of_variables, line_bytes)
    found = {one.start: one for one in beside} | found
    layouts = StructLayouts(left.objects.guest.btf, line_bytes)
    structs = sorted({one.struct for one in found.values()} - {""})
    elsewhere = lines.join(starts, on="address", how="anti")
    facts = left.operations | {
        "line_bytes": line_bytes,
        "lost_accesses": left.recording.lost["accesses"],
        "other_accesses": int(elsewhere["reads", "writes"].max_horizontal().sum()),
    }
    return ProbeTable(
        accesses.select(pl.col(name).cast(kind) for name, kind in tables.ACCESSES.items()).sort(tables.ORDER),
        facts,
        left.recording.losses,
        {
            "objects": _frame(sorted(found.values()), tables.OBJECTS),
            "fields": _frame(layouts.rows(structs), tables.FIELDS),
        },
    )


def _frame(rows: Iterable[Sequence[object]], columns: Mapping[str, DType]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), dict(columns), orient="row")


PROBE = Probe(
    name="layout",
    description="bytes of each object and variable that each CPU reads and writes, for `bigiron layout`",
    columns=tables.ACCESSES,
    units={"length": "bytes", "reads": "accesses", "writes": "accesses"},
    job=_job,
    collect=_collect,
    measures=("unbounded", "bounded"),
    needs_recorder=True,
)
