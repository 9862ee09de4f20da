"""Mails of the kernel test robot, as they are sent, archived, answered and cut short: what is read of them.

Each file in tests/reports/patterns has one thing that published mails have; commits and titles are made up.
tests/corpus has whole reports in the form of published ones.
"""

import doctest
import gzip
import mailbox
import pkgutil
import re
from email.message import EmailMessage
from pathlib import Path

import pytest

from bigiron.errors import UserError
from bigiron.readers import robot_mail
from bigiron.readers.robot_mail import Commit, Elsewhere, ReportedMachine, RobotMail
from bigiron.readers.robot_mail.metric import better
from bigiron.simulator import reported_machine
from bigiron.workloads.of_benchmark import Mapped, workload_of

HERE = Path(__file__).parent
PATTERNS = HERE / "reports" / "patterns"
TEXT = (HERE / "reports" / "open1.txt").read_text()
REPORTS = sorted((HERE / "corpus").rglob("*.eml"))
NEW, BASE = "0123456789abcdef0123456789abcdef01234567", "fedcba9876"
SUBJECT = f"[linus:master] [vfs]  {NEW[:10]}:  will-it-scale.per_process_ops -52.4% regression"
OLD_TITLE = "pattern: what was before"
NO_THROUGHPUT = (
    "stress-ng.time.system_time",
    "dbench.max_latency",
    "fileio.latency_95th_ms",
    "fsmark.app_overhead",
)
"""Metrics that change without the throughput."""


def read(text: str) -> RobotMail:
    return robot_mail.read(text.encode(), "a mail")


def pattern(number: int) -> RobotMail:
    (file,) = PATTERNS.glob(f"{number:02}-*.txt")
    return robot_mail.read(file.read_bytes(), file.name)


def mail(encoding: str = "8bit", charset: str = "utf-8", text: str = TEXT) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = SUBJECT
    message["From"] = "kernel test robot <someone@example.com>"
    message.set_content(text, cte=encoding, charset=charset)
    return message


def test_the_examples() -> None:
    for module in pkgutil.iter_modules(robot_mail.__path__, f"{robot_mail.__name__}."):
        assert doctest.testmod(pkgutil.resolve_name(module.name)).failed == 0


# Patterns of published mails


@pytest.mark.parametrize(
    ("number", "benchmark", "test", "tasks", "mode", "change", "rows"),
    [
        (1, "fio-basic", None, 8, "process", -0.063, 2),
        (2, "fsmark", None, 32, "process", -0.118, 1),
        (3, "fxmark", "MWUM", 72, "process", -0.71, 1),
        (4, "stress-ng", "msg", 256, "process", -0.177, 3),
        (5, "netperf", "TCP_MAERTS", 64, "process", -0.379, 1),
        (6, "stress-ng", "unlink", 64, "process", -0.233, 1),
        (7, "will-it-scale", "tlb_flush2", 192, "process", 0.029, 3),
        (8, "will-it-scale", "poll2", 16, "thread", -0.029, 3),
        (9, "netperf", "TCP_CRR", 16, "process", -0.116, 1),
        (10, "will-it-scale", "context_switch1", 128, "thread", -0.139, 1),
        (11, "stress-ng", "msg", 256, "process", -0.177, 3),
        (12, "perf-bench-sched-pipe", None, 2, "thread", -0.129, 1),
        (13, "will-it-scale", "signal1", 224, "process", -0.03, 1),
        (14, "will-it-scale", "signal1", 224, "process", -0.03, 1),
        (15, "vm-scalability", "lru-shm", 128, "process", -0.366, 1),
        (16, "unixbench", "spawn", 96, "process", -0.081, 1),
    ],
)
def test_patterns_of_published_mails_are_read_right(
    number: int, benchmark: str, test: str | None, tasks: int, mode: str, change: float, rows: int
) -> None:
    found = pattern(number)
    assert (found.benchmark, found.parameters.get("test"), found.tasks) == (benchmark, test, tasks)
    assert (found.mode, found.change, len(found.figures)) == (mode, change, rows)
    assert found.regression == (change < 0) and found.throughput_change == change
    assert found.tasks_are_assumed == (number == 15)
    assert not found.unknown
    assert len(found.notes) == (number == 9)
    assert found.new == Commit("a1b2c3d4e5f60718293a4b5c6d7e8f9001122334", "pattern: a change")
    bases = {7: Commit("v6.18-rc1"), 14: None}
    assert found.base == bases.get(number, Commit("f0e1d2c3b4", OLD_TITLE))
    assert found.headline or number == 5


