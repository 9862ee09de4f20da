"""The main job: AppArmor's label reference count in open1, on the kernel that has it and on its successor."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import compared

import bigiron
from bigiron.analysis.lines import conflicts, matching

OLD, NEW = "debian/6.1", "debian/6.12"


@pytest.fixture(scope="module")
def rows(open1: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = compared(open1)["rows"]
    return rows


def test_the_label_s_reference_count(rows: list[dict[str, Any]]) -> None:
    label = rows[0]  # the largest change
    assert label["object"].startswith("struct aa_label.count")
    assert {"apparmor_file_alloc_security", "apparmor_file_free_security"} <= set(label["functions"])
    assert label["differs"] and not label["false_sharing"]
    assert [sharing["kind"] for sharing in label["sharing"]] == ["reference count"]
    assert label["cells"][OLD]["writes_per_op"] == pytest.approx(6, abs=0.01)
    assert label["cells"][NEW]["writes_per_op"] == pytest.approx(2, abs=0.01)
    for cell in label["cells"].values():
        assert (cell["writers"], cell["readers"]) == (8, 8)


def test_no_other_line_is_written_in_every_operation(rows: list[dict[str, Any]]) -> None:
    for row in rows[1:]:
        assert all(cell["writes_per_op"] < 1 for cell in row["cells"].values()), row


def test_nothing_was_lost(open1: Path) -> None:
    (totals,) = compared(open1)["totals"]
    assert totals["lost_accesses"] == {OLD: 0, NEW: 0}


def test_each_task_was_recorded_for_as_many_operations_as_asked(open1: Path) -> None:
    for record in bigiron.open_study(open1).records():
        assert record.facts["conflicts"]["operations"] == [500] * 8


def test_a_repetition_finds_the_same(open1: Path) -> None:
    study = bigiron.open_study(open1)
    for variant in OLD, NEW:
        repetitions = {
            str(record.repetition): matching.lines_of(
                conflicts.profile(study.table(record, "conflicts"), operations=8 * 500, line_bytes=64)
            )
            for record in study.records()
            if record.variant == variant
        }
        assert list(repetitions) == ["1", "2"]
        heavy = [row for row in matching.match(repetitions) if max(map(row.accesses, repetitions)) > 0.5]
        assert heavy, "the label at least"
        for row in heavy:
            assert row.accesses("1") == pytest.approx(row.accesses("2"), rel=0.01), row
            assert row.writes("1") == pytest.approx(row.writes("2"), rel=0.01), row


def test_each_of_the_six_writes_is_an_instruction_of_its_own(open1: Path) -> None:
    counts = (
        bigiron.open_study(open1).tables("conflicts").filter(variant=OLD, context="process", repetition=1)
    )
    hottest = counts.filter(function="apparmor_file_free_security").sort("writes")["line"][-1]
    atomics = counts.filter(pl.col("line") == hottest, pl.col("writes") > 8)
    assert (atomics.height, atomics["pc"].n_unique(), atomics["cpu"].n_unique()) == (6 * 8, 6, 8)
    assert set(atomics["writes"]) == set(atomics["reads"]) == {500}
    (four_bytes,) = atomics["bytes"].unique()
    assert four_bytes.bit_count() == 4
