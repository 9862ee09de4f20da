"""`bigiron judge`: reports as they are mailed, what they are mapped to, and judgements of real kernels.

The reports in tests/reports and tests/corpus are patterns: written here, in the form of published mails.
"""

import doctest
import json
import re
import struct
import subprocess
from dataclasses import replace
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import typer
from conftest import Answer, bigiron
from test_compare import LINE, both, counts, study_of
from test_setup import ROOT

from bigiron.analysis.comparison.cost import Queue
from bigiron.analysis.layout.outcome import LayoutCounts
from bigiron.analysis.replay import trace
from bigiron.analysis.statistics.estimate import Estimate
from bigiron.commands.regressions import judge as judge_command
from bigiron.judge import judgement, second_opinion
from bigiron.judge.change import CountChange
from bigiron.judge.judgement import PredictedChange
from bigiron.judge.second_opinion import Opinion
from bigiron.kernels import configuration
from bigiron.kernels.commits import number_of_commits
from bigiron.kernels.image_equality import sameness
from bigiron.kernels.kernel import Kernel
from bigiron.machines.vm.file_system import KINDS
from bigiron.readers import robot_mail
from bigiron.readers.robot_mail import RobotMail
from bigiron.report import reply, reply_json
from bigiron.report.mail import understood
from bigiron.results import prediction
from bigiron.study import store
from bigiron.workloads.of_benchmark import Mapped, MappedProgram

HERE = Path(__file__).parent
TEXT = (HERE / "reports" / "open1.txt").read_text()
REPORTS = sorted((HERE / "corpus").glob("*.eml"))
NEW, BASE = "0123456789abcdef0123456789abcdef01234567", "fedcba9876"
SUBJECT = f"[linus:master] [vfs]  {NEW[:10]}:  will-it-scale.per_process_ops -52.4% regression"


def read(text: str) -> RobotMail:
    return robot_mail.read(text.encode(), "a mail")


def mail(encoding: str = "8bit", charset: str = "utf-8", text: str = TEXT) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = SUBJECT
    message["From"] = "kernel test robot <someone@example.com>"
    message.set_content(text, cte=encoding, charset=charset)
    return message


def test_the_examples() -> None:
    for module in (robot_mail, judgement, reply):
        assert doctest.testmod(module).failed == 0


# What it is mapped to (test_mapping.py has the rest)


def test_a_machine_that_no_file_can_describe_leaves_the_judgement_without_a_prediction() -> None:
    ivy = TEXT.replace("104 threads 2 sockets (Skylake)", "180 threads 6 sockets (Ivy Bridge-EX)")
    shaped = second_opinion.shape(read(ivy))
    assert shaped.like == "" and "how its 6 sockets are linked is not known" in shaped.why_not


# The same kernel


def image(path: Path, text: bytes, lines: bytes) -> Kernel:
    """An ELF file with code and a table of line numbers."""
    names = b"\0.text\0__bug_table\0.shstrtab\0"
    contents = [b"", text, lines, names]
    header = 64
    at, sections, body = header, [], b""
    for name, flags, content in zip((0, 1, 7, 19), (0, 2, 2, 0), contents, strict=True):
        sections.append(
            struct.pack("<IIQQQQIIQQ", name, 1, flags, 0, at + len(body), len(content), 0, 0, 1, 0)
        )
        body += content
    start = b"\x7fELF\x02\x01\x01" + bytes(9)
    ident = struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 0, header + len(body), 0, 64, 0, 0, 64, 4, 3)
    path.write_bytes(start + ident + body + b"".join(sections))
    return Kernel(path.name, "6.1", "", "x86_64", path, str(hash(path.read_bytes())), "")


def linked(path: Path, name: bytes, data: bytes) -> Kernel:
    """A program with a table of symbols' names, and data after it."""
    source = path.with_suffix(".S")
    source.write_text(
        ".text\nret\n.section .rodata\n.globl kallsyms_names, after\n"
        f'kallsyms_names: .ascii "{name.decode()}"\nafter: .ascii "{data.decode()}"\n'
    )
    subprocess.run(["gcc", "-nostdlib", "-static", "-Wl,--build-id=none,-e0", source, "-o", path], check=True)
    return Kernel(path.name, "6.1", "", "x86_64", path, str(hash(path.read_bytes())), "")


