"""The recorder's output: its summary, the tree of call chains, and the allocations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import msgspec

from bigiron import compile
from bigiron.analysis import kernel_functions
from bigiron.analysis.lines import conflicts
from bigiron.architectures import Architecture
from bigiron.errors import MachineError
from bigiron.introspect.allocation_log import Allocation
from bigiron.introspect.memory import GuestRam, KernelMemory
from bigiron.introspect.mm.structs import WORD
from bigiron.introspect.symbolize import Objects
from bigiron.introspect.symbols import SymbolTable
from bigiron.machines.messages import Message
from bigiron.probes import metrics
from bigiron.probes.probe import RawOutput
from bigiron.util import decode
from bigiron.util.lazy import DType
from bigiron.util.lazy import numpy as np
from bigiron.util.lazy import polars as pl

_IMAGE_ALIGNED = 2 << 20  # bytes


class TracedTask(msgspec.Struct):
    """A task whose operations the recorder traced."""

    stack: int  # its address
    operations: int
    left_out: int  # of the sample, for which there was no room
    cut: int  # that were lost sight of


class RecordedProgram(msgspec.Struct):
    """What the recorder counted of a program, in all of its recorded parts."""

    parts: int  # 0: none began
    windows: int  # a cache line is shared if several CPUs access it in the same one
    lost_windows: int  # in which the recorder had no room to find out
    instructions: dict[str, int]  # by context, among them `user`: in user mode
    system_calls: dict[int, int]  # entered, by number
    other_system_calls: int  # entered by 32-bit programs, or without a number that Linux has

    @property
    def all_system_calls(self) -> int:
        """How many system calls were entered."""
        return sum(self.system_calls.values()) + self.other_system_calls


class Recording(msgspec.Struct):
    """recording.json, which the recorder writes last."""

    operations: list[int]  # recorded, of each task
    entries: int  # of interrupts that were found: 0 means that contexts are not distinguished
    stack_bytes: int  # of a kernel stack; 0: it was not found
    per_cpu_offsets: list[int]
    accesses: dict[str, int]  # all of them, shared or not, by context
    stack_accesses: dict[str, int]  # to a task's stack by another CPU: left out of the table
    instructions: dict[str, int]  # by context
    unreleased: int  # locks whose release was not seen
    traces: list[TracedTask]  # of each task, where they were recorded
    lost: dict[str, int]  # what found no room, by name
    time_slice_instructions: int = 0  # of a CPU, that end its time slice; 0: they end otherwise
    program: RecordedProgram | None = None  # None: a workload's operations were recorded

    @property
    def losses(self) -> dict[str, int]:
        """The numbers of events that it had to leave out (`ProbeTable.lost`)."""
        lost = dict(self.lost)
        if self.program:
            lost |= {
                "windows": self.program.lost_windows,
                "time_slices": int(not self.time_slice_instructions),
            }
        known = {what: lost.get(name, 0) for name, what in _LOSSES.items()}
        return known | {"acquisitions of locks, whose release was not seen": self.unreleased}


_LOSSES = {
    "accesses": "accesses to memory, for which the recorder had no room",
    "instructions": "instructions, for which the recorder had no room",
    "acquisitions": "acquisitions of locks, for which the recorder had no room",
    "held_locks": "locks held at once, beyond those that the recorder follows",
    "calls": "calls too deep for the recorder: what they do counts for their callers",
    "chains": "chains of calls, for which the recorder had no room: what they do counts for their callers",
    "stacks": "kernel stacks, for which the recorder had no room",
    "nested_interrupts": "interrupts, nested deeper than the recorder follows",
    "allocations": "allocations, for which the recorder had no room: their objects lack a name",
    "pages": "pages of user memory, for which the recorder had no room: what lies there lacks a name",
    "traced_accesses": "accesses in traces, for whose lines the recorder had no room",
    "symbols": "parts of the kernel's table of symbols, which could not be read",
    "functions": "functions of the kernel, for which the recorder had no room",
    "entry_points": "entry points of the kernel, for which the recorder had no room",
    "lock_functions": "functions that take locks, for which the recorder had no room",
    "unseen": "instructions that copy or set memory, whose accesses the emulator does not report",
    "time_slices": "recordings with time slices by instructions: QEMU lacks cpu_exit, so they end by time",
    "windows": "windows of a program, for whose cache lines the recorder had no room",
}
"""By the recorder's names (docs/contributing/recorder-protocol.md)."""


