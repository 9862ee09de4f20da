"""Answers that quote reports in part, mails of 2013 to 2016, and tables that developers write.

Each text has one thing that published mails have; commits, titles and people are made up.
"""

import re
from dataclasses import replace

import pytest
from test_robot_mail import BASE, NEW, SUBJECT, TEXT, mail, pattern, quoted, read

from bigiron.errors import UserError
from bigiron.readers import robot_mail
from bigiron.readers.robot_mail import Commit, ReportedMachine, RobotMail
from bigiron.workloads.of_benchmark import workload_of

FXMARK = "fxmark.hdd_ext4_no_jnl_dbench_client_24_bufferedio.works/sec"
TABLE = TEXT[TEXT.index("=" * 80) : TEXT.index("Disclaimer")]
HEADER = f"{BASE}a59687 {NEW[:27]}"
HEAD = TEXT[: TEXT.index("testcase:")]
METRIC = "will-it-scale.per_process_ops"
OF_OLD = "FYI, we noticed the below changes on"
ROW = "    84998           -52.4%      40459        will-it-scale.per_process_ops"


def of_subject(text: str, subject: str = f"Re: {SUBJECT}") -> RobotMail:
    message = mail(text=text)
    message.replace_header("Subject", subject)
    return robot_mail.read(message.as_bytes(), "a mail")


def row_of(found: RobotMail) -> tuple[float, float, float | None]:
    assert found.headline
    return found.headline.base, found.headline.new, found.headline.change


# What programs that send answers do to tables


@pytest.mark.parametrize("mark", ["ą", "Â±", "ï¿½", "+-", "+/-", "?", "~"])
def test_a_spread_is_read_whatever_became_of_its_sign(mark: str) -> None:
    assert read(TEXT.replace("±", mark)).figures == read(TEXT).figures


def test_rows_and_keys_that_were_cut_are_whole() -> None:
    cut = re.sub(r" +(will-it-scale\.\S+|proc-vmstat\.\S+)$", r" \n\1", TEXT, flags=re.MULTILINE)
    cut = re.sub(r"(\n  \S+/will-it-scale)", lambda of: f"\n \n{of[1].strip()}", cut)
    cut = cut.replace('("vfs: what was', '("vfs: what\nwas').replace("/testcase:", "/test\ncase:")
    assert cut.count("\n") > TEXT.count("\n") + 4
    for text in (cut, quoted(cut)):
        found = read(text)
        assert (found.figures, found.base) == (read(TEXT).figures, read(TEXT).base)


def test_values_that_were_cut_in_two_are_whole_and_others_are_left_alone() -> None:
    keys = "a/b/c/d/test/testcase:\n"
    for values in ("  1/2/3/4/open1/will-it-\nscale\n", "  1/2/3/4/op\nen1/will-it-scale\n"):
        found = of_subject(f"{keys}{values}\n{HEADER}\n{ROW}\n")
        assert (found.benchmark, found.parameters["test"]) == ("will-it-scale", "open1")
    short = of_subject(f"{keys}  1/2/3\n\ncommit:\n  {BASE}\n  {NEW}\n\n{ROW}\n")
    assert short.unknown[0][1] == "1/2/3" and short.base == Commit(BASE)


def test_a_row_that_was_cut_between_its_columns_is_whole() -> None:
    third = "5" * 27
    row = f"  84998  -52.4%  40459  -9.1%  77263 ±  2%  -10.1%\n76413  {METRIC}\n"
    text = f"{HEADER}  v5.7\n{third}\n---\n{row}"
    assert row_of(of_subject(text)) == (84998, 40459, -0.524)


NOTICE = f"noticed a -52.4% regression of {METRIC} due to commit:"


@pytest.mark.parametrize(
    "cut",
    [
        NOTICE.replace("due to", "due\nto"),
        NOTICE.replace("due to", "due to\n"),
        NOTICE.replace(" due", "\ndue"),
        NOTICE.replace("regression of ", "regression\nof\n"),
        NOTICE.replace("a -52", "a\n-52").replace("to commit", "to\ncommit"),
        NOTICE.replace("will-it-", "will-it-\n").replace("to commit", "to\ncommit"),
        NOTICE.replace("due to commit:", "\non:"),
        NOTICE.replace("due to commit:", "due"),
    ],
)
def test_a_line_of_the_regression_is_read_wherever_it_was_cut(cut: str) -> None:
    text = TEXT.replace(f"noticed a -52.4% regression of {METRIC} on:", cut)
    assert text != TEXT
    for one in (text, quoted(text)):
        assert replace(read(one), unknown=[]) == replace(read(TEXT), unknown=[])
        assert [line for _, line in read(one).unknown] == ["something odd here"]