def test_kernels_are_the_same_whatever_line_an_initcall_is_named_after(tmp_path: Path) -> None:
    one = linked(tmp_path / "one", b"initcall_1517", b"data")
    assert sameness(one, linked(tmp_path / "line", b"initcall_1518", b"data")) == "code and data"
    assert sameness(one, linked(tmp_path / "data", b"initcall_1517", b"date")) == ""
    assert sameness(one, linked(tmp_path / "both", b"initcall_1518", b"date")) == ""


def test_kernels_are_the_same_whatever_lines_their_code_comes_from(tmp_path: Path) -> None:
    one = image(tmp_path / "one", b"code", b"line 1")
    assert sameness(one, one) == "image"
    assert sameness(one, image(tmp_path / "lines", b"code", b"line 2")) == "code and data"
    assert sameness(one, image(tmp_path / "code", b"kode", b"line 1")) == ""
    cut = image(tmp_path / "cut", b"kode", b"line 1")
    for length in (5, 50, 70, 200):
        (tmp_path / "cut").write_bytes(one.image.read_bytes()[:length])
        assert sameness(one, cut) == ""


# The reply


def opinion(change: CountChange | None = None, predicted: Estimate | None = None, **said: Any) -> Opinion:
    changes = [change] if change else []
    kind = change.kind if change else "neither"
    share = change.share if change else 0.0
    found = judgement.Judgement(kind, changes, 8, 8, 104, (100.0, 100.0), (2.0, 2.0), 2, share, **said)
    told = PredictedChange(104, "skylake-20c-x2", predicted, -0.524) if predicted else None
    return Opinion(read(TEXT), ("a", "b"), "open1", "process", found, predicted=told, not_predicted="x")


def test_a_reply_that_is_cut_says_so() -> None:
    told = replace(opinion(), not_considered=[f"what was not examined, number {n}" for n in range(200)])
    lines = reply.as_text(told).splitlines()
    assert len(lines) == 60 and lines[-1] == "The rest is left out: --format json has all."


def words(told: Opinion) -> str:
    return " ".join(reply.as_text(told).split())


def test_a_reply_says_what_was_done_and_what_was_left_out() -> None:
    told = words(opinion(left_out=("shared.lock (locks)",)))
    assert "2 boots of each kernel" in told
    assert (
        "Judgement: neither, no change costs 1 % of an operation's time." in told
        and "cost less: shared.lock (locks)" in told
    )


def test_counts_that_were_lost_are_not_considered(tmp_path: Path) -> None:
    rows = counts(*both("f", 10, line=LINE))
    study = study_of(tmp_path / "s", {"a": [rows], "b": [rows]}, slower={"a": 1, "b": 64})
    record = msgspec.structs.replace(study.records()[1], lost={"accesses, for which there was no room": 7})
    (study.folder / "cells" / record.id / "cell.json").write_bytes(msgspec.json.encode(record))
    found = judgement.Judgement("neither", [], 2, 2, 104, (1.0, 1.0), (2.0, 2.0), 1)
    shaped = second_opinion.ReportedShape("", "", "unknown")
    told = second_opinion.opinion(study, read(TEXT), Mapped("open1"), shaped, found)
    assert told.study == str(study.folder)
    assert told.not_considered[1:3] == [
        "lost counts: b: 7 lost: accesses, for which there was no room",
        "guest clocks differ: the host's on a, 64 times slower on b: do not compare ticks, timeouts",
    ]


def test_the_first_line_of_a_reply_is_the_verdict() -> None:
    def first(change: CountChange | None) -> str:
        return reply.as_text(opinion(change)).splitlines()[0]

    expensive = CountChange("instructions", "f", 100.0, 140.0, "instructions", 40.0, 0.4)
    assert first(expensive) == "Judgement: instructions, worse: each operation takes 40% longer. Each"
    cheap = CountChange("coherence", "struct a.b", 2.0, 0.0, "accesses", -900.0, -0.5)
    assert first(cheap) == "Judgement: coherence, better: each operation takes 50% less time. CPUs"
    assert first(None).startswith("Judgement: neither, no change costs 1 % of an operation's time.")
    predicted = words(opinion(expensive, Estimate(-0.3, -0.4, -0.2)))
    verdict = "Judgement: instructions, worse: predicted throughput -30.0% at 104 tasks. Each"
    assert predicted.startswith(verdict)
    assert "if nothing else is the bottleneck" not in predicted
    contradicted = words(opinion(expensive, Estimate(0.3, 0.2, 0.4)))
    assert contradicted.startswith("Judgement: instructions, worse: each operation takes 40% longer.")
    both = words(opinion(expensive, explaining=2))
    assert "mostly in f (the first of 2 such changes)." in both
    assert json.loads(reply_json.as_json(opinion(expensive)))["better"] is False
    assert json.loads(reply_json.as_json(opinion()))["better"] is None


