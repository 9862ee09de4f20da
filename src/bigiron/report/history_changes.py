"""What a kernel changed, as rows of a table: in `bigiron history show` and beside the site's pages."""

from collections.abc import Iterable

from bigiron.history.records import ChangeRecord, WorkloadRecord

FIGURES = ("workload", "cpus", "what", "name", "how", "unit", "before", "after")
COLUMNS = (*FIGURES, "functions")


def largest_first(changes: Iterable[ChangeRecord]) -> list[ChangeRecord]:
    """Work, which has another unit, after all else."""
    return sorted(
        changes, key=lambda one: (one.what == "instructions", -abs(one.count_after - one.count_before))
    )


def row(change: ChangeRecord, workload: WorkloadRecord, functions: str) -> tuple[object, ...]:
    """`functions`: its own, as they are to be written."""
    return (*figures(change, workload), functions)


def figures(change: ChangeRecord, workload: WorkloadRecord) -> tuple[object, ...]:
    """Without who touches it."""
    return (
        workload.name,
        change.cpus,
        change.what,
        change.name,
        change.how,
        change.unit,
        round(change.count_before, 3),
        round(change.count_after, 3),
    )
