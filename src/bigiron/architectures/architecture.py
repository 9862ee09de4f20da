"""What differs between architectures: one record each, in a module of its own beside this one."""

import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from bigiron.errors import UserError

_LARGEST_IMAGE = 256 << 20
_IMAGE_STEP = 64 << 10


@dataclass(frozen=True)
class PageTables:
    """How the kernel's virtual addresses are mapped: tables of 64-bit entries, down from the top one."""

    roots: tuple[str, ...]  # the symbol of the top table, by what kernels call it
    image: int  # the kernel's own image is mapped to physical memory by this distance
    levels: tuple[tuple[int, int], ...]  # the lowest bit of each level's index in an address, and its bits
    largest_page: int  # the lowest bit of the highest level whose entries may map memory instead of a table
    byte_order: Literal["little", "big"]  # of an entry
    present: int  # bits of it
    kind: int  # bits that tell an entry that maps memory, and what they then are
    leaf: int
    table: int  # the physical address in an entry that leads to a table
    page: int  # and in one that maps memory


@dataclass(frozen=True)
class Counter:
    """A processor's counter that is the kernel's clock, and that QEMU counts by the host's own."""

    parameter: str  # of the kernel: its rate in kHz
    symbol: str  # of the kernel: what it takes that for


@dataclass(frozen=True)
class Architecture:
    """One architecture: how QEMU and the compiler name its parts, and what its lines are."""

    name: str  # the kernel's own spelling
    debian: str  # Debian's
    flavours: tuple[str, ...]  # of Debian's kernels; the first one unless another is asked for
    elf_machine: int  # in an ELF image's header
    kernel_arch: str  # the folder of the kernel's source
    qemu: str
    qemu_package: str  # Debian's
    machine: tuple[str, ...]  # QEMU's options for the machine and the CPU
    accelerated_cpu: str  # the CPU model under KVM
    remapping: tuple[str, ...]  # QEMU's options where interrupts must reach more than 255 CPUs
    boot: tuple[str, ...]  # kernel parameters that it needs
    delay_loop: str  # and the one that tells how long its delay loop lasts; "": it waits for a counter
    counter: Counter | None  # that the kernel finds out the rate of by itself, and on a busy host finds wrong
    clock: Literal[
        "counter", "timers", ""
    ]  # of QEMU's, that the kernel's clock follows; "": it stays as it is
    tick_period: str  # the kernel's symbol of what a CPU's timer counts between two ticks; "": it has none
    cross: str  # what the names of the cross compiler and its tools start with
    cross_package: str  # Debian's, of that compiler
    line_bytes: int
    most_cpus: int  # of a machine that QEMU emulates
    most_threads: int  # of a core of it
    resumes: bool  # whether QEMU goes on with a machine that it has kept
    programs: bool  # whether programs of a root file system are recorded
    interrupt_events: bool  # whether guest/libbpf/efficiency.c knows its tracepoints of interrupts
    user_memory: bool  # whether the recorder sees all that user code does to memory
    # Where memory is, as the recorder's findings are read in it:
    kernel_start: int  # addresses from here on are the kernel's, as in plugin/arch/
    address_classes: tuple[tuple[int, int, str], ...]  # kernel addresses from, to (exclusive): what is there
    older_map: int  # where older kernels' map of all memory starts, before the first of these; 0: there
    struct_pages: tuple[int, ...]  # where the array of `struct page` starts, by kernel; (): as above
    page_bytes: int  # in most kernels
    page_sizes: tuple[int, ...]  # that kernels may have, as far as bigiron reads their memory
    page_tables: PageTables
    ram_start: int  # the lowest physical address of memory
    ram_offset: Callable[[int, int], int | None]  # where a physical address lies in RAM of so many bytes

    def with_pages_of(self, page_bytes: int) -> "Architecture":
        """The same, where a kernel's pages are so large; the tables above the lowest do not depend on it.

        >>> from bigiron.architectures import PPC64LE
        >>> PPC64LE.with_pages_of(4096).page_tables.levels
        ((39, 13), (30, 9), (21, 9), (12, 9))
        """
        if page_bytes not in self.page_sizes:
            raise UserError(
                f"kernels with pages of {page_bytes >> 10} KiB are not supported on {self.name} yet"
            )
        *upper, _ = self.page_tables.levels
        shift = page_bytes.bit_length() - 1
        levels = (*upper, (shift, upper[-1][0] - shift))
        return replace(self, page_bytes=page_bytes, page_tables=replace(self.page_tables, levels=levels))

    def with_map_below(self, end: int) -> "Architecture":
        """The same, where a kernel's map of all memory ends there (`high_memory`), as older ones' may.

        >>> from bigiron.architectures import X86_64
        >>> hex(X86_64.with_map_below(0xffff880040000000).start_of("page or slab object"))
        '0xffff880000000000'
        >>> X86_64.with_map_below(0xffff888040000000) == X86_64
        True
        """
        (start, stop, name), *others = self.address_classes
        if not (self.older_map and self.older_map < end <= start):
            return self
        return replace(self, address_classes=((self.older_map, stop, name), *others))

    def with_image_at(self, start: int, physical: Callable[[int], int | None]) -> "Architecture":
        """The same, of a kernel whose image starts there, where that tells which of its layouts it has.

        `physical` says where the kernel maps an address to. The image is mapped in one piece. If nothing is
        known to be mapped, the image cannot be distinguished from the memory behind it.

        >>> from bigiron.architectures import AARCH64
        >>> mapped = range(0xFFFF800008000000, 0xFFFF80000A000000)
        >>> of_6_1 = AARCH64.with_image_at(mapped[0], lambda at: at & 0xFFFFFFF if at in mapped else None)
        >>> [of_6_1.class_of(at) for at in (0xFFFF800007000000, 0xFFFF800009FFFFFF, 0xFFFF80000A000000)]
        ['module', 'kernel image', 'vmalloc']
        """
        if not self.struct_pages:
            return self
        place = physical(start)
        ends = range(start + _LARGEST_IMAGE, start, -_IMAGE_STEP)
        end = next(
            (end for end in ends if place is not None and physical(end - 1) == end - 1 - start + place), start
        )
        pages = next(
            (pages for pages in self.struct_pages if physical(pages) is not None), self.struct_pages[0]
        )
        starts = {"kernel image": start, "vmalloc": end, "struct page": pages}
        stops = {"module": start, "kernel image": end, "vmalloc": pages}
        unknown = {} if place is not None else {"vmalloc": "kernel image or vmalloc"}
        classes = tuple(
            (starts.get(name, first), stops.get(name, last), unknown.get(name, name))
            for first, last, name in self.address_classes
        )
        return replace(self, address_classes=classes)

    @property
    def is_native(self) -> bool:
        """Whether this machine is of it, so that its own compiler will do."""
        return platform.machine() == self.name

    @property
    def tools(self) -> str:
        """What the names of the compiler and its tools start with.

        >>> from bigiron.architectures import architectures
        >>> {one.tools for one in architectures() if one.is_native}
        {''}
        """
        return "" if self.is_native else self.cross

    @property
    def compiler(self) -> str:
        """The C compiler."""
        return f"{self.tools}gcc"

    @property
    def compiler_packages(self) -> tuple[str, str]:
        """Debian's packages of the compiler and of the static C library."""
        return (
            ("gcc", "libc6-dev") if self.is_native else (self.cross_package, f"libc6-dev-{self.debian}-cross")
        )

    def class_of(self, address: int) -> str:
        """What lies at a kernel address, as far as the address alone tells.

        >>> from bigiron.architectures import X86_64
        >>> X86_64.class_of(0xffff888003c5b280)
        'page or slab object'
        """
        for start, end, name in self.address_classes:
            if start <= address < end:
                return name
        return "unknown memory"

    def start_of(self, name: str) -> int:
        """Where the class of address of that name starts.

        >>> from bigiron.architectures import X86_64
        >>> hex(X86_64.start_of("struct page"))
        '0xffffea0000000000'
        """
        return next(start for start, _, known in self.address_classes if known == name)
