"""Fewer ticks while a POWER machine with many CPUs boots.

Until the kernel has chosen its clock source, each CPU programs each of its ticks, a `CONFIG_HZ`th of a second
after the last one. So each CPU's timer but the first one's is made to count slower once the CPU is up, in the
VM's memory: the number by which the kernel multiplies nanoseconds (kernel/time/clockevents.c) is larger. Once
the clock source is chosen, it is as it was.
"""

import struct
from collections.abc import Callable

from bigiron.introspect.memory import GuestRam

_SLOWER = 64
_DEVICE = struct.Struct("<6Q2I")  # struct clock_event_device: five pointers and times before mult, shift
_SET_NEXT_EVENT, _MULT = 1, 6
_MULT_AT = 48
_ALL = (1 << 64) - 1


class Decrementers:
    """The timers of a machine's CPUs.

    `address` finds a symbol of the kernel, `place` where in RAM an address is, if it is there.
    """

    def __init__(
        self,
        ram: GuestRam,
        address: Callable[[str], int | None],
        place: Callable[[int], int | None],
        cpus: int,
    ) -> None:
        self._ram, self._place, self._cpus = ram, place, cpus
        names = ("decrementers", "__per_cpu_offset", "curr_clocksource", "clocksource_timebase")
        self._decrementers, self._offsets, self._chosen, self._timebase = (
            address(name) or 0 for name in names
        )
        self._slowed: list[int] = []  # where in RAM the timers are, from the second CPU's on
        self._ended = not all((self._decrementers, self._offsets, self._chosen, self._timebase))

    def poll(self) -> None:
        """Slow down the timers of the CPUs that came up since; put all back if a clock source was chosen."""
        if self._ended:
            return
        first = self._timer(0)
        if first is None:
            return
        usual = self._read(first)
        if self._number(self._chosen) == self._timebase:
            self.put_back()
            return
        while (timer := self._timer(len(self._slowed) + 1)) is not None:
            found = self._read(timer)
            if found[_SET_NEXT_EVENT] != usual[_SET_NEXT_EVENT] or found[_MULT] != usual[_MULT]:
                return  # it is not up
            self._set(timer, usual[_MULT] * _SLOWER)
            self._slowed.append(timer)

    def put_back(self) -> None:
        """Let all timers count as the first CPU's does."""
        self._ended = True
        first = self._timer(0)
        if first is None:
            return
        usual = self._read(first)[_MULT]
        for timer in self._slowed:
            if self._read(timer)[_MULT] == usual * _SLOWER:
                self._set(timer, usual)

    def _timer(self, cpu: int) -> int | None:
        if cpu >= self._cpus:
            return None
        return self._place((self._decrementers + self._number(self._offsets + 8 * cpu)) & _ALL)

    def _number(self, address: int) -> int:
        place = self._place(address)
        return 0 if place is None else int.from_bytes(self._ram.read(place, 8), "little")

    def _read(self, timer: int) -> tuple[int, ...]:
        return _DEVICE.unpack(self._ram.read(timer, _DEVICE.size))

    def _set(self, timer: int, mult: int) -> None:
        if mult < 1 << 32:
            self._ram.write(timer + _MULT_AT, struct.pack("<I", mult))
