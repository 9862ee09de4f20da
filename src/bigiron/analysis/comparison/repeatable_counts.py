"""Counts that repeat in another run of the same kernel, with which a history compares a recording.

Tables in, values out; counts are per operation. A count that does not repeat is left out, or merged with the
counts that replace it:

- Preemption and waiting for locks depend on when other tasks ran, so they are left out. The accesses while
  waiting are one count of their own.
- The cache lines of an object are merged. A slab object starts at any offset of a line, so its members lie
  in one line or in two, next to written bytes or not. Of a struct, only accesses to written bytes count.
- A write can disturb one access of each CPU, so no line counts more accesses than that.
- Chance decides which pages a CPU gets and which of them hold a slab, so all pages are one object.
- Instructions exclude file timestamps, which are written when the clock has moved, and the scheduler's
  averages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from statistics import fmean, median
from typing import Literal

from bigiron.analysis import kernel_functions
from bigiron.analysis.comparison.limits import LEAST, LimitedCount, Tolerance, worst_first
from bigiron.analysis.lines import conflicts
from bigiron.util.lazy import polars as pl
from bigiron.util.object_name import PAGE_OR_SLAB, ObjectName

CountKind = Literal["object", "waiting", "instructions", "sleeping"]
"""The cache lines of an object; accesses while waiting for locks; all instructions; those while sleeping."""

PAGES, PAGE_LISTS, WAITING, INSTRUCTIONS = (
    "pages and slabs",
    "lists of pages",
    "waiting for locks",
    "instructions",
)

_OF_PAGES = frozenset(
    f"struct {name}"
    for name in ("slab", "slab_sheaf", "node_barn", "kmem_cache_node", "page", "folio", "ptdesc")
)
_OF_PAGE_LISTS = ("struct zone", "struct pglist_data")
_INODE = "struct inode"
_WITH_INODE = ("struct ?*_inode", "struct ?*_inode_info")  # of a file system, which contains it
_CHANCE = (
    *(
        PAGES,
        PAGE_LISTS,
        "*_hashtable",
        "rcu_state",
        "rcu_data",
        "runqueues",
        "osq_node",
        "qnodes",
        "sd_llc*",
    ),
    *("struct task_struct", "struct rq", "struct cfs_rq", "struct sched_*", "struct maple_node"),
    *("system_group_pcpu", "call_single_queue"),
)
"""Structs and variables whose counts depend on the clock, the scheduler or hashes.

These decide which task runs, and which CPU gets which pages and which of the nodes that RCU frees in batches.
"""


@dataclass(frozen=True)
class RepeatableCount:
    """A count of an object in one unit, in each repetition."""

    what: CountKind
    name: str
    unit: str
    repetitions: tuple[float, ...]
    functions: tuple[tuple[str, float], ...] = ()  # that touch the object: accesses per operation

    @property
    def mean(self) -> float:
        """The mean of the repetitions."""
        return fmean(self.repetitions)


@dataclass(frozen=True)
class CellTables:
    """A cell's tables of the probes conflicts and instructions; None: not recorded."""

    conflicts: pl.DataFrame | None
    instructions: pl.DataFrame | None
    operations: int
    cpus: int
    tasks: int  # 0: unknown


def counts(repetitions: Sequence[CellTables]) -> list[RepeatableCount]:
    """All repeatable counts, each with its repetitions."""
    found: dict[tuple[CountKind, str, str], list[tuple[int, RepeatableCount]]] = {}
    for number, recording in enumerate(repetitions):
        for count in _counts(recording):
            found.setdefault((count.what, count.name, count.unit), []).append((number, count))
    joined = []
    for each in found.values():
        figures = {number: count.repetitions[0] for number, count in each}
        touched: dict[str, float] = {}
        for _, count in each:
            for function, accesses in count.functions:
                touched[function] = touched.get(function, 0.0) + accesses / len(repetitions)
        joined.append(
            replace(
                each[0][1],
                repetitions=tuple(figures.get(number, 0.0) for number in range(len(repetitions))),
                functions=tuple(sorted(touched.items(), key=lambda item: (-item[1], item[0]))),
            )
        )
    return joined


def _counts(recording: CellTables) -> Iterable[RepeatableCount]:
    if recording.conflicts is not None:
        yield from _objects(recording.conflicts, recording)
    if recording.instructions is not None:
        yield from _instructions(recording.instructions, recording)


def _whole_path() -> pl.Expr:
    return pl.concat_str("path", "function", separator=";")


