"""A guest's memory read from outside: its RAM, and the kernel's addresses through its page tables.

What is read is the guest's word: nothing here trusts it further than that an address leads to some bytes.
"""

import itertools
import os
from collections.abc import Iterator
from functools import lru_cache
from types import TracebackType

from bigiron.architectures import Architecture
from bigiron.errors import MachineError

_PAGE = 4096
_PAGES_KEPT = 4096  # 16 MiB
_LONGEST_READ = 64 << 20
_AT_ONCE = 1 << 20


class GuestRam:
    """A machine's RAM as a file without a name: it takes what the guest touches, and leaves nothing."""

    def __init__(self, mib: int) -> None:
        self.bytes = mib << 20
        self.fd = -1
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
        os.close(self.fd)

    def backend(self, name: str, offset_mib: int, mib: int) -> list[str]:
        """QEMU's options for a part of this file as memory that a machine or a node of it can have."""
        where = f"mem-path=/proc/self/fd/{self.fd},offset={offset_mib}M,size={mib}M"
        return ["-object", f"memory-backend-file,id={name},share=on,{where}"]

    def write(self, offset: int, content: bytes | memoryview) -> None:
        """Put bytes there, all of them."""
        while content:
            written = os.pwrite(self.fd, content, offset)
            content, offset = content[written:], offset + written

    def copy(self, other: "GuestRam") -> None:
        """Have the same content as another one of the same size."""
        for start, end in other.touched():
            for at in range(start, end, _AT_ONCE):
                self.write(at, other.read(at, min(_AT_ONCE, end - at)))

    def clear(self) -> None:
        """As if the guest had never touched it."""
        os.ftruncate(self.fd, 0)
        os.ftruncate(self.fd, self.bytes)

    def touched(self) -> Iterator[tuple[int, int]]:
        """The parts that the guest has touched: where each starts and ends."""
        end = 0
        while True:
            try:
                start = os.lseek(self.fd, end, os.SEEK_DATA)
            except OSError:  # ENXIO: no more
                return
            end = os.lseek(self.fd, start, os.SEEK_HOLE)
            yield start, end

    def read(self, offset: int, length: int) -> bytes:
        """The bytes there; fewer at the end. Memory that was never touched is zero, and stays untouched."""
        return os.pread(self.fd, length, offset)


class KernelMemory:
    """The memory of a guest's kernel by virtual address, as its own page tables map it.

    `root` is where the kernel's symbols say that its top page table is (`PageTables.root`). Where it is not,
    there is no memory.
    """

    def __init__(self, ram: GuestRam, architecture: Architecture, root: int) -> None:
        self._ram = ram
        self._architecture = architecture
        self._page = lru_cache(_PAGES_KEPT)(self._read_page)
        self._table = lru_cache(_PAGES_KEPT)(self._read_physical)
        self._top = self._find_top(root)

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
        for candidate in itertools.chain([linked], range(linked % step, self._ram.bytes, step)):
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
            if shift == last or (shift <= tables.largest_page and entry & tables.leaf):
                within = (1 << shift) - 1
                return (entry & tables.page & ~within) | (address & within), within + 1 - (address & within)
            table = entry & tables.table
        return None
