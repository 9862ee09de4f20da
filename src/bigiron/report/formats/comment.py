"""A check as a comment on a pull request: GitHub's and GitLab's Markdown, short whatever was found."""

from bigiron.analysis.comparison.limits import LimitedCount
from bigiron.gate.check_lines import PROBES, CheckedPoint
from bigiron.report.formats.listing import code, markdown_table, plain
from bigiron.util.english import first_n, plural

_MOST = 20  # findings: GitHub takes 65,536 characters
_MOST_NAMES = 8
_COUNTED = {"conflicts": "conflicts", "instructions": "instructions"}
_HEADINGS = ("what", "per operation", "now", "before", "passes")


def as_comment(workload: str, checked: list[CheckedPoint]) -> str:
    """A verdict in one line, a table of what is worse, and who does it behind a fold."""
    worse = [(point, finding) for point in checked for finding in point.worse]
    parts = [f"**bigiron: {_verdict(workload, checked, len(worse))}**\n"]
    for point in checked:
        against = f", against {point.against}" if point.against != point.place else ""
        counts = f"{plural(len(point.worse), 'count')} of {len(point.findings)} worse"
        state = point.skipped or "; ".join([counts, *point.gaps])
        parts.append(f"- {plain(point.place)}{plain(against)}: {plain(state)}\n")
    if worse:
        shown = worse[:_MOST]
        parts.append(
            "\n" + markdown_table(_HEADINGS, [row for _, one in shown for row in _rows(one)], "llrrr")
        )
        more = len(worse) - len(shown)
        parts.append(f"\n{more} more are left out.\n" if more else "")
        by = "".join(f"- {code(one.name)}: {plain(_cut(one.by))}\n" for _, one in shown if one.by)
        parts.append(f"\n<details><summary>by which functions</summary>\n\n{by}\n</details>\n")
    return "".join(parts)


def _verdict(workload: str, checked: list[CheckedPoint], worse: int) -> str:
    if worse:
        return f"{plain(workload)} has {plural(worse, 'count')} above what is allowed"
    done = [point for point in checked if not point.skipped]
    if not done:
        return f"nothing of {plain(workload)} was checked"
    compared = [probe for probe in PROBES if not any(probe in point.left_out for point in done)]
    more = " and ".join(f"no more {_COUNTED[probe]}" for probe in compared)
    parts = [f"has {more} than is allowed"] if compared else []
    parts += [f"{_COUNTED[probe]} not compared" for probe in PROBES if probe not in compared]
    if len(done) < len(checked):
        parts.append(f"{len(checked) - len(done)} of {plural(len(checked), 'point')} not checked")
    return f"{plain(workload)} {'; '.join(parts)}"


def _rows(finding: LimitedCount) -> list[list[str]]:
    before = finding.before or (None,) * len(finding.units)
    figures = zip(finding.units, finding.after, before, finding.allowed, strict=True)
    return [
        [code(finding.name), unit, f"{now:.3f}", "none" if was is None else f"{was:.3f}", f"{passes:.3f}"]
        for unit, now, was, passes in figures
        if now > passes
    ]


def _cut(by: str) -> str:
    return first_n(by.split(", "), _MOST_NAMES)
