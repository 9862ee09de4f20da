"""The recorder's parts that need no QEMU: what it takes an instruction for, and its table of lines."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from bigiron import compiled, workloads

TOP = Path(__file__).parents[1]
CC = ("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")


def built(name: str, folder: Path) -> Path:
    """A test program of this folder, linked with the part of the recorder that it tests."""
    sources = [TOP / "tests" / f"{name}_test.c", TOP / "plugin" / f"{name}.c"]
    subprocess.run([*CC, "-fsanitize=undefined", *sources, "-o", folder / name], check=True)
    return folder / name


# Instructions


@pytest.fixture(scope="module")
def x86_64(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("x86_64", tmp_path_factory.mktemp("x86_64"))


def answers(program: Path, what: str, lines: Iterable[str]) -> list[str]:
    done = subprocess.run([program, what], input="\n".join(lines), capture_output=True, text=True, check=True)
    assert done.stderr == "", "the sanitizer complains"
    return done.stdout.splitlines()


def disassembled(binary: Path) -> list[tuple[str, str]]:
    """The instructions of a program or object file: bytes in hex, and as objdump writes them."""
    listing = subprocess.run(
        ["objdump", "-d", "--insn-width=15", binary],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = re.findall(r"^ +[0-9a-f]+:\t([0-9a-f ]+)\t(.*)$", listing.stdout, re.MULTILINE)
    return [(code.strip(), text.split("#")[0].strip()) for code, text in lines]


KINDS = {
    "other": """
        movq %rax, (%rdi)
        movq 8(%rbp), %rax
        movq 8(%r12), %rax
        movq %gs:8(%rsp), %rax
        movq (%rax,%rbx,8), %rax
        lock incl (%rdi)
        lock cmpxchgq %rcx, 8(%rdx)
        lock cmpxchg16b %gs:(%rsi)
        xaddl %eax, (%rdi)
        pushq 8(%rdi)
        popq 8(%rdi)
        incq %gs:0x1234
        movzbl (%rdi), %eax
        bts %rax, (%rdi)
        fxsave (%rdi)
        movsb
        jmp *8(%rdi)
        leaq 8(%rdi), %rax
        nop
        pause
    """,
    "stack": """
        movq %rax, 8(%rsp)
        movq (%rsp), %rax
        movl $1, 0x100(%rsp)
        movq (%rsp,%rcx,8), %rax
        movzbl 7(%rsp), %eax
        lock orl $0, -4(%rsp)
        movups %xmm0, 16(%rsp)
        pushq %rbx
        pushq %r12
        pushq $7
        popq %r12
        pushfq
        popfq
        leave
        btsq $3, 8(%rsp)
    """,
    "string": """
        rep movsb
        rep movsq
        rep stosq
        repne scasb
        repe cmpsb
    """,
    "call": """
        call 0f
        0: call *%rax
        call *%r11
    """,
    "return": """
        ret
        ret $8
    """,
    "call by memory": """
        call *8(%rdi)
        call *0x10(%r12)
        call *(%rsp)
    """,
    "interrupt return": """
        iretq
    """,
    "mark": """
        .byte 0x66, 0x87, 0xc9
    """,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_instruction_is_taken_for(kind: str, x86_64: Path, tmp_path: Path) -> None:
    (tmp_path / "code.s").write_text(KINDS[kind])
    subprocess.run(["gcc", "-c", tmp_path / "code.s", "-o", tmp_path / "code.o"], check=True)
    code = disassembled(tmp_path / "code.o")
    assert len(code) == len(KINDS[kind].split("\n")) - 2
    found = answers(x86_64, "insns", (hex for hex, _ in code))
    assert dict(zip(code, found, strict=True)) == dict.fromkeys(code, kind)


def expected(text: str) -> set[str]:
    """What an instruction may be taken for, by what objdump writes: another decoder than ours."""
    words = [
        word
        for word in text.split()
        if not re.fullmatch(r"lock|notrack|bnd|addr32|data16|cs|ds|es|ss|rex\S*", word)
    ]
    name, operands = words[0], " ".join(words[1:])
    if name.startswith("rep"):
        return {"string"} if re.match(r"movs|stos|lods|scas|cmps", words[1]) else {"other", "return"}
    if name.startswith("call"):
        return {"call by memory"} if "*" in operands and "(" in operands else {"call"}
    if name.startswith(("ret", "lret")):
        return {"return"}
    if name.startswith("iret"):
        return {"interrupt return"}
    if name.startswith(("push", "pop")) and "(" in operands:
        return {"other"}
    if name.startswith(("push", "pop", "leave")) and not name.startswith("popcnt"):
        return {"stack"}
    relative_to_the_stack = re.search(r"\(%rsp", operands) and not re.search(r"%[fg]s:", operands)
    return {"stack"} if relative_to_the_stack else {"other", "mark"}


def test_another_decoder_agrees(x86_64: Path) -> None:
    """On every instruction of a static program but those of AVX, which the kernel's code hardly uses."""
    program = compiled.agent(workloads.find("getppid1"), "gcc")
    code = {
        (hex, text)
        for hex, text in disassembled(program)
        if not re.search(r"\(bad\)|[xyz]mm|%k[0-7]|\bv|\b(xsave|xrstor)", text)
        and hex[:2] not in ("c4", "c5", "62")
    }
    assert len(code) > 20000
    found = answers(x86_64, "insns", (hex for hex, _ in code))
    wrong = [(*insn, kind) for insn, kind in zip(code, found, strict=True) if kind not in expected(insn[1])]
    assert wrong == []


@pytest.mark.parametrize(
    ("symbol", "kind"),
    [
        ("asm_exc_page_fault", "exception"),
        ("asm_sysvec_apic_timer_interrupt", "interrupt"),
        ("asm_common_interrupt", "interrupt"),
        ("asm_spurious_interrupt", "interrupt"),
        ("__switch_to_asm", "switch"),
        ("__switch_to", "none"),
        ("asm_exc_nmi", "none"),
        ("asm_exc_double_fault", "none"),
        ("exc_page_fault", "none"),
    ],
)
def test_where_the_context_changes(symbol: str, kind: str, x86_64: Path) -> None:
    assert answers(x86_64, "symbols", [symbol]) == [kind]
