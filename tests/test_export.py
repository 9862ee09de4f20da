"""StackComparison for other tools add up to what compare prints, and lists can be read by programs."""

import csv
import gzip
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import bigiron, compared
from hypothesis import given
from hypothesis import strategies as st
from test_compare import LINE, both, count, counts, study_of

from bigiron.analysis.probes import instructions
from bigiron.probes.instructions import SCHEMA
from bigiron.report.formats import folded
from bigiron.results import stacks

PER_OP = stacks.SCALE
CONTEXTS = ("process", "interrupt", "kthread")


def exported(study: Path, *options: str | Path) -> dict[str, int]:
    """The folded stacks and their weights."""
    answer = bigiron("export", study, *options)
    assert answer.status == 0, answer
    lines = [line.rpartition(" ") for line in answer.out.splitlines()]
    found = {stack: int(weight) for stack, _, weight in lines}
    assert len(found) == len(lines)
    return found


def total(study: Path, variant: str, *options: str) -> dict[str, float]:
    figures: dict[str, float] = compared(study, *options)["totals"][-1]["cells"][variant]
    return figures


# What a stack is


def test_a_stack_is_the_path_to_a_line_and_the_line(tmp_path: Path) -> None:
    rows = counts(*both("f", 10, line=LINE, object="jiffies+0x0"), *both("g", 5, line=LINE, object="other"))
    found = stacks.stacks_of(study_of(tmp_path / "s", {"v": [rows]}), "conflicts", ("process",))
    assert folded.encode(found).decode().splitlines() == [
        "read;f;jiffies+0x0 2000000",
        "read;g;jiffies+0x0 1000000",
    ]


def test_an_instruction_that_reads_and_writes_weighs_once(tmp_path: Path) -> None:
    rows = counts(*(count(cpu, "f", 10, 4) for cpu in (0, 1)))
    study = study_of(tmp_path / "s", {"v": [rows]})
    for weight, expected in (("accesses", 2 * PER_OP), ("writes", 8 * PER_OP // 10)):
        found = stacks.stacks_of(study, "conflicts", ("process",), weight=weight)
        assert (found.weights[0], found.values[weight]) == (weight, [expected])


def test_recycled_lines_and_those_of_one_cpu_are_left_out(tmp_path: Path) -> None:
    rows = counts(*both("memset", 5, line=LINE), count(0, "f", 10, 10, line=LINE + 64))
    found = stacks.stacks_of(study_of(tmp_path / "s", {"v": [rows]}), "conflicts", ("process",))
    assert folded.encode(found) == b""


def test_contexts_are_distinguished_where_there_are_several(tmp_path: Path) -> None:
    rows = counts(*(count(cpu, "f", 1, 1, context="interrupt", object="o") for cpu in (0, 1)))
    found = stacks.stacks_of(study_of(tmp_path / "s", {"v": [rows]}), "conflicts", CONTEXTS)
    assert found.frames == [("interrupt", "read", "f", "o")]


def test_repetitions_are_averaged(tmp_path: Path) -> None:
    cells = [counts(*both("f", times, line=LINE, object="o")) for times in (10, 20)]
    found = stacks.stacks_of(study_of(tmp_path / "s", {"v": cells}), "conflicts", ("process",))
    assert found.values["writes"] == [3 * PER_OP]


def test_work_is_by_call_path() -> None:
    ran = pl.DataFrame(
        [(0, "process", "", "entry", "", 10), (1, "process", "entry", "open", "", 5)],
        schema=SCHEMA,
        orient="row",
    )
    assert instructions.stacks(ran, 5).rows() == [("process", "entry", 2.0), ("process", "entry;open", 1.0)]


@given(st.lists(st.floats(0, 10), min_size=1, max_size=200))
def test_rounding_keeps_the_sum(weights: list[float]) -> None:
    frame = pl.DataFrame({"weight": weights})
    whole = frame.select(stacks._whole(pl.col("weight") * PER_OP))["weight"]
    assert whole.sum() == round(frame["weight"].cum_sum()[-1] * PER_OP)
    assert ((whole - frame["weight"] * PER_OP).abs() <= 1 + 1e-6).all()


# Of real kernels


@pytest.mark.parametrize("variant", ["debian/6.1", "debian/6.12"])
@pytest.mark.parametrize("context", ["process", "all"])
def test_folded_stacks_add_up_to_what_compare_prints(open1: Path, variant: str, context: str) -> None:
    options = ("--variant", variant, "--context", context)
    figures = total(open1, variant, "--context", context)
    for weight in ("accesses", "writes"):
        found = exported(open1, *options, "--weight", weight)
        assert sum(found.values()) / PER_OP == pytest.approx(figures[f"{weight}_per_op"], abs=2e-6)
    found = exported(open1, *options, "--probe", "instructions")
    figures = total(open1, variant, "--context", context, "--probe", "instructions")
    assert sum(found.values()) / PER_OP == pytest.approx(figures["self_per_op"], abs=2e-6)


def test_the_label_s_six_writes_are_in_the_flame_graph(open1: Path) -> None:
    found = exported(open1, "--variant", "debian/6.1", "--weight", "writes")
    of_label = {
        stack: weight for stack, weight in found.items() if stack.endswith(";struct aa_label.count.count")
    }
    assert sum(of_label.values()) == 6 * PER_OP
    assert all(stack.startswith("entry_SYSCALL_64") for stack in of_label)


@pytest.mark.parametrize(
    ("probe", "weight"), [("conflicts", "accesses"), ("conflicts", "writes"), ("instructions", "")]
)
def test_pprof_reads_the_same_sums(open1: Path, tmp_path: Path, probe: str, weight: str) -> None:
    if not shutil.which("go"):
        pytest.skip("no go on PATH, which has pprof")
    file = tmp_path / "profile.pb.gz"
    options = ("--variant", "debian/6.1", "--probe", probe, *(("--weight", weight) if weight else ()))
    assert bigiron("export", open1, *options, "--format", "pprof", "-o", file).status == 0
    done = subprocess.run(
        ["go", "tool", "pprof", "-top", "-nodefraction=0", "-nodecount=100000", file],
        capture_output=True,
        text=True,
        check=True,
    )
    found = exported(open1, *options)
    assert f"of {sum(found.values())} total" in done.stdout
    assert f"Type: {weight or 'instructions'}" in done.stdout
    flat = {
        line.split(maxsplit=5)[5]: int(line.split()[0])
        for line in done.stdout.split("cum%\n")[1].splitlines()
    }
    leaves: dict[str, int] = {}
    for stack, value in found.items():
        leaf = stack.rpartition(";")[2]
        leaves[leaf] = leaves.get(leaf, 0) + value
    assert {leaf: flat[leaf] for leaf in leaves} == leaves


def test_a_profile_goes_down_a_pipe(open1: Path, tmp_path: Path) -> None:
    options = ("--variant", "debian/6.12", "--format", "pprof")
    assert bigiron("export", open1, *options, "-o", tmp_path / "p").status == 0
    assert gzip.decompress((tmp_path / "p").read_bytes())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("", "open1 has several variants: give --variant, one of debian/6.1, debian/6.12"),
        ("--variant 6.1", "open1 has no variant '6.1': it has debian/6.1, debian/6.12"),
        ("--variant debian/6.1 --cpus 4", "no cell of debian/6.1 with cpus = 4: it has 8"),
        (
            "--variant debian/6.1 --probe instructions --weight writes",
            "stacks of instructions weigh instructions, not writes",
        ),
    ],
)
def test_what_cannot_be_exported(open1: Path, options: str, complaint: str) -> None:
    answer = bigiron("export", open1, *options.split())
    assert (answer.status, answer.out) == (2, "")
    assert complaint in answer.complaint


