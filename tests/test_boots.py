"""Kernels are booted again where their counts may differ by chance: each repetition is a boot of its own."""

from pathlib import Path

import pytest
from conftest import bigiron, compared, measured

import bigiron as library

KERNELS = ("--kernel", "debian/6.1", "--kernel", "debian/6.12", "--cpus", "2", "--operations", "50")


@pytest.fixture(scope="module")
def unlink(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """unlink1 waits for its directory's lock, by chance."""
    study = tmp_path_factory.mktemp("boots") / "s"
    answer = measured("unlink1", *KERNELS, "--probe", "conflicts", "-o", study)
    assert "counts differ after 1 boot: 2 tasks on 2 CPUs; continuing up to 2" in answer.err
    return study


def test_each_repetition_is_a_boot(unlink: Path) -> None:
    study = library.open_study(unlink)
    assert study.spec.look[0].repetitions == 2
    last = study.spec.look[-1].repetitions
    of_kernels = [(record.variant, record.environment["boot_number"]) for record in study.records()]
    assert sorted(of_kernels) == [
        (f"debian/{v}", boot) for v in ("6.1", "6.12") for boot in range(1, last + 1)
    ]


def test_the_same_command_goes_on_and_adds_nothing_that_is_decided(unlink: Path) -> None:
    before = library.open_study(unlink).spec
    answer = measured("unlink1", *KERNELS, "--probe", "conflicts", "-o", unlink)
    assert "every cell" in answer.out or before.look[-1].repetitions < before.most_boots
    assert library.open_study(unlink).spec.look[: len(before.look)] == before.look


def test_what_is_not_decided_is_marked_and_counted(unlink: Path) -> None:
    rows = compared(unlink)["rows"]
    assert {row["verdict"] for row in rows} <= {"changed", "unchanged", "undecided"}
    cells = [cell for row in rows for cell in row["cells"].values()]
    assert all(cell["least_per_op"] <= cell["accesses_per_op"] <= cell["most_per_op"] for cell in cells)
    assert any(cell["least_per_op"] < cell["most_per_op"] for cell in cells)
    text = bigiron("compare", unlink).out
    undecided = any(row["verdict"] == "undecided" for row in rows)
    assert ("? may differ: in " in text) == undecided


def test_asked_for_one_boot_there_is_one(tmp_path: Path) -> None:
    study = tmp_path / "s"
    measured("unlink1", *KERNELS, "--probe", "conflicts", "--reps", "1", "-o", study)
    assert {record.repetition for record in library.open_study(study).records()} == {1}
    answer = " ".join(bigiron("explain", study).out.split())
    assert "One boot of each kernel cannot decide: run again with --reps 4, one boot each." in answer
    measured(study, "--reps", "2")
    assert {record.repetition for record in library.open_study(study).records()} == {1, 2}


def test_what_the_program_decides_needs_one_boot(tmp_path: Path) -> None:
    study = tmp_path / "s"
    measured("open1", *KERNELS, "--probe", "conflicts", "-o", study)
    assert library.open_study(study).spec.look == []
    answer = " ".join(bigiron("explain", study).out.split())
    assert "Better by 4.000 accesses per operation, -67%." in answer
