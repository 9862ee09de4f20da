"""`bigiron patch`: images compared by function, series of all kinds, and what is said of counts.

Kernels are two C files that are really built. What stands for the virtual machines writes cells whose counts
an image names, so that all else is what a user runs.
"""

import base64
import doctest
import gzip
import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from email import message_from_bytes
from email.mime.nonmultipart import MIMENonMultipart
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest
import yaml
from conftest import bigiron
from test_bisect import MAIN, MAKEFILE, Tree
from test_bisect import tree as tree  # a fixture
from test_compare import counts
from test_judgement import LOCKS, OPERATIONS, executed, line
from test_layout import WIDGET, accesses_table, fields_table, hot_widget, objects_table, rows_of

from bigiron import kernels, workloads
from bigiron.analysis.layout.outcome import LayoutCounts
from bigiron.analysis.replay.trace import SCHEMA as TRACE
from bigiron.analysis.statistics.estimate import Estimate
from bigiron.commands.regressions import patch as command
from bigiron.errors import MachineError, UserError
from bigiron.judge import differences
from bigiron.judge.change import CountChange
from bigiron.kernels import compiled_files, image_functions
from bigiron.kernels.image_functions import Image
from bigiron.kernels.kernel import Kernel
from bigiron.patch import bench, compared, examine, luck, options, outlook, series
from bigiron.patch.bench import Bench, Subject
from bigiron.patch.examine import Examined, Examiner
from bigiron.probes import ProbeTable
from bigiron.report import patch as report
from bigiron.report.patch import changelog
from bigiron.report.progress import ProgressBar
from bigiron.study.plan import Cell
from bigiron.study.spec import Spec
from bigiron.study.store import Failure, Study, new_record
from bigiron.workloads import Workload

ROOT = Path(__file__).resolve().parent.parent


def test_the_examples() -> None:
    for module in examine, image_functions, changelog, options, series:
        assert doctest.testmod(module).failed == 0


# Images, function by function

CODE = """\
const char banner[] = "Linux version 6.1.0 (me@here)\\n";
char room[8192] = {1};
extern long counted, other;
int say(const char *text, long number);
%(first)s
__attribute__((noinline)) int reads(long n) { return say("reads", counted + n); }
__attribute__((noinline)) int writes(long n) { counted = n; return say("writes", other) + %(more)s; }
int __x64_sys_read(long n) { return reads(n) + 1; }
int __x64_sys_write(long n) { return writes(n) + 2; }
int (*const operations[])(long) = { writes };
void _start(void) { __x64_sys_read(1); __x64_sys_write(1); }
"""
REST = """\
%(data)s
long counted = 1, other = 2;
__attribute__((noinline)) int say(const char *text, long number) { return text[number]; }
"""


def compiled(folder: Path, *, first: str = "", more: str = "0", data: str = "") -> Image:
    """A kernel of two files, linked: `first` and `data` move all functions and variables after them."""
    folder.mkdir()
    for name, text in ("code", CODE % {"first": first, "more": more}), ("rest", REST % {"data": data}):
        (folder / f"{name}.c").write_text(text)
        command = ["gcc", "-O2", "-fno-pie", "-mcmodel=kernel", "-c", f"{name}.c", "-o", f"{name}.o"]
        subprocess.run(command, cwd=folder, check=True)
    link = ["gcc", "-nostdlib", "-static", "-no-pie", "-o", "vmlinux", "code.o", "rest.o"]
    subprocess.run(link, cwd=folder, check=True)
    image = image_functions.read(Kernel("k", "6.1", "", "x86_64", folder / "vmlinux", "0", ""))
    assert image
    return image


def test_moved_code_is_the_same_and_changed_code_is_not(tmp_path: Path) -> None:
    base = compiled(tmp_path / "base")
    moved = compiled(
        tmp_path / "moved",
        first='const char *volatile new = "a string"; int filler(long n) { return say(new, 7 * n); }',
        data="long before[40] = {1};",
    )
    changed = compiled(tmp_path / "changed", more="3")
    assert not image_functions.differences(base, base)
    found = image_functions.differences(base, moved)
    assert (found.changed, found.added, found.removed) == ((), ("filler",), ())
    assert image_functions.differences(moved, base).removed == ("filler",)
    assert image_functions.differences(base, changed).changed == ("writes",)


def test_another_string_or_variable_is_a_change(tmp_path: Path) -> None:
    base = compiled(tmp_path / "base")
    text = compiled(tmp_path / "text", first="#define counted other")
    assert set(image_functions.differences(base, text).changed) == {"reads", "writes"}


def test_boot_code_and_tables_of_functions_may_change_everything(tmp_path: Path) -> None:
    """No workload executes them."""
    declared = "extern long size; int reads(long), writes(long);"
    boot = (
        '__attribute__((section(".init.text"))) int set_up(long n) { return say("set up", n * size) + %d; }'
    )
    table = "int (*const table[])() = { %s };"

    def image(name: str, number: int = 1, of: str = "reads", size: int = 1, more: str = "0") -> Image:
        first = "\n".join([declared, boot % number, table % of])
        data = f'__attribute__((section(".init.data"))) long size = {size};'
        return compiled(tmp_path / name, first=first, data=data, more=more)

    base = image("base")
    for other, everywhere in (
        (image("boot", number=2, more="3"), ("set_up",)),
        (image("table", of="say", more="3"), ("table",)),
        (image("size", size=2, more="3"), ("size",)),
        (image("writes", more="3"), ()),
    ):
        found = image_functions.differences(base, other)
        assert "writes" in found.changed and found.everywhere == everywhere


ENTRY = """\
.pushsection .text
.globl entry_SYSCALL_64
entry_SYSCALL_64:
    swapgs
771: nop; nop; nop
    mov $%(number)d, %%eax
    call say
.size entry_SYSCALL_64, . - entry_SYSCALL_64
.popsection
.pushsection .altinstructions, "a"
    .long 771b - .
    .long 773f - .
    %(flags)s
    .byte 3, 774f - 773f %(padding)s
.popsection
.pushsection .altinstr_replacement, "ax"
773: %(replacement)s
774:
.popsection
"""


@pytest.mark.parametrize("layout", [{}, {"padding": ", 0"}, {"flags": ".long 7"}], ids=["6.1", "5.10", "7.2"])
def test_code_of_the_assembler_and_its_alternatives_are_compared(
    tmp_path: Path, layout: dict[str, str]
) -> None:
    """Entry code has symbols without a type, and alternatives have none."""

    def image(name: str, more: str = "", **other: str | int) -> Image:
        given = {"number": 1, "flags": ".word 7", "padding": "", "replacement": "clac", **layout, **other}
        return compiled(tmp_path / name, first=f"asm({json.dumps(ENTRY % given)});\n{more}")

    base = image("base")
    assert "entry_SYSCALL_64" in base.callers()["say"]
    moved = image("moved", more='int filler(long n) { return say("a string", 7 * n); }')
    found = image_functions.differences(base, moved)
    assert (found.changed, found.added, found.everywhere) == ((), ("filler",), ())
    for other in (
        image("code", number=2),
        image("replacement", replacement="stac"),
        image("feature", flags=f"{layout.get('flags', '.word 7')[:-1]}8"),
    ):
        assert image_functions.differences(base, other).changed == ("entry_SYSCALL_64",)


def test_the_end_of_a_section_is_a_place_wherever_it_is() -> None:
    """The end of all read-only data is rounded up, and lies in no section."""

    def image(end: int) -> Image:
        code = b"\x48\x3d" + end.to_bytes(4, "little")  # cmp $end, %rax
        sections = [image_functions._Section(0x1000, code, len(code), True)]
        return Image(sections, [(0x1000, len(code), "f", True), (end, 0, "__end_rodata", False)])

    assert not image_functions.differences(image(0x9000), image(0xA000))


def test_who_leads_to_a_function(tmp_path: Path) -> None:
    image = compiled(tmp_path / "base")
    distance = image_functions.leads_to(image.callers(), ["say"])
    assert (distance["writes"], distance["__x64_sys_write"]) == (1, 2)
    assert image.pointers_to(["writes", "reads"]) == {"writes": {"operations"}}


def test_what_is_no_image_with_symbols_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "vmlinuz").write_bytes(bytes(8192))
    assert image_functions.read(Kernel("k", "6.1", "", "x86_64", tmp_path / "vmlinuz", "0", "")) is None


