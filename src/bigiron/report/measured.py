"""A profile of a real machine beside the counts of a study: text, Markdown, CSV and JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from bigiron.analysis.comparison.measured import FIRST, Agreement, CountedThing, Pair
from bigiron.report.formats.columns import aligned
from bigiron.report.formats.listing import Listing, json_text, markdown_table, plain
from bigiron.util.english import first_n, join_and
from bigiron.util.measured import is_time
from bigiron.util.numbers import count

_WIDTH = 100
_INDENT = " " * 6
_MOST = 20  # rows of text
_MOST_FUNCTIONS = 4
_MOST_FIELDS = 8
_MOST_NOT_READ = 3
_LONG, _LEAST_LONG = 3.0, 0.02
"""Times its share of the instructions, and share of the samples, from which a function takes long."""


@dataclass(frozen=True)
class _Words:
    """How a kind of thing is spoken of."""

    thing: str
    count: str  # of CountedThing.cells, by which they are ranked
    unit: str
    absent: str  # why something that was counted may not be measured
    whole: str  # of which it has a share
    costs: str  # what the machine loses most at
    figure: Callable[[dict[str, float]], str]  # in a sentence
    beside: str = "counts, not times"  # what the figures are


_WORDS = {
    "cache lines": _Words(
        "cache line",
        "accesses_per_op",
        "accesses per operation",
        "perf lists a cache line only if sampled loads found it changed by another CPU",
        "the loads that another cache answered",
        "The cache line that your machine loses most at",
        lambda cell: f"written {cell['writes_per_op']:.3f} times per operation",
    ),
    "locks": _Words(
        "lock",
        "held_per_op",
        "instructions under it per operation",
        "no task waited for them, or not in functions of these names",
        "the waiting",
        "The lock that your machine waits longest for",
        lambda cell: (
            f"taken {cell['acquisitions_per_op']:.3f} times per operation, "
            f"for {cell['held_per_op']:.1f} instructions"
        ),
    ),
    "functions": _Words(
        "function",
        "self_per_op",
        "instructions per operation",
        "no sample fell into them, or the compiler of the measured kernel made them part of their callers",
        "the kernel's samples",
        "The function in which your machine spends most time",
        lambda cell: f"{cell['self_per_op']:.1f} instructions per operation",
    ),
    "waits": _Words(
        "wait",
        "ms_per_op",
        "milliseconds off the CPU per operation",
        "no task waited there, or not long enough to be listed",
        "the waiting",
        "The place where your machine's tasks wait longest",
        lambda cell: f"{cell['ms_per_op']:.3f} ms per operation, in {cell['times_per_op']:.3f} waits",
        "a virtual machine's time",
    ),
}


_NO_TIMES = {
    "functions": replace(_WORDS["functions"], costs="The function with most {unit}"),
    "waits": replace(
        _WORDS["waits"],
        costs="The place whose stacks weigh most (time, if the tool summed times)",
        whole="their weight",
    ),
}
"""Of the same kinds, where weights are no times as far as is known."""


@dataclass(frozen=True)
class Beside:
    """An agreement, and what it is of."""

    study: str
    workload: str
    file: str
    agreement: Agreement

    @property
    def words(self) -> _Words:
        """How its things are spoken of."""
        words = _WORDS[self.agreement.kind]
        return words if is_time(self.agreement.unit) else _NO_TIMES.get(self.agreement.kind, words)


def sentences(found: Beside) -> list[str]:
    """What limits the machine that was measured, in the words of what was counted."""
    pairs, words = found.agreement.pairs, found.words
    first = next((pair for pair in pairs if pair.counted), None)
    costs = words.costs.format(unit=found.agreement.unit.removeprefix("% of the "))
    said = []
    if pairs and not pairs[0].counted:
        called = _called(pairs[0])
        said.append(f"{costs}, {called}, was not counted: {pairs[0].why}.")
    if first and first.counted:
        lead = costs if first is pairs[0] else "The first of them that was counted"
        counts = [
            f"{words.figure(dict(first.counted.cells[variant]))} on {variant}"
            if variant in first.counted.cells
            else f"not at all on {variant}"
            for variant in found.agreement.at.variants
        ]
        said.append(
            f"{lead} is {first.counted.name}: {'; '.join(counts)} "
            f"({first.share:.0%} of {words.whole}; number {first.counted.rank} of those counted)."
        )
    return [*said, *found.agreement.notes, agreement(found)]


def _called(pair: Pair) -> str:
    functions = first_n(pair.measured.functions, _MOST_FUNCTIONS)
    name = pair.measured.name
    return " in ".join(filter(None, (name, "" if name.startswith(functions) else functions)))


def agreement(found: Beside) -> str:
    """How far the orders agree."""
    one = found.agreement
    rank = (
        f"Spearman's rank correlation is {one.correlation:.2f}"
        if one.correlation is not None
        else "too few for a rank correlation"
    )
    return (
        f"Agreement: {len(one.both)} of {len(one.pairs)} measured {one.kind} were counted too ({rank}); "
        f"of the first {one.first} measured, {one.first_of_both} are among the first {FIRST} counted."
    )


def _heading(found: Beside) -> str:
    return (
        f"{found.workload}, {found.agreement.at}: {found.agreement.kind} by {found.agreement.unit} in "
        f"{found.file}, beside {found.words.unit} ({found.words.beside}), ranked on {found.agreement.at.base}"
    )


def _columns(found: Beside) -> list[str]:
    return ["measured", "share", "counted", "share", *found.agreement.at.variants]


def _cells(found: Beside, counted: CountedThing | None) -> list[str]:
    """Rank and share of what was counted, and its count in each variant."""
    if not counted:
        return ["-"] * (2 + len(found.agreement.at.variants))
    counts = [
        count(counted.cells[variant][found.words.count]) if variant in counted.cells else "-"
        for variant in found.agreement.at.variants
    ]
    return [str(counted.rank), f"{counted.share:.1%}", *counts]


def _row(found: Beside, pair: Pair) -> list[str]:
    return [str(pair.rank), f"{pair.share:.1%}", *_cells(found, pair.counted)]


def _name(pair: Pair) -> str:
    if pair.counted:
        return pair.counted.name
    return pair.measured.name or first_n(pair.measured.functions, 1)


def _captions(found: Beside, pair: Pair) -> Iterator[str]:
    """What is known of a pair besides its ranks."""
    if found.agreement.kind != "functions" and (called := _called(pair)) != _name(pair):
        yield f"measured: {called}"
    if pair.why:
        yield f"not counted: {pair.why}"
    for field, functions in pair.fields[:_MOST_FIELDS]:
        yield f"{field}: {', '.join(functions)}" if functions else field
    if found.agreement.kind == "functions" and (longer := _longer(pair)):
        yield f"{longer:.0f} times its share of the instructions"


def _longer(pair: Pair) -> float:
    """How many times its share of the instructions a function's share of the time is, if that is much."""
    if not pair.counted or pair.share < _LEAST_LONG or pair.share < _LONG * pair.counted.share:
        return 0.0
    return pair.share / pair.counted.share


