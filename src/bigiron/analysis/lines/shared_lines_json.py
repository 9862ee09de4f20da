"""The shared cache lines of a study as programs read them: the fields of JSON and CSV."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bigiron.analysis.comparison.model import Item
from bigiron.analysis.lines.line_costs import LineCosts
from bigiron.analysis.lines.matching import MatchedLine, SharedLine


def item(row: MatchedLine, costs: LineCosts | None) -> Item:
    """A cache line's fields, and its cell in each variant."""
    return Item(
        fields={
            "object": row.object,
            "functions": row.functions,
            "paths": [{"path": path, "accesses_per_op": _by_path(row, path)} for path in row.paths],
            "beside": [asdict(field) for field in row.beside],
            "sharing": [{"kind": kind, "because": why} for kind, why in row.sharing.items()],
            "false_sharing": row.false_sharing,
            "offsets": {variant: line.offsets for variant, line in row.lines.items() if line.offsets},
            "differs": row.differs,
            "verdict": row.verdict,
            **({"depends": list(row.depends)} if row.depends else {}),
            **({"predicted": predicted_shares(row, costs)} if costs else {}),
            **(
                {"halves": {variant: _halves(line) for variant, line in row.lines.items()}}
                if row.halves
                else {}
            ),
        },
        cells={variant: _cell(line) for variant, line in row.lines.items()},
    )


def predicted_shares(row: MatchedLine, costs: LineCosts) -> dict[str, dict[str, float]]:
    """By variant, the share of the tasks' time that a line is predicted to take, and its interval."""
    return {
        variant: {"share": round(cost.value, 4), "low": round(cost.low, 4), "high": round(cost.high, 4)}
        for variant, cost in costs.of(row).items()
    }


def _halves(line: SharedLine) -> list[dict[str, Any]]:
    return [{"object": half.object, "touched": list(half.touched)} for half in line.halves]


def _by_path(row: MatchedLine, path: str) -> dict[str, float]:
    return {variant: round(line.paths[path], 6) for variant, line in row.lines.items() if path in line.paths}


def _cell(line: SharedLine) -> dict[str, Any]:
    return {
        "writes_per_op": round(line.writes_per_op, 6),
        "accesses_per_op": round(line.accesses_per_op, 6),
        "layout_per_op": round(line.layout_per_op, 6),
        "least_per_op": round(min(one.accesses for one in line.repetitions), 6),
        "most_per_op": round(max(one.accesses for one in line.repetitions), 6),
        "writers": line.writers,
        "readers": line.readers,
    }
