"""Fewer ticks while a machine with many CPUs boots."""

import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import SAFETY_NET_S

from bigiron import compile, kernels, workloads
from bigiron.architectures import PPC64LE, X86_64, Architecture
from bigiron.errors import MachineError
from bigiron.introspect.memory import GuestRam, KernelMemory
from bigiron.introspect.symbols import SymbolTable
from bigiron.machines.vm import boot_ticks, vm
from bigiron.machines.vm.boot_ticks import BootTicks
from bigiron.machines.vm.guest import RunLimits
from bigiron.machines.vm.snapshot import Stopped
from bigiron.machines.vm.topology import Topology

IMAGE = X86_64.page_tables.image
BANNER, ONLINE, PERIOD, WATCHDOG, IDLE, NOW = 0x10000, 0x20000, 0x30000, 0x40000, 0x50000, 0x60000
NAMES = {
    "linux_banner": BANNER,
    "__num_online_cpus": ONLINE,
    "lapic_timer_period": PERIOD,
    "sample_period": WATCHDOG,
}
SYMBOLS = SymbolTable("".join(f"{IMAGE + place:x} D {name}\n" for name, place in NAMES.items()))
CPUS = 300


@pytest.fixture
def ram() -> Iterator[GuestRam]:
    with GuestRam(64) as ram:
        yield ram


def put(ram: GuestRam, place: int, number: int) -> None:
    ram.write(place, number.to_bytes(4, "little"))


def watchdog(ram: GuestRam) -> int:
    return int.from_bytes(ram.read(WATCHDOG, 8), "little")


def period(ram: GuestRam) -> int:
    return int.from_bytes(ram.read(PERIOD, 4), "little")


def test_it_is_longer_while_a_machine_boots(ram: GuestRam) -> None:
    ticks = BootTicks(ram, X86_64, SYMBOLS, CPUS)
    ticks.poll()
    put(ram, PERIOD, 4_000_000)
    ram.write(BANNER, b"Linux version 6.12")
    for online in (0, 1):
        put(ram, ONLINE, online)
        ticks.poll()
        assert period(ram) == 4_000_000, "the first CPU starts as ever"
    put(ram, ONLINE, 2)
    ticks.poll()
    assert period(ram) == 4_000_000 * CPUS
    put(ram, ONLINE, 3)
    ticks.poll()
    assert period(ram) == 4_000_000 * CPUS
    ticks.put_back()
    assert period(ram) == 4_000_000


@pytest.mark.parametrize(
    ("banner", "online", "found"),
    [
        (b"Linux vers\0", 2, 4_000_000),
        (b"Linux version", CPUS + 1, 4_000_000),
        (b"Linux version", 2, 0xFFFFFFFF),
    ],
)
def test_what_is_no_kernel_is_left_alone(ram: GuestRam, banner: bytes, online: int, found: int) -> None:
    ram.write(BANNER, banner)
    put(ram, ONLINE, online)
    put(ram, PERIOD, found)
    ticks = BootTicks(ram, X86_64, SYMBOLS, CPUS)
    ticks.poll()
    ticks.put_back()
    assert period(ram) == found


def test_the_longest_period(ram: GuestRam) -> None:
    ram.write(BANNER, b"Linux version")
    put(ram, ONLINE, 2)
    put(ram, PERIOD, 10_000_000)
    BootTicks(ram, X86_64, SYMBOLS, 1024).poll()
    assert period(ram) == 0xFFFFFFFF


@pytest.mark.parametrize("architecture", [X86_64, PPC64LE])
def test_the_watchdog_looks_more_seldom_too(ram: GuestRam, architecture: Architecture) -> None:
    image = architecture.page_tables.image
    symbols = SymbolTable("".join(f"{image + place:x} D {name}\n" for name, place in NAMES.items()))
    ram.write(BANNER, b"Linux version")
    put(ram, ONLINE, 2)
    ram.write(WATCHDOG, (4 * 10**9).to_bytes(8, "little"))
    ticks = BootTicks(ram, architecture, symbols, CPUS)
    ticks.poll()
    assert watchdog(ram) == 4 * 10**9 * CPUS
    ticks.put_back()
    assert watchdog(ram) == 4 * 10**9


