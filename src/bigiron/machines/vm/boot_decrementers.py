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
_DEVICE = struct.Struct("<6Q4I")  # struct clock_event_device: pointers and times before mult, shift
_SET_NEXT_EVENT = 1
_MULT, _SHIFT, _NEWER_MULT = 6, 7, 8  # since Linux 7.1 there is another pointer before them
_MULTS_AT = 48
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
        mult = _mult_of(usual)
        while (timer := self._timer(len(self._slowed) + 1)) is not None:
            found = self._read(timer)
            if found[_SET_NEXT_EVENT] != usual[_SET_NEXT_EVENT] or found[mult] != usual[mult]:
                return  # it is not up
            self._set(timer, mult, usual[mult] * _SLOWER)
            self._slowed.append(timer)

    def put_back(self) -> None:
        """Let all timers count as the first CPU's does."""
        self._ended = True
        first = self._timer(0)
        if first is None:
            return
        found = self._read(first)
        mult = _mult_of(found)
        for timer in self._slowed:
            if self._read(timer)[mult] == found[mult] * _SLOWER:
                self._set(timer, mult, found[mult])

    def _timer(self, cpu: int) -> int | None:
        if cpu >= self._cpus:
            return None
        return self._place((self._decrementers + self._number(self._offsets + 8 * cpu)) & _ALL)

    def _number(self, address: int) -> int:
        place = self._place(address)
        return 0 if place is None else int.from_bytes(self._ram.read(place, 8), "little")

    def _read(self, timer: int) -> tuple[int, ...]:
        return _DEVICE.unpack(self._ram.read(timer, _DEVICE.size))

    def _set(self, timer: int, mult: int, number: int) -> None:
        if number < 1 << 32:
            self._ram.write(timer + _MULTS_AT + 4 * (mult - _MULT), struct.pack("<I", number))


def _mult_of(timer: tuple[int, ...]) -> int:
    """Which of its fields is mult. Without a shift beside it, it is a time of less than 4 s."""
    return _MULT if timer[_SHIFT] else _NEWER_MULT
