"""Lines of a variable of which each CPU has its own: added up, and how that grows with the number of CPUs.

Who goes round all CPUs, as to interrupt them or to add up their counters, touches one such line for each.
With a few CPUs that is little, and with hundreds it may be most of an operation. One number of CPUs cannot
tell: the same sum may be of one CPU's line that an operation picks. So it takes two.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bigiron.analysis.lines import merging
from bigiron.analysis.lines.matching import MatchedLine, SharedLine
from bigiron.util.object_name import ObjectName


def names(rows: Iterable[MatchedLine]) -> dict[str, str]:
    """What each family is called: two are one of which a row has one on each kernel."""
    found: dict[str, str] = {}
    for row in rows:
        of_row = [
            ObjectName.parse(object).of_each_cpu
            for object in (row.object, *(line.object for line in row.lines.values()))
        ]
        same = {found.setdefault(name, name) for name in of_row if name}
        if len(same) < 2:
            continue
        first = next((name for name in found.values() if name in same), "")
        found = {name: first if known in same else known for name, known in found.items()}
    return found


def merge_families(rows: Sequence[MatchedLine], called: Mapping[str, str]) -> list[tuple[MatchedLine, int]]:
    """The rows, those of a family in one; and of how many lines each row is."""
    families: dict[tuple[str, bool], list[MatchedLine]] = {}
    others: list[tuple[MatchedLine, int]] = []
    for row in rows:
        if name := ObjectName.parse(row.object).of_each_cpu:
            families.setdefault((called[name], bool(row.halves)), []).append(row)
        else:
            others.append((row, 1))
    return [*others, *((_sum(name, of), len(of)) for (name, _), of in families.items())]


def _sum(name: str, rows: Sequence[MatchedLine]) -> MatchedLine:
    if len(rows) == 1:
        return rows[0]
    variants = dict.fromkeys(variant for row in rows for variant in row.lines)
    lines = {variant: [row.lines[variant] for row in rows if variant in row.lines] for variant in variants}
    return MatchedLine({variant: replace(merging.sum_of(of), object=name) for variant, of in lines.items()})


def sums(repetitions: Iterable[Sequence[SharedLine]], called: Mapping[str, str]) -> list[Mapping[str, float]]:
    """In each repetition the accesses per operation to each family, by the family's name."""
    found: list[Mapping[str, float]] = []
    for lines in repetitions:
        of: dict[str, float] = {}
        for line in lines:
            if name := ObjectName.parse(line.object).of_each_cpu:
                name = called.get(name, name)
                of[name] = of.get(name, 0.0) + line.accesses_per_op
        found.append(of)
    return found


def with_cpus(
    cpus: int, few: tuple[int, Sequence[float]], many: tuple[int, Sequence[float]], least: float
) -> float:
    """A count with so many CPUs, from its repetitions with few and with many: on a line through both.

    It stays what it is with many where the two lie no further apart than `least` or repetitions of either.

    >>> with_cpus(224, (4, [6.0, 6.1]), (8, [14.0, 14.0]), 0.1)
    443.3
    >>> with_cpus(224, (4, [6.0, 9.0]), (8, [14.0, 11.0]), 0.1)
    12.5
    """
    (at_few, of_few), (at_many, of_many) = few, many
    there = sum(of_many) / len(of_many)
    own = max(max(of) - min(of) for of in (of_few, of_many))
    if min(of_many) - max(of_few) <= max(own, least):
        return there
    more = (there - sum(of_few) / len(of_few)) / (at_many - at_few)
    return round(there + more * (cpus - at_many), 6)
