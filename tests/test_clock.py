"""The guest's clock, slowed down to what its CPUs execute."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from booted import KERNELS, Guest, left_by
from conftest import bigiron, compared, measured

from bigiron.architectures import AARCH64, X86_64, Architecture
from bigiron.errors import MachineError
from bigiron.fleet import admission
from bigiron.introspect.memory import KernelMemory
from bigiron.machines.engine import Job, Programs
from bigiron.machines.vm import dilation, icount
from bigiron.machines.vm.vm_engine import VmEngine
from bigiron.study import store

CPUS = 2
KERNEL = ("--kernel", "debian/6.12")


def timekeepers(guest: Guest) -> list[int]:
    """Where the kernel's clock is, and its copy."""
    data, types = guest.symbols.address("timekeeper_data"), guest.btf
    if data is None:
        return [guest.address("tk_core") + 8, guest.address("shadow_timekeeper")]
    places = [types.member(types.find("tk_data"), path) for path in ("timekeeper", "shadow_timekeeper")]
    return [data + place.start for place in places if place]


def number(guest: Guest, start: int, type: str, path: str) -> int:
    place = guest.btf.member(guest.btf.find(type), path)
    assert place
    return guest.number(start + place.start, place.size)


def of_each_cpu(guest: Guest, symbol: str) -> list[int]:
    return [(guest.address(symbol) + offset) % (1 << 64) for offset in guest.per_cpu_offsets[:CPUS]]


@pytest.mark.parametrize("kernel", KERNELS)
def test_all_clocks_of_a_kernel_take_the_instructions_for_their_time(kernel: str) -> None:
    """Its counter counts a nanosecond an instruction then, and so do its timers."""
    fast, slow, factor = left_by(kernel), left_by(kernel, instructions_per_ns=64), 64
    for then, now in zip(timekeepers(fast), timekeepers(slow), strict=True):
        shift = number(slow, now, "timekeeper", "tkr_mono.shift")
        for path in ("tkr_mono.mult", "tkr_raw.mult"):
            assert number(slow, now, "timekeeper", path) * factor == pytest.approx(1 << shift, rel=1e-3)
        for path in ("tkr_mono.mult", "xtime_interval"):
            ratio = number(fast, then, "timekeeper", path) / number(slow, now, "timekeeper", path)
            assert ratio * rate_khz(fast) == pytest.approx(1_000_000 * factor, rel=1e-3), path
    assert rate_khz(slow) == 1_000_000 * factor
    for then, now in zip(of_each_cpu(fast, "cyc2ns"), of_each_cpu(slow, "cyc2ns"), strict=True):
        ratio = fast.number(then, 4) / slow.number(now, 4)
        assert ratio * rate_khz(fast) == pytest.approx(1_000_000 * factor, rel=1e-3)
    for then, now in zip(of_each_cpu(fast, "lapic_events"), of_each_cpu(slow, "lapic_events"), strict=True):
        shifts = [
            number(guest, at, "clock_event_device", "shift") for guest, at in ((fast, then), (slow, now))
        ]
        assert shifts[0] - shifts[1] == 6


@pytest.mark.parametrize("kernel", ["debian/5.10", "debian/7.2"])
def test_a_clock_that_follows_the_host_s_may_be_slower(kernel: str) -> None:
    """Also of a machine that boots for its cell."""
    fast, slow, factor = left_by(kernel), left_by(kernel, clock_slower=64, from_snapshot=False), 64
    assert (fast.clock_slower, slow.clock_slower) == (1, factor)
    for then, now in zip(timekeepers(fast), timekeepers(slow), strict=True):
        for path in ("tkr_mono.mult", "tkr_raw.mult", "xtime_interval"):
            ratio = number(fast, then, "timekeeper", path) / number(slow, now, "timekeeper", path)
            assert ratio == pytest.approx(factor, rel=0.02), path  # each measures the counter's rate
    assert rate_khz(slow) / rate_khz(fast) == pytest.approx(factor, rel=0.02)
    for then, now in zip(of_each_cpu(fast, "lapic_events"), of_each_cpu(slow, "lapic_events"), strict=True):
        shifts = [
            number(guest, at, "clock_event_device", "shift") for guest, at in ((fast, then), (slow, now))
        ]
        assert shifts[0] - shifts[1] == 6


@pytest.mark.parametrize(
    ("cpus", "change", "slower"),
    [
        (dilation.SLOWED_FROM - 1, {}, 1),
        (dilation.SLOWED_FROM, {}, 2 * dilation.SLOWED_FROM),
        (300, {}, 512),
        (300, {"recorder": None}, 1),
        (300, {"time_slices": False}, 1),
    ],
)
def test_where_many_cpus_are_recorded_it_is_slower(cpus: int, change: dict[str, Any], slower: int) -> None:
    here = Path("/dev/null")
    programs = replace(Programs(here, here, (), time_slices=True, init=here), **change)
    job = Job("debian/6.12", "", (), cpus, cpus, 1, programs=programs)
    assert VmEngine("x86_64", "")._machine(job).clock_slower == slower
    assert VmEngine("x86_64", "", measures_time=True)._machine(job).clock_slower == 1
    assert VmEngine("x86_64", "", slow_clock=True)._machine(job).clock_slower == 1


