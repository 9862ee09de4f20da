"""`bigiron bisect`: commits that are really built, a log that git takes, and lists in virtual machines."""

import ctypes
import json
import math
import os
import random
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import BIGIRON, bigiron, wait_until
from test_compare import count, counts, study_of
from test_instructions import counts as executed

from bigiron import kernels
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.bisect import speculative, target
from bigiron.bisect.bisection import Culprit, Suspects
from bigiron.bisect.candidates import ListOfVariants, OptionsOfConfiguration
from bigiron.bisect.commits_of_tree import CommitsOfTree
from bigiron.bisect.measure import MeasuredByStudy
from bigiron.bisect.search import Bisection, CannotMeasureError, TimedBisection
from bigiron.bisect.target import CandidateCells
from bigiron.errors import BuildHostError, MachineError, UserError
from bigiron.kernels import builder, commits
from bigiron.kernels.commits import Commits
from bigiron.report import bisect as bisect_report
from bigiron.report.progress import ProgressBar
from bigiron.results import prediction
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import Study

MAKEFILE = """\
VERSION = 6
PATCHLEVEL = 1
SUBLEVEL = 0
EXTRAVERSION =
allnoconfig:
	cp $(KCONFIG_ALLCONFIG) $(O)/.config
vmlinux:
	cd $(O) && $(CC) -MD -MF .open.o.cmd -c -o open.o ../source/fs/open.c
	cd $(O) && $(CC) -MD -MF .main.o.cmd -c -o main.o ../source/init/main.c
	cd $(O) && $(CC) -nostdlib -static -o vmlinux open.o main.o
"""
"""Of a kernel of two files."""
BANNER = 'const char banner[] = "Linux version 6.1.0 (me@here)\\n";\n'
MAIN = BANNER + "char room[8192] = {1};\nvoid _start(void) {}\n"
OPEN = '#include "../include/fs.h"\nconst char cost[] = "instructions=100;";\n'
COSTLIER = OPEN.replace("=100", "=200")
BY = target.parse("instructions:do_sys_open")


