"""The virtual machine: a real kernel under QEMU with the guest agent as PID 1.

One call boots it, listens until the agent has said its last word, and ends it. It has a deadline, and dies
with this process however that ends.
"""

import functools
import os
import selectors
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from bigiron import compile, kernels, workloads
from bigiron.architectures import Architecture, architecture
from bigiron.errors import MachineError, UserError
from bigiron.introspect.memory import GuestRam
from bigiron.machines import topology as topologies
from bigiron.machines.engine import BootedKernel, Collected, Engine, Job, deadline_s
from bigiron.machines.initramfs import initramfs
from bigiron.machines.messages import Decoder
from bigiron.machines.outcome import Outcome, StoppedError
from bigiron.machines.qemu import require_qemu
from bigiron.machines.topology import Topology
from bigiron.parent_death import dying_with
from bigiron.sanitize import sanitize

_CONSOLE_KEPT = 64 << 10  # bytes
_CONSOLE_TAIL = 80  # lines: an oops, and the panic that it ends in
_LOOK_S = 0.25  # how soon a stop is noticed
_ONE_THREAD = "tcg,thread=single"
_A_CPU_MIB = 1024
_LEAST_MIB = 4096  # so that most of it is no DMA32 zone
_MOST_MIB = 960 << 10


@dataclass(frozen=True)
class VirtualMachine:
    """What is booted. `plugin` is the recorder, which writes its results into `results`.

    `ram` is for who wants to read the memory that the machine leaves when it has ended.
    """

    architecture: Architecture
    kernel: Path
    agent: Path
    job: str
    topology: Topology
    memory_mib: int
    deadline_s: float
    boot: str = ""
    plugin: Path | None = None
    results: Path | None = None
    ram: GuestRam | None = None
    files: tuple[Path, ...] = ()  # that the agent finds in its root folder
    kvm: bool = False
    turns: bool = False  # whether the agent can end a task's turn with each of its operations

    @property
    def turn(self) -> str:
        """What ends a CPU's turn on the one thread that runs all of them: `operation`, or only its `time`.

        `none` where they run at once.
        """
        if self.accelerator != _ONE_THREAD:
            return "none"
        return "operation" if self.turns else "time"

    @property
    def boot_line(self) -> str:
        """The kernel's parameters: what the console needs, what makes a crash end the machine, the user's.

        nokaslr: an address means the same in every cell. norandmaps: where a task's memory lies decides how
        many page tables it needs, and so how much work it is to map and unmap. lpj: each CPU would take
        0.15 s to find out how long its delay loop lasts; as on 4 GHz, so that no driver's delay is too short.
        notests: no 0.3 s for the ciphers' self-tests.
        """
        ours = "quiet panic=-1 oops=panic nokaslr norandmaps lpj=16000000 cryptomgr.notests"
        return " ".join([*self.architecture.boot, ours, self.boot]).strip()

    @property
    def remapping(self) -> tuple[str, ...]:
        """QEMU's options that it takes for interrupts to reach every CPU."""
        return self.architecture.remapping if self.topology.apic_id_bits > 8 else ()

    @property
    def accelerator(self) -> str:
        """One thread runs all CPUs, unless there is a core for each.

        A recording always uses one thread: with several, a CPU that spins for a lock would be counted
        for as long as the host takes, and PAUSE would not let the lock's holder go on.
        """
        if self.kvm:
            # QEMU can remap only what its own controllers send.
            return "kvm,kernel-irqchip=split" if self.remapping else "kvm"
        enough = len(os.sched_getaffinity(0)) >= self.topology.cpus
        return "tcg,thread=multi" if enough and not self.plugin else _ONE_THREAD


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

    def cpus(self, asked: list[int]) -> list[int]:
        """As many as anybody asks for, as far as the topology allows."""
        shape = topologies.parse(self.shape)
        for cpus in asked:
            shape.at(cpus)
        return asked

    def arch(self, asked: str) -> str:
        """What the study says."""
        return asked

    def kernel(self, name: str, boot: str) -> BootedKernel:
        """One that is in the cache, or can be fetched into it."""
        kernel = kernels.find(name, self.target)
        return BootedKernel(kernel.name, kernel.sha256)

    def prepare(self, cpus: list[int]) -> None:
        """A QEMU that bigiron can use, and room for the machines."""
        require_qemu(architecture(self.target).qemu)
        for number in cpus:
            check_memory(self.memory_mib(number), number)

    def side_by_side(self, cpus: int) -> int:
        """One a core, as far as what they touch fits into half the memory."""
        fit = host_mib() // 2 // touched_mib(self.memory_mib(cpus), cpus)
        return max(1, min(len(os.sched_getaffinity(0)), fit))

    def takes(self, cpus: int) -> Mapping[str, float]:
        """A core, the memory that it touches, and a QEMU of its architecture."""
        return {"CPU": 1, "MiB": touched_mib(self.memory_mib(cpus), cpus), self.target: 1}

    def deadline_s(self, cpus: int) -> int:
        """What the study says, else by the CPUs."""
        return self.deadline or deadline_s(cpus)

    def memory_mib(self, cpus: int) -> int:
        """How much memory a machine has."""
        return self.memory or memory_mib(cpus)

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
            "memory_mib": machine.memory_mib,
            "qemu": require_qemu(machine.architecture.qemu),
            "accelerator": machine.accelerator,
            "turn": machine.turn,
        }

    def run(
        self,
        job: Job,
        collect: Callable[[Outcome], Collected],
        stop: threading.Event,
        on_stage: Callable[[str], None],
    ) -> Collected:
        """Boot a machine for the cell. Its memory outlives it where something was recorded in it."""
        machine = self._machine(job)
        with (
            tempfile.TemporaryDirectory(prefix="bigiron-") as results,
            GuestRam(machine.memory_mib) if machine.plugin else nullcontext() as ram,
        ):
            outcome = run(replace(machine, results=Path(results), ram=ram), stop, on_stage)
            outcome.results, outcome.ram = Path(results), ram
            return collect(outcome)

    def _machine(self, job: Job) -> VirtualMachine:
        assert job.programs
        return VirtualMachine(
            architecture=architecture(self.target),
            kernel=kernels.find(job.kernel, self.target).image,
            agent=job.programs.agent,
            job=job.agent_job,
            topology=topologies.parse(self.shape).at(job.cpus),
            memory_mib=self.memory_mib(job.cpus),
            deadline_s=self.deadline_s(job.cpus),
            boot=job.boot,
            plugin=job.programs.recorder,
            files=job.programs.bpf,
            # The recorder needs QEMU's own emulation.
            kvm=job.programs.recorder is None and kvm_works()[0],
            turns=job.programs.turns,
        )


