"""efficiency: how each CPU spends its time while tasks run, and the share that the tasks get.

By a BPF program in the guest's kernel where it can run one, and as the kernel accounts for its time itself,
in /proc/stat and /proc/schedstat. In a VM, times are VM times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from bigiron.analysis.probes import efficiency
from bigiron.architectures import architectures
from bigiron.errors import MachineError
from bigiron.probes.probe import CellRequest, Probe, ProbeTable, RawOutput
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

_WINDOW_MS = 2000
_SLOW_WINDOW_MS = 100  # by a clock that follows instructions: 200 million of each CPU

SCHEMA = Schema(
    lambda: {
        "cpu": pl.UInt32,
        "source": pl.String,  # who says so: events, /proc/stat, /proc/schedstat
        "kind": pl.String,  # what it went to: workload, interrupt, idle, ... (docs/reference/schema.md)
        "name": pl.String,  # of a task without its CPU (kworker), of a softirq (RCU); "" if the kind says all
        "nanoseconds": pl.UInt64,
        "times": pl.UInt64,  # how often it ended, or was switched out; null where the source does not tell
    }
)

_TICK_NS = 10_000_000  # /proc/stat counts in USER_HZ, 100 a second everywhere (proc(5))
_STAT = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")  # proc(5)
_SCHEDSTAT = {6: "running", 7: "waiting"}  # Documentation/scheduler/sched-stats.rst, counted from 0


def _job(request: CellRequest) -> list[str]:
    window_ms = _SLOW_WINDOW_MS if request.slow_clock else _WINDOW_MS
    return [f"efficiency {request.files_at}efficiency.bpf.o", f"efficiency_ms {window_ms}"]


def _collect(raw: RawOutput) -> ProbeTable:
    summaries = [message.content for message in raw.messages if message.type == "efficiency_summary"]
    files = {
        name: [
            message.content["lines"]
            for message in raw.messages
            if message.type == "file" and message.content["path"] == name
        ]
        for name in ("/proc/stat", "/proc/schedstat")
    }
    if not summaries or any(len(readings) not in (0, 2) for readings in files.values()):
        raise MachineError("the agent did not report how the CPUs spent their time")
    rows = [
        *_by_events([message.content for message in raw.messages if message.type == "share"]),
        *(_by_ticks(*files["/proc/stat"]) if files["/proc/stat"] else []),
        *(_by_scheduler(*files["/proc/schedstat"]) if files["/proc/schedstat"] else []),
    ]
    lost = {"intervals of CPU time for which there was no room": summaries[-1]["lost"]}
    return ProbeTable(pl.DataFrame(rows, schema=SCHEMA, orient="row"), summaries[-1], lost)


_Row: TypeAlias = tuple[int, str, str, str, int, int | None]


def _by_events(shares: list[dict[str, object]]) -> Iterator[_Row]:
    """Adds up tasks of the same name: there are many kworkers that do the same work."""
    nanoseconds: Counter[tuple[int, str, str]] = Counter()
    times: Counter[tuple[int, str, str]] = Counter()
    for share in shares:
        what = (int(str(share["cpu"])), str(share["kind"]), _without_cpu(str(share["name"])))
        nanoseconds[what] += int(str(share["ns"]))
        times[what] += int(str(share["times"]))
    for (cpu, kind, name), total in sorted(nanoseconds.items()):
        yield cpu, "events", kind, name, total, times[cpu, kind, name]


def _without_cpu(name: str) -> str:
    """A kernel thread's name without the CPU, and a worker's name without its current work.

    >>> [_without_cpu(name) for name in ("kworker/3:1-events", "ksoftirqd/12", "rcu_sched", "my/job")]
    ['kworker', 'ksoftirqd', 'rcu_sched', 'my/job']
    """
    return re.sub(r"/[u\d].*", "", name)


def _by_ticks(before: list[str], after: list[str]) -> Iterator[_Row]:
    first, last = _cpus(before), _cpus(after)
    for cpu, fields in last.items():
        for kind, was, now in zip(_STAT, first.get(cpu, []), fields, strict=False):
            yield cpu, "/proc/stat", kind, "", max(0, now - was) * _TICK_NS, None


def _by_scheduler(before: list[str], after: list[str]) -> Iterator[_Row]:
    first, last = _cpus(before), _cpus(after)
    for cpu, fields in last.items():
        for place, kind in _SCHEDSTAT.items():
            if len(fields) > place and cpu in first:
                yield cpu, "/proc/schedstat", kind, "", max(0, fields[place] - first[cpu][place]), None


def _cpus(lines: list[str]) -> dict[int, list[int]]:
    """The numbers after each CPU's name. Lines without a CPU are skipped.

    >>> _cpus(["cpu  9 9", "cpu0 1 2 3", "intr 5 6", "cpu12 4"])
    {0: [1, 2, 3], 12: [4]}
    """
    found = (re.match(r"cpu(\d+) ([\d ]+)", line) for line in lines)
    return {int(line[1]): [int(number) for number in line[2].split()] for line in found if line}


PROBE = Probe(
    name="efficiency",
    description="how much of each CPU's time the tasks get, and what takes the rest",
    columns=SCHEMA,
    units={"nanoseconds": "ns"},
    job=_job,
    collect=_collect,
    compare=lambda read, options: efficiency.compare(read, options),
    measures=("unbounded",),
    measures_time=True,
    changes_code=True,
    needs_bpf=True,
    only_on=tuple(one.name for one in architectures() if one.interrupt_events),
)
