"""A search for the smallest change of a struct that takes away most accesses to shared cache lines.

It is greedy: the change that saves most per operation first, of those that save about as much the one that
costs the fewest bytes; then the next one in the struct as it is then. Changes that cost no memory come first:
a move into a hole, a move beside another member. Only where they save too little a member is padded, or the
struct aligned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bigiron.analysis.layout.change import Align, Change, Move, Pad
from bigiron.analysis.layout.fields import Loss, Members
from bigiron.analysis.layout.neighbourhoods import Pieces
from bigiron.analysis.layout.outcome import LayoutOutcome
from bigiron.analysis.layout.recorded import RecordedObjects
from bigiron.analysis.layout.structure import Structure
from bigiron.errors import UserError
from bigiron.util.lazy import numpy as np

_MOST_STEPS = 3
_LEAST = 0.05  # share of the accesses that a step must save, of those of the study
_ALIKE = 0.95  # share of the largest saving from which one that costs less is as good
_ENOUGH = 0.5  # share of the largest saving at any price that one without a price must have
_MOST_MEMBERS = 4  # that are moved
_MOST_ACCESSES = 20_000  # that candidates are tried on: those of the objects with most conflicts
_MOST_CONFLICTS = 0.98  # share of all that these need have


@dataclass(frozen=True)
class Proposal:
    """Changes, one after the other, and what comes of them."""

    changes: tuple[Change, ...]
    outcome: LayoutOutcome


def proposals(members: Members, before: LayoutOutcome) -> list[Proposal]:
    """After each step the changes so far; none where no change saves anything worth its name."""
    recorded = members.recorded
    hot = _hottest(recorded, before)
    found: list[Proposal] = []
    now = LayoutOutcome(recorded, (), hot)
    least = _LEAST * now.expected
    while len(found) < _MOST_STEPS and now.expected > 0:
        step = _step(members, now, hot, least)
        if step is None:
            break
        now = step
        found.append(Proposal(step.changes, LayoutOutcome(recorded, step.changes)))
    return found


def _hottest(recorded: RecordedObjects, before: LayoutOutcome) -> Pieces:
    """The neighbourhoods of the targets that have most conflicts at their worst place."""
    pieces, worst = recorded.pieces, before.by_target()
    many = np.bincount(pieces.target, minlength=len(pieces.targets))
    chosen: list[int] = []
    for number in np.argsort(-worst, kind="stable").tolist():
        enough = worst[chosen].sum() >= _MOST_CONFLICTS * worst.sum()
        if chosen and (enough or many[[*chosen, number]].sum() > _MOST_ACCESSES):
            break
        chosen.append(number)
    return pieces.of_targets(sorted(chosen))


def _step(members: Members, now: LayoutOutcome, hot: Pieces, least: float) -> LayoutOutcome | None:
    """The next change, in a layout of which the pairs that disturb each other are known."""
    worst = _worst(members.losses(now.structure))
    recorded = members.recorded
    free = _tried(recorded, now, hot, _moves(now.structure, worst))
    priced = _tried(recorded, now, hot, _pads(now.structure, worst, recorded.line_bytes))
    most = max((now.expected - one.expected for one in (*free, *priced)), default=0.0)
    if most < least or most <= 0:
        return None
    without_price = [one for one in free if one.objects_grow <= 0 and one.bytes <= now.bytes]
    saved = max((now.expected - one.expected for one in without_price), default=0.0)
    among, wanted = (without_price, saved) if saved >= _ENOUGH * most else ([*free, *priced], most)
    good = [one for one in among if now.expected - one.expected >= _ALIKE * wanted]
    return min(good, key=lambda one: (one.objects_grow, one.bytes, one.expected))


def _worst(found: Sequence[Loss]) -> list[str]:
    """The members that disturb others most, or are disturbed."""
    sums: dict[str, float] = {}
    for loss in found:
        for name in (loss.one, loss.other):
            sums[name] = sums.get(name, 0.0) + loss.accesses
    return sorted(sums, key=lambda name: (-sums[name], name))[:_MOST_MEMBERS]


def _moves(structure: Structure, members: Sequence[str]) -> Iterator[Change]:
    """Holes first, as a move into one changes the place of nothing else."""
    after_hole = [_before(structure, at) for at, _ in structure.holes()]
    others = [unit.fields[0].name for unit in structure.units]
    for member in members:
        for anchor in dict.fromkeys([*filter(None, after_hole), *others]):
            yield Move(member, "after", anchor)


def _before(structure: Structure, offset: int) -> str:
    """The member that ends at a hole."""
    return next((unit.fields[0].name for unit in reversed(structure.units) if unit.end == offset), "")


def _pads(structure: Structure, members: Sequence[str], line_bytes: int) -> Iterator[Change]:
    if structure.align < line_bytes:
        yield Align(line_bytes)
    for member in members:
        yield Pad(member, line_bytes)


def _tried(
    recorded: RecordedObjects, now: LayoutOutcome, hot: Pieces, changes: Iterator[Change]
) -> list[LayoutOutcome]:
    found = []
    for change in changes:
        try:
            one = LayoutOutcome(recorded, (*now.changes, change), hot)
        except UserError:  # a move that cannot be
            continue
        if one.structure != now.structure:
            found.append(one)
    return found
