"""The engine of virtual machines: one for each cell."""

import hashlib
import logging
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bigiron import kernels
from bigiron.architectures import architecture
from bigiron.introspect.memory import GuestRam
from bigiron.machines.engine import BootedKernel, Engine, FromOutcome, Job, deadline_s
from bigiron.machines.outcome import MachineOutcome
from bigiron.machines.shape_change import AS_ASKED, ShapeChange
from bigiron.machines.vm import dilation, kvm, snapshot
from bigiron.machines.vm import topology as topologies
from bigiron.machines.vm.cgroup import OF_A_SERVICE, Cgroup
from bigiron.machines.vm.file_system import FileSystem
from bigiron.machines.vm.qemu import require_qemu
from bigiron.machines.vm.qemu_command import counter_khz
from bigiron.machines.vm.root_disk import RootDisk
from bigiron.machines.vm.server import server
from bigiron.machines.vm.topology import MOST_BOOTED, Topology
from bigiron.machines.vm.vm import (
    VirtualMachine,
    check_memory,
    memory_mib,
    run,
    side_by_side,
    touched_mib,
)

_USUAL_CPUS = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VmEngine(Engine):
    """Virtual machines: one for each cell, booted for it alone."""

    time = "VM time"
    emulated = True
    files_at = "/"

    target: str  # its architecture's name
    shape: str  # its topology, as the user says it
    memory: int = 0  # MiB; 0: by its CPUs
    deadline: int = 0  # seconds; 0: by its CPUs
    like: str = ""  # a machine file, whose shape it has instead of one by its CPUs
    changes: tuple[ShapeChange, ...] = (AS_ASKED,)  # of its shape, with which cells run
    file_system: FileSystem | None = None  # that workloads work on; None: the machine's tmpfs
    cgroup: Cgroup = OF_A_SERVICE  # that tasks run in
    slow_clock: bool = False  # whether it follows what CPUs execute, and not the host's
    measures_time: bool = False  # by the machine's clock
    changes_code: bool = False  # the kernel its own, while its CPUs run
    root: RootDisk | None = None  # that programs run in; None: there are no programs
    time_slice_instructions: int = 0  # of a CPU, which end its time slice; 0: no number does

    @property
    def has_programs(self) -> bool:  # type: ignore[override]
        """Those of a root file system."""
        return bool(self.root)

    def cpus(self, asked: list[int]) -> list[int]:
        """As many as anybody asks for, as far as the topology allows; by default as many as that has."""
        of_shape = server(self.like).cpus if self.like else topologies.parse(self.shape).cpus
        numbers = asked or [of_shape or _USUAL_CPUS]
        for cpus in numbers:
            shape = self.topology(cpus)
            shape.check(architecture(self.target))
            for change in self.changes:
                shape.with_nodes(change.times_nodes)
        return numbers

    def topology(self, cpus: int) -> Topology:
        """How so many CPUs lie."""
        return server(self.like).part(cpus) if self.like else topologies.parse(self.shape).at(cpus)

    def arch(self, asked: str) -> str:
        """What the study says."""
        return asked

    def kernel(self, name: str, boot: str) -> BootedKernel:
        """One that is in the cache, or can be fetched into it."""
        kernel = kernels.find(name, self.target)
        if self.file_system:
            self.file_system.check_kernel(kernel)
        if self.root:
            self.root.check_kernel(kernel)
        return BootedKernel(kernel.name, kernel.sha256)

    def prepare(self, cpus: list[int]) -> None:
        """A QEMU that bigiron can use, and room for the machines."""
        require_qemu(architecture(self.target).qemu)
        counter_khz()  # which takes 20 ms to find out, once
        if self.file_system and self.file_system.size_mib:
            self.file_system.made()
        for number in cpus:
            check_memory(self._most_mib(number), number)
        if (most := max(cpus, default=0)) > MOST_BOOTED:
            _log.warning(
                "no virtual machine with more than %d CPUs has come up yet: one with %d may take %d minutes "
                "until it fails (--deadline)",
                MOST_BOOTED,
                most,
                self.deadline_s(most) // 60,
            )

    def side_by_side(self, cpus: int) -> int:
        """One a core, as far as what they touch fits into half the memory."""
        return side_by_side(self._most_mib(cpus), cpus)

    def takes(self, cpus: int) -> Mapping[str, float]:
        """A core, the memory that it touches, and a QEMU of its architecture."""
        return {"CPU": 1, "MiB": touched_mib(self._most_mib(cpus), cpus), self.target: 1}

    def deadline_s(self, cpus: int) -> int:
        """What the study says, else by the CPUs."""
        return self.deadline or deadline_s(cpus)

    def memory_mib(self, cpus: int) -> int:
        """How much memory a machine has."""
        by_cpus = server(self.like).mib_of if self.like else memory_mib
        return self.memory or by_cpus(cpus)

    def _most_mib(self, cpus: int) -> int:
        return self.memory_mib(cpus) * max(change.times_memory for change in self.changes)

    def environment(self, job: Job) -> dict[str, object]:
        """The machine and the kernel that booted in it."""
        machine, kernel = self._machine(job), kernels.find(job.kernel, self.target)
        return {
            "kernel": kernel.name,
            "kernel_release": kernel.release,
            "kernel_version": kernel.version,
            "boot": machine.boot_line,
            "sockets": machine.topology.sockets,
            "nodes": machine.topology.nodes,
            "cores": machine.topology.cores,
            "threads": machine.topology.threads,
            **({"like": self.like, "distances": machine.topology.distances} if self.like else {}),
            "memory_mib": machine.memory_mib,
            "cgroup": self.cgroup.environment,
            "qemu": require_qemu(machine.architecture.qemu),
            "accelerator": machine.accelerator,
            "time_slice": machine.time_slice,
            **({"instructions_per_ns": machine.instructions_per_ns} if self.slow_clock else {}),
            **_security(machine.boot_line),
            "from_snapshot": machine.from_snapshot,
            "boot_number": machine.boot_number,
            **(self.file_system.environment(kernel) if self.file_system else {}),
            **(self.root.environment() if self.root else {}),
        }

    def run(
        self,
        job: Job,
        collect: Callable[[MachineOutcome], FromOutcome],
        stop: threading.Event,
        on_stage: Callable[[str], None],
    ) -> FromOutcome:
        """Boot a machine for the cell, or resume one. Its memory is kept for who looks into it."""
        machine = self._machine(job)
        with (
            tempfile.TemporaryDirectory(prefix="bigiron-") as results,
            GuestRam(machine.memory_mib) as ram,
        ):
            outcome = run(replace(machine, results=Path(results), ram=ram), stop, on_stage)
            outcome.results, outcome.ram = Path(results), ram
            return collect(outcome)

    def _machine(self, job: Job) -> VirtualMachine:
        assert job.programs
        kernel = kernels.find(job.kernel, self.target)
        # The recorder needs QEMU's own emulation.
        under_kvm = job.programs.recorder is None and kvm.works_for(self.target)
        target = architecture(self.target)
        machine = VirtualMachine(
            architecture=target,
            kernel=kernel.image,
            release=kernel.release,
            agent=job.programs.agent,
            job=job.agent_job + "".join(f"{line}\n" for line in self.cgroup.job),
            topology=self.topology(job.cpus).with_nodes(job.change.times_nodes),
            memory_mib=self.memory_mib(job.cpus) * job.change.times_memory,
            deadline_s=self.deadline_s(job.cpus),
            boot=job.boot,
            plugin=job.programs.recorder,
            files=job.programs.bpf,
            kvm=under_kvm,
            changes_code=self.changes_code,
            time_slices=job.programs.time_slices,
            time_slice_instructions=self.time_slice_instructions,
            change=job.change,
            init=job.programs.init,
            from_snapshot=target.resumes
            and job.repetition <= snapshot.BOOTS
            and not (job.programs.fresh_boot or job.change.boots or under_kvm),
            boot_number=job.repetition,
        )
        if self.file_system:
            machine = self.file_system.put_into(machine, kernel)
        if self.root:
            machine = self.root.put_into(machine, kernel)
        if under_kvm:
            return machine
        return _with_slow_clock(machine, job) if self.slow_clock else self._with_host_clock(machine, job)

    def _with_host_clock(self, machine: VirtualMachine, job: Job) -> VirtualMachine:
        """Slower where many CPUs are recorded beside each other: they would do little else than ticks."""
        counts = machine.plugin and machine.time_slices and not self.measures_time
        if not counts or job.cpus < dilation.SLOWED_FROM or not machine.architecture.resumes:
            return machine
        return replace(machine, clock_slower=dilation.instructions_per_ns(_busy(job)))


def _with_slow_clock(machine: VirtualMachine, job: Job) -> VirtualMachine:
    """Its clock follows instructions; its random numbers are the same for all cells of a repetition."""
    boot = job.change.name if job.change.boots else ""
    seed = hashlib.sha256(f"{job.repetition}{boot}".encode()).digest()
    return replace(machine, instructions_per_ns=dilation.instructions_per_ns(_busy(job)), seed=seed)


def _security(boot_line: str) -> dict[str, object]:
    """What is known of the kernel's security modules before it boots; which they are it tells itself."""
    chosen = any(word.partition("=")[0] in _CHOOSES_SECURITY for word in boot_line.split())
    return {
        "security_chosen_by": "the boot line" if chosen else "the kernel's configuration",
        "security_policy": "none: no init system runs that would load a policy",
    }


_CHOOSES_SECURITY = ("lsm", "security", "apparmor", "selinux", "tomoyo")


def _busy(job: Job) -> int:
    """How many CPUs execute anything."""
    return max(1, min(job.tasks, job.cpus))
