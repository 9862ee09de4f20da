"""trace: what sampled operations of each task do, in order (docs/reference/trace.md).

Recorded by the QEMU plugin in plugin/, for a sample of the same operations as conflicts and locks. It has
the same shared cache lines as conflicts, and the same acquisitions and releases as locks.
"""

from __future__ import annotations

from pathlib import Path

from bigiron.analysis.probes import locks
from bigiron.analysis.replay import trace
from bigiron.introspect.symbolize import Objects
from bigiron.introspect.symbols import SymbolTable
from bigiron.probes.locks import check_spinlocks, lock_type, refuse_uncounted_spinlocks
from bigiron.probes.probe import CellRequest, Probe, ProbeTable, RawOutput, StackSource
from bigiron.probes.recording import Recording, hexadecimal, recorded, resolve_symbols
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

_ACCESSES = ("read", "write", "atomic")
_LOCKS = ("lock", "unlock", "downgrade")
_OPERATION = ("task", "operation")


def _job(request: CellRequest) -> list[str]:
    records = [f"record {what}" for what in ("conflicts", "locks", "trace")]
    return ["stay", f"operations {request.operations}", *records]


def _collect(raw: RawOutput) -> ProbeTable:
    found = recorded(raw)
    refuse_uncounted_spinlocks("trace", found.symbols)
    recording = found.recording
    events = _events(raw.results, found.symbols)
    whole = trace.with_locks_in_pairs(trace.without_locking(events))
    unpaired = _operations(events) - _operations(whole)
    lost = [sum(of == task for of, _ in unpaired) for task in range(len(recording.traces))]
    traced = [one.operations - cut for one, cut in zip(recording.traces, lost, strict=True)]
    facts = {
        "operations": traced,
        "left_out": sum(one.left_out for one in recording.traces),
        "cut": sum(one.cut for one in recording.traces) + len(unpaired),
    }
    untraced = {"tasks without a complete operation in the trace": traced.count(0)}
    rows = _named(whole, found.objects, recording, raw.architecture.line_bytes)
    return ProbeTable(rows, facts, {**recording.losses, **untraced})


def _events(results: Path, symbols: SymbolTable) -> pl.DataFrame:
    """The recorder's events, with the function of each."""
    numbers = ("address", "pc")
    counts = dict.fromkeys(("task", "operation", "instructions", "bytes"), pl.UInt64)
    texts = dict.fromkeys(("kind", "lock", *numbers), pl.String)
    events = pl.read_csv(results / "trace.csv", schema_overrides={**counts, **texts})
    events = events.with_columns(hexadecimal(name) for name in numbers)
    return events.with_columns(
        *resolve_symbols(
            events["pc"], lambda pc: (symbols.lookup(pc)[0] if pc else None,), function=pl.String
        )
    )


def _operations(events: pl.DataFrame) -> set[tuple[int, int]]:
    return set(events.select("task", "operation").unique().iter_rows())


def _named(events: pl.DataFrame, objects: Objects, recording: Recording, line_bytes: int) -> pl.DataFrame:
    """The rows of the table, with the objects of the cache lines and the tasks that are woken."""
    is_lock, is_access = pl.col("kind").is_in(_LOCKS), pl.col("kind").is_in(_ACCESSES)
    in_line = is_lock | is_access
    sizes = {name: objects.size(lock_type(name)) for name in events["lock"].drop_nulls().unique()}
    events = events.with_columns(
        length=pl.when(is_lock)
        .then(pl.col("lock").replace_strict(sizes, default=None, return_dtype=pl.Int64))
        .otherwise(pl.col("bytes"))
    )
    places = events.filter(in_line).select("address", "length").unique()
    names = objects.names(places.iter_rows())
    places = places.with_columns(
        object=pl.Series([names[place].name for place in places.iter_rows()], dtype=pl.String)
    )
    woken = _tasks(events.filter(kind="wake")["address"].unique(), objects, recording)
    has_bytes = is_access | pl.col("kind").is_in(["fill", "copy"])
    return (
        events.join(places, on=["address", "length"], how="left", maintain_order="left")
        .with_columns(
            sequence=pl.int_range(pl.len()).over(_OPERATION),
            line=pl.when(in_line).then(pl.col("address") // line_bytes),
            offset=pl.when(in_line).then(pl.col("address") % line_bytes),
            bytes=pl.when(has_bytes).then(pl.col("bytes")),
            access=pl.when(is_access).then(pl.col("kind")),
            kind=pl.when(is_access).then(pl.lit("access")).otherwise(pl.col("kind")),
            object=pl.when(in_line).then(pl.col("object")),
            lock=pl.col("lock").map_elements(locks.lock_function, pl.String),
            target=pl.when(kind="wake")
            .then(pl.col("address").replace_strict(woken, default=None, return_dtype=pl.UInt32))
            .when(pl.col("kind").is_in(["ipi", "tlbi"]))
            .then(pl.col("bytes")),
        )
        .select(pl.col(name).cast(kind) for name, kind in trace.SCHEMA.items())
    )


def _tasks(woken: pl.Series, objects: Objects, recording: Recording) -> dict[int, int | None]:
    """The numbers of the workload's tasks among those that were woken, by their task_structs."""
    of_stack = {one.stack: task for task, one in enumerate(recording.traces) if one.stack}
    return {address: of_stack.get(objects.stack_of(address)) for address in woken}


PROBE = Probe(
    name="trace",
    description="what sampled operations do, in order: shared cache lines, locks, instructions between them",
    columns=Schema(lambda: trace.SCHEMA),
    units={"instructions": "instructions"},
    measures=("unbounded",),
    job=_job,
    collect=_collect,
    needs_recorder=True,
    by_default="vm",
    only_on=("x86_64",),
    if_asked_on=("aarch64",),
    check_kernel=check_spinlocks("trace"),
    stacks=StackSource(
        lambda table, done, contexts: trace.stacks(table, done, contexts),
        "events of traced operations",
        ("events",),
        ("function", "event"),
    ),
)
