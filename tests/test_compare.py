"""From counts to rows, in tables small enough to read: what is shared, what is the same, how it shows."""

import csv
import html as html_escapes
import io
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron import workloads
from bigiron.analysis.comparison.model import Comparison, Options
from bigiron.analysis.lines import conflicts, line_verdicts, matching, shared_lines
from bigiron.analysis.lines.matching import MatchedLine, PerBoot, SharedLine
from bigiron.analysis.lines.overlap import overlap
from bigiron.errors import UserError
from bigiron.probes import ProbeTable
from bigiron.probes.conflicts import SCHEMA
from bigiron.report.compare import csv_json, dispatch
from bigiron.report.compare import markdown as as_markdown
from bigiron.report.compare import text as as_text
from bigiron.report.study import document, html, mail, markdown
from bigiron.results import measurements
from bigiron.study import store
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import CellRecord, Failure, Study
from bigiron.util.object_name import object_type

LINE = 0xFFFF888003C5B240
HEAP = "page or slab object"


def count(
    cpu: int, function: str, reads: int, writes: int, *, line: int = LINE, context: str = "process",
    object: str = HEAP, types: str = "", byte: int = 0, pc: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """One row of the probe's table: one instruction of a function on one CPU, which touches one byte."""
    return {
        "cpu": cpu, "context": context, "line": line, "address": line + byte, "bytes": 1 << byte % 64,
        "object": object, "types": types, "pc": pc or sum(function.encode()), "function": function,
        "offset": 0, "path": "read", "reads": reads, "writes": writes,
    }  # fmt: skip


def counts(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=SCHEMA)


def profile(*rows: dict[str, Any], operations: int = 10, **options: Any) -> list[dict[str, Any]]:
    return conflicts.profile(counts(*rows), operations, 64, **options).rows(named=True)


def only(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    (row,) = rows
    return row


# What is shared


def test_a_line_s_name_does_not_depend_on_the_order_of_the_counts() -> None:
    """Memory that was allocated again: one instruction touched two objects at an address."""
    rows = [
        count(cpu, "memset", 0, 5, object=name) for cpu in (0, 1) for name in ("struct b.x", "struct a.y")
    ]
    named = {only(profile(*rows[::step]))["object"] for step in (1, -1)}
    assert named == {"struct a.y"}


def test_a_line_of_one_cpu_is_not_shared() -> None:
    assert profile(count(0, "f", 10, 10), count(0, "g", 5, 0)) == []


def test_a_line_that_no_cpu_writes_is_not_shared() -> None:
    assert profile(count(0, "f", 10, 0), count(1, "f", 10, 0)) == []


def test_a_line_that_one_writes_and_another_reads_is_shared() -> None:
    row = only(profile(count(0, "f", 0, 10), count(1, "g", 10, 0)))
    assert (row["line"], row["object"]) == (LINE, HEAP)
    assert (row["writes_per_op"], row["accesses_per_op"]) == (1, 2)
    assert (row["writers"], row["readers"]) == (1, 1)


def test_nothing_counted_is_nothing_shared() -> None:
    assert profile() == []


def test_an_atomic_is_one_access() -> None:
    row = only(profile(*(count(cpu, "atomic", 10, 10) for cpu in (0, 1))))
    assert (row["writes_per_op"], row["accesses_per_op"]) == (2, 2)
    assert (row["writers"], row["readers"]) == (2, 2)


def test_what_each_cpu_touches_by_one_instruction_has_the_name_of_the_first() -> None:
    rows = [count(cpu, "add", 10 + cpu, 10 + cpu, object=f"a+{8 * cpu}", byte=8 * cpu) for cpu in range(2)]
    assert {only(profile(*order))["object"] for order in (rows, rows[::-1])} == {"a+0"}


def test_one_access_more_gives_a_line_no_other_name() -> None:
    row = only(
        profile(
            *(count(cpu, "lock", 100, 100, object="a.lock", pc=2) for cpu in (0, 1)),
            count(0, "look", 101, 0, object="a.children", pc=1),
            count(1, "look", 100, 0, object="a.children", pc=1),
            count(1, "rarely", 80, 0, object="a.other", pc=3),
        )
    )
    assert row["object"] == "a.lock"


def test_only_the_chosen_contexts_count() -> None:
    rows = count(0, "f", 10, 10), count(1, "tick", 10, 10, context="interrupt")
    assert profile(*rows) == profile(*rows, contexts=("interrupt",)) == []
    assert only(profile(*rows, contexts=conflicts.CONTEXTS))["accesses_per_op"] == 2


def test_of_a_line_that_is_nearly_one_s_own_only_what_others_disturb_counts() -> None:
    row = only(profile(count(0, "owner", 990, 990), count(1, "visitor", 10, 0)))
    assert row["accesses_per_op"] == pytest.approx(2)  # each visit, and what the owner does next
    balanced = only(profile(count(0, "owner", 500, 500), count(1, "visitor", 500, 0)))
    assert balanced["accesses_per_op"] == pytest.approx(100)


def test_functions_come_with_their_weights_the_hottest_first() -> None:
    on_one, on_other = (("f", 10), ("g", 45)), (("f", 20), ("h", 35))
    row = only(profile(*(count(0, *f, 0) for f in on_one), *(count(1, *f, 1) for f in on_other)))
    assert row["functions"] == ["g", "h", "f"]
    assert row["weights"] == [4.5, 3.5, 3]


def test_a_line_is_called_after_the_field_that_is_written_most() -> None:
    """However often another one is read; and whichever instructions write it."""
    row = only(profile(count(0, "f", 1, 1, object="a+0x0"), count(1, "g", 5, 0, object="b+0x8")))
    assert row["object"] == "a+0x0"
    row = only(
        profile(
            *(count(cpu, name, 4, 4, object="a.count") for cpu in (0, 1) for name in ("get", "put")),
            *(count(cpu, "mark", 7, 7, object="a.flags", byte=8) for cpu in (0, 1)),
        )
    )
    assert row["object"] == "a.count"


def test_an_allocator_s_writes_give_a_line_its_name_where_there_are_no_others() -> None:
    cleared = [count(cpu, "memset", 0, 9, object="struct a+0x0") for cpu in (0, 1)]
    used = count(2, "use", 0, 1, object="struct a.flags", byte=8)
    assert only(profile(*cleared, used))["object"] == "struct a.flags"
    assert only(profile(*cleared, count(2, "look", 9, 0, object="struct a.id")))["object"] == "struct a+0x0"


def test_the_other_fields_of_a_line_are_shown_with_the_functions_that_touch_them() -> None:
    row = only(
        profile(
            *(count(cpu, "lock", 9, 9, object="struct a.lock") for cpu in (0, 1)),
            *(count(cpu, "look", 8, 0, object="struct a.flags", byte=8) for cpu in (0, 1)),
            *(count(cpu, "look_too", 9, 0, object="struct a.flags", byte=8) for cpu in (0, 1)),
            count(0, "note", 1, 1, object="struct a.seen", byte=16),
            count(1, "memset", 0, 1, object="struct a+0x0"),
        )
    )
    flags, seen = row["beside"]
    assert (flags["object"], flags["functions"]) == ("struct a.flags", ["look_too", "look"])
    assert (flags["accesses_per_op"], flags["writes_per_op"]) == (3.4, 0)
    assert (seen["object"], seen["functions"]) == ("struct a.seen", ["note"])
    assert (seen["accesses_per_op"], seen["writes_per_op"]) == (0.1, 0.1)


def test_the_most_accessed_line_comes_first() -> None:
    rows = [count(cpu, "f", n, n, line=LINE + 64 * n) for cpu in (0, 1) for n in (1, 3, 2)]
    assert [row["line"] - LINE for row in profile(*rows)] == [192, 128, 64]


@pytest.mark.parametrize(
    ("first", "second", "line", "false_sharing"),
    [
        (0, 8, LINE, True),
        (0, 0, LINE, False),
        (8, 72, LINE - LINE % 128, True),  # a line of 128 bytes, two blocks of 64 bits each
        (72, 72, LINE - LINE % 128, False),
    ],
)
def test_false_sharing_is_disjoint_bytes(first: int, second: int, line: int, false_sharing: bool) -> None:
    rows = count(0, "f", 1, 1, byte=first, line=line), count(1, "f", 1, 1, byte=second, line=line)
    assert only(profile(*rows))["false_sharing"] is false_sharing


def test_one_common_byte_is_enough_to_be_no_false_sharing() -> None:
    rows = count(0, "f", 1, 1, byte=0), count(0, "g", 1, 1, byte=8), count(1, "f", 1, 1, byte=8)
    assert not only(profile(*rows))["false_sharing"]


@pytest.mark.parametrize(
    ("function", "writes", "recycled"),
    [("memset", 1, True), ("memset", 0, False), ("__pi_memset_generic", 1, True),
     ("clear_page_erms", 1, True), ("fput", 1, False)],
)  # fmt: skip
def test_memory_that_each_cpu_s_allocator_clears_is_recycled(
    function: str, writes: int, recycled: bool
) -> None:
    cleared = (count(cpu, function, 0, writes) for cpu in (0, 1))
    rows = counts(count(0, "f", 5, 5), count(1, "f", 5, 5), *cleared)
    found = conflicts.profile(rows, operations=1, line_bytes=64)
    assert only(found.rows(named=True))["recycled"] is recycled
    assert len(matching.lines_of(found)) == (0 if recycled else 1)


def test_an_object_that_one_cpu_allocates_and_others_use_is_shared() -> None:
    """As a node of a tree is that all tasks walk: only who allocated it has cleared it."""
    rows = (count(0, "f", 5, 5), count(1, "f", 5, 5), count(1, "memset", 0, 1))
    assert not only(profile(*rows))["recycled"]


# What is shared as a pair


PAIR = LINE - LINE % 128


def pairs(*rows: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    return conflicts.pairs(counts(*rows), 10, **options).rows(named=True)


def test_two_adjacent_lines_are_a_pair() -> None:
    rows = (
        count(0, "f", 10, 10, line=PAIR, object="a", byte=8),
        count(1, "g", 5, 0, line=PAIR + 64, object="b", byte=0),
        count(2, "g", 5, 0, line=PAIR + 64, object="b", byte=0),
    )
    row = only(pairs(*rows))
    assert (row["line"], row["object"], row["sharing"]) == (PAIR, "a", ["adjacent lines"])
    assert (row["writes_per_op"], row["accesses_per_op"]) == (1, 2)
    assert (row["writers"], row["readers"], row["functions"]) == (1, 3, ["f", "g"])
    assert row["halves"] == [
        {"object": "a", "touched": [{"cpus": "0", "writes": True, "bytes": "8"}]},
        {"object": "b", "touched": [{"cpus": "1-2", "writes": False, "bytes": "64"}]},
    ]
    assert profile(*rows) == []


@pytest.mark.parametrize(
    "rows",
    [
        (count(0, "f", 10, 10, line=PAIR), count(0, "g", 10, 10, line=PAIR + 64)),  # of one CPU
        (count(0, "f", 10, 0, line=PAIR), count(1, "g", 10, 0, line=PAIR + 64)),  # no CPU writes
        (count(0, "f", 10, 10, line=PAIR + 64), count(1, "g", 10, 10, line=PAIR + 128)),  # of two pairs
        (count(0, "f", 10, 10, line=PAIR), count(1, "f", 10, 10, line=PAIR)),  # one line
        (),
    ],
)
def test_what_is_no_pair(rows: tuple[dict[str, Any], ...]) -> None:
    assert pairs(*rows) == []


def test_a_pair_counts_what_its_lines_do_not_alone() -> None:
    counted = (count(cpu, "get", 10, 10, line=PAIR) for cpu in (0, 1))
    read = (count(cpu, "look", 15, 0, line=PAIR + 64) for cpu in (0, 1))
    row = only(pairs(*counted, *read))
    assert (row["writes_per_op"], row["accesses_per_op"], row["functions"]) == (0, 3, ["look", "get"])


def test_a_recycled_line_is_no_part_of_a_pair() -> None:
    cleared = [count(cpu, "memset", 0, 1, line=PAIR) for cpu in (0, 1)]
    assert pairs(*cleared, count(2, "f", 5, 5, line=PAIR + 64)) == []
    own = (count(cpu, "memset", 0, 1, line=PAIR + 64 * cpu) for cpu in (0, 1))
    assert len(pairs(*own)) == 1  # each has an object of its own, at the same time


@given(rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 9), st.integers(0, 3))))
def test_lines_and_pairs_are_no_more_than_all_accesses(rows: list[tuple[int, int, int, int]]) -> None:
    table = [count(cpu, "f", r, w, line=PAIR + 64 * at) for cpu, r, w, at in rows]
    counted = sum(row["accesses_per_op"] for row in (*profile(*table), *pairs(*table)))
    assert counted <= sum(max(r, w) for _, r, w, _ in rows) / 10 + 1e-9


