"""What a cell should hold and does not: counted, kept, and shown wherever the cell's figures are."""

import doctest
from pathlib import Path

import pytest
from conftest import bigiron
from test_compare import OLD

from bigiron import workloads
from bigiron.probes import Table
from bigiron.study import store
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import CellRecord

NO_ROOM = "accesses to memory, for which the recorder had no room"
DAMAGED = "messages of the agent that arrived damaged"
SENTENCES = (f"old: 84 lost: {NO_ROOM}", f"old: 1 lost: {DAMAGED}")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two repetitions of one variant: both lost accesses, one of them a message too."""
    variants = [Variant(name="old", kernel="k"), Variant(name="new", kernel="l")]
    spec = Spec(
        workload="getppid1",
        probes=["conflicts"],
        cpus=[2],
        operations=5,
        repetitions=2,
        variant=variants,
    )
    study = store.create(tmp_path / "s", spec, workloads.find("getppid1"))
    for cell in study.plan():
        lost, first = cell.variant.name == "old", cell.repetition == 1
        record = CellRecord(
            id=cell.id, variant=cell.variant.name, machine="vm", cpus=2, tasks=2, repetition=cell.repetition,
            environment={"bigiron": "1", "kernel_release": "6", "kernel_sha256": "5"},
            lost={DAMAGED: 1} if lost and first else {},
        )  # fmt: skip
        facts = {"operations": [5, 5], "lost_accesses": 0}
        study.add(record, {"conflicts": Table(OLD, facts, {NO_ROOM: 42 if lost else 0})})
    return study.folder


def test_a_cell_keeps_what_is_not_zero(study: Path) -> None:
    records = store.open_study(study).records()
    assert sorted((record.variant, record.lost) for record in records if record.repetition == 2) == [
        ("new", {}),
        ("old", {NO_ROOM: 42}),
    ]
    assert doctest.testmod(store).failed == 0


@pytest.mark.parametrize(
    "command",
    [
        "show", "compare", "compare --format markdown", "compare --by function",
        "report --format markdown", "report --format html",
    ],
)  # fmt: skip
def test_losses_are_shown(command: str, study: Path, tmp_path: Path) -> None:
    name, *options = command.split()
    file = tmp_path / "report"
    answer = bigiron(name, study, *options, *(["-o", file] if name == "report" else []))
    assert (answer.status, answer.err) == (0, ""), answer
    shown = file.read_text() if name == "report" else answer.out
    for sentence in SENTENCES:
        assert shown.count(sentence) == 1


def test_csv_has_no_place_for_losses_so_stderr_has(study: Path) -> None:
    answer = bigiron("compare", study, "--format", "csv")
    assert answer.status == 0 and not any(sentence in answer.out for sentence in SENTENCES)
    assert sorted(answer.err.splitlines()) == sorted(f"bigiron: 2 CPUs: {one}" for one in SENTENCES)


def test_where_nothing_was_lost_nothing_is_reported(open1: Path) -> None:
    assert all(record.lost == {} for record in store.open_study(open1).records())
