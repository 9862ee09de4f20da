"""Figures that were measured elsewhere (docs/howto/machines/real-machine.md). No cell runs here."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from bigiron.errors import UserError
from bigiron.machines.engine import BootedKernel, Engine, FromOutcome, Job
from bigiron.machines.outcome import MachineOutcome

_REFUSAL = "figures that were measured elsewhere cannot be measured here: `bigiron import` adds more"


@dataclass(frozen=True)
class ImportedEngine(Engine):
    """Says what the figures' times are, and refuses to measure any."""

    time = "real time"
    is_imported = True

    def cpus(self, asked: list[int]) -> list[int]:
        """None here."""
        raise UserError(_REFUSAL)

    def arch(self, asked: str) -> str:
        """Not known."""
        return asked

    def kernel(self, name: str, boot: str) -> BootedKernel:
        """None here."""
        raise UserError(_REFUSAL)

    def prepare(self, cpus: list[int]) -> None:
        """Nothing can run."""
        raise UserError(_REFUSAL)

    def side_by_side(self, cpus: int) -> int:
        """None is the least."""
        return 1

    def deadline_s(self, cpus: int) -> int:
        """It is over."""
        return 0

    def environment(self, job: Job) -> dict[str, object]:
        """Nothing is known of where it ran."""
        return {}

    def run(
        self,
        job: Job,
        collect: Callable[[MachineOutcome], FromOutcome],
        stop: Event,
        on_stage: Callable[[str], None],
    ) -> FromOutcome:
        """Not here."""
        raise UserError(_REFUSAL)
