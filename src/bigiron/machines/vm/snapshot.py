"""Snapshots: machines that were booted, stopped and kept, from which cells are resumed instead of booted.

Invariant: a folder under its final name is complete and never changes, but for a note that it was checked.
It is made under a temporary name and renamed. Every writer holds the lock, so a temporary folder found
under the lock is a dead writer's. A resuming VM has the snapshot's files open, so the folder may be deleted
meanwhile. The content of a folder is checked when it is read, so that writing does not wait for a disk.
"""

import hashlib
import logging
import os
import shutil
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from types import TracebackType

import msgspec

from bigiron.errors import UserError
from bigiron.introspect.memory import GuestRam
from bigiron.util import decode
from bigiron.util.cache_dir import STAGING, cache_folder, keep_whole, locked
from bigiron.util.threads import StoppedError

FORMAT = 7
BOOTS = 8
"""How many boots of one machine are kept; later repetitions boot without a snapshot."""

_LOOK_S = 0.25  # how soon a stop is noticed
_CHECKED = "checked"
_BLOCK = 1 << 14  # of zeros: is left out
_AT_ONCE = 1 << 20
_DEFAULT_MIB = 8 << 10
_LIMIT = "BIGIRON_SNAPSHOTS_MIB"
_COUNTER_ERROR = 0.01  # what arch/x86/kernel/tsc.c takes for the same
_refused: set[str] = set()
_log = logging.getLogger(__name__)


class DamagedError(Exception):
    """A snapshot is not as it was made, or cannot be used: why."""


class MemoryRange(msgspec.Struct, array_like=True, frozen=True):
    """A piece of a machine's memory."""

    offset: int
    length: int


