"""What `bigiron layout` shows: the map of a struct, each alignment, what changes save."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from bigiron.analysis.layout.change import Change, Move, declaration
from bigiron.analysis.layout.fields import FieldUse
from bigiron.analysis.layout.outcome import At, LayoutCounts, LayoutOutcome
from bigiron.analysis.layout.search import Proposal
from bigiron.analysis.layout.structure import Anonymous, Structure, Unit, whole
from bigiron.errors import UserError
from bigiron.report.formats import listing
from bigiron.report.formats.listing import Listing
from bigiron.results.layout import Layout
from bigiron.results.layout_source import Declared
from bigiron.util.english import cpus_and_tasks, plural, shortened
from bigiron.util.numbers import short_count, three_decimals, three_digits

_WIDTH = 100
_INDENT = "  "
_MOST_LOSSES = 8
_MOST_CACHES = 4
_FAINT = 0.005  # accesses per operation below which a cache's alignments are not shown


def as_text(layout: Layout) -> str:
    """For a terminal or a mail."""
    parts = [
        "\n".join(textwrap.wrap(_heading(layout), _WIDTH)),
        "\n".join([*_map(layout), *_left_out(layout)]),
        "\n".join(_cost(layout)),
    ]
    parts += filter(None, ("\n".join(lines) for lines in (_losses(layout), _together(layout))))
    parts += ["\n".join(lines) for lines in _alignments(layout.before)]
    parts += [_asked(layout, layout.asked)] if layout.asked else _proposed(layout)
    if layout.lost:
        parts.append(f"the recorder had no room for {layout.lost} accesses: these figures are too low")
    return "\n\n".join(parts) + "\n"


def _named(layout: Layout) -> str:
    found = layout.recorded
    return found.wanted if found.is_variable else f"struct {found.wanted}"


def _heading(layout: Layout) -> str:
    found = layout.recorded
    where = "process context" if layout.contexts == ("process",) else ", ".join(layout.contexts)
    what = f"the cache lines of {found.wanted}" if found.is_variable else _named(layout)
    objects = plural(found.objects, "place" if found.is_variable else "object")
    size = cpus_and_tasks(layout.cpus, layout.tasks)
    may_share = f"{len(found.pieces.targets)} by several CPUs or next to data of other CPUs"
    return (
        f"{layout.workload} on {layout.variant}, {size}: {what}, accesses per operation in {where} "
        f"({objects} accessed, {may_share}; CPUs: writers/readers of one of them)"
    )


# The map


def _map(layout: Layout) -> Iterator[str]:
    structure, size = layout.recorded.structure, layout.recorded.line_bytes
    by_unit: dict[int, list[FieldUse]] = {}
    for use in layout.uses:
        by_unit.setdefault(use.unit, []).append(use)
    yield f"{'offset':>6} {'bytes':>5}  {'':44} {'reads':>8} {'writes':>8}  CPUs"
    yield f"{structure.title} {{"
    end, line = 0, 0
    around: tuple[Anonymous, ...] = ()
    for unit in structure.units:
        inside = sum(one == other for one, other in zip(around, unit.around, strict=False))
        yield from _gap(around, inside, end, unit.offset)
        while unit.offset >= (line + 1) * size:
            line = unit.offset // size
            yield f"{'':14}/* cache line {line}: {line * size} bytes */"
        yield from (f"{'':14}{_INDENT * depth}struct {{" for depth in range(inside, len(unit.around)))
        around = unit.around
        yield from _unit(unit, by_unit.get(unit.number, []))
        end = max(end, unit.end)
    yield from _gap(around, 0, end, structure.bytes)
    lines = plural(structure.lines(size), "cache line")
    yield f"}}; /* {structure.bytes} bytes, {lines} if it begins one */"


def _left_out(layout: Layout) -> Iterator[str]:
    if layout.left_out:
        yield from textwrap.wrap(f"layout records slab objects and variables: {layout.left_out}", _WIDTH)


def _gap(around: Sequence[Anonymous], kept: int, end: int, to: int) -> Iterator[str]:
    """What lies between two members: holes, and the ends of anonymous structs but those that are kept."""
    for depth in reversed(range(kept, len(around))):
        padded = min(whole(end, around[depth].align), to)
        yield from _hole(end, padded)
        yield f"{'':14}{_INDENT * depth}}};"
        end = padded
    yield from _hole(end, to)


def _hole(start: int, end: int) -> Iterator[str]:
    if end > start:
        yield f"{start:>6} {end - start:>5}  /* hole */"


def _unit(unit: Unit, uses: Sequence[FieldUse]) -> Iterator[str]:
    whole = next((use for use in uses if use.field == unit.fields[0].name and len(unit.fields) == 1), None)
    indent = _INDENT * len(unit.around)
    head = f"{unit.offset:>6} {unit.bytes:>5}  {shortened(indent + declaration(unit), 44):44}"
    yield (head + _figures(whole)).rstrip() if whole else head.rstrip()
    for use in uses:
        if use is not whole:
            named = shortened(f"{indent}{_INDENT}{use.field}", 44)
            yield f"{use.offset:>6} {use.bytes:>5}  {named:44}{_figures(use)}".rstrip()


def _figures(use: FieldUse) -> str:
    return f" {_count(use.reads):>8} {_count(use.writes):>8}  {use.writers}/{use.readers}"


def _count(value: float) -> str:
    return short_count(value) if value else "-"


# What it costs


def _cost(layout: Layout) -> Iterator[str]:
    counts, pairs = layout.before.lines, layout.before.pairs
    yield "accesses per operation to shared cache lines:"
    yield f"{'':24}{'recorded':>10}{'best':>10}{'worst':>10}{'on average':>12}"
    yield from (_counts("cache lines", counts), _counts("adjacent lines only", pairs))
    if layout.recorded.is_variable:
        yield "The linker, not an allocator, chose the place."
    else:
        yield "best and worst: with each object at the place in a cache line that is best, or worst, for it"
    if layout.transfer:
        yield _nanoseconds(layout, counts.expected, "on average over alignments")


def _counts(what: str, counts: LayoutCounts) -> str:
    recorded = "-" if counts.recorded is None else three_decimals(counts.recorded)
    rest = "".join(f"{three_decimals(one):>10}" for one in (counts.best, counts.worst))
    return f"{what:24}{recorded:>10}{rest}{three_decimals(counts.expected):>12}"


def _nanoseconds(layout: Layout, accesses: float, when: str) -> str:
    one = layout.transfer
    assert one is not None
    predicted = one.ns.changed(lambda ns: accesses * ns).written(three_digits, " ns per operation")
    return f"predicted on {one.machine}: {predicted} for transfers, {when}"


def _losses(layout: Layout) -> Iterator[str]:
    if not layout.losses:
        return
    yield "fields that share no byte, and what they cost each other in one cache line:"
    for loss in layout.losses[:_MOST_LOSSES]:
        yield (
            f"  {three_decimals(loss.accesses):>9}  {loss.one} and {loss.other}"
            f" (in one line: {loss.chance:.0%})"
        )
    if len(layout.losses) > _MOST_LOSSES:
        yield f"  and {len(layout.losses) - _MOST_LOSSES} more pairs"


def _together(layout: Layout) -> Iterator[str]:
    for group in layout.together:
        yield from textwrap.wrap(
            f"written together, by the same functions: {', '.join(group)}", _WIDTH, subsequent_indent="    "
        )


def _alignments(outcome: LayoutOutcome) -> Iterator[Iterator[str]]:
    shown = {
        cache: places
        for cache, places in outcome.places().items()
        if max(at.lines + at.pairs for at in places) >= _FAINT
    }
    ranked = sorted(shown.items(), key=lambda one: -max(at.lines for at in one[1]))
    for (cache, stride), places in ranked[:_MOST_CACHES]:
        yield _of_cache(cache, stride, places)


def _of_cache(cache: str, stride: int, places: Sequence[At]) -> Iterator[str]:
    yield f"{cache}, an object every {stride} bytes: by where in a cache line the struct begins"
    yield f"{'byte':>6}{'likely':>9}{'recorded':>10}{'cache lines':>13}{'adjacent lines only':>21}"
    best = min(at.lines for at in places)
    worst = max(at.lines for at in places)
    for at in places:
        mark = "  best" if at.lines == best != worst else "  worst" if at.lines == worst != best else ""
        yield (
            f"{at.place:>6}{at.chance:>9.0%}{at.recorded:>10}{three_decimals(at.lines):>13}"
            f"{three_decimals(at.pairs):>21}{mark}"
        )


# What changes save


def _asked(layout: Layout, asked: LayoutOutcome) -> str:
    lines = [f"after {', then '.join(map(str, asked.changes))}:"]
    lines += [f"{'':24}{'recorded':>10}{'best':>10}{'worst':>10}{'on average':>12}"]
    lines += [_counts("cache lines", asked.lines), _counts("adjacent lines only", asked.pairs)]
    lines += [_saved(layout, asked), *_source_diff(layout, asked.changes)]
    return "\n".join([*lines, *("\n".join(one) for one in _alignments(asked))])


def _saved(layout: Layout, after: LayoutOutcome) -> str:
    by = layout.before.expected - after.expected
    verb = "saves" if by >= 0 else "adds"
    text = f"{verb} {three_decimals(abs(by))} accesses per operation on average over alignments; "
    text += _size(layout, after)
    if layout.transfer:
        text += f"; {_nanoseconds(layout, abs(by), 'saved' if by >= 0 else 'added')}"
    return "\n".join(textwrap.wrap(text, _WIDTH))


def _size(layout: Layout, after: LayoutOutcome) -> str:
    grown = after.bytes - layout.before.bytes
    size = layout.recorded.line_bytes
    struct = f"{after.bytes} bytes" + (f" ({grown:+d})" if grown else ", as before")
    objects = f", each object {after.objects_grow:+d}" if after.objects_grow else ""
    return f"{_named(layout)} has {struct} in {plural(after.structure.lines(size), 'cache line')}{objects}"


def _proposed(layout: Layout) -> list[str]:
    if not layout.proposals:
        what = (
            "move or padding of whole variables"
            if layout.recorded.is_variable
            else "change of its declaration"
        )
        return [f"no {what} saves 5 % of that"]
    parts = []
    for number, proposal in enumerate(layout.proposals, 1):
        before = layout.proposals[number - 2].outcome if number > 1 else layout.before
        lines = [f"proposal {number}: {'then ' if number > 1 else ''}{proposal.changes[-1]}"]
        lines += [] if layout.declared else _diff(before.structure, proposal)
        lines += [_saved(layout, proposal.outcome), *_source_diff(layout, proposal.changes)]
        parts.append("\n".join(lines))
    return parts


def _source_diff(layout: Layout, changes: Sequence[Change]) -> Iterator[str]:
    """The diff of the source with all these changes, or why there is none."""
    if layout.declared:
        diff, why_not = _diff_of(layout.declared, changes)
        yield f"no diff: {why_not}" if why_not else diff.rstrip("\n")


def _diff_of(declared: Declared, changes: Sequence[Change]) -> tuple[str, str]:
    try:
        return declared.diff(changes), ""
    except UserError as error:
        return "", str(error)


def _diff(before: Structure, proposal: Proposal) -> Iterator[str]:
    """A move as a diff of the declaration, as far as BTF tells it."""
    change = proposal.changes[-1]
    if not isinstance(change, Move):
        return
    after = proposal.outcome.structure
    yield f" {before.title} {{"
    for structure, sign in ((before, "-"), (after, "+")):
        number = structure.unit_of(change.field)
        assert number is not None
        unit = structure.units[number]
        for mark, one in zip(f" {sign} ", (number - 1, number, number + 1), strict=True):
            # Of an anonymous struct beside it the first member would not show where it goes.
            if 0 <= one < len(structure.units) and structure.units[one].around == unit.around:
                yield f"{mark}\t{declaration(structure.units[one])}"
        yield " \t…"


# For programs


def as_json(layout: Layout) -> str:
    """All of it."""
    found = layout.recorded
    document: dict[str, Any] = {
        "study": layout.study,
        "workload": layout.workload,
        "variant": layout.variant,
        "cpus": layout.cpus,
        "tasks": layout.tasks,
        "contexts": list(layout.contexts),
        "what": _named(layout),
        "objects": found.objects,
        "line_bytes": found.line_bytes,
        "fields": _fields(layout).as_dicts(),
        "pairs": [
            {
                "one": one.one,
                "other": one.other,
                "accesses_per_op": round(one.accesses, 6),
                "chance": one.chance,
            }
            for one in layout.losses
        ],
        "written_together": [list(group) for group in layout.together],
        "layout": _outcome(layout, layout.before),
        "asked": _outcome(layout, layout.asked) if layout.asked else None,
        "proposals": [_outcome(layout, one.outcome) for one in layout.proposals],
        "lost_accesses": layout.lost,
    }
    return listing.json_text(document)


def _outcome(layout: Layout, outcome: LayoutOutcome) -> dict[str, Any]:
    document: dict[str, Any] = {
        "changes": list(map(str, outcome.changes)),
        "bytes": outcome.bytes,
        "objects_grow": outcome.objects_grow,
        "cache_lines": outcome.structure.lines(layout.recorded.line_bytes),
        "accesses_per_op": _as_dict(outcome.lines),
        "adjacent_lines_per_op": _as_dict(outcome.pairs),
        "alignments": [
            {
                "cache": cache,
                "stride": stride,
                "place": at.place,
                "chance": round(at.chance, 6),
                "recorded": at.recorded,
                "accesses_per_op": round(at.lines, 6),
                "adjacent_lines_per_op": round(at.pairs, 6),
            }
            for (cache, stride), places in outcome.places().items()
            for at in places
        ],
    }
    if layout.declared and outcome.changes:
        diff, why_not = _diff_of(layout.declared, outcome.changes)
        document |= {"diff": diff or None, "no_diff": why_not or None}
    if layout.transfer:
        one = layout.transfer
        document["predicted_ns_per_op"] = {
            "machine": one.machine,
            **{name: round(outcome.expected * ns, 3) for name, ns in asdict(one.ns).items()},
        }
    return document


def _as_dict(counts: LayoutCounts) -> dict[str, float | None]:
    recorded = None if counts.recorded is None else round(counts.recorded, 6)
    rest = {name: round(getattr(counts, name), 6) for name in ("best", "worst", "expected")}
    return {"recorded": recorded, **rest}


def as_csv(layout: Layout) -> str:
    """One line per field that is accessed."""
    return _fields(layout).as_csv()


def _fields(layout: Layout) -> Listing:
    columns = ["field", "offset", "bytes", "reads_per_op", "writes_per_op", "writers", "readers"]
    rows = [
        (
            one.field,
            one.offset,
            one.bytes,
            round(one.reads, 6),
            round(one.writes, 6),
            one.writers,
            one.readers,
        )
        for one in layout.uses
    ]
    return Listing(columns, rows)


FORMATS: dict[str, Callable[[Layout], str]] = {"text": as_text, "csv": as_csv, "json": as_json}