# What is the same line


def line(object: str, accesses: float = 1.0, *, writes: float = 0.0, **weights: float) -> SharedLine:
    """A line touched by these functions, or by `f` alone, in each of which all CPUs do the same."""
    return SharedLine(
        *(object, weights or {"f": accesses}, writes, accesses, 2, 2, False),
        repetitions=(PerBoot(writes, accesses),),
        even=True,
    )


def differs(*rows: MatchedLine) -> bool:
    """Whether `b` does from `a`."""
    line_verdicts.judge(rows, "a", ["b"], {"a": 1, "b": 1}, 8)
    return any(row.differs for row in rows)


def joined(*columns: list[SharedLine]) -> list[set[int]]:
    """In which columns each row has a line."""
    return [
        {int(variant) for variant in row.lines}
        for row in matching.match({str(number): lines for number, lines in enumerate(columns)})
    ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (line(HEAP, f=1), line(HEAP, f=1), True),
        (line(HEAP, f=1), line(HEAP, g=1), False),
        (line(HEAP, f=3, g=1), line(HEAP, g=1), True),  # a quarter in common
        (line(HEAP, f=4, g=1), line(HEAP, g=1), False),
        (line(HEAP, f=1), line(HEAP, f=100), True),  # the same functions, however often
        (line(HEAP, f=1), line("struct dentry.d_lockref", f=1), True),  # could not be named in one kernel
        (line(HEAP, f=1), line("struct dentry.d_lockref", f=1, g=2), False),
        (line("struct inode.i_count", f=1), line("struct dentry.d_lockref", f=1), False),
        (line("nr_files+0x8", f=1), line("nr_files+0x0", g=1), True),  # a symbol, whatever touches it
        (line("nr_files+0x8", f=1), line("nr_dentry+0x8", f=1), False),
        (line("runqueues+0x40 of CPU 1", f=1), line("runqueues+0x80 of CPU 7", f=1), True),
    ],
)
def test_the_same_line_is_the_same_thing_touched_by_the_same_functions(
    one: SharedLine, other: SharedLine, same: bool
) -> None:
    assert joined([one], [other]) == ([{0, 1}] if same else [{0}, {1}])


