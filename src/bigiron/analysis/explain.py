"""From shared lines to what a maintainer would say of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from bigiron.analysis import paths, rules
from bigiron.analysis.match_lines import Row
from bigiron.analysis.rules import Evidence, Rule
from bigiron.analysis.shared_lines import LinesAt

LEAST = 0.5
"""Accesses per operation from which a line is worth a sentence where there is nothing to compare."""

LEAST_CHANGE = 0.1
"""Change of them from which it is worth one where there is."""


LEAST_COST = 0.1
"""Predicted share of the tasks' time, or change of it, from which it is worth one whatever its accesses."""


@dataclass(frozen=True)
class Finding:
    """Shared lines of one cause, what is known of them, and by which ways an operation comes to them."""

    rows: list[Row]
    rule: Rule | None
    ways: dict[str, dict[str, float]]  # way (openat, close, ...) -> variant -> accesses per operation

    @property
    def what(self) -> str:
        """What the lines are, as a noun phrase."""
        return (
            self.rule.what
            if self.rule
            else f"{self.rows[0].object} (used by {', '.join(self.functions[:3])})"
        )

    @property
    def functions(self) -> list[str]:
        """Who touches them, those of the heaviest line first."""
        return list(dict.fromkeys(function for row in self.rows for function in row.functions))

    @property
    def depends(self) -> tuple[str, ...]:
        """On what of the machine's shape the heaviest of them depends."""
        return self.rows[0].depends

    def writes(self, variant: str) -> float:
        """Writes per operation in a variant, to all of them."""
        return sum(row.writes(variant) for row in self.rows)

    def accesses(self, variant: str) -> float:
        """Accesses per operation in a variant, to all of them."""
        return sum(row.accesses(variant) for row in self.rows)


def findings(point: LinesAt) -> list[Finding]:
    """What is worth saying, most important first.

    With several variants the lines that differ, by their change; with one, those that are touched most.
    Where it is known what they are predicted to cost on a machine, that is the order, and what costs a tenth
    is worth saying however seldom it is touched. Lines of one cause are one finding. Pairs of lines come
    last, as only some processors mind them; before them what depends on the machine's shape or its boot,
    which may be none of the kernel's.
    """
    found = [*_findings(point.rows, point), *_findings(point.pairs, point)]
    return sorted(found, key=lambda finding: (bool(finding.rows[0].halves), bool(finding.depends)))


def _findings(rows: Sequence[Row], point: LinesAt) -> list[Finding]:
    base, variants, others = point.base, point.variants, point.others
    chosen = [row for row in rows if row.differs(base, others)] if others else list(rows)
    causes: dict[str, list[Row]] = {}
    for number, row in enumerate(sorted(chosen, key=lambda row: -max(map(row.accesses, variants)))):
        rule = rules.first_match(evidence_of(row))
        causes.setdefault(rule.name if rule else f"unknown {number}", []).append(row)
    found = [_finding(alike) for alike in causes.values()]
    if not others:
        worth = [(finding.accesses(base), finding) for finding in found]
        least = LEAST
    else:
        worth = [(max(abs(f.accesses(v) - f.accesses(base)) for v in others), f) for f in found]
        least = LEAST_CHANGE
    ranked = [(point.cost(finding.rows), weight, finding) for weight, finding in worth]
    ranked.sort(key=lambda one: (-one[0], -one[1]))
    return [finding for cost, weight, finding in ranked if weight >= least or cost >= LEAST_COST]


def evidence_of(row: Row) -> Evidence:
    """What rules are asked about a line."""
    known: dict[str, float] = {}
    for line in row.lines.values():
        for path, weight in line.paths.items():
            short = paths.short(path)
            known[short] = known.get(short, 0.0) + weight
    return Evidence(row.object, known, row.sharing)


def _finding(rows: list[Row]) -> Finding:
    ways: dict[str, dict[str, float]] = {}
    for row in rows:
        for variant, line in row.lines.items():
            for path, weight in line.paths.items():
                of_way = ways.setdefault(way(paths.short(path)), {})
                of_way[variant] = of_way.get(variant, 0.0) + weight
    heaviest_first = dict(sorted(ways.items(), key=lambda item: -sum(item[1].values())))
    return Finding(rows, rules.first_match(evidence_of(rows[0])), heaviest_first)


def way(short_path: str) -> str:
    """How an operation came there: the system call, whatever the kernel's version does later.

    >>> way("openat;do_sys_openat2;path_openat")
    'openat'
    >>> way("syscall_exit_to_user_mode;exit_to_user_mode_prepare;task_work_run;__fput;security_file_free")
    'close'
    """
    functions = short_path.split(";")
    if "__fput" in functions:
        return "close"  # put off until the way back to user mode, before 6.5
    if functions[0] in ("syscall_exit_to_user_mode", "irqentry_exit_to_user_mode"):
        return "return to user mode"
    if functions[0].startswith("user:"):
        return "user code"
    return "page fault" if functions[0].endswith("exc_page_fault") else functions[0]
