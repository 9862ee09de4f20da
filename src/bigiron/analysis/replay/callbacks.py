"""RCU's callbacks: what operations leave to a softirq, which executes many of them one after the other.

They are in no operation, and a trace has none of them; the probes that count have them in other contexts. A
thread that closes a file, for example, puts its `struct cred` in a callback, which all threads of a process
have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, cycle, islice

from bigiron.analysis import kernel_functions
from bigiron.analysis.replay.program import Event, ReplayLine, ReplayProgram
from bigiron.analysis.replay.synthetic_operation import Reconstruction
from bigiron.util.lazy import numpy as np
from bigiron.util.lazy import polars as pl

_WHOLE = pl.concat_str("path", "function", separator=";")
_BATCH = rf"^(?:.*;)?(?:{'|'.join(kernel_functions.RCU_BATCH)})(?:\.\w+)*;(.*)$"
_CORES = (*kernel_functions.RCU_CORE, *kernel_functions.RCU_CORE_UP_TO_5_0)
_CORE = rf"^(?:.*;)?(?:{'|'.join(_CORES)})(?:\.\w+)*;(.*)$"


def of_operations(*tables: pl.DataFrame) -> list[pl.DataFrame]:
    """What callbacks did, by the tables of several probes, as if operations had called them.

    >>> path = ["irq;rcu_core", "irq;rcu_core;rcu_report_qs_rnp", "open", "rcu_core;free", "rcu_core"]
    >>> rows = {"context": ["interrupt"] * 2 + ["process", "kthread", "kthread"], "path": path}
    >>> of_operations(pl.DataFrame(rows | {"function": ["put"] * 4 + ["mod_timer"]}))[0].rows()
    [('process', '', 'put'), ('process', 'free', 'put')]
    """
    others = [table.filter(pl.col("context") != "process") for table in tables]
    has_batches = any(table.select(_WHOLE.str.contains(_BATCH).any()).item() for table in others)
    return [_of_operations(table, _BATCH if has_batches else _CORE) for table in others]


def _of_operations(table: pl.DataFrame, caller: str) -> pl.DataFrame:
    called = pl.col("path")
    rows = table.with_columns(path=_WHOLE.str.extract(caller)).drop_nulls("path")
    rows = rows.filter(
        called.str.contains(kernel_functions.RCU_CALLBACKS)
        | ~called.str.contains(kernel_functions.RCU_ITSELF)
    )
    rows = rows.filter(~called.str.contains(kernel_functions.INTERRUPT_ON_X86))
    path = called.str.extract(r"^(.*);[^;]*$").fill_null("")
    return rows.with_columns(context=pl.lit("process"), path=path)


def with_callbacks(
    program: ReplayProgram, callbacks: Reconstruction, chance: np.random.Generator
) -> ReplayProgram:
    """The program, one of whose operations executes the callbacks of all of them, one after the other."""
    if not program.operations:
        return program
    added = callbacks.program(chance)
    lines, of_line = _joined_lines(program, added)
    locks, of_lock = list(program.locks), []
    for lock in added.locks:
        here = lock._replace(line=of_line[lock.line])
        same = (number for number, other in enumerate(program.locks) if other[1:] == here[1:])
        of_lock.append(next(same, len(locks)))
        if of_lock[-1] == len(locks):
            locks.append(here)

    def joined(event: Event) -> Event:
        numbers = {"access": of_line, "visit": of_line, "lock": of_lock, "unlock": of_lock}.get(event.kind)
        return event._replace(object=numbers[event.object]) if numbers else event

    of_all = chain.from_iterable(islice(cycle(added.operations), len(program.operations)))
    batch = _one_lock_at_a_time(joined(event) for event in of_all if event.kind != "system call")
    *others, last = program.operations
    places = {place: of_line[number] for place, number in added.places.items()}
    return replace(
        program,
        lines=lines,
        locks=locks,
        operations=[*others, [*last, *batch]],
        places={**places, **program.places},
    )


def _joined_lines(program: ReplayProgram, added: ReplayProgram) -> tuple[list[ReplayLine], list[int]]:
    """The lines of both, those at one place once; and the number there of each of the second."""
    lines, of_line = list(program.lines), []
    found: dict[int, Counter[int]] = {}
    for place, number in added.places.items():
        if place in program.places:
            found.setdefault(number, Counter())[program.places[place]] += 1
    for number, line in enumerate(added.lines):
        here = found.get(number, Counter())
        # Lines of one name are one line of each task, and may be several in the other program.
        of_line.append(
            max(here, key=lambda at: (here[at], lines[at].scope == line.scope), default=len(lines))
        )
        if not here:
            lines.append(line)
    return lines, of_line


def _one_lock_at_a_time(events: Iterable[Event]) -> Iterator[Event]:
    """Without the locks taken while another is held: counts do not tell in which order that was.

    >>> steps = [("lock", 1), ("lock", 2), ("unlock", 2), ("unlock", 1), ("lock", 2), ("unlock", 2)]
    >>> kept = _one_lock_at_a_time(Event(kind, 0, number) for kind, number in steps)
    >>> [(event.kind, event.object) for event in kept]
    [('lock', 1), ('unlock', 1), ('lock', 2), ('unlock', 2)]
    """
    held, skipped = -1, Counter[int]()
    for event in events:
        if event.kind == "lock" and held >= 0:
            skipped[event.object] += 1
        elif event.kind == "unlock" and skipped[event.object]:
            skipped[event.object] -= 1
        else:
            if event.kind in ("lock", "unlock"):
                held = event.object if event.kind == "lock" else -1
            yield event
