"""Fewer ticks while a machine with many CPUs boots.

Until the kernel has chosen its clock source, long after the last CPU is up, each CPU has 100 to 1000 ticks a
second by the host's clock. Where one thread executes hundreds of CPUs, it executes little or nothing else.

So the period with which a CPU's timer starts is made longer in the VM's memory once a second CPU is up: from
then on all of them together tick as often as one CPU normally does. The first CPU, whose ticks the kernel
counts as time, has started before. Once the clock source is chosen, each tick is programmed individually and
the kernel no longer reads the period, so it is restored.

The same is done with the period of the watchdog, which every 4 s of each CPU wakes a thread there, to see
whether it still schedules: with 1024 CPUs, every 4 ms. A CPU that becomes idle then looks at all others.

POWER has a watchdog of its own as well, which reports a CPU that has not been heard of for 10 s: with 256
CPUs on one thread that is common, and to write the reports takes longer than to boot. Its numbers stay as
they are made: a timer that was started with a longer period would be late by the old limit.

Where several CPUs are busy, one that is idle looks for tasks for all idle CPUs, once a second or two for each
of them, at all others. That is N^2 looks, so it is put off until the machine is kept.
"""

import struct
from dataclasses import dataclass
from itertools import pairwise

from bigiron.architectures import Architecture
from bigiron.introspect.memory import GuestRam
from bigiron.introspect.symbols import SymbolTable
from bigiron.machines.vm.boot_decrementers import Decrementers

FROM_CPUS = 32
"""Machines with at least so many CPUs boot sooner with it."""

_ONLINE = "__num_online_cpus"  # Linux 5.4 and newer
_BANNER, _STARTS = "linux_banner", b"Linux version"
_TICKS = range(900_000, 11_000_000)  # QEMU's timer counts to 10**9 in a second, as a busy host measures it
_WATCHDOG = "sample_period"  # in nanoseconds
_WATCHDOGS = {
    _WATCHDOG: range(10**9, 61 * 10**9),
    # arch/powerpc/kernel/watchdog.c
    "wd_timer_period_ms": range(1000, 61_000),
    "wd_panic_timeout_tb": range(512 * 10**6, 61 * 512 * 10**6),
    "wd_smp_panic_timeout_tb": range(512 * 10**6, 91 * 512 * 10**6),
}
_NOW, _IDLE = "jiffies_64", "nohz"  # kernel/sched/fair.c
_IDLE_WORDS = 40  # with a set of 2048 CPUs in it
_MOST_CPUS = 1 << 14  # a number of them, or a flag, beside a flag: no time
_LATER = 1 << 14  # jiffies: 16 s or more, and it is put off again four times per second


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


class _IdleBalance:
    """When idle CPUs are next balanced: two times in a row are near the present one, and it is the first.

    Where it is is found once: when jiffies go past 32 bits, 300 s after the start, a time is like a number of
    CPUs beside a flag.
    """

    def __init__(self, ram: GuestRam, idle: int, now: int) -> None:
        self._ram, self._idle, self._now = ram, idle, now
        self._place: int | None = None

    def put_off(self, jiffies: int) -> None:
        """Until so many jiffies from now."""
        (now,) = struct.unpack("<Q", self._ram.read(self._now, 8))
        if self._place is None:
            self._place = self._find(now)
        if self._place is not None:
            self._ram.write(self._place, struct.pack("<Q", now + jiffies))

    def _find(self, now: int) -> int | None:
        content = self._ram.read(self._idle, 8 * _IDLE_WORDS)
        words = [word for (word,) in struct.iter_unpack("<Q", content)]
        near = [abs(word - now) <= 4 * _LATER and word % (1 << 32) >= _MOST_CPUS for word in words]
        return next((self._idle + 8 * place for place, both in enumerate(pairwise(near)) if all(both)), None)


class BootTicks:
    """The periods of the CPUs' timers in a machine that boots.

    Does nothing where the kernel's `symbols` lack the variables.
    """

    def __init__(self, ram: GuestRam, architecture: Architecture, symbols: SymbolTable, cpus: int) -> None:
        self._ram, self._architecture, self._symbols, self._cpus = ram, architecture, symbols, cpus
        self._online, self._banner = self._place(_ONLINE), self._place(_BANNER)
        places = [(architecture.tick_period, 4, _TICKS)]
        places += [(symbol, 8, known) for symbol, known in _WATCHDOGS.items()]
        self.periods = {
            symbol: _Period(ram, place, size, known)
            for symbol, size, known in places
            if symbol and (place := self._place(symbol)) is not None
        }

        self._decrementers = Decrementers(ram, symbols.address, self._place_of, cpus)
        idle, now = self._place(_IDLE), self._place(_NOW)
        self._balance = None if idle is None or now is None else _IdleBalance(ram, idle, now)

    def poll(self) -> None:
        """Make the periods longer if a second CPU is up."""
        if not self._is_up():
            return
        for period in self.periods.values():
            period.lengthen(self._cpus)
        self._decrementers.poll()
        if self._balance:
            self._balance.put_off(_LATER)

    def put_back(self) -> None:
        """Restore the periods for CPUs that come online later."""
        for symbol in (self._architecture.tick_period, _WATCHDOG):
            if symbol in self.periods:
                self.periods[symbol].put_back()
        if not self._is_up():
            return
        self._decrementers.put_back()
        if self._balance:
            self._balance.put_off(0)

    def _is_up(self) -> bool:
        """Whether the kernel runs with a second CPU. Before that, anything may lie there."""
        if self._online is None or self._banner is None:
            return False
        if self._ram.read(self._banner, len(_STARTS)) != _STARTS:
            return False
        return 1 < int.from_bytes(self._ram.read(self._online, 4), "little") <= self._cpus

    def _place(self, symbol: str) -> int | None:
        address = self._symbols.address(symbol)
        return None if address is None else self._place_of(address)

    def _place_of(self, address: int) -> int | None:
        """Its offset in RAM: without KASLR the kernel's image is at the address that it was linked to."""
        physical = address - self._architecture.page_tables.image
        return self._architecture.ram_offset(physical, self._ram.bytes)