def test_the_mode_is_filled_in_from_the_metric() -> None:
    assert pattern(10).parameters["mode"] == "thread"
    assert "mode" not in pattern(1).parameters


def test_lines_of_other_branches_are_understood() -> None:
    of_next = Elsewhere("still regression", "linux-next/master", "4567" * 10)
    assert pattern(6).elsewhere == [Elsewhere("still regression", "linus/master", "0123" * 10), of_next]
    assert [one.what for one in pattern(5).elsewhere] == ["test failed"]


def test_a_machine_without_a_code_name_has_that_of_its_group() -> None:
    found = pattern(8).machine
    assert found and (found.cpus, found.sockets, found.memory_gib) == (224, 4, 192)
    assert found.code_name == "Cooper Lake"
    sapphire = pattern(13).machine
    assert sapphire and sapphire.code_name == "Sapphire Rapids"


def test_the_table_of_another_machine_is_left_out_wherever_it_is() -> None:
    found = pattern(9)
    assert found.headline and (found.headline.base, found.headline.new) == (120220, 106274)
    assert found.notes == [
        "the table at line 25 is left out: it is of another machine (lkp-cpl-pattern: Cooper Lake)"
    ]
    text = (PATTERNS / "09-other-machines-table-first.txt").read_text()
    head, first, second = text.split(f"{'=' * 89}\n")
    swapped = read(f"{head}{'=' * 89}\n{second}{'=' * 89}\n{first}")
    assert swapped.figures == found.figures


def test_instructions_per_operation_and_per_cycle_are_typed() -> None:
    found = pattern(8)
    assert found.path_length and found.path_length.change == 0.064
    assert found.ipc and (found.ipc.base, found.ipc.new) == (3.12, 3.22)
    assert pattern(1).path_length is None


def test_the_commit_is_the_subjects_or_else_that_after_the_line_of_the_regression() -> None:
    earlier = f'commit: {"9" * 40} ("an earlier report\'s")\n\n{TEXT}'
    assert read(earlier).new == read(TEXT).new and read(earlier).figures == read(TEXT).figures
    later = TEXT.replace(f"commit: {NEW}", f"commit: {'9' * 40}\n\ncommit: {NEW}", 1)
    assert robot_mail.read(mail(text=later).as_bytes(), "a mail").new == read(TEXT).new


def test_what_the_robot_adds_is_read_however_it_is_spaced() -> None:
    line = f"[test failed on linus/master      {'0123' * 10}]"
    found = read(TEXT.replace("testcase:", f"{line}\n\ntestcase:", 1))
    assert found.elsewhere == [Elsewhere("test failed", "linus/master", "0123" * 10)]


def test_commands_titles_of_plots_and_failures_are_no_lines_to_report() -> None:
    odd = (
        "        cd lkp-tests\n"
        "        sudo bin/lkp install job.yaml           # job file is attached in this email\n"
        "                               fsmark.files_per_sec\n"
        "           :4           25%           1:4     last_state.exit_fail\n"
    )
    assert read(TEXT.replace("something odd here", odd)).unknown == []


# Tables


def section(text: str, machine: str) -> str:
    """A further table of a mail, as of another machine, with the line that describes it."""
    table = text[text.index("=" * 80) :].replace("lkp-skl-pattern", machine.partition(":")[0])
    return f"{'*' * 99}\n{machine}\n{table}"