def test_what_another_configuration_has_compiled_is_not_built_by_this_one(tmp_path: Path) -> None:
    """Make's notes as Linux 6.1 has them; the vDSO is linked by itself."""
    source, objects = tmp_path / "source", tmp_path / "objects"
    for name in "fs/open", "fs/stale", "vdso/gettime", "fs/generated":
        folder, _, stem = name.partition("/")
        for root in source, objects:
            (root / folder).mkdir(parents=True, exist_ok=True)
        where = objects if stem == "generated" else source
        (where / f"{name}.c").write_text(f"int {stem};\n")
        given = f"{name}.c" if stem == "generated" else f"../source/{name}.c"
        subprocess.run(["gcc", "-g", "-c", "-o", f"{name}.o", given], cwd=objects, check=True)
        note = f"cmd_{name}.o := gcc -c -o {name}.o {given}\n\nsource_{name}.o := {given}\n\n"
        note += f"deps_{name}.o := \\\n    $(wildcard include/config/X) \\\n  ../source/include/{stem}.h \\\n"
        (objects / folder / f".{stem}.o.cmd").write_text(note)
    (objects / "fs/.built-in.a.cmd").write_text("cmd_fs/built-in.a := ar cDPrST fs/built-in.a fs/open.o\n")
    (objects / "vdso/.vdso.so.cmd").write_text("cmd_vdso/vdso.so := ld -o vdso/vdso.so vdso/gettime.o\n")
    made = [f"{name}.{end}" for name, end in (("fs/open", "c"), ("vdso/gettime", "c"), ("include/open", "h"))]
    made += ["include/gettime.h", "include/generated.h"]
    vmlinux = objects / "vmlinux"
    link = ["gcc", "-nostdlib", "-static", "-Wl,-e,0", "-o", vmlinux, objects / "fs/open.o"]
    subprocess.run(link, check=True)
    assert compiled_files.compiled_from(source, objects, vmlinux) == set(made)
    vmlinux.write_bytes(b"no debugging information")
    everything = {*made, "fs/stale.c", "include/stale.h"}
    assert compiled_files.compiled_from(source, objects, vmlinux) == everything


# Series


def refused(*arguments: str | Path) -> str:
    answer = bigiron("patch", *arguments)
    assert (answer.status, answer.out) == (2, ""), answer
    return answer.complaint


def test_ranges_that_hold_no_commits(tree: Tree) -> None:
    first, second = tree.head, tree.commit("second")
    said = refused(tree.folder, f"{second}..{first}")
    assert said == f"{second}..{first}: there is no commit in this range: give the base first, then the topic"
    assert "there is no commit in this range" in refused(tree.folder, f"{first}..{first}")
    tree.git("checkout", "--quiet", "-b", "other", first)
    other = tree.commit("other", fs__open_c="int other;\n")
    said = refused(tree.folder, f"{second}..{other}")
    assert f"give {first[:12]}, where they part, as the base" in said
    assert "has no 'gone^{commit}'" in refused(tree.folder, "gone..main").replace("'gone'", "'gone^{commit}'")
    assert "neither BASE..TOPIC nor a file" in refused(tree.folder, "v6.12")
    assert "is not a git repository" in refused(tree.folder.parent, "a..b")
    assert "give a git tree" in refused()


def test_uncommitted_changes_are_refused_only_where_they_would_be_missed(tree: Tree) -> None:
    first, second = tree.head, tree.commit("second", fs__open_c="int second;\n")
    tree.write("fs/open.c", "int third;\n")
    said = refused(tree.folder, f"{first}..main")
    assert said.endswith(
        "has uncommitted changes (fs/open.c), which are not in main: commit or stash them"
    ), said
    tree.git("checkout", "--quiet", "--force", first)
    tree.write("fs/open.c", "int third;\n")
    assert series.of_range(tree.folder, f"{first}..{second}").topic.id == second


def test_the_commits_of_a_range_are_in_order(tree: Tree) -> None:
    base, made = tree.head, [tree.commit(f"commit {number}") for number in range(3)]
    found = series.of_range(tree.folder, f"{base}..")
    assert ([step.id for step in found.steps], found.topic.subject) == (made, "commit 2")


def test_each_commit_follows_the_base(tree: Tree) -> None:
    """Where the base was merged into the topic, its commits would be the merge's, and reverted before it."""
    fork = tree.head
    tree.git("checkout", "--quiet", "-b", "topic")
    first = tree.commit("t1", fs__topic_c="int t1;\n")
    tree.git("checkout", "--quiet", "main")
    base = tree.commit("up1", fs__open_c="int up1;\n")
    tree.git("checkout", "--quiet", "topic")
    tree.git("merge", "--quiet", "--no-edit", "main")
    tree.commit("t2", fs__topic_c="int t2;\n")
    said = refused(tree.folder, f"{base}..topic", "--each")
    assert f"{first[:12]}, is not on the base but on {fork[:12]}, and the base was merged" in said, said
    found = series.of_range(tree.folder, f"{fork}..topic")
    series.check_each(found, "")
    assert [step.subject for step in found.steps] == ["t1", "Merge branch 'main' into topic", "t2"]


def mbox(tree: Tree, base: str) -> bytes:
    written = subprocess.run(
        ["git", "-C", tree.folder, "format-patch", "--stdout", base], check=True, capture_output=True
    )
    return written.stdout


def test_a_series_of_mails_has_a_step_for_each_patch(tree: Tree, tmp_path: Path) -> None:
    base = tree.head
    tree.commit("fs: One", fs__open_c="int one;\n")
    tree.commit("fs: Übung", fs__open_c="int two;\n")
    (tmp_path / "mails").write_bytes(mbox(tree, base))
    found, folder = series.of_file(tree.folder, tmp_path / "mails", base, tmp_path / "out")
    assert [step.subject for step in found.steps] == ["fs: One", "fs: Übung"]
    assert [len(step.patches) for step in found.steps] == [1, 2]
    assert found.files(found.base, found.topic) == ["fs/open.c"]
    assert folder == tmp_path / "out"
    again, _ = series.of_file(tree.folder, tmp_path / "mails", base, tmp_path / "out")
    assert again == found, "the same mails are the same kernels"


@pytest.mark.parametrize(
    ("header", "subject"),
    [("=?x-foo?q?a?=",) * 2, ("=?utf-8?b?a?=",) * 2, ("[PATCH] =?utf-8?q?fs=3A?= One", "fs: One")],
)
def test_a_patch_whose_subject_cannot_be_decoded(
    header: str, subject: str, tree: Tree, tmp_path: Path
) -> None:
    diff = '--- a/fs/open.c\n+++ b/fs/open.c\n@@ -1 +1,2 @@\n+int x;\n #include "../include/fs.h"\n'
    (tmp_path / "one.patch").write_text(f"Subject: {header}\n\n{diff}")
    found, _ = series.of_file(tree.folder, tmp_path / "one.patch", "", tmp_path / "out")
    assert [step.subject for step in found.steps] == [subject]


def test_a_quilt_series_and_one_plain_patch(tree: Tree, tmp_path: Path) -> None:
    diff = '--- a/fs/open.c\n+++ b/fs/open.c\n@@ -1 +1,2 @@\n+int x;\n #include "../include/fs.h"\n'
    (tmp_path / "one.patch").write_text(f"Count more.\n\n{diff}")
    (tmp_path / "series").write_text("# mine\none.patch -p1\n")
    for file in "series", "one.patch":
        found, _ = series.of_file(tree.folder, tmp_path / file, "", tmp_path / "out")
        assert len(found.steps) == 1 and found.base.id == tree.head
    (tmp_path / "none").write_text("no patch\n")
    assert "none has no patch" in refused(tree.folder, tmp_path / "none")
    (tmp_path / "series").write_text("gone.patch\n")
    assert "gone.patch cannot be read" in refused(tree.folder, tmp_path / "series")


# What is said of counts

WORKLOADS = ("open1", "getppid1", "unlink1")
KERNEL_C = """\
#include "../include/fs.h"
const char counts[] = "%s;";
__attribute__((noinline)) int do_open(void) { return counts[0] + %d; }
__attribute__((noinline)) int do_other(void) { return counts[1]; }
"""
MAKEFILE_O = MAKEFILE.replace("$(CC) -MD", "$(CC) -O1 -MD")


def kernel_c(number: int, **counted: float) -> str:
    """fs/open.c of a kernel: what its image says it counts, and the code of do_open()."""
    return KERNEL_C % (" ".join(f"{name}={value}" for name, value in counted.items()), number)


class Cells(Bench):
    """Writes cells whose counts the kernels' images name, in place of running machines."""

    def _run(
        self,
        study: Study,
        workload: Workload | None,
        is_wanted: Callable[[Cell], bool],
        title: str,
        number: int,
    ) -> Callable[[], None]:
        tried = []
        with study.writing():
            for cell in study.plan():
                if is_wanted(cell) and not study.is_measured(cell):
                    self.ran.append((title, cell.variant.kernel, cell.cpus, cell.repetition))  # type: ignore[attr-defined]
                    record = new_record(cell, "vm", {"memory_mib": 8192})
                    if self.fails(title, cell):  # type: ignore[attr-defined]
                        record.failure = Failure("machine", "it burnt")
                    study.add(record, {} if record.failure else tables(cell, study))
                    tried.append(record)
        return lambda: self._note(title, tried)