def memory_mib(cpus: int) -> int:
    """How much memory a machine has by default: as much a CPU as a server, of which little is ever touched.

    A kernel's batches, per-CPU lists and watermarks follow memory and CPUs (docs/machine.md). More than
    QEMU's 40 address bits hold, below its devices, no machine has.
    """
    return min(max(_LEAST_MIB, _A_CPU_MIB * cpus), _MOST_MIB)


def touched_mib(mib: int, cpus: int) -> int:
    """How much of a machine's memory the host has to give: what a kernel writes at boot, and tasks touch."""
    return min(mib, 128 + mib // 32 + 32 * cpus)


def host_mib() -> int:
    """How much memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def check_memory(mib: int, cpus: int) -> None:
    """Raise UserError if what a machine of so much memory touches cannot fit into this one's."""
    touched, here = touched_mib(mib, cpus), host_mib()
    if touched > here:
        raise UserError(
            f"a machine of {mib} MiB for {cpus} CPUs does not fit into this one's {here} MiB, as it touches "
            f"{touched} MiB: ask for fewer CPUs, or for less with --memory MIB"
        )


def run(vm: VirtualMachine, stop: threading.Event, on_stage: Callable[[str], None]) -> Outcome:
    """Boot the machine and listen until the agent's last word.

    Raises UserError where what it was given cannot run (the workload crashed, a setting does not exist),
    MachineError with the console's tail where the machine failed, StoppedError where `stop` was set.
    """
    with tempfile.TemporaryDirectory(prefix="bigiron-") as folder, tempfile.TemporaryFile() as stderr:
        initrd = Path(folder) / "initramfs"
        job = vm.job + ("turns\n" if vm.turn == "operation" else "")
        initrd.write_bytes(initramfs(vm.agent.read_bytes(), job, _contents(vm.files)))
        console, their_console = socket.socketpair()
        agent, their_agent = socket.socketpair()
        with console, agent:
            with their_console, their_agent:
                fds = [their_console.fileno(), their_agent.fileno()]
                process = subprocess.Popen(
                    [*dying_with(os.getpid()), *_command(vm, initrd, *fds)],
                    stdin=subprocess.DEVNULL,
                    stdout=stderr,
                    stderr=stderr,
                    pass_fds=[*fds, vm.ram.fd] if vm.ram else fds,
                    start_new_session=True,  # a Ctrl-C is for us, not for it
                )
            log = bytearray()
            try:
                return _listen(vm, console, agent, log, stop, on_stage)
            except _QemuEndedError as ended:
                process.wait()
                reason = _why_it_ended(vm, ended.stage, bytes(log), stderr, process.returncode)
                raise MachineError(reason, _tail(bytes(log))) from None
            except MachineError as error:
                raise MachineError(error.reason, _tail(bytes(log))) from None
            finally:
                process.kill()
                process.wait()


def _contents(files: Iterable[Path]) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in files}


class _QemuEndedError(Exception):
    def __init__(self, stage: str) -> None:
        self.stage = stage