def _notes(found: Beside) -> Iterator[str]:
    one = found.agreement
    if len(one.pairs) > _MOST:
        yield f"{len(one.pairs) - _MOST} more were measured (--format csv has all)."
    if any(_longer(pair) for pair in one.pairs[:_MOST]) and one.kind == "functions" and is_time(one.unit):
        yield (
            "What takes much more than its share of the instructions waits for cache lines or locks, or "
            "executes instructions that take long."
        )
    if first := [counted for counted in one.only_counted if counted.rank <= FIRST]:
        names = [f"{counted.rank}: {counted.name} ({count(counted.value)})" for counted in first]
        listed = "; ".join(names)
        yield f"Among the first {FIRST} counted, not measured: {listed}. {_sentence(found.words.absent)}"
    yield agreement(found)
    yield from one.notes
    if one.not_read:
        lines = [f"line {at}: {written!r}" for at, written in one.not_read[:_MOST_NOT_READ]]
        more = len(one.not_read) - len(lines)
        yield f"Not understood in {found.file}: {join_and([*lines, *([f'{more} more'] if more else [])])}."


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def as_text(found: Beside) -> str:
    """For a terminal or a mail."""
    shown = found.agreement.pairs[:_MOST]
    table = list(aligned([_columns(found), *(_row(found, pair) for pair in shown)]))
    lines = [*textwrap.wrap(_heading(found), _WIDTH), "", f"{table[0]}  {found.words.thing}"]
    for row, pair in zip(table[1:], shown, strict=True):
        lines.append(f"{row}  {_name(pair)}")
        for caption in _captions(found, pair):
            lines += textwrap.wrap(caption, _WIDTH, initial_indent=_INDENT, subsequent_indent=f"{_INDENT}  ")
    for note in _notes(found):
        lines += ["", *textwrap.wrap(note, _WIDTH)]
    return "\n".join(lines) + "\n"


