"""What is assumed about a report: which other commits are the reported one, and what a reply says of that."""

import json
from pathlib import Path

import pytest
from test_answers_to_reports import HEAD, METRIC, TABLE, TITLE
from test_compare import LINE, both, counts, study_of
from test_robot_mail import NEW, read

from bigiron.judge import judgement, second_opinion
from bigiron.judge.second_opinion import Opinion
from bigiron.readers.robot_mail import RobotMail
from bigiron.report import reply, reply_json
from bigiron.workloads.of_benchmark import workload_of

REBASED = TABLE.replace(NEW[:27], "5" * 27).replace("\n  0123456789 (", "\n  5555555555 (")
OF_FSMARK = (
    "> kernel test robot noticed a -4.4% regression of fsmark.files_per_sec on\n"
    f'> commit {NEW[:12]} ("vfs: a change")\n\nI will look.\n'
)


def titled(reported: str, in_table: str) -> RobotMail:
    return read(HEAD.replace(TITLE, reported) + REBASED.replace(TITLE, in_table))


@pytest.mark.parametrize(
    ("reported", "in_table", "is_same"),
    [
        ("[PATCH 1/3] vfs: a", "vfs: a", True),
        ("[PATCH v2 1/3] vfs: a", "[PATCHv2 2/4] vfs: a", True),
        ("[PATCH] vfs: a", "[RFC PATCH v1] vfs: a", True),
        ("[PATCH] vfs: a", "[PATCH v2] vfs: a", False),
        ("[PATCH v3 1/3] vfs: a", "[PATCH v2 1/3] vfs: a", False),
        ("vfs: a", "[PATCH v2] vfs: a", False),
        ("[RFCv2 PATCH 1/2] vfs: a", "[RFC PATCH 1/2] vfs: a", False),
        ("[RFC v2] vfs: a", "[RFCv2] vfs: a", True),
        ("[PATCH_v2] vfs: a", "[PATCH v2] vfs: a", True),
        ("[PATCH v2.1] vfs: a", "[PATCH v2] vfs: a", False),
        ("[PATCH v02 01/10] vfs: a", "[V2,1/3] vfs: a", True),
        ("[1/2] vfs: a", "[PATCH v2] vfs: a", False),
        ("vfs: a", "[PATCH] vfs: a", False),
        ("vfs: a", "[1/2] vfs: a", False),
        ("vfs: a", "[tip: sched/core] vfs: a", True),
        ("[tip: x86/64] vfs: a", "vfs: a", True),
        ("[PATCH v2] vfs: a", "[ipv4] [dispatch] [v4l] vfs: a", True),
        ("[PATCH 2/3]", "", False),
        ("[PATCH 2/3]", "[PATCH 2/3]", False),
    ],
)
def test_another_version_of_a_patch_is_another_commit(reported: str, in_table: str, is_same: bool) -> None:
    found = titled(reported, in_table)
    assert (found.figures != []) is is_same
    assert any("taken for the same" in one for one in found.assumptions) is is_same


def test_a_table_of_a_rebased_commit_must_have_the_reported_change() -> None:
    assert read(HEAD + REBASED).figures
    rows = [line for line in REBASED.splitlines(keepends=True) if not line.endswith(f" {METRIC}\n")]
    found = read(HEAD + "".join(rows))
    assert found.figures == []
    assert any("has another commit of the same title, without will-it-scale" in one for one in found.notes)


def reply_to(mail: RobotMail, folder: Path) -> Opinion:
    study = study_of(folder, {name: [counts(*both("f", 10, line=LINE))] for name in "ab"})
    nothing = judgement.Judgement("neither", [], 2, 2, 104, (1.0, 1.0), (2.0, 2.0), 1)
    what = workload_of(mail.benchmark, mail.parameters, mail.metric)
    return second_opinion.opinion(study, mail, what, second_opinion.shape(mail), nothing)


def test_a_reply_says_what_is_assumed_about_the_report(tmp_path: Path) -> None:
    for name, mail, assumed in (
        ("a", read(OF_FSMARK), "no line names the benchmark's parameters, so its defaults are assumed"),
        ("b", read(HEAD + REBASED), "a table's 5555555555 has the title of 0123456789ab, so it is taken"),
    ):
        told = reply_to(mail, tmp_path / name)
        assert f"whether an assumption about the report holds: {assumed}" in " ".join(
            reply.as_text(told).split()
        )
        assert assumed in " ".join(json.loads(reply_json.as_json(told))["not_looked_at"])
    assert "assumption" not in reply.as_text(reply_to(read(HEAD + TABLE), tmp_path / "c"))


def test_a_table_that_is_left_out_is_no_assumption() -> None:
    other = REBASED.replace("open1/will-it-scale", "open1/hackbench")
    assert read(HEAD + TABLE + other).assumptions == []