class Tree:
    """A git tree to which commits are added."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.head = folder, ""
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch", "main")
        with (folder / ".git/config").open("a") as config:
            config.write("[user]\nname = me\nemail = me@here\n[maintenance]\nauto = false\n")
        for path, text in {
            "Kconfig": "mainmenu\n", "Makefile": MAKEFILE, "fs/open.c": OPEN, "init/main.c": MAIN,
            "include/fs.h": "\n", "fs/unused.c": "\n", "Documentation/fs.rst": "\n",
        }.items():  # fmt: skip
            self.write(path, text)
        self.commit("first")

    def git(self, *command: str) -> str:
        done = subprocess.run(
            ["git", "-C", self.folder, *command], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def commit(self, subject: str, **files: str) -> str:
        """A commit in which files change, `fs__open_c` for fs/open.c; returns its id."""
        for name, text in files.items():
            self.write(name.replace("__", "/").replace("_c", ".c").replace("_rst", ".rst"), text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)
        self.head = self.git("rev-parse", "HEAD")
        return self.head


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    return Tree(tmp_path / "linux")


class Boots:
    """Stands for the virtual machines: what a kernel says in its image is what it costs."""

    def __init__(self, stop_after: int = 1000) -> None:
        self.of: list[str] = []
        self._stop_after = stop_after

    def __call__(self, variant: Variant) -> CandidateCells:
        if len(self.of) == self._stop_after:
            raise KeyboardInterrupt
        image = kernels.find(variant.kernel).image.read_bytes()
        cost = re.search(rb"instructions=(\w+);", image)
        assert cost
        self.of.append(variant.name)
        if cost[1] == b"panic":
            raise CannotMeasureError("the kernel panicked")
        ran = pl.DataFrame(
            {
                "context": ["process"],
                "path": [""],
                "function": ["do_sys_open"],
                "instructions": [int(cost[1])],
            }
        )
        return {"instructions": [ProbedCell(ran, {"operations": [1]})]}


class BuiltWhenNeeded(CommitsOfTree):
    """These boots take no time in which the next kernels could be built: that would be most of a test."""

    def build_command(self, name: str) -> list[str]:
        return []


def bisection(
    tree: Tree,
    folder: Path,
    boots: Callable[[Variant], CandidateCells],
    good: str,
    bad: str,
    steps: list[str],
    of: type[CommitsOfTree] = BuiltWhenNeeded,
) -> tuple[Bisection, Commits]:
    found = commits.between(tree.folder, good, bad)
    candidates = of(found, [], Variant(name="commit"), "x86_64", lambda _step: None)
    asked = {"good": found.good, "bad": found.bad}
    return Bisection(folder, candidates, boots, steps.append, asked, BY), found


def history(tree: Tree, count: int = 40, culprit: int = 23) -> list[str]:
    """Every fourth commit changes what is compiled, the others something else; all but one are harmless."""
    made = [tree.head]
    for number in range(1, count + 1):
        if number == culprit:
            made.append(tree.commit("fs: check more", fs__open_c=COSTLIER))
        elif number % 4 == 0:
            made.append(tree.commit(f"main {number}", init__main_c=f"{MAIN}int main_{number};\n"))
        elif number % 4 == 1:
            made.append(tree.commit(f"docs {number}", Documentation__fs_rst=f"{number}\n"))
        else:
            made.append(tree.commit(f"unused {number}", fs__unused_c=f"int unused_{number};\n"))
    return made


@pytest.mark.slow
def test_a_culprit_among_commits_is_found_and_verified(tree: Tree, tmp_path: Path) -> None:
    made = history(tree)
    before = tree.git("status", "--porcelain"), tree.git("rev-parse", "HEAD"), tree.git("stash", "list")
    boots, steps = Boots(), list[str]()
    bisected, _ = bisection(tree, tmp_path / "b", boots, made[0], made[-1], steps, CommitsOfTree)
    found = bisected.find()
    culprit = made[23]
    assert found.findings == [Culprit(culprit, (100.0,), (200.0,), {made[22]: (100.0,)})]
    assert found.reverts == {culprit: (100.0,)}
    # Eleven change what is compiled: two ends, log2 of 11, the culprit itself, its revert.
    assert len(boots.of) <= 2 + 4 + 1 + 1
    assert found.idle == 29
    text = bisect_report.as_text(bisected, found)
    assert f'culprit: {culprit[:12]} ("fs: check more"): 100.000 instructions before, 200.000' in text
    assert "with it reverted has 100.000 instructions, as before the culprit" in text
    document = json.loads(bisect_report.as_json(bisected, found))
    assert document["findings"][0]["names"] == [culprit]
    assert before == (
        tree.git("status", "--porcelain"),
        tree.git("rev-parse", "HEAD"),
        tree.git("stash", "list"),
    ), "the tree is only read"
    replayed = subprocess.run(
        ["git", "-C", tree.folder, "bisect", "replay", tmp_path / "b/bisect.log"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"{culprit} is the first bad commit" in replayed.stdout


@pytest.mark.slow
def test_one_that_was_killed_goes_on(tree: Tree, tmp_path: Path) -> None:
    made = history(tree, 20, 11)
    whole = Boots()
    expected = bisection(tree, tmp_path / "whole", whole, made[0], made[-1], [])[0].find()
    for after in 0, 1, 3, 5:
        folder, first, second = tmp_path / str(after), Boots(stop_after=after), Boots()
        with pytest.raises(KeyboardInterrupt):
            bisection(tree, folder, first, made[0], made[-1], [])[0].find()
        found = bisection(tree, folder, second, made[0], made[-1], [])[0].find()
        assert found.findings == expected.findings
        # What was measured is read again, which in a study is no boot.
        assert set(first.of) | set(second.of) == set(whole.of)


def test_kernels_are_built_while_another_one_boots(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is needed next is there when the boot ends, and no build outlives the bisection."""
    made = [tree.head, *(tree.commit(f"main {n}", init__main_c=f"{MAIN}int m_{n};\n") for n in range(4))]
    made.append(tree.commit("fs: check more", fs__open_c=COSTLIER))
    boots = Boots()
    early: set[str] = set()
    begun: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def begin(*arguments: Any, **named: Any) -> Any:
        process = start(*arguments, **named)
        if named.get("start_new_session"):
            begun.append(process)
        return process

    def slow(variant: Variant) -> CandidateCells:
        here = {kernel.name for kernel in kernels.installed()}
        for process in begun:
            process.wait()
        early.update({kernel.name for kernel in kernels.installed()} - here)
        return boots(variant)

    monkeypatch.setattr(subprocess, "Popen", begin)
    bisected, _ = bisection(tree, tmp_path / "b", slow, made[0], made[-1], [], CommitsOfTree)
    found = bisected.find()
    assert [one.name for one in found.findings if isinstance(one, Culprit)] == [made[-1]]
    assert set(boots.of) - early == {f"g{made[0][:12]}"}
    assert all(process.poll() is not None for process in begun)


def test_a_build_is_stopped_where_no_process_reaps_orphans() -> None:
    """As in a container without an init: what has ended stays in the list of processes."""
    become_subreaper = partial(ctypes.CDLL(None).prctl, 36)  # PR_SET_CHILD_SUBREAPER
    become_subreaper(1)
    try:
        shell = ["sh", "-c", "sleep 1000 & echo; wait"]
        build = subprocess.Popen(shell, stdout=subprocess.PIPE, start_new_session=True)
        assert build.stdout
        build.stdout.readline()
        speculative._stop(build)
        orphan, status = os.waitpid(-build.pid, os.WNOHANG)
    finally:
        become_subreaper(0)
    build.stdout.close()
    assert orphan and os.WTERMSIG(status) == signal.SIGTERM


