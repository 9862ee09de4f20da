"""A program without {tasks} makes as many tasks as it likes: no title or document has a number of them."""

import csv
import io
import re
from pathlib import Path

import pytest
from conftest import bigiron
from test_profiles import MMAP1, PROBES, recorded

from bigiron.report import gate


def of_a_program(folder: Path, *probes: str) -> Path:
    """That study as if a program had been counted."""
    question = recorded(folder, probes).folder / "study.toml"
    question.write_text(re.sub(r'^(root|command) = ""$', r'\1 = "redis"', question.read_text(), flags=re.M))
    return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_a_program(tmp_path_factory.mktemp("program") / "s", *PROBES)


@pytest.mark.parametrize(
    "command",
    [
        ("compare",),
        ("compare", "--probe", "locks"),
        ("compare", "--by", "function"),
        ("compare", "--with", MMAP1),
        ("compare", "--format", "c2c"),
        ("explain",),
    ],
)
def test_titles(command: tuple[str | Path, ...], study: Path) -> None:
    answer = bigiron(command[0], study, *command[1:])
    assert answer.status == 0 and "2 CPUs" in answer.out, answer
    assert not re.search(r"\d tasks?\b", answer.out), answer


@pytest.mark.parametrize(
    "command", [("compare",), ("compare", "--by", "function"), ("compare", "--with", MMAP1), ("explain",)]
)
def test_documents(command: tuple[str | Path, ...], study: Path) -> None:
    document = bigiron(command[0], study, *command[1:], "--format", "json").out
    assert set(re.findall(r'"tasks": (\w+)', document)) == {"null"}, document


def test_tables(study: Path) -> None:
    for probe in PROBES:
        table = bigiron("compare", study, "--probe", probe, "--format", "csv").out
        assert {row["tasks"] for row in csv.DictReader(io.StringIO(table))} == {""}, table


def test_baselines(tmp_path: Path) -> None:
    study, baseline = of_a_program(tmp_path / "s", "conflicts"), tmp_path / "b.toml"
    assert bigiron("check", study, "--record", baseline).status == 0
    assert "cpus = 2\n" in baseline.read_text() and "tasks = " not in baseline.read_text()
    for format in gate.FORMATS:
        answer = bigiron("check", study, "--baseline", baseline, "--format", format)
        assert answer.status == 0 and "2 CPUs" in answer.out, answer
        assert not re.search(r"\d tasks?\b", answer.out), answer
