"""A guest's memory read from outside: its RAM, and the kernel's addresses through its page tables.

What is read is the guest's word: nothing here trusts it further than that an address leads to some bytes.
"""

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, lru_cache
from pathlib import Path
from types import TracebackType
from typing import Protocol

from bigiron.architectures import Architecture
from bigiron.errors import MachineError
from bigiron.introspect.symbols import SymbolTable

_PAGE = 4096
_PAGES_KEPT = 4096  # 16 MiB
_LONGEST_READ = 64 << 20
_AT_ONCE = 1 << 20
_COUNTS_ALL = "2\n"


class MemoryContent(Protocol):
    """What a machine's memory begins with."""

    @property
    def fd(self) -> int:
        """The file of it: as large as the machine's RAM, with holes where that is zero."""

    def fill(self, ram: "GuestRam") -> None:
        """Write it into a machine's memory, where that cannot have private copies."""


class GoneError(MachineError):
    """The process that had a machine's memory has ended."""

    def __init__(self) -> None:
        super().__init__("the machine's memory is gone, as its QEMU has ended")


class GuestRam:
    """A machine's RAM as a file without a name: it takes what the guest touches, and leaves nothing.

    After `map_private` it is the file of a snapshot. The machine's process has private copies of the pages
    that it writes, and RAM is read and written in that process once it is reached.
    """

    def __init__(self, mib: int) -> None:
        self.bytes = mib << 20
        self.fd = -1
        self.is_private = False
        self._process = ExitStack()  # that has the private copies
        self._mem = -1  # its /proc/PID/mem
        self._mapped: list[tuple[int, int, int]] = []  # from where to where of RAM, at which of its addresses
        try:
            self.fd = os.memfd_create("bigiron-guest", os.MFD_CLOEXEC)
            os.ftruncate(self.fd, self.bytes)
        except OSError as error:
            if self.fd >= 0:
                os.close(self.fd)
            raise MachineError(f"no memory for a guest of {mib} MiB: {error.strerror}") from None

    def __enter__(self) -> "GuestRam":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.close()
        os.close(self.fd)

    def backend(self, name: str, offset_mib: int, mib: int) -> list[str]:
        """QEMU's options for a part of this file as memory that a machine or a node of it can have."""
        where = f"mem-path=/proc/self/fd/{self.fd},offset={offset_mib}M,size={mib}M"
        how = "share=off,readonly=on,rom=off,reserve=off" if self.is_private else "share=on"
        return ["-object", f"memory-backend-file,id={name},{how},{where}"]

    def map_private(self, content: MemoryContent) -> None:
        """Have the next machine begin with what lies in that file, and never change it."""
        duplicate = os.dup(content.fd)
        os.close(self.fd)
        self.fd, self.is_private = duplicate, True

    def reach(self, pid: int) -> None:
        """Find the private copies in the process of the machine."""
        try:
            self._mem = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
            self._process.callback(os.close, self._mem)
            maps = Path(f"/proc/{pid}/maps")
            # Again where the file was renamed in between, as one that is dropped is.
            self._mapped = self._mappings(maps.read_text()) or self._mappings(maps.read_text())
            if not maps.read_text():
                raise GoneError
        except OSError as error:
            raise MachineError(f"QEMU's memory cannot be read: {error.strerror}") from None
        if sum(end - start for start, end, _ in self._mapped) != self.bytes:
            raise MachineError("QEMU has not mapped its memory")

    def _mappings(self, maps: str) -> list[tuple[int, int, int]]:
        """By proc(5)."""
        path = str(Path(f"/proc/self/fd/{self.fd}").readlink())
        found = []
        for line in maps.splitlines():
            addresses, _, offset, _, _, *name = line.split(maxsplit=5)
            if name == [path]:
                start, end = (int(address, 16) for address in addresses.split("-"))
                found.append((int(offset, 16), int(offset, 16) + end - start, start))
        return found

    def outlives(self, end: Callable[[], object]) -> None:
        """Register what ends the process: it is called when RAM is no longer read."""
        self._process.callback(end)

    def write(self, offset: int, content: bytes | memoryview) -> None:
        """Put bytes there, all of them."""
        while content:
            fd, at, most = self._place(offset, len(content))
            written = os.pwrite(fd, content[:most], at)
            if not written:
                raise GoneError
            content, offset = content[written:], offset + written

    def fill(self, ram: "GuestRam") -> None:
        """Have another one of the same size hold the same."""
        for at, content in self.pieces():
            ram.write(at, content)

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """What the guest has touched: where each piece lies, and its bytes."""
        for start, end in self.touched():
            for at in range(start, end, _AT_ONCE):
                yield at, self.read(at, min(_AT_ONCE, end - at))

    def clear(self) -> None:
        """As if the guest had never touched it."""
        fresh = GuestRam(self.bytes >> 20)
        self._process.close()
        os.close(self.fd)
        self.fd, self.is_private, self._mem, self._mapped = fresh.fd, False, -1, []

    def touched(self) -> Iterator[tuple[int, int]]:
        """The parts that the guest has touched: where each starts and ends. Not of private copies."""
        end = 0
        while True:
            try:
                start = os.lseek(self.fd, end, os.SEEK_DATA)
            except OSError:  # ENXIO: no more
                return
            end = os.lseek(self.fd, start, os.SEEK_HOLE)
            yield start, end

    def read(self, offset: int, length: int) -> bytes:
        """The bytes there; fewer at the end. Memory that was never touched is zero."""
        content = b""
        while (left := min(length, self.bytes - offset) - len(content)) > 0:
            fd, at, most = self._place(offset + len(content), left)
            part = os.pread(fd, most, at)
            if not part:
                raise GoneError
            content = content + part if content else part
        return content

    def _place(self, offset: int, length: int) -> tuple[int, int, int]:
        """The file in which bytes of RAM lie, from where on, and how many of them in one piece."""
        if not self.is_private:
            return self.fd, offset, length
        for start, end, address in self._mapped:
            if start <= offset < end:
                return self._mem, address + offset - start, min(length, end - offset)
        raise MachineError(f"there is no memory at {offset:#x} of {self.bytes:#x} bytes")


