"""The layers and paths of docs/contributing/architecture.md; sizes of files and folders; names of classes."""

import ast
import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from test_docs import code_in, table_after
from test_setup import ROOT

PAGE = (ROOT / "docs/contributing/architecture.md").read_text()
PACKAGE = ROOT / "src/bigiron"
Layer = tuple[str, frozenset[str]]


def layer(line: str) -> Layer:
    """How the rooms of a layer are separated, and the rooms.

    >>> layer("  compile : libbpf")[0]
    ':'
    """
    separator = "|" if "|" in line else ":"
    return separator, frozenset(room.strip() for room in line.split(separator))


def contract() -> list[Layer]:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (each["layers"] for each in linter["contracts"] if each["type"] == "layers")
    return [layer(line) for line in layers]


def drawn() -> list[Layer]:
    diagram = re.search(r"<!-- layers: .*?-->\n```\n(.*?)```", PAGE, re.DOTALL)
    assert diagram
    return [layer(line) for line in diagram[1].splitlines()]


def test_the_diagram_shows_the_layers_that_are_checked() -> None:
    assert drawn() == contract()


def test_each_room_is_described() -> None:
    described = {
        name.removesuffix(".py").rstrip("/")
        for row in table_after("contributing/architecture.md", "| room |")
        for name in code_in(row[0])
    }
    assert described | {"__main__"} == {room for _, rooms in contract() for room in rooms}


def test_each_part_of_a_room_exists() -> None:
    for row in table_after("contributing/architecture.md", "| room |"):
        (room, *_) = re.findall(r"`(\w+)/`", row[0])[-1:] or [""]
        parts = [part for part in code_in(row[1]) if part.endswith("/")]
        missing = [
            part for part in parts if not (PACKAGE / room / part).is_dir() and not (ROOT / part).is_dir()
        ]
        assert missing == []
    for row in table_after("contributing/architecture.md", "| folder |"):
        for folder in code_in(row[0]):
            assert (ROOT / folder).is_dir(), folder


PATHS = sorted(
    {
        path
        for row in table_after("contributing/architecture.md", "| to add |")
        for cell in row
        for path in code_in(cell)
        if re.search(r"/|\.\w+$", path)
    }
)


@pytest.mark.parametrize("path", PATHS)
def test_each_place_to_add_to_exists(path: str) -> None:
    """Of a path with a placeholder, the folder."""
    known, placeholder, _ = path.partition("NAME")
    place = ROOT / known
    assert place.exists() if not placeholder or known.endswith("/") else place.parent.is_dir()


@pytest.mark.parametrize(
    ("names", "path"), re.findall(r"((?:`\w+`(?:, | and )?)+) of `([\w/.]+)`", PAGE), ids=str
)
def test_each_name_is_in_the_file_that_the_table_gives(names: str, path: str) -> None:
    text = (ROOT / path).read_text()
    assert [name for name in code_in(names) if not re.search(rf"\b{name}\b", text)] == []


# How long files and functions are

LINES_OF_A_FILE, LINES_OF_A_FUNCTION = 500, 60
SOURCES = [
    file
    for folder in ("src/bigiron", "plugin", "guest", "sim/src", "bpf")
    for file in sorted((ROOT / folder).rglob("*"))
    if file.suffix in (".py", ".c", ".h", ".rs")
]


def test_no_source_file_is_longer_than_500_lines() -> None:
    lines = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in SOURCES}
    assert lines
    assert {name: number for name, number in lines.items() if number > LINES_OF_A_FILE} == {}


def test_no_python_function_is_longer_than_60_lines() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.name} has {lines} lines"
        for file in SOURCES
        if file.suffix == ".py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > LINES_OF_A_FUNCTION
    ]
    assert found == []


# How many files a folder has

FILES_OF_A_FOLDER = 20
LONG_LISTS = {
    "src/bigiron/workloads": "a file per workload: each is found by being there",
    "src/bigiron/analysis/lines/rules": "a file per rule, likewise",
    "sim/machines": "data: a file per machine",
    "tests": "a file per test and per recorded output",
}
"""Folders that may have more, or folders in them, and why."""


def test_no_folder_has_more_than_20_files() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = Counter(Path(file).parent for file in listed.splitlines())
    long = {folder for folder, number in files.items() if number > FILES_OF_A_FOLDER}
    excepted = {name: {folder for folder in long if folder.is_relative_to(name)} for name in LONG_LISTS}
    assert long - set().union(*excepted.values()) == set()
    assert [name for name, folders in excepted.items() if not folders] == [], "they need no exception"


# What the benchmarks use


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks").rglob("*.py")), ids=lambda file: file.stem)
def test_what_a_benchmark_imports_of_bigiron_exists(file: Path) -> None:
    """They are in no package that mypy checks."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "bigiron":
            exec(ast.unparse(node), {})


# What classes are called


def test_no_two_types_have_the_same_name() -> None:
    """A name alone says what a class or a type is, in whatever module it is read."""
    places: dict[str, list[str]] = {}
    for file in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")):
        for node in ast.walk(ast.parse(file.read_text())):
            if name := _name_of_type(node):
                places.setdefault(name, []).append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert places
    assert {name: there for name, there in places.items() if len(there) > 1} == {}


def _name_of_type(node: ast.AST) -> str:
    """Of the class, alias or type variable that a statement defines for other modules too; else nothing."""
    if isinstance(node, ast.ClassDef):
        return node.name
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    name = targets[0].id if isinstance(targets[0], ast.Name) else ""
    return name if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name) else ""
