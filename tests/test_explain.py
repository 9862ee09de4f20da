"""Explain: rules that know what a shared cache line is, and sentences that say it."""

import csv
import doctest
import io
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import WORKLOADS, bigiron, measured, says
from test_compare import count, counts
from test_judgement import calls, lock, of
from test_locks import SCHEMA as LOCKS

import bigiron as bigiron_api
from bigiron.analysis.comparison import explain, paths
from bigiron.analysis.comparison.explain import RecordedPoint
from bigiron.analysis.comparison.findings import Finding, LineFinding, LockFinding, WorkFinding
from bigiron.analysis.comparison.model import Options
from bigiron.analysis.lines import conflicts, rules, shared_lines
from bigiron.analysis.lines.rules import Evidence, Rule, rule
from bigiron.analysis.probes import instructions, locks
from bigiron.report.explain.csv_json import FORMATS
from bigiron.report.explain.text import Explanation, sentence
from bigiron.results import measurements

BEFORE = ("f", "struct s.a", 64, 75), ("g", "struct s.b", 128, 25)
AFTER = ("f", "struct s.a", 64, 25), ("g", "struct s.b", 128, 75)
"""Functions, what they write, its cache line, and how often each CPU does."""


def first_sentence(study: Path) -> str:
    answer = bigiron("explain", study)
    assert (answer.status, answer.err) == (0, "")
    assert max(map(len, answer.out.splitlines())) <= 72
    found = re.search(r"^1\. (.*?)\n   object", answer.out, re.DOTALL | re.MULTILINE)
    assert found, answer.out
    return " ".join(found[1].split())


def test_open1_is_explained_by_its_label(open1: Path) -> None:
    sentence = first_sentence(open1)
    assert sentence.startswith(
        "Better by 4.000 accesses per operation, -67%. In openat and close, each operation accesses "
        "the reference count of AppArmor's label"
    )
    assert "6.000 times on debian/6.1" in sentence and "2.000 times on debian/6.12" in sentence
    assert "from all CPUs" in sentence


