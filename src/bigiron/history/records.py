"""What a history's database holds: one class a table, one field a column (docs/history.md).

Counts are per operation, and means of a point's repetitions where there are several.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a table."""

    TABLE: ClassVar[str]
    INDEX: ClassVar[tuple[str, ...]] = ()
    """Columns by which rows are looked for."""
    UNIQUE: ClassVar[tuple[str, ...]] = ()
    """Columns besides `id` in which no two rows are the same."""
    NAMES: ClassVar[Mapping[str, str]] = {}
    """Columns that hold the `id` of a row of another table, and which."""


class Kernel(Record, frozen=True, kw_only=True):
    """A kernel that was measured."""

    TABLE: ClassVar[str] = "kernel"
    UNIQUE: ClassVar[tuple[str, ...]] = ("name",)

    id: int
    name: str
    """What a user types: debian/6.1."""
    release: str
    version: str
    """Of its package; "": not known."""
    architecture: str
    sha256: str
    """Of the image, and so of its configuration too."""
    position: int
    """Oldest release first, from 0."""


class Workload(Record, frozen=True, kw_only=True):
    """A workload, on one file system."""

    TABLE: ClassVar[str] = "workload"
    UNIQUE: ClassVar[tuple[str, ...]] = ("name",)

    id: int
    name: str
    """`open1`, and `fxmark/DWAL@ext4` on another file system than the machine's own tmpfs."""
    workload: str
    fs: str
    """"": the machine's own tmpfs."""
    description: str
    mode: str
    operations: int
    """That each task does while it is recorded."""


class Identity(Record, frozen=True, kw_only=True):
    """What made a point, besides the kernel: counts of two points are compared only if it is the same."""

    TABLE: ClassVar[str] = "identity"

    id: int
    workload_sha256: str
    recorder: str
    """The hash of its source."""
    qemu: str
    accelerator: str
    architecture: str
    mode: str
    operations: int
    time_slice: str
    clock: str
    """What it followed, and how many times slower it was, if it was: `host, 128 times slower`."""
    memory_mib: int
    sockets: int
    nodes: int
    cores: int
    threads: int
    cgroup: str
    """The control group that tasks run in; `none`: the root group."""
    fs: str
    """With its options, its disk and the version of its mkfs."""

    @property
    def clock_slower(self) -> int:
        """How many times slower the clock was than what it followed."""
        slower = self.clock.partition(", ")[2]
        return int(slower.split()[0]) if slower else 1


class Point(Record, frozen=True, kw_only=True):
    """A workload on a kernel with so many CPUs, measured."""

    TABLE: ClassVar[str] = "point"
    INDEX: ClassVar[tuple[str, ...]] = ("workload", "kernel")
    NAMES: ClassVar[Mapping[str, str]] = {"workload": "workload", "kernel": "kernel", "identity": "identity"}

    id: int
    workload: int
    kernel: int
    cpus: int
    tasks: int
    identity: int
    current: bool
    """Whether no newer recorder, QEMU or machine has measured it again."""
    repetitions: int
    accesses_per_op: float
    """To all lines that several CPUs share, without pairs."""
    writes_per_op: float
    shared_lines: int
    instructions_per_op: float
    """Of the kernel, in the operation's own path."""
    lost: dict[str, int]
    """What should have been counted and was not."""
    measured: str
    """UTC, ISO 8601: the newest of its cells."""
    seconds: float
    """That its cells took, all repetitions together."""
    bigiron: str
    """The version that measured it."""
    cells: list[str]
    """Their folders in the history's."""
    command: str
    """What measures it again, elsewhere."""


class Line(Record, frozen=True, kw_only=True):
    """A cache line that several CPUs share at a point; lines that are alike are added up."""

    TABLE: ClassVar[str] = "line"
    INDEX: ClassVar[tuple[str, ...]] = ("point", "object")
    NAMES: ClassVar[Mapping[str, str]] = {"point": "point"}

    id: int
    point: int
    row: int
    """The same line has the same number in all points of its workload with its CPUs and identity."""
    object: str
    """`struct aa_label.count.count`."""
    kind: str
    """What it is a part of: `struct aa_label`."""
    pair: bool
    """Whether it is two lines that are shared only as one, as an adjacent-line prefetcher has them."""
    accesses_per_op: float
    writes_per_op: float
    least_accesses: float
    """In the repetition that has fewest."""
    most_accesses: float
    least_writes: float
    most_writes: float
    writers: int
    """How many CPUs write it."""
    readers: int
    false_sharing: bool
    sharing: dict[str, str]
    """What kind of sharing it is, and what tells it."""
    functions: dict[str, float]
    """Accesses an operation of those that touch it, hottest first."""


class Chain(Record, frozen=True, kw_only=True):
    """By which calls a line is reached, outermost first, with semicolons."""

    TABLE: ClassVar[str] = "chain"
    INDEX: ClassVar[tuple[str, ...]] = ("point", "line")
    NAMES: ClassVar[Mapping[str, str]] = {"point": "point", "line": "line"}

    point: int
    line: int
    path: str
    accesses_per_op: float


