"""What is assumed about a report, and what a reply says of that."""

import json
from pathlib import Path

from test_answers_to_reports import HEAD, TABLE
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