RUNS: dict[str, tuple[str | Path, ...]] = {
    "brk1 threads": ("brk1", "--mode", "thread", "--cpus", "4"),
    "cgroup_memory": ("--workload-file", WORKLOADS / "cgroup_memory.c", "--operations", "50"),
    "free_space": ("--workload-file", WORKLOADS / "free_space.c"),
    "handed_on": ("--workload-file", WORKLOADS / "handed_on.c", "--operations", "100"),
    "open1": ("open1",),
    "mmap1 with little memory": ("mmap1", "--cpus", "4", "--memory", "1024"),
    "neighbours": ("--workload-file", WORKLOADS / "neighbours.c", "--set", says(8)),
    "page_fault1": ("page_fault1", "--operations", "50"),
    "shared_futex threads": ("--workload-file", WORKLOADS / "shared_futex.c", "--mode", "thread"),
    "signal1": ("signal1",),
    "unlink1 threads": ("unlink1", "--mode", "thread"),
}
TRIGGERS = {
    "adjacent_lines": "open1",
    "apparmor_label": "unlink1 threads",
    "cgroup_statistics": "cgroup_memory",
    "false_sharing": "neighbours",
    "file_table": "unlink1 threads",
    "futex_hash_bucket": "shared_futex threads",
    "inode_list": "unlink1 threads",
    "inode_rwsem": "unlink1 threads",
    "lockref_parent": "unlink1 threads",
    "lru_lock": "page_fault1",
    "mmap_lock": "brk1 threads",
    "page_of_file": "neighbours",
    "percpu_counter": "mmap1 with little memory",
    "percpu_counter_sum": "free_space",
    "rcu_callbacks": "unlink1 threads",
    "slab_list_lock": "handed_on",
    "slab_page": "handed_on",
    "spinlock": "brk1 threads",
    "tlb_flush": "brk1 threads",
    "ucounts": "signal1",
    "zone_lock": "page_fault1",
}
NOT_TRIGGERED = {"rcu_state", "rwsem"}
"""They know a line that has no name of its own, which on Debian's kernels all such lines have."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, tuple[str, ...]], set[str]]:
    """The rules of what is told of a run, in these contexts; each is measured once."""
    folder = tmp_path_factory.mktemp("rules")

    def rules_of(run: str, contexts: tuple[str, ...]) -> set[str]:
        study = folder / run.replace(" ", "-")
        if not study.exists():
            cpus = () if "--cpus" in RUNS[run] else ("--cpus", "2")
            measured(*RUNS[run], *cpus, "--kernel", "debian/6.12", "--probe", "conflicts", "-o", study)
        cells = measurements.read(bigiron_api.open_study(study), "conflicts")
        (point,) = shared_lines.line_up_all(cells, Options(contexts=contexts)).points
        found = explain.explain(explain.RecordedPoint(point, None, None)).findings
        return {finding.rule.name for finding in found if finding.rule}

    return rules_of


@pytest.mark.parametrize("rule", sorted(TRIGGERS))
def test_a_workload_triggers_a_rule(rule: str, told: Callable[[str, tuple[str, ...]], set[str]]) -> None:
    contexts = conflicts.CONTEXTS if rule == "rcu_callbacks" else conflicts.CONTEXTS[:1]
    assert rule in told(TRIGGERS[rule], contexts)


def test_every_rule_has_its_trigger_or_none() -> None:
    assert {rule.name for rule in rules.rules()} == TRIGGERS.keys() | NOT_TRIGGERED


def test_having_nothing_to_report_is_reported(tmp_path: Path) -> None:
    measured(
        "getppid1", "--kernel", "debian/6.1", "--cpus", "2", "--probe", "conflicts", "-o", tmp_path / "s"
    )
    said = " ".join(bigiron("explain", tmp_path / "s").out.split())
    assert "no shared cache line limits it" in said
    assert said.endswith("Not recorded: locks and instructions.")


def changed(study: Path, copy: Path, variant: str, change: Callable[[Path, dict[str, Any]], None]) -> Path:
    """A copy of a study in which the cells of a variant are changed: their folder, and what cell.json has."""
    shutil.copytree(study, copy)
    for cell in sorted((copy / "cells").iterdir()):
        record = json.loads((cell / "cell.json").read_text())
        if record["variant"] == variant:
            change(cell, record)
            if cell.exists():
                (cell / "cell.json").write_text(json.dumps(record))
    return copy


def test_a_variant_that_is_missing_is_named(open1: Path, tmp_path: Path) -> None:
    study = changed(open1, tmp_path / "s", "debian/6.12", lambda cell, _: shutil.rmtree(cell))
    said = " ".join(bigiron("explain", study).out.split())
    assert "Not compared: debian/6.12, 8 CPUs (not measured yet); debian/6.12, 8 CPUs, repetition 2" in said


def test_a_probe_that_one_variant_lacks_is_left_out(open1: Path, tmp_path: Path) -> None:
    study = changed(
        open1, tmp_path / "s", "debian/6.12", lambda _, record: record["tables"].pop("instructions")
    )
    said = " ".join(bigiron("explain", study).out.split())
    assert "Better by 4.000 accesses per operation" in said
    assert (
        "Not recorded, so not compared: locks and instructions." in said and "The kernel executes" not in said
    )


def test_probes_of_different_machines(open1: Path, tmp_path: Path) -> None:
    def on_more_cpus(cell: Path, record: dict[str, Any]) -> None:
        del record["tables"]["conflicts"]
        record["cpus"] = record["tasks"] = 16
        record["id"] = record["id"].replace("8cpus-8tasks", "16cpus-16tasks")
        shutil.copytree(cell, cell.with_name(record["id"]))
        (cell.with_name(record["id"]) / "cell.json").write_text(json.dumps(record))
        shutil.rmtree(cell)

    study = changed(open1, tmp_path / "s", "debian/6.12", on_more_cpus)
    question = study / "study.toml"
    question.write_text(re.sub(r"^cpus = \[.*?\]", "cpus = [8, 16]", question.read_text(), flags=re.M | re.S))
    assert bigiron("explain", study).status == 0


def test_what_was_lost_is_reported(open1: Path, tmp_path: Path) -> None:
    lost = {"accesses, for which there was no room": 7}
    study = changed(open1, tmp_path / "s", "debian/6.12", lambda _, record: record.update(lost=lost))
    assert "14 lost: accesses, for which there was no room" in " ".join(bigiron("explain", study).out.split())


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.name)
def test_a_rule_is_whole(rule: Rule) -> None:
    assert rule.what and rule.why and rule.experiment and not rule.why.endswith(".")
    assert re.search(r"^\w[\w/-]+\.[ch]: \w+\(\)|^Documentation/", rule.source), "a function of the kernel's"
    assert rule.functions or rule.actors or rule.sharing or rule.named


def test_a_primitive_is_known_by_its_caller() -> None:
    lock = Evidence("page or slab object", {"close;__fput;call_rcu;_raw_spin_lock": 1.0})
    bucket = Evidence("page or slab object", {"futex;futex_wait;futex_q_lock;_raw_spin_lock": 1.0})
    found = [rules.first_match(line) for line in (lock, bucket)]
    assert [rule.name for rule in found if rule] == ["rcu_state", "futex_hash_bucket"]


@pytest.mark.parametrize("module", [explain, paths, rule, rules])
def test_the_examples(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def test_locks_are_explained_by_name_and_where_both_probes_have_the_same_boots() -> None:
    def of_locks(held: int, other: int) -> pl.DataFrame:
        beside = [one | {"object": "other.lock", "lock": 64} for one in lock(1, other)]
        return pl.DataFrame([*lock(1, held), *beside], schema=LOCKS)

    def explained(after: pl.DataFrame, boots: int = 2) -> set[tuple[str, str]]:
        taken = of("locks", base=of_locks(810, 810), new=of_locks(1110, 3810))
        work = of("instructions", base=calls(20, 800), new=[after] * boots)
        (point,) = locks.compare(taken, Options("base")).points
        cells = instructions.with_same_names(work.points[4, 4])
        return locks.held_by_instructions(point.rows, taken.points[4, 4], cells, "base", ("process",))

    assert explained(calls(20, 1100)) == {("shared.lock", "spin_lock")}
    assert not explained(calls(20, 1100), boots=4)


def test_a_lock_that_is_held_longer_by_instructions_is_a_part_of_their_finding() -> None:
    def found(taken: tuple[int, int], held: tuple[int, int]) -> explain.Explained:
        of_locks, of_work = (
            of(
                "locks",
                base=pl.DataFrame(lock(taken[0], held[0]), schema=LOCKS),
                new=pl.DataFrame(lock(taken[1], held[1]), schema=LOCKS),
            ),
            of("instructions", base=calls(20, 800), new=calls(20, 1100)),
        )
        (lock_point,), (work_point,) = (
            probe.compare(measured, Options("base")).points
            for probe, measured in ((locks, of_locks), (instructions, of_work))
        )
        both = of_locks.points[4, 4], instructions.with_same_names(of_work.points[4, 4])
        longer = locks.held_by_instructions(lock_point.rows, *both, "base", ("process",))
        return explain.explain(RecordedPoint(None, lock_point, work_point, by_instructions=longer))

    explained = found((1, 1), (810, 1110))
    (work,) = explained.findings
    assert isinstance(work, WorkFinding) and [one.name for one in work.locks] == ["shared.lock"]
    assert work.effect[1].cost > 300  # which is what it is without waiting
    assert (
        "Part of it is under shared.lock, which is taken 1.000 times on base, for 810.0 instructions and "
        "taken 1.000 times on new, for 1110.0 instructions." in sentence(work, explained.recorded)
    )
    for other in found((1, 2), (810, 1110)), found((1, 1), (110, 1110)):
        assert {type(one) for one in other.findings} == {LockFinding, WorkFinding}


@pytest.mark.parametrize(
    ("base", "new", "said"),
    [
        (
            [count(0, "f", 25, 1), *(count(cpu, "f", 25, 0) for cpu in range(1, 4))],
            [count(cpu, "f", 0, 25) for cpu in range(4)],
            "Worse by 0.990 writes per operation.",
        ),
        (
            [count(cpu, f, 0, times, object=of, line=at) for cpu in range(4) for f, of, at, times in BEFORE],
            [count(cpu, f, 0, times, object=of, line=at) for cpu in range(4) for f, of, at, times in AFTER],
            "Neither better nor worse (+0.000 accesses per operation).",
        ),
    ],
)
def test_what_compare_marks_is_no_absence_of_differences(
    base: list[dict[str, Any]], new: list[dict[str, Any]], said: str
) -> None:
    lines = shared_lines.line_up_all(of("conflicts", base=counts(*base), new=counts(*new)), Options("base"))
    (point,) = lines.points
    (finding,) = explain.explain(RecordedPoint(point, None, None)).findings
    assert any(row.differs for row in point.rows)
    assert sentence(finding, RecordedPoint(point, None, None)).startswith(said)
    whole = Explanation("s", "w", ("process",), explain.explain(RecordedPoint(point, None, None)), 1, ())
    shown = csv.DictReader(io.StringIO(FORMATS["csv"](whole)))
    effect = finding.effect[1]
    assert {float(row["count"]) for row in shown} == {effect.before, effect.after}


def test_csv_says_which_findings_are_what_limits_the_base() -> None:
    """Of a program whose variants are alike."""
    measured = of("conflicts", base=counts(*(count(cpu, "f", 0, 50, object="shared") for cpu in range(4))))
    (point,) = shared_lines.line_up_all(measured, Options("base")).points
    alone = Explanation("s", "w", ("process",), explain.explain(RecordedPoint(point, None, None)), 1, ())
    none = replace(alone, explained=replace(alone.explained, findings=[]))
    for found, wanted in (alone, "False"), (replace(none, alone=alone), "True"):
        rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](found))))
        assert [(row["finding"], row["alone"]) for row in rows] == [("1", wanted)]


def test_of_one_kernel_locks_that_most_operations_take_limit_it_too() -> None:
    def found(times: int, *lines: dict[str, Any]) -> list[Finding]:
        taken = of("locks", base=pl.DataFrame(lock(times, 810), schema=LOCKS))
        (locked,) = locks.compare(taken, Options("base")).points
        (point,) = shared_lines.line_up_all(of("conflicts", base=counts(*lines)), Options("base")).points
        return explain.explain(RecordedPoint(point, locked, None)).findings

    (alone,) = found(1)
    assert isinstance(alone, LockFinding) and alone.effect[1].after == 810
    (with_its_line,) = found(1, *(count(cpu, "f", 0, 50, object="shared.lock") for cpu in range(4)))
    assert isinstance(with_its_line, LineFinding) and with_its_line.lock
    assert with_its_line.cost > alone.cost


def test_many_small_changes_of_one_object_are_a_change_of_it() -> None:
    def of_inodes(times: int) -> pl.DataFrame:
        rows = [
            count(cpu, f"f{n}", 0, times, object="struct inode.i_lock", line=64 * n)
            for n in range(1, 13) for cpu in range(4)
        ]  # fmt: skip
        return counts(*rows)

    boots = of("conflicts", base=[of_inodes(1)] * 4, new=[of_inodes(3)] * 4)
    lines = shared_lines.line_up_all(boots, Options("base"))
    (finding,) = explain.explain(RecordedPoint(lines.points[0], None, None)).findings
    assert finding.unit == "accesses" and round(finding.effect[1].after, 2) == 1.44


def test_writes_that_become_reads_are_better_by_the_writes() -> None:
    before = counts(*(count(cpu, "f", 0, 25) for cpu in range(4)))
    after = counts(count(0, "f", 37, 1), *(count(cpu, "f", 37, 0) for cpu in range(1, 4)))
    lines = shared_lines.line_up_all(of("conflicts", base=before, new=after), Options("base"))
    recorded = RecordedPoint(lines.points[0], None, None)
    (finding,) = explain.explain(recorded).findings
    assert sentence(finding, recorded).startswith("Better by 0.990 writes per operation, -99%.")