def test_power_s_own_watchdog_stays_patient(ram: GuestRam) -> None:
    image = PPC64LE.page_tables.image
    names = {**NAMES, "wd_timer_period_ms": IDLE, "wd_panic_timeout_tb": NOW}
    symbols = SymbolTable("".join(f"{image + place:x} d {name}\n" for name, place in names.items()))
    ram.write(BANNER, b"Linux version")
    put(ram, ONLINE, 2)
    for place, number in ((IDLE, 4000), (NOW, 10 * 512_000_000)):
        ram.write(place, number.to_bytes(8, "little"))
    ticks = BootTicks(ram, PPC64LE, symbols, CPUS)
    ticks.poll()
    ticks.put_back()
    left = [int.from_bytes(ram.read(place, 8), "little") for place in (IDLE, NOW)]
    assert left == [4000 * CPUS, 10 * 512_000_000 * CPUS]


BEFORE_WRAP, AFTER_WRAP = 0xFFFF0000, 0x100004DD2


@pytest.mark.parametrize("now", [BEFORE_WRAP, AFTER_WRAP])
@pytest.mark.parametrize(
    ("words", "place"),
    [
        ((0xFFFF888100307200, 0x3FE, 1 << 32 | 1, 3, 6), 3),  # 5.12 and newer
        ((0xFFFF888100307200, 1 << 32 | 7, -2, 0), 2),  # 5.10
        ((*range(2, 34), 7, 0, 5, 1), 34),  # with the set of CPUs in it
        ((0xFFFF888100307200, 0x3FE, 0, 3, 0), None),
    ],
)
def test_idle_cpus_are_balanced_later(
    words: tuple[int, ...], place: int | None, now: int, ram: GuestRam
) -> None:
    """Each is put where it is after the present time if it is one of the two times."""
    names = {**NAMES, "nohz": IDLE, "jiffies_64": NOW}
    symbols = SymbolTable("".join(f"{IMAGE + at:x} D {name}\n" for name, at in names.items()))
    times = range(place, place + 2) if place is not None else ()
    stored = [word + now if number in times else word for number, word in enumerate(words)]
    ram.write(IDLE, struct.pack(f"<{len(words)}Q", *stored))
    ram.write(NOW, struct.pack("<Q", now))
    ram.write(BANNER, b"Linux version")
    ticks = BootTicks(ram, X86_64, symbols, CPUS)
    for online, after in ((1, None), (2, now + boot_ticks._LATER)):
        put(ram, ONLINE, online)
        ticks.poll()
        if place is not None and after:
            stored[place] = after
        assert list(struct.unpack(f"<{len(words)}Q", ram.read(IDLE, 8 * len(words)))) == stored
    ticks.put_back()
    if place is not None:
        stored[place] = now
    assert list(struct.unpack(f"<{len(words)}Q", ram.read(IDLE, 8 * len(words)))) == stored


def test_idle_cpus_are_balanced_again_when_jiffies_go_past_32_bits(ram: GuestRam) -> None:
    """As a machine with 1024 CPUs is kept after 292 s: its next time looks like a number of CPUs."""
    names = {**NAMES, "nohz": IDLE, "jiffies_64": NOW}
    symbols = SymbolTable("".join(f"{IMAGE + at:x} D {name}\n" for name, at in names.items()))
    ram.write(BANNER, b"Linux version")
    put(ram, ONLINE, 2)
    ram.write(IDLE, struct.pack("<5Q", 0xFFFF888100307200, 0x3FE, 1 << 32 | 1, BEFORE_WRAP, BEFORE_WRAP))
    ticks = BootTicks(ram, X86_64, symbols, CPUS)
    for now in (BEFORE_WRAP, 0xFFFFF000, 0xFFFFF040):
        ram.write(NOW, struct.pack("<Q", now))
        ticks.poll()
        assert struct.unpack("<Q", ram.read(IDLE + 24, 8)) == (now + boot_ticks._LATER,)
    ticks.put_back()
    assert struct.unpack("<Q", ram.read(IDLE + 24, 8)) == (0xFFFFF040,)


@pytest.mark.parametrize("missing", ["linux_banner", "__num_online_cpus"])
def test_a_kernel_without_such_a_symbol(ram: GuestRam, missing: str) -> None:
    ram.write(0, b"\x02" * (1 << 20))
    symbols = SymbolTable("".join(f"{IMAGE:x} D {name}\n" for name in NAMES if name != missing))
    ticks = BootTicks(ram, X86_64, symbols, CPUS)
    ticks.poll()
    ticks.put_back()
    assert ram.read(0, 1 << 20) == b"\x02" * (1 << 20)
    BootTicks(ram, PPC64LE, SYMBOLS, CPUS).poll()


