"""Running a study: every cell that is missing or failed, several machines side by side."""

import math
import os
import platform
import random
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Protocol, TypeAlias

from bigiron import compile, kernels, libbpf, probes
from bigiron.errors import MachineError, UserError
from bigiron.introspect.memory import GuestRam
from bigiron.machines import real, topology, vm
from bigiron.machines.architecture import architecture
from bigiron.machines.outcome import Outcome
from bigiron.machines.qemu import require_qemu
from bigiron.study import simulated, store
from bigiron.study.plan import Cell
from bigiron.study.spec import Spec, command_words
from bigiron.study.store import CellRecord, Failure, Study
from bigiron.workloads import Workload

_LOOK_S = 0.25  # how soon a Ctrl-C is noticed
_LAST_WORDS_S = 5  # for the agent to say by itself that a command has come to its deadline
_COMMAND_S = 3600  # that a command may take, unless the study says otherwise
_WARM_UP = 100  # operations of each task before anything is measured


class Progress(Protocol):
    """Hears how a study gets on."""

    def started(self, cell: Cell) -> None: ...
    def stage(self, cell: Cell, stage: str) -> None: ...
    def ended(self, cell: Cell, record: CellRecord) -> None: ...
    def added(self, cells: list[Cell], why: str) -> None: ...


def missing(study: Study) -> list[Cell]:
    """The cells that were not measured yet, or failed, in the order in which they are to run."""
    cells = study.plan()
    if study.spec.measures_time:
        blocks = groupby(cells, key=lambda cell: cell.block)
        cells = [cell for _, block in blocks for cell in _in_turn(list(block))]
    return [cell for cell in cells if not ((record := study.record(cell)) and record.measured)]


