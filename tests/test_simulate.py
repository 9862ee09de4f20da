"""Simulated studies: made by a command or a file, resumed, compared; and what the simulated cases say."""

import csv
import io
import json
import os
import re
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import BIGIRON, bigiron
from msgspec.structs import replace

from bigiron.analysis.statistics.estimate import of_all
from bigiron.analysis.statistics.seed_range import seed_range
from bigiron.cases import find, rcu_512
from bigiron.cases.case import Case, Published
from bigiron.cases.hotplug_totals import total
from bigiron.errors import UserError
from bigiron.machines.engine import Job
from bigiron.report.progress import ProgressBar
from bigiron.simulator import machine_files
from bigiron.study import run, simulated, store
from bigiron.study.store import Study, open_study

_SHORT = ("--warmup", "2", "--duration", "5")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree's levels on small machines, two seeds; a timeline."""
    folder = tmp_path_factory.mktemp("simulated") / "s"
    asked = ("--cpus", "16..64", "--set", "levels=1,2", "--set", "leaf=8", "--seeds", "2", "--timeline", "20")
    answer = bigiron("simulate", "rcu-tree", "--machine", "altix-512", *asked, *_SHORT, "-o", folder)
    assert answer.status == 0, answer
    return folder


def test_a_study_like_any_other(study: Path) -> None:
    opened = open_study(study)
    assert opened.spec.cpus == [16, 32, 64]
    assert [variant.name for variant in opened.spec.variant] == ["levels=1 leaf=8", "levels=2 leaf=8"]
    assert len(opened.records()) == 3 * 2 * 2
    record = opened.records()[0]
    assert record.machine == "simulated"
    assert record.environment["values"]["levels"] == "1"
    assert record.environment["values"]["hz"] == "1000"  # that was not set
    cpus = opened.table(record, "simulation_cpus")
    spent = cpus.select(name for name in cpus.columns if name.endswith("_ns") and name != "interrupt_ns")
    assert spent.sum_horizontal().to_list() == pytest.approx([5e6] * 16)
    assert "rcu_node gp_seq" in opened.table(record, "simulation_lines")["line"].to_list()
    assert "global lock" in opened.table(record, "simulation_locks")["lock"].to_list()


def test_a_bar_on_a_terminal_and_elsewhere_lines(tmp_path: Path) -> None:
    asked = ("simulate", "lock-bound", "--machine", "x86-2s", "--cpus", "2", *_SHORT, "-o")
    assert re.fullmatch(r"defaults, 2 CPUs: measured in \d+\.\d s\n", bigiron(*asked, tmp_path / "s").err)
    ours, theirs = os.openpty()
    with subprocess.Popen([BIGIRON, *asked, tmp_path / "t"], stdout=theirs, stderr=theirs) as command:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # at the end
            while part := os.read(ours, 1 << 12):
                shown += part
    os.close(ours)
    assert command.returncode == 0
    assert b"1/1" in shown and re.search(rb"defaults, 2 CPUs: measured in \d+\.\d s", shown), shown


def test_a_timeline_for_perfetto(study: Path) -> None:
    timelines = sorted(study.glob("cells/*/timeline.json"))
    assert len(timelines) == 12
    events = json.loads(timelines[0].read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"X"}
    assert all(2000 <= event["ts"] <= 2020 for event in events)


def test_it_goes_on_where_it_was(study: Path) -> None:
    asked = (
        "--cpus",
        "16,32,64",
        "--set",
        "levels=1,2",
        "--set",
        "leaf=8",
        "--seeds",
        "2",
        "--timeline",
        "20",
    )
    again = bigiron("simulate", "rcu-tree", "--machine", "altix-512", *asked, *_SHORT, "-o", study)
    assert "every cell" in again.out, again
    other = bigiron("simulate", "rcu-tree", "--machine", "epyc", *asked, *_SHORT, "-o", study)
    assert other.status == 2
    assert "has another question" in other.err


def test_the_same_seed_gives_the_same_tables(study: Path, tmp_path: Path) -> None:
    asked = ("--cpus", "32", "--set", "levels=2", "--set", "leaf=8", "--jobs", "1")
    answer = bigiron("simulate", "rcu-tree", "--machine", "altix-512", *asked, *_SHORT, "-o", tmp_path / "t")
    assert answer.status == 0, answer
    (alone,) = open_study(tmp_path / "t").records()
    beside = next(one for one in open_study(study).records() if one.id == alone.id)
    assert alone.tables == beside.tables  # checksums of the files