def test_a_list_of_commits_after_the_line_of_the_regression_is_not_taken_for_its_end() -> None:
    line = NOTICE.replace(" due to commit:", " on:")
    text = f"FYI, we {line}\ncommit:\n  {BASE}\n  {NEW}\n\n{HEADER}\n{ROW}\n"
    found = of_subject(text)
    assert (found.base, row_of(found)) == (Commit(BASE), (84998, 40459, -0.524))


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        ("In testcase:", "on test machine:", "with following parameters:"),
        ("in testcase:", "On test machine:", "With following parameters:"),
        ("Testcase:", "Test machine:", "Parameters:"),
    ],
)
def test_the_lines_of_the_test_are_read_whatever_letter_they_begin_with(
    first: str, second: str, third: str
) -> None:
    text = TEXT.replace("testcase: w", f"{first} w").replace("parameters:", third, 1)
    text = text.replace("test machine: 104 threads 2", f"{second} 104 threads\n2")
    for one in (text, quoted(text)):
        assert read(one).notes == [] and read(one).unknown[0][1] == "something odd here"
        assert replace(read(one), unknown=[]) == replace(read(TEXT), unknown=[])
    of_answer = of_subject(quoted(text[text.index(first) :]))
    assert (of_answer.benchmark, of_answer.notes) == ("will-it-scale", [])
    assert of_answer.machine == read(TEXT).machine


TITLE = "vfs: a pattern, no commit of anybody's"


@pytest.mark.parametrize(
    ("title", "cut"),
    [
        (TITLE, '("vfs:\na pattern, no commit of anybody\'s")'),
        (TITLE, '("vfs: a\npattern, no\ncommit of anybody\'s")'),
        (TITLE, f'\n("{TITLE}")'),
        (TITLE, '\n("vfs: a pattern,\nno commit of anybody\'s")'),
        ("[RFC PATCH 2/3] vfs: file: open it (v3)", '("[RFC PATCH 2/3] vfs:\nfile: open it (v3)")'),
        ("vfs: a list of [x] and [y]", '("vfs: a list of\n[x] and [y]")'),
        ("vfs_{to,from}_iter(): open it", '\n("vfs_{to,from}_iter(): open it")'),
        ('Revert "vfs: a change"', '("Revert "vfs: a\nchange"")'),
    ],
)
def test_a_title_is_read_wherever_it_was_cut(title: str, cut: str) -> None:
    line = f'commit: {NEW} ("{TITLE}")'
    assert line in TEXT
    text = TEXT.replace(line, f"commit: {NEW} {cut}".replace(" \n", "\n"))
    for one in (text, quoted(text)):
        found = read(one)
        assert (found.new, found.unknown[0][1]) == (Commit(NEW, title), "something odd here")
        assert found.figures == read(TEXT).figures
    base = TEXT.replace(f'{BASE} ("vfs: what was before")', f"{BASE} {cut}".replace(" \n", "\n"))
    assert read(base).base == Commit(BASE, title) and read(base).figures == read(TEXT).figures


def test_a_title_without_an_end_takes_no_line_that_follows() -> None:
    after = "https://git.example.com\n\n[still regression on a/b 1234567]"
    text = TEXT.replace(f'("{TITLE}")', f'("vfs: a\n{after}', 1)
    found = read(text)
    assert found.new == Commit(NEW, "vfs: a") and [one.branch for one in found.elsewhere] == ["a/b"]
    untitled = TEXT.replace(f' ("{TITLE}")', "").replace('  fedcba9876 ("vfs: what was before")', f"  {BASE}")
    assert read(untitled).base == Commit(BASE) and read(untitled).figures == read(TEXT).figures


# Parts of reports


