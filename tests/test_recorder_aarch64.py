"""The recorder's parts that need no QEMU, for aarch64: what it takes instructions and symbols for."""

import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_recorder import answers, built, listed

from bigiron import compile, workloads

CROSS = "aarch64-linux-gnu-"

KINDS = {
    "mark": "mov x28, x28",
    "other": """
        ldr x0, [x1, #8]
        str x0, [x29, #-8]!
        ldp x0, x1, [x2], #16
        stp q0, q1, [x2]
        ldr x0, 0f
        ldr x0, [x1, sp_offset]
        ldxr x0, [x1]
        stxr w0, x1, [x2]
        ldadd x0, x1, [x2]
        cas x0, x1, [x2]
        ldar x0, [x1]
        stlr x0, [x1]
        prfm pldl1keep, [x1]
        add sp, sp, #32
        mov x27, x27
        mov x28, x27
        b 0f
        cbz x0, 0f
        br x16
        braaz x16
        ret x9
        ret x0
        bl .+4
        svc #0
        dc cvau, x0
        dc zva, xzr
        isb
        0: nop
    """.replace("sp_offset", "x3"),
    "stack": """
        stp x29, x30, [sp, #-16]!
        ldp x29, x30, [sp], #16
        str x0, [sp, #8]
        ldrb w0, [sp, x1]
        ldr q0, [sp]
        stlr x0, [sp]
        ldadd x0, x1, [sp]
        ld1 {v0.16b}, [sp]
    """,
    "call": """
        bl 0f
        nop
        0: blr x1
        blr x30
        blraa x1, x2
        blrabz x1
    """,
    "return": """
        ret
        retaa
        retab
    """,
    "unseen": """
        .arch armv8.8-a
        cpyfp [x0]!, [x1]!, x2!
        cpyfm [x0]!, [x1]!, x2!
        cpye [x0]!, [x1]!, x2!
        setp [x0]!, x1!, x2
        sete [x0]!, x1!, x2
    """,
    "interrupt return": """
        eret
        eretaa
    """,
    "fill by 64 from x4": "dc zva, x4",
}


@pytest.fixture(scope="module")
def aarch64(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("arch", ["aarch64"], tmp_path_factory.mktemp("aarch64"), "-DARCH=arch_aarch64")


def assembled(code: str, folder: Path) -> list[tuple[str, str]]:
    """Bytes and text of each instruction."""
    (folder / "code.s").write_text(f".arch armv8.5-a\n{code}\n")
    subprocess.run([f"{CROSS}gcc", "-c", folder / "code.s", "-o", folder / "code.o"], check=True)
    return [
        (in_memory(hex), text) for _, hex, text in listed("-d", folder / "code.o", tool=f"{CROSS}objdump")
    ]


def in_memory(word: str) -> str:
    """Objdump writes an instruction as a number.

    >>> in_memory("aa1c03fc")
    'fc 03 1c aa'
    """
    return bytes.fromhex(word)[::-1].hex(" ")


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_instruction_is_taken_for(kind: str, aarch64: Path, tmp_path: Path) -> None:
    code = assembled(KINDS[kind], tmp_path)
    code = [insn for insn in code if kind == "other" or insn[1] != "nop"]
    found = answers(aarch64, "insns", (hex for hex, _ in code))
    assert dict(zip(code, found, strict=True)) == dict.fromkeys(code, kind)


def expected(place: int, text: str) -> str:
    """What an instruction is taken for, by what objdump writes."""
    name, _, operands = text.partition("\t")
    if name == "bl":
        return "other" if int(operands.split(" ")[0], 16) == place + 4 else "call"
    if name.startswith("blr"):
        return "call"
    if name in ("ret", "retaa", "retab"):
        return "other" if operands else "return"
    if name.startswith("eret"):
        return "interrupt return"
    if name.startswith(("cpy", "set")) and "!" in operands:  # glibc copies with them since 2.41
        return "unseen"
    if name == "dc" and operands.startswith("zva, x") and operands != "zva, xzr":
        return f"fill by 64 from {operands.removeprefix('zva, ')}"
    return "stack" if "[sp" in operands else "other"


@pytest.mark.slow
def test_another_decoder_agrees_on_a_program(aarch64: Path) -> None:
    program = compile.agent(workloads.find("getppid1"), f"{CROSS}gcc")
    code = listed("-d", program, tool=f"{CROSS}objdump")
    code = [insn for insn in code if not insn[2].startswith((".inst", ".word", "udf"))]
    assert len(code) > 50000
    found = answers(aarch64, "insns", (in_memory(hex) for _, hex, _ in code))
    wrong = {
        (hex, text, kind)
        for (place, hex, text), kind in zip(code, found, strict=True)
        if kind not in (expected(place, text), "mark")
    }
    assert wrong == set()


ATOMICS = {
    "yes": """
        ldadd x0, x1, [x2]
        ldaddal w0, w1, [x2]
        stadd x0, [x2]
        ldset x0, x1, [x2]
        ldclrb w0, w1, [x2]
        swpa x0, x1, [x2]
        swph w0, w1, [x2]
        cas x0, x1, [x2]
        casalb w0, w1, [x2]
        casp x0, x1, x2, x3, [x4]
    """,
    "exclusive load": """
        ldxr x0, [x1]
        ldaxr w0, [x1]
        ldxrb w0, [x1]
        ldaxrh w0, [x1]
        ldxp x0, x1, [x2]
        ldaxp w0, w1, [x2]
    """,
    "exclusive store": """
        stxr w0, x1, [x2]
        stlxr w0, w1, [x2]
        stxrb w0, w1, [x2]
        stlxrh w0, w1, [x2]
        stxp w0, x1, x2, [x3]
        stlxp w0, w1, w2, [x3]
    """,
    "no": """
        ldr x0, [x1]
        ldar x0, [x1]
        stlr x0, [x1]
        stlrb w0, [x1]
        ldlar x0, [x1]
        stllr x0, [x1]
        ldapr x0, [x1]
        ldapur x0, [x1]
        stlur x0, [x1]
        ldp x0, x1, [x2]
        stp x0, x1, [x2]
        ldr x0, [x1, x2]
        str q0, [x1]
    """,
}


@pytest.mark.parametrize("answer", ATOMICS)
def test_which_instructions_are_atomic(answer: str, aarch64: Path, tmp_path: Path) -> None:
    code = assembled(f".arch_extension lor\n{ATOMICS[answer]}", tmp_path)
    found = answers(aarch64, "atomics", (hex for hex, _ in code))
    assert dict(zip(code, found, strict=True)) == dict.fromkeys(code, answer)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("stlrb wzr, [x0]", "yes"),
        ("stlrb w0, [x0]", "no"),
        ("strb wzr, [x0]", "no"),
        ("stlr xzr, [x0]", "no"),
    ],
)
def test_which_store_may_release_a_lock(code: str, answer: str, aarch64: Path, tmp_path: Path) -> None:
    ((hex, _),) = assembled(code, tmp_path)
    assert answers(aarch64, "unlocks", [hex]) == [answer]


