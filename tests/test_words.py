"""tools/words.py finds the words that bigiron does not use."""

import subprocess
import sys
from pathlib import Path

import pytest
from test_docs import tool
from test_setup import ROOT

words = tool("words")


@pytest.mark.parametrize(
    "line",
    [
        "def the_mended_one() -> None:",
        "class TheMendedOne:",
        'print("it was mended")',
        "# Mended twice",
        "/* what is mended */",
    ],
)
def test_a_word_in_a_name_a_string_or_a_comment_is_found(line: str) -> None:
    ((number, word, instead),) = words.found(f"x = 1\n{line}\ny = 2\n", words.rules())
    assert (number, word.lower(), instead) == (2, "mended", "fix")


def test_a_clean_text_gives_nothing() -> None:
    text = 'def fixed() -> str:\n    """Writes per operation."""\n    return "amended, recommended"\n'
    assert list(words.found(text, words.rules())) == []


def test_fenced_blocks_of_markdown_are_left_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```\n$ echo mended\nmended\n```\n\nIt was mended.\n")
    assert [number for number, *_ in words.found(words.prose(page), words.rules())] == [8]


def test_the_exit_status_says_whether_a_word_was_found(tmp_path: Path) -> None:
    for text, status in (("fixed = 1\n", 0), ("mended = 1\n", 1)):
        (tmp_path / "module.py").write_text(text)
        command = [sys.executable, ROOT / "tools/words.py", tmp_path / "module.py"]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert (ended.returncode, bool(ended.stdout)) == (status, bool(status))