def test_a_reply_names_the_function_and_the_lock_that_is_held_longer_by_it() -> None:
    queue = Queue(910.0, 1210.0, executed=(810.0, 1110.0))
    lock = CountChange(
        "locks", "a.lock", 1.0, 1.0, "times taken", 900.0, 0.3, queue, (810.0, 1110.0), writers=("take",)
    )
    more = {"walk": 300.0}
    change = CountChange(
        "instructions", "walk", 820.0, 1120.0, "instructions", 1200.0, 0.3, functions=more, locks=(lock,)
    )
    told = words(opinion(change))
    assert "walk executes more instructions under a.lock, which is held longer by 300 instructions." in told
    assert (
        "Instructions per operation in the calls that hold a.lock: 820.000 on a, 1,120.0 on b (+36.6%). It "
        "is taken as often as before, and held for 810 on a, 1,110 on b." in told
    )
    assert "in walk +300 taken in take confirm on that machine, perf annotate should show more time" in told
    (said,) = json.loads(reply_json.as_json(opinion(change)))["changes"]
    assert said["locks"] == [{"object": "a.lock", "taken": [1.0, 1.0], "held": [810.0, 1110.0], "share": 0.3}]


def test_a_reply_says_where_the_place_of_an_object_decides() -> None:
    def of(before: LayoutCounts, after: LayoutCounts) -> str:
        change = CountChange("coherence", "struct inode.i_sb", 0.0, 14.0, "accesses", 900.0, 0.5)
        return words(opinion(replace(change, by_alignment=(before, after))))

    luck = "But where struct inode happens to begin in a cache line decides it."
    anywhere = of(LayoutCounts(0.0, 0.0, 14.0, 3.5), LayoutCounts(14.0, 0.0, 14.0, 3.5))
    assert luck in anywhere
    assert "by where it begins in a cache line: 0 to 14.000 before, 0 to 14.000 after" in anywhere
    nowhere = of(LayoutCounts(0.0, 0.0, 6.0, 3.5), LayoutCounts(14.0, 7.0, 21.0, 14.0))
    assert "0 to 6.000 before, 7.000 to 21.000 after" in nowhere and luck not in nowhere
    assert luck not in of(LayoutCounts(2.0, 2.0, 2.0, 2.0), LayoutCounts(2.05, 2.05, 2.05, 2.05))


def with_path_length(told: Opinion, change: str) -> Opinion:
    row = f"    391220            {change}%     416258        perf-stat.overall.path-length\n"
    at = TEXT.index("      0.02 ±")
    return replace(told, mail=read(TEXT[:at] + row + TEXT[at:]))


@pytest.mark.parametrize(
    ("reported", "counted", "said"),
    [
        (
            "+6.4",
            106.1,
            "the report says +6.4% (path-length, which includes the program's own), counted +6.1%.",
        ),
        ("-6.4", 106.1, "counted +6.1%. The signs differ: the workload may do something else"),
        ("-0.1", 106.1, "counted +6.1%. No prediction"),
    ],
)
def test_the_reports_own_instructions_are_compared_with_the_counted_ones(
    reported: str, counted: float, said: str
) -> None:
    told = opinion()
    assert told.judgement and "Instructions per operation" not in words(told)
    assert json.loads(reply_json.as_json(told))["path_length"] is None
    told = replace(told, judgement=replace(told.judgement, work=(100.0, counted)))
    told = with_path_length(told, reported)
    assert said in words(told)
    found = json.loads(reply_json.as_json(told))["path_length"]
    assert found == {"reported": float(reported) / 100, "counted": pytest.approx(0.061)}


