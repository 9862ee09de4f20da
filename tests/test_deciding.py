"""Repetitions added until all is decided: how the plan grows, what is kept, and what is refused."""

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from itertools import groupby
from pathlib import Path

import msgspec
import polars as pl
import pytest
from conftest import BIGIRON, bigiron, compared, measured, wait_until

import bigiron as library
from bigiron.analysis.comparison.model import Options
from bigiron.analysis.statistics.verdict import Look, Verdict, next_look
from bigiron.errors import UserError
from bigiron.probes import ProbeTable
from bigiron.report.compare import dispatch
from bigiron.results import metrics, sequential
from bigiron.study import cell as cell_of
from bigiron.study import plan, pool, simulated, store
from bigiron.study.plan import Cell
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import CellRecord, Study

ENDLESS = float("inf")
CPUS = len(os.sched_getaffinity(0))


class Quiet:
    """Receives the progress of a study, and keeps what was added and why."""

    def __init__(self) -> None:
        self.why: list[str] = []
        self.cells = 0

    def started(self, cell: Cell) -> None: ...
    def stage(self, cell: Cell, stage: str) -> None: ...
    def ended(self, cell: Cell, record: CellRecord) -> None:
        self.cells += 1

    def added(self, cells: list[Cell], why: str) -> None:
        self.why.append(why)


def study_of(folder: Path, *settings: str, cpus: list[int] | None = None, seeds: int = 3) -> Study:
    """A design whose seeds are the repetitions: as noisy as a machine, and much faster."""
    times = {"warmup_ms": 1.0, "duration_ms": 20.0}
    asked = simulated.asking(
        "lock-bound", "uniform", cpus or [2], settings=list(settings), seeds=seeds, **times
    )
    return store.create(folder, simulated.resolve(asked), None)


def decide(study: Study, until: float = ENDLESS) -> tuple[Quiet, int | None]:
    heard = Quiet()
    _, undecided = sequential.run(study, None, 1, heard, until)
    return heard, undecided


def look_at(study: Study, looks: list[Look]) -> None:
    study.widen(msgspec.structs.replace(study.spec, look=looks))


def ids(study: Study) -> list[str]:
    return sorted(path.name for path in (study.folder / "cells").iterdir())


