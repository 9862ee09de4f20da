"""Which shared cache lines differ between kernels by more than between boots of one of them.

What depends on where an object lies in its slab is layout. It differs from boot to boot, and is compared with
nothing. Lines of one kind are judged by their sum first: if that is the same, which of many pages or objects,
or of the buckets of a hash table, are accessed is chance. Where a line is shared in one kernel only, the
other one may read it as often: what counts is how many of the accesses a write can disturb.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from bigiron.analysis.lines.matching import RELATIVE_TOLERANCE, TOLERANCE, MatchedLine, SharedLine
from bigiron.analysis.statistics import spread
from bigiron.analysis.statistics.spread import Boots
from bigiron.analysis.statistics.verdict import Verdict
from bigiron.util.object_name import ANYTHING, ObjectName


def judge(
    rows: Sequence[MatchedLine], base: str, others: Sequence[str], boots: Mapping[str, int], cpus: int
) -> None:
    """Give each row its verdicts; `boots`: how many each variant has; `cpus`: of the machine."""
    sums = {variant: _sums(rows, variant, boots[variant]) for variant in (base, *others)}
    named = {
        variant: Counter(row.lines[variant].object for row in rows if variant in row.lines)
        for variant in (base, *others)
    }
    for row in rows:
        for variant in others:
            pair = (base, variant)
            most = 0 if all(_is_shared(row.lines.get(one)) for one in pair) else cpus
            found = _compare(*(_counts(row.lines.get(one), boots[one], most) for one in pair))
            if found is not Verdict.unchanged and not _is_one(row, pair, named):
                of_kind = _compare(*(sums[one][_of(row)] for one in pair))
                if of_kind is not Verdict.changed:
                    found = of_kind
            row.verdicts[variant] = found
            row.differs_by_layout |= found is Verdict.unchanged and _differs(row, *pair)


_Counts = tuple[Boots, Boots]
"""Writes and accesses, without what is layout."""


def _of(row: MatchedLine) -> tuple[str, str]:
    """What it is one of: its kind, and of memory that may be anything the function that touches it most."""
    of = ObjectName.parse(row.object).type_of_any_element
    return of, row.functions[0] if of in ANYTHING and row.functions else ""


def _is_one(row: MatchedLine, pair: tuple[str, str], named: Mapping[str, Counter[str]]) -> bool:
    """Whether the name alone tells that both variants' lines are the same, at the same place of it."""
    name = ObjectName.parse(row.object)
    if isinstance(name.cpu, int) or name.index or any(line.movable for line in row.lines.values()):
        return False
    objects = {line.object for line in row.lines.values()}
    return len(objects) == 1 and all(named[one][row.object] <= 1 for one in pair)


def _differs(row: MatchedLine, base: str, variant: str) -> bool:
    """Whether all accesses together do, those that are layout too."""
    before, after = row.accesses(base), row.accesses(variant)
    return max(row.layout(base), row.layout(variant)) > 0 and abs(after - before) > (
        TOLERANCE + RELATIVE_TOLERANCE * max(before, after)
    )


def _is_shared(line: SharedLine | None) -> bool:
    """Whether it is in every boot."""
    return line is not None and all(one.accesses for one in line.repetitions)


def _counts(line: SharedLine | None, boots: int, cpus: int = 0) -> _Counts:
    """Of a line; with `cpus` only the accesses that a write of one of so many can disturb."""
    if line is None:
        return spread.none(boots), spread.none(boots)
    each, uneven = line.repetitions, 0.0 if line.even else math.inf
    accesses = tuple(one.accesses - one.layout_accesses for one in each)
    disturbed = line.disturbed(cpus) if cpus else accesses
    return (
        Boots(tuple(one.writes - one.layout_writes for one in each), uneven),
        # CPUs that access it as often may still write it more or less often.
        Boots(disturbed, uneven if disturbed == accesses else math.inf),
    )


def _sums(rows: Sequence[MatchedLine], variant: str, boots: int) -> Mapping[tuple[str, str], _Counts]:
    """Of each kind of line, all of it."""
    nothing = _counts(None, boots)
    found: defaultdict[tuple[str, str], _Counts] = defaultdict(lambda: nothing)
    for row in rows:
        if variant in row.lines:
            (writes, accesses), (w, a) = found[_of(row)], _counts(row.lines[variant], boots)
            found[_of(row)] = writes + w, accesses + a
    return found


def _compare(base: _Counts, ours: _Counts) -> Verdict:
    pairs = zip(base, ours, strict=True)
    return spread.strongest([spread.compare(was, now, TOLERANCE, RELATIVE_TOLERANCE) for was, now in pairs])
