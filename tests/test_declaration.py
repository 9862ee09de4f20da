"""Changes of a struct as a diff of its declaration: what git applies, and what a compiler makes of it."""

import doctest
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from conftest import bigiron
from test_layout import LINE, MM, WIDGET, hot_widget, known_widget, study_of

from bigiron.analysis.layout import change
from bigiron.analysis.layout.change import Align, Change, Move, Pad, Split
from bigiron.analysis.layout.structure import Structure
from bigiron.errors import UserError
from bigiron.kernels import declaration
from bigiron.results import layout_source
from bigiron.results.layout_source import Declared

HEADER = """\
#ifndef _WIDGET_H
#define _WIDGET_H

#define __aligned(x) __attribute__((aligned(x)))

struct widget_ops;

/*
 * struct widget { is in a comment here
 */
struct widget {
\tint\t\t\tflags;

\t/* How many there are; see count() */
\tlong\t\t\tcount;

\tconst struct widget_ops\t*ops;\t/* read by all,
\t\t\t\t\t * written by none */
#ifdef CONFIG_SMALL
\tlong\t\t\tsmall;
#else
\tint\t\t\tlock;
#endif
\tstruct { long next, prev; } list;
\tchar\t\t\tname[32];
\t/* Whose it is, and */
\t/* since when. */
\tlong\t\t\towner;
} ;

#endif
"""

MM_HEADER = """\
#define __aligned(x) __attribute__((aligned(x)))
#define ____cacheline_aligned_in_smp __aligned(64)
#define __randomize_layout

struct mm {
\tstruct {
\t\t/* On a cache line of its own. */
\t\tstruct {
\t\t\t/* How many there are */
\t\t\tint count;
\t\t} ____cacheline_aligned_in_smp;
\t\tlong pgd;

\t\tint users;\t/* of user space */
\t\tlong map;
\t\t/* These belong together. */
\t\tstruct {
\t\t\tint low;
\t\t\tlong high;
\t\t};
\t} __randomize_layout;
\tlong bitmap[];
};
"""

