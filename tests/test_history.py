"""A history: what it measures, what it does not measure again, what it reports and is compared with."""

import csv
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from conftest import BIGIRON, bigiron, wait_until
from test_setup import ROOT

from bigiron.errors import UserError
from bigiron.gate import against_history
from bigiron.history import collect, counting, derive, measure, points
from bigiron.history.collect import PROBES, PointCells
from bigiron.history.database import FILE, VERSION, History, create, open_history
from bigiron.history.derive import PointRows
from bigiron.history.records import (
    RECORDS,
    ChangeRecord,
    IdentityRecord,
    KernelRecord,
    LineRecord,
    LockRecord,
    PointRecord,
    PredictionRecord,
    ReferenceCountRecord,
    RefusalRecord,
    WorkloadRecord,
)
from bigiron.report import history as history_report
from bigiron.study import store
from bigiron.study.spec import Spec, Variant
from bigiron.util.english import plural
from bigiron.util.threads import StoppableThreads, StoppedError

OLD, NEW = "debian/6.1", "debian/6.12"
LABEL = "struct aa_label.count.count"


def add(history: Path, *arguments: str) -> str:
    """`bigiron history add`, which must end well; what it says at the end."""
    answer = bigiron("history", "add", *arguments, "-o", history)
    assert answer.status == 0, answer
    return answer.out


def shown(history: Path, *options: str) -> dict[str, Any]:
    answer = bigiron("history", "show", history, "--format", "json", *options)
    assert (answer.status, answer.err) == (0, ""), answer
    document: dict[str, Any] = json.loads(answer.out)
    return document


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """open1 on two kernels with 2, 3 and 4 CPUs, and getppid1 on one of them with 2. To be read: copy it."""
    folder = tmp_path_factory.mktemp("history") / "history"
    said = add(folder, OLD, NEW, "--workloads", "open1", "--cpus", "2,3,4")
    assert said.startswith("6 cells measured, 0 failed: "), said
    said = add(folder, NEW, "--workloads", "getppid1", "--cpus", "2")
    assert said.startswith("1 cell measured, "), said
    return folder


@pytest.fixture
def copied(history: Path, tmp_path: Path) -> Path:
    return shutil.copytree(history, tmp_path / "copied")


def dumped(history: Path) -> dict[str, list[tuple[object, ...]]]:
    """All tables, without the order of their rows and what numbers refer to each other by."""
    connection = sqlite3.connect(history / FILE)
    numbers = {"id", "point", "workload", "kernel", "identity", "line", "row", "before", "after"}
    found = {}
    for record in RECORDS:
        columns = [n for n in record.__struct_fields__ if n not in {*numbers, "line_before", "line_after"}]
        quoted = ", ".join(f'"{column}"' for column in columns)
        found[record.TABLE] = sorted(connection.execute(f"SELECT {quoted} FROM {record.TABLE}"), key=repr)
    return found


# How it is counted


def cells_of(history: Path) -> PointCells:
    """The point of open1 with most CPUs."""
    (study,) = history.glob("studies/open1/*")
    opened = store.open_study(study)
    return PointCells(opened, str(study.relative_to(history)), [opened.records()[-1]])