@pytest.mark.parametrize(
    "deaf", ["trap '' TERM; sleep 1000000 & echo; wait", "(trap '' TERM; echo; sleep 1000000) & wait"]
)
def test_a_build_that_does_not_end_is_killed(deaf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It, or what it has started."""
    monkeypatch.setattr(speculative, "_PATIENCE_S", 0.2)
    build = subprocess.Popen(["sh", "-c", deaf], stdout=subprocess.PIPE, start_new_session=True)
    assert build.stdout
    build.stdout.readline()
    stopping = threading.Thread(target=speculative._stop, args=(build,), daemon=True)
    stopping.start()
    stopping.join(60)
    lives = speculative._lives(build.pid)
    if lives:
        os.killpg(build.pid, signal.SIGKILL)
    build.stdout.close()
    assert not lives


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a priority")
def test_a_build_that_is_waited_for_is_no_longer_in_the_background() -> None:
    """It, and what it has started."""
    shell = ["sh", "-c", "sleep 1000000 & echo $!; wait"]
    with subprocess.Popen(shell, stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout
        compiler = int(build.stdout.readline())
        try:
            for one in build.pid, compiler:
                os.setpriority(os.PRIO_PROCESS, one, 19)
            speculative._hurry(build.pid)
            ours = os.getpriority(os.PRIO_PROCESS, 0)
            assert {os.getpriority(os.PRIO_PROCESS, one) for one in (build.pid, compiler)} == {ours}
        finally:
            os.kill(compiler, signal.SIGKILL)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_compiler_outlives_a_build(tree: Tree, end: signal.Signals) -> None:
    """It would write its object when the next build has written another source."""
    compiler = f"sleep {os.getpid()}.25"
    tree.commit("slow", Makefile=MAKEFILE.replace("vmlinux:\n", f"vmlinux:\n\t({compiler}; true); true\n"))

    def compilers() -> list[bytes]:
        found = []
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it has just ended
                found.append(process.read_bytes())
        return [line for line in found if line == compiler.replace(" ", "\0").encode() + b"\0"]

    command = [BIGIRON, "kernel", "build", str(tree.folder)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as build:
        wait_until(compilers)
        build.send_signal(end)
    wait_until(lambda: not compilers())


def test_another_question_in_the_same_folder_is_refused(tree: Tree, tmp_path: Path) -> None:
    made = history(tree, 4, 3)
    bisection(tree, tmp_path / "b", Boots(), made[0], made[-1], [])[0].find()
    with pytest.raises(UserError, match=r"bisects with good = \w+, not \w+: give another -o"):
        bisection(tree, tmp_path / "b", Boots(), made[1], made[-1], [])


@pytest.mark.slow
def test_what_does_not_build_or_boot_is_skipped(tree: Tree, tmp_path: Path) -> None:
    made = [tree.head]
    texts = [OPEN, "#error broken\n", OPEN.replace("=100", "=panic"), COSTLIER, f"{COSTLIER}int more;\n"]
    made += [tree.commit(f"open {number}", fs__open_c=text) for number, text in enumerate(texts)]
    steps = list[str]()
    bisected, _ = bisection(tree, tmp_path / "b", Boots(), made[0], made[-1], steps, CommitsOfTree)
    found = bisected.find()
    assert found.findings == [Suspects((made[2], made[3], made[4]), (100.0,), (200.0,))]
    skipped = [step for step in steps if "skipped" in step]
    assert any("does not build: fs/open.c:1:2: error: #error broken" in step for step in skipped)
    assert any("the kernel panicked" in step for step in skipped)
    assert "undecided: the culprit is one of 3 candidates" in bisect_report.as_text(bisected, found)


def test_ends_that_do_not_boot_or_build(tree: Tree, tmp_path: Path) -> None:
    good = tree.head
    panics = tree.commit("panic", fs__open_c=OPEN.replace("=100", "=panic"))
    broken = tree.commit("broken", fs__open_c="#error broken\n")
    with pytest.raises(MachineError, match=r'\("panic"\) cannot be measured: the kernel panicked'):
        bisection(tree, tmp_path / "a", Boots(), good, panics, [])[0].find()
    with pytest.raises(UserError, match=r'\("broken"\) cannot be measured: the kernel does not build'):
        bisection(tree, tmp_path / "b", Boots(), good, broken, [])[0].find()


@pytest.mark.slow
def test_two_steps_are_two_culprits_with_a_log_each(tree: Tree, tmp_path: Path) -> None:
    made = [tree.head]
    for number in range(1, 10):
        cost = 100 + 100 * (number >= 3) + 300 * (number >= 7)
        made.append(
            tree.commit(f"open {number}", fs__open_c=OPEN.replace("=100", f"={cost}") + f"int i{number};\n")
        )
    found = bisection(tree, tmp_path / "b", Boots(), made[0], made[-1], [])[0].find()
    assert [(one.name, one.before, one.after) for one in found.findings if isinstance(one, Culprit)] == [
        (made[3], (100.0,), (200.0,)),
        (made[7], (200.0,), (500.0,)),
    ]
    for name, culprit in ("bisect.log", made[3]), ("bisect-2.log", made[7]):
        replayed = subprocess.run(
            ["git", "-C", tree.folder, "bisect", "replay", tmp_path / "b" / name],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert f"{culprit} is the first bad commit" in replayed.stdout


def test_no_culprit_is_reported_after_the_two_ends(tree: Tree, tmp_path: Path) -> None:
    made = history(tree, 12, 0)
    boots = Boots()
    bisected, _ = bisection(tree, tmp_path / "b", boots, made[0], made[-1], [])
    found = bisected.find()
    assert (found.findings, len(boots.of)) == ([], 2)
    assert "no culprit:" in bisect_report.as_text(bisected, found)


@pytest.mark.slow
def test_a_culprit_that_a_merge_brought(tree: Tree, tmp_path: Path) -> None:
    good = tree.head
    tree.git("checkout", "--quiet", "-b", "side")
    tree.commit("side 1", Documentation__fs_rst="side\n")
    culprit = tree.commit("side 2", fs__open_c=COSTLIER)
    tree.commit("side 3", fs__open_c=f"{COSTLIER}int more;\n")
    tree.git("checkout", "--quiet", "main")
    for number in range(3):
        tree.commit(f"main {number}", init__main_c=f"{MAIN}int main_{number};\n")
    tree.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    for number in range(3, 5):
        tree.commit(f"main {number}", init__main_c=f"{MAIN}int main_{number};\n")
    found = bisection(tree, tmp_path / "b", Boots(), good, tree.head, [])[0].find()
    assert [one.name for one in found.findings] == [culprit]
    # And with the good end on a branch of its own, which parts from the bad one's at the first commit.
    tree.git("checkout", "--quiet", "-b", "stable", good)
    stable = tree.commit("stable 1", init__main_c=f"{MAIN}int stable;\n")
    found = bisection(tree, tmp_path / "c", Boots(), stable, tree.git("rev-parse", "main"), [])[0].find()
    assert [one.name for one in found.findings] == [culprit]
    cheaper = tree.commit("stable 2", fs__open_c=OPEN.replace("=100", "=50"))
    with pytest.raises(UserError, match=r"^the merge base .* already differs from the good end"):
        bisection(tree, tmp_path / "d", Boots(), cheaper, tree.git("rev-parse", "main"), [])[0].find()


def test_files_that_other_commits_compile_are_found_in_the_end(tree: Tree, tmp_path: Path) -> None:
    """A header that only commits in the middle include looks as if it did not matter."""
    made = [tree.head]
    made.append(tree.commit("include", fs__open_c=f'{OPEN}#include "../include/cost.h"\n'))
    (tree.folder / "include/cost.h").write_text("\n")
    made.append(tree.commit("add"))
    (tree.folder / "include/cost.h").write_text("int more;\n")
    made.append(tree.commit("more"))
    made.append(tree.commit("inline", fs__open_c=COSTLIER))
    found = bisection(tree, tmp_path / "b", Boots(), made[0], made[-1], [])[0].find()
    assert [one.name for one in found.findings if isinstance(one, Culprit)] == [made[4]]


class Busy:
    """Stands for a host on which nothing that costs this much comes to an end in time."""

    def __init__(self, cost: int, boots: Boots) -> None:
        self._cost, self._boots = f"instructions={cost};".encode(), boots

    def __call__(self, variant: Variant) -> CandidateCells:
        if self._cost in kernels.find(variant.kernel).image.read_bytes():
            raise CannotMeasureError("the machine was still booting after its deadline")
        return self._boots(variant)


def test_what_passes_is_tried_again_and_what_does_not_is_not(tree: Tree, tmp_path: Path) -> None:
    made = [tree.head]
    texts = [
        OPEN,
        "#error broken\n",
        COSTLIER,
        COSTLIER.replace("=200", "=201"),
        COSTLIER.replace("=200", "=300"),
    ]
    made += [tree.commit(f"open {number}", fs__open_c=text) for number, text in enumerate(texts)]
    with pytest.raises(MachineError, match="deadline"):
        bisection(tree, tmp_path / "b", Busy(300, Boots()), made[0], made[-1], [])[0].find()
    bisection(tree, tmp_path / "b", Busy(200, Boots()), made[0], made[-1], [])[0].find()
    kept = json.loads((tmp_path / "b/bisect.json").read_text())["outcomes"]
    assert [name for name, outcome in kept.items() if outcome["why"] and not outcome["same_as"]] == [made[2]]
    found = bisection(tree, tmp_path / "b", Boots(), made[0], made[-1], [])[0].find()
    assert [(one.before, one.after) for one in found.findings] == [
        ((100.0,), (200.0,)), ((201.0,), (300.0,)),
    ]  # fmt: skip


def test_a_missing_tool_is_no_commit_s_fault(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = history(tree, 8, 3)
    bisected, _ = bisection(tree, tmp_path / "b", Boots(), made[0], made[-1], [])
    monkeypatch.setitem(builder._TOOLS, "no-such-bison", "bison")
    with pytest.raises(UserError, match="no no-such-bison on PATH"):
        bisected.find()
    monkeypatch.delitem(builder._TOOLS, "no-such-bison")
    found = bisection(tree, tmp_path / "b", Boots(), made[0], made[-1], [])[0].find()
    assert [one.name for one in found.findings if isinstance(one, Culprit)] == [made[3]]


@pytest.mark.slow
def test_a_tool_that_goes_missing_stops_the_bisection_and_it_goes_on(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it found before is kept, and no commit is skipped for want of a tool."""
    tool = tmp_path / "bin/our-flex"
    tool.parent.mkdir()
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    tree.commit("needs it", Makefile=MAKEFILE.replace("vmlinux:\n", "vmlinux:\n\tour-flex\n"))
    made = history(tree, 12, 5)

    def install() -> None:
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)

    class Loses(Boots):
        def __call__(self, variant: Variant) -> CandidateCells:
            if len(self.of) == 1:  # both ends are built
                tool.unlink()
            return super().__call__(variant)

    install()
    boots = Loses()
    with pytest.raises(BuildHostError, match=r"this host cannot build the kernel: .*our-flex"):
        bisection(tree, tmp_path / "b", boots, made[0], made[-1], [])[0].find()
    kept = json.loads((tmp_path / "b/bisect.json").read_text())["outcomes"]
    assert len(kept) == len(boots.of) == 2
    install()
    found = bisection(tree, tmp_path / "b", Boots(), made[0], made[-1], [])[0].find()
    assert [one.name for one in found.findings if isinstance(one, Culprit)] == [made[5]]


