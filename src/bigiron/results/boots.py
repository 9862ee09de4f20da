"""Adds boots of each kernel while counts may differ by chance.

Each repetition boots its kernel. The study records its growing plan, so that a killed run can continue.
"""

from collections.abc import Iterator

import msgspec

from bigiron import probes
from bigiron.analysis.statistics.repetitions import where
from bigiron.analysis.statistics.verdict import Look
from bigiron.machines.engine import Programs
from bigiron.study.pool import Pools, Progress, measure_missing, missing
from bigiron.study.spec import points, repetitions_at
from bigiron.study.store import CellRecord, Study
from bigiron.util.english import plural


def run(study: Study, programs: Programs | None, jobs: int | Pools, progress: Progress) -> list[CellRecord]:
    """Measure what is missing, and double the number of boots at points where counts may differ."""
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
                missing(study),
                f"counts differ after {plural(before, 'boot')}: {still}; continuing up to {more}",
            )


def _undecided(study: Study) -> Iterator[tuple[int, int]]:
    """The points where some count may differ and more boots are allowed."""
    # Imported here because it loads slowly, and a study of one variant does not need it.
    from bigiron.analysis.comparison.model import Options
    from bigiron.results import measurements

    found = set()
    for probe in probes.named(study.spec.probes):
        if probe.has_verdicts:
            assert probe.compare
            for compared in probe.compare(measurements.read(study, probe.name), Options()).points:
                if compared.has_undecided:
                    found.add((compared.cpus, compared.tasks))
    for cpus, tasks in points(study.spec):
        may_have_more = repetitions_at(study.spec, cpus, tasks) < study.spec.most_boots
        if may_have_more and (cpus, study.spec.known_tasks(tasks)) in found:
            yield cpus, tasks