def test_further_tables_are_read_only_where_they_are_the_reports_own() -> None:
    end = TEXT.index("Disclaimer")
    other = "lkp-icl-2sp2: 128 threads 2 sockets Intel(R) Xeon(R) (Ice Lake) with 256G memory"
    both = read(TEXT[:end] + section(TEXT[:end], other).replace("40459", "1"))
    assert both.figures == read(TEXT).figures
    assert both.notes == [
        "the table at line 59 is left out: it is of another machine (lkp-icl-2sp2 of 128 CPUs)"
    ]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("open1/will-it-scale", "open1/hackbench", "it is of hackbench"),
        ("open1/will-it-scale", "brk1/will-it-scale", "its test is brk1, and the report's parameter open1"),
        ("process/100%", "process/50%", "its nr_task is 50%, and the report's parameter 100%"),
        ("lkp-skl-", "lkp-spr-", "it is of another machine (lkp-spr-pattern: Sapphire Rapids)"),
        ("-52.4%     40459", "-12.4%     40459", "changes -12.4%, and the reported change is -52.4%"),
        ("\n  0123456789 (", '\n  0123456780 ("Not ', "it does not have the commit as its second column"),
    ],
)
def test_a_table_that_contradicts_the_report_gives_no_figures(old: str, new: str, why: str) -> None:
    text = re.sub(r"-52\.4% +40459", "-52.4%     40459", TEXT)
    assert old in text
    found = read(text.replace(old, new))
    assert found.figures == [] and found.change == -0.524
    assert why in found.notes[0] and "none of its figures are used" in found.notes[-1]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "mode: process",
            "mode: thread",
            "the parameter mode is thread, and the metric will-it-scale.per_pro",
        ),
        ("104.processes", "52.processes", "the parameters make 104 tasks, and the table is of 52"),
        (
            "a -52.4% reg",
            "a +52.4% reg",
            "the report says +52.4% will-it-scale.per_process_ops, and its table",
        ),
        (
            "4% regression",
            "4% improvement",
            "calls it an improvement that will-it-scale.per_process_ops falls",
        ),
    ],
)
def test_what_a_mail_contradicts_is_reported(old: str, new: str, why: str) -> None:
    text = TEXT.replace("process/100%", "thread/100%") if "mode" in old else TEXT
    assert old in text
    assert why in "; ".join(read(text.replace(old, new)).notes)


def test_values_of_keys_may_have_slashes() -> None:
    keys, values = "kconfig/mode/nr_task", "x86_64-rhel-8.3/process/100%"
    text = TEXT.replace(keys, f"disk/{keys}").replace(values, f"dev/sdb/{values}")
    unknown = read(text)
    assert unknown.figures == read(TEXT).figures and "disk" not in unknown.parameters
    known = read(text.replace("nr_task: 100%", "nr_task: 100%\n\tdisk: dev/sdb"))
    assert known.figures == read(TEXT).figures
    other = read(text.replace("nr_task: 100%", "nr_task: 100%\n\tdisk: dev/sda"))
    assert other.figures == [] and "its disk is dev/sdb" in other.notes[0]


def test_of_three_commits_the_column_of_the_reported_one_is_read() -> None:
    text = TEXT.replace("\n  0123456789 (", '\n  aaaaaaaaaa ("between")\n  0123456789 (')
    text = re.sub(
        r"84998 .*", "84998   -1.0%   84148 ± 2%   -52.4%   40459  will-it-scale.per_process_ops", text
    )
    found = read(text)
    assert found.headline and (found.headline.new, found.headline.change) == (40459, -0.524)
    assert found.base == Commit(BASE, "vfs: what was before")


def test_changes_that_are_not_finite_are_differences() -> None:
    odd = read(
        TEXT.replace("something odd here", "      0.00          +Inf%       4.00 ± -NaN%  some.metric")
    )
    row = odd.figures[-1]
    assert (row.name, row.base, row.new, row.change, row.relative) == ("some.metric", 0, 4, None, None)