def of_options(tree: Tree, options: list[str]) -> OptionsOfConfiguration:
    return OptionsOfConfiguration(
        tree.folder, options, [], Variant(name="commit"), "x86_64", lambda _step: None
    )


def test_an_option_of_the_configuration_among_others(tree: Tree, tmp_path: Path) -> None:
    """Each on top of those before it; one that does not build is skipped, and no image is booted twice."""
    costly = "$(if $(shell grep -x CONFIG_COSTLY=y $(O)/.config),-DCOSTLY)"
    broken = "\t! grep -x CONFIG_BROKEN=7 $(O)/.config\n"
    tree.commit(
        "options",
        Makefile=MAKEFILE.replace("vmlinux:\n", f"vmlinux:\n{broken}").replace("$(CC)", f"$(CC) {costly}"),
        fs__open_c=f"#ifdef COSTLY\n{COSTLIER}#else\n{OPEN}#endif\n",
    )
    options = [f"CONFIG_NOTHING{number}=y" for number in range(6)]
    options[2:2] = ["CONFIG_COSTLY=y"]
    boots = Boots()
    bisected = Bisection(tmp_path / "b", of_options(tree, options), boots, [].append, {}, BY)
    found = bisected.find()
    assert [one.name for one in found.findings if isinstance(one, Culprit)] == ["CONFIG_COSTLY=y"]
    assert found.reverts == {"CONFIG_COSTLY=y": (100.0,)}
    assert len(set(boots.of)) == len(boots.of) == 3
    with pytest.raises(CannotMeasureError, match="does not build") as told:
        of_options(tree, ["CONFIG_BROKEN=7"]).variant("CONFIG_BROKEN=7")
    assert told.value.is_lasting
    with pytest.raises(UserError, match="--config-option COSTLY: give CONFIG_NAME=y"):
        of_options(tree, ["COSTLY"])
    with pytest.raises(UserError, match="an option is given twice"):
        of_options(tree, ["CONFIG_COSTLY=y", "CONFIG_COSTLY=n"])