def tables(cell: Cell, study: Study) -> dict[str, ProbeTable]:
    """What the image says: accesses to `nr_opens`, and how far those of `by_chance` differ between boots."""
    image = kernels.find(cell.variant.kernel).image.read_bytes()
    found = re.search(rb"open1=(\S+) chance=([^\s;]+)(?: widget=(\S+))?;", image)
    assert found
    is_open = study.spec.workload == "open1"
    accesses = float(found[1]) if is_open else 0.0
    chance = float(found[2]) * (1 + cell.repetition % 2) if is_open else 0.0
    rows = [row for row in line(8, object="old.lock")]
    widget = float(found[3] or 0) if is_open else 0.0
    of_widget = widget, "struct widget.count (tmpfs)", 3
    for times, object, at in (accesses, "nr_opens", 1), (chance, "by_chance", 2), of_widget:
        if times:
            rows += [row | {"line": row["line"] + 64 * at, "address": row["line"] + 64 * at}
                     for row in line(round(times), object=object)]  # fmt: skip
    facts: dict[str, Any] = {
        "operations": [OPERATIONS],
        "lost_accesses": 0,
        "line_bytes": 64,
        "pair_bytes": 128,
    }
    function = "do_open" if is_open else "do_other"
    ran = [executed(("open", function, 900 * OPERATIONS))]
    if is_open and b"do_more" in image:
        ran.append(executed(("open", "do_more", 90 * OPERATIONS)))
    if study.spec.workload == "unlink1":
        ran.append(executed(("tick", "do_tick", 90 * OPERATIONS), context="interrupt"))
    if study.spec.probes == ["layout"]:
        return layout_tables(facts)
    made = {
        "conflicts": counts(*rows),
        "instructions": pl.concat(ran),
        "locks": pl.DataFrame(schema=LOCKS),
        "trace": pl.DataFrame(schema=TRACE),
    }
    return {name: ProbeTable(made[name], facts) for name in study.spec.probes}


def layout_tables(facts: dict[str, Any]) -> dict[str, ProbeTable]:
    """Objects whose place in a cache line decides whether two fields of theirs share it."""
    there = objects_table(88, 8)
    return {
        "layout": ProbeTable(accesses_table(hot_widget(), there), facts),
        "layout_objects": ProbeTable(there),
        "layout_fields": ProbeTable(fields_table(rows_of("widget", WIDGET, 88))),
    }


@dataclass
class Given:
    """A tree of kernels, and what examines them."""

    tree: Tree
    folder: Path
    fails: Callable[[str, Cell], bool] = lambda _title, _cell: False

    def examined(
        self,
        found: series.PatchSeries,
        *,
        each: bool = False,
        mine: Sequence[Subject] = (),
        first: Sequence[str] = WORKLOADS,
    ) -> list[Examined]:
        base = series.build(found, found.base, [], lambda _step: None)
        self.said: list[str] = []
        self.bench = Cells(self.folder / "studies", 3, None, ProgressBar([]))
        self.bench.ran = self.ran = []  # type: ignore[attr-defined]
        self.bench.fails = self.fails  # type: ignore[attr-defined]
        known = [one for one in bench.builtin() if one.name in WORKLOADS]
        subjects = [*mine, *(one for one in known if one.name in first)]
        others = [one for one in known if one.name not in first]
        examiner = Examiner(self.bench, base, subjects, [2, 4, 8], self.said.append, others)
        return command._examined(found, each, base, [], examiner)

    def between(self, base: str, topic: str, *, each: bool = False) -> list[Examined]:
        return self.examined(series.of_range(self.tree.folder, f"{base}..{topic}"), each=each)


def of_tree(tree: Tree, folder: Path) -> Given:
    tree.write("Makefile", MAKEFILE_O)
    tree.commit("base", init__main_c=MAIN, fs__open_c=kernel_c(1, open1=0, chance=0))
    return Given(tree, folder)


@pytest.fixture
def given(tree: Tree, tmp_path: Path) -> Given:
    return of_tree(tree, tmp_path / "out")


def only(steps: Sequence[Examined]) -> Examined:
    (one,) = steps
    return one


@dataclass(frozen=True)
class Counter:
    """A commit with which do_open() counts something, and what was found."""

    given: Given
    base: str
    topic: str
    one: Examined
    bench: Bench
    ran: Sequence[tuple[str, str, int, int]]


@pytest.fixture(scope="module")
def examined_counter(tmp_path_factory: pytest.TempPathFactory) -> Counter:
    """Examined once, as that takes seconds."""
    folder = tmp_path_factory.mktemp("counter")
    with pytest.MonkeyPatch.context() as here:
        here.setenv("BIGIRON_CACHE", str(folder / "cache"))
        given = of_tree(Tree(folder / "linux"), folder / "out")
        base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
        one = only(given.between(base, topic))
        return Counter(given, base, topic, one, given.bench, given.ran)


