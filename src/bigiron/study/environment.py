"""What produced a cell, and which of it must be the same in all cells of a study."""

import os
import platform
from collections.abc import Mapping

from bigiron import compile, probes
from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.machines.engine import Job
from bigiron.machines.vm.qemu import require_qemu
from bigiron.study import program
from bigiron.study.caveats import PROGRAMS
from bigiron.study.plan import Cell
from bigiron.study.spec import Spec
from bigiron.study.store import CellRecord, Study

_MUST_MATCH = ("time_slice", "memory_mib", "cgroup")
_BY_TASKS = "instructions_per_ns"
CLOCK = "clock_slower"


def environment(spec: Spec, cell: Cell, job: Job) -> dict[str, object]:
    """Everything that produced the cell: the question, and where it ran."""
    asked: dict[str, object] = {}
    if job.programs:
        asked = {
            "workload": spec.workload,
            "workload_sha256": spec.workload_sha256,
            **({"command": spec.command, **_of_program(spec)} if spec.command else _of_workload(spec)),
            **_of_probes(spec),
            "kernel_sha256": cell.variant.kernel_sha256,
            "set": cell.variant.set,
            **({"recorder": compile.recorder_source()} if job.programs.recorder else {}),
            **({"guest": compile.guest_source()} if spec.engine.emulated else {}),
            "arch": spec.arch,
            "host": f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs",
        }
    return asked | spec.engine.environment(job)


def measured_by(arch: str) -> tuple[str, ...]:
    """What decides the counts of an architecture's virtual machines besides the question; UserError: no QEMU.

    The recorder, what runs beside a workload, QEMU's version and its options for the machine.
    """
    machine = architecture(arch)
    version = require_qemu(machine.qemu)
    return compile.recorder_source(), compile.guest_source(), version, *machine.machine, *machine.boot


def _of_program(spec: Spec) -> dict[str, object]:
    """What is asked of a program in a virtual machine; its root is the engine's."""
    return {key: getattr(spec, key) for key in program.KEYS if key != "root"} if spec.runs_program else {}


def _of_workload(spec: Spec) -> dict[str, object]:
    return {
        "mode": spec.mode,
        "operations": spec.operations,
        "cpus_to_cycle": spec.cpus_to_cycle,
    }


def _of_probes(spec: Spec) -> dict[str, object]:
    """The options of all probes that can measure a workload, or a command."""
    return {
        key: value
        for probe in probes.probes()
        if probe.options and _is_of(spec, probe)
        for key, value in spec.options[probe.options].environment().items()
    }


def _is_of(spec: Spec, probe: probes.Probe) -> bool:
    if spec.runs_program:
        return "command" in probe.measures or probe.name in spec.probes
    return ("command" in probe.measures) == bool(spec.command)


class SameMachine:
    """What a cell's machine must share with the measured cells of the study, as their counts are compared.

    The first measured cell of a shape determines it; its record is read once.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._cells: dict[tuple[object, ...], list[Cell]] = {}
        self._first: dict[tuple[object, ...], CellRecord] = {}
        for cell in study.plan() if study.spec.engine.emulated else ():
            for place in _EVERY, _shape(cell), _shape_of_variant(cell), _point(cell):
                self._cells.setdefault(place, []).append(cell)

    def of(self, cell: Cell) -> dict[str, object]:
        """What a cell's environment must have, as far as a cell that it is compared with is measured."""
        same = _known(self._measured(_EVERY), *PROGRAMS) | _known(self._measured(_point(cell)), _BY_TASKS)
        if not (first := self._measured(_shape(cell))):
            return same
        same |= {what: first.environment.get(what, "unknown") for what in _MUST_MATCH}
        # No clock_slower in the record means the guest's clock ran at the host's speed.
        own = self._measured(_shape_of_variant(cell))
        return same | ({CLOCK: own.clock_slower} if own else {})

    def _measured(self, place: tuple[object, ...]) -> CellRecord | None:
        if place not in self._first:
            records = map(self._study.record, self._cells.get(place, ()))
            if first := next((record for record in records if record and record.measured), None):
                self._first[place] = first
        return self._first.get(place)


_EVERY = ("every cell",)


def _known(record: CellRecord | None, *names: str) -> dict[str, object]:
    """What a record tells of these; it may be of before it did."""
    environment = record.environment if record else {}
    return {what: environment[what] for what in names if environment.get(what)}


def _point(cell: Cell) -> tuple[object, ...]:
    return cell.cpus, cell.change, cell.tasks


def _shape(cell: Cell) -> tuple[object, ...]:
    return cell.cpus, cell.change


def _shape_of_variant(cell: Cell) -> tuple[object, ...]:
    return cell.cpus, cell.change, cell.variant.name


def refuse_another_machine(record: CellRecord, same: Mapping[str, object]) -> None:
    """UserError if the study's measured cells ran on another kind of machine."""
    for what in _MUST_MATCH:
        _refuse_another(what, record.environment.get(what, "unknown"), same)
    for what, now in _known(record, *PROGRAMS, _BY_TASKS).items():
        _refuse_another(what, now, same)


def refuse_another_clock(record: CellRecord, same: Mapping[str, object]) -> None:
    """UserError if they had another clock rate; it is only known once the cell has run."""
    _refuse_another(CLOCK, record.clock_slower, same)


def _refuse_another(what: str, now: object, same: Mapping[str, object]) -> None:
    was = same.get(what, now)
    if was != now:
        raise UserError(
            f"the study's other cells were measured with {what} {was} and this one with {now}: "
            "such counts are not comparable; use a new -o FOLDER"
        )
