"""Instructions that take much longer than others: which they are, how often, and what they cost."""

import doctest
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest
from conftest import measured
from test_compare import counts as touched
from test_instructions import counts
from test_judgement import OPERATIONS, judged, line, of
from test_locks import SCHEMA as LOCKS
from test_recorder import CROSS, answers, disassembled, listed, ppc64le, x86_64
from test_recorder_aarch64 import CROSS as ON_ARM
from test_recorder_aarch64 import aarch64, in_memory

import bigiron
from bigiron import compile, workloads
from bigiron.analysis.comparison import cost, explain
from bigiron.analysis.comparison import costly as weights
from bigiron.analysis.comparison.model import Options
from bigiron.analysis.probes import costly, instructions
from bigiron.judge import judgement, moved_code
from bigiron.judge.judgement import Judgement, ReportedClaim
from bigiron.report import reply
from bigiron.report.explain.text import sentence

__all__ = ["aarch64", "ppc64le", "x86_64"]  # fixtures

# The decoder

X86_64 = {
    "rdtsc": "rdtsc",
    "rdtscp": "rdtscp",
    "rdrand": "rdrand %rax; rdseed %ecx",
    "cpuid": "cpuid",
    "lfence": "lfence",
    "mfence": "mfence",
    "iret": "iretq; iretl",
    "mov to cr": "mov %rax, %cr0; mov %rax, %cr2; mov %r9, %cr4",
    "mov to cr3": "mov %rax, %cr3; mov %r12, %cr3",
    "wrmsr": "wrmsr",
    "wbinvd": "wbinvd",
    "swapgs": "swapgs",
    "verw": "verw (%rip); verw %ax",
    "lock": "lock incl (%rdi); lock cmpxchgq %rcx, %gs:8(%rdx); xchgq %rax, (%rdi); xchgb %al, 8(%r12)",
    "rep": "rep movsb; rep stosq; repne scasb; repe cmpsb",
    "invlpg": "invlpg (%rdi); invlpg 8(%r13)",
    "invpcid": "invpcid (%rdi), %rax",
    "none": """
        mov %cr3, %rax; mov %rax, %cr8; rdmsr; sfence; pause; xchg %rax, %rbx; xchg %ax, %ax; movsb; verr %ax
        cmpxchgq %rcx, (%rdx); xsave (%rdi); xrstor (%rdi); rdpid %rax; clflush (%rdi); lgdt (%rdi); stac
        incsspq %rax; tpause %eax; sysretq
    """,
}

PPC64LE = {
    "mftb": "mftb 3; mfspr 3,268",
    "sync": "sync",
    "lwsync": "lwsync",
    "ptesync": "ptesync",
    "isync": "isync",
    "stcx.": "stwcx. 3,4,5; stdcx. 3,4,5; stbcx. 3,0,5; sthcx. 3,0,5; stqcx. 4,0,5",
    "tlbie": "tlbie 3,4",
    "tlbiel": "tlbiel 3",
    "mtspr": "mtspr 29,3; mtspr 61,3; mtspr 48,3",
    "none": "mflr 3; mtlr 3; mtctr 3; mtxer 3; mfspr 3,29; lwarx 3,4,5; ldarx 3,4,5; eieio; mtmsrd 3,1; rfid",
}


AARCH64 = {
    "lse": "ldadd x0,x1,[x2]; stadd w0,[x2]; swpal x0,x1,[x2]; casa w0,w1,[x2]; casp x0,x1,x2,x3,[x4]",
    "stxr": "stxr w0,x1,[x2]; stlxrb w0,w1,[x2]; stxp w0,x1,x2,[x3]",
    "dmb": "dmb ish; dmb ishld; dmb oshst",
    "dsb": "dsb sy; dsb ish; dsb nshst",
    "isb": "isb",
    "sb": "sb",
    "eret": "eret; eretaa",
    "tlbi": "tlbi vaae1is,x0; tlbi vmalle1; tlbi rvae1is,x0; tlbi aside1is,x0",
    "dc": "dc cvau,x0; dc civac,x0; ic ivau,x0; ic ialluis",
    "mrs cnt": "mrs x0,cntvct_el0; mrs x0,cntpct_el0",
    "msr cnt": "msr cntv_cval_el0,x0; msr cntv_ctl_el0,x0; msr cntp_tval_el0,x0",
    "msr ttbr": "msr ttbr0_el1,x0; msr ttbr1_el1,x0",
    "msr icc": "msr icc_sgi1r_el1,x0; msr icc_eoir1_el1,x0",
    "none": """
        ldxr x0,[x1]; ldar x0,[x1]; stlr x0,[x1]; ldapr x0,[x1]; mrs x0,cntfrq_el0; mrs x0,sp_el0
        msr sp_el0,x0; msr daifset,#2; nop; yield; wfi; hint #20; dc zva,x0; at s1e1r,x0
        mrs x0,tpidr_el1; msr tcr_el1,x0; mrs x0,ttbr0_el1; ret; svc #0; clrex; prfm pldl1keep,[x0]; esb
    """,
}