def test_the_most_similar_are_joined_first() -> None:
    alike, less = line(HEAP, f=1), line(HEAP, f=1, g=1)
    rows = matching.match({"a": [alike], "b": [less, alike]})
    assert [sorted(row.lines) for row in rows] == [["a", "b"], ["b"]]
    assert rows[0].lines["b"] == alike


def test_a_line_is_compared_with_the_last_column_that_has_it() -> None:
    """From kernel to kernel, other functions touch it; a rare line has those of the newest kernel."""
    directory = "struct dentry.d_lockref.lock (tmpfs directory)"
    rare = line("struct dentry.d_lockref.lock (tmpfs, no file)", f=0.01, g=0.01, h=0.01)
    columns = [
        [line(directory, 21, e=14, f=7)],
        [line(directory, 17, f=9, g=8), rare],
        [line(directory, 17, f=8, g=9)],
    ]
    assert joined(*columns) == [{0, 1, 2}, {1}]


def test_of_many_lines_none_is_joined_while_a_more_similar_one_is_left() -> None:
    chance = Random(1)
    one, other = (
        [line(HEAP, **{name: chance.randint(1, 9) for name in chance.sample("fghij", 3)}) for _ in range(40)]
        for _ in range(2)
    )
    rows = matching.match({"a": one, "b": other})
    of = {id(mine): row for row in rows for mine in row.lines.values()}
    joined = {key: overlap(*row.lines.values()) for key, row in of.items() if len(row.lines) == 2}
    assert joined
    for mine in one:
        for theirs in other:
            alike = overlap(mine, theirs)
            assert alike < 0.25 or alike <= max(joined.get(id(mine), 0), joined.get(id(theirs), 0))


