"""instructions: how many instructions each kernel function executed, and by which call path.

Counted by the QEMU plugin in plugin/, per translated block, for the same operations as conflicts.
"""

from __future__ import annotations

from bigiron.analysis.probes import instructions
from bigiron.probes.probe import CellRequest, GrowthSource, Probe, ProbeTable, RawOutput, StackSource
from bigiron.probes.recording import hexadecimal, recorded, resolve_symbols
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

SCHEMA = Schema(
    lambda: {
        "cpu": pl.UInt32,
        "context": pl.String,  # process, interrupt or kthread
        "path": pl.String,  # functions whose calls led there, outermost first, ";" between them
        "function": pl.String,
        "instruction": pl.String,  # one that takes much longer than others; "": all others
        "instructions": pl.UInt64,  # of the function's own, over all recorded operations
    }
)


def _job(request: CellRequest) -> list[str]:
    return [f"operations {request.operations}", "record instructions"]


def _collect(raw: RawOutput) -> ProbeTable:
    found = recorded(raw)
    recording, symbols, chains = found.recording, found.symbols, found.chains
    counts = pl.read_csv(
        raw.results / "instructions.csv",
        schema_overrides={"function": pl.String, "instruction": pl.String},
    )
    counts = counts.with_columns(hexadecimal("function"), pl.col("instruction").fill_null(""))
    frame = counts.with_columns(
        *resolve_symbols(counts["chain"], lambda chain: (chains.path(chain),), path=pl.String),
        *resolve_symbols(counts["function"], lambda pc: symbols.lookup(pc)[:1], function=pl.String),
    ).select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    keys = ["cpu", "context", "path", "function", "instruction"]
    # Several places of a call in one function are one path.
    return ProbeTable(
        frame.group_by(keys).agg(pl.col("instructions").sum()).sort(keys),
        {
            **found.operations,
            "instructions": recording.instructions,
            "lost_instructions": recording.lost["instructions"],
        },
        recording.losses,
    )


PROBE = Probe(
    name="instructions",
    description="instructions of every kernel function: self, total and by call path",
    columns=SCHEMA,
    units={"instructions": "instructions"},
    job=_job,
    collect=_collect,
    compare=lambda read, options: instructions.compare(read, options),
    has_verdicts=True,
    needs_recorder=True,
    measures=("unbounded", "bounded", "program"),
    by_default="vm",
    stacks=StackSource(
        lambda table, done, contexts: instructions.stacks(table, done, contexts),
        "kernel instructions",
        ("instructions",),
        ("path",),
    ),
    growth=GrowthSource(
        lambda cells, contexts: instructions.series(cells, contexts),
        thing="function",
        what="self instructions per operation of the kernel's functions",
        unit="instructions per operation",
        total="all functions",
        shown=1.0,
        heavy=10.0,
        lost="lost_instructions",
    ),
)
