"""A study: its cells and what is in them, that it goes on where it was, and that nothing is half there."""

import itertools
import json
import os
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from conftest import Answer, bigiron, measured
from hypothesis import given
from hypothesis import strategies as st

import bigiron as library
from bigiron import workloads
from bigiron.errors import UserError
from bigiron.machines.engine import Job, Programs
from bigiron.probes import AllProbeOptions, ProbeTable, conflicts, throughput
from bigiron.probes.conflicts import ConflictsOptions
from bigiron.probes.functions import FunctionsOptions
from bigiron.simulator import machine_files
from bigiron.study import cell as cell_of
from bigiron.study import extend, plan, pool, run, store
from bigiron.study import spec as specs
from bigiron.study.environment import SameMachine, refuse_another_clock
from bigiron.study.plan import Cell
from bigiron.study.spec import Spec, Variant, to_toml
from bigiron.study.store import CellRecord, Failure, Study

SCHEMA_PAGE = Path(__file__).parents[1] / "docs/reference/schema.md"

SWEEP = """
workload = "getppid1"
probes = ["conflicts"]
cpus = [1, 2]
tasks = [1, 3]
operations = 50

[[variant]]
name = "debian/6.1"
kernel = "debian/6.1"
"""
THE_SAME = ["getppid1", "--kernel", "debian/6.1", "--probe", "conflicts", "--cpus", "1,2", "--tasks", "1,3",
            "--operations", "50"]  # fmt: skip
CELLS = [f"debian-6.1-{cpus}cpus-{tasks}tasks-r1" for cpus in (1, 2) for tasks in (1, 3)]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study run from a file: two CPU counts, two task counts."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "sweep.toml").write_text(SWEEP)
    said = measured(folder / "sweep.toml", "-o", folder / "s")
    assert said.out == f"4 of 4 cells measured: see `bigiron compare {folder / 's'}`\n"
    return folder / "s"


def test_every_combination_is_a_cell(sweep: Path) -> None:
    assert [record.id for record in library.open_study(sweep).records()] == CELLS
    assert sorted(path.name for path in (sweep / "cells").iterdir()) == sorted(CELLS)


def test_the_command_line_asks_the_same_as_the_file(sweep: Path) -> None:
    every_cell = f"every cell of {sweep} is measured: see `bigiron compare {sweep}`\n"
    assert measured(*THE_SAME, "-o", sweep) == Answer(0, every_cell, "")
    assert measured(sweep) == Answer(0, every_cell, "")


def test_each_task_is_recorded_for_as_many_operations_as_asked(sweep: Path) -> None:
    for record in library.open_study(sweep).records():
        done = record.facts["conflicts"]["operations"]
        assert len(done) == record.tasks
        # While one of a CPU's tasks is still recorded, the others' operations count too.
        assert all(operations >= 50 for operations in done)


def test_what_is_shown(sweep: Path) -> None:
    shown = bigiron("show", sweep).out
    assert "workload    getppid1 (process mode, 50 operations per task)" in shown
    assert "variant     debian/6.1: kernel debian/6.1" in shown
    for cell in CELLS:
        (line,) = [line for line in shown.splitlines() if line.startswith(f"{cell} ")]
        assert re.search(
            r" measured +\d+\.\d +6\.1\.\S+ \([0-9a-f]{12}\) +\d+\.\d+\.\d+ +tcg,thread=single", line
        )


def documented(heading: str) -> list[str]:
    """The names in the first column of the table under a heading of docs/reference/schema.md."""
    section = SCHEMA_PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall("`(.+?)`", row)]


def test_the_tables_are_as_documented(sweep: Path, sampled: Path) -> None:
    identity = ["cell", "variant", "cpus", "tasks", "repetition"]
    shared = library.open_study(sweep).tables("conflicts")
    assert shared.columns == [*identity, *documented("`conflicts.parquet`")]
    assert {name: shared.schema[name] for name in conflicts.SCHEMA} == conflicts.SCHEMA
    samples = library.open_study(sampled).tables("throughput")
    assert samples.columns == [*identity, *documented("`throughput.parquet`")]
    assert {name: samples.schema[name] for name in throughput.SCHEMA} == throughput.SCHEMA


