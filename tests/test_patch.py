"""`bigiron patch`: images compared by function, series of all kinds, and what is said of counts.

Kernels are two C files that are really built. What stands for the virtual machines writes cells whose counts
an image names, so that all else is what a user runs.
"""

import doctest
import json
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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

from bigiron import kernels
from bigiron.analysis.replay.trace import SCHEMA as TRACE
from bigiron.commands import patch as command
from bigiron.errors import MachineError, UserError
from bigiron.judge import differences
from bigiron.kernels import image_functions
from bigiron.kernels.image_functions import Image
from bigiron.kernels.kernel import Kernel
from bigiron.patch import bench, compared, examine, series
from bigiron.patch.bench import Bench, Subject
from bigiron.patch.examine import Examined, Examiner
from bigiron.probes import Table
from bigiron.report import patch as report
from bigiron.report.progress import ProgressBar
from bigiron.study.plan import Cell
from bigiron.study.store import Failure, Study, new_record
from bigiron.workloads import Workload

ROOT = Path(__file__).resolve().parent.parent


def test_the_examples() -> None:
    for module in examine, image_functions, report, series:
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


def tables(cell: Cell, study: Study) -> dict[str, Table]:
    """What the image says: accesses to `nr_opens`, and how far those of `by_chance` differ between boots."""
    found = re.search(rb"open1=(\S+) chance=([^\s;]+);", kernels.find(cell.variant.kernel).image.read_bytes())
    assert found
    is_open = study.spec.workload == "open1"
    accesses = float(found[1]) if is_open else 0.0
    chance = float(found[2]) * (1 + cell.repetition % 2) if is_open else 0.0
    rows = [row for row in line(8, object="old.lock")]
    for times, object, at in (accesses, "nr_opens", 1), (chance, "by_chance", 2):
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
    made = {
        "conflicts": counts(*rows),
        "instructions": executed(("open", function, 900 * OPERATIONS)),
        "locks": pl.DataFrame(schema=LOCKS),
        "trace": pl.DataFrame(schema=TRACE),
    }
    return {name: Table(made[name], facts) for name in study.spec.probes}


@dataclass
class Given:
    """A tree of kernels, and what examines them."""

    tree: Tree
    folder: Path
    fails: Callable[[str, Cell], bool] = lambda _title, _cell: False

    def examined(self, found: series.Series, *, each: bool = False) -> list[Examined]:
        base = series.build(found, found.base, [], lambda _step: None)
        self.said: list[str] = []
        self.bench = Cells(self.folder / "studies", 3, None, ProgressBar([]))
        self.bench.ran = self.ran = []  # type: ignore[attr-defined]
        self.bench.fails = self.fails  # type: ignore[attr-defined]
        subjects = [one for one in bench.builtin() if one.name in WORKLOADS]
        examiner = Examiner(self.bench, base, subjects, [2, 4, 8], self.said.append)
        return command._examined(found, each, base, [], examiner)

    def between(self, base: str, topic: str, *, each: bool = False) -> list[Examined]:
        return self.examined(series.of_range(self.tree.folder, f"{base}..{topic}"), each=each)


@pytest.fixture
def given(tree: Tree, tmp_path: Path) -> Given:
    tree.write("Makefile", MAKEFILE_O)
    tree.commit("base", init__main_c=MAIN, fs__open_c=kernel_c(1, open1=0, chance=0))
    return Given(tree, tmp_path / "out")


def only(steps: Sequence[Examined]) -> Examined:
    (one,) = steps
    return one


def test_a_counter_is_found_where_it_is_reached(given: Given) -> None:
    base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
    one = only(given.between(base, topic))
    assert one.functions and one.functions.changed == ("do_open",)
    assert {each.subject.title for each in one.compared} == {"open1", "open1 (threads)"}
    assert {each.name for each in one.not_reached} == {"getppid1", "unlink1"}
    assert [change.object for each in one.worse for change in each.changes] == ["nr_opens"] * 2
    text = report.block(one)
    assert re.search(r"^- nr_opens: 0 -> 4\.00 accesses by f in open1, open1 \(threads\)", text, re.MULTILINE)
    assert "Nothing else of 3 workloads changed (A/A control clean)" in " ".join(text.split())
    assert "2 do not reach a changed function" in " ".join(text.split())
    # What is not reached ran once, for its functions; what differs, with all boots, and for the growth.
    assert {boot for title, *_, boot in given.ran if title.startswith("unlink1")} == {1}
    assert {cpus for _, _, cpus, _ in given.ran} == {2, 4, 8}


