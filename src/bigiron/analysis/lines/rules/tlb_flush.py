"""TLB flushes sent to other CPUs."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="tlb_flush",
    what="the data of a TLB flush by interprocessor interrupt",
    why="a process whose threads run on several CPUs flushes their TLBs when it unmaps memory",
    experiment="run it with processes instead of threads (--mode process): the cache line must disappear",
    source="arch/x86/mm/tlb.c: flush_tlb_mm_range(), kernel/smp.c",
    actors=(
        "flush_tlb_*",
        "native_flush_tlb_*",
        "smp_call_*",
        "generic_smp_call_*",
        "*flush_smp_call*",
        "llist_*",
        "tlb_*",
        "on_each_cpu*",
        "should_flush_tlb",
        "csd_*",
    ),
    least_share=0.6,
    rank=20,
)
