"""The table of further tests in a report: what is read of it, and how one of them is judged instead."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from conftest import bigiron
from test_judge import image, opinion, words
from test_robot_mail import PATTERNS, TEXT, pattern, quoted, read

from bigiron.commands.regressions import judge as judge_command
from bigiron.errors import UserError
from bigiron.judge import regressions
from bigiron.readers.robot_mail import Commit, RobotMail
from bigiron.report import reply_json
from bigiron.report.mail import understood
from bigiron.study.spec import Spec

FILE = PATTERNS / "19-further-tests.txt"
REPORT = FILE.read_text()
HASH = "perf-bench-futex.ops/s -94.6% in perf-bench-futex hash on 192 CPUs"


def table(*entries: str) -> str:
    """A table of further tests in the report of open1."""
    return TEXT.replace("If you fix", "\n".join(["+--+--+", *entries, "+--+--+", "", "If you fix"]))


def test_further_tests_are_read_each_with_its_own_table() -> None:
    found = pattern(19)
    assert (found.metric, found.change, found.benchmark) == (
        "phoronix-test-suite.speedb.SequentialFill.op_s",
        -0.117,
        "phoronix-test-suite",
    )
    futex, plain, small = found.further
    assert (futex.metric, futex.change, futex.regression) == ("perf-bench-futex.ops/s", -0.946, True)
    assert (futex.benchmark, futex.parameters["test"], futex.tasks) == ("perf-bench-futex", "hash", 192)
    assert futex.machine and (futex.machine.cpus, futex.machine.memory_gib) == (192, 256)
    assert futex.headline and (futex.headline.base, futex.headline.new) == (2405831, 129915)
    assert futex.ipc and futex.parameters["tbox_group"] == "lkp-srf-pattern"
    assert (futex.new, futex.base) == (found.new, Commit("f0e1d2c3b4", "pattern: what was before"))
    assert (plain.change, plain.regression, plain.tasks, plain.figures) == (0.031, False, 32, [])
    assert small.change == -0.022 and small.machine == plain.machine
    assert small.parameters["filesize"] == "9B" and "sync_method" not in small.parameters
    assert found.unknown == [] and found.further[0].further == []


def test_a_report_without_further_tests_has_none() -> None:
    assert read(TEXT).further == [] and pattern(1).further == []
    assert table() != TEXT and replace(read(table()), unknown=[]) == replace(read(TEXT), unknown=[])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("6740E  CPU @ 2.4GHz (Sierra", "6740E  CPU @ 2.4GHz\n(Sierra"),
        ("ops/s  94.6% regression  ", "ops/s  94.6%\nregression  "),
        ("94.6% regression                                  |", "94.6% regression\n|"),
    ],
)
def test_rows_of_the_table_that_were_cut_are_whole(old: str, new: str) -> None:
    assert old in REPORT
    text = REPORT.replace(old, new, 1)

    def without_notes(found: RobotMail) -> list[RobotMail]:
        return [replace(one, notes=[]) for one in found.further]

    for one in (text, quoted(text)):
        assert without_notes(read(one)) == without_notes(read(REPORT)) and read(one).unknown == []


def test_what_is_not_understood_of_the_table_is_reported_and_taken_for_nothing_else() -> None:
    rows = (
        "| testcase: change | fio-basic: fio.write_iops 5.0% regression |",
        "| test machine     | some machine |",
        "| test parameters  | nr_task=abc |",
        "|                  | bs=$(touch x) |",
        "| testcase: change | boot: no figure at all |",
        "| test machine     | 8 threads with 4G memory |",
        f"| testcase: change | {'x' * 150}: x.y 5.0% regression |",
        "| testcase: change | hackbench: hackbench.throughput 5.0% regression |",
        "+--+--+",
        "|                  | mode=threads |",
    )
    found = read(table(*rows))
    assert [one.metric for one in found.further] == ["hackbench.throughput"]
    assert found.further[0].machine is None and found.further[0].parameters == {}
    assert [text for _, text in found.unknown][:-1] == [rows[at][:120] for at in (1, 3, 4, 5, 6)]
    assert replace(read(table(*rows)), further=[], unknown=[]) == replace(read(TEXT), unknown=[])
    many = read(table(*["| testcase: change | hackbench: hackbench.throughput 5.0% regression |"] * 500))
    assert len(many.further) == 20


def test_a_further_regression_is_chosen_by_its_metric_or_its_number() -> None:
    found = pattern(19)
    assert regressions.chosen(found, "").mail is found
    for metric in ("1", found.metric):
        assert regressions.chosen(found, metric).mail is found
    for metric in ("2", "perf-bench-futex.ops/s"):
        one = regressions.chosen(found, metric)
        assert (one.number, one.mail, one.described, one.suffix) == (2, found.further[0], HASH, "-2")
    with pytest.raises(UserError, match="is the metric of several changes: give a number: 3 is fsmark"):
        regressions.chosen(found, "fsmark.files_per_sec")
    with pytest.raises(UserError, match=r"--metric 5 is not in the report: 1 is phoronix.*; 4 is"):
        regressions.chosen(found, "5")
    assert [one.number for one in regressions.others(regressions.chosen(found, ""))] == [2, 3]
    assert [one.number for one in regressions.others(regressions.chosen(found, "3"))] == [2]


def test_what_distinguishes_a_further_regression_of_the_same_benchmark_is_named() -> None:
    rows = (
        "| testcase: change | will-it-scale: will-it-scale.per_thread_ops 5.0% regression |",
        "| test machine     | 8 threads 1 sockets with 4G memory |",
        "| test parameters  | cpufreq_governor=powersave |",
        "|                  | mode=thread |",
        "|                  | test=open1 |",
    )
    (one,) = regressions.others(regressions.chosen(read(table(*rows)), ""))
    assert (
        one.described == "will-it-scale.per_thread_ops -5.0% in will-it-scale open1 on 8 CPUs (mode thread)"
    )


def test_a_reply_names_the_further_regressions_that_can_be_judged() -> None:
    found = pattern(19)
    further = regressions.others(regressions.chosen(found, ""))
    told = replace(opinion(), further=further)
    of_fsmark = "fsmark.files_per_sec +3.1% in fsmark on 48 CPUs (--metric 3)"
    named = "The report also names these changes, which are not judged here: "
    assert f"{named}{HASH} (--metric 2); {of_fsmark}." in words(told)
    assert "; and 1 more." in words(replace(told, further=further * 2))
    assert "also names" not in words(opinion())
    listed = json.loads(reply_json.as_json(told))["further"]
    assert listed[0] == {
        "number": 2,
        "metric": "perf-bench-futex.ops/s",
        "reported": -0.946,
        "benchmark": "perf-bench-futex",
    }
    assert f"also reported: {HASH}: --metric 2 judges it\n" in understood(found, further)


def test_a_refusal_names_what_can_be_judged_instead(tmp_path: Path) -> None:
    kernels = ("--kernel", "debian/6.12", "--kernel", "debian/6.12")
    refused = bigiron("judge", FILE, *kernels)
    assert refused.status == 2
    assert "phoronix-test-suite's speedb-1.0.1 is a whole application" in refused.err
    assert f"The report also names what can be judged: --metric 2 ({HASH}), --metric 3 (fsm" in refused.err
    unknown = bigiron("judge", FILE, *kernels, "--metric", "aim7.jobs-per-min")
    assert unknown.status == 2 and "aim7.jobs-per-min is not in the report" in unknown.err
    small = bigiron("judge", FILE, *kernels, "--metric", "4")
    assert "fsmark on nfsv4, which no machine here has" in small.err
    mistyped = bigiron("judge", FILE, *kernels, "--workload", "unlinkk1")
    assert mistyped.status == 2 and "unlinkk1" in mistyped.err and "also names" not in mistyped.err


def test_a_further_regression_is_judged_instead(tmp_path: Path) -> None:
    kernels = ("--kernel", "debian/6.12", "--kernel", "debian/6.12")
    answer = bigiron("judge", FILE, *kernels, "--metric", "perf-bench-futex.ops/s")
    assert answer.status == 0, answer
    assert (
        "read: perf-bench-futex.ops/s -94.6%, a1b2c3d4e5f6 against f0e1d2c3b4; runs perf bench" in answer.err
    )
    said = " ".join(answer.out.split())
    assert "reported as perf-bench-futex.ops/s -94.6% in perf-bench-futex hash with 192 tasks on 192" in said
    assert "not judged here: fsmark.files_per_sec +3.1%" in said


@pytest.mark.parametrize(
    ("metric", "folder", "runs"),
    [("2", "judge-a1b2c3d4e5f6-2", "perf bench futex hash"), ("3", "judge-a1b2c3d4e5f6-3", "fsmark/NoSync")],
)
def test_the_study_of_a_further_change_has_its_benchmark_and_a_folder_of_its_own(
    metric: str, folder: str, runs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = image(tmp_path / "a", b"one", b""), image(tmp_path / "b", b"another", b"")
    asked: list[tuple[Spec, Path]] = []

    def measure(spec: Spec, folder: Path, *_: object, **__: object) -> None:
        asked.append((spec, folder))
        raise typer.Exit(3)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(judge_command, "_kernels", lambda *_: (both, None))
    monkeypatch.setattr(judge_command, "measure_study", measure)
    with pytest.raises(typer.Exit):
        judge_command.judge(FILE, metric=metric)
    ((spec, where),) = asked
    assert where == Path(folder) and (spec.command or spec.workload).startswith(runs)
    assert len(spec.variant) == 2


def test_a_metric_of_the_first_and_of_a_further_test_is_ambiguous() -> None:
    rows = (
        "| testcase: change | will-it-scale: will-it-scale.per_process_ops 5.0% regression |",
        "| test machine     | 8 threads 1 sockets with 4G memory |",
        "| test parameters  | test=brk1 |",
    )
    found = read(table(*rows))
    with pytest.raises(
        UserError, match=r"several changes: give a number: 1 is will-it-.*open1.*; 2 is .*brk1"
    ):
        regressions.chosen(found, "will-it-scale.per_process_ops")
    assert [regressions.chosen(found, one).number for one in ("", "1", "2")] == [1, 1, 2]
