"""Where fields lie: what a layout costs by the accesses to each byte, and what other layouts would."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from conftest import bigiron, measured

from bigiron import workloads
from bigiron.analysis.layout import change, fields, joined, recorded, search, structure, tables
from bigiron.analysis.layout.change import Align, Change, Move, Pad, Split
from bigiron.analysis.layout.outcome import LayoutOutcome
from bigiron.analysis.layout.recorded import RecordedObjects, Tables
from bigiron.analysis.layout.structure import Anonymous, Field, Structure, Unit
from bigiron.analysis.lines import conflicts
from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.introspect.containers import Container, Containers
from bigiron.probes import ProbeTable
from bigiron.probes import conflicts as conflicts_probe
from bigiron.results import measurements
from bigiron.study import store
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import CellRecord

SLAB = 0xFFFF888003C5C000
LINE = 64

WIDGET = [  # what a struct widget has: field, offset, bytes, alignment
    ("flags", 0, 4, 4),
    ("count", 8, 8, 8),
    ("ops", 16, 8, 8),
    ("lock", 24, 4, 4),
    ("list", 32, 16, 8),
    ("name", 48, 32, 1),
    ("owner", 80, 8, 8),
]


def rows_of(
    name: str, members: Sequence[tuple[str, int, int, int]], size: int, align: int = 8
) -> Iterator[Any]:
    for number, (field, offset, size_of, aligned) in enumerate(members):
        placed = (offset, size_of, aligned, [], [])
        yield (
            name,
            size,
            align,
            number,
            *placed,
            field,
            offset,
            size_of,
            "long" if size_of == 8 else "int",
            "",
        )


def rows_of_structure(one: Structure) -> Iterator[Any]:
    for unit in one.units:
        numbers, aligns = [each.number for each in unit.around], [each.align for each in unit.around]
        placed = unit.number, unit.offset, unit.bytes, unit.align, numbers, aligns
        for field in unit.fields:
            inside = field.name, unit.offset + field.offset, field.bytes, field.type, field.inner
            yield (one.name, one.bytes, one.align, *placed, *inside)


def fields_table(*rows: Iterable[Any]) -> pl.DataFrame:
    return pl.DataFrame([one for each in rows for one in each], dict(tables.FIELDS), orient="row")


def objects_table(
    stride: int, number: int, struct: str = "widget", size: int = 88, start: int = SLAB
) -> pl.DataFrame:
    rows = [
        (
            start + at * stride,
            size,
            "slab",
            struct,
            struct,
            "",
            None,
            f"{struct}_cache",
            stride,
            0,
            8,
            4096 // stride,
        )
        for at in range(number)
    ]
    return pl.DataFrame(rows, dict(tables.OBJECTS), orient="row")


Access = tuple[int, int, int, int, int, str]  # CPU, address, bytes, reads, writes, function


def accesses_table(accesses: Iterable[Access], objects: pl.DataFrame) -> pl.DataFrame:
    """What the probe keeps of accesses: pieces of cache lines, joined again."""
    bounds = objects.select("start", "stride", "bytes").rows()
    rows = []
    for cpu, address, length, reads, writes, function in accesses:
        (start,) = [start for start, stride, size in bounds if start <= address < start + (stride or size)]
        while length:
            here = min(length, LINE - address % LINE)
            rows.append(
                (
                    cpu,
                    "process",
                    start,
                    address // LINE * LINE,
                    address,
                    here,
                    sum(function.encode()),
                    0,
                    function,
                    reads,
                    writes,
                )
            )
            address, length = address + here, length - here
    columns = {
        "cpu": pl.UInt32,
        "context": pl.String,
        "start": pl.UInt64,
        "line": pl.UInt64,
        **tables.ACCESSES,
    }
    frame = pl.DataFrame(rows, {name: columns[name] for name in (
        "cpu", "context", "start", "line", "address", "length", "pc", "chain", "function", "reads", "writes"
    )}, orient="row")  # fmt: skip
    same = [name for name in frame.columns if name not in ("reads", "writes")]
    summed = frame.group_by(same).agg(pl.col("reads", "writes").sum())
    return joined.joined(summed).select(pl.col(name).cast(kind) for name, kind in tables.ACCESSES.items())


def conflicts_table(accesses: Iterable[Access]) -> pl.DataFrame:
    """What the probe conflicts keeps of the same accesses."""
    found: dict[tuple[int, int, str], list[int]] = {}
    for cpu, address, length, reads, writes, function in accesses:
        while length:
            here = min(length, LINE - address % LINE)
            row = found.setdefault((cpu, address // LINE * LINE, function), [0, 0, 0])
            mask = (1 << here) - 1 << address % LINE
            row[:] = row[0] | mask, row[1] + reads, row[2] + writes
            address, length = address + here, length - here
    rows = [
        (
            cpu,
            "process",
            line,
            line,
            mask,
            "struct widget",
            "widget",
            0,
            0,
            sum(f.encode()),
            f,
            0,
            "",
            reads,
            writes,
        )
        for (cpu, line, f), (mask, reads, writes) in found.items()
    ]
    return pl.DataFrame(rows, dict(conflicts_probe.SCHEMA), orient="row")


def found_in(
    accesses: Sequence[Access],
    stride: int = 88,
    objects: int = 8,
    members: Sequence[tuple[str, int, int, int]] = WIDGET,
    operations: float = 10,
) -> RecordedObjects:
    there = objects_table(stride, objects)
    described = fields_table(rows_of("widget", members, 88))
    return recorded.find(
        Tables(accesses_table(accesses, there), there, described, operations, LINE), "struct widget"
    )


def at(number: int, offset: int, stride: int = 88) -> int:
    return SLAB + number * stride + offset


# As recorded


def random_accesses(seed: int, stride: int, objects: int) -> list[Access]:
    """Of a few functions that read, write and increment fields, clear new objects and copy parts of them."""
    chance = Random(seed)
    found: list[Access] = []
    for _ in range(chance.randrange(1, 60)):
        cpu, number, times = chance.randrange(4), chance.randrange(objects), chance.randrange(1, 20)
        size = chance.choice((1, 2, 4, 8))
        offset = chance.randrange(0, 88 - 8) // size * size
        kind = chance.choice(("reads", "writes", "increments", "memset", "copies"))
        if kind == "memset":
            found.append((cpu, at(number, 0, stride), 88, 0, times, "memset"))
        elif kind == "copies":
            other = chance.randrange(0, 10) * 8
            name = f"copy {chance.randrange(2)} of {number}"
            found.append((cpu, at(number, offset, stride), size, times, 0, name))
            found.append((cpu, at(number, other, stride), size, 0, times, name))
        else:
            reads, writes = times * (kind != "writes"), times * (kind != "reads")
            found.append(
                (cpu, at(number, offset, stride), size, reads, writes, f"{kind} {chance.randrange(9)}")
            )
    return found


@pytest.mark.parametrize("stride", [88, 96, 104, 128, 192])
@pytest.mark.parametrize("seed", range(12))
def test_as_recorded_it_is_the_study_s_own_count(seed: int, stride: int) -> None:
    accesses = random_accesses(seed, stride, 6)
    own = (
        conflicts.profile(conflicts_table(accesses), 10, LINE)
        .filter(~pl.col("recycled"))["accesses_per_op"]
        .sum()
    )
    beside = conflicts.pairs(conflicts_table(accesses), 10)["accesses_per_op"].sum()
    outcome = LayoutOutcome(found_in(accesses, stride, 6))
    assert outcome.lines.recorded == pytest.approx(own, abs=1e-9)
    assert outcome.pairs.recorded == pytest.approx(beside, abs=1e-9)


def test_recycled_memory_is_not_counted() -> None:
    """Each of its CPUs allocated an object there, one after the other."""
    mine = [(cpu, at(0, 0), 88, 0, 1, "memset") for cpu in (0, 1)]
    assert LayoutOutcome(found_in([*mine, (0, at(0, 8), 8, 5, 5, "f")])).lines.recorded == 0
    assert LayoutOutcome(
        found_in([*mine[:1], *[(cpu, at(0, 8), 8, 5, 5, "f") for cpu in (0, 1)]])
    ).lines.recorded


# Alignments


def test_each_place_that_a_slab_gives_is_counted() -> None:
    """88 = 8 x 11: each multiple of 8. A CPU writes the first field, another reads the last one."""
    accesses = [(0, at(0, 0), 4, 0, 100, "writes"), (1, at(0, 80), 8, 100, 0, "reads")]
    (places,) = LayoutOutcome(found_in(accesses)).places().values()
    assert [one.place for one in places] == list(range(0, 64, 8))
    assert sum(one.chance for one in places) == pytest.approx(1)
    assert {one.place: one.lines for one in places} == dict.fromkeys(range(0, 64, 8), 0.0)
    accesses = [(0, at(0, 0), 4, 0, 100, "writes"), (1, at(0, 24), 4, 100, 0, "reads")]
    (places,) = LayoutOutcome(found_in(accesses)).places().values()
    shared = {one.place: one.lines for one in places}
    assert shared == {place: 20.0 if place + 24 < 64 else 0.0 for place in range(0, 64, 8)}
    assert [one.place for one in places if one.recorded] == [0]


def test_an_object_shares_lines_with_those_beside_it() -> None:
    """The last field of one and the first of the next, each of one CPU."""
    accesses = [(0, at(0, 80), 8, 0, 100, "writes"), (1, at(1, 0), 4, 0, 100, "writes")]
    outcome = LayoutOutcome(found_in(accesses))
    assert outcome.lines.recorded == 20.0  # both lie in bytes 64 to 127
    assert outcome.lines.best == 0
    assert outcome.lines.worst == 20.0


def test_places_of_a_cache_are_as_likely_as_a_slab_has_objects_there() -> None:
    (places,) = LayoutOutcome(found_in(random_accesses(3, 88, 8))).places().values()
    objects = [88 * number % 64 for number in range(4096 // 88)]
    assert {one.place: one.chance for one in places} == pytest.approx(
        {place: objects.count(place) / len(objects) for place in set(objects)}
    )


@pytest.mark.parametrize("seed", range(8))
def test_another_boot_counts_what_was_computed_for_its_alignment(seed: int) -> None:
    """The same accesses, of objects that lie elsewhere."""
    accesses = random_accesses(seed, 88, 1)
    one = LayoutOutcome(found_in(accesses, objects=1))
    (places,) = one.places().values() or [[]]
    for number in range(1, 8):
        there = [(cpu, address + 88 * number, *rest) for cpu, address, *rest in accesses]
        other = LayoutOutcome(found_in(there, objects=8))
        wanted = next(each.lines for each in places if each.place == 88 * number % 64)
        assert other.lines.recorded == pytest.approx(wanted, abs=1e-9)


# Changes


def built_with(accesses: Sequence[Access], after: Structure, before: Structure) -> list[Access]:
    """The accesses of a kernel that was built with another declaration."""
    places = {unit.number: unit.offset for unit in after.units}
    moved = []
    for cpu, address, length, *rest in accesses:
        number, offset = divmod(address - SLAB, 88)
        there = before.field_at(offset)
        assert there
        unit, _, inside = there
        moved.append((cpu, SLAB + 88 * number + places[unit.number] + inside, length, *rest))
    return moved


def field_accesses(seed: int) -> list[Access]:
    chance = Random(seed)
    found = []
    for _ in range(40):
        field, offset, size, _ = chance.choice(WIDGET)
        length = min(size, 8)
        reads, writes = chance.choice(((1, 0), (0, 1), (1, 1)))
        found.append(
            (
                chance.randrange(4),
                at(chance.randrange(6), offset),
                length,
                7 * reads,
                7 * writes,
                f"of {field}",
            )
        )
    return found


@pytest.mark.parametrize("seed", range(20))
def test_a_move_is_predicted_as_a_kernel_built_with_it_counts(seed: int) -> None:
    chance = Random(seed)
    accesses = field_accesses(seed)
    found = found_in(accesses)
    one, other = chance.sample([name for name, *_ in WIDGET], 2)
    try:
        outcome = LayoutOutcome(found, [Move(one, chance.choice(("after", "before")), other)])
    except UserError:
        return
    if outcome.structure.bytes != 88:
        return  # its objects lie elsewhere
    built = conflicts_table(built_with(accesses, outcome.structure, found.structure))
    counted = conflicts.profile(built, 10, LINE).filter(~pl.col("recycled"))["accesses_per_op"].sum()
    assert outcome.lines.recorded == pytest.approx(counted, abs=1e-9)


def known_widget() -> Structure:
    return structure.structures(fields_table(rows_of("widget", WIDGET, 88)))["widget"]


def offsets(of: Structure) -> dict[str, int]:
    return {unit.fields[0].name: unit.offset for unit in of.units}


def test_a_struct_is_laid_out_again_as_it_was() -> None:
    assert structure.laid_out(known_widget()) == known_widget()
    assert list(known_widget().holes()) == [(4, 4), (28, 4)]


def test_a_move_fills_a_hole() -> None:
    after = change.changed(known_widget(), [Move("lock", "after", "flags")])
    assert offsets(after)["lock"] == 4
    assert (after.bytes, offsets(after)["list"]) == (80, 24)


def test_padding_leaves_a_field_alone() -> None:
    after = change.changed(known_widget(), [Pad("count", 64)])
    assert (offsets(after)["count"], offsets(after)["ops"], after.align) == (64, 128, 64)
    assert after.bytes == 256


def test_a_struct_around_it_grows_with_it() -> None:
    """As an inode in what a file system has around it."""
    inside = [("before", 0, 8, 8), ("w", 8, 88, 8), ("after", 96, 8, 8)]
    rows = [
        (*row[:-1], "widget") if row[9] == "w" else row for row in rows_of("holder", inside, 104)
    ]  # fmt: skip
    known = structure.structures(fields_table(rows_of("widget", WIDGET, 88), rows))
    after = change.changed(known["widget"], [Pad("count", 64)])
    all = structure.within(known, after, structure.holders(known, "widget"))
    assert (offsets(all["holder"]), all["holder"].bytes) == ({"before": 0, "w": 64, "after": 320}, 384)
    moved = structure.moved(known, all, "holder")
    assert (moved[0], moved[8], moved[16], moved[96]) == (0, 64, 128, 320)
    assert structure.holders(known, "widget") == {"widget": [0], "holder": [8]}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([Move("lcok", "after", "ops")], "struct widget has no field 'lcok'"),
        ([Move("lock", "after", "ops2")], "struct widget has no field 'ops2'"),
        ([Move("lock", "before", "lock")], "both are in one declaration, lock"),
        (
            [Move("lock.owner", "after", "ops")],
            "lock.owner is a part of lock, and only all of lock can be moved",
        ),
        ([Pad("lcok", 64)], "struct widget has no field 'lcok'"),
    ],
)
def test_a_change_that_cannot_be_is_refused(changes: list[Change], why: str) -> None:
    with pytest.raises(UserError, match=why):
        change.changed(known_widget(), changes)


def test_nothing_moves_after_an_array_of_no_length() -> None:
    units = [*known_widget().units, Unit(7, (Field("data", 0, 0, "char [0]"),), 88, 0, 1)]
    open_ended = structure.as_it_is("widget", 88, 8, units)
    for asked in (Move("lock", "after", "data"), Move("data", "after", "lock")):
        with pytest.raises(UserError, match="a flexible array"):
            change.changed(open_ended, [asked])


def test_what_has_no_size_inside_a_struct_is_no_flexible_array() -> None:
    """As `__cacheline_group_begin()` in struct sock."""
    units = list(known_widget().units)
    units.insert(3, Unit(7, (Field("__cacheline_group_begin__w", 0, 0, "__u8 [0]"),), 24, 0, 1))
    marked = structure.as_it_is("widget", 88, 8, units)
    after = change.changed(marked, [Move("flags", "before", "lock")])
    assert {"count": 0, "ops": 8, "flags": 16, "lock": 20}.items() <= offsets(after).items()
    after = change.changed(marked, [Split(("owner",), 64)])
    assert (offsets(after)["owner"], after.bytes) == (128, 192)


OUTER = Anonymous(1, 64)
MM = structure.as_it_is(  # as Linux declares mm_struct, in an anonymous struct with another one in it
    "mm",
    128,
    64,
    [
        Unit(number, (Field(name, 0, size, type),), offset, size, size or 8, around=around)
        for number, (name, offset, size, type, around) in enumerate(
            [
                ("count", 0, 4, "int", (OUTER, Anonymous(2, 64))),
                ("pgd", 64, 8, "long", (OUTER,)),
                ("users", 72, 4, "int", (OUTER,)),
                ("map", 80, 8, "long", (OUTER,)),
                ("low", 88, 4, "int", (OUTER, Anonymous(3, 8))),
                ("high", 96, 8, "long", (OUTER, Anonymous(3, 8))),
                ("bitmap", 128, 0, "long [0]", ()),
            ]
        )
    ],
)


def test_a_member_moves_inside_its_anonymous_struct() -> None:
    assert structure.laid_out(MM) == MM
    after = change.changed(MM, [Move("map", "before", "pgd")])
    assert {"map": 64, "pgd": 72, "users": 80}.items() <= offsets(after).items()
    after = change.changed(MM, [Move("map", "after", "count")])  # after the struct that `count` is in
    assert {"count": 0, "map": 64, "pgd": 72}.items() <= offsets(after).items()
    after = change.changed(MM, [Move("pgd", "before", "high")])
    assert {"users": 64, "map": 72, "pgd": 80, "low": 88}.items() <= offsets(after).items()
    after = change.changed(MM, [Split(("pgd", "users"), 64)])
    assert {"map": 64, "low": 72, "pgd": 128, "users": 136}.items() <= offsets(after).items()
    assert (after.bytes, offsets(after)["bitmap"]) == (192, 192)
    for asked in (Move("low", "after", "pgd"), Move("pgd", "after", "bitmap"), Move("count", "after", "map")):
        with pytest.raises(UserError, match="is in an anonymous struct, and can only be moved inside it"):
            change.changed(MM, [asked])
    with pytest.raises(UserError, match="they are not all in the same anonymous struct"):
        change.changed(MM, [Split(("pgd", "low"), 64)])
    with pytest.raises(UserError, match="no other member is left"):
        change.changed(MM, [Split(("count",), 64)])


@pytest.mark.parametrize(
    ("text", "read", "why"),
    [
        ("i_sb", change.move, "use FIELD:after:FIELD"),
        ("i_sb:beside:i_flags", change.move, "use FIELD:after:FIELD"),
        ("i_version", change.pad, "use FIELD:BYTES"),
        ("i_version:63", change.pad, "use a power of two"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(text: str, read: Any, why: str) -> None:
    with pytest.raises(UserError, match=why):
        read(text)
    with pytest.raises(UserError, match="use a power of two"):
        change.align(48)


# Which fields, and the search


def hot_widget() -> list[Access]:
    """All CPUs read `ops`, and one increments `count` beside it; each object's `owner` is its CPU's."""
    found = [(cpu, at(0, 16), 8, 100, 0, "reads_ops") for cpu in range(4)]
    return [*found, (0, at(0, 8), 8, 100, 100, "counts"), (1, at(0, 80), 8, 0, 1, "sets_owner")]


def test_fields_are_named_with_what_is_done_to_them() -> None:
    found = fields.Members(found_in(hot_widget())).uses()
    assert [(one.field, one.offset, one.reads, one.writes, one.readers, one.writers) for one in found] == [
        ("count", 8, 10.0, 10.0, 1, 1),
        ("ops", 16, 40.0, 0.0, 4, 0),
        ("owner", 80, 0.0, 0.1, 0, 1),
    ]


def test_pairs_that_disturb_each_other_are_found() -> None:
    found = found_in(hot_widget())
    worst = fields.Members(found).losses(found.structure)[0]
    assert (worst.one, worst.other, worst.accesses) == ("count", "ops", 50.0)
    assert worst.chance == pytest.approx(7 / 8, abs=0.02)


def test_each_struct_of_an_object_is_shown() -> None:
    """Two in one object, as zones in a node: what CPUs access in one is no use of the other."""
    described = fields_table(
        rows_of("widget", WIDGET, 88),
        ((*row[:-1], "widget") for row in rows_of("node", [("id", 0, 8, 8), ("zones", 8, 176, 8)], 184)),
    )
    there = objects_table(192, 4, "node", 184)
    accesses = [(cpu, SLAB + 8 + 88 + 16, 8, 100, 0, "reads_ops") for cpu in range(4)]
    accesses += [(0, SLAB + 8 + 88 + 8, 8, 0, 100, "counts"), (3, SLAB + 8 + 8, 8, 0, 50, "counts")]
    found = recorded.find(
        Tables(accesses_table(accesses, there), there, described, 10, LINE), "struct widget"
    )
    members = fields.Members(found)
    assert [(one.field, one.reads, one.writes, one.readers, one.writers) for one in members.uses()] == [
        ("count", 0.0, 15.0, 0, 1),
        ("ops", 40.0, 0.0, 4, 0),
    ]
    (loss,) = members.losses(found.structure)
    assert (loss.one, loss.other, loss.accesses, loss.chance) == ("count", "ops", 50.0, 1.0)


def test_fields_that_one_function_writes_are_written_together() -> None:
    accesses = [(0, at(0, offset), 8, 0, 100, "stamps") for offset in (8, 80)]
    assert fields.Members(found_in([*accesses, (1, at(0, 16), 8, 0, 100, "other")])).written_together() == [
        ("count", "owner")
    ]


def test_the_search_takes_the_smallest_change_that_saves_most() -> None:
    found = found_in(hot_widget())
    before = LayoutOutcome(found)
    first = search.proposals(fields.Members(found), before)[0]
    assert isinstance(first.changes[0], Move)
    assert first.outcome.bytes <= before.bytes
    assert before.expected - first.outcome.expected > 0.5 * before.expected


def test_where_a_byte_is_shared_nothing_is_proposed() -> None:
    found = found_in([(cpu, at(0, 8), 8, 100, 100, "counts") for cpu in range(4)])
    assert search.proposals(fields.Members(found), LayoutOutcome(found)) == []


@pytest.mark.parametrize("line", [64, 128])
def test_objects_of_several_cpus_are_aligned_to_the_processor_s_cache_line(line: int) -> None:
    written = [offset for _, offset, *_ in WIDGET]
    accesses = [(cpu, at(cpu, offset), 4, 0, 100, "counts") for cpu in range(4) for offset in written]
    found = replace(found_in(accesses), line_bytes=line)
    assert search.proposals(fields.Members(found), LayoutOutcome(found))[0].changes == (Align(line),)


class OfEach32Bytes(Containers):
    """A kernel with a variable every 32 bytes."""

    def __init__(self) -> None: ...

    def _variable(self, address: int) -> Container:
        return Container(address - address % 32, 32, "variable", "v", "", "", None, "", 0, 0, 0, 0)


@pytest.mark.parametrize(("line", "beside"), [(64, [64, 96]), (128, [0, 32, 64, 96])])
def test_what_lies_beside_a_variable_is_in_its_cache_line(line: int, beside: list[int]) -> None:
    found = OfEach32Bytes().beside([SLAB + 64], line)
    assert [one.start - SLAB for one in found] == beside


def test_aligned_objects_have_one_place() -> None:
    outcome = LayoutOutcome(found_in(hot_widget()), [Align(64)])
    (((_, stride), places),) = outcome.places().items()
    assert (stride, [one.place for one in places], outcome.objects_grow) == (128, [0], 40)


# Pieces


def piece(address: int, length: int, reads: int = 1, pc: int = 1) -> dict[str, Any]:
    return {
        "cpu": 0, "context": "process", "pc": pc, "chain": 0, "start": 0, "line": address // 64 * 64,
        "address": address, "length": length, "function": "f", "reads": reads, "writes": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([piece(60, 4), piece(64, 4)], [(60, 8)]),  # an access of 8 bytes over a cache line's end
        ([piece(56, 8), piece(64, 8)], [(56, 8), (64, 8)]),  # two of them, as in a loop
        ([piece(0, 64), piece(64, 64), piece(128, 16)], [(0, 144)]),  # a fill
        ([piece(60, 4), piece(64, 4, reads=2)], [(60, 4), (64, 4)]),
        ([piece(60, 4), piece(64, 4, pc=2)], [(60, 4), (64, 4)]),
        ([piece(48, 8), piece(56, 8)], [(48, 8), (56, 8)]),  # in one cache line
    ],
)
def test_pieces_of_one_access_are_joined(pieces: list[dict[str, Any]], whole: list[tuple[int, int]]) -> None:
    found = joined.joined(pl.DataFrame(pieces))
    assert sorted(found.select("address", "length").rows()) == whole


# The command


def study_of(
    folder: Path,
    accesses: Sequence[Access],
    variables: Sequence[Any] = (),
    described: Iterable[Any] | None = None,
    slab: pl.DataFrame | None = None,
    arch: str = "x86_64",
) -> Path:
    """A study with that one cell."""
    spec = Spec(
        arch=arch,
        workload="getppid1",
        probes=["layout"],
        cpus=[4],
        operations=10,
        variant=[Variant(name="k", kernel="k")],
    )
    study = store.create(folder, spec, workloads.find("getppid1"))
    more = pl.DataFrame(list(variables), dict(tables.OBJECTS), orient="row")
    objects = pl.concat([objects_table(88, 8) if slab is None else slab, more])
    facts = {
        "operations": [10],
        "line_bytes": architecture(arch).line_bytes,
        "lost_accesses": 0,
        "other_accesses": 1234,
    }
    made = {
        "layout": ProbeTable(accesses_table(accesses, objects), facts),
        "layout_objects": ProbeTable(objects),
        "layout_fields": ProbeTable(fields_table(described or rows_of("widget", WIDGET, 88))),
    }
    for cell in study.plan():
        record = CellRecord(
            id=cell.id, variant="k", machine="vm", cpus=4, tasks=4, repetition=1, environment={}
        )
        study.add(record, made)
    return folder


@pytest.fixture(scope="module")
def hot_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study_of(tmp_path_factory.mktemp("hot") / "s", hot_widget())


def test_the_map_and_the_costs_are_shown(hot_study: Path) -> None:
    answer = bigiron("layout", hot_study, "struct widget")
    assert answer.status == 0, answer
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    for line in (
        "8 8 long count; 10.00 10.00 1/1",
        "16 8 long ops; 40.00 - 0/4",
        "4 4 /* hole */",
        "/* cache line 1: 64 bytes */",
        "50.000 count and ops (in one line: 87%)",
    ):
        assert line in lines
    assert "}; /* 88 bytes, 2 cache lines if it begins one */\nlayout records slab objects and" in answer.out
    assert " variables: 123.400 accesses per operation to other memory" in answer.out
    assert "proposal 1: move ops " in answer.out or "proposal 1: move count " in answer.out


def test_on_power_a_cache_line_has_128_bytes(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", hot_widget(), arch="ppc64le")
    answer = bigiron("layout", study, "struct widget", "--split", "owner")
    assert "}; /* 88 bytes, 1 cache line if it begins one */" in answer.out, answer
    assert "struct widget has 256 bytes (+168) in 2 cache lines" in " ".join(answer.out.split())


def test_a_study_that_does_not_have_the_number_of_other_accesses_says_nothing_of_them(tmp_path: Path) -> None:
    """Until November 2026 its facts had `elsewhere`, the sum of reads and writes."""
    study = study_of(tmp_path / "s", hot_widget())
    (cell,) = study.glob("cells/*/cell.json")
    cell.write_text(cell.read_text().replace('"other_accesses"', '"elsewhere"'))
    assert "other memory" not in bigiron("layout", study, "struct widget").out
    assert bigiron("layout", study, "struct none").err.endswith(", and variables, by their names\n")


def test_a_struct_in_an_anonymous_struct_is_taken_apart(tmp_path: Path) -> None:
    """All of mm_struct is in one: a member that all CPUs read beside one that is written."""
    found = [(cpu, SLAB + 72, 4, 100, 0, "mmget") for cpu in range(4)]
    found.append((0, SLAB + 64, 8, 0, 100, "pgd_free"))
    mm = {"described": rows_of_structure(MM), "slab": objects_table(128, 1, "mm", 128)}
    text = bigiron("layout", study_of(tmp_path / "s", found, **mm), "struct mm").out
    _, _, rest = text.partition("struct mm {\n")
    shown, _, _ = rest.partition("\n}; ")
    assert [line[:45].rstrip() for line in shown.splitlines()] == [
        "              struct {",
        "                struct {",
        "     0     4      int count;",
        "     4    60  /* hole */",
        "                };",
        "              /* cache line 1: 64 bytes */",
        "    64     8    long pgd;",
        "    72     4    int users;",
        "    76     4  /* hole */",
        "    80     8    long map;",
        "                struct {",
        "    88     4      int low;",
        "    92     4  /* hole */",
        "    96     8      long high;",
        "                };",
        "   104    24  /* hole */",
        "              };",
        "              /* cache line 2: 128 bytes */",
        "   128     0  long bitmap[0];",
    ]
    assert "50.000  pgd and users (in one line: 100%)" in text
    assert "proposal 1: pad pgd to 64 bytes" in text


def test_json_has_what_text_has(hot_study: Path) -> None:
    found = json.loads(bigiron("layout", hot_study, "struct widget", "--format", "json").out)
    assert [field["field"] for field in found["fields"]] == ["count", "ops", "owner"]
    assert found["layout"]["accesses_per_op"]["recorded"] == 50.0
    assert [place["place"] for place in found["layout"]["alignments"]] == list(range(0, 64, 8))
    assert found["proposals"][0]["accesses_per_op"]["expected"] < 50.0


def test_csv_has_writers_before_readers_as_compare_has(hot_study: Path) -> None:
    head, *rows = bigiron("layout", hot_study, "struct widget", "--format", "csv").out.splitlines()
    assert head == "field,offset,bytes,reads_per_op,writes_per_op,writers,readers"
    assert rows[1] == "ops,16,8,40.0,0.0,0,4"


def test_a_change_is_counted(hot_study: Path) -> None:
    asked = ("--move", "count:after:owner", "--align", "64", "--format", "json")
    found = json.loads(bigiron("layout", hot_study, "struct widget", *asked).out)
    assert found["asked"]["changes"] == ["move count after owner", "align the struct to 64 bytes"]
    assert found["asked"]["accesses_per_op"] == {"recorded": None, "best": 0.2, "worst": 0.2, "expected": 0.2}
    assert (found["asked"]["objects_grow"], found["proposals"]) == (40, [])


def test_transfers_are_predicted_with_an_interval(hot_study: Path) -> None:
    answer = bigiron("layout", hot_study, "struct widget", "--machine", "x86-2s", "--format", "json")
    predicted = json.loads(answer.out)["layout"]["predicted_ns_per_op"]
    assert 0 < predicted["low"] <= predicted["value"] <= predicted["high"]
    text = bigiron("layout", hot_study, "struct widget", "--machine", "x86-2s").out
    assert "predicted on x86-2s: " in text


def test_a_variable_is_shown_with_its_neighbours(tmp_path: Path) -> None:
    """One that is read by all CPUs, in a cache line that another one's writer takes away."""
    start = 0xFFFFFFFF82A00000
    sizes = (
        ("jiffies", 0, 8),
        ("sched_clock_irqtime", 8, 4),
        ("never", 16, 8),
        ("nohz", 24, 40),
        ("far", 128, 8),
    )
    variables = [
        (start + at, size, "variable", name, "", "", None, "", 0, 0, 0, 0) for name, at, size in sizes
    ]
    accesses = [(cpu, start + 8, 4, 100, 0, "irqtime_account_irq") for cpu in range(4)]
    accesses += [(0, start + 32, 8, 0, 100, "nohz_balance_enter_idle"), (1, start + 128, 8, 0, 5, "far")]
    study = study_of(tmp_path / "s", accesses, variables)
    answer = bigiron("layout", study, "sched_clock_irqtime")
    assert answer.status == 0, answer
    assert [word in answer.out for word in ("jiffies", "never", "nohz", "far")] == [
        True,
        True,
        True,
        False,
    ]
    assert "50.000  sched_clock_irqtime and nohz (in one line: 100%)" in answer.out
    padded = bigiron("layout", study, "sched_clock_irqtime", "--pad", "nohz:64", "--format", "json")
    assert json.loads(padded.out)["asked"]["accesses_per_op"]["expected"] == 0


