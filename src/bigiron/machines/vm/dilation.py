"""Time dilation: a guest's clocks are slowed down, so that ticks per operation are as on hardware.

With N busy CPUs, a clock that follows the instructions of all CPUs together (icount) is N times too fast for
each of them. So is the host's clock, where one thread of the host executes many CPUs. Here the timekeeping
of a stopped guest is changed in its memory: its clock, the scheduler's clock and the timer of each CPU all
run so many times slower (Gupta et al., "To infinity and beyond: time-warped network emulation", NSDI 2006).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import log2

from bigiron.architectures import Architecture
from bigiron.errors import MachineError
from bigiron.introspect.btf import Btf
from bigiron.introspect.kernel_types import types_in
from bigiron.introspect.memory import GuestRam, KernelMemory
from bigiron.introspect.symbols import SymbolTable

_MOST = 4096  # times slower: beyond, a clock's multiplier has too few digits
_MOST_RATE = (1 << 32) - 1  # that the kernel has room for, in its own unit: for what looks at it again later
_COUNTER_KHZ = 1_000_000  # of one that counts instructions, before it is slowed down
_PROCESSOR = 2  # instructions a nanosecond, in kernel code
_ALL = (1 << 64) - 1


SLOWED_FROM = 32
"""A machine with a host-driven clock executes mostly ticks from this number of CPUs on."""


def instructions_per_ns(busy: int) -> int:
    """How many instructions, of all CPUs together, make a nanosecond of guest time if so many CPUs are busy.

    About 2 per CPU, rounded to a power of two.
    """
    return min(_MOST, 1 << round(log2(_PROCESSOR * busy)))


@dataclass(frozen=True)
class _Counter:
    """The kernel's names for a counter that its clock may be, and for its rate in kHz or Hz."""

    clocksource: str
    rate: str


_COUNTERS = {
    "counter": _Counter("clocksource_tsc", "tsc_khz"),
    "timers": _Counter("clocksource_counter", "arch_timer_rate"),
}
"""By the clock of QEMU's that they follow."""


@dataclass(frozen=True)
class _Number:
    """A number in the guest's memory."""

    address: int
    bytes: int


class _Kernel:
    """The timekeeping variables of a stopped kernel."""

    def __init__(self, ram: GuestRam, architecture: Architecture, symbols: SymbolTable, cpus: int) -> None:
        self._ram, self._architecture, self._symbols, self._cpus = ram, architecture, symbols, cpus
        self._changes: list[tuple[int, bytes]] = []
        self.memory = KernelMemory.of(ram, architecture, symbols)
        self.types: Btf = types_in(self.memory, symbols)

    def member(self, start: int, type: str, path: str) -> _Number:
        place = self.types.member(self.types.find(type), path)
        if place is None:
            raise MachineError(f"the kernel's types do not have {type}.{path} (CONFIG_DEBUG_INFO_BTF?)")
        return _Number(start + place.start, place.size)

    def address(self, symbol: str) -> int:
        found = self._symbols.address(symbol)
        if found is None:
            raise MachineError(f"the kernel's symbols do not have {symbol}")
        return found

    def get(self, number: _Number) -> int:
        content = self.memory.read(number.address, number.bytes)
        if content is None:
            raise MachineError(f"the kernel's timekeeping at {number.address:#x} is not in memory")
        return int.from_bytes(content, "little")

    def set(self, number: _Number, value: int) -> None:
        """With `change`: all of them or none."""
        physical = self.memory.physical(number.address)
        offset = None if physical is None else self._architecture.ram_offset(physical, self._ram.bytes)
        assert offset is not None
        self._changes.append((offset, value.to_bytes(number.bytes, "little")))

    def change(self) -> None:
        for offset, content in self._changes:
            self._ram.write(offset, content)

    def copies(self, symbol: str) -> Iterator[int]:
        """Where each CPU's copy of a per-CPU variable is."""
        start = self.address(symbol)
        for offset in self.offsets():
            yield (start + offset) & _ALL

    def offsets(self) -> Iterator[int]:
        """What is added to a per-CPU variable's place, for each CPU."""
        offsets = self.address("__per_cpu_offset")
        for cpu in range(self._cpus):
            yield self.get(_Number(offsets + 8 * cpu, 8))

    def is_held(self, lock: int) -> bool:
        """Whether a spinlock is held. Before 4.2 it has two tickets: the holder's and the next one."""
        tickets = self.types.member(self.types.find("arch_spinlock"), "head_tail")
        if tickets is None:
            return self.get(_Number(lock, 4)) != 0
        half = tickets.size // 2
        return self.get(_Number(lock, half)) != self.get(_Number(lock + half, half))

    def timekeepers(self) -> tuple[int, list[int]]:
        """The lock of the clock; the clock, and the copy of it in which it is carried on."""
        start = self._symbols.address("timekeeper_data")  # from 6.17 on, of which it is the first
        if start is None and self.types.find("tk_data"):  # from 6.13 on
            start = self.address("tk_core")
        if start:
            lock, *both = (
                self.member(start, "tk_data", path).address
                for path in ("lock", "timekeeper", "shadow_timekeeper")
            )
            return lock, both
        core = self._symbols.address("tk_core")
        clock = core + 8 if core else self.address("timekeeper")  # before 3.17
        return self.address("timekeeper_lock"), [clock, self.address("shadow_timekeeper")]

    def reader(self) -> str:
        """The member of a clock that reads the counter: before 3.17 the clock does."""
        timekeeper = self.types.find("timekeeper")
        return next((name for name in ("tkr_mono.", "tkr.") if self.types.member(timekeeper, name[:-1])), "")


