"""From shared lines to what a maintainer would say of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from bigiron.analysis import paths, rules
from bigiron.analysis.compare import Row
from bigiron.analysis.rules import Evidence, Rule

LEAST = 0.5
"""Accesses per operation from which a line is worth a sentence where there is nothing to compare."""

LEAST_CHANGE = 0.1
"""Change of them from which it is worth one where there is."""


@dataclass(frozen=True)
class Finding:
    """A shared line, what is known of it, and by which ways an operation comes to it."""

    row: Row
    rule: Rule | None
    ways: dict[str, dict[str, float]]  # way (openat, close, ...) -> variant -> accesses per operation

    @property
    def what(self) -> str:
        """What the line is, as a noun phrase."""
        return (
            self.rule.what
            if self.rule
            else f"{self.row.object} (used by {', '.join(self.row.functions[:3])})"
        )


def findings(rows: Sequence[Row], base: str, variants: Sequence[str]) -> list[Finding]:
    """What is worth saying, most important first.

    With several variants the lines that differ, by their change; with one, those that are touched most.
    """
    others = [variant for variant in variants if variant != base]
    if others:
        chosen = [
            row for row in rows if row.differs(base, others) and abs(row.change(base, others)) >= LEAST_CHANGE
        ]
        chosen.sort(key=lambda row: -abs(row.change(base, others)))
    else:
        chosen = [row for row in rows if row.accesses(base) >= LEAST]
        chosen.sort(key=lambda row: -row.accesses(base))
    return [_finding(row) for row in chosen]


def _finding(row: Row) -> Finding:
    known: dict[str, float] = {}
    ways: dict[str, dict[str, float]] = {}
    for variant, line in row.lines.items():
        for path, weight in line.paths.items():
            short = paths.short(path)
            known[short] = known.get(short, 0.0) + weight
            of_way = ways.setdefault(way(short), {})
            of_way[variant] = of_way.get(variant, 0.0) + weight
    rule = rules.first_match(Evidence(row.object, known, row.false_sharing))
    heaviest_first = dict(sorted(ways.items(), key=lambda item: -sum(item[1].values())))
    return Finding(row, rule, heaviest_first)


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
    return "page fault" if functions[0].endswith("exc_page_fault") else functions[0]