def read_recording(results: Path) -> Recording:
    """The recorder's summary; MachineError if there is none, or if it could not distinguish contexts."""
    try:
        recording = decode.from_json((results / "recording.json").read_bytes(), Recording)
    except (OSError, msgspec.DecodeError) as error:
        raise MachineError(f"the recorder's result is incomplete ({error}): is the disk full?") from None
    if not recording.entries:
        raise MachineError("the kernel has no symbols of its entry points: is it older than 5.8?")
    if not recording.stack_bytes:
        raise MachineError("the recorder could not determine the size of the kernel's stacks")
    return recording


class RecordedCell:
    """What the recorder and the machine left of a cell. MachineError if it is incomplete."""

    def __init__(self, raw: RawOutput) -> None:
        self._raw = raw
        self.recording = read_recording(raw.results)
        self.symbols = SymbolTable.read(raw.results / "kallsyms")
        self.chains = Chains(raw.results, self.symbols)

    @cached_property
    def operations(self) -> dict[str, object]:
        """Facts of each table: the recorded operations of each task; those of a program, and what one is."""
        if not self._raw.request.command:
            return {"operations": self.recording.operations}
        return dict(program_operations(self._raw, self.recording))

    @cached_property
    def objects(self) -> Objects:
        """The objects in the machine's memory."""
        raw = self._raw
        if raw.ram is None:
            raise MachineError("the machine's memory was not kept")
        return objects_in(
            raw.ram, raw.architecture, raw.messages, raw.results, self.symbols, self.recording, self.chains
        )


PER_SYSTEM_CALL, PER_INSTRUCTION = "system-call", "instruction"
_MILLION = 1_000_000
_ENDS = ("exit", "exit_group")
_AGENT_CALLS = 1  # that are recorded when it begins a part, before its stack is known
_EXIT_INSTRUCTIONS = 10_000  # at least what libc executes after its last write

_LINES, _OTHER_LINES = "lines", "other_lines"  # the files of shared cache lines, and of the rest


def program_operations(raw: RawOutput, recording: Recording) -> Iterator[tuple[str, object]]:
    """What a program's counts are divided by, and what else is known of its recorded part.

    MachineError if the program failed or did no operation.
    """
    program, request = recording.program, raw.request
    output = metrics.output_of(raw.messages)
    if program is None:
        raise MachineError("the recorder did not record a program")
    if not program.parts:
        raise MachineError("the program marked no part: it must run `bigiron-mark begin`", output.tail)
    if request.begin_at and _only_ends(program, raw.architecture):
        raise MachineError(
            f"the line that matches '{request.begin_at}' came too late, as programs hold back what they "
            "print to a pipe: let this one flush it, run it by stdbuf -oL, or use --warm-up or --marked",
            output.tail,
        )
    number: float
    if not request.per:
        number, operation = metrics.operations_in(output, request)
    elif request.per == PER_SYSTEM_CALL:
        number, operation = program.all_system_calls, "system call"
    elif request.per == PER_INSTRUCTION:
        # Those in the kernel are what is compared.
        number, operation = program.instructions["user"] / _MILLION, "million user-mode instructions"
    else:
        calls = compile.system_calls(raw.architecture.compiler)
        number, operation = program.system_calls.get(calls[request.per], 0), request.per
    if not number:
        raise MachineError(f"the program's recorded part has no {operation}: give another --per", output.tail)
    yield "operations", [number]
    yield "operation", operation
    yield "system_calls", program.all_system_calls
    yield "user_instructions", program.instructions["user"]


def _only_ends(program: RecordedProgram, architecture: Architecture) -> bool:
    """Whether only the program's end was recorded: just before it, libc writes what it has held back."""
    calls = compile.system_calls(architecture.compiler)
    others = program.all_system_calls - sum(program.system_calls.get(calls[end], 0) for end in _ENDS)
    return others <= _AGENT_CALLS and program.instructions["user"] < _EXIT_INSTRUCTIONS


def recorded(raw: RawOutput) -> RecordedCell:
    """Shared by all probes of a cell: finding the objects takes most of the time of making tables."""
    if "recorded" not in raw.read:
        raw.read["recorded"] = RecordedCell(raw)
    found: RecordedCell = raw.read["recorded"]
    return found


def objects_in(
    ram: GuestRam,
    architecture: Architecture,
    messages: Sequence[Message],
    results: Path,
    symbols: SymbolTable,
    recording: Recording,
    chains: Chains,
) -> Objects:
    """The same of a machine that no probe asked for."""
    hello = next(message.content for message in messages if message.type == "hello")
    architecture = architecture.with_pages_of(hello["page_bytes"])
    memory = KernelMemory.of(ram, architecture, symbols)
    end_of_map = memory.read(symbols.address("high_memory") or 0, WORD) or b""
    architecture = architecture.with_map_below(int.from_bytes(end_of_map, "little"))
    architecture = architecture.with_image_at(
        (symbols.address("_stext") or 0) & -_IMAGE_ALIGNED, memory.physical
    )
    allocations = read_allocations(results, chains)
    return Objects(memory, symbols, recording.per_cpu_offsets, architecture, allocations)