def test_a_reply_says_what_the_robot_adds_and_what_is_assumed() -> None:
    text = TEXT.replace("\tnr_task: 100%\n", "")
    text = text.replace("mode/nr_task/", "mode/").replace("process/100%/", "process/")
    text = text.replace("\ntestcase", f"\n[still regression on linus/master {NEW}]\n\ntestcase")
    told = words(replace(opinion(), mail=read(text)))
    assert "with 104 tasks (one per CPU: the report gives no number) on 104 CPUs" in told
    assert "The robot adds: still regression on linus/master." in told


def test_a_reply_says_that_one_of_several_commits_did_it() -> None:
    assert "cannot tell" not in words(opinion())
    several = words(replace(opinion(), commits=3412))
    assert "3,412 commits lie between a and b: bigiron cannot tell which did it." in several
    assert "cannot tell which commit between them" in words(replace(opinion(), commits=None))


def test_a_workload_instead_of_the_benchmark_is_not_compared_with_the_report() -> None:
    change = CountChange("locks", "l", 0.0, 1.0, "times taken", 900.0, 0.9)
    told = with_path_length(opinion(change, Estimate(-0.3, -0.4, -0.2)), "-6.4")
    assert "lies outside this range" in words(told) and "Instructions per operation" in words(told)
    assert told.predicted
    other = replace(told, replaces=True, predicted=replace(told.predicted, reported=None))
    assert "It is of open1, and so not compared with the report." in words(other)
    assert "this range" not in words(other) and "Instructions per operation" not in words(other)
    assert json.loads(reply_json.as_json(other))["path_length"] is None


def test_a_reply_names_the_study_as_it_was_given() -> None:
    told = words(replace(opinion(), study="/tmp/my folder/s"))
    assert told.endswith("All results: bigiron report '/tmp/my folder/s' -o report.html")


def test_more_tasks_than_cpus_are_not_considered(tmp_path: Path) -> None:
    rows = counts(*both("f", 10, line=LINE))
    study = study_of(tmp_path / "s", {"a": [rows], "b": [rows]})
    found = judgement.Judgement("neither", [], 2, 2, 104, (1.0, 1.0), (2.0, 2.0), 1)
    shaped = second_opinion.ReportedShape("", "", "unknown")

    def left_out(nr_task: str) -> list[str]:
        mail = read(TEXT.replace("nr_task: 100%", f"nr_task: {nr_task}"))
        return second_opinion.opinion(study, mail, Mapped("open1"), shaped, found).not_considered

    assert "run queues of 8 tasks per CPU" in left_out("800%")
    assert not [one for one in left_out("100%") if "run queues" in one]


def test_what_is_wrong_with_a_mail_is_reported() -> None:
    of_another = read(TEXT.replace("lkp-skl", "lkp-spr"))
    assert understood(of_another).splitlines()[0] == of_another.notes[0]
    assert json.loads(reply_json.as_json(replace(opinion(), mail=of_another)))["notes"] == of_another.notes


def test_a_change_opposite_to_the_report_is_reported() -> None:
    change = CountChange("coherence", "l", 6.0, 2.0, "accesses", -900.0, -0.5)
    assert "this contradicts the report" in words(opinion(change, against_the_report=True))


@pytest.mark.parametrize(
    ("before", "after", "held", "cost", "said"),
    [
        (1.0, 2.0, (50.0, 50.0), 900.0, "l is taken more often"),
        (2.0, 1.0, (50.0, 50.0), -900.0, "l is taken less often"),
        (1.0, 1.0, (50.0, 900.0), 900.0, "l is held longer"),
        (1.0, 1.0, (900.0, 50.0), -900.0, "l is held for a shorter time"),
        (4.0, 2.0, (50.0, 900.0), 900.0, "l is held longer"),
        (2.0, 4.0, (900.0, 50.0), -900.0, "l is held for a shorter time"),
        (1.0, 1.0, (50.0, 50.0), 900.0, "l is no longer shared by readers"),
        (1.0, 1.0, (50.0, 50.0), -900.0, "l is now shared by readers"),
    ],
)
def test_a_reply_says_what_of_a_lock_explains_its_cost(
    before: float, after: float, held: tuple[float, float], cost: float, said: str
) -> None:
    change = CountChange("locks", "l", before, after, "times taken", cost, cost / 1000, held=held)
    told = words(opinion(change))
    assert f"{said}." in told
    assert f"{'longer' if cost > 0 else 'shorter'} waits for this lock on the new kernel" in told


