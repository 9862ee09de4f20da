"""Whether a shared cache line depends on the machine: its memory, nodes, time slices or boot."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from bigiron.analysis.lines import matching
from bigiron.analysis.lines.matching import SharedLine
from bigiron.util.object_name import common, object_type

LEAST = 0.1
"""Accesses per operation that a line must have on one of the machines to be marked."""

_TOLERANCE = 0.1
"""Share of them up to which a change is none: waiting for a lock depends a little on whose turn it is."""

_BOOT = "the boot"
_Any = TypeVar("_Any")

Columns = Mapping[str, list[SharedLine]]
"""The lines of each variant."""


@dataclass(frozen=True)
class LinesOfShape:
    """One change of the shape, what it is called, and the lines with it."""

    of: str  # memory, nodes, time slices or the boot
    to: str  # as a phrase: `with 8 GiB`
    columns: Columns
    boots: bool = False  # that machine has a boot of its own, which alone may have been what changed a line


@dataclass
class Dependence:
    """What became of lines when the shape changed."""

    marks: dict[int, list[str]] = field(default_factory=dict)  # by id() of a line as asked
    more: list[str] = field(default_factory=list)  # of lines that only another shape has

    def of(self, lines: Iterable[SharedLine]) -> tuple[str, ...]:
        """What those lines depend on."""
        return tuple(dict.fromkeys(mark for line in lines for mark in self.marks.get(id(line), ())))


def depends(asked: Columns, changes: Sequence[LinesOfShape]) -> Dependence:
    """Which lines go, change and come, in words: `depends on memory (gone with 8 GiB)`."""
    found = Dependence()
    for variant, lines in asked.items():
        here = [change for change in changes if variant in change.columns]
        effects: _Effects = {}
        came = [(change, _compare(lines, change.columns[variant], change, effects)) for change in here]
        found.marks |= {line: _marks(became) for line, became in effects.items()}
        by_boot = [line for change, new in came if change.of == _BOOT for line in new]
        by_boot += [line for line in lines if _is_by_boot(effects.get(id(line), ()))]
        kinds = {_kind(line) for line in by_boot}
        for change, new in came:
            for of, some in _by_cause((_cause(change, _kind(line) in kinds), line) for line in new):
                found.more += _came(some, of, change.to, variant)
    return found


_Effects = dict[int, list[tuple[LinesOfShape, str]]]
"""What became of lines with each change, by their id()."""


def _compare(
    asked: list[SharedLine], changed: list[SharedLine], change: LinesOfShape, effects: _Effects
) -> list[SharedLine]:
    """Add what became of those that were asked for to `effects`; the lines that came."""
    came = []
    for row in matching.match({"asked": asked, "changed": changed}):
        before, after = row.accesses("asked"), row.accesses("changed")
        if not _differs(before, after):
            continue
        if "asked" in row.lines:
            became = _became(before, after, change.to)
            effects.setdefault(id(row.lines["asked"]), []).append((change, became))
        else:
            came.append(row.lines["changed"])
    return came


def _is_by_boot(became: Iterable[tuple[LinesOfShape, str]]) -> bool:
    return any(change.of == _BOOT for change, _ in became)


def _marks(became: list[tuple[LinesOfShape, str]]) -> list[str]:
    by_boot = _is_by_boot(became)
    causes = _by_cause((_cause(change, by_boot), how) for change, how in became)
    return [f"depends on {of} ({'; '.join(how)})" for of, how in causes]


def _cause(change: LinesOfShape, by_boot: bool) -> str:
    """What a line depends on that another boot changed as well, or did not."""
    return f"{change.of} or {_BOOT}" if by_boot and change.boots and change.of != _BOOT else change.of


def _by_cause(what: Iterable[tuple[str, _Any]]) -> Iterable[tuple[str, list[_Any]]]:
    found: dict[str, list[_Any]] = {}
    for of, one in what:
        found.setdefault(of, []).append(one)
    return found.items()


def _kind(line: SharedLine) -> str:
    return object_type(line.object)


def _differs(before: float, after: float) -> bool:
    return max(before, after) >= LEAST and abs(after - before) > matching.TOLERANCE + _TOLERANCE * max(
        before, after
    )


def _became(before: float, after: float, to: str) -> str:
    if after < matching.TOLERANCE:
        return f"gone {to}"
    return f"{after:.3f} instead of {before:.3f} accesses {to}"


_MOST = 4


def _came(came: Iterable[SharedLine], of: str, to: str, variant: str) -> list[str]:
    """Lines that are not in the table, those of one kind together, most accessed first."""
    kinds: dict[str, list[SharedLine]] = {}
    for line in came:
        kinds.setdefault(_kind(line), []).append(line)
    ranked = sorted(((_sum(lines), lines) for lines in kinds.values()), key=lambda one: -one[0])
    if not ranked:
        return []
    shown = [f"{_called(lines)} {accesses:.3f}" for accesses, lines in ranked[:_MOST]]
    rest = [accesses for accesses, _ in ranked[_MOST:]]
    more = [f"{len(rest)} more {sum(rest):.3f}"] if rest else []
    return [f"{variant}: depends on {of} (comes {to}): {', '.join([*shown, *more])} accesses per operation"]


def _sum(lines: Iterable[SharedLine]) -> float:
    return sum(line.accesses_per_op for line in lines)


def _called(lines: Sequence[SharedLine]) -> str:
    """As a row of the table would be."""
    name = common([line.object for line in lines])
    return name if len(lines) == 1 else f"{len(lines)} x {name}"
