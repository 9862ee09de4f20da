"""A recorded trace as a program: what each sampled operation did, in order (docs/reference/trace.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bigiron.analysis import kernel_functions
from bigiron.analysis.probes.locks import waiting
from bigiron.analysis.replay.calls import only, without_calls
from bigiron.analysis.replay.extrapolated import NOTHING, Extrapolated
from bigiron.analysis.replay.program import LOCKS, OWN, READERS, Event, ReplayLine, ReplayLock, ReplayProgram
from bigiron.analysis.replay.scopes import Nodes, of_one_writer, passed_on, scope_of
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl
from bigiron.util.object_name import OF_CPU, without_instance

SCHEMA = Schema(
    lambda: {
        "task": pl.UInt32,
        "operation": pl.UInt32,  # of the task, from 0
        "sequence": pl.UInt32,  # of the event in the operation, from 0
        "kind": pl.String,
        "instructions": pl.UInt64,  # of the task since its event before
        "line": pl.UInt64,  # the same number for the same line in all of the cell
        "offset": pl.UInt8,  # in the line, of the first byte
        "bytes": pl.UInt64,
        "access": pl.String,  # read, write or atomic
        "lock": pl.String,  # the kernel's function: a key of program.LOCKS, or its trylock
        "target": pl.UInt32,  # the task that is woken, the number of other CPUs
        "object": pl.String,  # what lies there
        "function": pl.String,  # that did it
    }
)

KINDS = ("enter", "exit", "access", "lock", "unlock", "downgrade", "fill", "copy", "sleep", "wake", "ipi",
         "tlbi")  # fmt: skip
_OF_LOCKS = ("lock", "unlock", "downgrade")
_MOST_ASLEEP = 0.05  # of operations, or of their instructions, that sleep or wake others: they are left out
_STRETCH, _OWN_STRETCH = 256, 4096  # instructions, in which a task finds a line again where it had it
_AT_ONCE = 32  # instructions, between a trylock's look at a lock and taking it
_HAIR = 1e-9
_MOST_CACHED = 16384  # bytes that others fill or copy, and a core has in its cache
_MOST_FILLED = 1 << 18  # bytes that are one fill, if nothing but instructions lies between


class CutTraceError(Exception):
    """What is wrong with a trace, and where."""


def program(table: pl.DataFrame) -> ReplayProgram:
    """The program of a trace. CutTraceError for one that is not whole.

    >>> rows = {"task": [0, 1], "operation": [0, 0], "sequence": [0, 0], "kind": ["access", "access"]}
    >>> rows |= {"instructions": [100, 90], "line": [7, 7], "access": ["atomic"] * 2, "object": ["count"] * 2}
    >>> found = program(pl.DataFrame(rows))
    >>> found.lines, [event[:2] for event in found.operations[1]]
    ([ReplayLine(name='count', scope='shared')], [('work', 90.0), ('access', 0.0)])
    """
    return program_of_followed(followed(whole(table)))


def program_of_followed(
    table: pl.DataFrame, extrapolated: Extrapolated = NOTHING, nodes: int = 1
) -> ReplayProgram:
    """The same of what `followed` has left, of a machine with that many nodes.

    `extrapolated`: what the machine in question adds to operations.
    """
    table = without_calls(_with_more_instructions(table, extrapolated))
    tasks = table["task"].n_unique()
    lines, of_line = _lines(table, Nodes(tasks, nodes))
    names = _names(table, of_line)
    found: dict[tuple[int, int, str], ReplayLock] = {}
    locks: dict[tuple[int, int, str], int] = {}
    rows = table.filter((pl.col("kind") == "lock") & pl.col("line").is_in(list(of_line)))
    for line, offset, lock in rows.select("line", "offset", "lock").unique(maintain_order=True).iter_rows():
        number, kind = of_line[line], _lock(lock)[0]
        if lines[number].scope not in OWN:
            found.setdefault(
                (number, offset, kind), ReplayLock(str(rows.filter(line=line)["object"][0]), kind, number)
            )
            locks[line, offset, kind] = list(found).index((number, offset, kind))
    table = _without_looks(_without_hits(_with_scopes(table, of_line, lines)))
    table = _with_more_visits(table, extrapolated)
    operations = [
        list(_with_long_fills(_events(rows, of_line, locks, tasks - 1)))
        for (_task, _operation), rows in table.group_by("task", "operation", maintain_order=True)
    ]
    return ReplayProgram(lines, list(found.values()), operations, names, of_line)


def without_locking(events: pl.DataFrame) -> pl.DataFrame:
    """Recorded events without the accesses that take locks and give them back: a replay executes locks.

    What a trylock tried before the access with which it has the lock is not part of that.

    >>> events = {"task": [0] * 3, "operation": [0] * 3, "kind": ["lock", "atomic", "exit"]}
    >>> events |= {"instructions": [5, 6, 7], "function": ["alloc_fd", "_raw_spin_lock", None]}
    >>> events |= {"address": [64, 64, 0]}
    >>> without_locking(pl.DataFrame(events)).select("kind", "instructions").rows()
    [('lock', 5), ('exit', 13)]
    >>> events |= {"kind": ["atomic", "atomic", "lock"], "function": ["down_read_trylock"] * 2 + ["f"]}
    >>> without_locking(pl.DataFrame(events | {"address": [64] * 3})).select("kind", "instructions").rows()
    [('atomic', 5), ('lock', 13)]
    """
    function = pl.col("function").fill_null("")
    line = pl.col("address") // 64
    locking = (
        pl.col("kind").is_in(["read", "write", "atomic"])
        & line.is_in(events.filter(kind="lock").select(line).to_series().implode())
        & function.str.contains(kernel_functions.LOCKING)
    )
    tries = locking & (function == kernel_functions.TRYLOCK)
    tried = events.with_row_index("row").filter(
        (tries & (pl.col("kind") == "atomic")) | (pl.col("kind") == "lock")
    )
    then = pl.col("kind").shift(-1).over("task", "operation", "address")
    takes = tried.filter((pl.col("kind") == "atomic") & (then == "lock"))["row"]
    locking = (locking & ~tries) | pl.int_range(pl.len()).is_in(takes.implode())
    return only(events, ~locking)


def with_locks_in_pairs(events: pl.DataFrame) -> pl.DataFrame:
    """Recorded events of the operations that give each lock back that they take, and no other.

    >>> events = {"task": [0] * 3, "operation": [0, 0, 1], "kind": ["lock", "unlock", "lock"]}
    >>> with_locks_in_pairs(pl.DataFrame(events | {"address": [64] * 3})).height
    2
    """
    change = pl.when(kind="lock").then(1).when(kind="unlock").then(-1).otherwise(0)
    held = events.select(
        "task", "operation", held=change.cum_sum().over("task", "operation", "address")
    ).with_columns(address=events["address"])
    by_lock = held.group_by("task", "operation", "address").agg(
        least=pl.col("held").min(), last=pl.col("held").last()
    )
    unpaired = by_lock.filter((pl.col("least") < 0) | (pl.col("last") != 0))
    return events.join(unpaired, on=["task", "operation"], how="anti", maintain_order="left")


def stacks(table: pl.DataFrame, operations: float, _contexts: tuple[str, ...] = ()) -> pl.DataFrame:
    """How often an operation does what, in which function: a row a function and event."""
    what = pl.concat_str(pl.coalesce("access", "kind"), "object", separator=" ", ignore_nulls=True)
    return (
        table.filter(pl.col("kind") != "exit")
        .select(pl.lit("process").alias("context"), pl.col("function").fill_null("entry"), event=what)
        .group_by("context", "function", "event")
        .agg(events_per_op=pl.len() / operations)
        .sort("context", "function", "event")
    )


def why_not(table: pl.DataFrame) -> str:
    """Why a trace cannot be replayed; empty if it can."""
    try:
        whole(table)
    except CutTraceError as error:
        return str(error)
    return why_not_whole(table)


def why_not_whole(table: pl.DataFrame) -> str:
    """The same of one that `whole` has looked at."""
    operations = table.group_by("task", "operation").agg(
        pl.col("instructions").sum(), sleeps=(pl.col("kind") == "sleep").any(), wakes=_wakes_another().any()
    )
    for does, what in (("sleeps", "sleep for others than locks"), ("wakes", "wake others than themselves")):
        those = operations.filter(pl.col(does))
        executed = int(those["instructions"].sum()), int(operations["instructions"].sum())
        if those.height > _MOST_ASLEEP * operations.height or executed[0] > _MOST_ASLEEP * executed[1]:
            return f"its tasks {what}, which a replay does not follow yet"
    return ""


def followed(table: pl.DataFrame) -> pl.DataFrame:
    """Of what `whole` has looked at, what a replay follows: operations that neither sleep nor wake others."""
    others = table.filter((pl.col("kind") == "sleep") | _wakes_another()).select("task", "operation").unique()
    return table.join(others, on=["task", "operation"], how="anti", maintain_order="left")


def _wakes_another() -> pl.Expr:
    """Another task, of the workload or not: what it waits for may always be there."""
    return (pl.col("kind") == "wake") & pl.col("target").ne_missing(pl.col("task"))


def whole(table: pl.DataFrame) -> pl.DataFrame:
    """The table in order and without gaps, which takes as long as the rest; CutTraceError if it is not."""
    missing = [
        name for name in ("task", "operation", "sequence", "kind", "instructions") if name not in table
    ]
    if missing or table.is_empty():
        raise CutTraceError(f"the trace has no {' and '.join(missing) or 'rows'}")
    absent = [pl.lit(None, kind).alias(name) for name, kind in SCHEMA.items() if name not in table]
    table = table.with_columns(absent).select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    table = table.with_columns(
        pl.col("offset").fill_null(0),
        pl.col("bytes").fill_null(0),
        pl.col("access", "lock", "object", "function").fill_null(""),
    ).sort("task", "operation", "sequence")
    unknown = set(table["kind"]) - set(KINDS)
    if unknown:
        raise CutTraceError(f"the trace has events of an unknown kind: {', '.join(sorted(unknown))}")
    for (task, operation), rows in table.group_by("task", "operation", maintain_order=True):
        where = f"operation {operation} of task {task}"
        if rows["sequence"].to_list() != list(range(rows.height)):
            raise CutTraceError(f"the trace was cut: {where} lacks events")
        held: list[tuple[int, int]] = []
        locks = rows.filter(pl.col("kind").is_in(_OF_LOCKS))
        for kind, line, offset in locks.select("kind", "line", "offset").iter_rows():
            if kind == "lock":
                held.append((line, offset))
            elif (line, offset) not in held:
                does = "gives a lock back" if kind == "unlock" else "downgrades a lock"
                raise CutTraceError(f"the trace was cut: {where} {does} that it has not taken")
            elif kind == "unlock":
                held.remove((line, offset))
        if held:
            raise CutTraceError(f"the trace was cut: {where} ends with a lock held")
    return table


def _with_more_instructions(table: pl.DataFrame, extrapolated: Extrapolated) -> pl.DataFrame:
    """The same, where functions execute more, on all of their events; on all there are, if they have none.

    >>> rows = {"task": [0] * 3, "operation": [0] * 3, "function": ["sum", "other", "sum"]}
    >>> table = pl.DataFrame(rows | {"instructions": [100] * 3})
    >>> _with_more_instructions(table, Extrapolated({"sum": 50.0, "lost": 30.0}))["instructions"].to_list()
    [135, 110, 135]
    """
    if not extrapolated.paths:
        return table
    operations = table.select(pl.struct("task", "operation").n_unique()).item()
    named = pl.col("function").fill_null("")
    more = extrapolated.by_function(set(table.select(named.unique()).to_series()) - {""})
    everywhere = more.pop("", 0.0) * operations / table.height
    here = (
        named.replace_strict(more, default=0.0, return_dtype=pl.Float64) * operations / pl.len().over(named)
    )
    executed = (pl.col("instructions") + here + everywhere).clip(0).round()
    return table.with_columns(executed.cast(table.schema["instructions"]).alias("instructions"))


def _with_more_visits(table: pl.DataFrame, extrapolated: Extrapolated) -> pl.DataFrame:
    """The same, where a visit is made as often as there are more CPUs; together they execute what it did.

    >>> row = {"kind": "access", "number": 0, "visits": True, "instructions": 10, "object": "hits of CPU 3"}
    >>> extrapolated = Extrapolated(visits={"hits of CPU": 1.4})
    >>> _with_more_visits(pl.DataFrame([row] * 5), extrapolated).height
    7
    """
    names = {name: without_instance(name) for name in table["object"].unique() if name}
    factors = {
        name: extrapolated.visits[whole] for name, whole in names.items() if whole in extrapolated.visits
    }
    if not factors:
        return table
    factor = pl.col("object").replace_strict(factors, default=1.0, return_dtype=pl.Float64)
    factor = pl.when(pl.col("visits") & (pl.col("kind") == "access")).then(factor).otherwise(1.0)
    # What of a factor is no whole number makes every other, or every third, one more.
    so_far = factor.cum_sum().over("number", "visits") + _HAIR
    times = so_far.floor() - (so_far - factor).floor()
    repeated = table.with_columns(times=times.fill_null(1).cast(pl.UInt32)).filter(pl.col("times") > 0)
    each = (pl.col("instructions") / pl.col("times")).round().cast(table.schema["instructions"])
    return (
        repeated.with_columns(each, copies=pl.int_ranges("times")).explode("copies").drop("copies", "times")
    )


def _lines(table: pl.DataFrame, nodes: Nodes) -> tuple[list[ReplayLine], dict[int, int]]:
    """The lines that several tasks touch and one writes, and the number of each address."""
    touched = table.filter(pl.col("kind").is_in(["access", "lock"])).with_columns(
        writes=(pl.col("access") != "read") | (pl.col("kind") == "lock")
    )
    by_task = touched.group_by("line", "task").agg(pl.len(), pl.col("writes").sum())
    shape = by_task.group_by("line").agg(
        most=pl.col("len").max() / pl.col("len").sum(),
        tasks=pl.len(),
        per_op=pl.col("len").sum() / table.select(pl.struct("task", "operation").n_unique()).item(),
        task=pl.col("task").min(),
        written=pl.col("writes").max() / pl.col("writes").sum(),
    )
    names = touched.group_by("line").agg(pl.col("object").mode().sort().first())
    lines: list[ReplayLine] = []
    known: dict[str, int] = {}
    of_line: dict[int, int] = {}
    rows = shape.join(names, on="line").sort("line")
    passed = passed_on(rows.select("object", "most", "tasks", "per_op").iter_rows(), nodes)
    for line, most, touching, _per_op, task, written, object in rows.iter_rows():
        if touching < 2 or math.isnan(written):
            continue
        own = of_one_writer(object, written) or object in passed
        scope = "task" if own else scope_of(object, most, touching, nodes)[0]
        key = f"{scope} {without_instance(object)}" if scope in OWN else str(line)
        if scope == "node":
            key = nodes.counterpart(object, task)
        if key not in known:
            known[key] = len(lines)
            lines.append(ReplayLine(object, scope))
        of_line[line] = known[key]
    return lines, of_line


def _names(table: pl.DataFrame, of_line: dict[int, int]) -> dict[int, frozenset[str]]:
    names: dict[int, frozenset[str]] = {}
    touched = table.filter(pl.col("kind").is_in(["access", "lock"]) & pl.col("line").is_in(list(of_line)))
    for line, objects in touched.group_by("line").agg(pl.col("object").unique()).iter_rows():
        names[of_line[line]] = names.get(of_line[line], frozenset()) | frozenset(objects)
    return names


def _with_scopes(table: pl.DataFrame, of_line: dict[int, int], lines: list[ReplayLine]) -> pl.DataFrame:
    """The same with each line's `number` and `scope`; `visits`: it is mostly another task's.

    `of_cpu`: it is one of those that each CPU has, to each of which a visit is another.
    """
    touched = (
        table.filter(kind="access")
        .group_by("line", "task")
        .agg(pl.len(), writes=(pl.col("access") != "read").sum(), object=pl.col("object").first())
    )
    of_cpu = pl.col("object").str.contains(OF_CPU)
    uses = pl.when(of_cpu & (pl.col("writes").sum().over("line") > 0)).then("writes").otherwise("len")
    owners = touched.sort(uses, "task", descending=[True, False]).group_by("line").first()
    numbers = pl.DataFrame(
        [(line, number, lines[number].scope) for line, number in of_line.items()],
        schema={"line": pl.UInt64, "number": pl.UInt32, "scope": pl.String},
        orient="row",
    ).join(owners.select("line", of_cpu.alias("of_cpu"), owner="task"), on="line", how="left")
    visits = pl.col("scope").is_in(OWN) & (pl.col("owner") != pl.col("task"))
    return table.join(numbers, on="line", how="left", maintain_order="left").with_columns(
        visits=visits.fill_null(False), of_cpu=pl.col("of_cpu").fill_null(False)
    )


def _without_hits(table: pl.DataFrame) -> pl.DataFrame:
    """Without accesses that find their line where the same task had it just before, under the same lock.

    Atomic ones to lines that all have are kept, as others wait for each of them; and all to the line of a
    lock that the task holds, as those who wait for it take the line away.
    """
    operation = ("task", "operation")
    is_access, reads = pl.col("kind") == "access", pl.col("access") == "read"
    own = pl.col("scope").is_in(OWN) & ~pl.col("visits")
    executed = pl.col("instructions").cum_sum().over(operation)
    locks = pl.col("kind").is_in(_OF_LOCKS).cum_sum().over(operation)
    stretch = executed // pl.when(own).then(_OWN_STRETCH).otherwise(_STRETCH)
    apart = pl.when(pl.col("of_cpu") & pl.col("visits")).then("line")
    table = table.with_columns(locks=locks, stretch=stretch, apart=apart).with_row_index("row")
    same = (*operation, "number", "visits", "locks", "stretch", "apart")
    touched = table.filter(is_access & pl.col("number").is_not_null())
    firsts = [some.group_by(same).agg(pl.col("row").min()) for some in (touched, touched.filter(~reads))]
    needed = pl.concat(firsts)["row"]
    change = pl.when(kind="lock").then(1).when(kind="unlock").then(-1).otherwise(0)
    holds = change.cum_sum().over(*operation, "line") > 0
    waited_for = ((pl.col("access") == "atomic") | holds) & ~own & ~pl.col("visits")
    return only(table, ~is_access | waited_for | pl.col("row").is_in(needed.implode()))


def _without_looks(table: pl.DataFrame) -> pl.DataFrame:
    """Without what a trylock reads of the line that it takes at once: it comes to be written, once.

    So it does for mmap_lock, which exc_page_fault prefetches to be written; and published page faults of many
    threads are as fast as if it did for the lock of a VMA, too.

    >>> rows = {"task": [0] * 2, "operation": [0] * 2, "kind": ["access", "lock"], "line": [7] * 2}
    >>> rows |= {"access": ["read", ""], "function": ["down_read_trylock", "f"], "instructions": [5, 9]}
    >>> _without_looks(pl.DataFrame(rows)).select("kind", "instructions").rows()
    [('lock', 14)]
    """
    same = ("task", "operation", "line")
    looks = (pl.col("function") == kernel_functions.TRYLOCK) & (pl.col("access") == "read")
    takes = (pl.col("access") == "write") | (pl.col("kind") == "lock")
    rows = pl.int_range(pl.len()).alias("row")
    executed = pl.col("instructions").cum_sum().over("task", "operation").alias("executed")
    touched = table.with_columns(rows, executed).filter(pl.col("kind").is_in(["access", "lock"]))
    soon = pl.col("executed").shift(-1).over(same) - pl.col("executed") <= _AT_ONCE
    looked = touched.filter(looks & takes.shift(-1).over(same) & soon)["row"]
    return only(table, ~pl.int_range(pl.len()).is_in(looked.implode()))


def _lock(lock: str) -> tuple[str, str]:
    """The simulator's kind of a lock, and how it is held."""
    function = waiting(lock)
    if function not in LOCKS:
        raise CutTraceError(f"the trace has a lock of an unknown kind: {lock!r}")
    return LOCKS[function], "read" if function in READERS else "write"