def test_what_would_confirm_a_change_that_saves_time_is_less() -> None:
    fewer = words(opinion(CountChange("instructions", "f", 140.0, 100.0, "instructions", -40.0, -0.4)))
    assert "should show fewer instructions per operation" in fewer
    line = words(opinion(CountChange("coherence", "a", 4.0, 2.0, "accesses", -400.0, -0.4)))
    assert "fewer HITM for this cache line on the new kernel" in line


def test_no_function_is_named_where_none_changed_by_much() -> None:
    spread = CountChange("instructions", "", 100.0, 140.0, "instructions", 40.0, 0.4)
    assert "Each operation executes more instructions. This is" in words(opinion(spread))
    rdtsc = replace(spread, instruction="rdtsc", functions={})
    told = words(opinion(rdtsc))
    assert "executes rdtsc more often. This is" in told and "140.000 on b. Each takes as long" in told
    assert "perf annotate should show time at rdtsc" in told


def test_changes_that_cancel_each_other_are_neither_better_nor_worse() -> None:
    both = CountChange("instructions", "f", 1000.0, 1004.0, "instructions", 4.0, 0.004, cancels=True)
    told = opinion(both)
    assert told.judgement
    told = replace(told, judgement=replace(told.judgement, share=0.0))
    assert "neither better nor worse: each operation takes as long as before." in words(told)
    assert json.loads(reply_json.as_json(told))["better"] is None
    predicted = replace(told, predicted=PredictedChange(104, "m", Estimate(0.89, 0.51, 1.19), 0.9))
    assert "contradicts the judgement" not in words(predicted)


def test_a_reply_says_where_nothing_was_executed() -> None:
    told = opinion()
    assert told.judgement
    empty = words(replace(told, judgement=replace(told.judgement, work=(0.0, 0.0))))
    assert empty.startswith("Judgement: neither, nothing to compare.")
    assert "no change costs" not in empty


def test_a_metric_that_is_no_throughput_is_not_compared_with_a_prediction() -> None:
    change = CountChange("locks", "l", 0.0, 1.0, "times taken", 900.0, 0.9)
    told = opinion(change, Estimate(-0.3, -0.4, -0.2))
    longest = read(
        TEXT.replace(
            "a -52.4% regression of will-it-scale.per_process_ops", "a 99.9% regression of x.max_latency"
        )
    )
    assert longest.throughput_change is None and told.predicted
    told = replace(told, mail=longest, predicted=replace(told.predicted, reported=None))
    assert "The report's metric is no throughput" in words(told) and "this interval" not in words(told)
    assert "x.max_latency +99.9% (less is better) in" in words(told)
    assert json.loads(reply_json.as_json(told))["predicted"]["reported_inside"] is None


def test_a_prediction_that_contradicts_the_judgement_is_reported() -> None:
    change = CountChange("locks", "l", 0.0, 1.0, "times taken", 900.0, 0.9)
    contradiction = "This contradicts the judgement: it predicts that the new kernel is faster"
    assert contradiction in words(opinion(change, Estimate(0.89, 0.51, 1.19)))
    assert contradiction not in words(opinion(change, Estimate(-0.89, -0.9, -0.5)))


def test_what_a_prediction_is_made_from_is_reported() -> None:
    change = CountChange("locks", "l", 0.0, 1.0, "times taken", 900.0, 0.9)
    told = opinion(change, Estimate(-0.3, -0.4, -0.2))
    assert "Predicted from traces for 104 tasks" in words(told) and told.predicted
    assert json.loads(reply_json.as_json(told))["predicted"]["from"] == "trace"
    of_counts = replace(told, predicted=replace(told.predicted, why_counts="a: its tasks sleep"))
    assert "Predicted from counts (a: its tasks sleep) for 104 tasks" in words(of_counts)
    assert json.loads(reply_json.as_json(of_counts))["predicted"]["from"] == "counts"


def test_an_interval_that_holds_0_has_no_sign() -> None:
    change = CountChange("locks", "l", 0.0, 1.0, "times taken", 900.0, 0.9)
    told = opinion(change, Estimate(0.01, -0.04, 0.03))
    assert "is unclear: the interval includes 0." in words(told) and "contradicts" not in words(told)
    assert json.loads(reply_json.as_json(told))["predicted"]["tells_sign"] is False
    assert "is unclear" not in words(opinion(change, Estimate(-0.89, -0.9, -0.5)))


