"""The recorder's parts that need no QEMU: what it takes an instruction for, and its table of lines."""

import csv
import io
import json
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from pathlib import Path

import msgspec
import pytest
from booted import KERNELS, left_by
from hypothesis import given
from hypothesis import strategies as st

from bigiron import compile, workloads
from bigiron.errors import MachineError
from bigiron.machines.vm import qemu
from bigiron.probes.recording import Recording, read_recording

TOP = Path(__file__).parents[1]
CROSS = "powerpc64le-linux-gnu-"
ARCHS = ("x86_64", "ppc64le", "aarch64")
CC = ("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-iquote", str(TOP / "plugin"))
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def built(name: str, parts: Sequence[str], folder: Path, *options: str) -> Path:
    """A test program of this folder, linked with the parts of the recorder that it tests."""
    sources = [file for file in compile.recorder_files() if file.stem in parts]
    sources.append(TOP / "tests" / f"{name}_test.c")
    objects = [compiled(source, folder.parent / "objects", options) for source in sources]
    subprocess.run([*CC, *options, *SANITIZERS, *objects, "-o", folder / name], check=True)
    return folder / name


def compiled(source: Path, folder: Path, options: Sequence[str]) -> Path:
    """Most parts are in several programs, and compiled once; what has not changed since, by no later run."""
    folder.mkdir(exist_ok=True)
    made = folder / "".join([source.stem, *options, ".o"])
    if not made.exists():
        subprocess.run(["ccache", *CC, *options, *SANITIZERS, "-c", source, "-o", made], check=True)
    return made


# What it is loaded into


@pytest.mark.parametrize(
    ("oldest", "newest", "status"), [(2, 4, 0), (2, 5, 0), (7, 7, 0), (2, 3, 1), (6, 6, 1), (7, 8, 1)]
)
def test_another_plugin_interface_is_refused(oldest: int, newest: int, status: int, tmp_path: Path) -> None:
    """What a version changes is not known before it is tried."""
    program, source = tmp_path / "install", TOP / "tests" / "install_test.c"
    subprocess.run([*CC, "-rdynamic", source, "-o", program], check=True)
    versions = [compile.recorder(), str(oldest), str(newest)]
    done = subprocess.run([program, *versions], capture_output=True, text=True)
    assert done.returncode == status
    assert done.stderr == status * (
        "recorder: knows versions 4, 5 and 7 of QEMU's plugin interface (QEMU 10.0 to 10.2, 11.1), "
        f"not {newest}\n"
    )