class Lock(Record, frozen=True, kw_only=True):
    """A lock of the kernel that an operation takes at a point."""

    TABLE: ClassVar[str] = "lock"
    INDEX: ClassVar[tuple[str, ...]] = ("point", "name")
    NAMES: ClassVar[Mapping[str, str]] = {"point": "point"}

    point: int
    name: str
    taken_by: str
    """`spin_lock`, `down_read`."""
    acquisitions_per_op: float
    held_per_op: float
    """Instructions."""
    longest: int
    """Instructions of one acquisition."""
    cpus: int
    """The most that take one of them."""
    locks: int
    """How many there are that are called so."""
    taken_in: list[str]
    """Functions, most acquisitions first."""


class Function(Record, frozen=True, kw_only=True):
    """A function's instructions at a point."""

    TABLE: ClassVar[str] = "function"
    INDEX: ClassVar[tuple[str, ...]] = ("point", "function")
    NAMES: ClassVar[Mapping[str, str]] = {"point": "point"}

    point: int
    function: str
    self_per_op: float
    total_per_op: float


class ReferenceCount(Record, frozen=True, kw_only=True):
    """A count of a point that the same kernel has again: what `check --history` holds another one against."""

    TABLE: ClassVar[str] = "held"
    INDEX: ClassVar[tuple[str, ...]] = ("point",)
    NAMES: ClassVar[Mapping[str, str]] = {"point": "point"}

    point: int
    what: Literal["object", "waiting", "instructions", "sleeping"]
    """One object's cache lines; accesses while waiting for locks; all instructions; those while asleep."""
    name: str
    """`struct aa_label`."""
    unit: str
    """`writes`, `accesses`, `instructions`."""
    per_op: float
    least: float
    """In the repetition that has fewest."""
    most: float
    functions: dict[str, float]
    """Accesses an operation of those that touch it, hottest first."""


What = Literal["line", "pair", "lines", "lock", "instructions"]
"""A line, a pair of lines, all shared lines together (without pairs), a lock, all instructions."""
How = Literal["gone", "new", "more", "less"]


class Growth(Record, frozen=True, kw_only=True):
    """How a count grows with the CPUs, of one identity but for the shape."""

    TABLE: ClassVar[str] = "growth"
    INDEX: ClassVar[tuple[str, ...]] = ("workload", "kernel")
    NAMES: ClassVar[Mapping[str, str]] = {"workload": "workload", "kernel": "kernel"}

    workload: int
    kernel: int
    what: What
    name: str
    """Of the line."""
    functions: str
    law: str
    """`constant`, `log N`, `N`, `N log N`, `N^2`; "": none can be told."""
    sure: float
    text: str
    """`2 + N`, or why there is no law."""
    points: dict[str, float]
    """The count at each number of CPUs."""
    predicted: dict[str, tuple[float, float, float]]
    """At other numbers of CPUs: by the law, and the ends of the interval."""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What takes a share of the tasks' time."""

    kind: str
    object: str
    share: float


class Prediction(Record, frozen=True, kw_only=True):
    """What throughput is predicted on a machine, relative to one task."""

    TABLE: ClassVar[str] = "prediction"
    INDEX: ClassVar[tuple[str, ...]] = ("workload", "kernel")
    NAMES: ClassVar[Mapping[str, str]] = {"workload": "workload", "kernel": "kernel", "point": "point"}

    workload: int
    kernel: int
    point: int
    """From whose recording."""
    machine: str
    tasks: int
    relative: float
    low: float
    """90 % of the samples lie between."""
    high: float
    limits: list[Limit]
    """A hundredth of the time and more, largest share first."""
    knee: int
    """Tasks past which one more adds less than half of what the first does; 0: none up to the most."""
    refused: str
    """Why nothing is predicted; the figures are 0 then, and so is the number of tasks."""


class Change(Record, frozen=True, kw_only=True):
    """What differs between two kernels that follow each other, measured by the same."""

    TABLE: ClassVar[str] = "change"
    INDEX: ClassVar[tuple[str, ...]] = ("workload", "after")
    NAMES: ClassVar[Mapping[str, str]] = {"workload": "workload", "before": "kernel", "after": "kernel"}

    id: int
    workload: int
    cpus: int
    before: int
    """The kernel."""
    after: int
    what: What
    name: str
    """The line or the lock; "" for all cache lines and for all instructions."""
    how: How
    unit: str
    count_before: float
    count_after: float
    functions: list[str]
    """Who touches the line, or takes the lock, hottest first."""
    line_before: int
    """Of the table line; 0: none."""
    line_after: int


class Refusal(Record, frozen=True, kw_only=True):
    """A workload that a kernel, a file system or a machine refused, or failed in."""

    TABLE: ClassVar[str] = "refusal"
    INDEX: ClassVar[tuple[str, ...]] = ("workload",)
    NAMES: ClassVar[Mapping[str, str]] = {"workload": "workload", "kernel": "kernel"}

    workload: int
    kernel: int
    cpus: int
    """0: with any number."""
    kind: Literal["input", "machine"]
    reason: str


RECORDS: tuple[type[Record], ...] = (
    Kernel, Workload, Identity, Point, Line, Chain, Lock, Function, ReferenceCount, Growth, Prediction,
    Change, Refusal,
)  # fmt: skip