def test_how_many_lines_are_compared_at_once_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = Random(1)
    columns = [
        [
            line(chance.choice((HEAP, "struct page.flags", "struct page.lru")), **{f: chance.randint(1, 3)})
            for f in chance.choices("fgh", k=60)
        ]
        for _ in range(3)
    ]
    rows = matching.match({str(number): lines for number, lines in enumerate(columns)})
    assert len(rows) < 100
    monkeypatch.setattr(matching, "_AT_ONCE", 150)
    monkeypatch.setattr(matching, "_SHORTLIST", 2)
    assert matching.match({str(number): lines for number, lines in enumerate(columns)}) == rows


def test_neighbouring_lines_of_a_symbol_are_distinguished_by_their_functions() -> None:
    head, tail = line("rcu_state+0x0", f=1), line("rcu_state+0x40", g=1)
    moved = [line("rcu_state+0x80", g=1), line("rcu_state+0xc0", f=1)]
    by_function = {row.functions[0]: row for row in matching.match({"a": [head, tail], "b": moved})}
    assert by_function["f"].lines == {"a": head, "b": moved[1]}
    assert by_function["g"].lines == {"a": tail, "b": moved[0]}


OBJECTS = [
    HEAP, "struct inode.i_count", "struct dentry", "a+0x0", "a+0x40", "b+0x8 of CPU 1", "b+0x8 of CPU 2",
]  # fmt: skip
LINES = st.builds(
    SharedLine,
    object=st.sampled_from(OBJECTS),
    weights=st.dictionaries(st.sampled_from("fghij"), st.floats(0.01, 9), min_size=1, max_size=3),
    writes_per_op=st.floats(0, 9),
    accesses_per_op=st.floats(0.001, 9),
    writers=st.integers(1, 8),
    readers=st.integers(0, 8),
    false_sharing=st.booleans(),
    repetitions=st.just((PerBoot(1.0, 2.0),)),
)
COLUMNS = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.lists(LINES, max_size=6), min_size=1)


@given(columns=COLUMNS)
def test_each_line_is_in_exactly_one_row(columns: dict[str, list[SharedLine]]) -> None:
    rows = matching.match(columns)
    for variant, lines in columns.items():
        placed = [id(row.lines[variant]) for row in rows if variant in row.lines]
        assert sorted(placed) == sorted(map(id, lines))
    if len(columns) == 2:
        for row in rows:
            named = {object_type(line.object) for line in row.lines.values()} - {HEAP}
            assert len(named) <= 1


