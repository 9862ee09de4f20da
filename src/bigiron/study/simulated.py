"""Simulated cells: a design on a machine of any size, not a workload on a kernel (docs/simulate.md)."""

import hashlib
from itertools import product
from time import monotonic
from typing import Any, Literal

import msgspec
import polars as pl

from bigiron import _sim
from bigiron.errors import UserError
from bigiron.probes import Table
from bigiron.simulator import machine_files
from bigiron.study import store
from bigiron.study.plan import Cell
from bigiron.study.spec import Simulation, Spec, Variant, slug
from bigiron.study.store import CellRecord, Failure, Study

_EVER_NS = 1e17
_EVENTS = 20_000_000_000  # a run with more of them has no end

LINES = {
    "line": pl.String,
    "accesses": pl.UInt64,
    "transfers": pl.UInt64,
    "waiting_ns": pl.Float64,
    "transferring_ns": pl.Float64,
}
LOCKS = {"lock": pl.String, "acquired": pl.UInt64, "waiting_ns": pl.Float64, "holding_ns": pl.Float64}
FIGURES = {"figure": pl.String, "value": pl.Float64, "unit": pl.String}
_SPENT = ("user", "work", "queueing", "transfer", "spinning", "idle")


def parameters(design: str) -> dict[str, str]:
    """A design's parameters and their defaults; UserError if there is no such design."""
    for name, _description, known in _sim.designs():
        if name == design:
            return {parameter: default for parameter, default, _meaning in known}
    names = ", ".join(name for name, _description, _parameters in _sim.designs())
    raise UserError(f"no design {design!r}: there are {names} (`bigiron simulate list`)")


def listing() -> list[tuple[str, str, str, str]]:
    """Every design, each followed by its parameters: name, default, meaning."""
    return [
        row
        for design, description, known in _sim.designs()
        for row in [(design, "", "", description), *(("", *parameter) for parameter in known)]
    ]


