"""Fewer ticks while a machine with many CPUs boots.

Until its kernel has chosen its clock, long after the last CPU is up, each CPU has 100 to 1000 ticks a second,
by the host's clock. Where one thread executes hundreds of CPUs, it executes little else, or nothing else.

Here the period that a CPU's timer is started with is made longer in the memory of the machine, once a second
CPU is up: all that come then tick together as often as one. The first one, by whose ticks the kernel counts
time, has started before. Once the clock is chosen, each timer is told when the next tick is due, and
nobody looks at the period any more: it is put back.
"""

from bigiron.architectures import Architecture
from bigiron.introspect.memory import GuestRam
from bigiron.introspect.symbols import SymbolTable

FROM_CPUS = 32
"""So many CPUs or more boot sooner with it."""

_ONLINE = "__num_online_cpus"  # Linux 5.4 and newer
_BANNER, _STARTS = "linux_banner", b"Linux version"
_PERIODS = range(900_000, 11_000_000)  # QEMU's timer counts to 10**9 in a second, as a busy host measures it
_MOST = (1 << 32) - 1


class BootTicks:
    """The period of the CPUs' timers in a machine that boots.

    Nothing is done where `symbols`, its kernel's, has no such thing.
    """

    def __init__(self, ram: GuestRam, architecture: Architecture, symbols: SymbolTable, cpus: int) -> None:
        self._ram, self._architecture, self._symbols, self._cpus = ram, architecture, symbols, cpus
        self._period = self._place(architecture.tick_period)
        self._online, self._banner = self._place(_ONLINE), self._place(_BANNER)
        self._before = self._longer = 0

    def poll(self) -> None:
        """Make it longer if a second CPU is up."""
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
        """As it was, for CPUs that come later, unless the kernel has found out another one since."""
        if self._before and self._period is not None and self._number(self._period) == self._longer:
            self._set(self._before)

    def _place(self, symbol: str) -> int | None:
        """Where it lies in RAM: the kernel's image is where it was linked to, not at a random address."""
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
