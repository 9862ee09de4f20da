"""tools/prose.py finds pages, sentences, lines and tables that are too long or too wide."""

import doctest

import pytest
from test_docs import tool

prose = tool("prose")

LONG_PAGE = "word\n" * 1501
LONG_SENTENCE = "\n".join(["seven words of the same long sentence"] * 6) + ".\n"
LONG_LINE = "eleven words " * 8 + "\n"
WIDE_TABLE = "| 1 | 2 | 3 | 4 | 5 | 6 | 7 |\n|---|---|---|---|---|---|---|\n"


def test_the_examples() -> None:
    assert doctest.testmod(prose).failed == 0


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        (LONG_PAGE, {"", "contributing", "explanation", "howto", "tutorial"}),
        (LONG_SENTENCE, {"howto", "tutorial"}),
        (LONG_LINE, {"", "..", "contributing", "explanation", "howto", "reference", "tutorial"}),
        (WIDE_TABLE, {"", "contributing", "explanation", "howto", "tutorial"}),
    ],
    ids=["page", "sentence", "line", "table"],
)
def test_each_rule_holds_in_its_folders(text: str, folders: set[str]) -> None:
    for folder in (
        "",
        "..",
        "contributing",
        "explanation",
        "howto",
        "reference",
        "results",
        "tutorial",
        "validation",
    ):
        assert bool(list(prose.check(text, folder))) is (folder in folders), folder


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{LONG_LINE}{LONG_PAGE}```\n",
        f"<!-- output: exact\n$ {LONG_LINE}-->\n",
        f"| a | {'cell ' * 30} |\n",
        f"- [text](https://example.org/{'long/' * 20})\n",
        "- an item that has no full stop\n" * 9,
        "`a command\nof nine words is counted as one word` " * 9,
    ],
    ids=["fenced block", "comment", "cell", "link", "items", "code"],
)
def test_what_is_left_out(text: str) -> None:
    assert list(prose.check(text, "howto")) == []


def test_the_place_is_the_first_line_of_the_passage() -> None:
    (complaint,) = prose.check(f"# A page\n\nShort.\n\n{LONG_SENTENCE}", "howto")
    assert complaint == (5, "a sentence of 42 words (seven words of the same long ...): at most 40")
