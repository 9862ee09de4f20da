"""conflicts: which instructions on which CPUs access a cache line that several CPUs share, and how often.

Recorded by the QEMU plugin in plugin/, only between the agent's marks and only for a fixed number of each
task's operations, so they do not contain the host's noise.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import typer

from bigiron import compile
from bigiron.analysis.lines import conflicts, line_growth, matching, shared_lines
from bigiron.introspect.mm.pages import PageUse
from bigiron.introspect.symbolize import Objects, Symbolized
from bigiron.introspect.symbols import SymbolTable
from bigiron.probes.options import ProbeOptions
from bigiron.probes.probe import CellRequest, GrowthSource, Probe, ProbeTable, RawOutput, StackSource
from bigiron.probes.recording import (
    Recording,
    read_shared_lines,
    recorded,
    resolve_symbols,
    touched_bytes,
)
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl
from bigiron.util.object_name import IN_PAGE_CACHE, ObjectName
from bigiron.workloads.user_memory import UserMemory, read_pages

_MAPS = "/proc/self/maps"
_PRIVATE = ""

SCHEMA = Schema(
    lambda: {
        "cpu": pl.UInt32,
        "context": pl.String,  # process, interrupt or kthread: on whose behalf the kernel ran
        "line": pl.UInt64,  # address of the cache line; of user memory the physical one
        "address": pl.UInt64,  # lowest byte in it that this instruction touched
        "bytes": pl.UInt64,  # a bit for each byte touched of the 64-byte block that holds `address`
        "object": pl.String,  # what lies at `address` (docs/reference/schema.md)
        "types": pl.String,  # of the structs that hold it, outermost first, and its own: "dentry;lockref;int"
        "start": pl.UInt64,  # where the slab object begins that `address` is in; 0: in none
        "stride": pl.UInt32,  # bytes from that object to the next one of its slab
        "pc": pl.UInt64,  # address of the instruction
        "function": pl.String,
        "offset": pl.UInt32,  # of the instruction in the function
        "path": pl.String,  # functions whose calls led there, outermost first: "do_syscall_64;do_sys_openat2"
        "reads": pl.UInt64,
        "writes": pl.UInt64,
    }
)


class ConflictsOptions(ProbeOptions, frozen=True, kw_only=True):
    """Whether user memory is recorded as well as the kernel's."""

    WRONG_PROBE_MESSAGE: ClassVar[str] = "scope user is an option of the probe conflicts: add it with --probe"

    scope: Annotated[
        Literal["kernel", "user"],
        typer.Option(help="count conflicts in kernel memory only, or in user memory too"),
    ] = "kernel"


def _job(request: CellRequest) -> list[str]:
    user = ["record user", f"read {_MAPS}"] if request.options[ConflictsOptions].scope == "user" else []
    return ["stay", f"operations {request.operations}", "record conflicts", *user]


def _collect(raw: RawOutput) -> ProbeTable:
    left = recorded(raw)
    recording, symbols, chains = left.recording, left.symbols, left.chains
    user = _user_memory(raw)

    def lookup(pc: int) -> tuple[str, int]:
        return (symbols if pc >= raw.architecture.kernel_start else user).lookup(pc)

    counts = read_shared_lines(raw.results)
    counts = counts.with_columns(
        *resolve_symbols(counts["bytes"], touched_bytes, first=pl.UInt64, length=pl.UInt64),
        *resolve_symbols(counts["pc"], lookup, function=pl.String, offset=pl.UInt32),
        *resolve_symbols(counts["chain"], lambda chain: (chains.path(chain),), path=pl.String),
    ).with_columns(
        address=pl.col("line") + pl.col("first"),
        line=pl.col("line") - pl.col("line") % raw.architecture.line_bytes,
    )
    places = _named(counts.select("address", "length").unique(), raw.request, user, left.objects)
    frame = counts.join(places, on=["address", "length"]).select(
        pl.col(name).cast(kind) for name, kind in SCHEMA.items()
    )
    private = pl.col("object") == _PRIVATE
    facts = (
        left.operations
        | _facts(recording)
        | {
            "line_bytes": raw.architecture.line_bytes,
            "pair_bytes": conflicts.PAIR_BYTES,
            "private_accesses": int(frame.filter(private)[["reads", "writes"]].sum_horizontal().sum()),
        }
    )
    return ProbeTable(frame.filter(~private).sort("line", "cpu", "context", "pc"), facts, recording.losses)


