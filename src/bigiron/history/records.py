"""The tables of a history's database: one class per table, one field per column.

See docs/reference/history-database.md.

Counts are per operation, and means over a point's repetitions.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

from bigiron.analysis.replay.prediction import Limit


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a table."""

    TABLE: ClassVar[str]
    INDEX: ClassVar[tuple[str, ...]] = ()
    """Indexed columns."""
    UNIQUE: ClassVar[tuple[str, ...]] = ()
    """Columns besides `id` whose values are unique."""
    NAMES: ClassVar[Mapping[str, str]] = {}
    """Columns that hold the `id` of a row of another table, and that table."""


class KernelRecord(Record, frozen=True, kw_only=True):
    """A kernel that was measured."""

    TABLE: ClassVar[str] = "kernel"
    UNIQUE: ClassVar[tuple[str, ...]] = ("name",)

    id: int
    name: str
    """As a user types it: debian/6.1."""
    release: str
    version: str
    """Of its package; "": unknown."""
    architecture: str
    sha256: str
    """Of the image."""
    position: int
    """Oldest release first, from 0."""


class WorkloadRecord(Record, frozen=True, kw_only=True):
    """A workload, on one file system."""

    TABLE: ClassVar[str] = "workload"
    UNIQUE: ClassVar[tuple[str, ...]] = ("name",)

    id: int
    name: str
    """`open1`, or `fxmark/DWAL@ext4` on another file system than the machine's own tmpfs."""
    workload: str
    fs: str
    """"": the machine's own tmpfs."""
    description: str
    mode: str
    operations: int
    """Recorded operations of each task."""


class IdentityRecord(Record, frozen=True, kw_only=True):
    """The setup of a point, except its kernel.

    Counts are compared only between points with the same setup.
    """

    TABLE: ClassVar[str] = "identity"

    id: int
    workload_sha256: str
    recorder: str
    """The hash of the recorder's source."""
    qemu: str
    accelerator: str
    architecture: str
    mode: str
    operations: int
    time_slice: str
    clock: str
    """What the clock followed, and how many times slower it was, if it was: `host, 128 times slower`."""
    memory_mib: int
    sockets: int
    nodes: int
    cores: int
    threads: int
    cgroup: str
    """The control group of the tasks; `none`: the root group."""
    fs: str
    """The file system with its options, its disk and the version of its mkfs."""

    @property
    def clock_slower(self) -> int:
        """How many times slower the clock was than the one that it followed."""
        slower = self.clock.partition(", ")[2]
        return int(slower.split()[0]) if slower else 1


class PointRecord(Record, frozen=True, kw_only=True):
    """A measurement: a workload on a kernel with a number of CPUs."""

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
    """Whether it was not measured again with a newer setup."""
    repetitions: int
    accesses_per_op: float
    """Accesses to all shared cache lines, without adjacent pairs."""
    writes_per_op: float
    shared_lines: int
    instructions_per_op: float
    """Instructions of the kernel in process context."""
    lost: dict[str, int]
    """Counts that were lost, by kind."""
    measured: str
    """When the newest of its cells was measured: UTC, ISO 8601."""
    seconds: float
    """The duration of all repetitions together."""
    bigiron: str
    """The version of bigiron that measured it."""
    cells: list[str]
    """The folders of the cells, relative to the history's."""
    command: str
    """The command that measures it again, in a study of its own."""


class LineRecord(Record, frozen=True, kw_only=True):
    """A shared cache line at a point; similar lines are merged."""

    TABLE: ClassVar[str] = "line"
    INDEX: ClassVar[tuple[str, ...]] = ("point", "object")
    NAMES: ClassVar[Mapping[str, str]] = {"point": "point"}

    id: int
    point: int
    row: int
    """The same cache line has the same number in all points with the same workload, CPUs and setup."""
    object: str
    """`struct aa_label.count.count`."""
    kind: str
    """The type that contains it: `struct aa_label`."""
    pair: bool
    """Whether it is a pair of adjacent lines that is shared only because of the prefetcher."""
    accesses_per_op: float
    writes_per_op: float
    least_accesses: float
    """The smallest count of a repetition."""
    most_accesses: float
    least_writes: float
    most_writes: float
    writers: int
    """The number of CPUs that write it."""
    readers: int
    false_sharing: bool
    sharing: dict[str, str]
    """The kind of sharing, and the evidence for it."""
    functions: dict[str, float]
    """Accesses per operation of the functions that touch it, most first."""


class ChainRecord(Record, frozen=True, kw_only=True):
    """A call chain that accesses a cache line: functions separated by semicolons, outermost first."""

    TABLE: ClassVar[str] = "chain"
    INDEX: ClassVar[tuple[str, ...]] = ("point", "line")
    NAMES: ClassVar[Mapping[str, str]] = {"point": "point", "line": "line"}

    point: int
    line: int
    path: str
    accesses_per_op: float


