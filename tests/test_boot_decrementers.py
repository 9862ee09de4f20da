"""Fewer ticks while a POWER machine with many CPUs boots."""

import struct
from collections.abc import Iterator

import pytest

from bigiron.architectures import PPC64LE
from bigiron.introspect.memory import GuestRam
from bigiron.introspect.symbols import SymbolTable
from bigiron.machines.vm.boot_decrementers import _SLOWER, Decrementers
from bigiron.machines.vm.boot_ticks import BootTicks

CPUS = 4
START, BYTES = 1 << 60, 64  # of memory; of a CPU's part of it
NAMES = {
    "decrementers": 0x100,
    "__per_cpu_offset": 0x1000,
    "curr_clocksource": 0x2000,
    "clocksource_timebase": 0x3000,
}
MULT, SHIFT = 0x83126F, 24


@pytest.fixture
def ram() -> Iterator[GuestRam]:
    with GuestRam(1) as ram:
        for cpu in range(CPUS):
            ram.write(NAMES["__per_cpu_offset"] + 8 * cpu, (0x10000 + cpu * BYTES).to_bytes(8, "little"))
        yield ram


def timers(ram: GuestRam, missing: str = "") -> Decrementers:
    def address(symbol: str) -> int | None:
        return None if symbol == missing else START + NAMES[symbol]

    return Decrementers(ram, address, lambda at: at - START if at >= START else None, CPUS)


def timer(cpu: int) -> int:
    return NAMES["decrementers"] + 0x10000 + cpu * BYTES


def bring_up(ram: GuestRam, cpu: int) -> None:
    ram.write(timer(cpu), struct.pack("<6Q2I", 1, 2, 0, 5, 1000, 10, MULT, SHIFT))


def mults(ram: GuestRam) -> list[int]:
    return [int.from_bytes(ram.read(timer(cpu) + 48, 4), "little") // MULT for cpu in range(CPUS)]


def choose(ram: GuestRam) -> None:
    ram.write(NAMES["curr_clocksource"], (START + NAMES["clocksource_timebase"]).to_bytes(8, "little"))


def test_the_timers_of_cpus_that_came_up_are_slower_until_there_is_a_clock(ram: GuestRam) -> None:
    slowed = timers(ram)
    bring_up(ram, 0)
    slowed.poll()
    assert mults(ram) == [1, 0, 0, 0]
    bring_up(ram, 1)
    bring_up(ram, 2)
    slowed.poll()
    slowed.poll()
    assert mults(ram) == [1, _SLOWER, _SLOWER, 0]
    choose(ram)
    slowed.poll()
    bring_up(ram, 3)
    slowed.poll()
    assert mults(ram) == [1, 1, 1, 1]


def test_they_are_put_back_where_the_machine_was_up_first(ram: GuestRam) -> None:
    slowed = timers(ram)
    bring_up(ram, 0)
    bring_up(ram, 1)
    slowed.poll()
    ram.write(timer(2) + 48, b"\7")
    slowed.put_back()
    slowed.poll()
    assert mults(ram)[:2] == [1, 1]


def test_they_are_put_back_with_the_machine_s_other_timers(ram: GuestRam) -> None:
    names = {**NAMES, "linux_banner": 0x4000, "__num_online_cpus": 0x5000}
    image = PPC64LE.page_tables.image
    symbols = SymbolTable("".join(f"{image + place:x} D {name}\n" for name, place in names.items()))
    ram.write(names["linux_banner"], b"Linux version")
    ram.write(names["__num_online_cpus"], (2).to_bytes(4, "little"))
    bring_up(ram, 0)
    bring_up(ram, 1)
    ticks = BootTicks(ram, PPC64LE, symbols, CPUS)
    ticks.poll()
    assert mults(ram)[:2] == [1, _SLOWER]
    ticks.put_back()
    assert mults(ram)[:2] == [1, 1]


def test_a_newer_kernel_has_another_pointer_in_it(ram: GuestRam) -> None:
    """Since Linux 7.1: set_next_coupled()."""
    slowed = timers(ram)
    usual = struct.pack("<7Q2I", 1, 2, 0, 0, 5, 1 << 40, 1000, MULT, SHIFT)
    ram.write(timer(0), usual)
    ram.write(timer(1), usual)
    slowed.poll()
    assert ram.read(timer(1), 64) == struct.pack("<7Q2I", 1, 2, 0, 0, 5, 1 << 40, 1000, MULT * _SLOWER, SHIFT)
    slowed.put_back()
    assert ram.read(timer(1), 64) == usual


@pytest.mark.parametrize("missing", NAMES)
def test_a_kernel_without_such_a_symbol(missing: str, ram: GuestRam) -> None:
    bring_up(ram, 0)
    bring_up(ram, 1)
    timers(ram, missing).poll()
    assert mults(ram)[:2] == [1, 1]
