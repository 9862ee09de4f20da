"""The findings of `bigiron explain` as CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bigiron.analysis.comparison.explain import RecordedPoint
from bigiron.analysis.comparison.findings import CostlyFinding, Finding, LineFinding, LockFinding, WorkFinding
from bigiron.report.explain.text import PROBES, Explanation, as_text, by_alignment, objects, sentence
from bigiron.report.formats.listing import Listing, json_text

_OF_UNIT = {
    "accesses": "accesses_per_op",
    "writes": "writes_per_op",
    "instructions under it": "held_per_op",
    "instructions": "instructions_per_op",
    "executions": "executed_per_op",
}
"""The count of a finding that has its unit."""


def as_csv(found: Explanation) -> str:
    """One line per finding and variant (docs/reference/schema.md)."""
    columns = (
        *("finding", "direction", "cost", "sentence", "what", "rule", "objects", "functions"),
        *("variant", "unit", "count", "alone"),
    )
    rows = [
        (
            *(number, _direction_of(finding, shown), _cost(finding), sentence(finding, shown.recorded)),
            *(_what(finding), finding.rule.name if finding.rule else ""),
            *("; ".join(objects(finding)), " ".join(_functions(finding))),
            *(variant, finding.unit, counts[_OF_UNIT[finding.unit]], shown is found.alone),
        )
        for shown in filter(None, (found, found.alone))
        for number, finding in enumerate(shown.findings, start=1)
        for variant, counts in _counts(finding, shown.recorded).items()
    ]
    return Listing(columns, rows).as_csv()


def as_json(found: Explanation) -> str:
    """All findings (docs/reference/schema.md)."""
    return json_text(_document(found))


def _document(found: Explanation) -> dict[str, Any]:
    recorded = found.recorded
    return {
        "study": found.study,
        "workload": found.workload,
        "cpus": recorded.cpus,
        "tasks": recorded.tasks,
        "base": recorded.base,
        "boots": found.boots,
        "caveats": list(found.caveats),
        "compared": [probe for probe in PROBES if probe not in found.missing],
        **({"measured": list(found.measured)} if found.measured else {}),
        "undecided": found.explained.undecided,
        "layout": [row.object for row in found.explained.layout],
        "findings": [_as_document(finding, found) for finding in found.findings],
        **({"alone": _document(found.alone)} if found.alone else {}),
    }


def _as_document(finding: Finding, found: Explanation) -> dict[str, Any]:
    rule = finding.rule
    return {
        "sentence": sentence(finding, found.recorded),
        "what": _what(finding),
        "direction": _direction_of(finding, found) or None,
        "cost": _cost(finding),
        "unit": finding.unit,
        "rule": rule.name if rule else None,
        "why": rule.why if rule else None,
        "experiment": rule.experiment if rule else None,
        "source": rule.source if rule else None,
        "objects": objects(finding),
        "functions": _functions(finding),
        "depends": list(finding.depends),
        "ways": [
            {"way": way, "accesses_per_op": {name: round(count, 6) for name, count in counts.items()}}
            for way, counts in (finding.ways.items() if isinstance(finding, LineFinding) else ())
        ],
        "by_alignment": by_alignment(finding, found.recorded),
        "cells": _counts(finding, found.recorded),
    }


def _direction_of(finding: Finding, found: Explanation) -> str:
    return finding.effect[1].direction if found.recorded.others else ""


def _cost(finding: Finding) -> float:
    return round(finding.effect[1].cost, 3)


def _what(finding: Finding) -> str:
    match finding:
        case LineFinding():
            return finding.what
        case LockFinding():
            return finding.lock.name
        case CostlyFinding():
            return finding.costly.instruction
    return "instructions"


def _functions(finding: Finding) -> list[str]:
    match finding:
        case LineFinding():
            return finding.functions
        case LockFinding():
            return list(finding.lock.labels[1])
        case WorkFinding():
            return [row.name for row in finding.functions]
        case CostlyFinding():
            return [function.name for function in finding.costly.functions]
    return []


def _counts(finding: Finding, recorded: RecordedPoint) -> dict[str, Any]:
    """By variant, what the finding counts."""
    match finding:
        case LineFinding():
            return {
                variant: {
                    "writes_per_op": round(finding.writes(variant), 6),
                    "accesses_per_op": round(finding.accesses(variant), 6),
                }
                for variant in recorded.variants
            }
        case LockFinding():
            taken, held = finding.lock.figures[:2]
            return {
                variant: {
                    "acquisitions_per_op": round(taken.mean(variant), 6),
                    "held_per_op": round(held.mean(variant), 6),
                }
                for variant in recorded.variants
            }
        case WorkFinding():
            return {
                variant: {"instructions_per_op": round(finding.total.main.mean(variant), 6)}
                for variant in recorded.variants
            }
        case CostlyFinding():
            return {
                variant: {"executed_per_op": round(finding.costly.executed.mean(variant), 6)}
                for variant in recorded.variants
            }
    return {}


FORMATS: dict[str, Callable[[Explanation], str]] = {"text": as_text, "csv": as_csv, "json": as_json}