@pytest.mark.slow
def test_repetitions_are_added_where_something_is_undecided(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1000,800", cpus=[2, 4])
    heard, undecided = decide(study)
    assert undecided == 0
    undecided_at = "2 tasks on 2 CPUs, 4 tasks on 4 CPUs"
    assert heard.why[0] == f"undecided after 3 repetitions: {undecided_at}; continuing up to 5"
    looks = study.spec.look
    assert [look.repetitions for look in looks] == [5, 8][: len(looks)]
    assert library.open_study(study.folder).spec == study.spec
    assert ids(study) == sorted(cell.id for cell in study.plan())
    assert heard.cells == len(study.plan())
    found = metrics.compare(study)
    assert {one.verdict for one in found} == {Verdict.changed}
    assert {one.judged for one in found} <= {5, 8}


def test_what_is_decided_gets_no_more_repetitions(tmp_path: Path) -> None:
    """With 1 CPU no task waits for the lock; with 4 the length of its hold is all that counts."""
    study = study_of(tmp_path / "s", "hold=600,630", cpus=[1, 4], seeds=6)
    look_at(study, [Look(9, [(4, 4)]), Look(14, [(4, 4)])])
    cells = [(cell.cpus, cell.repetition) for cell in study.plan()]
    assert cells.count((1, 6)) == cells.count((4, 14)) == 2
    assert (1, 7) not in cells
    assert len(cells) == 2 * (6 + 14)


def test_no_variant_comes_first_more_often_than_another(tmp_path: Path) -> None:
    """By chance one might: then whatever hits the first cell of a block would look like a change."""
    variants = [Variant(name=name) for name in "abc"]
    spec = Spec(
        workload="spin", machine="host", probes=["throughput"], cpus=[2], tasks=[1, 2], repetitions=20,
        variant=variants,
    )  # fmt: skip
    (tmp_path / "cells").mkdir()
    order = pool.missing(Study(tmp_path, spec))
    assert sorted(cell.id for cell in order) == sorted(cell.id for cell in plan.cells(spec))
    assert order == pool.missing(Study(tmp_path, spec))
    blocks = [[cell.variant.name for cell in block] for _, block in groupby(order, lambda cell: cell.block)]
    assert len(blocks) == 40 and len({tuple(block) for block in blocks}) > 2
    for one, other in itertools.combinations("abc", 2):
        for tasks in (0, 1):
            first = [block.index(one) < block.index(other) for block in blocks[tasks::2]]
            assert first.count(True) == 10


def measure(study: Study, cell: Cell) -> None:
    cell_of.measure_cell(study, cell, None, {}, threading.Event(), lambda _stage: None)


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    """As a run killed after a look was added leaves it: some cells of the look are there, others are not."""
    study = study_of(tmp_path / "s", "think=1000,1001", seeds=6)
    _, undecided = decide(study, until=0)
    assert (undecided, study.spec.look, ids(study)) == (1, [], [])
    look_at(study, [Look(9, [(2, 2)])])
    for cell in study.plan()[:15]:
        measure(study, cell)
    before = {path: path.stat().st_mtime_ns for path in study.folder.glob("cells/*/cell.json")}
    again = library.open_study(study.folder)
    heard, _ = decide(again)
    assert again.spec.look[0] == Look(9, [(2, 2)])
    assert heard.cells == len(again.plan()) - 15
    assert before.items() <= {p: p.stat().st_mtime_ns for p in study.folder.glob("cells/*/cell.json")}.items()


def test_when_time_is_up_what_is_there_is_judged(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1000,1001", seeds=6)
    look_at(study, [Look(9, [(2, 2)]), Look(14, [(2, 2)])])
    for cell in study.plan()[: 2 * 11 + 1]:
        measure(study, cell)
    decide(study, until=0)
    assert [look.repetitions for look in study.spec.look] == [9, 11]
    assert {one.judged for one in metrics.compare(study)} <= {6, 9, 11}
    assert len(ids(study)) == 2 * 11 + 1
    look_at(study, [Look(9, [(2, 2)]), Look(11, [(2, 2)]), Look(next_look(11), [(2, 2)])])
    kept = study.folder / "cells" / study.plan()[22].id / "cell.json"
    before = kept.stat().st_mtime_ns
    decide(study, until=time.monotonic() + 0.001)
    assert kept.stat().st_mtime_ns == before


def test_a_look_of_which_nothing_was_measured_is_taken_back(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1000,1001", seeds=6)
    for cell in study.plan():
        measure(study, cell)
    look_at(study, [Look(9, [(2, 2)])])
    decide(study, until=0)
    assert study.spec.look == []


def test_the_same_question_finds_the_study_however_far_it_has_grown(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1000,800")
    decide(study)
    assert study_of(tmp_path / "s", "think=1000,800").spec == study.spec
    with pytest.raises(UserError, match="repetitions = 3, not 6"):
        study_of(tmp_path / "s", "think=1000,800", seeds=6)


def test_variants_that_are_the_same_are_unchanged(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1000,1000.0", seeds=6)
    _, undecided = decide(study)
    assert undecided == 0
    found = metrics.compare(study)[0]
    assert (found.verdict, found.ratio.value, found.p) == (Verdict.unchanged, 1.0, 1.0)


@pytest.mark.usefixtures("settings_are_ours")
@pytest.mark.skipif(os.geteuid() != 0, reason="settings are root's to change")
def test_killed_on_the_host_it_goes_on_and_nothing_is_lost_or_double(tmp_path: Path) -> None:
    study = tmp_path / "s"
    options = ["--until-decided", "--max-time", "600", "--tolerance", "0.001", "-o", str(study)]
    sweep = ["--tasks", "1", "--set-sweep", "/proc/sys/vm/stat_interval=1,2", "--reps", "1"]
    command = [BIGIRON, "run", "getppid1", "--machine", "host", *sweep, *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        wait_until(lambda: len(list(study.glob("cells/*-r2/cell.json"))) == 1)
        run.send_signal(signal.SIGKILL)
        run.communicate()
    opened = library.open_study(study)
    assert [look.repetitions for look in opened.spec.look] == [3]
    before = {path: path.read_bytes() for path in study.glob("cells/*/cell.json")}
    again = measured(study, "--until-decided", "--max-time", "1")
    assert "1 comparison undecided" in again.out
    cells = {path: path.read_bytes() for path in study.glob("cells/*/cell.json")}
    assert before.items() <= cells.items()
    assert len(library.open_study(study).records()) == len(cells)
    rows = compared(study)["rows"]
    assert {(row["variant"], row["verdict"]) for row in rows} == {
        ("host stat_interval=1", None),
        ("host stat_interval=2", "undecided"),
    }
    assert rows[0]["unit"] == "operations/s" and rows[0]["median"] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--until-decided", "--until-decided and --max-time SECONDS need each other"),
        ("--max-time 5", "--until-decided and --max-time SECONDS need each other"),
        ("--until-decided --max-time 5", "only one variant: --until-decided compares"),
        (
            "--until-decided --max-time 5 --probe blocked --set-sweep /proc/sys/vm/stat_interval=1,2",
            "record it with --probe throughput",
        ),
        ("--tolerance 2", "tolerance = 2.0: use a share between 0 and 1"),
        ("--reps 1001", "repetitions = 1001: use whole numbers from 1 to 1000"),
    ],
)
def test_what_run_refuses(arguments: str, complaint: str, tmp_path: Path) -> None:
    answer = bigiron("run", "getppid1", "--machine", "host", *arguments.split(), "-o", tmp_path / "s")
    assert answer.status == 2
    assert complaint in answer.complaint
    assert not (tmp_path / "s").exists()


def test_a_study_says_its_own_tolerance(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1000,800")
    answer = bigiron("run", study.folder, "--tolerance", "0.5")
    assert answer.status == 2
    assert answer.complaint == (
        f"{study.folder} has tolerance = 0.02, not 0.5: change it there, or make a new study"
    )


def add_metric(study: Study, cell: Cell, value: float, unit: str = "s", name: str = "latency") -> None:
    """What an external command leaves in a cell."""
    row = {"metric": name, "unit": unit, "better": "less", "sample": 0, "value": value}
    record = CellRecord(
        id=cell.id, variant=cell.variant.name, machine="simulated", cpus=cell.cpus, tasks=cell.tasks,
        repetition=cell.repetition, environment={},
    )  # fmt: skip
    table = pl.DataFrame([row]).with_columns(pl.col("sample").cast(pl.UInt32))
    study.add(record, {"metrics": ProbeTable(table)})


def refused(study: Study, *options: str) -> str:
    answer = bigiron("compare", study.folder, "--probe", "throughput", *options)
    assert answer.status == 2, answer
    return answer.complaint


def test_mixed_units_are_refused(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1,2", seeds=1)
    one, other = study.plan()
    add_metric(study, one, 3.0)
    add_metric(study, other, 3000.0, unit="ms")
    assert refused(study) == (
        f"latency is in s (less is better) in cell {one.id} and in ms (less is better) in cell {other.id}: "
        "a study cannot mix units; make one study for each"
    )


def test_variants_without_a_common_number_of_tasks_are_refused(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1,2", cpus=[2, 4], seeds=1)
    for cell in study.plan():
        if (cell.cpus == 2) == (cell.variant.name == "think=1"):
            add_metric(study, cell, 3.0)
    assert refused(study) == (
        f"no variant of {study.folder} can be compared with think=1: no number of tasks is common "
        "(think=1: 2 tasks on 2 CPUs; think=2: 4 tasks on 4 CPUs)"
    )


def test_values_without_ratios_are_refused(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1,2", seeds=1)
    for cell in study.plan():
        add_metric(study, cell, 0.0, name="errors")
    assert refused(study) == (
        "errors of think=1 has values of zero or less with 2 tasks on 2 CPUs: there are no ratios"
    )
    assert "has no metric 'latency': it has errors" in refused(study, "--metric", "latency")


def test_nothing_that_has_noise(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1,2", seeds=1)
    assert refused(study) == f"no cell of {study.folder} has a throughput: its cells are simulated"


def test_less_may_be_better(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1,2", seeds=10)
    for cell in study.plan():
        slower = 1.1 if cell.variant.name == "think=2" else 1.0
        add_metric(study, cell, slower * (3 + cell.repetition / 1000))
    answer = bigiron("compare", study.folder, "--probe", "throughput")
    assert "latency, s (simulated time; less is better)" in answer.out
    assert "changed: +10.0%, worse" in answer.out


def test_all_formats_say_the_same(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", "think=1000,800", seeds=8)
    decide(study)
    found = dispatch.comparison_of(study, "throughput", Options())
    text, markdown, csv, document = (
        dispatch.FORMATS[name](found) for name in ("text", "markdown", "csv", "json")
    )
    changed = json.loads(document)["rows"][1]
    assert changed["verdict"] == "changed" and changed["ratio"] > 1.05
    assert f"changed: {changed['ratio'] - 1:+.1%}, better" in text
    assert f"changed: {changed['ratio'] - 1:+.1%}, better" in markdown
    rows = pl.read_csv(csv.encode())
    assert rows["verdict"].to_list() == [None, "changed"]
    assert rows["ratio"][1] == changed["ratio"]
    assert len(changed["samples"]) == changed["repetitions"] == 8
