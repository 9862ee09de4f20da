"""What differs between architectures when a virtual machine is started."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from bigiron.errors import UserError


@dataclass(frozen=True)
class PageTables:
    """How the kernel's virtual addresses are mapped: tables of 64-bit entries, down from the top one."""

    root: str  # the symbol of the top table
    image: int  # the kernel's own image is mapped to physical memory by this distance
    levels: tuple[tuple[int, int], ...]  # the lowest bit of each level's index in an address, and its bits
    largest_page: int  # the lowest bit of the highest level whose entries may map memory instead of a table
    byte_order: Literal["little", "big"]  # of an entry
    present: int  # bits of it
    leaf: int
    table: int  # the physical address in an entry that leads to a table
    page: int  # and in one that maps memory


@dataclass(frozen=True)
class Architecture:
    """One architecture: how QEMU and the compiler name its parts, and what its lines are."""

    name: str
    qemu: str
    machine: tuple[str, ...]  # QEMU's options for the machine and the CPU
    accelerated_cpu: str  # the CPU model under KVM
    remapping: tuple[str, ...]  # QEMU's options where interrupts must reach more than 255 CPUs
    boot: tuple[str, ...]  # kernel parameters that it needs
    compiler: str
    line_bytes: int
    # Where memory is, as the recorder's findings are read in it:
    kernel_start: int  # addresses from here on are the kernel's, as in plugin/
    address_classes: tuple[tuple[int, int, str], ...]  # kernel addresses from, to (exclusive): what is there
    page_bytes: int  # in most kernels
    page_tables: PageTables
    ram_offset: Callable[[int, int], int | None]  # where a physical address lies in RAM of so many bytes

    def with_pages_of(self, page_bytes: int) -> "Architecture":
        """The same, where a kernel's pages are so large; the tables above the lowest do not depend on it.

        >>> PPC64LE.with_pages_of(4096).page_tables.levels
        ((39, 13), (30, 9), (21, 9), (12, 9))
        """
        *upper, _ = self.page_tables.levels
        shift = page_bytes.bit_length() - 1
        levels = (*upper, (shift, upper[-1][0] - shift))
        return replace(self, page_bytes=page_bytes, page_tables=replace(self.page_tables, levels=levels))

    def class_of(self, address: int) -> str:
        """What lies at a kernel address, as far as the address alone tells.

        >>> X86_64.class_of(0xffff888003c5b280)
        'page or slab object'
        """
        for start, end, name in self.address_classes:
            if start <= address < end:
                return name
        return "unknown memory"

    def start_of(self, name: str) -> int:
        """Where the class of address of that name starts.

        >>> hex(X86_64.start_of("struct page"))
        '0xffffea0000000000'
        """
        return next(start for start, _, known in self.address_classes if known == name)


def _ram_in_one_piece(physical: int, ram_bytes: int) -> int | None:
    """QEMU's pseries machine.

    >>> _ram_in_one_piece(0x1000, 1 << 30)
    4096
    """
    return physical if 0 <= physical < ram_bytes else None


def _q35_ram_offset(physical: int, ram_bytes: int) -> int | None:
    """QEMU's hw/i386/pc_q35.c: RAM lies below the devices, and what has no room there from 4 GiB on.

    >>> hex(_q35_ram_offset(0x100001000, 4 << 30))
    '0x80001000'
    >>> _q35_ram_offset(0x100001000, 2 << 30) is None
    True
    """
    below = min(ram_bytes, 0x80000000 if ram_bytes >= 0xB0000000 else 0xB0000000)
    if 0 <= physical < below:
        return physical
    offset = physical - (4 << 30) + below
    return offset if below <= offset < ram_bytes else None