def assembled(code: str, folder: Path, compiler: str, *before: str) -> Path:
    (folder / "code.s").write_text("\n".join([*before, *re.split("[;\n]", code), ""]))
    subprocess.run([compiler, "-c", folder / "code.s", "-o", folder / "code.o"], check=True)
    return folder / "code.o"


@pytest.mark.parametrize("name", X86_64)
def test_which_instructions_take_longer(name: str, x86_64: Path, tmp_path: Path) -> None:
    code = disassembled(assembled(X86_64[name], tmp_path, "gcc"))
    found = answers(x86_64, "costly", (hex for hex, _ in code))
    assert dict(zip(code, found, strict=True)) == dict.fromkeys(code, name)


@pytest.mark.parametrize("name", PPC64LE)
def test_which_instructions_take_longer_on_ppc64le(name: str, ppc64le: Path, tmp_path: Path) -> None:
    binary = assembled(PPC64LE[name], tmp_path, f"{CROSS}gcc", ".machine power9")
    code = [(hex, text) for _, hex, text in listed("-d", binary, tool=f"{CROSS}objdump")]
    found = answers(ppc64le, "costly", (hex for hex, _ in code))
    assert dict(zip(code, found, strict=True)) == dict.fromkeys(code, name)


@pytest.mark.parametrize("name", AARCH64)
def test_which_instructions_take_longer_on_aarch64(name: str, aarch64: Path, tmp_path: Path) -> None:
    binary = assembled(AARCH64[name], tmp_path, f"{ON_ARM}gcc", ".arch armv8.5-a")
    code = [(in_memory(hex), text) for _, hex, text in listed("-d", binary, tool=f"{ON_ARM}objdump")]
    found = answers(aarch64, "costly", (hex for hex, _ in code))
    assert dict(zip(code, found, strict=True)) == dict.fromkeys(code, name)


def of_x86_64(text: str) -> str:
    """What objdump writes, as the recorder calls it."""
    name = re.sub(r"^((cs|data16|addr32|[d-gs]s|rex\S*) +)+", "", text)
    if name.startswith("lock") or re.match(r"(xacquire |xrelease )?xchg\w* .*(\(|s:)", name):
        return "lock"
    if re.match(r"rep\w* +(stos|movs|lods|scas|cmps)", name):
        return "rep"
    if moved := re.match(r"mov +%\w+,%cr(\d)", name):
        return {"3": "mov to cr3", "8": "none"}.get(moved[1], "mov to cr")
    name = name.split(" ")[0]
    name = {"rdseed": "rdrand"}.get(name, "iret" if name.startswith("iret") else name)
    return name if name in X86_64 else "none"


@pytest.mark.slow
def test_another_decoder_agrees_on_a_program(x86_64: Path) -> None:
    code = set(disassembled(compile.agent(workloads.find("getppid1"), "gcc")))
    code = {insn for insn in code if not re.match("c4|c5|62", insn[0]) and "(bad)" not in insn[1]}
    found = answers(x86_64, "costly", (hex for hex, _ in code))
    wrong = [(*insn, name) for insn, name in zip(code, found, strict=True) if name != of_x86_64(insn[1])]
    assert wrong == [] and len(code) > 500 and {"lock", "rep"} <= set(found)


def test_all_have_a_weight_and_a_source() -> None:
    assert {*X86_64, *PPC64LE, *AARCH64} - {"none"} == {*weights.WEIGHTS}
    assert all(weight.source and weight.ns >= 0 for weight in weights.WEIGHTS.values())
    assert doctest.testmod(weights).failed == doctest.testmod(cost).failed == 0
    assert doctest.testmod(moved_code).failed == 0


