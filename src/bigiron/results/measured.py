"""What was measured on a real machine, beside the counts of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from bigiron import readers
from bigiron.analysis.comparison import measured as matching
from bigiron.analysis.comparison.measured import Agreement
from bigiron.analysis.comparison.model import ComparedPoint, Comparison, Measurements, Options
from bigiron.analysis.lines import conflicts, measured_lines, shared_lines
from bigiron.analysis.lines.shared_lines import LinesAt
from bigiron.analysis.probes import blocked, instructions, locks
from bigiron.errors import UserError
from bigiron.readers.folder import read_text
from bigiron.results import measurements
from bigiron.study import store
from bigiron.study.measured import TABLE, of_table
from bigiron.study.store import Study
from bigiron.util.measured import MeasuredProfile, symbol

PROBES = {"cache lines": "conflicts", "locks": "locks", "functions": "instructions", "waits": "blocked"}
"""What is counted of the same kind."""

_MATCHED: dict[str, tuple[Callable[[Measurements, Options], Comparison], Callable[..., Agreement]]] = {
    "locks": (locks.compare, matching.match_locks),
    "functions": (instructions.compare, matching.match_functions),
    "waits": (blocked.compare, partial(matching.match_waits, place=blocked.place)),
}
"""How what was counted of a kind is compared, and matched; cache lines are `_lines`."""

_Point = TypeVar("_Point", LinesAt, ComparedPoint)


def read(path: Path) -> MeasuredProfile:
    """A profile, or a study into which one was imported. UserError names the file, and the line."""
    if path.is_dir():
        return _imported(store.open_study(path))
    try:
        return readers.profile(read_text(path))
    except UserError as error:
        between = "," if str(error).startswith("line ") else ":"
        raise UserError(f"{path}{between} {error}") from None


def _imported(study: Study) -> MeasuredProfile:
    records = [record for record in study.records() if TABLE in record.tables]
    if not records:
        raise UserError(f"{study.folder} has no profile: `bigiron import` adds one")
    if len(records) > 1:
        raise UserError(f"{study.folder} has {len(records)} profiles: give the file of one of them")
    return of_table(study.table(records[0], TABLE), records[0].facts[TABLE])


def agreement(study: Study, measured: MeasuredProfile, options: Options) -> Agreement:
    """A profile beside the counts of the same kind, on the most CPUs that were recorded."""
    counted = measurements.read(study, PROBES[measured.kind])
    if measured.kind == "cache lines":
        return _lines(study, measured, counted, options)
    compare, match = _MATCHED[measured.kind]
    return match(measured, _largest(compare(counted, options).points))


def _lines(study: Study, measured: MeasuredProfile, counted: Measurements, options: Options) -> Agreement:
    point = _largest(shared_lines.line_up(counted, options).points)
    first = counted.points[point.cpus, point.tasks][point.base][0]
    counts = conflicts.shared(first.table, first.operations, options.contexts)
    uncounted = _why_no_user_memory(study, counted)
    return measured_lines.match(measured, point, counts, _executed(study, point), uncounted)


def _why_no_user_memory(study: Study, counted: Measurements) -> str:
    if counted.scope != "kernel":
        return ""
    if study.spec.root:
        return "user memory: of a program only the kernel's memory is counted"
    return "user memory: count it with --scope user"


def _executed(study: Study, point: LinesAt) -> set[str] | None:
    """The functions that operations of the base variant execute; None if instructions were not recorded."""
    probe = PROBES["functions"]
    cells = study.measured_with("", probe).get((point.cpus, point.tasks), {}).get(point.base, [])
    return set(map(symbol, study.table(cells[0], probe)["function"].unique())) if cells else None


def _largest(points: Sequence[_Point]) -> _Point:
    return max(points, key=lambda point: (point.cpus, point.tasks))
