"""The engine that runs the cells of a study, chosen by the machine that the study names."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bigiron.errors import UserError
from bigiron.machines import imported, simulated
from bigiron.machines.engine import Engine
from bigiron.machines.real import real
from bigiron.machines.shape_change import AS_ASKED, CHANGES
from bigiron.machines.vm import cgroup, vm_engine

if TYPE_CHECKING:
    from bigiron.study.spec import Spec

SIMULATED, IMPORTED = "simulated", "imported"


def engine(spec: "Spec") -> Engine:
    """The engine of a study. UserError if there is no such machine."""
    if spec.machine not in _ENGINES:
        raise UserError(f"machine = {spec.machine!r}: use one of {', '.join(_ENGINES)}")
    return _ENGINES[spec.machine](spec)


def _vm(spec: "Spec") -> Engine:
    changes = (AS_ASKED, *(CHANGES if spec.check_shape else ()))
    return vm_engine.VmEngine(
        spec.arch,
        spec.topology,
        spec.memory_mib,
        spec.deadline_s,
        spec.like,
        changes,
        spec.file_system,
        cgroup.parse(spec.cgroup),
        slow_clock=spec.clock == "instructions",
        measures_time=spec.measures_time,
        changes_code=spec.changes_code,
        root=spec.root_disk,
        time_slice_instructions=spec.time_slice_instructions,
    )


def _real(spec: "Spec") -> Engine:
    return real.RealEngine(spec.address, bool(spec.command), spec.deadline_s)


def _simulated(spec: "Spec") -> Engine:
    asked = spec.simulation
    return simulated.SimulatedEngine(
        design=spec.workload,
        machine=asked.machine,
        machine_sha256=asked.machine_sha256,
        warmup_ms=asked.warmup_ms,
        duration_ms=asked.duration_ms,
        timeline_us=asked.timeline_us,
        numbers_tasks=spec.tasks != "all",
        ranges=asked.ranges,
    )


def _imported(_spec: "Spec") -> Engine:
    return imported.ImportedEngine()


_ENGINES: Mapping[str, Callable[["Spec"], Engine]] = {
    "vm": _vm,
    "host": _real,
    "ssh": _real,
    SIMULATED: _simulated,
    IMPORTED: _imported,
}