# The sign of a size without one


@pytest.mark.parametrize(
    ("metric", "less_is_better"),
    [
        ("netperf.Throughput_Mbps", False),
        ("fsmark.files_per_sec", False),
        ("filebench.sum_operations/s", False),
        ("fio.write_clat_mean_us", True),
        ("lmbench3.PIPE.latency.us", True),
        ("lmbench3.Select.100tcp.latency.us", True),
        ("kbuild.buildtime_per_iteration", True),
        ("unixbench.throughput", False),
        ("pft.faults_per_sec_per_cpu", False),
        ("stress-ng.timer.ops_per_sec", False),
        ("stress-ng.time.system_time", True),
        ("dbench.max_latency", True),
        ("fileio.latency_95th_ms", True),
        ("autonuma-benchmark.numa01.seconds", True),
        ("fwq.fwq.med", True),
        ("phoronix-test-suite.x264.Bosphorus4K.frames_per_second", False),
        ("phoronix-test-suite.sqlite.8.seconds", True),
        ("reaim.jobs_per_min", False),
        ("vm-scalability.median", False),
        ("postmark.transactions", False),
        ("will-it-scale.per_process_ops", False),
        ("hackbench.throughput", False),
    ],
)
def test_a_size_without_a_sign_has_that_of_the_metric(metric: str, less_is_better: bool) -> None:
    assert (better(metric) == "less") == less_is_better
    first = "a -52.4% regression of will-it-scale.per_process_ops"
    for word, worse in (("a 25.0% regression", True), ("a 25.0% improvement", False)):
        found = read(TEXT.replace(first, f"{word} of {metric}"))
        assert found.change == (0.25 if worse == less_is_better else -0.25), metric
        assert found.is_worse == found.regression == worse
        changed = found.throughput_change
        assert (changed is None) == (metric in NO_THROUGHPUT) and (changed is None or (changed < 0) == worse)


def test_what_changes_by_more_than_all_of_it_has_grown() -> None:
    first = "a -52.4% regression of will-it-scale.per_process_ops"
    found = read(TEXT.replace(first, "a 210.0% improvement of fwq.fwq.med"))
    assert (found.change, found.is_worse) == (2.1, True)
    assert "calls it an improvement that fwq.fwq.med grows" in " ".join(found.notes)
    assert read(TEXT.replace(first, "a 100.0% improvement of fwq.fwq.med")).change == -1


def test_a_report_is_read_with_all_that_it_says() -> None:
    found = read(TEXT)
    assert (found.metric, found.change, found.regression) == ("will-it-scale.per_process_ops", -0.524, True)
    assert found.new == Commit(NEW, "vfs: a pattern, no commit of anybody's")
    assert found.base == Commit(BASE, "vfs: what was before")
    assert found.machine == ReportedMachine(104, 2, "(Skylake)", 192.0, "Skylake")
    assert found.tasks == 104
    assert found.parameters["mode"] == "process" and found.parameters["compiler"] == "gcc-12"
    assert found.headline and (found.headline.base, found.headline.new) == (84998, 40459)
    soft = found.figures[0]
    assert (soft.base_spread, soft.new_spread, soft.change) == (0.1, 0.07, None)
    assert next(one for one in found.figures if one.name == "proc-vmstat.numa_hit").base == 2.693e9
    assert found.profile[0].profiled == "lockref_get_not_dead.__legitimize_path"


def test_what_is_not_understood_is_reported_by_its_line() -> None:
    at = next(number for number, line in enumerate(TEXT.splitlines(), 1) if "something odd" in line)
    assert read(TEXT).unknown == [(at, "something odd here")]
    many = read(TEXT.replace("something odd here", "odd\n" * 50))
    assert (len(many.unknown), many.more_unknown) == (20, 30)


@pytest.mark.parametrize("encoding", ["quoted-printable", "base64", "8bit"])
@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1"])
def test_a_mail_says_what_its_text_says(encoding: str, charset: str) -> None:
    found = robot_mail.read(mail(encoding, charset).as_bytes(), "a mail")
    assert found == read(TEXT)