@given(lines=st.lists(LINES, max_size=6))
def test_a_column_does_not_differ_from_itself(lines: list[SharedLine]) -> None:
    hottest_first = sorted(lines, key=lambda line: -line.accesses_per_op)
    assert not differs(*matching.match({"a": hottest_first, "b": hottest_first}))


TIMES = st.integers(0, 9)
SOME_COUNTS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("fgh"), TIMES, TIMES, st.integers(0, 5)),
    max_size=20,
    unique_by=lambda row: (row[0], row[1], row[4]),
)


@pytest.mark.parametrize(("line_bytes", "movable"), [(64, False), (128, True)])
def test_whether_an_object_s_place_in_a_line_can_vary(line_bytes: int, movable: bool) -> None:
    """Objects of 192 bytes begin at the same byte of each line of 64, and at two bytes of one of 128."""
    lru, flags = (
        count(0, "a", 100, 100, line=LINE, object="struct dentry.d_lru"),
        count(1, "b", 100, 0, line=LINE, byte=32, object="struct dentry.d_flags"),
    )
    places = [{"start": LINE - 128, "stride": 192}, {"start": LINE + 32, "stride": 192}]
    rows = pl.DataFrame([lru | places[0], flags | places[1]], schema=SCHEMA)
    found = conflicts.profile(rows, operations=100, line_bytes=line_bytes)
    assert only(found.rows(named=True))["movable"] is movable


@given(rows=SOME_COUNTS, places=st.permutations(range(6)))
def test_where_a_line_lies_changes_nothing(rows: list[tuple[Any, ...]], places: list[int]) -> None:
    def found(places: Sequence[int]) -> list[str]:
        table = counts(*(count(*row, line=LINE + 64 * places[number]) for *row, number in rows))
        return sorted(map(repr, conflicts.profile(table, operations=7, line_bytes=64).drop("line").rows()))

    assert found(places) == found(range(6))


# Several repetitions


def test_the_mean_of_repetitions() -> None:
    repetitions = [[line(HEAP, 3.0, writes=2.0, f=3)], [line(HEAP, 1.0, writes=1.0, f=1)]]
    (mean,) = matching.mean(repetitions)
    assert (mean.accesses_per_op, mean.writes_per_op, mean.weights) == (2, 1.5, {"f": 2})


def test_a_repetition_without_the_line_counts_as_none() -> None:
    assert matching.mean([[line(HEAP, 3.0)], [], []])[0].accesses_per_op == 1


@given(lines=st.lists(LINES, max_size=5))
def test_one_repetition_is_its_own_mean(lines: list[SharedLine]) -> None:
    assert matching.mean([lines]) == lines


# What differs


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(1.0, 1.0, False), (1.0, 1.06, False), (1.0, 1.07, True), (0.0, 0.05, False), (0.0, 0.06, True),
     (100.0, 101.0, False), (100.0, 102.0, True)],
)  # fmt: skip
def test_a_difference_is_more_than_the_tolerance(before: float, after: float, expected: bool) -> None:
    for one, other in (before, after), (after, before):
        row = MatchedLine({"a": line(HEAP, one, writes=one), "b": line(HEAP, other, writes=other)})
        assert differs(row) is expected
        assert row.change("a", ["b"]) == pytest.approx(other - one)


def test_a_line_that_is_only_in_one_variant_differs() -> None:
    row = MatchedLine({"b": line(HEAP, 2.0, writes=1.0)})
    assert differs(row) and row.change("a", ["b"]) == 2
    assert (row.accesses("a"), row.writes("a")) == (0, 0)


def test_writes_differ_too() -> None:
    row = MatchedLine({"a": line(HEAP, 2.0, writes=1.0), "b": line(HEAP, 2.0, writes=2.0)})
    assert differs(row)


# A whole study


def study_of(
    folder: Path,
    cells: dict[str, list[pl.DataFrame | None]],
    lost: int = 0,
    slower: dict[str, int] | None = None,
) -> Study:
    """A study with these counts (10 operations of 2 tasks) by variant and repetition; None: failed.

    `slower`: how many times slower the clock was, by variant.
    """
    spec = Spec(
        workload="getppid1",
        probes=["conflicts"],
        cpus=[2],
        operations=5,
        repetitions=max(map(len, cells.values())),
        variant=[Variant(name=name, kernel="k") for name in cells],
    )
    study = store.create(folder, spec, workloads.find("getppid1"))
    facts = {"operations": [5, 5], "lost_accesses": lost}
    for cell in study.plan():
        table = cells[cell.variant.name][cell.repetition - 1]
        failure = None if table is not None else Failure("machine", "it burnt")
        record = CellRecord(
            id=cell.id, variant=cell.variant.name, machine="vm", cpus=2, tasks=2,
            repetition=cell.repetition, failure=failure,
            environment={"clock_slower": slower[cell.variant.name]} if slower else {},
        )  # fmt: skip
        study.add(record, {} if table is None else {"conflicts": ProbeTable(table, facts)})
    return study


