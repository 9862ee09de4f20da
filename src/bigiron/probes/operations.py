"""operations: the cost of each single operation, for workloads of CPU hotplug. In a VM, by VM time."""

from __future__ import annotations

from bigiron.analysis.probes import operations
from bigiron.errors import MachineError
from bigiron.probes.probe import CellRequest, Probe, ProbeTable, RawOutput
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

SCHEMA = Schema(
    lambda: {
        "operation": pl.UInt32,  # from 0, in their order
        "state": pl.String,  # that its CPU was put into: offline or online
        "cpu": pl.UInt32,  # that went or came; null where it was several at once
        "nanoseconds": pl.UInt64,  # by the guest's clock
        "system_ns": pl.UInt64,  # of the task's own, in the kernel
        "voluntary": pl.UInt64,  # context switches of the task: it waited
        "involuntary": pl.UInt64,
        "grace_periods": pl.UInt64,  # normal ones that were waited for; null where the kernel does not tell
        "expedited": pl.UInt64,
    }
)


def _job(_request: CellRequest) -> list[str]:
    return ["watch"]


def _collect(raw: RawOutput) -> ProbeTable:
    operations = [message.content for message in raw.messages if message.type == "operation"]
    if not operations:
        raise MachineError("the agent reported no operation")
    rows = [tuple(operation[name] for name in SCHEMA) for operation in operations]
    return ProbeTable(pl.DataFrame(rows, schema=SCHEMA, orient="row"))


PROBE = Probe(
    name="operations",
    description="the cost of taking each CPU offline and online: time, context switches, grace periods",
    columns=SCHEMA,
    units={"nanoseconds": "ns", "system_ns": "ns"},
    job=_job,
    collect=_collect,
    compare=lambda read, options: operations.compare(read, options),
    measures=("bounded",),
    measures_time=True,
    by_default="real",
)