# Counted and compared


def entry(rdtsc: int, locked: int = 2) -> pl.DataFrame:
    """A system call of 1,000 instructions, some of which take longer."""
    return pl.concat(
        [
            counts(("", "do_syscall_64", (1000 - rdtsc - locked) * OPERATIONS)),
            counts(("", "do_syscall_64", rdtsc * OPERATIONS), instruction="rdtsc"),
            counts(("do_syscall_64", "fget", locked * OPERATIONS), instruction="lock"),
        ]
    )


def test_they_are_part_of_all_instructions() -> None:
    assert instructions.profile(entry(1), OPERATIONS)["self_per_op"].sum() == 1000
    assert costly.by_function(entry(1), OPERATIONS) == {("lock", "fget"): 2, ("rdtsc", "do_syscall_64"): 1}


def test_compare_lists_them_before_the_functions() -> None:
    measured_ = of("instructions", base=entry(1), new=entry(0))
    (point,) = instructions.compare(measured_, Options("base")).points
    first, second, *functions = point.rows
    assert (first.name, first.mark, first.section) == ("rdtsc (do_syscall_64)", "*", instructions.OF_COSTLY)
    assert (second.name, second.mark) == ("lock (fget)", "") and not any(row.section for row in functions)
    assert point.total and point.total.main.mean("base") == 1000
    assert point.known["costly"][0] == {
        "instruction": "rdtsc",
        "beyond": 15.667,
        "functions": ["do_syscall_64"],
        "cells": {"base": {"executed_per_op": 1.0}, "new": {"executed_per_op": 0.0}},
    }


def test_an_rdtsc_that_goes_is_the_first_finding() -> None:
    measured_ = of("instructions", base=entry(1), new=entry(0))
    (point,) = instructions.compare(measured_, Options("base")).points
    longer = costly.executed(measured_.points[4, 4], "base", ("process",))
    recorded = explain.RecordedPoint(None, None, point, longer)
    (finding,) = explain.explain(recorded).findings
    assert sentence(finding, recorded) == (
        "Better by 1.000 executions per operation, -100%. rdtsc is executed 1.000 times on base and not at "
        "all on new (in do_syscall_64). It takes as long as 17 instructions."
    )


# Judged


def of_work(base: pl.DataFrame, new: pl.DataFrame, *, regression: bool = True) -> Judgement:
    return judged((line(0), [], base), (line(0), [], new), regression=regression)


def test_an_rdtsc_per_system_call_that_goes_explains_an_improvement() -> None:
    found = of_work(entry(1), entry(0), regression=False)
    (change,) = found.changes
    assert (found.kind, found.against_the_report) == ("instructions", False)
    assert (change.instruction, change.object, change.before, change.after) == (
        "rdtsc",
        "do_syscall_64",
        1,
        0,
    )
    assert change.functions == {"do_syscall_64": -1} and -0.02 < change.share < -0.01


def test_one_more_that_has_no_published_cost_is_none() -> None:
    swapped = pl.concat([entry(1), counts(("", "entry_SYSCALL_64", 4 * OPERATIONS), instruction="swapgs")])
    assert of_work(entry(1), swapped).kind == "neither"


def functions(**executed: int) -> pl.DataFrame:
    return counts(*(("do_syscall_64", name, times * OPERATIONS) for name, times in executed.items()))


def test_changes_that_cancel_each_other_are_changes() -> None:
    """Two kernels' lseek1: 441 and 448 instructions."""
    before = functions(do_syscall_64=343, syscall_exit_to_user_mode=98)
    after = functions(do_syscall_64=368, syscall_exit_to_user_mode=40, prandom_u32_state=40)
    found = of_work(before, after, regression=False)
    (change,) = found.changes
    assert (found.kind, found.work, found.against_the_report) == ("instructions", (441, 448), False)
    assert change.functions == {
        "syscall_exit_to_user_mode": -58,
        "prandom_u32_state": 40,
        "do_syscall_64": 25,
    }
    assert change.moved == pytest.approx((65 / 441, 58 / 441)) and change.cancels


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"vfs_read": 300, "rw_verify_area": 60}, {"vfs_read": 361}),  # inlined
        ({"vfs_read": 361}, {"vfs_read": 300, "rw_verify_area": 60}),  # and not
        ({"vfs_read": 300, "rw_verify_area": 60}, {"vfs_read": 300, "rw_verify": 60}),  # renamed
    ],
)
def test_code_that_moves_is_no_change(before: dict[str, int], after: dict[str, int]) -> None:
    def of_read(executed: dict[str, int]) -> pl.DataFrame:
        paths = {"vfs_read": "do_syscall_64"}
        rows = [
            (paths.get(name, "do_syscall_64;vfs_read"), name, n * OPERATIONS) for name, n in executed.items()
        ]
        return counts(("", "do_syscall_64", 100 * OPERATIONS), *rows)

    assert of_work(of_read(before), of_read(after)).kind == "neither"