def test_compare(study: Path) -> None:
    text = bigiron("compare", study).out
    assert "rcu-tree on altix-512, 64 CPUs, simulated: mean of 2 seeds (least to most)" in text
    assert "CPUs wait, ns/operation: " in text
    rows = list(csv.DictReader(io.StringIO(bigiron("compare", study, "--format", "csv").out)))
    taken = [row for row in rows if row["figure"] == "global lock" and row["cpus"] == "64"]
    one, two = (float(row["mean"]) for row in taken)
    assert one >= 64 > 10 > two >= 8  # each CPU takes the only lock; the root's is taken for each leaf
    assert all(float(row["least"]) <= float(row["mean"]) <= float(row["most"]) for row in rows)
    document = json.loads(bigiron("compare", study, "--format", "json").out)
    assert len(document["points"][0]["figures"][0]["of_seeds"]["levels=1 leaf=8"]) == 2
    assert "| lost, % |" in bigiron("compare", study, "--format", "markdown").out


def test_show_and_growth(study: Path) -> None:
    assert "design      rcu-tree, simulated" in bigiron("show", study).out
    growth = bigiron("growth", study, "--variant", "levels=1 leaf=8", "--at", "512")
    assert growth.status == 0, growth
    assert "(simulated)" in growth.out
    assert "all of the CPUs' time" in growth.out


def test_tasks(tmp_path: Path) -> None:
    asked = ("--cpus", "8", "--tasks", "1,8", "--set", "look=sum", "--warmup", "1", "--duration", "2")
    answer = bigiron("simulate", "percpu-counter", "--machine", "uniform", *asked, "-o", tmp_path / "s")
    assert answer.status == 0, answer
    rows = open_study(tmp_path / "s").tables("simulation")
    one, eight = (seed_range(rows, "throughput", "look=sum", tasks).value for tasks in (1, 8))
    assert 0 < one < eight


