"""The virtual machine: a real kernel under QEMU with the guest agent as PID 1.

One call boots it or resumes a snapshot, reads until the agent's last message, and ends it. It has a deadline,
and it dies with this process however that ends.
"""

import os
import platform
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from bigiron import compile, kernels
from bigiron.architectures import Architecture
from bigiron.errors import MachineError, UserError
from bigiron.introspect.kernel_types import types_in
from bigiron.introspect.memory import GuestRam, KernelMemory, MemoryContent, private_copies_work
from bigiron.introspect.symbols import SymbolTable
from bigiron.machines.messages import Message
from bigiron.machines.outcome import MachineOutcome
from bigiron.machines.shape_change import AS_ASKED, ShapeChange
from bigiron.machines.vm import boot_ticks, dilation, guest, icount, snapshot
from bigiron.machines.vm.boot_ticks import BootTicks
from bigiron.machines.vm.guest import Channels, Guest, MemoryParts, RunLimits
from bigiron.machines.vm.initramfs import handover, initramfs, with_go_header
from bigiron.machines.vm.monitor import RefusedError
from bigiron.machines.vm.qemu import find_qemu
from bigiron.machines.vm.qemu_command import command_line, counter_khz
from bigiron.machines.vm.snapshot import DamagedError, Emulator, Snapshot, SnapshotMachine, Stopped
from bigiron.machines.vm.topology import Topology
from bigiron.roots import Root
from bigiron.util import host_memory, lazy
from bigiron.util.threads import StoppableThreads

MANY_CPUS = 32
"""From so many CPUs on, the recorder is loaded for what it makes cheaper."""

_ONE_THREAD = "tcg,thread=single"
_A_CPU_MIB = 1024
_LEAST_MIB = 4096  # so that most of it is no DMA32 zone
_MOST_MIB = 256 << 10  # `struct page` takes a 64th of it, and of the host
_ALL_CPUS = 255  # an APIC ID of eight bits
_SEED_BYTES = 32
_SYMBOLS = "kallsyms"  # the recorder's file of them
_ROOM_MIB = 8  # for an agent and what comes with it, unless that is more


@dataclass(frozen=True)
class VirtualMachine:
    """What is booted. `plugin` is the recorder, which writes its results into `results`.

    Give `ram` to read the machine's memory after its last message: then its job says `stay`.
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
    changes_code: bool = False  # the kernel its own, while its CPUs run
    time_slices: bool = False  # whether the agent can end a task's time slice with each of its operations
    time_slice_instructions: int = 0  # of a CPU, which end its time slice; 0: no number does
    change: ShapeChange = AS_ASKED  # of which that of its time slices is still to be made
    release: str = ""  # of the kernel, for who reads it
    init: Path | None = None  # what it boots into; None: compiled here
    modules: tuple[
        kernels.KernelModule, ...
    ] = ()  # that it loads as it boots, in order: it is kept with them
    root: Root | None = None  # the root file system of programs: it is kept with that mounted
    from_snapshot: bool = False  # whether it is resumed from one that was booted and kept
    boot_number: int = 1  # which of the boots of such a machine it is resumed from
    instructions_per_ns: int = 0  # of all its CPUs, by which its clock runs; 0: it follows the host's clock
    clock_slower: int = 1  # than the host's, which it follows; where its kernel does not tell how: as fast
    seed: bytes = b""  # of its random numbers; empty: another one each time

    @property
    def time_slice(self) -> str:
        """What ends a CPU's time slice on the emulator's one thread: `operation`, or only `time`.

        `10 operations` or `random` where the time slices are changed; `none` where all CPUs run at once. For
        programs `5000 instructions`, or `random, about 5000 instructions`; `time` where QEMU has no way to do
        so, or there is no recorder.
        """
        if self.accelerator != _ONE_THREAD:
            return "none"
        if self.slice_instructions:
            random = "random, about " if self.change.slice_seed else ""
            return f"{random}{self.slice_instructions} instructions"
        return self.change.time_slice if self.time_slices else "time"

    @property
    def slice_instructions(self) -> int:
        """How many instructions of a CPU end its time slice; 0: no number does."""
        qemu = find_qemu(self.architecture.qemu)
        can = self.plugin and qemu and qemu.ends_time_slices
        return self.time_slice_instructions * self.change.times_slice if can else 0

    @property
    def loaded_plugin(self) -> Path | None:
        """The recorder. It is loaded without recording, too, where it makes many CPUs cheaper to emulate.

        plugin/many_cpus/many_cpus.c says how; a thread per CPU has no need for it.
        """
        many = self.topology.cpus >= MANY_CPUS and self.accelerator == _ONE_THREAD
        return self.plugin or (compile.recorder() if many and self.results else None)

    @property
    def boot_line(self) -> str:
        """The kernel's parameters: what the console needs, what makes a crash end the machine, the user's.

        nokaslr: an address means the same in every cell. norandmaps: where a task's memory lies decides how
        many page tables it needs, and so how much work it is to map and unmap. lpj: each CPU would take
        0.15 s to find out how long its delay loop lasts; as on 4 GHz, so that no driver's delay is too short.
        notests: no 0.3 s for the ciphers' self-tests.
        """
        delay = f"{self.architecture.delay_loop} " if self.architecture.delay_loop else ""
        ours = f"quiet panic=-1 oops=panic nokaslr norandmaps {delay}cryptomgr.notests"
        return " ".join([*self.architecture.boot, ours, self.boot]).strip()

    @property
    def remapping(self) -> tuple[str, ...]:
        """QEMU's options that it takes for interrupts to reach every CPU: an ID of 255 means all of them."""
        return self.architecture.remapping if self.topology.largest_apic_id >= _ALL_CPUS else ()

    @property
    def accelerator(self) -> str:
        """One thread runs all CPUs, unless there is a core for each.

        A recording always uses one thread: with several, a CPU that spins for a lock would be counted
        for as long as the host takes, and PAUSE would not let the lock's holder go on. So does a clock that
        follows instructions: they are counted one after the other. And a kernel that changes its own code,
        to trace it, relies on no CPU running the old one any more: of several threads one may, and it crashes
        at an int3 without a handler.
        """
        if self.kvm:
            # QEMU can remap only what its own controllers send.
            return "kvm,kernel-irqchip=split" if self.remapping else "kvm"
        enough = len(os.sched_getaffinity(0)) >= self.topology.cpus
        one = self.plugin or self.instructions_per_ns or self.changes_code or not enough
        return _ONE_THREAD if one else "tcg,thread=multi"


