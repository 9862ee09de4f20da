"""What the recorder leaves behind: its summary, the kernel's symbols, and the tree of call chains."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec
import polars as pl

from bigiron.errors import MachineError
from bigiron.kernels.symbols import SymbolTable


class Recording(msgspec.Struct):
    """recording.json, which the recorder writes last."""

    operations: list[int]  # recorded, of each task
    lost: int  # accesses for which no table had room
    entries: int  # of the kernel's entry points that were found: 0 means that contexts are not told apart
    per_cpu_offsets: list[int]
    accesses: dict[str, int]  # all of them, shared or not, by context
    stack_accesses: dict[str, int]  # to a task's stack by another CPU: left out of the table
    instructions: dict[str, int]  # by context
    lost_instructions: int


def read_recording(results: Path) -> Recording:
    """The recorder's summary; MachineError if it left none, or could not tell contexts apart."""
    try:
        recording = msgspec.json.decode((results / "recording.json").read_bytes(), type=Recording)
    except (OSError, msgspec.DecodeError) as error:
        raise MachineError(f"the recorder left no whole result ({error}): is the disk full?") from None
    if not recording.entries:
        raise MachineError("the kernel has no symbols of its entry points: is it older than 5.8?")
    return recording


def chain_folder(results: Path, symbols: SymbolTable) -> Callable[[int], str]:
    """A function from a chain's number to its functions, outermost first, with `;` between them."""
    tree = pl.read_csv(results / "chains.csv", schema_overrides={"pc": pl.String})
    chains = {chain: (parent, int(pc, 16)) for chain, parent, pc in tree.iter_rows()}
    names: dict[int, str] = {0: ""}

    @cache
    def function(pc: int) -> str:
        return symbols.lookup(pc)[0]

    def fold(chain: int) -> str:
        if chain not in names:
            parent, pc = chains[chain]
            above = fold(parent)
            names[chain] = f"{above};{function(pc)}" if above else function(pc)
        return names[chain]

    return fold