def test_a_candidate_that_cannot_be_predicted_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_of: object) -> None:
        raise UserError("its tasks wait for a lock of user space")

    monkeypatch.setattr(prediction, "predict", fails)
    spec = Spec(workload="open1", variant=[Variant(name="v", kernel="k")])
    measure = MeasuredByStudy(tmp_path, spec, 1, ProgressBar, "epyc-7742-x2", 4)
    with pytest.raises(CannotMeasureError, match="a lock of user space") as told:
        measure._predicted(Study(tmp_path, spec), spec.variant[0])
    assert not told.value.is_lasting


def test_candidates_with_other_clocks_are_reported(tmp_path: Path) -> None:
    """A kernel that does not tell how its clock is slowed down has the host's."""
    one = counts(count(0, "fput", 1, 1), count(1, "fput", 1, 1))
    study = study_of(tmp_path, {"typed": [one], "plain": [one]}, slower={"typed": 64, "plain": 1})
    measure = MeasuredByStudy(tmp_path, study.spec, 1, ProgressBar)
    assert measure.machine_differences.startswith(
        "guest clocks differ: the host's on plain, 64 times slower on typed"
    )


def test_a_full_disk_is_no_commit_s_fault(tree: Tree, tmp_path: Path) -> None:
    full = tree.commit(
        "full", Makefile=MAKEFILE.replace("vmlinux:", "vmlinux:\n\techo No space left on device; false")
    )
    with pytest.raises(BuildHostError, match=r"this host cannot build the kernel: .*No space left"):
        commits_of(tree, full, []).variant(full)
    broken = tree.commit("broken", Makefile=MAKEFILE.replace("vmlinux:", "vmlinux:\n\tfalse"))
    with pytest.raises(CannotMeasureError) as told:
        commits_of(tree, broken, []).variant(broken)
    assert told.value.is_lasting