def test_a_cell_says_all_that_produced_it(sweep: Path) -> None:
    cell = json.loads((sweep / "cells" / CELLS[3] / "cell.json").read_bytes())
    assert list(cell) == list(dict.fromkeys(name.split(".")[0] for name in documented("`cell.json`")))
    environment = cell["environment"]
    assert all(value not in ("", None) for value in environment.values())
    (row,) = [line for line in SCHEMA_PAGE.read_text().splitlines() if line.startswith("| `environment`")]
    assert re.findall("`(.+?)`", row.split("|")[2]) == list(environment)
    assert environment["boot"].startswith("console=ttyS0 ")
    assert (environment["sockets"], environment["cores"], environment["threads"]) == (1, 2, 1)
    assert (sweep / "workload.c").read_text() == workloads.find("getppid1").source.read_text()


def test_what_a_clock_of_instructions_adds_is_as_documented() -> None:
    job = Job("debian/6.12", "", (), 2, 2, 1, programs=Programs(Path("agent"), recorder=Path("recorder")))
    asked = Spec(workload="getppid1", variant=[])
    dilated = msgspec.structs.replace(asked, clock="instructions")
    usual, slow = (spec.engine.environment(job) for spec in (asked, dilated))
    text = SCHEMA_PAGE.read_text()
    (row,) = re.findall(r"^\| more with `--clock instructions` \| `(\w+)`, after `(\w+)`", text, re.MULTILINE)
    assert [*slow][[*slow].index(row[1]) + 1] == row[0]
    assert slow.keys() - usual.keys() == {row[0]}
    assert f"`{row[0]}`" in (SCHEMA_PAGE.parents[1] / "explanation/clock.md").read_text()


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with both probes in one cell."""
    study = tmp_path_factory.mktemp("sampled") / "s"
    options = ("--cpus", "2", "--probe", "throughput,conflicts")
    measured("getppid1", "--kernel", "debian/6.12", *options, "-o", study)
    return study


def test_throughput_is_sampled_of_every_task(sampled: Path) -> None:
    samples = library.open_study(sampled).tables("throughput")
    assert samples.select("sample", "task").rows() == list(itertools.product(range(5), range(2)))
    assert (samples["operations"] > 0).all() and (samples["nanoseconds"] > 0).all()
    (record,) = library.open_study(sampled).records()
    assert record.facts["conflicts"]["operations"] == [500, 500]


def test_throughput_is_measured_alone() -> None:
    spec = Spec(workload="getppid1", probes=["throughput"], variant=[])
    assert run.default_jobs(spec) == 1


def test_a_probe_that_was_not_asked_for(sweep: Path) -> None:
    with pytest.raises(UserError, match=r"no cell of .* was measured with the probe throughput"):
        library.open_study(sweep).tables("throughput")


def test_only_what_failed_runs_again(tmp_path: Path) -> None:
    spec = Spec(
        workload="getppid1",
        cpus=[1],
        variant=[
            Variant(name="good", kernel="debian/6.1"),
            Variant(name="bad", kernel="debian/6.1", set=["/proc/sysrq-trigger=b"]),
        ],
    )
    (tmp_path / "s.toml").write_bytes(to_toml(spec))
    study = tmp_path / "s"
    first = bigiron("run", tmp_path / "s.toml", "-o", study)
    assert (first.status, first.out[:22]) == (3, "1 of 2 cells measured:")
    good, bad = (study / f"cells/{name}-1cpus-1tasks-r1/cell.json" for name in ("good", "bad"))
    before = good.read_bytes(), bad.read_bytes()
    second = bigiron("run", study)
    assert (second.status, second.out[:22]) == (3, "0 of 1 cells measured:")
    assert good.read_bytes() == before[0]
    assert bad.read_bytes() != before[1]
    shown = bigiron("show", study).out
    assert "failed: the machine stopped while starting tasks, without a reason" in shown


# The folder, without a machine


def new_study(folder: Path) -> Study:
    variants = [Variant(name="a", kernel="k"), Variant(name="b", kernel="k")]
    spec = Spec(workload="getppid1", cpus=[8], variant=variants)
    return store.create(folder, spec, workloads.find("getppid1"))


def record_of(study: Study, number: int = 0, failure: Failure | None = None) -> CellRecord:
    cell = study.plan()[number]
    return CellRecord(
        id=cell.id, variant=cell.variant.name, machine="vm", cpus=cell.cpus, tasks=cell.tasks,
        repetition=cell.repetition, environment={}, failure=failure,
    )  # fmt: skip


class Broken(pl.DataFrame):
    """A table whose writing fails in the middle, as on a full disk."""

    def write_parquet(self, file: Any, **_options: Any) -> None:
        file.write(b"PAR1")
        raise OSError(28, "No space left on device")


def test_a_cell_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    study = new_study(tmp_path / "s")
    tables = {"conflicts": ProbeTable(pl.DataFrame({"a": [1]})), "throughput": ProbeTable(Broken())}
    with pytest.raises(OSError, match="No space left"):
        study.add(record_of(study), tables)
    assert list((tmp_path / "s/cells").iterdir()) == []
    assert study.records() == []


def test_what_a_dead_process_left_is_cleared_away(tmp_path: Path) -> None:
    study = new_study(tmp_path / "s")
    (tmp_path / "s/cells/.new-dead/cell").mkdir(parents=True)
    assert study.records() == []
    with study.writing():
        study.add(record_of(study), {"simulation": ProbeTable(pl.DataFrame({"a": [1]}), {"fact": 7})})
    assert [path.name for path in (tmp_path / "s/cells").iterdir()] == ["a-8cpus-8tasks-r1"]
    (record,) = study.records()
    assert record.facts == {"simulation": {"fact": 7}}
    assert study.table(record, "simulation").rows() == [(1,)]


def test_a_failed_cell_is_replaced(tmp_path: Path) -> None:
    study = new_study(tmp_path / "s")
    study.add(record_of(study, failure=Failure("machine", "it burnt")), {})
    assert [cell.variant.name for cell in pool.missing(study)] == ["a", "b"]
    study.add(record_of(study), {"conflicts": ProbeTable(pl.DataFrame({"a": [1]}))})
    assert [cell.variant.name for cell in pool.missing(study)] == ["b"]


def test_an_unmeasured_study_may_be_asked_something_else(tmp_path: Path) -> None:
    workload = workloads.find("getppid1")
    first = new_study(tmp_path / "s")
    first.add(record_of(first, failure=Failure("input", "no such setting")), {})
    other = msgspec.structs.replace(first.spec, cpus=[2])
    assert store.create(tmp_path / "s", other, workload).spec.cpus == [2]
    assert library.open_study(tmp_path / "s").spec == other


def test_a_measured_cell_is_never_replaced(tmp_path: Path) -> None:
    study = new_study(tmp_path / "s")
    study.add(record_of(study), {"simulation": ProbeTable(pl.DataFrame({"a": [1]}))})
    with pytest.raises(UserError, match="is already measured"):
        study.add(record_of(study), {"simulation": ProbeTable(pl.DataFrame({"a": [2]}))})
    (record,) = study.records()
    assert study.table(record, "simulation").rows() == [(1,)]


def test_a_full_disk_leaves_nothing_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What remains of a study that could not be made does not keep it from being made later."""
    for files in range(2):  # that there is room for
        synced: list[int] = []

        def fsync(file: int, synced: list[int] = synced, files: int = files) -> None:
            synced.append(file)
            if len(synced) > files:
                raise OSError(28, "No space left on device")

        with monkeypatch.context() as disk, pytest.raises(OSError, match="No space left"):
            disk.setattr(os, "fsync", fsync)
            new_study(tmp_path / "s")
    assert [cell.variant.name for cell in new_study(tmp_path / "s").plan()] == ["a", "b"]


