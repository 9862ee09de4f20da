"""Fewer ticks while a machine with many CPUs boots.

Until the kernel has chosen its clock source, long after the last CPU is up, each CPU has 100 to 1000 ticks a
second by the host's clock. Where one thread executes hundreds of CPUs, it executes little or nothing else.

So the period with which a CPU's timer starts is made longer in the VM's memory once a second CPU is up: from
then on all of them together tick as often as one CPU normally does. The first CPU, whose ticks the kernel
counts as time, has started before. Once the clock source is chosen, each tick is programmed individually and
the kernel no longer reads the period, so it is restored.

The same is done with the period of the watchdog, which every 4 s of each CPU wakes a thread there, to see
whether it still schedules: with 1024 CPUs, every 4 ms. A CPU that becomes idle then looks at all others.
"""

from dataclasses import dataclass

from bigiron.architectures import Architecture
from bigiron.introspect.memory import GuestRam
from bigiron.introspect.symbols import SymbolTable

FROM_CPUS = 32
"""Machines with at least so many CPUs boot sooner with it."""

_ONLINE = "__num_online_cpus"  # Linux 5.4 and newer
_BANNER, _STARTS = "linux_banner", b"Linux version"
_WATCHDOG = "sample_period"  # in nanoseconds
_TICKS = range(900_000, 11_000_000)  # QEMU's timer counts to 10**9 in a second, as a busy host measures it
_WATCHDOGS = range(10**9, 61 * 10**9)


@dataclass
class _Period:
    """A period of each CPU's timers in the VM's memory, which is made longer if it is as it is `known`."""

    ram: GuestRam
    place: int
    bytes: int
    known: range
    before: int = 0
    longer: int = 0

    def lengthen(self, times: int) -> None:
        """As far as there is room for it, once."""
        now = self.number()
        if not self.before and now in self.known:
            self.before, self.longer = now, min(now * times, (1 << 8 * self.bytes) - 1)
            self._set(self.longer)

    def put_back(self) -> None:
        """Restore it, unless the kernel has set another one since."""
        if self.before and self.number() == self.longer:
            self._set(self.before)

    def number(self) -> int:
        return int.from_bytes(self.ram.read(self.place, self.bytes), "little")

    def _set(self, number: int) -> None:
        self.ram.write(self.place, number.to_bytes(self.bytes, "little"))


class BootTicks:
    """The periods of the CPUs' timers in a machine that boots.

    Does nothing where the kernel's `symbols` lack the variables.
    """

    def __init__(self, ram: GuestRam, architecture: Architecture, symbols: SymbolTable, cpus: int) -> None:
        self._ram, self._architecture, self._symbols, self._cpus = ram, architecture, symbols, cpus
        self._online, self._banner = self._place(_ONLINE), self._place(_BANNER)
        places = ((architecture.tick_period, 4, _TICKS), (_WATCHDOG, 8, _WATCHDOGS))
        self.periods = {
            symbol: _Period(ram, place, size, known)
            for symbol, size, known in places
            if symbol and (place := self._place(symbol)) is not None
        }

    def poll(self) -> None:
        """Make the periods longer if a second CPU is up."""
        if not self.periods or self._online is None or self._banner is None:
            return
        # Before the kernel runs, anything may lie there.
        if self._ram.read(self._banner, len(_STARTS)) != _STARTS:
            return
        online = int.from_bytes(self._ram.read(self._online, 4), "little")
        if 1 < online <= self._cpus:
            for period in self.periods.values():
                period.lengthen(self._cpus)

    def put_back(self) -> None:
        """Restore the periods for CPUs that come online later."""
        for period in self.periods.values():
            period.put_back()

    def _place(self, symbol: str) -> int | None:
        """Its offset in RAM: without KASLR the kernel's image is at the address that it was linked to."""
        address = self._symbols.address(symbol)
        if address is None:
            return None
        physical = address - self._architecture.page_tables.image
        return self._architecture.ram_offset(physical, self._ram.bytes)
