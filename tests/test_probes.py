"""A probe is one record: what is documented of each, and one from a file of its own shows up everywhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from conftest import SAFETY_NET_S, Answer

from bigiron import probes
from bigiron.probes import Probe, ProbeOptions, ProbeTable, register
from bigiron.study import store
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import CellRecord

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLE = Path(__file__).with_name("example_probe.py")
TYPES = {"u8": pl.UInt8, "u32": pl.UInt32, "u64": pl.UInt64, "f64": pl.Float64, "string": pl.String}
TYPES |= {f"list of {name}": pl.List(kind) for name, kind in TYPES.items()}

every_probe = pytest.mark.parametrize("probe", probes.probes(), ids=lambda probe: probe.name)


def documented(probe: str) -> dict[str, tuple[str, str]]:
    """Type and unit of each column, as docs/reference/schema.md has them."""
    page = (DOCS / "reference/schema.md").read_text()
    section = page.split(f"\n## `{probe}.parquet`\n")[1].split("\n## ")[0]
    heading, _, *rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"
    ]
    columns = {}
    for row in rows:
        here = dict(zip(heading, row, strict=True))
        names = re.findall("`(.+?)`", here["column"])
        types, units = (here.get(what, "").split(", ") for what in ("type", "unit"))
        for number, name in enumerate(names):
            kind, unit = (each[number] if len(each) > 1 else each[0] for each in (types, units))
            columns[name] = kind, unit.strip("-")
    return columns


@every_probe
def test_its_columns_and_their_units_are_documented(probe: Probe) -> None:
    found = documented(probe.name)
    assert {name: TYPES[kind] for name, (kind, _) in found.items()} == dict(probe.columns)
    assert {name: unit for name, (_, unit) in found.items() if unit} == dict(probe.units)


@every_probe
def test_it_is_in_the_list_of_probes(probe: Probe) -> None:
    assert f"\n| [`{probe.name}`](" in (DOCS / "reference/probes.md").read_text()


class Taken(ProbeOptions, frozen=True, kw_only=True):
    depth: int = 1


@pytest.mark.parametrize(("name", "options"), [("instructions", None), ("deep", Taken)])
def test_no_two_probes_or_options_have_one_name(name: str, options: type[ProbeOptions] | None) -> None:
    like = probes.probe("instructions")
    with pytest.raises(ValueError, match="is already used"):
        register(Probe(name, "", like.columns, like.job, like.collect, options=options))


# A probe from a file of its own


def with_example(*arguments: str | Path) -> Answer:
    """Bigiron as it is with that probe."""
    done = subprocess.run(
        [sys.executable, EXAMPLE, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        timeout=SAFETY_NET_S,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of this machine."""
    study = tmp_path_factory.mktemp("events") / "s"
    answer = with_example(
        *("run", "getppid1", "--machine", "host", "--tasks", "1", "--probe", "events"),
        *("--events-prefix", "pgf", "--operations", "10", "-o", study),
    )
    assert answer.status == 0, answer
    return study


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with three numbers of CPUs and two variants: N events per operation, and twice as many."""
    variants = [Variant(name=name, kernel="k") for name in ("old", "new")]
    spec = Spec(workload="getppid1", probes=["events"], cpus=[2, 4, 8], variant=variants)
    study = store.create(tmp_path_factory.mktemp("growing") / "s", spec, None)
    for cell in study.plan():
        record = CellRecord(
            id=cell.id, variant=cell.variant.name, machine="vm", cpus=cell.cpus, tasks=cell.tasks,
            repetition=1, environment={"bigiron": "0", "kernel_release": "6.1", "kernel_sha256": "0"},
        )  # fmt: skip
        events = cell.cpus * (1 if cell.variant.name == "old" else 2)
        rows = {"context": ["process"], "counter": ["pgfault"], "events": [100 * events]}
        study.add(record, {"events": ProbeTable(pl.DataFrame(rows), {"operations": [100]})})
    return study.folder


def test_run_has_its_options_and_offers_it(measured: Path, tmp_path: Path) -> None:
    shown = with_example("run", "--help").out
    assert "--events-prefix" in shown and "how the names of the counters start" in shown
    assert re.search(r"what to record, separated by commas: .*\bevents\b", shown)
    answer = with_example(
        "run", "getppid1", "--machine", "host", "--events-prefix", "x", "-o", tmp_path / "s"
    )
    assert (answer.status, answer.complaint) == (2, "the prefix is of the probe events: add it with --probe")


def test_the_question_keeps_its_options(measured: Path) -> None:
    assert 'events_prefix = "pgf"\n' in (measured / "study.toml").read_text()
    again = with_example("run", measured)
    assert (again.status, again.out.split(":")[0]) == (0, f"every cell of {measured} is measured")
    assert "probes      events (events_prefix pgf)" in with_example("show", measured).out


def test_its_cell_is_whole(measured: Path) -> None:
    (folder,) = (measured / "cells").iterdir()
    cell = json.loads((folder / "cell.json").read_bytes())
    assert cell["environment"]["events_prefix"] == "pgf" and cell["facts"]["events"] == {"operations": [10]}
    rows = pl.read_parquet(folder / "events.parquet")
    assert rows.columns == ["context", "counter", "events"]
    assert set(rows["counter"]) >= {"pgfault", "pgfree"} and (rows["events"] > 0).all()


@pytest.mark.parametrize(
    ("format", "line"),
    [
        ("text", r"pgfault +8\.000 +16\.000 +\+8\.000"),
        ("markdown", r"\| pgfault \| 8\.000 \| 16\.000 \| \+8\.000 \|"),
        ("csv", "8,8,pgfault,new,16.0"),
        ("json", ' +"events_per_op": 16.0'),
    ],
)
def test_it_is_compared(growing: Path, format: str, line: str) -> None:
    answer = with_example("compare", growing, "--format", format)
    assert (answer.status, answer.err) == (0, ""), answer
    assert re.search(f"^{line}$", answer.out, re.M), answer.out


def test_its_stacks_are_compared(growing: Path) -> None:
    answer = with_example("compare", growing, "--by", "function")
    assert "events per operation by function" in answer.out and "+100.0%" in answer.out


def test_its_stacks_are_exported(growing: Path) -> None:
    options = ("--probe", "events", "--weight", "events", "--cpus", "4", "--variant", "new")
    answer = with_example("export", growing, *options)
    assert (answer.status, answer.out) == (0, "pgfault 8000000\n")


def test_its_growth_is_reported(growing: Path) -> None:
    answer = with_example("growth", growing, "--probe", "events", "--format", "json")
    told = json.loads(answer.out)
    assert told["unit"] == "events per operation"
    points = {(each["variant"], each["series"]): each["points"] for each in told["series"]}
    assert points["new", "pgfault"] == points["new", "all counters"] == {"2": 4.0, "4": 8.0, "8": 16.0}


@pytest.mark.parametrize("format", ["html", "markdown", "mail"])
def test_it_is_in_a_report(growing: Path, tmp_path: Path, format: str) -> None:
    answer = with_example("report", growing, "--format", format, "-o", tmp_path / "report")
    assert (answer.status, answer.out) == (0, ""), answer
    page = (tmp_path / "report").read_text()
    assert "pgfault" in page and "Events: events per operation" in page
    assert "--probe events" in page