def test_the_same_again_runs_nothing_and_a_base_is_kept_for_the_next_patch(given: Given) -> None:
    base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
    first = report.block(only(given.between(base, topic)))
    assert report.block(only(given.between(base, topic))) == first and given.ran == []
    other = given.tree.commit("again", fs__open_c=kernel_c(3, open1=8, chance=0))
    given.between(base, other)
    assert {kernel for _, kernel, _, _ in given.ran} == {f"g{other[:12]}"}


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
    assert "The images are the same, so no count can differ" in report.block(one) and given.ran == []
    unused = given.tree.commit("unused", fs__unused_c="int x;\n")
    text = " ".join(report.block(only(given.between(base, unused))).split())
    assert "Not built by this configuration: fs/unused.c." in text


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
    page = report.as_page(steps)
    assert page.count("<section>") == 3 and "fs: Break" in page
    with pytest.raises(UserError, match=r"does not build: .*expected"):
        given.between(base, "HEAD~1")


def test_mails_are_built_on_their_base(given: Given, tmp_path: Path) -> None:
    base = given.tree.head
    given.tree.commit("fs: Count", fs__open_c=kernel_c(2, open1=4, chance=0))
    (tmp_path / "mails").write_bytes(mbox(given.tree, base))
    found, _ = series.of_file(given.tree.folder, tmp_path / "mails", base, tmp_path / "out")
    assert only(given.examined(found)).worse


def test_every_format_has_what_is_worse(given: Given) -> None:
    base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
    steps = given.between(base, topic)
    suites = ElementTree.fromstring(report.as_junit(steps)).findall("testsuite")
    assert [suite.get("failures") for suite in suites] == ["1", "1", "0"]
    assert "not ok 1" in report.as_ktap(steps) and "# SKIP no changed function" in report.as_ktap(steps)
    assert "| `nr_opens` | accesses | 4.000 | 0.000 | 0.000 |" in report.as_comment(steps)
    document = json.loads(report.as_json(steps))[0]
    assert document["worse"] and document["functions"]["changed"] == ["do_open"]
    assert document["not_reached"] == ["getppid1", "unlink1"]
    assert 'class="worse">worse</td>' in report.as_page(steps)


def test_a_block_is_short_whatever_changed(given: Given) -> None:
    base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
    one = only(given.between(base, topic))
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


def test_a_kernel_that_does_not_boot_stops_it(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
    given.between(base, topic)
    subject = given.bench._studies["open1"]
    assert subject
    given.bench.failed["open1", bench.variant_name(kernels.find(f"g{topic[:12]}"))] = "it panicked"
    found = compared.compare(
        given.bench,
        Subject("open1", subject.spec),
        *(kernels.find(f"g{commit[:12]}") for commit in (base, topic)),
        compared.SCREEN,
        [],
    )
    assert found.failed == f"g{topic[:12]}: it panicked"


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


def test_a_kernel_built_again_under_its_name_is_another_one(given: Given) -> None:
    base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
    assert only(given.between(base, topic)).worse
    there = kernels.find(f"g{topic[:12]}")
    subject = Subject("open1", given.bench._studies["open1"].spec)
    assert f"{there.name}-{there.sha256[:8]}" in {one.name for one in subject.spec.variant}
    rebuilt = replace(there, sha256="0" * 64)
    assert given.bench.functions(subject, there) and not given.bench.functions(subject, rebuilt)


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
    assert "Nothing of 3 workloads changed." in text, "no control ran, so none is clean"


def test_a_growth_cell_that_fails_is_no_failure_of_the_kernel(given: Given) -> None:
    base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
    given.fails = lambda _title, cell: cell.cpus == 4
    one = only(given.between(base, topic))
    assert one.worse and one.grown and not given.bench.failed


def test_as_many_run_at_once_as_their_cpus_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.runner, "default_jobs", lambda spec: 64 // max(spec.cpus))
    idle = Bench(tmp_path, 0, None, ProgressBar([]))
    assert [idle._at_once(cpus) for cpus in (8, 16)] == [8, 4]


def test_a_workload_that_is_asked_for_twice_runs_once() -> None:
    asked = bench.asked(["open1", "open1"], [])
    once = command._each_once([*asked, *bench.builtin()])
    assert [one.title for one in once][:2] == ["open1", "open1 (threads)"]
    assert len({one.title for one in once}) == len(once) and once[0].always


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


def test_instructions_of_a_function_are_said_only_beyond_chance(given: Given) -> None:
    base, topic = given.tree.head, given.tree.commit("count", fs__open_c=kernel_c(2, open1=4, chance=0))
    one = only(given.between(base, topic))
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
    monkeypatch.setattr(compared, "_differences", lambda *of: seen.append(of[1].title) or real(*of))
    assert not only(given.between(base, topic)).changed
    assert seen == ["open1", "open1 (threads)"]


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


@pytest.mark.parametrize("file", ["ci/github-action/action.yml", "ci/gitlab/bigiron-patch.yml"])
def test_the_options_of_ci_are_those_of_the_command(file: str) -> None:
    used = re.findall(r"bigiron patch ((?:.*\\\n)*.*)", (ROOT / file).read_text())
    options = {option for line in used for option in re.findall(r"--[\w-]+", line)}
    known = bigiron("patch", "--help", COLUMNS="200").out
    assert options and all(option in known for option in options)