def _from_memory(function: str, written: int) -> bool:
    """Whether it takes bandwidth of memory: what a slab object or a buffer holds was in the cache before.

    >>> _from_memory("clear_page_erms", 4096), _from_memory("memset_erms", 4096)
    (True, False)
    >>> _from_memory("copy_page", 4096), _from_memory("copy_page_from_iter_atomic", 4096)
    (True, False)
    """
    return not function or bool(kernel_functions.NEW_PAGES.match(function)) or written > _MOST_CACHED


def _of_lock(kind: str, lock: int, how: str, held: dict[int, str], tries: bool = False) -> Event:
    """What is done to a lock; `held` has how each is held, and what is downgraded is given back by a reader.

    >>> held: dict[int, str] = {}
    >>> [_of_lock(kind, 0, "write", held, True).how for kind in ("lock", "downgrade", "unlock")]
    ['try write', '', 'read']
    """
    if kind == "downgrade":
        if held.get(lock) != "write":
            raise CutTraceError("the trace downgrades a lock that is not held to write")
        held[lock], how = "read", ""
    elif kind == "lock":
        held[lock] = how
        how = f"try {how}" if tries else how
    else:
        how = held.pop(lock, how)
    return Event(kind, 0.0, lock, how)


def _interrupt(target: int | None, others: int) -> Event:
    """So many CPUs are interrupted: a share of the others if it was most of them; else that number.

    >>> [_interrupt(target, 7)[1:] for target in (7, 6, 1, None)]
    [(1.0, 7, 'share'), (0.8571428571428571, 6, 'share'), (1.0, 1, 'number'), (1.0, 7, 'share')]
    """
    if target is not None and 2 * target <= others:
        return Event("interrupt", float(target), target, "number")
    recorded = target or others
    return Event("interrupt", min(1.0, recorded / others) if others else 1.0, recorded, "share")