def test_the_line_above_a_table_says_which_commits_it_compares() -> None:
    found = read(
        HEAD + TABLE[: TABLE.index("commit:")] + f"\n{HEADER} {'5' * 27}\n{ROW[:-30]} -1.0% 84000 {METRIC}\n"
    )
    assert found.base == Commit(HEADER[:16]) and row_of(found) == (84998, 40459, -0.524)


@pytest.mark.parametrize(
    "added", ["   <---- v2", " (the test patch)", "  (vfs: a fix)    <---  on top", " = 1 + patch [1]"]
)
def test_what_a_developer_adds_to_a_commit_of_a_table_changes_nothing(added: str) -> None:
    line = re.search(r"\n  0123456789 \(.*", TABLE)
    assert line
    text = TABLE.replace(line[0], f"\n  0123456789{added}")
    assert row_of(read(HEAD + text)) == row_of(read(TEXT))


def test_an_answer_whose_parts_are_quoted_differently_deep_is_one_report() -> None:
    text = f"Hello,\n\nI ran it again:\n\n{quoted(TABLE)}\nThanks.\n\n{quoted(quoted(HEAD))}"
    found = read(text)
    assert found.figures == read(TEXT).figures and found.parameters["test"] == "open1"


def test_an_answer_has_the_metric_in_its_subject() -> None:
    found = of_subject(f"We tested your patch:\n\n{TABLE}")
    assert found.figures == read(TEXT).figures
    assert (found.metric, found.change, found.new.id) == ("will-it-scale.per_process_ops", -0.524, NEW[:10])


def test_without_a_line_that_names_it_the_benchmark_is_that_of_the_metric() -> None:
    found = of_subject(f"It is still there:\n\n{HEADER}\n{ROW}\n")
    assert (found.benchmark, row_of(found)) == ("will-it-scale", (84998, 40459, -0.524))
    assert found.notes == [
        "no line names the benchmark: the metric will-it-scale.per_process_ops is that of will-it-scale",
        "no line names the benchmark's parameters, so its defaults are assumed",
    ]
    with pytest.raises(UserError, match="does not say which test of will-it-scale was run"):
        workload_of(found.benchmark, found.parameters, found.metric)
    with pytest.raises(UserError, match="reports no regression"):
        of_subject("I will look at it.\n")


@pytest.mark.parametrize(
    ("metric", "benchmark", "runs"),
    [
        ("stress-ng.pagemove.page_remaps_per_sec", "stress-ng", "stress-ng"),
        ("fxmark.ssd_xfs_MWCM_72_directio.works/sec", "fxmark", "fxmark/MWCM"),
        ("fxmark.ssd_ext4_DWAL_2_directio.works/sec", "fxmark", "fxmark/DWAL-direct"),
    ],
)
def test_a_metric_alone_names_the_benchmark(metric: str, benchmark: str, runs: str) -> None:
    notice = f"> kernel test robot noticed a -4.4% regression of {metric} on"
    found = read(f'{notice}\n> commit {NEW[:12]} ("vfs: a change")\n\nIt is a lookup.\n')
    assert (found.benchmark, found.metric, found.change) == (benchmark, metric, -0.044)
    assert workload_of(found.benchmark, found.parameters, found.metric).called.split()[0] == runs


def test_the_name_of_a_metric_of_fxmark_is_its_parameters() -> None:
    found = read(f"noticed a -9.8% regression of {FXMARK} on:\n\ncommit: {NEW}\n")
    assert found.parameters == {
        "disk": "hdd",
        "media": "hdd",
        "fstype": "ext4_no_jnl",
        "test": "dbench_client",
        "directio": "bufferedio",
    }
    assert (found.tasks, len(found.notes)) == (24, 1)
    with pytest.raises(UserError, match="fxmark on ext4_no_jnl, which no machine here has"):
        workload_of(found.benchmark, {**found.parameters, "test": "MWCL"}, found.metric)
    of_lines = pattern(3).parameters
    assert (of_lines["disk"], of_lines["fstype"], of_lines["test"]) == ("1SSD", "btrfs", "MWUM")


def test_the_table_of_the_metrics_benchmark_names_it() -> None:
    other = TABLE.replace("open1/will-it-scale", "open1/hackbench")
    assert of_subject(f"{other}\n{TABLE}").benchmark == "will-it-scale"


