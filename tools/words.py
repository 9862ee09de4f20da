"""Finds words that bigiron does not use (tools/words.txt) in names, strings, comments and documentation.

    .venv/bin/python tools/words.py [FILE...]

Without files it reads all that git tracks. Exit status 1 where a word is found. Names are split at
underscores and capitals, so that `_WhosWho` and `whos_who` are read as prose is. Fenced blocks of
Markdown are left out: they are the output of programs (tools/docs.py).
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ENDINGS = {".py", ".c", ".h", ".rs", ".md", ".html", ".js", ".toml", ".sh"}
LEFT_OUT = re.compile(
    r"tests/(corpus|reports|figures)/|tests/test_words\.py|CHANGELOG\.md|cases/.*/(patches|.*\.csv)"
)
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_FENCED = re.compile(r"^( *)(```+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)

Rule = tuple[re.Pattern[str], str]


def rules() -> list[Rule]:
    """Each expression, and what to write instead."""
    lines = (HERE / "words.txt").read_text().splitlines()
    pairs = (line.split("\t") for line in lines if line and not line.startswith("#"))
    return [(re.compile(expression), instead) for expression, instead in pairs]


def forms(text: str) -> list[str]:
    """A text as it is, and with its names as words; in lower case: to ignore case takes three times as long.

    >>> forms("_CellPool")
    ['_cellpool', ' cell pool']
    """
    return [form.lower() for form in (text, _CAPITAL.sub(" ", text.replace("_", " ")))]


def found(text: str, known: list[Rule]) -> Iterator[tuple[int, str, str]]:
    """The line, the word and its replacement, for each word of a text."""
    # Nearly all texts have none, which all expressions as one tell at once.
    any_of_them = re.compile("|".join(f"(?:{expression.pattern})" for expression, _ in known))
    if not any(map(any_of_them.search, forms(text))):
        return
    for number, line in enumerate(text.splitlines(), 1):
        for form in forms(line):
            hits = [
                (match[0], instead) for expression, instead in known if (match := expression.search(form))
            ]
            yield from ((number, word, instead) for word, instead in hits)
            if hits:
                break


def without_fenced_blocks(text: str) -> str:
    r"""Markdown's prose, on the lines where it is.

    >>> without_fenced_blocks("a\n```\nb\n```\nc")
    'a\n\n\n\nc'
    """
    return _FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)


def prose(file: Path) -> str:
    """All of a file that is checked."""
    text = file.read_text(errors="replace")
    return without_fenced_blocks(text) if file.suffix == ".md" else text


def main() -> int:
    """Print every place."""
    listed = subprocess.run(["git", "ls-files"], cwd=HERE.parent, check=True, capture_output=True, text=True)
    names = sys.argv[1:] or listed.stdout.splitlines()
    known, count = rules(), 0
    for name in names:
        if Path(name).suffix not in ENDINGS or LEFT_OUT.search(name):
            continue
        for number, word, instead in found(prose(HERE.parent / name), known):
            print(f"{name}:{number}: {word!r}: {instead}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
