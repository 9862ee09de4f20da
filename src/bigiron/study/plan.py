"""The cells of a study: every requested combination, in the order in which they run."""

from dataclasses import dataclass

from bigiron.machines.shape_change import CHANGES
from bigiron.study.spec import Spec, Variant, points, repetitions_at, slug
from bigiron.util.english import plural


@dataclass(frozen=True)
class Cell:
    """One measurement. Its id is unique in the study, and is the name of its folder."""

    variant: Variant
    cpus: int
    tasks: int
    repetition: int  # from 1
    change: str = ""  # of the machine's shape (machines/shape_change.py); empty: none

    @property
    def id(self) -> str:
        """For instance `debian-6.1-8cpus-8tasks-r1`, and `debian-6.1-8cpus-8tasks-r1-4x-memory`."""
        change = f"-{self.change}" if self.change else ""
        return f"{slug(self.variant.name)}-{self.cpus}cpus-{self.tasks}tasks-r{self.repetition}{change}"

    @property
    def block(self) -> tuple[int, int, int]:
        """Cells with the same block are compared with each other, and run one after the other."""
        return self.repetition, self.cpus, self.tasks

    def __str__(self) -> str:
        tasks = "" if self.tasks == self.cpus else f", {plural(self.tasks, 'task')}"
        again = f", repetition {self.repetition}" if self.repetition > 1 else ""
        change = f", {self.change.replace('-', ' ')}" if self.change else ""
        return f"{self.variant.name}, {plural(self.cpus, 'CPU')}{tasks}{again}{change}"


def cells(spec: Spec) -> list[Cell]:
    """All cells: repetition by repetition, small machines first, the variants of a point together.

    Cells on machines of a changed shape come last.
    """
    at = {point: repetitions_at(spec, *point) for point in points(spec)}
    changes = ["", *(change.name for change in CHANGES if spec.check_shape)]
    return [
        Cell(variant, *point, repetition, change)
        for change in changes
        for repetition in range(1, max(at.values(), default=0) + 1)
        for point, repetitions in at.items()
        if repetition <= repetitions
        for variant in spec.variant
    ]
