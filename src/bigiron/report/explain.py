"""What `bigiron explain` prints: sentences, most important first, each with its evidence."""

import textwrap
from collections.abc import Callable

from bigiron.analysis import conflicts
from bigiron.analysis.explain import LEAST, Finding, findings
from bigiron.analysis.shared_lines import LinesAt, SharedLines, bytes_by_cpu, halves, predicted
from bigiron.counted import counted, listed, some
from bigiron.report.listing import Listing, as_json

_WIDTH = 72  # of a mail
_MOST = 8
_LEAST_SHOWN = 0.001  # reads or writes per operation that are worth a word


def text(lines: SharedLines) -> str:
    """The findings at the largest number of CPUs."""
    point = lines.points[-1]
    found = findings(point)
    said = textwrap.wrap(heading(lines, point, found), _WIDTH)
    for note in point.costs.notes if point.costs else ():
        said += textwrap.wrap(note, _WIDTH)
    for number, finding in enumerate(found[:_MOST], start=1):
        said += ["", *_finding(number, finding, point)]
    if len(found) > _MOST:
        said += ["", f"{len(found) - _MOST} more: see bigiron compare."]
    return "\n".join(said) + "\n"


def heading(lines: SharedLines, point: LinesAt, found: list[Finding]) -> str:
    """What the findings are about, or that there are none."""
    where = f"{lines.workload} with {counted(point.cpus, 'CPU')} and {counted(point.tasks, 'task')}"
    if lines.contexts != conflicts.CONTEXTS[:1]:
        where += f" ({', '.join(lines.contexts)} context)"
    if point.others:
        against = f"{', '.join(point.others)} against {point.base}"
        if not found:
            return f"{where}, {against}: no shared cache line is used more or less than before."
        return f"{where}, {against}: what changed in the cache lines that CPUs share. Counts, not times."
    if not found:
        return (
            f"{where}, {point.base}: nothing shared limits it: no cache line that several CPUs touch has "
            f"{LEAST} accesses per operation or more."
        )
    if all(finding.depends for finding in found):
        return (
            f"{where}, {point.base}: nothing limits it whatever the machine's shape and its boot; what "
            "follows depends on them. Counts, not times."
        )
    return f"{where}, {point.base}: what will limit it as CPUs are added. Counts, not times."


def _finding(number: int, finding: Finding, point: LinesAt) -> list[str]:
    lead = f"{number}. "
    indent = " " * len(lead)
    lines = textwrap.wrap(sentence(finding, point), _WIDTH, initial_indent=lead, subsequent_indent=indent)
    for label, value in evidence(finding, point):
        lines += textwrap.wrap(
            f"{label[:10]:11}{value}", _WIDTH, initial_indent=indent, subsequent_indent=indent + " " * 11
        )
    return lines


def sentence(finding: Finding, point: LinesAt) -> str:
    """What a maintainer would say of it."""
    cpus = max(max(line.writers, line.readers) for row in finding.rows for line in row.lines.values())
    who = "all" if cpus == point.cpus else str(cpus)
    many = f" ({len(finding.rows)} lines)" if len(finding.rows) > 1 else ""
    because = f" {finding.rule.why[0].upper()}{finding.rule.why[1:]}." if finding.rule else ""
    return (
        f"In {listed(list(finding.ways)[:3])}, an operation touches {finding.what}{many} "
        f"{_counted(finding, point)}, from {who} CPUs.{because}{_depends(finding)}"
    )


def _depends(finding: Finding) -> str:
    """That another machine's shape changes it."""
    return "".join(f" It {mark}." for mark in finding.depends)


def _counted(finding: Finding, point: LinesAt) -> str:
    """How often in each variant, and how often to write."""
    only_writes = all(
        finding.accesses(variant) - finding.writes(variant) < _LEAST_SHOWN for variant in point.variants
    )
    counts = []
    for variant in point.variants:
        writes, accesses = finding.writes(variant), finding.accesses(variant)
        if not accesses:
            counts.append(f"never on {variant}")
            continue
        written = f"{writes:.3f} of them writes" if writes >= _LEAST_SHOWN else "only reads"
        counts.append(f"{accesses:.3f} times on {variant}" + ("" if only_writes else f" ({written})"))
    return listed(counts) + (", always to write" if only_writes else "")


def evidence(finding: Finding, point: LinesAt) -> list[tuple[str, str]]:
    """Label and text of what the sentence rests on."""
    objects = _objects(finding)
    known = [
        ("line", some(objects, 3)),
        ("functions", ", ".join(finding.functions[:6])),
    ]
    if sharing := finding.rows[0].sharing:
        known.append(("sharing", "; ".join(f"{kind} ({why})" for kind, why in sharing.items())))
    if finding.rows[0].offsets:
        known.append(("bytes", bytes_by_cpu(finding.rows[0])))
    if finding.rows[0].halves:
        known.append(("pair", halves(finding.rows[0])))
    for name, by_variant in list(finding.ways.items())[:4]:
        figures = ", ".join(f"{by_variant.get(variant, 0):.3f} on {variant}" for variant in point.variants)
        known.append((name, f"{figures} (accesses per operation)"))
    if cost := predicted(finding.rows, point):
        known.insert(0, ("cost", cost))
    if finding.rule:
        known += [("confirm", finding.rule.experiment), ("source", finding.rule.source)]
    return known


def as_csv(lines: SharedLines) -> str:
    """One line a finding and variant, all of them (docs/schema.md)."""
    point = lines.points[-1]
    columns = (
        "finding",
        "sentence",
        "what",
        "rule",
        "objects",
        "functions",
        "variant",
        "writes_per_op",
        "accesses_per_op",
    )
    rows = [
        (
            number,
            sentence(finding, point),
            finding.what,
            finding.rule.name if finding.rule else "",
            "; ".join(_objects(finding)),
            " ".join(finding.functions),
            variant,
            *_counts(finding, variant).values(),
        )
        for number, finding in enumerate(findings(point), start=1)
        for variant in point.variants
    ]
    return Listing(columns, rows).as_csv()


def as_document(lines: SharedLines) -> str:
    """All findings (docs/schema.md)."""
    point = lines.points[-1]
    document = {
        "study": lines.study,
        "workload": lines.workload,
        "cpus": point.cpus,
        "tasks": point.tasks,
        "base": point.base,
        "findings": [
            {
                "sentence": sentence(finding, point),
                "what": finding.what,
                "rule": finding.rule.name if finding.rule else None,
                "why": finding.rule.why if finding.rule else None,
                "experiment": finding.rule.experiment if finding.rule else None,
                "source": finding.rule.source if finding.rule else None,
                "objects": _objects(finding),
                "functions": finding.functions,
                "depends": list(finding.depends),
                "ways": [
                    {"way": way, "accesses_per_op": {name: round(count, 6) for name, count in counts.items()}}
                    for way, counts in finding.ways.items()
                ],
                "cells": {variant: _counts(finding, variant) for variant in point.variants},
            }
            for finding in findings(point)
        ],
    }
    return as_json(document)


def _objects(finding: Finding) -> list[str]:
    return list(dict.fromkeys(row.object for row in finding.rows))


def _counts(finding: Finding, variant: str) -> dict[str, float]:
    return {
        "writes_per_op": round(finding.writes(variant), 6),
        "accesses_per_op": round(finding.accesses(variant), 6),
    }


FORMATS: dict[str, Callable[[SharedLines], str]] = {"text": text, "csv": as_csv, "json": as_document}
