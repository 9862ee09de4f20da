"""The programs of benchmarks/counts/programs.toml are asked for in words that bigiron knows."""

import re
import sys
from pathlib import Path

import pytest
from test_setup import ROOT

from bigiron import readers
from bigiron.roots.spec import Packages, parse
from bigiron.study.program import words_of
from bigiron.study.spec import Spec
from bigiron.workloads.of_benchmark.stressors import STRESSORS

sys.path.insert(0, str(ROOT / "benchmarks/counts"))
import programs

LISTED = programs.listed()
WHERE = programs.Where(Path("results"), ("debian/6.12", "debian/7.2"), "trixie", 4)


@pytest.mark.parametrize("program", LISTED, ids=lambda program: program.name)
def test_a_program(program: programs.Program) -> None:
    keys = program.keys
    assert keys.keys() - {"metric"} <= set(Spec.__struct_fields__)
    assert ("metric" in keys) != ("per" in keys)
    for command in (keys["command"], *keys.get("service", ()), *keys.get("ready", ())):
        assert words_of("command", programs.one_line(command))
    if "metric" in keys:
        assert readers.operations(keys["metric"], "")
    options = programs.asked_of(program, WHERE)
    (root,) = (option.removeprefix("--root=") for option in options if option.startswith("--root="))
    assert parse(root) == Packages("trixie", tuple(sorted(program.packages)))


def test_each_stressor_has_a_name_that_fits_an_option() -> None:
    assert len(set(STRESSORS)) == len(STRESSORS) > 300
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in STRESSORS)


def test_a_failure_is_a_row_of_the_page() -> None:
    failed = programs.Outcome("a", Path("results/a"), "it | has not ended")
    page = programs.text([failed], WHERE, stressors=True)
    assert "0 of 1 programs were measured" in page
    assert page.endswith("| a | | it   has not ended |\n")