def test_of_a_table_that_lacks_the_commit_neither_base_nor_figures_are_taken() -> None:
    other = TABLE.replace(NEW[:27], "5" * 27).replace("\n  0123456789 (", '\n  5555555555 ("Not ')
    found = read(HEAD + other)
    assert (found.base, found.figures) == (None, []) and "test" not in found.parameters
    again = re.sub(r"-52\.4% +40459", "-50.1%  42414", TABLE)
    found = read(HEAD + again)
    assert found.figures == [] and found.parameters["test"] == "open1"
    assert found.notes[0] == "the parameters are those of tables whose figures are left out"


def test_a_commit_of_the_same_title_is_the_same_one_rebased() -> None:
    other = TABLE.replace(NEW[:27], "5" * 27).replace("\n  0123456789 (", "\n  5555555555 (")
    found = read(HEAD + other)
    assert (found.new.id, found.base, row_of(found)) == (NEW, None, (84998, 40459, -0.524))
    assert found.parameters["test"] == "open1"
    assert found.notes == [
        "a table's 5555555555 has the title of 0123456789ab, so it is taken for the same, rebased"
    ]
    again = re.sub(r"-52\.4% +40459", "-50.1%  42414", other)
    assert read(HEAD + again).figures == [] and read(HEAD + again).parameters["test"] == "open1"
    patch = HEAD.replace('("vfs: a', '("[PATCH v2 1/3] vfs: a')
    assert row_of(read(patch + other)) == row_of(found)
    untitled = HEAD.replace(f' ("{TITLE}")', "")
    assert read(untitled + other).figures == []
    twice = other.replace("\n  5555555555 (", f'\n  6666666666 ("{TITLE}")\n  5555555555 (')
    assert read(HEAD + twice).figures == []
    assert read(HEAD + TABLE).notes == []


def test_of_a_table_and_its_repeated_rows_the_one_with_keys_is_taken() -> None:
    found = of_subject(f"{HEADER}\n{ROW}\n\nI see this row. The whole table:\n\n{TABLE}")
    assert found.figures == read(TEXT).figures and found.parameters["test"] == "open1"


def test_a_table_after_the_signature_is_read_and_nothing_else() -> None:
    end = TEXT.index("=" * 80)
    after = "-- \nA keeper\n\nparameters:\n\n\ttest: brk1\n\nmore odd things\n\n"
    found = read(TEXT[:end] + after + TEXT[end:])
    assert found.figures == read(TEXT).figures and found.parameters["test"] == "open1"
    assert found.unknown == []


def test_the_machine_of_an_answer_is_in_lines_above_its_table() -> None:
    hardware = "model: Skylake\nnr_node: 2\nnr_cpu: 104\nmemory: 192G\nbrand: Intel(R) Xeon(R) Gold 1234\n\n"
    found = of_subject(f"{hardware}{TABLE}")
    assert found.machine == ReportedMachine(104, 2, "Intel(R) Xeon(R) Gold 1234 (Skylake)", 192.0, "Skylake")
    assert (found.tasks, len(found.unknown)) == (104, 1)


# Mails of 2013 to 2016, and tables with the name of the test in a row

OLD = f"""Hi,

{OF_OLD}

git://git.example.com/linux.git master
commit {NEW} ("mm: a pattern")

test case: ivb44/vm-scalability/300s-anon-w-seq

{HEADER[:15]}  {NEW[:25]}
---------------  -------------------------
      347258 ~ 0%     -18.2%     284195 ~ 0%  TOTAL vm-scalability.throughput
          61 ~32%    +363.8%        286 ~10%  TOTAL numa-vmstat.node0.nr_unevictable

Legend:
	~XX%    - stddev percent
	[+-]XX% - change percent

                                   time.system_time

    300 O+O--O-O-O--O-O-O--O-O-O--O-O-------------------------+
        O O                                                   |
    140 ++----------------------------------------------------+

	[*] bisect-good sample
"""
OLD_SUBJECT = f"[mm] {NEW[:11]}: -18.2% vm-scalability.throughput"


