"""Lines that are alike in one column, added up: the pages of a slab cache, each CPU's own line of a variable.

How many such lines there are depends on the number of CPUs and on chance, so only their sum can be held
against another CPU count, or against another day.
"""

from collections.abc import Sequence
from dataclasses import replace

from bigiron.analysis.lines.matching import PerBoot, SharedLine, summed
from bigiron.analysis.lines.overlap import overlap
from bigiron.util.object_name import common_or_type, object_type

_SMALL = 0.5  # accesses per operation: lines with fewer are distinguished less finely
_ALIKE_SMALL = 0.5  # overlap of the functions from which two small lines of one kind are added up
_ALIKE = 0.9  # the same for larger ones, which must also be about as large:
_AS_LARGE = 2.0  # the sum of a per-CPU counter is no share of it, though the same function reads both


def merge_similar(lines: Sequence[SharedLine]) -> list[SharedLine]:
    """One line for all that are of one kind and touched by the same functions, hottest first.

    How many CPUs write and read it is the most that do so with any of them.
    """
    families: dict[str, list[list[SharedLine]]] = {}
    for line in sorted(lines, key=lambda line: -line.accesses_per_op):
        relatives = families.setdefault(object_type(line.object), [])
        family = max(relatives, key=lambda family: _likeness(family[0], line), default=[])
        if family and _likeness(family[0], line):
            family.append(line)
        else:
            relatives.append([line])
    sums = [sum_of(family) for relatives in families.values() for family in relatives]
    return sorted(sums, key=lambda line: -line.accesses_per_op)


def _likeness(larger: SharedLine, smaller: SharedLine) -> float:
    """The overlap of their functions, or 0 for lines that are not to be added up."""
    if larger.accesses_per_op < _SMALL:
        least = _ALIKE_SMALL
    elif larger.accesses_per_op < _AS_LARGE * smaller.accesses_per_op:
        least = _ALIKE
    else:
        return 0.0
    share = overlap(larger, smaller)
    return share if share >= least else 0.0


def sum_of(family: Sequence[SharedLine]) -> SharedLine:
    """One line for all of them."""
    repetitions = zip(*(line.repetitions for line in family), strict=True)
    return replace(
        family[0],
        object=common_or_type(line.object for line in family),
        weights=summed(line.weights for line in family),
        paths=summed(line.paths for line in family),
        writes_per_op=sum(line.writes_per_op for line in family),
        accesses_per_op=sum(line.accesses_per_op for line in family),
        all_per_op=sum(line.all_per_op for line in family),
        writers=max(line.writers for line in family),
        readers=max(line.readers for line in family),
        false_sharing=any(line.false_sharing for line in family),
        repetitions=tuple(PerBoot(*map(sum, zip(*each, strict=True))) for each in repetitions),
        even=all(line.even for line in family),
        movable=any(line.movable for line in family),
        number=sum(line.number for line in family),
    )