def _events(
    rows: pl.DataFrame, of_line: dict[int, int], locks: dict[tuple[int, int, str], int], others: int
) -> Iterator[Event]:
    work = 0.0
    held: dict[int, str] = {}
    of_place = ("line", "offset", "bytes", "access", "lock", "target", "function", "visits")
    for kind, instructions, *place in rows.select("kind", "instructions", *of_place).iter_rows():
        line, offset, bytes_, access, lock, target, function, visits = place
        work += instructions
        event = None
        if kind == "enter":
            event = Event("system call", 1.0)
        elif kind in ("fill", "copy") and _from_memory(function, bytes_):
            event = Event("fill", float(bytes_))
        elif kind == "ipi":
            event = _interrupt(target, others)
        elif kind == "tlbi":
            event = Event("broadcast")
        elif kind in _OF_LOCKS:
            of, how = _lock(lock)
            if (line, offset, of) in locks:
                event = _of_lock(kind, locks[line, offset, of], how, held, lock != waiting(lock))
        elif kind == "access" and line in of_line:
            exchanges = access == "atomic" and bool(kernel_functions.EXCHANGES.match(function))
            number = locks.get((line, offset, "spinlock"))
            if exchanges and number is not None and number not in held:
                event = Event("lockref", 0.0, number)
            else:
                how = "exchange" if exchanges else access
                event = Event("visit" if visits else "access", 0.0, of_line[line], how)
        if event:
            if work:
                yield Event("work", work)
            work = 0.0
            yield event
    if work:
        yield Event("work", work)


def _with_long_fills(events: Iterator[Event]) -> Iterator[Event]:
    """The same, where fills of a few pages after each other are one, after all that is executed between them.

    >>> page = [Event("work", 22.0), Event("fill", 4096.0)]
    >>> [event[:2] for event in _with_long_fills(iter([*page, *page, Event("work", 5.0)]))]
    [('work', 44.0), ('fill', 8192.0), ('work', 5.0)]
    """
    before = filled = after = 0.0
    for event in events:
        if event.kind == "work":
            after += event.amount
            continue
        if event.kind != "fill" or filled + event.amount > _MOST_FILLED:
            yield from _filled(before, filled, after)
            before = filled = after = 0.0
        if event.kind == "fill":
            before, filled, after = before + after, filled + event.amount, 0.0
        else:
            yield event
    yield from _filled(before, filled, after)


def _filled(before: float, filled: float, after: float) -> Iterator[Event]:
    events = (Event("work", before), Event("fill", filled), Event("work", after))
    return (event for event in events if event.amount)