def commits_of(tree: Tree, bad: str, fragments: list[Path], **of_all: Any) -> CommitsOfTree:
    good = tree.git("rev-list", "--max-parents=0", bad).splitlines()[-1]
    found = commits.between(tree.folder, good, bad)
    return CommitsOfTree(found, fragments, Variant(name="commit", **of_all), "x86_64", lambda _step: None)


def test_all_that_makes_another_question(tree: Tree, tmp_path: Path) -> None:
    bad = tree.commit("open", fs__open_c=COSTLIER)
    fragment = tmp_path / "more.config"
    fragment.write_text("# CONFIG_A is not set\n")
    plain, configured = commits_of(tree, bad, []), commits_of(tree, bad, [fragment])
    fragment.write_text("# CONFIG_B is not set\n")
    otherwise = commits_of(tree, bad, [fragment])
    booted, written = (
        commits_of(tree, bad, [], boot="mitigations=off"),
        commits_of(tree, bad, [], set=["a=1"]),
    )
    questions = [one.question for one in (plain, configured, otherwise, booted, written)]
    assert all(questions.count(one) == 1 for one in questions)
    names = [one.variant(bad).name for one in (plain, configured, otherwise)]
    assert len(set(names)) == 3
    assert names[0] == f"g{bad[:12]}"
    lists = [
        ListOfVariants([Variant(name=name, kernel=name, boot=boot) for name in "ab"], "x86_64").question
        for boot in ("", "mitigations=off")
    ]
    assert lists[0] != lists[1]
    assert json.loads(json.dumps(lists)) == lists


@pytest.mark.parametrize("of_root", [False, True])
def test_a_revert_is_bytes(tree: Tree, tmp_path: Path, of_root: bool) -> None:
    """Sources have Latin-1 in them, and CRLF; and a commit may have no parent."""
    dos = b'/* Andr\xe9 */\r\nconst char cost[] = "instructions=100;";\r\n'
    culprit = ""
    if of_root:
        good = tree.head
        tree.git("checkout", "--quiet", "--orphan", "other")
        tree.git("rm", "--quiet", "-rf", ".")
        tree.folder.joinpath("new.c").write_bytes(dos)
        culprit = tree.commit("root")
        tree.git("checkout", "--quiet", "main")
        tree.git("merge", "--quiet", "--allow-unrelated-histories", "-m", "merge", "other")
        tree.commit("merged")
    else:
        tree.folder.joinpath("fs/open.c").write_bytes(dos)
        good = tree.commit("before")
        tree.folder.joinpath("fs/open.c").write_bytes(dos.replace(b"=100", b"=200"))
        culprit = tree.commit("costlier")
    last = tree.commit("last", init__main_c=f"{MAIN}int more;\n")
    found = commits.between(tree.folder, good, last)
    candidates = CommitsOfTree(found, [], Variant(name="commit"), "x86_64", lambda _step: None)
    without = candidates.reverted(culprit)
    assert isinstance(without, Variant)
    assert b"instructions=100;" in kernels.find(without.kernel).image.read_bytes()