# Lists for programs


def listed(*command: str | Path, **environment: str) -> list[dict[str, Any]]:
    """What a command lists as JSON, which must be what it lists as CSV."""
    answers = {format: bigiron(*command, "--format", format, **environment) for format in ("json", "csv")}
    assert {answer.status for answer in answers.values()} == {0}
    rows: list[dict[str, Any]] = json.loads(answers["json"].out)
    assert list(csv.DictReader(io.StringIO(answers["csv"].out))) == rows
    return rows


def test_lists_for_programs(tmp_path: Path) -> None:
    assert {row["workload"] for row in listed("workload", "list")} >= {"open1", "mmap1"}
    assert all(
        set(row) == {"kernel", "arch", "release", "version", "source"} for row in listed("kernel", "list")
    )
    assert {"QEMU for x86_64"} <= {row["name"] for row in listed("doctor", BIGIRON_CACHE=str(tmp_path))}


def test_show_for_programs(open1: Path) -> None:
    document = json.loads(bigiron("show", open1, "--format", "json").out)
    assert document["asks"]["workload"] == "open1"
    rows = list(csv.DictReader(io.StringIO(bigiron("show", open1, "--format", "csv").out)))
    assert [row["cell"] for row in rows] == [cell["id"] for cell in document["cells"]]
    assert {row["state"] for row in rows} == {"measured"}
    assert all(re.fullmatch(r"\d+\.\d", row["seconds"]) for row in rows)


def test_explain_for_programs(open1: Path) -> None:
    (first, *_) = json.loads(bigiron("explain", open1, "--format", "json").out)["findings"]
    assert first["rule"] == "apparmor_label"
    assert {name: cell["writes_per_op"] for name, cell in first["cells"].items()} == {
        "debian/6.1": 6.0,
        "debian/6.12": 2.0,
    }
    rows = list(csv.DictReader(io.StringIO(bigiron("explain", open1, "--format", "csv").out)))
    assert [(row["unit"], float(row["count"])) for row in rows[:2]] == [("accesses", 6.0), ("accesses", 2.0)]


def test_check_for_programs(open1: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "b.toml"
    bigiron("check", open1, "--record", baseline)
    document = json.loads(bigiron("check", open1, "--baseline", baseline, "--format", "json").out)
    assert [point["state"] for point in document["points"]] == ["ok", "ok"]
    found = [finding for point in document["points"] for finding in point["findings"]]
    counts = [each for finding in found for each in finding["counts"]]
    assert counts and all(each["found_per_op"] <= each["allowed_per_op"] for each in counts)