class SnapshotMachine(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """All that goes into a booted machine, but which QEMU made it."""

    arch: str
    kernel: str  # its release
    kernel_sha256: str
    boot: str
    sockets: int
    nodes: int
    cores: int
    threads: int
    memory_mib: int
    options: list[str]  # of QEMU: the machine, the CPU
    initramfs_sha256: str
    distances: tuple[tuple[int, ...], ...] = ()  # between nodes, where they are not QEMU's
    boot_number: int = 1  # which of its boots: each has other random numbers, and so other places of objects
    format: int = FORMAT

    @property
    def name(self) -> str:
        """What its snapshot is called."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


class Emulator(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which QEMU."""

    path: str
    version: str
    modified_ns: int
    host: str  # the architecture that it runs on
    counter_khz: int = 0  # the rate of the host's counter, by which QEMU counts; 0: there is none

    def __str__(self) -> str:
        changed = datetime.fromtimestamp(self.modified_ns // 10**9, UTC)
        counter = f", its counter of {self.counter_khz / 1e3:.0f} MHz" if self.counter_khz else ""
        return f"QEMU {self.version} ({self.path} of {changed:%Y-%m-%d %H:%M}){counter}"

    def resumes(self, other: "Emulator") -> bool:
        """Whether it can resume what the other QEMU saved, including the clock."""
        same = msgspec.structs.replace(other, counter_khz=self.counter_khz) == self
        return same and counters_agree(self.counter_khz, other.counter_khz)


class SnapshotRecord(msgspec.Struct, forbid_unknown_fields=True):
    """snapshot.json."""

    machine: SnapshotMachine
    emulator: Emulator
    room: list[MemoryRange]  # where a cell's agent is handed over
    symbols_crc: int
    state_crc: int
    memory_crc: int
    memory: list[MemoryRange]  # what is in the file `memory`; the rest of it are holes
    crc: int = 0  # of all this with a zero here


@dataclass(frozen=True)
class Snapshot:
    """A snapshot whose files are open."""

    folder: Path
    record: SnapshotRecord
    state: bytes
    symbols: bytes  # /proc/kallsyms
    _memory: FileIO

    @property
    def fd(self) -> int:
        """The file of its memory: as large as the machine's RAM, with holes where that is zero."""
        return self._memory.fileno()

    @property
    def stopped(self) -> "Stopped":
        """All that a machine resumes from, without the memory."""
        return Stopped(self.state, self.symbols, [(part.offset, part.length) for part in self.record.room])

    def check(self) -> None:
        """DamagedError where its memory does not match its checksum.

        A crash of the host may have lost some of it: it is read once while this host runs, and again when
        the file has been written to. With 300 CPUs that is 5 GiB.
        """
        note, seen = self.folder / _CHECKED, self._as_it_is()
        with suppress(OSError):
            if note.read_text() == seen:
                return
        crc = 0
        for _, content in self._pieces():
            crc = zlib.crc32(content, crc)
        if crc != self.record.memory_crc:
            raise DamagedError("its memory does not match its checksum")
        with suppress(OSError):
            note.write_text(seen)

    def _as_it_is(self) -> str:
        """A text that differs after each boot of the host and after each change of the memory file."""
        file, boot = os.fstat(self.fd), Path("/proc/sys/kernel/random/boot_id").read_text()
        return f"{boot}{file.st_dev} {file.st_ino} {file.st_size} {file.st_mtime_ns} {file.st_ctime_ns}\n"

    def fill(self, ram: GuestRam) -> None:
        """Copy the memory to a machine that cannot map it privately."""
        for at, content in self._pieces():
            ram.write(at, content)

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.close()

    def _pieces(self) -> Iterator[tuple[int, memoryview]]:
        """The offset of each piece, and its bytes, which are valid until the next piece."""
        buffer = memoryview(bytearray(_AT_ONCE))
        for part in self.record.memory:
            end = part.offset + part.length
            for at in range(part.offset, end, _AT_ONCE):
                view = buffer[: min(end - at, _AT_ONCE)]
                if os.preadv(self.fd, [view], at) != len(view):
                    raise DamagedError("its memory file is cut short")
                yield at, view


@dataclass(frozen=True)
class Stopped:
    """A booted machine without its memory."""

    state: bytes
    symbols: bytes
    room: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class SnapshotInfo:
    """A snapshot as lists show it."""

    name: str
    machine: SnapshotMachine | None  # None: it is damaged
    used: float  # when, by the clock
    size: int  # bytes


def counters_agree(khz: float, other_khz: float) -> bool:
    """Whether two rates of a counter are equal within the precision that a kernel needs.

    >>> counters_agree(2445426, 2445000), counters_agree(2445426, 540644)
    (True, False)
    """
    return abs(khz - other_khz) <= _COUNTER_ERROR * khz


def find(machine: SnapshotMachine, emulator: Emulator) -> Snapshot | None:
    """The snapshot of a machine, or None. A snapshot that cannot be used is deleted with a warning."""
    folder = _root() / machine.name
    try:
        snapshot = _open(folder)
    except FileNotFoundError as missing:
        if not folder.exists():
            return None
        discard(folder, f"it has no {Path(str(missing.filename)).name}")
        return None
    except (OSError, DamagedError) as error:
        discard(folder, str(error))
        return None
    if not emulator.resumes(snapshot.record.emulator):
        snapshot._memory.close()
        discard(folder, f"it was made with {snapshot.record.emulator}, and this is {emulator}")
        return None
    with suppress(OSError):  # another process may have dropped it since: this one has it all
        os.utime(folder)
    return snapshot


def discard(folder: Path, why: str) -> None:
    """Delete a snapshot that cannot be used."""
    _log.warning("snapshot %s is made again: %s", folder.name, why)
    with _writing(folder.parent):
        _remove(folder)


def keep(
    machine: SnapshotMachine,
    emulator: Emulator,
    stopped: Stopped,
    ram: GuestRam,
) -> bool:
    """Keep a stopped machine. False, with a warning, if there is no room for it."""
    root, name = _root(), machine.name
    try:
        with _writing(root):
            _check_room(root, sum(end - start for start, end in ram.touched()))
            with tempfile.TemporaryDirectory(prefix=STAGING, dir=root) as staging:
                folder = Path(staging) / name
                folder.mkdir()
                (folder / "state").write_bytes(stopped.state)
                (folder / "symbols").write_bytes(stopped.symbols)
                parts, crc = _pack(ram, folder / "memory")
                rooms = [MemoryRange(*one) for one in stopped.room]
                crcs = zlib.crc32(stopped.symbols), zlib.crc32(stopped.state), crc
                record = SnapshotRecord(machine, emulator, rooms, *crcs, parts)
                record.crc = _crc(record)
                (folder / "snapshot.json").write_bytes(msgspec.json.encode(record) + b"\n")
                _remove(root / name)
                folder.rename(root / name)
            _drop_oldest(root / name)
    except OSError as error:
        refuse(machine, f"no snapshot is kept in {root}: {error.strerror or error}")
        return False
    return True


def refuse(machine: SnapshotMachine, why: str) -> None:
    """Stop trying to keep it in this process: its cells boot, and a warning says so."""
    _log.warning("%s; each machine boots", why)
    _refused.add(machine.name)


def was_refused(machine: SnapshotMachine) -> bool:
    """Whether this process failed to keep it, so that another boot for a snapshot would be wasted."""
    return machine.name in _refused


@contextmanager
def making(machine: SnapshotMachine, stop: threading.Event, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock under which one thread of one process makes a snapshot; StoppedError if `stop` is set."""

    def pause() -> None:
        if stop.wait(_LOOK_S):
            raise StoppedError

    with locked(_root(), on_wait, name=f"{machine.name}.lock", pause=pause):
        yield


def symbols_of(kernel_sha256: str) -> bytes | None:
    """The symbols of a kernel, as kept or as a snapshot of any shape has them, or None."""
    with suppress(OSError):
        content = _kept_symbols(kernel_sha256).read_bytes()
        os.utime(_kept_symbols(kernel_sha256))
        return content
    for kept in list_snapshots():
        if kept.machine and kept.machine.kernel_sha256 == kernel_sha256:
            with suppress(OSError, DamagedError), _open(_root() / kept.name) as found:
                return found.symbols
    return None


def keep_symbols(kernel_sha256: str, symbols: bytes) -> None:
    """Keep them for machines that boot without a snapshot. If that fails, a machine sends them again."""
    file = _kept_symbols(kernel_sha256)
    with suppress(OSError), _writing(_root()):
        keep_whole(file, symbols)
        _drop_oldest(file)


def _kept_symbols(kernel_sha256: str) -> Path:
    return cache_folder("symbols") / kernel_sha256


def list_snapshots() -> list[SnapshotInfo]:
    """All snapshots, the most recently used first."""
    found = []
    for folder in _folders(_root()):
        with suppress(FileNotFoundError):  # another process has just dropped it
            found.append(_kept(folder))
    return sorted(found, key=lambda kept: kept.used, reverse=True)


def _kept(folder: Path) -> SnapshotInfo:
    size = sum(file.stat().st_blocks * 512 for file in folder.iterdir())
    try:
        machine = decode.from_json((folder / "snapshot.json").read_bytes(), SnapshotRecord).machine
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        machine = None
    return SnapshotInfo(folder.name, machine, folder.stat().st_mtime, size)


def drop(name: str | None) -> list[SnapshotInfo]:
    """Delete the snapshot whose name starts so, or all of them and the separately kept symbols.

    Raises UserError if no snapshot or several have that name.
    """
    fitting = [kept for kept in list_snapshots() if name is None or (name and kept.name.startswith(name))]
    if name is not None and len(fitting) != 1:
        what = "several snapshots start with" if fitting else "there is no snapshot"
        raise UserError(f"{what} {name!r}: see `bigiron snapshot list`")
    with _writing(_root()):
        for kept in fitting:
            _remove(_root() / kept.name)
        for file in _symbol_files() if name is None else ():
            file.unlink(missing_ok=True)
    return fitting


def _root() -> Path:
    _limit_bytes()  # a wrong limit is an error before anything boots
    return cache_folder("snapshots")


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    with locked(root, lambda: None):
        for dead in root.glob(STAGING + "*"):
            shutil.rmtree(dead, ignore_errors=True)
        yield


def _check_room(root: Path, size: int) -> None:
    """Raise OSError if there is no room."""
    limit, free = _limit_bytes(), shutil.disk_usage(root).free
    if size > limit:
        raise OSError(f"it takes {size >> 20} MiB, but {_LIMIT} allows {limit >> 20} MiB")
    if size > free:
        raise OSError(f"it takes {size >> 20} MiB, but {free >> 20} MiB are free")


def _folders(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")]


def _open(folder: Path) -> Snapshot:
    try:
        record = decode.from_json((folder / "snapshot.json").read_bytes(), SnapshotRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"its snapshot.json is damaged: {error}") from None
    if record.crc != _crc(record):
        raise DamagedError("its snapshot.json does not match its checksum")
    state = (folder / "state").read_bytes()
    symbols = (folder / "symbols").read_bytes()
    if (zlib.crc32(symbols), zlib.crc32(state)) != (record.symbols_crc, record.state_crc):
        raise DamagedError("its state or symbols do not match their checksums")
    if (folder / "memory").stat().st_size != record.machine.memory_mib << 20:
        raise DamagedError("its memory file is cut short")
    return Snapshot(folder, record, state, symbols, FileIO(folder / "memory"))


def _crc(record: SnapshotRecord) -> int:
    return zlib.crc32(msgspec.json.encode(msgspec.structs.replace(record, crc=0)))


def _pack(ram: GuestRam, to: Path) -> tuple[list[MemoryRange], int]:
    """Write the nonzero blocks of a machine's memory; returns their places and the checksum."""
    parts: list[MemoryRange] = []
    crc, zeros = 0, bytes(_BLOCK)
    with to.open("wb") as file:
        file.truncate(ram.bytes)
        for at, piece in ram.pieces():
            content = memoryview(piece)
            for offset in range(0, len(content), _BLOCK):
                block = content[offset : offset + _BLOCK]
                if block == zeros[: len(block)]:
                    continue
                file.seek(at + offset)
                file.write(block)
                crc = zlib.crc32(block, crc)
                if parts and parts[-1].offset + parts[-1].length == at + offset:
                    parts[-1] = MemoryRange(parts[-1].offset, parts[-1].length + len(block))
                else:
                    parts.append(MemoryRange(at + offset, len(block)))
    return parts, crc


def _limit_bytes() -> int:
    given = os.environ.get(_LIMIT, "")
    if given and not given.isdecimal():
        raise UserError(f"{_LIMIT} is {given!r}: give a whole number of MiB")
    return (int(given) if given else _DEFAULT_MIB) << 20


def _drop_oldest(newest: Path) -> None:
    """Delete the least recently used snapshots and symbols until the rest is within the limit."""
    found = [(kept.used, kept.size, _root() / kept.name) for kept in list_snapshots()]
    for file in _symbol_files():
        status = file.stat()
        found.append((status.st_mtime, status.st_blocks * 512, file))
    left = _limit_bytes()
    for _, size, path in sorted(found, reverse=True):
        left -= size
        if left >= 0 or path == newest:
            continue
        if path.is_dir():
            _remove(path)
        else:
            path.unlink(missing_ok=True)


def _symbol_files() -> list[Path]:
    return [path for path in cache_folder("symbols").iterdir() if not path.name.startswith(".")]


def _remove(folder: Path) -> None:
    """Remove a folder in one step, as another process may be reading it."""
    try:
        with tempfile.TemporaryDirectory(prefix=STAGING, dir=folder.parent) as aside:
            folder.rename(Path(aside) / folder.name)
    except FileNotFoundError:
        pass  # by another, just now
