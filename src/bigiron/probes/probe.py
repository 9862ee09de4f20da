"""What every probe has: how it is armed, and how its raw output becomes a table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl

from bigiron.introspect.memory import GuestRam
from bigiron.machines.architecture import Architecture
from bigiron.machines.messages import Message


@dataclass(frozen=True)
class CellRequest:
    """What a cell asks of its probes."""

    cpus: int
    tasks: int
    operations: int
    mode: Literal["process", "thread"]
    scope: Literal["kernel", "user"]
    functions: tuple[str, ...] = ()  # to trace, with what they call down to `depth`
    depth: int = 1
    files_at: str = "/"  # where the agent finds files that are not its own
    in_vm: bool = True  # each CPU has its turn on one of the host's
    blocked_min_us: int = 0  # shorter times are not counted
    blocked_states: str = ""  # letters of the only states that are; "" for all
    blocked_user: bool = False  # with stacks in user space
    command: tuple[str, ...] = ()  # to run, and the metric to read in what it prints
    metric: str = ""
    unit: str = ""
    less_is_better: bool = False


@dataclass(frozen=True)
class RawOutput:
    """What the machine left: the agent's messages, the recorder's files in `results`, its memory."""

    messages: list[Message]
    results: Path
    architecture: Architecture
    agent: Path  # the program that ran
    request: CellRequest
    ram: GuestRam | None = None


@dataclass(frozen=True)
class Table:
    """A probe's result: one row a finding (docs/schema.md), and facts that hold for the whole cell."""

    rows: pl.DataFrame
    facts: Mapping[str, object] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    """What should be in the rows and is not, and why: how many of each (docs/schema.md, cell.json)."""


@dataclass(frozen=True)
class Probe:
    """A probe: the lines it adds to the agent's job, and how it reads what came back."""

    name: str
    description: str
    needs_recorder: bool
    job: Callable[[CellRequest], list[str]]
    collect: Callable[[RawOutput], Table]
    needs_bpf: bool = False