OTHERS = """\
struct other {
\trandomized_fields_start
\tint one;
\tint two, three;
\tint four; int five;
\tunsigned int bits:3;
\tDECLARE_BITMAP(map, 64);
\tunion {
\t\tlong a;
\t\tint (*b)(int c);
\t};
\tlong last ____cacheline_aligned_in_smp;
} __randomize_layout
  __attribute__((aligned(4)));\t/* for the m68k */
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in ("widget.h", HEADER), ("other.h", OTHERS), ("mm.h", MM_HEADER):
        (tmp_path / "linux/include/linux").mkdir(parents=True, exist_ok=True)
        (tmp_path / "linux/include/linux" / name).write_text(text)
    return tmp_path / "linux"


def widget(tree: Path) -> Declared:
    return layout_source.declared(tree, known_widget(), "x86_64")


def test_the_examples() -> None:
    assert doctest.testmod(declaration).failed == 0


def compiled(tree: Path, struct: Structure) -> dict[str, int]:
    """Where a compiler puts each member, and the size."""
    names, of = [unit.fields[0].name for unit in struct.units], f"struct {struct.name}"
    prints = " ".join(f'printf("{name} %zu ", offsetof({of}, {name}));' for name in names)
    head = f'#include <stdio.h>\n#include <stddef.h>\n#include "include/linux/{struct.name}.h"\n'
    body = f'{prints} printf("size %zu", sizeof({of}));'
    text = f"{head}int main(void) {{ {body} }}\n"
    (tree / "main.c").write_text(text)
    program = tree / "main"
    subprocess.run(["gcc", "-o", program, "main.c"], cwd=tree, check=True)
    words = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def laid_out(structure: Structure) -> dict[str, int]:
    return {unit.fields[0].name: unit.offset for unit in structure.units} | {"size": structure.bytes}


def test_the_declaration_is_the_study_s(tree: Path) -> None:
    assert compiled(tree, known_widget()) == laid_out(known_widget())
    assert compiled(tree, MM) == laid_out(MM)


def random_changes(seed: int, names: Sequence[str], padded: Sequence[str]) -> list[Change]:
    """Of members that are declared under no condition."""
    chance = Random(seed)

    def one() -> Change:
        first, second = chance.sample(names, 2)
        move = Move(first, chance.choice(("after", "before")), second)
        pads = Pad(chance.choice(padded), 64), Split((first, second), 64)
        return chance.choice((move, move, *pads, Align(LINE)))

    return [one() for _ in range(chance.randrange(1, 4))]


@pytest.mark.parametrize("seed", range(12))
def test_a_compiler_lays_out_what_git_applied_as_it_was_predicted(tree: Path, seed: int) -> None:
    names = [name for name, *_ in WIDGET if name != "lock"]
    checked(tree, known_widget(), random_changes(seed, names, ("flags", "name", "owner")))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("names", [("pgd", "users", "map"), ("low", "high")])
def test_a_compiler_lays_out_anonymous_structs_as_it_was_predicted(
    tree: Path, seed: int, names: Sequence[str]
) -> None:
    changes = [one for one in random_changes(seed, names, names) if names[2:] or not isinstance(one, Split)]
    checked(tree, MM, [*changes, *([Move("pgd", "after", "low"), Pad("count", 128)] if seed % 2 else [])])


def checked(tree: Path, struct: Structure, changes: Sequence[Change]) -> None:
    after = change.changed(struct, changes)
    diff = layout_source.declared(tree, struct, "x86_64").diff(changes)
    if diff:
        subprocess.run(["git", "apply", "-"], input=diff.encode(), cwd=tree, check=True)
    assert compiled(tree, struct) == laid_out(after), diff


def test_a_comment_goes_with_the_member_that_it_is_about(tree: Path) -> None:
    diff = widget(tree).diff([Move("count", "after", "name"), Move("ops", "before", "flags")])
    assert diff.startswith("--- a/include/linux/widget.h\n+++ b/include/linux/widget.h\n@@ ")
    subprocess.run(["git", "apply", "-"], input=diff.encode(), cwd=tree, check=True)
    text = (tree / "include/linux/widget.h").read_text()
    assert (
        "{\n\tconst struct widget_ops\t*ops;\t/* read by all,\n\t\t\t\t\t * written by none */\n\tint" in text
    )
    assert "name[32];\n\t/* How many there are; see count() */\n\tlong\t\t\tcount;\n\t/* Whose" in text


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([Move("lock", "after", "flags")], "widget.h:22: lock is declared under #else only"),
        ([Move("flags", "after", "lock")], "widget.h:22: lock is declared under #else only"),
    ],
)
def test_a_condition_is_not_moved_over(tree: Path, changes: Sequence[Change], why: str) -> None:
    with pytest.raises(UserError, match=why):
        widget(tree).diff(changes)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("one", "other.h:2: one follows the macro randomized_fields_start"),
        ("two", "is declared together with others: two, three"),
        ("four", "shares a line with another declaration"),
        ("five", "shares a line with another declaration"),
        ("bits", "is a bit field"),
        ("map", "is declared by the macro DECLARE_BITMAP"),
        ("gone", "declares no gone in struct other"),
    ],
)
def test_what_the_text_does_not_make_plain_is_refused(tree: Path, name: str, why: str) -> None:
    other = declaration.find(tree, "other", "x86")
    with pytest.raises(UserError, match=why):
        other.moved(name, "after", "last")


def test_an_anonymous_union_and_an_attribute_are_whole(tree: Path) -> None:
    other = declaration.find(tree, "other", "x86")
    after = other.moved("b", "after", "last").aligned("", 64).aligned("a", 16)
    text = "".join(after.lines)
    assert text.endswith(
        "\tlong last ____cacheline_aligned_in_smp;\n"
        "\tunion {\n\t\tlong a;\n\t\tint (*b)(int c);\n\t} __aligned(16);\n"
        "} __randomize_layout\n  __attribute__((aligned(4))) __aligned(64);\t/* for the m68k */\n"
    )


def test_a_tree_without_the_struct_or_with_another_one_is_refused(tree: Path, tmp_path: Path) -> None:
    def refused(source: Path) -> str:
        with pytest.raises(UserError) as caught:
            layout_source.declared(source, known_widget(), "x86_64")
        return str(caught.value).replace(str(source), "TREE")

    assert refused(tmp_path) == "--source TREE: it is not a kernel's source: it has no folder include"
    header = tree / "include/linux/widget.h"
    header.write_text(HEADER.replace("owner", "keeper"))
    assert "struct widget in include/linux/widget.h is not the study's: it has no owner" in refused(tree)
    header.write_text(HEADER.replace("ops;", "moved;").replace("owner;", "ops;").replace("moved;", "owner;"))
    assert "is not the study's: it has lock before ops" in refused(tree)
    (tree / "include/linux/again.h").write_text(HEADER)
    assert "struct widget is declared more than once, in include/linux/again.h and" in refused(tree)
    (tree / "include/linux/again.h").unlink()
    header.write_text("struct widget {\n#if 1\n\tint a;\n")
    assert "include/linux/widget.h: the end of struct widget cannot be found" in refused(tree)
    header.unlink()
    assert refused(tree) == "--source TREE: no file declares struct widget"
    for arch in "arm", "x86":
        (tree / f"arch/{arch}/include").mkdir(parents=True)
        (tree / f"arch/{arch}/include/widget.h").write_text(HEADER)
    assert widget(tree).declaration.path == "arch/x86/include/widget.h"


# The command


@pytest.fixture(scope="module")
def hot_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study_of(tmp_path_factory.mktemp("hot") / "s", hot_widget())


def test_changes_and_proposals_are_diffs_of_the_source(hot_study: Path, tree: Path) -> None:
    asked = ("--source", tree, "--split", "count,owner")
    text = bigiron("layout", hot_study, "struct widget", *asked).out
    assert "after split off count, owner:" in text and "+++ b/include/linux/widget.h" in text
    assert "+\tlong\t\t\tcount __aligned(64);" in text
    found = json.loads(bigiron("layout", hot_study, "struct widget", *asked[:2], "--format", "json").out)
    for one in found["proposals"]:
        assert bool(one["diff"]) != bool(one["no_diff"])
    diff = found["proposals"][0]["diff"]
    subprocess.run(["git", "apply", "--check", "-"], input=diff.encode(), cwd=tree, check=True)


def test_a_split_is_counted() -> None:
    after = change.changed(known_widget(), [change.split("count,owner", 64)])
    assert [unit.fields[0].name for unit in after.units][-2:] == ["count", "owner"]
    assert (laid_out(after)["count"], laid_out(after)["owner"], after.bytes) == (128, 136, 192)
    for wrong in "count,", "", "gone":
        with pytest.raises(UserError):
            change.changed(known_widget(), [change.split(wrong, 64)])
    with pytest.raises(UserError, match="no other member is left"):
        change.changed(known_widget(), [Split(tuple(name for name, *_ in WIDGET), 64)])


def test_a_source_of_a_variable_is_refused(hot_study: Path, tree: Path, tmp_path: Path) -> None:
    variable = (0xFFFFFFFF82A00000, 8, "variable", "jiffies", "", "", None, "", 0, 0, 0, 0)
    study = study_of(tmp_path / "s", [(0, variable[0], 8, 0, 9, "tick")], [variable])
    answer = bigiron("layout", study, "jiffies", "--source", tree)
    assert (answer.status, answer.out) == (2, "")
    assert answer.complaint == "--source: jiffies is a variable, whose place the linker chooses"
    assert bigiron("layout", hot_study, "struct widget", "--source", tmp_path).status == 2