def _objects(table: pl.DataFrame, recording: CellTables) -> Iterable[RepeatableCount]:
    table = table.filter(pl.col("context") == "process")
    in_locks = _whole_path().str.contains(kernel_functions.WAITING_FOR_LOCK)
    waiting = table.filter(in_locks).select(pl.max_horizontal("reads", "writes").sum()).item()
    yield RepeatableCount("waiting", WAITING, "accesses", (waiting / recording.operations,))
    rest = table.filter(~in_locks & ~_whole_path().str.contains(kernel_functions.PREEMPTED))
    lines = _lines(rest, recording)
    functions = _functions(rest, lines, recording.operations)
    names = {name: None for _, name, *_ in lines}
    for name in names:
        of_name = [line for line in lines if line[1] == name]
        touched = tuple(functions.get(name, {}).items())
        yield RepeatableCount("object", name, "writes", (sum(writes for *_, writes, _ in of_name),), touched)
        yield RepeatableCount(
            "object", name, "accesses", (sum(accesses for *_, accesses in of_name),), touched
        )


_BLOCK = 64  # bytes, each of which has a bit in the column `bytes`

_Line = tuple[int, str, float, float]  # its address, the name that it is merged under, writes, accesses


def _lines(table: pl.DataFrame, recording: CellTables) -> list[_Line]:
    """The shared cache lines, with the accesses that are repeatable."""
    touched = conflicts.shared(table, recording.operations).with_columns(
        block=pl.col("address") - pl.col("address") % _BLOCK
    )
    written = touched.filter(pl.col("writes") > 0).group_by("block").agg(written=pl.col("bytes").bitwise_or())
    to_written = (pl.col("bytes") & pl.col("written").fill_null(0)) != 0
    # Its address is the same in each run.
    is_symbol = ~pl.col("object").str.starts_with("struct ") & (pl.col("start") == 0)
    lines = (
        touched.join(written, on="block", how="left")
        .group_by("line", "object", maintain_order=True)
        .agg(
            pl.col("writes_per_op").sum(),
            accesses=pl.col("accesses_per_op").filter(to_written | is_symbol).sum(),
        )
        .sort("line")
    )
    return [
        (line, _merged_name(object), writes, min(accesses, writes * recording.cpus))
        for line, object, writes, accesses in lines.iter_rows()
    ]


def _merged_name(object: str) -> str:
    """The name under which cache lines are merged.

    >>> _merged_name("struct dentry.d_lockref.count (tmpfs directory)"), _merged_name("struct folio.lru")
    ('struct dentry', 'pages and slabs')
    """
    name = ObjectName.parse(object)
    if name.base in _OF_PAGES or name.base == PAGE_OR_SLAB or name.is_free:
        return PAGES
    if _is_one_of(name.base, _WITH_INODE):
        return _INODE
    return PAGE_LISTS if name.base in _OF_PAGE_LISTS else name.object_type


def _is_one_of(base: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(base, glob) for glob in globs)


_LEAST_SHARE = 0.02  # of an object's accesses, for a function to be named


def _functions(table: pl.DataFrame, lines: Sequence[_Line], operations: int) -> dict[str, dict[str, float]]:
    """The functions that touch each object, most accesses first."""
    named = pl.DataFrame(
        {"line": [line for line, *_ in lines], "name": [name for _, name, *_ in lines]},
        {"line": pl.UInt64, "name": pl.String},
    )
    touched = (
        table.join(named, on="line")
        .group_by("name", "function")
        .agg(accesses=pl.max_horizontal("reads", "writes").sum() / operations)
        .filter(pl.col("accesses") >= _LEAST_SHARE * pl.col("accesses").sum().over("name"))
        .sort("accesses", "function", descending=[True, False])
    )
    found: dict[str, dict[str, float]] = {}
    for name, function, accesses in touched.iter_rows():
        found.setdefault(name, {})[function] = round(accesses, 6)
    return found


def _instructions(table: pl.DataFrame, recording: CellTables) -> Iterable[RepeatableCount]:
    """Instructions in process context of the median CPU, as a single CPU may execute more by chance."""
    left_out = "|".join(
        (kernel_functions.WAITING_FOR_LOCK, kernel_functions.PREEMPTED, kernel_functions.DRIVEN_BY_TIME)
    )
    rest = table.filter((pl.col("context") == "process") & ~_whole_path().str.contains(left_out))
    each: list[int] = rest.group_by("cpu").agg(pl.col("instructions").sum())["instructions"].to_list()
    each += [0] * (recording.tasks - len(each))
    # A workload that starts more tasks than requested may run any number of them on a CPU.
    total = median(each) * len(each) if each and len(each) == recording.tasks else sum(each)
    yield RepeatableCount("instructions", INSTRUCTIONS, "instructions", (total / recording.operations,))
    asleep = (
        rest.filter(_whole_path().str.contains(kernel_functions.SLEEPING))
        .select(pl.col("instructions").sum())
        .item()
    )
    yield RepeatableCount("sleeping", INSTRUCTIONS, "instructions", (asleep / recording.operations,))


# What passes

