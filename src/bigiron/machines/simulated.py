"""The simulated machine: a design on one of any size, not a workload on a kernel.

See docs/howto/simulate-a-design.md.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from time import monotonic
from typing import Any

from bigiron import _sim
from bigiron.errors import MachineError, UserError
from bigiron.machines.engine import BootedKernel, Engine, FromOutcome, Job
from bigiron.machines.messages import Message
from bigiron.machines.outcome import MachineOutcome
from bigiron.simulator import machine_files
from bigiron.util.threads import StoppedError

REPORT = "simulation"
"""The type of the one message that a simulation leaves: what the simulator reports."""

_EVER_NS = 1e17
_EVENTS = 20_000_000_000  # a run with more of them has no end


@dataclass(frozen=True)
class SimulatedEngine(Engine):
    """The simulator. A job's settings are values of the design's parameters, its repetition is the seed."""

    time = "simulated time"
    is_model = True

    design: str
    machine: str
    machine_sha256: str
    warmup_ms: float
    duration_ms: float  # 0: to the design's own end
    timeline_us: float
    numbers_tasks: bool  # else the design has as many as it has CPUs
    ranges: bool = False  # whether repetitions have machines sampled from the ranges of the file

    def cpus(self, asked: list[int]) -> list[int]:
        """As many as the machine has, or fewer."""
        machine = machine_files.load(self.machine)
        numbers = asked or [machine.cpus]
        for cpus in numbers:
            _with_cpus(machine, cpus)
        return numbers

    def arch(self, asked: str) -> str:
        """It has none."""
        return asked

    def kernel(self, name: str, boot: str) -> BootedKernel:
        """None runs in it."""
        return BootedKernel(name, "")

    def prepare(self, cpus: list[int]) -> None:
        """It is a library: it is there."""

    def side_by_side(self, cpus: int) -> int:
        """One a core: virtual time is the same however long it takes."""
        return len(os.sched_getaffinity(0))

    def deadline_s(self, cpus: int) -> int:
        """Events are counted instead."""
        return 0

    def environment(self, job: Job) -> dict[str, object]:
        """All that decides what comes of it."""
        return {
            "design": self.design,
            "values": parameters(self.design) | dict(self.values(job)),
            "seed": job.repetition,
            "machine": self.machine,
            "machine_sha256": self.machine_sha256,
            "warmup_ms": self.warmup_ms,
            "duration_ms": self.duration_ms,
            **({"ranges": True} if self.ranges else {}),
        }

    def values(self, job: Job) -> list[tuple[str, str]]:
        """What a job sets of the design's parameters."""
        given = [setting.partition("=") for setting in job.settings]
        tasks = [("tasks", str(job.tasks))] if self.numbers_tasks else []
        return [(name, value) for name, _equals, value in given] + tasks

    def run(
        self,
        job: Job,
        collect: Callable[[MachineOutcome], FromOutcome],
        stop: Event,
        on_stage: Callable[[str], None],
    ) -> FromOutcome:
        """Simulate the cell."""
        on_stage("simulating")
        start = monotonic()
        report = self._simulate(job, stop)
        if "error" in report and report["error_kind"] == "input":
            raise UserError(report["error"])
        if "error" in report:
            raise MachineError(report["error"])
        return collect(MachineOutcome([Message(REPORT, report)], seconds=monotonic() - start))

    def _simulate(self, job: Job, stop: Event) -> dict[str, Any]:
        warmup_ns = self.warmup_ms * 1e6 if self.duration_ms else 0.0
        machine = machine_files.sampled(self.machine, job.repetition if self.ranges else 1)
        try:
            point = _sim.Point(
                self.design,
                _with_cpus(machine, job.cpus),
                self.values(job),
                seed=job.repetition,
                warmup_ns=warmup_ns,
                duration_ns=self.duration_ms * 1e6 or _EVER_NS,
                event_budget=_EVENTS,
                timeline_ns=(warmup_ns, warmup_ns + self.timeline_us * 1e3) if self.timeline_us else None,
            )
        except ValueError as error:
            raise UserError(str(error)) from None
        try:
            return _sim.simulate([point], stop.is_set)[0]
        except InterruptedError:
            raise StoppedError from None


def parameters(design: str) -> dict[str, str]:
    """A design's parameters and their defaults; UserError if there is no such design."""
    for name, _description, known in _sim.designs():
        if name == design:
            return {parameter: default for parameter, default, _meaning in known}
    names = ", ".join(name for name, _description, _parameters in _sim.designs())
    raise UserError(f"no design {design!r}: use one of {names} (`bigiron simulate list`)")


def _with_cpus(machine: _sim.Machine, cpus: int) -> _sim.Machine:
    try:
        return machine.with_cpus(cpus)
    except (ValueError, OverflowError) as error:
        raise UserError(str(error)) from None
