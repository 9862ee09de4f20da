"""Booting each kernel again while counts may differ by chance, as `study.sequential` adds repetitions.

Each repetition has a boot of its own. The study records how its plan grows, so that a run that was killed
goes on where it was.
"""

from collections.abc import Iterator

import msgspec

from bigiron import probes
from bigiron.analysis.statistics.repetitions import where
from bigiron.analysis.statistics.verdict import Look
from bigiron.machines.engine import Programs
from bigiron.study.run import Pools, Progress, measure_missing, missing
from bigiron.study.spec import points, repetitions_at
from bigiron.study.store import CellRecord, Study
from bigiron.util.english import plural


def run(study: Study, programs: Programs | None, jobs: int | Pools, progress: Progress) -> list[CellRecord]:
    """Measure what is missing, and boot again where counts may differ, twice as often each time."""
    records: list[CellRecord] = []
    with study.writing():
        while True:
            records += measure_missing(study, programs, jobs, progress)
            if any(record.failure for record in records):
                return records
            undecided = list(_undecided(study))
            if not undecided:
                return records
            before = min(repetitions_at(study.spec, *point) for point in undecided)
            more = min(2 * before, study.spec.most_boots)
            study.widen(msgspec.structs.replace(study.spec, look=[*study.spec.look, Look(more, undecided)]))
            still = ", ".join(where(*point) for point in undecided)
            progress.added(
                missing(study), f"counts differ after {plural(before, 'boot')}: {still}; going on to {more}"
            )


def _undecided(study: Study) -> Iterator[tuple[int, int]]:
    """The CPUs and tasks where some count may differ, and more boots are allowed."""
    # Here, as it takes long to load, and a study of one variant needs none of it.
    from bigiron.analysis.comparison.model import Options
    from bigiron.results import measurements

    found = set()
    for probe in probes.named(study.spec.probes):
        if probe.has_verdicts:
            assert probe.compare
            for compared in probe.compare(measurements.read(study, probe.name), Options()).points:
                if compared.has_undecided:
                    found.add((compared.cpus, compared.tasks))
    for point in points(study.spec):
        if point in found and repetitions_at(study.spec, *point) < study.spec.most_boots:
            yield point
