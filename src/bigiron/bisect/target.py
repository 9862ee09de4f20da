"""The target of a bisection: a count of one object, lock or function, and its value in a cell.

Tables in, values out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bigiron.analysis.comparison.limits import Tolerance
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.analysis.lines import shared_lines
from bigiron.analysis.probes import instructions, locks
from bigiron.analysis.replay.synthetic_operation import work_of_operations
from bigiron.bisect.bisection import EqualityRule, Value
from bigiron.errors import UserError
from bigiron.util.object_name import ObjectName, object_type, without_instance

CandidateCells = Mapping[str, Sequence[ProbedCell]]
"""The cells of one candidate: by probe, one for each repetition."""

Figures = Sequence[tuple[str, Value]]
"""The values of one cell, by object, lock or function."""

_COUNT, _INSTRUCTIONS = Tolerance(), Tolerance(20.0)
"""As in the gate: 0.5 accesses or 20 instructions per operation, plus 1 %."""


@dataclass(frozen=True)
class _TargetKind:
    """The targets that a probe offers."""

    thing: str
    units: tuple[str, ...]
    tolerances: tuple[Tolerance, ...]
    probes: tuple[str, ...]


_KINDS = {
    "conflicts": _TargetKind("shared cache line", ("writes", "accesses"), (_COUNT, _COUNT), ("conflicts",)),
    "locks": _TargetKind("lock", ("times taken", "instructions held"), (_COUNT, _INSTRUCTIONS), ("locks",)),
    "instructions": _TargetKind("function", ("instructions",), (_INSTRUCTIONS,), ("instructions",)),
    "predicted": _TargetKind(
        "number of tasks",
        ("operations/s predicted",),
        (Tolerance(0.0, 0.02),),
        ("conflicts", "locks", "instructions"),
    ),
}

PROBES = ("conflicts", "instructions")
"""Recorded if no target is given."""


@dataclass(frozen=True)
class Target:
    """One count or two, such as writes and accesses, that a bisection searches for a change."""

    kind: str  # a probe, or `predicted`
    name: str = ""  # of an object, lock or function, or a number of tasks; empty: the sum over all

    @property
    def probes(self) -> tuple[str, ...]:
        """The probes that it needs."""
        return _KINDS[self.kind].probes

    @property
    def units(self) -> tuple[str, ...]:
        """The units of the value's numbers."""
        return _KINDS[self.kind].units

    @property
    def rule(self) -> EqualityRule:
        """When two of its values are the same."""
        return EqualityRule(_KINDS[self.kind].tolerances)

    @property
    def option(self) -> str:
        """The value of `--by`."""
        return f"{self.kind}:{self.name}" if self.name else self.kind

    def words(self, value: Value) -> str:
        """A value with its units."""
        form = "{:.4g} {}" if self.kind == "predicted" else "{:.3f} {}"
        return ", ".join(map(form.format, value, self.units))

    def value(self, cells: CandidateCells) -> Value:
        """The mean of the repetitions."""
        if self.kind == "instructions" and not self.name:
            return _mean([_all_instructions(cell) for cell in cells["instructions"]])
        return self.value_of([list(_figures(self.kind, cell)) for cell in cells[self.kind]])

    def value_of(self, repetitions: Sequence[Figures]) -> Value:
        """The mean of the repetitions, from figures that were already read."""
        return _mean([self._sum(figures) for figures in repetitions])

    def _sum(self, of_cell: Figures) -> Value:
        mine = [figures for name, figures in of_cell if self._is(name)]
        return tuple(map(sum, zip(*mine, strict=True))) if mine else (0.0,) * len(self.units)

    def _is(self, object: str) -> bool:
        if self.kind == "predicted":
            return True
        if self.kind != "conflicts":
            return self.name in ("", object)
        names = {object, without_instance(object), object_type(object)}
        return not self.name or bool(names & {self.name, f"struct {self.name}"})

    def check(self, *ends: CandidateCells) -> None:
        """UserError if neither end has an object, lock or function of that name."""
        there: dict[str, float] = defaultdict(float)
        for cells in ends:
            for cell in cells[self.kind]:
                for name, figures in _figures(self.kind, cell):
                    if self.name and self._is(name):
                        return
                    there[object_type(name) if self.kind == "conflicts" else name] += figures[-1]
        if self.name:
            most = sorted(there, key=lambda name: -there[name])[:5]
            has = f"they have {', '.join(most)}" if most else "they have none"
            thing = _KINDS[self.kind].thing
            raise UserError(f"--by {self.option}: neither end has a {thing} of that name: {has}")


def parse(text: str) -> Target:
    """Parse the value of `--by`.

    >>> parse("conflicts:struct file"), parse("instructions")
    (Target(kind='conflicts', name='struct file'), Target(kind='instructions', name=''))
    """
    kind, colon, name = text.partition(":")
    if kind not in _KINDS or (colon and not name) or (kind == "locks" and not name) or not _fits(kind, name):
        raise UserError(
            f"--by {text!r}: use conflicts[:OBJECT], instructions[:FUNCTION], locks:NAME, predicted "
            "or throughput"
        )
    return Target(kind, name)


def _fits(kind: str, name: str) -> bool:
    return kind != "predicted" or not name or (name.isdecimal() and int(name) > 0)


def most_changed(before: CandidateCells, after: CandidateCells) -> Target | None:
    """The target with the largest difference: a type of shared cache lines, else all instructions, else None.

    The allocators' data is left out, because it differs by chance.
    """
    # Read only once: a workload may have thousands of cache lines.
    ends = [[list(_figures("conflicts", cell)) for cell in cells["conflicts"]] for cells in (before, after)]
    kinds = {
        object_type(name)
        for repetitions in ends
        for figures in repetitions
        for name, _ in figures
        if not ObjectName.parse(name).is_of_allocators
    }
    lines = [Target("conflicts", kind) for kind in sorted(kinds)]
    found = [(one, one.value_of(ends[0]), one.value_of(ends[1])) for one in lines]
    everything = Target("instructions")
    return _most_apart(found) or _most_apart(
        [(everything, everything.value(before), everything.value(after))]
    )


def _most_apart(found: Sequence[tuple[Target, Value, Value]]) -> Target | None:
    """The target with the largest difference, of those whose values differ."""
    differing = [(one.rule.apart(was, now), one) for one, was, now in found if not one.rule.same(was, now)]
    return max(differing, key=lambda pair: pair[0], default=(0.0, None))[1]


def _mean(found: Sequence[Value]) -> Value:
    return tuple(round(sum(figures) / len(found), 6) for figures in zip(*found, strict=True))


def _all_instructions(cell: ProbedCell) -> Value:
    own = instructions.profile(work_of_operations(cell.table), cell.operations)["self_per_op"]
    return (float(own.sum()),)


def _figures(kind: str, cell: ProbedCell) -> Iterator[tuple[str, Value]]:
    """Every object, lock or function of a cell, with its value."""
    match kind:
        case "conflicts":
            for line in shared_lines.lines_in(cell):
                yield line.object, (line.writes_per_op, line.accesses_per_op)
        case "locks":
            taken_locks = locks.profile(cell.table, cell.operations)
            yield from (
                (name, (taken, instructions))
                for name, taken, instructions in taken_locks.select(
                    "lock", "acquisitions_per_op", "held_per_op"
                ).iter_rows()
            )
        case "predicted":
            yield "", (float(cell.table["throughput"][0]),)
        case "instructions":
            ran = instructions.profile(work_of_operations(cell.table), cell.operations)
            totals = ran.select("function", "total_per_op").iter_rows()
            yield from ((name, (instructions,)) for name, instructions in totals)