def test_what_a_fleet_asks_of_its_workers_is_known_before_a_cell_runs() -> None:
    """Or the workers would be refused where a study's cells have it already."""
    here = Path("/dev/null")
    job = Job(
        "debian/6.12", "", (), 64, 64, 1, programs=Programs(here, here, (), time_slices=True, init=here)
    )
    assert set(admission._SAME) <= VmEngine("x86_64", "", slow_clock=True).environment(job).keys()


def test_a_kernel_that_does_not_tell_how_has_the_host_s_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of it is changed."""
    slow = dilation._slow_timer

    def fails(kernel: dilation._Kernel, start: int, factor: int) -> None:
        slow(kernel, start, factor)
        raise MachineError("the kernel's symbols do not have lapic_events")

    monkeypatch.setattr(dilation, "_slow_timer", fails)
    guest = left_by.__wrapped__("debian/6.12", clock_slower=64)
    assert guest.clock_slower == 1
    assert rate_khz(guest) == pytest.approx(rate_khz(left_by("debian/6.12")), rel=0.02)


def rate_khz(guest: Guest) -> int:
    """How fast the kernel takes its counter to count."""
    return guest.number(guest.address("tsc_khz"), 4)


def scheduler_clocks(guest: Guest, counter: int) -> list[int]:
    """What the scheduler's clock of each CPU says when the counter says that: nanoseconds."""
    told = []
    for start in of_each_cpu(guest, "cyc2ns"):
        mul, shift, offset = (
            number(guest, start, "cyc2ns_data", f"cyc2ns_{name}") for name in ("mul", "shift", "offset")
        )
        told.append(((counter * mul >> shift) + offset) % (1 << 64))
    return told


def test_the_scheduler_s_clock_does_not_jump_back() -> None:
    """Also where the kernel's clock was carried on last half a second before."""
    guest = left_by.__wrapped__("debian/6.12")  # whose memory no other test uses
    now = number(guest, timekeepers(guest)[0], "timekeeper", "tkr_mono.cycle_last") + 500 * rate_khz(guest)
    before = scheduler_clocks(guest, now)
    assert dilation.dilate(guest.ram, X86_64, guest.symbols, CPUS, now, 64)
    again = replace(guest, memory=KernelMemory(guest.ram, X86_64, guest.address("init_top_pgt")))
    after = scheduler_clocks(again, now)
    assert after == pytest.approx(before, abs=2)  # ns


def test_not_in_the_middle_of_carrying_the_clock_on() -> None:
    """The task that holds the clock's lock has half of it in registers."""
    guest = left_by("debian/6.1")
    physical = guest.memory.physical(guest.address("timekeeper_lock"))
    assert physical is not None
    at = X86_64.ram_offset(physical, guest.ram.bytes)
    before = number(guest, timekeepers(guest)[0], "timekeeper", "tkr_mono.mult")
    guest.ram.write(at, b"\1")
    try:
        assert not dilation.dilate(guest.ram, X86_64, guest.symbols, CPUS, 0, 64)
    finally:
        guest.ram.write(at, b"\0")
    assert number(guest, timekeepers(guest)[0], "timekeeper", "tkr_mono.mult") == before


def test_counts_are_those_of_the_host_s_clock(tmp_path: Path) -> None:
    rows = []
    for clock in ("host", "instructions"):
        folder = tmp_path / clock
        measured("open1", *KERNEL, "--cpus", "2", "--clock", clock, "--probe", "conflicts", "-o", folder)
        (record,) = store.open_study(folder).records()
        assert record.environment.get("instructions_per_ns") == (None if clock == "host" else 4)
        assert record.recorded_ns > 0
        rows.append(compared(folder)["rows"])
        assert "us of VM time per operation" in bigiron("show", "--times", folder).out
    assert rows[0] == rows[1]


@pytest.mark.parametrize("machine", [("--cpus", "4"), ("--cpus", "2", "--fresh-boot")])
def test_two_studies_have_the_same_times(machine: tuple[str, ...], tmp_path: Path) -> None:
    """To the last digit from one snapshot; booted again, nearly."""
    times, rows = [], []
    for name in ("s", "t"):
        folder = tmp_path / name
        clock = ("--clock", "instructions", "--probe", "conflicts,instructions")
        measured("open1", *KERNEL, *machine, *clock, "--probe", "conflicts", "-o", folder)
        (record,) = store.open_study(folder).records()
        times.append(record.recorded_ns)
        rows.append(compared(folder)["rows"])
    assert times[0] == pytest.approx(times[1], rel=0.01)
    assert rows[0] == rows[1]


def test_repetitions_draw_other_random_numbers_and_take_the_same_time(tmp_path: Path) -> None:
    clock = ("--clock", "instructions", "--probe", "locks", "--reps", "2")
    measured("mmap1", *KERNEL, "--cpus", "8", *clock, "-o", tmp_path / "s")
    study = store.open_study(tmp_path / "s")
    first, second = study.records()
    assert first.recorded_ns == pytest.approx(second.recorded_ns, rel=0.05)
    locks = [study.table(record, "locks") for record in (first, second)]
    assert not locks[0].equals(locks[1])  # a new slab has its objects in another order