_EXACT = Tolerance(0.5, 0.01)
_BY_CHANCE = Tolerance(8.0, 1.0)
_WRITES_WHERE_TASKS_WAIT, _ACCESSES_WHERE_TASKS_WAIT = Tolerance(1.0, 0.1), Tolerance(1.0, 1.0)
_WAITING = Tolerance(30.0)
_INSTRUCTIONS = Tolerance(20.0, 0.01)
_INSTRUCTIONS_ASLEEP = Tolerance(20.0, 0.1)
_TASKS_WAIT = 1.0  # accesses per operation while waiting for a lock
_SHARE_ASLEEP = 0.1  # of an operation's instructions; the clock decides how often such tasks sleep
_LONG = 20_000
"""Instructions per operation above which `_EXACT` and `_BY_CHANCE` grow in proportion.

A longer operation contains more events that depend on the clock.
"""
_SELDOM = 1.0  # writes per operation below which only the writes of an object are compared


@dataclass(frozen=True)
class ReferenceValue:
    """A count of the older kernel, and how much it varies."""

    count: RepeatableCount  # its repetitions are the smallest and the largest one
    mean: float  # of all repetitions
    varies: float = 0.0  # between repetitions or between kernels

    @property
    def most(self) -> float:
        """The largest count of a repetition."""
        return max(self.count.repetitions)


def check(before: Sequence[ReferenceValue], after: Sequence[RepeatableCount]) -> list[LimitedCount]:
    """Each object with counts on both kernels, worst first."""
    known = {(one.count.what, one.count.name, one.count.unit): one for one in before}
    now = {(one.what, one.name, one.unit): one for one in after}
    recorded = {one.what == "instructions" for one in after}
    tolerances = _Tolerances(before)
    found = []
    for what, name in dict.fromkeys((what, name) for what, name, _ in (*known, *now)):
        if what == "sleeping" or (what == "instructions") not in recorded:
            continue
        units = _units(what, now.get((what, name, "writes")), tolerances)
        limited = _limited(
            name,
            units,
            [known.get((what, name, unit)) for unit in units],
            [now.get((what, name, unit)) for unit in units],
            [tolerances.of(what, name, unit) for unit in units],
        )
        if limited:
            found.append(limited)
    return worst_first(found)


class _Tolerances:
    """By how much counts may exceed those of the older kernel."""

    def __init__(self, before: Sequence[ReferenceValue]) -> None:
        def most(what: CountKind) -> float:
            return max((one.most for one in before if one.count.what == what), default=0.0)

        self.tasks_wait = most("waiting") >= _TASKS_WAIT
        self._asleep = most("sleeping") > _SHARE_ASLEEP * most("instructions")
        self._long = max(1.0, most("instructions") / _LONG)

    def of(self, what: CountKind, name: str, unit: str) -> Tolerance:
        """The tolerance of an object's unit."""
        if what == "instructions":
            return _INSTRUCTIONS_ASLEEP if self._asleep else _INSTRUCTIONS
        if what == "waiting":
            return _WAITING
        by_chance = _is_one_of(ObjectName.parse(name).base, _CHANCE)
        if self.tasks_wait and not by_chance:
            return _WRITES_WHERE_TASKS_WAIT if unit == "writes" else _ACCESSES_WHERE_TASKS_WAIT
        usual = _BY_CHANCE if by_chance else _EXACT
        return replace(usual, absolute=usual.absolute * self._long)


def _units(what: CountKind, written: RepeatableCount | None, tolerances: _Tolerances) -> tuple[str, ...]:
    """The units that are compared for an object."""
    if what == "instructions":
        return ("instructions",)
    if what == "waiting":  # if tasks wait anyway, chance decides how much
        return () if tolerances.tasks_wait else ("accesses",)
    seldom = written and min(written.repetitions) < _SELDOM
    return ("writes",) if seldom else ("writes", "accesses")


def _limited(
    name: str,
    units: tuple[str, ...],
    before: Sequence[ReferenceValue | None],
    after: Sequence[RepeatableCount | None],
    tolerances: Sequence[Tolerance],
) -> LimitedCount | None:
    """The counts of an object; None if both kernels have too few accesses."""
    most = [one.most if one else 0.0 for one in before]
    least = tuple(min(one.repetitions) if one else 0.0 for one in after)
    if max((*most, *least), default=0.0) <= LEAST:
        return None
    allowed = tuple(
        tolerance.allows(max(was, LEAST)) + (one.varies if one else 0.0)
        for tolerance, was, one in zip(tolerances, most, before, strict=True)
    )
    touched = next((one.functions for one in after if one), ())
    return LimitedCount(
        name,
        units,
        tuple(one.mean if one else 0.0 for one in before) if any(before) else None,
        allowed,
        least,
        f"touched by {', '.join(function for function, _ in touched)}" if touched else "",
    )