def test_functions_that_vary_as_much_between_boots_of_one_kernel_are_chance() -> None:
    def kind(*boots: Iterable[pl.DataFrame]) -> str:
        base, new = (list(each) for each in boots)
        nothing = pl.DataFrame([], schema=LOCKS)
        lines = touched(*line(0))
        return judgement.judge(
            of("conflicts", base=[lines] * len(base), new=[lines] * len(new)),
            of("locks", base=[nothing] * len(base), new=[nothing] * len(new)),
            of("instructions", base=base, new=new),
            "base",
            "new",
            ReportedClaim(True, 64),
        ).kind

    one, other, third = (functions(read=500 + n, slow=60 - n, fast=n) for n in (0, 40, 50))
    assert kind([one, other], [other, one]) == "neither"
    assert kind([one, other], [third, third]) == "neither"
    assert kind([one, one], [third, third]) == "instructions"


def test_the_reply_names_them() -> None:
    (change,) = of_work(entry(1), entry(0), regression=False).changes
    assert reply._in_short(change) == "Each operation executes rdtsc less often, in do_syscall_64"
    assert reply._sentence(change, "a", "b") == (
        "Executions of rdtsc per operation: 1.000 on a, 0 on b (in do_syscall_64). "
        "Each takes as long as 17 other instructions."
    )
    (both,) = of_work(functions(f=500, g=500), functions(f=400, g=602)).changes
    assert reply._in_short(both) == (
        "Some functions execute more instructions and others fewer, and the sum hardly changes"
    )


# In a machine


def executed_in(folder: Path, workload: str, kernel: str, arch: str) -> dict[tuple[str, str], float]:
    measured(
        workload, "--kernel", kernel, "--arch", arch, "--cpus", "2", "--operations", "100",
        "--probe", "instructions", "-o", folder,
    )  # fmt: skip
    study = bigiron.open_study(folder)
    (record,) = study.records()
    table = study.table(record, "instructions").filter(pl.col("context") == "process")
    found = costly.by_function(table, 200)
    return {which: times for which, times in found.items() if times >= 0.5}  # but for the tick's


def test_a_system_call_swaps_gs_twice_and_reads_the_clock_for_its_next_stack(tmp_path: Path) -> None:
    """6.12 has randomize_kstack_offset on, which reads the time-stamp counter on the way to user mode."""
    assert executed_in(tmp_path / "s", "getppid1", "debian/6.12", "x86_64") == {
        ("swapgs", "entry_SYSCALL_64"): 1,
        ("swapgs", "syscall_return_via_sysret"): 1,
        ("rdtsc", "arch_exit_to_user_mode_prepare.isra.0"): 1,
    }


def test_a_system_call_on_power_reads_the_clock_too(tmp_path: Path) -> None:
    found = executed_in(tmp_path / "s", "getppid1", "debian/6.1", "ppc64le")
    assert found == {("mftb", "system_call_exception"): 1}


def test_a_copy_from_user_memory_on_power_opens_and_closes_it(tmp_path: Path) -> None:
    """arch/powerpc/include/asm/book3s/64/kup.h: AMR is set between two isync, before and after the copy."""
    found = executed_in(tmp_path / "s", "open1", "debian/6.1", "ppc64le")
    of_copy = {name: times for (name, function), times in found.items() if function == "strncpy_from_user"}
    assert of_copy == {"mtspr": 2, "isync": 4}
    # One that an interrupt comes before is executed again.
    assert found["stcx.", "lockref_get"] == pytest.approx(1, abs=0.05)
