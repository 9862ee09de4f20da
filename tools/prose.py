"""Checks the form of pages: their length, their sentences, their lines and their tables.

    .venv/bin/python tools/prose.py [FILE...]

Without files it reads all pages of docs/ and those beside it. Exit status 1 where a page breaks a rule:

    at most 1,500 words to a page, fenced blocks left out     but in reference/
    at most 40 words to a sentence                            in tutorial/ and howto/
    at most 100 columns to a line                             but in tables and fenced blocks
    at most six columns to a table                            but in reference/

All pages of docs/ together have at most 45,000 words, without what programs make: fenced blocks,
validation/, results/ and reference/cli.md. Of README.md, CONTRIBUTING.md and CHANGELOG.md only the
length of lines is checked.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from words import without_fenced_blocks  # noqa: E402

DOCS = HERE.parent / "docs"
BESIDE = tuple(HERE.parent / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
OUTSIDE = ".."  # the folder of those
MADE = ("validation", "results")  # by programs
MADE_PAGES = (DOCS / "reference/cli.md",)
MOST_WORDS, MOST_WORDS_OF_A_SENTENCE, WIDTH, MOST_COLUMNS = 1500, 40, 100, 6
MOST_WORDS_IN_ALL = 45_000

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
_ITEM = re.compile(r"^ *(?:[-*]|\d+\.) +|^ *> *")
_CELLS = re.compile(r"(?<!\\)\|")
_END = re.compile(r"""(?<=[.?!])["')*_]*\s+""")

Complaint = tuple[int, str]


def check(text: str, folder: str) -> Iterator[Complaint]:
    r"""The line and the complaint, for each rule that a page in this folder of docs/ breaks.

    >>> list(check("| 1 | 2 | 3 | 4 | 5 | 6 | 7 |\n", "howto"))
    [(1, 'a table of 7 columns: at most 6, or a CSV file')]
    """
    prose = _without_comments(without_fenced_blocks(text))
    if folder in MADE:
        return
    if folder not in ("reference", OUTSIDE):
        if (number := words_in(text)) > MOST_WORDS:
            yield 1, f"{number} words: at most {MOST_WORDS}, fenced blocks left out"
        yield from _wide_tables(prose)
    if folder in ("tutorial", "howto"):
        yield from _long_sentences(prose)
    yield from _long_lines(prose)


def words_in(text: str) -> int:
    """Words outside of fenced blocks and comments."""
    prose = _without_comments(without_fenced_blocks(text))
    return sum(any(map(str.isalnum, word)) for word in prose.split())


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)


def _wide_tables(prose: str) -> Iterator[Complaint]:
    before = ""
    for number, line in enumerate(prose.splitlines(), 1):
        if line.startswith("|") and not before.startswith("|"):
            columns = len(_cells(line))
            if columns > MOST_COLUMNS:
                yield (
                    number,
                    f"a table of {columns} columns: at most {MOST_COLUMNS}, or a CSV file",
                )
        before = line


def _long_sentences(prose: str) -> Iterator[Complaint]:
    for number, text in _passages(prose):
        for sentence in _END.split(text):
            count = len(sentence.split())
            if count > MOST_WORDS_OF_A_SENTENCE:
                start = " ".join(sentence.split()[:6])
                yield number, f"a sentence of {count} words ({start} ...): at most {MOST_WORDS_OF_A_SENTENCE}"


def _passages(prose: str) -> Iterator[Complaint]:
    r"""Paragraphs, items of lists, headings and cells of tables, each with its first line.

    Code counts as one word, and a link as its text.

    >>> list(_passages("# A page\nOne\ntwo.\n\n- `a b` of\n  [c d](e.md)\n- f\n| g | h |\n"))
    [(1, 'A page'), (2, 'One two.'), (5, 'CODE of c d'), (7, 'f'), (8, 'g'), (8, 'h')]
    """
    at, parts = 0, list[str]()
    for number, line in enumerate([*prose.splitlines(), ""], 1):
        is_row, is_heading = line.startswith("|"), line.startswith("#")
        if parts and (not line.strip() or is_row or is_heading or _ITEM.match(line)):
            yield at, _plain(" ".join(parts))
            parts = []
        if is_row:
            yield from ((number, _plain(cell)) for cell in _cells(line))
        elif is_heading:
            yield number, _plain(line.lstrip("# "))
        elif line.strip():
            at = at if parts else number
            parts.append(_ITEM.sub("", line).strip())


def _plain(text: str) -> str:
    return _LINK.sub(r"\1", _CODE.sub("CODE", text)).strip()


def _cells(row: str) -> list[str]:
    return _CELLS.split(_CODE.sub("CODE", row).strip().strip("|"))


def _long_lines(prose: str) -> Iterator[Complaint]:
    """Lines that could be broken."""
    for number, line in enumerate(prose.splitlines(), 1):
        could_be_broken = len(_ITEM.sub("", line).split()) > 1
        if len(line) > WIDTH and could_be_broken and not line.startswith("|"):
            yield number, f"{len(line)} columns: at most {WIDTH}"


def folder_of(page: Path) -> str:
    """The folder of docs/ in which a page is; "" for docs/ itself.

    >>> folder_of(DOCS / "howto/ci.md")
    'howto'
    >>> folder_of(BESIDE[0])
    '..'
    """
    if not page.resolve().is_relative_to(DOCS):
        return OUTSIDE
    below = page.resolve().relative_to(DOCS).parts
    return below[0] if len(below) > 1 else ""


def main() -> int:
    """Print every place."""
    pages = [Path(name) for name in sys.argv[1:]] or [*BESIDE, *sorted(DOCS.rglob("*.md"))]
    count = 0
    for page in pages:
        for line, complaint in check(page.read_text(encoding="utf-8"), folder_of(page)):
            print(f"{page.resolve().relative_to(DOCS.parent)}:{line}: {complaint}")
            count += 1
    written = [page for page in pages if folder_of(page) not in (*MADE, OUTSIDE) and page not in MADE_PAGES]
    in_all = sum(words_in(page.read_text(encoding="utf-8")) for page in written)
    if in_all > MOST_WORDS_IN_ALL:
        print(f"docs/: {in_all} words in all: at most {MOST_WORDS_IN_ALL}")
        count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
