"""ppc64le, as QEMU's pseries machine has it."""

from bigiron.architectures.architecture import Architecture, PageTables


def _ram_in_one_piece(physical: int, ram_bytes: int) -> int | None:
    """QEMU's pseries machine.

    >>> _ram_in_one_piece(0x1000, 1 << 30)
    4096
    """
    return physical if 0 <= physical < ram_bytes else None


ARCHITECTURE = Architecture(
    name="ppc64le",
    debian="ppc64el",
    flavours=("powerpc64le",),
    elf_machine=21,
    kernel_arch="powerpc",
    qemu="qemu-system-ppc64",
    qemu_package="qemu-system-ppc",
    # Without SLOF, which takes seconds to find what to boot.
    machine=("-M", "pseries,x-vof=on", "-cpu", "POWER9"),
    accelerated_cpu="host",
    remapping=(),
    # With page tables, which can be read from outside, also where a kernel's configuration prefers a hash.
    boot=("console=hvc0", "disable_radix=no"),
    delay_loop="lpj=16000000",
    counter=None,  # the device tree tells the time base's rate
    clock="",
    tick_period="",  # its timers are told when the next tick is due from the start
    cross="powerpc64le-linux-gnu-",
    cross_package="gcc-powerpc64le-linux-gnu",
    line_bytes=128,
    most_cpus=4096,  # of pseries
    most_threads=1,
    # QEMU 10's pseries: all CPUs but the first stand still, until the kernel's watchdog ends the machine.
    resumes=False,
    programs=True,
    interrupt_events=True,
    user_memory=True,
    kernel_start=0xC000000000000000,
    # arch/powerpc/include/asm/book3s/64/radix.h; memory starts with the kernel's image
    address_classes=(
        (0xC000000000000000, 0xC008000000000000, "page or slab object"),
        (0xC008000000000000, 0xC00A000000000000, "vmalloc"),
        (0xC00A000000000000, 0xC00C000000000000, "device"),
        (0xC00C000000000000, 0xC00E000000000000, "struct page"),
    ),
    older_map=0,
    struct_pages=(),
    page_bytes=65536,
    page_sizes=(4096, 65536),
    # Power ISA 3.0B, book III, 5.7.10, with the sizes of radix-64k.h and radix-4k.h: the second and the
    # third level may map 1 GiB and 2 MiB.
    page_tables=PageTables(
        roots=("swapper_pg_dir",),
        image=0xC000000000000000,
        levels=((39, 13), (30, 9), (21, 9), (16, 5)),
        largest_page=30,
        byte_order="big",
        present=1 << 63,
        kind=1 << 62,
        leaf=1 << 62,
        table=0x0FFFFFFFFFFFFF00,
        page=0x01FFFFFFFFFFF000,
    ),
    ram_start=0,
    ram_offset=_ram_in_one_piece,
)