def test_cells_without_a_question_belong_to_no_study(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    (folder / "cells/debian-6.1-8cpus-8tasks-r1").mkdir(parents=True)
    spec = Spec(workload="getppid1", variant=[Variant(name="v", kernel="k")])
    with pytest.raises(UserError, match="exists and is not a study"):
        store.create(folder, spec, workloads.find("getppid1"))


def test_what_is_measured_for_one_question_is_not_put_under_another(tmp_path: Path) -> None:
    """While one bigiron measures, another may not ask something else; and who comes late is told so."""
    workload = workloads.find("getppid1")
    study = new_study(tmp_path / "s")
    other = msgspec.structs.replace(study.spec, cpus=[2])
    with study.writing(), pytest.raises(UserError, match="another bigiron is running"):
        store.create(tmp_path / "s", other, workload)
    assert library.open_study(tmp_path / "s").spec == study.spec
    store.create(tmp_path / "s", other, workload)
    with (
        pytest.raises(UserError, match=r"another bigiron changed study .* while this one ran"),
        study.writing(),
    ):
        pass


# Asking more

ADDED = [
    ({"cpus": [8, 64]}, 4),
    ({"repetitions": 3}, 6),
    ({"cpus": [64, 8], "repetitions": 2}, 8),
]


def with_a_cell(folder: Path) -> Study:
    study = new_study(folder)
    study.add(record_of(study), {"conflicts": ProbeTable(pl.DataFrame({"a": [1]}))})
    return study


@pytest.mark.parametrize(("more", "cells"), ADDED)
def test_a_study_is_extended(more: dict[str, Any], cells: int, tmp_path: Path) -> None:
    study = with_a_cell(tmp_path / "s")
    asked = msgspec.structs.replace(study.spec, **more)
    wider = store.create(tmp_path / "s", asked, workloads.find("getppid1"))
    assert len(wider.plan()) == cells
    assert len(pool.missing(wider)) == cells - 1
    assert library.open_study(tmp_path / "s").spec == wider.spec


def test_another_variant_is_the_last(tmp_path: Path) -> None:
    study = with_a_cell(tmp_path / "s")
    asked = msgspec.structs.replace(study.spec, variant=[Variant(name="c", kernel="k"), *study.spec.variant])
    wider = store.create(tmp_path / "s", asked, workloads.find("getppid1"))
    assert [variant.name for variant in wider.spec.variant] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"cpus": [64]}, r"cpus = \[8\], not \[64\]"),
        ({"cpus": [8, 64], "operations": 9}, "has another question"),
        ({"tasks": [1]}, "tasks = 'all'"),
        ({"variant": [Variant(name="a", kernel="k")]}, "variants a, b, not a"),
        ({"variant": [Variant(name=n, kernel="k", boot="x") for n in "ab"]}, "variant a with boot"),
    ],
)
def test_what_contradicts_a_study(change: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    study = with_a_cell(tmp_path / "s")
    with pytest.raises(UserError, match=complaint):
        store.create(tmp_path / "s", msgspec.structs.replace(study.spec, **change), None)
    assert library.open_study(tmp_path / "s").spec == study.spec


@pytest.mark.parametrize(
    ("figure", "changed", "complaint"),
    [("hit_ns = 1.4", "hit_ns = 1.5", ""), ("memory_gib = 128", "memory_gib = 256", "like_sha256 = ")],
)
def test_a_machine_file_may_get_other_latencies(
    figure: str, changed: str, complaint: str, tmp_path: Path
) -> None:
    """A virtual machine like it has CPUs, nodes and memory, but none of its latencies."""
    mine, workload = tmp_path / "mine.toml", workloads.find("getppid1")
    mine.write_text(machine_files.text("x86-2s"))
    spec = msgspec.structs.replace(new_study(tmp_path / "old").spec, like=str(mine), like_sha256="old")
    study = store.create(tmp_path / "s", spec, workload)
    study.add(record_of(study), {"conflicts": ProbeTable(pl.DataFrame({"a": [1]}))})
    mine.write_text(mine.read_text().replace(figure, changed))
    asked = msgspec.structs.replace(spec, like_sha256="new", repetitions=3)
    with pytest.raises(UserError, match=complaint) if complaint else nullcontext():
        assert len(store.create(tmp_path / "s", asked, workload).plan()) == 6
        assert library.open_study(tmp_path / "s").spec.like_sha256 == "new"
        assert (tmp_path / "s/machine.toml").read_text() == mine.read_text()


def test_options_beside_a_study(tmp_path: Path) -> None:
    spec = msgspec.structs.replace(new_study(tmp_path / "s").spec, cpus=[])
    more = {"cpus": [64], "repetitions": 9, "variant": [Variant(name="c", kernel="k")], "operations": 500}
    wider = extend.with_options(spec, more | {"probes": ["locks"]}, "s")
    assert (wider.cpus, wider.repetitions, len(wider.variant)) == ([8, 64], 9, 3)
    assert wider.probes == [*spec.probes, "locks"]
    for options, complaint in (
        ({"repetitions": 0}, "s has repetitions = 1, not 0"),
        ({"tasks": [1]}, "s has tasks = 'all', not"),
        ({"variant": [Variant(name="a", kernel="other")]}, "s has another variant called a"),
    ):
        with pytest.raises(UserError, match=complaint):
            extend.with_options(spec, options, "s")


def test_a_file_beside_a_study_is_the_same_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = {"workload_file": f"{tmp_path}/x.c", "like": f"{tmp_path}/m.toml"}
    named = {"workload_file": "./x.c", "like": "m.toml"}
    for spec, typed in (whole, named), (named, whole), (named, named):
        asked = msgspec.structs.replace(new_study(tmp_path / "s").spec, **spec)
        assert extend.with_options(asked, typed, "s") == asked
        for key in "workload_file", "like":
            with pytest.raises(UserError, match=f"s has {key} = .*, not 'other.toml'"):
                extend.with_options(asked, {key: "other.toml"}, "s")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--operations 9", "has operations = 50, not 9"),
        ("--mode thread", "has mode = 'process', not 'thread'"),
        ("--machine ssh://a", "has machine = 'vm', not 'ssh'"),
        ("--memory 9000", "has memory_mib = 0, not 9000"),
        ("--boot x=1", "--boot: give --kernel too"),
        ("--kernel debian/6.1 --boot x=1", "has another variant called debian/6.1"),
    ],
)
def test_no_option_beside_a_study_file_is_ignored(options: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text(SWEEP)
    answer = bigiron("run", tmp_path / "q.toml", *options.split(), "-o", tmp_path / "s")
    assert (answer.status, (tmp_path / "s").exists()) == (2, False)
    assert complaint in answer.complaint


def test_a_folder_that_is_called_like_a_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run open1` means the workload, and `run ./open1` the study."""
    store.create(tmp_path / "open1", Spec(workload="getppid1", variant=[]), workloads.find("getppid1"))
    monkeypatch.chdir(tmp_path)
    assert bigiron("run", "open1", "-o", "other").complaint.startswith("no kernel: give --kernel")
    for place in "./open1", "open1/", "open1/study.toml", tmp_path / "open1":
        complaint = bigiron("run", place, "--mode", "thread").complaint
        assert complaint.startswith(f"{place} has mode = 'process', not 'thread'")
    (tmp_path / "open1").rename("mine")
    assert bigiron("run", "mine", "--mode", "thread").complaint.startswith("mine has mode = 'process'")


def test_a_command_s_words_are_those_that_were_given(tmp_path: Path) -> None:
    command = "stress-ng --cpu 4 --vm 4 --timeout 4"
    settings = ["/sys/a=1", "/sys/a=0", "/sys/a=1"]
    variant = Variant(name="host", kernel="k", set=settings)
    spec = Spec(command=command, machine="host", probes=["metrics"], cpus=[2], tasks=[4], variant=[variant])
    (cell,) = plan.cells(spec)
    job = cell_of.agent_job(spec, cell).splitlines()
    assert [line.removeprefix("word ") for line in job if line.startswith("word ")] == command.split()
    assert [line.removeprefix("set ") for line in job if line.startswith("set ")] == settings


def test_what_two_probes_want_is_asked_for_once() -> None:
    variants = [Variant(name="a", kernel="k")]
    spec = Spec(workload="getppid1", probes=["conflicts", "instructions"], cpus=[8], variant=variants)
    job = cell_of.agent_job(spec, plan.cells(spec)[0]).splitlines()
    assert [
        job.count(line) for line in ("stay", "operations 500", "record conflicts", "record instructions")
    ] == [1] * 4


# Its question

NAMES = st.text("ab1/.+-=: _", min_size=1, max_size=12).filter(specs.slug)
VARIANTS = st.lists(
    st.builds(
        Variant, name=NAMES, kernel=NAMES, boot=st.text("a= \"'\\\t", max_size=9), set=st.lists(st.text())
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda variant: specs.slug(variant.name),
)
NUMBERS = st.lists(st.integers(1, 999), min_size=1, max_size=3, unique=True)
QUESTIONS = st.builds(
    Spec,
    workload=NAMES,
    cpus=NUMBERS,
    tasks=NUMBERS | st.just("all"),
    repetitions=st.integers(1, 3),
    options=st.builds(
        AllProbeOptions,
        st.builds(ConflictsOptions, scope=st.sampled_from(["kernel", "user"])),
        st.builds(FunctionsOptions, functions=st.lists(NAMES, max_size=2), depth=st.integers(1, 9)),
    ),
    variant=VARIANTS,
)


@pytest.mark.parametrize(
    ("shape", "cpus"), [({}, 8), ({"topology": "sockets=2,cores=3"}, 6), ({"like": "xeon-5418y-x2"}, 48)]
)
def test_the_default_of_virtual_machines_is_their_shape_s(shape: dict[str, Any], cpus: int) -> None:
    spec = Spec(workload="open1", variant=[], **shape)
    assert spec.engine.cpus(spec.cpus) == [cpus]


OLD = """
format = 3
workload = "open1"
workload_file = ""
workload_sha256 = "1f"
command = ""
metric = ""
unit = ""
less_is_better = false
mode = "process"
machine = "vm"
address = ""
allow_hotplug = false
arch = "x86_64"
probes = ["conflicts", "functions"]
cpus = [4]
tasks = "all"
topology = ""
repetitions = 1
look = []
tolerance = 0.02
operations = 500
scope = "user"
cpus_to_cycle = 0
functions = ["vfs_*"]
depth = 3
blocked_min_us = 0
blocked_states = ""
blocked_user = false
memory_mib = 0
deadline_s = 0

[[variant]]
name = "as booted"
kernel = "debian/6.1"
boot = ""
set = []
kernel_sha256 = "2e"

[simulation]
machine = ""
machine_sha256 = ""
warmup_ms = 100.0
duration_ms = 100.0
timeline_us = 0.0
"""
"""A study.toml that an earlier version wrote."""


@given(spec=QUESTIONS)
def test_every_cell_has_a_folder_of_its_own(spec: Spec) -> None:
    names = [cell.id for cell in plan.cells(spec)]
    tasks = 1 if spec.tasks == "all" else len(spec.tasks)
    assert len(names) == len(spec.variant) * len(spec.cpus) * tasks * spec.repetitions
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w.][\w.-]*", name) for name in names)


@given(spec=QUESTIONS)
def test_a_question_survives_the_file(spec: Spec, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "question.toml"
    file.write_bytes(to_toml(spec))
    assert specs.read(file) == spec


def test_a_study_of_before_a_probe_had_a_record_opens(tmp_path: Path) -> None:
    """Format 1 has the probes' options among its other keys."""
    (tmp_path / "study.toml").write_text(OLD)
    spec = specs.read(tmp_path / "study.toml")
    assert spec.options[ConflictsOptions].scope == "user"
    assert spec.options[FunctionsOptions] == FunctionsOptions(functions=["vfs_*"], depth=3)
    assert set(msgspec.toml.decode(OLD)) <= set(msgspec.toml.decode(to_toml(spec)))


def test_repetitions_of_another_clock_are_refused(tmp_path: Path) -> None:
    spec = Spec(workload="open1", cpus=[64], repetitions=2, variant=[Variant(name="a"), Variant(name="b")])
    study = store.create(tmp_path / "s", spec, None)
    cells = {(cell.variant.name, cell.repetition): cell for cell in study.plan()}
    first, second, other = cells["a", 1], cells["a", 2], cells["b", 1]
    record = store.new_record(first, "vm", {"clock_slower": 128})
    study.add(record, {"instructions": ProbeTable(pl.DataFrame({"x": [1]}))})
    same = SameMachine(study).of(second)
    refuse_another_clock(store.new_record(second, "vm", {"clock_slower": 128}), same)
    with pytest.raises(
        UserError, match="clock_slower 128 and this one with 1: such counts are not comparable"
    ):
        refuse_another_clock(store.new_record(second, "vm", {}), same)
    refuse_another_clock(store.new_record(other, "vm", {}), SameMachine(study).of(other))


def test_each_cell_is_compared_without_reading_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large sweep that would be as many files as the square of its cells."""
    variants = [Variant(name=f"v{number}") for number in range(12)]
    study = store.create(tmp_path / "s", Spec(workload="open1", cpus=[2], variant=variants), None)
    read: list[Cell] = []
    record = Study.record

    def counted(self: Study, cell: Cell) -> CellRecord | None:
        found = record(self, cell)
        read.extend([cell] if found else [])
        return found

    monkeypatch.setattr(Study, "record", counted)
    same = SameMachine(study)
    for cell in study.plan():
        alike = {"time_slice": "operation", "memory_mib": 9, "cgroup": "none"}
        assert same.of(cell) == (alike if cell.variant.name != "v0" else {})
        environment = {**alike, "clock_slower": 4}
        study.add(
            store.new_record(cell, "vm", environment), {"instructions": ProbeTable(pl.DataFrame({"x": [1]}))}
        )
        assert same.of(cell) == environment
    assert len(read) <= 2 * len(variants)