class LockRecord(Record, frozen=True, kw_only=True):
    """A kernel lock that operations take at a point."""

    TABLE: ClassVar[str] = "lock"
    INDEX: ClassVar[tuple[str, ...]] = ("point", "name")
    NAMES: ClassVar[Mapping[str, str]] = {"point": "point"}

    point: int
    name: str
    taken_by: str
    """`spin_lock`, `down_read`."""
    acquisitions_per_op: float
    held_per_op: float
    """Hold time in instructions."""
    longest: int
    """The longest hold time, in instructions."""
    cpus: int
    """The number of CPUs that take it; if several locks have the name, the largest number."""
    locks: int
    """The number of locks with this name."""
    taken_in: list[str]
    """The functions that take it, most acquisitions first."""


class FunctionRecord(Record, frozen=True, kw_only=True):
    """A function's instructions at a point."""

    TABLE: ClassVar[str] = "function"
    INDEX: ClassVar[tuple[str, ...]] = ("point", "function")
    NAMES: ClassVar[Mapping[str, str]] = {"point": "point"}

    point: int
    function: str
    self_per_op: float
    total_per_op: float


class ReferenceCountRecord(Record, frozen=True, kw_only=True):
    """A repeatable count of a point, with which `check --history` compares newer kernels."""

    TABLE: ClassVar[str] = "held"
    INDEX: ClassVar[tuple[str, ...]] = ("point",)
    NAMES: ClassVar[Mapping[str, str]] = {"point": "point"}

    point: int
    what: Literal["object", "waiting", "instructions", "sleeping"]
    """The cache lines of an object; accesses while waiting for locks; instructions, all and while asleep."""
    name: str
    """`struct aa_label`."""
    unit: str
    """`writes`, `accesses`, `instructions`."""
    per_op: float
    least: float
    """The smallest count of a repetition."""
    most: float
    functions: dict[str, float]
    """Accesses per operation of the functions that touch it, most first."""


HeldKind = Literal["line", "pair", "lines", "lock", "instructions"]
"""A cache line, an adjacent pair, all shared cache lines (without pairs), a lock, all instructions."""
How = Literal["gone", "new", "more", "less"]


class GrowthRecord(Record, frozen=True, kw_only=True):
    """How a count grows with the CPUs, between points whose setup differs only in the shape."""

    TABLE: ClassVar[str] = "growth"
    INDEX: ClassVar[tuple[str, ...]] = ("workload", "kernel")
    NAMES: ClassVar[Mapping[str, str]] = {"workload": "workload", "kernel": "kernel"}

    workload: int
    kernel: int
    what: HeldKind
    name: str
    """The object of the cache line; "" for a total."""
    functions: str
    law: str
    """`constant`, `log N`, `N`, `N log N`, `N^2`; "": no law fits."""
    sure: float
    text: str
    """`2 + N`, or why no law fits."""
    points: dict[str, float]
    """The count at each number of CPUs."""
    predicted: dict[str, tuple[float, float, float]]
    """The prediction at other numbers of CPUs: the value, and the ends of the interval."""


class PredictionRecord(Record, frozen=True, kw_only=True):
    """The predicted throughput on a machine, relative to one task."""

    TABLE: ClassVar[str] = "prediction"
    INDEX: ClassVar[tuple[str, ...]] = ("workload", "kernel")
    NAMES: ClassVar[Mapping[str, str]] = {"workload": "workload", "kernel": "kernel", "point": "point"}

    workload: int
    kernel: int
    point: int
    """The point whose recording was replayed."""
    machine: str
    tasks: int
    relative: float
    low: float
    """The lower end of the interval that has 90 % of the samples."""
    high: float
    limits: list[Limit]
    """Those with at least 1 % of the time, largest share first."""
    knee: int
    """The knee lies between this number of tasks and the next replayed one; 0: none, or unknown."""
    refused: str
    """Why there is no prediction; then all numbers are 0."""


class ChangeRecord(Record, frozen=True, kw_only=True):
    """A difference between two consecutive kernels that were measured with the same setup."""

    TABLE: ClassVar[str] = "change"
    INDEX: ClassVar[tuple[str, ...]] = ("workload", "after")
    NAMES: ClassVar[Mapping[str, str]] = {"workload": "workload", "before": "kernel", "after": "kernel"}

    id: int
    workload: int
    cpus: int
    before: int
    """The older kernel."""
    after: int
    what: HeldKind
    name: str
    """The object or the lock; "" for a total."""
    how: How
    unit: str
    count_before: float
    count_after: float
    functions: list[str]
    """The functions that touch the line or take the lock, most first."""
    line_before: int
    """Its row in the table `line`; 0: none."""
    line_after: int


class RefusalRecord(Record, frozen=True, kw_only=True):
    """A workload that a kernel, a file system or a machine cannot run, or that failed."""

    TABLE: ClassVar[str] = "refusal"
    INDEX: ClassVar[tuple[str, ...]] = ("workload",)
    NAMES: ClassVar[Mapping[str, str]] = {"workload": "workload", "kernel": "kernel"}

    workload: int
    kernel: int
    cpus: int
    """0: any number."""
    kind: Literal["input", "machine"]
    reason: str


RECORDS: tuple[type[Record], ...] = (
    KernelRecord, WorkloadRecord, IdentityRecord, PointRecord, LineRecord, ChainRecord, LockRecord,
    FunctionRecord, ReferenceCountRecord, GrowthRecord, PredictionRecord, ChangeRecord, RefusalRecord,
)  # fmt: skip
