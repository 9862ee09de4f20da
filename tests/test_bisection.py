"""The search itself: values in, candidates to measure and culprits out, compared with git's own."""

import math
import random
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.analysis.comparison.limits import Tolerance
from bigiron.bisect import bisection
from bigiron.bisect.bisection import (
    CandidateGraph,
    Culprit,
    EqualityRule,
    Gradual,
    Measured,
    Returning,
    SearchResult,
    Suspects,
)

RULE = EqualityRule((Tolerance(0.5, 0.01),))


def found(
    history: CandidateGraph,
    values: Mapping[str, Measured],
    new: str,
    old: str,
    idle: Callable[[str], bool] | None = None,
) -> tuple[list[SearchResult], list[str]]:
    """What is found, and which candidates were measured besides the ends."""
    measured: list[str] = []

    def measure(name: str) -> Measured:
        if name not in (old, new) and name not in measured:
            measured.append(name)
        return values[name]

    before, after = values[old], values[new]
    assert before and after
    search = bisection.search(history, before, new, after, RULE, idle or (lambda _name: False))
    return bisection.run(search, measure), measured


def names_of(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


@given(st.integers(1, 300), st.data())
def test_one_culprit_in_a_list(count: int, data: st.DataObject) -> None:
    names = names_of(count + 1)
    culprit = data.draw(st.integers(1, count))
    values = {name: ((2.0 if number < culprit else 6.0),) for number, name in enumerate(names)}
    findings, measured = found(CandidateGraph.linear(names), values, names[-1], names[0])
    parent = names[culprit - 1]
    assert findings == [Culprit(names[culprit], (2.0,), (6.0,), {parent: (2.0,)})]
    assert len(measured) <= math.ceil(math.log2(count)) if count > 1 else not measured


@given(st.integers(2, 100), st.data())
def test_a_value_that_changes_twice_has_two_culprits(count: int, data: st.DataObject) -> None:
    names = names_of(count + 1)
    first, second = sorted(data.draw(st.sets(st.integers(1, count), min_size=2, max_size=2)))
    values = {name: (2.0 + 2 * (n >= first) + 3 * (n >= second),) for n, name in enumerate(names)}
    findings, _ = found(CandidateGraph.linear(names), values, names[-1], names[0])
    told = [one.name for one in findings if isinstance(one, Culprit)]
    assert names[first] in told or names[second] in told
    # Whether both are met depends on whether a value between them is: then both are told, in their order.
    if len(told) == 2:
        assert told == [names[first], names[second]]


def test_nothing_is_looked_for_between_ends_that_are_the_same() -> None:
    names = names_of(9)
    values = {name: (2.0,) for name in names} | {"c8": (2.4,)}
    assert found(CandidateGraph.linear(names), values, "c8", "c0") == ([], [])


def test_those_that_cannot_be_measured_are_suspects() -> None:
    names = names_of(9)
    values: dict[str, Measured] = {name: ((2.0 if number < 4 else 6.0),) for number, name in enumerate(names)}
    assert found(CandidateGraph.linear(names), values | {"c7": None}, "c8", "c0")[0] == [
        Culprit("c4", (2.0,), (6.0,), {"c3": (2.0,)})
    ]
    assert found(CandidateGraph.linear(names), values | {"c3": None, "c4": None}, "c8", "c0")[0] == [
        Suspects(("c3", "c4", "c5"), (2.0,), (6.0,))
    ]


def test_a_value_that_drifts_has_no_culprit() -> None:
    names = names_of(9)
    values = {name: (2.0 + number * 0.25,) for number, name in enumerate(names)}
    findings, _ = found(CandidateGraph.linear(names), values, "c8", "c0")
    assert findings
    assert all(isinstance(one, Gradual) for one in findings)


@given(st.integers(2, 64), st.data())
def test_what_is_idle_costs_nothing(count: int, data: st.DataObject) -> None:
    names = names_of(count + 1)
    culprit = data.draw(st.integers(1, count))
    busy = data.draw(st.sets(st.sampled_from(names[1:]))) | {names[culprit]}
    values = {name: ((2.0 if number < culprit else 6.0),) for number, name in enumerate(names)}
    findings, measured = found(
        CandidateGraph.linear(names), values, names[-1], names[0], lambda name: name not in busy
    )
    assert findings == [Culprit(names[culprit], (2.0,), (6.0,), {names[culprit - 1]: (2.0,)})]
    # The parent is verified, and so is the culprit itself: both may be idle's neighbours.
    assert len(measured) <= math.ceil(math.log2(len(busy))) + 2


@given(st.integers(2, 64), st.data())
def test_a_culprit_that_was_taken_for_idle_is_found_nevertheless(count: int, data: st.DataObject) -> None:
    names = names_of(count + 1)
    culprit = data.draw(st.integers(1, count))
    busy = data.draw(st.sets(st.sampled_from(names[1:]))) - {names[culprit]}
    values = {name: ((2.0 if number < culprit else 6.0),) for number, name in enumerate(names)}
    findings, _ = found(
        CandidateGraph.linear(names), values, names[-1], names[0], lambda name: name not in busy
    )
    assert findings == [Culprit(names[culprit], (2.0,), (6.0,), {names[culprit - 1]: (2.0,)})]


@given(st.integers(2, 40), st.data())
def test_what_is_called_a_culprit_is_one(count: int, data: st.DataObject) -> None:
    """Whatever the steps, and whatever was wrongly taken for idle or cannot be measured."""
    names = names_of(count + 1)
    steps = data.draw(st.sets(st.integers(1, count), min_size=1, max_size=4))
    busy = data.draw(st.sets(st.sampled_from(names[1:])))
    broken = data.draw(st.sets(st.sampled_from(names[1:-1]), max_size=3))
    level = {name: 5.0 * sum(step <= n for step in steps) for n, name in enumerate(names)}
    values: dict[str, Measured] = {name: None if name in broken else (level[name],) for name in names}
    findings, _ = found(
        CandidateGraph.linear(names), values, names[-1], names[0], lambda name: name not in busy
    )
    assert findings
    for one in findings:
        if isinstance(one, Culprit):
            (parent,) = one.parents
            assert level[parent] != level[one.name]
        else:
            assert isinstance(one, Suspects)
            assert {names[step] for step in steps} & set(one.names)


# Graphs, compared with git


@st.composite
def graphs(sample: st.DrawFn) -> dict[str, tuple[str, ...]]:
    """Commits with one or two parents each, the first being the old end and all reached from the last."""
    count = sample(st.integers(2, 24))
    parents: dict[str, tuple[str, ...]] = {}
    heads = {0}
    for number in range(1, count + 1):
        first = sample(st.integers(max(0, number - 4), number - 1))
        its = {first}
        if sample(st.booleans()):
            its.add(sample(st.integers(max(0, number - 6), number - 1)))
        if number == count:
            its |= heads
        heads = (heads - its) | {number}
        parents[f"c{number}"] = tuple(f"c{one}" for one in sorted(its))
    return parents


@given(graphs(), st.data())
def test_a_culprit_in_a_graph(parents: dict[str, tuple[str, ...]], data: st.DataObject) -> None:
    history = CandidateGraph(parents)
    culprit = data.draw(st.sampled_from(list(parents)))
    bit = history.mask([culprit])
    values: dict[str, Measured] = {
        name: (6.0 if history.ancestors(name) & bit else 2.0,) for name in ["c0", *parents]
    }
    findings, _ = found(history, values, list(parents)[-1], "c0")
    assert [one.name for one in findings if isinstance(one, Culprit)] == [culprit]


def test_a_value_that_comes_back_is_reported() -> None:
    # c1 brings it, c2 takes it away on one side; the merge c4 has it again from the other one.
    history = CandidateGraph({"c1": ("c0",), "c2": ("c1",), "c3": ("c1",), "c4": ("c2", "c3")})
    values: dict[str, Measured] = {"c0": (2.0,), "c1": (6.0,), "c2": (2.0,), "c3": (6.0,), "c4": (6.0,)}
    findings, _ = found(history, values, "c4", "c0")
    assert findings in (
        [Returning("c3", "c1", (2.0,), (6.0,))],
        [Culprit("c1", (2.0,), (6.0,), {"c0": (2.0,)})],
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_choice_is_as_good_as_git_s(seed: int, tmp_path: Path) -> None:
    """`git rev-list --bisect-all` says how evenly each commit parts the rest: ours is among the best."""
    chance = random.Random(seed)
    stream, parents = [], dict[str, tuple[str, ...]]()
    marks = {"c0": 1}
    for number in range(0, 41):
        name = f"c{number}"
        its = (
            sorted({chance.randrange(max(0, number - 4), number) for _ in range(chance.choice([1, 1, 2]))})
            if number
            else []
        )
        marks[name] = number + 1
        text = name
        lines = ["commit refs/heads/main", f"mark :{number + 1}", "committer me <me@here> 0 +0000"]
        lines += [f"data {len(text)}", text]
        lines += [f"{'merge' if i else 'from'} :{one + 1}" for i, one in enumerate(its)]
        stream.append("\n".join(lines) + "\n")
        if number:
            parents[name] = tuple(f"c{one}" for one in its)
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "--quiet", "--initial-branch", "main"], check=True)
    subprocess.run([*git, "fast-import", "--quiet"], input="".join(stream), text=True, check=True)

    def asked(*command: str) -> list[str]:
        return subprocess.run(
            [*git, *command], check=True, capture_output=True, text=True
        ).stdout.splitlines()

    first = asked("rev-list", "--max-parents=0", "main")[0]
    told = asked("log", "--format=%H %s", "main")
    subject = dict(line.split() for line in told)
    history = CandidateGraph({name: its for name, its in parents.items() if name in subject.values()})
    distances = {
        subject[line.split()[0]]: int(line.partition("dist=")[2].rstrip(")"))
        for line in asked("rev-list", "--bisect-all", "main", f"^{first}")
    }
    left = history.ancestors("c40")
    choice = history.halves(left, left)
    assert choice is not None
    assert distances[choice] == max(distances.values())


def test_a_culprit_next_to_a_parent_that_cannot_be_measured_is_a_suspect() -> None:
    """It seemed to be the only one that matters, and its parent was taken for the same as the old end."""
    names = names_of(9)
    values: dict[str, Measured] = {name: ((2.0 if number < 4 else 6.0),) for number, name in enumerate(names)}
    findings, _ = found(
        CandidateGraph.linear(names), values | {"c3": None}, "c8", "c0", lambda name: name != "c4"
    )
    assert findings == [Suspects(("c3", "c4"), (2.0,), (6.0,))]
    # Nor is one whose parent is known to be older.
    history = CandidateGraph({"c2": ("c1",)})
    assert found(history, {"c0": (2.0,), "c1": None, "c2": (6.0,)}, "c2", "c0")[0] == [
        Suspects(("c1", "c2"), (2.0,), (6.0,))
    ]
