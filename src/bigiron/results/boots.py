"""Adds boots of each kernel while counts may differ by chance.

Each repetition boots its kernel. The study records its growing plan, so that a killed run can continue.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from bigiron import probes
from bigiron.analysis.statistics.repetitions import where
from bigiron.analysis.statistics.verdict import Look
from bigiron.machines.engine import Programs
from bigiron.study.pool import Pools, Progress, measure_missing, missing
from bigiron.study.spec import points, repetitions_at
from bigiron.study.store import CellRecord, Study
from bigiron.util.english import plural

if TYPE_CHECKING:
    from bigiron.analysis.comparison.model import CpusAndTasks


def run(study: Study, programs: Programs | None, jobs: int | Pools, progress: Progress) -> list[CellRecord]:
    """Measure what is missing, and double the number of boots at points where counts may differ."""
    records: list[CellRecord] = []
    with study.writing():
        while True:
            records += measure_missing(study, programs, jobs, progress)
            if any(record.failure for record in records):
                return records
            undecided = _undecided(study)
            if not undecided:
                return records
            before = min(repetitions_at(study.spec, *point) for point in undecided)
            more = min(2 * before, study.spec.most_boots)
            study.widen(msgspec.structs.replace(study.spec, look=[*study.spec.look, Look(more, undecided)]))
            still = ", ".join(where(*point) for point in undecided)
            progress.added(
                missing(study),
                f"counts differ after {plural(before, 'boot')}: {still}; continuing up to {more}",
            )


def _undecided(study: Study) -> list[tuple[int, int]]:
    """The points where some count may differ and more boots are allowed."""
    # Imported here because it loads slowly, and a study of one variant does not need it.
    from bigiron.analysis.comparison.model import Options
    from bigiron.results import measurements

    spec = study.spec
    allowed = [at for at in points(spec) if repetitions_at(spec, *at) < spec.most_boots]
    open_points = {(cpus, spec.known_tasks(tasks)) for cpus, tasks in allowed}
    found: set[CpusAndTasks] = set()
    judged = [probe for probe in probes.named(spec.probes) if probe.has_verdicts]
    for probe in sorted(judged, key=lambda probe: probe.name == probes.DEFAULT):  # the slowest one last
        if not open_points - found:
            break
        assert probe.compare
        measured = measurements.read(study, probe.name)
        left = {at: cells for at, cells in measured.points.items() if at in open_points - found}
        compared = probe.compare(replace(measured, points=left), Options()).points
        found |= {(point.cpus, point.tasks) for point in compared if point.has_undecided}
    return [(cpus, tasks) for cpus, tasks in allowed if (cpus, spec.known_tasks(tasks)) in found]