def test_a_process_counts_as_a_thread_does(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_SMALL", 0)
    cells = cells_of(history)
    there, here = counting.count(cells), collect.count(cells)
    assert (there.lines, there.locks, there.reference_counts) == (
        here.lines,
        here.locks,
        here.reference_counts,
    )


def test_a_process_that_counts_is_ended(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all is stopped; where the host has ended it, a line says so."""
    monkeypatch.setattr(counting, "_SMALL", 0)
    cells, before = cells_of(history), children()
    with StoppableThreads() as thread:
        thread.stop.set()
        with pytest.raises(StoppedError):
            thread.submit(counting.count, cells).result()
    assert children() <= before
    with ThreadPoolExecutor(1) as thread:
        counted = thread.submit(counting.count, cells)
        wait_until(lambda: bool(children() - before))
        for process in children() - before:
            os.kill(process, signal.SIGKILL)
        with pytest.raises(
            UserError, match=r"the process that counted .* was killed, perhaps because memory was"
        ):
            counted.result()


def children() -> set[int]:
    """Of this process."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(process) for each in lists for process in each.read_text().split()}


def test_what_a_process_cannot_count_is_reported(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_SMALL", 0)
    cells = cells_of(copied)
    (table,) = copied.glob(f"studies/open1/*/cells/{cells.records[0].id}/conflicts.parquet")
    table.write_bytes(b"")
    with pytest.raises(UserError, match=r"conflicts\.parquet has another checksum"):
        counting.count(cells)


# What it holds


def test_the_overview_has_every_workload_by_kernel(history: Path) -> None:
    document = shown(history)
    rows = {(row["workload"], row["cpus"]): row for row in document["workloads"]}
    assert set(rows) == {("open1", 2), ("open1", 3), ("open1", 4), ("getppid1", 2)}
    assert float(rows["open1", 4][OLD]) == pytest.approx(6.0, abs=0.2)  # ticks may add a little
    assert float(rows["open1", 4][NEW]) == pytest.approx(2.0, abs=0.2)
    assert rows["getppid1", 2][OLD] == "" and float(rows["getppid1", 2][NEW]) < 0.2
    label = [row for row in document["changes"] if row["name"] == LABEL]
    found = [(row["cpus"], row["how"], row["before"], row["after"]) for row in label if row["what"] == "line"]
    assert sorted(found) == [(n, "less", 6.0, 2.0) for n in (2, 3, 4)]
    assert not document["notes"]


def test_a_workload_an_object_and_a_kernel(history: Path) -> None:
    workload = shown(history, "--workload", "open1")
    assert {(row["cpus"], row["kernel"]) for row in workload["points"]} == {
        (cpus, kernel) for cpus in (2, 3, 4) for kernel in (OLD, NEW)
    }
    growth = {(row["kernel"], row["what"]): row for row in workload["growth"]}
    assert growth[OLD, "lines"]["law"] == "constant"
    assert 6 <= float(growth[OLD, "lines"]["formula"]) < 6.1
    limited = [row for row in workload["predictions"] if row["tasks"] == 256 and row["kernel"] == OLD]
    assert len(limited) == 2 and all("aa_label" in row["limited by"] for row in limited)
    object = shown(history, "--object", "struct aa_label.count")
    assert {(row["workload"], row["cpus"]) for row in object["lines"]} == {("open1", n) for n in (2, 3, 4)}
    assert shown(history, "--object", "struct aa_label")["lines"]
    kernel = shown(history, "--kernel", NEW)
    assert OLD in kernel["title"] and any(row["name"] == LABEL for row in kernel["changes"])
    assert not shown(history, "--kernel", OLD)["changes"]


def test_every_format(history: Path) -> None:
    for view in (), ("--workload", "open1"), ("--object", "struct aa_label"), ("--kernel", NEW):
        said = {
            format: bigiron("history", "show", history, "--format", format, *view).out
            for format in ("text", "markdown", "csv")
        }
        assert "open1" in said["text"] and said["markdown"].startswith("# ")
        rows = list(csv.reader(io.StringIO(said["csv"])))
        assert len(rows) > 1 and len({len(row) for row in rows}) == 1


def test_the_records_hold_together(history: Path) -> None:
    opened = open_history(history)
    lines = {line.id: line for line in opened.select(LineRecord)}
    rows = [line.row for line in lines.values() if line.object == LABEL and not line.pair]
    assert (len(rows), len(set(rows))) == (6, 3)  # the same line on both kernels, at each number of CPUs
    for change in opened.select(ChangeRecord, what="line"):
        for line in filter(None, (change.line_before, change.line_after)):
            assert lines[line].object
    chains = opened._connection.execute(
        "SELECT line, SUM(accesses_per_op), COUNT(*) FROM chain GROUP BY line"
    ).fetchall()
    for line, accesses, number in chains:
        whole = pytest.approx(lines[line].accesses_per_op, rel=0.05, abs=0.01)
        assert number <= collect._MOST_CHAINS
        assert accesses == whole if number < collect._MOST_CHAINS else accesses <= whole.expected * 1.05
    (identity,) = {(i.recorder, i.qemu, i.time_slice) for i in opened.select(IdentityRecord)}
    assert re.fullmatch("[0-9a-f]{32}", identity[0])
    for point in opened.select(PointRecord):
        assert all((history / cell / "cell.json").is_file() for cell in point.cells)


def test_the_command_of_a_point_counts_the_same(history: Path, tmp_path: Path) -> None:
    kept = open_history(history)
    point = next(p for p in kept.select(PointRecord, cpus=2) if p.accesses_per_op > 5)
    (line,) = (
        line for line in kept.select(LineRecord, point=point.id) if line.object == LABEL and not line.pair
    )
    words = point.command.split()
    assert (words[:2], words[-2:]) == (["bigiron", "run"], ["-o", "s"])
    assert bigiron("run", *words[2:-1], tmp_path / "s").status == 0
    compared = json.loads(bigiron("compare", tmp_path / "s", "--format", "json").out)
    label = next(row for row in compared["rows"] if row["object"] == LABEL)
    assert label["cells"][OLD]["accesses_per_op"] == pytest.approx(line.accesses_per_op, abs=0.01)


# What is measured, and what is not measured again


def test_what_is_there_is_not_measured_again(copied: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in copied.glob("studies/*/*/cells/*/*")}
    assert add(copied, OLD, NEW, "--workloads", "open1", "--cpus", "2,3,4").startswith("0 cells measured")
    assert {path: path.stat().st_mtime_ns for path in copied.glob("studies/*/*/cells/*/*")} == before


def test_one_more_kernel_measures_its_own_cells_only(copied: Path) -> None:
    assert add(copied, OLD, "--workloads", "getppid1", "--cpus", "2").startswith("1 cell measured")
    (row,) = [row for row in shown(copied)["workloads"] if row["workload"] == "getppid1"]
    assert row[OLD] and row[NEW]


def test_the_database_is_made_again_from_the_studies(copied: Path) -> None:
    before = dumped(copied)
    (copied / FILE).unlink()
    assert add(copied, NEW, "--workloads", "getppid1", "--cpus", "2").startswith("0 cells measured")
    assert dumped(copied) == before


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "history"
    arguments = (
        "history",
        "add",
        OLD,
        "--workloads",
        "getppid1",
        "--cpus",
        "1,2",
        "--jobs",
        "1",
        "-o",
        folder,
    )
    process = subprocess.Popen([BIGIRON, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: process.poll() is not None or list(folder.glob("studies/*/*/cells/debian*")))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    there = len(list(folder.glob("studies/*/*/cells/debian*")))
    answer = bigiron(*arguments)
    assert answer.status == 0 and answer.out.startswith(f"{plural(2 - there, 'cell')} measured"), answer
    assert len(open_history(folder).select(PointRecord)) == 2


def test_a_cell_that_failed_stands_there_and_is_tried_again(copied: Path) -> None:
    (cell,) = copied.glob("studies/getppid1/*/cells/*")
    record = json.loads((cell / "cell.json").read_bytes())
    record |= {"tables": {}, "failure": {"kind": "machine", "reason": "the kernel crashed"}}
    (cell / "cell.json").write_text(json.dumps(record))
    (copied / FILE).unlink()
    add(copied, NEW, "--workloads", "open1", "--cpus", "2")
    document = shown(copied)
    (row,) = [row for row in document["workloads"] if row["workload"] == "getppid1"]
    assert row[NEW] == "failed" and document["notes"] == [f"getppid1 on {NEW}, 2 CPUs: the kernel crashed"]
    assert add(copied, NEW, "--workloads", "getppid1", "--cpus", "2").startswith("1 cell measured")
    assert not shown(copied)["notes"]


def by_another_recorder(history: Path, kernel: str, workload: str) -> None:
    """Make it look as if another recorder had measured a workload on a kernel, long ago."""
    (study,) = (history / "studies" / workload).iterdir()
    other = study.with_name("0" * 12)
    shutil.copytree(study, other)
    for folder, theirs in (study, False), (other, True):
        for cell in (folder / "cells").iterdir():
            record = json.loads((cell / "cell.json").read_bytes())
            if (record["variant"] == kernel) is not theirs:
                shutil.rmtree(cell)
            elif theirs:
                record["environment"]["recorder"], record["started"] = "0" * 32, "2020-01-01T00:00:00+00:00"
                (cell / "cell.json").write_text(json.dumps(record))
    (history / FILE).unlink()


def test_what_another_recorder_counted_is_marked_and_measured_again(copied: Path) -> None:
    by_another_recorder(copied, OLD, "open1")
    add(copied, NEW, "--workloads", "open1", "--cpus", "2")
    document = shown(copied)
    rows = {row["cpus"]: row for row in document["workloads"] if row["workload"] == "open1"}
    assert all(row[OLD].endswith("*") and not row[NEW].endswith("*") for row in rows.values())
    assert not document["changes"] and f"`bigiron history add {OLD}`" in document["notes"][0]
    assert add(copied, OLD, "--workloads", "open1", "--cpus", "2").startswith("1 cell measured")
    rows = {row["cpus"]: row for row in shown(copied)["workloads"] if row["workload"] == "open1"}
    assert not rows[2][OLD].endswith("*") and rows[4][OLD].endswith("*")
    assert {change.cpus for change in open_history(copied).select(ChangeRecord)} == {2}


def test_a_fleet_measures_the_same(history: Path, tmp_path: Path) -> None:
    folder = tmp_path / "history"
    add(folder, NEW, "--workloads", "getppid1", "--cpus", "2", "--fleet", "local:1")
    (row,) = shown(folder)["workloads"]
    (here,) = [row for row in shown(history)["workloads"] if row["workload"] == "getppid1"]
    assert float(row[NEW]) == pytest.approx(float(here[NEW]), abs=0.2)


# A history as a gate


def test_more_than_the_kernel_before_fails(copied: Path) -> None:
    (study,) = (copied / "studies/open1").iterdir()
    with create(copied)._connection as connection:  # as if the kernel before had a sixth of what it has
        connection.execute("UPDATE held SET per_op = per_op / 6, least = least / 6, most = most / 6")
    answer = bigiron("check", study, "--history", copied, "--format", "json")
    assert answer.status == 1
    states = {(p["point"], p["against"]): p["state"] for p in json.loads(answer.out)["points"]}
    assert states == {
        (f"{NEW}, {n} CPUs, {n} tasks", f"{OLD}, {n} CPUs, {n} tasks"): "worse" for n in (2, 3, 4)
    } | {(f"{OLD}, {n} CPUs, {n} tasks", ""): "skipped" for n in (2, 3, 4)}
    comment = bigiron("check", study, "--history", copied / FILE, "--format", "comment")
    assert (
        comment.status == 1
        and "| `struct aa_label` | " in comment.out
        and "2.000 | 1.000 | 1.5" in comment.out
    )
    junit = ElementTree.fromstring(bigiron("check", study, "--history", copied, "--format", "junit").out)
    assert int(junit.attrib["failures"]) == 6  # the label and all work, at three numbers of CPUs
    ktap = bigiron("check", study, "--history", copied, "--format", "ktap").out
    assert ktap.count("not ok") == 9 and ktap.startswith("KTAP version 1\n1..6\n")


def test_a_kernel_is_not_compared_with_newer_ones(copied: Path) -> None:
    (study,) = (copied / "studies/getppid1").iterdir()
    with create(copied)._connection as connection:
        connection.execute("UPDATE kernel SET release = '99.' || release, sha256 = 'another' || id")
    answer = bigiron("check", study, "--history", copied)
    assert answer.status == 2 and "only has kernels newer" in answer.complaint


def test_a_workload_that_has_not_changed_passes(history: Path) -> None:
    (study,) = (history / "studies/getppid1").iterdir()
    answer = bigiron("check", study, "--history", history)
    assert answer.status == 0 and answer.out.startswith("ok "), answer


def test_what_the_history_cannot_be_compared_with_is_refused(copied: Path) -> None:
    (study,) = (copied / "studies/open1").iterdir()
    with create(copied)._connection as connection:
        connection.execute("UPDATE identity SET recorder = 'another'")
    answer = bigiron("check", study, "--history", copied)
    assert answer.status == 2 and "recorder another" in answer.complaint
    with create(copied)._connection as connection:
        connection.execute("UPDATE workload SET name = 'other' WHERE name = 'open1'")
    answer = bigiron("check", study, "--history", copied)
    assert answer.status == 2 and "has no counts of open1 at 2 CPUs" in answer.complaint


# Values in, values out


def line(row: int, object: str, accesses: float, writes: float = 0.0, spread: float = 0.0) -> LineRecord:
    return LineRecord(
        id=row, point=0, row=row, object=object, kind=object, pair=False, accesses_per_op=accesses,
        writes_per_op=writes, least_accesses=accesses - spread, most_accesses=accesses + spread,
        least_writes=writes, most_writes=writes, writers=2, readers=2, false_sharing=False, sharing={},
        functions={"f": accesses},
    )  # fmt: skip


def point(kernel: int, instructions: float = 1000.0, accesses: float = 0.0) -> PointRecord:
    return PointRecord(
        id=kernel, workload=1, kernel=kernel, cpus=8, tasks=8, identity=1, current=True, repetitions=1,
        accesses_per_op=accesses, writes_per_op=0.0, shared_lines=1, instructions_per_op=instructions,
        lost={}, measured="", seconds=0.0, bigiron="", cells=[], command="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("was", "now", "how"),
    [
        ([line(1, "a", 6.0)], [line(1, "a", 2.0)], [("a", "less")]),
        ([line(1, "a", 6.0)], [line(1, "a", 6.06)], []),  # 1 %
        ([line(1, "a", 6.0)], [line(1, "a", 6.2)], [("a", "more")]),
        ([line(1, "a", 6.0, spread=0.2)], [line(1, "a", 6.2)], []),  # its repetitions differ by as much
        ([], [line(2, "b", 1.0)], [("b", "new")]),
        ([line(2, "b", 1.0)], [], [("b", "gone")]),
        ([], [line(2, "b", 0.05)], []),
        ([line(1, "a", 6.0, 2.0)], [line(1, "a", 6.0, 3.0)], [("a", "more")]),  # writes
        ([line(3, "struct slab.freelist", 1.0)], [line(3, "struct slab.freelist", 1.9)], []),  # by chance
    ],
)
def test_what_is_a_change(was: list[LineRecord], now: list[LineRecord], how: list[tuple[str, str]]) -> None:
    found = derive.changes(PointRows(point(1), was, []), PointRows(point(2), now, []))
    assert [(change.name, change.how) for change in found] == how


def test_a_line_whose_functions_have_other_names_now_is_the_same_line() -> None:
    def touched(number: int, object: str, by: str, accesses: float) -> LineRecord:
        return msgspec.structs.replace(line(number, object, accesses), functions={by: accesses})

    was = [touched(1, "struct lruvec.flags", "old_name", 9.0), touched(2, "struct page", "f", 5.0)]
    now = [touched(3, "struct lruvec.flags", "new_name", 8.0), touched(4, "struct page", "f", 5.0)]
    now += [touched(5, "struct page", "g", 1.0)]
    found = [{at: line.id for at, line in row.items()} for row in derive.matched([was, now])]
    assert sorted(found, key=str) == [{0: 1, 1: 3}, {0: 2, 1: 4}, {1: 5}]


def test_totals_and_locks_change_too() -> None:
    lock = LockRecord(
        point=1, name="struct zone.lock", taken_by="spin_lock", acquisitions_per_op=1.0, held_per_op=9.0,
        longest=9, cpus=2, locks=1, taken_in=["rmqueue"],
    )  # fmt: skip
    own = msgspec.structs.replace(lock, name="struct mm_struct.mmap_lock", cpus=1)
    found = derive.changes(
        PointRows(point(1, 1000.0, 4.0), [], [lock, own]), PointRows(point(2, 1040.0, 3.0), [], [])
    )
    assert [(one.what, one.name, one.how) for one in found] == [
        ("lines", "", "less"), ("instructions", "", "more"), ("lock", "struct zone.lock", "gone")
    ]  # fmt: skip


def held(per_op: float, spread: float = 0.0) -> ReferenceCountRecord:
    return ReferenceCountRecord(
        point=0, what="object", name="a", unit="writes", per_op=per_op, least=per_op - spread,
        most=per_op + spread, functions={"f": per_op},
    )  # fmt: skip


def test_what_a_history_allows() -> None:
    for kernels, most, varies in (
        ([held(6.0), held(6.0), held(2.0)], 2.0, 0.0),
        ([held(6.0), held(7.0), held(6.2)], 6.2, 0.8),
        ([held(6.0, spread=1.0)], 7.0, 2.0),
    ):
        (known,) = against_history._known([[kernel] for kernel in kernels])
        assert (known.most, known.varies) == (most, varies)


def test_a_kernel_that_refuses_a_workload_stands_there_with_the_reason(tmp_path: Path) -> None:
    opened = create(tmp_path)
    with opened.writing():
        points.kernel(opened, OLD, "6.1.0", "", "x86_64", "a")
        points.kernel(opened, NEW, "6.12.0", "", "x86_64", "b")
    spec = Spec(workload="open1", fs="f2fs", variant=[Variant(name=OLD, kernel=OLD)])
    for reason in "no f2fs", "still no f2fs":
        points.refuse(opened, spec, {OLD: reason})
    (refusal,) = opened.select(RefusalRecord)
    assert (refusal.cpus, refusal.kind, refusal.reason) == (0, "input", "still no f2fs")
    view = history_report.overview(opened)
    assert view.sections[0].rows.rows == [("open1@f2fs", "any", "not supported", "")]
    assert view.notes == [f"open1@f2fs on {OLD}: still no f2fs"]
    points.refuse(opened, spec, {})
    assert not opened.select(RefusalRecord)


def test_cells_that_something_else_measured_are_a_point_of_their_own(tmp_path: Path) -> None:
    alike = {
        "workload_sha256": "", "recorder": "a", "qemu": "", "accelerator": "", "time_slice": "",
        "memory_mib": 1, "sockets": 1, "nodes": 1, "cores": 64, "threads": 1,
        "kernel_release": "", "kernel_version": "", "kernel_sha256": "", "arch": "x86_64",
    }  # fmt: skip
    made_by: list[dict[str, object]] = [{}, {}, {"recorder": "b"}, {"clock_slower": 128}]
    records = [
        store.CellRecord(
            id=str(number), variant=OLD, machine="vm", cpus=64, tasks=64, repetition=number,
            environment=alike | other, tables=dict.fromkeys(PROBES, store.TableFile("", "")),
        )
        for number, other in enumerate(made_by)
    ]  # fmt: skip

    class Measured(store.Study):
        def records(self, change: str = "") -> list[store.CellRecord]:
            return records

    study = Measured(tmp_path, Spec(workload="open1", variant=[Variant(name=OLD, kernel=OLD)]))
    found = sorted([record.id for record in cells.records] for cells in points._cells(study, "s"))
    assert found == [["0", "1"], ["2"], ["3"]]
    plain, slower = (collect.identity(study, records[number]) for number in (0, 3))
    assert (plain.clock, slower.clock) == ("host", "host, 128 times slower")


def test_points_of_many_cpus_with_and_without_a_slowed_clock_are_no_line() -> None:
    """By how much it is slowed follows from the CPUs; that it is does not."""
    clocks = {1: "host", 2: "host", 3: "host, 64 times slower", 4: "host, 128 times slower"}
    identities = {
        number: IdentityRecord(
            id=number, workload_sha256="", recorder="", qemu="", accelerator="", architecture="x86_64",
            mode="", operations=1, time_slice="", clock=clock,
            memory_mib=number, sockets=1, nodes=1, cores=number,
            threads=1, cgroup="none", fs="",
        )
        for number, clock in clocks.items()
    }  # fmt: skip

    def made(*points: tuple[int, int]) -> list[PointRecord]:
        return [
            msgspec.structs.replace(point(1), id=number, identity=number, cpus=cpus)
            for number, cpus in points
        ]

    def apart(*points: tuple[int, int]) -> list[list[int]]:
        found = derive.by_measurement_setup(made(*points), identities)
        return [[point.cpus for point in each] for each in found.values()]

    assert apart((1, 8), (3, 32), (4, 64)) == [[8, 32, 64]]
    assert apart((1, 8), (2, 32)) == [[8, 32]]
    assert apart((1, 8), (2, 32), (4, 64)) == [[32], [8, 64]]
    (step,) = derive.clock_steps(made((1, 8), (3, 32), (4, 64)), identities)
    rates = (
        "the guest clock was the host's at 8 CPUs, 64 times slower at 32 CPUs, 128 times slower at 64 CPUs: "
    )
    assert step.startswith(rates)
    assert not derive.clock_steps(made((1, 8), (4, 64)), identities)  # two have no growth law


def test_kernels_stand_in_the_order_of_their_releases(tmp_path: Path) -> None:
    opened = create(tmp_path)
    with opened.writing():
        for number, release in enumerate(("6.12.1", "5.10.0", "6.1.0", "7.0.0-rc1", "7.0.0")):
            points.kernel(opened, f"k{number}", release, "", "x86_64", str(number))
    ordered = sorted(opened.select(KernelRecord), key=lambda kernel: kernel.position)
    assert [kernel.release for kernel in ordered] == ["5.10.0", "6.1.0", "6.12.1", "7.0.0-rc1", "7.0.0"]
    with pytest.raises(UserError, match="another image of k0"), opened.writing():
        points.kernel(opened, "k0", "6.12.1", "", "x86_64", "other")


def test_by_default_a_named_list_of_workloads_is_measured() -> None:
    names = [asked.name for asked in measure.chosen([])]
    assert len(names) == len(set(names)) and not any("hotplug" in name or "smt" in name for name in names)
    assert {"open1", "fxmark/DWAL", "fxmark/DWAL@ext4", "fxmark/DWAL@btrfs", "spin"} <= set(names)
    assert not any(name.startswith("unixbench") for name in names) and "read2" not in names
    assert len(names) == 107 and [one.name for one in measure.chosen(measure._BY_DEFAULT)] == names
    assert "unixbench/pipe" in [asked.name for asked in measure.chosen(["unixbench/*"])]


# Bad input


def refused(*arguments: str | Path) -> str:
    answer = bigiron(*arguments)
    assert (answer.status, answer.out) == (2, ""), answer
    return answer.complaint


def test_a_history_that_cannot_be_read(tmp_path: Path) -> None:
    assert "is not a history" in refused("history", "show", tmp_path)
    (tmp_path / "text").write_text("no database " * 100)
    assert "cannot be used" in refused("history", "show", tmp_path / "text")
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (a)")
    assert "is not a history" in refused("history", "show", tmp_path / "other")
    opened = create(tmp_path)
    assert "has no kernels yet" in refused("history", "show", tmp_path)
    with opened._connection as connection:
        connection.execute(f"UPDATE schema SET version = {VERSION + 1}")
    assert f"has version {VERSION + 1}, this bigiron reads {VERSION}" in refused("history", "show", tmp_path)


def test_a_damaged_row_is_one_line(tmp_path: Path) -> None:
    opened = create(tmp_path)
    with opened._connection as connection:
        connection.execute("INSERT INTO kernel VALUES (1, 'k', '6.1', '', 'x86_64', 'a', 'first')")
    assert "cannot be used" in refused("history", "show", tmp_path)


def test_a_damaged_byte_is_one_line(tmp_path: Path) -> None:
    create(tmp_path)._connection.close()
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE kernel", b"CREATE\xa0TABLE kernel"))
    assert "cannot be used" in refused("history", "show", tmp_path)


@pytest.mark.parametrize(
    "made_up",
    [
        "DROP TABLE kernel; CREATE VIEW kernel AS WITH RECURSIVE n(id) AS "
        "(SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, id AS name FROM n",
        "ALTER TABLE kernel ADD COLUMN more TEXT AS (hex(id))",
        "CREATE VIRTUAL TABLE more USING fts5(a)",
    ],
)
def test_a_file_that_makes_up_its_rows_is_no_history(made_up: str, tmp_path: Path) -> None:
    create(tmp_path)._connection.executescript(made_up).connection.close()
    assert "is not a history" in refused("history", "show", tmp_path)


def test_two_kernels_of_one_name_are_one_line(tmp_path: Path) -> None:
    opened = create(tmp_path)
    with opened._connection as connection:
        for number in (1, 2):
            connection.execute(f"INSERT INTO kernel VALUES ({number}, 'k', '6.1', '', 'x86_64', 'a', 0)")
    assert "is damaged: two rows of kernel have the same name" in refused("history", "show", tmp_path)


def test_a_row_of_what_is_not_there_is_one_line(tmp_path: Path) -> None:
    opened = create(tmp_path)
    with opened.writing():
        points.kernel(opened, OLD, "6.1.0", "", "x86_64", "a")
        opened.add(RefusalRecord(workload=9, kernel=1, cpus=0, kind="input", reason="none"))
    assert "is damaged: a refusal refers to a workload" in refused("history", "show", tmp_path)


def test_a_writer_that_was_killed_is_undone_by_a_reader(tmp_path: Path) -> None:
    with create(tmp_path).writing():
        pass
    program = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN")
for number in range(999):
    connection.execute("INSERT INTO kernel VALUES (?, ?, '', '', '', '', 0)", (number, "k" * 999))
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", program, tmp_path / FILE], check=False)
    assert (tmp_path / f"{FILE}-journal").stat().st_size
    assert open_history(tmp_path).select(KernelRecord) == []


def test_a_name_that_steers_a_terminal_is_written_out(tmp_path: Path) -> None:
    opened = create(tmp_path)
    with opened.writing():
        points.kernel(opened, "k\x1b[31m", "6.1", "", "x86_64", "a")
    assert opened.select(KernelRecord)[0].name == r"k\x1b[31m"


def test_what_a_history_lacks(history: Path) -> None:
    assert "has no workload 'open9'" in refused("history", "show", history, "--workload", "open9")
    assert "has no kernel 'debian/9'" in refused("history", "show", history, "--kernel", "debian/9")
    assert "shares a cache line of 'struct none'" in refused(
        "history", "show", history, "--object", "struct none"
    )
    both = refused("history", "show", history, "--kernel", NEW, "--workload", "open1")
    assert both == "give one of --workload, --object and --kernel"


def test_what_cannot_be_added(history: Path, tmp_path: Path) -> None:
    add = ("history", "add")
    assert "matches no workload" in refused(*add, OLD, "--workloads", "open9", "-o", tmp_path / "h")
    assert "no kernel 'linux'" in refused(*add, "linux", "-o", tmp_path / "h")
    assert "--cpus 'x'" in refused(*add, OLD, "--cpus", "x", "-o", tmp_path / "h")
    assert "cpus = 0" in refused(*add, OLD, "--cpus", "0", "-o", tmp_path / "h")
    assert not (tmp_path / "h").exists()
    (tmp_path / "file").write_text("mine")
    assert "is not a history" in refused(*add, OLD, "-o", tmp_path)
    with create(shutil.copytree(history, tmp_path / "other"))._connection as connection:
        connection.execute("UPDATE kernel SET architecture = 'ppc64le'")
    here = ("--workloads", "getppid1", "--cpus", "2", "-o", tmp_path / "other")
    said = refused(*add, OLD, *here)
    assert "kernels for ppc64le, but these are for x86_64" in said


def test_a_study_that_is_none_of_a_history_s(copied: Path) -> None:
    (cell,) = copied.glob("studies/getppid1/*/cells/*")
    record = json.loads((cell / "cell.json").read_bytes())
    del record["environment"]["qemu"]
    (cell / "cell.json").write_text(json.dumps(record))
    (copied / FILE).unlink()
    said = refused("history", "add", NEW, "--workloads", "getppid1", "--cpus", "2", "-o", copied)
    assert f"is not a study of a history ({cell.name}: Object missing required field `qemu`)" in said


def test_what_is_counted_is_not_counted_again(copied: Path) -> None:
    (copied / FILE).unlink()
    opened = create(copied)
    assert not points.whole(opened)
    for study in points.studies(copied):
        found = points.count(copied, study, points.whole(opened))
        assert found
        points.update(opened, copied, study, found)
        assert not points.count(copied, study, points.whole(opened))
    assert points.whole(opened) == {tuple(point.cells) for point in opened.select(PointRecord)}


def test_a_fault_of_bigiron_is_not_blamed_on_the_user_s_files(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(_cells: PointCells) -> collect.PointCounts:
        raise KeyError("a name that was mistyped")

    monkeypatch.setattr(collect, "count", faulty)
    monkeypatch.setattr(counting, "_SMALL", 1 << 40)
    for study in points.studies(copied):
        with pytest.raises(KeyError, match="mistyped"):
            points.count(copied, study, set())
        (copied / FILE).unlink(missing_ok=True)
        with pytest.raises(KeyError, match="mistyped"):
            points.update(create(copied), copied, study, {})
    opened = create(copied)
    with pytest.raises(TypeError), opened.writing():
        raise TypeError
    with pytest.raises(sqlite3.ProgrammingError), opened.writing():
        opened._connection.execute("SELECT ?", ())


# Documentation


def test_the_page_names_every_table_and_column() -> None:
    page = (ROOT / "docs/reference/history-database.md").read_text()
    for record in RECORDS:
        (row,) = re.findall(rf"^\| `{record.TABLE}` \|.*$", page, re.MULTILINE)
        assert re.findall(r"`(\w+)`", row.split("|")[3]) == list(record.__struct_fields__), record.TABLE


def test_a_prediction_is_of_the_point_with_the_most_cpus(history: Path) -> None:
    opened: History = open_history(history)
    workload = opened.find(WorkloadRecord, name="open1")
    assert workload
    for predicted in opened.select(PredictionRecord, workload=workload.id):
        (of,) = opened.select(PointRecord, id=predicted.point)
        assert of.cpus == 4 and predicted.low <= predicted.relative <= predicted.high