def test_the_first_report_in_an_mbox_is_read(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "box")
    box.add(mail(text="Hello,\n\nno report of anything.\n")), box.add(mail())
    box.flush()
    content = (tmp_path / "box").read_bytes()
    assert robot_mail.read(content, "box").new.id.startswith(NEW[:10])


def test_a_report_that_is_quoted_in_an_answer_is_read() -> None:
    quoted = "".join(f"> {line}\n" for line in TEXT.splitlines())
    assert read(f"On Monday a developer wrote:\n{quoted}").figures == read(TEXT).figures


def test_a_report_without_its_table_is_read_as_far_as_it_goes() -> None:
    found = read(TEXT[: TEXT.index("commit:\n")])
    assert (found.base, found.figures, found.tasks) == (None, [], 104)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Hello,\n\nthe build failed.\n", "reports no regression: no line says"),
        (TEXT[: TEXT.index("commit: ")], "does not say which commit it complains about"),
        (
            TEXT[: TEXT.index("testcase:")].replace("will-it-scale.per_process_ops", "perf-stat.overall.ipc"),
            "does not say which benchmark was run",
        ),
        ("a\0b", "is not text"),
        (TEXT.replace("104 threads", "many threads"), "no number of threads"),
        (TEXT.replace("104 threads", "104000 threads"), "Linux has 8192 CPUs at most"),
    ],
)
def test_what_is_cut_short_or_no_report_is_refused(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        read(text)


def test_the_metric_decides_what_is_worse_whatever_the_mail_calls_it() -> None:
    def worse(words: str) -> bool:
        return read(TEXT.replace("a -52.4% regression of will-it-scale.per_process_ops", words)).is_worse

    assert worse("a 81.6% regression of fsmark.app_overhead")
    assert worse("a +81.6% improvement of fsmark.app_overhead")
    assert not worse("a -81.6% regression of fsmark.app_overhead")
    assert not worse("a -81.6% improvement of fsmark.app_overhead")
    assert worse("a -5.0% regression of x.unknown") and worse("a +5.0% regression of x.unknown")
    called = read(TEXT.replace("a -52.4% regression", "a -52.4% improvement"))
    assert called.is_worse and "it is judged as a regression" in " ".join(called.notes)


def test_a_metric_that_a_program_cut_at_its_hyphen_is_whole() -> None:
    quoted = "".join(f"> {line}\n" for line in TEXT.splitlines())
    cut = quoted.replace("regression of will-it-scale.per", "regression of will-it-\n> scale.per")
    assert cut != quoted and read(cut).metric == "will-it-scale.per_process_ops"
    assert read(cut).figures == read(TEXT).figures


@pytest.mark.parametrize(
    ("group", "given", "sockets"),
    [
        ("lkp-skl-d01", "", 1),
        ("lkp-skl-2ap1", "", 4),
        ("lkp-skl-2ap1", " 2 sockets", 2),
        ("vm-snb", "", None),
    ],
)
def test_a_machine_without_sockets_has_those_of_its_group(
    group: str, given: str, sockets: int | None
) -> None:
    text = re.sub(r"lkp-skl-[\w-]+", group, TEXT).replace("104 threads 2 sockets", f"104 threads{given}")
    found = read(text).machine
    assert found and (found.cpus, found.sockets) == (104, sockets)


def test_a_time_that_grows_is_a_throughput_that_falls() -> None:
    grown = read(
        TEXT.replace(
            "a -52.4% regression of will-it-scale.per_process_ops", "a 25.0% regression of x.seconds"
        )
    )
    assert grown.regression and grown.throughput_change == pytest.approx(-0.2)


def test_half_of_the_cpus_is_a_number_of_tasks() -> None:
    assert read(TEXT.replace("nr_task: 100%", "nr_task: 50%")).tasks == 52
    assert read(TEXT.replace("nr_task: 100%", "nr_task: 16")).tasks == 16


def test_groups_of_hackbench_are_tasks_and_a_percentage_has_the_sign_of_the_table() -> None:
    found = read((HERE / "reports" / "hackbench.txt").read_text())
    assert (found.tasks, found.tasks_at_once) == (64 * 40, 128)
    assert (found.change, found.throughput_change, found.regression) == (-0.125, -0.125, True)
    assert workload_of(found.benchmark, found.parameters) == Mapped("hackbench/pipe", "thread")


def test_a_pair_of_tasks_that_switch_is_two_tasks() -> None:
    text = TEXT.replace("testcase: will-it-scale", "testcase: perf-bench-sched-pipe")
    assert read(text).tasks == 2


def test_a_time_that_fell_to_nothing_is_a_finite_gain() -> None:
    gone = read(
        TEXT.replace(
            "a -52.4% regression of will-it-scale.per_process_ops", "a -100.0% improvement of x.latency"
        )
    )
    assert gone.throughput_change == pytest.approx(1999)


def test_a_regression_due_to_a_commit_is_one() -> None:
    due = read(
        TEXT.replace("will-it-scale.per_process_ops on:", "will-it-scale.per_process_ops due to commit:")
    )
    assert due == read(TEXT)


def test_one_odd_row_is_reported_and_the_others_are_read() -> None:
    odd = read(TEXT.replace("something odd here", "1.0  +1.0%  2.0  " + "x" * 300))
    assert odd.figures == read(TEXT).figures
    assert odd.unknown[0][1].startswith("1.0  +1.0%")


def test_a_number_of_tasks_that_is_none_is_refused_as_the_mail_is_read() -> None:
    with pytest.raises(UserError, match="a mail: nr_task is 'abc'"):
        read(TEXT.replace("nr_task: 100%", "nr_task: abc"))


def test_hostile_mails_are_read_or_refused_in_one_line() -> None:
    long = read(TEXT.replace("something odd here", "9" * 2_000_000))
    assert long.figures == read(TEXT).figures
    nested = "".join(f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n' for n in range(3000))
    with pytest.raises(UserError, match="nested too deep"):
        robot_mail.read(nested.encode(), "a mail")
    steered = read(TEXT.replace("vfs: a pattern", "vfs: \x1b[2Ja pattern"))
    assert steered.new.title.startswith("vfs: \\x1b[2Ja pattern")


@pytest.mark.parametrize("file", REPORTS, ids=lambda file: file.stem)
def test_reports_of_the_corpus_are_read_whole(file: Path) -> None:
    found = robot_mail.read(file.read_bytes(), file.name)
    assert not found.unknown and found.headline and found.machine and found.base
    assert reported_machine.like(found.machine).toml
    workload_of(found.benchmark, found.parameters)


# As mails arrive


def quoted(text: str) -> str:
    return "".join(f"> {line}\n" for line in text.splitlines())


def test_a_compressed_mbox_of_an_archive_is_read() -> None:
    """As b4 and lei write them: mboxrd, the robot's mail after an answer that quotes it."""
    answer = mail(text=f"On Monday a robot wrote:\n{quoted(TEXT[: TEXT.index('=====')])}\nI see.\n")
    escaped = mail(text=TEXT.replace("something odd here", "From here on it is odd")).as_bytes()
    escaped = re.sub(rb"^(>*From )", rb">\1", escaped.split(b"\n\n", 1)[1], flags=re.MULTILINE)
    header = mail().as_bytes().split(b"\n\n", 1)[0]
    line = b"From mboxrd@z Thu Jan  1 00:00:00 1970\n"
    box = line + answer.as_bytes() + b"\n" + line + header + b"\n\n" + escaped
    found = robot_mail.read(gzip.compress(box), "box.gz")
    assert found.figures == read(TEXT).figures
    assert found.unknown[0][1] == "From here on it is odd"
    assert robot_mail.read(gzip.compress(box[:400]) + gzip.compress(box[400:]), "two members") == found
    with pytest.raises(UserError, match="is cut short"):
        robot_mail.read(gzip.compress(box)[:-20], "cut.gz")


def test_several_reports_in_an_mbox_are_noted() -> None:
    line = b"From mboxrd@z Thu Jan  1 00:00:00 1970\n"
    other = mail(text=TEXT.replace(NEW, "5" * 40).replace(NEW[:10], "5" * 10))
    other.replace_header("Subject", SUBJECT.replace(NEW[:10], "5" * 10))
    first, again, second = (line + one.as_bytes() + b"\n" for one in (mail(), mail("base64"), other))
    assert robot_mail.read(first + again, "box") == read(TEXT)
    found = robot_mail.read(first + again + second, "box")
    assert found.new.id == NEW and found.notes == ["box has 2 reports: the first is judged"]


def test_a_line_that_begins_with_from_splits_no_mail() -> None:
    text = TEXT.replace("something odd here", "From the profile one can see it")
    message = b"From mboxrd@z Thu Jan  1 00:00:00 1970\n" + mail(text=text).as_bytes()
    assert robot_mail.read(message, "raw").figures == read(TEXT).figures


def test_a_file_of_a_maildir_and_an_attached_report_are_read(tmp_path: Path) -> None:
    folder = mailbox.Maildir(tmp_path / "m")
    name = folder.add(mail("base64"))
    (file,) = (tmp_path / "m").glob(f"*/{name}*")
    assert robot_mail.read(file.read_bytes(), "m") == read(TEXT)
    forwarded = EmailMessage()
    forwarded.set_content("Have you seen this?\n")
    forwarded.add_attachment(mail("quoted-printable"))
    assert robot_mail.read(forwarded.as_bytes(), "f").figures == read(TEXT).figures


def test_a_mail_of_html_alone_is_refused() -> None:
    message = EmailMessage()
    message.set_content(f"<pre>{TEXT}</pre>", subtype="html")
    with pytest.raises(UserError, match="has no plain text, only HTML or attachments"):
        robot_mail.read(message.as_bytes(), "a mail")


def test_a_character_set_that_is_not_the_texts_loses_no_row() -> None:
    plain = "Subject: x\nContent-Type: text/plain; charset={}\nContent-Transfer-Encoding: 8bit\n\n"
    for charset in ("us-ascii", "utf-8", "x-unknown"):
        for encoding in ("utf-8", "latin-1"):
            content = plain.format(charset).encode() + TEXT.encode(encoding)
            assert robot_mail.read(content, "a mail").figures == read(TEXT).figures


def test_an_answer_that_wraps_long_lines_is_read() -> None:
    first = "noticed a -52.4% regression of will-it-scale.per_process_ops on:"
    wrapped = TEXT.replace(first, first.replace("of will", "of\nwill"))
    wrapped = wrapped.replace("104 threads 2 sockets (Skylake) with", "104 threads 2 sockets\n(Skylake) with")
    found = read(f"A developer wrote:\n{quoted(wrapped)}")
    assert found.figures == read(TEXT).figures and found.machine == read(TEXT).machine


def test_an_answer_that_lost_its_indentation_is_read() -> None:
    flat = "\n".join(re.sub(r"\s+", " ", line).strip() for line in TEXT.splitlines())
    found = read(f"A developer wrote:\n{quoted(quoted(flat))}")
    assert (found.figures, found.base) == (read(TEXT).figures, read(TEXT).base)
    assert found.parameters == read(TEXT).parameters


def test_the_words_of_who_answers_are_not_the_reports() -> None:
    mine = "     84998            -1.0%     84148        will-it-scale.per_process_ops\n"
    answer = (
        f"Here it is\n{mine}testcase: hackbench\n{quoted(TEXT)}\n{mine}We noticed a 1% regression of y:\n"
    )
    assert read(answer).figures == read(TEXT).figures
    assert read(answer).benchmark == "will-it-scale"