def test_a_variable_that_is_called_as_its_struct_is_shown_with_its_fields(tmp_path: Path) -> None:
    """As rcu_state, rcu_data and softnet_data."""
    start = 0xFFFFFFFF82A00000
    state = (start, 88, "variable", "widget", "widget", "", None, "", 0, 0, 0, 0)
    accesses = [(cpu, start + 16, 8, 100, 0, "rcu_gp_kthread") for cpu in range(4)]
    accesses.append((0, start + 8, 8, 0, 100, "rcu_report_dead"))
    study = study_of(tmp_path / "s", accesses, [state])
    text = bigiron("layout", study, "widget").out
    assert "around widget {" in text
    shown = [line.split()[2] for line in text.splitlines() if "/4" in line or "1/0" in line]
    assert shown == ["widget.count", "widget.ops"]
    assert text.endswith("\nno move or padding of whole variables saves 5 % of that\n")
    answer = bigiron("layout", study, "widget", "--pad", "gadget:64")
    assert "around widget has no field 'gadget'" in answer.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["struct zone"],
            "'struct zone': no accesses to it were recorded; layout records slab objects whose type is "
            "known, here 'struct widget', and variables, by their names; 123.400 accesses per operation to "
            "other memory, in all contexts, were left out",
        ),
        (["struct widget", "--move", "lock:after:lcok"], "struct widget has no field 'lcok'"),
        (["struct widget", "--move", "lock"], "--move 'lock': use FIELD:after:FIELD"),
        (["struct widget", "--pad", "lock:60"], "--pad lock:60: use a power of two up to 4096"),
        (["struct widget", "--align", "0"], "--align 0: use a power of two up to 4096"),
        (["struct widget", "--variant", "l"], "has no variant 'l': it has k"),
        (["struct widget", "--machine", "cray"], "no machine 'cray'"),
    ],
)
def test_bad_input_is_one_line(hot_study: Path, arguments: list[str], complaint: str) -> None:
    answer = bigiron("layout", hot_study, *arguments)
    assert (answer.status, answer.out) == (2, "")
    assert complaint in answer.err
    assert answer.err.count("\n") == 1


