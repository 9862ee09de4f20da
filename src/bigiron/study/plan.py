"""The cells of a study: every combination that it asks for, in the order in which they run."""

from dataclasses import dataclass

from bigiron.machines.vm.shape_change import CHANGES
from bigiron.study.spec import Spec, Variant, points, repetitions_at, slug
from bigiron.util.english import plural


@dataclass(frozen=True)
class Cell:
    """One measurement: what it is of. Its id is unique in the study, and names its folder."""

    variant: Variant
    cpus: int
    tasks: int
    repetition: int  # from 1
    change: str = ""  # of the machine's shape (bigiron.machines.shape_change); none: as asked

    @property
    def id(self) -> str:
        """For instance `debian-6.1-8cpus-8tasks-r1`, and `debian-6.1-8cpus-8tasks-r1-4x-memory`."""
        change = f"-{self.change}" if self.change else ""
        return f"{slug(self.variant.name)}-{self.cpus}cpus-{self.tasks}tasks-r{self.repetition}{change}"

    @property
    def block(self) -> tuple[int, int, int]:
        """What the cells that are compared with each other have in common: they run one after the other."""
        return self.repetition, self.cpus, self.tasks

    def __str__(self) -> str:
        tasks = "" if self.tasks == self.cpus else f", {plural(self.tasks, 'task')}"
        again = f", repetition {self.repetition}" if self.repetition > 1 else ""
        change = f", {self.change.replace('-', ' ')}" if self.change else ""
        return f"{self.variant.name}, {plural(self.cpus, 'CPU')}{tasks}{again}{change}"


def cells(spec: Spec) -> list[Cell]:
    """All cells: whole rounds of repetitions, small machines first, variants side by side.

    Those on machines of another shape than asked come last.
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