def variants(settings: list[str]) -> list[Variant]:
    """A variant for every combination of the values that `NAME=VALUE,VALUE` settings list.

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
) -> Spec:
    """A study's question; all the machine's CPUs unless some numbers of them are given."""
    return Spec(
        workload=design,
        machine="simulated",
        cpus=cpus or [],
        tasks=tasks,
        repetitions=seeds,
        simulation=Simulation(
            machine=machine, warmup_ms=warmup_ms, duration_ms=duration_ms, timeline_us=timeline_us
        ),
        variant=variants(settings or []),
    )


def resolve(spec: Spec) -> Spec:
    """Check what a simulated study asks, and fix what names can change. UserError for what cannot be run."""
    known = parameters(spec.workload)
    machine = machine_files.load(spec.simulation.machine)
    all_cpus = spec.cpus or [machine.cpus]
    for cpus in all_cpus:
        _with_cpus(machine, cpus)
    if spec.tasks != "all" and "tasks" not in known:
        raise UserError(f"{spec.workload} has no tasks to number: leave out --tasks")
    for variant in spec.variant:
        for setting in variant.set:
            name, equals, _value = setting.partition("=")
            if not equals or name not in known:
                raise UserError(
                    f"setting {setting!r}: use NAME=VALUE, and {spec.workload} has {', '.join(known)}"
                )
    names = [variant.name for variant in spec.variant]
    if len({slug(name) for name in names}) < len(names):
        raise UserError(f"variants need names that differ, and these are {names}")
    for what in ("warmup_ms", "duration_ms", "timeline_us"):
        if not 0 <= getattr(spec.simulation, what) < 1e9:
            raise UserError(f"{what} = {getattr(spec.simulation, what)}: use a time, zero or more")
    toml = machine_files.text(spec.simulation.machine).encode()
    digest = hashlib.sha256(toml).hexdigest()
    simulation = msgspec.structs.replace(spec.simulation, machine_sha256=digest)
    return msgspec.structs.replace(spec, cpus=all_cpus, probes=["simulation"], simulation=simulation)


def _with_cpus(machine: _sim.Machine, cpus: int) -> _sim.Machine:
    try:
        return machine.with_cpus(cpus)
    except (ValueError, OverflowError) as error:
        raise UserError(str(error)) from None


def values(spec: Spec, variant: Variant, tasks: int | None = None) -> list[tuple[str, str]]:
    """What a variant sets, and the number of tasks where the design has such."""
    given = [(name, value) for name, _equals, value in (setting.partition("=") for setting in variant.set)]
    return given if tasks is None or spec.tasks == "all" else [*given, ("tasks", str(tasks))]


def measure(study: Study, cell: Cell) -> CellRecord:
    """Simulate one cell and write what came of it."""
    spec = study.spec
    given = values(spec, cell.variant, cell.tasks)
    record = _new_record(spec, cell, given)
    start = monotonic()
    try:
        outcome = run(spec, cell.cpus, given, seed=cell.repetition)
    except UserError as error:
        outcome = {"error": str(error), "error_kind": "input"}
    record.seconds = monotonic() - start
    if "error" in outcome:
        wrong_value = outcome["error_kind"] == "input"
        record.failure = Failure("input" if wrong_value else "machine", outcome["error"])
        study.add(record, {})
        return record
    timeline = outcome["timeline"]
    study.add(record, tables(outcome), {"timeline.json": timeline.encode()} if timeline else {})
    return record


def run(spec: Spec, cpus: int, given: list[tuple[str, str]], seed: int) -> dict[str, Any]:
    """What the simulator reports of one run."""
    asked = spec.simulation
    warmup_ns = 0.0 if asked.to_the_end else asked.warmup_ms * 1e6
    try:
        point = _sim.Point(
            spec.workload,
            _with_cpus(machine_files.load(asked.machine), cpus),
            given,
            seed=seed,
            warmup_ns=warmup_ns,
            duration_ns=_EVER_NS if asked.to_the_end else asked.duration_ms * 1e6,
            event_budget=_EVENTS,
            timeline_ns=(warmup_ns, warmup_ns + asked.timeline_us * 1e3) if asked.timeline_us else None,
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    return _sim.simulate([point])[0]


def tables(outcome: dict[str, Any]) -> dict[str, Table]:
    """What a run reported: its figures, and where time went by line, by lock and by CPU."""
    cpus = pl.DataFrame(outcome["cpus"]).with_row_index("cpu")
    return {
        "simulation": Table(pl.DataFrame(_figures(outcome, cpus), schema=FIGURES, orient="row")),
        "simulation_lines": Table(pl.DataFrame(outcome["lines"], schema=LINES)),
        "simulation_locks": Table(pl.DataFrame(outcome["locks"], schema=LOCKS)),
        "simulation_cpus": Table(cpus),
    }


def _figures(outcome: dict[str, Any], cpus: pl.DataFrame) -> list[tuple[str, float, str]]:
    """The design's own, and of the machine as a whole."""
    whole = outcome["elapsed_ns"] * cpus.height
    shares = [(f"CPUs' time: {what}", 100 * cpus[f"{what}_ns"].sum() / whole, "%") for what in _SPENT]
    interrupts = ("of it in interrupts", 100 * cpus["interrupt_ns"].sum() / whole, "%")
    throughput = ("throughput", outcome["operations_per_s"], "operations/s")
    return [*outcome["figures"], throughput, *shares, interrupts] if whole else list(outcome["figures"])


def _new_record(spec: Spec, cell: Cell, given: list[tuple[str, str]]) -> CellRecord:
    """A cell's identity, and all that produced it."""
    environment = {
        "design": spec.workload,
        "values": parameters(spec.workload) | dict(given),
        "seed": cell.repetition,
        "machine": spec.simulation.machine,
        "machine_sha256": spec.simulation.machine_sha256,
        "warmup_ms": spec.simulation.warmup_ms,
        "duration_ms": spec.simulation.duration_ms,
    }
    return store.new_record(cell, "simulated", environment)