def read_shared_lines(results: Path) -> pl.DataFrame:
    """The recorder's counts of shared cache lines, by CPU, context, instruction and chain of calls."""
    counts = _read_lines(results / _LINES)
    if not (results / _OTHER_LINES).exists():
        return counts
    of_one = ("line", "pc", "chain", "cpu", "context")
    return counts.group_by(of_one).agg(pl.col("bytes").bitwise_or(), pl.col("reads", "writes").sum())


def read_all_lines(results: Path) -> pl.DataFrame:
    """The same of all cache lines, and apart for other bytes. Only the probe layout has them recorded."""
    return pl.concat([_read_lines(results / _LINES), _read_lines(results / _OTHER_LINES)])


def _read_lines(file: Path) -> pl.DataFrame:
    """The recorder's rows: `struct line_row` of plugin/cache_lines/lines.h."""
    columns = {
        "line": "<u8",
        "pc": "<u8",
        "bytes": "<u8",
        "chain": "<u4",
        "reads": "<u4",
        "writes": "<u4",
        "cpu": "<u2",
        "context": "<u2",
    }
    row = np.dtype(list(columns.items()))
    try:
        written = file.read_bytes()
    except OSError as error:
        raise MachineError(f"the recorder's file of cache lines cannot be read: {error}") from None
    if len(written) % row.itemsize:
        raise MachineError(
            f"the recorder's file of lines ends within a record ({len(written)} bytes): is the disk full?"
        )
    rows = np.frombuffer(written, row)
    counts = pl.DataFrame({column: np.ascontiguousarray(rows[column]) for column in columns})
    return counts.with_columns(context=pl.Series(conflicts.CONTEXTS).gather(counts["context"]))


def touched_bytes(mask: int) -> tuple[int, int]:
    """The first accessed byte of a block, and the number of consecutive bytes.

    >>> touched_bytes(0b1111000)
    (3, 4)
    """
    first = (mask & -mask).bit_length() - 1
    rest = ~(mask >> first)
    return first, (rest & -rest).bit_length() - 1


def hexadecimal(column: str) -> pl.Expr:
    """A column of hexadecimal numbers such as 0x1f."""
    return pl.col(column).str.strip_prefix("0x").str.to_integer(base=16, dtype=pl.UInt64)


def resolve_symbols(
    keys: pl.Series, look_up: Callable[[Any], tuple[Any, ...]], **columns: DType
) -> Iterator[pl.Series]:
    """Columns with the result of a look-up of each row's key. Each distinct key is looked up once."""
    there = keys.unique()
    answers = [look_up(key) for key in there]
    for place, (name, kind) in enumerate(columns.items()):
        yield keys.replace_strict(there, [answer[place] for answer in answers], return_dtype=kind).alias(name)


class Chains:
    """The recorded call chains, by number."""

    def __init__(self, results: Path, symbols: SymbolTable) -> None:
        tree = pl.read_csv(results / "chains.csv", schema_overrides={"pc": pl.String})
        self._chains = {chain: (parent, int(pc, 16)) for chain, parent, pc in tree.iter_rows()}
        self._names: dict[int, str] = {0: ""}
        self._call = cache(symbols.lookup)

    def path(self, chain: int) -> str:
        """The functions of a chain, outermost first, separated by `;`."""
        if chain not in self._names:
            parent, pc = self._chains[chain]
            above, (function, _) = self.path(parent), self._call(pc)
            self._names[chain] = f"{above};{function}" if above else function
        return self._names[chain]

    def calls(self, chain: int) -> Iterator[tuple[str, int]]:
        """The calls of a chain, innermost first: the function and the offset of each."""
        while chain:
            chain, pc = self._chains[chain]
            yield self._call(pc)


def read_allocations(results: Path, chains: Chains) -> list[Allocation]:
    """The objects that were allocated while the recorder watched, the last at each address."""
    table = pl.read_csv(
        results / "allocations.csv", schema_overrides={"address": pl.String, "asked": pl.String}
    )

    @cache
    def site(chain: int) -> str:
        calls = (
            (f, offset)
            for f, offset in chains.calls(chain)
            if not kernel_functions.ALLOCATING_FOR_CALLER.match(f)
        )
        function, offset = next(calls, ("", 0))
        return f"{function}+{offset:#x}" if function else ""

    return [
        Allocation(int(address, 16), int(asked, 16), site(chain))
        for address, chain, asked in table.iter_rows()
    ]
