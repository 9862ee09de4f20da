"""aarch64, as QEMU's virt machine has it."""

from bigiron.architectures.architecture import Architecture, PageTables

_RAM_START = 0x40000000


def _virt_ram_offset(physical: int, ram_bytes: int) -> int | None:
    """QEMU's hw/arm/virt.c: devices lie below RAM, and others above it.

    >>> hex(_virt_ram_offset(0x40001000, 1 << 30))
    '0x1000'
    >>> _virt_ram_offset(0x1000, 1 << 30) is None
    True
    """
    offset = physical - _RAM_START
    return offset if 0 <= offset < ram_bytes else None


def _machine(cpu: str) -> tuple[str, ...]:
    """With GICv3: an older one has at most 8 CPUs. Which events QEMU's PMU has depends on -icount."""
    return ("-M", "virt,gic-version=3", "-cpu", f"{cpu},pmu=off")


ARCHITECTURE = Architecture(
    name="aarch64",
    debian="arm64",
    flavours=("cloud-arm64", "arm64"),
    elf_machine=183,
    kernel_arch="arm64",
    qemu="qemu-system-aarch64",
    qemu_package="qemu-system-arm",
    # A server's core: it has atomic instructions (FEAT_LSE), and no authenticated pointers, which are slow in
    # QEMU. DC ZVA sets 64 bytes to zero, as plugin/arch/aarch64.c knows. With a newer core the kernel copies
    # and sets memory by instructions (FEAT_MOPS) of whose accesses QEMU does not tell the recorder.
    machine=_machine("neoverse-n1"),
    accelerated_cpu="host",
    remapping=(),
    boot=("console=ttyAMA0",),
    delay_loop="",
    counter=None,  # a register tells the rate of the generic timer
    clock="timers",
    tick_period="",
    cross="aarch64-linux-gnu-",
    cross_package="gcc-aarch64-linux-gnu",
    line_bytes=64,
    most_cpus=512,  # as GICv3 has room for
    most_threads=1,
    resumes=True,
    programs=False,
    interrupt_events=False,
    user_memory=False,  # DC ZVA sets it to zero without a callback
    kernel_start=0xFFFF000000000000,
    # Documentation/arch/arm64/memory.rst, with pages of 4 KiB and addresses of 48 bits. Modules lie below the
    # image, whose place depends on the kernel.
    address_classes=(
        (0xFFFF000000000000, 0xFFFF800000000000, "page or slab object"),
        (0xFFFF800000000000, 0xFFFF800080000000, "module"),
        (0xFFFF800080000000, 0xFFFF800090000000, "kernel image"),
        (0xFFFF800090000000, 0xFFFFFC0000000000, "vmalloc"),
        (0xFFFFFC0000000000, 0xFFFFFE0000000000, "struct page"),
    ),
    older_map=0,
    # VMEMMAP_START: since 5.11, since 6.9, before
    struct_pages=(0xFFFFFC0000000000, 0xFFFFFDFFC0000000, 0xFFFFFDFFFFE00000),
    page_bytes=4096,
    page_sizes=(4096,),
    # Arm ARM D8.3: tables of 4 KiB; the second and the third level may map 1 GiB and 2 MiB.
    page_tables=PageTables(
        roots=("swapper_pg_dir",),
        image=0xFFFF800080000000 - (_RAM_START + 0x200000),
        levels=((39, 9), (30, 9), (21, 9), (12, 9)),
        largest_page=30,
        byte_order="little",
        present=1 << 0,
        kind=1 << 1,
        leaf=0,
        table=0x0000FFFFFFFFF000,
        page=0x0000FFFFFFFFF000,
    ),
    ram_start=_RAM_START,
    ram_offset=_virt_ram_offset,
)
