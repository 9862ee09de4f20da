"""Measures the candidates of a bisection: the variants of one study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec

from bigiron.analysis.comparison import model
from bigiron.bisect.search import CannotMeasureError
from bigiron.bisect.target import CandidateCells
from bigiron.errors import UserError
from bigiron.results import measurements, metrics, prediction
from bigiron.simulator import machine_files
from bigiron.study import caveats, store
from bigiron.study import run as runner
from bigiron.study.extend import extended
from bigiron.study.plan import Cell
from bigiron.study.pool import Pools, Progress, missing
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import CellRecord, Study
from bigiron.util.lazy import polars as pl
from bigiron.workloads import Workload

Watch = Callable[[list[Cell]], AbstractContextManager[Progress]]
"""Shows the progress of cells."""


@dataclass
class MeasuredByStudy:
    """Measures candidates on demand, as variants of one study."""

    folder: Path
    spec: Spec  # without variants
    jobs: int
    watch: Watch
    machine: str = ""
    """The machine to predict for, by name or file; empty: no prediction."""
    machine_tasks: int = 0
    """The number of tasks on that machine; 0: one per CPU."""
    fleet: Pools | None = None
    """Where cells run; None: on this host."""

    def __call__(self, variant: Variant) -> CandidateCells:
        """The cells of each probe. CannotMeasureError if a cell fails."""
        study, records = self._measured(variant, range(1, self.spec.repetitions + 1))
        found = {
            probe: [measurements.cell(study, record, probe) for record in records]
            for probe in study.spec.probes
        }
        return found | ({"predicted": [self._predicted(study, variant)]} if self.machine else {})

    @property
    def machine_differences(self) -> str:
        """A sentence if the candidates' machines differ in ways that affect their counts, else ""."""
        return caveats.machine_differences(store.open_study(self.folder).records())

    def _predicted(self, study: Study, variant: Variant) -> model.ProbedCell:
        """The median predicted throughput on the machine. All candidates have the same samples."""
        variants = [one for one in study.spec.variant if one.name == variant.name]
        alone = Study(study.folder, msgspec.structs.replace(study.spec, variant=variants))
        tasks = self.machine_tasks or machine_files.load(self.machine).cpus
        try:
            (curve,) = prediction.predict(alone, self.machine, [tasks]).curves
        except UserError as error:
            raise CannotMeasureError(str(error), is_input=True) from None
        (point,) = [one for one in curve.points if one.tasks == tasks]
        return model.ProbedCell(pl.DataFrame({"throughput": [point.throughput.value]}), {})

    def throughput(self, variant: Variant, repetition: int) -> float:
        """The throughput of one repetition, the mean of its samples. CannotMeasureError if it fails."""
        study, (record,) = self._measured(variant, [repetition])
        for metric, found in metrics.of_cell(study, record):
            if metric.name == "throughput" and fmean(found) > 0:
                return fmean(found)
        raise CannotMeasureError("its throughput is zero")

    def _measured(self, variant: Variant, numbers: Sequence[int]) -> tuple[Study, list[CellRecord]]:
        """The study with these repetitions of the variant, which are measured if they are missing."""
        study, workload = self._study_with(variant, max(numbers))

        def wanted(cell: Cell) -> bool:
            return cell.variant.name == variant.name and cell.repetition in numbers

        if lacking := missing(study, wanted):
            programs = runner.prepare(study.spec, workload, here=not self.fleet)
            where = self.fleet or self.jobs or runner.default_jobs(study.spec)
            with self.watch(lacking) as progress:
                runner.run(study, programs, where, progress, wanted)
        records = [record for cell in study.plan() if wanted(cell) and (record := study.record(cell))]
        for failure in (record.failure for record in records if record.failure):
            raise CannotMeasureError(
                failure.reason,
                failure.console,
                is_input=failure.kind == "input",
                is_lasting=failure.kernel_crashed,
            )
        return study, records

    def _study_with(self, variant: Variant, repetitions: int) -> tuple[Study, Workload | None]:
        before = store.open_study(self.folder).spec if (self.folder / "study.toml").exists() else None
        emulated = self.spec.engine.emulated
        known = [
            msgspec.structs.replace(one, kernel=one.kernel if emulated else "", kernel_sha256="")
            for one in (before.variant if before else ())
        ]
        new = [] if variant.name in {one.name for one in known} else [variant]
        asked = extended(
            msgspec.structs.replace(
                self.spec, variant=known, repetitions=before.repetitions if before else 1
            ),
            msgspec.structs.replace(self.spec, variant=new, repetitions=repetitions),
        )
        spec, workload = runner.resolve(asked)
        return store.create(self.folder, spec, workload), workload