@pytest.fixture
def counter(examined_counter: Counter, monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Only to be read, but for further commits and what is found in them."""
    monkeypatch.setenv("BIGIRON_CACHE", str(examined_counter.given.folder.parent / "cache"))
    return examined_counter


def test_a_counter_is_found_where_it_is_reached(counter: Counter) -> None:
    one = counter.one
    assert one.functions and one.functions.changed == ("do_open",)
    assert {each.subject.title for each in one.compared} == {"open1", "open1 (threads)"}
    assert {each.name for each in one.not_reached} == {"getppid1", "unlink1"}
    assert [change.object for each in one.worse for change in each.changes] == ["nr_opens"] * 2
    text = report.block(one)
    assert re.search(r"^- nr_opens: 0 -> 4\.00 accesses by f in open1, open1 \(threads\)", text, re.MULTILINE)
    assert "No other change costs or saves 1 % in 3 workloads (A/A control clean)" in " ".join(text.split())
    assert "2 do not reach a changed function" in " ".join(text.split())
    # What is not reached ran once, for its functions; what differs, with all boots, and for the growth.
    assert {boot for title, *_, boot in counter.ran if title.startswith("unlink1")} == {1}
    assert {cpus for _, _, cpus, _ in counter.ran} == {2, 4, 8}


@pytest.mark.slow
def test_the_same_again_runs_nothing_and_a_base_is_kept_for_the_next_patch(counter: Counter) -> None:
    given, first = counter.given, report.block(counter.one)
    assert report.block(only(given.between(counter.base, counter.topic))) == first and given.ran == []
    other = given.tree.commit("again", fs__open_c=kernel_c(3, open1=8, chance=0))
    given.between(counter.base, other)
    assert {kernel for _, kernel, _, _ in given.ran} == {f"g{other[:12]}"}


@pytest.mark.slow
def test_what_the_control_changes_too_is_not_the_patch_s(given: Given) -> None:
    """The base's boots differ as much as the kernels do."""
    given.tree.commit("noisy", fs__open_c=kernel_c(1, open1=0, chance=4))
    base, topic = given.tree.head, given.tree.commit("topic", fs__open_c=kernel_c(2, open1=0, chance=40))
    one = only(given.between(base, topic))
    assert not one.worse, report.block(one)


def test_the_same_images_are_reported_and_nothing_runs(given: Given) -> None:
    base = given.tree.head
    same = "/* why */\n" + kernel_c(1, open1=0, chance=0)
    one = only(given.between(base, given.tree.commit("comment", fs__open_c=same)))
    text = " ".join(report.block(one).split())
    assert "In this configuration the images are the same, so no count can differ" in text and given.ran == []
    unused = given.tree.commit("unused", fs__unused_c="int x;\n")
    text = " ".join(report.block(only(given.between(base, unused))).split())
    assert "Not built by this configuration: fs/unused.c." in text


def test_options_that_changed_lines_need_are_named_where_they_are_off(given: Given, tmp_path: Path) -> None:
    """Of a commit, and of a patch whose hunk does not show the #if around it."""
    config = (
        b"IKCFG_ST" + gzip.compress(b"CONFIG_SMP=y\n# CONFIG_LRU_GEN is not set\n", mtime=0) + b"IKCFG_ED"
    )
    main = f"{MAIN}const unsigned char config[] = {{{','.join(map(str, config))}}};\n"
    lines = [
        "#if defined(CONFIG_LRU_GEN) && !defined(CONFIG_PREEMPT_RT)",
        "int one;",
        "#else",
        "int two;",
        "#endif",
    ]
    far = "int far;\n" * 9
    text = kernel_c(1, open1=0, chance=0) + "\n".join(["#ifdef CONFIG_SMP", far, *lines, "#endif", ""])
    base = given.tree.commit(
        "base", init__main_c=main, fs__open_c=text.replace("int one;", f"{far}int one;\n{far}")
    )
    (tmp_path / "linux.config").write_text("CONFIG_NEW=y\n")
    given.tree.write("fs/Kconfig", "config NEW\n\tbool\n")
    topic = given.tree.commit("more", fs__open_c=text.replace("int one;", f"{far}int one, more;\n{far}"))
    (tmp_path / "mails").write_bytes(mbox(given.tree, base))
    found, _ = series.of_file(given.tree.folder, tmp_path / "mails", base, tmp_path / "out")
    for one in only(given.between(base, topic)), only(given.examined(found)):
        text = " ".join(report.block(one).split())
        assert one.same and text.endswith(
            "Changed lines need CONFIG_LRU_GEN and CONFIG_NEW, which are off (--config sets options)."
        )
    assert found.options == series.of_range(given.tree.folder, f"{base}..{topic}").options == {"NEW"}


def test_options_are_needed_where_the_code_is_compiled_only_with_them() -> None:
    def needed(condition: str, file: str = "fs/open.c") -> set[tuple[str, ...]]:
        diff = f"diff --git a/{file} b/{file}\n{condition}\n-one\n+two\n #endif\n"
        return {tuple(sorted(one)) for one in options.needed(diff, "x86_64")}

    assert needed(" #ifdef CONFIG_KVM") == {("KVM",)}
    assert needed(" #if defined(CONFIG_X86) || defined(CONFIG_ARM64)") == {("ARM64", "X86")}
    assert needed(" #if defined(CONFIG_A) && \\\n \tdefined(CONFIG_B) && \\\n+\tdefined(CONFIG_C)") == {
        ("A",),
        ("B",),
        ("C",),
    }
    assert needed(" # if needed, as CONFIG_LTO_CLANG", "fs/Makefile") == set()
    assert needed(" #ifdef CONFIG_KVM", "arch/arm64/kvm/arm.c") == set(), "it is no part of this kernel"
    same = replace(examined(), same="image", options_off=(("ARM64", "X86"),))
    assert "Changed lines need CONFIG_ARM64 or CONFIG_X86, which is off" in changelog.identical(same)


def test_what_no_workload_reaches_is_said(given: Given) -> None:
    base = given.tree.head
    changed = kernel_c(1, open1=0, chance=0) + "int __x64_sys_new(void) { return do_open(); }\n"
    given.tree.commit("a call", fs__open_c=changed)
    base = given.tree.head
    topic = given.tree.commit(
        "more", fs__open_c=changed.replace("return do_open();", "return do_open() * 3;")
    )
    one = only(given.between(base, topic))
    text = " ".join(report.block(one).split())
    assert "No workload of 3 reaches a changed function: system calls that lead there: new." in text


@pytest.mark.slow
def test_each_commit_has_a_row_and_one_that_does_not_build_is_named(given: Given) -> None:
    base = given.tree.head
    given.tree.commit("fs: Count", fs__open_c=kernel_c(2, open1=4, chance=0))
    given.tree.commit("fs: Break", fs__open_c="int broken\n")
    given.tree.commit("fs: Repair", fs__open_c=kernel_c(3, open1=0, chance=0))
    steps = given.between(base, given.tree.head, each=True)
    assert [bool(one.worse) for one in steps] == [True, False, False]
    assert steps[2].before.subject == "fs: Count", "compared with the last one that builds"
    text = report.as_text(steps)
    assert "does not build" in text and "worse: nr_opens: 0 -> 4.00" in text
    assert "better: nr_opens: 4.00 -> 0" in " ".join(text.split())
    assert [command._status(some) for some in (steps, steps[1:], steps[2:])] == [1, 3, 0]
    page = report.as_html(steps)
    assert page.count("<section>") == 3 and "fs: Break" in page
    with pytest.raises(UserError, match=r"does not build: .*expected"):
        given.between(base, "HEAD~1")


@pytest.mark.slow
def test_mails_are_built_on_their_base(given: Given, tmp_path: Path) -> None:
    base = given.tree.head
    given.tree.commit("fs: Count", fs__open_c=kernel_c(2, open1=4, chance=0))
    (tmp_path / "mails").write_bytes(mbox(given.tree, base))
    found, _ = series.of_file(given.tree.folder, tmp_path / "mails", base, tmp_path / "out")
    assert only(given.examined(found)).worse


def test_every_format_has_what_is_worse(counter: Counter) -> None:
    steps = [counter.one]
    suites = ElementTree.fromstring(report.as_junit(steps)).findall("testsuite")
    assert [suite.get("failures") for suite in suites] == ["1", "1", "0"]
    assert "not ok 1" in report.as_ktap(steps) and "# SKIP no changed function" in report.as_ktap(steps)
    assert "| `nr_opens` | accesses | 4.000 | 0.000 | 0.000 |" in report.as_comment(steps)
    document = json.loads(report.as_json(steps))[0]
    assert document["worse"] and document["functions"]["changed"] == ["do_open"]
    assert document["not_reached"] == ["getppid1", "unlink1"]
    assert 'class="worse">worse</td>' in report.as_html(steps)


def test_a_block_is_short_whatever_changed(counter: Counter) -> None:
    one = counter.one
    many = [
        replace(one.compared[0].changes[0], object=f"struct {'very_' * 20}long_{number}.field", cost=number)
        for number in range(30)
    ]
    crowded = replace(
        one,
        compared=(replace(one.compared[0], changes=tuple(many)),),
        not_compiled=tuple(f"fs/{'x' * 60}{number}.c" for number in range(9)),
    )
    lines = report.block(crowded).splitlines()
    assert len(lines) <= report.LINES and max(map(len, lines)) <= report.WIDTH
    assert "further changes that cost less" in " ".join(lines)


def test_a_kernel_that_does_not_boot_stops_it(counter: Counter) -> None:
    both = [kernels.find(f"g{commit[:12]}") for commit in (counter.base, counter.topic)]
    panics = replace(counter.bench, failed={("open1", bench.variant_name(both[1])): "it panicked"})
    subject = Subject("open1", panics._studies["open1"].spec)
    found = compared.compare(panics, subject, *both, compared.SCREEN, [])
    assert found.failed == f"{both[1].name}: it panicked"


@pytest.mark.slow
def test_a_base_that_does_not_boot_is_no_base_that_reaches_nothing(given: Given) -> None:
    base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
    given.fails = lambda _title, cell: cell.variant.kernel == f"g{base[:12]}"
    with pytest.raises(MachineError, match=rf"g{base[:12]} does not run \w+: it burnt"):
        given.between(base, topic)
    given.fails = lambda title, _cell: title == "open1 (threads)"
    one = only(given.between(base, topic))
    assert [each.failed for each in one.failed] == [f"g{base[:12]}: it burnt"]
    given.fails = lambda title, _cell: title.startswith("open1")
    given.folder = given.folder / "other"
    text = " ".join(report.block(only(given.between(base, topic))).split())
    assert "Nothing" not in text and "2 failed: open1, open1 (threads)" in text


def test_a_kernel_built_again_under_its_name_is_another_one(counter: Counter) -> None:
    assert counter.one.worse
    there = kernels.find(f"g{counter.topic[:12]}")
    subject = Subject("open1", counter.bench._studies["open1"].spec)
    assert f"{there.name}-{there.sha256[:8]}" in {one.name for one in subject.spec.variant}
    rebuilt = replace(there, sha256="0" * 64)
    assert counter.bench.functions(subject, there) and not counter.bench.functions(subject, rebuilt)


@pytest.mark.slow
def test_new_functions_that_only_data_leads_to_run_every_workload(given: Given) -> None:
    base = given.tree.head
    more = "int new(void) { return 3; }\nint (*const table)(void) = new;\n"
    topic = given.tree.commit("add", fs__open_c=kernel_c(1, open1=0, chance=0) + more)
    one = only(given.between(base, topic))
    assert one.functions and (one.functions.of_base, one.functions.added) == ((), ("new",))
    assert {each.subject.name for each in one.compared} == set(WORKLOADS) and not one.not_reached
    assert "only new functions and data differ (new (new)): every workload runs" in given.said
    text = " ".join(report.block(one).split())
    assert "Only data and new functions differ: new." in text
    assert "No change costs or saves 1 % in 3 workloads." in text, "no control ran, so none is clean"


@pytest.mark.slow
def test_a_change_of_boot_code_runs_every_workload(given: Given) -> None:
    boot = '__attribute__((section(".init.text"))) int set_up(void) {{ return {}; }}\n'
    made = [
        given.tree.commit(f"align {bytes}", fs__open_c=kernel_c(1, open1=0, chance=0) + boot.format(bytes))
        for bytes in (32, 64)
    ]
    one = only(given.between(*made))
    assert {each.subject.name for each in one.compared} == set(WORKLOADS) and not one.not_reached
    assert any("set_up (used at boot, or a table of functions) may change any" in text for text in given.said)


@pytest.mark.slow
def test_what_no_workload_reaches_is_said_where_boot_code_changes_too(given: Given) -> None:
    """All subjects run, but none that is only tried as the subjects do not reach the change."""
    more = "int __x64_sys_new(void) {{ return do_open() * {0}; }}\n"
    more += '__attribute__((section(".init.text"))) int set_up(void) {{ return {0}; }}\n'
    text = kernel_c(1, open1=0, chance=0)
    base, topic = (given.tree.commit(f"{n}", fs__open_c=text + more.format(n)) for n in (32, 65))
    one = only(given.examined(series.of_range(given.tree.folder, f"{base}..{topic}"), first=["getppid1"]))
    assert one.functions and one.functions.everywhere == ("set_up",)
    assert ({each.subject.name for each in one.compared}, one.reached) == ({"getppid1"}, 0)
    said = " ".join(report.block(one).split())
    assert "No workload of 3 reaches a changed function: system calls that lead there: new; no change" in said
    assert "1 ran in any case, as set_up (used at boot, or a table of functions) may change any." in said
    document = json.loads(report.as_json([one]))[0]
    assert document["not_reached"] == ["open1", "unlink1"] and document["ran_anyway"] == ["getppid1"]
    assert "# SKIP no changed function" in report.as_ktap([one])


@pytest.mark.slow
def test_a_growth_cell_that_fails_is_no_failure_of_the_kernel(given: Given) -> None:
    base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
    given.fails = lambda _title, cell: cell.cpus == 4
    one = only(given.between(base, topic))
    assert one.worse and not one.grown and not given.bench.failed


def test_as_many_run_at_once_as_their_cpus_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.runner, "default_jobs", lambda spec: 64 // max(spec.cpus))
    idle = Bench(tmp_path, 0, None, ProgressBar([]))
    assert [idle._at_once(cpus) for cpus in (8, 16)] == [8, 4]


def test_a_workload_that_is_asked_for_twice_runs_once() -> None:
    asked = bench.asked(["open1", "open1"], [])
    once = command._each_once([*asked, *bench.builtin()])
    assert [one.title for one in once][:2] == ["open1", "open1 (threads)"]
    assert len({one.title for one in once}) == len(once) and once[0].always


def test_no_workload_replaces_another_one_of_its_name(tree: Tree, tmp_path: Path) -> None:
    """It would run in the other's place, or not at all."""
    testcase = workloads.find("open1").source.read_text()
    files = [tmp_path / "old/test.c", tmp_path / "new/test.c", tmp_path / "new/open1.c"]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text(testcase)
    base, topic = tree.head, tree.commit("second")
    for name, given in ("test", files[:2]), ("open1", files[2:]):
        options = [word for file in given for word in ("--workload-file", file)]
        said = refused(tree.folder, f"{base}..{topic}", *options)
        assert said.startswith(f"two workloads are called {name}: rename a file"), said


def test_a_cover_letter_is_no_patch(tree: Tree, tmp_path: Path) -> None:
    base = tree.head
    tree.commit("fs: One", fs__open_c="int one;\n")
    head = "From 0123 Mon Sep 17 00:00:00 2001\nFrom: A <a@b.c>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\n"
    cover = f"{head}Subject: [PATCH 0/1] All\n\nWhy.\n\n---\nChanges in v2:\n- none\n\n"
    (tmp_path / "mails").write_bytes(cover.encode() + mbox(tree, base))
    found, _ = series.of_file(tree.folder, tmp_path / "mails", base, tmp_path / "out")
    assert [step.subject for step in found.steps] == ["fs: One"]


def test_a_patch_that_only_renames_is_one(tree: Tree, tmp_path: Path) -> None:
    base = tree.head
    tree.git("mv", "fs/open.c", "fs/opened.c")
    tree.commit("fs: Rename")
    (tmp_path / "mails").write_bytes(mbox(tree, base))
    found, _ = series.of_file(tree.folder, tmp_path / "mails", base, tmp_path / "out")
    assert found.files(found.base, found.topic) == ["fs/open.c", "fs/opened.c"]


def test_instructions_of_a_function_are_said_only_beyond_chance(counter: Counter) -> None:
    one = counter.one
    assert all(not each.functions for each in one.compared), "900 on both"
    more = replace(one.compared[0], functions={"do_open": (12.0, 15.0)}, instructions=(3992.0, 3991.0))
    text = " ".join(report.block(replace(one, compared=(more, *one.compared[1:]))).split())
    assert "instructions of do_open: 12.00 -> 15.00 in open1" in text and "3,992" not in text


def test_only_what_differs_in_every_boot_counts_as_a_function_s() -> None:
    def found(new: float) -> compared.Differences:
        counts = SimpleNamespace(functions={"base": [{"f": 10.0}, {"f": 14.0}], "new": [{"f": new}]})
        setup = compared.Setup("base", "new", 8, 8, 8, 8)
        return compared.Differences(setup, counts, None, None)  # type: ignore[arg-type]

    assert compared._functions(found(15.0), ["f"]) == {}
    assert compared._functions(found(30.0), ["f"]) == {"f": (12.0, 30.0)}


def test_a_function_that_only_touches_a_neighbour_is_not_named_for_the_object() -> None:
    at = {"context": "process", "line": 64, "reads": 0}
    table = pl.DataFrame(
        [
            at | {"object": "nr_opens", "function": "f", "writes": 3},
            at | {"object": "beside", "function": "g", "writes": 9},
        ]
    )
    row = SimpleNamespace(halves=(), object="nr_opens", functions=["f", "g"])
    found = differences._functions_of(row, [SimpleNamespace(table=table)])  # type: ignore[arg-type,list-item]
    assert found == (("f",), ())


def test_each_workload_is_compared_once_with_few_boots(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    base, topic = given.tree.head, given.tree.commit("same", fs__open_c=kernel_c(2, open1=0, chance=0))
    seen = []
    real = compared._differences
    monkeypatch.setattr(compared, "_differences", lambda of: seen.append(of[0].study) or real(of))
    assert not only(given.between(base, topic)).changed
    assert [name.rpartition("-")[0] for name in sorted(seen)] == ["open1", "open1-threads"]


def test_page_faults_of_all_workloads_are_recorded_for_fewer_operations() -> None:
    of = {one.name: one.spec.operations for one in bench.builtin()}
    assert {of[f"page_fault{number}"] for number in (1, 2, 3) if f"page_fault{number}" in of} == {50}
    assert of["open1"] == 200


def test_a_commit_s_files_have_their_names_as_they_are(tree: Tree) -> None:
    base = tree.head
    tree.write("fs/ü b.c", "int x;\n")
    tree.git("mv", "fs/open.c", "fs/opened.c")
    tree.commit("rename")
    found = series.of_range(tree.folder, f"{base}..")
    assert found.files(found.base, found.topic) == ["fs/open.c", "fs/opened.c", "fs/ü b.c"]


# What may be missed


@pytest.mark.slow
def test_what_an_earlier_step_added_is_reached_in_the_next_one(given: Given) -> None:
    """The base does not execute do_more(), which the first commit calls and the second changes."""
    base = given.tree.head
    more = "__attribute__((noinline)) int do_more(void) {{ return {}; }}\n"
    for number in (1, 2):
        text = more.format(number) + kernel_c(7, open1=0, chance=0)
        given.tree.commit(f"step {number}", fs__open_c=text)
    steps = given.between(base, given.tree.head, each=True)
    assert steps[1].functions and steps[1].functions.changed == ("do_more",)
    assert {one.subject.name for one in steps[1].compared} == {"open1"}


@pytest.mark.slow
def test_a_commit_that_does_not_boot_is_named_and_the_others_go_on(given: Given) -> None:
    base = given.tree.head
    panics = given.tree.commit("fs: Panic", fs__open_c=kernel_c(2, open1=9, chance=0))
    given.tree.commit("fs: Repair", fs__open_c=kernel_c(3, open1=0, chance=0))
    given.fails = lambda _title, cell: cell.variant.kernel == f"g{panics[:12]}"
    steps = given.between(base, given.tree.head, each=True)
    assert steps[0].why_not == f"g{panics[:12]} does not run open1: it burnt"
    assert steps[1].before.id == base and not steps[1].why_not
    assert command._status(steps) == 3
    text = report.as_text(steps)
    assert "does not run open1" in text and "nothing" in text


@pytest.mark.slow
def test_a_commit_whose_configuration_does_not_hold_is_named(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, real = given.tree.head, series.build
    bad = given.tree.commit("fs: Depend", fs__open_c=kernel_c(2, open1=4, chance=0))
    given.tree.commit("fs: More", fs__open_c=kernel_c(3, open1=4, chance=0))

    def build(found: series.PatchSeries, step: series.Step, *rest: Any) -> Kernel:
        if step.id == bad:
            raise UserError("the kernel's configuration drops CONFIG_X=y")
        return real(found, step, *rest)

    monkeypatch.setattr(series, "build", build)
    steps = given.between(base, given.tree.head, each=True)
    assert [one.why_not for one in steps] == ["the kernel's configuration drops CONFIG_X=y", ""]
    assert command._status(steps) == 1, "the second one is worse"


def test_patches_that_do_not_apply_are_refused_before_anything_is_built(tree: Tree, tmp_path: Path) -> None:
    base = tree.head
    tree.commit("fs: One", fs__open_c="int one;\n")
    tree.commit("fs: Two", fs__open_c="int two;\n")
    mails = mbox(tree, base)
    (tmp_path / "mails").write_bytes(mails[mails.index(b"From ", 10) :])  # without the first
    with pytest.raises(UserError, match=r"-0001-fs-Two.patch does not apply to .*: fs/open.c"):
        series.of_file(tree.folder, tmp_path / "mails", base, tmp_path / "out")


def test_a_mail_that_is_in_no_mbox_is_decoded(tree: Tree, tmp_path: Path) -> None:
    base = tree.head
    tree.commit("fs: Three = 3", fs__open_c="int three = 3;\n")
    (mail,) = [message_from_bytes(mbox(tree, base).partition(b"\n")[2])]
    text = mail.get_payload()
    assert isinstance(text, str)
    encoded = MIMENonMultipart("text", "plain", charset="utf-8")
    encoded.set_payload(text, "utf-8")
    for name in ("From", "Subject"):
        encoded[name] = mail[name]
    (tmp_path / "mail.eml").write_bytes(encoded.as_bytes())
    assert b"int three" not in encoded.as_bytes(), "it is in base64"
    found, _ = series.of_file(tree.folder, tmp_path / "mail.eml", base, tmp_path / "out")
    assert [step.subject for step in found.steps] == ["fs: Three = 3"]
    assert found.files(found.base, found.topic) == ["fs/open.c"]


def test_a_mail_with_the_line_ends_of_windows_applies(tree: Tree, tmp_path: Path) -> None:
    base = tree.head
    tree.commit("fs: Four", fs__open_c="int four;\n")
    headers, _, body = mbox(tree, base).partition(b"\n\n")
    encoded = b"\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
    windows = base64.encodebytes(body.replace(b"\n", b"\r\n"))
    (tmp_path / "mails").write_bytes(headers + encoded + windows)
    found, _ = series.of_file(tree.folder, tmp_path / "mails", base, tmp_path / "out")
    assert found.files(found.base, found.topic) == ["fs/open.c"]


DIFF = '--- {}/fs/open.c\n+++ {}/fs/open.c\n@@ -1 +1,2 @@\n+int x;\n #include "../include/fs.h"\n'


def test_a_diff_after_any_text_and_with_quilt_s_names_is_a_patch(tree: Tree, tmp_path: Path) -> None:
    for text in "Count.\n\nFrom the docs: count.\n\n", "":
        (tmp_path / "one.patch").write_text(text + DIFF.format("linux.orig", "linux"))
        found, _ = series.of_file(tree.folder, tmp_path / "one.patch", "", tmp_path / "out")
        assert found.files(found.base, found.topic) == ["fs/open.c"]
    (tmp_path / "series").write_text("one.patch -R\n")
    with pytest.raises(UserError, match=r"one\.patch has -R, but patches are applied with -p1 only"):
        series.of_file(tree.folder, tmp_path / "series", "", tmp_path / "out")


def test_a_workload_of_one_s_own_that_reaches_nothing_is_no_workload_that_reaches_it(given: Given) -> None:
    changed = kernel_c(1, open1=0, chance=0) + "int __x64_sys_new(void) { return do_open(); }\n"
    base = given.tree.commit("a call", fs__open_c=changed)
    more = changed.replace("return do_open();", "return do_open() * 3;")
    topic = given.tree.commit("more", fs__open_c=more)
    mine = replace(next(one for one in bench.builtin() if one.name == "dup1"), always=True)
    one = only(given.examined(series.of_range(given.tree.folder, f"{base}..{topic}"), mine=[mine]))
    assert [each.subject.name for each in one.compared] == ["dup1"] and one.reached == 0
    text = " ".join(report.block(one).split())
    assert "No workload of 4 reaches a changed function: system calls that lead there: new; no change" in text


def test_a_workload_of_one_s_own_that_only_threads_reach_reaches_the_change() -> None:
    one = examined(**{"open1": [], "open1 (threads)": [change("nr_opens", 0, 1)]})
    process, thread = (each.subject for each in one.compared)
    found = replace(one, ran_anyway=(process,))
    assert (found.reached, found.workloads) == (1, 1)
    assert examine.Reach([process, thread], anyway=[process]).reached == {"open1"}
    assert "No workload of" not in report.block(found)


@pytest.mark.slow
def test_other_workloads_are_tried_where_none_reaches_the_change(given: Given) -> None:
    base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
    found = series.of_range(given.tree.folder, f"{base}..{topic}")
    one = only(given.examined(found, first=["open1", "getppid1"]))
    assert (one.workloads, {title for title, *_ in given.ran if title.startswith("unlink")}) == (2, set())
    one = only(given.examined(found, first=["getppid1"]))
    assert {each.subject.name for each in one.worse} == {"open1"} and one.workloads == 3
    first, rest = ({each.spec.workload for each in some} for some in (bench.builtin(), bench.others()))
    direct = {one.name for one in workloads.builtin() if one.opens_direct}
    assert first | rest == {one.name for one in workloads.unbounded()} - direct
    assert {"open1", "fxmark/DWAL"} < first and {name for name in rest if name.startswith("filebench/")}


def test_workloads_run_on_file_systems_that_changed() -> None:
    """Of those that open with O_DIRECT, which tmpfs may refuse, all and only there."""
    systems = bench.file_systems_of(["fs/jbd2/commit.c", "fs/btrfs/file.c", "mm/slub.c"])
    assert systems == ["btrfs", "ext4"]
    on = {one.title: one.spec.fs for one in bench.builtin(systems)}
    some = {"fxmark/DWAL": "", "fxmark/DWAL@ext4": "ext4", "fxmark/MWCL@btrfs (threads)": "btrfs"}
    assert some.items() <= on.items()
    direct = {title for title in on if title.startswith(("read3", "read4")) or "-direct" in title}
    assert {"read3@ext4", "fxmark/DWAL-direct@btrfs (threads)"} < direct
    assert all(on[title] for title in direct)
    assert not any(one.spec.fs for one in (*bench.builtin(), *bench.others()))


@pytest.mark.slow
def test_what_only_an_interrupt_reaches_is_not_said_to_be_compared(given: Given) -> None:
    tick = "__attribute__((noinline)) int do_tick(void) {{ return {}; }}\n"
    base = given.tree.commit("one", fs__open_c=kernel_c(1, open1=0, chance=0) + tick.format(1))
    topic = given.tree.commit("two", fs__open_c=kernel_c(1, open1=0, chance=0) + tick.format(2))
    one = only(given.between(base, topic))
    text = " ".join(report.block(one).split())
    assert "1 reaches one only in interrupts or kernel threads, which are not compared" in text
    assert json.loads(report.as_json([one]))[0]["only_in_other_contexts"] == ["unlink1"]


@pytest.mark.slow
def test_a_user_of_a_variable_that_begins_with_something_else_is_reached(given: Given) -> None:
    """A default that a function in no workload's way sets aside, and one in its way uses."""
    head = 'extern long limit;\n#include "../include/fs.h"\n'
    body = kernel_c(1, open1=0, chance=0).replace("return counts[0]", "return limit + counts[0]")
    unused = "__attribute__((noinline)) int do_set(void) {{ limit = {}; return 0; }}\nlong limit = {};\n"
    base = given.tree.commit("one", fs__open_c=head + body + unused.format(5, 5))
    topic = given.tree.commit("two", fs__open_c=head + body + unused.format(7, 7))
    one = only(given.between(base, topic))
    assert one.functions and (one.functions.changed, one.functions.users) == (
        ("do_set",),
        ("do_open", "do_set"),
    )
    assert {each.subject.name for each in one.compared} == {"open1"}


def test_another_static_of_a_name_changes_no_other_one(tmp_path: Path) -> None:
    first = "static __attribute__((noinline)) int show(long n) { return say(%s, n); }"
    user = "int %s(long n) { static const char *const name[] = { %s }; return say(name[n & 1], show(n)); }"
    other = (
        'int picks(long n) { static const char *const name[] = { "c", "d" }; return say(name[n & 1], n); }'
    )
    base = compiled(tmp_path / "base", first=other)
    more = user % ("user", '"a", "b"')
    topic = compiled(tmp_path / "topic", first="\n".join([first % '"show"', more, other]))
    assert image_functions.differences(base, topic).changed == ()
    assert set(image_functions.differences(base, topic).added) == {"user", "show"}

    def image(*codes: bytes) -> Image:
        sections = [image_functions._Section(0x1000, b"".join(codes), 16 * len(codes), True)]
        return Image(sections, [(0x1000 + 16 * n, len(one), "show", True) for n, one in enumerate(codes)])

    a, b, c = (bytes([0x90 + n]) * 16 for n in range(3))
    found = image_functions.differences(image(a, b), image(c, a, b))
    assert (found.changed, found.added, found.removed) == ((), ("show",), ())
    assert image_functions.differences(image(a, b), image(a, c)).changed == ("show",)


# What the verdict is


def change(object: str, before: float, after: float, **other: Any) -> CountChange:
    given: dict[str, Any] = {"kind": "coherence", "unit": "accesses", "share": 0.1} | other
    cost = given.pop("cost", 90 * (after - before))
    return CountChange(given.pop("kind"), object, before, after, given.pop("unit"), cost, **given)


def examined(**changes: Sequence[CountChange]) -> Examined:
    """A step that changed these counts, by workload."""
    base, topic = (series.Step(letter * 40, "fs: Count", letter * 40) for letter in "ab")
    subjects = {one.title: one for one in bench.builtin()}
    compared_ = [compared.Compared(subjects[name], tuple(of), boots=4) for name, of in changes.items()]
    differences_ = image_functions.FunctionDifferences(("do_open",), (), ())
    return Examined(base, topic, ("k", "l"), functions=differences_, compared=tuple(compared_))


INSTRUCTIONS = {"kind": "instructions", "unit": "instructions"}


def test_what_is_worse_in_one_workload_and_better_in_another_is_both() -> None:
    one = examined(
        open1=[change("f", 1000, 1050, cost=50, **INSTRUCTIONS)],
        unlink1=[change("g", 1000, 900, cost=-100, **INSTRUCTIONS)],
    )
    lines = report.block(one).splitlines()
    assert "- instructions: 1,000 -> 1,050 in open1" in lines, lines
    assert "- instructions: 1,000 -> 900.0 in unlink1" in lines
    assert command._status([one]) == 1


def test_the_tasks_of_a_program_are_not_numbered() -> None:
    one = examined(open1=[change("f", 0, 1)])
    program = Subject("redis-benchmark", Spec(root="r", command="redis-benchmark", variant=[]))
    of_it = replace(one, compared=(replace(one.compared[0], subject=program),))
    for step, in_block, in_check in (
        (one, "8 CPUs and tasks, per", "open1, 8 CPUs, 8 tasks"),
        (of_it, "8 CPUs, per", "redis-benchmark, 8 CPUs\n"),
    ):
        assert in_block in " ".join(report.block(step).split()) and in_check in report.as_ktap([step])


def test_a_change_is_shown_where_it_is_most_of_an_operation_and_once() -> None:
    long = change("nr_opens", 0, 1.2, share=0.012)
    short = change("nr_opens", 0, 1, share=0.028)
    little = [change("nr_opens", 0, 1.1, share=0.004), change("struct file.f_pos", 0, 1, share=0.002)]
    one = examined(unlink1=[long], open1=[short])
    one = replace(one, compared=(*one.compared, replace(one.compared[0], changes=(), small=tuple(little))))
    text = " ".join(report.block(one).split())
    assert "nr_opens: 0 -> 1.00 accesses in open1" in text, text
    assert "less than 1 % of an operation: struct file.f_pos: 0 -> 1.00 accesses in unlink1 " in text


def test_two_changes_of_a_struct_in_one_workload_are_not_one() -> None:
    fields = [change(f"struct inode.{name}", 0, number) for number, name in enumerate("abc", 1)]
    assert "struct inode.c: 0 -> 3.00 accesses (and 2 more such changes)" in " ".join(
        report.block(examined(open1=fields)).split()
    )


def test_code_that_moved_is_neither_better_nor_worse() -> None:
    one = examined(open1=[change("f", 441, 441, cost=0.0, cancels=True, moved=(0.1, 0.1), **INSTRUCTIONS)])
    assert command._status([one]) == 0
    assert "as long: instructions: 441.0 -> 441.0" in report.as_text([one, one])
    page = report.as_html([one])
    assert 'class="as long"' in page and ">better<" not in page


def test_the_growth_of_all_instructions_is_not_that_of_one(tmp_path: Path) -> None:
    rdtsc = change("f", 0, 1, instruction="rdtsc", kind="instructions", unit="executions")
    one = examined(open1=[rdtsc])
    idle = Bench(tmp_path, 1, None, ProgressBar([]))
    kernel = Kernel(*"kkkk", tmp_path, "", "")
    assert outlook._growth(idle, one.compared[0].subject, rdtsc, kernel, kernel) is None
    assert "law" not in report.block(one)


def test_a_change_grows_as_its_own_series_does() -> None:
    def row(name: str, most: float) -> Any:
        return SimpleNamespace(series=SimpleNamespace(name=name), most=most)

    rows = [row("struct inode.i_count", 9.0), row("struct inode.nr_new", 1.0), row("struct file.f_pos", 50.0)]
    assert outlook._row(rows, "struct inode.nr_new") is rows[1]
    assert outlook._row(rows, "struct inode.i_lock") is rows[0], "its place in a cache line is chance"
    assert outlook._row(rows, "struct dentry.d_lockref") is None


def test_what_costs_little_and_what_the_control_changes_too_is_named() -> None:
    one = examined(open1=[])
    little, luck = change("nr_opens", 0, 1, share=0.004), change("struct inode.i_lock", 2, 9)
    told = replace(one.compared[0], small=(little,), by_chance=(luck,))
    text = " ".join(report.block(replace(one, compared=(told,))).split())
    assert "- less than 1 % of an operation: nr_opens: 0 -> 1.00 accesses in open1" in text
    assert "(left out, as the A/A control differs there, too: struct inode.i_lock: 2.00 -> 9.00" in text


def test_the_verdict_is_in_the_block_however_long_names_are() -> None:
    one = examined(open1=[change(f"struct {'very_' * 30}long.field", 0, 4)])
    long = replace(one.compared[0].subject, name="stress-ng --with " + "an-option " * 60)
    crowded = replace(
        one,
        compared=(
            replace(
                one.compared[0], subject=long, functions={f"{'f' * 90}{n}": (1.0, 9.0) for n in range(5)}
            ),
            replace(one.compared[0], subject=long, failed="it burnt", changes=()),
        ),
        functions=replace(one.functions, changed=tuple(f"{'g' * 90}{n}" for n in range(5))),  # type: ignore[type-var]
        effects=(outlook.PredictedEffect(long, "epyc", 256, None, "no trace, " * 40),),
        not_compiled=tuple(f"fs/{'x' * 90}{n}.c" for n in range(5)),
    )
    lines = report.block(crowded).splitlines()
    assert len(lines) <= report.LINES and max(map(len, lines)) <= report.WIDTH
    assert "1 failed: stress-ng" in " ".join(lines) and "change costs" in " ".join(lines)


def test_a_prediction_and_the_first_changes_are_in_a_crowded_block() -> None:
    every = [change(f"struct {'x' * 20}{n}.{'y' * 30}", 0, 9 - n, writers=("f" * 40,)) for n in range(6)]
    one = examined(open1=every)
    told = outlook.PredictedEffect(one.compared[0].subject, "epyc", 256, Estimate(-0.2, -0.3, -0.1))
    small = replace(one.compared[0], small=(change("nr_opens", 0, 1, share=0.001),))
    lines = report.block(replace(one, effects=(told,), compared=(small,))).splitlines()
    text = " ".join(" ".join(lines).split())
    assert len(lines) <= report.LINES
    assert "Predicted for open1" in text and text.count("accesses by") >= 2 and "less than 1 %" not in text


def test_a_workload_that_failed_is_an_error_and_not_left_out(given: Given) -> None:
    one = examined(open1=[])
    failed = replace(one.compared[0], failed="k: it burnt", changes=())
    broken = replace(one, compared=(), why_not="the kernel does not build: fs/open.c:1: error")
    for step in replace(one, compared=(failed,)), broken:
        suite = ElementTree.fromstring(report.as_junit([step]))
        assert (suite.get("errors"), suite.get("skipped")) == ("1", "0")
        assert "not ok 1 " in report.as_ktap([step]) and "# " in report.as_ktap([step])
        assert command._status([step]) == 3


def test_a_lock_that_is_held_longer_fails_in_junit_as_in_the_exit_status() -> None:
    held = change("shared.lock", 1, 1, kind="locks", unit="times taken", held=(0.4, 0.9), cost=40.0)
    one = examined(open1=[held])
    assert command._status([one]) == 1
    assert ElementTree.fromstring(report.as_junit([one])).get("failures") == "1"


def test_lost_counts_are_said(given: Given) -> None:
    one = examined(open1=[])
    lost = replace(one.compared[0], lost=("k: 7 lost: accesses, for which there was no room",))
    text = " ".join(report.block(replace(one, compared=(lost,))).split())
    assert "counts were lost in 1: open1 (k: 7 lost: accesses" in text


# Where objects lie


@pytest.mark.slow
def test_a_change_of_a_struct_says_how_much_is_where_its_objects_lie(given: Given) -> None:
    """Both kernels have the same struct and the same accesses: only chance is left."""
    base = given.tree.commit("two", fs__open_c=kernel_c(1, open1=0, chance=0, widget=50))
    topic = given.tree.commit("three", fs__open_c=kernel_c(2, open1=0, chance=0, widget=2))
    one = only(given.between(base, topic))
    (found,) = one.compared[0].changes
    assert found.struct == "struct widget" and found.by_alignment and found.by_alignment[0].varies
    text = " ".join(report.block(one).split())
    assert (
        "all fields of struct widget, by where it begins in a cache line: 0 to 5.000 before, 0 to 5" in text
    ), text
    assert json.loads(report.as_json([one]))[0]["workloads"][0]["changes"][0]["by_alignment"]
    ran = {title for title, *_ in given.ran}
    assert "open1, layout" in ran and "unlink1, layout" not in ran


def test_what_either_kernel_may_count_is_not_worse() -> None:
    def may(recorded: float, expected: float = 20.0) -> LayoutCounts:
        return LayoutCounts(recorded, 0.0, 50.0, expected)

    luck = change("struct widget.count", 2, 50, by_alignment=(may(2.0), may(50.0)))
    real = change("struct widget.count", 2, 50, by_alignment=(may(2.0), may(50.0, 40.0)))
    assert [compared.verdict(one) for one in (luck, real)] == ["by alignment", "worse"]
    assert [command._status([examined(open1=[one])]) for one in (luck, real)] == [0, 1]


def test_where_objects_lie_is_looked_at_in_every_workload_that_changes(tmp_path: Path) -> None:
    """If not, a patch that only moves objects would be worse in the others."""

    class Refusing(Bench):
        def measure(self, wanted: Sequence[bench.Wanted]) -> None:
            titles.extend(one.subject.title for one in wanted)

        def why_failed(self, subject: Subject, kernel: Kernel) -> str:
            return "it burnt"

    titles: list[str] = []
    names = [one.name for one in bench.builtin() if one.spec.mode == "process"][:12]
    inode, static = change("struct inode.i_lock", 2, 9), change("nr_opens", 2, 9)
    one = examined(**({name: [inode] for name in names} | {"dup1": [static]}))
    kernel = Kernel(*"kkkk", tmp_path, "", "")
    found = luck.with_alignments(Refusing(tmp_path, 1, None, ProgressBar([])), one.compared, kernel, kernel)
    assert found == list(one.compared) and titles == [f"{name}, layout" for name in names if name != "dup1"]


def test_what_is_left_on_average_over_the_places_is_worse_or_better() -> None:
    """Of unlink1's inodes, each operation has so many accesses at the best place, the worst, on average."""

    def inodes(recorded: float, more: float = 0.0) -> LayoutCounts:
        return LayoutCounts(recorded, 54.7 + more, 79.7 + more, 62.0 + more)

    def verdict(was: LayoutCounts, now: LayoutCounts, share: float) -> str:
        assert was.recorded and now.recorded
        cost = 90 * (now.recorded - was.recorded)
        name, both = "struct inode.i_count", {"by_alignment": (was, now)}
        return compared.verdict(change(name, was.recorded, now.recorded, share=share, cost=cost, **both))

    assert verdict(inodes(58.7), inodes(61.7, 3), 0.05) == "worse", "three more wherever they lie"
    assert verdict(inodes(61.7), inodes(58.7, -3), -0.05) == "better"
    assert verdict(inodes(58.7), inodes(74.7), 0.25) == "by alignment"
    assert verdict(inodes(58.7), inodes(74.7, 0.1), 5.0) == "by alignment", "two boots differ as much"
    assert verdict(inodes(58.7), inodes(74.7, 0.5), 0.25) == "by alignment", "less than 1 % of an operation"
    assert verdict(inodes(74.7), inodes(61.7, 3), -0.2) == "worse", "a better place hides it"
    contended = [replace(inodes(74.7), expected=expected) for expected in (62.0, 66.0, 64.0)]
    assert verdict(LayoutCounts.mean(contended), inodes(61.7, 5), -0.2) == "by alignment", "so do boots"
    assert verdict(LayoutCounts.mean(contended), inodes(61.7, 7), -0.2) == "worse"


@pytest.mark.parametrize("now", [1.0, 0.0])
def test_the_figures_are_those_that_decide(now: float, tmp_path: Path) -> None:
    """The base booted with a bad place, and the new kernel with a good one."""
    places = LayoutCounts(3.0, 0.0, 3.0, 1.5), LayoutCounts(now, 0.0, 4.0, 2.5)
    worse = change("struct foo.a", 3.0, now, share=-0.3, by_alignment=places)
    one = examined(open1=[worse])
    assert command._status([one]) == 1
    figures = f"struct foo.a: 3.00 -> {'1.00' if now else '0'} accesses"
    average = f"{figures} (all fields, average over alignments: 1.50 -> 2.50)"
    assert f"worse: {average}" in " ".join(report.as_text([one, one]).split())
    assert average in " ".join(report.block(one).split())
    assert ElementTree.fromstring(report.as_junit([one])).get("failures") == "1"
    row = "| `struct foo.a` | accesses (all fields, average over alignments) | 2.500 | 1.500 | 1.500 |"
    assert row in report.as_comment([one])

    idle, kernel = Bench(tmp_path, 1, None, ProgressBar([])), Kernel(*"kkkk", tmp_path, "", "")
    predicted = tuple(outlook.effects(idle, one.compared[0], kernel, kernel))
    assert not any(effect.change for effect in predicted)
    said = " ".join(report.block(replace(one, effects=predicted)).split())
    assert "No prediction for open1: on average over alignments, a count changes in the other" in said
    assert outlook._growth(idle, one.compared[0].subject, worse, kernel, kernel) is None


def test_a_command_without_a_count_is_refused_before_anything_is_built() -> None:
    answer = bigiron("patch", "no-tree", "v1..v2", "--root", "r", "--command", "c")
    assert (answer.status, answer.out) == (2, "")
    assert answer.complaint.startswith("--command needs --per here: system-call, instruction or ")


# CI


def scripts(document: Any) -> list[str]:
    """The shell scripts of a workflow."""
    return [step["run"] for step in document["runs"]["steps"] if "run" in step]


def test_the_action_for_github_is_whole() -> None:
    action = yaml.safe_load((ROOT / "ci/github-action/action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    assert all("shell" in step for step in action["runs"]["steps"] if "run" in step)
    text = json.dumps(action["runs"])
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    for script in scripts(action):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_template_for_gitlab_is_whole() -> None:
    template = yaml.safe_load((ROOT / "ci/gitlab/bigiron-patch.yml").read_text())
    job = template["bigiron-patch"]
    for script in [*job["before_script"], *job["script"]]:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert job["artifacts"]["reports"]["junit"].endswith("junit.xml")


def stand_ins(folder: Path, **commands: str) -> dict[str, str]:
    """An environment with these scripts in place of commands."""
    for name, script in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}


def test_a_verdict_is_given_and_kept_where_no_comment_can_be_made(tree: Tree, tmp_path: Path) -> None:
    refusing = stand_ins(tmp_path, curl="exit 22", bigiron="echo worse; exit 1")
    steps = yaml.safe_load((ROOT / "ci/github-action/action.yml").read_text())["runs"]["steps"]
    called = [step.get("name") or step["uses"].partition("@")[0] for step in steps]
    assert called[3:] == [
        "actions/cache/save",
        "actions/upload-artifact",
        "Comment on the pull request",
        "The verdict",
    ]
    restored, saved = steps[0], steps[3]
    assert saved["if"] == "always()" and saved["with"]["path"] == restored["with"]["path"]
    (tmp_path / "comment.md").write_text("worse\n")
    given = refusing | {"FOLDER": str(tmp_path), "TOKEN": "t", "NUMBER": "1"}
    given |= dict.fromkeys(("GITHUB_API_URL", "GITHUB_REPOSITORY"), "none")
    subprocess.run(["bash", "-e", "-c", steps[5]["run"]], cwd=tmp_path, env=given, check=True)

    job = yaml.safe_load((ROOT / "ci/gitlab/bigiron-patch.yml").read_text())["bigiron-patch"]
    assert job["cache"]["when"] == "always"
    base, topic = tree.head, tree.commit("second")
    given = refusing | {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_COMMIT_SHA": topic, "BIGIRON_TOKEN": "t"}
    names = "CI_PROJECT_DIR", "CI_API_V4_URL", "CI_PROJECT_ID", "CI_MERGE_REQUEST_IID", "BIGIRON_OPTIONS"
    given |= dict.fromkeys(names, "none")
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", *job["script"]], cwd=tree.folder, env=given, check=False
    )
    assert done.returncode == 1, "the patch is worse"


@pytest.mark.parametrize("file", ["ci/github-action/action.yml", "ci/gitlab/bigiron-patch.yml"])
def test_the_options_of_ci_are_those_of_the_command(file: str) -> None:
    used = re.findall(r"bigiron patch ((?:.*\\\n)*.*)", (ROOT / file).read_text())
    options = {option for line in used for option in re.findall(r"--[\w-]+", line)}
    known = bigiron("patch", "--help", COLUMNS="200").out
    assert options and all(option in known for option in options)
