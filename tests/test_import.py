"""bigiron import: figures measured elsewhere become a study like any other."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIGIRON, Answer, bigiron
from test_metrics import FIGURES

import bigiron as library
from bigiron import readers
from bigiron.errors import UserError
from bigiron.readers import Figure, Reading
from bigiron.study.imported import ImportedSource, add, read

OLD, NEW = (FIGURES / f"will-it-scale/{name}/open1.csv" for name in ("old", "new"))


def imported(
    format: str,
    path: Path,
    study: Path,
    variant: str | None = None,
    workload: str | None = None,
    cpus: int | None = None,
    tasks: int | None = None,
) -> int:
    """The number of new cells."""
    source = read(readers.find(format), path)
    return len(add(source, study, variant=variant, workload=workload, cpus=cpus, tasks=tasks)[1])


def refused(format: str, path: Path, study: Path, variant: str | None = None) -> str:
    with pytest.raises(UserError) as refusal:
        imported(format, path, study, variant)
    return str(refusal.value)


def values(study: Path, metric: str) -> list[tuple[str, int, int, float]]:
    table = library.open_study(study).tables("metrics")
    rows = table.filter(table["metric"] == metric).select("variant", "tasks", "repetition", "value").rows()
    return sorted(rows)


def test_two_csvs_are_two_variants(tmp_path: Path) -> None:
    study = tmp_path / "s"
    said = bigiron("import", "will-it-scale", OLD, "--variant", "old", "-o", study)
    assert said == Answer(0, f"2 cells of old in {study}: see `bigiron compare {study}`\n", "")
    imported("will-it-scale", NEW, study, "new")
    assert values(study, "processes") == [
        ("new", 1, 1, 156410), ("new", 2, 1, 122123), ("old", 1, 1, 131008), ("old", 2, 1, 165257)
    ]  # fmt: skip
    opened = library.open_study(study)
    assert (opened.spec.workload, opened.spec.cpus, opened.spec.probes) == ("open1", [2], ["metrics"])
    for record in opened.records():
        environment = record.environment
        assert (record.machine, environment["file"], environment["format"]) == (
            "imported", "open1.csv", "will-it-scale"
        )  # fmt: skip
        assert len(environment["sha256"]) == 64
    shown = bigiron("show", study).out
    assert "workload    open1, measured elsewhere" in shown and "imported: open1.csv (" in shown
    assert len(json.loads(bigiron("show", study, "--format", "json").out)["cells"]) == 4
    compared = bigiron("compare", study).out
    assert re.search(
        r"^ +1 +2  old +131,008 .*\n +new +156,410 .* 1\.194 .* undecided$", compared, re.MULTILINE
    )
    assert "`bigiron import` adds them" in compared
    answer = bigiron("run", study)
    assert (answer.status, answer.complaint) == (
        2,
        "figures that were measured elsewhere cannot be measured here: `bigiron import` adds more",
    )


def test_what_is_there_is_not_added_twice(tmp_path: Path) -> None:
    study = tmp_path / "s"
    imported("will-it-scale", OLD, study)
    assert refused("will-it-scale", OLD, study) == "open1.csv was already imported into s as open1"
    imported("will-it-scale", NEW, study)
    assert values(study, "processes") == [
        ("open1", 1, 1, 131008), ("open1", 1, 2, 156410), ("open1", 2, 1, 165257), ("open1", 2, 2, 122123)
    ]  # fmt: skip


def test_an_import_that_was_interrupted_is_completed(tmp_path: Path) -> None:
    study = tmp_path / "s"
    imported("will-it-scale", OLD, study)
    shutil.rmtree(study / "cells/open1-2cpus-2tasks-r1")
    assert imported("will-it-scale", OLD, study) == 1
    assert values(study, "processes") == [("open1", 1, 1, 131008), ("open1", 2, 1, 165257)]


@pytest.mark.parametrize("killed_at", ["add", "widen"])
def test_an_import_that_is_killed_can_be_repeated(killed_at: str, tmp_path: Path) -> None:
    """Whatever it has written by then: no cell is left that the study does not know of."""
    study = tmp_path / "s"
    imported("will-it-scale", OLD, study, variant="old")
    script = (
        "import os, sys\n"
        "from bigiron.cli import main\n"
        "from bigiron.study.store import Study\n"
        f"Study.{killed_at} = lambda *given, **named: os._exit(9)\n"
        f"sys.argv += ['import', 'will-it-scale', {str(NEW)!r}, '-o', {str(study)!r}, '--variant', 'new']\n"
        "main()"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert imported("will-it-scale", NEW, study, variant="new") == 2
    assert [row[:3] for row in values(study, "processes")] == [
        ("new", 1, 1), ("new", 2, 1), ("old", 1, 1), ("old", 2, 1)
    ]  # fmt: skip


def test_a_cell_of_which_its_study_does_not_know_is_imported_again(tmp_path: Path) -> None:
    study = tmp_path / "s"
    imported("will-it-scale", OLD, study, variant="old")
    before = (study / "study.toml").read_bytes()
    imported("will-it-scale", NEW, study, variant="new")
    (study / "study.toml").write_bytes(before)
    assert imported("will-it-scale", NEW, study, variant="new") == 2
    assert len(values(study, "processes")) == 4


def test_a_report_says_how_its_figures_are_imported_again(tmp_path: Path) -> None:
    for name, file in ("old", OLD), ("new one", NEW):
        shutil.copy(file, tmp_path / f"{name}.csv")
        imported("will-it-scale", tmp_path / f"{name}.csv", tmp_path / "my study", workload="open1", cpus=4)
    shutil.copy(FIGURES / "perf-bench-sched-pipe.txt", tmp_path / "pipe.txt")
    imported("perf-bench", tmp_path / "pipe.txt", tmp_path / "pipes", tasks=2)
    environment = os.environ | {"PATH": f"{BIGIRON.parent}:{os.environ['PATH']}"}
    for name in "my study", "pipes":
        report = bigiron("report", tmp_path / name, "--format", "markdown").out
        commands = report.partition("## Reproduce\n\n```\n")[2].partition("```")[0]
        assert "bigiron run" not in commands
        there, study = tmp_path / f"{name}, again", tmp_path / name
        there.mkdir()
        for file in tmp_path.glob("*.*"):
            shutil.copy(file, there)
        subprocess.run(["bash", "-ec", commands], cwd=there, env=environment, check=True, capture_output=True)
        again, before = library.open_study(there / name), library.open_study(study)
        assert again.spec == before.spec and again.tables("metrics").equals(before.tables("metrics"))
        assert (there / "report.html").exists()


def test_lkp_result_folders(tmp_path: Path) -> None:
    study = tmp_path / "s"
    for kernel in ("first", "second"):
        imported("lkp", FIGURES / "lkp" / kernel, study)
    assert [row[:3] for row in values(study, "throughput")] == [
        (kernel, 2, run) for kernel in ("first", "second") for run in (1, 2, 3)
    ]
    compared = json.loads(bigiron("compare", study, "--metric", "throughput", "--format", "json").out)
    assert [row["repetitions"] for row in compared["rows"]] == [3, 3]
    opened = library.open_study(study)
    assert (opened.spec.workload, opened.spec.cpus) == ("hackbench", [1])
    assert opened.records()[0].environment["said"]["compiler"] == "gcc-12"


def test_what_the_figures_do_not_say(tmp_path: Path) -> None:
    file, study = FIGURES / "perf-bench-sched-pipe.txt", tmp_path / "s"
    assert refused("perf-bench", file, study) == (
        f"{file.name} does not record the number of tasks: give --tasks N"
    )
    assert not study.exists()
    imported("perf-bench", file, study, tasks=2, cpus=1920)
    assert library.open_study(study).records()[0].id == "perf-bench-sched-pipe-1920cpus-2tasks-r1"


def test_what_does_not_belong_together(tmp_path: Path) -> None:
    study, other = tmp_path / "s", tmp_path / "getppid1.csv"
    imported("will-it-scale", OLD, study)
    shutil.copy(NEW, other)
    assert refused("will-it-scale", other, study) == (
        f"{study} has results of workload open1, these are of getppid1: give another folder with -o, "
        "or --workload open1"
    )
    assert "has results of format will-it-scale, these are of hackbench" in refused(
        "hackbench", FIGURES / "hackbench.txt", study
    )


def test_another_unit_of_the_same_metric(tmp_path: Path) -> None:
    hackbench = readers.find("hackbench")

    def add_in(unit: str, sha256: str) -> None:
        reading = Reading([Figure("time", unit, "less", 1, tasks=4)])
        source = ImportedSource(hackbench, f"{unit}.txt", sha256, reading)
        add(source, tmp_path / "s", variant=unit, workload=None, cpus=None, tasks=None)

    add_in("s", "1")
    with pytest.raises(UserError, match=r"ms\.txt: time has the unit 'ms', but in .*/s the unit 's'"):
        add_in("ms", "2")


def test_a_hostile_name_is_text(tmp_path: Path) -> None:
    log = tmp_path / "fxmark.log"
    log.write_text("## m:<script>alert(1)</script>:b:1:x\n# ncpu secs works works/sec\n1 1 1 5\n")
    imported("fxmark", log, tmp_path / "s")
    assert values(tmp_path / "s", "b, <script>alert(1)</script> on m, x") == [("fxmark", 1, 1, 5.0)]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"tasks,processes,processes_idle,threads,threads_idle,linear\n1,x,0,1,0,1\n",
         "{file}, line 2: processes is 'x', not a number"),
        (b"tasks,processes,processes_idle,threads,threads_idle,linear\n1,\xff,0,1,0,1\n",
         "{file}, line 2: this is not text"),
        (b"tasks,processes,processes_idle,threads,threads_idle,linear\n0,0,0,0,0,0\n",
         "old.csv has no results of will-it-scale: is it the CSV that will-it-scale's runtest.py prints?"),
    ],
)  # fmt: skip
def test_a_malformed_csv(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "old.csv").write_bytes(content)
    said = refused("will-it-scale", tmp_path / "old.csv", tmp_path / "s")
    assert said == complaint.format(file=tmp_path / "old.csv")
    assert not (tmp_path / "s").exists()


def test_what_is_no_file(tmp_path: Path) -> None:
    assert refused("will-it-scale", tmp_path, tmp_path / "s").endswith("Is a directory")
    assert refused("will-it-scale", Path("/dev/zero"), tmp_path / "s") == "/dev/zero: this is not a text file"
    assert "No such file" in refused("will-it-scale", tmp_path / "none", tmp_path / "s")
    assert refused("lkp", OLD, tmp_path / "s").endswith("this is not a folder")
    assert refused("lpk", OLD, tmp_path / "s").startswith("no format 'lpk': use one of ab, fio, ")
    assert "use at most 80 letters, digits" in refused("will-it-scale", OLD, tmp_path / "s", "\x1b[2J")
    answer = bigiron("import", "lkp", OLD, "-o", tmp_path / "s")
    assert (answer.status, answer.complaint) == (2, f"{OLD}: this is not a folder")