def memory_mib(cpus: int) -> int:
    """The default memory of a machine: as much per CPU as a server has, of which little is ever written.

    A kernel's batches, per-CPU lists and watermarks follow memory and CPUs (docs/reference/kernel-sizing.md).
    From 256 CPUs on it stays the same, so that a machine with 1024 fits into a host with 16 GiB.
    """
    return min(max(_LEAST_MIB, _A_CPU_MIB * cpus), _MOST_MIB)


def touched_mib(mib: int, cpus: int) -> int:
    """How much memory of the host a machine is given: what its kernel writes, and 24 MiB for each task."""
    return min(mib, least_mib(mib, cpus) + 24 * cpus)


def least_mib(mib: int, cpus: int) -> int:
    """How much of it a machine takes whatever its tasks do.

    Of 6.12, 512 CPUs write 1.2 MiB each at boot, beside a 60th of the memory for `struct page`.
    """
    return min(mib, 128 + mib // 48 + 8 * cpus)


def side_by_side(mib: int, cpus: int) -> int:
    """How many such machines can run at once: one per core, if they fit into half of this host's memory."""
    fit = host_memory.host_mib() // 2 // touched_mib(mib, cpus)
    return max(1, min(len(os.sched_getaffinity(0)), fit))


def check_memory(mib: int, cpus: int) -> None:
    """Raise UserError if a machine with so much memory does not fit into this host's."""
    least, here = least_mib(mib, cpus), host_memory.host_mib()
    if least > here:
        whose = "this process's control group" if here < host_memory.physical_mib() else "this host"
        raise UserError(
            f"a machine with {cpus} CPUs and {mib} MiB writes {least} MiB, and {whose} has {here} MiB: "
            "use fewer CPUs, or less memory with --memory MIB"
        )


def run(vm: VirtualMachine, stop: threading.Event, on_stage: Callable[[str], None]) -> MachineOutcome:
    """Boot the machine or resume a snapshot, and read until the agent's last message.

    Raises UserError if the cell cannot run (the workload crashed, a setting does not exist), MachineError
    with the console's tail if the machine failed, and StoppedError if `stop` was set.
    """
    with ExitStack() as stack:
        ram = vm.ram or stack.enter_context(GuestRam(vm.memory_mib))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bigiron-")))
        boot = _Boot(vm, _content(vm), folder, ram, RunLimits(vm.deadline_s, stop, on_stage))
        return boot.from_snapshot() if vm.from_snapshot else boot.booted()


def _content(vm: VirtualMachine) -> bytes:
    slices = ("time_slices", *vm.change.time_slice_job) if vm.time_slice == vm.change.time_slice else ()
    if vm.slice_instructions:
        seed = (f"time_slice_seed {vm.change.slice_seed}",) if vm.change.slice_seed else ()
        slices = (f"time_slice_instructions {vm.slice_instructions}", *seed)
    dilated = (f"dilated {vm.instructions_per_ns}",) if vm.instructions_per_ns else ()
    slowed = (f"slowed {vm.clock_slower}",) if vm.clock_slower > 1 else ()
    job = vm.job + "".join(f"{line}\n" for line in (*slices, *dilated, *slowed))
    files = {file.name: file.read_bytes() for file in vm.files}
    content = handover(vm.agent.read_bytes(), job, files)
    return with_go_header(content, vm.seed or os.urandom(_SEED_BYTES))


@dataclass(frozen=True)
class _Boot:
    """Boots or resumes a machine, and runs one cell in it."""

    vm: VirtualMachine
    content: bytes
    folder: Path
    ram: GuestRam
    limits: RunLimits

    @property
    def room_mib(self) -> int:
        """The room for the agent and its files: the same for most cells, so that they share a snapshot."""
        return max(_ROOM_MIB, 1 << ((len(self.content) >> 20).bit_length()))

    @cached_property
    def initrd(self) -> Path:
        """The initramfs that it boots into."""
        boot = (self.vm.init or compile.boot(self.vm.architecture.compiler)).read_bytes()
        symbols = self.vm.from_snapshot or bool(self.vm.plugin or self.vm.instructions_per_ns)
        modules = {
            f"{number:03}-{'' if one.required else 'optional-'}{one.file.name}": one.file.read_bytes()
            for number, one in enumerate(self.vm.modules)
        }
        root = f"{self.vm.root.file_system} {self.vm.root.sha256}\n" if self.vm.root else ""
        file = self.folder / "initramfs"
        content = initramfs(boot, self.room_mib, symbols=symbols, modules=modules, root_disk=root)
        file.write_bytes(content)
        return file

    def booted(self) -> MachineOutcome:
        """Run the cell in a machine that boots for it alone."""
        if self.vm.instructions_per_ns or self.vm.clock_slower > 1:
            with GuestRam(self.vm.memory_mib) as ram:
                try:
                    return self._resumed(self._stopped(ram), ram, lambda: None)
                except DamagedError as error:
                    raise MachineError(f"the machine cannot continue with another clock: {error}") from None
        ticks = self._boot_ticks()
        with self._started() as guest:
            room = self._room(guest.boot(ticks.poll))
            ticks.put_back()
            self._check_symbols_are_whole()
            self._check_symbols()
            self._check_clock()
            return guest.run(self.content, room)

    def from_snapshot(self) -> MachineOutcome:
        """Run the cell in a resumed snapshot, which is made if need be; if that is impossible, boot."""
        found = snapshot.find(self._machine, self._emulator) or self._make()
        if not found:
            return self.booted()
        try:
            return self._from(found)
        except DamagedError as error:
            snapshot.discard(found.folder, str(error))
            self.ram.clear()
        found = self._make()
        if not found:
            return self.booted()
        try:
            return self._from(found)
        except DamagedError as error:
            raise MachineError(f"the machine cannot be resumed: {error}") from None

    def _from(self, found: Snapshot) -> MachineOutcome:
        with found, StoppableThreads() as aside:
            whole = aside.submit(found.check)
            return self._resumed(found.stopped, found, whole.result)

    def _make(self) -> Snapshot | None:
        """Boot a machine with the recorder, which reads the kernel's symbols, and keep it."""
        with snapshot.making(self._machine, self.limits.stop, self._wait):
            found = snapshot.find(self._machine, self._emulator)  # another may have made it meanwhile
            if found or snapshot.was_refused(self._machine):
                return found
            with GuestRam(self.vm.memory_mib) as ram:
                try:
                    stopped = self._stopped(ram)
                except DamagedError as error:
                    snapshot.refuse(self._machine, str(error))
                    return None
                kept = snapshot.keep(self._machine, self._emulator, stopped, ram)
            return snapshot.find(self._machine, self._emulator) if kept else None

    def _stopped(self, ram: GuestRam) -> Stopped:
        """Boot a machine with the recorder, which reads the kernel's symbols, and stop it."""
        results = self.folder / "booting"
        results.mkdir(exist_ok=True)
        vm = replace(self.vm, plugin=compile.recorder(), results=results)
        booting = replace(self, vm=vm, ram=ram)
        ticks = booting._boot_ticks()
        with booting._started() as guest:
            room = booting._room(guest.boot(ticks.poll))
            ticks.put_back()
            booting._check_symbols_are_whole()
            booting._check_clock()
            self.limits.on_stage("keeping a snapshot" if self.vm.from_snapshot else "changing its clock")
            try:
                state = guest.save(booting._is_settled)
            except RefusedError as error:
                raise DamagedError(str(error)) from None
            return Stopped(state, booting._symbols(), room)

    def _boot_ticks(self) -> BootTicks:
        vm = self.vm
        gains = vm.accelerator == _ONE_THREAD and vm.topology.cpus >= boot_ticks.FROM_CPUS
        symbols = self._symbols_elsewhere() if gains else b""
        return BootTicks(self.ram, vm.architecture, SymbolTable.shared(symbols), vm.topology.cpus)

    def _symbols_elsewhere(self) -> bytes:
        """The kernel's symbols: kept ones, a snapshot's, or those of a one-CPU machine booted for this."""
        sha256 = kernels.sha256_of(self.vm.kernel)
        if (symbols := snapshot.symbols_of(sha256)) is not None:
            return symbols
        vm = replace(self.vm, topology=Topology(), memory_mib=memory_mib(1))
        folder = self.folder / "one CPU"
        folder.mkdir(exist_ok=True)
        with GuestRam(vm.memory_mib) as ram:
            try:
                symbols = replace(self, vm=vm, folder=folder)._stopped(ram).symbols
            except (DamagedError, MachineError, UserError):
                return b""  # it boots without them
        snapshot.keep_symbols(sha256, symbols)
        return symbols

    def _resumed(
        self, stopped: Stopped, memory: MemoryContent, check: Callable[[], object]
    ) -> MachineOutcome:
        """Resume the state of a stopped machine; `check` raises DamagedError if its memory is damaged."""
        if self.vm.results:
            (self.vm.results / _SYMBOLS).write_bytes(stopped.symbols)
        self._check_symbols()
        state, now = stopped.state, 0
        if self.vm.instructions_per_ns:
            state, now = icount.counting(stopped.state, self.vm.architecture.clock)
        content, slower = self.content, self.vm.clock_slower
        if private := private_copies_work():
            self.ram.map_private(memory)
        with StoppableThreads() as aside, self._started(resumes=True) as guest:
            try:
                guest.load(state, self.ram.reach if private else lambda _: memory.fill(self.ram))
            except RefusedError as error:
                raise DamagedError(str(error)) from None
            check()
            if self.vm.instructions_per_ns:
                self._dilate(stopped.symbols, now)
            elif slower > 1 and not self._slow_down(stopped):
                content, slower = _content(replace(self.vm, clock_slower=1)), 1
            outcome = guest.run(
                content, stopped.room, lambda: aside.submit(self._read_ahead, stopped.symbols)
            )
            outcome.clock_slower = slower
            return outcome

    def _dilate(self, content: bytes, now: int) -> None:
        """Slow the stopped machine's clock down. Its counter reads `now`, `content` are its symbols."""
        vm = self.vm
        if not content:
            raise MachineError(
                "the kernel exports no symbols (CONFIG_KALLSYMS?), which slowing its clock down needs"
            )
        symbols, cpus = SymbolTable.shared(content), vm.topology.cpus
        if not dilation.dilate(self.ram, vm.architecture, symbols, cpus, now, vm.instructions_per_ns):
            raise DamagedError("it was stopped while it was updating its clock")

    def _slow_down(self, stopped: Stopped) -> bool:
        """Slow down a clock that follows the host's; False if the kernel lacks the types for it."""
        vm, symbols = self.vm, SymbolTable.shared(stopped.symbols)
        try:
            now, cpus = icount.stopped_at(stopped.state, vm.architecture.clock), vm.topology.cpus
            slowed = dilation.dilate(self.ram, vm.architecture, symbols, cpus, now, vm.clock_slower, 0)
        except MachineError:
            return False
        if not slowed:
            raise DamagedError("it was stopped while it was updating its clock")
        return True

    def _is_settled(self) -> bool:
        """Whether the stopped machine's clock could be changed."""
        symbols = SymbolTable.shared(self._symbols())
        return dilation.is_settled(self.ram, self.vm.architecture, symbols, self.vm.topology.cpus)

    def _read_ahead(self, content: bytes) -> None:
        """Load in advance what making tables of a recording needs."""
        lazy.load()
        if self.vm.plugin:
            types_in(self._memory(content), SymbolTable.shared(content)).read_ahead()

    def _symbols(self) -> bytes:
        """The kernel's symbols as the recorder read them."""
        file = (self.vm.results or self.folder) / _SYMBOLS
        return file.read_bytes() if file.exists() else b""

    def _check_symbols_are_whole(self) -> None:
        """The recorder empties their file if it loses a part of them."""
        file = (self.vm.results or self.folder) / _SYMBOLS
        if file.exists() and not file.stat().st_size:
            raise MachineError("the recorder could not keep the kernel's symbols: is the disk full?")

    def _check_symbols(self) -> None:
        if self.vm.plugin and not self._symbols():
            raise MachineError("the kernel exports no symbols (CONFIG_KALLSYMS?)")

    def _check_clock(self) -> None:
        """Check the counter's rate, if the kernel exports symbols: most take it from the boot line."""
        counter, symbols = self.vm.architecture.counter, self._symbols()
        if not (counter and symbols and counter_khz()):
            return
        rate = SymbolTable.shared(symbols).address(counter.symbol)
        if rate is None:
            return
        taken_for = int.from_bytes(self._memory(symbols).read(rate, 4) or b"", "little")
        if not snapshot.counters_agree(counter_khz(), taken_for):
            raise MachineError(
                f"the kernel measured its time stamp counter of {counter_khz() / 1e3:.0f} MHz as "
                f"{taken_for / 1e3:.0f} MHz, so its times would be wrong: boot it on an idle host, or "
                f"without {counter.parameter} in its boot line"
            )

    def _memory(self, symbols: bytes) -> KernelMemory:
        return KernelMemory.of(self.ram, self.vm.architecture, SymbolTable.shared(symbols))

    def _started(self, *, resumes: bool = False) -> AbstractContextManager[Guest]:
        return guest.started(self._command, self.ram, self.limits, resumes=resumes)

    def _command(self, channels: Channels) -> list[str]:
        return command_line(self.vm, self.ram, self.initrd, channels)

    def _wait(self) -> None:
        self.limits.on_stage("waiting for another cell that boots the same machine")

    def _room(self, message: Message) -> MemoryParts:
        """The places for the agent that the machine's message reports."""
        size, parts = message.content["page_bytes"], []
        for frame, pages in message.content["runs"]:
            start, length = frame * size, pages * size
            offset = self.vm.architecture.ram_offset(start, self.ram.bytes)
            last = self.vm.architecture.ram_offset(start + length - 1, self.ram.bytes)
            if not frame or pages < 1 or offset is None or last != offset + length - 1:
                raise MachineError(f"the machine reports room at page {frame}, where it has no memory")
            parts.append((offset, length))
        if sum(length for _, length in parts) != self.room_mib << 20:
            raise MachineError("the machine does not have the requested room")
        return parts

    @cached_property
    def _machine(self) -> SnapshotMachine:
        vm = self.vm
        return SnapshotMachine(
            arch=vm.architecture.name,
            kernel=vm.release,
            kernel_sha256=kernels.sha256_of(vm.kernel),
            boot=vm.boot_line,
            sockets=vm.topology.sockets,
            nodes=vm.topology.nodes,
            cores=vm.topology.cores,
            threads=vm.topology.threads,
            distances=vm.topology.distances,
            memory_mib=vm.memory_mib,
            options=[*vm.architecture.machine, *vm.remapping],
            initramfs_sha256=kernels.sha256_of(self.initrd),
            boot_number=vm.boot_number,
        )

    @property
    def _emulator(self) -> Emulator:
        qemu = find_qemu(self.vm.architecture.qemu)
        assert qemu
        of = qemu.path.stat().st_mtime_ns
        return Emulator(str(qemu.path), qemu.version, of, platform.machine(), counter_khz())
