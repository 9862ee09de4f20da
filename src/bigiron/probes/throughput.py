"""throughput: the operations that each task completes, sampled as will-it-scale does. In a VM, by VM time."""

from __future__ import annotations

import itertools

from bigiron.analysis.probes import throughput
from bigiron.errors import MachineError
from bigiron.probes.probe import CellRequest, Metric, MetricSamples, Probe, ProbeTable, RawOutput
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

_SAMPLES = 5
SCHEMA = Schema(
    lambda: {
        "sample": pl.UInt32,  # from 0
        "nanoseconds": pl.UInt64,  # how long the sample was, by the guest's clock
        "task": pl.UInt32,
        "operations": pl.UInt64,  # that the task completed in it
    }
)


def _job(request: CellRequest) -> list[str]:
    # One thread gives each CPU a turn of up to 100 ms: a sample must be longer than a round.
    return [f"samples {_SAMPLES}", f"sample_ms {500 + 150 * request.cpus}"]


def _collect(raw: RawOutput) -> ProbeTable:
    points = [message.content for message in raw.messages if message.type == "sample"]
    if len(points) != _SAMPLES + 1:
        raise MachineError(f"the agent reported {len(points)} points of throughput, not {_SAMPLES + 1}")
    rows = [
        (sample, after["nanoseconds"] - before["nanoseconds"], task, done - done_before)
        for sample, (before, after) in enumerate(itertools.pairwise(points))
        for task, (done_before, done) in enumerate(
            zip(before["operations"], after["operations"], strict=True)
        )
    ]
    return ProbeTable(pl.DataFrame(rows, schema=SCHEMA, orient="row"))


def _samples(table: pl.DataFrame) -> MetricSamples:
    sums = table.group_by("sample", maintain_order=True).agg(
        pl.col("operations").sum(), pl.col("nanoseconds").first()
    )
    rates = sums.select(pl.col("operations") * 1e9 / pl.col("nanoseconds")).to_series()
    yield Metric("throughput", "operations/s", "more"), tuple(rates)


PROBE = Probe(
    name="throughput",
    description="operations per second of every task; in a virtual machine by VM time",
    columns=SCHEMA,
    units={"nanoseconds": "ns"},
    job=_job,
    collect=_collect,
    compare=lambda read, options: throughput.compare(read, options),
    measures=("unbounded",),
    measures_time=True,
    by_default="real",
    lasts_seconds=True,
    samples=_samples,
)
