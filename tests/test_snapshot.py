"""Snapshots: a cell that is resumed counts what a booted one does; what is kept is whole, or made again."""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from conftest import BIGIRON, SAFETY_NET_S, bigiron, compared, machines_of, measured, wait_until

from bigiron import _sim, compile, kernels, workloads
from bigiron.architectures import X86_64
from bigiron.errors import MachineError, UserError
from bigiron.introspect.memory import GoneError, GuestRam, KernelMemory
from bigiron.introspect.symbols import SymbolTable
from bigiron.machines.vm import snapshot, vm
from bigiron.machines.vm.initramfs import Entry, archive, handover
from bigiron.machines.vm.snapshot import DamagedError, Emulator, SnapshotMachine, SnapshotRecord, Stopped
from bigiron.machines.vm.topology import Topology
from bigiron.util.cache_dir import cache_folder
from bigiron.util.threads import StoppedError

KERNEL = "debian/6.1"
OPEN1 = (
    "open1",
    "--kernel",
    KERNEL,
    "--cpus",
    "2",
    "--operations",
    "200",
    "--jobs",
    "1",
    "--probe",
    "conflicts",
)
QEMU = Emulator("/usr/bin/qemu", "10.0.2", 7, "x86_64")
STOPPED = Stopped(b"state", b"0 T _text\n", [(0, 8 << 20)])
MIB = 1 << 20
SHARED = ("kernels", "compiled")


def machine(boot: str = "quiet", memory_mib: int = 64) -> SnapshotMachine:
    return SnapshotMachine(
        arch="x86_64",
        kernel="6.12",
        kernel_sha256="0",
        boot=boot,
        sockets=1,
        nodes=1,
        cores=2,
        threads=1,
        memory_mib=memory_mib,
        options=[],
        initramfs_sha256="0",
    )


def new_cache(here: Path) -> Path:
    """But for the kernels and what was compiled."""
    old = cache_folder("snapshots").parent
    here.mkdir()
    for room in SHARED:
        (here / room).symlink_to(old / room)
    return here


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    here = new_cache(tmp_path / "cache")
    monkeypatch.setenv("BIGIRON_CACHE", str(here))
    return here


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The snapshot of OPEN1's machine. Only to be read."""
    folder = tmp_path_factory.mktemp("made")
    cache = new_cache(folder / "cache")
    measured(*OPEN1, "-o", folder / "s", BIGIRON_CACHE=str(cache))
    (snapshot,) = [path for path in (cache / "snapshots").iterdir() if path.is_dir()]
    return snapshot


@pytest.fixture
def real(made: Path, cache: Path) -> Path:
    """A copy of it in the test's own cache; of its memory, which is large, a link."""
    copy = cache_folder("snapshots") / made.name
    copy.mkdir()
    for file in made.iterdir():
        (os.link if file.name == "memory" else shutil.copy2)(file, copy / file.name)
    return copy


@pytest.fixture
def ram() -> Iterator[GuestRam]:
    with GuestRam(64) as ram:
        ram.write(5 * MIB + 12345, b"something")
        ram.write(40 * MIB, os.urandom(3 * MIB))
        ram.write(50 * MIB, bytes(MIB))
        yield ram


def keep(ram: GuestRam, boot: str = "quiet") -> Path:
    assert snapshot.keep(machine(boot), QEMU, STOPPED, ram)
    return cache_folder("snapshots") / machine(boot).name


# What is kept


def test_what_is_kept_is_what_was_there(cache: Path, ram: GuestRam) -> None:
    folder = keep(ram)
    assert (folder / "memory").stat().st_blocks * 512 < 4 * MIB, "zeros are not kept"
    found = snapshot.find(machine(), QEMU)
    assert found and (found.state, found.symbols) == (STOPPED.state, STOPPED.symbols)
    with found, GuestRam(64) as other:
        found.check()
        found.fill(other)
        assert other.read(0, 64 * MIB) == ram.read(0, 64 * MIB)
    assert snapshot.find(machine("another boot line"), QEMU) is None


MAPS = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    ram = mmap.mmap(file.fileno(), 48 << 20, flags=mmap.MAP_PRIVATE, offset=16 << 20)
    first = mmap.mmap(file.fileno(), 16 << 20, flags=mmap.MAP_PRIVATE)
