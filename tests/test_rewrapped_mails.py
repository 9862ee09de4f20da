"""Mails whose lines a program or a web page wrapped, ran together, or left without the lines between them.

Each text has one thing that published mails have; commits, titles and people are made up.
"""

import re
from dataclasses import replace

import pytest
from test_robot_mail import NEW, TEXT, mail, quoted, read

from bigiron.readers import robot_mail
from bigiron.readers.robot_mail import Commit, RobotMail

MACHINE = "test machine: 104 threads 2 sockets (Skylake) with 192G memory"
PARAMETERS = "nr_task: 100%\n\tmode: process\n\ttest: open1\n\tcpufreq_governor: performance\n"
TITLE = "vfs: a pattern, no commit of anybody's"
METRIC = "will-it-scale.per_process_ops"
FURTHER = f"""
+------------------+{"-" * 82}+
| testcase: change | fxmark: fxmark.ssd_btrfs_MWUL_72_bufferedio.works/sec -28.2% regression        |
| test machine     | 128 threads 2 sockets Intel(R) Xeon(R) Platinum 8358 (Ice Lake) with 128G memory |
| test parameters  | cpufreq_governor=performance                                                     |
|                  | directio=bufferedio                                                              |
|                  | disk=1SSD                                                                        |
+------------------+{"-" * 82}+
"""
WIDTH = 72


def same(text: str) -> RobotMail:
    """What is read, which must be all that the whole mail says."""
    found = read(text)
    assert replace(found, unknown=[], further=[]) == replace(read(TEXT), unknown=[])
    return found


def wrapped(text: str) -> str:
    """As a mail program wraps it: at spaces, wherever the rest of a line is."""
    lines = []
    for line in text.split("\n"):
        while len(line) > WIDTH and (at := line.rfind(" ", 0, WIDTH + 1)) > 0 and line[:at].strip():
            lines.append(line[:at])
            line = line[at + 1 :]
        lines.append(line)
    return "\n".join(lines)


def test_a_text_without_empty_lines_and_indentation_is_read() -> None:
    flat = "\n".join(" ".join(line.split()) for line in TEXT.split("\n") if line.strip())
    assert "open1/will-it-scale\ncommit:\n" in flat
    described = flat.replace(
        "performance\n", "performance\ntest-description: It does this.\ntest-url: a\n", 1
    )
    due = flat.replace(f"{METRIC} on:", f"{METRIC} due to commit:")
    for text in (flat, described, due):
        found = read(text)
        assert (found.figures, found.base) == (read(TEXT).figures, read(TEXT).base)
        assert found.parameters == read(TEXT).parameters and not found.notes


@pytest.mark.parametrize("words", ["parameters:", "with following parameters:"])
def test_the_line_of_the_parameters_may_be_joined_to_that_of_the_machine(words: str) -> None:
    apart = f"{MACHINE}\nparameters:\n"
    assert apart in TEXT
    text = TEXT.replace(apart, f"{MACHINE} {words}\n")
    for one in (text, quoted(text), text.replace("threads 2 sockets", "threads\n2 sockets")):
        same(one)


def test_parameters_in_one_line_are_as_many() -> None:
    assert PARAMETERS in TEXT
    in_one = " ".join(PARAMETERS.split("\n\t"))
    same(TEXT.replace(PARAMETERS, in_one))
    same(re.sub(r"parameters:\s+nr_task", "parameters: nr_task", TEXT.replace(PARAMETERS, in_one)))
    one = read(TEXT.replace("test: open1", "test: open1\n\toption_a: Sequential Write: Sync"))
    assert one.parameters["option_a"] == "Sequential Write: Sync"


def test_values_that_were_cut_in_three_are_whole() -> None:
    values = "x86_64-rhel-8.3/process/100%/debian-12-x86_64.cgz/lkp-skl-pattern"
    assert values in TEXT
    same(TEXT.replace(values, values.replace("rhel-", "rhel-\n").replace("lkp-", "lkp-\n")))
    same(TEXT.replace(values, values.replace("rhel-", "rhel-\n").replace("100%/", "100%/\n")))


def test_a_row_of_the_table_of_further_tests_is_read_wherever_it_was_cut() -> None:
    text = TEXT.replace("If you fix the issue", f"{FURTHER}\nIf you fix the issue", 1)
    (whole,) = read(text).further
    assert whole.machine and (whole.machine.memory_gib, whole.parameters["disk"]) == (128, "1SSD")
    apart = re.sub(r"^(\|.*)$", r"\1\n", text, flags=re.MULTILINE)
    for one in (wrapped(text), apart, quoted(wrapped(text))):
        (found,) = same(one).further
        assert replace(found, unknown=[], notes=whole.notes) == replace(whole, unknown=[])


def test_the_line_of_another_branch_is_read_where_it_was_cut() -> None:
    line = f"[still regression on linux-next/master\n{'4567' * 10}]\n"
    (found,) = read(TEXT.replace("testcase:", f"{line}\ntestcase:", 1)).elsewhere
    assert (found.what, found.branch) == ("still regression", "linux-next/master")


def test_lines_that_were_wrapped_after_they_had_been_quoted_are_whole() -> None:
    whole = quoted(TEXT.replace("(Skylake)", "Intel(R) Xeon(R) Platinum 8170 CPU @ 2.10GHz (Skylake)"))
    text = wrapped(whole)
    for rest in ("@ 2.10GHz (Skylake) with 192G memory", "gcc-12/performance/x86_64", METRIC):
        assert f"\n{rest}" in text
    assert read(text) == replace(read(whole), unknown=read(text).unknown)