def both(
    function: str, times: int, *, line: int, object: str = HEAP, types: str = ""
) -> list[dict[str, Any]]:
    """Both CPUs write the line so many times each."""
    return [count(cpu, function, times, times, line=line, object=object, types=types) for cpu in (0, 1)]


OLD = counts(
    *both("fput", 30, line=LINE, types="aa_label;kref"),
    *both("iput", 10, line=LINE + 64),
    *both("d_alloc", 8, line=LINE + 128),
    *both("vm_stat_add", 20, line=0xFFFFFFFF82000000, object="vm_stat+0x0"),
    *both("memset", 5, line=LINE + 192),
)
NEW = counts(
    *both("fput", 10, line=LINE + 640, types="aa_label;kref"),
    *both("d_alloc", 8, line=LINE),
    *both("vm_stat_add", 20, line=0xFFFFFFFF83000040, object="vm_stat+0x0"),
    *both("memcg_charge", 5, line=LINE + 6400),
)


def compare_study(study: Study, base: str | None, contexts: tuple[str, ...]) -> Comparison:
    measured = measurements.read(study, "conflicts")
    return shared_lines.compare(measured, Options(study.base(base), contexts))


@pytest.fixture
def compared(tmp_path: Path) -> Comparison:
    study = study_of(tmp_path / "s", {"old": [OLD], "new": [NEW]})
    return compare_study(study, None, ("process",))


def rows_of(compared: Comparison) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(csv_json.as_json(compared))["rows"]
    return rows


def test_the_largest_change_comes_first_then_the_heaviest(compared: Comparison) -> None:
    assert [(row["functions"], row["differs"]) for row in rows_of(compared)] == [
        (["fput"], True),
        (["iput"], True),
        (["memcg_charge"], True),
        (["vm_stat_add"], False),
        (["d_alloc"], False),
    ]


def test_each_variant_has_its_figures(compared: Comparison) -> None:
    fput, iput, *_ = rows_of(compared)
    of_old = {"writes_per_op": 6, "accesses_per_op": 6, "least_per_op": 6, "most_per_op": 6}
    assert fput["cells"]["old"] == of_old | {"layout_per_op": 0, "writers": 2, "readers": 2}
    assert fput["cells"]["new"]["writes_per_op"] == 2
    assert "new" not in iput["cells"], "not shared there"


def test_totals_are_the_sums_of_the_rows(compared: Comparison) -> None:
    (totals,) = json.loads(csv_json.as_json(compared))["totals"]
    for variant in "old", "new":
        cells = [row["cells"][variant] for row in rows_of(compared) if variant in row["cells"]]
        for figure in "writes_per_op", "accesses_per_op":
            assert totals["cells"][variant][figure] == pytest.approx(sum(cell[figure] for cell in cells))
    assert totals["recycled"] == {
        "old": {"lines": 1, "accesses_per_op": 1},
        "new": {"lines": 0, "accesses_per_op": 0},
    }


def test_another_base(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [OLD], "new": [NEW]})
    (point,) = compare_study(study, "new", ("process",)).points
    assert (point.base, point.others) == ("new", ("old",))
    with pytest.raises(UserError, match=r"^s has no variant 'newer': it has old, new$"):
        compare_study(study, "newer", ("process",))


def test_repetitions_are_averaged_and_failed_ones_left_out(tmp_path: Path) -> None:
    twice = {"old": [OLD, counts(*both("fput", 10, line=LINE))], "new": [NEW, None]}
    compared = compare_study(study_of(tmp_path / "s", twice), None, ("process",))
    fput = next(row["cells"] for row in rows_of(compared) if row["functions"] == ["fput"])
    assert fput["old"]["writes_per_op"] == pytest.approx(4)
    assert fput["new"]["writes_per_op"] == pytest.approx(2)


def test_a_variant_that_failed_has_no_column(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [None], "new": [NEW]})
    (point,) = compare_study(study, None, ("process",)).points
    assert (point.variants, point.base) == (("new",), "new")