def test_a_repeated_instruction_is_one(tmp_path: Path) -> None:
    """QEMU counts each of its elements, and so does the clock: 4096 of them, for a file's path."""
    instructions = []
    for clock in ("host", "instructions"):
        folder = tmp_path / clock
        measured("open1", *KERNEL, "--cpus", "2", "--clock", clock, "--probe", "instructions", "-o", folder)
        (record,) = store.open_study(folder).records()
        work = record.facts["instructions"]
        instructions.append(work["instructions"]["process"] / sum(work["operations"]))
    assert instructions[0] == pytest.approx(instructions[1], rel=0.005)


def test_how_many_instructions_make_a_nanosecond() -> None:
    assert dilation.instructions_per_ns(1) == 2
    assert dilation.instructions_per_ns(8) == 16
    assert dilation.instructions_per_ns(64) == 128
    assert dilation.instructions_per_ns(8192) == 4096  # as slow as a kernel's clock can be


# A stream of QEMU 10.0.2: what is before the clock's section, the section, what comes after it.
SECTION = b"\x04\0\0\0\x02\x05timer\0\0\0\0\0\0\0\x02"


def state(counter: int, nanoseconds: int, section: bytes = SECTION) -> bytes:
    clocks = counter.to_bytes(8, "big") + bytes(8) + nanoseconds.to_bytes(8, "big")
    return b"before" + section + clocks + b"\x7e\0\0\0\x02" + b"after"


@pytest.mark.parametrize("clocks", [(7, 3), (3, 7)])
def test_the_count_starts_from_the_later_clock(clocks: tuple[int, int]) -> None:
    old = state(*clocks)
    new, now = icount.counting(old, "counter")
    added = b"\x05\x0ctimer/icount\0\0\0\x01" + (7).to_bytes(8, "big") + bytes(8)
    assert now == 7
    assert new == old.replace(b"\x7e\0\0\0\x02after", added + b"\x7e\0\0\0\x02after")


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        (state(1, 1).replace(b"timer", b"timid"), "has no clock"),
        (state(1, 1).replace(SECTION, SECTION[:-1] + b"\x03"), "the format of the clock"),
        (state(1, 1).replace(b"\x7e", b"\x05"), "the format of the clock"),
        (state(1, 1)[:40], "the format of the clock"),
    ],
)
def test_a_state_that_is_not_as_thought(changed: bytes, complaint: str) -> None:
    with pytest.raises(MachineError, match=complaint):
        icount.counting(changed, "counter")


class _OtherClock:
    """A kernel whose clock is another one than it should be."""

    def reader(self) -> str:
        return "tkr_mono."

    def member(self, start: int, _type: str, _path: str) -> int:
        return start

    def get(self, _number: int) -> int:
        return 1

    def address(self, _symbol: str) -> int:
        return 2

    def timekeepers(self) -> tuple[int, list[int]]:
        return 0, [8, 16]

    def is_held(self, _lock: int) -> bool:
        return False


@pytest.mark.parametrize(
    ("architecture", "clocksource"), [(X86_64, "clocksource_tsc"), (AARCH64, "clocksource_counter")]
)
def test_another_clock_is_told_by_the_name_of_the_one_expected(
    architecture: Architecture, clocksource: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dilation, "_Kernel", lambda *_: _OtherClock())
    nothing: Any = None
    with pytest.raises(MachineError, match=f"clock is not {clocksource}, or is not where expected"):
        dilation.dilate(nothing, architecture, nothing, CPUS, 0, 64)


def test_a_baseline_is_of_one_clock(tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.toml"
    measured("getppid1", *KERNEL, "--cpus", "1", "--probe", "conflicts", "-o", tmp_path / "s")
    measured(
        "getppid1",
        *KERNEL,
        "--cpus",
        "1",
        "--clock",
        "instructions",
        "--probe",
        "conflicts",
        "-o",
        tmp_path / "t",
    )
    assert bigiron("check", tmp_path / "s", "--record", baseline).status == 0
    refused = bigiron("check", tmp_path / "t", "--baseline", baseline)
    assert refused.status == 2
    assert "was recorded with clock host, the study with instructions" in refused.err


@pytest.mark.parametrize(
    ("what", "complaint"),
    [
        (("--arch", "ppc64le", "--kernel", "debian/6.1"), "is only for virtual machines of x86_64"),
        (("--machine", "host"), "is only for virtual machines of x86_64"),
        (
            (*KERNEL, "--probe", "instructions,throughput"),
            "throughput measures for seconds of the machine's clock",
        ),
    ],
)
def test_a_clock_that_cannot_be_slowed_down(what: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    refused = bigiron("run", "open1", *what, "--clock", "instructions", "-o", tmp_path / "s")
    assert (refused.status, len(refused.err.splitlines())) == (2, 1)
    assert complaint in refused.err