def _listen(
    vm: VirtualMachine,
    console: socket.socket,
    agent: socket.socket,
    log: bytearray,
    stop: threading.Event,
    on_stage: Callable[[str], None],
) -> Outcome:
    """Until the last word. What the console shows is kept in `log`, as far as it matters."""
    started = time.monotonic()
    outcome, decoder = Outcome(stage="booting"), Decoder()
    with selectors.DefaultSelector() as selector:
        for channel in (console, agent):
            selector.register(channel, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(_LOOK_S):
                data = _receive(key.fileobj)  # type: ignore[arg-type]
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is console:
                    log += data
                    del log[:-_CONSOLE_KEPT]
                else:
                    for message in decoder.feed(data):
                        outcome.damaged = decoder.damaged
                        outcome.receive(message, time.monotonic() - started)
                        on_stage(outcome.stage)
                        if outcome.ended:
                            return outcome
            if stop.is_set():
                raise StoppedError
            if not selector.get_map():
                raise _QemuEndedError(outcome.stage)
            if time.monotonic() - started > vm.deadline_s:
                deadline = f"its deadline of {vm.deadline_s:.0f} s"
                raise MachineError(f"the machine was still {outcome.stage} after {deadline}")


def _receive(channel: socket.socket) -> bytes:
    try:
        return channel.recv(1 << 16)
    except ConnectionResetError:
        return b""


def _why_it_ended(vm: VirtualMachine, stage: str, log: bytes, stderr: IO[bytes], status: int) -> str:
    for line in _shown(log).splitlines():
        # The first of them is the cause: an oops ends in a panic that says no more than "Fatal exception".
        if any(sign in line for sign in ("Kernel panic", "Oops", "BUG:", "Out of memory")):
            return f"the kernel crashed {stage}: {line.split('] ', 1)[-1].strip()}"
    stderr.seek(0)
    complaint = stderr.read().decode(errors="replace").strip().splitlines()
    if status or complaint:
        said = complaint[-1] if complaint else "it said nothing"
        return f"{vm.architecture.qemu} ended with status {status} while {stage}: {said}"
    return f"the machine stopped while {stage} and gave no reason"


def _tail(console: bytes) -> str:
    return "\n".join(_shown(console).splitlines()[-_CONSOLE_TAIL:])


def _shown(console: bytes) -> str:
    return sanitize(console.decode(errors="replace").replace("\r", ""))


def _command(vm: VirtualMachine, initrd: Path, console_fd: int, agent_fd: int) -> list[str]:
    topology = vm.topology
    machine = list(vm.architecture.machine)
    if vm.kvm:
        machine[machine.index("-cpu") + 1] = vm.architecture.accelerated_cpu
    command = [vm.architecture.qemu, *machine]
    command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none"]
    command += ["-accel", vm.accelerator, "-m", f"{vm.memory_mib}M", *_memory(vm)]
    command += ["-smp", f"cpus={topology.cpus},sockets={topology.sockets},cores={topology.cores},"
                f"threads={topology.threads}"]  # fmt: skip
    command += vm.remapping
    for name, fd in (("console", console_fd), ("agent", agent_fd)):
        command += ["-chardev", f"socket,id={name},fd={fd}", "-serial", f"chardev:{name}"]
    if vm.plugin:
        command += ["-plugin", f"{_escaped(vm.plugin)},out={_escaped(vm.results)}"]
    return [*command, "-kernel", str(vm.kernel), "-initrd", str(initrd), "-append", vm.boot_line]


def _escaped(path: Path | None) -> str:
    """A path in QEMU's option syntax, where a comma ends a value."""
    return str(path).replace(",", ",,")


def _memory(vm: VirtualMachine) -> list[str]:
    nodes = vm.topology.nodes
    if nodes == 1:
        return [*_backend(vm, "ram", 0, vm.memory_mib), "-machine", "memory-backend=ram"]
    cpus, memory = vm.topology.cpus // nodes, vm.memory_mib // nodes
    options = []
    start = 0
    for node in range(nodes):
        size = memory if node else vm.memory_mib - memory * (nodes - 1)
        last = (node + 1) * cpus - 1
        name = f"node{node}"
        options += _backend(vm, name, start, size)
        options += ["-numa", f"node,nodeid={node},memdev={name},cpus={node * cpus}-{last}"]
        start += size
    return options


def _backend(vm: VirtualMachine, name: str, offset_mib: int, mib: int) -> list[str]:
    """Memory of which the host gives what is touched, and reserves none: much less than all will be."""
    if vm.ram:
        return vm.ram.backend(name, offset_mib, mib)
    return ["-object", f"memory-backend-ram,id={name},size={mib}M,reserve=off"]


@functools.cache
def kvm_works() -> tuple[bool, str]:
    """Whether a stock kernel boots under KVM here, tried with one that is installed, and why not."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False, "no /dev/kvm" if not Path("/dev/kvm").exists() else "no right to open /dev/kvm"
    here = [kernel for kernel in kernels.installed() if kernel.arch == os.uname().machine]
    if not here:
        return False, "untested: no kernel is installed to try it with (bigiron kernel fetch debian/6.12)"
    target = architecture(here[-1].arch)
    vm = VirtualMachine(
        architecture=target,
        kernel=here[-1].image,
        agent=compile.agent(workloads.find("getppid1"), target.compiler),
        job="cpus 1\n",
        topology=Topology(),
        memory_mib=memory_mib(1),
        deadline_s=30,
        kvm=True,
    )
    try:
        run(vm, threading.Event(), lambda _stage: None)
    except (MachineError, UserError) as error:
        return False, str(error)
    return True, f"booted {here[-1].name}"