def test_to_the_end(tmp_path: Path) -> None:
    asked = ("--cpus", "8", "--set", "files=debugfs", "--duration", "0")
    answer = bigiron("simulate", "cpu-hotplug", "--machine", "power10-1920", *asked, "-o", tmp_path / "s")
    assert answer.status == 0, answer
    (record,) = open_study(tmp_path / "s").records()
    figures = open_study(tmp_path / "s").table(record, "simulation")
    assert figures.filter(figure="total")["value"].item() > figures.filter(figure="files")["value"].item() > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nope", "--machine", "uniform"), "no design 'nope'"),
        (("rcu-flat",), "no machine"),
        (("rcu-flat", "--machine", "cray"), "no machine 'cray'"),
        (("rcu-flat", "--machine", "altix-512", "--cpus", "513"), "has 1 to 512 CPUs, not 513"),
        (("rcu-flat", "--machine", "uniform", "--cpus", "8..2"), "use FIRST..LAST"),
        (("rcu-flat", "--machine", "uniform", "--set", "mask"), "use NAME=VALUE"),
        (("rcu-flat", "--machine", "uniform", "--set", "nask=1"), "rcu-flat has mask, hz"),
        (("rcu-flat", "--machine", "uniform", "--set", "mask=1,1"), "variants need different names"),
        (("rcu-flat", "--machine", "uniform", "--set", "mask=0", "--set", "mask=3"), "sets mask twice"),
        (("percpu-counter", "--machine", "uniform", "--set", "tasks=1,4"), "give --tasks 1 in its place"),
        (("rcu-flat", "--machine", "uniform", "--tasks", "1"), "no parameter `tasks`"),
        (("rcu-flat", "--machine", "uniform", "--duration", "-1"), "zero or more"),
        (
            ("rcu-flat", "--machine", "uniform", "--cpus", "2", "--set", "hz=0"),
            "use 1 to 100000 ticks a second",
        ),
    ],
)
def test_bad_input(arguments: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    answer = bigiron("simulate", *arguments, "-o", tmp_path / "s")
    assert answer.status == 2, answer
    assert complaint in answer.err
    assert "Traceback" not in answer.err


def test_a_broken_invariant_is_one_line(tmp_path: Path) -> None:
    asked = ("--cpus", "16", "--set", "bug=lost", "--set", "updaters=16", "--set", "interval=20000")
    answer = bigiron("simulate", "rcu-flat", "--machine", "uniform", *asked, "-o", tmp_path / "s")
    assert answer.status == 3, answer
    assert "callbacks were queued and not invoked" in answer.err


def test_list() -> None:
    text = bigiron("simulate", "list").out
    assert "rcu-tree" in text
    assert "RCU_COND_RESCHED_LIM" in text


def _simulate(case: Case, folder: Path, study: str, shorter: float = 1, **changes: object) -> Study:
    """One of a case's studies, cut down."""
    spec = replace(case.spec(study, quick=True), **changes)
    asked = spec.simulation
    times = {"warmup_ms": asked.warmup_ms / shorter, "duration_ms": asked.duration_ms / shorter}
    spec = replace(spec, simulation=replace(asked, **times))
    made = store.create(folder / study, simulated.resolve(spec), None)
    with ProgressBar([]) as progress:
        run.run(made, None, 2, progress)
    return made


@pytest.mark.slow
def test_rcu_512(tmp_path: Path) -> None:
    """Eighteen figures beside the published, two of them fitted, and McKenney's rule of levels holds."""
    case = find("rcu-512")
    shorter = {"ls": 12, "idle": 20, "tree": 1}
    repetitions = {"ls": 4, "idle": 1, "tree": 2}
    studies = {
        study: _simulate(case, tmp_path, study, shorter[study], repetitions=repetitions[study])
        for study in case.studies
    }
    report = case.measure_up(studies)
    assert len(report.figures) == 9 + 9 + 9 + 9
    by_name = {figure.what: figure for figure in report.figures}
    cliff = by_name["CPU time that RCU and the tick take, ls, mask 7"]
    assert cliff.published == "0.22 %"
    assert "predicted" in cliff.ours
    assert "fitted" in by_name["CPU time that RCU and the tick take, idle, mask 0"].ours
    assert sum("fitted" in figure.ours for figure in report.figures) == 2
    levels = [claim for claim in report.claims if "level" in claim.says]
    assert [claim.agrees for claim in levels] == [True, True], levels
    (cure,) = [claim for claim in report.claims if "cliff" in claim.says]
    assert "3 sampled machines ha" in cure.evidence


def test_where_the_cliff_of_rcu_512_lies_goes_with_a_latency() -> None:
    published = Published(find("rcu-512").folder / "published.csv")
    ls = {mask: (0.2, 0.2, 0.2, 0.2, 0.2) for mask in (0, 1, 3, 7)}
    none = rcu_512.cure(ls, published)
    assert (none.agrees, "None of the 4 sampled machines has it" in none.evidence) == (False, True)
    far = [machine_files.sampled("altix-512", nr).transfer_ns(0, 511) for nr in (2, 3, 4, 5)]
    slowest = far.index(max(far))
    ls[3] = (0.2, *(30.0 if nr == slowest else 0.2 for nr in range(4)))
    some = rcu_512.cure(ls, published)
    assert some.agrees is None
    assert (
        f"1 of 4 sampled machines have it: 1 of the 1 where a cache line takes {max(far):.0f} ns"
        in some.evidence
    )
    itself = ls | {3: (30.0,), 7: (0.2,)}
    assert rcu_512.cure(itself, published).agrees is True


def test_totals_of_hotplug() -> None:
    """The sum over a few sizes is that of taking every CPU."""
    values = {"files": "debugfs", "waits": "0"}
    summed = total(values, cpus=48, stay=1, seeds=1)
    spec = simulated.resolve(simulated.asking("cpu-hotplug", "power10-1920", [48], duration_ms=0))
    settings = tuple(f"{name}={value}" for name, value in values.items())
    job = Job(kernel="", boot="", settings=settings, cpus=48, tasks=48, repetition=1)
    figures = spec.engine.run(job, simulated.collect, threading.Event(), print).tables["simulation"].rows
    whole = dict(figures.select("figure", "value").iter_rows())["total"]
    assert summed.value == pytest.approx(whole, rel=0.02)
    with pytest.raises(UserError, match="can stay"):
        total({}, cpus=8, stay=8)
    with pytest.raises(UserError, match="files=paper"):
        total({"files": "paper"}, cpus=8)


def test_predicted() -> None:
    assert str(of_all([1.0, 2.0, 3.0])) == "2 (1 to 3)"