def test_every_format_names_the_cells_that_are_not_compared(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [OLD, OLD], "new": [NEW, None], "newest": [None, None]})
    failed = "newest, 2 CPUs (failed: it burnt)"
    shutil.rmtree(study.folder / "cells/old-2cpus-2tasks-r2")
    said = (
        f"not compared: {failed}; old, 2 CPUs, repetition 2 (not measured yet); "
        "new, 2 CPUs, repetition 2 (failed: it burnt); newest, 2 CPUs, repetition 2 (failed: it burnt)"
    )
    for name in dispatch.FORMATS:
        text, beside = dispatch.compare(study, "conflicts", _as(name))
        if name == "csv":
            assert beside == [said]
        elif name == "json":
            missing = json.loads(text)["missing"]
            assert missing[1] == {"cell": "old-2cpus-2tasks-r2", "why": "not measured yet"}
            assert len(missing) == 4
        else:
            assert said in " ".join(text.split())
    whole = study_of(tmp_path / "t", {"old": [OLD], "new": [NEW]})
    assert "not compared" not in dispatch.compare(whole, "conflicts", _as("text"))[0]


def test_a_probe_that_some_cells_do_not_have_is_named(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [OLD], "new": [NEW]})
    record = study.records()[1]
    cell = study.folder / "cells" / record.id / "cell.json"
    cell.write_bytes(msgspec.json.encode(msgspec.structs.replace(record, tables={})))
    text, _ = dispatch.compare(study, "conflicts", _as("text"))
    assert "not compared: new, 2 CPUs (the probe was not recorded)" in text
    made = document.document_of(study, None, ("process",))
    assert made.parts[0].tables[0].missing == "not compared: new, 2 CPUs (the probe was not recorded)"


def test_text(compared: Comparison) -> None:
    text = as_text.as_text(compared)
    assert text.startswith("getppid1, 2 CPUs, 2 tasks: writes and accesses per operation")
    fput, *_, statistics, dentry, total = re.findall(r"^(?:[* ] (?:page|vm)|  all).*", text, re.MULTILINE)
    assert fput.split() == ["*", *HEAP.split(), "6.000", "6.000", "2/2", "2.000", "2.000", "2/2", "-4.000"]
    assert statistics.startswith("  vm_stat+0x0") and dentry.startswith("  page")
    assert "\n      reference count: fput\n" in text
    assert total.split() == [
        "all",
        "shared",
        "cache",
        "lines",
        "13.600",
        "13.600",
        "8.600",
        "8.600",
        "-5.000",
    ]
    legend = "* differs from old by more than 0.05 per operation and 1 %, and by more than boots of one "
    assert legend + "kernel do; -: not shared there" in " ".join(text.split())
    assert "old: not counted above: 1 lines of memory that one CPU freed" in " ".join(text.split())


def test_other_fields_that_are_read_and_written_are_shown_with_their_functions(tmp_path: Path) -> None:
    table = counts(
        *(count(cpu, "lock", 9, 9, object="struct a.lock (x)") for cpu in (0, 1)),
        *(count(cpu, "look", 8, 0, object="struct a.flags (x)", byte=8) for cpu in (0, 1)),
        count(1, "mark", 5, 5, object="next_symbol", byte=16),
        *(
            count(1, name, 2 + number, 0, object="struct a.id (x)", byte=9)
            for number, name in enumerate("efg")
        ),
        count(1, "rarely", 0, 0, object="struct a.rare (x)", byte=10),
    )
    comparison = compare_study(study_of(tmp_path / "s", {"old": [table]}), None, ("process",))
    text = as_text.as_text(comparison)
    assert "  struct a.lock (x) " in text
    assert "      also read there: .flags (look), .id (g, f, …)\n" in text
    assert "      also written there: next_symbol (mark)\n" in text
    (row,) = rows_of(comparison)
    assert [(field["object"], field["functions"]) for field in row["beside"]] == [
        ("struct a.flags (x)", ["look"]),
        ("struct a.id (x)", ["g", "f", "e"]),
        ("next_symbol", ["mark"]),
        ("struct a.rare (x)", ["rarely"]),
    ]
    (record,) = csv.DictReader(io.StringIO(csv_json.as_csv(comparison)))
    assert record["beside"] == "struct a.flags (x), struct a.id (x), next_symbol, struct a.rare (x)"


def test_what_was_lost_is_reported(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [OLD]}, lost=77)
    text = as_text.as_text(compare_study(study, None, ("process",)))
    assert "old: the recorder had no room for 77 accesses: its figures are too low" in text


def test_every_format_for_people_and_json_say_what_was_lost(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [OLD]}, lost=77)
    lost = {"accesses, for which there was no room": 77, "messages, damaged": 3}
    record = msgspec.structs.replace(study.records()[0], lost=lost)
    (study.folder / "cells" / record.id / "cell.json").write_bytes(msgspec.json.encode(record))
    found = dispatch.comparison_of(study, "conflicts", Options())
    made = document.document_of(study, None, ("process",))
    shown = [show(found) for name, show in dispatch.FORMATS.items() if name != "csv"]
    for text in (*shown, html.as_html(made), mail.as_text(made), markdown.as_markdown(made)):
        words = " ".join(text.split())
        assert "3 lost: messages, damaged" in words, text
        assert words.count("77 lost: accesses") == 1 and "no room for 77" not in words, text