@pytest.mark.needs_more
@pytest.mark.parametrize("cpus", [1, 2])
def test_cpus_of_several_threads_are_refused(cpus: int, tmp_path: Path) -> None:
    """Nothing in it is locked. One CPU has one thread: that machine runs until it is ended."""
    machine = [
        "qemu-system-x86_64",
        "-accel",
        "tcg,thread=multi",
        "-smp",
        str(cpus),
        "-nodefaults",
        "-display",
    ]
    with subprocess.Popen(
        [*machine, "none", "-monitor", "stdio", "-plugin", f"{compile.recorder()},out={tmp_path}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as qemu:
        _, complaint = qemu.communicate("quit\n" if cpus == 1 else None)
    refused = "recorder: QEMU runs CPUs in several threads: use -accel tcg,thread=single\n"
    assert (qemu.returncode, complaint) == ((0, "") if cpus == 1 else (1, refused))


# Registers


@pytest.mark.parametrize(
    ("reads", "answers"),
    [
        ("20000 700 0", ["68 0"]),  # until 64 agreed, and one in 4096 after that
        ("20000 700 900", ["20000 0"]),  # which of two is not known
        ("20000 0 0\n5000 700 0", ["20000 0", "5000 0"]),  # there was none
        ("20000 5000 0", ["20000 0"]),  # beyond what is searched
        ("20000 700 0\n9000 701 0", ["68 0", "8457 543"]),  # it was chance: found out within 4096 reads
    ],
)
def test_where_qemu_keeps_the_stack_pointer(reads: str, answers: list[str], tmp_path: Path) -> None:
    program = built("stack_pointer", ["guest", *ARCHS], tmp_path)
    done = subprocess.run([program], input=reads, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == answers


# Instructions


@pytest.fixture(scope="module")
def x86_64(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("arch", ["x86_64"], tmp_path_factory.mktemp("x86_64"), "-DARCH=arch_x86_64")


@pytest.fixture(scope="module")
def ppc64le(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("arch", ["ppc64le"], tmp_path_factory.mktemp("ppc64le"), "-DARCH=arch_ppc64le")


def answers(program: Path, what: str, lines: Iterable[str]) -> list[str]:
    done = subprocess.run([program, what], input="\n".join(lines), capture_output=True, text=True, check=True)
    assert done.stderr == "", "the sanitizer complains"
    return done.stdout.splitlines()


def listed(*options: str | Path, tool: str = "objdump") -> list[tuple[int, str, str]]:
    """What objdump says: each instruction's place, its bytes in hex, and how it is written."""
    command = [tool, "--insn-width=15", *options]
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
    "fill by 1 from rdi": """
        rep stosb
        addr32 rep stosb
    """,
    "fill by 2 from rdi": """
        rep stosw
    """,
    "fill by 4 from rdi": """
        rep stosl
    """,
    "fill by 8 from rdi": """
        rep stosq
    """,
    "string": """
        rep movsb
        rep movsq
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


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("movb $0, (%rdi); movb $0, 8(%rbx); movb $0, 64(%r12); movb $0, some(%rip)", "yes"),
        ("lock xaddl %eax, (%rdi); lock subl $0x200, (%rdi); lock subl $0x200, 8(%r13)", "yes"),
        ("movb $1, (%rdi); movl $0, (%rdi); movb $0, %al; movb %al, (%rdi); xchgb %al, (%rdi)", "no"),
        (
            "xaddl %eax, (%rdi); lock addl $0x200, (%rdi); lock cmpxchgl %edx, (%rdi); subl $0x200, (%rdi)",
            "no",
        ),
    ],
)
def test_what_may_be_an_inlined_unlock(code: str, answer: str, x86_64: Path, tmp_path: Path) -> None:
    (tmp_path / "code.s").write_text(code + "\n")
    subprocess.run(["gcc", "-c", tmp_path / "code.s", "-o", tmp_path / "code.o"], check=True)
    found = disassembled(tmp_path / "code.o")
    said = answers(x86_64, "unlocks", (hex for hex, _ in found))
    assert len(said) == len(code.split(";")) and set(said) == {answer}, found


PREFIX = r"(lock|notrack|bnd|addr32|data16|[c-gs]s|rex\S*|rep[nz]*)"


def expected(text: str) -> set[str]:
    """What an instruction may be taken for, by what objdump writes: another decoder than ours."""
    if fill := re.match(r"rep[nz]* stos\w* +%(\w+),%es:\(", text):
        return {f"fill by {({'al': 1, 'ax': 2, 'eax': 4, 'rax': 8})[fill[1]]} from rdi"}
    if re.match(r"rep[nz]* (movs|lods|scas|cmps).*%[de]s:\(", text):
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


@pytest.mark.slow
def test_another_decoder_agrees_on_a_program(x86_64: Path) -> None:
    program = compile.agent(workloads.find("getppid1"), "gcc")
    assert disagreements(x86_64, set(disassembled(program))) == []


@pytest.mark.slow
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
        ("T asm_exc_page_fault", "exception"),
        ("T asm_sysvec_apic_timer_interrupt", "interrupt"),
        ("T asm_common_interrupt", "interrupt"),
        ("T asm_spurious_interrupt", "interrupt"),
        ("T __switch_to_asm", "switch"),
        ("T asm_exc_nmi", "none"),
        ("T asm_exc_double_fault", "none"),
        ("T exc_page_fault", "none"),
        ("T common_interrupt", "none"),
        # Before 5.8
        ("T page_fault", "old exception"),
        ("T apic_timer_interrupt", "old interrupt"),
        ("t common_interrupt", "old interrupt"),
        ("d page_fault", "none"),
        ("T __switch_to", "switched"),
        ("T nmi", "none"),
        # System calls, and what a new task executes first
        ("T entry_SYSCALL_64", "system call"),
        ("t entry_SYSCALL_64_after_hwframe", "none"),
        ("T entry_INT80_compat", "other system call"),
        ("T asm_int80_emulation", "other system call"),
        ("T ret_from_fork", "new task"),
        ("T __do_softirq", "deferred"),
        ("t handle_softirqs", "deferred"),
        ("t handle_softirqs.cold", "none"),
        ("T ret_from_fork_asm", "new task"),
        ("T do_IRQ", "none"),
    ],
)
def test_where_the_context_changes(symbol: str, kind: str, x86_64: Path) -> None:
    assert answers(x86_64, "symbols", [symbol]) == [kind]


# The same on ppc64le


PPC64LE_KINDS = {
    "mark": "xori 0,0,0",
    "other": """
        ld 3,8(4)
        std 3,-8(31)
        stdu 31,-32(30)
        lwzx 3,4,5
        stdx 3,0,1
        ldarx 9,0,3
        stdcx. 9,0,3
        lvx 0,0,4
        lxv 0,16(4)
        addi 1,1,32
        addi 3,3,1
        ori 0,0,0
        xori 3,3,0
        b 0f
        0: bctr
        beq 0b
        bcl 20,31,.+4
        bl .+4
        sc
    """,
    "stack": """
        stdu 1,-48(1)
        std 0,16(1)
        ld 0,16(1)
        ld 1,0(1)
        stw 3,8(1)
        lbz 3,8(1)
        lwa 3,8(1)
        lfd 0,8(1)
        lxv 0,16(1)
        stxv 0,16(1)
        stdx 3,1,4
    """,
    "call": """
        bl 0f
        nop
        0: bctrl
        blrl
    """,
    "return": "blr",
    "may return": """
        beqlr
        bnelr 7
        bgtlr 1
    """,
    "interrupt return": "rfid",
    "user return": "rfscv",
    "fill by 128 from r4": "dcbz 0,4",
    "fill by 128 from r4+r3": "dcbz 3,4",
}


def assembled(code: str, folder: Path) -> list[tuple[str, str]]:
    """Bytes and text of each instruction for ppc64le."""
    (folder / "code.s").write_text(f".machine power9\n{code}\n")
    subprocess.run([f"{CROSS}gcc", "-c", folder / "code.s", "-o", folder / "code.o"], check=True)
    return [(hex, text) for _, hex, text in listed("-d", folder / "code.o", tool=f"{CROSS}objdump")]


@pytest.mark.parametrize("kind", PPC64LE_KINDS)
def test_what_an_instruction_is_taken_for_on_ppc64le(kind: str, ppc64le: Path, tmp_path: Path) -> None:
    code = assembled(PPC64LE_KINDS[kind], tmp_path)
    code = [insn for insn in code if kind == "other" or insn[1] != "nop"]
    found = answers(ppc64le, "insns", (hex for hex, _ in code))
    assert dict(zip(code, found, strict=True)) == dict.fromkeys(code, kind)


def expected_on_ppc64le(place: int, text: str) -> set[str]:
    """What an instruction may be taken for, by what objdump writes."""
    name, _, operands = text.rstrip("+-").partition(" ")
    name, operands = name.rstrip("+-"), operands.strip()
    if name == "dcbz":
        base, index = operands.split(",")
        return {f"fill by 128 from {index}" + ("" if base == "0" else f"+{base}")}
    if name == "rfid":
        return {"interrupt return"}
    if name == "rfscv":
        return {"user return"}
    if re.fullmatch("b[a-z]*l[+-]?a?", name) and name not in ("bl", "bcl"):
        return {"call", "other"}  # blt is a branch, beql a call
    if name in ("bl", "bcl"):
        target = int(re.findall(r"[0-9a-f]+", operands.split("<")[0])[-1], 16)
        return {"other"} if target == place + 4 else {"call"}
    if re.fullmatch("b[a-z]*(lrl|ctrl)", name):
        return {"call"}
    if name == "blr":
        return {"return"}
    if re.fullmatch("b[a-z]+lr", name):
        return {"may return"}
    if re.search(r"\(r1\)", operands):
        return {"stack"}
    return {"other", "mark", *(["stack"] if re.search(r"\br1\b", operands) else [])}


@pytest.mark.slow
def test_another_decoder_agrees_on_a_program_for_ppc64le(ppc64le: Path) -> None:
    program = compile.agent(workloads.find("getppid1"), f"{CROSS}gcc")
    code = listed("-d", program, tool=f"{CROSS}objdump")
    code = [insn for insn in code if not insn[2].startswith(".long")]
    assert len(code) > 50000
    found = answers(ppc64le, "insns", (hex for _, hex, _ in code))
    wrong = {
        (hex, text, kind)
        for (place, hex, text), kind in zip(code, found, strict=True)
        if kind not in expected_on_ppc64le(place, text)
    }
    assert wrong == set()


@pytest.mark.parametrize(
    ("code", "condition", "answer"),
    [
        ("beqlr", 0x20000000, "yes"),
        ("beqlr", 0xD0000000, "no"),
        ("bnelr 7", 0x00000002, "no"),
        ("bnelr 7", 0xF000000D, "yes"),
        ("bgtlr 1", 0x04000000, "yes"),
    ],
)
def test_whether_a_conditional_return_returns(
    code: str, condition: int, answer: str, ppc64le: Path, tmp_path: Path
) -> None:
    ((hex, _),) = assembled(code, tmp_path)
    assert answers(ppc64le, "returns", [f"{hex}, {condition:x}"]) == [answer]


def test_where_calls_of_a_function_come_by(ppc64le: Path, tmp_path: Path) -> None:
    with_toc = "".join(hex + " " for hex, _ in assembled("addis 2,12,1\naddi 2,2,8", tmp_path))
    linked = "".join(hex + " " for hex, _ in assembled("lis 2,1\naddi 2,2,8", tmp_path))
    without = "".join(hex + " " for hex, _ in assembled("mflr 0\nstd 0,16(1)", tmp_path))
    assert answers(ppc64le, "offsets", [with_toc, linked, without]) == ["8", "8", "0"]


@pytest.mark.parametrize(
    ("callee", "answer"), [("2000", "0x1004 to 0x1008"), ("1ff8", "0x1004 to 0x1008"), ("1ffc", "none")]
)
def test_where_a_function_is_called(callee: str, answer: str, ppc64le: Path, tmp_path: Path) -> None:
    code = " ".join(hex for hex, _ in assembled("nop\nbl .+0xffc\nb .+0xff8", tmp_path))
    assert answers(ppc64le, "calls", [f"{code}, {callee}"]) == [answer]


@pytest.mark.parametrize(
    ("symbol", "kind"),
    [
        ("exc_virt_0x4300_data_access", "exception"),
        ("exc_virt_0x4380_data_access_slb", "exception"),
        ("data_access_common_real", "exception"),
        ("exc_virt_0x4900_decrementer", "interrupt"),
        ("decrementer_common_real", "interrupt"),
        ("exc_virt_0x4500_hardware_interrupt", "interrupt"),
        ("decrementer_common_virt", "none"),
        ("exc_virt_0x4c00_system_call", "none"),
        ("exc_virt_0x3000_system_call_vectored", "none"),
        ("soft_nmi_common", "emergency stack"),
        ("replay_soft_interrupts", "deferred"),
        ("ftrace_caller", "ftrace"),
        ("_switch", "switch"),
        ("__switch_to", "none"),
        ("ret_from_fork", "new task"),
        ("ret_from_fork_scv", "new task"),
        ("ret_from_kernel_thread", "new task"),
        # Since 6.5
        ("ret_from_kernel_user_thread", "new task"),
        ("start_kernel_thread", "new task"),
    ],
)
def test_where_the_context_changes_on_ppc64le(symbol: str, kind: str, ppc64le: Path) -> None:
    assert answers(ppc64le, "symbols", [f"T {symbol}"]) == [kind]


@pytest.mark.parametrize("msr_below", [120, 104], ids=["since 5.11", "before"])
@pytest.mark.parametrize(
    ("msr", "owner"),
    [
        ("800000000280f033", "user"),
        ("800000000000d033", "user"),
        ("8000000002009033", "kernel"),
        ("c00000000000f033", "kernel"),  # an address
        ("ffffffffffffffff", "kernel"),
        ("0", "kernel"),
    ],
)
def test_a_stack_shows_whose_it_is_on_ppc64le(msr: str, owner: str, msr_below: int, ppc64le: Path) -> None:
    assert answers(ppc64le, "owners", [f"{msr_below} {msr}"]) == [owner]


# The table of lines


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("lines", ["lines", "sequences", "hash", "insns"], tmp_path_factory.mktemp("lines"))


@dataclass(frozen=True)
class Written:
    """What the tables hold in the end: the shared cache lines, and the numbers beside them."""

    rows: list[dict[str, str]]
    accesses: list[int]
    stack_accesses: list[int]
    lost: int
    peak_kib: int


def written(lines: Path, *commands: str) -> Written:
    done = subprocess.run([lines], input="\n".join(commands), capture_output=True, text=True, check=True)
    return Written(list(csv.DictReader(io.StringIO(done.stdout))), **json.loads(done.stderr))


def test_each_test_is_written_alone(lines: Path) -> None:
    commands = [
        "tables 2 1000000",
        *("add 0 0 10000 1 3 0 1", "add 1 0 10000 2 3 1 0"),  # both, and one writes
        *("add 0 0 20000 1 3 0 1", "add 1 1 20000 2 3 1 0"),  # the other one in an interrupt
        *("add 0 0 30000 1 3 0 1", "add 1 0 30040 2 3 1 0"),  # as a pair
        "test 7",
        "add 1 0 20000 2 3 1 0",  # of the first one's write nothing is left
        *("add 0 0 40000 1 3 0 1", "add 1 0 40000 2 3 0 1", "stack 40000"),
        "test 8",
        *("add 0 0 50000 1 3 2 0", "add 1 0 50000 2 3 3 0"),  # no CPU writes
        *("add 0 0 60000 1 3 4 1", "add 1 0 60000 2 3 0 1"),
        "test 9",
    ]
    done = subprocess.run([lines], input="\n".join(commands), capture_output=True, text=True, check=True)
    rows = {line for line in done.stdout.splitlines() if line.count(",") == 8}
    assert rows == {
        "7,0,process,0x10000,0x1,0,0,1,0xff",
        "7,1,process,0x10000,0x2,0,1,0,0xff",
        "7,0,process,0x30000,0x1,0,0,1,0xff",
        "7,1,process,0x30040,0x2,0,1,0,0xff",
        "9,0,process,0x60000,0x1,0,4,1,0xff",
        "9,1,process,0x60000,0x2,0,0,1,0xff",
    }


PLACE = 0xFFFF888003C5B240
CONTEXTS = ("process", "interrupt", "kthread")
ADDS = st.lists(
    st.tuples(
        st.integers(0, 2),  # table
        st.integers(0, 2),  # context
        st.integers(0, 300).map(PLACE.__add__),  # address
        st.integers(1, 3),  # instruction
        st.integers(0, 4),  # size
        st.integers(0, 9),  # reads
        st.integers(0, 9),  # writes
    ).filter(lambda add: add[5] or add[6]),
    max_size=40,
)


@given(adds=ADDS)
def test_what_was_added_is_written(lines: Path, adds: list[tuple[int, ...]]) -> None:
    found = written(lines, "tables 3 1000000", *commands_of(adds))
    assert by_place(found) == shared_in(adds)
    assert len(found.rows) == len({tuple(row.items()) for row in found.rows})
    assert found.accesses == accesses_in(adds)
    assert found.lost == 0


@given(windows=st.lists(ADDS, max_size=4))
def test_of_a_program_what_is_shared_in_a_window_is_kept(
    lines: Path, windows: list[list[tuple[int, ...]]]
) -> None:
    commands = [command for adds in windows for command in (*commands_of(adds), "window")]
    found = written(lines, "tables 3 1000000", *commands)
    together: dict[tuple[int, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for adds in windows:
        for key, (reads, writes, touched) in shared_in(adds).items():
            sums = together[key]
            sums[:] = sums[0] + reads, sums[1] + writes, sums[2] | touched
    assert by_place(found) == together
    assert found.accesses == accesses_in([add for adds in windows for add in adds])
    assert found.lost == 0


def commands_of(adds: Iterable[tuple[int, ...]]) -> Iterator[str]:
    return (f"add {t} {c} {address:x} {pc:x} {size} {r} {w}" for t, c, address, pc, size, r, w in adds)


def accesses_in(adds: Sequence[tuple[int, ...]]) -> list[int]:
    return [sum(add[5] + add[6] for add in adds if add[1] == c) for c in range(3)]


def place_of(row: dict[str, str]) -> tuple[int, ...]:
    """CPU, context, cache line and instruction."""
    context = CONTEXTS.index(row["context"])
    return int(row["cpu"]), context, int(row["line"], 16), int(row["pc"], 16)


def by_place(found: Written) -> dict[tuple[int, ...], list[int]]:
    return {
        place_of(row): [int(row["reads"]), int(row["writes"]), int(row["bytes"], 16)] for row in found.rows
    }


def shared_in(adds: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], list[int]]:
    """The reads, writes and bytes of each table, context, line and instruction, of shared lines."""
    counts: dict[tuple[int, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    tables, writes_to = defaultdict(set), defaultdict(int)
    for table, context, address, pc, size, reads, writes in adds:
        line, count = address & ~63, counts[table, context, address & ~63, pc]
        bytes_in_line = (1 << (1 << size)) - 1 << (address & 63) & (1 << 64) - 1
        count[:] = count[0] + reads, count[1] + writes, count[2] | bytes_in_line
        tables[line].add(table)
        writes_to[line] += writes

    def is_shared(line: int) -> bool:
        """Alone, or as a pair to whose other line another table came."""
        other = line ^ 64
        if len(tables[line]) > 1 and writes_to[line]:
            return True
        both = tables[line] | tables[other]
        return bool(tables[other]) and len(both) > 1 and writes_to[line] + writes_to[other] > 0

    return {key: count for key, count in counts.items() if is_shared(key[2])}


@given(adds=ADDS)
def test_for_layouts_all_lines_are_written_and_each_access_has_its_bytes(
    lines: Path, adds: list[tuple[int, ...]]
) -> None:
    """The shared cache lines are in one file, the others in another one."""
    commands = "\n".join(["bytes", "tables 3 1000000", *commands_of(adds)])
    done = subprocess.run([lines], input=commands, capture_output=True, text=True, check=True)
    heading, *rows = done.stdout.splitlines()
    apart = rows.index(heading)
    shared, others = (list(csv.DictReader([heading, *part])) for part in (rows[:apart], rows[apart + 1 :]))
    wanted: Counter[tuple[int, ...]] = Counter()
    for table, context, address, pc, size, reads, writes in adds:
        touched = (1 << (1 << size)) - 1 << (address & 63) & (1 << 64) - 1
        wanted[table, context, address & ~63, pc, touched] += reads << 32 | writes
    found = {
        (*place_of(row), int(row["bytes"], 16)): int(row["reads"]) << 32 | int(row["writes"])
        for row in [*shared, *others]
    }  # fmt: skip
    assert (len(shared) + len(others), found) == (len(wanted), wanted)
    assert {key[:4] for key in found if key[:4] in shared_in(adds)} == set(map(place_of, shared))


def test_a_stack_is_left_out_and_counted(lines: Path) -> None:
    adds = [f"add {table} 0 {line:x} 1 3 2 1" for table in (0, 1) for line in (PLACE, PLACE + 64)]
    found = written(lines, "tables 2 1000000", f"stack {PLACE:x}", *adds)
    assert {int(row["line"], 16) for row in found.rows} == {PLACE + 64}
    assert found.stack_accesses == [6, 0, 0]


def test_a_line_of_two_blocks_is_shared_as_a_whole(lines: Path) -> None:
    start = PLACE & ~127
    adds = [
        f"add 0 0 {start:x} 1 3 0 7",
        f"add 1 0 {start + 64:x} 1 3 2 0",
        f"add 1 0 {start + 128:x} 1 3 0 1",
    ]
    found = written(lines, "tables 2 1000000", "line 128", *adds)
    assert {int(row["line"], 16) for row in found.rows} == {start, start + 64}


@pytest.mark.parametrize(
    ("adds", "kept"),
    [
        ([(0, 0, 0, 7), (1, 64, 2, 0)], {0, 64}),  # one writes its line, another reads the line beside it
        ([(0, 0, 7, 0), (1, 64, 2, 0)], set()),  # no CPU writes
        ([(0, 0, 0, 7), (0, 64, 0, 7)], set()),  # one has both
        ([(0, 0, 0, 7), (1, 128, 0, 7)], set()),  # no pair
        ([(0, 64, 0, 7), (1, 128, 0, 7)], set()),  # side by side, and still no pair
        ([(0, 0, 0, 7), (1, 0, 2, 0), (0, 64, 1, 0)], {0, 64}),  # one is shared alone
    ],
)
def test_lines_of_a_pair_that_is_shared_are_kept(
    adds: list[tuple[int, int, int, int]], kept: set[int], lines: Path
) -> None:
    start = PLACE & ~127
    commands = (f"add {table} 0 {start + offset:x} 1 3 {r} {w}" for table, offset, r, w in adds)
    found = written(lines, "tables 2 1000000", *commands)
    assert {int(row["line"], 16) - start for row in found.rows} == kept


def test_a_table_grows_and_forgets_nothing(lines: Path) -> None:
    places = {PLACE + 64 * n for n in range(20000)}
    adds = [f"add {table} 0 {line:x} 1 3 0 7" for table in (0, 1) for line in places]
    found = written(lines, "tables 2 64000000", *adds)
    assert {int(row["line"], 16) for row in found.rows} == places
    assert (len(found.rows), found.lost, found.accesses) == (40000, 0, [280000, 0, 0])


def test_what_finds_no_room_is_counted_as_lost(lines: Path) -> None:
    found = written(lines, "tables 1 1000000", f"fill {PLACE:x} 100000")
    assert 50000 < found.lost < 100000
    assert found.accesses == [100000, 0, 0]


def test_a_full_table_still_counts_what_it_has(lines: Path) -> None:
    shared = [f"add {table} 0 {PLACE:x} 1 3 0 7" for table in (0, 1)]
    once = written(lines, "tables 2 1000000", *shared, f"fill {PLACE + 64:x} 100000")
    twice = written(lines, "tables 2 1000000", *shared, f"fill {PLACE + 64:x} 100000", *shared)
    assert [row["writes"] for row in twice.rows] == ["14", "14"]
    assert twice.lost == once.lost > 0


@pytest.mark.slow
def test_memory_is_bounded_whatever_is_touched(lines: Path) -> None:
    """64 CPUs, the recorder's 384 MiB for all of them, and more lines than fit."""
    found = written(lines, f"tables 64 {(384 << 20) // 64}", f"fill {PLACE:x} 250000")
    assert found.lost > 0
    assert found.peak_kib < 700 << 10


# Its sequences of accesses


@pytest.fixture(scope="module")
def open_lines(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int], Path]:
    """The test program by the most sequences that there may be, and how many of them are learnt whole."""

    @cache
    def made(most: int, whole: int) -> Path:
        options = (f"-DMAX_SEQUENCES={most}u", f"-DMAX_LEARNT_WHOLE={whole}u")
        parts = ["open_lines", "sequences", "lines", "hash", "insns"]
        return built("open_lines", parts, tmp_path_factory.mktemp("open-lines"), *options)

    return made


Access = tuple[int, int, int, int, int]  # CPU, address, instruction, chain, whether it writes


def counted(program: Path, operations: Sequence[Sequence[Access]]) -> tuple[Counter[tuple[int, ...]], int]:
    """What is counted by CPU, line, instruction, chain, read or write; how often sequences were forgotten."""
    commands = []
    for operation in operations:
        commands += [
            f"{cpu} {address:x} {pc:x} {chain} {writes}" for cpu, address, pc, chain, writes in operation
        ]
        commands += [f"{cpu} next" for cpu in (0, 1)]
    done = subprocess.run([program], input="\n".join(commands), capture_output=True, text=True, check=True)
    *rows, forgotten = done.stdout.splitlines()
    found: Counter[tuple[int, ...]] = Counter()
    for row in rows:
        cpu, line, pc, chain, _, reads, writes = row.split()
        key = (int(cpu), int(line, 16), int(pc, 16), int(chain))
        found[*key, 0] += int(reads)
        found[*key, 1] += int(writes)
    return +found, int(forgotten)


def truth(operations: Sequence[Sequence[Access]]) -> Counter[tuple[int, ...]]:
    return Counter(
        (cpu, address & ~63, pc, chain, writes)
        for operation in operations
        for cpu, address, pc, chain, writes in operation
    )


def line_places() -> st.SearchStrategy[int]:
    """In several lines, of which three share a place among those that are open."""
    places = st.sampled_from([PLACE + 64 * n for n in (0, 1, 2, 2584, 6765)])
    return st.tuples(places, st.sampled_from([0, 8, 56])).map(sum)


def accesses() -> st.SearchStrategy[Access]:
    pcs = st.sampled_from([PLACE + 4 * n for n in range(4)])
    return st.tuples(st.integers(0, 1), line_places(), pcs, st.integers(1, 2), st.integers(0, 1))


@pytest.mark.slow
@given(
    kinds=st.lists(st.lists(accesses(), max_size=30), min_size=1, max_size=3),
    order=st.lists(st.integers(0, 2), max_size=40),
    limits=st.sampled_from([(1 << 20, 16), (12, 4)]),
)
def test_every_access_of_a_sequence_is_counted(
    open_lines: Callable[[int, int], Path],
    kinds: list[list[Access]],
    order: list[int],
    limits: tuple[int, int],
) -> None:
    """Operations of a few kinds, which repeat in any order, as a kernel's do."""
    operations = [kinds[kind % len(kinds)] for kind in order]
    found, _ = counted(open_lines(*limits), operations)
    assert found == truth(operations)


@pytest.mark.slow
def test_sequences_that_do_not_fit_are_forgotten_and_counted(open_lines: Callable[[int, int], Path]) -> None:
    operations = [[(0, PLACE, PLACE + 4 * n, 1, 0), (1, PLACE, PLACE, n, 1)] for n in range(1, 40)]
    found, forgotten = counted(open_lines(12, 4), operations)
    assert found == truth(operations)
    assert forgotten > 1


@pytest.mark.slow
def test_the_bytes_of_a_sequence_are_those_of_its_accesses(open_lines: Callable[[int, int], Path]) -> None:
    commands = [f"0 {PLACE + byte:x} {PLACE:x} 1 0" for byte in (0, 8, 56)] * 3
    program = open_lines(1 << 20, 16)
    done = subprocess.run([program], input="\n".join(commands), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"0 {PLACE:x} {PLACE:x} 1 ff0000000000ffff 9 0", "0"]


# Its hash table


@pytest.fixture(scope="module")
def hash_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("hash", ["hash"], tmp_path_factory.mktemp("hash"))


@dataclass(frozen=True)
class Held:
    """What was found, and what the table holds in the end: a sum by key."""

    found: list[str]
    sums: dict[tuple[int, ...], int]
    used: int
    lost: int
    bytes: int


def held(hash_table: Path, *commands: str) -> Held:
    done = subprocess.run([hash_table], input="\n".join(commands), capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    nr_found = sum(command.startswith("find") for command in commands)
    found, entries = lines[:nr_found], [line.split() for line in lines[nr_found:]]
    sums = {tuple(int(word, 16) for word in key): int(total) for *key, total in entries}
    assert len(sums) == len(entries), "a key is there twice"
    return Held(found, sums, **json.loads(done.stderr))


WORD = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
KEYS = st.integers(1, 3).flatmap(
    lambda words: st.lists(st.tuples(WORD.filter(bool), *[WORD] * (words - 1)), min_size=1, max_size=30)
)


@given(keys=KEYS)
def test_an_entry_is_found_by_its_whole_key(hash_table: Path, keys: list[tuple[int, ...]]) -> None:
    sums: dict[tuple[int, ...], int] = defaultdict(int)
    commands = [f"table {len(keys[0])} 1000000"]
    for weight, key in enumerate(keys, 1):
        sums[key] += weight
        commands.append(f"add {weight} " + " ".join(f"{word:x}" for word in key))
    absent = [key for key in ((*key[:-1], key[-1] ^ 1) for key in keys) if key not in sums]
    commands += ["find " + " ".join(f"{word:x}" for word in key) for key in (*keys, *absent)]
    after = held(hash_table, *commands)
    assert after.found == [*(str(sums[key]) for key in keys), *["none"] * len(absent)]
    assert (after.sums, after.used, after.lost) == (dict(sums), len(sums), 0)


def test_a_hash_table_grows_and_forgets_nothing(hash_table: Path) -> None:
    after = held(hash_table, "table 1 64000000", "fill 100000 1", "fill 100000 1", "find 186a0", "find 186a1")
    assert (after.found, after.used, after.lost) == (["2", "none"], 100000, 0)
    assert after.sums == {(key,): 2 for key in range(1, 100001)}


def key_hash(word: int) -> int:
    """hash.h, of a key of one word."""
    total = (word ^ word >> 32) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    return total ^ total >> 32


def test_what_lies_past_the_end_of_a_table_that_grows_is_found(hash_table: Path) -> None:
    """4096 places first: of 200 keys that belong to its last ones, most lie at its beginning."""
    keys = list(islice((key for key in count(1 << 32) if key_hash(key) % 4096 >= 4093), 200))
    adds = [f"add {weight} {key:x}" for weight, key in enumerate(keys, 1)]
    finds = [f"find {key:x}" for key in keys]
    after = held(hash_table, "table 1 64000000", *adds, *finds, "fill 10000 1", *finds, *adds)
    assert after.found == [str(weight) for weight in range(1, 201)] * 2
    assert after.used == len(after.sums) == 10200
    assert after.bytes > 2 * 4096 * 16, "it grew twice"
    assert all(after.sums[(key,)] == 2 * weight for weight, key in enumerate(keys, 1))


def test_a_hash_table_is_bounded_and_counts_what_it_has_no_room_for(hash_table: Path) -> None:
    after = held(hash_table, "table 1 1000000", "fill 100000 1", "add 7 186a0", "add 5 1", "add 3 200000")
    assert after.bytes <= 1000000
    assert after.used > 1000000 / 3 / 16 * 0.7
    # What is there is counted in a full table too, and nothing is counted twice or not at all.
    assert after.sums[(1,)] == 6
    assert sum(after.sums.values()) + after.lost == 100000 + 7 + 5 + 3


def test_a_hash_table_without_entries(hash_table: Path) -> None:
    assert held(hash_table, "table 2 1000000", "find 1 2") == Held(["none"], {}, 0, 0, 0)


def test_a_key_that_looks_like_none_is_lost(hash_table: Path) -> None:
    after = held(hash_table, "table 2 1000000", "add 4 0 1", "find 0 1")
    assert (after.found, after.sums, after.lost) == (["none"], {}, 4)


# Instructions that fill memory


FILLS_PARTS = (
    *("accesses", "cpu", "guest", "lines", "open_lines", "sequences", "hash", "insns", "request", "pages"),
    *("chains", "traces", "trace_events", "sharing_query", "locks", "exclusives", *ARCHS),
)


@pytest.fixture(scope="module")
def fills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("fills", FILLS_PARTS, tmp_path_factory.mktemp("fills"))


@dataclass
class Accessed:
    """What a CPU did to a line."""

    reads: int = 0
    writes: int = 0
    bytes: int = 0  # a bit each


def accessed(fills: Path, *commands: str, line_bytes: int = 64) -> dict[tuple[int, int], Accessed]:
    """By CPU and the number of 64 bytes from FILLED on."""
    done = subprocess.run(
        [fills, str(line_bytes)], input="\n".join(commands), capture_output=True, text=True, check=True
    )
    found: dict[tuple[int, int], Accessed] = defaultdict(Accessed)
    for cpu, line, touched, reads, writes in map(str.split, done.stdout.splitlines()):
        one = found[int(cpu), (int(line, 16) - FILLED) // 64]
        one.reads, one.writes = one.reads + int(reads), one.writes + int(writes)
        one.bytes |= int(touched, 16)
    return dict(found)


def line_accesses(fills: Path, *commands: str) -> dict[tuple[int, int], int]:
    """How often each CPU accessed each line, by its number from FILLED on."""
    return {where: one.reads + one.writes for where, one in accessed(fills, *commands).items()}


FILLED = 0xFFFF888003C5B000


def begin(where: str, from_line: int, to_line: int, site: int = 0) -> str:
    return f"{where} begin {site} {FILLED + 64 * from_line:x} {64 * (to_line - from_line)}"


def test_a_fill_that_goes_on_is_counted_once(fills: Path) -> None:
    one = "0 0 0"
    writes = line_accesses(fills, begin(one, 0, 4), begin(one, 1, 4), begin(one, 3, 4), f"{one} end")
    assert writes == {(0, line): 1 for line in range(4)}


def test_a_shorter_fill_up_to_the_same_end_is_another(fills: Path) -> None:
    one = "0 0 0"
    writes = line_accesses(fills, begin(one, 0, 4), f"{one} end", begin(one, 2, 4), f"{one} end")
    assert writes == {(0, 0): 1, (0, 1): 1, (0, 2): 2, (0, 3): 2}


@pytest.mark.parametrize(
    "other",
    ["1 0 0", "0 1 0", "0 0 1"],
    ids=["on another CPU", "of another task", "in an interrupt"],
)
def test_a_fill_that_another_interrupts_is_counted_once(other: str, fills: Path) -> None:
    one = "0 0 0"
    commands = [begin(one, 0, 4), begin(other, 8, 12), begin(one, 2, 4), begin(other, 10, 12)]
    writes = line_accesses(fills, *commands, f"{other} end", f"{one} end")
    on = int(other[0])
    assert writes == {(0, line): 1 for line in range(4)} | {(on, line): 1 for line in range(8, 12)}


FILLS = st.lists(
    st.tuples(
        st.integers(0, 1),  # instruction
        st.integers(0, 20),  # first line
        st.lists(st.integers(1, 3), min_size=1, max_size=4),  # lines of each part
    ),
    max_size=4,
)
PLACES = [f"{cpu} {stack} {level}" for cpu in (0, 1) for stack in (0, 1) for level in (0, 1)]


@given(tasks=st.lists(FILLS, min_size=8, max_size=8), time_slices=st.lists(st.integers(0, 7), max_size=80))
def test_however_fills_interrupt_each_other_each_is_counted_once(
    fills: Path, tasks: list[list[tuple[int, int, list[int]]]], time_slices: list[int]
) -> None:
    expected: dict[tuple[int, int], int] = defaultdict(int)
    programs: list[list[str]] = []
    for where, task in zip(PLACES, tasks, strict=True):
        program = []
        for site, first, parts in task:
            end = first + sum(parts)
            program += [begin(where, first + sum(parts[:n]), end, site) for n in range(len(parts))]
            program.append(f"{where} end")
            for line in range(first, end):
                expected[int(where[0]), line] += 1
        programs.append(program[::-1])
    order = [turn for turn in time_slices if programs[turn]]
    commands = [programs[turn].pop() for turn in order if programs[turn]]
    commands += [command for program in programs for command in reversed(program)]
    assert line_accesses(fills, *commands) == dict(expected)


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all that is known of sequences is forgotten again and again."""
    few = ("-DMAX_SEQUENCES=6u", "-DMAX_LEARNT_WHOLE=4u")
    return built("fills", FILLS_PARTS, tmp_path_factory.mktemp("forgetful"), *few)


def test_a_copy_is_one_read_and_one_write_a_line(fills: Path, forgetful: Path) -> None:
    """Byte by byte in the emulator."""
    copies = [f"0 0 0 copy 0 {FILLED + 32:x} 128", f"1 0 0 copy 1 {FILLED:x} 64"]
    once = [(0, 0), (0, 1), (0, 2), (1, 0)]
    for program in (fills, forgetful):
        found = line_accesses(program, *copies)
        assert found == {(cpu, line + to): 1 for cpu, line in once for to in (0, 65536 // 64)}


@dataclass(frozen=True)
class Run:
    """Accesses of one instruction, one after the other."""

    cpu: int
    what: str
    site: int
    start: int  # bytes from FILLED on
    parts: list[tuple[int, int, int]]  # the size's shift; 1 upwards, -1 downwards; how many


RUNS = st.builds(
    Run,
    cpu=st.integers(0, 1),
    what=st.sampled_from(["load", "store", "load", "store", "read", "write"]),
    site=st.integers(0, 1),
    start=st.integers(6400, 6660),
    parts=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([1, 1, -1]), st.sampled_from([1, 2, 9, 70])),
        min_size=1,
        max_size=3,
    ),
)


def elements(run: Run) -> Iterator[tuple[int, int]]:
    """Where each access begins, and its size's shift."""
    start = run.start
    for shift, step, times in run.parts:
        end = start + step * (times << shift)
        yield from ((at, shift) for at in range(start, end, step << shift))
        start = end


def touched(at: int, shift: int) -> dict[int, int]:
    """The lines of an access, and its bytes of each."""
    lines: dict[int, int] = {}
    for byte in range(at, at + (1 << shift)):
        lines[byte // 64] = lines.get(byte // 64, 0) | 1 << byte % 64
    return lines


def test_an_access_to_two_lines_is_one_to_each(fills: Path, forgetful: Path) -> None:
    """As a processor splits it."""
    crosses, does_not = f"{FILLED + 60:x} 3", f"{FILLED + 56:x} 3"
    for what in ("read", "write"):
        reads, writes = (3, 0) if what == "read" else (0, 3)
        commands = [f"0 0 0 {what} 0 {crosses}", f"1 0 0 {what} 0 {does_not}"] * 3
        for program in (fills, forgetful):
            assert accessed(program, *commands) == {
                (0, 0): Accessed(reads, writes, 0xF << 60),
                (0, 1): Accessed(reads, writes, 0xF),
                (1, 0): Accessed(reads, writes, 0xFF << 56),
            }


@pytest.mark.parametrize("what", ["read", "write"])
def test_an_access_to_both_halves_of_a_line_is_one(what: str, fills: Path) -> None:
    """On POWER a line has 128 bytes."""

    def found(offset: int) -> list[tuple[int, int]]:
        halves = accessed(fills, f"0 0 0 {what} 0 {FILLED + offset:x} 3", line_bytes=128)
        return [(one.reads + one.writes, one.bytes) for _, one in sorted(halves.items())]

    assert found(60) == [(1, 0xF << 60), (0, 0xF)]
    assert found(124) == [(1, 0xF << 60), (1, 0xF)]


@pytest.mark.parametrize("step", [8, -8], ids=["up", "down"])
def test_a_string_s_element_in_two_lines_is_no_access_of_its_own(fills: Path, step: int) -> None:
    commands = [f"0 0 0 store 0 {FILLED + at:x} 3" for at in (52, 60, 68)[:: step // 8]]
    assert accessed(fills, *commands) == {
        (0, 0): Accessed(0, 1, 0xFFF << 52), (0, 1): Accessed(0, 1, 0xFFF),
    }  # fmt: skip
    alone = accessed(fills, f"0 0 0 store 0 {FILLED + 60:x} 3")
    assert alone == {(0, 0): Accessed(0, 1, 0xF << 60), (0, 1): Accessed(0, 1, 0xF)}


@given(runs=st.lists(RUNS, max_size=12), again=st.integers(1, 3))
def test_of_a_string_each_line_is_one_access(
    fills: Path, forgetful: Path, runs: list[Run], again: int
) -> None:
    """Whatever its elements' size and direction, and what other instructions and CPUs do in between."""
    expected: dict[tuple[int, int], Accessed] = defaultdict(Accessed)
    pending: dict[tuple[int, str], tuple[int, int]] = {}  # site and line of a CPU's last load and store
    commands = []
    for run in runs * again:
        for at, shift in elements(run):
            commands.append(f"{run.cpu} 0 0 {run.what} {run.site} {FILLED + at:x} {shift}")
            parts = sorted(touched(at, shift).items())
            if pending.get((run.cpu, run.what)) == (run.site, parts[-1][0]):
                parts.reverse()  # the string goes down
            for line, its_bytes in parts:
                one = expected[run.cpu, line]
                one.bytes |= its_bytes
                if run.what in ("read", "write"):
                    pending.pop((run.cpu, "load"), None)
                    pending.pop((run.cpu, "store"), None)
                elif pending.get((run.cpu, run.what)) == (run.site, line):
                    continue
                else:
                    pending[run.cpu, run.what] = run.site, line
                is_read = run.what in ("load", "read")
                one.reads, one.writes = one.reads + is_read, one.writes + (not is_read)
    for program in (fills, forgetful):
        assert accessed(program, *commands) == dict(expected)


# What sampled operations do, in order


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = ["traces", "trace_events", "cpu", "guest", "lines", "sequences", "hash", "insns", "chains"]
    parts += ["sharing_query", "locks", "request", *ARCHS]
    return built("traces", parts, tmp_path_factory.mktemp("traces"))


HOT, COLD = 0xFFFF888003C5B000, 0xFFFF888003C5C000
TRACED = ("0 operation 0 4", "0 user 20", "0 kernel 10")
ALSO_TOUCHED = f"1 access write 0 1 {HOT:x}"


@dataclass(frozen=True)
class Traced:
    """What the recorder wrote: events of an operation, and what it says of each task."""

    events: list[str]
    tasks: list[dict[str, int]]


def trace_of(traces: Path, commands: Sequence[str], tasks: int, operations: int) -> tuple[str, str]:
    """The table of events, and what is said of each task."""
    done = subprocess.run(
        [traces, str(tasks), str(operations)],
        input="\n".join([*commands, ""]),
        capture_output=True,
        text=True,
        check=True,
    )
    table, _, summary = done.stdout.partition("\n\n")
    return table, summary


def traced(traces: Path, *commands: str, tasks: int = 2) -> Traced:
    """The kind of each event and the instructions before it; every operation is sampled."""
    table, summary = trace_of(traces, commands, tasks, 32)
    events = [
        " ".join(word for word in (row["kind"], row["instructions"], row["lock"]) if word)
        for row in csv.DictReader(io.StringIO(table))
    ]
    return Traced(events, [task for task in json.loads(summary) if task["stack"]])


def test_events_come_with_the_instructions_between_them(traces: Path) -> None:
    """Of a block, which is counted as it begins, those that come later are after what it does."""
    found = traced(
        traces, ALSO_TOUCHED, *TRACED, f"0 access write 4 10 {HOT:x}", f"0 take {COLD:x}", "0 kernel 5",
        f"0 give {COLD:x}", "0 user 7", "0 done 0",
    )  # fmt: skip
    assert found.events == [
        "enter 27",  # and what follows the last: the operation before did as much
        "write 4", "lock 6 _raw_spin_lock", "unlock 5 _raw_spin_lock", "exit 0",
    ]  # fmt: skip
    assert [task["operations"] for task in found.tasks] == [1]


@pytest.mark.parametrize(
    ("how", "kind"), [("read", "read"), ("write", "write"), ("both", "write"), ("locked", "atomic")]
)
def test_what_one_instruction_does_is_one_event(traces: Path, how: str, kind: str) -> None:
    found = traced(traces, ALSO_TOUCHED, *TRACED, f"0 access {how} 9 10 {HOT:x}", "0 user 1", "0 done 0")
    assert found.events == ["enter 21", f"{kind} 9", "exit 1"]


@pytest.mark.parametrize(
    ("how", "kinds"),
    [("read", ["read"] * 2), ("write", ["write"] * 2), ("both", ["write"] * 2), ("locked", ["atomic"] * 2)],
)
def test_an_access_to_two_lines_is_an_event_of_each(traces: Path, how: str, kinds: list[str]) -> None:
    others = [ALSO_TOUCHED, f"1 access write 0 1 {HOT + 64:x}"]
    found = traced(
        traces, *others, *TRACED, f"0 access {how} 9 10 {HOT + 60:x}", "0 user 1", "0 done 0"
    ).events
    assert [event.split()[0] for event in found] == ["enter", *kinds, "exit"]


@pytest.mark.parametrize("copy", [f"0 copy 16 {COLD:x} {HOT + 4:x}", f"0 copy -16 {COLD:x} {HOT + 132:x}"])
def test_a_copy_that_is_not_aligned_touches_one_line_more(traces: Path, copy: str) -> None:
    """Upwards and downwards: each line once."""
    others = [f"1 access write 0 1 {HOT + 64 * line:x}" for line in range(3)]
    found = traced(traces, *others, *TRACED, copy, "0 user 1", "0 done 0").events
    assert [event.split()[0] for event in found] == ["enter", "copy", *["write"] * 3, "exit"]


@pytest.mark.parametrize(
    "others",
    [[], [f"1 access read 0 1 {COLD:x}"], ["1 context 1", ALSO_TOUCHED, f"1 access write 0 1 {COLD:x}"]],
    ids=["one CPU's", "that no CPU writes", "that another CPU's interrupts write"],
)
def test_other_lines_are_left_out_and_their_instructions_are_not(traces: Path, others: list[str]) -> None:
    touched = ["0 access read 2 10 {:x}", "0 access read 5 10 {:x}"]
    accesses = [access.format(COLD) for access in touched]
    found = traced(traces, *others, *TRACED, *accesses, "0 user 1", "0 done 0")
    assert found.events == ["enter 21", "exit 10"]


def test_interrupts_are_no_part_of_an_operation(traces: Path) -> None:
    interrupt = ["0 context 1", "0 kernel 100", f"0 access write 9 10 {HOT:x}", f"0 take {COLD:x}"]
    interrupt += [f"0 give {COLD:x}", "0 enter schedule", "0 context 0"]
    found = traced(traces, ALSO_TOUCHED, *TRACED, *interrupt, "0 kernel 3", "0 user 1", "0 done 0")
    assert found.events == ["enter 21", "exit 13"]


def test_waiting_for_a_lock_is_left_out(traces: Path) -> None:
    """Whatever it calls, until it returns."""
    waiting = ["0 call ffffc90000013f00", "0 enter native_queued_spin_lock_slowpath", "0 kernel 1000"]
    waiting += [f"0 access write 9 10 {HOT:x}", "0 call ffffc90000013e00", "0 kernel 10"]
    waiting += ["0 return ffffc90000013e00", "0 kernel 10", "0 return ffffc90000013f00"]
    found = traced(
        traces, ALSO_TOUCHED, *TRACED, *waiting, f"0 take {COLD:x}", f"0 give {COLD:x}", "0 done 0"
    )
    assert found.events == ["enter 20", "lock 10 _raw_spin_lock", "unlock 0 _raw_spin_lock"]


def test_a_downgrade_is_an_event_and_waking_others_in_it_is_left_out(traces: Path) -> None:
    down = ["0 call ffffc90000013f00", f"0 enter downgrade_write {COLD:x}", "0 kernel 100"]
    found = traced(traces, *TRACED, *down, "0 return ffffc90000013f00", "0 kernel 4", "0 user 1", "0 done 0")
    assert found.events == ["enter 21", "downgrade 10 down_write", "exit 4"]


@pytest.mark.parametrize("function", ["rwsem_wake.isra.0", "__mutex_lock.constprop.0"])
def test_compilers_name_copies_of_functions(traces: Path, function: str) -> None:
    copied = traced(
        traces, *TRACED, "0 call ffffc90000013f00", f"0 enter {function}", "0 kernel 9", "0 user 1"
    )
    other = traced(traces, *TRACED, "0 call ffffc90000013f00", f"0 enter {function}.cold", "0 kernel 9")
    assert (copied.events, other.events) == (["enter 20"], ["enter 20"])


def test_who_sleeps_wakes_and_interrupts(traces: Path) -> None:
    """CPU 0 interrupts those of the mask but itself; what it does to go to sleep is left out."""
    calls = ["0 enter try_to_wake_up ffff888004000000", "0 kernel 2", "0 enter smp_call_function_many_cond 3"]
    calls += ["0 enter smp_call_function_many_cond 1", "0 call ffffc90000013f00", "0 enter schedule"]
    calls += ["0 kernel 500", "0 return ffffc90000013f00", "0 kernel 4", "0 user 1", "0 done 0"]
    assert traced(traces, *TRACED, *calls).events == ["enter 21", "wake 10", "ipi 2", "sleep 0", "exit 4"]


def test_who_yields_does_not_sleep(traces: Path) -> None:
    """sched_yield() ends with a jump to schedule(), or a call of it. The next schedule() may be to sleep."""
    calls = [
        "0 call ffffc90000013f00",
        "0 enter do_sched_yield",
        "0 kernel 20",
        "0 enter schedule",
        "0 kernel 500",
    ]
    sleeps = ["0 return ffffc90000013f00", "0 call ffffc90000013f00", "0 enter schedule", "0 kernel 700"]
    others = ["0 return ffffc90000013f00", "0 kernel 4", "0 user 1", "0 done 0"]
    assert traced(traces, *TRACED, *calls, *sleeps, *others).events == ["enter 21", "sleep 530", "exit 4"]


def test_fills_and_copies_are_one_event_and_touch_each_line_once(traces: Path) -> None:
    fill = [f"0 fill {HOT:x} 128", f"0 fill {HOT:x} 8192"]
    copy = [f"0 copy 16 {COLD:x} {HOT:x}", "0 user 1", "0 done 0"]
    others = [ALSO_TOUCHED, f"1 access write 0 1 {COLD:x}", f"1 access write 0 1 {HOT + 64:x}"]
    found = traced(traces, *others, *TRACED, *fill, *copy)
    assert [event.split()[0] for event in found.events] == [
        "enter", "fill", "write", "write", "fill", "read", "copy", "write", "write", "exit",
    ]  # fmt: skip


def test_fills_of_a_line_each_are_one(traces: Path) -> None:
    """A page's are new memory, and no write of a line that others have."""
    some = [f"0 zero {HOT + 64 * line:x}" for line in (0, 1, 4)]
    page = [word for line in range(64) for word in (f"0 zero {COLD + 64 * line:x}", "0 kernel 3")]
    lines = [HOT, *(COLD + 64 * line for line in range(64))]
    others = [f"{cpu} access write 0 1 {line:x}" for cpu in (0, 1) for line in lines]
    found = traced(traces, *others, *TRACED, *some, *page, "0 user 1", "0 done 0")
    assert found.events == ["enter 21", "fill 10", "write 0", "fill 0", "fill 186", "exit 6"]
    table, _ = trace_of(traces, [*TRACED, *some, *page, "0 user 1", "0 done 0"], 2, 32)
    filled = [row["bytes"] for row in csv.DictReader(io.StringIO(table)) if row["kind"] == "fill"]
    assert filled == ["128", "64", "4096"]


TLBI_VAE1IS, TLBI_RVAE1IS, TLBI_VAE1 = 0xD5088320, 0xD5088220, 0xD5088720
DSB_ISH, DSB_ISHST, DSB_NSH, DMB_ISH = 0xD5033B9F, 0xD5033A9F, 0xD503379F, 0xD5033BBF


@pytest.mark.parametrize(
    ("codes", "events"),
    [
        ((DSB_ISHST, TLBI_VAE1IS, TLBI_VAE1IS, DSB_ISH, DSB_ISH), ["tlbi 10"]),
        ((TLBI_RVAE1IS, DSB_ISHST, DSB_NSH, DMB_ISH, DSB_ISH), ["tlbi 10"]),
        ((TLBI_VAE1, DSB_NSH, DSB_ISH), []),
    ],
    ids=["of pages", "of a range", "of this CPU"],
)
def test_a_broadcast_to_tlbs_is_an_event_when_it_is_waited_for(
    codes: tuple[int, ...], events: list[str], traces: Path
) -> None:
    insns = [f"0 insn {code:x}" for code in codes]
    found = traced(traces, *TRACED, *insns, "0 kernel 4", "0 user 1", "0 done 0")
    assert [event for event in found.events if event.startswith("tlbi")] == events
    assert found.events[-1] == ("exit 4" if events else "exit 14")


def test_an_exception_in_the_kernel_is_an_entry(traces: Path) -> None:
    found = traced(
        traces, *TRACED, "0 exception", "0 kernel 5", "0 iret", "0 kernel 1", "0 user 1", "0 done 0"
    )
    assert found.events == ["enter 21", "enter 10", "exit 5", "exit 1"]


def test_the_sample_is_spread(traces: Path) -> None:
    """One of each 16 of 500 operations, and of each task others."""
    commands = [f"{task} operation {task} {number}" for task in (0, 1) for number in range(500)]
    events = [word for command in commands for word in (command, f"{command[0]} kernel 1")]
    table, _ = trace_of(traces, [*events, "0 done 0", "1 done 1"], 2, 500)
    sampled: dict[str, set[int]] = defaultdict(set)
    for row in csv.DictReader(io.StringIO(table)):
        sampled[row["task"]].add(int(row["operation"]))
    for numbers in sampled.values():
        assert len(numbers) in (31, 32)
        assert len({number // 16 for number in numbers}) == len(numbers)
    assert sampled["0"] != sampled["1"]


def test_an_operation_that_finds_no_room_is_left_out_whole_and_counted(traces: Path) -> None:
    """There is room for 384 MiB of events of 32 bytes: with 131072 tasks, for 96 of each."""
    accesses = [f"0 access write 1 10 {HOT + 64 * line:x}" for line in range(100)]
    found = traced(traces, *TRACED, *accesses, "0 user 1", "0 done 0", tasks=1 << 17)
    assert (found.events, found.tasks) == ([], [{**found.tasks[0], "operations": 0, "left_out": 1, "cut": 0}])
    few = traced(traces, *TRACED, *accesses[:3], "0 user 1", "0 done 0", tasks=1 << 17)
    assert (few.events, few.tasks[0]["operations"]) == (["enter 21", "exit 10"], 1)


def test_an_operation_that_is_lost_sight_of_is_cut_and_counted(traces: Path) -> None:
    found = traced(traces, *TRACED, "0 forget", "0 kernel 5", "0 done 0")
    assert (found.events, found.tasks) == ([], [{**found.tasks[0], "operations": 0, "left_out": 0, "cut": 1}])


# On whose behalf a CPU runs


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = [
        "control_flow",
        "contexts",
        "stacks",
        "chains",
        "cpu",
        "guest",
        "hash",
        "request",
        *ARCHS,
    ]
    return built("contexts", parts, tmp_path_factory.mktemp("contexts"))


def contexts_after(contexts: Path, *commands: str, stack_bytes: int = 16384) -> list[str]:
    done = subprocess.run(
        [contexts, str(stack_bytes)],
        input="".join(f"{one}\n" for one in commands),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


STACK, ANOTHER_STACK = 0xFFFFC90000013F00, 0xFFFFC9000002BF00


def test_a_task_s_first_entry_may_be_an_interrupt(contexts: Path) -> None:
    """Its stack is not known yet: it was in user mode when recording began."""
    commands = ["user", "interrupt", f"call {STACK:x}", f"call {STACK - 64:x}", f"return {STACK - 64:x}"]
    assert contexts_after(contexts, *commands, f"return {STACK:x}", "iret", "user", f"call {STACK:x}") == [
        "process", *["interrupt"] * 5, "process", "process", "process",
    ]  # fmt: skip


@pytest.mark.parametrize("size", [8 << 10, 16 << 10, 32 << 10, 64 << 10])
def test_what_is_deep_on_a_large_stack_is_an_operation_s(contexts: Path, size: int) -> None:
    """With CONFIG_KASAN a stack has 32 KiB, on arm64 with large pages 64. Below it is an interrupt's."""
    end = 0xFFFFC90000100000
    calls = [f"call {end + size - 256:x}", f"call {end + 64:x}", f"call {end - 256:x}"]
    assert contexts_after(contexts, "user", *calls, stack_bytes=size) == [*["process"] * 3, "interrupt"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_stacks_are_as_large_as_the_kernel_s_first_one(kernel: str) -> None:
    guest = left_by(kernel)
    ends = [guest.symbols.address(f"__end_init_{what}") for what in ("task", "stack")]  # up to 6.8, and since
    (end,) = filter(None, ends)
    assert guest.stack_bytes == end - guest.address("init_stack")


def test_without_the_size_of_stacks_there_is_no_result(tmp_path: Path) -> None:
    recording = Recording([5], 1, 0, [], {}, {}, {}, 0, [], {})
    (tmp_path / "recording.json").write_bytes(msgspec.json.encode(recording))
    with pytest.raises(MachineError, match="the size of the kernel's stacks"):
        read_recording(tmp_path)


def test_an_interrupt_of_a_page_fault_is_one(contexts: Path) -> None:
    fault = ["user", "exception", f"call {STACK:x}"]
    interrupt = ["interrupt", f"call {STACK - 256:x}", f"return {STACK - 256:x}", "iret"]
    assert contexts_after(contexts, *fault, *interrupt, f"return {STACK:x}") == [
        *["process"] * 3, *["interrupt"] * 3, "process", "process",
    ]  # fmt: skip


def test_an_interrupt_may_end_in_another_task(contexts: Path) -> None:
    one = ["user", "interrupt", f"call {STACK:x}", "switch", f"return {ANOTHER_STACK:x}"]
    other = ["user", f"call {ANOTHER_STACK:x}", "switch"]
    back = [f"return {STACK:x}", "iret", "user", f"call {STACK:x}"]
    assert contexts_after(contexts, *one, *other, *back) == [
        "process", *["interrupt"] * 3, "kthread",
        *["process"] * 3,
        "interrupt", *["process"] * 3,
    ]  # fmt: skip


ENTRY, TRAMPOLINE = STACK - 256, 0xFFFFFE0000003FD8
STACK_TOP = (STACK | 16383) + 1


@pytest.mark.parametrize(
    "end", [TRAMPOLINE, STACK_TOP - 40, STACK_TOP - 56], ids=["trampoline", "top", "padded top"]
)
def test_a_handler_that_returns_to_itself_goes_on(contexts: Path, end: int) -> None:
    """sync_core() is an iret to the next instruction: text_poke_sync() has all CPUs do it in an interrupt.

    That returns to user mode from the trampoline or, without PTI, from the top of the stack.
    """
    handler = [f"call {STACK - 64:x}", f"iret {STACK - 512:x}", f"return {STACK - 64:x}"]
    of_user = ["user", f"interrupt {TRAMPOLINE:x}", f"call {STACK:x}", *handler, f"return {STACK:x}"]
    fault = [f"iret {end:x}", f"exception {TRAMPOLINE:x}", f"call {STACK:x}"]  # before any code in user mode
    assert contexts_after(contexts, *of_user, *fault) == [
        "process", *["interrupt"] * 6, *["process"] * 3,
    ]  # fmt: skip
    handler = [f"call {STACK - 512:x}", f"iret {STACK - 768:x}", f"return {STACK - 512:x}"]
    of_kernel = ["user", f"call {STACK:x}", f"interrupt {ENTRY:x}", *handler]
    assert contexts_after(contexts, *of_kernel, f"iret {ENTRY:x}") == [
        "process", "process", *["interrupt"] * 4, "process",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sp", "ends"),
    [(ENTRY + 8, True), (ENTRY - 48, True), (ENTRY - 176, False), (0xFFFFFE0000010FD8, False)],
    ids=["below an error code", "asm_exc_int3", "a handler's own", "on an NMI's stack"],
)
def test_an_interrupt_ends_by_what_its_entry_saved(contexts: Path, sp: int, ends: bool) -> None:
    commands = ["user", f"call {STACK:x}", f"interrupt {ENTRY:x}", f"iret {sp:x}"]
    assert contexts_after(contexts, *commands)[-1] == ("process" if ends else "interrupt")


def test_before_5_8_interrupts_change_stacks_without_a_call(contexts: Path) -> None:
    handler = [f"call {ANOTHER_STACK:x}", f"return {ANOTHER_STACK:x}"]
    of_user = ["user", f"old {STACK:x}", *handler, f"end {STACK:x}", "user", f"call {STACK:x}"]
    of_kernel = [f"old {STACK - 256:x}", *handler, f"end {STACK - 256:x}", f"call {STACK - 64:x}"]
    assert contexts_after(contexts, *of_user, *of_kernel, f"return {STACK:x}") == [
        "process", *["interrupt"] * 3, *["process"] * 3,
        *["interrupt"] * 3, *["process"] * 3,
    ]  # fmt: skip


def test_before_4_9_tasks_are_switched_between_calls(contexts: Path) -> None:
    one = ["user", f"call {STACK:x}", f"call {ANOTHER_STACK:x}", "switched", f"return {ANOTHER_STACK:x}"]
    assert contexts_after(contexts, *one, f"call {STACK:x}") == [
        "process", "process", "interrupt", "kthread", "kthread", "process",
    ]  # fmt: skip


def test_softirqs_on_a_task_s_stack_are_no_part_of_its_operation(contexts: Path) -> None:
    """On arm64 before 6.1, and with CONFIG_PREEMPT_RT."""
    calls = ["user", f"call {STACK:x}", f"call {STACK - 64:x}", "deferred", f"call {STACK - 128:x}"]
    returns = [f"return {STACK - 128:x}", f"return {STACK - 64:x}", f"call {STACK - 64:x}"]
    assert contexts_after(contexts, *calls, *returns) == [
        *["process"] * 3, *["interrupt"] * 3, *["process"] * 2,
    ]  # fmt: skip


def test_any_stack_may_be_the_first(contexts: Path) -> None:
    """Also one whose place in the table of stacks is the first."""
    for number in range(4096):
        stack = STACK + 16384 * number
        home = stack // 16384 * 0x9E3779B97F4A7C15 % 2**64 >> 32
        if home % 2048 == 0:
            break
    assert contexts_after(contexts, "user", "interrupt", f"call {stack:x}")[-1] == "interrupt"


def test_a_program_s_task_takes_its_stack_to_another_cpu(contexts: Path) -> None:
    """In the middle of a system call or an interrupt: what it is doing is still known there."""
    here = ["program", "owner user", "user", f"call {STACK:x}", "interrupt", f"call {STACK - 64:x}", "switch"]
    there = ["cpu 1", "switch", f"return {STACK - 64:x}", "iret", f"return {STACK:x}", "user"]
    assert contexts_after(contexts, *here, *there)[-5:] == [
        "interrupt", "interrupt", *["process"] * 3,
    ]  # fmt: skip


@pytest.mark.parametrize("recorded", [[], ["program"]], ids=["workload", "program"])
@pytest.mark.parametrize(("owner", "context"), [("user", "process"), ("kernel", "kthread")])
def test_a_stack_shows_whose_it_is(owner: str, context: str, recorded: list[str], contexts: Path) -> None:
    """Of a task that was in the kernel when recording began, or was made since."""
    commands = [*recorded, f"owner {owner}", "user", f"call {STACK:x}", "switch", f"return {ANOTHER_STACK:x}"]
    assert contexts_after(contexts, *commands)[-1] == context
    assert contexts_after(contexts, *commands, "fork")[-1] == context


@pytest.mark.parametrize("recorded", [[], ["program"]], ids=["workload", "program"])
@pytest.mark.parametrize(("owner", "context"), [("user", "process"), ("kernel", "kthread")])
def test_a_new_task_takes_nothing_over_from_the_last_one_on_its_stack(
    owner: str, context: str, recorded: list[str], contexts: Path
) -> None:
    """Which may have ended in an interrupt, killed by a signal."""
    killed = [*recorded, "owner user", "user", "interrupt", f"call {STACK:x}", "switch"]
    other = [f"return {ANOTHER_STACK:x}", f"owner {owner}", "switch", f"return {STACK:x}"]
    assert contexts_after(contexts, *killed, *other, "fork")[-2:] == ["interrupt", context]


def test_a_part_of_a_program_begins_with_nothing_known(contexts: Path) -> None:
    before = ["program", "user", "interrupt", f"call {STACK:x}", "program"]
    assert contexts_after(contexts, *before, f"call {STACK - 64:x}", "user", f"call {STACK:x}")[-4:] == [
        "interrupt", "interrupt", "process", "process",
    ]  # fmt: skip


# The kernel's symbols


@pytest.mark.parametrize(
    ("room", "parts", "bytes_each", "lost", "left"),
    [
        (10_000, 5, 2000, 0, 10_000),
        (10_000, 9, 2048, 5, 0),  # the disk is full in the middle of the fifth
        (1 << 30, 260, 1 << 20, 4, 0),  # no kernel has as many: a program of the guest made them up
    ],
)
def test_symbols_are_kept_whole_or_not_at_all(
    room: int, parts: int, bytes_each: int, lost: int, left: int, tmp_path: Path
) -> None:
    program, file = built("symbols", ["symbols"], tmp_path), tmp_path / "kallsyms"
    sizes = map(str, (room, parts, bytes_each))
    done = subprocess.run([program, file, *sizes], capture_output=True, text=True, check=True)
    assert (done.stdout, file.stat().st_size) == (f"{lost}\n", left)


# What QEMU does for all CPUs


EVERY_CPU = [f"CPU {cpu} leaves" for cpu in range(4)]


@pytest.mark.parametrize(
    ("flags", "after", "is_known"),
    [
        ("ff020000", "ff000000 1", True),  # x86-64, aarch64
        ("ff000000", "ff000000 0", True),  # POWER
        ("ff022000", "ff022000 0", False),  # with -icount
        ("00020000", "20000 0", False),  # of a cluster: not known
    ],
)
@pytest.mark.parametrize("qemu", [["-DHAS_QEMU"], ["-DHAS_QEMU", "-DCPU_EXIT_KICKS"]], ids=["10.0", "10.2"])
def test_qemu_kicks_one_cpu_and_forgets_code_of_one(
    flags: str, after: str, is_known: bool, qemu: list[str], tmp_path: Path
) -> None:
    program = built("many_cpus", ["many_cpus", "leave", "cpu"], tmp_path, "-rdynamic", *qemu)
    done = subprocess.run([program, *[flags] * 4], capture_output=True, text=True, check=True)
    other, own, last = (
        ([EVERY_CPU[cpu] for cpu in cpus] if is_known else EVERY_CPU) for cpus in ((2,), (2, 3), (3, 0))
    )
    lines = [*[after] * 4, *other, "own", *own, "own, of the last CPU", *last]
    lines += ["few leave" if is_known else "many leave", "one leaves"]
    assert done.stdout.splitlines() == lines


def test_without_qemu_s_functions_it_stays_as_it_is(tmp_path: Path) -> None:
    program = built("many_cpus", ["many_cpus", "leave", "cpu"], tmp_path)
    done = subprocess.run([program, "ff020000"], capture_output=True, text=True, check=True)
    assert done.stdout == "ff020000 0\n"


IMAGE = 0xFFFF800081000000


@pytest.mark.parametrize(
    ("blocks", "noticed"),
    [
        # All pages around; again for another page, as they may have been written since.
        ([(IMAGE + 0x1234, "201234"), (IMAGE + 0x1800, "201800"), (IMAGE + 0x80000, "280000")],
         ["201000 200000 1"] * 2),
        ([(IMAGE + 0x3000, "5000")], []),  # a module: its pages lie anywhere
        ([(0x401000, "201000")], []),  # user code
        ([(IMAGE, "-")], []),  # a device
        ([(IMAGE + 0x1FF000, "5ff000")], ["401000 200000 1"]),
        ([(IMAGE, "600000")], []),  # memory ends before
    ],
)  # fmt: skip
def test_qemu_notices_writes_to_many_pages_of_the_kernel_s_code_at_once(
    blocks: list[tuple[int, str]], noticed: list[str], tmp_path: Path
) -> None:
    program = built("code_pages", ["code_pages"], tmp_path, "-rdynamic", "-DHAS_QEMU")
    lines = "".join(f"{address:x} {place}\n" for address, place in blocks)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == noticed


def test_without_qemu_s_functions_it_notices_writes_to_each_page(tmp_path: Path) -> None:
    program = built("code_pages", ["code_pages"], tmp_path)
    done = subprocess.run([program], input=f"{IMAGE:x} 0\n", capture_output=True, text=True, check=True)
    assert done.stdout == ""


# What ends a CPU's time slice


@pytest.fixture(scope="module")
def time_slices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("time_slices")
    return built("time_slices", ["time_slices", "leave"], folder, "-rdynamic", "-DHAS_CPU_EXIT")


def ended(time_slices: Path, *commands: str) -> list[str]:
    done = subprocess.run(
        [time_slices], input="\n".join(commands), capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_time_slice_ends_after_so_many_instructions(time_slices: Path) -> None:
    own = ["block 0 40", "block 0 40", "block 0 40"]  # 120 of 100
    assert ended(time_slices, "set 100 0", *own, "block 1 99", "block 0 99", "block 0 1") == [
        "set 100", "0 after 120", "0 after 199",
    ]  # fmt: skip


def test_each_time_slice_is_its_cpu_s_own(time_slices: Path) -> None:
    """One that ended otherwise, by a PAUSE, does not shorten the next."""
    assert ended(time_slices, "set 100 0", *["block 0 60", "block 1 60"] * 9) == ["set 100"]


def test_a_cpu_that_runs_alone_has_one_time_slice_after_the_other(time_slices: Path) -> None:
    assert ended(time_slices, "set 100 0", *["block 2 50"] * 9) == [
        "set 100", *["2 after 100"] * 4,
    ]  # fmt: skip


def test_no_number_of_instructions_ends_time_slices_that_end_by_time(time_slices: Path) -> None:
    assert ended(time_slices, "block 0 1000000", "set 100 0", "set 0 0", "block 0 1000000") == [
        "set 100", "set 0",
    ]  # fmt: skip


def test_random_time_slices_are_as_long_on_average(time_slices: Path) -> None:
    commands = ["set 1000 7", *["block 0 10"] * 100_000]
    first, *rest = ended(time_slices, *commands)
    assert [first, *rest] == ended(time_slices, *commands)
    lengths = [int(line.removeprefix("0 after ")) for line in rest]
    assert 500 <= min(lengths) < 520 and 1480 < max(lengths) <= 1500
    assert sum(lengths) / len(lengths) == pytest.approx(1000, rel=0.05)


def test_without_qemu_s_function_time_slices_end_by_time(tmp_path: Path) -> None:
    program = built("time_slices", ["time_slices", "leave"], tmp_path)
    assert ended(program, "set 100 0", "block 0 1000") == ["set 0"]


@pytest.mark.parametrize(("options", "can"), [(["-rdynamic"], True), ([], False), (["-static"], False)])
def test_whether_a_qemu_can_end_time_slices_is_known_before(
    options: list[str], can: bool, tmp_path: Path
) -> None:
    (tmp_path / "qemu.c").write_text(
        "void cpu_exit(void *cpu) { (void)cpu; }\nint main(void) { return 0; }\n"
    )
    subprocess.run(["gcc", *options, tmp_path / "qemu.c", "-o", tmp_path / "qemu"], check=True)
    found = qemu.find_qemu(str(tmp_path / "qemu"))
    assert found and found.ends_time_slices is can


def test_a_script_may_start_a_qemu_that_can(tmp_path: Path) -> None:
    (tmp_path / "qemu").write_text('#!/bin/sh\nexec qemu-system-x86_64 "$@"\n')
    (tmp_path / "qemu").chmod(0o755)
    found = qemu.find_qemu(str(tmp_path / "qemu"))
    assert found and found.ends_time_slices