first[5 << 20] = 7
print("mapped", flush=True)
sys.stdin.readline()
print(ram[34 << 20], flush=True)
sys.stdin.readline()
"""


def test_each_has_private_copies(cache: Path, ram: GuestRam) -> None:
    folder = keep(ram)
    before = (folder / "memory").read_bytes()
    found = snapshot.find(machine(), QEMU)
    assert found
    command = [sys.executable, "-c", MAPS, folder / "memory"]
    with (
        found,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ) as maps,
        GuestRam(64) as other,
    ):
        assert maps.stdin and maps.stdout
        other.map_private(found)
        assert maps.stdout.readline() == "mapped\n"
        other.reach(maps.pid)
        assert other.read((5 << 20) + 12345, 9) == b"something"
        assert other.read(5 << 20, 1) == b"\7", "which the process has written"
        across = other.read(15 * MIB, 2 * MIB)
        assert across == before[15 * MIB : 17 * MIB]
        other.write(50 * MIB, b"\x2a")
        maps.stdin.write("\n")
        assert maps.stdout.readline() == "42\n", "which was written into it"
        maps.stdin.write("\n")
    assert (folder / "memory").read_bytes() == before


@pytest.mark.parametrize("readable", [True, False])
def test_resumed_with_and_without_private_copies(
    readable: bool, real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a process is kept from its children's memory, the snapshot's is copied."""
    monkeypatch.setattr(vm, "private_copies_work", lambda: readable)
    kernel = kernels.find(KERNEL, "x86_64")
    with GuestRam(vm.memory_mib(2)) as ram:
        resumed = vm.VirtualMachine(
            architecture=X86_64,
            kernel=kernel.image,
            release=kernel.release,
            agent=compile.agent(workloads.find("getppid1"), X86_64.compiler),
            job="cpus 2\ntasks 2\nwarmup 10\npatience_s 60\nstay\noperations 50\nrecord instructions\n",
            topology=Topology(cores=2),
            memory_mib=vm.memory_mib(2),
            deadline_s=SAFETY_NET_S,
            plugin=compile.recorder(),
            results=tmp_path,
            ram=ram,
            from_snapshot=True,
        )
        assert vm.run(resumed, threading.Event(), lambda _stage: None).ended
        assert ram.is_private == readable
        symbols = SymbolTable.read(tmp_path / "kallsyms")
        assert [kept.name for kept in snapshot.list_snapshots()] == [real.name]
        left = KernelMemory.of(ram, X86_64, symbols)
        banner = left.read(symbols.address("linux_banner") or 0, 13)
    assert banner == b"Linux version", "it is done, its memory is still there"


def test_memory_of_a_process_that_has_ended(cache: Path, ram: GuestRam) -> None:
    folder = keep(ram)
    found = snapshot.find(machine(), QEMU)
    assert found
    command = [sys.executable, "-c", MAPS, folder / "memory"]
    with (
        found,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ) as maps,
        GuestRam(64) as other,
    ):
        assert maps.stdout
        other.map_private(found)
        assert maps.stdout.readline() == "mapped\n"
        other.reach(maps.pid)
        maps.kill()
        maps.wait()
        with pytest.raises(GoneError):
            other.read(0, 1)
        with pytest.raises(GoneError):
            other.write(0, b"1")


def test_memory_that_is_not_mapped(cache: Path, ram: GuestRam) -> None:
    keep(ram)
    found = snapshot.find(machine(), QEMU)
    assert found
    with found, GuestRam(64) as other:
        other.map_private(found)
        with pytest.raises(MachineError, match="QEMU has not mapped its memory"):
            other.reach(os.getpid())