def test_a_revert_that_fails_loses_nothing(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = history(tree, 8, 3)

    def fails(self: Commits, commit: str) -> bytes:
        raise UserError("git diff-tree failed: bad object")

    monkeypatch.setattr(Commits, "revert", fails)
    found = bisection(tree, tmp_path / "b", Boots(), made[0], made[-1], [])[0].find()
    assert found.reverts == {made[3]: "git diff-tree failed: bad object"}
    assert (tmp_path / "b/bisect.log").exists()


def test_a_header_that_comes_or_goes_may_hide_another(tree: Tree) -> None:
    """The image without it was compiled from include/asm-generic/xor.h, the image with it was not."""
    good, compiled = tree.head, {"fs/open.c", "include/asm-generic/xor.h"}
    made = []
    for path, text in (
        ("fs/unused.h", "a"),
        ("arch/x86/include/asm/xor.h", "a"),
        ("arch/x86/include/asm/xor.h", "b"),
    ):
        tree.write(path, text)
        made.append(tree.commit(text))
    tree.git("rm", "--quiet", path)
    made.append(tree.commit("gone"))
    found = commits.between(tree.folder, good, made[-1])
    assert [found.cannot_matter(commit, "x86_64", compiled) for commit in made] == [True, False, True, False]
    pairs = zip([good, *made], made, strict=False)
    same = [found.same_image(one, other, "x86_64", compiled) for one, other in pairs]
    assert same == [True, False, True, False]
    assert commits.differing(tree.folder, good, made[0]) == ["fs/unused.h"]


def test_a_subject_does_not_steer_the_terminal(tree: Tree, tmp_path: Path) -> None:
    culprit = tree.commit("fs: \x1b[31mred\x0c\u2028 \x9b0m", fs__open_c=COSTLIER)
    last = tree.commit("last", fs__open_c=f"{COSTLIER}int more;\n")
    steps = list[str]()
    bisected, found = bisection(
        tree, tmp_path / "b", Boots(), made := tree.git("rev-list", "--max-parents=0", last), last, steps
    )
    said = bisected.find()
    assert made != culprit
    assert found.subjects[culprit] == r"fs: \x1b[31mred\x0c\u2028 \x9b0m"
    log = (tmp_path / "b/bisect.log").read_text()
    for text in (*steps, log, bisect_report.as_text(bisected, said), bisect_report.as_json(bisected, said)):
        assert not set(text) & set("\x1b\x0c\u2028\x9b")


def test_waiting_and_what_gcc_adds_to_names_are_no_work() -> None:
    def cells(name: str, waits: int) -> CandidateCells:
        paths = ["", f"do_sys_open;{name}", f"do_sys_open;{name}"]
        functions = ["do_sys_open", "_raw_spin_lock", "native_queued_spin_lock_slowpath"]
        ran = pl.DataFrame(
            {
                "context": ["process"] * 3,
                "path": paths,
                "function": functions,
                "instructions": [100, 10, waits],
            }
        )
        return {"instructions": [ProbedCell(ran, {"operations": [1]})]}

    for option, own in (
        ("instructions", 110.0),
        ("instructions:do_sys_open", 110.0),
        ("instructions:alloc_fd", 10.0),
    ):
        by = target.parse(option)
        values = [by.value(cells(*of)) for of in (("alloc_fd", 0), ("alloc_fd.constprop.0", 5000))]
        assert values == [(own,), (own,)]


def test_what_differs_most_between_the_ends_is_looked_at() -> None:
    def cells(label: int, flag: int, freed: int, instructions: int) -> CandidateCells:
        touched = {"label": label, "flag": flag, "struct slab.freelist": freed}
        lines = counts(
            *(
                count(cpu, "f", 0, accesses, line=64 * number, object=name)
                for number, (name, accesses) in enumerate(touched.items())
                for cpu in (0, 1)
            )
        )
        facts: dict[str, Any] = {"operations": [2], "lost_accesses": 0, "line_bytes": 64, "pair_bytes": 128}
        return {
            "conflicts": [ProbedCell(lines, facts)],
            "instructions": [ProbedCell(executed(("", "f", instructions)), facts)],
        }

    before = cells(6, 2, 1, 1000)
    chosen = [
        target.most_changed(before, cells(*after))
        for after in ((8, 9, 99, 5000), (9, 3, 1, 1000), (6, 2, 99, 5000), (6, 2, 99, 1000))
    ]
    assert [one and one.option for one in chosen] == [
        "conflicts:flag",
        "conflicts:label",
        "instructions",
        None,
    ]


# What is wrong with what was given


def refused(*arguments: str | Path) -> str:
    answer = bigiron("bisect", *arguments)
    assert (answer.status, answer.out) == (2, ""), answer
    return answer.complaint


def of_tree(tree: Tree, good: str, bad: str, *more: str) -> Sequence[str | Path]:
    return ["open1", "--linux", tree.folder, "--good", good, "--bad", bad, "-o", "b", *more]


def test_commits_that_are_not_there_or_not_related(tree: Tree) -> None:
    first = tree.head
    second = tree.commit("second")
    tree.git("checkout", "--quiet", "--orphan", "other")
    other = tree.commit("other")
    assert "have no common ancestor" in refused(*of_tree(tree, first, other))
    assert "exchange them" in refused(*of_tree(tree, second, first))
    assert f"--good and --bad are the same commit, {first[:12]}" in refused(*of_tree(tree, first, first))
    assert refused(*of_tree(tree, "v6.99", second)).startswith(f"--good: {tree.folder} has no 'v6.99'")
    assert "it is not a git repository" in refused(
        "open1", "--linux", tree.folder.parent, "--good", "a", "--bad", "b", "-o", "b"
    )


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    assert "no folder" in refused("open1", "--kernel", "debian/6.1")
    assert "no kernel" in refused("open1", "-o", folder)
    assert "nothing to bisect" in refused("open1", "--kernel", "debian/6.1", "-o", folder)
    assert "give --linux TREE too" in refused("open1", "--good", "v6.1", "-o", folder)
    assert "give --good COMMIT and --bad COMMIT" in refused("open1", "--linux", tmp_path, "-o", folder)
    assert refused("open1", "--by", "luck", "-o", folder).startswith("--by 'luck': use conflicts[")
    assert "a bisection uses one number" in refused(
        "open1", "--kernel", "a", "--kernel", "b", "--cpus", "2,4", "-o", folder
    )
    assert not folder.exists()


# In virtual machines


def test_a_list_of_kernels(tmp_path: Path) -> None:
    """AppArmor's label is written twice an operation less from 6.12 on; a resumed one boots nothing."""
    listed = [f"debian/{series}" for series in ("6.1", "6.12", "7.2")]
    asked = [
        "bisect", "open1", *(word for name in listed for word in ("--kernel", name)),
        "--cpus", "2", "--operations", "50", "--format", "json", "-o", tmp_path / "b",
    ]  # fmt: skip
    answer = bigiron(*asked)
    assert answer.status == 0, answer
    found = json.loads(answer.out)
    assert (found["by"], found["boots"]) == ("conflicts:struct aa_label", 3)
    assert found["findings"] == [
        {
            "kind": "culprit", "names": ["debian/6.12"], "before": [6.0, 6.0], "after": [2.0, 2.0],
            "parents": {"debian/6.1": [6.0, 6.0]}, "reverted": None,
        }
    ]  # fmt: skip
    again = bigiron(*asked)
    assert json.loads(again.out) == found
    assert "measured in" not in again.err
    answer = bigiron(*asked, "--by", "conflicts:struct spoon")
    assert (answer.status, answer.complaint.startswith(f"{tmp_path / 'b'} bisects with by = None")) == (
        2,
        True,
    )
    other = [*asked[:-1], tmp_path / "c", "--by", "conflicts:struct spoon"]
    answer = bigiron(*other, "--fleet", "local:1")
    assert answer.status == 2
    assert "neither end has a shared cache line of that name: they have struct aa_label" in answer.err


# What has noise


class Noisy:
    """Stands for machines whose throughput has noise of 2 %, and a culprit's share is lost from some on."""

    def __init__(
        self, names: list[str], culprit: int | None, stop_after: int = 1000, change: float = 0.9
    ) -> None:
        self._change = change
        self._names, self._culprit, self._stop_after = names, culprit, stop_after
        self.of: list[tuple[str, int]] = []

    def __call__(self, variant: Variant, repetition: int) -> float:
        if len(self.of) == self._stop_after:
            raise KeyboardInterrupt
        number = self._names.index(variant.name)
        self.of.append((variant.name, repetition))
        lost = self._change if self._culprit is not None and number >= self._culprit else 1.0
        noise = random.Random(f"{number} {repetition}").gauss(0, 0.02)
        return 1e6 * lost * math.exp(noise)


def listed(count: int) -> tuple[ListOfVariants, list[str]]:
    names = [f"v{number}" for number in range(count)]
    return ListOfVariants([Variant(name=name, kernel="k") for name in names], "x86_64"), names


def timed(folder: Path, candidates: ListOfVariants, run: Noisy, most: int = 200) -> TimedBisection:
    return TimedBisection(folder, candidates, run, lambda _step: None, {"by": "throughput"}, 0.05, most)


def test_a_culprit_in_noise_and_none(tmp_path: Path) -> None:
    candidates, names = listed(65)
    bisected = timed(tmp_path / "a", candidates, Noisy(names, 40))
    found = bisected.find()
    assert (found.chances.likeliest, found.chances.decided) == ("v40", True)
    assert max(found.runs, key=lambda name: found.runs[name]) in (names[0], names[-1]), "the ends run most"
    assert bisect_report.timed_as_text(bisected, found).startswith("culprit: v40: more than 99.9% likely")
    found = timed(tmp_path / "b", candidates, Noisy(names, None)).find()
    assert (found.chances.likeliest, found.chances.decided) == (None, True)
    bisected = timed(tmp_path / "c", candidates, Noisy(names, 40), most=8)
    assert bisect_report.timed_as_text(bisected, bisected.find()).startswith("undecided: ")


@pytest.mark.parametrize("change", [0.02, 0.1, 0.9, 5.0])
def test_a_change_is_as_large_as_reported(tmp_path: Path, change: float) -> None:
    candidates, names = listed(17)
    found = timed(tmp_path, candidates, Noisy(names, 11, change=change)).find()
    assert found.chances.likeliest == "v11"
    assert found.chances.change == pytest.approx(change, rel=0.03)


def test_what_has_noise_goes_on_with_the_same_runs(tmp_path: Path) -> None:
    candidates, names = listed(65)
    whole, first, second = Noisy(names, 40), Noisy(names, 40, stop_after=9), Noisy(names, 40)
    timed(tmp_path / "a", candidates, whole).find()
    with pytest.raises(KeyboardInterrupt):
        timed(tmp_path / "b", candidates, first).find()
    timed(tmp_path / "b", candidates, second).find()
    assert second.of == whole.of, "in a study the first nine are there already"