def as_markdown(found: Beside) -> str:
    """For an issue or a wiki."""
    shown = found.agreement.pairs[:_MOST]
    headings = [*_columns(found), found.words.thing, "details"]
    rows = [
        [*_row(found, pair), plain(_name(pair)), plain("; ".join(_captions(found, pair)))] for pair in shown
    ]
    table = markdown_table(headings, rows, "r" * len(_columns(found)) + "ll")
    return "\n\n".join([plain(_heading(found)), table.rstrip(), *map(plain, _notes(found))]) + "\n"


def as_csv(found: Beside) -> str:
    """One line per pair, or per thing that was only counted, and variant (docs/reference/schema.md)."""
    names = list(next(iter(_every(found)))[1].keys())
    rows = [
        (*known.values(), variant, *(round(value, 6) for value in cell.values()))
        for counted, known in _every(found)
        for variant, cell in (counted.cells.items() if counted else [("", {})])
    ]
    counts = next((list(cell) for one, _ in _every(found) if one for cell in one.cells.values()), [])
    width = len(names) + 1 + len(counts)
    padded = [(*row, *[""] * (width - len(row))) for row in rows]
    return Listing([*names, "variant", *counts], padded).as_csv()


def _every(found: Beside) -> Iterator[tuple[CountedThing | None, dict[str, Any]]]:
    """The measured things, then those that were only counted, as programs read them."""
    for pair in found.agreement.pairs:
        known = {
            "measured_rank": pair.rank,
            "measured": pair.measured.name,
            "functions": " ".join(pair.measured.functions),
            "weight": round(pair.measured.weight, 3),
            "share": round(pair.share, 6),
            "counted_rank": pair.counted.rank if pair.counted else None,
            "counted": pair.counted.name if pair.counted else "",
            "why": pair.why,
        }
        yield pair.counted, known
    for one in found.agreement.only_counted:
        functions = " ".join(one.functions)
        yield (
            one,
            {
                **dict.fromkeys(("measured_rank", "measured")),
                "functions": functions,
                **dict.fromkeys(("weight", "share")),
                "counted_rank": one.rank,
                "counted": one.name,
                "why": "",
            },
        )


def as_json(found: Beside) -> str:
    """All of it (docs/reference/schema.md)."""
    one = found.agreement
    fields = [
        [{"field": field, "functions": list(functions)} for field, functions in pair.fields]
        for pair in one.pairs
    ] + [[]] * len(one.only_counted)
    document = {
        "study": found.study,
        "workload": found.workload,
        "file": found.file,
        **one.at.fields,
        "base": one.at.base,
        "kind": one.kind,
        "unit": one.unit,
        "rows": [
            {**known, "fields": of_row, "cells": counted.cells if counted else {}}
            for (counted, known), of_row in zip(_every(found), fields, strict=True)
        ],
        "agreement": {
            "spearman": one.correlation,
            "both": len(one.both),
            "first": one.first,
            "first_of_both": one.first_of_both,
        },
        "notes": list(one.notes),
        "not_read": [{"line": at, "text": written} for at, written in one.not_read],
    }
    return json_text(document)


FORMATS: dict[str, Callable[[Beside], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