def test_a_mail_of_2014_is_read() -> None:
    found = of_subject(OLD, OLD_SUBJECT)
    assert (found.metric, found.regression, row_of(found)) == (
        "vm-scalability.throughput",
        True,
        (347258, 284195, -0.182),
    )
    assert found.new == Commit(NEW, "mm: a pattern") and found.base == Commit(HEADER[:15])
    assert found.parameters["test"] == "anon-w-seq" and not found.unknown
    assert found.notes == [
        "the report's parameters have no names, so they are taken from ivb44/vm-scalability/300s-anon-w-seq"
    ]
    bare = read(OLD)
    assert (bare.metric, bare.change, bare.regression) == (found.metric, found.change, True)


def test_without_a_subject_the_rate_that_changed_most_is_the_reports() -> None:
    found = pattern(18)
    assert (found.metric, found.change, found.mode) == ("will-it-scale.per_thread_ops", -0.156, "thread")
    assert found.regression and found.parameters["test"] == "readseek1"
    note = (
        "no line says which metric is reported, so will-it-scale.per_thread_ops is taken, which changed most"
    )
    assert found.notes == [note]


def test_of_two_changes_in_a_subject_that_of_the_benchmark_is_the_reports() -> None:
    first, second = (
        f"testbox/testcase/testparams: {test}\n\n{HEADER}\n"
        f"  29.67 ± 1%  -46.9%  15.75 ± 3%  time.system_time\n  {row}\n\n"
        for test, row in (
            ("lkp-g5/ebizzy/performance-200%-100x-10s", "1525  +9.3%  1667  ebizzy.throughput"),
            ("lkp-snb01/aim7/performance-3000-exec_test", "12345 ± 1%  +1.5%  12530  aim7.jobs-per-min"),
        )
    )
    text = f'{OF_OLD}\n\ncommit {NEW} ("a")\n\n{first}{second}lkp-snb01: Sandy Bridge-EP\n'
    found = of_subject(text, f"[LKP] [sched] {NEW[:11]}: -46.9% time.system_time +1.5% aim7.jobs-per-min")
    assert (found.benchmark, found.tasks, found.parameters["test"]) == ("aim7", 3000, "exec_test")
    assert (found.regression, row_of(found)) == (False, (12345, 12530, 0.015))
    assert not found.unknown


def test_rows_of_a_test_and_their_mean_are_told_apart() -> None:
    test = "will-it-scale/performance-process-100%-open1-ucode=0x11/lkp-skl-pattern"
    order = "testcase/testparams/testbox"
    rows = f"  84998 ± 3%  -52%  40459  {test}\n  84998  -52%  40459  GEO-MEAN {METRIC}\n"
    text = f"{HEADER}  {order}\n---\n{rows}"
    found = of_subject(text)
    assert (row_of(found), len(found.figures)) == ((84998, 40459, -0.52), 1)
    assert (found.parameters["test"], found.parameters["nr_threads"], found.mode) == (
        "open1",
        "100%",
        "process",
    )
    wrapped = (
        text.replace("ucode=", "uco\nde=")
        .replace("/testbox", "/tes\ntbox")
        .replace("GEO-MEAN ", "\nGEO-MEAN ")
    )
    assert row_of(of_subject(wrapped)) == row_of(found)
    better = of_subject(
        text.replace("-52%  40459", "3%  87500"), f"[vfs] {NEW[:10]}: {METRIC} 3.0% improvement"
    )
    assert row_of(better) == (84998, 87500, 0.03)


OF_A_TEST = "will-it-scale/performance-process-100%-open1-ucode=0x11/lkp-skl-pattern"


@pytest.mark.parametrize(
    "columns",
    [
        f"v5.4  {NEW[:26]}\n{'5' * 26}  testcase/testparams/testbox",
        f"{HEADER[:16]}  {NEW[:26]}\n{'5' * 26}\ntestcase/testparams/testbox",
        f"{HEADER[:16]}  {NEW[:26]}\n{'5' * 26}  testcase/testparams/tes\ntbox",
        f"{HEADER[:16]}  {NEW[:26]}  {'5' * 26}",
    ],
)
def test_the_line_above_a_table_is_read_wherever_it_was_cut(columns: str) -> None:
    rows = f"  84998  40459  47647 \n{OF_A_TEST}\n  84998  40459  47647  GEO-MEAN \n{METRIC}\n"
    found = of_subject(f"{columns}\n---------------- ----------\n---------\n{rows}")
    assert (found.benchmark, found.parameters["test"], found.mode) == ("will-it-scale", "open1", "process")
    assert found.parameters["tbox_group"] == "lkp-skl-pattern"
    assert row_of(found) == (84998, 40459, None) and found.unknown == []


