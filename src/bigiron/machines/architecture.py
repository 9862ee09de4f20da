"""What differs between architectures when a virtual machine is started."""

from dataclasses import dataclass

from bigiron.errors import UserError


@dataclass(frozen=True)
class Architecture:
    """One architecture: how QEMU and the compiler name its parts, and what its lines are."""

    name: str
    qemu: str
    machine: tuple[str, ...]  # QEMU's options for the machine and the CPU
    accelerated_cpu: str  # the CPU model under KVM
    boot: tuple[str, ...]  # kernel parameters that a serial console needs
    compiler: str
    line_bytes: int
    address_classes: tuple[tuple[int, int, str], ...]  # kernel addresses from, to (exclusive): what is there

    def class_of(self, address: int) -> str:
        """What lies at a kernel address, as far as the address alone tells.

        >>> X86_64.class_of(0xffff888003c5b280)
        'page or slab object'
        """
        for start, end, name in self.address_classes:
            if start <= address < end:
                return name
        return "unknown memory"


X86_64 = Architecture(
    name="x86_64",
    qemu="qemu-system-x86_64",
    # Four-level page tables, so that an address tells its class; no HPET, so that the clock is no device.
    machine=("-M", "q35,hpet=off", "-cpu", "max,la57=off"),
    accelerated_cpu="host",
    boot=("console=ttyS0",),
    compiler="gcc",
    line_bytes=64,
    # Documentation/arch/x86/x86_64/mm.rst, without address space randomisation (nokaslr)
    address_classes=(
        (0xFFFF888000000000, 0xFFFFC88000000000, "page or slab object"),
        (0xFFFFC90000000000, 0xFFFFE90000000000, "vmalloc"),
        (0xFFFFEA0000000000, 0xFFFFEB0000000000, "struct page"),
        (0xFFFFFE0000000000, 0xFFFFFE8000000000, "CPU entry area"),
        (0xFFFFFFFF80000000, 0xFFFFFFFFA0000000, "kernel image"),
        (0xFFFFFFFFA0000000, 0xFFFFFFFFFF000000, "module"),
    ),
)

_ALL = {architecture.name: architecture for architecture in (X86_64,)}


def architecture(name: str) -> Architecture:
    """The architecture of that name, or UserError where virtual machines of it cannot be started yet.

    >>> architecture("x86_64").line_bytes
    64
    """
    if name not in _ALL:
        raise UserError(f"virtual machines of {name} are not supported yet: use one of {', '.join(_ALL)}")
    return _ALL[name]