def test_a_machine_is_the_one_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its timers count as they would have, and all its CPUs are up."""
    monkeypatch.setattr(boot_ticks, "FROM_CPUS", 4)
    longer: list[list[int]] = []
    put_back = BootTicks.put_back

    def remember(ticks: BootTicks) -> None:
        longer.append([period.number() for period in ticks.periods.values()])
        put_back(ticks)

    monkeypatch.setattr(BootTicks, "put_back", remember)
    with GuestRam(1280) as ram:
        booted = vm.VirtualMachine(
            architecture=X86_64,
            kernel=kernels.find("debian/6.12", "x86_64").image,
            agent=compile.agent(workloads.find("getppid1"), X86_64.compiler),
            job="cpus 4\ntasks 4\nwarmup 10\npatience_s 60\nstay\noperations 50\nrecord instructions\n",
            topology=Topology(cores=4),
            memory_mib=1280,
            deadline_s=SAFETY_NET_S,
            plugin=compile.recorder(),
            results=tmp_path,
            ram=ram,
        )
        assert vm.run(booted, threading.Event(), lambda _stage: None).ended
        symbols = SymbolTable.read(tmp_path / "kallsyms")
        memory = KernelMemory.of(ram, X86_64, symbols)
        places = ((X86_64.tick_period, 4), ("sample_period", 8))
        left = [memory.read(symbols.address(name) or 0, size) or b"" for name, size in places]
    found = [int.from_bytes(one, "little") for one in left]
    assert found == pytest.approx([4_000_000, 4 * 10**9], rel=0.1)
    assert longer[-1] == [4 * one for one in found]


def test_a_period_that_the_kernel_has_found_out_since_stays(ram: GuestRam) -> None:
    ram.write(BANNER, b"Linux version")
    put(ram, ONLINE, 2)
    put(ram, PERIOD, 4_000_000)
    ticks = BootTicks(ram, X86_64, SYMBOLS, CPUS)
    ticks.poll()
    put(ram, PERIOD, 4_100_000)
    ticks.put_back()
    assert period(ram) == 4_100_000


def cell(folder: Path, ram: GuestRam) -> vm._Boot:
    kernel = folder / "kernel"
    kernel.write_bytes(b"kernel")
    many = vm.VirtualMachine(
        architecture=X86_64,
        kernel=kernel,
        agent=kernel,
        job="",
        topology=Topology(cores=boot_ticks.FROM_CPUS),
        memory_mib=64,
        deadline_s=SAFETY_NET_S,
        plugin=kernel,
    )
    return vm._Boot(many, b"", folder, ram, RunLimits(SAFETY_NET_S, threading.Event(), lambda _stage: None))


def test_symbols_are_asked_for_once(ram: GuestRam, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of one CPU tells them; its failure is not that of the machine that wants them."""
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    asked: list[int] = []

    def fails(self: vm._Boot, ram: GuestRam) -> Stopped:
        asked.append(self.vm.topology.cpus)
        raise MachineError("the machine was still booting after its deadline of 9 s")

    def tells(self: vm._Boot, ram: GuestRam) -> Stopped:
        asked.append(self.vm.topology.cpus)
        return Stopped(b"", f"{IMAGE + PERIOD:x} B lapic_timer_period\n".encode(), [])

    many = cell(tmp_path, ram)
    monkeypatch.setattr(vm._Boot, "_stopped", fails)
    assert not many._boot_ticks().periods
    monkeypatch.setattr(vm._Boot, "_stopped", tells)
    for _ in range(2):
        assert list(many._boot_ticks().periods) == ["lapic_timer_period"]
    assert asked == [1, 1]


# The machine


@pytest.mark.parametrize(("cpus", "remapped"), [(8, False), (255, False), (256, True), (1024, True)])
def test_the_last_of_256_cpus_is_not_called_all_of_them(
    cpus: int, remapped: bool, ram: GuestRam, tmp_path: Path
) -> None:
    machine = replace(cell(tmp_path, ram).vm, topology=Topology(cores=cpus))
    assert bool(machine.remapping) is remapped


def test_many_cpus_are_made_cheap_without_recording_too(ram: GuestRam, tmp_path: Path) -> None:
    many = replace(cell(tmp_path, ram).vm, plugin=None, results=tmp_path)
    assert many.loaded_plugin == compile.recorder()
    assert replace(many, topology=Topology(cores=vm.MANY_CPUS - 1)).loaded_plugin is None
    assert replace(many, kvm=True).loaded_plugin is None
