"""An operation made from counts: what it accesses and how often is known, the order is sampled at random.

A trace has the order. Without one, accesses and acquisitions lie somewhere in the calls that made them: the
call paths of the probes `conflicts`, `locks` and `instructions` nest, and what a call executes lies between
its first instruction and its last. Each sample places them at random within that. Counts are sums over all
calls of a path. Page faults are laid out one by one, as their number is known. A call that is little more
than what it does under a lock is made as often as it takes the lock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bigiron.analysis import kernel_functions
from bigiron.analysis.lines.conflicts import allocates, called_after
from bigiron.analysis.probes import locks as lock_table
from bigiron.analysis.replay.call_tree import CallNode, CriticalSection, Site
from bigiron.analysis.replay.extrapolated import NOTHING, Extrapolated
from bigiron.analysis.replay.layout import OperationLayout, sampled_count, with_work
from bigiron.analysis.replay.program import (
    LOCKS,
    OWN,
    READERS,
    Event,
    ReplayLine,
    ReplayLock,
    ReplayProgram,
    Scope,
)
from bigiron.analysis.replay.scopes import MOSTLY_ONE, Nodes, of_one_writer, passed_on, scope_of
from bigiron.util.lazy import numpy as np
from bigiron.util.lazy import polars as pl
from bigiron.util.object_name import OF_CPU, without_instance

OPERATIONS = 32
"""Of a program: what an operation does only now and then is in some of them; fewer if they are long."""
_EVENTS = 2000  # of all operations of a program, about

_LEAST = 0.01  # accesses per operation that other CPUs can have disturbed; less is left out
_TO_TAKE = 500.0  # instructions in the time in which a lock goes from one to the next
_LEAST_BUSY = 0.05  # share of the time that all tasks have a lock, if none waits; less is left out
# Repeated accesses to a line hit the cache unless another CPU touches it in between. Counted are at most:
_MOST_READS = 4  # reads of one line in one call, or as many as it is written
_MOST_OWN = 4.0  # accesses of a task to its own line for each by another

_PAGE = 4096.0


class _LineOwner(NamedTuple):
    """A line's number, what share of its accesses visit it, and the CPU that alone writes it, if one does."""

    number: int
    visits: float
    writer: int | None


