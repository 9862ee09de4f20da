"""Mails that are too large, hostile or cut up: they are read or refused in one line, and steer nothing."""

import gzip
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_robot_mail import PATTERNS, TEXT, read

from bigiron.errors import UserError
from bigiron.readers import robot_mail


@pytest.mark.slow
def test_a_large_mail_is_refused_and_a_large_table_is_read_in_part() -> None:
    with pytest.raises(UserError, match="is larger than 16 MiB: give the robot's mail alone"):
        robot_mail.read(TEXT.encode() * (30 << 20 >> 11), "a mail")
    with pytest.raises(UserError, match="is larger than 16 MiB"):
        robot_mail.read(gzip.compress(b"a\n" * (30 << 19)), "a bomb")
    with pytest.raises(UserError, match="has 500000 lines: at most 400000 are read"):
        read("a\n" * 500_000)
    with pytest.raises(UserError, match="has 10001 mails: at most 10000 are read"):
        read("From a Thu Jan  1 00:00:00 1970\nTo: b\n\nc\n" * 10_001)
    rows = "".join(f"  {of}  +1.0%  {of}  some.metric.{of}\n" for of in range(100_000))
    at = TEXT.index("      0.02 ±")
    found = read(TEXT[:at] + rows + TEXT[at:])
    assert len(found.figures) == 20_001 and found.headline and found.headline.new == 40459
    assert "only the first 20000 rows of tables are read" in found.notes[0]


HOSTILE = "$(touch /tmp/x)`id`;|&<>'\"*\\ \x1b]0;a\x07 ../../etc"


def test_characters_of_a_shell_reach_no_parameter_and_no_terminal() -> None:
    text = TEXT
    for field in ("open1\n", "100%\n", "process\n", "performance\n"):
        text = text.replace(f": {field}", f": {HOSTILE}\n")
    found = read(text.replace("a pattern, no", HOSTILE).replace("(Skylake)", f"({HOSTILE})"))
    assert not {"test", "nr_task", "mode"} & {*found.parameters} or found.parameters["test"] == "open1"
    assert all(not set(value) & set("$`;|&<>'\"*\\\x1b\x07") for value in found.parameters.values())
    assert len(found.unknown) >= 4
    said = f"{found.new.title}{found.machine}{found.unknown}{found.notes}"
    assert "\x1b" not in said and "\x07" not in said
    with pytest.raises(UserError, match="is not the name of a benchmark"):
        read(TEXT.replace("testcase: will-it-scale", f"testcase: {HOSTILE}"))
    with pytest.raises(UserError, match="no number of threads"):
        read(TEXT.replace("104 threads", HOSTILE))


# Any mail


@st.composite
def mails(draw: st.DrawFn) -> bytes:
    """Of the lines of the patterns, with lines and pieces left out, doubled, moved, quoted and changed."""
    text = draw(st.sampled_from([TEXT, *(file.read_text("latin-1") for file in sorted(PATTERNS.iterdir()))]))
    lines = text.split("\n")
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(("drop", "double", "move", "quote", "change", "join"))):
            case "drop":
                lines = lines[:at] + lines[at + draw(st.integers(1, 8)) :] or [""]
            case "double":
                lines[at:at] = lines[at : at + draw(st.integers(1, 12))]
            case "move":
                lines.insert(draw(st.integers(0, len(lines) - 1)), lines[at])
            case "quote":
                lines[at:] = [f"> {line}" for line in lines[at:]]
            case "change":
                words = re.split(r"(\W)", lines[at])
                word = draw(st.integers(0, len(words) - 1))
                words[word] = draw(
                    st.one_of(st.text(max_size=12), st.from_regex(r"[-+]?[0-9]{1,30}(%|e|t)?"))
                )
                lines[at] = "".join(words)
            case "join":
                lines[at : at + 2] = ["".join(lines[at : at + 2])]
    content = "\n".join(lines).encode(draw(st.sampled_from(("utf-8", "utf-16-le"))), "surrogatepass")
    header = draw(st.sampled_from((b"", b"Subject: a\n\n", b"From a Thu Jan  1 00:00:00 1970\nTo: b\n\n")))
    return header + content


@given(mails())
def test_any_mail_is_read_or_refused(content: bytes) -> None:
    try:
        found = robot_mail.read(content, "a mail")
    except UserError as error:
        assert "\n" not in str(error) and str(error).isprintable()
        return
    assert found.tasks is None or 1 <= found.tasks <= 1 << 20
    assert found.mode in ("process", "thread") and -1e7 < (found.throughput_change or 0.0) < 1e7
    assert found.tasks_at_once is None or found.tasks_at_once <= 8192
    said = [found.new.title, found.benchmark, found.metric, *found.notes, *found.parameters.values()]
    assert all(one.isprintable() for one in [*said, *(row.name for row in found.figures)])


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    for before in (b"", b"\x1f\x8b", b"From a Thu Jan  1 00:00:00 1970\n", b"Content-Type: "):
        with pytest.raises(UserError):
            robot_mail.read(before + content, "a mail")


@given(st.text(alphabet="a0%:/ .±-", max_size=40))
def test_a_line_that_is_not_understood_changes_no_figure(line: str) -> None:
    lines = TEXT.split("\n")
    where = lines.index("If you fix the issue in a separate patch/commit (i.e. not just a new version of")
    lines.insert(where, f"!{line}")
    found = read("\n".join(lines))
    whole = read(TEXT)
    assert (found.figures, found.parameters, found.machine) == (
        whole.figures,
        whole.parameters,
        whole.machine,
    )
    assert (found.change, found.base, found.tasks) == (whole.change, whole.base, whole.tasks)