X86_64 = Architecture(
    name="x86_64",
    qemu="qemu-system-x86_64",
    # Four-level page tables, so that an address tells its class; no HPET, so that the clock is no device.
    machine=("-M", "q35,hpet=off", "-cpu", "max,la57=off"),
    accelerated_cpu="host",
    # Intel VT-d, 5.1.5: an interrupt of a device has eight bits for the CPU, unless it is remapped.
    remapping=("-device", "intel-iommu,intremap=on,eim=on"),
    # A time stamp counter that runs on while a CPU waits looks unstable to the kernel sooner or later.
    # Then a device becomes its clock, and its scheduler's one whose state the CPUs share.
    # On a busy host the first timer's interrupts may be late, for which the kernel would panic.
    boot=("console=ttyS0", "tsc=reliable", "no_timer_check"),
    compiler="gcc",
    line_bytes=64,
    kernel_start=0xFF00000000000000,
    # Documentation/arch/x86/x86_64/mm.rst, without address space randomisation (nokaslr)
    address_classes=(
        (0xFFFF888000000000, 0xFFFFC88000000000, "page or slab object"),
        (0xFFFFC90000000000, 0xFFFFE90000000000, "vmalloc"),
        (0xFFFFEA0000000000, 0xFFFFEB0000000000, "struct page"),
        (0xFFFFFE0000000000, 0xFFFFFE8000000000, "CPU entry area"),
        (0xFFFFFFFF80000000, 0xFFFFFFFFA0000000, "kernel image"),
        (0xFFFFFFFFA0000000, 0xFFFFFFFFFF000000, "module"),
    ),
    page_bytes=4096,
    # Intel SDM volume 3, 4.5: four levels; the second and the third may map 1 GiB and 2 MiB.
    page_tables=PageTables(
        root="init_top_pgt",
        image=0xFFFFFFFF80000000,
        levels=((39, 9), (30, 9), (21, 9), (12, 9)),
        largest_page=30,
        byte_order="little",
        present=1 << 0,
        leaf=1 << 7,
        table=0x000FFFFFFFFFF000,
        page=0x000FFFFFFFFFF000,
    ),
    ram_offset=_q35_ram_offset,
)

PPC64LE = Architecture(
    name="ppc64le",
    qemu="qemu-system-ppc64",
    # Without SLOF, which takes seconds to find what to boot.
    machine=("-M", "pseries,x-vof=on", "-cpu", "POWER9"),
    accelerated_cpu="host",
    remapping=(),
    # With page tables, which can be read from outside, also where a kernel's configuration prefers a hash.
    boot=("console=hvc0", "disable_radix=no"),
    compiler="powerpc64le-linux-gnu-gcc",
    line_bytes=128,
    kernel_start=0xC000000000000000,
    # arch/powerpc/include/asm/book3s/64/radix.h; memory starts with the kernel's image
    address_classes=(
        (0xC000000000000000, 0xC008000000000000, "page or slab object"),
        (0xC008000000000000, 0xC00A000000000000, "vmalloc"),
        (0xC00A000000000000, 0xC00C000000000000, "device"),
        (0xC00C000000000000, 0xC00E000000000000, "struct page"),
    ),
    page_bytes=65536,
    # Power ISA 3.0B, book III, 5.7.10, with the sizes of radix-64k.h and radix-4k.h: the second and the
    # third level may map 1 GiB and 2 MiB.
    page_tables=PageTables(
        root="swapper_pg_dir",
        image=0xC000000000000000,
        levels=((39, 13), (30, 9), (21, 9), (16, 5)),
        largest_page=30,
        byte_order="big",
        present=1 << 63,
        leaf=1 << 62,
        table=0x0FFFFFFFFFFFFF00,
        page=0x01FFFFFFFFFFF000,
    ),
    ram_offset=_ram_in_one_piece,
)

_ALL = {architecture.name: architecture for architecture in (X86_64, PPC64LE)}


def architecture(name: str) -> Architecture:
    """The architecture of that name, or UserError where bigiron does not know it yet.

    >>> architecture("x86_64").line_bytes
    64
    """
    if name not in _ALL:
        raise UserError(f"machines of {name} are not supported yet: use one of {', '.join(_ALL)}")
    return _ALL[name]