def test_cells_of_an_older_bigiron_say_what_was_lost(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [OLD]}, lost=77)
    found = dispatch.comparison_of(study, "conflicts", Options())
    made = document.document_of(study, None, ("process",))
    for text in (as_text.as_text(found), markdown.as_markdown(made)):
        assert text.count("no room for 77 accesses") == 1


def test_every_format_says_where_clocks_differ(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [OLD], "new": [NEW]}, slower={"old": 1, "new": 64})
    sentence = (
        "guest clocks differ: the host's on old, 64 times slower on new: do not compare ticks, timeouts"
    )
    made = document.document_of(study, None, ("process",))
    shown = [dispatch.compare(study, "conflicts", _as(name)) for name in dispatch.FORMATS]
    for text in (
        *shown,
        (html.as_html(made), []),
        (mail.as_text(made), []),
        (markdown.as_markdown(made), []),
    ):
        words = html_escapes.unescape(" ".join([*text[0].split(), *text[1]]))
        assert words.count(sentence) == 1, text
    alike = study_of(tmp_path / "t", {"old": [OLD], "new": [NEW]}, slower={"old": 64, "new": 64})
    assert "clock" not in dispatch.compare(alike, "conflicts", _as("text"))[0]


def _as(format: str) -> dispatch.CompareOptions:
    return dispatch.CompareOptions(format, None, ("process",))


def test_the_report_and_compare_show_the_same_rows(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [OLD], "new": [NEW]})
    (point,) = dispatch.comparison_of(study, "conflicts", Options()).points
    (part,) = document.document_of(study, None, ("process",)).parts
    assert part.tables == (point,)


def test_one_variant_is_a_profile(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [OLD]})
    compared = compare_study(study, None, ("process",))
    assert [row["functions"][0] for row in rows_of(compared)] == ["fput", "vm_stat_add", "iput", "d_alloc"]
    assert not any(row["differs"] for row in rows_of(compared))
    assert "*" not in as_text.as_text(compared)


def test_text_fits_a_mail(tmp_path: Path) -> None:
    wide = counts(
        *(row for n in range(30) for row in both(f"a_function_with_a_long_name_{n:02}", 7 + n, line=LINE)),
        *both("f", 123456789, line=LINE + 64, object=f"{'a_symbol_with_a_very_long_name' * 3}+0x40"),
        *both("g" * 120, 5, line=LINE + 128),
    )
    study = study_of(tmp_path / "s", {"debian/6.1 rcu_expedited=1": [wide], "debian/6.12": [wide]})
    text = as_text.as_text(compare_study(study, None, ("process", "interrupt")))
    assert max(map(len, text.splitlines())) <= 100


def test_markdown(compared: Comparison) -> None:
    table = [line for line in as_markdown.as_markdown(compared).splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {table[0].count("|")} == {8}
    assert table[0] == "|  | shared cache line | sharing | old | new | change | touched by |"
    assert (
        table[2]
        == f"| \\* | {HEAP} | reference count | 6.000 6.000 2/2 | 2.000 2.000 2/2 | -4.000 | `fput` |"
    )
    assert table[3] == f"| \\* | {HEAP} |  | 2.000 2.000 2/2 | - | -2.000 | `iput` |"


def test_csv_has_what_json_has(compared: Comparison) -> None:
    lines = list(csv.DictReader(io.StringIO(csv_json.as_csv(compared))))
    for number, row in enumerate(rows_of(compared)):
        cells = {line["variant"]: line for line in lines if line["row"] == str(number)}
        assert set(cells) == set(row["cells"])
        for variant, line in cells.items():
            assert (line["object"], line["functions"].split()) == (row["object"], row["functions"])
            assert line["sharing"] == ", ".join(sharing["kind"] for sharing in row["sharing"])
            assert bool(int(line["differs"])) is row["differs"]
            assert {name: float(line[name]) for name in row["cells"][variant]} == row["cells"][variant]


def shape(value: Any, like: Any) -> Any:
    """The names in a JSON value; where `like` maps variants to values, those of the first one."""
    if isinstance(value, dict):
        named = {name: shape(value[name], like) for name in value}
        by_variant = set(value) & {"debian/6.1", "debian/6.12", "old", "new"}
        return next(iter(named.values())) if by_variant else named
    return shape(value[0], like) if isinstance(value, list) and value else type(value) in (int, float)


def test_json_is_as_documented(compared: Comparison) -> None:
    page = (Path(__file__).parents[1] / "docs/reference/schema.md").read_text()
    documented = json.loads(page.split("```json\n")[1].split("```")[0])
    assert shape(json.loads(csv_json.as_json(compared)), None) == shape(documented, None)
