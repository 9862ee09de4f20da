"""What operations leave to RCU: callbacks, which a softirq executes later, many one after the other.

They are in no operation, and a trace has none of them; the probes that count have them in other contexts.
Who closes a file, for example, counts in its `struct cred` then, which all threads of a process share.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, islice

from bigiron.analysis.counted_operation import Counted
from bigiron.analysis.program import Event, Line, Program
from bigiron.lazy import numpy as np
from bigiron.lazy import polars as pl

# kernel/rcu/tree.c: compilers put the first into the second.
_CALLED = r"^(?:.*;)?(?:rcu_do_batch|rcu_core|rcu_process_callbacks)(?:\.\w+)*;(.*)$"
_CALLBACKS = r"^rcu_(?:free|work)"
_RCU = r"^(?:rcu_|(?:__)?note_gp_changes|swake_up|_raw_spin_|raise_softirq|invoke_rcu|__x86_)"
"""What RCU does around them, as grace periods pass: that follows the clock, and no operation."""


def of_operations(table: pl.DataFrame) -> pl.DataFrame:
    """Of a table of `conflicts`, `locks` or `work`, what callbacks did, as if operations had called them.

    >>> path = ["irq;rcu_core", "irq;rcu_core;rcu_report_qs_rnp", "open", "rcu_core;rcu_do_batch;free"]
    >>> rows = {"context": ["interrupt"] * 2 + ["operation", "kthread"], "path": path}
    >>> of_operations(pl.DataFrame(rows | {"function": ["put"] * 4})).rows()
    [('operation', '', 'put'), ('operation', 'free', 'put')]
    """
    called = pl.concat_str("path", "function", separator=";").str.extract(_CALLED)
    rows = table.filter(pl.col("context") != "operation").with_columns(path=called).drop_nulls("path")
    rows = rows.filter(pl.col("path").str.contains(_CALLBACKS) | ~pl.col("path").str.contains(_RCU))
    path = pl.col("path").str.extract(r"^(.*);[^;]*$").fill_null("")
    return rows.with_columns(context=pl.lit("operation"), path=path)


def with_callbacks(program: Program, callbacks: Counted, chance: np.random.Generator) -> Program:
    """The program, one of whose operations executes what all of them have left, one after the other."""
    left = callbacks.program(chance)
    lines, of_line = _joined_lines(program, left)
    locks, of_lock = list(program.locks), []
    for lock in left.locks:
        here = lock._replace(line=of_line[lock.line])
        same = (number for number, other in enumerate(locks) if other[1:] == here[1:])
        of_lock.append(next(same, len(locks)))
        if of_lock[-1] == len(locks):
            locks.append(here)

    def moved(event: Event) -> Event:
        numbers = {"access": of_line, "visit": of_line, "lock": of_lock, "unlock": of_lock}.get(event.kind)
        return event._replace(object=numbers[event.object]) if numbers else event

    batch = islice(cycle(left.operations), len(program.operations))
    executed = [moved(event) for done in batch for event in done if event.kind != "system call"]
    *others, last = program.operations
    return replace(program, lines=lines, locks=locks, operations=[*others, [*last, *executed]])


def _joined_lines(program: Program, left: Program) -> tuple[list[Line], list[int]]:
    """The lines of both, those at one place once; and the number there of each of the second."""
    lines, of_line = list(program.lines), []
    here = {number: program.places[place] for place, number in left.places.items() if place in program.places}
    for number, line in enumerate(left.lines):
        of_line.append(here.get(number, len(lines)))
        if number not in here:
            lines.append(line)
    return lines, of_line
