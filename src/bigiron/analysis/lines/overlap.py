"""How alike the functions are that touch two cache lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from bigiron.util.lazy import Floats, Integers
from bigiron.util.lazy import numpy as np

_DIGITS = 12  # of likeness: what is added up in another order is no other likeness


class Touched(Protocol):
    """A cache line, by what touches it."""

    @property
    def shares(self) -> dict[str, float]:
        """The share of the accesses that each function makes."""


def overlaps(
    lines: Sequence[Touched], of_others: Mapping[str, tuple[Integers, Floats]], others: int
) -> Floats:
    """The `overlap` of each with each of so many others."""
    found = np.zeros((len(lines), others))
    if len(lines) == 1:  # often: who looks again does so alone
        for function, of_line in lines[0].shares.items():
            if function in of_others:
                other_at, other_share = of_others[function]
                found[0, other_at] += np.minimum(of_line, other_share)
        return found.round(_DIGITS)
    shares = by_function(lines)
    for function in shares.keys() & of_others.keys():
        (at, share), (other_at, other_share) = shares[function], of_others[function]
        found[np.ix_(at, other_at)] += np.minimum.outer(share, other_share)
    return found.round(_DIGITS)


def by_function(lines: Sequence[Touched]) -> dict[str, tuple[Integers, Floats]]:
    """Which of the lines each function touches, and its share of their accesses."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for number, line in enumerate(lines):
        for function, share in line.shares.items():
            at, shares = found.setdefault(function, ([], []))
            at.append(number)
            shares.append(share)
    return {function: (np.array(at), np.array(shares)) for function, (at, shares) in found.items()}


def overlap(one: Touched, other: Touched) -> float:
    """The share of two lines' accesses that the same functions do, 0 to 1."""
    shares, theirs = one.shares, other.shares
    both = shares.keys() & theirs.keys()  # in no order: sums are rounded, so that they do not depend on it
    return (
        round(sum([min(shares[function], theirs[function]) for function in both]), _DIGITS) if both else 0.0
    )
