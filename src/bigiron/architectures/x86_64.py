"""x86_64, as QEMU's q35 machine has it."""

from bigiron.architectures.architecture import Architecture, Counter, PageTables


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


ARCHITECTURE = Architecture(
    name="x86_64",
    debian="amd64",
    flavours=("cloud-amd64", "amd64"),  # for virtual machines; for any machine, with all modules
    elf_machine=62,
    kernel_arch="x86",
    qemu="qemu-system-x86_64",
    qemu_package="qemu-system-x86",
    # Four-level page tables, so that an address tells its class; no HPET, so that the clock is no device.
    # With system management mode, each CPU has an address space of its own: until all CPUs are made, QEMU
    # takes 18 KiB for each two of them, 4.5 GB for 512, and time in proportion.
    machine=("-M", "q35,hpet=off,smm=off", "-cpu", "max,la57=off"),
    accelerated_cpu="host",
    # Intel VT-d, 5.1.5: an interrupt of a device has eight bits for the CPU, unless it is remapped.
    remapping=("-device", "intel-iommu,intremap=on,eim=on"),
    # A time stamp counter that runs on while a CPU waits looks unstable to the kernel sooner or later.
    # Then a device becomes its clock, and its scheduler's one whose state the CPUs share.
    # On a busy host the first timer's interrupts may be late, for which the kernel would panic.
    boot=("console=ttyS0", "tsc=reliable", "no_timer_check"),
    delay_loop="lpj=16000000",
    counter=Counter(parameter="tsc_early_khz", symbol="tsc_khz"),  # Linux 5.8 and newer take the parameter
    clock="counter",
    tick_period="lapic_timer_period",  # Linux 5.2 and newer
    cross="x86_64-linux-gnu-",
    cross_package="gcc-x86-64-linux-gnu",
    line_bytes=64,
    most_cpus=4096,  # of q35
    most_threads=256,
    resumes=True,
    programs=True,
    interrupt_events=True,
    user_memory=True,
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
    older_map=0xFFFF880000000000,  # before 4.20
    struct_pages=(),
    page_bytes=4096,
    page_sizes=(4096,),
    # Intel SDM volume 3, 4.5: four levels; the second and the third may map 1 GiB and 2 MiB.
    page_tables=PageTables(
        roots=("init_top_pgt", "init_level4_pgt"),  # before 4.13
        image=0xFFFFFFFF80000000,
        levels=((39, 9), (30, 9), (21, 9), (12, 9)),
        largest_page=30,
        byte_order="little",
        present=1 << 0,
        kind=1 << 7,
        leaf=1 << 7,
        table=0x000FFFFFFFFFF000,
        page=0x000FFFFFFFFFF000,
    ),
    ram_start=0,
    ram_offset=_q35_ram_offset,
)