def test_the_reply_says_how_often_its_ranges_held() -> None:
    page = (ROOT / "docs/validation/regressions/real-regressions.md").read_text()
    (held,) = re.findall(r"\| the published change inside the predicted interval \| (\d+ of \d+) \|", page)
    assert f"{held} published changes lay in such a range" == reply._HELD
    assert reply._HELD in words(opinion(None, Estimate(-0.3, -0.4, -0.2)))


def test_a_prediction_has_the_time_of_instructions_that_take_long_on_the_kernel_that_has_more() -> None:
    new = CountChange("instructions", "read_tsc", 0.0, 20.0, "executions", 314.0, 0.3, instruction="rdtsc")
    old = replace(new, object="switch_mm", before=1.0, after=0.0, cost=-95.0, instruction="wrmsr")
    atomic = replace(new, object="lockref_get", instruction="lock")
    told = opinion(new, Estimate(-0.3, -0.4, -0.2))
    assert told.judgement and told.predicted
    judged = replace(told.judgement, changes=[new, old, atomic])
    assert second_opinion.longer(judged, "a", "b") == {"a": {"switch_mm": 95.0}, "b": {"read_tsc": 314.0}}
    weighed = replace(told, predicted=replace(told.predicted, weighed=("rdtsc", "wrmsr")))
    assert f"{reply._HELD}), with the additional time of rdtsc and wrmsr. The reported" in words(weighed)
    assert json.loads(reply_json.as_json(weighed))["predicted"]["weighed"] == ["rdtsc", "wrmsr"]
    assert "additional time" not in words(told)


def test_kernels_given_by_hand_are_said_to_be() -> None:
    told = opinion(CountChange("coherence", "struct a.b", 0.0, 1.0, "f", 1.0, 1.0))
    unchecked = "a and b were given by hand: bigiron did not check that they are the report's commits"
    assert unchecked in words(replace(told, commits=None))
    assert unchecked not in words(told)


def test_instructions_that_were_none_have_no_percentage() -> None:
    told = words(opinion(CountChange("instructions", "f", 0.0, 500.0, "instructions", 500.0, 1.0)))
    assert "0 on a, 500.000 on b." in told
    assert "Each operation executes more instructions, mostly in f" in told


# The command


