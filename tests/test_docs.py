"""`make docs`: transcripts are made again, and counts that no longer hold are found."""

import doctest
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from test_setup import ROOT


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs", ROOT / "tools/docs.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


docs = loaded()


def page(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(docs, "ROOT", folder)
    (folder / "page.md").write_text(text)
    return folder / "page.md"


def transcript(kind: str, *lines: str) -> str:
    return (
        f"Before.\n\n<!-- output: {kind} -->\n```\n"
        + "".join(f"{line}\n" for line in lines)
        + "```\n\nAfter.\n"
    )


def test_the_examples() -> None:
    assert doctest.testmod(docs).failed == 0


@pytest.mark.parametrize("file", docs.pages(), ids=lambda file: file.name)
def test_every_transcript_says_how_it_is_made(file: Path) -> None:
    for block in docs.blocks(file):
        if block.is_transcript:
            reason = block.kind.removeprefix("not made: ")
            assert block.is_made or reason != block.kind, f"{file}:{block.line} has no `<!-- output: ... -->`"


def test_a_count_that_no_longer_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = page(transcript("counts", "$ echo label 2.000 8/8", "label 6.000 8/8"), tmp_path, monkeypatch)
    stale = ["page.md:5: 'label # #/#' was 6 8 8, is 2 8 8"]
    before = file.read_text()
    assert docs.make_page(file, write=False) == stale
    assert file.read_text() == before
    assert docs.make_page(file, write=True) == stale
    assert file.read_text() == before.replace("label 6.000", "label 2.000", 2)
    assert docs.make_page(file, write=True) == []


@pytest.mark.parametrize(
    ("kind", "shown", "holds"),
    [
        ("counts", "label 2.01 8/8", True),  # 1 %, and a tenth of an operation
        ("counts", "label 2.000 7/8", False),
        ("counts within 30 %", "label 2.500 8/8", True),
        ("counts within 10 %", "label 2.500 8/8", False),
        ("exact", "label 2.000 8/8", True),
        ("exact", "label 2.01 8/8", False),
        ("of the day", "label 77 1/1", True),
        ("not made: needs a moon", "nothing", True),
    ],
)
def test_what_holds(
    kind: str, shown: str, holds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = page(transcript(kind, "$ echo label 2.000 8/8", shown), tmp_path, monkeypatch)
    assert (docs.make_page(file, write=True) == []) is holds
    kept = kind.startswith("not made") or (holds and kind != "of the day")
    assert shown in file.read_text() if kept else "\nlabel 2.000 8/8\n" in file.read_text()


def test_rows_that_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order; what is hardly ever touched does not matter, nor do names without figures."""
    now = "$ printf 'b 2.5\\n  of b, f\\na 1.5\\nseldom 0.04\\nnew 3.5\\n'"
    file = page(
        transcript("counts", now, "a 1.5", "b 2.5", "  of b, g", "rare 0.06", "gone 4.5"),
        tmp_path,
        monkeypatch,
    )
    assert docs.make_page(file, write=False) == [
        "page.md:5: 'gone #' was 4.5, is gone",
        "page.md:5: 'new #' is new: 3.5",
    ]


def test_what_was_left_out_is_left_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = "$ printf '%s\\n' head {1..9} 'all 14'"
    file = page(transcript("of the day", now, "head", "…", "all 12"), tmp_path, monkeypatch)
    assert docs.make_page(file, write=True) == []
    assert f"{now}\nhead\n…\nall 14\n```" in file.read_text()
    file = page(transcript("of the day", now, "…", "none 12"), tmp_path, monkeypatch)
    (complaint,) = docs.make_page(file, write=True)
    assert complaint == "page.md:5: its output has no line like 'none 12' any more"


def test_commands_share_a_folder_that_is_made_for_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "<!-- file: a.txt -->\n```toml\nof a file\n```\n\n"
        "<!-- output: exact\n$ cp a.txt b.txt\n-->\n```\n"
        "$ cat c.txt\nas shown\n$ cat b.txt c.txt | tr a \\\n    A\n```\n"
    )
    file = page(text, tmp_path, monkeypatch)
    docs.make_page(file, write=True)
    assert file.read_text().endswith(
        "$ cat b.txt c.txt | tr a \\\n    A\n```\n"
    )  # a command without output shown
    shown = text.replace("    A\n```", "    A\nof A file\nAs shown\n```")
    assert docs.make_page(page(shown, tmp_path, monkeypatch), write=False) == []


def test_a_command_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = page(transcript("counts", "$ no-such-program"), tmp_path, monkeypatch)
    (complaint,) = docs.make_page(file, write=True)
    assert complaint.startswith("page.md:5: `no-such-program` ended with 127: ")