def test_the_part_of_a_test_that_the_metric_begins_with_is_the_benchmark() -> None:
    row = "  347258  -52.4%  165295  {}\n  347258  -52.4%  165295  TOTAL vm-scalability.throughput\n"
    for test in ("300s-lru/vm-scalability/ivb44", "ivb44/300s-lru/vm-scalability"):
        text = f'{OF_OLD}\n\ncommit {NEW} ("a")\n\n{HEADER}\n{row.format(test)}'
        for subject in (OLD_SUBJECT, f"[mm] {NEW[:10]}: vm-scalability.throughput -52.4% regression"):
            assert of_subject(text, subject).benchmark == "vm-scalability"
    found = of_subject(text, OLD_SUBJECT)
    assert (found.parameters["tbox_group"], found.parameters["test"]) == ("ivb44", "lru")


def test_the_sum_of_several_tests_is_no_figure() -> None:
    rows = "".join(
        f"  1000 ~ 3%  -35.0%  650 ~ 0%  box2/micro/vm-scalability/300s-{fs}-lru\n" for fs in ("xfs", "ext4")
    )
    total = "  2000  -35.0%  1300  TOTAL vm-scalability.throughput\n"
    text = f"{OF_OLD}\n\ncommit {NEW}\n\n{HEADER}\n{rows}{total}"
    found = of_subject(text, OLD_SUBJECT.replace("18.2", "35.0"))
    assert found.figures == [] and "fs" not in found.parameters
    assert "vm-scalability.throughput is left out: it is of 2 tests together" in found.notes[0]


# Tables that developers write


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (
            "Hmean   1   497.89 (   0.00%)   543.15 *   9.09%*\nHmean   2   975.88 (   0.00%)   1059.73",
            "a table of mmtests",
        ),
        (
            "| hackbench | w/o patch | with patch |\n|---|---|---|\n| 1 group | 1.3 | 1.1 |\n| 2 | 2 | 1 |",
            "a table of figures with and without a change",
        ),
        (
            "before:\n 13.48 usecs/op\nafter that I saw less:\n 6.84 usecs/op",
            "figures as a benchmark prints them",
        ),
    ],
)
def test_a_developers_table_is_refused_in_a_line_that_says_what_to_give(table: str, what: str) -> None:
    for text in (f"Hello,\n\nhere is what I measured:\n\n{table}\n", quoted(table)):
        with pytest.raises(
            UserError, match=f"it has {what}, without the commit, .* `bigiron run WORKLOAD"
        ) as refused:
            read(text)
        assert "\n" not in str(refused.value)
    head = f"noticed a -5.0% regression of hackbench.throughput on:\n\ncommit: {NEW}\n\n"
    lines = f"{head}testcase: hackbench\nparameters:\n\n ipc: pipe\n\n"
    assert workload_of(*_named(read(lines + table))).workload == "hackbench/pipe"


def test_a_table_of_the_robot_alone_is_refused_until_it_says_what_changed() -> None:
    answer = f"I tested your patch:\n\n{TABLE}"
    with pytest.raises(
        UserError, match="has a table of the robot, but no line says which commit changed"
    ) as refused:
        of_subject(answer, "Re: [PATCH v2 3/5] vfs: a pattern")
    added = re.search(r"'(noticed .*)' and '(commit: .*)'", str(refused.value))
    assert added
    lines = (
        f"{added[1]}\n{added[2]}\n".replace("-5.0%", "-52.4%").replace("METRIC", METRIC).replace("HASH", NEW)
    )
    assert of_subject(lines + answer, "Re: [PATCH] a").figures == read(TEXT).figures


def _named(found: RobotMail) -> tuple[str, dict[str, str]]:
    return found.benchmark, dict(found.parameters)


def test_lines_of_one_kind_of_character_are_read_in_linear_time() -> None:
    """With exponential time the test would not end."""
    for piece in ("1.", "1 ", "- ", "a/", "9", "a ", "| ", '("', "± ", "1%", "v1 ", "0123456789abcdef "):
        read(TEXT.replace("something odd here", f"{piece * 900}\n{piece * 100}x\n{piece * 100}"))
