"""Explain: rules that know what a shared line is, and sentences that say it."""

import doctest
import re
from pathlib import Path

import pytest
from conftest import bigiron, measured

from bigiron.analysis import explain, paths, rules
from bigiron.analysis.rules import Evidence, Rule, rule


def first_sentence(study: Path) -> str:
    answer = bigiron("explain", study)
    assert (answer.status, answer.err) == (0, "")
    assert max(map(len, answer.out.splitlines())) <= 72
    found = re.search(r"^1\. (.*?)\n   line", answer.out, re.DOTALL | re.MULTILINE)
    assert found, answer.out
    return " ".join(found[1].split())


def test_open1_is_explained_by_its_label(open1: Path) -> None:
    sentence = first_sentence(open1)
    assert sentence.startswith(
        "In openat and close, an operation touches the reference count of AppArmor's label"
    )
    assert "6.000 times on debian/6.1" in sentence and "2.000 times on debian/6.12" in sentence
    assert "from all CPUs" in sentence


@pytest.mark.parametrize(
    ("workload", "options", "what"),
    [
        ("unlink1", ("--cpus", "2"), "the lockref (lock and count) of one dentry"),
        ("signal1", ("--cpus", "2"), "a user's resource counters (ucounts)"),
        ("mmap1", ("--cpus", "4"), "a percpu_counter's global count and its lock"),
        ("dup1", ("--cpus", "2", "--mode", "thread"), "the lock and bitmaps of a process's file table"),
        ("brk1", ("--cpus", "2", "--mode", "thread"), "the mmap_lock of one address space"),
    ],
)
def test_a_rule_knows_what_limits_a_workload(
    workload: str, options: tuple[str, ...], what: str, tmp_path: Path
) -> None:
    measured(workload, *options, "--kernel", "debian/6.1", "-o", tmp_path / "s")
    assert what in " ".join(bigiron("explain", tmp_path / "s").out.split())


def test_nothing_to_say_is_said(tmp_path: Path) -> None:
    measured("getppid1", "--kernel", "debian/6.1", "--cpus", "2", "-o", tmp_path / "s")
    assert "nothing shared limits it" in " ".join(bigiron("explain", tmp_path / "s").out.split())


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.name)
def test_a_rule_is_whole(rule: Rule) -> None:
    assert rule.what and rule.why and rule.experiment and not rule.why.endswith(".")
    assert re.search(r"[/.]", rule.source)
    assert rule.functions or rule.actors or rule.false_sharing or rule.named


def test_a_primitive_is_known_by_its_caller() -> None:
    lock = Evidence("page or slab object", {"close;__fput;call_rcu;_raw_spin_lock": 1.0}, False)
    bucket = Evidence("page or slab object", {"futex;futex_wait;futex_q_lock;_raw_spin_lock": 1.0}, False)
    found = [rules.first_match(line) for line in (lock, bucket)]
    assert [rule.name for rule in found if rule] == ["rcu_state", "futex_hash_bucket"]


@pytest.mark.parametrize("module", [explain, paths, rule, rules])
def test_the_examples(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]