def _in_turn(block: list[Cell]) -> list[Cell]:
    """The variants of a repetition in random order, the same each time; of the next one in the reverse order.

    So whatever drifts meanwhile hits all alike, and no variant comes first more often than another: what is
    measured first may find the machine colder, or its memory more in order.
    """
    repetition, cpus, tasks = block[0].block
    random.Random(str(((repetition + 1) // 2, cpus, tasks))).shuffle(block)
    return block if repetition % 2 else block[::-1]


def default_jobs(spec: Spec) -> int:
    """How many machines run side by side: one a core, as far as what they touch fits into half the memory.

    Where time is measured, they run alone: machines would take each other's time.
    """
    if spec.machine == "simulated":
        return len(os.sched_getaffinity(0))
    if spec.measures_time or spec.on_real_machine:
        return 1
    cpus = max(spec.cpus)
    fit = vm.host_mib() // 2 // vm.touched_mib(_memory_mib(spec, cpus), cpus)
    return max(1, min(len(os.sched_getaffinity(0)), fit))


@dataclass(frozen=True)
class Programs:
    """What runs in and beside the machines."""

    agent: Path
    recorder: Path | None
    bpf: tuple[Path, ...] = ()
    turns: bool = False  # whether the agent can end a task's turn with each of its operations


def prepare(spec: Spec, workload: Workload | None) -> Programs:
    """Compile what the study needs; UserError if it cannot run here."""
    target = architecture(spec.arch)
    if spec.machine == "vm":
        require_qemu(target.qemu)
        for cpus in spec.cpus:
            vm.check_memory(_memory_mib(spec, cpus), cpus)
    programs = [name for name in spec.probes if probes.probe(name).needs_bpf]
    # What is done in rounds is done by one task, most of it in the kernel.
    turns = spec.machine == "vm" and spec.turn == "operation" and bool(workload and not workload.has_rounds)
    return Programs(
        compile.agent(workload, target.compiler, libbpf.flags(target) if programs else (), turns=turns),
        compile.recorder() if probes.needs_recorder(spec.probes) else None,
        tuple(compile.bpf(name) for name in programs),
        turns,
    )


def run(study: Study, programs: Programs | None, jobs: int, progress: Progress) -> list[CellRecord]:
    """Measure every missing cell; the records of those tried now. Without programs, cells are simulated.

    A cell that fails is written as failed, and the others go on. KeyboardInterrupt ends the machines that
    run and leaves their cells missing.
    """
    with study.writing():
        return measure_missing(study, programs, jobs, progress)


def measure_missing(
    study: Study, programs: Programs | None, jobs: int, progress: Progress, until: float = math.inf
) -> list[CellRecord]:
    """The same for whoever is `study.writing()`. After `until`, by the monotonic clock, no block is begun."""
    stop = threading.Event()

    def measure(cell: Cell) -> CellRecord:
        progress.started(cell)
        if not programs:
            return simulated.measure(study, cell)
        return _measure(study, cell, programs, stop, lambda stage: progress.stage(cell, stage))

    records = []
    waiting, begun = deque(missing(study)), None
    with ThreadPoolExecutor(jobs) as pool:
        running: dict[Future[CellRecord], Cell] = {}
        try:
            while waiting or running:
                while waiting and len(running) < jobs and (waiting[0].block == begun or monotonic() < until):
                    cell = waiting.popleft()
                    begun = cell.block
                    running[pool.submit(measure, cell)] = cell
                if not running:
                    break
                # With a timeout: Polars' handler of SIGINT lets no system call return, and Ctrl-C would wait.
                for future in wait(running, _LOOK_S, FIRST_COMPLETED).done:
                    records.append(future.result())
                    progress.ended(running.pop(future), records[-1])
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return records


def _measure(
    study: Study,
    cell: Cell,
    programs: Programs,
    stop: threading.Event,
    on_stage: Callable[[str], None],
) -> CellRecord:
    """Boot a machine for one cell and write what came of it."""
    spec = study.spec
    chosen = [probes.probe(name) for name in spec.probes]
    with tempfile.TemporaryDirectory(prefix="bigiron-") as results, _ram(spec, cell, programs) as ram:
        machine = _machine(spec, cell, programs, Path(results), ram)
        record = _new_record(spec, cell, machine)
        tables: dict[str, probes.Table] = {}
        try:
            _refuse_another_machine(study, record)
            outcome = _run(machine, stop, on_stage)
            record.seconds, record.seconds_to_agent = outcome.seconds, outcome.seconds_to_agent
            record.lost = outcome.lost
            raw = probes.RawOutput(
                outcome.messages,
                Path(results),
                architecture(spec.arch),
                programs.agent,
                _request(spec, cell),
                ram,
            )
            tables = {probe.name: probe.collect(raw) for probe in chosen}
        except UserError as error:
            record.failure = Failure("input", str(error))
        except MachineError as error:
            record.failure = Failure("machine", error.reason, error.console_tail)
    study.add(record, tables)
    return record


def _ram(spec: Spec, cell: Cell, programs: Programs) -> GuestRam | nullcontext[None]:
    """Memory that outlives the machine, where something is recorded in it."""
    return GuestRam(_memory_mib(spec, cell.cpus)) if programs.recorder else nullcontext()


_Machine: TypeAlias = vm.VirtualMachine | real.RealMachine


def _run(machine: _Machine, stop: threading.Event, on_stage: Callable[[str], None]) -> Outcome:
    if isinstance(machine, real.RealMachine):
        return real.run(machine, stop, on_stage)
    return vm.run(machine, stop, on_stage)


def _machine(spec: Spec, cell: Cell, programs: Programs, results: Path, ram: GuestRam | None) -> _Machine:
    job = _job(spec, cell)
    if spec.on_real_machine:
        return real.RealMachine(
            address=spec.address,
            system=real.system(spec.address),
            agent=programs.agent,
            job=job,
            deadline_s=_deadline_s(spec, cell.cpus) + _LAST_WORDS_S,
            files=programs.bpf,
        )
    return vm.VirtualMachine(
        architecture=architecture(spec.arch),
        kernel=kernels.find(cell.variant.kernel, spec.arch).image,
        agent=programs.agent,
        job=job,
        topology=topology.parse(spec.topology).at(cell.cpus),
        memory_mib=_memory_mib(spec, cell.cpus),
        deadline_s=_deadline_s(spec, cell.cpus),
        boot=cell.variant.boot,
        plugin=programs.recorder,
        results=results,
        ram=ram,
        files=programs.bpf,
        # The recorder needs QEMU's own emulation.
        kvm=programs.recorder is None and vm.kvm_works()[0],
        turns=programs.turns,
    )


def _request(spec: Spec, cell: Cell) -> probes.CellRequest:
    return probes.CellRequest(
        cell.cpus,
        cell.tasks,
        spec.operations,
        spec.mode,
        spec.options,
        files_at="/" if spec.machine == "vm" else "./",
        in_vm=spec.machine == "vm",
        command=tuple(command_words(spec.command, cell.tasks)) if spec.command else (),
    )


def _job(spec: Spec, cell: Cell) -> str:
    """The agent's job (docs/protocol.md)."""
    request = _request(spec, cell)
    lines = [
        f"mode {spec.mode}",
        *([f"cpus {cell.cpus}"] if spec.machine == "vm" or spec.command else []),  # that must be there
        f"tasks {cell.tasks}",
        f"warmup {_WARM_UP}",
        f"patience_s {_deadline_s(spec, cell.cpus) // (1 if spec.command else 2)}",
        f"cpus_to_cycle {spec.cpus_to_cycle}",
        *(["allow_hotplug"] if spec.allow_hotplug else []),
        *(f"set {setting}" for setting in cell.variant.set),
        *(line for name in spec.probes for line in probes.probe(name).job(request)),
    ]
    return "\n".join(dict.fromkeys(lines)) + "\n"  # two probes may ask for the same


def _memory_mib(spec: Spec, cpus: int) -> int:
    return spec.memory_mib or vm.memory_mib(cpus)


def _deadline_s(spec: Spec, cpus: int) -> int:
    return spec.deadline_s or (_COMMAND_S if spec.command else vm.deadline_s(cpus))


def _new_record(spec: Spec, cell: Cell, machine: _Machine) -> CellRecord:
    """A cell's identity and environment: all that produced it."""
    on = _of_real(machine) if isinstance(machine, real.RealMachine) else _of_vm(spec, cell, machine)
    environment = {
        "workload": spec.workload,
        "workload_sha256": spec.workload_sha256,
        **({"command": spec.command} if spec.command else _of_workload(spec)),
        **_of_probes(spec),
        "kernel_sha256": cell.variant.kernel_sha256,
        "set": cell.variant.set,
        "arch": spec.arch,
        "host": f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs",
        **on,
    }
    return store.new_record(cell, spec.machine, environment)


def _refuse_another_machine(study: Study, record: CellRecord) -> None:
    """UserError if the study has cells of another kind of machine, as an older bigiron's are."""
    if record.machine != "vm":
        return
    known = (study.record(cell) for cell in study.plan() if cell.cpus == record.cpus)
    other = next((cell for cell in known if cell and cell.measured), record)
    for what in ("turn", "memory_mib"):
        was, now = other.environment.get(what, "unknown"), record.environment[what]
        if was != now:
            raise UserError(
                f"the study's other cells have {what} {was} and this one {now}: "
                "counts of the two are not compared; give another -o"
            )


def _of_workload(spec: Spec) -> dict[str, object]:
    return {
        "mode": spec.mode,
        "operations": spec.operations,
        "cpus_to_cycle": spec.cpus_to_cycle,
    }


def _of_probes(spec: Spec) -> dict[str, object]:
    """The options of all probes that a workload, or a command, can be measured by."""
    return {
        key: value
        for probe in probes.probes()
        if probe.options and ("command" in probe.measures) == bool(spec.command)
        for key, value in spec.options[probe.options].environment().items()
    }


def _of_vm(spec: Spec, cell: Cell, machine: vm.VirtualMachine) -> dict[str, object]:
    kernel, shape = kernels.find(cell.variant.kernel, spec.arch), machine.topology
    return {
        "kernel": kernel.name,
        "kernel_release": kernel.release,
        "kernel_version": kernel.version,
        "boot": machine.boot_line,
        "sockets": shape.sockets,
        "nodes": shape.nodes,
        "cores": shape.cores,
        "threads": shape.threads,
        "memory_mib": machine.memory_mib,
        "qemu": require_qemu(machine.architecture.qemu),
        "accelerator": machine.accelerator,
        "turn": machine.turn,
    }


def _of_real(machine: real.RealMachine) -> dict[str, object]:
    system = machine.system
    return {
        **({"address": machine.address} if machine.address else {}),
        "kernel": system.release,
        "kernel_release": system.release,
        "kernel_version": system.version,
        "boot": system.boot_line,
        "cpu": system.cpu_model,
        "memory_mib": system.memory_mib,
    }
