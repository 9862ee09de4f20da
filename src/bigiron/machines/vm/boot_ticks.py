"""Fewer ticks while a machine with many CPUs boots.

Until the kernel has chosen its clock source, long after the last CPU is up, each CPU has 100 to 1000 ticks a
second by the host's clock. Where one thread executes hundreds of CPUs, it executes little or nothing else.

So the period with which a CPU's timer starts is made longer in the VM's memory once a second CPU is up: from
then on all of them together tick as often as one CPU normally does. The first CPU, whose ticks the kernel
counts as time, has started before. Once the clock source is chosen, each tick is programmed individually and
the kernel no longer reads the period, so it is restored.
"""

from bigiron.architectures import Architecture
from bigiron.introspect.memory import GuestRam
from bigiron.introspect.symbols import SymbolTable

FROM_CPUS = 32
"""Machines with at least so many CPUs boot sooner with it."""

_ONLINE = "__num_online_cpus"  # Linux 5.4 and newer
_BANNER, _STARTS = "linux_banner", b"Linux version"
_PERIODS = range(900_000, 11_000_000)  # QEMU's timer counts to 10**9 in a second, as a busy host measures it
_MOST = (1 << 32) - 1


class BootTicks:
    """The period of the CPUs' timers in a machine that boots.

    Does nothing where the kernel's `symbols` lack the variables.
    """

    def __init__(self, ram: GuestRam, architecture: Architecture, symbols: SymbolTable, cpus: int) -> None:
        self._ram, self._architecture, self._symbols, self._cpus = ram, architecture, symbols, cpus
        self._period = self._place(architecture.tick_period)
        self._online, self._banner = self._place(_ONLINE), self._place(_BANNER)
        self._before = self._longer = 0

    def poll(self) -> None:
        """Make the period longer if a second CPU is up."""
        if self._before or self._period is None or self._online is None or self._banner is None:
            return
        # Before the kernel runs, anything may lie there.
        if self._ram.read(self._banner, len(_STARTS)) != _STARTS:
            return
        period, online = self._number(self._period), self._number(self._online)
        if period in _PERIODS and 1 < online <= self._cpus:
            self._before, self._longer = period, min(period * self._cpus, _MOST)
            self._set(self._longer)

    def put_back(self) -> None:
        """Restore the period for CPUs that come online later, unless the kernel has set another one since."""
        if self._before and self._period is not None and self._number(self._period) == self._longer:
            self._set(self._before)

    def _place(self, symbol: str) -> int | None:
        """Its offset in RAM: without KASLR the kernel's image is at the address that it was linked to."""
        address = self._symbols.address(symbol)
        if address is None:
            return None
        physical = address - self._architecture.page_tables.image
        return self._architecture.ram_offset(physical, self._ram.bytes)

    def _number(self, place: int) -> int:
        return int.from_bytes(self._ram.read(place, 4), "little")

    def _set(self, period: int) -> None:
        assert self._period is not None
        self._ram.write(self._period, period.to_bytes(4, "little"))
