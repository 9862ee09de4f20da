"""The list of published curves, benchmarks/predictions/curve_list.py, and how their scores are grouped."""

import doctest
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_setup import ROOT

from bigiron.report import predict
from bigiron.simulator import machine_files
from bigiron.workloads import find

sys.path.insert(0, str(ROOT / "benchmarks/predictions"))

import curve_scores
import curves
from curve_list import CURVES, JUDGED, PAIRS, RECORDINGS, UNBOUND, UNLIKE
from curve_scores import Score

SCORE = Score(
    *("pft-bdw-vmarw", "xeon-e5-2690v4-x2", 0.1, 1, 2, 1.5, "- / -", 2.0, None, True, True),
    rows=((2, 1.9, 2.0, 1.8, 2.2), (56, 9.0, 12.0, 10.0, 14.0)),
)


def test_predictions_say_what_the_page_of_curves_says_of_their_ranges() -> None:
    page = (ROOT / "docs" / "validation" / "curves.md").read_text()
    ((share, points),) = re.findall(r"and (\d+ %) of (\d+) points are inside", page)
    said = f", which were made wide enough to hold {share} of {points} published points"
    assert said == predict._HELD_OUT


def test_pages_that_cite_curves_to_which_the_width_was_fitted_have_their_median_error() -> None:
    docs = ROOT / "docs"
    page = (docs / "validation" / "curves.md").read_text()
    ((curves, error),) = re.findall(r"Over all (\d+) curves on \d+ machines the median error is (\d+)", page)
    section = "curves.md#curves-to-which-only-the-width-was-fitted"
    citing = [file for file in docs.rglob("*.md") if section in file.read_text()]
    assert citing
    for file in [*citing, docs.parent / "README.md"]:
        text = " ".join(file.read_text().split())
        assert f"{curves} others" in text and f"{error} %" in text, file


def test_every_curve_was_published_and_has_a_machine_and_a_workload() -> None:
    published = curves.published()
    for curve, (recording, machine, *_) in CURVES.items():
        cpus = machine_files.load(machine).cpus
        first, second, *_ = published[curve]
        assert first[0] < second[0] <= cpus, curve
        workload = RECORDINGS[recording][0]
        assert Path(workload).exists() if workload.endswith(".c") else find(workload)
    assert {curve for pair in PAIRS for curve in pair} <= set(CURVES)
    assert {*UNBOUND, *UNLIKE, *JUDGED} <= set(RECORDINGS)
    programs = {name: Path(workload).stem for name, (workload, *_) in RECORDINGS.items()}
    assert {name for name in programs if programs[name] in ("pft", "creat-clo")} == set(UNBOUND)


def test_tasks_fill_a_cache_a_node_or_more() -> None:
    assert doctest.testmod(curve_scores).failed == 0
    extent = curve_scores.extent
    assert [extent("power10-352", tasks) for tasks in (12, 13)] == ["one cache", "more"]
    assert [extent("kunpeng-920-x2", tasks) for tasks in (32, 33)] == ["one cache", "more"]
    assert {extent("i7-4770", tasks) for tasks in (1, 8)} == {"one cache"}
    assert curve_scores.extents(SCORE) == ["more", "more"]  # these tasks go to both nodes in turn


def test_scores_are_grouped_by_vendor(capsys: pytest.CaptureFixture[str]) -> None:
    of_amd = replace(SCORE, curve="2x9654-falloc2-v3-all-scan1", machine="epyc-9654-x2", error=0.3)
    curve_scores.by_vendor([SCORE, of_amd])
    assert capsys.readouterr().out.splitlines()[1:] == [
        "| vendor | curves | machines | median error | inside | one cache | one node | more |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
        "| AMD | 1 | 1 | 30% | 50% of 2 | 100% of 1 | 0% of 1 | - |",
        "| Intel | 1 | 1 | 10% | 50% of 2 | - | - | 50% of 2 |",
    ]
