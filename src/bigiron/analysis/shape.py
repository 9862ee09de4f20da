"""What of a machine's shape a shared line depends on: its memory, its nodes, the turns of its CPUs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bigiron.analysis import match_lines
from bigiron.analysis.match_lines import Line

LEAST = 0.1
"""Accesses per operation that a line must have on one of the machines to be marked."""

_TOLERANCE = 0.1
"""Share of them up to which a change is none: waiting for a lock depends a little on whose turn it is."""

Columns = Mapping[str, list[Line]]
"""The lines of each variant."""


@dataclass(frozen=True)
class Change:
    """One change of the shape, what it is called, and the lines with it."""

    of: str  # memory, nodes or turns
    to: str  # as a phrase: `with 8 GiB`
    columns: Columns


@dataclass
class Dependence:
    """What became of lines when the shape changed."""

    marks: dict[int, list[str]] = field(default_factory=dict)  # by id() of a line as asked
    more: list[str] = field(default_factory=list)  # of lines that only another shape has

    def of(self, lines: Iterable[Line]) -> tuple[str, ...]:
        """What those lines depend on."""
        return tuple(dict.fromkeys(mark for line in lines for mark in self.marks.get(id(line), ())))


def depends(asked: Columns, changes: Sequence[Change]) -> Dependence:
    """Which lines go, change and come, in words: `depends on memory (gone with 8 GiB)`."""
    found = Dependence()
    for variant, lines in asked.items():
        told: dict[int, dict[str, list[str]]] = {}
        for change in changes:
            if variant not in change.columns:
                continue
            came = []
            for row in match_lines.match({"asked": lines, "changed": change.columns[variant]}):
                before, after = row.accesses("asked"), row.accesses("changed")
                if not _differs(before, after):
                    continue
                if "asked" in row.lines:
                    of = told.setdefault(id(row.lines["asked"]), {}).setdefault(change.of, [])
                    of.append(_became(before, after, change.to))
                else:
                    came.append(row.lines["changed"])
            found.more += _came(came, change, variant)
        for line, by_cause in told.items():
            found.marks[line] = [f"depends on {of} ({'; '.join(how)})" for of, how in by_cause.items()]
    return found


def _differs(before: float, after: float) -> bool:
    return max(before, after) >= LEAST and abs(after - before) > match_lines.TOLERANCE + _TOLERANCE * max(
        before, after
    )


def _became(before: float, after: float, to: str) -> str:
    if after < match_lines.TOLERANCE:
        return f"gone {to}"
    return f"{after:.3f} instead of {before:.3f} accesses {to}"


_MOST = 4


def _came(came: Iterable[Line], change: Change, variant: str) -> list[str]:
    """Lines that are not in the table, those of one kind together, most accessed first."""
    kinds: dict[str, list[Line]] = {}
    for line in came:
        kinds.setdefault(match_lines.kind(line.object), []).append(line)
    ranked = sorted(((_sum(lines), lines) for lines in kinds.values()), key=lambda one: -one[0])
    if not ranked:
        return []
    shown = [f"{_called(lines)} {accesses:.3f}" for accesses, lines in ranked[:_MOST]]
    rest = [accesses for accesses, _ in ranked[_MOST:]]
    more = [f"{len(rest)} more {sum(rest):.3f}"] if rest else []
    return [
        f"{variant}: depends on {change.of} (comes {change.to}): {', '.join([*shown, *more])} "
        "accesses per operation"
    ]


def _sum(lines: Iterable[Line]) -> float:
    return sum(line.accesses_per_op for line in lines)


def _called(lines: Sequence[Line]) -> str:
    """As a row of the table would be."""
    name = match_lines.common([line.object for line in lines])
    return name if len(lines) == 1 else f"{len(lines)} x {name}"
