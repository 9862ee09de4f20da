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


def listed(*options: str | Path) -> list[tuple[int, str, str]]:
    """What objdump says: each instruction's place, its bytes in hex, and how it is written."""
    command = ["objdump", "--insn-width=15", *options]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^ +([0-9a-f]+):\t([0-9a-f ]+)\t(.*)$", listing, re.MULTILINE)
    return [(int(place, 16), hex.strip(), text.split("#")[0].strip()) for place, hex, text in lines]


def disassembled(binary: Path) -> list[tuple[str, str]]:
    """The instructions of a program or object file: bytes in hex, and as objdump writes them."""
    return [(hex, text) for _, hex, text in listed("-d", binary)]


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


PREFIX = r"(lock|notrack|bnd|addr32|data16|[c-gs]s|rex\S*|rep[nz]*)"


def expected(text: str) -> set[str]:
    """What an instruction may be taken for, by what objdump writes: another decoder than ours."""
    if re.match(r"rep[nz]* (movs|stos|lods|scas|cmps).*%[de]s:\(", text):
        return {"string"}
    text = re.sub(rf"^({PREFIX} +)+", "", text)
    name, _, operands = text.partition(" ")
    if name.startswith("call"):
        return {"call by memory"} if "*" in operands and "(" in operands else {"call"}
    if name.startswith("ret"):
        return {"return"}
    if name.startswith("iret"):
        return {"interrupt return"}
    if re.match("(push|pop|leave)(?!cnt)", name):
        return {"other"} if "(" in operands else {"stack"}
    relative_to_the_stack = re.search(r"\(%rsp", operands) and not re.search(r"%[fg]s:", operands)
    return {"stack"} if relative_to_the_stack else {"other", "mark"}


def disagreements(x86_64: Path, code: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Where we and objdump differ; AVX, which the kernel's own code hardly uses, is left out."""
    no_insn = re.compile(rf"\(bad\)|^{PREFIX}$")
    code = [insn for insn in code if not re.match("c4|c5|62", insn[0]) and not no_insn.search(insn[1])]
    assert len(code) > 500
    found = answers(x86_64, "insns", (hex for hex, _ in code))
    return [(*insn, kind) for insn, kind in zip(code, found, strict=True) if kind not in expected(insn[1])]


def test_another_decoder_agrees_on_a_program(x86_64: Path) -> None:
    program = compiled.agent(workloads.find("getppid1"), "gcc")
    assert disagreements(x86_64, set(disassembled(program))) == []


def test_another_decoder_agrees_on_every_opcode(x86_64: Path, tmp_path: Path) -> None:
    """Each with a ModRM byte that asks for 8(%rsp), where it has one."""
    opcodes = [bytes([*escape, opcode]) for escape in ([], [15], [15, 56], [15, 58]) for opcode in range(256)]
    padded = [
        (prefix + opcode + bytes([reg << 3 | 0x44, 0x24, 8])).ljust(32, b"\x90")
        for prefix in (b"", b"\x66", b"\xf3", b"\x48", b"\x41")
        for opcode in opcodes
        for reg in range(8)
        if opcode[0] not in (0x26, 0x2E, 0x36, 0x3E, *range(0x40, 0x50), *range(0x64, 0x68), 0xF0, 0xF2, 0xF3)
    ]
    (tmp_path / "code").write_bytes(b"".join(padded))
    code = {
        (hex, text)
        for place, hex, text in listed("-D", "-b", "binary", "-m", "i386:x86-64", tmp_path / "code")
        if place % 32 == 0
    }
    assert disagreements(x86_64, code) == []


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
