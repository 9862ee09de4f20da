"""The guest's clock, slowed down to what its CPUs execute."""

from dataclasses import replace
from pathlib import Path

import pytest
from booted import KERNELS, Guest, left_by
from conftest import bigiron, compared, measured

from bigiron.architectures import X86_64
from bigiron.introspect.memory import KernelMemory
from bigiron.machines import dilation
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
def test_all_clocks_of_a_kernel_run_slower_to_its_end(kernel: str) -> None:
    fast, slow, factor = left_by(kernel), left_by(kernel, dilation=64), 64
    for then, now in zip(timekeepers(fast), timekeepers(slow), strict=True):
        for path in ("tkr_mono.mult", "tkr_raw.mult", "xtime_interval"):
            before, after = (
                number(guest, at, "timekeeper", path) for guest, at in ((fast, then), (slow, now))
            )
            assert after * factor == pytest.approx(before, rel=1e-3), path
    for then, now in zip(of_each_cpu(fast, "cyc2ns"), of_each_cpu(slow, "cyc2ns"), strict=True):
        before, after = fast.number(then, 4), slow.number(now, 4)
        assert after * factor == pytest.approx(before, rel=1e-3)
    for then, now in zip(of_each_cpu(fast, "lapic_events"), of_each_cpu(slow, "lapic_events"), strict=True):
        shifts = [
            number(guest, at, "clock_event_device", "shift") for guest, at in ((fast, then), (slow, now))
        ]
        assert shifts[0] - shifts[1] == 6


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
    guest = left_by.__wrapped__("debian/6.12")  # whose memory is nobody else's
    rate = guest.number(guest.address("tsc_khz"), 4)
    now = number(guest, timekeepers(guest)[0], "timekeeper", "tkr_mono.cycle_last") + 500 * rate
    before = scheduler_clocks(guest, now)
    assert dilation.dilate(guest.ram, X86_64, guest.symbols, CPUS, 64)
    again = replace(guest, memory=KernelMemory(guest.ram, X86_64, guest.address("init_top_pgt")))
    after = scheduler_clocks(again, now)
    assert all(0 <= new - old < 1_000_000_000 for old, new in zip(before, after, strict=True))


def test_not_in_the_middle_of_carrying_the_clock_on() -> None:
    """Whoever holds the clock's lock has half of it in registers."""
    guest = left_by("debian/6.1")
    physical = guest.memory.physical(guest.address("timekeeper_lock"))
    assert physical is not None
    at = X86_64.ram_offset(physical, guest.ram.bytes)
    before = number(guest, timekeepers(guest)[0], "timekeeper", "tkr_mono.mult")
    guest.ram.write(at, b"\1")
    try:
        assert not dilation.dilate(guest.ram, X86_64, guest.symbols, CPUS, 64)
    finally:
        guest.ram.write(at, b"\0")
    assert number(guest, timekeepers(guest)[0], "timekeeper", "tkr_mono.mult") == before


def test_counts_are_those_of_the_host_s_clock(tmp_path: Path) -> None:
    rows = []
    for clock in ("host", "instructions"):
        folder = tmp_path / clock
        measured("open1", *KERNEL, "--cpus", "2", "--clock", clock, "-o", folder)
        (record,) = store.open_study(folder).records()
        assert record.environment.get("dilation", 1) == (1 if clock == "host" else 128)
        assert record.recorded_ns > 0
        rows.append(compared(folder)["rows"])
        assert "an operation, us VM time" in bigiron("show", "--times", folder).out
    assert rows[0] == rows[1]


def test_how_much_slower_it_runs() -> None:
    assert dilation.factor(8, 1, recorded=True) == 512
    assert dilation.factor(64, 1, recorded=True) == 4096
    assert dilation.factor(2, 2, recorded=False) == 8
    assert dilation.factor(8192, 1, recorded=True) == 4096  # as slow as a kernel's clock can be


def test_a_baseline_is_of_one_clock(tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.toml"
    measured("getppid1", *KERNEL, "--cpus", "1", "-o", tmp_path / "s")
    measured("getppid1", *KERNEL, "--cpus", "1", "--clock", "instructions", "-o", tmp_path / "t")
    assert bigiron("check", tmp_path / "s", "--record", baseline).status == 0
    refused = bigiron("check", tmp_path / "t", "--baseline", baseline)
    assert refused.status == 2
    assert "is of clock host, and the study of instructions" in refused.err


@pytest.mark.parametrize(
    ("what", "complaint"),
    [
        (("--arch", "ppc64le", "--kernel", "debian/6.1"), "is of virtual machines of x86_64"),
        (("--machine", "host"), "is of virtual machines of x86_64"),
        ((*KERNEL, "--probe", "work,throughput"), "throughput measures for seconds of the machine's clock"),
    ],
)
def test_a_clock_that_cannot_be_slowed_down(what: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    refused = bigiron("run", "open1", *what, "--clock", "instructions", "-o", tmp_path / "s")
    assert (refused.status, len(refused.err.splitlines())) == (2, 1)
    assert complaint in refused.err