@cache
def private_copies_work() -> bool:
    """Whether it may read the memory of processes that it starts, and these map more than the host has."""
    overcommit = Path("/proc/sys/vm/overcommit_memory")
    if overcommit.exists() and overcommit.read_text() == _COUNTS_ALL:
        return False  # it would count all of a machine's memory, touched or not
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            os.close(os.open(f"/proc/{child.pid}/mem", os.O_RDWR | os.O_CLOEXEC))
            return True
        except OSError:
            return False
        finally:
            child.kill()


class KernelMemory:
    """The memory of a guest's kernel by virtual address, as its own page tables map it.

    `root` is where its top page table is. Where it is not, there is no memory.
    """

    def __init__(self, ram: GuestRam, architecture: Architecture, root: int) -> None:
        self._ram = ram
        self._architecture = architecture
        self._page = lru_cache(_PAGES_KEPT)(self._read_page)
        self._table = lru_cache(_PAGES_KEPT)(self._read_physical)
        self._top = self._find_top(root)

    @classmethod
    def of(cls, ram: GuestRam, architecture: Architecture, symbols: SymbolTable) -> "KernelMemory":
        """That of a kernel with these symbols, which say where its top page table is."""
        roots = (symbols.address(name) for name in architecture.page_tables.roots)
        return cls(ram, architecture, next(filter(None, roots), 0))

    def read(self, address: int, length: int) -> bytes | None:
        """The bytes at a kernel address; None where not all of them are mapped to RAM."""
        if not (0 <= address < 1 << 64 and 0 <= length <= _LONGEST_READ):
            return None
        at = address % _PAGE
        if at + length <= _PAGE:
            page = self._page(address - at)
            return None if page is None else page[at : at + length]
        content = b"".join(part for _, part in self.mapped(address, address + length))
        return content if len(content) == length else None

    def mapped(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """What of a range is mapped to RAM: where each part of it is, and its bytes."""
        while start < end:
            found = None if self._top is None else self._walk(self._top, start)
            size = min(end - start, found[1] if found else _PAGE - start % _PAGE)
            content = self._read_physical(found[0], size) if found else b""
            if content:
                yield start, content
            start += size

    def physical(self, address: int) -> int | None:
        """The physical address that a kernel address is mapped to, or None."""
        found = None if self._top is None else self._walk(self._top, address)
        return found and found[0]

    def _read_page(self, address: int) -> bytes | None:
        physical = self.physical(address)
        page = b"" if physical is None else self._read_physical(physical, _PAGE)
        return page if len(page) == _PAGE else None

    def _read_physical(self, physical: int, length: int) -> bytes:
        offset = self._architecture.ram_offset(physical, self._ram.bytes)
        return b"" if offset is None else self._ram.read(offset, length)

    def _find_top(self, root: int) -> int | None:
        """The physical address of the top page table: from where a walk to the table leads to it.

        The kernel is mapped in steps of 2 MiB; without address space randomisation to the first place tried.
        """
        linked = root - self._architecture.page_tables.image
        step = 2 << 20
        start = self._architecture.ram_start
        for candidate in itertools.chain(
            [linked], range(start + linked % step, start + self._ram.bytes, step)
        ):
            found = self._walk(candidate, root)
            if found and found[0] == candidate:
                return candidate
        return None

    def _walk(self, table: int, address: int) -> tuple[int, int] | None:
        """Where an address is mapped to, and how many bytes from there one entry maps."""
        tables = self._architecture.page_tables
        last, _ = tables.levels[-1]
        for shift, bits in tables.levels:
            index = address >> shift & (1 << bits) - 1
            entries = self._table(table, 8 << bits)
            entry = int.from_bytes(entries[index * 8 : index * 8 + 8], tables.byte_order)
            if not entry & tables.present:
                return None
            if shift == last or (shift <= tables.largest_page and entry & tables.kind == tables.leaf):
                within = (1 << shift) - 1
                return (entry & tables.page & ~within) | (address & within), within + 1 - (address & within)
            table = entry & tables.table
        return None
