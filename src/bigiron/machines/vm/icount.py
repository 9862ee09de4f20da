"""A clock that follows what a machine's CPUs execute: QEMU's -icount, for one that was booted without it.

QEMU then takes each instruction of any CPU for a nanosecond, and skips the time in which all CPUs wait.
Nothing of the host goes into that clock. A boot with it takes minutes; to resume with it takes no longer.

Stream: QEMU's docs/devel/migration/main.rst and migration/savevm.c. What is put into it: system/cpu-timers.c.
"""

import struct

from bigiron.errors import MachineError

OPTIONS = ("-icount", "shift=0,sleep=off")

_SECTION, _SUBSECTION, _FOOTER = b"\x04", b"\x05", b"\x7e"  # QEMU_VM_SECTION_FULL and so on
_TIMER, _COUNT = b"timer", b"timer/icount"
_TIMER_VERSION, _COUNT_VERSION = 2, 1
_HEADER = struct.Struct(">cI6sII")  # what it is, its number, its name, which of that name, version
_CLOCKS = struct.Struct(">q8xq")  # time stamp counter; nanoseconds


def counting(state: bytes, clock: str) -> tuple[bytes, int]:
    """A machine's state as one is resumed from that counts instructions, and what its clock says then.

    One clock takes the place of two, the counter's and that of timers. If the kernel's clock is the counter,
    it starts from the later one: a kernel waits until its clock has come to where it was.
    """
    clocks = _find_clocks(state)
    end = clocks + _CLOCKS.size
    both = _CLOCKS.unpack_from(state, clocks)
    now = max(both) if clock == "counter" else both[1]
    count = _SUBSECTION + _name(_COUNT) + struct.pack(">Iqq", _COUNT_VERSION, now, 0)
    return state[:end] + count + state[end:], now


def stopped_at(state: bytes, clock: str) -> int:
    """What the counter of a machine says that was stopped in this state, or its clock of timers (ns)."""
    counter, nanoseconds = _CLOCKS.unpack_from(state, _find_clocks(state))
    now: int = counter if clock == "counter" else nanoseconds
    return now


def _find_clocks(state: bytes) -> int:
    """Where in the state they are."""
    start = state.find(_name(_TIMER)) - 5
    if start < 0:
        raise MachineError("QEMU's state has no clock that could follow instructions: leave out --clock")
    clocks = start + _HEADER.size
    kind, number, _, _, version = _HEADER.unpack(state[start:clocks].ljust(_HEADER.size, b"\0"))
    footer = _FOOTER + number.to_bytes(4, "big")
    if (kind, version) != (_SECTION, _TIMER_VERSION) or not state.startswith(footer, clocks + _CLOCKS.size):
        raise MachineError("the format of the clock in QEMU's state is unknown: leave out --clock")
    return clocks


def _name(name: bytes) -> bytes:
    return bytes([len(name)]) + name