def test_an_answer_right_after_a_quoted_line_is_no_part_of_it() -> None:
    lines = quoted(TEXT).split("\n")
    answered = "\n".join(f"{line}\nnr_task: 1 is odd" if line.startswith("> ") else line for line in lines)
    found = read(answered)
    assert replace(found, unknown=[]) == replace(read(TEXT), unknown=[])
    assert not any("odd" in line for _, line in found.unknown if "something" not in line)


def test_an_answer_right_after_a_short_line_of_the_machine_is_no_part_of_it() -> None:
    text = quoted(TEXT.replace(" with 192G memory", ""))
    line = "> test machine: 104 threads 2 sockets (Skylake)\n"
    assert line in text
    assert read(text.replace(line, f"{line}None of us has that one.\n")).machine == read(text).machine


@pytest.mark.parametrize(
    ("notice", "title"),
    [
        (f'due to commit\n{NEW[:12]} ("{TITLE}")', TITLE),
        (f'due to commit: {NEW[:12]} ("{TITLE}")', TITLE),
        (f'\n\nThat is a lot.\n\ndue to commit: {NEW[:12]} ("{TITLE}")', TITLE),
        (f"due to commit {NEW[:12]}", ""),
    ],
)
def test_the_commit_may_be_in_the_line_of_the_regression(notice: str, title: str) -> None:
    rest = TEXT[TEXT.index("testcase:") : TEXT.index("=" * 80)]
    for text in (f"We noticed a -52.4% regression of {METRIC} {notice}\n\n{rest}",):
        for one in (text, quoted(text)):
            found = read(one)
            assert (found.new, found.change, found.tasks) == (Commit(NEW[:12], title), -0.524, 104)


def test_a_metric_is_whole_wherever_a_program_cut_it_at_a_hyphen() -> None:
    for metric in ("stress-ng.vm-splice.vm-splice_calls_per_sec", METRIC):
        cut = re.sub(r"-(?=[^-]*$)", "-\n", metric)
        for end in ("on:", "due to commit:"):
            text = TEXT.replace(f"{METRIC} on:", f"{cut} {end}")
            assert read(text).metric == metric and read(quoted(text)).metric == metric


@pytest.mark.parametrize("mark", ["    ", "\t", ": ", "| "])
def test_a_report_that_is_cited_by_indenting_it_is_read(mark: str) -> None:
    indented = "".join(f"{mark}{line}".rstrip() + "\n" for line in TEXT.split("\n"))
    for text in (indented, quoted(indented)):
        same(f"I noticed that it says:\n{text}")


def test_a_text_that_is_one_line_or_one_for_each_paragraph_is_read() -> None:
    text = TEXT.replace("If you fix the issue", f"{FURTHER}\nIf you fix the issue", 1)
    text = text.replace("something odd here\n", "")
    whole = read(text)
    of_tag = text.replace('fedcba9876 ("vfs: what was before")', "v6.13").replace("fedcba9876a59687", "v6.13")
    for source, base in ((text, whole.base), (of_tag, Commit("v6.13"))):
        paragraphs = "\n\n".join(" ".join(one.split()) for one in re.split(r"\n\s*\n", source))
        for one in (" ".join(source.split()), " ".join(quoted(quoted(source)).split()), paragraphs):
            found = read(f"A developer wrote: {one}")
            assert (found.new, found.base, found.machine) == (whole.new, base, whole.machine)
            assert (found.parameters, found.tasks) == (whole.parameters, 104)
            assert found.figures == whole.figures
            assert [one.parameters["disk"] for one in found.further] == ["1SSD"]


def test_an_answer_that_names_a_test_and_a_machine_in_one_line_leaves_the_report_as_it_is() -> None:
    for words in ("testcase: fork2 on test machine: mine", "testcase: a on test machine: 16 threads here"):
        for text in (f"I ran {words}.\n\n{quoted(TEXT)}", f"{quoted(TEXT)}\n\nI ran {words}.\n"):
            assert replace(read(text), unknown=[]) == replace(read(TEXT), unknown=[])


def test_a_line_of_one_kind_of_character_is_cut_in_linear_time() -> None:
    text = " ".join(TEXT.split()).replace("something odd here", "{}")
    for piece in (" ", "> ", ">", "a.", " a.b 1", ' ("', "commit: 1234567 ", "testcase: ", "-", "a:", "| "):
        read(text.replace("{}", piece * 20_000))


# Mails that are cut


def test_a_mail_that_is_cut_before_its_parameters_assumes_defaults() -> None:
    assumed = ["no line names the benchmark's parameters, so its defaults are assumed"]
    for end in ("parameters:", "nr_task:"):
        assert read(TEXT[: TEXT.index(end)]).assumptions == assumed
    assert read(TEXT[: TEXT.index("\tmode:")]).assumptions == []


def test_rows_before_a_table_leave_it_its_parameters() -> None:
    table = re.sub(r"-52\.4% +40459", "-2.4%  82958", TEXT[TEXT.index("=" * 80) : TEXT.index("Disclaimer")])
    rows = "    84998            -2.4%      82958        will-it-scale.104.processes\n"
    answer = mail(text=f"I ran it again with a change:\n\n{rows}\nIn full:\n\n{table}")
    found = robot_mail.read(answer.as_bytes(), "a mail")
    assert (found.parameters["test"], found.parameters["nr_task"]) == ("open1", "100%")
    assert "the parameters are those of tables whose figures are left out" in found.assumptions
