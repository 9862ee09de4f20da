"""blocked: how long tasks were off the CPU, where in the kernel they left it, and why.

Added up in the guest's kernel by the BPF program in bpf/, or, where the kernel has no BPF, by the agent from
the scheduler's events. Only times that both started and ended in recorded operations count.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from bigiron.analysis.probes import blocked
from bigiron.errors import MachineError, UserError
from bigiron.probes.options import ProbeOptions, whole_number
from bigiron.probes.probe import CellRequest, Probe, ProbeTable, RawOutput, StackSource
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

SCHEMA = Schema(
    lambda: {
        "context": pl.String,  # process or kthread: whose time it was
        "task": pl.String,  # the task's name
        "pid": pl.UInt32,
        "tgid": pl.UInt32,
        "state": pl.String,  # S, D, I, ... as ps shows them; R: it could have run, and another task did
        "path": pl.String,  # functions where it left the CPU, outermost first: "do_syscall_64;...;schedule"
        "user_path": pl.String,  # of its program; "" unless asked for
        "count": pl.UInt64,  # how many times
        "total_ns": pl.UInt64,
        "max_ns": pl.UInt64,
        "histogram": pl.List(pl.UInt32),  # times shorter than 2048 ns, 4096 ns, 8192 ns, ...
    }
)

STATES = {"R": 0x100, "S": 1, "D": 2, "I": 0x80, "T": 4, "t": 8, "P": 64}
"""Letters of the states in which a task leaves its CPU, and their bits (bpf/blocked_maps.h)."""


class BlockedOptions(ProbeOptions, frozen=True, kw_only=True):
    """Which times count."""

    WRONG_PROBE_MESSAGE: ClassVar[str] = "blocked time is counted by the probe blocked: add it with --probe"

    blocked_min_us: Annotated[
        int,
        typer.Option(
            help="ignore times off the CPU that are shorter than this many microseconds (probe blocked)"
        ),
    ] = 0
    blocked_states: str = ""
    """Letters of the only states that count, as ps shows them (`DS`); all unless given."""
    blocked_user: bool = False
    """Whether stacks in user space are taken too."""

    def check(self) -> None:
        """Check that the states exist and that the time is possible."""
        whole_number("blocked_min_us", self.blocked_min_us, 1 << 40, least=0)
        if set(self.blocked_states) - set(STATES):
            raise UserError(
                f"blocked_states = {self.blocked_states!r}: use letters of {''.join(STATES)}, as ps has them"
            )

    def environment(self) -> dict[str, object]:
        """The options as a cell's record holds them, with a word for all states."""
        return super().environment() | {"blocked_states": self.blocked_states or "all"}


def _job(request: CellRequest) -> list[str]:
    asked = request.options[BlockedOptions]
    states = sum(STATES[letter] for letter in set(asked.blocked_states))
    return [
        f"blocked {request.files_at}blocked.bpf.o",
        f"blocked_min_us {asked.blocked_min_us}",
        f"blocked_states {states}",
        *(["blocked_user"] if asked.blocked_user else []),
        f"operations {request.operations}",
    ]


def _collect(raw: RawOutput) -> ProbeTable:
    summaries = [message.content for message in raw.messages if message.type == "blocked_summary"]
    if not summaries:
        raise MachineError("the agent reported no blocked time")
    rows = [
        {
            **message.content,
            "context": _context(message.content["path"], message.content["state"]),
            "path": _to_the_scheduler(message.content["path"]),
        }
        for message in raw.messages
        if message.type == "blocked"
    ]
    frame = pl.DataFrame([{name: row[name] for name in SCHEMA} for row in rows], schema=SCHEMA)
    lost = {"times off the CPU for which there was no room": summaries[-1]["lost"]}
    return ProbeTable(frame.sort("total_ns", descending=True), summaries[-1], lost)


def _context(path: str, state: str) -> str:
    """The task for which it waited: a kernel thread in state D has work to do for another task.

    >>> _context("ret_from_fork;kthread;worker_thread;schedule;__schedule", "I")
    'kthread'
    >>> _context("ret_from_fork;kthread;worker_thread;process_one_work;_cpu_down;synchronize_rcu", "D")
    'process'
    """
    is_kthread = not {"kthread", "kthreadd"}.isdisjoint(path.split(";")[:3])
    return "kthread" if is_kthread and state != "D" else "process"


def _to_the_scheduler(path: str) -> str:
    """A stack without the tracer's own functions, which the scheduler calls.

    >>> _to_the_scheduler("ksys_read;schedule;__schedule;bpf_trace_run4;bpf_prog_905b7a70fdcae1b2_typed")
    'ksys_read;schedule;__schedule'
    """
    frames = path.split(";")
    last = max((at for at, frame in enumerate(frames) if frame.startswith("__schedule")), default=None)
    return ";".join(frames[: last + 1]) if last is not None else path


PROBE = Probe(
    name="blocked",
    description="how long tasks were off the CPU, in which function and why",
    columns=SCHEMA,
    units={"total_ns": "ns", "max_ns": "ns"},
    options=BlockedOptions,
    job=_job,
    collect=_collect,
    compare=lambda read, options: blocked.compare(read, options),
    measures_time=True,
    changes_code=True,
    needs_bpf=True,
    stacks=StackSource(
        lambda table, done, contexts: blocked.stacks(table, done, contexts),
        "microseconds off the CPU",
        ("microseconds", "times"),
        ("task", "path"),
    ),
)
