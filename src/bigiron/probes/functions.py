"""functions: the time of each call of the traced functions, and of the functions that they call.

By the kernel's function graph tracer in the guest. In a VM the times are VM times. A call that waits takes
as long as it waits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar

import msgspec
import typer

from bigiron.analysis.probes import functions
from bigiron.errors import MachineError, UserError
from bigiron.machines import limits
from bigiron.probes.graph import calls
from bigiron.probes.options import ProbeOptions, in_words, whole_number
from bigiron.probes.probe import CellRequest, Probe, ProbeTable, RawOutput
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

AUTO = "auto"
"""Instead of names: the functions that account for most of the operations' time."""

SCHEMA = Schema(
    lambda: {
        "path": pl.String,  # functions that led there from the one asked for, outermost first: "a;b;c"
        "function": pl.String,
        "task": pl.String,  # the name of the task that called it
        "cpu": pl.UInt32,
        "nanoseconds": pl.UInt64,
        "self_ns": pl.UInt64,  # without the calls below it
    }
)

_FUNCTION = re.compile(r"[\w.*?]{1,200}")


class FunctionsOptions(ProbeOptions, frozen=True, kw_only=True):
    """Which functions are traced."""

    WRONG_PROBE_MESSAGE: ClassVar[str] = "functions are traced by the probe functions: add it with --probe"

    functions: Annotated[
        list[str],
        typer.Option(
            help="kernel functions to trace: NAME,NAME*, or 'auto'", metavar="<str>", callback=in_words
        ),
    ] = msgspec.field(default_factory=list)
    depth: Annotated[int, typer.Option(help="call depth to trace; 1: only the functions themselves")] = 2

    def check(self) -> None:
        """Check that there are functions, and that their names are possible."""
        if not self.functions:
            raise UserError("no function to trace: give --functions NAME,NAME")
        if AUTO in self.functions and len(self.functions) > 1:
            raise UserError(
                f"functions {AUTO!r} cannot be combined with names: give names, or {AUTO!r} alone"
            )
        for function in self.functions:
            if not _FUNCTION.fullmatch(function):
                raise UserError(
                    f"function {function!r}: use a kernel function's name, with * for any part of it"
                )
        limits.check("functions", self.functions, limits.MAX_FUNCTIONS)
        whole_number("depth", self.depth, 100)


def _job(request: CellRequest) -> list[str]:
    asked = request.options[FunctionsOptions]
    if asked.functions == [AUTO]:
        return ["choose_functions", f"operations {request.operations}"]
    return [
        *(f"function {function}" for function in asked.functions),
        f"depth {asked.depth}",
        f"operations {request.operations}",
    ]


def _collect(raw: RawOutput) -> ProbeTable:
    summaries = [message.content for message in raw.messages if message.type == "functions"]
    traces = [
        message.content["lines"]
        for message in raw.messages
        if message.type == "file" and str(message.content["path"]).endswith("/trace")
    ]
    if not summaries or not traces:
        raise MachineError("the agent reported no trace of functions")
    facts = summaries[-1]
    rows = [
        (call.path, call.function, call.task, call.cpu, call.nanoseconds, call.self_ns)
        for call in calls(traces[-1])
        if _is_below(facts["roots"], call.path, call.function)
    ]
    return ProbeTable(
        pl.DataFrame(rows, schema=SCHEMA, orient="row"),
        {
            "absent": facts["absent"],
            "lost_events": facts["lost_events"],
            # Each call is two events; what the tracer takes for both was measured in the same boot.
            "tracing_ns": len(rows) * facts["cost_of_a_call_ns"],
        },
        {"events of the kernel's tracer, which keeps the first ones of each CPU": facts["lost_events"]},
    )


def _is_below(roots: Sequence[str], path: str, function: str) -> bool:
    """Whether it was called from one of the functions to trace.

    A task that enters a root while tracing is off counts as below it until it enters a root again: the
    kernel's trace_graph_entry() remembers the root before it finds that it cannot write.

    >>> _is_below(["__x64_sys_*"], "__x64_sys_read;vfs_read", "schedule")
    True
    >>> _is_below(["__x64_sys_*"], "", "schedule")
    False
    """
    root = path.partition(";")[0] or function
    return any(fnmatchcase(root, pattern) for pattern in roots)


PROBE = Probe(
    name="functions",
    description="how long the calls of named kernel functions took, and what they called",
    columns=SCHEMA,
    units={"nanoseconds": "ns", "self_ns": "ns"},
    options=FunctionsOptions,
    job=_job,
    collect=_collect,
    compare=lambda read, options: functions.compare(read, options),
    measures_time=True,
    changes_code=True,
)
