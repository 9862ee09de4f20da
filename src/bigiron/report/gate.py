"""What `bigiron check` prints: the comparison of a study with a baseline, or what it recorded as one."""

import textwrap
from collections.abc import Callable

from bigiron.analysis.comparison.limits import LimitedCount
from bigiron.gate.check import WrittenBaseline
from bigiron.gate.check_lines import CheckedPoint
from bigiron.report.formats import comment, junit, ktap, listing
from bigiron.util.english import first_n, plural

_WIDTH = 100
_MOST_NAMES = 8


def recorded_as_text(recorded: WrittenBaseline) -> str:
    """One line: what the baseline has now, and whether it changed."""
    points = recorded.baseline.point
    lines = sum(len(point.lines) for point in points)
    words = {"conflicts": plural(lines, "shared cache line"), "instructions": "instructions"}
    counts = ", ".join(words[probe] for probe in recorded.baseline.probes)
    state = "" if recorded.changed else "unchanged, "
    kept = f", {recorded.kept} of them not in the study" if recorded.kept else ""
    return f"{recorded.path}: {state}{counts} at {plural(len(points), 'point')}{kept}"


def as_text(workload: str, checked: list[CheckedPoint]) -> str:
    """Plain text: each point, and the counts that exceed what the baseline allows."""
    lines = []
    for point in checked:
        against = f" (against {point.against})" if point.against != point.place else ""
        lines.append(f"{_state(point):7} {workload}, {point.place}{against}: {_summary(point)}")
        for finding in point.worse:
            lines += [
                f"        {finding.name}",
                *_wrapped(finding.words, 12),
                *_wrapped(_cut(finding.by), 12),
            ]
    return "\n".join(lines) + "\n"


def _state(point: CheckedPoint) -> str:
    return "skipped" if point.skipped else "worse" if point.worse else "ok"


def _summary(point: CheckedPoint) -> str:
    if point.skipped:
        return point.skipped
    counts = f"{f'{len(point.worse)} of ' if point.worse else ''}{plural(len(point.findings), 'count')}"
    return "; ".join([counts, *point.gaps])


def _cut(by: str) -> str:
    """The first few of the names that are separated by commas."""
    return first_n(by.split(", "), _MOST_NAMES)


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)


def as_json(workload: str, checked: list[CheckedPoint]) -> str:
    """JSON: every point with its findings (docs/reference/schema.md)."""
    document = {
        "workload": workload,
        "points": [
            {
                "point": point.place,
                "against": point.against,
                "state": _state(point),
                "why_skipped": point.skipped or None,
                "not_compared": dict(point.left_out),
                "findings": [
                    {
                        "name": finding.name,
                        "by": finding.by,
                        "state": _word(finding),
                        "counts": _counts(finding),
                    }
                    for finding in point.findings
                ],
            }
            for point in checked
        ],
    }
    return listing.json_text(document)


def _word(finding: LimitedCount) -> str:
    return "worse" if finding.worse else "undecided" if finding.may_be_worse else "ok"


def _counts(finding: LimitedCount) -> list[dict[str, str | float | None]]:
    """The count of the study, the baseline's count and the limit, in each unit."""
    before = finding.before or (None,) * len(finding.units)
    columns = zip(finding.units, finding.after, before, finding.allowed, strict=True)
    return [
        {
            "unit": unit,
            "found_per_op": round(after, 6),
            "baseline_per_op": None if was is None else round(was, 6),
            "allowed_per_op": round(allowed, 6),
        }
        for unit, after, was, allowed in columns
    ]


FORMATS: dict[str, Callable[[str, list[CheckedPoint]], str]] = {
    "text": as_text,
    "ktap": ktap.as_ktap,
    "junit": junit.as_junit,
    "json": as_json,
    "comment": comment.as_comment,
}