def is_settled(ram: GuestRam, architecture: Architecture, symbols: SymbolTable, cpus: int) -> bool:
    """Whether a stopped guest is not in the middle of carrying its clock on, as far as its kernel tells."""
    try:
        kernel = _Kernel(ram, architecture, symbols, cpus)
        lock, _ = kernel.timekeepers()
        return not kernel.is_held(lock)
    except MachineError:
        return True


def dilate(
    ram: GuestRam,
    architecture: Architecture,
    symbols: SymbolTable,
    cpus: int,
    now: int,
    factor: int,
    counter_khz: int = _COUNTER_KHZ,
) -> bool:
    """Slow a stopped guest's time down, `factor` times, a power of two.

    Its time stamp counter says `now`, and counts at that rate from then on, which the kernel does not know;
    0: at the rate that it knows. Where the kernel's clock follows QEMU's clock of timers, `now` is in
    nanoseconds, and its rate stays. False where it was stopped in the middle of carrying its clock on. Then,
    and where MachineError says why it cannot be, nothing is changed.
    """
    kernel = _Kernel(ram, architecture, symbols, cpus)
    lock, timekeepers = kernel.timekeepers()
    if kernel.is_held(lock):
        return False
    if architecture.clock not in _COUNTERS:
        raise MachineError("the kernel's clock cannot be slowed down on this architecture: leave out --clock")
    names = _COUNTERS[architecture.clock]
    counter, rate = kernel.address(names.clocksource), _Number(kernel.address(names.rate), 4)
    _check_clock(kernel, timekeepers, counter, names.clocksource)
    known = kernel.get(rate)
    counts = known if architecture.clock == "timers" else counter_khz or known
    slower = Fraction(factor * counts, known)
    for start in timekeepers:
        _slow_clock(kernel, start, kernel.reader(), slower)
    # Read where the kernel chooses the counter as its clock again:
    _divide(kernel, kernel.member(counter, "clocksource", "mult"), slower)
    # On arm64, this is what a CPU's timer is made of that comes later.
    kernel.set(rate, min(factor * counts, _MOST_RATE))
    if architecture.clock == "timers":
        _slow_generic_timer(kernel, now // (10**9 // known), factor)
    else:
        _slow_local_timers(kernel, now, slower, factor)
    kernel.change()
    return True


def _check_clock(kernel: _Kernel, timekeepers: Iterable[int], counter: int, clocksource: str) -> None:
    for start in timekeepers:
        if kernel.get(kernel.member(start, "timekeeper", f"{kernel.reader()}clock")) != counter:
            raise MachineError(
                f"the kernel's clock is not {clocksource}, or is not where expected: it cannot be slowed "
                "down: leave out --clock"
            )


def _slow_local_timers(kernel: _Kernel, now: int, slower: Fraction, factor: int) -> None:
    """The scheduler's clock on x86-64, and each CPU's timer."""
    for start in kernel.copies("cyc2ns"):
        _slow_scheduler_clock(kernel, start, now, slower)
    # The first is what a CPU's timer is made of that comes later.
    for start in (kernel.address("lapic_clockevent"), *kernel.copies("lapic_events")):
        _slow_timer(kernel, start, factor)


def _slow_generic_timer(kernel: _Kernel, now: int, factor: int) -> None:
    """drivers/clocksource/arm_arch_timer.c, kernel/time/sched_clock.c; QEMU: target/arm/helper.c."""
    data = kernel.member(kernel.address("cd"), "clock_data", "read_data")
    size = kernel.types.size(kernel.types.find("clock_read_data"))
    for start in range(data.address, data.address + data.bytes, size):
        _restart_sched_clock(kernel, start, now, factor)
    timers = kernel.get(_Number(kernel.address("arch_timer_evt"), 8))
    for offset in kernel.offsets():
        _slow_timer(kernel, (timers + offset) & _ALL, factor)


def _restart_sched_clock(kernel: _Kernel, start: int, now: int, factor: int) -> None:
    """It goes on from what it says at `now`."""
    mult, shift, cycles, ns = (
        kernel.member(start, "clock_read_data", name) for name in ("mult", "shift", "epoch_cyc", "epoch_ns")
    )
    passed = max(now - kernel.get(cycles), 0) * kernel.get(mult) >> kernel.get(shift)
    kernel.set(ns, kernel.get(ns) + passed)
    kernel.set(cycles, max(now, kernel.get(cycles)))
    _divide(kernel, mult, factor)


def _divide(kernel: _Kernel, number: _Number, by: Fraction | int) -> None:
    kernel.set(number, round(kernel.get(number) / Fraction(by)))


def _slow_clock(kernel: _Kernel, start: int, reader: str, slower: Fraction) -> None:
    """A clock, and by what it is carried on: fewer nanoseconds for as much of the counter.

    Where NTP would make up for that, which is before about 4.17, as many nanoseconds for more.
    """
    by = {f"{reader}mult": slower}
    if kernel.types.member(kernel.types.find("timekeeper"), "skip_second_overflow"):  # came with that change
        by |= {"xtime_interval": slower, "raw_interval": slower}
    else:
        by["cycle_interval"] = 1 / slower
    if reader == "tkr_mono.":  # from 4.1 on
        by["tkr_raw.mult"] = slower
    for path, divisor in by.items():
        _divide(kernel, kernel.member(start, "timekeeper", path), divisor)


def _slow_timer(kernel: _Kernel, start: int, factor: int) -> None:
    """A CPU's timer, which counts (ns * mult) >> shift: to the same nanosecond it takes longer."""
    shift = kernel.member(start, "clock_event_device", "shift")
    kernel.set(shift, kernel.get(shift) - (factor.bit_length() - 1))
    _divide(kernel, kernel.member(start, "clock_event_device", "max_delta_ns"), factor)


def _slow_scheduler_clock(kernel: _Kernel, start: int, now: int, slower: Fraction) -> None:
    """It goes on from where it would be at `now`: if it jumped back, the scheduler would wait so long."""
    size = kernel.types.size(kernel.types.find("cyc2ns_data"))
    for data in (start, start + size):
        mul, shift, offset = (
            kernel.member(data, "cyc2ns_data", f"cyc2ns_{name}") for name in ("mul", "shift", "offset")
        )
        before = kernel.get(mul)
        after = round(before / slower)
        passed = (now * before >> kernel.get(shift)) - (now * after >> kernel.get(shift))
        kernel.set(mul, after)
        kernel.set(offset, (kernel.get(offset) + passed) & _ALL)
