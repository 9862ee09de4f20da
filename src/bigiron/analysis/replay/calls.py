"""Function calls on other CPUs in a recorded trace, which a replay executes (sim/src/replay/calls.rs)."""

from __future__ import annotations

from bigiron.analysis.kernel_functions import QUEUING_CALLS
from bigiron.util.lazy import polars as pl

_OF_CALLS = r"call_single|\bcsd\b"


def only(events: pl.DataFrame, kept: pl.Expr) -> pl.DataFrame:
    """Those events; what was executed before one that is left out comes before the next one."""
    executed = pl.col("instructions").cum_sum().over("task", "operation")
    events = events.with_columns(executed=executed).filter(kept)
    since = pl.col("executed") - pl.col("executed").shift(1, fill_value=0).over("task", "operation")
    return events.with_columns(instructions=since).drop("executed")


def without_calls(events: pl.DataFrame) -> pl.DataFrame:
    """The same without what operations that interrupt do to calls and queues (kernel/smp.c).

    With them, each call would be queued twice, and the second time for one of the CPUs of the recording.

    >>> events = pl.DataFrame({"task": [0] * 3, "operation": [0] * 3, "kind": ["ipi", "access", "exit"]})
    >>> events = events.with_columns(instructions=pl.Series([5, 6, 7]), function=pl.lit("llist_add_batch"))
    >>> events = events.with_columns(object=pl.lit("call_single_queue of CPU 3"))
    >>> without_calls(events).select("kind", "instructions").rows()
    [('ipi', 5), ('exit', 13)]
    """
    interrupts = (pl.col("kind") == "ipi").any().over("task", "operation")
    function, object = pl.col("function").fill_null(""), pl.col("object").fill_null("")
    calls = (pl.col("kind") == "access") & function.is_in(QUEUING_CALLS) & object.str.contains(_OF_CALLS)
    return only(events, ~(interrupts & calls))