def _named(places: pl.DataFrame, request: CellRequest, user: UserMemory, objects: Objects) -> pl.DataFrame:
    """The addresses with the object and the types at each of them."""
    in_files, others = _in_files(places, objects)
    rows = others.rows()
    wanted = set(rows)
    in_user = {place for place in wanted if place[0] in user}
    names = objects.names(wanted - in_user)
    names |= {
        place: Symbolized(ObjectName.parse(_user_name(place[0], request, user, objects))) for place in in_user
    }
    found = [names[place] for place in rows]
    others = others.with_columns(
        object=pl.Series([named.name for named in found], dtype=pl.String),
        types=pl.Series([named.types for named in found], dtype=pl.String),
        start=pl.Series([named.start for named in found], dtype=pl.UInt64),
        stride=pl.Series([named.stride for named in found], dtype=pl.UInt32),
    )
    return pl.concat([others, in_files])


def _in_files(places: pl.DataFrame, objects: Objects) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The places in files' pages, which have no types, with their names; and all others.

    One study of a file system had 1.7 million of them, so the file is looked up once per page.
    """
    places = places.with_columns(page=pl.col("address") // objects.page_bytes * objects.page_bytes)
    pages = places["page"].unique()
    files = pl.DataFrame(
        [pages, pl.Series("file", [objects.cached_in(page) for page in pages], dtype=pl.String)]
    ).drop_nulls()
    in_files = places.join(files, on="page")
    offsets = pl.Series([hex(offset) for offset in range(objects.page_bytes)])
    in_files = in_files.with_columns(offset=offsets.gather(in_files["address"] - in_files["page"])).select(
        "address",
        "length",
        object=pl.format(IN_PAGE_CACHE, "offset", "file"),
        types=pl.lit(""),
        start=pl.lit(0, pl.UInt64),
        stride=pl.lit(0, pl.UInt32),
    )
    return in_files, places.join(files, on="page", how="anti").drop("page")


def _user_memory(raw: RawOutput) -> UserMemory:
    """The tasks' own memory; without a page where only the kernel's is recorded."""
    if raw.request.options[ConflictsOptions].scope == "kernel":
        return UserMemory(SymbolTable(""), [], {})
    files = (message.content for message in raw.messages if message.type == "file")
    maps = [line for file in files if file["path"] == _MAPS for line in file["lines"]]
    symbols = compile.symbols(raw.agent)
    return UserMemory(SymbolTable(symbols), maps, read_pages(raw.results / "pages.csv"))


def _user_name(physical: int, request: CellRequest, user: UserMemory, objects: Objects) -> str:
    """The object at an address of user memory; _PRIVATE if only one task at a time had its page.

    Such a page was freed by one and given to another. Anonymous memory is shared by threads only, and has one
    address then; the pages of a file or a shared mapping are shared by all processes that map it.
    """
    use = objects.use_of(physical)
    if use is PageUse.FREE or (
        use is PageUse.ANONYMOUS and (request.mode == "process" or user.has_moved(physical))
    ):
        return _PRIVATE
    return user.name(physical)


def _facts(recording: Recording) -> dict[str, object]:
    return {
        "lost_accesses": recording.lost["accesses"],
        "accesses": recording.accesses,
        "stack_accesses": recording.stack_accesses,
    }


PROBE = Probe(
    name="conflicts",
    description="cache lines that several CPUs access and at least one writes: functions, objects, counts",
    columns=SCHEMA,
    units={"reads": "accesses", "writes": "accesses"},
    options=ConflictsOptions,
    job=_job,
    collect=_collect,
    needs_recorder=True,
    measures=("unbounded", "bounded", "program"),
    by_default="vm",
    compare=lambda read, options: shared_lines.compare(read, options),
    has_verdicts=True,
    stacks=StackSource(
        lambda table, done, contexts: conflicts.stacks(table, done, contexts),
        "accesses to shared cache lines",
        ("accesses", "writes"),
        ("path", "object"),
    ),
    growth=GrowthSource(
        lambda cells, contexts: line_growth.series(cells, contexts),
        thing="shared cache line",
        what="accesses per operation to shared cache lines",
        unit="accesses per operation",
        total="all shared cache lines",
        shown=matching.TOLERANCE,
        heavy=0.5,
        lost="lost_accesses",
    ),
)
