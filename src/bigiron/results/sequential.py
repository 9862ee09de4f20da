"""Adds repetitions, in random blocks, until every comparison of a study is decided or the time is up.

The study records its growing plan: each look that is added to study.toml asks for more repetitions of the
undecided points. So a killed run can continue, and a later reader judges the study by the same looks, with
the same false-positive rate.
"""

from collections.abc import Iterable

import msgspec

from bigiron.analysis.statistics.repetitions import where
from bigiron.analysis.statistics.verdict import Look, Verdict, next_look
from bigiron.errors import UserError
from bigiron.machines.engine import Programs
from bigiron.results.metrics import compare, untried
from bigiron.study.pool import Pools, Progress, measure_missing
from bigiron.study.spec import MOST_REPETITIONS, Spec, looks, points
from bigiron.study.store import CellRecord, Study


def refuse_undecidable(spec: Spec) -> None:
    """UserError if a study has nothing to decide."""
    if len(spec.variant) < 2:
        raise UserError(
            "only one variant: --until-decided compares, so give two kernels, --boot-sweep or --set-sweep"
        )
    if not spec.has_metrics:
        raise UserError("--until-decided compares throughput: record it with --probe throughput")


def run(
    study: Study, programs: Programs | None, jobs: int | Pools, progress: Progress, until: float
) -> tuple[list[CellRecord], int | None]:
    """Measure what is missing, and more where something is undecided.

    Returns the records and the number of undecided comparisons. No block starts after `until` (monotonic
    clock). A failed cell ends the run, because further cells would fail too; then the number is None.
    """
    records: list[CellRecord] = []
    with study.writing():
        while True:
            records += measure_missing(study, programs, jobs, progress, until)
            if untried(study):
                _end_look_here(study)
                return records, len(_undecided(study))
            if any(record.failure for record in records):
                return records, None
            undecided = _undecided(study)
            if not undecided or not _look_again(study, undecided, progress):
                return records, len(undecided)


def _undecided(study: Study) -> list[tuple[int, int]]:
    """The point of each undecided comparison."""
    if untried(study):
        return [point for point in points(study.spec) for _ in study.spec.variant[1:]]
    return [found.ours.point for found in compare(study) if found.verdict is Verdict.undecided]


def _look_again(study: Study, undecided: Iterable[tuple[int, int]], progress: Progress) -> bool:
    """Ask for more repetitions; False if the maximum is reached."""
    before = looks(study.spec)[-1].repetitions
    if before == MOST_REPETITIONS:
        return False
    look = Look(min(next_look(before), MOST_REPETITIONS), list(dict.fromkeys(undecided)))
    _look_at(study, [*study.spec.look, look])
    still = ", ".join(where(*point) for point in look.points)
    progress.added(
        untried(study), f"undecided after {before} repetitions: {still}; continuing up to {look.repetitions}"
    )
    return True


def _end_look_here(study: Study) -> None:
    """Time is up: judge the complete repetitions. The clock chose their number, not their results."""
    if not study.spec.look:
        return
    look = study.spec.look[-1]
    complete = min(cell.repetition for cell in untried(study)) - 1
    before = looks(study.spec)[-2].repetitions
    ended = [Look(complete, look.points)] if complete > before else []
    _look_at(study, [*study.spec.look[:-1], *ended])


def _look_at(study: Study, looks: list[Look]) -> None:
    study.widen(msgspec.structs.replace(study.spec, look=looks))
