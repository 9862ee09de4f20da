"""What is recorded by default, and adding probes to an existing study."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import Answer, bigiron, measured

import bigiron as library
from bigiron import probes, workloads
from bigiron.errors import UserError
from bigiron.probes import ProbeTable
from bigiron.study import pool, run, store
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import Failure, Study

NEW = ("--kernel", "debian/6.12", "--cpus", "2", "--operations", "20")
ALL = ["conflicts", "instructions", "locks", "trace"]


@pytest.fixture(scope="module")
def by_default(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with the probes by default."""
    study = tmp_path_factory.mktemp("default") / "s"
    measured("getppid1", *NEW, "-o", study)
    return study


@pytest.fixture(scope="module")
def with_one_probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with one probe and two cells."""
    study = tmp_path_factory.mktemp("conflicts") / "s"
    measured("getppid1", *NEW, "--tasks", "1,2", "--probe", "conflicts", "-o", study)
    return study


@pytest.fixture
def conflicts_alone(with_one_probe: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(with_one_probe, tmp_path / "a study")


def tables(study: Path) -> list[list[str]]:
    """Of each cell."""
    return [sorted(record.tables) for record in library.open_study(study).records()]


def test_a_vm_s_cell_records_what_the_other_commands_need(by_default: Path) -> None:
    assert tables(by_default) == [ALL]
    assert library.open_study(by_default).spec.probes == ALL
    for command in (
        ("predict", by_default, "--machine", "x86-2s"),
        ("compare", by_default, "--probe", "locks"),
    ):
        assert bigiron(*command).status == 0


@pytest.mark.parametrize(
    ("workload", "machine", "recorded"),
    [
        ("hotplug-cycle", "vm", ["conflicts", "instructions", "locks"]),
        ("hotplug-cycle", "host", ["operations"]),
        ("getppid1", "host", ["throughput"]),
    ],
)
def test_what_is_recorded_elsewhere(workload: str, machine: str, recorded: list[str]) -> None:
    kernel = "debian/6.12" if machine == "vm" else ""
    spec = Spec(workload=workload, machine=machine, variant=[Variant(name="a", kernel=kernel)])
    assert run.resolve(spec)[0].probes == recorded


def test_no_probe_is_none(tmp_path: Path) -> None:
    answer = bigiron("run", "getppid1", *NEW, "--probe", ",", "-o", tmp_path / "s")
    assert answer.status == 2 and answer.complaint.startswith(
        "no probe: use conflicts, instructions, layout, locks, trace"
    )


def test_a_study_gets_more_probes(conflicts_alone: Path) -> None:
    added = measured(conflicts_alone, "--probe", "locks")
    assert (
        f"bigiron: {conflicts_alone}: 2 cells measured again, now with conflicts, locks"
        in added.err.splitlines()
    )
    assert added.out.startswith("2 of 2 cells measured")
    assert tables(conflicts_alone) == [["conflicts", "locks"]] * 2
    nothing = measured(conflicts_alone, "--probe", "locks")
    assert nothing.out.startswith("every cell of") and nothing.err == ""
    # What it was first asked with asks for less than it has; the default asks for more.
    refused = bigiron(
        "run", "getppid1", *NEW, "--tasks", "1,2", "--probe", "conflicts", "-o", conflicts_alone
    )
    assert (refused.status, "has another question (probes = " in refused.complaint) == (2, True)
    measured("getppid1", *NEW, "--tasks", "1,2", "-o", conflicts_alone)
    assert tables(conflicts_alone) == [ALL] * 2


def test_a_cell_stays_what_it_is_until_another_replaces_it(conflicts_alone: Path) -> None:
    study = library.open_study(conflicts_alone)
    before = {record.id: study.table(record, "conflicts") for record in study.records()}
    study = widened(study, "locks")
    first, second = study.plan()
    with study.writing():
        failed = store.new_record(first, "vm")
        failed.failure = Failure("machine", "it crashed")
        study.add(failed, {})
        study.add(store.new_record(second, "vm"), replaced(study, second.id))
    assert tables(conflicts_alone) == [["conflicts"], ["conflicts", "locks"]]
    assert pool.missing(study) == [first]
    (kept, _) = study.records()
    assert study.table(kept, "conflicts").equals(before[kept.id])
    with study.writing(), pytest.raises(UserError, match="is already measured"):
        study.add(store.new_record(second, "vm"), replaced(study, second.id))


def test_a_writer_that_died_between_two_cells_leaves_the_old_one(conflicts_alone: Path) -> None:
    study = widened(library.open_study(conflicts_alone), "locks")
    first, _ = study.plan()
    dead = conflicts_alone / "cells" / ".new-dead"
    shutil.copytree(conflicts_alone / "cells" / first.id, dead / "cell")
    (conflicts_alone / "cells" / first.id).rename(dead / first.id)
    assert len(study.records()) == 1
    with study.writing():
        assert tables(conflicts_alone) == [["conflicts"]] * 2
    assert not list((conflicts_alone / "cells").glob(".new-*"))


def widened(study: Study, probe: str) -> Study:
    spec = library.open_study(study.folder).spec
    spec.probes.append(probe)
    study.widen(spec)
    return study


def replaced(study: Study, cell: str) -> dict[str, ProbeTable]:
    """Its table, and an empty one of locks."""
    (record,) = [record for record in study.records() if record.id == cell]
    found = study.table(record, "conflicts")
    return {"conflicts": ProbeTable(found, record.facts["conflicts"]), "locks": ProbeTable(found.clear())}


def named(said: str) -> list[str]:
    """The command that a message names to get a probe."""
    (command,) = re.findall(r"`bigiron (run .*?)` to measure its cells again", said)
    return shlex.split(command)


def test_commands_name_what_to_run(conflicts_alone: Path, tmp_path: Path) -> None:
    said: list[Answer] = []
    for words in (
        ("compare", conflicts_alone, "--probe", "locks"),
        ("compare", conflicts_alone, "--probe", "throughput"),
        ("growth", conflicts_alone, "--probe", "instructions"),
        ("export", conflicts_alone, "--probe", "instructions", "--format", "folded"),
    ):
        said.append(bigiron(*words))
        assert said[-1].status == 2
        assert named(said[-1].complaint) == ["run", str(conflicts_alone), "--probe", words[3]], words
    predicted = bigiron("predict", conflicts_alone, "--machine", "x86-2s")
    command = named(predicted.out + predicted.err)
    assert command == ["run", str(conflicts_alone), "--probe", "locks,instructions"]
    assert bigiron(*command).status == 0
    assert bigiron("predict", conflicts_alone, "--machine", "x86-2s").status == 0


def test_what_no_command_can_add(tmp_path: Path) -> None:
    spec = Spec(
        workload="getppid1", arch="ppc64le", probes=["conflicts"], variant=[Variant(name="a", kernel="k")]
    )
    study = store.create(tmp_path / "s", spec, workloads.find("getppid1"))
    assert study.recording("conflicts") == f"run `bigiron run {tmp_path / 's'}` to continue it"
    assert study.recording("instructions", "locks") == "probe locks is not supported on ppc64le yet"
    assert probes.by_default("unbounded", "ppc64le", in_vm=True) == ["conflicts", "instructions"]
