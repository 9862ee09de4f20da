"""`--machine`: cache lines ranked by what they are predicted to cost, in compare, explain and the page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import bigiron, measured
from playwright.sync_api import Browser, expect

from bigiron.analysis.comparison import explain
from bigiron.analysis.comparison.explain import RecordedPoint
from bigiron.analysis.comparison.findings import LineFinding
from bigiron.analysis.lines.line_costs import LineCosts
from bigiron.analysis.lines.matching import Half, MatchedLine, SharedLine
from bigiron.analysis.lines.shared_lines import LinesAt
from bigiron.analysis.statistics.estimate import Estimate

HASWELL = "i7-4770"


@pytest.fixture(scope="module")
def mmap1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In threads, where mmap_lock is what limits, and much else is shared."""
    study = tmp_path_factory.mktemp("costs") / "s"
    measured(
        *("mmap1", "--mode", "thread", "--kernel", "debian/6.12", "--cpus", "4", "--operations", "100"),
        *("--probe", "conflicts,trace", "-o", study),
    )
    return study


def found_at(point: LinesAt) -> list[LineFinding]:
    found = explain.explain(RecordedPoint(point, None, None)).findings
    return [finding for finding in found if isinstance(finding, LineFinding)]


def test_what_is_seldom_touched_and_costs_most_leads() -> None:
    often, seldom = (
        MatchedLine({"v": SharedLine(name, {"f": count}, count, count, 8, 8, False)})
        for name, count in (("struct a.x", 6.0), ("struct b.y.z (file)", 0.2))
    )
    costs = LineCosts(HASWELL, 48, {"v": {"struct b.y": Estimate(0.6, 0.5, 0.7)}}, {})
    point = LinesAt(8, 8, ["v"], "v", [often, seldom], {}, {})
    assert [finding.rows for finding in found_at(point)] == [[often]]
    found = found_at(replace(point, costs=costs))
    assert [finding.rows for finding in found] == [[seldom], [often]]


def test_a_pair_s_cost_is_not_that_of_one_of_its_cache_lines() -> None:
    line = SharedLine("struct a.x", {"f": 6.0}, 6.0, 6.0, 8, 8, False)
    pair = MatchedLine({"v": replace(line, halves=(Half("struct a.x", ()), Half("struct a.y", ())))})
    costs = LineCosts(HASWELL, 48, {"v": {"struct a.x": Estimate(0.6, 0.5, 0.7)}}, {})
    assert costs.of(MatchedLine({"v": line})).keys() == {"v"}
    assert costs.of(pair) == {}


def test_between_variants_the_change_of_cost_decides() -> None:
    known = {"old": {"a": Estimate(0.5, 0.4, 0.6), "b": Estimate(0.1, 0, 0.2)}, "new": {}}
    costs = LineCosts(HASWELL, 48, known | {"new": {"a": Estimate(0.5, 0.4, 0.6)}}, {})
    line = SharedLine("a", {}, 1.0, 1.0, 8, 8, False)
    of_a, of_b = (MatchedLine({"old": replace(line, object=name)}) for name in "ab")
    assert costs.weight([of_a], "old", ["new"]) == 0 and costs.weight([of_b], "old", ["new"]) == 0.1


def test_what_costs_most_comes_first(mmap1: Path) -> None:
    rows = json.loads(bigiron("compare", mmap1, "--machine", HASWELL, "--format", "json").out)["rows"]
    assert rows[0]["object"].startswith("struct mm_struct.mmap_lock")
    (predicted,) = rows[0]["predicted"].values()
    assert 0.5 < predicted["low"] <= predicted["share"] <= predicted["high"] <= 1
    assert not any(row["predicted"] for row in rows if "maple" in row["object"])
    by_count = json.loads(bigiron("compare", mmap1, "--format", "json").out)["rows"]
    assert not any("predicted" in row for row in by_count)
    assert sorted(row["object"] for row in rows) == sorted(row["object"] for row in by_count)


def test_explain_says_what_it_costs(mmap1: Path) -> None:
    answer = bigiron("explain", mmap1, "--machine", HASWELL)
    assert "Ranked by what lines are predicted to take of the time of 8 tasks" in " ".join(answer.out.split())
    first = answer.out.partition("\n2. ")[0]
    assert "the mmap_lock of" in first and "cost       predicted to take" in first
    assert "predicted" not in bigiron("explain", mmap1).out


def test_the_page_has_the_curves_and_what_was_measured(mmap1: Path, browser: Browser, tmp_path: Path) -> None:
    points, page = tmp_path / "points.csv", tmp_path / "report.html"
    points.write_text("tasks,throughput\n1,300000\n8,150000\n")
    there = ("--machine", HASWELL, "--one-task", "3e5", "--measured", points)
    assert bigiron("report", mmap1, *there, "-o", page).status == 0
    tab = browser.new_page()
    tab.goto(page.as_uri())
    section = tab.locator("#predicted")
    expect(section.locator("svg.chart .band")).to_have_count(1)
    expect(section.locator("svg.chart .marker")).to_have_count(2)
    expect(section).to_contain_text("lock mm_struct.mmap_lock")
    expect(tab.locator("#answer .findings > li").first).to_contain_text("mmap_lock")
    tab.close()
    for format in ("mail", "markdown"):
        assert f"Predicted for {HASWELL}" in bigiron("report", mmap1, *there, "--format", format).out


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (["compare", "--machine", "cray"], "no machine 'cray'"),
        (
            ["compare", "--probe", "trace", "--machine", HASWELL],
            f"--machine {HASWELL} applies only to the shared cache lines",
        ),
        (["explain", "--machine", "uniform"], "does not describe its processors"),
        (["report", "--one-task", "2e6", "-o", "x.html"], "--one-task and --measured need a machine"),
        (["report", "--machine", HASWELL, "--one-task", "-1", "-o", "x.html"], "--one-task -1.0"),
    ],
)
def test_bad_input_is_one_clear_line(mmap1: Path, command: list[str], complaint: str) -> None:
    answer = bigiron(command[0], mmap1, *command[1:])
    assert answer.status == 2 and complaint in answer.err and answer.err.count("\n") == 1, answer