def test_a_study_without_the_probe_is_refused(tmp_path: Path) -> None:
    spec = Spec(workload="getppid1", probes=["conflicts"], cpus=[2], variant=[Variant(name="k", kernel="k")])
    store.create(tmp_path / "s", spec, workloads.find("getppid1"))
    answer = bigiron("layout", tmp_path / "s", "struct inode")
    assert answer.status == 2
    assert f"run `bigiron run {tmp_path / 's'} --probe layout` to measure its cells again" in answer.err


def test_of_a_real_kernel_it_is_the_study_s_own_count(tmp_path: Path) -> None:
    """Of the inodes and dentries that unlink1 makes, in one directory."""
    recording = (
        "--kernel",
        "debian/6.12",
        "--cpus",
        "4",
        "--operations",
        "50",
        "--probe",
        "conflicts,layout",
    )
    measured("unlink1", *recording, "-o", tmp_path / "s")
    study = store.open_study(tmp_path / "s")
    (record,) = study.records()
    cell, counted = (measurements.cell(study, record, probe) for probe in ("layout", "conflicts"))
    accesses = cell.table.filter(pl.col("context") == "process")
    there = Tables(accesses, cell.more["objects"], cell.more["fields"], cell.operations, LINE)
    shared = conflicts.profile(counted.table, counted.operations, counted.line_bytes).filter(
        ~pl.col("recycled")
    )
    share = shared.select("line", share=pl.col("accesses_per_op") / pl.col("all_per_op"))
    of_lines = counted.table.filter(pl.col("context") == "process").join(share, on="line")
    own = of_lines.with_columns(pl.max_horizontal("reads", "writes") * pl.col("share") / counted.operations)
    for struct in ("struct inode", "struct dentry"):
        found = recorded.find(there, struct)
        wanted = own.filter(pl.col("start").is_in(found.accesses["start"].unique().to_list()))["reads"].sum()
        assert wanted > 5
        assert LayoutOutcome(found).lines.recorded == pytest.approx(wanted, rel=1e-6)
    shown = bigiron("layout", tmp_path / "s", "struct inode").out
    assert "struct rw_semaphore i_rwsem;" in shown
    assert re.search(r"shmem_inode_cache, an object every \d+ bytes", shown)
    explained = " ".join(bigiron("explain", tmp_path / "s").out.split())
    assert re.search(r"layout all fields of struct inode: [\d.]+ to [\d.]+ on debian/6.12, by", explained)
    of_inode = next(
        finding["by_alignment"]["debian/6.12"]
        for finding in json.loads(bigiron("explain", tmp_path / "s", "--format", "json").out)["findings"]
        if finding["objects"][0].startswith("struct inode.") and finding["by_alignment"]
    )
    assert of_inode["best"] <= of_inode["recorded"] <= of_inode["worst"] > 1.05 * of_inode["best"]