def refused(*arguments: str | Path) -> str:
    answer = bigiron("judge", *arguments)
    assert (answer.status, answer.out) == (2, ""), answer
    *read, complaint = answer.err.splitlines()
    assert all(line.startswith("read: ") for line in read) and len(read) <= 1, answer
    assert complaint.startswith("bigiron: ")
    return complaint.removeprefix("bigiron: ")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Of a machine of which too little is told for its shape: it boots in seconds."""
    file = tmp_path / "report"
    file.write_text(TEXT.replace(" with 192G memory", "").replace("something odd here\n", ""))
    return file


def test_bad_input_is_one_line(report: Path, tmp_path: Path) -> None:
    assert refused(report) == (
        "two kernels are needed: give --linux TREE to build both commits, or --kernel BASE --kernel NEW"
    )
    assert "cannot be read" in refused(tmp_path / "none")
    assert "give the tree or the two kernels" in refused(
        report, "--linux", tmp_path, "--kernel", "debian/6.1"
    )
    assert "--config applies to kernels that are built: give --linux TREE too" in refused(
        report, "--config", tmp_path, "--kernel", "debian/6.12", "--kernel", "debian/6.1"
    )
    assert "a single CPU shares no cache lines: give 2 or more" in refused(
        report, "--cpus", "1", "--kernel", "debian/6.12", "--kernel", "debian/6.1"
    )
    report.write_text(report.read_text().replace("will-it-scale", "stress-ng"))
    assert "stress-ng 0.19 has no stressor 'open1'" in refused(report, "--linux", tmp_path)


def test_what_was_read_and_what_will_run_is_a_line_before_the_kernels(report: Path) -> None:
    read_and_run = bigiron("judge", report, "--cpus", "4").err.splitlines()[0]
    assert read_and_run == (
        f"read: will-it-scale.per_process_ops -52.4%, {NEW[:12]} against {BASE}; runs open1 in process "
        "mode, 4 tasks on 4 CPUs, tmpfs"
    )
    other = bigiron("judge", report, "--workload", "unlink1").err.splitlines()[0]
    assert other.endswith("tmpfs; differs: unlink1 instead of will-it-scale open1")


def test_commits_are_counted(tmp_path: Path) -> None:
    def git(*command: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        done = subprocess.run(["git", "-C", tmp_path, *identity, *command], capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    ids = []
    for title in ("one", "two", "three"):
        git("commit", "-q", "--allow-empty", "-m", title)
        ids.append(git("rev-parse", "HEAD"))
    assert number_of_commits(tmp_path, ids[1], ids[2]) == 1
    assert number_of_commits(tmp_path, ids[0], ids[2]) == 2


def test_a_tree_must_have_both_commits_and_they_must_be_related(report: Path, tmp_path: Path) -> None:
    tree = tmp_path / "linux"
    tree.mkdir()
    assert "it is not a git repository" in refused(report, "--linux", tree)

    def git(*command: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        done = subprocess.run(
            ["git", "-C", tree, *identity, *command], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    assert f"has no '{BASE}', says git" in refused(report, "--linux", tree)
    one = git("rev-parse", "HEAD")
    git("checkout", "-q", "--orphan", "other")
    git("commit", "-q", "--allow-empty", "-m", "two")
    two = git("rev-parse", "HEAD")
    report.write_text(
        report.read_text().replace(NEW, two).replace(NEW[:10], two[:10]).replace(BASE, one[:10])
    )
    assert "so the difference between them is not that of one commit" in refused(report, "--linux", tree)
    git("commit", "-q", "--allow-empty", "-m", "three")
    three = git("rev-parse", "HEAD")
    text = report.read_text().replace(two, three).replace(two[:10], three[:10])
    report.write_text(text.replace(one[:10], two[:10]))
    assert "is not a kernel source tree (it has no Kconfig)" in refused(report, "--linux", tree)


def test_kernels_are_built_with_the_file_system_of_the_report(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, given = tmp_path / "mine.config", list[list[Path]]()
    mine.write_text("CONFIG_AUDIT=y\n")

    def build(_tree: Path, _commit: str, config: list[Path], *_: Any, **__: Any) -> None:
        given.append(config)

    monkeypatch.setattr(judge_command, "build_commit", build)
    monkeypatch.setattr(judge_command, "ancestor_and_descendant", lambda _, base, new: (base, new))
    monkeypatch.setattr(judge_command, "number_of_commits", lambda *_: 1)
    for fs in KINDS:
        judge_command._kernels(read(report.read_text()), tmp_path, [], "", [mine], Mapped("open1", fs=fs))
        of_fs = [file for file in given.pop() if file != mine]
        assert [file.name for file in of_fs] == ([] if fs == "tmpfs" else [f"{fs}.config"])
        options = {one.name: one.value for one in configuration.config_options("x86_64", of_fs)}
        assert fs == "tmpfs" or (options[f"{fs.upper()}_FS"], options["BLK_DEV_RAM"]) == ("y", "y")
    a_program = Mapped(program=MappedProgram("stress-ng", "stress-ng"))
    judge_command._kernels(read(report.read_text()), tmp_path, [], "", [mine], a_program)
    assert "root.config" in [file.name for file in given.pop()]


def judged(report: Path, *arguments: str | Path) -> Answer:
    answer = bigiron("judge", report, *arguments)
    assert answer.status == 0, answer
    lines = answer.out.splitlines()
    assert len(lines) <= 60 and max(map(len, lines)) <= 72
    return answer


def test_the_same_kernel_needs_no_boot(report: Path, tmp_path: Path) -> None:
    answer = judged(report, "--kernel", "debian/6.12", "--kernel", "debian/6.12", "-o", tmp_path / "s")
    words = " ".join(answer.out.split())
    assert "have the same image, so their counts cannot differ, and nothing was booted" in words
    assert words.endswith("Not examined: modules: only built-in code was compared.")
    assert not (tmp_path / "s").exists()


@pytest.mark.needs_more
def test_a_kernel_that_does_not_boot_fails_with_a_line(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(second_opinion, "_QUIET", "rdinit=/none")  # stands for what a patch breaks
    monkeypatch.setattr(second_opinion, "BOOTS", (1,))
    with pytest.raises(typer.Exit) as ended:
        judge_command.judge(report, kernel=["debian/6.12", "debian/6.1"], cpus="2", output=tmp_path / "s")
    assert ended.value.exit_code == 3
    said = capfd.readouterr()
    crashed = [line for line in said.err.splitlines() if line.startswith("bigiron: ")]
    assert said.out == "" and len(crashed) == 2
    assert all(
        "the kernel crashed while booting: Kernel panic - not syncing: VFS" in line for line in crashed
    )


def test_a_line_that_is_written_more_often_is_coherence(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "s"
    arguments = ("--kernel", "debian/6.12", "--kernel", "debian/6.1", "--cpus", "2", "-o", study)
    answer = judged(report, *arguments)
    words = " ".join(answer.out.split())
    assert answer.out.startswith("Judgement: coherence, worse: ")
    assert "CPUs access struct aa_label.count.count more often" in words
    assert "2.000 on debian/6.12, 6.000 on debian/6.1" in words
    assert "the report does not give the machine's memory size" in words
    again = bigiron("judge", report, *arguments, "--format", "json")
    found = json.loads(again.out)
    assert (found["kind"], found["tasks"], found["at_tasks"]) == ("coherence", 2, 104)
    assert "apparmor_file_open" in found["changes"][0]["writers"]
    assert "layout the same wherever struct aa_label begins in a cache line" in words
    assert [one["recorded"] for one in found["changes"][0]["by_alignment"]] == [
        pytest.approx(times, abs=0.01) for times in (2, 6)
    ]
    assert found["changes"][0]["is_luck"] is False
    # The report's whole shape is predicted of what was recorded, from traces, or else from counts.
    whole, measured = read(TEXT), store.open_study(study)

    def predicted() -> PredictedChange:
        told = second_opinion.opinion(
            measured,
            whole,
            Mapped("open1"),
            second_opinion.shape(whole),
            second_opinion.judged(measured, whole),
        )
        assert told.predicted, told.not_predicted
        return told.predicted

    traced = predicted()
    assert not traced.why_counts and traced.change.high < 0
    monkeypatch.setattr(trace, "why_not_whole", lambda _table: "its tasks sleep")
    counted = predicted()
    assert counted.why_counts == "debian/6.12: its tasks sleep"
    assert counted.change != traced.change


def test_each_draw_of_a_prediction_has_one_of_the_boots() -> None:
    """So that the interval holds what differs between them."""
    of_boots = [prediction.VariantRecording("a", 8, float(of), lambda _, of=of: of) for of in (100, 300)]  # type: ignore[misc]
    both = prediction._any_of(of_boots)
    assert both.instructions == 200
    assert {both.source(np.random.default_rng([1, sample])) for sample in range(16)} == {100, 300}
    assert prediction._any_of(of_boots[:1]) is of_boots[0]


@pytest.mark.needs_more
def test_a_mail_of_a_program_needs_nothing_given(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It runs in a root of Debian's, a part of it is recorded, and the reply names what was run."""
    asked = second_opinion.spec
    once = partial(msgspec.structs.replace, most_boots=1)
    monkeypatch.setattr(second_opinion, "spec", lambda *question: once(asked(*question)))
    monkeypatch.setattr(second_opinion, "BOOTS", (1,))
    text = report.read_text().replace("testcase: will-it-scale", "testcase: perf-bench-futex")
    text = text.replace("of will-it-scale.per_process_ops", "of perf-bench-futex.ops/s")
    report.write_text(text.replace("test: open1", "test: hash").replace("\tmode: process\n", ""))
    study = tmp_path / "s"
    judge_command.judge(report, kernel=["debian/6.1", "debian/6.12"], cpus="2", output=study, jobs=1)
    words = " ".join(capsys.readouterr().out.split())
    assert "perf bench futex hash --threads 2 --runtime 100000 (10 ms of it, counts per futex)" in words
    assert "No prediction for the report's machine: the operations of a program are not traced" in words
    assert store.open_study(study).spec.root == "debian:trixie+linux-perf"
    (instructions,) = {
        record.facts["conflicts"]["operation"] for record in store.open_study(study).all_records()
    }
    assert instructions == "futex"