@dataclass(frozen=True)
class Reconstruction:
    """A cell's counts, made ready to draw programs of."""

    lines: list[ReplayLine]
    locks: list[ReplayLock]
    root: CallNode
    instructions: float  # as recorded
    system_calls: float
    faults: float
    places: Mapping[int, int]  # as a ReplayProgram has them

    def program(self, chance: np.random.Generator) -> ReplayProgram:
        """One that has these counts, in an order by chance."""
        operations = [self._operation(chance)]
        count = max(8, min(OPERATIONS, _EVENTS // len(operations[0])))
        operations += [self._operation(chance) for _ in range(count - 1)]
        return ReplayProgram(self.lines, self.locks, operations, places=self.places)

    def _operation(self, chance: np.random.Generator) -> list[Event]:
        found = OperationLayout(chance, self.locks)
        at = 0.0
        entries = list(self.root.calls.items())
        for number in chance.permutation(len(entries)):
            name, call = entries[number]
            times = sampled_count(self.faults, chance) if name in kernel_functions.PAGE_FAULTS else 1
            for _ in range(times):
                at += found.place(call, at, float(times))
        calls = max(1, sampled_count(self.system_calls + self.faults, chance))
        return list(with_work(found.events(), max(at, 1.0), calls))


def count(
    conflicts: pl.DataFrame,
    locks: pl.DataFrame,
    work: pl.DataFrame,
    operations: float,
    tasks: int,
    most_tasks: int,
    threads: bool,
    beside: pl.DataFrame | None = None,
    extrapolated: Extrapolated = NOTHING,
    nodes: int = 1,
) -> Reconstruction:
    """What a cell has counted, over so many operations of all tasks; for up to `most_tasks` in the replay.

    `beside`: what else touches their lines, as a table of `conflicts`. `extrapolated`: what more CPUs add.
    `nodes`: of the machine that was recorded.
    """
    work = without_waiting(work.filter(pl.col("context") == "process"))
    recorded = root = _tree(work, operations)
    if extrapolated.paths:
        root = _tree(work, operations)
    for path, more in extrapolated.paths.items():
        _call(root, path.split(";")).own += more
    touched = without_waiting(conflicts.filter(pl.col("context") == "process"))
    kept, lines, of_line = _lines(touched, beside, operations, Nodes(tasks, nodes), most_tasks)
    taken = _from_entries(locks.filter(pl.col("context") == "process")).with_columns(
        line=pl.col("lock") - pl.col("lock") % 64
    )
    found, of_lock = _locks(taken, lines, of_line)
    for site in _sites(kept, taken, of_line, of_lock, lines, operations, extrapolated.visits):
        _call(root, site.path).sites.append(site)
    for section in _sections(taken, touched, of_lock, operations):
        # Held for as much longer as the call takes that holds it.
        before = _call(recorded, section.path).inclusive
        section.held *= _call(root, section.path).inclusive / before if before else 1.0
        if section.per_op * (section.held + _TO_TAKE) * most_tasks < _LEAST_BUSY * root.inclusive:
            continue
        _call(root, section.path).sections.append(section)
    for site in _fills(work, operations):
        _call(root, site.path).sites.append(site)
    for site in _interrupts(work, operations, tasks) if threads else ():
        _call(root, site.path).sites.append(site)
    own = dict(work.group_by("function").agg(pl.col("instructions").sum() / operations).iter_rows())
    per_call = (kernel_functions.INSTRUCTIONS_PER_SYSTEM_CALL, kernel_functions.INSTRUCTIONS_PER_FAULT)
    system_calls, faults = (
        sum(own.get(name, 0.0) / each for name, each in entries.items()) for entries in per_call
    )
    places = {line // 64: whose.number for line, whose in of_line.items()}
    return Reconstruction(lines, found, root, recorded.inclusive, system_calls, faults, places)


def share_of_sleep(work: pl.DataFrame) -> float:
    """What share of the operations' instructions puts tasks to sleep or wakes them, other than for locks."""
    work = work.filter(pl.col("context") == "process").with_columns(
        whole=pl.concat_str("path", "function", separator=";").str.strip_chars_start(";")
    )
    sleeps = work.filter(pl.col("whole").str.contains(kernel_functions.SLEEPING_OR_WAKING))
    locks = sleeps.filter(pl.col("whole").str.contains(kernel_functions.SLEEPING_FOR_LOCK))
    whole, asleep, for_locks = (int(of["instructions"].sum()) for of in (work, sleeps, locks))
    return (asleep - for_locks) / whole if whole else 0.0


def lock_of_user_space(conflicts: pl.DataFrame) -> str:
    """A function of user space that takes a lock which several tasks take; empty where there is none."""
    taken = conflicts.filter(
        (pl.col("context") == "process")
        & (pl.col("writes") > 0)
        & pl.col("function").str.contains(kernel_functions.USER_LOCKS.pattern)
    )
    by_line = taken.group_by("line", "function").agg(pl.col("cpu").n_unique()).filter(pl.col("cpu") > 1)
    return str(by_line["function"].sort()[0]) if len(by_line) else ""


def visits_of_each_cpu(conflicts: pl.DataFrame) -> dict[str, float]:
    """How often operations touch what one other CPU alone writes, of what each CPU has; by object."""
    accesses = pl.max_horizontal("reads", "writes").alias("accesses")
    running = conflicts.filter(context="process")
    of_cpus = running.filter(pl.col("object").str.contains(OF_CPU))["line"].unique()
    touched = without_waiting(running.filter(pl.col("line").is_in(of_cpus.implode()))).with_columns(accesses)
    by_cpu = touched.group_by("line", "cpu").agg(pl.col("writes").sum())
    visits = touched.group_by("line", "cpu", "object").agg(pl.col("accesses").sum())
    found: dict[str, float] = {}
    others = visits.join(_writers(by_cpu), on="line").filter(pl.col("cpu") != pl.col("writer"))
    others = others.sort("line", "cpu", "object")
    for object, written, times in others.select("object", "written", "accesses").iter_rows():
        if of_one_writer(object, written):
            found[without_instance(object)] = found.get(without_instance(object), 0.0) + times
    return found


def _writers(by_cpu: pl.DataFrame) -> pl.DataFrame:
    """Of each line, which CPU writes it most, and what share of the writes that CPU does."""
    writes = pl.col("writes")
    return by_cpu.group_by("line").agg(
        written=writes.max() / writes.sum(), writer=pl.col("cpu").sort_by("writes", "cpu").last()
    )


def work_of_operations(work: pl.DataFrame) -> pl.DataFrame:
    """What operations execute, without waiting for locks, which is chance.

    Functions, and those in paths, have their names in the source: without what gcc adds to those that it
    splits or makes for one caller, which changes from one build to the next.
    """
    added = r"\.(isra|constprop|part|cold)\b[^;]*"
    return without_waiting(work.filter(pl.col("context") == "process")).with_columns(
        pl.col("path", "function").str.replace_all(added, "")
    )


def without_waiting(table: pl.DataFrame) -> pl.DataFrame:
    """Without what waits for a lock: how often one tries is chance. `whole` is the path and the function."""
    whole = pl.concat_str("path", "function", separator=";").str.strip_chars_start(";")
    table = _from_entries(table).with_columns(whole=whole)
    waiting = [path for path in table["whole"].unique() if kernel_functions.WAITING.search(path)]
    return table.filter(~pl.col("whole").is_in(waiting))


def _from_entries(table: pl.DataFrame) -> pl.DataFrame:
    """Paths begin with the kind of entry into the kernel, as on x86: not with what all kinds share."""
    return table.with_columns(pl.col("path").str.replace(kernel_functions.SHARED_ENTRY, ""))


def _tree(work: pl.DataFrame, operations: float) -> CallNode:
    root = CallNode()
    # In an order, as samples go by it: else no two predictions of one study would be the same.
    own = work.group_by("whole").agg(pl.col("instructions").sum()).sort("whole")
    for path, instructions in own.iter_rows():
        _call(root, tuple(path.split(";"))).own += instructions / operations
    return root


def _call(root: CallNode, path: Iterable[str]) -> CallNode:
    call = root
    for function in path:
        call = call.calls.setdefault(function, CallNode())
    return call


def _fills(work: pl.DataFrame, operations: float) -> Iterator[Site]:
    """Where pages are cleared, and how many."""
    for path, function, instructions in work.select("whole", "function", "instructions").iter_rows():
        if each := kernel_functions.INSTRUCTIONS_PER_CLEARED_PAGE.get(function):
            yield Site(tuple(path.split(";")), instructions / operations / each, Event("fill", _PAGE))


def _interrupts(work: pl.DataFrame, operations: float, tasks: int) -> Iterator[Site]:
    """Where an operation interrupts the other tasks' CPUs, and how often: from what it executes for each."""
    sent = work.filter(pl.col("function").str.contains(kernel_functions.INTERRUPTS))
    for path, instructions in sent.select("whole", "instructions").iter_rows():
        # The loop over the CPUs is some 40 instructions for each of them.
        per_op = instructions / operations / (40.0 * max(1, tasks - 1))
        yield Site(tuple(path.split(";")), per_op, Event("interrupt", 1.0, tasks - 1, "share"))


def _lines(
    touched: pl.DataFrame, beside: pl.DataFrame | None, operations: float, nodes: Nodes, most_tasks: int
) -> tuple[pl.DataFrame, list[ReplayLine], dict[int, _LineOwner]]:
    """The lines that matter; and of each address, whose line it is."""
    accesses = pl.max_horizontal("reads", "writes").alias("accesses")
    every = touched = touched.with_columns(accesses)
    if beside is not None:
        there = beside.filter(pl.col("line").is_in(touched["line"].unique().implode()))
        every = pl.concat([touched, there.with_columns(accesses)], how="diagonal")
    by_cpu = every.group_by("line", "cpu").agg(pl.col("accesses").sum(), pl.col("writes").sum())
    shape = (
        by_cpu.group_by("line")
        .agg(
            total=pl.col("accesses").sum(),
            writes=pl.col("writes").sum(),
            most=pl.col("accesses").max(),
            cpus=pl.len(),
            cpu=pl.col("cpu").min(),
        )
        .join(_writers(by_cpu), on="line")
    )
    allocators = touched.group_by("line").agg(
        allocating=pl.col("cpu").filter(allocates()).n_unique(),
    )
    lines: list[ReplayLine] = []
    of_line: dict[int, _LineOwner] = {}
    known: dict[tuple[str, Scope], int] = {}
    named = called_after(touched, "line").join(allocators, on="line")
    rows = shape.join(named, on="line").sort("total", "line", descending=[True, False])
    owner, per_op = pl.col("most") / pl.col("total"), pl.col("total") / operations
    passed = passed_on(rows.select("object", owner, "cpus", per_op.alias("per_op")).iter_rows(), nodes)
    for line, total, writes, most, cpus, cpu, written, writer, object, allocating in rows.iter_rows():
        if cpus < 2 or not writes or allocating == cpus:
            continue
        others = total - most
        misses = min(total, most_tasks * writes, 2 * others if most > MOSTLY_ONE * total else total)
        if misses / operations < _LEAST:
            continue
        scope, visits = scope_of(object, most / total, cpus, nodes)
        if object in passed:
            scope, visits = "task", 1 - most / total
        if owned := of_one_writer(object, written):
            scope = "task"
        which = without_instance(object) if scope in OWN else f"{object} {line}"
        key = (nodes.counterpart(object, cpu) if scope == "node" else which, scope)
        if key not in known:
            known[key] = len(lines)
            lines.append(ReplayLine(object if scope not in OWN else without_instance(object), scope))
        of_line[line] = _LineOwner(known[key], visits, writer if owned else None)
    return touched.filter(pl.col("line").is_in(list(of_line))), lines, of_line


def _locks(
    taken: pl.DataFrame, lines: list[ReplayLine], of_line: Mapping[int, _LineOwner]
) -> tuple[list[ReplayLock], dict[tuple[int, str], int]]:
    """The locks that are executed, on lines that all have; and the number of each by address and kind."""
    rows = (
        taken.with_columns(kind=pl.col("function").map_elements(_kind, pl.String))
        .filter(pl.col("kind") != "")
        .group_by("lock", "line", "kind")
        .agg(pl.col("object").first(), pl.col("instructions").sum())
        .sort("instructions", "lock", descending=[True, False])
    )
    found: list[ReplayLock] = []
    numbers: dict[tuple[int, str], int] = {}
    known: dict[tuple[int, int, str], int] = {}
    for lock, line, kind, object, _instructions in rows.iter_rows():
        if line not in of_line or lines[(number := of_line[line].number)].scope in OWN:
            continue
        place = (number, lock - line, kind)
        if place not in known:
            known[place] = len(found)
            found.append(ReplayLock(object, kind, number))
        numbers[lock, kind] = known[place]
    return found, numbers


def _kind(function: str) -> str:
    return LOCKS.get(lock_table.taken_by(function), "")


def _sites(
    touched: pl.DataFrame,
    taken: pl.DataFrame,
    of_line: Mapping[int, _LineOwner],
    of_lock: Mapping[tuple[int, str], int],
    lines: list[ReplayLine],
    operations: float,
    more_visits: Mapping[str, float],
) -> Iterator[Site]:
    """The accesses, without those that take a lock or give it back: they come with executing it."""
    addresses = {lock for lock, _ in of_lock}
    locked = {address - address % 64 for address in addresses}
    writers = {line: whose.writer for line, whose in of_line.items() if whose.writer is not None}
    writer = pl.col("line").replace_strict(writers, default=None, return_dtype=touched.schema["cpu"])
    rows = touched.group_by("line", "whole", "function", "pc", visits=pl.col("cpu") != writer).agg(
        pl.col("address").min(), pl.col("reads", "writes").sum(), pl.col("object").first()
    )
    sums: dict[tuple[str, int, str, bool], float] = defaultdict(float)
    rows = rows.sort("whole", "pc", "line", "visits")
    for line, path, function, _pc, is_visit, address, reads, writes, object in rows.iter_rows():
        if line in locked and (
            re.match(kernel_functions.LOCKING, function) or (address in addresses and not reads)
        ):
            continue
        number, visits, _ = of_line[line]
        visits = visits if is_visit is None else float(is_visit)
        for how, times in _touches(function, reads, writes, lines[number].scope):
            more = more_visits.get(without_instance(object), 1.0)
            for visiting, share in ((False, 1 - visits), (True, visits * more)):
                if share > 0:
                    sums[path, number, how, visiting] += share * times / operations
    written = _written_by_locks(taken, of_line, of_lock, operations)
    accessed: dict[tuple[int, bool], float] = defaultdict(float)
    for (_, number, how, visiting), per_op in sums.items():
        accessed[number, visiting] += per_op
        if how != "read" and lines[number].scope not in OWN:
            written[number] += per_op
    of_each_cpu = {of_line[line].number for line in writers}
    for (path, number, how, visiting), per_op in sums.items():
        if lines[number].scope in OWN and not visiting:
            per_op *= min(1.0, _MOST_OWN * accessed[number, True] / accessed[number, False])
        if how == "read" and not (visiting and number in of_each_cpu):
            per_op = min(per_op, max(_MOST_READS, written[number]))
        yield Site(tuple(path.split(";")), per_op, Event("visit" if visiting else "access", 0.0, number, how))


def _written_by_locks(
    taken: pl.DataFrame,
    of_line: Mapping[int, _LineOwner],
    of_lock: Mapping[tuple[int, str], int],
    operations: float,
) -> defaultdict[int, float]:
    """How often an operation writes each line by taking locks on it and giving them back."""
    written: defaultdict[int, float] = defaultdict(float)
    addresses = {lock for lock, _ in of_lock}
    for lock, line, times in taken.group_by("lock", "line").agg(pl.col("acquisitions").sum()).iter_rows():
        if lock in addresses:
            written[of_line[line].number] += 2 * times / operations
    return written


def _touches(function: str, reads: int, writes: int, scope: Scope) -> list[tuple[str, int]]:
    if not writes:
        return [("read", reads)]
    if not reads:
        return [("write", writes)]
    atomic = "exchange" if kernel_functions.EXCHANGES.match(function) and scope not in OWN else "atomic"
    return [(atomic, min(reads, writes)), ("read", max(0, reads - writes)), ("write", max(0, writes - reads))]


def _sections(
    taken: pl.DataFrame, touched: pl.DataFrame, of_lock: Mapping[tuple[int, str], int], operations: float
) -> Iterator[CriticalSection]:
    looks = touched.filter((pl.col("function") == kernel_functions.TRYLOCK) & (pl.col("writes") == 0))
    looked = set(looks["address"])
    rows = taken.group_by("lock", "function", "path").agg(pl.col("acquisitions", "instructions").sum())
    for lock, function, path, acquisitions, instructions in rows.sort("path", "lock", "function").iter_rows():
        number = of_lock.get((lock, _kind(function)))
        if number is None or not acquisitions or kernel_functions.WAITING.search(path):
            continue
        shared = lock_table.taken_by(function) in READERS
        held = instructions / acquisitions
        in_vain = function == kernel_functions.TRYLOCK and lock not in looked
        yield CriticalSection(
            tuple(path.split(";")), acquisitions / operations, held, number, shared, in_vain
        )
