"""Simulated cells: a design on a machine of any size (docs/howto/simulate-a-design.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import product
from typing import Any, Literal

import msgspec

from bigiron import _sim
from bigiron.errors import UserError
from bigiron.machines.outcome import MachineOutcome
from bigiron.machines.simulated import parameters
from bigiron.probes import ProbeTable
from bigiron.simulator import machine_files
from bigiron.study.engines import SIMULATED
from bigiron.study.resolve import check_names
from bigiron.study.spec import Simulation, Spec, Variant
from bigiron.study.store import Collected
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

LINES = Schema(
    lambda: {
        "line": pl.String,
        "accesses": pl.UInt64,
        "transfers": pl.UInt64,
        "waiting_ns": pl.Float64,
        "transferring_ns": pl.Float64,
    }
)
LOCKS = Schema(
    lambda: {"lock": pl.String, "acquired": pl.UInt64, "waiting_ns": pl.Float64, "holding_ns": pl.Float64}
)
FIGURES = Schema(lambda: {"figure": pl.String, "value": pl.Float64, "unit": pl.String})
_SPENT = ("user", "work", "queueing", "transfer", "spinning", "idle")


def listing() -> list[tuple[str, str, str, str]]:
    """Every design, each followed by its parameters: name, default, meaning."""
    return [
        row
        for design, description, known in _sim.designs()
        for row in [(design, "", "", description), *(("", *parameter) for parameter in known)]
    ]


def variants(settings: list[str]) -> list[Variant]:
    """A variant for every combination of the values in `NAME=VALUE,VALUE` settings.

    >>> [variant.name for variant in variants(["mask=0,3", "hz=1024"])]
    ['mask=0 hz=1024', 'mask=3 hz=1024']
    """
    choices = []
    for setting in settings:
        name, equals, listed = setting.partition("=")
        if not equals or not all(listed.split(",")):
            raise UserError(f"--set {setting!r}: use NAME=VALUE, or NAME=VALUE,VALUE,...")
        choices.append([f"{name}={value}" for value in listed.split(",")])
    return [Variant(name=" ".join(each) or "defaults", set=list(each)) for each in product(*choices)]


def asking(
    design: str,
    machine: str,
    cpus: list[int] | None = None,
    tasks: Literal["all"] | list[int] = "all",
    settings: list[str] | None = None,
    *,
    seeds: int = 1,
    warmup_ms: float = 100,
    duration_ms: float = 100,
    timeline_us: float = 0,
    ranges: bool = False,
) -> Spec:
    """A study's question; without `cpus`, all CPUs of the machine."""
    return Spec(
        workload=design,
        machine=SIMULATED,
        cpus=cpus or [],
        tasks=tasks,
        repetitions=seeds,
        simulation=Simulation(
            machine=machine,
            warmup_ms=warmup_ms,
            duration_ms=duration_ms,
            timeline_us=timeline_us,
            ranges=ranges,
        ),
        variant=variants(settings or []),
    )


def resolve(spec: Spec) -> Spec:
    """Check a simulated study's question and fill in hashes. UserError if it cannot run."""
    known = parameters(spec.workload)
    cpus = spec.engine.cpus(spec.cpus)
    if spec.tasks != "all" and "tasks" not in known:
        raise UserError(f"{spec.workload} has no parameter `tasks`: leave out --tasks")
    for variant in spec.variant:
        _check_settings(variant, spec.workload, known)
    check_names(spec)
    for what in ("warmup_ms", "duration_ms", "timeline_us"):
        if not 0 <= getattr(spec.simulation, what) < 1e9:
            raise UserError(f"{what} = {getattr(spec.simulation, what)}: use a time, zero or more")
    toml = machine_files.text(spec.simulation.machine).encode()
    digest = hashlib.sha256(toml).hexdigest()
    simulation = msgspec.structs.replace(spec.simulation, machine_sha256=digest)
    return msgspec.structs.replace(spec, cpus=cpus, probes=["simulation"], simulation=simulation)


def _check_settings(variant: Variant, design: str, known: Mapping[str, str]) -> None:
    seen = set()
    for setting in variant.set:
        name, equals, value = setting.partition("=")
        if not equals or name not in known:
            raise UserError(f"setting {setting!r}: use NAME=VALUE; {design} has {', '.join(known)}")
        if name == "tasks":
            raise UserError(f"setting {setting!r}: give --tasks {value} in its place")
        if name in seen:
            raise UserError(f"setting {setting!r}: {variant.name} sets {name} twice")
        seen.add(name)


def collect(outcome: MachineOutcome) -> Collected:
    """The report of a simulation as tables, and its timeline if one was recorded."""
    (report,) = (message.content for message in outcome.messages)
    timeline = report["timeline"]
    return Collected(tables(report), {"timeline.json": timeline.encode()} if timeline else {})


def tables(outcome: dict[str, Any]) -> dict[str, ProbeTable]:
    """The figures of a run, and its time by cache line, by lock and by CPU."""
    cpus = pl.DataFrame(outcome["cpus"]).with_row_index("cpu")
    return {
        "simulation": ProbeTable(pl.DataFrame(_figures(outcome, cpus), schema=FIGURES, orient="row")),
        "simulation_lines": ProbeTable(pl.DataFrame(outcome["lines"], schema=LINES)),
        "simulation_locks": ProbeTable(pl.DataFrame(outcome["locks"], schema=LOCKS)),
        "simulation_cpus": ProbeTable(cpus),
    }


def _figures(outcome: dict[str, Any], cpus: pl.DataFrame) -> list[tuple[str, float, str]]:
    """The figures of the design, then those of the whole machine."""
    whole = outcome["elapsed_ns"] * cpus.height
    shares = [(f"CPUs' time: {what}", 100 * cpus[f"{what}_ns"].sum() / whole, "%") for what in _SPENT]
    interrupts = ("of it in interrupts", 100 * cpus["interrupt_ns"].sum() / whole, "%")
    throughput = ("throughput", outcome["operations_per_s"], "operations/s")
    return [*outcome["figures"], throughput, *shares, interrupts] if whole else list(outcome["figures"])
