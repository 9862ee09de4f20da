"""conflicts: which instruction on which CPU touched a cache line that several CPUs share, and how often.

Recorded by the QEMU plugin in plugin/, only between the agent's marks and only for a fixed number of each
task's operations: counts have no noise of the host's.
"""

from collections.abc import Callable
from functools import cache

import polars as pl

from bigiron.kernels.symbols import SymbolTable
from bigiron.machines.architecture import Architecture
from bigiron.probes.probe import Ask, Probe, Raw, Table
from bigiron.probes.recording import Recording, chain_folder, read_recording

SCHEMA = {
    "cpu": pl.UInt32,
    "context": pl.String,  # operation, interrupt or kthread: on whose behalf the kernel ran
    "line": pl.UInt64,  # address of the cache line
    "address": pl.UInt64,  # lowest byte in it that this instruction touched
    "bytes": pl.UInt64,  # a bit for each byte touched of the 64-byte block that holds `address`
    "object": pl.String,  # what lies at `address`: symbol+offset, per-CPU variable, or class of address
    "pc": pl.UInt64,  # address of the instruction
    "function": pl.String,
    "offset": pl.UInt32,  # of the instruction in the function
    "path": pl.String,  # functions whose calls led there, outermost first: "do_syscall_64;__x64_sys_openat"
    "reads": pl.UInt64,
    "writes": pl.UInt64,
}


def _job(ask: Ask) -> list[str]:
    return ["symbols", f"operations {ask.operations}", "record conflicts"]


def _collect(raw: Raw) -> Table:
    recording = read_recording(raw.results)
    symbols = SymbolTable.read(raw.results / "kallsyms")
    name_object = _object_namer(symbols, recording.per_cpu_offsets, raw.architecture)
    path = chain_folder(raw.results, symbols)
    counts = pl.read_csv(raw.results / "lines.csv", schema_overrides={"line": pl.String})
    rows = []
    for cpu, context, block_hex, pc_hex, chain, reads, writes, mask_hex in counts.iter_rows():
        block, pc, mask = int(block_hex, 16), int(pc_hex, 16), int(mask_hex, 16)
        line = block - block % raw.architecture.line_bytes
        address = block + (mask & -mask).bit_length() - 1
        function, offset = symbols.lookup(pc)
        where = (line, address, mask, name_object(address))
        rows.append((cpu, context, *where, pc, function, offset, path(chain), reads, writes))
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return Table(frame.sort("line", "cpu", "context", "pc"), _facts(recording))


def _facts(recording: Recording) -> dict[str, object]:
    return {
        "operations": recording.operations,
        "lost_accesses": recording.lost,
        "accesses": recording.accesses,
        "stack_accesses": recording.stack_accesses,
    }


def _object_namer(
    symbols: SymbolTable, per_cpu_offsets: list[int], architecture: Architecture
) -> Callable[[int], str]:
    @cache
    def name(address: int) -> str:
        if variable := symbols.lookup_per_cpu(address, per_cpu_offsets):
            symbol, offset, cpu = variable
            return f"{symbol}+{offset:#x} of CPU {cpu}"
        kind = architecture.class_of(address)
        symbol, offset = symbols.lookup(address)
        return f"{symbol}+{offset:#x}" if kind in ("kernel image", "module") and symbol else kind

    return name


PROBE = Probe(
    name="conflicts",
    description="cache lines that several CPUs share and one writes: by whom, where, how often",
    needs_recorder=True,
    job=_job,
    collect=_collect,
)
