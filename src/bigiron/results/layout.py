"""A stored study to the layout of one of its structs or variables (docs/reference/probes.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bigiron import _sim
from bigiron.analysis.layout import recorded, search
from bigiron.analysis.layout.change import Change
from bigiron.analysis.layout.fields import FieldUse, Loss, Members
from bigiron.analysis.layout.outcome import LayoutOutcome
from bigiron.analysis.layout.recorded import RecordedObjects, Tables
from bigiron.analysis.layout.search import Proposal
from bigiron.analysis.statistics.estimate import Estimate, of_samples
from bigiron.errors import UserError
from bigiron.results import measurements
from bigiron.results.layout_source import Declared, declared
from bigiron.simulator import machine_files
from bigiron.study.store import CellRecord, Study
from bigiron.util.lazy import numpy as np
from bigiron.util.lazy import polars as pl

PROBE = "layout"
_PAIRS = 512  # of CPUs, whose transfers are averaged
_SAMPLES = 64  # machines


@dataclass(frozen=True)
class Transfer:
    """What it takes on a machine until a cache line has come from another CPU; predicted."""

    machine: str
    ns: Estimate


@dataclass(frozen=True)
class Layout:
    """The answer: how a struct is laid out, what that costs, and what other layouts would."""

    study: str
    workload: str
    variant: str
    cpus: int
    tasks: int | None  # None: unknown
    contexts: tuple[str, ...]
    recorded: RecordedObjects
    uses: list[FieldUse]
    losses: list[Loss]
    together: list[tuple[str, ...]]
    before: LayoutOutcome
    asked: LayoutOutcome | None  # after the changes asked for
    proposals: list[Proposal]  # where no change was asked for
    transfer: Transfer | None
    lost: int  # accesses for which the recorder had no room
    left_out: str  # accesses to what is no slab object and no variable; empty: there are none
    declared: Declared | None = None  # in the source tree, where one is given


def layout_study(
    study: Study,
    wanted: str,
    changes: Sequence[Change],
    variant: str | None,
    contexts: tuple[str, ...],
    machine: str | None,
    source: Path | None = None,
) -> Layout:
    """The layout of a struct or variable in a variant's cell with the most CPUs and tasks."""
    name = study.base(variant)
    transfer = _transfer(machine) if machine else None
    record = cell(study, name)
    tables = _tables(study, record, contexts)
    found = recorded.find(tables, wanted)
    if source and found.is_variable:
        raise UserError(f"--source: {wanted} is a variable, whose place the linker chooses")
    in_source = declared(source, found.structure, study.spec.arch) if source else None
    members, before = Members(found), LayoutOutcome(found)
    return Layout(
        study.name,
        study.workload,
        name,
        record.cpus,
        study.spec.known_tasks(record.tasks),
        contexts,
        found,
        members.uses(),
        members.losses(found.structure),
        members.written_together(),
        before,
        LayoutOutcome(found, changes) if changes else None,
        [] if changes else search.proposals(members, before),
        transfer,
        int(record.facts[PROBE].get("lost_accesses", 0)),
        tables.left_out,
        in_source,
    )


def of_structs(record: CellRecord, study: Study, structs: Iterable[str]) -> dict[str, LayoutOutcome]:
    """The layout of each struct as it is, in a cell of the probe.

    Structs that the kernel's types do not describe, or that nothing accessed, are left out.
    """
    tables = _tables(study, record, ("process",))
    found = {}
    for struct in structs:
        with suppress(UserError):
            found[struct] = LayoutOutcome(recorded.find(tables, struct))
    return found


def of_boots(
    records: Iterable[CellRecord], study: Study, structs: Sequence[str]
) -> dict[str, list[LayoutOutcome]]:
    """The same in each of several cells, which are boots of one kernel."""
    found: dict[str, list[LayoutOutcome]] = {}
    for record in records:
        for struct, outcome in of_structs(record, study, structs).items():
            found.setdefault(struct, []).append(outcome)
    return found


def cell(study: Study, variant: str) -> CellRecord:
    """That of a variant with the most CPUs and tasks. UserError if the probe was not recorded."""
    return boots(study, variant)[0]


def boots(study: Study, variant: str) -> list[CellRecord]:
    """The same, of all repetitions."""
    by_size = study.measured(PROBE)  # its error says how to record the probe
    here = [cells[variant] for cells in by_size.values() if variant in cells]
    if not here:
        raise UserError(f"{study.folder} has no measured cell of {variant} with the probe {PROBE}")
    return max(here, key=lambda records: (records[0].cpus, records[0].tasks))


def _tables(study: Study, record: CellRecord, contexts: tuple[str, ...]) -> Tables:
    read = measurements.cell(study, record, PROBE)
    accesses = read.table.filter(pl.col("context").is_in(contexts))
    elsewhere = int(read.facts.get("other_accesses", 0)) / read.operations
    size = int(read.facts["line_bytes"])
    return Tables(accesses, read.more["objects"], read.more["fields"], read.operations, size, elsewhere)


def _transfer(name: str) -> Transfer:
    """Of a cache line between two CPUs, any two as likely: the mean, and that of sampled machines."""
    model = machine_files.load(name)
    chance = np.random.default_rng(1)
    pairs = chance.integers(0, model.cpus, (_PAIRS, 2)).tolist()
    apart = [(one, other) for one, other in pairs if one != other]
    if not apart:
        raise UserError(f"{name}: a machine with one CPU transfers no cache line")

    def mean(machine: _sim.Machine) -> float:
        return float(np.mean([machine.transfer_ns(*pair) for pair in apart]))

    value = mean(model)
    sampled = [value]
    if unknowns := len(model.unknowns):
        places = machine_files.sobol_points(unknowns, _SAMPLES)
        sampled = [mean(model.at([float(one) for one in place], 1.0, 1.0)) for place in places]
    spread = of_samples(np.array(sampled))
    return Transfer(model.name, Estimate(value, min(spread.low, value), max(spread.high, value)))
