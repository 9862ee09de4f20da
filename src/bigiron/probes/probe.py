"""The definition of a probe: one record, over which everything else iterates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from bigiron.architectures import Architecture
from bigiron.introspect.memory import GuestRam
from bigiron.kernels.kernel import Kernel
from bigiron.machines.messages import Message
from bigiron.probes.options import AllProbeOptions, ProbeOptions
from bigiron.util.lazy import DType
from bigiron.util.lazy import polars as pl

if TYPE_CHECKING:
    from bigiron.analysis.comparison import model
    from bigiron.analysis.comparison.model import Measurements, ProbedCell
    from bigiron.analysis.statistics.growth import CountSeries
    from bigiron.util.numbers import Better

Contexts: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class CellRequest:
    """What a probe needs to know of a cell before it runs."""

    cpus: int
    tasks: int
    operations: int
    mode: Literal["process", "thread"]
    options: AllProbeOptions = field(default_factory=AllProbeOptions)
    files_at: str = "/"  # where the agent finds files that are not its own
    in_vm: bool = True  # each CPU has its turn on one of the host's
    slow_clock: bool = False  # the machine's clock follows instructions: a second of it takes minutes
    command: tuple[str, ...] = ()  # to run instead of a workload
    per: str = ""  # what counts of a program are divided by; empty: the operations that its metric reads
    begin_at: str = ""  # what the line of a program's output matches at which its recorded part begins


@dataclass(frozen=True)
class RawOutput:
    """The output of a machine: the agent's messages, the recorder's files in `results`, the memory."""

    messages: list[Message]
    results: Path
    architecture: Architecture
    agent: Path  # the program that ran
    request: CellRequest
    ram: GuestRam | None = None
    read: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What was read of it, by the name of what it is: several probes of a cell want the same."""


@dataclass(frozen=True)
class ProbeTable:
    """A probe's result: a table (docs/reference/schema.md), and facts that hold for the whole cell."""

    rows: pl.DataFrame
    facts: Mapping[str, object] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    """How many of each are missing from the rows, by reason (docs/reference/schema.md, cell.json)."""
    more: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Further tables, kept as NAME of the probe, `_` and their own."""


@dataclass(frozen=True)
class StackSource:
    """How to make stacks of a probe's table, and their weights. The first weight is the default."""

    stacks: Callable[[pl.DataFrame, float, Contexts], pl.DataFrame]
    """Of a table and the operations recorded: `context`, the frames, and a column WEIGHT_per_op for each."""
    what: str
    weights: tuple[str, ...]
    frames: tuple[str, ...]  # columns of a stack, outermost first
    unit: Callable[[Mapping[str, Any]], str] = lambda _facts: ""
    """What `{unit}` in `what` stands for in a cell with these facts."""


@dataclass(frozen=True)
class GrowthSource:
    """The counts of a probe that may grow with the number of CPUs."""

    series: Callable[[Mapping[int, Sequence[ProbedCell]], Contexts], tuple[list[CountSeries], CountSeries]]
    """From the cells of each number of CPUs: of each thing, and of all of them."""
    thing: str
    what: str
    unit: str
    total: str  # what all of them are called
    shown: float  # that a series must reach to be in text and Markdown
    heavy: float  # from which one that does not grow is named
    lost: str = ""  # the fact that tells how many no table had room for


@dataclass(frozen=True)
class Metric:
    """The metrics of a probe that have noise: they are compared by verdicts."""

    name: str
    unit: str
    better: Better


MetricSamples: TypeAlias = Iterator[tuple[Metric, tuple[float, ...]]]


WorkloadKind = Literal["unbounded", "bounded", "command", "program"]
"""Tasks that go on for ever; a round of operations, as of CPU hotplug; an external command on a real machine,
or in a virtual one."""


@dataclass(frozen=True)
class Probe:
    """A probe: its request to the agent, how it reads the results, and which reports they allow.

    A module of this package that has one as `PROBE` is found by itself. Functions of `bigiron.analysis` are
    called in lambdas, so that a command that only measures does not import it.
    """

    name: str
    description: str
    columns: Mapping[str, DType]  # of its table (docs/reference/schema.md)
    job: Callable[[CellRequest], list[str]]
    collect: Callable[[RawOutput], ProbeTable]
    units: Mapping[str, str] = field(default_factory=dict)  # of those columns that have one
    options: type[ProbeOptions] | None = None
    measures: tuple[WorkloadKind, ...] = ("unbounded", "bounded")
    measures_time: bool = False
    """Whether cells run alone and variants alternate: machines side by side take each other's time."""
    changes_code: bool = False
    """Whether the kernel changes its own code for it, while its CPUs run."""
    lasts_seconds: bool = False
    """Whether it measures for so long by the machine's clock, and not for so many operations."""
    needs_recorder: bool = False
    needs_bpf: bool = False
    only_on: tuple[str, ...] = ()
    """The architectures that it knows; all unless given."""
    if_asked_on: tuple[str, ...] = ()
    """Others, of some of whose kernels it can measure all: it is not recorded by default."""
    check_kernel: Callable[[Kernel], None] | None = None
    """UserError for a kernel that it cannot measure, as far as the image tells before it boots."""
    by_default: Literal["vm", "real", ""] = ""
    """The machines on which it is recorded by default: virtual, real, or none."""
    compare: Callable[[Measurements, model.Options], model.Comparison] | None = None
    """Variants side by side; without it, by function of its stacks."""
    has_verdicts: bool = False
    """Whether its comparison says which counts differ by more than boots of one kernel do."""
    stacks: StackSource | None = None
    growth: GrowthSource | None = None
    samples: Callable[[pl.DataFrame], MetricSamples] | None = None
    """The metrics in its table, each with its samples in that cell."""

    @property
    def is_comparable(self) -> bool:
        """Whether `compare` and `report` have a table of it."""
        return bool(self.compare or self.stacks or self.samples)