def test_its_memory_is_read_once_unless_it_is_written(
    cache: Path, ram: GuestRam, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = keep(ram) / "memory"
    pieces, read = snapshot.Snapshot._pieces, []

    def count(self: snapshot.Snapshot) -> Iterator[tuple[int, memoryview]]:
        read.append(self.folder)
        return pieces(self)

    monkeypatch.setattr(snapshot.Snapshot, "_pieces", count)
    for times in (1, 1):
        found = snapshot.find(machine(), QEMU)
        assert found
        with found:
            found.check()
        assert len(read) == times
    with memory.open("r+b") as file:
        file.seek(40 * MIB)
        file.write(b"something else")
    for _ in range(2):
        found = snapshot.find(machine(), QEMU)
        assert found
        with found, pytest.raises(snapshot.DamagedError, match="its memory does not match its checksum"):
            found.check()


@pytest.mark.parametrize("file", ["state", "symbols", "memory", "snapshot.json"])
@pytest.mark.parametrize("harm", ["garbled", "cut off", "gone"])
def test_one_that_is_damaged_is_none(
    file: str, harm: str, cache: Path, ram: GuestRam, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = keep(ram) / file
    content = bytearray(damaged.read_bytes())
    content[content.index(b"something") if file == "memory" else len(content) // 2] ^= 1
    match harm:
        case "garbled":
            damaged.write_bytes(content)
        case "cut off":
            damaged.write_bytes(content[:-3])
        case _:
            damaged.unlink()
    found = snapshot.find(machine(), QEMU)
    if found:
        with found, pytest.raises(DamagedError):
            found.check()
        snapshot.discard(found.folder, "it is damaged")
    assert f"snapshot {machine().name} is made again: it" in caplog.text
    assert snapshot.list_snapshots() == []


def test_one_of_another_qemu_is_made_again(
    cache: Path, ram: GuestRam, caplog: pytest.LogCaptureFixture
) -> None:
    keep(ram)
    assert snapshot.find(machine(), Emulator("/usr/bin/qemu", "10.1.0", 8, "x86_64")) is None
    assert "made again: it was made with QEMU 10.0.2 (/usr/bin/qemu of 1970-01-01" in caplog.text


@pytest.mark.parametrize(
    ("khz", "kept"), [(2_445_900, True), (2_445_000, True), (3_000_000, False), (0, False)]
)
def test_one_whose_clock_would_be_wrong_is_made_again(
    khz: int, kept: bool, cache: Path, ram: GuestRam, caplog: pytest.LogCaptureFixture
) -> None:
    made_with, here = (msgspec.structs.replace(QEMU, counter_khz=one) for one in (2_445_427, khz))
    assert snapshot.keep(machine(), made_with, STOPPED, ram)
    assert bool(snapshot.find(machine(), here)) == kept
    if not kept:
        assert "its counter of 2445 MHz, and this is" in caplog.text


def test_the_least_recently_used_goes(cache: Path, ram: GuestRam, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIGIRON_SNAPSHOTS_MIB", "8")
    first, second = keep(ram, "first"), keep(ram, "second")
    for age, folder in enumerate((second, first)):
        os.utime(folder, (age, age))
    assert snapshot.find(machine("second"), QEMU)
    third = keep(ram, "third")
    assert {kept.name for kept in snapshot.list_snapshots()} == {second.name, third.name}


def test_symbols_that_are_kept_alone_go_too(
    cache: Path, ram: GuestRam, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take room as a snapshot does, and it is counted when they were used last."""
    snapshot.keep_symbols("used", bytes(MIB))
    snapshot.keep_symbols("old", bytes(MIB))
    monkeypatch.setenv("BIGIRON_SNAPSHOTS_MIB", "5")
    for age, name in enumerate(("old", "used")):
        os.utime(cache / "symbols" / name, (age, age))
    first = keep(ram, "first")
    assert snapshot.symbols_of("old") is None and first.exists()
    assert snapshot.symbols_of("used") == bytes(MIB)
    os.utime(first, (0, 0))
    snapshot.keep_symbols("large", bytes(3 * MIB))
    assert not first.exists() and snapshot.symbols_of("used")
    snapshot.drop(None)
    assert snapshot.symbols_of("used") is None


def test_one_that_is_read_may_be_dropped(cache: Path, ram: GuestRam) -> None:
    keep(ram)
    found = snapshot.find(machine(), QEMU)
    assert found
    snapshot.drop(None)
    with found:
        found.check()


def test_one_that_another_drops_as_it_is_opened(
    cache: Path, ram: GuestRam, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(ram)
    opened = snapshot._open

    def then_dropped(folder: Path) -> snapshot.Snapshot:
        found = opened(folder)
        shutil.rmtree(folder)
        return found

    monkeypatch.setattr(snapshot, "_open", then_dropped)
    found = snapshot.find(machine(), QEMU)
    assert found
    with found:
        found.check()


def test_one_that_another_drops_while_all_are_listed(
    cache: Path, ram: GuestRam, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, dropped = keep(ram, "first"), keep(ram, "dropped")
    folders = snapshot._folders

    def then_dropped(root: Path) -> list[Path]:
        found = folders(root)
        shutil.rmtree(dropped, ignore_errors=True)
        return found

    monkeypatch.setattr(snapshot, "_folders", then_dropped)
    assert [kept.name for kept in snapshot.list_snapshots()] == [first.name]


def test_the_memory_of_one_that_is_damaged_is_closed(cache: Path, ram: GuestRam) -> None:
    memory = keep(ram) / "memory"
    memory.write_bytes(memory.read_bytes()[:-3])
    gc.collect()  # what other tests left open
    with warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always", ResourceWarning)
        assert snapshot.find(machine(), QEMU) is None
        gc.collect()
    assert not left_open


def test_no_room(
    cache: Path, ram: GuestRam, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("BIGIRON_SNAPSHOTS_MIB", "1")
    assert not snapshot.keep(machine("large"), QEMU, STOPPED, ram)
    assert snapshot.was_refused(machine("large"))
    assert "it takes 4 MiB, but BIGIRON_SNAPSHOTS_MIB allows 1 MiB; each machine boots" in caplog.text
    assert snapshot.list_snapshots() == []


def test_what_a_killed_process_left_goes(cache: Path, ram: GuestRam) -> None:
    left = cache_folder("snapshots") / ".new-abc"
    left.mkdir()
    keep(ram)
    assert not left.exists()


def test_one_makes_it_and_others_wait(cache: Path) -> None:
    waits, made = threading.Event(), []

    def second() -> None:
        with snapshot.making(machine(), threading.Event(), waits.set):
            made.append("second")

    with snapshot.making(machine(), threading.Event(), lambda: None):
        other = threading.Thread(target=second)
        other.start()
        assert waits.wait(SAFETY_NET_S)
        with snapshot.making(machine("another"), threading.Event(), lambda: None):
            made.append("first")
        stop = threading.Event()
        stop.set()
        with pytest.raises(StoppedError), snapshot.making(machine(), stop, lambda: None):
            pass
    other.join(SAFETY_NET_S)
    assert made == ["first", "second"]


# The commands


def test_list_and_drop(cache: Path, ram: GuestRam) -> None:
    first, second = keep(ram, "first"), keep(ram, "second")
    (second / "snapshot.json").write_text("{")
    listed = json.loads(bigiron("snapshot", "list", "--format", "json").out)
    assert {(one["snapshot"], one["kernel"], one["boot line"]) for one in listed} == {
        (first.name, "6.12 x86_64", "first"),
        (second.name, "damaged", ""),
    }
    answer = bigiron("snapshot", "drop", first.name[:6])
    assert (answer.status, answer.out) == (0, f"dropped {first.name}: 3 MiB\n")
    assert not first.exists() and second.exists()
    assert bigiron("snapshot", "drop", "--all").status == 0
    assert bigiron("snapshot", "drop", "--all").out == "there were no snapshots\n"
    assert not second.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["snapshot", "drop"], "give the name of a snapshot (`bigiron snapshot list`), or --all"),
        (["snapshot", "drop", "abc", "--all"], "give the name of a snapshot"),
        (
            ["snapshot", "drop", "../kernels"],
            "there is no snapshot '../kernels': see `bigiron",
        ),
        (["snapshot", "drop", ""], "there is no snapshot ''"),
        (
            ["run", "open1", "--machine", "host", "--fresh-boot", "--tasks", "1", "-o", "s"],
            "--fresh-boot works only in",
        ),
    ],
)
def test_bad_input(arguments: list[str], complaint: str, cache: Path) -> None:
    answer = bigiron(*arguments)
    assert answer.status == 2
    assert answer.complaint.startswith(complaint)


def test_a_limit_that_is_no_number(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before a machine boots."""
    monkeypatch.setenv("BIGIRON_SNAPSHOTS_MIB", "-1")
    for ask in (lambda: snapshot.find(machine(), QEMU), lambda: snapshot.symbols_of("a kernel")):
        with pytest.raises(UserError, match="BIGIRON_SNAPSHOTS_MIB is '-1'"):
            ask()
    answer = bigiron("run", *OPEN1, "-o", tmp_path / "s", BIGIRON_SNAPSHOTS_MIB="much")
    assert answer.status == 2
    assert "BIGIRON_SNAPSHOTS_MIB is 'much': give a whole number of MiB" in answer.err


# What is handed over

UNPACK = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include "boot/archive.h"
int main(void)
{
	static char bytes[1 << 20];
	size_t length = fread(bytes, 1, sizeof(bytes), stdin);
	char *exact = malloc(length ? length : 1);

	int failed;

	for (size_t i = 0; i < length; i++)
		exact[i] = bytes[i];
	failed = archive_unpack(AT_FDCWD, exact, length);
	free(exact);
	return failed;
}
"""


@pytest.fixture(scope="module")
def unpack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that unpacks, into the folder where it runs, under sanitizers."""
    folder = tmp_path_factory.mktemp("unpack")
    guest = Path(compile.__file__).parent / "guest"
    (folder / "main.c").write_text(UNPACK)
    sources = [folder / "main.c", guest / "boot" / "archive.c", guest / "protocol" / "report.c"]
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover", "-iquote", guest]
    subprocess.run(["gcc", "-g", *flags, *sources, "-o", folder / "unpack"], check=True)
    return folder / "unpack"


GOOD = handover(b"agent", "job\n", {})
HARMED = {
    "empty": b"",
    "cut off in a header": GOOD[:50],
    "cut off in a file": GOOD[:124],
    "without its end": GOOD[: GOOD.index(b"070701", 10)],
    "a magic of another": b"070702" + GOOD[6:],
    "a size that is no number": GOOD[:54] + b"xxxxxxxx" + GOOD[62:],
    "a file longer than all": GOOD[:54] + b"ffffffff" + GOOD[62:],
    "a name longer than all": GOOD[:94] + b"ffffffff" + GOOD[102:],
    "an empty name": archive([Entry("", 0o100644, b"x")]),
    "a name in another folder": archive([Entry("../tmp/bigiron-escaped", 0o100644, b"x")]),
    "a folder": archive([Entry("bigiron-folder", 0o040755)]),
    "a link": archive([Entry("bigiron-link", 0o120777, b"/etc/passwd")]),
}


def unpacked(unpack: Path, data: bytes, to: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [unpack], input=data, cwd=to, capture_output=True, timeout=SAFETY_NET_S, check=False
    )


@pytest.mark.parametrize("harm", HARMED)
def test_what_is_no_archive_is_refused(harm: str, unpack: Path, tmp_path: Path) -> None:
    done = unpacked(unpack, HARMED[harm], tmp_path)
    assert done.returncode == 1, done.stderr.decode()
    assert b"what was handed over is no archive of files" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} <= {"agent"}


def test_an_archive_is_unpacked(unpack: Path, tmp_path: Path) -> None:
    done = unpacked(unpack, handover(b"agent" * 1000, "job\n", {"x.bpf.o": b"\0"}), tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    content = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert content == {"agent": b"agent" * 1000, "job": b"job\n", "x.bpf.o": b"\0"}
    assert os.access(tmp_path / "agent", os.X_OK)


# With a real machine


def rows(study: Path) -> dict[str, float]:
    """Accesses per operation, by object."""
    return {row["object"]: row["cells"][KERNEL]["accesses_per_op"] for row in compared(study)["rows"]}


def test_a_resumed_machine_counts_what_a_booted_one_does(real: Path, tmp_path: Path) -> None:
    booted, first, second = (tmp_path / name for name in ("booted", "first", "second"))
    measured(*OPEN1, "--fresh-boot", "-o", booted)
    (kept,) = json.loads(bigiron("snapshot", "list", "--format", "json").out)
    assert (kept["snapshot"], kept["CPUs"], kept["nodes"]) == (real.name, "2", "1")
    measured(*OPEN1, "-o", first)
    measured(*OPEN1, "--reps", "2", "-o", second)
    assert len(snapshot.list_snapshots()) == 2, "each repetition has a boot of its own"
    expected = rows(booted)
    assert expected
    for found in map(rows, (first, second)):
        names = expected.keys() | found.keys()  # what is hardly touched may be missing
        counts, same = ({name: of.get(name, 0) for name in names} for of in (found, expected))
        assert counts == pytest.approx(same, rel=0.01, abs=0.5)
    times = json.loads(bigiron("show", "--times", second, "--format", "json").out)
    assert {"resuming", "making tables"} <= set(times[0]) and not times[0].get("booting")


def test_one_that_cannot_be_used_is_made_again(real: Path, tmp_path: Path) -> None:
    (real / "memory").unlink()
    (real / "memory").write_bytes(bytes(100 << 10))
    answer = measured(*OPEN1, "-o", tmp_path / "cut")
    assert f"bigiron: snapshot {real.name} is made again: its memory file is cut short" in answer.err
    (real / "state").write_bytes(b"no state")
    answer = measured(*OPEN1, "-o", tmp_path / "garbled")
    assert f"bigiron: snapshot {real.name} is made again: its state or symbols" in answer.err


def test_a_state_that_qemu_refuses_is_made_again(real: Path, tmp_path: Path) -> None:
    record = msgspec.json.decode((real / "snapshot.json").read_bytes(), type=SnapshotRecord)
    state = b"QEVM, and no state"
    record.state_crc, record.crc = zlib.crc32(state), 0
    record.crc = zlib.crc32(msgspec.json.encode(record))
    (real / "state").write_bytes(state)
    (real / "snapshot.json").write_bytes(msgspec.json.encode(record))
    answer = measured(*OPEN1, "-o", tmp_path / "refused")
    assert f"bigiron: snapshot {real.name} is made again: " in answer.err


def test_a_clock_that_is_wrong_is_not_kept(cache: Path, tmp_path: Path) -> None:
    """A busy host makes a kernel find out as wrong a rate as a parameter can name."""
    answer = bigiron("run", *OPEN1, "--boot", "tsc_early_khz=540644", "-o", tmp_path / "s")
    assert answer.status == 3
    assert "MHz as 541 MHz, so its times would be wrong: boot it on an idle host" in answer.err
    assert snapshot.list_snapshots() == []


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="it has no time stamp counter")
def test_the_counter_is_measured_the_same_twice() -> None:
    first, second = _sim.counter_khz(), _sim.counter_khz()
    assert first and second and snapshot.counters_agree(first, second)


def test_the_kernel_is_told_how_fast_its_clock_runs(real: Path) -> None:
    record = msgspec.json.decode((real / "snapshot.json").read_bytes(), type=SnapshotRecord)
    found = snapshot.find(record.machine, record.emulator)
    assert found
    symbols = SymbolTable.shared(found.symbols)
    with found, GuestRam(record.machine.memory_mib) as ram:
        found.fill(ram)
        left = KernelMemory.of(ram, X86_64, symbols)
        assert X86_64.counter
        rate = left.read(symbols.address(X86_64.counter.symbol) or 0, 4) or b""
    assert int.from_bytes(rate, "little") == pytest.approx(vm.counter_khz(), rel=0.001)


def test_without_room_it_boots(cache: Path, tmp_path: Path) -> None:
    answer = measured(*OPEN1, "-o", tmp_path / "s", BIGIRON_SNAPSHOTS_MIB="1")
    assert "BIGIRON_SNAPSHOTS_MIB allows 1 MiB; each machine boots" in answer.err
    assert rows(tmp_path / "s")


def test_stopped_while_it_is_made(cache: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [BIGIRON, "run", *OPEN1, "-o", tmp_path / "s"]
    with subprocess.Popen(
        command, env=os.environ | {"TMPDIR": str(temporary)}, stderr=subprocess.PIPE
    ) as run:
        wait_until(lambda: machines_of(temporary))
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=SAFETY_NET_S)
    assert run.returncode == 130 and b"stopped: the same command continues" in said
    assert not machines_of(temporary)
    assert snapshot.list_snapshots() == []
    assert not list((cache / "snapshots").glob(".new-*"))
    shutil.rmtree(temporary)
