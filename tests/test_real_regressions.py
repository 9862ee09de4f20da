"""The corpus of published regressions, and how answers to it are scored. None is judged here."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_setup import ROOT

sys.path.insert(0, str(ROOT / "benchmarks/regressions"))
import real_regressions
from corpus import hidden_name, judged
from real_regressions import Answer, Case

CASES = real_regressions.read_cases()
COHERENCE = next(case for case in CASES if case.kinds == ("coherence",) and case.better)
NEITHER = next(case for case in CASES if case.kinds == ("neither",))


def said(case: Case, **more: Any) -> Answer:
    return Answer(case.name, case.inputs, **more)


def test_the_corpus_is_as_large_and_as_mixed_as_it_must_be() -> None:
    assert len(CASES) >= 24 and len({case.name for case in CASES}) == len(CASES)
    neither = [case for case in CASES if case.kinds == ("neither",)]
    assert len(neither) >= 6 and sum(case.held_out for case in CASES) == 10
    assert any(case.held_out for case in neither) and not all(case.held_out for case in neither)
    assert all(case.objects and case.better is not None for case in CASES if case not in neither)


def test_every_patch_and_mail_is_of_a_case() -> None:
    named = {f"{name}.patch" for case in CASES for name in (*case.before, *case.after)}
    expected = {*named, *(case.mail_file.name for case in CASES), "real.toml", "real.config"}
    assert {file.name for file in real_regressions.CORPUS.iterdir()} == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kernels_of_a_case_differ_and_its_mail_says_which_way(case: Case) -> None:
    before, after = case.patches
    for patch in (*before, *after):
        command = ["git", "apply", "--numstat", str(patch)]
        counted = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert all(line.split("\t")[0] != "-" for line in counted.splitlines()) and counted
    assert before != after
    if case.better is not None:
        assert case.mail.is_worse != case.better


def test_a_kernel_is_called_by_what_its_patches_contain(tmp_path: Path) -> None:
    one, other = tmp_path / "telling.patch", tmp_path / "other.patch"
    one.write_text("a")
    other.write_text("a")
    assert hidden_name("real", [one]) == hidden_name("real", [other])
    assert hidden_name("real", [one]) != hidden_name("real", [one, other])
    assert "telling" not in hidden_name("real", [one])


def test_a_judge_that_fails_says_why(tmp_path: Path) -> None:
    found, failure = judged(tmp_path / "no.eml", ("a", "b"), tmp_path / "study")
    assert not found and "no.eml cannot be read" in failure


def test_kind_object_and_sign_are_scored_apart() -> None:
    right = said(COHERENCE, kind="coherence", object=f"struct {COHERENCE.objects[0]}.x", better=True)
    assert real_regressions.is_right(COHERENCE, right) == {"kind": True, "object": True, "sign": True}
    other = msgspec.structs.replace(right, kind="locks", object="struct zone.lock", better=False)
    assert real_regressions.is_right(COHERENCE, other) == {"kind": False, "object": False, "sign": False}
    nothing = said(COHERENCE, kind="neither")
    assert real_regressions.is_right(COHERENCE, nothing) == {"kind": False, "object": False}
    alarm = said(NEITHER, kind="locks", object="struct zone.lock", better=False)
    assert real_regressions.is_right(NEITHER, alarm) == {"kind": False}


def test_the_page_counts_what_was_judged_and_lists_the_rest() -> None:
    change = COHERENCE.mail.throughput_change
    assert change is not None
    right = said(
        COHERENCE,
        kind="coherence",
        object=COHERENCE.objects[0],
        better=True,
        path_length=(0.064, 0.061),
        predicted=(change, change - 0.1, change + 0.1),
    )
    alarm = said(NEITHER, kind="locks", object="struct zone.lock", better=False)
    failed = said(CASES[-1], kind="", failure="it did not boot")
    page = real_regressions.page(CASES, {one.name: one for one in (right, alarm, failed)})
    assert f"**2 of {len(CASES)} are judged.**" in page
    assert "| kind right, of those that something costs | 1 of 1 | 0 of 0 |" in page
    assert "| a cause named, of those that are *neither* | 1 of 1 | 0 of 0 |" in page
    assert "| path-length: the same sign as the report | 1 of 1 | 0 of 0 |" in page
    assert "| the published change inside the predicted interval | 1 of 1 | 0 of 0 |" in page
    assert "+6.4%, +6.1%" in page and f"| {NEITHER.name} |  |" in page
    waiting = page.partition("## Not judged yet")[2]
    assert "it did not boot" in waiting and COHERENCE.what not in waiting


def test_an_answer_to_another_mail_or_patch_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_regressions, "KEPT", tmp_path / "kept.jsonl")
    assert real_regressions.answers(CASES) == {}
    fresh = said(COHERENCE, kind="coherence", predicted=(0.1, 0.0, 0.2))
    stale = Answer(NEITHER.name, "0" * 16, "neither")
    real_regressions.keep({one.name: one for one in (fresh, stale)})
    assert real_regressions.answers(CASES) == {COHERENCE.name: fresh}


def test_what_judge_prints_is_kept_as_far_as_it_is_scored() -> None:
    change = {"object": "x", "before": 1.0, "after": 2.0, "held": None}
    found = {
        "kind": "locks",
        "better": False,
        "changes": [change],
        "path_length": {"reported": 0.01, "counted": 0.02},
        "predicted": {"change": -0.1, "low": -0.2, "high": 0.0},
        "not_predicted": None,
    }
    kept = real_regressions.of_json(COHERENCE, found)
    assert (kept.kind, kept.object, kept.figures, kept.better) == ("locks", "x", "1, 2", False)
    assert kept.path_length == (0.01, 0.02) and kept.predicted == (-0.1, -0.2, 0.0)
    empty = {"changes": [], "path_length": None, "predicted": None, "better": None, "kind": "neither"}
    assert real_regressions.of_json(NEITHER, {**found, **empty}).object == ""


def test_a_mail_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = COHERENCE.mail
    monkeypatch.setattr(real_regressions.robot_mail, "read", lambda *_: pytest.fail("it is read again"))
    assert COHERENCE.mail is first