@pytest.mark.parametrize(
    ("callee", "answer"), [("1ffc", "0x1004 to 0x1008"), ("ffc", "0x1008 to 0x100c"), ("1000", "none")]
)
def test_where_a_function_is_called(callee: str, answer: str, aarch64: Path, tmp_path: Path) -> None:
    code = " ".join(hex for hex, _ in assembled("nop\nbl .+0xff8\nbl .-0xc\nb .-0xc", tmp_path))
    assert answers(aarch64, "calls", [f"{code}, {callee}"]) == [answer]


@pytest.mark.parametrize(
    ("symbol", "kind"),
    [
        ("cpu_switch_to", "switch"),
        ("__switch_to", "none"),
        ("ret_from_fork", "new task"),
        ("el0_svc", "system call"),
        ("el0_svc_compat", "other system call"),
        ("el1h_64_irq", "none"),  # its vector is
        ("ftrace_caller", "ftrace"),
        ("task_mm_cid_work", "deferred"),
        ("__do_softirq", "deferred"),
        ("handle_softirqs", "deferred"),
        ("handle_softirqs.cold", "none"),
    ],
)
def test_where_the_context_changes(symbol: str, kind: str, aarch64: Path) -> None:
    assert answers(aarch64, "symbols", [f"t {symbol}"]) == [kind]


@pytest.mark.parametrize("pc_below", [80, 64], ids=["6.12", "7.2"])
@pytest.mark.parametrize(
    ("pc", "pstate", "owner"),
    [
        ("ffffa0b41234", "20001000", "user"),
        ("8048000", "60000010", "user"),  # of 32 bits
        ("0", "100005", "kernel"),
        ("0", "0", "kernel"),
    ],
)
def test_a_stack_shows_whose_it_is(pc: str, pstate: str, owner: str, pc_below: int, aarch64: Path) -> None:
    words = f"{pc_below} {pc} {pc_below - 8} {pstate}"
    assert answers(aarch64, "owners", [words]) == [owner]


def test_which_vectors_are_entries(aarch64: Path) -> None:
    one = ["exception", "interrupt", "interrupt", *["user interrupt"] * 4]
    places = [4, 5, 6, 9, 10, 13, 14]
    entries = [
        (16 * table + place, kind) for table in range(3) for place, kind in zip(places, one, strict=True)
    ]
    words = [f"{place} {kind}" for place, kind in entries]
    found = answers(aarch64, "vectors", ["vectors", "__bp_harden_el1_vectors", "vectors_end"])
    assert found == [", ".join(words[:7]), ", ".join(words), ""]


# An exclusive load and store


@pytest.fixture(scope="module")
def exclusives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("exclusives", ["exclusives"], tmp_path_factory.mktemp("exclusives"))


EXCLUSIVES = st.tuples(
    st.integers(0, 3),  # CPU
    st.sampled_from(["load", "store"]),
    st.integers(0, 4),  # log2 of bytes
    st.sampled_from([0, 1, 0xFF, 0x100, 1 << 32, (1 << 64) - 1]),
    st.sampled_from([0, 1]),
)


@given(commands=st.lists(EXCLUSIVES, max_size=1000))
def test_an_exclusive_store_that_fails_is_no_write(
    commands: list[tuple[int, str, int, int, int]], exclusives: Path
) -> None:
    """It fails where it finds another value than the load of its CPU did."""
    known: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    expected, lines = [], []
    for cpu, what, shift, low, high in commands:
        value = (low & (1 << (8 << min(shift, 3))) - 1, high if shift == 4 else 0)
        lines.append(f"{cpu} {what} {shift} {low:x} {high:x}\n")
        if what == "load":
            known[cpu] = value
        else:
            expected.append("write" if value == known[cpu] else "failed")
    done = subprocess.run([exclusives], input="".join(lines), capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected
