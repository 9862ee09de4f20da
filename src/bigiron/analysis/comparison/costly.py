"""Instructions that take much longer than one instruction does: what each costs, and who published it.

The recorder counts them by the names below (plugin/arch/x86_64.c and so on). Each costs what it takes when
nothing contends for it, in the unit of `cost`. An atomic access to a shared cache line costs a transfer more,
which is charged to the cache line.

The figures of `mov to cr3` and `invpcid` are in their sources; those of the others are at second hand.
"""

from dataclasses import dataclass

from bigiron.analysis.comparison import cost

_GHZ = 3.0  # where the source has cycles

_AGNER_FOG = "Agner Fog, Instruction tables, Skylake-X"
_MITIGATIONS = (
    "Behrens, Belay, Kaashoek: Performance Evolution of Mitigating Transient Execution Attacks, 2022"
)
_SYNC_CORE = "Linux commit c198b121b1a1, x86/asm: Rewrite sync_core() to use IRET-to-self"
_MCKENNEY = "McKenney, Abstraction, Reality Checks, and RCU, 2005: 1.45 GHz POWER4+"
_NONE = "no published figure was found: it counts as one instruction"
_BROADCAST = "no published figure was found: a broadcast takes a cache-line transfer at least"


@dataclass(frozen=True)
class Weight:
    """What one execution takes, in nanoseconds, and the source."""

    ns: float
    source: str


def _cycles(cycles: float, source: str) -> Weight:
    return Weight(cycles / _GHZ, source)


WEIGHTS = {
    # x86
    "rdtsc": _cycles(25, _AGNER_FOG),
    "rdtscp": _cycles(32, _AGNER_FOG),
    "rdrand": _cycles(460, _AGNER_FOG),
    "cpuid": Weight(83, _SYNC_CORE),
    "lfence": _cycles(15, f"{_MITIGATIONS}: Cascade Lake"),
    "mfence": _cycles(33, _AGNER_FOG),
    "iret": Weight(110, _SYNC_CORE),
    "mov to cr": Weight(42, f"{_SYNC_CORE}: CR2"),
    "mov to cr3": _cycles(100, "Linux, Documentation/arch/x86/pti.rst: on the order of a hundred cycles"),
    "wrmsr": _cycles(144, "github.com/AlessandroSangiuliano/Uros/issues/348: IA32_SYSENTER_ESP"),
    "wbinvd": Weight(0, _NONE),
    "swapgs": Weight(0, _NONE),
    "verw": _cycles(458, f"{_MITIGATIONS}: Cascade Lake"),
    "lock": _cycles(19, "uops.info, LOCK CMPXCHG (M64, R64), Alder Lake-P"),
    "rep": _cycles(35, "Intel 64 and IA-32 Architectures Optimization Reference Manual, 3.7.6: start-up"),
    "invlpg": Weight(140, "Alex Shi, linux-kernel, May 2012, x86/tlb: flush_tlb_range support: Sandy Bridge"),
    "invpcid": Weight(376, "Linux commit d8bced79af1d, x86/mm: If INVPCID is available, use it: Skylake"),
    # POWER
    "mftb": _cycles(10, "Michael Ellerman, linuxppc-dev, May 2022: tens of cycles on some CPUs"),
    "sync": Weight(92, _MCKENNEY),
    "ptesync": Weight(92, f"{_MCKENNEY}: sync"),
    "lwsync": Weight(0, _NONE),
    "isync": Weight(0, _NONE),
    "stcx.": Weight(42, f"{_MCKENNEY}: atomic increment"),
    "tlbie": Weight(50, _BROADCAST),
    "tlbiel": Weight(17, "Linux commit f6f27951fdf8: 94 more take 1.6 us, POWER9"),
    "mtspr": Weight(0, _NONE),
    # arm64
    "lse": Weight(0, _NONE),
    "stxr": Weight(0, _NONE),
    "dmb": Weight(0, _NONE),
    "dsb": Weight(0, _NONE),
    "isb": Weight(0, _NONE),
    "sb": Weight(0, _NONE),
    "eret": Weight(0, _NONE),
    "tlbi": Weight(50, _BROADCAST),
    "dc": Weight(0, _NONE),
    "mrs cnt": Weight(0, _NONE),
    "msr cnt": Weight(0, _NONE),
    "msr ttbr": Weight(0, _NONE),
    "msr icc": Weight(0, _NONE),
}
"""By the recorder's names of instructions."""


REPLAYED = ("lock", "lse", "stxr", "stcx.", "tlbi", "tlbie")
"""Those of which a replay takes the time: it has atomic accesses and broadcasts of its own."""


def beyond(instruction: str) -> float:
    """How much longer than one instruction it takes, in instructions; 0 for all that have no weight.

    >>> [round(beyond(name), 1) for name in ("rdtsc", "iret", "swapgs", "")]
    [15.7, 219.0, 0.0, 0.0]
    """
    weight = WEIGHTS.get(instruction)
    return max(weight.ns * cost.PER_NS - 1, 0.0) if weight else 0.0
