"""Whether two hosts measured the same in one cell.

A simulation is the same to the last bit. A guest's clock ticks when the host lets it, so counts of a virtual
machine repeat as far as `bigiron check` expects of two runs on one host, and are compared by its tolerances:
each shared cache line, and all work, of an operation. Other probes' counts have no such measure, and are not.
"""

from collections.abc import Iterator

from bigiron.analysis.comparison.limits import INSTRUCTIONS_TOLERANCE, LimitedCount, Tolerance
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.analysis.lines import shared_lines
from bigiron.analysis.probes import instructions
from bigiron.gate import check_instructions, check_lines
from bigiron.gate.check_lines import BaselinePoint
from bigiron.probes import ProbeTable
from bigiron.study.spec import Spec
from bigiron.study.store import Collected

_COMPARED = ("conflicts", "instructions")


def can_compare(spec: Spec) -> bool:
    """Whether a study counts what has to be the same on two hosts."""
    return spec.engine.is_model or any(probe in _COMPARED for probe in spec.probes)


def differences(spec: Spec, cpus: int, one: Collected, other: Collected) -> list[str]:
    """What two hosts do not agree on, the first as what is known, and in the other direction."""
    if spec.engine.is_model:
        return [name for name in one.tables if not _identical(one.tables[name], other.tables.get(name))]
    return [
        f"{name}: {finding.name}: {finding.words}"
        for was, now in ((one, other), (other, one))
        for name in _COMPARED
        if name in was.tables and name in now.tables
        for finding in _FOUND[name](_cell(was.tables[name]), _cell(now.tables[name]), cpus)
        if finding.worse
    ]


def _identical(one: ProbeTable, other: ProbeTable | None) -> bool:
    return other is not None and one.rows.equals(other.rows) and dict(one.facts) == dict(other.facts)


def _cell(table: ProbeTable) -> ProbedCell:
    return ProbedCell(table.rows, table.facts)


def _in_lines(was: ProbedCell, now: ProbedCell, cpus: int) -> Iterator[LimitedCount]:
    lines = [shared_lines.lines_in(cell) for cell in (was, now)]
    baseline = BaselinePoint(variant="", cpus=cpus, tasks=None, lines=check_lines.known(lines[:1]))
    yield from check_lines.check(baseline, lines[1:], Tolerance())


def _in_work(was: ProbedCell, now: ProbedCell, _cpus: int) -> Iterator[LimitedCount]:
    before, after = (
        dict(instructions.profile(cell.table, cell.operations).select("function", "self_per_op").iter_rows())
        for cell in (was, now)
    )
    known = check_instructions.known([before])
    yield check_instructions.check(
        known, check_instructions.functions([before]), [after], INSTRUCTIONS_TOLERANCE
    )


_FOUND = {"conflicts": _in_lines, "instructions": _in_work}
