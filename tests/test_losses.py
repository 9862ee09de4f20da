"""What a cell should hold and does not: counted, kept, and shown wherever the cell's figures are."""

import doctest
import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import bigiron
from test_compare import OLD
from test_growth import of_cpus

from bigiron import probes, workloads
from bigiron.analysis.comparison.model import Options
from bigiron.errors import UserError
from bigiron.probes import ProbeTable
from bigiron.report import growth
from bigiron.report.compare.dispatch import comparison_of
from bigiron.report.explain.csv_json import as_json
from bigiron.report.explain.text import explanation
from bigiron.report.study import mail, markdown
from bigiron.results.growth import growth_study
from bigiron.study import store
from bigiron.study.environment import SameMachine, refuse_another_machine
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
        study.add(record, {"conflicts": ProbeTable(OLD, facts, {NO_ROOM: 42 if lost else 0})})
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


def edited(study: Path, variant: str, old: str, new: str) -> None:
    """Change the records of a variant's cells."""
    for file in (study / "cells").glob(f"{variant}-*/cell.json"):
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))


def test_counts_of_different_recorders_are_reported(study: Path) -> None:
    edited(study, "old", '"bigiron": "1"', '"bigiron": "1", "recorder": "3fa9", "qemu": "10.0.2"')
    edited(study, "new", '"bigiron": "1"', '"bigiron": "1", "recorder": "77c1", "qemu": "10.0.2"')
    said = "counted with different recorders (3fa9 on old, 77c1 on new): measure again with a new -o"
    (unlike,) = json.loads(bigiron("compare", study, "--format", "json").out)["unlike"]
    assert unlike["unlike"] == said
    for shown in bigiron("compare", study).out, bigiron("explain", study).out:
        assert said.lower() in " ".join(shown.split()).lower()


@pytest.mark.parametrize("what", ["qemu", "recorder", "guest", "instructions_per_ns"])
def test_cells_of_another_recorder_are_refused(what: str, study: Path) -> None:
    edited(study, "old", '"bigiron": "1"', f'"bigiron": "1", "{what}": "3fa9"')
    edited(study, "new", '"bigiron": "1"', f'"bigiron": "1", "{what}": "3fa9"')
    opened = store.open_study(study)
    cell = opened.plan()[0]
    same = SameMachine(opened).of(cell)
    known = dict.fromkeys(("time_slice", "memory_mib", "cgroup"), "unknown")
    refuse_another_machine(store.new_record(cell, "vm", {**known, what: "3fa9"}), same)
    refuse_another_machine(store.new_record(cell, "vm", known), same)  # a probe that has no recorder
    with pytest.raises(UserError, match=f"measured with {what} 3fa9 and this one with 77c1"):
        refuse_another_machine(store.new_record(cell, "vm", {**known, what: "77c1"}), same)


def test_a_probe_without_a_table_is_left_out_of_a_report(study: Path) -> None:
    """Accesses of each object, which only `bigiron layout` shows."""
    for file in (study / "study.toml", *study.glob("cells/*/cell.json"), *study.glob("cells/*/*.parquet")):
        if file.suffix == ".parquet":
            file.rename(file.with_name("layout.parquet"))
        else:
            file.write_text(file.read_text().replace("conflicts", "layout"))
    advice = f"layout has no table: see `bigiron layout {study} 'struct NAME'`"
    answer = bigiron("compare", study)
    assert (answer.status, answer.complaint) == (2, advice)
    for format in "mail", "markdown", "html":
        answer = bigiron("report", study, "--format", format, "-o", study.parent / format)
        assert (answer.status, answer.err) == (0, "")
        assert "bigiron layout s 'struct NAME'" in html.unescape((study.parent / format).read_text())
    assert [one.name for one in probes.probes() if not one.is_comparable] == ["layout"]


def test_c2c_without_a_cell_of_the_base_shows_another_variant(study: Path) -> None:
    for cell in (study / "cells").glob("old-*"):
        shutil.rmtree(cell)
    answer = bigiron("compare", study, "--format", "c2c")
    assert answer.status == 0 and answer.out.startswith("# What bigiron counted: getppid1 on new, 2 CPUs")


def test_programs_find_the_caveats_of_explain_too(study: Path) -> None:
    for format in "json", "csv":
        answer = bigiron("explain", study, "--format", format)
        assert answer.status == 0 and all(one in answer.out + answer.err for one in SENTENCES)
    assert answer.err.splitlines()[0].startswith("bigiron: ")


@pytest.mark.parametrize("format", growth.FORMATS)
def test_growth_has_losses_in_every_format(format: str, tmp_path: Path) -> None:
    grown = of_cpus(tmp_path / "s", {4: 1, 8: 1, 16: 1})
    told = growth_study(grown)
    tables = [replace(table, lost=7) for table in told.tables]
    assert "7" in re.findall(
        r"(?:lost |lost\": |,)(\d+)", growth.FORMATS[format](replace(told, tables=tables))
    )
    edited(grown.folder, "v", '"lost": {}', f'"lost": {{"{DAMAGED}": 7}}')
    assert f"v: 21 lost: {DAMAGED}" in " ".join(growth.FORMATS[format](growth_study(grown)).split())


def test_what_limits_a_program_without_a_difference_is_in_json(study: Path) -> None:
    opened = store.open_study(study)
    found = explanation(opened, Options("old"))
    document = json.loads(as_json(replace(found, alone=found)))
    assert document.pop("alone") == document == json.loads(as_json(found))


@pytest.mark.parametrize(
    ("rows", "hidden", "said"), [(3, 15, "15 more ("), (3, 40, "40 more ("), (35, 1, "6 more (")]
)
def test_reports_count_the_rows_that_they_leave_out(rows: int, hidden: int, said: str, study: Path) -> None:
    (table,) = comparison_of(store.open_study(study), "conflicts", Options("old")).points
    table = replace(table, rows=(table.rows[0],) * rows, hidden=hidden)
    assert said in markdown._table(table)
    (left,) = [line for line in mail._table(table, "new") if " more (" in line]
    assert left.startswith(f"{table.left_out(mail._ROWS)} more (")
    assert table.left_out(30) == int(said.split()[0])
