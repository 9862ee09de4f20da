"""An engine: where the cells of a study run. One module each; study/engines.py makes that of a study.

A job is plain values and files, and what comes of it is collected where it ran: an engine may hand both to
other machines.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol, TypeVar

from bigiron.machines.outcome import MachineOutcome
from bigiron.machines.shape_change import AS_ASKED, ShapeChange

FromOutcome = TypeVar("FromOutcome")


@dataclass(frozen=True)
class Programs:
    """What runs in and beside the machines."""

    agent: Path
    recorder: Path | None
    bpf: tuple[Path, ...] = ()  # and bigiron-mark, for programs that mark their own recorded part
    time_slices: bool = False  # whether the agent can end a task's time slice with each of its operations
    init: Path | None = None  # what a virtual machine boots into
    fresh_boot: bool = False  # whether no virtual machine is resumed from a snapshot


@dataclass(frozen=True)
class Job:
    """What one cell asks of its engine."""

    kernel: str  # its name; of a real machine, its release
    boot: str
    settings: tuple[str, ...]
    cpus: int
    tasks: int
    repetition: int  # from 1
    agent_job: str = ""  # what the agent is to do (docs/contributing/protocol.md)
    programs: Programs | None = None  # of an engine that runs any
    change: ShapeChange = AS_ASKED  # of a virtual machine's shape


@dataclass(frozen=True)
class BootedKernel:
    """Which kernel a variant runs."""

    name: str
    sha256: str


def deadline_s(cpus: int) -> int:
    """How long a cell may take by default: many times what it takes on two cores, which may be busy."""
    return 180 + 15 * cpus


class Engine(Protocol):
    """Where cells run, and what is known of it before they do."""

    time: str
    """The kind of its times: an emulator's or a simulator's time is never shown as a real one."""
    emulated: bool = False
    """Whether its CPUs are emulated: the recorder sees what they execute, and they share the host's."""
    is_model: bool = False
    """Whether it simulates a design instead of running a program."""
    is_imported: bool = False
    """Whether its cells were measured elsewhere and imported, so that they cannot be measured here."""
    has_programs: bool = False
    """Whether it has any that are not ours, to run as an external command."""
    files_at: str = "./"
    """The folder in which the agent finds the files that come with it."""

    @abstractmethod
    def cpus(self, asked: list[int]) -> list[int]:
        """The numbers of CPUs to run on: those asked for, or where there are none the machine's default.

        UserError for what it cannot have.
        """

    @abstractmethod
    def arch(self, asked: str) -> str:
        """Of which architecture it is."""

    @abstractmethod
    def kernel(self, name: str, boot: str) -> BootedKernel:
        """What a variant of that kernel and with those parameters runs; UserError where it cannot."""

    @abstractmethod
    def prepare(self, cpus: list[int]) -> None:
        """UserError if machines with so many CPUs cannot run."""

    @abstractmethod
    def side_by_side(self, cpus: int) -> int:
        """How many machines with so many CPUs may run beside each other."""

    def takes(self, cpus: int) -> Mapping[str, float]:
        """What a cell with so many CPUs takes of the machine that it runs on: CPUs, MiB, an architecture."""
        return {"CPU": 1}

    @abstractmethod
    def deadline_s(self, cpus: int) -> int:
        """How long a cell may take."""

    @abstractmethod
    def environment(self, job: Job) -> dict[str, object]:
        """What a cell's record says of where it ran."""

    @abstractmethod
    def run(
        self,
        job: Job,
        collect: Callable[[MachineOutcome], FromOutcome],
        stop: Event,
        on_stage: Callable[[str], None],
    ) -> FromOutcome:
        """Run it to its end, and collect what came of it before that is cleared away.

        UserError where what it was given cannot run, MachineError where the machine failed, StoppedError
        where `stop` was set.
        """
